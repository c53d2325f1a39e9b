"""Addresses of servers, and the tokens kept for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from easeml_meter.client.credentials import (
    Credential,
    credentials_file,
    find,
    forget,
    server_address,
    store,
)
from easeml_meter.errors import InvalidInput, MeterError


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("https://Meter.Example.org/", "https://meter.example.org"),
        ("https://meter.example.org:8443/team/", "https://meter.example.org:8443/team"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_addresses(given: str, address: str) -> None:
    assert server_address(given) == address


@pytest.mark.parametrize(
    "given", ["meter.example.org", "ftp://a", "https://", "https://a:b:c", "https://ann:pw@a"]
)
def test_no_addresses(given: str) -> None:
    with pytest.raises(InvalidInput, match="server: ") as refused:
        server_address(given)
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize("servers", [[], "x", {"https://a": "emt_x"}, {"https://a": {}}])
def test_a_file_of_something_else_is_named(servers: object) -> None:
    """Before, these ended in an AttributeError or TypeError."""
    credentials_file().parent.mkdir(parents=True)
    credentials_file().touch(mode=0o600)
    credentials_file().write_text(json.dumps({"servers": servers}))
    with pytest.raises(InvalidInput, match="not a file of credentials: remove it, log in again"):
        find("https://a")


def test_what_a_later_version_keeps_is_left_alone() -> None:
    store("https://a", Credential("emt_a"))
    kept = json.loads(credentials_file().read_text())
    kept["servers"]["https://a"]["later"] = 1
    credentials_file().write_text(json.dumps(kept))
    found = find("https://a")
    assert found is not None
    assert found.token == "emt_a"  # noqa: S105
    store("https://b", Credential("emt_b"))
    forget("https://b")
    assert json.loads(credentials_file().read_text()) == kept


def test_an_account_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run as any number; before, this ended in a RuntimeError."""

    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(MeterError, match="no home folder: set HOME or XDG_CONFIG_HOME, or give a"):
        find("https://a")
