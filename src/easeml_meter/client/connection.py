"""A server, spoken to over HTTP: calls are repeated when a connection breaks.

A call whose answer was lost is sent again as it was: the server finds done what it asks for, and
charges the same submission once. What the server refuses is raised as the use cases raise it.
"""

from __future__ import annotations

import os
import re
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from easeml_meter.checks import is_loopback
from easeml_meter.client import credentials
from easeml_meter.errors import (
    InvalidInput,
    MeterError,
    Unauthenticated,
    Unreachable,
    error_named,
    invalid,
    not_installed,
)
from easeml_meter.tables.source import Stamp, named, stamp_of
from easeml_meter.tables.writing import new_file
from easeml_meter.version import __version__

if TYPE_CHECKING:
    import httpx

TOKEN = "METER_TOKEN"  # noqa: S105 - where a token may be found, not one
RETRIES = 5
FIRST_PAUSE = 0.1
"""Seconds before a call is repeated; each time twice as long."""
_LONGEST_PAUSE = 60.0
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
"""What is answered within a moment is asked for again after this."""
_PIECE = 1 << 18
_PAGE = 200
_GATEWAY = (502, 503, 504)
"""What a proxy answers in the place of a server that it cannot reach."""

Tell = Callable[[float, float], None]
"""Called with the number of bytes that are done, and of all."""


class _Told(dict[str, Any]):
    """What a server told. It says itself what it lacks, so that nobody need look at it first."""

    server = ""

    def __missing__(self, key: str) -> Any:
        needed = f"is it a meter's server, of version {__version__} or a later one"
        raise MeterError(f"{self.server}: its answer lacks {key!r}: {needed}")


class Connection:
    """A connection to one server, with a token."""

    def __init__(
        self, server: str, token: str | None = None, *, ca: str | Path | None = None
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise not_installed("the client needs", error, "client") from error
        # The library that refuses such a header would show it, with the token in it.
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            needed = "letters and digits only, no spaces or line breaks around them"
            raise InvalidInput(f"token (of --token, or {TOKEN}): more than a token given, {needed}")
        self.server = credentials.server_address(server)
        try:
            url = httpx.URL(self.server)
            url.raw_host.decode().encode("idna")  # as it is when it is looked up
        except (httpx.InvalidURL, UnicodeError):
            raise credentials.no_address(self.server) from None
        verify = _authorities(ca) if url.scheme == "https" else False
        try:
            self._client = httpx.Client(
                base_url=f"{self.server}/api/v1",
                headers={"Authorization": f"Bearer {token}"} if token else {},
                timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS),
                verify=verify,
                trust_env=not is_loopback(url.host),  # no proxy leads to this machine
            )
        # Not what it says: the address of a proxy may hold a password.
        except (ImportError, ValueError, httpx.InvalidURL):
            raise Unreachable(
                f"{self.server}: the proxy that the environment names (HTTPS_PROXY, ALL_PROXY) "
                "cannot be used: give http://HOST:PORT, for SOCKS run pip install 'httpx[socks]', "
                "or go without any: NO_PROXY='*'"
            ) from None

    @classmethod
    def open(
        cls, server: str, token: str | None = None, *, ca: str | Path | None = None
    ) -> Connection:
        """Connect with the token given, else that of METER_TOKEN, else that of `meter login`."""
        address = credentials.server_address(server)
        token = token or os.environ.get(TOKEN)
        if not token:
            kept = credentials.find(address)
            if kept is None:
                raise Unauthenticated(
                    f"{address}: no token for it: run meter login --server {address}"
                )
            token = kept.token
        return cls(address, token, ca=ca)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, Any] | None = None,
        json: object = None,
        content: bytes | None = None,
        form: Sequence[tuple[str, tuple[str | None, bytes]]] | None = None,
        kind: type = dict,
        slow: bool = False,
    ) -> Any:
        """Send a request; return what the answer holds, a `kind`, or None if it holds nothing.

        `slow`: the answer may take minutes, and is waited for as long as the connection stands.

        Raises:
            MeterError: it holds something else, or lacks what it is asked for later.
        """
        import httpx

        # A second try would do the same work once more, beside the first.
        usual, connect = None if slow else _ANSWER_SECONDS, _CONNECT_SECONDS
        seconds = httpx.Timeout(_ANSWER_SECONDS, connect=connect, read=usual)

        def send() -> httpx.Response:
            return self._client.request(
                method,
                path,
                params=params,
                json=json,
                content=content,
                files=form,
                timeout=seconds,
            )

        try:
            answer = self._repeated(send)
        except UnicodeEncodeError as error:  # bytes of a command line that are no text
            byte = f"a byte 0x{ord(error.object[error.start]) & 0xFF:02x}"
            raise invalid("text", byte, "UTF-8 needed: type it anew") from None
        if answer.status_code == 204:
            return None
        try:
            found = answer.json(object_hook=self._told)
        except ValueError:
            found = None
        if not isinstance(found, kind):
            raise _problem(self.server, answer)
        return found

    def _told(self, found: dict[str, Any]) -> _Told:
        told = _Told(found)
        told.server = self.server
        return told

    def listed(self, path: str, params: dict[str, Any] | None = None) -> Iterator[Any]:
        """Yield the items of a list, page by page."""
        after = ""
        while after is not None:
            page = self.call("GET", path, params={**(params or {}), "limit": _PAGE, "after": after})
            yield from page["items"]
            after = page["next"]

    def download(self, path: str, destination: Path, params: dict[str, Any] | None = None) -> None:
        """Write what is asked for to a new file, which appears when it is whole."""

        def send() -> httpx.Response:
            with self._client.stream("GET", path, params=params) as answer:
                if not answer.is_success:
                    answer.read()
                    return answer
                # Under another name until it is whole: a try that breaks off leaves nothing behind.
                with new_file(destination) as file:
                    for piece in answer.iter_bytes(_PIECE):
                        file.write(piece)
                return answer

        self._repeated(send)

    def upload(self, path: str, file: Path, tell: Tell) -> str:
        """Send a file, resuming after broken connections; return the id of the upload.

        Raises:
            InvalidInput: the file cannot be read, or changed meanwhile.
        """
        stamp = stamp_of(file)
        asked = {"name": "sealed test set", "size": stamp[2]}
        begun = self.call("POST", path, json=asked)
        try:
            self._send(f"{path}/{begun['id']}", file, stamp, int(begun["piece"]), tell)
        except Unreachable:
            raise
        except BaseException:
            self.discard(f"{path}/{begun['id']}")
            raise
        return str(begun["id"])

    def discard(self, upload: str) -> None:
        """Have the server forget an upload, which it would keep for a day, as its user's share."""
        with suppress(MeterError):
            self.call("DELETE", upload)

    def _send(self, place: str, file: Path, stamp: Stamp, piece: int, tell: Tell) -> None:
        size, offset = stamp[2], 0
        with file.open("rb") as stream:
            while offset < size:
                tell(offset, size)
                stream.seek(offset)
                content = stream.read(min(piece, size - offset))
                if stamp_of(file) != stamp:
                    raise InvalidInput(
                        f"{named(file)}: it changed while it was sent: nothing was added; send it "
                        "again when it is written"
                    )
                # The server says what it has on disk. One that lost it must not be asked for ever.
                sent = self.call("PUT", place, params={"offset": offset}, content=content)
                if int(sent["offset"]) <= offset:
                    raise Unreachable(f"{self.server}: the upload does not get on: retry")
                offset = int(sent["offset"])
        tell(size, size)

    def _repeated(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        import httpx

        failures = 0
        while True:
            pause: float | None = FIRST_PAUSE * 2**failures
            try:
                answer = send()
            except httpx.TransportError as error:
                problem: MeterError = self._unreachable(error)
                if "CERTIFICATE" in str(error):  # it will be as wrong the next time
                    raise problem from None
            except httpx.HTTPError as error:
                raise self._unreachable(error) from None
            else:
                if answer.is_success:
                    return answer
                problem = _problem(self.server, answer)
                pause = _pause(answer)
            failures += 1
            if pause is None or failures > RETRIES:
                raise problem
            time.sleep(pause)

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        import httpx

        if "CERTIFICATE" in str(error):
            remedy = _of_certificate(str(error))
        elif isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            remedy = f"it cannot be reached ({error or 'no answer'}): is this its address, is it up"
        else:
            remedy = f"the connection broke ({error or type(error).__name__}): try again"
        return Unreachable(f"{self.server}: {remedy}")


def _of_certificate(problem: str) -> str:
    found = re.search(r"verify failed: (.*?)\.? \(_ssl", problem)
    reason = found[1] if found else ""
    if "mismatch" in reason:
        return f"its certificate is not valid ({reason}): is this its address"
    if "expired" in reason or "not yet valid" in reason:
        return f"its certificate is not valid ({reason}): tell its admin, or set the clock here"
    return "its certificate is not trusted here: give its authority with --ca FILE"


def _authorities(ca: str | Path | None) -> ssl.SSLContext:
    if ca is not None:
        stamp_of(ca, "file of certificates (PEM)")
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError):
        raise InvalidInput(
            f"{ca}: no certificates (PEM) in it: give those of the authority"
        ) from None


def _pause(answer: httpx.Response) -> float | None:
    """Return after how many seconds to ask again; None: it would not help."""
    if answer.status_code in (502, 504):
        return 1.0
    if answer.status_code in (429, 503):
        given = answer.headers.get("Retry-After", "1")
        pause = float(given) if given.isdigit() else 1.0
        return pause if pause <= _LONGEST_PAUSE else None
    return None


def _problem(server: str, answer: httpx.Response) -> MeterError:
    body = _body(answer)
    if not isinstance(body.get("error"), str) or not isinstance(body.get("message"), str):
        if answer.status_code in _GATEWAY:
            away = f"a proxy answered {answer.status_code} in its place, it is away"
            return Unreachable(f"{server}: {away}: try again, or tell its admin")
        return MeterError(
            f"{server}: {answer.status_code} answered, and not by a meter's server: is this its "
            "address"
        )
    return error_named(body["error"], body["message"])


def _body(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
