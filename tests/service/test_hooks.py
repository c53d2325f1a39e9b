"""Webhooks and letters: told exactly what was committed, signed, again if it did not arrive."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import logging
import re
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import click
import pytest

from easeml_meter.cli import meter as root
from easeml_meter.core.model import stamp
from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput, NotFound
from easeml_meter.service import hooks, seats, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.hooks import Message, Undelivered, deliver_due
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site
from easeml_meter.service.senders import MailServer, Sender, is_public
from easeml_meter.storage import schema
from easeml_meter.vault.keys import wrap

from .helpers import Clock, small_spec
from .sites import make_room, make_site

URL = "https://hooks.example/in?key=1"


class Mailbox:
    """A sender that keeps what it is given, or refuses it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.refuses = False

    def __call__(self, message: Message) -> None:
        self.messages.append(message)
        if self.refuses:
            raise Undelivered("answered with 500")

    @property
    def events(self) -> list[str]:
        return [message.body["event"] for message in self.messages]


@pytest.fixture
def site(tmp_path: Path, database: str) -> Iterator[Site]:
    opened = make_site(tmp_path / "site", database)
    yield opened
    opened.close()


def clock_of(site: Site) -> Clock:
    assert isinstance(site.clock, Clock)
    return site.clock


def states(site: Site) -> list[str]:
    with site.reading() as books:
        return [row["state"] for row in books.select(schema.deliveries)]


def deliver_all(site: Site, send: hooks.Send) -> int:
    total = 0
    while count := deliver_due(site, send):
        total += count
    return total


def test_a_session_is_told_event_by_event(site: Site, tmp_path: Path) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "other").id
    room = make_room(site, tmp_path / "room", name="cats")
    webhook, secret = hooks.add_webhook(site, room.id, URL)
    hooks.add_webhook(site, meter, "https://elsewhere.example/")
    for number in range(4):
        room.submit(number, model=f"m{number}")
    room.meter.release()
    mailbox = Mailbox()
    assert deliver_all(site, mailbox) == 3
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
    (shown,) = hooks.webhooks(site, room.id)
    assert (shown.id, shown.sent, shown.waiting, shown.given_up) == (webhook.id, 3, 0, 0)


def headers_under(key: bytes, message: Message) -> dict[str, str]:
    """Return the headers of Standard Webhooks, computed from the definition of HMAC (RFC 2104)."""
    seconds = (message.headers or {})["webhook-timestamp"]
    signed = message.id.encode() + b"." + seconds.encode() + b"." + message.content
    padded = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded) + signed).digest()
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded) + inner).digest()
    return {
        "webhook-id": message.id,
        "webhook-timestamp": seconds,
        "webhook-signature": "v1," + base64.b64encode(outer).decode(),
    }


def test_signatures_are_those_of_the_reference_libraries() -> None:
    """The example that the libraries of Standard Webhooks test themselves with (`sign`)."""
    headers = hooks.sign(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        datetime.fromtimestamp(1614265330, UTC),
        b'{"test": 2432232314}',
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_a_secret_from_before_standard_webhooks_goes_on_working(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    webhook, _ = hooks.add_webhook(site, meter, URL)
    old = "whs_Vt5l0-0Xh_3pEJm7b4M2yq1cQ9sRk6uTzWgYdNfAoBe"
    sealed = base64.b64encode(wrap(old.encode(), [site.identity.recipient])).decode()
    with site.writing() as books:
        mine = schema.webhooks.c.id == webhook.id
        books.connection.execute(schema.webhooks.update().where(mine), {"secret": sealed})
    spend(site, meter)
    mailbox = Mailbox()
    assert deliver_due(site, mailbox) == 1
    (message,) = mailbox.messages
    assert message.headers == headers_under(old.encode(), message)


def test_signals_are_told_only_if_asked_for_and_only_of_that_tenant(
    site: Site, tmp_path: Path
) -> None:
    room = make_room(site, tmp_path / "room", small_spec(tenants=(2, 2)))
    hooks.add_webhook(site, room.id, "https://quiet.example/")
    hooks.add_webhook(site, room.id, URL, ["told:2"])
    room.submit(1, model="mine", tenant=1)
    signal = room.submit(1, model="theirs", tenant=2)
    mailbox = Mailbox()
    assert deliver_all(site, mailbox) == 1
    assert mailbox.messages[0].body["details"] == {
        "generation": 1,
        "tenant": 2,
        "step": 1,
        "answer": signal.name,
        "model": "theirs",
    }


def test_what_came_before_a_webhook_is_not_told(site: Site, tmp_path: Path) -> None:
    room = make_room(site, tmp_path / "room")
    hooks.add_webhook(site, room.id, URL)
    assert deliver_all(site, Mailbox()) == 0
    assert states(site) == []


def test_an_event_that_was_not_committed_is_not_told(site: Site, tmp_path: Path) -> None:
    room = make_room(site, tmp_path / "room")
    hooks.add_webhook(site, room.id, URL)
    with contextlib.suppress(KeyError), site.store.writing(room.id) as books:
        books.audit.append(room.id, site.now(), "spent", {"generation": 1})
        raise KeyError
    assert deliver_all(site, Mailbox()) == 0


def test_labels_received_says_how_many_are_here(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "parts")
    hooks.add_webhook(site, meter.id, URL)
    with site.store.writing(meter.id) as books:
        for event, rows in [("part added", 5), ("part added", 12), ("part withdrawn", 5)]:
            details = {"generation": 1, "part": 1, "rows": rows}
            books.audit.append(meter.id, site.now(), event, details)
        books.audit.append(meter.id, site.now(), "part added", details | {"rows": 8})
        needed = books.testsets.all(meter.id)[0].labels_needed
    mailbox = Mailbox()
    deliver_all(site, mailbox)
    assert mailbox.events == ["labels received"] * 3
    assert [each.body["details"]["labels_here"] for each in mailbox.messages] == [5, 17, 20]
    assert {each.body["details"]["labels_needed"] for each in mailbox.messages} == {needed}


def spend(site: Site, meter: str) -> None:
    """Let something happen."""
    with site.store.writing(meter) as books:
        books.audit.append(meter, site.now(), "spent", {"generation": 1})


def test_what_does_not_arrive_is_sent_again_ever_later_and_given_up_after_a_day(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    clock = clock_of(site)
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    hooks.add_webhook(site, meter, URL)
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
        clock.moment += timedelta(seconds=10)
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
    assert deliver_all(site, mailbox) == 0


def test_two_senders_do_not_send_the_same_message_and_a_dead_one_is_replaced(site: Site) -> None:
    clock = clock_of(site)
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    hooks.add_webhook(site, meter, URL)
    spend(site, meter)
    second = Mailbox()

    def dies(message: Message) -> None:
        assert deliver_due(site, second) == 0  # the other one finds nothing to do
        raise SystemExit

    with pytest.raises(SystemExit):
        deliver_due(site, dies)
    assert deliver_due(site, second) == 0
    clock.moment += timedelta(minutes=11)
    assert deliver_due(site, second) == 1
    assert states(site) == ["sent"]


def test_a_slow_sender_does_not_undo_what_a_later_one_recorded(site: Site) -> None:
    clock = clock_of(site)
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    hooks.add_webhook(site, meter, URL)
    spend(site, meter)

    def slow(message: Message) -> None:
        clock.moment += timedelta(minutes=11)
        assert deliver_due(site, Mailbox()) == 1
        raise Undelivered("answered with 500")

    assert deliver_due(site, slow) == 0
    assert states(site) == ["sent"]


def test_many_senders_at_once_send_each_message_once(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    hooks.add_webhook(site, meter, URL)
    for _ in range(40):
        spend(site, meter)
    mailbox = Mailbox()
    threads = [threading.Thread(target=deliver_all, args=(site, mailbox)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deliver_all(site, mailbox)
    links = [message.body["link"] for message in mailbox.messages]
    assert len(links) == len(set(links)) == 40
    assert states(site) == ["sent"] * 40


def test_a_removed_webhook_is_told_nothing_more(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    webhook, _ = hooks.add_webhook(site, meter, URL)
    spend(site, meter)
    mailbox = Mailbox()
    mailbox.refuses = True
    deliver_due(site, mailbox)
    with pytest.raises(NotFound):
        hooks.remove_webhook(site, "f" * 32, webhook.id)
    hooks.remove_webhook(site, meter, webhook.id)
    assert hooks.webhooks(site, meter) == []
    clock_of(site).moment += timedelta(hours=1)
    spend(site, meter)
    assert deliver_all(site, Mailbox()) == 0
    with site.reading() as books:
        events = [link.event for link in books.audit.all(meter)]
    assert events[2:] == ["webhook added", "spent", "webhook removed", "spent"]


def test_secrets_are_stored_sealed(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    _, secret = hooks.add_webhook(site, meter, URL)
    with site.reading() as books:
        rows, links = str(books.select(schema.webhooks)), str(books.audit.all(meter))
    assert secret not in rows + links
    assert "hooks.example" in links
    assert "key=1" not in links  # an address can be a secret, too


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "file:///etc/passwd",
        "https:///path",
        "https://user:word@example.org/",
        "https://example.org/#part",
        "https://example.org/a b",
        "https://example.org/\n",
        "https://exämple.org/",
        "https://example.org:99999/",
        "https://[::1/",
        "https://example.org/" + "a" * 500,
        "javascript:alert(1)",
        "",
    ],
)
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="url"):
        hooks.check_url(url)


@pytest.mark.parametrize("events", [[], ["told"], ["told:0"], ["told:2"], ["spent", "everything"]])
def test_unknown_events_are_refused(tmp_path: Path, events: list[str]) -> None:
    site = make_site(tmp_path, f"sqlite:///{tmp_path / 'meter.db'}")
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    with pytest.raises(InvalidInput, match="event"):
        hooks.add_webhook(site, meter, URL, events)
    site.close()


def test_a_meter_has_so_many_webhooks_and_no_more(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    for _ in range(hooks.MOST):
        hooks.add_webhook(site, meter, URL)
    with pytest.raises(InvalidInput, match="at most 20"):
        hooks.add_webhook(site, meter, URL)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104  an address that must be refused
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::a00:1", False),
        ("2002:7f00:1::", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


class _Receiver(BaseHTTPRequestHandler):
    """Answers as its server says, and keeps what it got."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def receiving(status: int = 204) -> Iterator[tuple[str, list[Any]]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Receiver)
    server.got, server.status = [], status  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://localhost:{server.server_port}", server.got  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def message(url: str) -> Message:
    headers = {"webhook-id": "a" * 32, "webhook-timestamp": "1", "webhook-signature": "v1,AA=="}
    return Message("a" * 32, url, {"event": "spent"}, b'{"event": "spent"}', headers)


def test_a_message_over_http() -> None:
    with receiving() as (url, got):
        Sender(private=True)(message(f"{url}/hook?a=b"))
    ((path, headers, body),) = got
    assert (path, body) == ("/hook?a=b", b'{"event": "spent"}')
    assert headers["Host"] == url.removeprefix("http://")
    assert headers["webhook-id"] == "a" * 32
    assert headers["webhook-timestamp"] == "1"
    assert headers["webhook-signature"] == "v1,AA=="
    assert headers["Content-Type"] == "application/json"


def test_private_addresses_are_refused_unless_allowed() -> None:
    with receiving() as (url, got), pytest.raises(Undelivered, match="not public"):
        Sender()(message(url))
    assert got == []


@pytest.mark.parametrize("status", [302, 307, 404, 500])
def test_redirects_are_not_followed_and_other_answers_are_failures(status: int) -> None:
    with receiving(status) as (url, got):
        with pytest.raises(Undelivered, match=f"answered with {status}"):
            Sender(private=True)(message(url))
        assert len(got) == 1


def test_an_answer_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    class Drip(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"HTTP/1.1 200 OK\r\n")
            while not done.wait(0.05):
                try:
                    self.request.sendall(b"A: b\r\n")
                except OSError:
                    return

    done = threading.Event()
    monkeypatch.setattr("easeml_meter.service.senders._SECONDS", 0.5)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Drip) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        try:
            with pytest.raises(Undelivered, match="TimeoutError"):
                Sender(private=True)(message(address))
        finally:
            done.set()
            server.shutdown()
            thread.join()


def test_what_goes_wrong_does_not_name_the_address() -> None:
    with pytest.raises(Undelivered) as caught:
        Sender(private=True)(message("http://localhost:1/secret"))
    assert "secret" not in str(caught.value)
    assert "no answer" in str(caught.value)


class _Smtp(socketserver.StreamRequestHandler):
    """Just enough of a mail server."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            verb = line[:4].upper()
            if verb == b"EHLO":
                self.wfile.write(b"250 here\r\n")
            elif verb == b"RCPT" and b"refused" in line:
                self.wfile.write(b"550 no\r\n")
            elif verb == b"DATA":
                self.wfile.write(b"354 go\r\n")
                letter = b""
                while (line := self.rfile.readline()) != b".\r\n":
                    letter += line
                self.server.letters.append(letter.decode())  # type: ignore[attr-defined]
                self.wfile.write(b"250 taken\r\n")
            elif verb == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 fine\r\n")


@contextmanager
def mail_server() -> Iterator[tuple[MailServer, list[str]]]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Smtp) as server:
        server.letters = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = int(server.server_address[1])
        try:
            mail = MailServer("127.0.0.1", "meter@example.org", port, starttls=False)
            yield mail, server.letters  # type: ignore[attr-defined]
        finally:
            server.shutdown()
            thread.join()


def labeler(site: Site, meter: str, name: str, email: str | None) -> None:
    user = users.add_user(SYSTEM, site, name, email=email)
    seats.add_seat(SYSTEM, site.space(meter), user.id, Role.LABELER)


def test_labelers_with_an_address_get_one_letter_for_a_request(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    labeler(site, meter, "ben", None)
    developer = users.add_user(SYSTEM, site, "dev", email="dev@example.org")
    seats.add_seat(SYSTEM, site.space(meter), developer.id, Role.DEVELOPER)
    with mail_server() as (mail, letters):
        sender = Sender(mail)
        assert deliver_due(site, sender, letters=True) == 1
        assert deliver_due(site, sender, letters=True) == 0
        labeler(site, meter, "eve", "eve@example.org")  # joins later
        assert deliver_due(site, sender, letters=True) == 1
    assert [re.findall("^To: (.*)\r", letter, re.MULTILINE)[0] for letter in letters] == [
        "ann@example.org",
        "eve@example.org",
    ]
    assert "labels are asked for" in letters[0]
    assert "The meter cats asks for test set 1" in letters[0]


def test_a_letter_names_commands_that_exist(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    with mail_server() as (mail, letters):
        deliver_due(site, Sender(mail), letters=True)
    line = letters[0].split("See ")[1].split(".")[0]
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
    deliver_due(site, mailbox, letters=True)
    table = schema.generations
    with site.store.writing(meter) as books:
        deadline = {"deadline": stamp(clock.moment + timedelta(days=10)), "reason": "drift"}
        books.connection.execute(table.update().where(table.c.meter == meter), deadline)
    assert deliver_due(site, mailbox, letters=True) == 0
    clock.moment += timedelta(days=8)
    assert deliver_due(site, mailbox, letters=True) == 1
    assert deliver_due(site, mailbox, letters=True) == 0
    assert "deadline for labels is near" in mailbox.messages[-1].body["subject"]
    assert "Reason: drift" in mailbox.messages[-1].body["text"]


def test_without_a_mail_server_no_letters_are_written(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "ann@example.org")
    assert deliver_due(site, Mailbox()) == 0
    assert states(site) == []


def test_a_letter_that_is_refused_is_tried_again(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    labeler(site, meter, "ann", "refused@example.org")
    with mail_server() as (mail, letters):
        assert deliver_due(site, Sender(mail), letters=True) == 0
    assert states(site) == ["waiting"]
    assert letters == []


def test_a_mail_server_without_encryption_gets_no_password() -> None:
    with pytest.raises(InvalidInput, match="starttls"):
        MailServer("h", "a@b.c", user="u", password="p", starttls=False)  # noqa: S106
    mail = MailServer("h", "a@b.c", user="u", password="hidden")  # noqa: S106
    assert "hidden" not in repr(mail)


def test_a_mail_server_that_cannot_encrypt_gets_no_letter() -> None:
    with mail_server() as (mail, letters):
        demanding = MailServer(mail.host, mail.sender, mail.port)
        letter = Message("b" * 32, "a@b.c", {"subject": "s", "text": "t"}, b"", None)
        with pytest.raises(Undelivered):
            Sender(demanding)(letter)
    assert letters == []


def test_nothing_is_logged_of_what_is_sent(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    meter = create_meter(SYSTEM, site, small_spec(), "cats").id
    with receiving() as (url, _):
        _, secret = hooks.add_webhook(site, meter, f"{url}/path-with-a-token")
        spend(site, meter)
        assert deliver_due(site, Sender(private=True)) == 1
    for private in (secret, "path-with-a-token", '"spent"', "v1,"):
        assert private not in caplog.text
