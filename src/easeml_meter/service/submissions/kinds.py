"""The kinds of submissions (predictions, ONNX, command, function), and the tar they come in.

Each kind is one class, and only this module knows them all: how a submission is checked, at no
cost, before it is measured; how it travels to a server and waits there; and how what was kept of it
is measured again for a release. A new kind is one more class here, and its place in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from easeml_meter.errors import invalid
from easeml_meter.scoring.bundle import MOST_FILES, Bundle
from easeml_meter.scoring.executors import open_executor
from easeml_meter.scoring.function import FunctionModel
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.service.submissions.measuring import (
    Attempt,
    Losses,
    Measured,
    ModelAttempt,
    digest_of,
    hidden_loss,
    model_loss,
    visible_loss,
)
from easeml_meter.spec import MeterSpec
from easeml_meter.tables import archive
from easeml_meter.tables.archive import File
from easeml_meter.tables.files import stamp_of
from easeml_meter.tables.source import Held, Source


class Submitted(Protocol):
    """Something that can be submitted."""

    kind: ClassVar[str]
    """What receipts and the queue call it."""
    queued: ClassVar[bool]
    """Whether it waits for a worker at a server; else it is answered at once."""

    def open(self, on: Measured) -> Attempt:
        """Check it; what is wrong with it is found here, before a label is touched."""

    def files(self) -> dict[str, Source]:
        """Return the files that it is sent as, by the names that a server knows them by."""

    def packed(self) -> bytes:
        """Return the body that it is sent to a server as."""


@dataclass(frozen=True)
class PredictionFiles:
    """Predictions on both sets."""

    kind: ClassVar[str] = "predictions"
    queued: ClassVar[bool] = False

    test: Source
    validation: Source

    def open(self, on: Measured) -> Attempt:
        """Read and check both files."""
        manifest = on.generation.manifest or {}
        visible = Predictions.open(self.validation, expected=on.expected(on.validation.rows))
        hidden = Predictions.open(
            self.test,
            expected=on.expected(
                on.generation.rows or 0,
                id_column=manifest.get("id_column"),
                ids_digest=manifest.get("order_digest"),
            ),
        )
        return _PredictionAttempt(self.test, visible, hidden)

    def files(self) -> dict[str, Source]:
        """Return both files."""
        names = (f"test{self.test.suffix}", f"validation{self.validation.suffix}")
        return dict(zip(names, (self.test, self.validation), strict=True))

    def packed(self) -> bytes:
        """Return a tar of both files."""
        return _packed(self.files())

    @classmethod
    def unpack(cls, _body: bytes, files: Mapping[str, File]) -> PredictionFiles | None:
        """Return the predictions in a body, or None if it holds something else."""
        held = {name.partition(".")[0]: Held(name, files[name].content) for name in files}
        if set(held) != {"test", "validation"} or len(files) != 2 or "/" in "".join(files):
            return None
        return cls(held["test"], held["validation"])


@dataclass(frozen=True)
class _PredictionAttempt:
    path: Source
    visible: Predictions
    hidden: Predictions

    @property
    def identity(self) -> str:
        """What is predicted is not looked at."""
        return digest_of(f"{self.hidden.digest}|{self.visible.digest}")

    @property
    def suffix(self) -> str:
        return self.path.suffix

    def content(self) -> bytes:
        found = self.path.read_bytes()
        self.hidden.table.check_unchanged()
        return found

    def measure(self, on: Measured) -> Losses:
        tell = on.conditions.progress
        tell("scoring on the validation set", 0, self.visible.rows)
        validation = visible_loss(on, self.visible)
        where = on.conditions.executor
        here = where in (None, "inline")
        with open_executor(where) as executor:
            test = hidden_loss(
                on.sealed,
                self.hidden,
                # Labels are decrypted where they are scored, and nowhere else.
                labels=on.few_labels if here else None,
                map_function=map if here else executor.map,
                progress=lambda done, total: tell("scoring on the test set", done, total),
            )
        return Losses(validation, test)


@dataclass(frozen=True)
class OnnxFile:
    """A model in ONNX format."""

    kind: ClassVar[str] = "onnx"
    queued: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = (".onnx",)

    path: Source

    def open(self, on: Measured) -> ModelAttempt:
        """Read the file, and check it statically."""
        from easeml_meter.scoring.onnx_model import OnnxModel

        model = OnnxModel.open(self.path, on.expected(on.validation.rows))
        return checked(ModelAttempt(model, model.content, ".onnx"), on)

    def files(self) -> dict[str, Source]:
        """Return the one file."""
        return {"model.onnx": self.path}

    def packed(self) -> bytes:
        """Return a tar of the one file."""
        return _packed(self.files())

    @classmethod
    def unpack(cls, _body: bytes, files: Mapping[str, File]) -> OnnxFile | None:
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
class Command:
    """A command and its files, to be run in a sandbox."""

    kind: ClassVar[str] = "command"
    queued: ClassVar[bool] = True
    kept: ClassVar[tuple[str, ...]] = (".tar", ".bundle")  # version 0.1.0 kept .bundle

    bundle: Bundle

    @classmethod
    def of(cls, command: str, files: Sequence[Path] = (), folder: Path = Path(".")) -> Command:
        """Collect the files in `folder` that the command names, and those named here."""
        return cls(Bundle.collect(command, files, folder))

    def open(self, on: Measured) -> ModelAttempt:
        """Check that it can be run."""
        from easeml_meter.scoring.command import CommandModel

        return checked(ModelAttempt(CommandModel(self.bundle), self.content(), ".tar"), on)

    def files(self) -> dict[str, Source]:
        """Return none: a bundle names its files itself."""
        return {}

    def packed(self) -> bytes:
        """Return the bundle, which is a tar already."""
        return self.content()

    @classmethod
    def unpack(cls, body: bytes, files: Mapping[str, File]) -> Command | None:
        """Return the command in a body, or None if it holds something else."""
        if list(files) == ["command.bundle"]:  # from a client of version 0.1.0
            return cls.read(files["command.bundle"].content)
        return cls.read(body) if "command" in files else None

    @classmethod
    def read(cls, content: bytes) -> Command:
        """Return the command that was kept, or waits."""
        return cls(Bundle.from_bytes(content))

    def content(self) -> bytes:
        """Return what waits in the queue."""
        return self.bundle.to_bytes()


@dataclass(frozen=True)
class Function:
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

    def open(self, on: Measured) -> Attempt:
        """Take it as it is."""
        return checked(ModelAttempt(self.model, b"", "", trusted=True), on)

    def files(self) -> dict[str, Source]:
        """Raise `InvalidInput`: a function stays where it is."""
        needed = "at a server predictions, an OnnxFile or a Command"
        raise invalid("submission", "a function", needed)

    def packed(self) -> bytes:
        """Raise `InvalidInput`: a function stays where it is."""
        return _packed(self.files())


Model = OnnxFile | Command
"""What waits in the queue of a server."""
MODELS: dict[str, type[Model]] = {each.kind: each for each in (OnnxFile, Command)}
KINDS: tuple[type[PredictionFiles | Model], ...] = (PredictionFiles, *MODELS.values())
"""What a server takes, in the order in which a body is looked at."""

_WANTED = (
    "a tar of test.EXT and validation.EXT (predictions), of model.onnx, or of command and its files"
)


def unpack(body: bytes) -> PredictionFiles | Model:
    """Return what the body of a request holds.

    Raises:
        InvalidInput: it is no archive, or one of other files.
    """
    try:
        files = archive.unpack(body, MOST_FILES + 1)
    except archive.Damaged as error:
        raise invalid("body", str(error), _WANTED) from None
    for kind in KINDS:
        if (found := kind.unpack(body, files)) is not None:
            return found
    raise invalid("body", "a tar of other files", _WANTED)


def _packed(files: Mapping[str, Source]) -> bytes:
    for source in files.values():
        stamp_of(source)  # a file that cannot be read is named before anything is sent
    return archive.pack({name: File(source.read_bytes()) for name, source in files.items()})


def measure_again(kept: Held, on: Measured) -> Fraction | None:
    """Measure what was kept of a submission on the test set once more, for its release."""
    for model in MODELS.values():
        if kept.suffix in model.kept:
            return model_loss(model.read(kept.content).open(on).predictor, on)
    predictions = Predictions.open(kept, expected=on.expected(on.generation.rows or 0))
    return hidden_loss(on.sealed, predictions)


def check_models(spec: MeterSpec) -> None:
    """Raise `InvalidInput` unless the meter was planned for models.

    A model is run on the hidden inputs, which its developers must not see otherwise.
    """
    if not spec.models:
        needed = "predictions: this meter was planned without models = true in meter.toml"
        raise invalid("submission", "a model", needed)


def checked(attempt: ModelAttempt, on: Measured) -> ModelAttempt:
    """Check a model against the inputs it will get; their names and types everyone may know.

    This is the only check of a submission. Everything after it costs time of a run that is timed.
    """
    check_models(on.spec)
    inputs = pa.schema([on.sealed.schema.field(name) for name in on.sealed.inputs])
    attempt.predictor.check(inputs)
    return attempt
