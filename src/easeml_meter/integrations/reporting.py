"""Where an answer is reported besides the terminal: trackers of experiments, and summaries.

A reporter is found by its name, and made before anything is submitted: what it needs (a package, a
run, a variable) is missing at no cost then. What it returns is called with the answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from easeml_meter.core.views import SessionView, Signal
from easeml_meter.integrations.registry import Group, find
from easeml_meter.report.words import shown

Report = Callable[[Signal, SessionView], None]
Reporter = Callable[[str], Report]
"""Called with what follows the name in `--report NAME=WHERE`; empty: where the tool says itself."""


def prepare(given: Sequence[str]) -> dict[str, Report]:
    """Return what `--report` names, ready to be called.

    Raises:
        InvalidInput: there is no such reporter, or it cannot report.
    """
    ready = {}
    for each in (each for several in given for each in several.split(",")):
        name, _, where = each.partition("=")
        ready[each] = find(Group.REPORTERS, name.strip())(where.strip())
    return ready


def report_all(ready: dict[str, Report], signal: Signal, view: SessionView) -> list[str]:
    """Report an answer everywhere; return what went wrong, one line each.

    The answer is charged by now, so a tracker that is down must not take it away.
    """
    failed = []
    for name, report in ready.items():
        try:
            report(signal, view)
        except Exception as error:  # a stranger's tool may raise anything
            failed.append(f"not reported to {name}: {type(error).__name__}: {one_line(error)}")
    return failed


def one_line(error: Exception) -> str:
    """Return what another tool says of an error, short and in one line."""
    return shown(" ".join(str(error).split()), 200)


def metrics_of(signal: Signal) -> dict[str, float]:
    """Return what a tracker draws; what the answer does not tell is absent."""
    told = {
        # A band of drawn edges has no number that means anything.
        "band": None if signal.spec.meter.question.draws is not None else signal.band,
        "validation_loss": signal.validation_loss,
        "true_loss_at_most": signal.true_loss_at_most,
        "steps_left": signal.steps_left,
        "battery": signal.battery,
    }
    return {f"meter/{name}": float(value) for name, value in told.items() if value is not None}


def tags_of(signal: Signal) -> dict[str, str]:
    """Return what a tracker shows beside a run."""
    return {
        "meter.answer": signal.name,
        "meter.model": signal.model,
        "meter.promise": signal.promise,
        "meter.test_set": str(signal.generation),
    }


def json_of(signal: Signal) -> str:
    """Return the answer as a file."""
    return json.dumps(signal.to_dict(), indent=2) + "\n"
