"""Addresses of servers, and the tokens kept for them."""

from __future__ import annotations

import pytest

from easeml_meter.client.credentials import server_address
from easeml_meter.errors import InvalidInput


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
