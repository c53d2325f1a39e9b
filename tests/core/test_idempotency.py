from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from easeml_meter.core.idempotency import KEPT, LOST, NOBODY, KeyedRequest
from easeml_meter.core.model import stamp
from easeml_meter.errors import MeterError, UnderWay

START = datetime(2026, 1, 1, tzinfo=UTC)


def asked(request: str = "this", after: timedelta = timedelta()) -> KeyedRequest:
    return KeyedRequest("anna", "key", request, stamp(START + after))


def test_what_no_key_stands_for_is_carried_out() -> None:
    others = (KeyedRequest("bert", "key", "that", ""), KeyedRequest("anna", "other", "that", ""))
    assert asked().before({each.place: each for each in others}) is None


def test_an_answer_is_brought_back_for_a_day() -> None:
    answered = asked().answered(200, {"step": 1})
    known = {answered.place: answered}
    assert asked(after=KEPT).before(known) == answered
    assert asked(after=KEPT + timedelta(seconds=1)).before(known) is None


def test_another_request_is_refused() -> None:
    for known in (asked(), asked().answered(200, {})):
        with pytest.raises(MeterError, match="another request"):
            asked("that").before({known.place: known})


def test_one_of_an_earlier_version_is_waited_for_until_it_counts_as_lost() -> None:
    known = {asked().place: asked()}
    with pytest.raises(UnderWay):
        asked(after=LOST).before(known)
    assert asked(after=LOST + timedelta(seconds=1)).before(known) is None


def test_one_whose_server_died_is_carried_out_again() -> None:
    begun = replace(asked(), server=7)
    known = {begun.place: begun}
    for servers in (None, {7}):
        with pytest.raises(UnderWay):
            asked().before(known, servers)
    assert asked().before(known, {8}) is None
    assert asked("that").before(known, {8}) is None


@pytest.mark.parametrize("servers", [None, {7}])
def test_one_that_a_living_server_carries_out_is_waited_for_however_long(
    servers: set[int] | None,
) -> None:
    """A delivery or a release may take longer than ten minutes before it first commits."""
    begun = replace(asked(), server=7)
    for after in (LOST + timedelta(seconds=1), KEPT):
        with pytest.raises(UnderWay):
            asked(after=after).before({begun.place: begun}, servers)


@pytest.mark.parametrize("servers", [None, {7}])
def test_one_that_nobody_carries_out_any_more_is_not_waited_for(servers: set[int] | None) -> None:
    """Its server is alive, but has no answer to it, and something of it counts."""
    left = replace(replace(asked(), server=7).committed(), server=NOBODY)
    with pytest.raises(MeterError, match="but its answer was lost: look at what") as told:
        asked(after=KEPT).before({left.place: left}, servers)
    assert not isinstance(told.value, UnderWay)


def test_one_that_was_committed_is_never_carried_out_again() -> None:
    """Not even if its server died before the answer was kept."""
    begun = replace(asked(), server=7).committed()
    known = {begun.place: begun}
    for servers in (None, {7}):
        with pytest.raises(UnderWay):
            asked(after=LOST + timedelta(seconds=1)).before(known, servers)
    with pytest.raises(MeterError, match="but its answer was lost: look at what"):
        asked(after=KEPT).before(known, {8})
    assert asked(after=KEPT + timedelta(seconds=1)).before(known, {8}) is None
    # A process of the version before knows no servers, and answers with what is written there.
    assert (begun.status, begun.body["error"]) == (409, "conflict")
