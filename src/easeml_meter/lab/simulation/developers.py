"""Simulated developers, honest and hostile; each plays many sessions at once.

A developer sees the answers of the meter and nothing else of the test set. Its models and its own
randomness are independent of the test set, as the promise supposes. `Developer.breaks` says which
assumption about people it does not keep, where a meter makes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from easeml_meter.errors import invalid
from easeml_meter.lab.meters import teams_of
from easeml_meter.lab.simulation.arena import Arena
from easeml_meter.lab.simulation.behaviours import (
    Play,
    by_blocks,
    climber,
    crasher,
    evidence,
    independent,
    kept,
    opposite,
    resubmitter,
    voter,
)
from easeml_meter.lab.simulation.players import Player
from easeml_meter.lab.simulation.worlds import Cells, World
from easeml_meter.promise.budgets import Memory, Reverts
from easeml_meter.promise.ledger import shared_steps
from easeml_meter.promise.meter import Meter
from easeml_meter.vault.draws import Draws


@dataclass(frozen=True)
class Developer:
    """A way to behave."""

    name: str
    about: str
    play: Play
    adaptive: bool = True
    """Whether its models depend on answers."""
    forgets: bool = False
    """Whether they depend on the last answers only."""
    passes: bool = False
    """Whether tenants hand their checkpoints on without a word."""
    hands_over: bool = False
    """Whether isolated tenants pool what they learnt by a hand-over that the meter knows of."""
    crashes: bool = False
    """Whether its models fail on purpose."""
    guesses: bool = False
    """Whether it guesses the secret of drawn edges, and aims by that."""
    knows: bool = False
    """Whether somebody told it the secret: what must never happen."""

    def at_home(self, meter: Meter) -> bool:
        """Whether a meter has what this developer makes use of; else it is another's twin."""
        teams = teams_of(meter)
        if self.hands_over and teams > meter.budget.apart:
            return False
        shares = self.passes or self.hands_over
        if self.guesses and meter.question.numbered:
            return False
        return (meter.sample.may_fail or not self.crashes) and (bool(teams) or not shares)

    def breaks(self, meter: Meter) -> str | None:
        """Say which assumption about people this developer breaks under a meter, if any."""
        budget = meter.budget
        if self.passes and budget.apart > 1:
            return "teams start from each other's checkpoints, but are counted as isolated"
        if self.adaptive and isinstance(budget, Reverts):
            return "it acts on the answers to steps that count as undone"
        if self.adaptive and not self.forgets and isinstance(budget, Memory):
            return f"it remembers more than the last {budget.memory} answers"
        return None

    def run(
        self,
        meter: Meter,
        labels: int,
        world: World,
        rng: Generator,
        sessions: int,
        *,
        examples: type[Cells] = Cells,
    ) -> Arena:
        """Play; give the desk with the outcome. Isolated tenants each have their own models."""
        drawn = not meter.question.numbered
        tenants = list(range(1, meter.budget.apart + 1))
        # One shared step is worth nothing: the combination of all answers is the second.
        hands_over = self.hands_over and self.at_home(meter)
        shared = shared_steps(meter, labels, tuple(tenants)) if hands_over else 0
        together = self.passes or shared > 1
        groups = [tenants] if together else [[tenant] for tenant in tenants]
        # Only meters with drawn edges take random numbers for them: others play as they did before.
        secret = rng.bytes(32) if drawn else bytes(32)
        how: dict[str, Any] = {"shared": shared * together, "secret": secret}
        desks = [Arena(meter, labels, sessions, group, **how) for group in groups]
        guess = Draws(rng.bytes(32)) if self.guesses and drawn else None
        for desk in desks:
            cells = examples(world, labels, sessions, rng)
            aim = desk.draws if self.knows else guess
            self.play(Player(desk, cells, aim))
        first, *others = desks
        for desk in others:
            first.strain = np.maximum(first.strain, desk.strain)
            first.answered += desk.answered
        return first


def _remembered(meter: Meter) -> int:
    """Return how many answers a model may depend on; two where nobody limits it."""
    budget = meter.budget
    return budget.memory if isinstance(budget, Memory) else 2


_ALL = (
    Developer("independent", "fresh models, answers ignored", independent, adaptive=False),
    Developer("climber", "honest hill-climbing on a validation set of its own", climber),
    Developer(
        "threshold",
        "puts a band edge where the answer reveals most, weighs and combines the models",
        voter(evidence),
    ),
    Developer("majority", "majority vote of the models that scored well", voter(kept)),
    Developer("blocks", "settles the examples block by block", by_blocks),
    Developer(
        "reverter", "goes back after every bad answer and tries the opposite", voter(opposite)
    ),
    Developer(
        "checkpoints",
        "as threshold, with teams that pass on their checkpoints",
        voter(evidence),
        passes=True,
    ),
    Developer(
        "handover",
        "as threshold, with isolated teams that all hand over before the last shared step",
        voter(evidence),
        hands_over=True,
    ),
    Developer(
        "forgetful",
        "as threshold, but starts over after as many answers as it can remember",
        voter(evidence, _remembered),
        forgets=True,
    ),
    Developer(
        "crasher",
        "as threshold, with models that crash where that reveals most",
        crasher,
        crashes=True,
    ),
    Developer("resubmitter", "asks about the same model again and again", resubmitter),
    Developer(
        "guesser",
        "as threshold, but guesses the secret of drawn edges and aims an edge by it",
        voter(evidence),
        guesses=True,
    ),
)
DEVELOPERS = {developer.name: developer for developer in _ALL}


def developer_named(name: str) -> Developer:
    """Find a developer."""
    if name not in DEVELOPERS:
        raise invalid("developer", name, f"one of {', '.join(DEVELOPERS)}")
    return DEVELOPERS[name]
