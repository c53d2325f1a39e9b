"""Addresses of servers, and the tokens that were given for them: one file that you alone can read.

It is $XDG_CONFIG_HOME/easeml-meter/credentials.json, where that is not set below ~/.config.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from easeml_meter.checks import is_loopback
from easeml_meter.errors import InvalidInput, MeterError, invalid

INSECURE = "METER_INSECURE"
_NEEDED = "an address such as https://meter.example.org or http://127.0.0.1:8080"


@dataclass(frozen=True)
class Credential:
    """A token for one server."""

    token: str = field(repr=False)
    expires_at: str | None = None


def no_address(given: str) -> InvalidInput:
    """Return how an address is refused that is none of a server."""
    return invalid("server", given[:80], _NEEDED)


def server_address(given: str) -> str:
    """Check and normalise the address of a server.

    Over plain http a token could be read on its way, so that must not leave this machine.
    """
    try:
        parts = urlsplit(given.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        raise no_address(given) from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise no_address(given)
    if parts.username is not None:
        raise invalid("server", "an address with a user name", f"{_NEEDED}; use meter login")
    if parts.scheme == "http" and not is_loopback(host) and os.environ.get(INSECURE) != "1":
        raise invalid(
            "server",
            given[:80],
            f"https is needed: over http anyone on the way reads your token ({INSECURE}=1 allows)",
        )
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def credentials_file() -> Path:
    """Return the path of the file."""
    try:
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError:  # as in a container that runs as any number
        needed = "set HOME or XDG_CONFIG_HOME, or give a token in METER_TOKEN"
        raise MeterError(f"credentials: this account has no home folder: {needed}") from None
    return Path(home) / "easeml-meter" / "credentials.json"


def find(server: str) -> Credential | None:
    """Look up the token for a server."""
    found = _read().get(server)
    return None if found is None else Credential(found["token"], found.get("expires_at"))


def store(server: str, credential: Credential) -> Path:
    """Keep a token; return the path of the file."""
    return _write(_read() | {server: asdict(credential)})


def forget(server: str) -> None:
    """Drop the token for a server."""
    _write({name: each for name, each in _read().items() if name != server})


def _read() -> dict[str, Any]:
    path = credentials_file()
    try:
        with path.open("rb") as file:
            # Of the file that was opened, not of one that has its name by now.
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise InvalidInput(f"{path}: others can read it: run chmod 600 on it")
            found: dict[str, Any] = json.load(file)["servers"]
            if not all(isinstance(each["token"], str) for each in found.values()):
                raise ValueError
            return found
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{path}: not a file of credentials: remove it, log in again") from None
    except OSError as error:
        raise MeterError(f"{path}: cannot be read: {error.strerror or error}") from None


def _write(servers: dict[str, Any]) -> Path:
    path = credentials_file()
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            # Private from its first moment, and new: nobody has it open who may not read tokens.
            handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"servers": servers}, file, indent=2)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MeterError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path
