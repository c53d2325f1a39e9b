"""What is decided under the lock: the old model, and how often a token is answered."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forms import archived, command
from tests.server.driving import begin, submission
from tests.server.driving import submit as submit_there
from tests.server.helpers import SQLITE, Served, serve
from tests.service.helpers import (
    Clock,
    Labels,
    Session,
    StoppedClock,
    actor_of,
    condition_spec,
    deliver,
    make_session,
    older_books,
    small_spec,
    with_errors,
    write_predictions,
)

from easeml_meter.core.model import Event, stamp
from easeml_meter.core.people import Role
from easeml_meter.core.views import Signal
from easeml_meter.errors import Denied, InvalidInput, Spent, TooSoon, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.report.page import html_page
from easeml_meter.report.terminal import session_terminal
from easeml_meter.server.settings import Settings
from easeml_meter.service import tokens
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.service.place import Site, Workspace
from easeml_meter.service.submissions import answering, deciding, queue
from easeml_meter.service.submissions.deciding import DAY, Paces
from easeml_meter.service.submissions.kinds import unpack
from easeml_meter.storage import schema
from easeml_meter.storage.journal import Journal


def compared(tmp_path: Path, **options: Any) -> Session:
    settings = {"question": "n - o > 0.1 +/- 0.2", "steps": 4, "inputs": "public"}
    return make_session(tmp_path, condition_spec(**(settings | options)))


def submit(session: Session, right: float, model: str, **options: Any) -> Signal:
    """Submit a model that is right on a share of the rows, the same ones first."""
    labels = session.test_labels
    wrong = labels.copy()
    wrong[round(right * len(labels)) :] ^= 1
    test, validation = (session.folder / f"{part}-{model}.parquet" for part in ("t", "v"))
    write_predictions(test, wrong, model)
    write_predictions(validation, session.validation_labels, model)
    options.setdefault("baseline", not session.meter.status().signals)
    return session.meter.submit(test, validation, model=model, **options)


def test_the_first_model_is_compared_with_by_all_others_and_is_free(tmp_path: Path) -> None:
    session = compared(tmp_path)
    first = submit(session, 0.5, "deployed")
    assert (first.name, first.passed, first.old, first.steps_left) == ("baseline", None, None, 4)
    told = [submit(session, right, f"m{right}") for right in (0.6, 0.82, 0.95)]
    assert [each.name for each in told] == ["fail", "pass", "pass"]
    assert {each.old for each in told} == {1}
    assert told[-1].steps_left == 1
    assert "exceeds the old model's by more than 0.1. The old model is that of step 1." in (
        told[-1].promise
    )


def test_a_model_that_passed_can_be_promoted(tmp_path: Path) -> None:
    session = compared(tmp_path)
    submit(session, 0.3, "deployed")
    submit(session, 0.4, "worse")
    assert submit(session, 0.7, "better").passed
    with pytest.raises(InvalidInput, match="has passed"):
        session.meter.promote("worse")
    with pytest.raises(InvalidInput, match="has passed"):
        session.meter.promote("unknown")
    assert session.meter.promote("better") == 3
    told = submit(session, 0.9, "next")
    assert (told.name, told.old) == ("fail", 3)
    assert session.meter.audit().sound


def test_promotions_do_not_fill_the_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer reads all of them, and a team could promote for nothing for ever."""
    monkeypatch.setattr(deciding, "MOST_FOR_EACH", 1)
    session = compared(tmp_path)
    for right in (0.3, 0.7, 0.8):
        submit(session, right, f"m{right}")
    for model in ("m0.7", "m0.7", "m0.8", "m0.7", "m0.7"):
        session.meter.promote(model)
    links = session.meter.audit().links
    assert [link.details["step"] for link in links if link.event == Event.PROMOTED] == [2, 3, 2]
    with pytest.raises(InvalidInput, match="at most 1 promotions for each answer"):
        session.meter.promote("m0.8")
    assert submit(session, 0.9, "next").old == 2
    assert session.meter.promote("m0.8") == 3


@pytest.mark.parametrize("ladder", [False, True])
def test_the_model_to_compare_with_is_said_to_be_it(tmp_path: Path, ladder: bool) -> None:
    """A candidate that comes first is refused: nobody would look at a row before it passes."""
    asked = {"question": "better", "tolerance": 0.2} if ladder else {}
    session = compared(tmp_path, steps=2, **asked)
    with pytest.raises(
        WrongPhase, match=r"test set 1 has no model .* or with baseline=True"
    ) as free:
        submit(session, 0.3, "first", baseline=False)
    assert free.value.exit_code == 4
    assert not session.meter.status().signals
    assert submit(session, 0.3, "deployed").name == "baseline"
    assert submit(session, 0.3, "deployed", baseline=True).repeated
    with pytest.raises(WrongPhase, match="to compare with: submit without baseline=True"):
        submit(session, 0.4, "again", baseline=True)
    assert submit(session, 0.8, "kept").passed
    assert ladder or session.meter.promote("kept") == 2
    session.meter.retire()
    deliver(session.meter, tmp_path, session.test_labels, seed=9)
    for unknown in ("nightly", "deployed"):
        with pytest.raises(WrongPhase, match="test set 2 has no model"):
            submit(session, 0.3, unknown, baseline=False)
    assert submit(session, 0.8, "kept", baseline=False).name == "baseline"


def test_where_nothing_is_compared_no_model_is_the_one_to_compare_with(tmp_path: Path) -> None:
    session = make_session(tmp_path, condition_spec(inputs="public"))
    with pytest.raises(InvalidInput, match="compares no models"):
        submit(session, 0.9, "m")


def test_a_ladder_goes_on_from_the_last_model_that_passed(tmp_path: Path) -> None:
    session = compared(tmp_path, question="better", tolerance=0.2, steps=5)
    told = [submit(session, right, f"m{right}") for right in (0.1, 0.35, 0.37, 0.6, 0.85)]
    assert [each.name for each in told] == ["baseline", "pass", "fail", "pass", "pass"]
    assert [each.old for each in told] == [None, 1, 2, 2, 4]
    with pytest.raises(InvalidInput, match="ladder"):
        session.meter.promote("m0.6")


def test_a_model_that_differs_too_much_fails(tmp_path: Path) -> None:
    session = compared(tmp_path, disagreement=0.4)
    submit(session, 0.1, "deployed")
    assert submit(session, 0.45, "near").passed
    assert submit(session, 0.9, "far").passed is False


def test_a_share_of_rows_is_limited(tmp_path: Path) -> None:
    session = compared(tmp_path, question="d < 0.6 +/- 0.2 /\\ n > 0.3 +/- 0.2")
    submit(session, 0.5, "deployed")
    assert submit(session, 0.7, "near").passed
    assert submit(session, 0.95, "far").passed is False


def test_release_compares_again_with_the_same_model(tmp_path: Path) -> None:
    session = compared(tmp_path, steps=2)
    for right in (0.3, 0.8, 0.35):
        submit(session, right, f"m{right}")
    folder = session.meter.release()
    found = [each["truth"] for each in json.loads((folder / "retrospective.json").read_text())]
    assert [each["passed"] for each in found] == [None, True, False]
    rows = len(session.test_labels)
    gained = (round(0.8 * rows) - round(0.3 * rows)) / rows
    assert found[1]["change"] == pytest.approx(gained)
    assert "In all 2 steps with losses, the answer was right." in (
        (folder / "report.html").read_text()
    )


def test_it_is_shown(tmp_path: Path) -> None:
    from rich.console import Console

    session = compared(tmp_path)
    submit(session, 0.3, "deployed")
    submit(session, 0.9, "new")
    view = session.meter.status()
    console = Console(width=100, record=True, quiet=True)
    console.print(session_terminal(view))
    assert "n - o &gt; 0.1 +/- 0.2" in html_page(view)
    assert "meter promote" in html_page(view)


def test_a_check_says_that_the_first_model_is_free(tmp_path: Path) -> None:
    session = compared(tmp_path)
    files = session.files(0, 0)
    assert session.meter.check(*files).baseline
    submit(session, 0.3, "deployed")
    assert not session.meter.check(*files).baseline


def test_only_developers_promote(tmp_path: Path) -> None:
    session = compared(tmp_path)
    submit(session, 0.3, "deployed")
    submit(session, 0.9, "new")
    with Meter.open(tmp_path / "meter", role=Role.LABELER) as labeler, pytest.raises(Denied):
        labeler.promote("new")


def test_a_meter_that_compares_nothing_promotes_nothing(tmp_path: Path) -> None:
    session = make_session(tmp_path, condition_spec())
    with pytest.raises(InvalidInput, match="compares no models"):
        session.meter.promote("x")


def test_of_two_first_models_at_once_one_is_the_first(tmp_path: Path) -> None:
    """The other is refused, or compared: it is never entered without having been measured."""
    session = compared(tmp_path)
    told: list[object] = []

    def run(right: float) -> None:
        with Meter.open(tmp_path / "meter") as meter:
            try:
                told.append(submit(replace(session, meter=meter), right, f"m{right}").name)
            except Exception as error:
                told.append(type(error).__name__)

    threads = [threading.Thread(target=run, args=(right,)) for right in (0.7, 0.8, 0.9)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert told.count("baseline") == 1
    assert set(told) <= {"baseline", "fail", "MeterError", "WrongPhase"}


def test_teams_have_old_models_of_their_own(tmp_path: Path) -> None:
    session = compared(tmp_path, steps=4, tenants=(2, 2))
    rows = np.arange(len(session.test_labels))
    for tenant in (1, 2):
        test, validation = session.files(len(rows) // 2, 0, salt=f"t{tenant}")
        told = session.meter.submit(test, validation, model="o", tenant=tenant, baseline=True)
        assert told.name == "baseline"


def test_a_promotion_that_an_older_database_has_forgotten_still_counts(tmp_path: Path) -> None:
    """The journal has it: the next model is compared with what was promoted, not with the first."""
    session = compared(tmp_path)
    submit(session, 0.2, "deployed")
    session.meter.close()
    database = tmp_path / "meter" / ".meter" / "meter.db"
    before = database.read_bytes()
    with Meter.open(tmp_path / "meter") as meter:
        open_again = replace(session, meter=meter)
        assert submit(open_again, 0.6, "better").passed
        assert meter.promote("better") == 2
    database.write_bytes(before)
    with Meter.open(tmp_path / "meter") as meter:
        open_again = replace(session, meter=meter)
        told = submit(open_again, 0.8, "next")
        assert (told.old, told.passed) == (2, False)
        events = [link.event for link in meter.audit().links]
        assert events.count("promotion was missing") == 1
        assert submit(open_again, 0.95, "last").old == 2
    database.write_bytes(before)
    with Meter.open(tmp_path / "meter") as meter:  # also for one who promotes first
        assert submit(replace(session, meter=meter), 0.95, "last").repeated
        assert meter.promote("last") == 4
        assert [
            each.step for each in meter.workspace.journal(meter.generations[0]).promotions()
        ] == [
            2,
            4,
        ]


def test_promotions_come_back_in_their_order_though_the_clock_was_set_back(tmp_path: Path) -> None:
    """The journal sorts them by their times, so the one before the last became the old model."""
    session, clock = compared(tmp_path), Clock()
    submit(session, 0.2, "deployed")
    session.meter.close()
    with older_books(tmp_path), Meter(Workspace.open(tmp_path / "meter", clock)) as meter:
        for model, right in (("better", 0.6), ("best", 0.95)):
            assert submit(replace(session, meter=meter), right, model).passed
            meter.promote(model)
            clock.moment -= timedelta(hours=1)
    with Meter.open(tmp_path / "meter") as meter:
        assert submit(replace(session, meter=meter), 0.96, "next").old == 3


def test_books_without_a_promotion_know_of_a_retirement_before_a_late_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The late answer hid it: completed for the promotion, the books had as many as the journal.

    The test set answered again, after it was released.
    """
    session = compared(tmp_path)
    submit(session, 0.2, "deployed")
    session.meter.close()
    tell = answering._tell

    def retired_meanwhile(*arguments: Any) -> Any:
        with Meter.open(tmp_path / "meter") as labeler:
            labeler.retire()
        return tell(*arguments)

    with older_books(tmp_path), Meter.open(tmp_path / "meter") as meter:
        open_again = replace(session, meter=meter)
        assert submit(open_again, 0.7, "better").passed
        meter.promote("better")
        with monkeypatch.context() as patch:
            patch.setattr(answering, "_tell", retired_meanwhile)
            assert submit(open_again, 0.75, "late").step == 3
        meter.release()
    with Meter.open(tmp_path / "meter") as meter, pytest.raises(Spent):
        submit(replace(session, meter=meter), 0.95, "next")


def test_a_promotion_whose_line_was_cut_off_is_added_by_the_next_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash came after the commit, then an answer, then an older database."""
    session = compared(tmp_path)
    submit(session, 0.2, "deployed")
    session.meter.close()
    database = tmp_path / "meter" / ".meter" / "meter.db"
    before = database.read_bytes()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with Meter.open(tmp_path / "meter") as meter:
        open_again = replace(session, meter=meter)
        assert submit(open_again, 0.6, "better").passed
        with monkeypatch.context() as broken:
            broken.setattr(Journal, "append_promotion", crash)
            with pytest.raises(KeyboardInterrupt):
                meter.promote("better")
        assert submit(open_again, 0.7, "after").old == 2
    for _ in range(2):  # what came back from the journal is not told apart from what was made once
        database.write_bytes(before)
        with Meter.open(tmp_path / "meter") as meter:
            open_again = replace(session, meter=meter)
            assert submit(open_again, 0.95, "next").old == 2
            assert len(meter.workspace.journal(meter.generations[0]).promotions()) == 1
            events = [link.event for link in meter.audit().links]
            assert events.count("promotion was missing") == 1


def test_a_line_that_two_have_added_is_one_promotion(tmp_path: Path) -> None:
    """A server is about to add its line when another one answers, and adds it, too."""
    session = compared(tmp_path)
    submit(session, 0.2, "deployed")
    submit(session, 0.6, "better")
    session.meter.promote("better")
    journal = session.meter.workspace.journal(session.meter.generations[0])
    (line,) = journal.promotions()
    journal.append_promotion(line)
    submit(session, 0.7, "next")
    assert journal.promotions() == [line]
    events = [link.event for link in session.meter.audit().links]
    assert "promotion was missing" not in events


PACE = 2
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Agent:
    """A developer's token with a pace, at a meter that would answer more."""

    served: Served
    meter: str
    labels: Labels
    clock: StoppedClock
    token: str
    secret: str

    def submit(self, errors: int, served: Served | None = None, **options: Any) -> httpx.Response:
        client = (served or self.served).client(token=self.secret)
        return submit_there(client, self.meter, self.labels, errors=errors, **options)

    def answers(self) -> int:
        """Count what the meter has told anybody."""
        with self.served.site.reading() as books:
            return len(books.entries.all(self.meter, 1))


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def site(tmp_path: Path, clock: StoppedClock, database: str) -> Iterator[Served]:
    with serve(tmp_path / "site", clock=clock, database=database, requests_per_second=0) as each:
        yield each


@pytest.fixture
def agent(site: Served, clock: StoppedClock, tmp_path: Path) -> Agent:
    meter = site.add_meter(small_spec(models=True))
    labels = begin(site, meter, tmp_path)
    developer = actor_of(site.users["developer"].id)
    made, secret = tokens.make_token(developer, site.site, "agent", pace=PACE)
    return Agent(site, meter, labels, clock, made.id, secret)


def refused(answer: httpx.Response) -> str:
    """Return the line of a refusal."""
    assert (answer.status_code, answer.json()["error"]) == (429, "too-soon"), answer.text
    return str(answer.json()["message"])


def test_no_more_than_its_answers_in_a_day(agent: Agent) -> None:
    assert agent.submit(1).status_code == 200
    agent.clock.pass_by(timedelta(hours=5))
    assert agent.submit(2).status_code == 200
    answer = agent.submit(3)
    assert refused(answer) == (
        "this token gets 2 answers in 24 hours at this meter, and has had them: the next is "
        "possible from 2026-01-02 00:00 UTC on"
    )
    assert answer.headers["Retry-After"] == str(19 * 3600)
    assert agent.answers() == 2
    agent.clock.pass_by(timedelta(hours=19, microseconds=-1))
    refused(agent.submit(3))
    agent.clock.pass_by(timedelta(microseconds=1))
    assert agent.submit(3).status_code == 200
    # The one of five o'clock still counts.
    assert "from 2026-01-02 05:00 UTC on" in refused(agent.submit(4))


@SQLITE
def test_an_answer_that_is_repeated_is_free(agent: Agent) -> None:
    for errors in (1, 1, 1, 2, 1, 2):
        assert agent.submit(errors).status_code == 200
    refused(agent.submit(3))
    assert agent.submit(2).json()["signal"]["repeated"]


@SQLITE
def test_a_free_check_says_so_after_it_has_looked_at_the_files(agent: Agent) -> None:
    for errors in (1, 2):
        agent.submit(errors)
    client = agent.served.client(token=agent.secret)
    place = f"/meters/{agent.meter}/submissions/check"
    refused(client.post(place, content=submission(with_errors(agent.labels, 3))))
    short = client.post(place, content=submission(agent.labels[1:]))
    assert short.status_code == 422
    assert client.post(place, content=submission(with_errors(agent.labels, 2))).json()["repeated"]


@SQLITE
def test_each_token_has_a_pace_of_its_own(agent: Agent) -> None:
    for errors in (1, 2):
        agent.submit(errors)
    refused(agent.submit(3))
    person = agent.served.client("developer")
    assert submit_there(person, agent.meter, agent.labels, errors=3).status_code == 200


def test_servers_count_together(agent: Agent, tmp_path: Path, database: str) -> None:
    """Nothing is remembered in a process: another one, or the next, refuses as well."""
    assert agent.submit(1).status_code == 200
    settings = Settings(folder=tmp_path / "site")
    again = Site.open(database, settings.files_place, settings.key_file, agent.clock)
    caller = tokens.recognize(ANYONE, again, agent.secret)
    space = again.space(agent.meter)
    bodies = [submission(with_errors(agent.labels, errors)) for errors in (2, 3)]
    actor = caller.at(agent.meter)
    assert queue.accept(actor, space, "second", archived(bodies[0]))[0].final
    with pytest.raises(TooSoon, match="the next is possible from"):
        queue.accept(actor, space, "third", archived(bodies[1]))
    again.close()
    refused(agent.submit(3))
    assert agent.answers() == 2


def test_submissions_that_come_at_once_are_counted_one_by_one(agent: Agent) -> None:
    space = agent.served.site.space(agent.meter)
    actor = tokens.recognize(ANYONE, agent.served.site, agent.secret).at(agent.meter)
    bodies = [submission(with_errors(agent.labels, errors)) for errors in (1, 2, 3)]

    def refused_at_once(body: bytes) -> bool:
        try:
            queue.accept(actor, space, "m", archived(body))
        except TooSoon:
            return True
        return False

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(refused_at_once, bodies)) == [False, False, True]
    assert agent.answers() == 2


@SQLITE
def test_what_the_books_have_lost_still_counts(agent: Agent) -> None:
    """An older database that is put back is completed from the journal, tokens included."""
    for errors in (1, 2):
        agent.submit(errors)
    with agent.served.site.writing() as books:
        for table in (schema.entries, schema.accounts):
            books.connection.execute(table.delete())
    refused(agent.submit(3))


class TestModels:
    def hand_in(self, agent: Agent, model: str) -> httpx.Response:
        client = agent.served.client(token=agent.secret)
        place = f"/meters/{agent.meter}/submissions"
        body = command(f"predict {model}")
        return client.post(place, params={"model": model}, content=body)

    @SQLITE
    def test_those_that_wait_count(self, agent: Agent) -> None:
        assert agent.submit(1).status_code == 200
        assert self.hand_in(agent, "a").status_code == 202
        assert "from 2026-01-02 00:00 UTC on" in refused(self.hand_in(agent, "b"))
        assert "from 2026-01-02 00:00 UTC on" in refused(agent.submit(2))
        assert len(agent.served.site.space(agent.meter).files.names("submissions")) == 1
        agent.clock.pass_by(DAY)
        assert self.hand_in(agent, "b").status_code == 202
        assert "models of it that wait" in refused(agent.submit(2))

    @SQLITE
    def test_an_answered_one_counts_for_its_token(
        self, agent: Agent, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        receipt = self.hand_in(agent, "a").json()["id"]
        files = agent.served.site.space(agent.meter).files

        def answer(actor: Any, space: Any, _: Any, model: str, *rest: Any, **options: Any) -> Any:
            body = archived(submission(with_errors(agent.labels, 1)))
            return answering.answer(actor, space, unpack(body), model, *rest, **options)

        with monkeypatch.context() as patched:
            patched.setattr(queue, "answer", answer)
            queue.work(SYSTEM, agent.served.site, receipt)
        assert not files.names("submissions")
        with agent.served.site.reading() as books:
            assert [each.token for each in books.entries.all(agent.meter, 1)] == [agent.token]
        agent.clock.pass_by(timedelta(hours=1))
        assert agent.submit(2).status_code == 200
        assert "from 2026-01-02 00:00 UTC on" in refused(agent.submit(3))


# --- The rule alone ---


@given(
    st.lists(st.integers(0, 24 * 60 - 1), max_size=8),
    st.integers(0, 4),
    st.integers(1, 6),
)
def test_the_time_it_names_is_the_first_that_is_possible(
    minutes: list[int], waiting: int, most: int
) -> None:
    """Whatever was told within the last day, `minutes` ago."""
    told = sorted(NOON - timedelta(minutes=each) for each in minutes)
    paces = Paces(NOON, {"t": [stamp(each) for each in told]}, {"t": waiting})

    def possible(at: datetime) -> bool:
        return sum(each > at - DAY for each in told) + waiting < most

    if possible(NOON):
        paces.check("t", most)
        return
    with pytest.raises(TooSoon) as refusal:
        paces.check("t", most)
    if waiting < most:
        then = NOON + timedelta(seconds=refusal.value.wait)
        assert possible(then)
        assert not possible(then - timedelta(minutes=1))
        assert f"{then:from %Y-%m-%d %H:%M UTC}" in str(refusal.value)
