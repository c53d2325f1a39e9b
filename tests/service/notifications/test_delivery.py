"""What is sent, exactly if it was committed; again for a day if it did not arrive; to whom."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.service.demand import begin_at, spec_of
from tests.service.helpers import small_spec
from tests.service.sites import make_room

from easeml_meter.core.model import Event
from easeml_meter.core.notifications import Delivery, Undelivered
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied, InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.handovers import answer_handover, hand_over
from easeml_meter.service.meters import create_meter
from easeml_meter.service.notifications.delivery import (
    SAID,
    Sender,
    collect,
    deliver,
    others_named,
)
from easeml_meter.service.place import Site

from .sending import Mailbox, clock_of, deliver_due, receiving, spend, states

# Of Apprise, for Pythons older than it knows.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


def begun(site: Site) -> str:
    """Return a meter of which all was said so far."""
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    deliver_due(site, Mailbox())
    return meter


def test_what_happens_is_said_link_by_link(site: Site, tmp_path: Path) -> None:
    room = make_room(site, tmp_path / "room", name="cats")
    for number in range(4):
        room.submit(number, model=f"secret-{number}")
    room.meter.release()
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 5
    labels = room.meter.status().labels_needed
    assert mailbox.said == [
        f"Test set 1: {labels:,} rows are needed.",
        f"Test set 1: all {labels:,} rows are here.",
        "Test set 1 is spent.",
        f"Test set 2: {labels:,} rows are needed.",
        "Test set 1 is released.",
    ]
    assert {each.body["subject"] for each in mailbox.messages} == {"cats"}
    assert {each.address for each in mailbox.messages} == {""}
    assert len({each.id for each in mailbox.messages}) == 5
    assert deliver_due(site, mailbox) == 0


def test_no_answer_no_model_and_no_step_is_said(site: Site, tmp_path: Path) -> None:
    """However a link is filled: only the numbers that its sentence names are taken from it."""
    assert {Event.TOLD, Event.PROMOTED}.isdisjoint(SAID)
    names = ("generation", "labels", "rows", "order", "giver", "receiver")
    details = dict.fromkeys(("answer", "model", "step", "tenant", "submission", "left"), "secret")
    for event, sentence in SAID.items():
        said = sentence.format(**details, **dict.fromkeys(names, 7))
        assert "7" in said, event
        assert "secret" not in said
    room = make_room(site, tmp_path / "room", small_spec(drawn=0.3, tolerance=0.2))
    deliver_due(site, Mailbox())
    room.submit(9, model="mine")
    assert deliver_due(site, Mailbox()) == 0


def test_an_event_that_was_not_committed_is_not_said(site: Site) -> None:
    meter = begun(site)
    with contextlib.suppress(KeyError), site.store.writing(meter) as books:
        books.audit.append(meter, site.now(), "spent", {"generation": 1})
        raise KeyError
    assert deliver_due(site, Mailbox()) == 0


def test_what_is_older_than_a_day_is_no_news(site: Site) -> None:
    """Whoever names a receiver for the first time hears nothing of the years before."""
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    clock_of(site).moment += timedelta(days=2)
    spend(site, meter)
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 1
    assert mailbox.said == ["Test set 1 is spent."]


def test_without_a_receiver_nothing_is_written(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    spend(site, meter)
    assert deliver_due(site, Mailbox(), others=False) == 0
    assert states(site) == []


def test_labels_on_demand_are_said_by_their_number_alone(site: Site, tmp_path: Path) -> None:
    meter = create_meter(SYSTEM, site, spec_of(), "demand")
    demand = begin_at(Meter(site.space(meter.id)), tmp_path)
    deliver_due(site, Mailbox())
    demand.submit(range(demand.quota), "deployed")
    demand.answered(range(5), "better")
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 1
    assert mailbox.said == [f"Test set 1, order 1: {demand.quota} labels are asked for."]


def test_a_hand_over_is_said_when_it_is_requested_answered_and_counts(
    site: Site, tmp_path: Path
) -> None:
    room = make_room(site, tmp_path / "room", small_spec(steps=6, tenants=(2, 2, 2)), name="m")
    deliver_due(site, Mailbox())
    space = site.space(room.id)
    first, second = (Actor(((Role.DEVELOPER, team),), user="u") for team in (1, 2))
    hand_over(first, space, 1, 2, confirm=True)
    answer_handover(second, space, 1, 2, accept=False)
    for actor in (first, second):
        hand_over(actor, space, 1, 2, confirm=True)
    mailbox = Mailbox()
    deliver_due(site, mailbox)
    asks = "Team 2 asks to continue from a model of team 1."
    assert mailbox.said == [
        *(asks, "Team 2 does not continue from a model of team 1."),
        *(asks, "Team 2 continues from a model of team 1."),
    ]


def test_what_does_not_arrive_is_sent_again_ever_later_and_given_up_after_a_day(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    clock = clock_of(site)
    spend(site, begun(site))
    started = clock.moment
    mailbox = Mailbox()
    mailbox.refuses = True
    moments: list[datetime] = []
    while states(site)[1:] in ([], ["waiting"]):
        before = len(mailbox.messages)
        assert deliver_due(site, mailbox) == 0
        if len(mailbox.messages) > before:
            moments.append(clock.moment)
            assert deliver_due(site, mailbox) == 0  # not at once
            assert len(mailbox.messages) == before + 1
        # In small steps as long as the waits are short.
        young = clock.moment - started < timedelta(minutes=30)
        clock.moment += timedelta(seconds=10) if young else timedelta(minutes=2)
    assert sorted(states(site)) == ["given up", "sent"]
    assert len({message.id for message in mailbox.messages}) == 1
    waits = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert waits[0] < timedelta(minutes=1)
    assert max(waits) > timedelta(hours=1)
    assert timedelta(hours=18) < moments[-1] - started < timedelta(days=1, hours=1)
    assert "spent" not in caplog.text
    clock.moment += timedelta(days=2)
    mailbox.refuses = False
    assert deliver_due(site, mailbox) == 0


def test_what_a_sender_that_dies_had_under_way_is_sent_by_the_next(site: Site) -> None:
    spend(site, begun(site))

    def dies(message: Delivery) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        deliver_due(site, dies)
    assert sorted(states(site)) == ["sent", "waiting"]
    assert deliver_due(site, Mailbox()) == 1
    assert states(site) == ["sent", "sent"]


def test_a_message_that_arrived_is_not_sent_again(site: Site) -> None:
    """Also not by a job that was run twice, or whose message is forgotten meanwhile."""
    meter = begun(site)
    spend(site, meter)
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 1
    identifier = mailbox.messages[0].id
    deliver(SYSTEM, site, identifier, mailbox)
    clock_of(site).moment += timedelta(days=40)
    spend(site, meter)
    assert deliver_due(site, mailbox) == 1
    assert states(site) == ["sent"]
    deliver(SYSTEM, site, identifier, mailbox)
    assert len(mailbox.messages) == 2


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.OWNER])
def test_nobody_but_the_server_sends_messages(site: Site, role: Role) -> None:
    actor = Actor(((role, 0),))
    with pytest.raises(Denied):
        deliver(actor, site, "a" * 32, Mailbox())
    with pytest.raises(Denied):
        collect(actor, site)


def test_a_slow_sender_does_not_undo_what_a_later_one_recorded(site: Site) -> None:
    spend(site, begun(site))

    def slow(message: Delivery) -> None:
        assert deliver_due(site, Mailbox()) == 1
        raise Undelivered("answered with 500")

    assert deliver_due(site, slow) == 0
    assert states(site) == ["sent", "sent"]


def test_many_servers_at_once_make_each_message_once(site: Site) -> None:
    meter = begun(site)
    for _ in range(40):
        spend(site, meter)
    threads = [
        threading.Thread(target=collect, args=(SYSTEM, site), kwargs={"others": True})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert deliver_due(site, Mailbox()) == 40


def test_those_whom_the_setting_names_get_it_and_nothing_is_logged_of_it(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    spend(site, begun(site))
    with receiving() as (url, got):
        at = url.replace("http", "json")
        assert deliver_due(site, Sender(others=others_named(f"{at}/token-1 {at}/token-2"))) == 1
    assert sorted(path for path, _, _ in got) == ["/token-1", "/token-2"]
    for _, _, body in got:
        said = json.loads(body)
        assert (said["title"], said["message"]) == ("m", "Test set 1 is spent.")
    for private in ("token-1", "spent"):
        assert private not in caplog.text


def test_a_receiver_that_refuses_it_gets_it_again(site: Site) -> None:
    spend(site, begun(site))
    with receiving(500) as (url, got):
        sender = Sender(others=others_named(url.replace("http", "json")))
        assert deliver_due(site, sender) == 0
    assert len(got) == 1
    assert sorted(states(site)) == ["sent", "waiting"]
    clock_of(site).moment += timedelta(minutes=1)
    assert deliver_due(site, Sender()) == 0  # the setting is gone: it waits on, for its day


@pytest.mark.parametrize("notify", ["nonsense", "nothing://secret-token"])
def test_a_setting_that_cannot_be_read_is_refused_and_not_shown(notify: str) -> None:
    with pytest.raises(InvalidInput, match="notify: '\\(hidden\\)' given") as refused:
        others_named(notify)
    assert "secret" not in str(refused.value)
