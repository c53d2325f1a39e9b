"""Histories folded from entries: snapshots, hand-overs that join them, and what is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from easeml_meter.core.history import Delivered, Folded, Histories, MeterState, fold, session_view
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, HandOver, MeterRecord, TestSet
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.promise import ledger
from easeml_meter.spec import MeterSpec

ENTRY = Entry("m", 1, 1, 1, "1", "model", "s", 1, "d", "0", "", "2026-01-01")


def delivered(*, extra: int = 0, **options: Any) -> Delivered:
    settings: dict[str, Any] = {"signals": 3, "tolerance": 0.25, "steps": 6, "delta": 0.2}
    spec = MeterSpec.uniform(**(settings | options))
    return Delivered(spec, required_labels(spec).labels + extra)


def entries(*answers: str, tenant: int = 1) -> list[Entry]:
    return [
        replace(ENTRY, tenant=tenant, step=step, answer=answer)
        for step, answer in enumerate(answers, 1)
    ]


def histories(on: Delivered, *lengths: int) -> Histories:
    """Give each tenant a history of so many answers."""
    folded = {
        tenant: fold(on, entries(*["1"] * length, tenant=tenant), tenant)
        for tenant, length in enumerate(lengths, 1)
    }
    return Histories(on, folded)


@pytest.mark.parametrize("options", [{}, {"protocol": "incremental"}], ids=str)
def test_a_fold_is_the_ledgers_and_its_last_step(options: dict[str, Any]) -> None:
    on, answers = delivered(**options), ["1", "2", "2", "3"]
    found = fold(on, entries(*answers), 1)
    assert found == Folded(ledger.fold(on.meter, answers), 4)
    assert fold(on, [], 2) == Folded(ledger.start(on.meter, 2), 0)


def test_a_gap_in_the_steps_is_kept() -> None:
    on = delivered()
    found = fold(on, [ENTRY, replace(ENTRY, step=5)], 1)
    assert (found.at.answers, found.step) == (2, 5)


def test_histories_count_all_answers_and_take_one_more() -> None:
    before = histories(delivered(tenants=(3, 3)), 2, 3)
    assert before.answers == 5
    assert not before.all_spent
    after = before.after(replace(ENTRY, step=3))
    assert (after.answers, after.all_spent) == (6, True)
    assert after.at(1).answers == 3
    assert after.at(2) == before.at(2)
    assert before.answers == 5


def test_who_shares_a_history_draws_on_all_of_it() -> None:
    on = delivered(tenants=(2, 2, 2), extra=60)
    apart = histories(on, 1, 1, 0)
    joined = replace(apart, handovers=[HandOver("m", 1, 1, 2, "now")])
    assert [joined.at(tenant).answers for tenant in (1, 2, 3)] == [2, 2, 0]
    assert joined.at(1) == joined.at(2)
    assert joined.at(3) == apart.at(3)
    assert joined.answers == apart.answers
    after = joined.after(replace(ENTRY, step=2))
    assert [after.at(tenant).answers for tenant in (1, 2, 3)] == [3, 3, 0]


@pytest.mark.parametrize(
    ("steps", "number", "together"),
    [
        (4, 4, "0.95, in the first 4 windows together"),
        (4, 5, "0.9, in the first 8 windows together"),
        (1, 1, "0.95, in the first window"),
        (1, 3, "0.85, in the first 3 windows together"),
    ],
)
def test_a_later_window_is_promised_what_it_shares_with_others_of_its_delta(
    steps: int, number: int, together: str
) -> None:
    """With all before it: nothing is proved of some windows alone."""
    spec = MeterSpec.uniform(tolerance=0.05, steps=steps, delta=0.05, window=3, inputs="public")
    sets = [TestSet("m", each, Phase.ACTIVE, 1, "", rows=3000) for each in range(1, number + 1)]
    state = MeterState.of(MeterRecord("m", "m", spec.to_mapping(), ""), sets, None)
    view = session_view(state, sets[-1], [], None)
    assert view.promise.startswith(f"With probability at least {together}, each model's loss")
    assert state.promise == view.promise
    assert state.assumptions == view.assumptions
