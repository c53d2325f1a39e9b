"""Hand-over of a checkpoint: shown first, then recorded; the two histories become one."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import pytest
from tests.promise.sums import log_failure
from tests.service.helpers import Clock, Session, make_session, older_books, small_spec
from tests.service.sharing import TENANTS, made, tenant_spec

from easeml_meter.core.history import sharing
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import HandOver
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.errors import Denied, InvalidInput, NotFound, Spent, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.promise import ledger
from easeml_meter.promise.ledger import shared_steps
from easeml_meter.promise.numbers.tails import log_tail
from easeml_meter.report.badges import badge_json
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.handovers import answer_handover, hand_over, list_handovers
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.journal import Journal


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
    labels = required_labels(spec).labels + extra
    steps = shared_steps(spec.meter, labels, (1, 2))
    tail = math.exp(log_tail(spec.tail, labels, 0.25, None))
    assert reachable(3, TENANTS, steps) * tail <= spec.session_delta
    if steps < sum(TENANTS):
        assert reachable(3, TENANTS, steps + 1) * tail > spec.session_delta


def test_a_test_set_of_the_planned_size_has_nothing_to_share() -> None:
    spec = tenant_spec()
    assert shared_steps(spec.meter, required_labels(spec).labels, (1, 2)) == 0


def test_more_tenants_share_less() -> None:
    """Any group could have been the one that shares, so each has a smaller part of delta."""
    two = MeterSpec.uniform(signals=3, tolerance=0.2, steps=8, delta=0.2, tenants=(4, 4))
    four = two.replace(steps=16, tenants=(4, 4, 4, 4))
    assert shared_steps(four.meter, 400, (1, 2)) <= shared_steps(two.meter, 400, (1, 2))


def test_incremental_histories_join_at_the_worst() -> None:
    meter = tenant_spec(protocol="incremental").meter
    teams = [ledger.fold(meter, ["1", "2"], 1), ledger.fold(meter, ["3"], 2)]
    joined = ledger.joined(meter, 400, teams)
    assert (joined.answers, joined.told, joined.group) == (3, 2, (1, 2))
    assert ledger.answers(meter, joined) == ("3",)


@lru_cache
def joint_models(tops: tuple[int, ...], bands: int, steps: int) -> int:
    """Count the models after the largest tree of joint answers: anyone may be asked next."""
    if steps == 0:
        return 0
    return 1 + max(
        sum(
            joint_models((*tops[:member], answer, *tops[member + 1 :]), bands, steps - 1)
            for answer in range(top, bands + 1)
        )
        for member, top in enumerate(tops)
    )


def test_joint_histories_of_running_maxima_outgrow_one_developers_count() -> None:
    """A hand-over used to be counted so: each tenant brings a maximum of its own."""
    one_developer = joint_models((1,), 3, 5)
    joint = joint_models((1, 1), 3, 5)
    assert one_developer < joint


@pytest.mark.parametrize("bands", [2, 3])
@pytest.mark.parametrize("tenants", [2, 3])
def test_shared_steps_cover_the_joint_histories_of_running_maxima(bands: int, tenants: int) -> None:
    """Every group could hand over, each at any time: all of them fit into delta."""
    spec = MeterSpec.uniform(
        signals=bands,
        tolerance=[0.2, 0.3, 0.4][:bands],
        steps=3 * tenants,
        delta=0.2,
        tenants=(3,) * tenants,
        protocol="incremental",
    )
    most = set()
    for labels in range(required_labels(spec).labels, 400, 20):
        failure = math.exp(log_failure(spec, labels))
        for size in range(2, tenants + 1):
            for group in itertools.combinations(range(1, tenants + 1), size):
                steps = shared_steps(spec.meter, labels, group)
                most.add((size, steps))
                shared = joint_models((1,) * size, bands, steps)
                failure += shared * math.exp(log_tail(spec.tail, labels, 0.2, None))
        assert failure <= spec.session_delta
    assert {(size, 3 * size) for size in range(2, tenants + 1)} <= most


def test_teams_of_an_incremental_meter_share_what_fits(tmp_path: Path) -> None:
    session = made(tmp_path, extra=200, protocol="incremental")
    session.submit(0, 0, model="a", tenant=1)
    left = hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=True).steps_left_after
    assert left >= 2
    for step in range(left):
        session.submit(0, 0, model=f"m{step}", tenant=1 + step % 2)
    for tenant in (1, 2):
        with pytest.raises(Spent):
            session.submit(1, 1, model="late", tenant=tenant)
    assert session.meter.audit().problems == ()


def test_the_running_maximum_of_one_team_is_told_to_the_other(tmp_path: Path) -> None:
    session = made(tmp_path, extra=200, protocol="incremental")
    worst = session.submit(len(session.test_labels) // 5, 0, model="bad", tenant=1)
    assert session.submit(0, 0, model="good", tenant=2).answer == 1
    hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=True)
    assert session.submit(0, 0, model="better", tenant=2).answer == worst.answer > 1


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
    recorded = hand_over(SYSTEM, space, 1, 2, confirm=True)
    assert recorded == replace(shown, agreed=(1, 2), recorded=True)
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


@pytest.mark.parametrize("protocol", ["regular", "incremental"])
def test_the_history_says_what_was_left_then_to_all_who_shared_it(
    tmp_path: Path, protocol: str
) -> None:
    session = made(tmp_path, extra=200, protocol=protocol)
    told = [session.submit(0, 0, model="a", tenant=1), session.submit(1, 0, model="b", tenant=2)]
    hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=True)
    told += [session.submit(2, 0, model="c", tenant=1), session.submit(3, 0, model="d", tenant=2)]
    for tenant in (1, 2):
        view = session.meter.status(tenant=tenant)
        then = {signal.model: (signal.steps_left, signal.battery) for signal in view.signals}
        assert then == {
            each.model: (each.steps_left, each.battery) for each in told if each.tenant == tenant
        }
    view = session.meter.status(tenant=1)
    assert view.steps_left < view.signals[-1].steps_left  # the other team took one since
    assert f"{view.steps_left} step" in json.loads(badge_json(view))["message"]


def test_a_clock_that_is_set_back_leaves_a_shared_history_in_the_order_of_its_steps(
    tmp_path: Path,
) -> None:
    """The losses of a released test set stand beside its answers in that order."""
    session = made(tmp_path, extra=200)
    told = [session.submit(0, 0, model="a", tenant=1)]
    hand_over(SYSTEM, session.meter.workspace, 1, 2, confirm=True)
    told.append(session.submit(1, 0, model="b", tenant=1))
    clock = session.meter.workspace.clock
    assert isinstance(clock, Clock)
    clock.moment -= timedelta(hours=1)
    told.append(session.submit(2, 0, model="c", tenant=1))
    view = session.meter.status(tenant=1)
    left = [(signal.model, signal.step, signal.steps_left) for signal in view.signals]
    assert left == [(each.model, each.step, each.steps_left) for each in told]


def test_an_older_database_put_back_remembers_it(tmp_path: Path) -> None:
    session = made(tmp_path)
    session.submit(0, 0, model="a", tenant=1)
    session.meter.close()
    with older_books(tmp_path), Meter.open(tmp_path / "meter") as meter:
        left = hand_over(SYSTEM, meter.workspace, 1, 2, confirm=True).steps_left_after
    with Meter.open(tmp_path / "meter") as meter:
        session.meter = meter
        told = session.submit(0, 0, model="b", tenant=2)
        assert told.steps_left == left - 1
        assert [link.event for link in meter.audit().links].count("hand-over was missing") == 1


def test_a_hand_over_whose_line_was_cut_off_is_added_by_the_next_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash came after the commit, then an answer, then an older database."""
    session = made(tmp_path)
    session.submit(0, 0, model="a", tenant=1)
    session.meter.close()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with older_books(tmp_path), Meter.open(tmp_path / "meter") as meter:
        session.meter = meter
        with monkeypatch.context() as broken:
            broken.setattr(Journal, "append_handover", crash)
            with pytest.raises(KeyboardInterrupt):
                hand_over(SYSTEM, meter.workspace, 1, 2, confirm=True)
        left = session.submit(0, 0, model="b", tenant=2).steps_left
    with Meter.open(tmp_path / "meter") as meter:
        session.meter = meter
        assert session.submit(1, 0, model="c", tenant=2).steps_left == left - 1
        assert [link.event for link in meter.audit().links].count("hand-over was missing") == 1


def test_refusals(tmp_path: Path) -> None:
    session = made(tmp_path)
    space = session.meter.workspace
    with pytest.raises(InvalidInput, match="a team other than"):
        hand_over(SYSTEM, space, 1, 1)
    with pytest.raises(InvalidInput, match="from 1 to 2"):
        hand_over(SYSTEM, space, 1, 3, confirm=True)
    done = hand_over(SYSTEM, space, 1, 2, confirm=True)
    with pytest.raises(InvalidInput, match="already"):
        hand_over(SYSTEM, space, 2, 1, confirm=True)
    length = len(events(session))
    assert hand_over(SYSTEM, space, 1, 2, confirm=True) == done  # done already
    assert answer_handover(SYSTEM, space, 1, 2, accept=True) == done
    assert len(events(session)) == length


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


def stuck(tmp_path: Path) -> Session:
    """Make a session whose hand-over only the journal and a table know of: still active."""
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


def developer(team: int) -> Actor:
    return Actor(((Role.DEVELOPER, team),), user=f"user{team}")


ADMIN = Actor(((Role.ADMIN, 0),), user="admin")


def events(session: Session) -> list[str]:
    return [link.event for link in session.meter.audit().links]


def test_a_hand_over_spends_no_budget_without_the_other_teams_consent(tmp_path: Path) -> None:
    """Before, one developer could spend the budget of another team alone."""
    session = made(tmp_path)
    space = session.meter.workspace
    asked = hand_over(developer(1), space, 1, 2, confirm=True)
    assert (asked.recorded, asked.agreed, asked.waiting_for) == (False, (1,), (2,))
    for tenant in (1, 2):
        shown = session.meter.status(tenant=tenant)
        assert (shown.steps_left, shown.sharing, shown.handovers) == (3, (), (asked,))
    assert hand_over(developer(1), space, 1, 2, confirm=True) == asked  # asking twice is no consent
    assert events(session).count("hand-over requested") == 1
    done = answer_handover(developer(2), space, 1, 2, accept=True)
    assert done == replace(asked, agreed=(1, 2), recorded=True)
    for tenant in (1, 2):
        shown = session.meter.status(tenant=tenant)
        assert (shown.steps_left, shown.sharing) == (done.steps_left_after, (1, 2))
        assert shown.handovers == ()
    assert events(session)[-1] == "handed over"
    assert session.meter.audit().links[-1].details["user"] == "user2"
    assert session.meter.audit().problems == ()


def test_both_teams_requesting_it_agree(tmp_path: Path) -> None:
    session = made(tmp_path)
    hand_over(developer(1), session.meter.workspace, 1, 2, confirm=True)
    assert hand_over(developer(2), session.meter.workspace, 2, 1, confirm=True).recorded


@pytest.mark.parametrize(
    "who", [developer(1), developer(2), ADMIN], ids=["asker", "other", "admin"]
)
def test_a_request_is_declined_or_withdrawn(tmp_path: Path, who: Actor) -> None:
    session = made(tmp_path)
    space = session.meter.workspace
    hand_over(developer(1), space, 1, 2, confirm=True)
    declined = answer_handover(who, space, 1, 2, accept=False)
    assert answer_handover(who, space, 1, 2, accept=False) == declined  # done already
    assert list_handovers(ADMIN, space) == []
    with pytest.raises(NotFound, match="nobody has requested it"):
        answer_handover(developer(2), space, 1, 2, accept=True)
    assert session.meter.status(tenant=2).steps_left == 3
    assert events(session)[-1] == "hand-over declined"


def test_an_admin_agrees_for_every_team(tmp_path: Path) -> None:
    session = made(tmp_path)
    hand_over(developer(1), session.meter.workspace, 1, 2, confirm=True)
    assert answer_handover(ADMIN, session.meter.workspace, 1, 2, accept=True).recorded


def test_every_team_that_would_share_has_to_agree(tmp_path: Path) -> None:
    """Team 3 shares with team 2: it loses as much as they do."""
    session = make_session(tmp_path, small_spec(steps=6, tenants=(2, 2, 2)))
    space = session.meter.workspace
    hand_over(developer(1), space, 1, 2, confirm=True)
    with pytest.raises(Denied, match="neither is yours"):
        answer_handover(developer(3), space, 1, 2, accept=True)
    assert list_handovers(developer(3), space) == []
    hand_over(SYSTEM, space, 2, 3, confirm=True)
    (waiting,) = list_handovers(developer(3), space)
    assert (waiting.sharing, waiting.waiting_for) == ((1, 2, 3), (2, 3))
    assert answer_handover(developer(2), space, 1, 2, accept=True).waiting_for == (3,)
    assert events(session)[-1] == "hand-over agreed"
    done = answer_handover(developer(3), space, 1, 2, accept=True)
    assert (done.recorded, done.spends) == (True, True)
    assert session.meter.generations[0].phase is Phase.SPENT


def test_a_request_ends_with_its_test_set(tmp_path: Path) -> None:
    session = made(tmp_path)
    space = session.meter.workspace
    hand_over(developer(1), space, 1, 2, confirm=True)
    session.meter.retire()
    assert list_handovers(ADMIN, space) == []
    assert session.meter.status(generation=1, tenant=2).handovers == ()
    with pytest.raises(Spent):
        answer_handover(developer(2), space, 1, 2, accept=True)


ANSWER = """
import sys
from pathlib import Path
from easeml_meter.core.people import Role
from easeml_meter.errors import MeterError
from easeml_meter.service.actor import Actor
from easeml_meter.service.handovers import answer_handover
from easeml_meter.service.place import Workspace

space, accept = Workspace.open(Path(sys.argv[1])), sys.argv[2] == "True"
space.store
print("ready", flush=True)
sys.stdin.read()
try:
    done = answer_handover(Actor(((Role.DEVELOPER, 2),)), space, 1, 2, accept=accept)
    print(done.recorded)
except MeterError as error:
    print(type(error).__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("accepts", [(True, True), (True, False)], ids=["twice", "or not"])
def test_two_processes_that_answer_at_the_same_time_count_once(
    tmp_path: Path, accepts: tuple[bool, bool]
) -> None:
    session = made(tmp_path)
    hand_over(developer(1), session.meter.workspace, 1, 2, confirm=True)
    session.meter.close()
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", ANSWER, str(tmp_path / "meter"), str(accept)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for accept in accepts
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.stdin = None
    outcomes = {worker.communicate(timeout=120)[0].strip() for worker in workers}
    with Meter.open(tmp_path / "meter") as meter:
        told = [link.event for link in meter.audit().links]
        recorded = told.count("handed over")
        assert meter.audit().problems == ()
        assert len(meter.workspace.journal(meter.generations[0]).handovers()) == recorded
        assert meter.handovers() == []
    # The second one finds it done already, or the request gone.
    if accepts == (True, True):
        assert (recorded, outcomes) == (1, {"True"})
    else:
        assert recorded + told.count("hand-over declined") == 1
        assert outcomes == ({"True", "InvalidInput"} if recorded else {"False", "NotFound"})
