"""E-mail to labelers: when labels are needed, and when a deadline is near."""

from __future__ import annotations

import itertools
import re
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path

import click
import pytest
from tests.service.demand import begin_at, spec_of
from tests.service.helpers import small_spec

from easeml_meter.cli import meter as root
from easeml_meter.core.model import stamp
from easeml_meter.core.notifications import Delivery, Undelivered
from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.service import seats, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.notifications.delivery import Sender, deliver, enqueue
from easeml_meter.service.notifications.emails import MailServer
from easeml_meter.service.place import Site
from easeml_meter.storage import schema

from .sending import (
    Mailbox,
    clock_of,
    deliver_due,
    labeler,
    mail_server,
    states,
)


def test_labelers_with_an_address_get_one_email_for_a_request(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    labeler(site, meter, "ben", None)
    developer = users.add_user(SYSTEM, site, "dev", email="dev@example.org")
    seats.add_seat(SYSTEM, site.space(meter), developer.id, Role.DEVELOPER)
    with mail_server() as (mail, mails):
        sender = Sender(mail)
        assert deliver_due(site, sender, emails=True, others=False) == 1
        assert deliver_due(site, sender, emails=True, others=False) == 0
        labeler(site, meter, "eve", "eve@example.org")  # joins later
        assert deliver_due(site, sender, emails=True, others=False) == 1
    assert [re.findall("^To: (.*)\r", email, re.MULTILINE)[0] for email in mails] == [
        "ann@example.org",
        "eve@example.org",
    ]
    assert "labels are needed" in mails[0]
    assert "The meter cats asks for test set 1" in mails[0]


def test_labelers_get_an_email_for_each_order_of_labels(site: Site, tmp_path: Path) -> None:
    """What it says is the number of the order and its labels: anybody can count these."""
    meter = create_meter(SYSTEM, site, spec_of(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    mailbox = Mailbox()
    assert deliver_due(site, mailbox, emails=True, others=False) == 1
    needed = mailbox.messages[0].body
    assert needed["subject"] == "cats: 54 inputs are needed"
    assert "54 rows with ids, without labels, sealed on your machine" in needed["text"]
    demand = begin_at(Meter(site.space(meter)), tmp_path)
    demand.submit(range(demand.quota), "deployed")
    assert deliver_due(site, mailbox, emails=True, others=False) == 0
    for number, model in enumerate(("secret-one", "secret-two"), 1):
        asked = demand.wait(range(5 + number), model)
        assert deliver_due(site, mailbox, emails=True, others=False) == 1
        assert deliver_due(site, mailbox, emails=True, others=False) == 0
        body = mailbox.messages[-1].body
        assert body["subject"] == f"cats: a submission waits for {demand.quota} labels"
        assert f"order {number} of test set 1: {demand.quota} labels" in body["text"]
        assert "secret" not in str(body)
        assert not any(f"{each}\n" in body["text"] for each in asked.ids)
        demand.label(asked)
        assert deliver_due(site, mailbox, emails=True, others=False) == 0
    assert demand.meter.status().signals[-1].model == "secret-two"


def test_who_becomes_a_labeler_while_a_step_waits_is_told(site: Site, tmp_path: Path) -> None:
    meter = create_meter(SYSTEM, site, spec_of(), "cats").id
    demand = begin_at(Meter(site.space(meter)), tmp_path)
    demand.submit(range(demand.quota), "deployed")
    asked = demand.wait(range(5), "better")
    mailbox = Mailbox()
    assert deliver_due(site, mailbox, emails=True, others=False) == 0
    labeler(site, meter, "eve", "eve@example.org")
    assert deliver_due(site, mailbox, emails=True, others=False) == 1
    demand.label(asked)
    labeler(site, meter, "ann", "ann@example.org")
    assert deliver_due(site, mailbox, emails=True, others=False) == 0


def test_an_email_names_commands_that_exist(site: Site, tmp_path: Path) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    other = create_meter(SYSTEM, site, spec_of(), "dogs").id
    demand = begin_at(Meter(site.space(other)), tmp_path)
    demand.submit(range(demand.quota), "deployed")
    demand.wait(range(5), "better")
    labeler(site, other, "ben", "ben@example.org")
    with mail_server() as (mail, mails):
        deliver_due(site, Sender(mail), emails=True, others=False)
    lines = [email.split("See ")[1].split(".")[0] for email in mails]
    named = [part.removeprefix("meter ") for line in lines for part in re.split(", | and ", line)]
    assert len(named) == 5
    for words in named:
        command: click.Command = root
        for word in words.split():
            assert isinstance(command, click.Group), words
            found = command.get_command(click.Context(command), word)
            assert found is not None, words
            command = found


def test_labelers_are_reminded_when_the_deadline_is_near(site: Site) -> None:
    clock = clock_of(site)
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    mailbox = Mailbox()
    deliver_due(site, mailbox, emails=True, others=False)
    table = schema.generations
    with site.store.writing(meter) as books:
        deadline = {"deadline": stamp(clock.moment + timedelta(days=10)), "reason": "drift"}
        books.connection.execute(table.update().where(table.c.meter == meter), deadline)
    assert deliver_due(site, mailbox, emails=True, others=False) == 0
    clock.moment += timedelta(days=8)
    assert deliver_due(site, mailbox, emails=True, others=False) == 1
    assert deliver_due(site, mailbox, emails=True, others=False) == 0
    assert "deadline for labels is near" in mailbox.messages[-1].body["subject"]
    assert "Reason: drift" in mailbox.messages[-1].body["text"]


def test_without_a_mail_server_no_mails_are_written(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    assert deliver_due(site, Mailbox(), others=False) == 0
    assert states(site) == []


def test_a_email_that_is_refused_is_tried_again(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "refused@example.org")
    with mail_server() as (mail, mails):
        assert deliver_due(site, Sender(mail), emails=True, others=False) == 0
    assert states(site) == ["waiting"]
    assert mails == []


@pytest.mark.parametrize("address", ["a@[x", "a:;@x", "a@x,<", "().@a"])
def test_an_email_to_no_address_is_given_up_at_once(site: Site, address: str) -> None:
    """Such an address was taken once, and tried for ever."""
    now = site.now()
    email = Delivery.new("b" * 32, address, {"subject": "s", "text": "t", "about": "x"}, now)
    with site.writing() as books:
        enqueue(books, email)
    with mail_server() as (mail, mails):
        deliver(SYSTEM, site, email.id, Sender(mail))
    assert (states(site), mails) == (["given up"], [])
    with pytest.raises(InvalidInput, match=r"email: .* given, such as name@example\.org"):
        users.add_user(SYSTEM, site, "ann", email=address)


def test_addresses_that_are_taken_can_be_written_to() -> None:
    signs = "a.-+_'=?\u00e9[]<>(),:;\"\\0"
    taken = 0
    for found in itertools.product(signs, repeat=3):
        part = "".join(found)
        for address in (f"{part}@a", f"a@{part}", f"a@[{part}]"):
            if re.fullmatch(users.EMAIL, address):
                taken += 1
                email = EmailMessage()
                email["To"] = address
                assert len(email["To"].addresses) == 1, address
    assert taken > 1000


def test_a_mail_server_without_encryption_gets_no_password() -> None:
    with pytest.raises(InvalidInput, match="starttls"):
        MailServer("h", "a@b.c", user="u", password="p", starttls=False)  # noqa: S106
    mail = MailServer("h", "a@b.c", user="u", password="hidden")  # noqa: S106
    assert "hidden" not in repr(mail)


def test_a_mail_server_that_cannot_encrypt_gets_no_email() -> None:
    with mail_server() as (mail, mails):
        demanding = MailServer(mail.host, mail.sender, mail.port)
        email = Delivery.new("b" * 32, "a@b.c", {"subject": "s", "text": "t"}, "")
        with pytest.raises(Undelivered):
            Sender(demanding)(email)
    assert mails == []
