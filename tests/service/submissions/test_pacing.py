"""A token with a pace gets so many answers of a meter in any 24 hours, whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.driving import begin, submission, submit
from tests.server.helpers import SQLITE, Served, serve
from tests.service.helpers import Labels, StoppedClock, actor_of, small_spec, with_errors

from easeml_meter.core.model import stamp
from easeml_meter.errors import TooSoon
from easeml_meter.scoring.bundle import Bundle
from easeml_meter.server.settings import Settings
from easeml_meter.service import tokens
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.service.place import Site
from easeml_meter.service.submissions import answering, queue
from easeml_meter.service.submissions.kinds import unpack
from easeml_meter.service.submissions.pacing import DAY, Paces
from easeml_meter.storage import schema

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
        return submit(client, self.meter, self.labels, errors=errors, **options)

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
    assert submit(person, agent.meter, agent.labels, errors=3).status_code == 200


def test_servers_count_together(agent: Agent, tmp_path: Path, database: str) -> None:
    """Nothing is remembered in a process: another one, or the next, refuses as well."""
    assert agent.submit(1).status_code == 200
    settings = Settings(folder=tmp_path / "site")
    again = Site.open(database, settings.files_place, settings.key_file, agent.clock)
    caller = tokens.recognize(ANYONE, again, agent.secret)
    space = again.space(agent.meter)
    bodies = [submission(with_errors(agent.labels, errors)) for errors in (2, 3)]
    actor = caller.at(agent.meter)
    assert queue.accept(actor, space, "second", bodies[0])[0].final
    with pytest.raises(TooSoon, match="the next is possible from"):
        queue.accept(actor, space, "third", bodies[1])
    again.close()
    refused(agent.submit(3))
    assert agent.answers() == 2


def test_submissions_that_come_at_once_are_counted_one_by_one(agent: Agent) -> None:
    space = agent.served.site.space(agent.meter)
    actor = tokens.recognize(ANYONE, agent.served.site, agent.secret).at(agent.meter)
    bodies = [submission(with_errors(agent.labels, errors)) for errors in (1, 2, 3)]

    def refused_at_once(body: bytes) -> bool:
        try:
            queue.accept(actor, space, "m", body)
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
        body = Bundle(f"predict {model}").to_bytes()
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
            body = submission(with_errors(agent.labels, 1))
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
