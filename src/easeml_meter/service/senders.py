"""The way out: messages over HTTP, and by e-mail where there is a mail server."""

from __future__ import annotations

import asyncio
import ipaddress
import smtplib
import socket
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from urllib.parse import urlsplit

from easeml_meter.errors import invalid
from easeml_meter.service.hooks import Message, Undelivered

_SECONDS = 15
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses behind which stand IPv4 ones."""


@dataclass(frozen=True)
class MailServer:
    """Where letters are handed in."""

    host: str
    sender: str
    """The address that letters come from."""
    port: int = 587
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    starttls: bool = True

    def __post_init__(self) -> None:
        if "@" not in self.sender or not self.sender.isprintable():
            raise invalid("sender", self.sender[:80], "an e-mail address")
        if not 1 <= self.port <= 65535:
            raise invalid("port", self.port, "a number from 1 to 65535")
        if self.password and not self.starttls:
            raise invalid("starttls", False, "a password is sent over an encrypted connection only")


@dataclass(frozen=True)
class Sender:
    """Sends messages. Never logs what they say."""

    mail: MailServer | None = None
    private: bool = False
    """Whether webhooks may lead to this machine and to private networks."""

    def __call__(self, message: Message) -> None:
        """Send a message, or raise `Undelivered`."""
        if message.headers is not None:
            _post(message, message.headers, private=self.private)
        elif self.mail is None:
            raise Undelivered("there is no mail server")
        else:
            _hand_in(message, self.mail)


def _post(message: Message, signed: dict[str, str], *, private: bool) -> None:
    parts = urlsplit(message.address)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    headers = {
        "Host": parts.netloc,
        "Content-Type": "application/json",
        "User-Agent": "easeml-meter",
        **signed,
    }

    async def post() -> int:
        import httpx

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
            await answer.aclose()  # whatever else is answered is not read
            return answer.status_code

    try:
        status = asyncio.run(post())
    except Undelivered:
        raise
    except Exception as error:  # its text may hold the address, and with it a secret
        raise Undelivered(f"no answer ({type(error).__name__})") from None
    if not 200 <= status < 300:
        raise Undelivered(f"answered with {status}")


async def _resolve(host: str, port: int, *, private: bool) -> str:
    """Give an address of a host; refuse the host if one of its addresses is not public."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(_SECONDS):
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not private and not all(map(is_public, addresses)):
        raise Undelivered("the address is not public: set private_webhooks to allow it")
    return addresses[0]


def is_public(text: str) -> bool:
    """Tell whether an address is one of the public internet, and stays so when translated."""
    address = ipaddress.ip_address(text.partition("%")[0])
    meant: ipaddress.IPv4Address | ipaddress.IPv6Address = address
    if isinstance(address, ipaddress.IPv6Address):
        if address in _TRANSLATED:
            meant = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        elif inner := address.ipv4_mapped or address.sixtofour:
            meant = inner
    return meant.is_global and not meant.is_multicast


def _hand_in(message: Message, mail: MailServer) -> None:
    try:
        letter = EmailMessage()
        letter["From"] = mail.sender
        letter["To"] = message.address
        letter["Subject"] = message.body["subject"]
        letter["Message-ID"] = f"<{message.id}@{mail.sender.rpartition('@')[2]}>"
        letter.set_content(message.body["text"])
        with smtplib.SMTP(mail.host, mail.port, timeout=_SECONDS) as server:
            if mail.starttls:
                server.starttls(context=ssl.create_default_context())
            if mail.user and mail.password:
                server.login(mail.user, mail.password)
            server.send_message(letter)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        raise Undelivered(f"the mail server did not take it ({type(error).__name__})") from None
