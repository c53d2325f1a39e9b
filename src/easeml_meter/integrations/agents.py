"""What a coding agent may do with a meter, whatever protocol it speaks; `mcp` speaks one.

An agent acts for a developer: no verb of a labeler exists here. Paths come from the agent, so they
are checked against one folder before anything is opened or sent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from easeml_meter.core.gate import Gate
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import InvalidInput, MeterError
from easeml_meter.meter import MeterVerbs
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.service.submissions.kinds import OnnxFile, PredictionFiles, Submitted
from easeml_meter.spec import MeterSpec
from easeml_meter.tables.opening import FORMATS
from easeml_meter.tables.source import Held

_MOST_BYTES = 1 << 30
_LAST = 20
"""Answers that a status shows: an agent's context is short."""
_MODELS = (".onnx",)

Arguments = ParamSpec("Arguments")
Answer = dict[str, Any]


class RefusedCall(Exception):
    """What an agent is told of an error: the exit code and the word for it, then one line."""


def refusing(
    tool: Callable[Arguments, Answer], failure: type[Exception] = RefusedCall
) -> Callable[Arguments, Answer]:
    """Turn an error into what an agent is told, of the kind that its protocol hands on."""

    @wraps(tool)
    def called(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        try:
            return tool(*args, **kwargs)
        except MeterError as error:
            raise failure(f"[exit {error.exit_code}] {error.word}: {error}") from None

    return called


@dataclass(frozen=True)
class Tools:
    """The tools of an agent, for one meter and the files below one folder."""

    meter: MeterVerbs
    root: Path

    def plan(self, steps: int, tolerance: float, delta: float) -> Answer:
        """Return how many labels a meter needs."""
        spec = MeterSpec.uniform(tolerance=tolerance, steps=steps, delta=delta)
        return required_labels(spec).to_dict()

    def status(self) -> Answer:
        """Return where the meter stands, with the last answers."""
        view = self.meter.status()
        told = view.to_dict()
        told["signals"] = told["signals"][-_LAST:]
        return told | {"inputs": self.meter.spec.inputs, "loss": self.meter.spec.loss}

    def check(self, test: str, validation: str, id_column: str | None) -> Answer:
        """Return how predictions are understood, and which answer they would use."""
        given = self._predictions(test, validation, id_column)
        return self.meter.check_any(given).to_json()

    def submit(
        self,
        model: str,
        test: str,
        validation: str,
        onnx: str,
        id_column: str | None,
    ) -> Answer:
        """Submit predictions or an ONNX file; a name that was answered before is not charged."""
        if bool(onnx) == bool(test or validation) or bool(test) != bool(validation):
            raise InvalidInput("give test and validation, or onnx: nothing else can be submitted")
        submitted: Submitted = (
            OnnxFile(self.file(onnx, _MODELS))
            if onnx
            else self._predictions(test, validation, id_column)
        )
        return self.meter.submit_any(submitted, model=model, once=True).to_dict()

    def gate(self, model: str, fail_above: int | None) -> Answer:
        """Return whether a model passes; a condition needs no band."""
        return self.meter.gate(model, Gate(fail_above)).to_dict()

    def file(self, given: str, endings: tuple[str, ...] = tuple(FORMATS)) -> Held:
        """Read a file below the root whose ending says that it may be submitted.

        What is refused was not opened, and a refusal says the same whether or not it exists.
        """
        name = os.path.basename(given)[:80]
        wanted = f"a file below {self.root} that ends in {' '.join(endings)} needed"
        refusal = InvalidInput(f"{name!r} given, {wanted}")
        if Path(given).suffix.lower() not in endings or "\0" in given:
            raise refusal
        root = self.root.resolve()
        try:
            found = (root / given).resolve(strict=True)
            if not found.is_relative_to(root) or found.suffix.lower() not in endings:
                raise refusal
            # Neither through a link that was put there meanwhile, nor waiting for a pipe.
            handle = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except (OSError, RuntimeError):
            raise refusal from None
        try:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_BYTES:
                raise refusal
            with open(handle, "rb", closefd=False) as file:
                return Held(found.name, file.read())
        finally:
            os.close(handle)

    def _predictions(self, test: str, validation: str, id_column: str | None) -> PredictionFiles:
        files = self.file(test), self.file(validation)
        return PredictionFiles(*files, RowMatching(id_column=id_column))
