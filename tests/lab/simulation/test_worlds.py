"""Counts over cells have the law of single examples, and true losses are what is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency, ks_2samp
from tests.lab.simulation.bits import Bits

from easeml_meter.errors import InvalidInput
from easeml_meter.lab.simulation.arena import Arena
from easeml_meter.lab.simulation.behaviours import Blocks
from easeml_meter.lab.simulation.developers import DEVELOPERS
from easeml_meter.lab.simulation.players import Player
from easeml_meter.lab.simulation.worlds import Cells, Floats, World, grade_law, world_of
from easeml_meter.promise.meter import Meter
from easeml_meter.spec import MeterSpec

LABELS = 60
SESSIONS = 1500
SURE = 1e-4
"""A p-value below this is no accident; seeds are fixed, so none happens later."""


def meter(loss: str = "brier") -> Meter:
    return MeterSpec.uniform(signals=3, tolerance=0.1, steps=5, delta=0.1, loss=loss).meter


def played(meter: Meter, world: World, developer: str, examples: type[Cells]) -> Floats:
    rng = np.random.default_rng([11, len(developer), examples is Bits])
    return DEVELOPERS[developer].run(meter, LABELS, world, rng, SESSIONS, examples=examples).strain


WORLDS = {
    "coins": World(0.45, 0.4),
    "coins, downward": World(0.3, 0.35, upward=False),
    "correlated": World(0.5, 0.5, share=0.3),
    "graded": World(0.45, 0.5, grades=4),
    "graded, correlated": World(0.4, 0.4, share=0.5, grades=2),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
@pytest.mark.parametrize("developer", ["independent", "climber", "threshold", "forgetful"])
def test_sessions_have_the_law_of_single_examples(world: World, developer: str) -> None:
    ours, plain = (played(meter(), world, developer, kind) for kind in (Cells, Bits))
    assert ks_2samp(ours, plain).pvalue > SURE


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
def test_cells_have_the_law_of_single_examples(world: World) -> None:
    """Score two models, then look at the joint law of the third and of the combination."""

    def counts(examples: type[Cells]) -> tuple[Floats, Floats]:
        cells = examples(world, 8, 4000, np.random.default_rng([3, examples is Bits]))
        for weight in (2, -1):
            cells.fresh()
            cells.vote(np.full(4000, weight))
        cells.fresh()
        return cells.last().test, cells.combined().test

    tables = []
    for kind in (Cells, Bits):
        last, combined = counts(kind)
        together = np.rint(8 * combined).astype(int) * 3 + np.digitize(last, [0.3, 0.5])
        tables.append(np.bincount(together, minlength=27))
    both = np.array(tables)
    assert chi2_contingency(both[:, both.sum(axis=0) > 10]).pvalue > SURE


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
def test_the_true_loss_is_what_an_endless_test_set_shows(world: World) -> None:
    cells = Cells(world, 10**8, 20, np.random.default_rng(5))
    for weight in (1, -2, 3):
        cells.fresh()
        assert cells.last().test == pytest.approx(cells.last().true, abs=5e-4)
        cells.vote(np.full(20, weight))
    assert cells.combined().true == pytest.approx(world.target)
    assert cells.combined().test == pytest.approx(cells.combined().true, abs=5e-4)
    cells.fresh(np.linspace(0.1, 0.9, 20), share=0.5)
    expected = (np.linspace(0.1, 0.9, 20) + world.loss) / 2
    assert cells.last().true == pytest.approx(expected)
    assert cells.last().test == pytest.approx(cells.last().true, abs=5e-4)
    cells.forget()
    assert cells.last().true == pytest.approx(expected)


@pytest.mark.parametrize("grades", [1, 2, 4, 5])
def test_grades_have_the_mean_asked_for(grades: int) -> None:
    means = np.array([0.01, 0.3, 0.5, 0.97])
    law = grade_law(means, grades)
    assert law.sum(axis=1) == pytest.approx(1)
    assert law @ np.arange(grades + 1) / grades == pytest.approx(means)


@pytest.mark.parametrize("eps", [0.01, 0.1, 0.3, 0.7])
@pytest.mark.parametrize("labels", [97, 1000])
def test_one_more_error_breaks_the_promise_where_it_hurts_most(eps: float, labels: int) -> None:
    spec = MeterSpec.uniform(signals=2, tolerance=eps, steps=1, delta=0.1)
    world = world_of(spec.meter, labels)
    beyond = np.arange(labels + 1) / labels - world.loss
    first = beyond[beyond > eps].min() if world.loss + eps < 1 else eps
    assert eps < first < eps * (1 + 1e-6) + 1e-9


def test_with_a_ceiling_models_just_above_it_look_as_if_they_were_below() -> None:
    spec = MeterSpec.uniform(signals=2, tolerance=0.05, steps=1, delta=0.1, ceiling=0.1)
    world = world_of(spec.meter, 1000)
    assert not world.upward
    assert world.loss == 0.1
    assert world.target == pytest.approx(0.15)
    assert world.target - 0.1 > 0.05
    assert world_of(spec.replace(ceiling=0.48).meter, 1000).upward


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "moon"}, "world: 'moon' given, one of coins, correlated, graded"),
        ({"kind": "coins", "share": 0.5}, "share: 0.5 given, only for the correlated world"),
        ({"kind": "correlated", "share": 0.0}, "share: 0.0 given, a share above 0, up to 1"),
        ({"loss": 1.0}, "true loss: 1.0 given, a number between 0 and 1 (both excluded)"),
        ({"loss": float("nan")}, "true loss: nan given, a number between 0 and 1 (both excluded)"),
    ],
)
def test_worlds_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        world_of(meter(), 100, **options)
    assert str(caught.value) == message


def test_graded_losses_need_a_meter_for_them() -> None:
    with pytest.raises(InvalidInput, match='not "0-1"'):
        world_of(meter("0-1"), 100, "graded")


@pytest.mark.parametrize("grades", [1, 4])
def test_blocks_without_an_answer_are_a_coin(grades: int) -> None:
    """One signal tells nothing: the last model errs on a random half of all examples."""
    spec = MeterSpec.uniform(signals=1, tolerance=0.1, steps=4, delta=0.1, loss="brier")
    desk = Arena(spec.meter, LABELS, 4000)
    cells = Cells(World(0.5, 0.5, grades=grades), LABELS, 4000, np.random.default_rng(2))
    blocks = Blocks(Player(desk, cells), 3)
    everyone = np.ones(4000, dtype=np.bool_)
    for _ in range(3):
        blocks.ask(everyone)
    errors = np.rint(blocks.combined().test * LABELS).astype(int)
    expected = np.random.default_rng(3).binomial(LABELS, 0.5, 4000)
    assert ks_2samp(errors, expected).pvalue > SURE


@pytest.mark.parametrize("grades", [1, 4])
def test_blocks_gain_what_theory_says(grades: int) -> None:
    """A bit for each of K blocks moves the last model by sqrt(2K / pi) standard deviations.

    The mean of |z| is sqrt(2/pi), and the size of a block is known, so the bit tells of z alone.
    """
    spec = MeterSpec.uniform(signals=2, tolerance=0.1, steps=101, delta=0.1, loss="brier")
    desk = Arena(spec.meter, 10_000, 400)
    cells = Cells(World(0.5, 0.5, grades=grades), 10_000, 400, np.random.default_rng(2))
    blocks = Blocks(Player(desk, cells), 100)
    for _ in range(100):
        blocks.ask(np.ones(400, dtype=np.bool_))
    moved = (blocks.combined().test - 0.5).mean() / (0.5 / 100)
    assert moved == pytest.approx(np.sqrt(200 / np.pi), rel=0.05)
