"""What can be submitted: prediction files, an ONNX model, a command, a Python function.

Each kind is checked first, at no cost, and only then measured. A server receives them as a tar.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    visible_loss,
)
from easeml_meter.spec import MeterSpec
from easeml_meter.tables import archive
from easeml_meter.tables.source import Held, Source


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
        return digest_of(f"{self.hidden.digest}|{self.visible.digest}")

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
        return _attempt(ModelAttempt(model, model.content, ".onnx"), on)


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

        attempt = ModelAttempt(CommandModel(self.bundle), self.bundle.to_bytes(), ".tar")
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
        return _attempt(ModelAttempt(self.model, b"", "", trusted=True), on)


Submitted = PredictionFiles | OnnxFile | Command | Function


def _attempt(attempt: ModelAttempt, on: Measured) -> Attempt:
    """Check a model against the inputs it will get; their names and types everyone may know.

    This is the only check of a submission. Everything after it costs time of a run that is timed.
    """
    check_models(on.spec)
    inputs = pa.schema([on.sealed.schema.field(name) for name in on.sealed.inputs])
    attempt.predictor.check(inputs)
    return attempt


def check_models(spec: MeterSpec) -> None:
    """Raise `InvalidInput` unless the meter was planned for models.

    A model is run on the hidden inputs, which its developers must not see otherwise.
    """
    if not spec.models:
        needed = "predictions: this meter was planned without models = true in meter.toml"
        raise invalid("submission", "a model", needed)


@dataclass(frozen=True)
class Parcel:
    """What a submission's body holds: names and contents."""

    kind: str
    files: dict[str, bytes]

    @classmethod
    def unpack(cls, body: bytes) -> Parcel:
        """Read an archive in memory: two files of predictions, or a model."""
        try:
            found = archive.unpack(body, MOST_FILES + 1)
        except archive.Damaged as error:
            raise invalid("body", str(error), _WANTED) from None
        if "command" in found:
            return cls("command", {"command": body})
        return cls(_kind(found), {name: file.content for name, file in found.items()})


_WANTED = (
    "a tar of test.EXT and validation.EXT (predictions), of model.onnx, or of command and its files"
)


def _kind(names: Collection[str]) -> str:
    stems = sorted(name.partition(".")[0] for name in names)
    if stems == ["test", "validation"] and not any("/" in name for name in names):
        return "predictions"
    match list(names):
        case ["model.onnx"]:
            return "onnx"
        case ["command.bundle"]:  # from a client of version 0.1.0
            return "command"
    raise invalid("body", "a tar of other files", _WANTED)


def model_of(kind: str, content: bytes) -> Submitted:
    """Give a model as it is measured."""
    if kind == "command":
        return Command(Bundle.from_bytes(content))
    return OnnxFile(Held("model.onnx", content))
