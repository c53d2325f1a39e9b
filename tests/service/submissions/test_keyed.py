"""A key stands for a submission from the moment on that this counts, whoever asks beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.server.driving import begin, submission
from tests.server.helpers import Served, serve
from tests.service.helpers import Labels, StoppedClock, small_spec, with_errors

from easeml_meter.core.idempotency import KEPT, KeyedRequest
from easeml_meter.errors import MeterError
from easeml_meter.scoring.bundle import Bundle
from easeml_meter.service import tokens
from easeml_meter.service.actor import ANYONE, Actor
from easeml_meter.service.submissions import queue
from easeml_meter.service.submissions.keyed import Keyed, Keys
from easeml_meter.service.submissions.kinds import PredictionFiles
from easeml_meter.service.submissions.queue import Accepted, Incoming
from easeml_meter.storage.books import Books


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def served(tmp_path: Path, clock: StoppedClock, database: str) -> Iterator[Served]:
    with serve(tmp_path / "site", clock=clock, database=database) as site:
        yield site


@pytest.fixture
def meter(served: Served) -> str:
    return served.add_meter(small_spec(models=True))


@pytest.fixture
def labels(served: Served, meter: str, tmp_path: Path) -> Labels:
    return begin(served, meter, tmp_path)


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each look for its key before any other is entered, as on several machines at once.

    The first look of a submission finds nothing; the second is made under the lock.
    """
    looks = cycle((False, True))
    read = Keys.read

    def look(books: Books, given: Iterable[Keyed[Any] | None]) -> Keys:
        return read(books, given) if next(looks) else Keys({})

    monkeypatch.setattr(Keys, "read", look)


def developer(served: Served, meter: str) -> Actor:
    return tokens.recognize(ANYONE, served.site, served.tokens["developer"]).at(meter)


def incoming(served: Served, meter: str, body: bytes, key: str, *, once: bool = False) -> Incoming:
    actor, digest = developer(served, meter), hashlib.sha256(body).hexdigest()
    request = KeyedRequest(actor.user, key, digest, served.site.now())

    def answered(found: Accepted) -> KeyedRequest:
        return request.answered(200, {"id": found[0].id})

    space = served.site.space(meter)
    return Incoming(actor, space, "model", body, once=once, keyed=Keyed(request, answered))


def taken(meter: str, given: Incoming) -> str:
    """Take a submission that was not sent before; return its id."""
    (found,) = queue.accept_all(meter, [given])
    assert isinstance(found, tuple), found
    return found[0].id


def brought_back(meter: str, given: Incoming) -> str:
    """Take a submission that was sent before; return the id under its key."""
    (found,) = queue.accept_all(meter, [given])
    assert isinstance(found, KeyedRequest), found
    return str(found.body["id"])


def steps(served: Served, meter: str) -> int:
    return len(queue.receipts(developer(served, meter), served.site.space(meter)))


@pytest.mark.usefixtures("unseen")
def test_the_same_key_at_the_same_time_counts_once(
    served: Served, meter: str, labels: Labels
) -> None:
    right, wrong = submission(labels), submission(with_errors(labels, 3), salt="other")
    first, again, other = (incoming(served, meter, each, "k") for each in (right, right, wrong))
    answered = taken(meter, first)
    assert brought_back(meter, again) == answered
    (refused,) = queue.accept_all(meter, [other])
    assert isinstance(refused, MeterError)
    assert "another request" in str(refused)
    assert steps(served, meter) == 1


@pytest.mark.usefixtures("labels", "unseen")
def test_a_model_is_queued_once_and_leaves_no_second_file(served: Served, meter: str) -> None:
    body = Bundle("predict").to_bytes()
    first, again = (incoming(served, meter, body, "k") for _ in range(2))
    queued = taken(meter, first)
    assert brought_back(meter, again) == queued
    assert len(served.site.space(meter).files.names("submissions")) == 1
    assert steps(served, meter) == 1


def test_what_a_key_brings_back_is_not_looked_at(
    served: Served, meter: str, labels: Labels, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = incoming(served, meter, submission(labels), "k")
    answered = taken(meter, first)
    monkeypatch.setattr(PredictionFiles, "open", None)
    assert brought_back(meter, first) == answered


def test_an_answer_found_by_name_is_kept_under_its_key(
    served: Served, meter: str, labels: Labels
) -> None:
    answered = taken(meter, incoming(served, meter, submission(labels), "k"))
    by_name = incoming(served, meter, Bundle("predict").to_bytes(), "name", once=True)
    assert taken(meter, by_name) == answered
    assert brought_back(meter, by_name) == answered


def test_a_key_that_is_too_old_stands_for_the_next_submission(
    served: Served, meter: str, labels: Labels, clock: StoppedClock
) -> None:
    first, second = submission(labels), submission(labels[::-1], salt="other")
    taken(meter, incoming(served, meter, first, "k"))
    clock.moment += KEPT + timedelta(seconds=1)
    answered = taken(meter, incoming(served, meter, second, "k"))
    assert brought_back(meter, incoming(served, meter, second, "k")) == answered
    assert steps(served, meter) == 2


def test_a_batch_of_answers_is_a_few_questions_to_postgresql(
    served: Served, tmp_path: Path
) -> None:
    """It was 15 statements, besides BEGIN and COMMIT, each of them a round trip."""
    plain = served.add_meter(small_spec())  # where models are taken, the queue is looked at, too
    given = begin(served, plain, tmp_path)
    together = [
        incoming(served, plain, submission(with_errors(given, n), salt=str(n)), f"k{n}")
        for n in range(3)
    ]
    sent: list[str] = []

    def note(*told: Any) -> None:
        sent.append(told[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        found = queue.accept_all(plain, together)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)
    assert all(isinstance(each, tuple) for each in found), found
    # What keys and the meter say, and answers to the same bytes; budgets and answers to the same
    # predictions. Then, under the lock: all of that again; and all that is written.
    if served.site.store.dialect == "postgresql":
        assert len(sent) == 4, sent
