"""Loops of edits under six rules that keep or discard: honest ones, and one that attacks its rule.

An honest loop proposes edits of which all are useless, or all but one. They change the answers to a
tenth of the cases. The attacker asks about fair secret bits on some of the cases, with so much real
gain beside them that each answer tells one bit, and ends with a useless edit that is right where
most answers say so (docs/attacks.md). Nothing here decides an answer of the product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from easeml_meter.checks import whole
from easeml_meter.promise.gains import LOSSES

Array = Any
DELTA = 0.1
"""What the gate and plain Bonferroni promise: no useless keep, 90 % sure."""
ALPHA = 0.05
"""The level of rules that look at one edit alone."""
GAINS = (0.02, 0.05, 0.1)
LOOPS = 2_000
_CHANGED = 0.1
_PROBED = 0.3
"""The share of cases that the attacker's bits are on."""
STRENGTHS = (0.5, 0.3, 0.15, 0.05)
"""How often a probe is kept; the attacker takes what breaks most."""
_BLOCK = 250
"""Loops that are attacked at once: their bits take some memory."""
_BET = 0.5
"""PACE's bet on the next disputed case (arXiv:2606.08106), stopped at 1 / ALPHA."""


# --- rules ----------------------------------------------------------------------------------------


class Rule:
    """A rule that keeps or discards, in many loops at once."""

    def __init__(self, answers: int, loops: int) -> None:
        self.answers, self.loops = answers, loops

    def chance(self, wins: Array, disputed: Array) -> Array:
        """Return the chance of a keep in each loop; it is 0 or 1 where order plays no part."""
        raise NotImplementedError

    def told(self, asked: int, kept: Array) -> None:
        """Note what was answered."""

    def needed(self, wins: Array, disputed: Array) -> Array:
        """Return the first of these results that would be kept, which rise: its place, by loop."""
        return np.argmax(self.chance(wins, disputed) >= 0.5)

    def final(self) -> Rule:
        """Return the rule of the last answer of a loop."""
        return self


class Higher(Rule):
    """Keep what scores higher."""

    def chance(self, wins: Array, disputed: Array) -> Array:
        """More wins than losses."""
        return 2 * wins > disputed


class Once(Higher):
    """Keep what scores higher, and test what is left in the end: once, by McNemar's test."""

    def final(self) -> Rule:
        """McNemar's exact test, one-sided."""
        return Each(self.answers, self.loops)


class Each(Rule):
    """Test each edit by itself."""

    log_level: Array = math.log(ALPHA)

    def chance(self, wins: Array, disputed: Array) -> Array:
        """So many wins are luck at most as often as the level says."""
        return log_luck(wins, disputed) <= self.log_level

    def needed(self, wins: Array, disputed: Array) -> Array:
        """The level may be another one in each loop."""
        unlikely = np.maximum.accumulate(-log_luck(wins, disputed))
        return unlikely.searchsorted(-np.broadcast_to(self.log_level, self.loops))


class Bonferroni(Each):
    """Divide delta by the answers, whatever they are."""

    def __init__(self, answers: int, loops: int) -> None:
        super().__init__(answers, loops)
        self.log_level = math.log(DELTA / answers)


class Gate(Each):
    """The share rule: after a keep as much is left as it staked."""

    def __init__(self, answers: int, loops: int) -> None:
        super().__init__(answers, loops)
        self._share = np.full(loops, math.log(DELTA))
        self.log_level = self._share - math.log(answers)

    def told(self, asked: int, kept: Array) -> None:
        """Pay, and stake the same part of what is left."""
        left = self.answers - asked  # before this answer
        rest = self._share + (math.log1p(-1 / left) if left > 1 else -math.inf)
        self._share = np.where(kept, self.log_level, rest)
        self.log_level = self._share - math.log(max(1, left - 1))


class Pace(Rule):
    """Bet on each disputed case, and keep once the stake has grown by 1 / ALPHA."""

    def chance(self, wins: Array, disputed: Array) -> Array:
        """Cases come in random order."""
        table = pace_chances(-(-int(np.max(disputed)) // 100) * 100)
        return table[wins, disputed - wins]


RULES: dict[str, type[Rule]] = {
    "keep what scores higher": Higher,
    "p < 0.05 each": Each,
    "McNemar once, at the end": Once,
    "PACE, 0.05 each": Pace,
    "plain Bonferroni": Bonferroni,
    "meter gate": Gate,
}


def log_luck(wins: Array, disputed: Array) -> Array:
    """Return ln P(Bin(disputed, 1/2) >= wins)."""
    from scipy.special import bdtrc

    with np.errstate(divide="ignore"):
        return np.where(
            wins > 0, np.log(bdtrc(np.maximum(wins, 1) - 1, np.maximum(disputed, 1), 0.5)), 0.0
        )


@lru_cache(maxsize=8)
def pace_chances(most: int) -> Array:
    """Return the chance that PACE keeps w wins and l losses in random order, for w + l <= most.

    Of paths to (w, l) the last step was a win with w / (w + l); a path that reached the goal ends.
    """
    goal, up, down = -math.log(ALPHA), math.log1p(_BET), math.log1p(-_BET)
    alive = np.zeros((most + 1, most + 1))
    alive[0, 0] = 1.0
    for steps in range(1, most + 1):
        wins = np.arange(steps + 1)
        losses = steps - wins
        before = wins / steps * alive[np.maximum(wins - 1, 0), losses] * (wins > 0)
        before += losses / steps * alive[wins, np.maximum(losses - 1, 0)] * (losses > 0)
        alive[wins, losses] = np.where(wins * up + losses * down >= goal, 0.0, before)
    return 1 - alive


@dataclass(frozen=True)
class World:
    """How many loops are played, of how many answers, on how many cases."""

    cases: int
    answers: int
    loops: int = LOOPS
    seed: int = 7

    def __post_init__(self) -> None:
        whole("labels", self.cases, at_least=10)
        whole("steps", self.answers, at_least=2)
        whole("runs", self.loops, at_least=1)
        whole("seed", self.seed, at_least=0)


# --- honest loops ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kept:
    """What a rule kept, as shares.

    Attributes:
        useless: Of useless edits.
        loops: Of loops of useless edits, those that kept at least one.
        real: Of real edits, by their gain, one of them in a loop of useless ones.
        attacked: Of attacked loops, those that kept a useless edit.
    """

    rule: str
    useless: float
    loops: float
    real: dict[float, float]
    attacked: float

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        return asdict(self) | {"real": {f"{gain:g}": share for gain, share in self.real.items()}}


def edits(world: World, gain: float, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Draw wins and disputed cases of each edit in each loop, and which of them is real."""
    real = np.zeros((world.answers, world.loops), dtype=bool)
    if gain:
        place = rng.integers(world.answers, size=world.loops)
        real[place, np.arange(world.loops)] = True
    changed = np.where(real, gain + 2 * LOSSES, _CHANGED)
    won = np.where(real, (gain + LOSSES) / (gain + 2 * LOSSES), 0.5)
    disputed = rng.binomial(world.cases, changed)
    return rng.binomial(disputed, won), disputed, real


def kept_edits(rule: type[Rule], wins: Array, disputed: Array, coins: Array) -> Array:
    """Return which edits a rule keeps."""
    answers, loops = wins.shape
    playing = rule(answers, loops)
    if isinstance(playing, Once):
        best = np.argmax(2 * wins - disputed, axis=0)
        at = (best, np.arange(loops))
        kept = np.zeros(wins.shape, dtype=bool)
        kept[at] = playing.final().chance(wins[at], disputed[at])
        return kept
    kept = np.empty(wins.shape, dtype=bool)
    for asked in range(answers):
        kept[asked] = coins[asked] < playing.chance(wins[asked], disputed[asked])
        playing.told(asked, kept[asked])
    return kept


# --- the attack -----------------------------------------------------------------------------------


def attacked(rule: type[Rule], world: World, strength: float) -> float:
    """Return the share of loops in which the attacker's last edit is kept; its gain is 0."""
    broken = 0
    for block in range(0, world.loops, _BLOCK):
        loops = min(_BLOCK, world.loops - block)
        rng = np.random.default_rng([world.seed, block])
        broken += _broken(rule(world.answers, loops), world.cases, strength, rng)
    return broken / world.loops


def _broken(playing: Rule, cases: int, strength: float, rng: np.random.Generator) -> int:
    loops, probes = playing.loops, playing.answers - 1
    probed = rng.binomial(cases, _PROBED, loops)
    most = int(probed.max())
    there = np.arange(most) < probed[:, None]
    bits = rng.integers(0, 2, (loops, probes, most), dtype=np.int8) * 2 - 1
    bits *= there[:, None, :]
    right = (bits.sum(axis=2, dtype=np.int64) + probed[:, None]) // 2
    gained = np.arange(int(0.85 * cases * (1 - _PROBED)) + 1)
    lucky = _quantile(int(cases * _PROBED), strength)
    votes = np.empty((loops, 1, probes), dtype=np.float32)
    for asked in range(probes):
        # So much real gain, on cases that are not probed, that the bits decide the answer.
        goal = playing.needed(lucky + gained, int(cases * _PROBED) + gained)
        share = np.minimum(1, goal / (cases * (1 - _PROBED)))
        real = rng.binomial(cases - probed, share)
        kept = rng.random(loops) < playing.chance(right[:, asked] + real, probed + real)
        playing.told(asked, kept)
        votes[:, 0, asked] = np.where(kept, 1, -1)
    sums = (votes @ bits.astype(np.float32))[:, 0, :]
    tied = ((sums == 0) & there).sum(axis=1)
    wins = (sums > 0).sum(axis=1) + rng.binomial(tied, 0.5)
    return int((rng.random(loops) < playing.final().chance(wins, probed)).sum())


def _quantile(probed: int, strength: float) -> int:
    """Return how many of the bits a probe wins if it is as lucky as one in 1 / strength."""
    from scipy.stats import binom

    return probed // 2 if strength == 0.5 else int(binom.isf(strength, probed, 0.5))


# --- side by side ---------------------------------------------------------------------------------


def side_by_side(world: World) -> list[Kept]:
    """Play all rules on the same edits, and let each be attacked."""
    drawn = {}
    for number, gain in enumerate((0.0, *GAINS)):
        rng = np.random.default_rng([world.seed, number])
        drawn[gain] = (*edits(world, gain, rng), rng.random((world.answers, world.loops)))
    return [_played(name, rule, world, drawn) for name, rule in RULES.items()]


def _played(
    name: str, rule: type[Rule], world: World, drawn: dict[float, tuple[Array, ...]]
) -> Kept:
    kept = {
        gain: kept_edits(rule, wins, disputed, coins)
        for gain, (wins, disputed, _, coins) in drawn.items()
    }
    return Kept(
        rule=name,
        useless=float(kept[0.0].mean()),
        loops=float(kept[0.0].any(axis=0).mean()),
        real={gain: float(kept[gain][drawn[gain][2]].mean()) for gain in GAINS},
        attacked=max(attacked(rule, world, strength) for strength in STRENGTHS),
    )


def table(found: Sequence[Kept]) -> list[str]:
    """Lay the rules out for people, in percent."""
    head = ("", "useless", "loops with", "real: 2", "5", "10 points", "attacked")
    rows: list[tuple[str, ...]] = [head]
    for kept in found:
        outer = (f"{100 * share:.1f}" for share in (kept.useless, kept.loops))
        real = (f"{100 * share:.0f}" for share in kept.real.values())
        rows.append((kept.rule, *outer, *real, f"{100 * kept.attacked:.1f}"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]
