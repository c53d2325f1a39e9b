"""Messages that do not arrive are sent again, for a day, and never twice once they did."""

from __future__ import annotations

import itertools
import logging
import threading
from datetime import datetime, timedelta

import pytest
from tests.service.helpers import small_spec

from easeml_meter.core.notifications import Message, Undelivered
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.meters import create_meter
from easeml_meter.service.notifications import webhooks
from easeml_meter.service.notifications.delivery import Sender, deliver
from easeml_meter.service.notifications.events import collect
from easeml_meter.service.place import Site

from .sending import (
    URL,
    Mailbox,
    clock_of,
    deliver_due,
    receiving,
    spend,
    states,
)


def test_what_does_not_arrive_is_sent_again_ever_later_and_given_up_after_a_day(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    clock = clock_of(site)
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    webhooks.add_webhook(SYSTEM, site, meter, URL)
    spend(site, meter)
    started = clock.moment
    mailbox = Mailbox()
    mailbox.refuses = True
    moments: list[datetime] = []
    while states(site) in ([], ["waiting"]):
        before = len(mailbox.messages)
        assert deliver_due(site, mailbox) == 0
        if len(mailbox.messages) > before:
            moments.append(clock.moment)
            assert deliver_due(site, mailbox) == 0  # not at once
            assert len(mailbox.messages) == before + 1
        # In small steps as long as the waits are short.
        young = clock.moment - started < timedelta(minutes=30)
        clock.moment += timedelta(seconds=10) if young else timedelta(minutes=2)
    assert states(site) == ["given up"]
    assert len({message.id for message in mailbox.messages}) == 1
    headers = [message.headers or {} for message in mailbox.messages]
    assert {each["webhook-id"] for each in headers} == {mailbox.messages[0].id}
    assert len({each["webhook-signature"] for each in headers}) == len(headers)
    for moment, each in zip(moments, headers, strict=True):  # of this attempt, not of the first
        assert 0 <= moment.timestamp() - int(each["webhook-timestamp"]) < 10
    waits = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert waits[0] < timedelta(minutes=1)
    assert max(waits) > timedelta(hours=1)
    assert timedelta(hours=18) < moments[-1] - started < timedelta(days=1, hours=1)
    assert "hooks.example" not in caplog.text
    assert "spent" not in caplog.text
    clock.moment += timedelta(days=2)
    mailbox.refuses = False
    assert deliver_due(site, mailbox) == 0


def test_what_a_sender_that_dies_had_under_way_is_sent_by_the_next(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    webhooks.add_webhook(SYSTEM, site, meter, URL)
    spend(site, meter)

    def dies(message: Message) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        deliver_due(site, dies)
    assert states(site) == ["waiting"]
    assert deliver_due(site, Mailbox()) == 1
    assert states(site) == ["sent"]


def test_a_message_that_arrived_is_not_sent_again(site: Site) -> None:
    """Also not by a job that was run twice, or whose message was removed meanwhile."""
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    webhook, _ = webhooks.add_webhook(SYSTEM, site, meter, URL)
    spend(site, meter)
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 1
    identifier = mailbox.messages[0].id
    deliver(SYSTEM, site, identifier, mailbox)
    webhooks.remove_webhook(SYSTEM, site, meter, webhook.id)
    deliver(SYSTEM, site, identifier, mailbox)
    assert len(mailbox.messages) == 1


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.OWNER])
def test_nobody_but_the_server_sends_messages(site: Site, role: Role) -> None:
    actor = Actor(((role, 0),))
    with pytest.raises(Denied):
        deliver(actor, site, "a" * 32, Mailbox())
    with pytest.raises(Denied):
        collect(actor, site)


def test_a_slow_sender_does_not_undo_what_a_later_one_recorded(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    webhooks.add_webhook(SYSTEM, site, meter, URL)
    spend(site, meter)

    def slow(message: Message) -> None:
        assert deliver_due(site, Mailbox()) == 1
        raise Undelivered("answered with 500")

    assert deliver_due(site, slow) == 0
    assert states(site) == ["sent"]


def test_many_servers_at_once_make_each_message_once(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    webhooks.add_webhook(SYSTEM, site, meter, URL)
    for _ in range(40):
        spend(site, meter)
    threads = [threading.Thread(target=collect, args=(SYSTEM, site)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 40
    assert len({message.body["link"] for message in mailbox.messages}) == 40


def test_nothing_is_logged_of_what_is_sent(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    with receiving() as (url, _):
        _, secret = webhooks.add_webhook(
            SYSTEM, site, meter, f"{url}/path-with-a-token", private=True
        )
        spend(site, meter)
        assert deliver_due(site, Sender(private=True)) == 1
    for private in (secret, "path-with-a-token", '"spent"', "v1,"):
        assert private not in caplog.text
