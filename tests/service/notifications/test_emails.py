"""E-mail to labelers: when labels are needed, and when a deadline is near."""

from __future__ import annotations

import re
from datetime import timedelta

import click
import pytest
from tests.service.helpers import small_spec

from easeml_meter.cli import meter as root
from easeml_meter.core.model import stamp
from easeml_meter.core.notifications import Message, Undelivered
from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput
from easeml_meter.service import seats, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.notifications.delivery import Sender
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
        assert deliver_due(site, sender, emails=True) == 1
        assert deliver_due(site, sender, emails=True) == 0
        labeler(site, meter, "eve", "eve@example.org")  # joins later
        assert deliver_due(site, sender, emails=True) == 1
    assert [re.findall("^To: (.*)\r", email, re.MULTILINE)[0] for email in mails] == [
        "ann@example.org",
        "eve@example.org",
    ]
    assert "labels are needed" in mails[0]
    assert "The meter cats asks for test set 1" in mails[0]


def test_a_email_names_commands_that_exist(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    with mail_server() as (mail, mails):
        deliver_due(site, Sender(mail), emails=True)
    line = mails[0].split("See ")[1].split(".")[0]
    named = [part.removeprefix("meter ") for part in re.split(", | and ", line)]
    assert len(named) == 3
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
    deliver_due(site, mailbox, emails=True)
    table = schema.generations
    with site.store.writing(meter) as books:
        deadline = {"deadline": stamp(clock.moment + timedelta(days=10)), "reason": "drift"}
        books.connection.execute(table.update().where(table.c.meter == meter), deadline)
    assert deliver_due(site, mailbox, emails=True) == 0
    clock.moment += timedelta(days=8)
    assert deliver_due(site, mailbox, emails=True) == 1
    assert deliver_due(site, mailbox, emails=True) == 0
    assert "deadline for labels is near" in mailbox.messages[-1].body["subject"]
    assert "Reason: drift" in mailbox.messages[-1].body["text"]


def test_without_a_mail_server_no_mails_are_written(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    assert deliver_due(site, Mailbox()) == 0
    assert states(site) == []


def test_a_email_that_is_refused_is_tried_again(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "refused@example.org")
    with mail_server() as (mail, mails):
        assert deliver_due(site, Sender(mail), emails=True) == 0
    assert states(site) == ["waiting"]
    assert mails == []


def test_a_mail_server_without_encryption_gets_no_password() -> None:
    with pytest.raises(InvalidInput, match="starttls"):
        MailServer("h", "a@b.c", user="u", password="p", starttls=False)  # noqa: S106
    mail = MailServer("h", "a@b.c", user="u", password="hidden")  # noqa: S106
    assert "hidden" not in repr(mail)


def test_a_mail_server_that_cannot_encrypt_gets_no_email() -> None:
    with mail_server() as (mail, mails):
        demanding = MailServer(mail.host, mail.sender, mail.port)
        email = Message("b" * 32, "a@b.c", {"subject": "s", "text": "t"}, b"", None)
        with pytest.raises(Undelivered):
            Sender(demanding)(email)
    assert mails == []
