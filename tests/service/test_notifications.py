"""What is sent, exactly if it was committed; again for a day if it did not arrive; to whom."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from email.message import EmailMessage
from pathlib import Path

import click
import pytest
from tests.service.demand import begin_at, spec_of
from tests.service.helpers import small_spec
from tests.service.sites import make_room, make_site

from easeml_meter.cli import meter as root
from easeml_meter.core.model import Event, stamp
from easeml_meter.core.people import Delivery, Role, Undelivered
from easeml_meter.errors import Denied, InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.service import seats, users
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.handovers import answer_handover, hand_over
from easeml_meter.service.meters import create_meter
from easeml_meter.service.notifications import (
    SAID,
    MailServer,
    Sender,
    collect,
    deliver,
    enqueue,
    others_named,
)
from easeml_meter.service.place import Site
from easeml_meter.storage import schema

from .sending import (
    Mailbox,
    clock_of,
    deliver_due,
    labeler,
    mail_server,
    receiving,
    spend,
    states,
)

# Of Apprise, for Pythons older than it knows.
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")


@pytest.fixture
def site(tmp_path: Path, database: str) -> Iterator[Site]:
    opened = make_site(tmp_path / "site", database)
    yield opened
    opened.close()


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
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: collect(SYSTEM, site, others=True), range(4)))
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
