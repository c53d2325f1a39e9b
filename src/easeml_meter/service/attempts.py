"""What can be submitted: predictions, or a model. Each is checked first, and only then measured.

Measuring is where hidden rows are touched. A model could tell its developer about them by how long
it takes, so a run on hidden rows takes as long as was decided before it began: from how long the
visible run took, which the developer knows. It is ended when that time is up, and its answer leaves
then and not before, whatever happened.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from easeml_meter.errors import invalid
from easeml_meter.scoring.bundle import Bundle
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.executors import Executor, open_executor
from easeml_meter.scoring.function import FunctionModel
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Predictions
from easeml_meter.scoring.predictor import Limits, Predictor
from easeml_meter.scoring.running import HiddenRows, ShardTask, VisibleRows, score_model
from easeml_meter.scoring.score import Unscorable
from easeml_meter.scoring.validation import Validation
from easeml_meter.service.measuring import hidden_loss, open_sealed, visible_loss
from easeml_meter.service.workspace import Workspace
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.schema import GenerationRow, ValidationRow
from easeml_meter.tables.source import Held, Source
from easeml_meter.vault.reading import Closing
from easeml_meter.vault.sealing import SealedTestSet

LONGEST = 24 * 3600.0
"""Seconds that a run may be given."""
_VISIBLE = 3600.0
"""Seconds for a run on visible rows, unless said otherwise."""
_MARGIN = 3.0
"""How much slower than the visible run the hidden one may be."""
_SHORTEST = 2.0
_FEW = 100_000
"""Rows of a test set whose labels are held in memory while submissions are measured together."""

Progress = Callable[[str, float, float], None]
"""Told what is going on, how much of it is done, and how much there is (rows, or seconds)."""


@dataclass(frozen=True)
class Losses:
    """What was measured; it exists in memory only, until the answer is computed."""

    validation: Fraction
    test: Fraction | None
    """None: the loss or the model failed on the hidden rows, which is an answer, too."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """How a submission is to be measured."""

    executor: str | None = None
    """Where row groups are scored: None for here, or as `scoring.executors.open_executor` says."""
    seconds: float | None = None
    """What a model may take on the hidden rows; None: decided by its run on the visible ones."""
    hopeless: bool = False
    """A model that was begun too often, and never finished: told as "no reading", without a try."""
    progress: Progress = field(default=lambda what, done, total: None, repr=False)

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0.1 <= self.seconds <= LONGEST:
            raise invalid("seconds", self.seconds, f"a number from 0.1 to {LONGEST:g}")
        open_executor(self.executor)  # a wrong name is found before any work is done


USUAL = Conditions()


class Attempt(Protocol):
    """A submission that passed its checks."""

    @property
    def identity(self) -> str:
        """Digest of the submitted bytes: two attempts are the same if these are."""

    @property
    def suffix(self) -> str:
        """What kind of bytes `content` is."""

    def content(self) -> bytes:
        """Give what is kept, encrypted, for the retrospective."""

    def measure(self, situation: Measured) -> Losses:
        """Measure on the visible rows, and then on the hidden ones."""


@dataclass(frozen=True)
class Measured(Closing):
    """The two sets that submissions are measured on, and how; the sealed one is opened once."""

    space: Workspace
    spec: MeterSpec
    generation: GenerationRow
    validation: ValidationRow
    conditions: Conditions = USUAL

    @cached_property
    def sealed(self) -> SealedTestSet:
        """The opened test set."""
        return open_sealed(self.space, self.generation)

    @cached_property
    def few_labels(self) -> list[Any] | None:
        """The labels of a small test set by row group: for several submissions decrypted once."""
        if self.sealed.rows > _FEW:
            return None
        return [self.sealed.labels(index) for index in range(self.sealed.row_groups)]

    def close(self) -> None:
        """Let go of the test set."""
        if "sealed" in vars(self):
            self.sealed.close()

    @cached_property
    def classes(self) -> Classes | None:
        """The class list in force."""
        listed = self.validation.settings["classes"]
        return Classes.of(listed) if listed else None

    def expected(self, rows: int, **ids: Any) -> Expected:
        """What predictions on so many rows must look like."""
        return Expected(rows, parse_loss(self.spec.loss), self.classes, **ids)


@dataclass(frozen=True)
class PredictionFiles:
    """Predictions on both sets."""

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


@dataclass(frozen=True)
class _PredictionAttempt:
    path: Source
    visible: Predictions
    hidden: Predictions

    @property
    def identity(self) -> str:
        """What is predicted is not looked at."""
        return _digest(f"{self.hidden.digest}|{self.visible.digest}")

    @property
    def suffix(self) -> str:
        return self.path.suffix

    def content(self) -> bytes:
        found = self.path.read_bytes()
        self.hidden.table.check_unchanged()
        return found

    def measure(self, situation: Measured) -> Losses:
        tell = situation.conditions.progress
        tell("scoring on the validation set", 0, self.visible.rows)
        validation = visible_loss(situation.space, situation.validation, self.visible)
        where = situation.conditions.executor
        here = where in (None, "inline")
        with open_executor(where) as executor:
            test = hidden_loss(
                situation.sealed,
                self.hidden,
                labels=situation.few_labels if here else None,  # else only where they are scored
                map_function=map if here else executor.map,
                progress=lambda done, total: tell("scoring on the test set", done, total),
            )
        return Losses(validation, test)


@dataclass(frozen=True)
class OnnxFile:
    """A model in ONNX format."""

    path: Source

    def open(self, on: Measured) -> Attempt:
        """Read the file, and check it statically."""
        from easeml_meter.scoring.onnx_model import OnnxModel

        model = OnnxModel.open(self.path, on.expected(on.validation.rows))
        return _attempt(_ModelAttempt(model, model.content, ".onnx"), on)


@dataclass(frozen=True)
class Command:
    """A command and its files, to be run in a sandbox."""

    bundle: Bundle

    @classmethod
    def of(cls, command: str, files: Sequence[Path] = (), folder: Path = Path(".")) -> Command:
        """Collect the files in `folder` that the command names, and those named here."""
        return cls(Bundle.collect(command, files, folder))

    def open(self, on: Measured) -> Attempt:
        """Check that it can be run."""
        from easeml_meter.scoring.command import CommandModel

        attempt = _ModelAttempt(CommandModel(self.bundle), self.bundle.to_bytes(), ".bundle")
        return _attempt(attempt, on)


@dataclass(frozen=True)
class Function:
    """A Python function of the caller's own, which is trusted: no sandbox, no limits, no waiting.

    Nothing of it is kept, so that the retrospective has no losses for it.
    """

    model: FunctionModel

    @classmethod
    def of(cls, function: Callable[[pa.RecordBatch], Any], identity: str) -> Function:
        """Take a function from record batches to predictions; `identity` names no other model."""
        return cls(FunctionModel(function, identity))

    def open(self, on: Measured) -> Attempt:
        """Take it as it is."""
        return _attempt(_ModelAttempt(self.model, b"", "", trusted=True), on)


Submitted = PredictionFiles | OnnxFile | Command | Function


def _attempt(attempt: _ModelAttempt, on: Measured) -> Attempt:
    """Check a model against the inputs it will get; their names and types everyone may know."""
    if not on.spec.models:
        needed = "predictions: this meter was planned without models = true in meter.toml"
        raise invalid("submission", "a model", needed)
    inputs = pa.schema([on.sealed.schema.field(name) for name in on.sealed.inputs])
    attempt.predictor.check(inputs)
    return attempt


@dataclass(frozen=True)
class _ModelAttempt:
    predictor: Predictor
    kept: bytes = field(repr=False)
    suffix: str
    trusted: bool = False

    @property
    def identity(self) -> str:
        """What it predicts on hidden rows is not looked at."""
        return _digest(f"model|{self.predictor.digest}")

    def content(self) -> bytes:
        return self.kept

    def measure(self, situation: Measured) -> Losses:
        space, conditions = situation.space, situation.conditions
        if conditions.hopeless:
            return Losses(Fraction(1), None)
        loss, classes = parse_loss(situation.spec.loss), situation.classes
        with (
            space.files.local(situation.validation.blob) as path,
            open_executor(conditions.executor) as executor,
        ):
            hidden = HiddenRows.of(situation.sealed, loss, classes)
            label = situation.validation.settings["label"]
            table = Validation.open(path, label=label, loss=loss, classes=classes)
            visible = VisibleRows.of(table, hidden.inputs)
            validation, seconds = self._visible(visible, hidden.expected.rows, conditions)
            test = self._hidden(hidden, seconds, executor, conditions.progress)
        return Losses(validation, test)

    def _visible(
        self, rows: VisibleRows, hidden_rows: int, conditions: Conditions
    ) -> tuple[Fraction, float]:
        """Run on the visible rows; decide how long the hidden run takes.

        Always in this process: another executor's speed is no measure.
        """
        limits = Limits(seconds=conditions.seconds or _VISIBLE)

        def progress(done: int, total: int) -> None:
            conditions.progress("running on the validation set", done, total)

        progress(0, rows.expected.rows)
        started = time.monotonic()
        validation = score_model(self.predictor, rows, limits, progress=progress).mean
        whole = time.monotonic() - started
        if conditions.seconds is not None:
            return validation, conditions.seconds
        started = time.monotonic()
        first = next(rows.inputs_of(range(1))).slice(0, 1)
        for _ in self.predictor.predict(rows.inputs, [first], limits, hidden=False):
            pass
        start_up = time.monotonic() - started
        each = max(0.0, whole - start_up) / rows.expected.rows
        return validation, allotted(start_up + each * hidden_rows)

    def _hidden(
        self, rows: HiddenRows, seconds: float, executor: Executor, progress: Progress
    ) -> Fraction | None:
        """Run on the hidden rows, for exactly so many seconds."""
        # How far it got would tell of the rows; the clock does not.
        progress("running on the test set", 0, seconds)
        deadline = time.monotonic() + seconds
        limits = Limits(seconds=seconds)

        def within(function: Callable[[Any], Any], tasks: Iterable[ShardTask]) -> Iterator[Any]:
            return executor.map(function, _hurried(tasks, deadline))

        try:
            found = score_model(self.predictor, rows, limits, map_function=within).mean
        except (Unscorable, SystemExit):
            found = None
        if self.trusted:
            return found
        late = time.monotonic() > deadline
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(left)
        return None if late else found


def _hurried(tasks: Iterable[ShardTask], deadline: float) -> Iterator[ShardTask]:
    """Give each task what is left of the time when it is begun."""
    for task in tasks:
        left = max(0.01, deadline - time.monotonic())
        yield replace(task, limits=replace(task.limits, seconds=left))


def allotted(estimate: float) -> float:
    """Give the seconds for a run that should take `estimate`: a power of two, with room to spare.

    Rounded up so far that it hardly varies from run to run.
    """
    wanted = max(_SHORTEST, _MARGIN * estimate + 1)
    return min(LONGEST, 2.0 ** math.ceil(math.log2(wanted)))


def measure_again(kept: Held, on: Measured) -> Fraction | None:
    """Measure what was kept of a submission on the test set once more, for its release."""
    rows = on.generation.rows or 0
    if kept.suffix not in (".onnx", ".bundle"):
        predictions = Predictions.open(kept, expected=on.expected(rows))
        return hidden_loss(on.sealed, predictions)
    predictor: Predictor
    if kept.suffix == ".onnx":
        from easeml_meter.scoring.onnx_model import OnnxModel

        predictor = OnnxModel.open(kept, on.expected(rows))
    else:
        from easeml_meter.scoring.command import CommandModel

        predictor = CommandModel(Bundle.from_bytes(kept.content))
    hidden = HiddenRows.of(on.sealed, parse_loss(on.spec.loss), on.classes)
    try:
        return score_model(predictor, hidden, Limits(seconds=_VISIBLE)).mean
    except (Unscorable, SystemExit):
        return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
