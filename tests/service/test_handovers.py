"""Hand-over of a checkpoint: shown first, then recorded; the two histories become one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.service.helpers import Session, make_session, small_spec
from tests.service.sharing import TENANTS, made, tenant_spec

from easeml_meter.core.history import sharing
from easeml_meter.core.ledger import Account, Ledger
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import HandOver
from easeml_meter.core.signals import State
from easeml_meter.errors import InvalidInput, Spent, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.handovers import hand_over
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import log_failure, required_labels
from easeml_meter.stats.tails import log_tail


def reachable(signals: int, shares: tuple[int, ...], shared: int) -> int:
    """Count all models that any two developers could submit, by listing every history.

    A model is what is submitted after a history: one's own while isolated, all answers of both in
    their order once they share. Whether and when they share may depend on anything.
    """
    models: set[object] = set()
    for tenant, steps in enumerate(shares):
        for length in range(steps):
            models |= {
                ("alone", tenant, h) for h in itertools.product(range(signals), repeat=length)
            }
    for length in range(shared):
        models |= {("shared", h) for h in itertools.product(range(signals), repeat=length)}
    return len(models)


@pytest.mark.parametrize("extra", [0, 5, 20, 60])
def test_shared_steps_fit_what_the_plan_left(extra: int) -> None:
    spec = tenant_spec()
    ledger = Ledger(spec, required_labels(spec).labels + extra)
    steps = ledger.shared_steps((1, 2))
    tail = math.exp(log_tail(spec.tail, ledger.labels, 0.25, None))
    assert reachable(3, TENANTS, steps) * tail <= spec.session_delta
    if steps < sum(TENANTS):
        assert reachable(3, TENANTS, steps + 1) * tail > spec.session_delta


def test_a_test_set_of_the_planned_size_has_nothing_to_share() -> None:
    spec = tenant_spec()
    assert Ledger(spec, required_labels(spec).labels).shared_steps((1, 2)) == 0


def test_more_tenants_share_less() -> None:
    """Any group could have been the one that shares, so each has a smaller part of delta."""
    two = MeterSpec.uniform(signals=3, tolerance=0.2, steps=8, delta=0.2, tenants=(4, 4))
    four = two.replace(steps=16, tenants=(4, 4, 4, 4))
    assert Ledger(four, 400).shared_steps((1, 2)) <= Ledger(two, 400).shared_steps((1, 2))


def test_incremental_histories_join_at_the_worst() -> None:
    spec = tenant_spec(protocol="incremental")
    ledger = Ledger(spec, 400)
    joined = ledger.merge([Account(1, 2, State(top=2)), Account(2, 1, State(top=3))])
    assert (joined.steps, joined.state.top, joined.group) == (3, 3, (1, 2))
    assert ledger.rules.answers(joined.state) == (3,)
    assert not ledger.may_submit(joined)


def monotone(bands: int, length: int) -> list[tuple[int, ...]]:
    """List what an incremental meter may have told in this many steps."""
    return list(itertools.combinations_with_replacement(range(bands), length))


def test_joint_histories_of_running_maxima_outgrow_one_developers_count() -> None:
    """Why a hand-over on an incremental meter is refused: each tenant brings a maximum."""
    one_developer = len(monotone(3, 4))
    joint = len(set(itertools.product(monotone(3, 2), monotone(3, 2))))
    assert joint > one_developer


def incremental_with_handover(tmp_path: Path) -> Session:
    """Make a session on books that hold a hand-over from before it was refused."""
    session = made(tmp_path, extra=200, protocol="incremental")
    session.submit(0, 0, model="a", tenant=1)
    space = session.meter.workspace
    generation = session.meter.generations[0]
    with space.writing() as books:
        row = HandOver(generation.meter, generation.number, 1, 2, space.now())
        books.handovers.add(row)
    space.journal(generation).append_handover(row)
    return session


@pytest.mark.parametrize("confirm", [False, True])
def test_refused_on_an_incremental_meter(tmp_path: Path, confirm: bool) -> None:
    session = made(tmp_path, extra=200, protocol="incremental")
    session.submit(0, 0, model="a", tenant=1)
    with pytest.raises(InvalidInput, match=r"running maximum.*handover = true") as refused:
        hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=confirm)
    assert "\n" not in str(refused.value)
    assert [session.meter.status(tenant=tenant).steps_left for tenant in (1, 2)] == [2, 3]
    assert session.meter.audit().links[-1].event != "handed over"


def test_the_ledger_has_no_figure_for_shared_running_maxima() -> None:
    ledger = Ledger(tenant_spec(protocol="incremental"), 400)
    with pytest.raises(InvalidInput, match="not on an incremental meter"):
        ledger.shared_steps((1, 2))


def test_books_with_an_older_hand_over_promise_its_members_nothing_more(tmp_path: Path) -> None:
    session = incremental_with_handover(tmp_path)
    session.meter.close()
    with Meter.open(tmp_path / "meter") as meter:
        session.meter = meter
        for tenant in (1, 2):
            shown = meter.status(tenant=tenant)
            assert (shown.steps_left, shown.steps_expected, shown.battery) == (0, 0, 0.0)
            with pytest.raises(Spent):
                session.submit(0, 0, model="b", tenant=tenant)
        assert meter.audit().problems == ()


def test_shown_before_it_is_confirmed(tmp_path: Path) -> None:
    session = made(tmp_path)
    session.submit(0, 0, model="a", tenant=1)
    space = session.meter.workspace
    shown = hand_over(SYSTEM, space, 1, 2)
    assert shown.steps_left_before == (2, 3)
    assert shown.steps_left_after < 5
    assert shown.labels_planned_shared > required_labels(tenant_spec()).labels
    assert str(shown.steps_left_after) in shown.sentence
    assert session.meter.status(tenant=1).steps_left == 2  # nothing has happened
    assert hand_over(SYSTEM, space, 1, 2, confirm=True) == shown
    for tenant in (1, 2):
        assert session.meter.status(tenant=tenant).steps_left == shown.steps_left_after
    assert session.meter.audit().links[-1].event == "handed over"
    assert session.meter.audit().problems == ()


def test_both_spend_the_shared_steps(tmp_path: Path) -> None:
    session = made(tmp_path, extra=20)
    session.submit(0, 0, model="a", tenant=1)
    left = hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=True).steps_left_after
    assert left >= 2
    steps = [session.submit(0, 0, model=f"m{i}", tenant=1 + i % 2).step for i in range(left)]
    assert steps == [[1, 2][i % 2 == 0] + i // 2 for i in range(left)]  # each tenant's own count
    for tenant in (1, 2):
        with pytest.raises(Spent):
            session.submit(1, 1, model="late", tenant=tenant)
    assert session.meter.generations[-1].number == 2  # fresh labels were asked for
    assert session.meter.audit().problems == ()


def test_an_older_database_put_back_remembers_it(tmp_path: Path) -> None:
    session = made(tmp_path)
    session.submit(0, 0, model="a", tenant=1)
    database = tmp_path / "meter" / "meter.db"
    session.meter.close()
    before = database.read_bytes()
    with Meter.open(tmp_path / "meter") as meter:
        left = hand_over(SYSTEM, meter.workspace, 1, 2, confirm=True).steps_left_after
    for name in ("meter.db-wal", "meter.db-shm"):
        (tmp_path / "meter" / name).unlink(missing_ok=True)
    database.write_bytes(before)
    with Meter.open(tmp_path / "meter") as meter:
        session.meter = meter
        told = session.submit(0, 0, model="b", tenant=2)
        assert told.steps_left == left - 1
        assert [link.event for link in meter.audit().links].count("hand-over was missing") == 1


def test_refusals(tmp_path: Path) -> None:
    session = made(tmp_path)
    space = session.meter.workspace
    with pytest.raises(InvalidInput, match="a team other than"):
        hand_over(SYSTEM, space, 1, 1)
    with pytest.raises(InvalidInput, match="from 1 to 2"):
        hand_over(SYSTEM, space, 1, 3, confirm=True)
    hand_over(SYSTEM, space, 1, 2, confirm=True)
    with pytest.raises(InvalidInput, match="already"):
        hand_over(SYSTEM, space, 2, 1, confirm=True)


def test_not_without_a_test_set_in_use(tmp_path: Path) -> None:
    session = made(tmp_path)
    other = tmp_path / "other"
    fresh = Meter.create(other, tenant_spec())
    with pytest.raises(WrongPhase):
        hand_over(SYSTEM, fresh.workspace, 1, 2)
    session.meter.close()


def test_sharing_is_transitive() -> None:
    rows = [HandOver("m", 1, 3, 4, "a"), HandOver("m", 1, 1, 2, "b")]
    assert sharing(1, rows) == (1, 2)
    assert sharing(4, [*rows, HandOver("m", 1, 2, 3, "c")]) == (1, 2, 3, 4)
    assert sharing(5, rows) == (5,)


def test_log_failure_is_the_planners() -> None:
    """The slack used is the one the planner's own inequality leaves."""
    spec = tenant_spec()
    ledger = Ledger(spec, 300)
    from easeml_meter.stats import counting

    assert ledger._log_total == log_failure(spec, counting.log_models(spec), 300)


def stuck(tmp_path: Path) -> Session:
    """Make a session as the version before left it: nothing left, and still active."""
    session = made(tmp_path, extra=0)
    session.submit(0, 0, model="a", tenant=1)
    space, (generation,) = session.meter.workspace, session.meter.generations
    with space.writing() as books:
        row = HandOver(generation.meter, generation.number, 1, 2, space.now())
        books.handovers.add(row)
    space.journal(generation).append_handover(row)
    assert session.meter.generations[-1].phase is Phase.ACTIVE
    return session


def test_a_hand_over_that_leaves_nothing_spends_the_test_set(tmp_path: Path) -> None:
    """Before, the meter stayed active for ever: nothing to answer, release or deliver."""
    session = made(tmp_path, extra=0)
    session.submit(0, 0, model="a", tenant=1)
    shown = hand_over(SYSTEM, session.meter.workspace, 1, 2)
    assert (shown.steps_left_after, shown.spends) == (0, True)
    assert "Test set 1 will be spent." in shown.sentence
    hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=True)
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.REQUESTED]
    assert session.meter.audit().problems == ()
    session.meter.release()


def test_a_hand_over_leaves_the_test_set_to_a_third_team(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(steps=6, tenants=(2, 2, 2)))
    shown = hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=True)
    assert (shown.steps_left_after, shown.spends) == (0, False)
    with pytest.raises(Spent):
        session.submit(0, 0, model="a", tenant=1)
    for model in ("b", "c"):
        session.submit(0, 0, model=model, tenant=3)
    assert [row.phase for row in session.meter.generations] == [Phase.SPENT, Phase.REQUESTED]


def submitted(session: Session) -> None:
    with pytest.raises(Spent, match="no answer left"):
        session.submit(0, 0, model="b", tenant=2)


@pytest.mark.parametrize(
    "action",
    [submitted, lambda session: session.meter.requests(), lambda session: session.meter.release()],
    ids=["submit", "requests", "release"],
)
def test_a_meter_that_was_left_with_nothing_recovers(
    tmp_path: Path, action: Callable[[Session], object]
) -> None:
    session = stuck(tmp_path)
    action(session)
    phases = [row.phase for row in session.meter.generations]
    assert phases[0] in (Phase.SPENT, Phase.RELEASED)
    assert phases[1:] == [Phase.REQUESTED]
    assert session.meter.audit().problems == ()
