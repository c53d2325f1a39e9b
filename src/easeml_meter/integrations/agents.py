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

from easeml_meter.client.gate import Gate
from easeml_meter.core.questions.labels import plan_alarm, plan_labels, starts_with_alarm
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.views import Signal
from easeml_meter.errors import InvalidInput, MeterError, spoken
from easeml_meter.meter import MeterVerbs
from easeml_meter.report.words import loss_name, shown, told_words, true_loss_words
from easeml_meter.scoring.ids import RowMatching
from easeml_meter.service.submissions.kinds import OnnxFile, PredictionFiles, Submitted
from easeml_meter.spec import DEFAULT_STEPS, MeterSpec
from easeml_meter.tables.opening import FORMATS
from easeml_meter.tables.source import Held

_MOST_BYTES = 1 << 30
_LAST = 5
"""Answers that a status shows: an agent's context is short."""
_WORDS = {
    ", or rely on the order of the rows (--no-ids)": "",
    "--id": "id_column",
    "--fail-above BAND or --most-loss LOSS": "fail_above, the number of a band",
    "meter history": "meter_status",
    "meter gate OLD NEW": "gate",
}
"""What commands and options, of which errors speak, are called here."""
_MODELS = (".onnx",)
_RESULTS = (".json", ".jsonl", ".csv", ".tsv", ".parquet", ".xml", ".eval")

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
            said = spoken(str(error), _WORDS)
            raise failure(f"[exit {error.exit_code}] {error.word}: {said}") from None

    return called


@dataclass(frozen=True)
class Tools:
    """The tools of an agent, for one meter and the files below one folder."""

    meter: MeterVerbs
    root: Path

    def plan(
        self, labels: int | None, steps: int | None, tolerance: float | None, delta: float
    ) -> Answer:
        """Return how many labels a meter needs, or what so many promise."""
        if (labels is None) == (tolerance is None):
            raise InvalidInput("give labels or tolerance: the other is the answer")
        count = DEFAULT_STEPS if steps is None else steps
        spec = MeterSpec.uniform(tolerance=tolerance or 0.1, steps=count, delta=delta)
        if labels is None:
            return required_labels(spec).to_dict()
        if starts_with_alarm(labels, steps, delta):
            return plan_alarm(labels, steps=count, delta=delta).to_dict()
        return plan_labels(spec, labels, steps).to_dict()

    def status(self) -> Answer:
        """Return where the meter stands, with the last answers in a line each."""
        view, spec = self.meter.status(), self.meter.spec
        told = view.to_dict()
        shown = ("meter", "generation", "phase", "rows", "steps_left", "promise")
        last = [_line(signal) for signal in view.signals[-_LAST:]]
        return {
            **{name: told[name] for name in shown},
            "inputs": spec.meter.sample.inputs,
            "loss": spec.meter.sample.loss,
            "answers": len(view.signals),
            "last": last,
        }

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
        *,
        baseline: bool = False,
    ) -> Answer:
        """Submit predictions or an ONNX file; a name that was answered before is not charged."""
        if bool(onnx) == bool(test or validation) or bool(test) != bool(validation):
            raise InvalidInput("give test and validation, or onnx: nothing else can be submitted")
        submitted: Submitted = (
            OnnxFile(self.file(onnx, _MODELS))
            if onnx
            else self._predictions(test, validation, id_column)
        )
        return self.meter.submit_any(submitted, model=model, once=True, baseline=baseline).to_dict()

    def gate(self, model: str, fail_above: int | None) -> Answer:
        """Return whether a model passes; a condition needs no band."""
        return self.meter.gate(model, fail_above=fail_above).to_dict()

    def file(self, given: str, endings: tuple[str, ...] = tuple(FORMATS)) -> Held:
        """Read a file below the root whose ending says that it may be submitted.

        What is refused was not opened, and a refusal says the same whether or not it exists.
        """
        found, refusal = below(self.root, given, endings)
        try:
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


@dataclass(frozen=True)
class GateTools:
    """The tools of an agent, for the ledger of `meter gate` and the results below one folder."""

    keeping: Gate
    root: Path

    def gate(self, old: str, new: str, name: str, old_name: str | None) -> Answer:
        """Return keep or discard; a name that was asked before is not charged."""
        results = (below(self.root, each, _RESULTS)[0] for each in (old, new))
        told = self.keeping.ask(*results, name=name, old_name=old_name)
        said, left, head = told.text
        return {
            "answer": told.answer,
            "model": shown(told.new, 60),
            "look": told.look,
            "repeated": told.repeated,
            "said": shown(said, 360),
            "next": left,
            "head": head,
        }

    def status(self) -> Answer:
        """Return what was kept, what is left, and what the next keep needs."""
        told = self.keeping.status()
        last = [shown(name, 40) for name in told.pop("kept")[-_LAST:]]
        beat = told.pop("model_to_beat")
        found = {name: told[name] for name in ("question", "confidence", "cases", "answers")}
        found |= {"answers_left": told["answers_left"], "next": told["text"], "head": told["head"]}
        return found | {"model_to_beat": beat and shown(beat, 60), "last_kept": last}


def below(root: Path, given: str, endings: tuple[str, ...]) -> tuple[Path, InvalidInput]:
    """Return a file below a folder, and what to refuse it with where it cannot be read.

    Raises:
        InvalidInput: it is not there, elsewhere, or has another ending.
    """
    name = os.path.basename(given)[:80]
    wanted = f"a file below {root} that ends in {' '.join(endings)} needed"
    refusal = InvalidInput(f"{name!r} given, {wanted}")
    if Path(given).suffix.lower() not in endings or "\0" in given:
        raise refusal
    try:
        found = (root.resolve() / given).resolve(strict=True)
    except (OSError, RuntimeError):
        raise refusal from None
    if not found.is_relative_to(root.resolve()) or found.suffix.lower() not in endings:
        raise refusal
    return found, refusal


def _line(signal: Signal) -> str:
    told = f"{told_words(signal)}, true {loss_name(signal.spec)} {true_loss_words(signal)}"
    return f"{signal.step} {shown(signal.model, 40)}: {told}"
