from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.sessions import INCREMENTAL, LIMITED, SPEC, released, session

from easeml_meter.core.signals import ABOVE_CEILING, NO_READING
from easeml_meter.core.views import SessionView, Truth
from easeml_meter.report.checks import checks, summary
from easeml_meter.spec import MeterSpec

losses = st.integers(0, 200).map(lambda count: count / 200)


def told(view: SessionView, step: int, answer: int) -> SessionView:
    """The same session, had another answer been told at one step."""
    signals = tuple(replace(s, answer=answer) if s.step == step else s for s in view.signals)
    return replace(view, signals=signals)


@pytest.mark.parametrize("spec", [SPEC, LIMITED, INCREMENTAL], ids=["plain", "mask", "worst"])
@given(pairs=st.lists(st.none() | st.tuples(losses, losses), min_size=1, max_size=12))
def test_what_the_rules_answer_is_right(
    spec: MeterSpec, pairs: list[tuple[float, float] | None]
) -> None:
    found = checks(released(spec, pairs))
    assert [check.right for check in found] == [None if pair is None else True for pair in pairs]


@pytest.mark.parametrize("answer", [1, 3, 4, 5, ABOVE_CEILING])
def test_another_answer_is_wrong(answer: int) -> None:
    view = told(released(SPEC, [(0.1, 0.11), (0.1, 0.14)]), 2, answer)
    first, second = checks(view)
    assert first.right
    assert second.right is False
    assert second.words == "NO: should be band 2"
    assert summary((first, second)).endswith("call for: step 2.")


def test_at_the_ceiling_is_not_above_it() -> None:
    spec = SPEC.replace(ceiling=0.1)
    assert all(check.right for check in checks(released(spec, [(0.1, 0.1), (0.1, 0.11)])))


def test_an_incremental_meter_never_comes_down() -> None:
    truths = (Truth(0.1, 0.25, 4), Truth(0.1, 0.13, 2), Truth(0.1, 0.1, 1))
    right = checks(session([4, 4, 4], INCREMENTAL, retrospective=truths))
    assert [check.right for check in right] == [True, True, True]
    wrong = checks(session([4, 2, 4], INCREMENTAL, retrospective=truths))
    assert [check.right for check in wrong] == [True, False, False]


def test_where_the_true_loss_was_promised() -> None:
    view = released(SPEC.replace(ceiling=0.4), [(0.0, 0.005), (0.1, 0.5), None])
    first, above, unread = checks(view)
    assert first.true_loss == pytest.approx((0, 0.015))
    assert first.gap == 0.005
    assert above.true_loss is None
    assert (unread.true_loss, unread.gap, unread.right) == (None, None, None)
    assert unread.signal.answer == NO_READING
    assert unread.words == "nothing to check"


def test_tenants_have_maxima_of_their_own() -> None:
    truths = (Truth(0.1, 0.25, 4), Truth(0.1, 0.13, 2))
    view = session([4, 4], INCREMENTAL, retrospective=truths)
    assert [check.right for check in checks(view)] == [True, True]
    other = replace(view.signals[1], tenant=2, answer=4)
    apart = replace(view, signals=(view.signals[0], other))
    assert [check.right for check in checks(apart)] == [True, False]


def test_nothing_is_checked_before_release() -> None:
    assert checks(session([1, 2])) == ()
    assert summary(()) == "No step has losses to check an answer against."


def test_a_signed_gap_is_checked_with_its_sign() -> None:
    (harder,) = checks(released(SPEC.replace(gap="signed"), [(0.5, 0.1)]))
    assert (harder.due, harder.right, harder.gap) == (1, True, 0)
    (absolute,) = checks(released(SPEC, [(0.5, 0.1)]))
    assert (absolute.due, absolute.gap) == (5, 0.4)
