"""The kinds of submissions (predictions, ONNX, command, function), and the form they come in.

Each kind is one class, and only this module knows them all: how a submission is checked, at no
cost, before it is measured; how it travels to a server and waits there; and how what was kept of it
is measured again for a release. A new kind is one more class here, and its place in `KINDS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from easeml_meter.conditions import Comparison
from easeml_meter.core.model import Entry
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.scoring.bundle import Bundle
from easeml_meter.scoring.executors import open_executor
from easeml_meter.scoring.ids import BY_IDS, RowMatching
from easeml_meter.scoring.outputs import wrong_prediction
from easeml_meter.scoring.predictions import (
    Accepted,
    Content,
    Predictions,
    check_order,
    check_same_width,
)
from easeml_meter.scoring.predictor import FunctionModel
from easeml_meter.scoring.score import Score, Unscorable, compare
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import (
    Attempt,
    Losses,
    Measured,
    digest_of,
    hidden_score,
    read_kept,
    rehearse,
    visible_score,
)
from easeml_meter.service.submissions.running import ModelAttempt, model_identity, model_score
from easeml_meter.spec import MeterSpec
from easeml_meter.tables import archive
from easeml_meter.tables.archive import File
from easeml_meter.tables.opening import unpacked
from easeml_meter.tables.source import (
    MEMORY,
    Held,
    Source,
    TableLimits,
    file_digest,
    of_memory,
    stamp_of,
)

FormField = tuple[str, tuple[str | None, bytes]]
"""Its name, and the name and content of its file; without a name it is text."""
NO_TITLES: Mapping[str, str] = MappingProxyType({})


class Submitted(Protocol):
    """Something that can be submitted."""

    kind: ClassVar[str]
    """What receipts and the queue call it."""
    queued: ClassVar[bool]
    """Whether it waits for a worker at a server; else it is answered at once."""

    def same_bytes(self) -> str | None:
        """Return the digest of its bytes, if it need not be opened for that."""

    def open(self, on: Measured, *, sees_inputs: bool = False) -> Attempt:
        """Check it; what is wrong with it is found here, before a label is touched.

        `sees_inputs`: its sender may see the test inputs, so refusals may speak of them.
        """

    def files(self) -> dict[str, Source]:
        """Return the files that it is sent as, by the names that a server knows them by."""

    def form(self) -> list[FormField]:
        """Return the fields of the form that it is sent to a server as."""
        for source in (files := self.files()).values():
            stamp_of(source)  # a file that cannot be read is named before anything is sent
        return [
            (name.partition(".")[0], (name, source.read_bytes())) for name, source in files.items()
        ]

    def options(self) -> dict[str, str]:
        """Return what goes into the query beside the body."""
        return {}


@dataclass(frozen=True)
class PredictionFiles(Submitted):
    """Predictions on both sets."""

    kind: ClassVar[str] = "predictions"
    queued: ClassVar[bool] = False

    test: Source
    validation: Source
    matching: RowMatching = BY_IDS
    """How their rows are matched with those of the sets."""

    def open(self, on: Measured, *, sees_inputs: bool = False) -> Attempt:
        """Read and check both files."""
        self._check_options(on)
        visible = self._open_visible(on)
        hidden = self._open_hidden(on, visible, sees_inputs=sees_inputs)
        return _PredictionAttempt(self, visible, hidden, self.by_content(on.space, on.spec))

    def open_charged(self, on: Measured) -> Attempt:
        """Read what was made of hidden rows; where it is broken, it is answered all the same."""
        self._check_options(on)
        visible, whole, content = None, None, b""
        with suppress(InvalidInput):
            visible = self._open_visible(on)
            hidden = self._open_hidden(on, visible, sees_inputs=True)
            both = _PredictionAttempt(self, visible, hidden, by_content=False)
            content = both.content()
            whole = both
        return _ChargedAttempt(visible, whole, content)

    def _check_options(self, on: Measured) -> None:
        """Refuse what is wrong whatever is in the files."""
        expected = on.expected(on.generation.table_rows, hidden=True)
        if self.matching.missing_wrong:
            wrong_prediction(expected)
        known = on.hidden_ids(told=False) or on.visible_ids
        if self.matching.id_column is not None and not known:
            needed = "nothing: neither the test set nor the validation set has ids"
            raise invalid("id", self.matching.id_column, needed)

    def _open_visible(self, on: Measured) -> Predictions:
        found = Predictions.open(
            unpacked(self.validation),
            expected=on.expected(on.validation.rows),
            ids=on.visible_ids,
            matching=self.matching,
        )
        if on.visible_ids is None and not self.matching.in_order:
            with on.open_validation() as seen:
                check_order(found, "the validation set", seen.table.columns, seen.table)
        return found

    def _open_hidden(self, on: Measured, visible: Predictions, *, sees_inputs: bool) -> Predictions:
        ids = on.hidden_ids(told=sees_inputs)
        found = Predictions.open(
            unpacked(self.test),
            expected=on.expected(on.generation.table_rows, hidden=True),
            ids=ids,
            matching=self.matching,
        )
        if on.spec.meter.sample.measured.curve:
            check_same_width(found, visible)
        if ids is None and sees_inputs and not self.matching.in_order:
            check_order(found, "the test set", on.sealed.inputs, on.sealed)
        return found

    def by_content(self, space: Workspace, spec: MeterSpec) -> bool:
        """Whether these are known by what they predict, and not by their bytes.

        Files for hidden rows of a server are not: that another file is free would tell that it
        predicts the same on inputs that its sender must not know.
        """
        at_server = space.meter is not None
        in_memory = of_memory(self.test.name) and of_memory(self.validation.name)
        return in_memory or not at_server or spec.meter.sample.inputs == "public"

    def same_bytes(self) -> str:
        """Return the digest of both files, and of how their rows are matched."""
        return self.identity(file_digest(self.test), file_digest(self.validation))

    def identity(self, test: str, validation: str) -> str:
        """Return the digest of files with these digests, whose rows are matched like these."""
        given = f"{test}|{validation}"
        if self.matching != BY_IDS:
            given += json.dumps(self.options(), sort_keys=True)
        return digest_of(given)

    def files(self) -> dict[str, Source]:
        """Return both files."""
        both = {"test": self.test, "validation": self.validation}
        return {
            f"{role}{MEMORY if of_memory(given.name) else ''}{given.suffix}": given
            for role, given in both.items()
        }

    def options(self) -> dict[str, str]:
        """Return how rows are matched."""
        given = {
            "id_column": self.matching.id_column,
            "no_ids": "true" if self.matching.in_order else None,
            "missing": "wrong" if self.matching.missing_wrong else None,
        }
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def unpack(
        cls,
        _body: bytes,
        files: Mapping[str, File],
        matching: RowMatching,
        limits: TableLimits | None,
        titles: Mapping[str, str],
    ) -> PredictionFiles | None:
        """Return the predictions in a body, or None if it holds something else."""
        held = {
            (role := name.partition(".")[0]): _unpacked(
                Held(name, content, titles.get(role, ""), limits)
            )
            for name, (content, _) in files.items()
        }
        if held.keys() != {"test", "validation"} or len(files) != 2 or "/" in "".join(files):
            return None
        return cls(held["test"], held["validation"], matching)


def _unpacked(source: Held) -> Source:
    """Unpack a file; what is wrong with it is said, or charged, where it is opened."""
    try:
        return unpacked(source)
    except InvalidInput:
        return source


@dataclass(frozen=True)
class _PredictionAttempt:
    files: PredictionFiles
    visible: Predictions
    hidden: Predictions
    by_content: bool

    @property
    def identity(self) -> str:
        """What is predicted, whatever the files look like, or their bytes."""
        if self.by_content:
            both = f"{self.hidden.content_digest}|{self.visible.content_digest}"
            return digest_of(f"content|{both}")
        return self.files.identity(self.hidden.digest, self.visible.digest)

    @property
    def suffix(self) -> str:
        return ".arrow"

    def content(self) -> bytes:
        return self.hidden.to_bytes()

    @property
    def predictions(self) -> dict[str, Predictions]:
        return {"test": self.hidden, "validation": self.visible}

    def validation_loss(self, on: Measured) -> Fraction:
        return self._visible(on).mean

    def _visible(self, on: Measured) -> Score:
        on.conditions.progress("scoring on the validation set", 0, self.visible.rows)
        found = visible_score(on, self.visible)
        # What would fail on hidden labels and cost a step fails here, where it is free.
        rehearse(on, self.hidden)
        return found

    def compare(self, on: Measured, old: Content) -> Comparison | None:
        return compared(on, self.hidden, old)

    def measure(self, on: Measured) -> Losses:
        visible = self._visible(on)
        return Losses.of(visible.mean, visible, self.hidden_score(on))

    def hidden_score(self, on: Measured) -> Score | None:
        """Measure on the hidden rows alone."""
        tell = on.conditions.progress
        where = on.conditions.executor
        here = where in (None, "inline")
        with open_executor(where) as executor:
            return hidden_score(
                on.sealed,
                self.hidden,
                # Labels are decrypted where they are scored, and nowhere else.
                labels=on.few_labels if here else None,
                clusters=on.hidden_clusters,
                map_function=map if here else executor.map,
                progress=lambda done, total: tell("scoring on the test set", done, total),
            )


@dataclass(frozen=True)
class _ChargedAttempt:
    """What a runner made of hidden rows; broken, it is answered without a reading.

    A refusal would tell, free of charge, something of those rows: a candidate can write a broken
    file where it meets one with X. The validation loss depends on the validation file alone.
    """

    visible: Predictions | None
    """None: it is broken, so it is wrong on every row, and nothing of the other is looked at."""
    whole: _PredictionAttempt | None
    """None: one of the two files is broken."""
    kept: bytes = field(repr=False)

    identity: ClassVar[str] = ""
    suffix: ClassVar[str] = ".arrow"

    def content(self) -> bytes:
        return self.kept

    @property
    def predictions(self) -> dict[str, Predictions]:
        return {} if self.whole is None else self.whole.predictions

    def validation_loss(self, on: Measured) -> Fraction:
        score = self._seen(on)
        return Fraction(1) if score is None else score.mean

    def _seen(self, on: Measured) -> Score | None:
        if self.visible is None:
            return None
        try:
            return visible_score(on, self.visible)
        except InvalidInput:
            return None

    def compare(self, on: Measured, old: Content) -> Comparison | None:
        return None if self.whole is None else self.whole.compare(on, old)

    def measure(self, on: Measured) -> Losses:
        score, test = self._seen(on), None
        if score is None:
            return Losses(Fraction(1), None)
        if self.whole is not None:
            with suppress(InvalidInput):
                rehearse(on, self.whole.hidden)
                test = self.whole.hidden_score(on)
        return Losses.of(score.mean, score, test)


@dataclass(frozen=True)
class OnnxFile(Submitted):
    """A model in ONNX format."""

    kind: ClassVar[str] = "onnx"
    queued: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = (".onnx",)

    path: Source

    def same_bytes(self) -> str:
        """Return what its attempt is known by."""
        return model_identity(file_digest(self.path))

    def open(self, on: Measured, *, sees_inputs: bool = False) -> ModelAttempt:
        """Read the file, and check it statically."""
        from easeml_meter.scoring.onnx_model import OnnxModel

        apart, expected = on.space.limits is not None, on.expected(on.validation.rows)
        model = OnnxModel.open(self.path, expected, apart=apart)
        return checked(ModelAttempt(model, model.content, ".onnx"), on)

    def files(self) -> dict[str, Source]:
        """Return the one file."""
        return {"model.onnx": self.path}

    def form(self) -> list[FormField]:
        """Return the one field."""
        return [("onnx", file) for _, file in super().form()]

    @classmethod
    def unpack(cls, _body: bytes, files: Mapping[str, File], *_: object) -> OnnxFile | None:
        """Return the model in a body, or None if it holds something else."""
        return cls.read(files["model.onnx"].content) if list(files) == ["model.onnx"] else None

    @classmethod
    def read(cls, content: bytes) -> OnnxFile:
        """Return the model that was kept, or waits."""
        return cls(Held("model.onnx", content))

    def content(self) -> bytes:
        """Return what waits in the queue."""
        return self.path.read_bytes()


@dataclass(frozen=True)
class Command(Submitted):
    """A command and its files, to be run in a sandbox."""

    kind: ClassVar[str] = "command"
    queued: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = (".tar",)

    bundle: Bundle

    @classmethod
    def of(cls, command: str, files: Sequence[Path] = (), folder: Path = Path(".")) -> Command:
        """Collect the files in `folder` that the command names, and those named here."""
        return cls(Bundle.collect(command, files, folder))

    def same_bytes(self) -> str:
        """Return what its attempt is known by."""
        return model_identity(self.bundle.digest)

    def open(self, on: Measured, *, sees_inputs: bool = False) -> ModelAttempt:
        """Check that it can be run."""
        from easeml_meter.scoring.command import CommandModel

        return checked(ModelAttempt(CommandModel(self.bundle), self.content(), ".tar"), on)

    def files(self) -> dict[str, Source]:
        """Return none: a bundle names its files itself."""
        return {}

    def form(self) -> list[FormField]:
        """Return the command line, the files, and the names of those that are executable."""
        files = self.bundle.files
        return [
            ("command", (None, self.bundle.command.encode())),
            *(("files", (file.name, file.content)) for file in files),
            *(("executable", (None, file.name.encode())) for file in files if file.executable),
        ]

    @classmethod
    def unpack(cls, body: bytes, files: Mapping[str, File], *_: object) -> Command | None:
        """Return the command in a body, or None if it holds something else."""
        return cls.read(body) if "command" in files else None

    @classmethod
    def read(cls, content: bytes) -> Command:
        """Return the command that was kept, or waits."""
        return cls(Bundle.from_bytes(content))

    def content(self) -> bytes:
        """Return what waits in the queue."""
        return self.bundle.to_bytes()


@dataclass(frozen=True)
class Function(Submitted):
    """A Python function of the caller's own, which is trusted: no sandbox, no limits, no waiting.

    Nothing of it is kept, so that the retrospective has no losses for it.
    """

    kind: ClassVar[str] = "function"
    queued: ClassVar[bool] = False

    model: FunctionModel

    @classmethod
    def of(cls, function: Callable[[pa.RecordBatch], Any], identity: str) -> Function:
        """Take a function from record batches to predictions; `identity` names no other model."""
        return cls(FunctionModel(function, identity))

    def same_bytes(self) -> None:
        """Return nothing: a function has no bytes."""

    def open(self, on: Measured, *, sees_inputs: bool = False) -> Attempt:
        """Return it as an attempt that runs without a sandbox."""
        return checked(ModelAttempt(self.model, b"", "", trusted=True), on)

    def files(self) -> dict[str, Source]:
        """Raise `InvalidInput`: a function stays where it is."""
        needed = "at a server predictions, an OnnxFile or a Command"
        raise invalid("submission", "a function", needed)


Model = OnnxFile | Command
"""What waits in the queue of a server."""
MODELS: dict[str, type[Model]] = {each.kind: each for each in (OnnxFile, Command)}
KINDS: tuple[type[PredictionFiles | Model], ...] = (PredictionFiles, *MODELS.values())
"""What a server takes, in the order in which a body is looked at."""


NOTHING = archive.pack({"test": File(b""), "validation": File(b"")})
"""The body of a submission whose files are absent."""


def made_of_hidden(space: Workspace, spec: MeterSpec, *, sees_inputs: bool) -> bool:
    """Whether somebody's predictions are made of hidden inputs or labels, at a server."""
    return space.meter is not None and (
        spec.meter.sample.takes_scores or (sees_inputs and spec.meter.sample.inputs != "public")
    )


def unpack(
    body: bytes,
    matching: RowMatching = BY_IDS,
    limits: TableLimits | None = None,
    titles: Mapping[str, str] = NO_TITLES,
) -> PredictionFiles | Model:
    """Return what the archive holds that the form of a request became.

    `matching` is for the rows of predictions, `limits` for the tables that they are read from,
    `titles` is what their sender calls the files.
    """
    try:
        files = archive.unpack(body)
    except archive.DamagedArchive as error:
        raise invalid("body", str(error), "an archive of a form's files") from None
    for kind in KINDS:
        if (found := kind.unpack(body, files, matching, limits, titles)) is None:
            continue
        if not isinstance(found, PredictionFiles) and matching != BY_IDS:
            needed = "ids and missing rows are a matter of predictions"
            raise invalid("submission", "a model", needed)
        return found
    wanted = "test.EXT and validation.EXT (predictions), model.onnx, or command and its files"
    raise invalid("form", "other files", wanted)


def model_kept(suffix: str) -> type[Model] | None:
    """Return the kind of model that was kept under an ending; None: predictions were."""
    return next((model for model in MODELS.values() if suffix in model.kept), None)


def measure_again(kept: Held, on: Measured) -> Score | None:
    """Measure what was kept of a submission on the test set once more, for its release."""
    if (model := model_kept(kept.suffix)) is not None:
        return model_score(model.read(kept.content).open(on).predictor, on)
    accepted = kept_predictions(kept.content, on)
    return hidden_score(on.sealed, accepted, clusters=on.hidden_clusters)


def compared(on: Measured, new: Content, old: Content) -> Comparison | None:
    """Compare two models on the hidden rows; None if the loss failed there."""
    groups = on.few_labels or (on.sealed.labels(index) for index in range(on.sealed.row_groups))
    try:
        return compare(new, old, groups)
    except Unscorable:
        return None


def accepted_predictions(on: Measured, entry: Entry) -> Accepted:
    """Return the predictions of an answered submission, as they were accepted."""
    return kept_predictions(read_kept(on.space, entry.blob)[0], on)


def kept_predictions(content: bytes, on: Measured) -> Accepted:
    """Open what was kept of predictions, as they were accepted."""
    return Accepted.of_bytes(content, on.expected(on.generation.table_rows, hidden=True))


def check_models(spec: MeterSpec, *, onnx: bool, sent: bool = False) -> None:
    """Raise `InvalidInput` unless the meter was planned for such models.

    A model is run on the hidden inputs, which its developers must not see otherwise. Of what was
    `sent` to a server, the pages in memory of files that all commands share would tell the next.
    """
    sample = spec.meter.sample
    if not sample.models:
        needed = "this meter takes predictions only: it was planned without models = true"
        raise invalid("submission", "a model", needed)
    if sample.models == "onnx" and not onnx:
        needed = 'an ONNX file: this meter was planned with models = "onnx" in meter.toml'
        raise invalid("submission", "another model", needed)
    if sent and not onnx and not (sample.public or sample.commands_may_carry_inputs_out):
        needed = "an ONNX file: the inputs of this meter are hidden, and a command could carry them"
        allowed = "out (a meter may allow it: commands_may_carry_inputs_out = true)"
        raise invalid("submission", "a command", f"{needed} {allowed}")


def checked(attempt: ModelAttempt, on: Measured) -> ModelAttempt:
    """Check a model against the inputs it will get; their names and types everyone may know.

    This is the only check of a submission. Everything after it costs time of a run that is timed.
    """
    check_models(on.spec, onnx=attempt.suffix == ".onnx")
    if on.conditions.hopeless:  # it passed before, and is not run again
        return attempt
    inputs = pa.schema([on.sealed.schema.field(name) for name in on.sealed.inputs])
    attempt.predictor.check(inputs)
    return attempt
