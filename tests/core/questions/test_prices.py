"""What questions cost on one budget, against every order and the best of all developers."""

from __future__ import annotations

import functools
import itertools
import math
import re
from fractions import Fraction

import pytest

from easeml_meter.core.questions.bands import Bands
from easeml_meter.core.questions.gap import GapQuestion
from easeml_meter.core.questions.mixed import Mixed
from easeml_meter.core.questions.passing import PassFail
from easeml_meter.core.questions.planning import Budget, most_steps, required_size
from easeml_meter.core.questions.prices import CLOSED, UNIT, Price, Prices
from easeml_meter.core.questions.question import Question
from easeml_meter.report.words import price_of
from easeml_meter.stats.rounding import at_least, at_most

GAP = GapQuestion(Bands(0.05).spec())
LEVEL = PassFail.parse("n > 0.9 +/- 0.05")
CHANGE = PassFail.parse("n - o > 0 +/- 0.05", disagreement=0.2)
STEPS, DELTA = 6, 0.05


@pytest.fixture(scope="module")
def prices() -> Prices:
    questions = (GAP, LEVEL, CHANGE)
    labels = required_size(Mixed(questions), Budget(STEPS, DELTA)).size
    return Prices(questions, labels, DELTA)


def share(spent: int) -> float:
    return 0.0 if spent == CLOSED else DELTA * math.exp(-spent * UNIT)


def test_no_question_takes_more_than_there_is(prices: Prices) -> None:
    """At each node: its own event, and what its consistent answers leave to all that follows."""
    tails = [math.exp(each.log_tail(prices.labels)) for each in prices.questions]
    for order in itertools.product(range(3), repeat=STEPS):
        spent = 0
        for number in (*order, 1, 1, 1):
            if not prices.allows(spent, number):
                break
            before, spent = share(spent), prices.after(spent, number)
            tail, after = tails[number], share(spent)
            if number:  # a model that can pass wrongly goes on by "fail", any other by both
                assert max(tail + after, 2 * after) <= before
            else:
                assert tail + 2 * after <= before


def test_the_planned_steps_are_there_in_every_order(prices: Prices) -> None:
    assert prices.promised(0) == STEPS
    for order in itertools.product(range(3), repeat=STEPS):
        spent = 0
        for step, number in enumerate(order):
            assert prices.promised(spent) >= STEPS - step
            assert prices.allows(spent, number)
            spent = prices.after(spent, number)


def test_cheap_questions_leave_more_than_dear_ones(prices: Prices) -> None:
    reading, level, change = (prices.price(0, number, "") for number in range(3))
    assert reading.answers == STEPS
    for cheap in (level, change):
        assert cheap.nats == pytest.approx(math.log(2))
        assert cheap.nats < reading.nats
        assert cheap.left > reading.left
        assert cheap.answers > STEPS
    spent = prices.after(0, 0)
    assert prices.price(spent, 1, "").left == pytest.approx(level.left - reading.nats)
    assert prices.battery(0) == 1
    assert 0 < prices.battery(spent) < 1


@pytest.mark.parametrize(("number", "question"), [(0, GAP), (1, LEVEL), (2, CHANGE)])
def test_one_question_alone_gets_the_steps_of_its_own_plan(
    prices: Prices, number: int, question: Question
) -> None:
    alone = most_steps(question, prices.labels, Budget(1, DELTA)).budget.steps
    assert prices.price(0, number, "").answers in (alone, alone + 1)  # the plan is for larger sizes


def test_the_last_answer_to_a_question_says_what_it_takes_from_the_others(prices: Prices) -> None:
    """It may take far more than was left for it: the others lose that, or the test set closes."""
    spent = 0
    while prices.price(spent, 0, "gap").answers > 1:
        assert not prices.price(spent, 0, "gap").closes
        spent = prices.after(spent, 0)
    last, level = prices.price(spent, 0, "gap"), prices.price(spent, 1, "level")
    assert (last.answers, last.closes) == (1, False)
    assert last.nats > last.left
    after = prices.after(spent, 0)
    assert not prices.allows(after, 0)
    assert prices.price(after, 1, "level").left == pytest.approx(level.left - last.nats)
    assert price_of(last) == (
        f"all of the {at_least(last.left, 3)} nats left for it (its last answer, which takes "
        f"{at_most(last.nats, 2)} from the others)"
    )
    while prices.price(after, 1, "level").answers > 1:
        after = prices.after(after, 1)
    final = prices.price(after, 1, "level")
    assert final.closes
    assert price_of(final) == (
        f"all of the {at_least(final.left, 3)} nats left (the last answer: it closes the test set)"
    )


@pytest.mark.parametrize(("nats", "left"), [(1.0981, 1.0995), (0.693, 0.7), (0.7, 0.7000001)])
def test_no_price_is_shown_above_what_is_left_while_answers_follow(
    nats: float, left: float
) -> None:
    words = price_of(Price("gap", nats, left, 2))
    cost, of = re.findall(r"^([0-9.]+) of ([0-9.]+) nats left", words)[0]
    assert nats <= float(cost) <= float(of) <= left


def test_what_is_left_in_the_end_is_nothing(prices: Prices) -> None:
    spent = 0
    while prices.allows(spent, 1):
        spent = prices.after(spent, 1)
    found = prices.price(spent, 1, "level")
    assert (found.nats, found.left, found.answers) == (0, 0, 0)
    assert prices.promised(spent) == 0
    assert prices.price(CLOSED, 0, "").answers == 0
    assert prices.after(CLOSED, 0) == CLOSED


KINDS, EXAMPLES = 4, 4
DATA = list(itertools.product(range(KINDS), repeat=EXAMPLES))
SMALL = (
    GapQuestion(Bands(0.25, 2, (0.5,)).spec()),
    PassFail.parse("n > 0.5 +/- 0.25"),
    PassFail.parse("n - o > 0 +/- 0.5"),
)


@functools.cache
def asked() -> list[set[tuple[int, tuple[int, ...]]]]:
    """Of every model, old model and validation loss: where each question misleads, what it tells.

    Examples are of four kinds; a model is right on some of them.
    """
    found: list[set[tuple[int, tuple[int, ...]]]] = [set(), set(), set()]
    every = (1 << len(DATA)) - 1

    def where(holds: list[bool]) -> int:
        return sum(1 << i for i, each in enumerate(holds) if each)

    quarter = Fraction(1, 4)
    for right in range(1 << KINDS):
        truth = Fraction(right.bit_count(), KINDS)
        seen = [Fraction(sum(right >> row & 1 for row in rows), EXAMPLES) for rows in DATA]
        off = where([abs(each - truth) > quarter for each in seen])
        for claimed in (Fraction(k, 8) for k in range(9)):
            low = where([abs(claimed - each) < 2 * quarter for each in seen])
            found[0].add((off, (low, every & ~low)))
        passed = where([each > 3 * quarter for each in seen])
        found[1].add((passed if truth <= 2 * quarter else 0, (passed, every & ~passed)))
        for old in range(1 << KINDS):
            before = [Fraction(sum(old >> row & 1 for row in rows), EXAMPLES) for rows in DATA]
            pairs = zip(seen, before, strict=True)
            passed = where([new - other > 2 * quarter for new, other in pairs])
            false = truth <= Fraction(old.bit_count(), KINDS)
            found[2].add((passed if false else 0, (passed, every & ~passed)))
    return found


DELTAS = [0.3, 0.4, pytest.param(0.6, marks=pytest.mark.verify)]


@pytest.mark.parametrize("delta", DELTAS)
def test_the_best_of_all_developers_stays_below_delta(delta: float) -> None:
    """It chooses model, old model, validation loss and question from the answers, on all data sets.

    Only questions that the prices allow are answered. The tails are those of this world, the
    smallest that are true, so that many answers follow each other.
    """
    questions = asked()
    tails = [max(wrong.bit_count() for wrong, _ in each) / len(DATA) for each in questions]
    prices = Prices(SMALL, EXAMPLES, delta)
    prices.__dict__["_tails"] = tuple(map(math.log, tails))

    @functools.cache
    def broken(spared: int, spent: int) -> int:
        best = 0
        for number, each in enumerate(questions):
            if not spared or not prices.allows(spent, number):
                continue
            after = prices.after(spent, number)
            for wrong, answers in each:
                found = (spared & wrong).bit_count()
                found += sum(broken(spared & ~wrong & told, after) for told in answers)
                best = max(best, found)
        return best

    best = broken((1 << len(DATA)) - 1, 0) / len(DATA)
    assert max(tails) < best <= delta  # it learns from the answers, and it does not get through
