"""Pictures of the seeded site are taken by a real browser; `make screenshots` takes all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser
from tests.demo.pages import PAGES

from .browsing import PHONE, WIDE
from .screenshots import seeded_server, take

pytestmark = pytest.mark.slow


def test_four_pictures_of_a_page(browser: Browser, tmp_path: Path) -> None:
    chosen = [page for page in PAGES if page.name == "meters"]
    with seeded_server(tmp_path) as server:
        take(browser, server, chosen, tmp_path / "taken")
    sizes = {each.stem: width_of(each.read_bytes()) for each in (tmp_path / "taken").iterdir()}
    assert sizes == {
        "meters-desktop-light": WIDE[0],
        "meters-desktop-dark": WIDE[0],
        "meters-phone-light": PHONE[0],
        "meters-phone-dark": PHONE[0],
    }
    assert len({each.read_bytes() for each in (tmp_path / "taken").iterdir()}) == 4


def width_of(webp: bytes) -> int:
    """Read the width of a picture from its head."""
    assert (webp[:4], webp[8:12]) == (b"RIFF", b"WEBP")
    if webp[12:16] == b"VP8X":
        return int.from_bytes(webp[24:27], "little") + 1
    assert webp[12:16] == b"VP8 "
    return int.from_bytes(webp[26:28], "little") & 0x3FFF
