"""Who plays against a meter: the developers of the lab, or the one who knows its question."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.random import Generator

from easeml_meter.checks import refuse_with
from easeml_meter.errors import invalid
from easeml_meter.lab.meters import teams_of
from easeml_meter.lab.simulation import probing, voting
from easeml_meter.lab.simulation.arena import answer_to
from easeml_meter.lab.simulation.developers import DEVELOPERS, Developer, developer_named
from easeml_meter.lab.simulation.worlds import Flags
from easeml_meter.promise.budgets import Memory, Reverts
from easeml_meter.promise.condition import Change, Condition
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter, Question
from easeml_meter.promise.samples import Judge

_CHANGED = 0.3
"""The share of predictions that each model has anew."""


def broken_windows(meter: Meter, batch: int, runs: int, random: Generator) -> Flags:
    """Return in which sessions of rolling test sets some answer breaks its promise.

    One has all windows of a delta. Every model is wrong on half of all that could be asked. The
    developer asks for gaps around an edge, and keeps the random change that the answers call worse:
    what it keeps is worse on the window than in truth. Released batches tell nothing of the others.
    """
    return np.array([_broken(meter, batch, random) for _ in range(runs)], dtype=np.bool_)


def _broken(meter: Meter, batch: int, random: Generator) -> bool:
    rows = batch * len(meter.renewal.batches(1))
    half = Fraction(1, 2)
    # The validation loss is the developer's to choose: here, so that 1/2 lies on an edge.
    claimed = half - min(half, (*meter.question.ends[1:-1], Fraction(0))[0])
    wrong = random.random(rows) < 0.5
    for _ in range(int(meter.budget.steps)):
        for _ in range(meter.answers() or 0):
            changed = wrong.copy()
            some = random.random(rows) < _CHANGED
            changed[some] = random.random(int(some.sum())) < 0.5
            loss = Fraction(int(changed.sum()), rows)
            answer = answer_to(meter, 0, claimed, loss)
            if abs(loss - half) > meter.question.tolerances[0]:
                return True
            if answer > 1:
                wrong = changed
        wrong = np.concatenate([wrong[batch:], random.random(batch) < 0.5])
    return False


Play = Callable[[Meter, int, int, Generator], Flags]
"""Plays sessions of a meter with a test set of some size; returns those with a broken promise."""


@dataclass(frozen=True)
class Opponent:
    """The developer of one kind of question."""

    name: str
    about: str
    play: Play

    def breaks(self, meter: Meter) -> None:
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


def opponent_of(meter: Meter) -> Opponent | None:
    """Return who plays against a meter; None: the developers of the lab, in their worlds.

    Raises:
        InvalidInput: nobody plays against such a meter yet.
    """
    question, sample, renewal = meter.question, meter.sample, meter.renewal
    score = sample.measured.score
    budget = meter.budget
    if meter.only_planned:
        given = "resampling" if renewal.anew else "independent"
        raise invalid("protocol", given, "only meters answer submissions")
    if isinstance(question, Condition | Change):
        return _PROBER
    if not isinstance(question, Gap):
        raise invalid("question", question.text, "nobody plays it in the lab yet")
    if renewal.rolls:
        batches = len(renewal.batches(1))
        refuse_with("window", batches, _of_bands(question), "not played with {} in the lab")
        return _ROLLER
    if renewal.joined:
        raise invalid("top_up", meter.answers(2), "nobody tops up in the lab yet")
    if sample.counts_rows and sample.parts is None:
        return None
    about: tuple[str, object] = "loss", sample.loss
    if isinstance(sample, Judge):
        about = "judge_error", float(sample.judge_error)
    unplayed = _of_bands(question) | {
        "the incremental protocol": question.climbs_only,
        "tenants": teams_of(meter),
        "reverts": isinstance(budget, Reverts),
        "memory": isinstance(budget, Memory),
        "strata": sample.parts is not None and sample.loss != "0-1",
        "this score": score is not None and score.name not in voting.PLAYED,
        f"over {voting.MOST_CLASSES} classes": len(sample.classes) > voting.MOST_CLASSES,
    }
    refuse_with(*about, unplayed, "not played with {} in the lab")
    return _VOTER


def _of_bands(question: Question) -> dict[str, object]:
    floor = isinstance(question, Gap) and question.floor is not None
    return {
        "drawn": not question.numbered,
        "ceiling": question.limit is not None and not floor,
    }


def opponents_of(meter: Meter) -> list[str]:
    """Return the names of all who can play against a meter and break no assumption of it."""
    only = opponent_of(meter)
    able = [each for each in DEVELOPERS.values() if each.at_home(meter) and not each.breaks(meter)]
    return [each.name for each in able] if only is None else [only.name]


def opponent_named(meter: Meter, name: str) -> Developer | Opponent:
    """Find one of those who play against a meter."""
    only = opponent_of(meter)
    if only is None:
        return developer_named(name)
    if name != only.name:
        raise invalid("developer", name, f"against this question, only {only.name} plays")
    return only
