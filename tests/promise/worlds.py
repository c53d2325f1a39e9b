"""Small worlds: one developer who plays exactly optimally against the rule of any meter.

Rows have coins as labels. The developer knows the coins, all models, all validation losses and
every answer, and no label. `solve` returns the largest chance that some promise breaks, and the
bound: the recursion of the theorem, with the largest chance at each state that one node breaks one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from easeml_meter.promise import ledger
from easeml_meter.promise.alarm import Alarm, claim_of
from easeml_meter.promise.condition import Condition
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.keep import Keep
from easeml_meter.promise.kernel import HALF
from easeml_meter.promise.ledger import Snapshot
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.questions import Measured, Shown
from easeml_meter.promise.shapes import Answer, Cell, Climb, Flat, State, heaviest

Node = tuple[tuple[int, ...], Fraction]
Truth = tuple[Fraction, Fraction]


def answer(meter: Meter, at: Snapshot, rows: Measured) -> Answer:
    """The meter's own rule; where it may not be asked, nothing is told."""
    question, level = meter.question, ledger.level(meter, at)
    if isinstance(question, Alarm):
        g = ledger.margin(meter, at, rows.shown)
        return "alarm" if g is None else question.answer(at.told, rows, level, g)
    asked = meter.asked
    if isinstance(asked, Alarm):
        raise AssertionError("a meter that raises alarms is one of alarms")
    return asked.answer(at.told, rows, level)


def broken(meter: Meter, at: Snapshot, told: Answer, rows: Measured, truth: Truth) -> bool:
    """Whether what was told is false of this truth: its loss, and its gain over the old model."""
    question, (loss, gain) = meter.question, truth
    if rows.loss is None:
        raise AssertionError("models of small worlds never fail")
    if isinstance(question, Gap):
        if not told.isdecimal():
            eps = question.tolerance[0]
            return question.merges and loss < (question.limit or 0) - eps
        eps = question.tolerance[min(int(told), len(question.tolerance)) - 1]
        return abs(rows.loss - loss) > eps
    if isinstance(question, Alarm):
        g = ledger.margin(meter, at, rows.shown) or Fraction(0)
        return told == "ok" and loss > claim_of(rows.shown, g)
    if isinstance(question, Keep):
        return told == "keep" and gain <= 0
    if isinstance(question, Condition):
        shares = [clause.share for clause in question.clauses.clauses]
        return told == "pass" and any(1 - loss <= share for share in shares)
    raise TypeError(question)


def solve(  # noqa: PLR0915 - one world, whose parts share its data
    meter: Meter, coins: Sequence[Fraction], steps: int, grid: Sequence[Fraction]
) -> tuple[Fraction, Fraction]:
    """Return the exact optimum of all developers, and what the theorem allows them."""
    question, shape, budget = meter.question, meter.shape, ledger._levels(meter, 1)
    n = len(coins)
    labels = list(itertools.product((0, 1), repeat=n))
    weights = [
        math.prod((c if y else 1 - c for c, y in zip(coins, row, strict=True)), start=Fraction(1))
        for row in labels
    ]
    old = labels[0]
    draws: list[Fraction | None] = [None]
    if isinstance(question, Gap) and question.drawn is not None:
        draws = [question.drawn * k / 4 for k in range(4)]
    nodes: list[Node] = [(model, v) for model in labels for v in grid]

    @cache
    def mass(rows: int) -> Fraction:
        return sum((w for i, w in enumerate(weights) if rows >> i & 1), Fraction(0))

    def loss_of(model: Sequence[int]) -> Fraction:
        wrong = ((1 - c) if guess else c for guess, c in zip(model, coins, strict=True))
        return sum(wrong, Fraction(0)) / n

    def measured(node: Node, truth: tuple[int, ...], edge: Fraction | None) -> Measured:
        model, v = node
        triples = list(zip(model, truth, old, strict=True))
        errors = sum(a != y for a, y, _ in triples)
        wins = sum(a == y != o for a, y, o in triples)
        losses = sum(o == y != a for a, y, o in triples)
        return Measured(Shown(n, v, n, edge), Fraction(errors, n), errors, wins, losses)

    @cache
    def parts(
        node: Node, edge: Fraction | None, told: int, spent: State, asked: int
    ) -> dict[Answer, tuple[int, int]]:
        """For each answer: the data that leaves its promise kept, and that which breaks it."""
        at, loss = Snapshot(told, spent, asked), loss_of(node[0])
        truth = (loss, loss_of(old) - loss)
        found: dict[Answer, tuple[int, int]] = {}
        for i, row in enumerate(labels):
            rows = measured(node, row, edge)
            said = answer(meter, at, rows)
            kept, bad = found.get(said, (0, 0))
            is_bad = broken(meter, at, said, rows, truth)
            found[said] = (kept, bad | 1 << i) if is_bad else (kept | 1 << i, bad)
        if edge is None:  # the answers that keep the promise lie in one cell of the shape
            keeping = {said for said, (kept, _) in found.items() if kept}
            breaks = any(bad for _, bad in found.values())
            assert any(_holds(cell, keeping, breaks) for cell in shape.cells(told))
        return found

    def _holds(cell: Cell, keeping: set[Answer], breaks: bool) -> bool:
        if cell.claim is None and breaks:
            return False
        if isinstance(shape, Flat):
            return len(keeping) <= shape.b
        names = {"no": ("alarm", "fail", "discard"), "yes": ("ok", "pass", "keep")}
        allowed = {name for lead in cell.leads for name in names.get(lead, (lead,))}
        return keeping <= allowed | ({"above-ceiling"} if isinstance(shape, Climb) else set())

    @cache
    def value(rows: int, told: int, spent: State, asked: int) -> Fraction:
        at = Snapshot(told, spent, asked)
        if not rows or asked == steps or not ledger.may(meter, at) or not ledger.level(meter, at):
            return Fraction(0)
        best = Fraction(0)
        for node in nodes:
            total = Fraction(0)
            for edge in draws:
                for said, (kept, bad) in parts(node, edge, told, spent, asked).items():
                    total += mass(rows & bad)
                    if rows & kept:
                        after = ledger.step(meter, at, said)
                        total += value(rows & kept, after.told, after.spent, asked + 1)
            best = max(best, total / len(draws))
        return best

    def tail(claim: int, spent: State) -> Fraction:
        told = claim if isinstance(shape, Climb) else 0
        asked = spent[0] if isinstance(spent, tuple) and len(spent) != 4 else 0
        asked = spent[2] if isinstance(spent, tuple) and len(spent) == 4 else asked
        if not ledger.level(meter, Snapshot(told, spent, asked)):
            return Fraction(0)
        return max(
            sum((mass(bad) for _, bad in parts(node, edge, told, spent, asked).values()), HALF * 0)
            for node in nodes
            for edge in draws
        )

    best = value((1 << len(labels)) - 1, shape.start, budget.start, 0)
    return best, Fraction(heaviest(shape, budget, steps, cache(tail)))
