"""Webhooks: events of a meter sent over HTTP, signed, and never to private addresses.

Messages are signed as Standard Webhooks 1.0.0 says.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import urlsplit

from easeml_meter.core.model import Event
from easeml_meter.core.notifications import Message, Undelivered, Webhook
from easeml_meter.errors import NotFound, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.notifications.events import EVENTS, chosen_events
from easeml_meter.service.place import Site
from easeml_meter.vault.keys import wrap

MOST = 20
"""Webhooks of one meter."""

_SECRET_PREFIX = "whsec_"  # noqa: S105 - what a secret looks like, not one
_KEY_BYTES = 32
_LONGEST_URL = 500
_SECONDS = 15
"""How long one attempt to send may take."""
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses behind which stand IPv4 ones."""
_LOCAL = tuple(
    map(ipaddress.ip_network, ("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "fec0::/10"))
)
"""What Python calls global although it may lead into a private network: IPv4 addresses in old and
local translations, and the site-local addresses that were given up."""


@needs(Permission.MANAGE)
def add_webhook(
    actor: Actor,
    site: Site,
    meter: str,
    url: str,
    events: Sequence[str] = tuple(EVENTS),
    *,
    private: bool = False,
) -> tuple[Webhook, str]:
    """Notify an address of what happens from now on; return its signing secret this once.

    Raises:
        Denied: the actor is no admin.
        NotFound: there is no such meter.
        InvalidInput: the address or an event cannot be used, or the meter has too many webhooks.
    """
    check_url(url)
    if not private and not _may_be_public(urlsplit(url).hostname or ""):
        raise invalid("url", url[:80], "a public address, unless the server has private_webhooks")
    secret = _SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
    # Sealed: whoever reads the database must not be able to sign in our name.
    sealed = base64.b64encode(wrap(secret.encode(), [site.identity.recipient])).decode()
    with site.writing() as books:
        books.lock(meter)
        chosen = chosen_events(events, site.space(meter).state(books).tenants)
        if len(books.webhooks.of(meter)) >= MOST:
            raise invalid("webhooks", MOST + 1, f"at most {MOST} for one meter: remove one first")
        webhook = Webhook(secrets.token_hex(16), meter, url, chosen, site.now())
        # Only the host: the rest of an address may be a secret, and many people read the audit.
        details = {"webhook": webhook.id, "host": urlsplit(url).hostname, "events": list(chosen)}
        link = books.audit.append(meter, webhook.created_at, Event.WEBHOOK_ADDED, details)
        # It begins after its own link: what happened before is not sent to a new address.
        books.webhooks.add(webhook, secret=sealed, seen=link.number)
    return webhook, secret


@needs(Permission.MANAGE)
def webhooks(actor: Actor, site: Site, meter: str) -> list[Webhook]:
    """Return a meter's webhooks, the oldest first, with what became of their messages.

    Raises:
        Denied: the actor is no admin.
        NotFound: there is no such meter.
    """
    with site.reading() as books:
        books.meters.get(meter)
        return books.webhooks.of(meter)


@needs(Permission.MANAGE)
def remove_webhook(actor: Actor, site: Site, meter: str, identifier: str) -> None:
    """Send an address nothing more, not even what is waiting.

    Raises:
        Denied: the actor is no admin.
        NotFound: the meter has no webhook with this id.
    """
    with site.writing() as books:
        books.lock(meter)
        if not books.webhooks.remove(meter, identifier):
            raise NotFound(f"webhook {identifier[:32]!r}: none with that id")
        details = {"webhook": identifier}
        books.audit.append(meter, site.now(), Event.WEBHOOK_REMOVED, details)


def check_url(url: str) -> None:
    """Raise `InvalidInput` for an address that nothing can be sent to."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or len(url) > _LONGEST_URL or not url.isascii() or not url.isprintable():
        raise invalid("url", url[:80], f"http(s)://HOST/..., at most {_LONGEST_URL} characters")
    if " " in url or parts.username or parts.password or parts.fragment:
        raise invalid("url", "(hidden)", "no user, password, fragment or blank in it")


def sign(secret: str, identifier: str, moment: datetime, content: bytes) -> dict[str, str]:
    """Return the headers that identify and sign a body, as Standard Webhooks 1.0.0 defines them."""
    encoded = secret.removeprefix(_SECRET_PREFIX)
    # Webhooks made before this format keep their secret: its own bytes are then the key.
    key = base64.b64decode(encoded) if encoded != secret else secret.encode()
    seconds = str(int(moment.timestamp()))
    signed = f"{identifier}.{seconds}.".encode() + content
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return {
        "webhook-id": identifier,
        "webhook-timestamp": seconds,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def post(message: Message, *, private: bool = False) -> None:
    """Send a message over HTTP; with `private`, also to this machine and private networks.

    Raises:
        Undelivered: it did not arrive; the reason names neither the address nor the content.
    """
    try:
        status = asyncio.run(_post(message, private=private))
    except Undelivered:
        raise
    except Exception as error:  # its text may hold the address, and with it a secret
        raise Undelivered(f"no answer ({type(error).__name__})") from None
    if not 200 <= status < 300:
        raise Undelivered(f"answered with {status}")


async def _post(message: Message, *, private: bool) -> int:
    import httpx

    parts = urlsplit(message.address)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": "easeml-meter",
        **(message.headers or {}),
    }
    address = await _resolve(host, port, private=private)
    # To the very address that was checked: a second look-up could give another one.
    shown = f"[{address}]" if ":" in address else address
    target = parts._replace(netloc=f"{shown}:{port}").geturl()
    request = httpx.Request(
        "POST",
        target,
        content=message.content,
        headers=headers,
        extensions={"sni_hostname": host},
    )
    # A client would follow the proxies of the environment, and log the address.
    async with (
        asyncio.timeout(_SECONDS),
        httpx.AsyncHTTPTransport(trust_env=False) as transport,
    ):
        answer = await transport.handle_async_request(request)
        await answer.aclose()  # the body of the answer is never read: it may be endless
        return answer.status_code


async def _resolve(host: str, port: int, *, private: bool) -> str:
    """Return an address of a host; refuse the host if one of its addresses is not public."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_SECONDS):
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not private and not all(map(is_public, addresses)):
        raise Undelivered("the address is not public: set private_webhooks to allow it")
    return addresses[0]


def _may_be_public(host: str) -> bool:
    """Whether a host is not known to be private before its name is looked up."""
    try:
        return is_public(host)
    except ValueError:  # a name
        return host.rstrip(".").rpartition(".")[2] != "localhost"


def is_public(text: str) -> bool:
    """Whether an address is one of the public internet, and stays so when translated."""
    address = ipaddress.ip_address(text.partition("%")[0])
    meant: ipaddress.IPv4Address | ipaddress.IPv6Address = address
    if isinstance(address, ipaddress.IPv6Address):
        if any(address in network for network in _LOCAL):
            return False
        if address in _TRANSLATED:
            meant = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        elif inner := address.ipv4_mapped or address.sixtofour:
            meant = inner
    return meant.is_global and not meant.is_multicast
