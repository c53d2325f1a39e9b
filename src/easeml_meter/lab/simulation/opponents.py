"""Who plays against a meter: the developers of the lab, or the one who knows its question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from easeml_meter.checks import refuse_with
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.kinds import question_of
from easeml_meter.errors import invalid
from easeml_meter.lab.simulation import probing, voting
from easeml_meter.lab.simulation.arena import answer_to
from easeml_meter.lab.simulation.developers import DEVELOPERS, Developer, developer_named
from easeml_meter.lab.simulation.worlds import Flags
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.spec import MeterSpec, Protocol

_CHANGED = 0.3
"""The share of predictions that each model has anew."""


def broken_windows(spec: MeterSpec, batch: int, runs: int, random: Generator) -> Flags:
    """Return in which sessions of rolling test sets some answer breaks its promise.

    One has all windows of a delta. Every model is wrong on half of all that could be asked. The
    developer asks for gaps around an edge, and keeps the random change that the answers call worse:
    what it keeps is worse on the window than in truth. Released batches tell nothing of the others.
    """
    return np.array([_broken(spec, batch, random) for _ in range(runs)], dtype=np.bool_)


def _broken(spec: MeterSpec, batch: int, random: Generator) -> bool:
    meter, rows = spec.meter, batch * (spec.window or 1)
    half = Fraction(1, 2)
    # The validation loss is the developer's to choose: here, so that 1/2 lies on an edge.
    claimed = half - min(half, as_written((spec.edges or (0.0,))[0]))
    wrong = random.random(rows) < 0.5
    for _ in range(spec.steps):
        for _ in range(spec.submissions):
            changed = wrong.copy()
            some = random.random(rows) < _CHANGED
            changed[some] = random.random(int(some.sum())) < 0.5
            loss = Fraction(int(changed.sum()), rows)
            answer = answer_to(meter, 0, claimed, loss)
            if abs(loss - half) > as_written(spec.tolerances[0]):
                return True
            if answer > 1:
                wrong = changed
        wrong = np.concatenate([wrong[batch:], random.random(batch) < 0.5])
    return False


Play = Callable[[MeterSpec, int, int, Generator], Flags]
"""Plays sessions of a meter with a test set of some size; returns those with a broken promise."""


@dataclass(frozen=True)
class Opponent:
    """The developer of one kind of question."""

    name: str
    about: str
    play: Play

    def breaks(self, spec: MeterSpec) -> None:
        """Return None: it keeps to what these meters suppose of people."""


_PROBER = Opponent(
    "prober",
    "guesses on one block of rows after the other, and joins the lucky guesses",
    probing.broken_sessions,
)
_VOTER = Opponent("voter", "guesses, and lets all guesses vote by their luck", voting.broken_of)
_ROLLER = Opponent(
    "roller",
    "keeps the changes that the answers call worse, window by window",
    broken_windows,
)


def opponent_of(spec: MeterSpec) -> Opponent | None:
    """Return who plays against a meter; None: the developers of the lab, in their worlds.

    Raises:
        InvalidInput: nobody plays against such a meter yet.
    """
    if spec.asked is not None:
        refuse_with("question", spec.question, _of_bands(spec), "not played with {} in the lab")
        return _PROBER
    if spec.window is not None:
        refuse_with("window", spec.window, _of_bands(spec), "not played with {} in the lab")
        return _ROLLER
    if not isinstance(question_of(spec), GapQuestion):
        raise invalid("question", spec.question, "nobody plays it in the lab yet")
    if spec.top_up is not None:
        raise invalid("top_up", spec.top_up, "nobody tops up in the lab yet")
    if not spec.sized and not spec.stratified:
        return None
    name, given = ("judge_error", spec.judge_error) if spec.judged else ("loss", spec.loss)
    unplayed = _of_bands(spec) | {
        f"the {spec.protocol} protocol": spec.protocol is not Protocol.REGULAR,
        "tenants": spec.tenants,
        "reverts": spec.reverts,
        "memory": spec.memory is not None,
        "strata": spec.stratified and spec.loss != "0-1",
        "this score": spec.corpus is not None and spec.corpus.name not in voting.PLAYED,
        f"over {voting.MOST_CLASSES} classes": len(spec.classes) > voting.MOST_CLASSES,
    }
    refuse_with(name, given, unplayed, "not played with {} in the lab")
    return _VOTER


def _of_bands(spec: MeterSpec) -> dict[str, object]:
    return {
        "drawn": spec.drawn is not None,
        "ceiling": spec.ceiling is not None and spec.floor is None,
    }


def opponents_of(spec: MeterSpec) -> list[str]:
    """Return the names of all who can play against a meter and break no assumption of it."""
    only = opponent_of(spec)
    able = [each for each in DEVELOPERS.values() if each.at_home(spec) and not each.breaks(spec)]
    return [each.name for each in able] if only is None else [only.name]


def opponent_named(spec: MeterSpec, name: str) -> Developer | Opponent:
    """Find one of those who play against a meter."""
    only = opponent_of(spec)
    if only is None:
        return developer_named(name)
    if name != only.name:
        raise invalid("developer", name, f"against this question, only {only.name} plays")
    return only
