"""Which events are sent, exactly if they were committed."""

from __future__ import annotations

import base64
import contextlib
import json
from pathlib import Path

import pytest
from tests.service.demand import begin_at, spec_of
from tests.service.helpers import small_spec
from tests.service.sites import make_room, make_site

from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.handovers import answer_handover, hand_over
from easeml_meter.service.meters import create_meter
from easeml_meter.service.notifications import webhooks
from easeml_meter.service.place import Site

from .sending import (
    URL,
    Mailbox,
    deliver_due,
    headers_under,
    states,
)


def test_a_session_is_told_event_by_event(site: Site, tmp_path: Path) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "other").id
    room = make_room(site, tmp_path / "room", name="cats")
    webhook, secret = webhooks.add_webhook(SYSTEM, site, room.id, URL)
    webhooks.add_webhook(SYSTEM, site, meter, "https://elsewhere.example/")
    for number in range(4):
        room.submit(number, model=f"m{number}")
    room.meter.release()
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 3
    assert mailbox.events == ["spent", "labels requested", "released"]
    first = mailbox.messages[0]
    assert first.address == URL
    link = room.meter.audit().links[first.body["link"] - 1]
    assert first.body == {
        "event": "spent",
        "meter": room.id,
        "name": "cats",
        "link": link.number,
        "at": link.at,
        "details": {"generation": 1},
    }
    assert link.event == "spent"
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    assert len(key) == 32
    assert first.headers == headers_under(key, first)
    assert json.loads(first.content) == first.body
    assert len({message.id for message in mailbox.messages}) == 3
    assert deliver_due(site, mailbox) == 0
    (shown,) = webhooks.webhooks(SYSTEM, site, room.id)
    assert (shown.id, shown.sent, shown.waiting, shown.given_up) == (webhook.id, 3, 0, 0)


def test_signals_are_told_only_if_asked_for_and_only_of_that_tenant(
    site: Site, tmp_path: Path
) -> None:
    room = make_room(site, tmp_path / "room", small_spec(tenants=(2, 2)))
    webhooks.add_webhook(SYSTEM, site, room.id, "https://quiet.example/")
    webhooks.add_webhook(SYSTEM, site, room.id, URL, ["told:2"])
    room.submit(1, model="mine", tenant=1)
    signal = room.submit(1, model="theirs", tenant=2)
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 1
    assert mailbox.messages[0].body["details"] == {
        "generation": 1,
        "tenant": 2,
        "step": 1,
        "answer": signal.name,
        "model": "theirs",
    }


def test_a_band_with_drawn_edges_is_told_with_them(site: Site, tmp_path: Path) -> None:
    room = make_room(site, tmp_path / "room", small_spec(drawn=0.3, tolerance=0.2))
    webhooks.add_webhook(SYSTEM, site, room.id, URL, ["told:1"])
    signal = room.submit(9, model="mine")
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 1
    details = json.loads(mailbox.messages[0].content)["details"]
    assert (details["answer"], tuple(details["gap"])) == (signal.name, signal.gap)


def test_what_came_before_a_webhook_is_not_told(site: Site, tmp_path: Path) -> None:
    room = make_room(site, tmp_path / "room")
    webhooks.add_webhook(SYSTEM, site, room.id, URL)
    assert deliver_due(site, Mailbox()) == 0
    assert states(site) == []


def test_an_event_that_was_not_committed_is_not_told(site: Site, tmp_path: Path) -> None:
    room = make_room(site, tmp_path / "room")
    webhooks.add_webhook(SYSTEM, site, room.id, URL)
    with contextlib.suppress(KeyError), site.store.writing(room.id) as books:
        books.audit.append(room.id, site.now(), "spent", {"generation": 1})
        raise KeyError
    assert deliver_due(site, Mailbox()) == 0


def test_labels_received_says_how_many_are_here(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "parts")
    webhooks.add_webhook(SYSTEM, site, meter.id, URL)
    with site.store.writing(meter.id) as books:
        for event, rows in [("part added", 5), ("part added", 12), ("part withdrawn", 5)]:
            details = {"generation": 1, "part": 1, "rows": rows}
            books.audit.append(meter.id, site.now(), event, details)
        books.audit.append(meter.id, site.now(), "part added", details | {"rows": 8})
        needed = books.testsets.all(meter.id)[0].labels_needed
    mailbox = Mailbox()
    deliver_due(site, mailbox)
    assert mailbox.events == ["labels received"] * 3
    assert [each.body["details"]["labels_here"] for each in mailbox.messages] == [5, 17, 20]
    assert {each.body["details"]["labels_needed"] for each in mailbox.messages} == {needed}


def test_labels_on_demand_are_told_by_their_number_alone(site: Site, tmp_path: Path) -> None:
    meter = create_meter(SYSTEM, site, spec_of(), "demand")
    demand = begin_at(Meter(site.space(meter.id)), tmp_path)
    webhooks.add_webhook(SYSTEM, site, meter.id, URL)
    demand.submit(range(demand.quota), "deployed")
    demand.answered(range(5), "better")
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 1
    assert mailbox.events == ["labels asked for"]
    details = {"generation": 1, "order": 1, "labels": demand.quota}
    assert mailbox.messages[0].body["details"] == details


@pytest.mark.parametrize("events", [[], ["told"], ["told:0"], ["told:2"], ["spent", "everything"]])
def test_unknown_events_are_refused(tmp_path: Path, events: list[str]) -> None:
    site = make_site(tmp_path, f"sqlite:///{tmp_path / 'meter.db'}")
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    with pytest.raises(InvalidInput, match="event"):
        webhooks.add_webhook(SYSTEM, site, meter, URL, events)
    site.close()


def test_a_hand_over_is_told_when_it_is_requested_answered_and_counts(
    site: Site, tmp_path: Path
) -> None:
    room = make_room(site, tmp_path / "room", small_spec(steps=6, tenants=(2, 2, 2)))
    webhooks.add_webhook(SYSTEM, site, room.id, URL)
    space = site.space(room.id)
    first, second = (Actor(((Role.DEVELOPER, team),), user="u") for team in (1, 2))
    hand_over(first, space, 1, 2, confirm=True)
    answer_handover(second, space, 1, 2, accept=False)
    for actor in (first, second):
        hand_over(actor, space, 1, 2, confirm=True)
    mailbox = Mailbox()
    deliver_due(site, mailbox)
    requested = "hand-over requested"
    assert mailbox.events == [requested, "hand-over declined", requested, "handed over"]
    pair = {"generation": 1, "giver": 1, "receiver": 2}
    assert [message.body["details"] for message in mailbox.messages] == [pair] * 4
