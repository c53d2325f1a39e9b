"""Webhooks: their addresses, their secrets, and messages over HTTP."""

from __future__ import annotations

import base64
import socketserver
import threading
from datetime import UTC, datetime, timedelta

import pytest
from tests.service.helpers import small_spec

from easeml_meter.core.notifications import Undelivered
from easeml_meter.errors import InvalidInput, NotFound
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.notifications import webhooks
from easeml_meter.service.notifications.delivery import Sender
from easeml_meter.service.notifications.webhooks import is_public
from easeml_meter.service.place import Site
from easeml_meter.storage import schema
from easeml_meter.vault.keys import wrap

from .sending import (
    URL,
    Mailbox,
    clock_of,
    deliver_due,
    headers_under,
    message,
    receiving,
    spend,
)


def test_signatures_are_those_of_the_reference_libraries() -> None:
    """The example that the libraries of Standard Webhooks test themselves with (`sign`)."""
    headers = webhooks.sign(
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
    webhook, _ = webhooks.add_webhook(SYSTEM, site, meter, URL)
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


def test_a_removed_webhook_is_told_nothing_more(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    webhook, _ = webhooks.add_webhook(SYSTEM, site, meter, URL)
    spend(site, meter)
    mailbox = Mailbox()
    mailbox.refuses = True
    deliver_due(site, mailbox)
    with pytest.raises(NotFound):
        webhooks.remove_webhook(SYSTEM, site, "f" * 32, webhook.id)
    webhooks.remove_webhook(SYSTEM, site, meter, webhook.id)
    assert webhooks.webhooks(SYSTEM, site, meter) == []
    clock_of(site).moment += timedelta(hours=1)
    spend(site, meter)
    assert deliver_due(site, Mailbox()) == 0
    with site.reading() as books:
        events = [link.event for link in books.audit.all(meter)]
    assert events[2:] == ["webhook added", "spent", "webhook removed", "spent"]


def test_secrets_are_stored_sealed(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    _, secret = webhooks.add_webhook(SYSTEM, site, meter, URL)
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
        webhooks.check_url(url)


def test_a_meter_has_so_many_webhooks_and_no_more(site: Site) -> None:
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    for _ in range(webhooks.MOST):
        webhooks.add_webhook(SYSTEM, site, meter, URL)
    with pytest.raises(InvalidInput, match="at most 20"):
        webhooks.add_webhook(SYSTEM, site, meter, URL)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "[::1]", "10.0.0.1", "localhost", "a.localhost."])
def test_a_private_address_is_refused_when_it_is_given(site: Site, host: str) -> None:
    """It was taken, and nothing was ever delivered."""
    meter = create_meter(SYSTEM, site, small_spec(), "m").id
    with pytest.raises(InvalidInput, match="private_webhooks"):
        webhooks.add_webhook(SYSTEM, site, meter, f"http://{host}/x")
    webhooks.add_webhook(SYSTEM, site, meter, f"http://{host}/x", private=True)


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
        ("64:ff9b:1::a00:1", False),
        ("fec0::1", False),
        ("::7f00:1", False),
        ("::ffff:0:7f00:1", False),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


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
    monkeypatch.setattr("easeml_meter.service.notifications.webhooks._SECONDS", 0.5)
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
