"""Pictures of every page of the seeded site, wide and on a phone, light and dark.

`make screenshots` runs `python -m tests.e2e.screenshots`, which writes them into docs/images/pages.
"""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from tests.demo.pages import ADDRESS, PAGES, Page, ids_of
from tests.server.process import Process, started

from .browsing import FLAGS, PHONE, WIDE, Tab, tab

FOLDER = Path(__file__).parents[2] / "docs" / "images" / "pages"
_SIZES = {"desktop": WIDE, "phone": PHONE}
_QUALITY = 68
"""Of WebP: letters are still crisp, and a page is a third of its size as PNG."""
_TALLEST = 6_000
"""Pixels of a page that are shown; what follows is more of the same."""
_MEASURE = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"


@contextmanager
def seeded_server(folder: Path) -> Iterator[Process]:
    """Run `meter serve --demo`; its token is the password of everybody."""
    options = ("--demo", "--public-url", ADDRESS, "--requests-per-second", "0")
    with started(folder / "site", *options) as server:
        yield server
        server.stop()


def take(browser: Browser, server: Process, pages: Iterable[Page], folder: Path) -> None:
    """Take four pictures of each page."""
    assert server.token is not None
    folder.mkdir(parents=True, exist_ok=True)
    with server.client("none") as api:
        ids = ids_of(api, server.token)
    for who in dict.fromkeys(page.who for page in pages):
        with tab(browser, server.address) as found:
            if who is not None:
                found.go("/sign-in")
                found.sign_in(who, server.token)
            for page in pages:
                if page.who == who:
                    found.go(page.address(ids))
                    _four(found, folder, page.name)


def _four(found: Tab, folder: Path, name: str) -> None:
    for size in _SIZES:
        for dark in (False, True):
            found.look(wide=size == "desktop", dark=dark)
            file = folder / f"{name}-{size}-{'dark' if dark else 'light'}.webp"
            file.write_bytes(_picture(found))


def _picture(found: Tab) -> bytes:
    """Take a picture of the whole page, as WebP, which playwright itself does not offer."""
    width, height = found.page.evaluate(_MEASURE)
    browser = found.context.new_cdp_session(found.page)
    clip = {"x": 0, "y": 0, "width": width, "height": min(height, _TALLEST), "scale": 1}
    options = {"format": "webp", "quality": _QUALITY, "captureBeyondViewport": True, "clip": clip}
    taken = browser.send("Page.captureScreenshot", options)
    browser.detach()
    return base64.b64decode(taken["data"])


def main() -> None:
    """Take the pictures of all pages; those of pages that are gone go, too."""
    for old in FOLDER.glob("*"):
        old.unlink()
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        seeded_server(Path(folder)) as server,
    ):
        chromium = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        take(chromium, server, PAGES, FOLDER)
        chromium.close()
    total = sum(each.stat().st_size for each in FOLDER.iterdir())
    print(f"{len(list(FOLDER.iterdir()))} pictures in {FOLDER}, {total / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
