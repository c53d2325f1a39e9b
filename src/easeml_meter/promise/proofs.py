"""What is proved: TAILS (claim, sample), FRESH (budget, renewal), COUNTS (shape, budget).

Each row names the heading of docs/mathematics.md that proves it. A pair without a row is refused:
there are no other refusals of pairs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise.budgets import Memory, Reverts, Run, Steps
from easeml_meter.promise.claims import (
    Better,
    ChangeWithin,
    Exceeds,
    Gains,
    NotOver,
    Within,
    WithinLoosely,
)
from easeml_meter.promise.closing import Closing, Shares
from easeml_meter.promise.numbers import plain
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.plain import log_sum
from easeml_meter.promise.renewals import EveryStep, Fresh, TopUp, Window
from easeml_meter.promise.samples import Clusters, Judge, OnDemand, Rows, Strata
from easeml_meter.promise.shapes import (
    MOST_DEPTH,
    MOST_WALKED,
    Climb,
    Flat,
    Shape,
    Verdict,
    log_of,
)
from easeml_meter.promise.teams import Teams

MARGIN = Fraction(1, 10**9)
"""A promise is broken by a miss of eps (1 - this) or more: see `bands.most_bands`."""


class Drift:
    """Rows of a rolling test set: independent, but each batch has a distribution of its own."""

    word = "a rolling window"


_A_TAIL = 1_000.0
"""What an ordinary tail costs, in rows that are summed over."""


class Tail(NamedTuple):
    """A row of TAILS.

    `log_tail(claim, sample, n)` is ln of a bound on "this claim is false of one fixed model, and
    the answer says it", for n or more; None: the claim is tested at a level, whatever n is.
    `enough(claim, sample, nats)` is a size from which on it is below -nats, in closed form;
    `work(n, claims)` what so many tails of this size cost, in rows that are summed over.
    """

    lemma: str
    log_tail: Callable[[Any, Any, int], float] | None = None
    enough: Callable[[Any, Any, float], int] | None = None
    work: Callable[[int, int], float] = lambda n, claims: _A_TAIL


def _rows_within(claim: Within, sample: Rows, n: int) -> float:
    """Plain rows: exact for right or wrong, convex order for losses in [0, 1], and scores."""
    from easeml_meter.promise.numbers import tails

    loss = sample.measured
    ceiling = None if claim.ceiling is None else float(claim.ceiling)
    eps = float(claim.eps)
    if loss.score is not None:
        return _score_within(loss.score, sample, n, eps, claim)
    if loss.zero_one:
        return tails.log_tail_from(Bound.EXACT, n, eps, ceiling, promised=claim.merged)
    return tails.log_tail_from(Bound.CONVEX, n, eps * (1 - float(MARGIN)), ceiling)


def _score_within(score: Any, sample: Rows, n: int, eps: float, claim: Within) -> float:
    from easeml_meter.promise.numbers import scores, tails

    floor = None if claim.ceiling is None else float(1 - claim.ceiling)
    ceiling = None if claim.ceiling is None else float(claim.ceiling)
    if n < 1:
        return 0.0
    if score.name == "auc":
        return tails.log_tail(Bound.CONVEX, n, eps, ceiling)
    if score.curve:
        return scores.log_curve_tail(n, eps)
    if score.name in ("f1", "macro-f1"):
        classes = len(sample.classes) if score.kind.averaged else 1
        return min(0.0, scores.log_f1_tail_from(n, eps, floor) + math.log(classes))
    if score.kind.averaged and score.weighing:
        return scores.log_average_tail(n, eps, score.weights(len(sample.classes)))
    if score.kind.averaged:
        return scores.log_class_average_tail(n, eps, len(sample.classes))
    return scores.log_share_tail_from(n, eps, floor)


def _clusters_within(claim: Within, sample: Clusters, n: int) -> float:
    """Means of clusters are losses in [0, 1]."""
    from easeml_meter.promise.numbers import tails

    ceiling = None if claim.ceiling is None else float(claim.ceiling)
    return tails.log_tail_from(Bound.CONVEX, n, float(claim.eps * (1 - MARGIN)), ceiling)


def _strata_within(claim: Within, sample: Strata, n: int) -> float:
    """Hoeffding 1956 where each stratum has its share of the rows, else Chernoff's bound."""
    from easeml_meter.promise.numbers import scores, tails

    eps = float(claim.eps)
    if not sample.proportional:
        parts = zip(sample.weights, sample.shares, strict=True)
        return scores.log_average(eps, [(weight, n * share, 1) for weight, share in parts])
    if sample.measured.zero_one:
        bound = Bound.EXACT if n * claim.eps >= 1 else Bound.HOEFFDING
        return tails.log_tail(bound, n, eps)
    return tails.log_tail(Bound.CONVEX, n, eps * (1 - float(MARGIN)))


def _drift_within(claim: Within, sample: Rows, n: int) -> float:
    """Rows of several distributions: the claim is about their mean (Hoeffding 1956)."""
    from easeml_meter.promise.numbers import tails

    return tails.log_tail(
        Bound.EXACT if n * claim.eps >= 1 else Bound.HOEFFDING, n, float(claim.eps)
    )


def _judged_within(claim: Within, sample: Judge, n: int) -> float:
    from easeml_meter.promise.numbers import judges

    error, pool = float(sample.judge_error), sample.pool
    return judges.log_judged_tail(n, float(claim.eps), error, pool, onwards=True)


def _change_within(claim: ChangeWithin, sample: Rows, n: int) -> float:
    from easeml_meter.promise.numbers import differences

    if n < 1:
        return 0.0
    return differences.log_reading_tail(n, float(claim.eps), claim.most, onwards=True)


def _exceeds(claim: Exceeds, sample: Rows, n: int) -> float:
    from easeml_meter.promise.numbers import passing

    return passing.log_tail_from(n, claim.share, claim.margin)


def _gains(claim: Gains, sample: Rows, n: int) -> float:
    from easeml_meter.promise.numbers import differences

    return differences.log_pass_tail_from(n, claim.change, claim.margin, claim.most)


def _loosely(claim: WithinLoosely, sample: Rows, n: int) -> float:
    """Hoeffding's bound, as the paper has it."""
    value = math.log(2) - 2 * n * float(claim.eps) ** 2
    return min(0.0, value + 1e-12 * (1 + abs(value)))


def _enough_within(claim: Any, sample: Rows, nats: float) -> int:
    """By Hoeffding's bound, which is raised by its rounding error; scores differ by constants."""
    needed, rate = (nats + math.log(2)) * (1 + 1e-11) + 1e-11, 2 * float(claim.eps) ** 2
    if sample.measured.score is None:
        return math.ceil(needed / rate) + 1
    # The variance of F1 is up to 1.24 times that of a share.
    return math.ceil((needed + 4 + math.log(max(1, len(sample.classes)))) / (0.7 * rate)) + 10


def _enough_of_strata(claim: Within, sample: Strata, nats: float) -> int:
    return math.ceil(_enough_within(claim, sample, nats) * sample.cost) + sample.whole


def _enough_judged(claim: Within, sample: Judge, nats: float) -> int:
    from easeml_meter.promise.numbers import judges

    return judges.enough(float(claim.eps), float(sample.judge_error), sample.pool, nats)


def _enough_of_change(claim: ChangeWithin, sample: Rows, nats: float) -> int:
    from easeml_meter.promise.numbers import differences

    rate = differences.rate(float(claim.eps), float(claim.most))
    return math.ceil((nats + math.log(2)) * (1 + 1e-11) / rate) + 1


def _enough_to_exceed(claim: Exceeds, sample: Rows, nats: float) -> int:
    """By Chernoff's bound."""
    return math.ceil(nats * (1 + 1e-11) / plain.rate(claim.share, claim.margin)) + 1


def _enough_to_gain(claim: Gains, sample: Rows, nats: float) -> int:
    from easeml_meter.promise.numbers import differences

    return (
        math.ceil(nats * (1 + 1e-11) / differences.rate(float(claim.margin), float(claim.most))) + 1
    )


def _work_of_judge(n: int, claims: int) -> float:
    from easeml_meter.promise.numbers import judges

    return judges.work(n, claims)


def _work_of_rows(times: float) -> Callable[[int, int], float]:
    """Return the work of a worst place that is searched over sums of rows."""

    def work(n: int, claims: int) -> float:
        from easeml_meter.promise.numbers import differences

        return times * claims * differences.summed_rows(n)

    return work


_CHANGE = Tail("Pass or fail", _change_within, _enough_of_change, _work_of_rows(20))
_GAINS = Tail("Pass or fail", _gains, _enough_to_gain, _work_of_rows(6))
TAILS: dict[tuple[type, type], Tail] = {
    (Within, Rows): Tail("Tails", _rows_within, _enough_within),
    (Within, Clusters): Tail("Tails", _clusters_within, _enough_within),
    (Within, Strata): Tail("Metrics of the whole test set", _strata_within, _enough_of_strata),
    (Within, Drift): Tail("Rolling test sets", _drift_within, _enough_within),
    (Within, Judge): Tail("A judge", _judged_within, _enough_judged, _work_of_judge),
    (WithinLoosely, Rows): Tail("Tails", _loosely, _enough_within),
    (WithinLoosely, Clusters): Tail("Tails", _loosely, _enough_within),
    (ChangeWithin, Rows): _CHANGE,
    (ChangeWithin, OnDemand): _CHANGE,
    (Exceeds, Rows): Tail("Pass or fail", _exceeds, _enough_to_exceed),
    (Gains, Rows): _GAINS,
    (Gains, OnDemand): _GAINS,
    (Better, Rows): Tail("Levels"),
    (Better, OnDemand): Tail("Levels"),
    (NotOver, Rows): Tail("Levels"),
}


class Trees(NamedTuple):
    """A row of FRESH: how many trees share delta, and where their events lie."""

    lemma: str
    runs: Callable[[Any, Any], tuple[Run, ...]]


def _alone(budget: Any, renewal: Any) -> tuple[Run, ...]:
    return tuple(budget.runs())


def _every_step(budget: Steps, renewal: EveryStep) -> tuple[Run, ...]:
    return (Run(budget.runs()[0].last + 1, 0, 0),)


def _windows(budget: Steps, renewal: Window) -> tuple[Run, ...]:
    """A tree for each answer: what shares rows with it are those of so many batches before."""
    windows, last = budget.runs()[0].last + 1, renewal.answers * renewal.window - 1
    return (Run(renewal.answers * windows, last, last),)


def _topped_up(budget: Any, renewal: TopUp) -> tuple[Run, ...]:
    """Every history goes on from one of the first stage."""
    steps = budget.steps
    return (*budget.runs(), Run(1, steps, steps + renewal.then - 1, 1))


FRESH: dict[tuple[type, type], Trees] = {
    (Steps, Fresh): Trees("Counting", _alone),
    (Steps, EveryStep): Trees("Counting", _every_step),
    (Steps, Window): Trees("Rolling test sets", _windows),
    (Steps, TopUp): Trees("Topping up", _topped_up),
    (Memory, Fresh): Trees("Counting", _alone),
    (Reverts, Fresh): Trees("Counting", _alone),
    (Teams, Fresh): Trees("Counting", _alone),
    (Closing, Fresh): Trees("Levels", _alone),
    (Closing, TopUp): Trees("Levels", _alone),
    (Shares, Fresh): Trees("Levels", _alone),
    (Shares, TopUp): Trees("Levels", _alone),
}


def runs_of(budget: Any, renewal: Any) -> tuple[Run, ...]:
    """Return the trees that share delta, where all levels are alike."""
    return FRESH[type(budget), type(renewal)].runs(budget, renewal)


COUNTS: dict[tuple[type, type], str] = {
    **{(shape, Steps): "Counting" for shape in (Flat, Verdict, Climb)},
    **{(shape, Memory): "Counting" for shape in (Flat, Verdict, Climb)},
    **{(shape, Reverts): "Counting" for shape in (Flat, Verdict, Climb)},
    **{(shape, Teams): "Counting" for shape in (Flat, Verdict, Climb)},
    (Verdict, Closing): "Levels",
    (Verdict, Shares): "Levels",
}


def check_pairs(question: Any, budget: Any, sample: Any, renewal: Any) -> None:
    """Refuse what nobody has proved, all of it at once, with what is nearest to it.

    Raises:
        InvalidInput: a table has no row.
    """
    problems = []
    where = Drift if isinstance(renewal, Window) and type(sample) is Rows else type(sample)
    for clauses in question.claims(sample.measured):
        for claim in clauses:
            if (type(claim), where) not in TAILS:
                near = [_on(on) for kind, on in TAILS if kind is type(claim)]
                problems.append(
                    f"no lemma for {_word(type(question))} on {_on(where)}: "
                    f"proved on {', '.join(dict.fromkeys(near)) or 'nothing'}"
                )
    shape = question.shape(sample.measured)
    if (type(shape), type(budget)) not in COUNTS:
        near = [_word(kind) for form, kind in COUNTS if form is type(shape)]
        problems.append(
            f"no lemma for {_word(type(question))} with {_word(type(budget))}: "
            f"proved with {', '.join(near)}"
        )
    if (type(budget), type(renewal)) not in FRESH:
        near = [_word(other) for kind, other in FRESH if kind is type(budget)]
        problems.append(
            f"no lemma for {_word(type(budget))} with {_word(type(renewal))}: "
            f"proved with {', '.join(near)}"
        )
    if problems:
        raise InvalidInput("meter.toml: " + "; ".join(dict.fromkeys(problems)))


def _word(kind: type) -> str:
    return kind.__name__.lower()


def _on(sample: type) -> str:
    return str(getattr(sample, "word", _word(sample)))


def _row(claim: Any, sample: Any, renewal: Any) -> Tail:
    drifts = isinstance(renewal, Window) and type(sample) is Rows
    return TAILS[type(claim), Drift if drifts else type(sample)]


def log_tail(claims: tuple[Any, ...], sample: Any, renewal: Any, n: int) -> float:
    """Return the tail of a claim: of its clauses the largest, not their sum (Lemma T)."""
    found = []
    for claim in claims:
        row = _row(claim, sample, renewal).log_tail
        if row is None:
            raise InvalidInput(f"{_word(type(claim))}: tested at a level, whatever the size is")
        found.append(row(claim, sample, n))
    return max(found)


def has_tail(claim: Any, sample: Any, renewal: Any) -> bool:
    """Whether a claim is planned by its tail, and not at a level."""
    return _row(claim, sample, renewal).log_tail is not None


def longest_walk(shape: Climb) -> int:
    """Return how many steps of a shape are counted one by one."""
    return min(MOST_DEPTH, MOST_WALKED // shape.m)


def enough(claims: tuple[Any, ...], sample: Any, renewal: Any, nats: float) -> int:
    """Return a size from which on the tail of a claim is below -nats, by a closed form."""
    found = []
    for claim in claims:
        row = _row(claim, sample, renewal).enough
        if row is None:
            raise InvalidInput(f"{_word(type(claim))}: tested at a level, whatever the size is")
        found.append(row(claim, sample, nats))
    return max(found)


def work(claims: Sequence[tuple[Any, ...]], sample: Any, renewal: Any, n: int) -> float:
    """Return what the tails of all claims cost at a size, in rows that are summed over."""
    return sum(_row(each, sample, renewal).work(n, len(claims)) for each in claims[0])


def log_counts(shape: Shape, budget: Any, renewal: Any) -> dict[tuple[int, int], float]:
    """Return ln of how many events there are, by stage and claim: closed forms of the recursion."""
    each = budget.of(1) if isinstance(budget, Teams) else budget
    if isinstance(each, Closing | Shares):
        apart = budget.apart if isinstance(budget, Teams) else 1
        return {(0, 0): math.log(apart) - log_of(each.level(each.start))}
    if isinstance(each, Steps) and each.falls:
        return {(0, 0): -log_of(each.level(each.start, shape))}
    if isinstance(budget, Memory) and 0 < budget.memory < budget.steps:
        return _with_memory(shape, budget)
    rows: dict[tuple[int, int], list[float]] = {}
    runs = runs_of(budget, renewal)
    _check_work(shape, runs)
    for run in runs:
        for claim, mass in shape.log_mass(run.first, run.last).items():
            rows.setdefault((run.stage, claim), []).append(mass + math.log(run.times))
    return {at: log_sum(masses) for at, masses in rows.items()}


def _check_work(shape: Shape, runs: Sequence[Run]) -> None:
    """Refuse what takes long to count: anybody may ask a server for a plan."""
    if not isinstance(shape, Climb):
        return
    each = [run.last if shape.walks and run.last < MOST_DEPTH else 1 for run in runs]
    if len(each) > 1 and sum(each) * shape.m > MOST_WALKED:
        most = MOST_WALKED // shape.m
        raise invalid("steps", sum(each), f"counted step by step: at most {most:,} in all")


def _with_memory(shape: Shape, budget: Memory) -> dict[tuple[int, int], float]:
    """At every length, the fewer of the consistent histories and all windows of so many answers.

    Once windows are the fewer, they stay so: the last length is counted as often as there are more.
    """
    steps, memory = budget.steps, budget.memory
    most = MOST_WALKED // shape.m if isinstance(shape, Climb) else MOST_DEPTH
    if memory >= min(most, MOST_DEPTH):
        raise invalid("memory", memory, f"counted step by step: fewer than {most:,}")
    if isinstance(shape, Verdict):
        kept = min(memory, steps)
        windows = 2**kept - 1 + (steps - kept) * 2**kept
        return {(0, 0): log_of(min(2 ** min(steps - 1, 2 * kept + steps.bit_length()), windows))}
    if isinstance(shape, Flat) and shape.alphabet is None:
        raise InvalidInput("memory: no lemma for drawn edges with it: their windows are endless")
    layers: Iterator[Mapping[int, Any]]
    every: Iterator[Mapping[int, Any]]
    if isinstance(shape, Flat):
        layers = ({0: shape.b**length} for length in itertools.count())
        every = ({0: Fraction(shape.alphabet or 1) ** length} for length in itertools.count())
    else:
        layers, every = shape.layers(), shape.layers(shape.m)
    tops = shape.m if isinstance(shape, Climb) else 1
    window: list[Any] = []
    totals: dict[int, Any] = dict.fromkeys(range(tops), 0)
    for length, counts in enumerate(itertools.islice(layers, steps)):
        if length <= memory:
            rows = next(every)
            window = list(itertools.accumulate(rows.get(top, 0) for top in range(tops)))
        up_to = list(itertools.accumulate(counts.get(top, 0) for top in range(tops)))
        least = [min(pair) for pair in zip(up_to, window, strict=True)]
        full = length >= memory and least == window
        for top, (count, below) in enumerate(zip(least, [0, *least], strict=False)):
            totals[top] += (steps - length if full else 1) * (count - below)
        if full:
            break
    return {(0, top): log_of(count) for top, count in totals.items() if count}
