"""People at a real browser, and what their browser notices beside the pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Error, Page, expect
from tests.live import Live

from easeml_meter.server.web.pages import SESSION

HERE = Path(__file__).parent
PASSWORD = "a secret of some length"  # noqa: S105
WIDE, PHONE = (1280, 900), (360, 740)
PATIENCE = 30_000
"""Milliseconds to wait for what must come: beside a busy neighbour, five seconds are not enough."""
expect.set_options(timeout=PATIENCE)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]

_AXE = """
async () => {
  const found = await axe.run(document, { resultTypes: ['violations'] });
  return found.violations.flatMap(each => each.nodes.map(node => `${each.id}: ${node.html}`));
}
"""
_WEIGHT = """
() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter(each => !each.name.startsWith('data:'))
  .map(each => [each.name, each.encodedBodySize])
"""


@cache
def _axe() -> str:
    return (HERE / "axe.min.js").read_text()


@dataclass
class Tab:
    """One person's browser: a page, and what went wrong or elsewhere."""

    site: str
    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)
    """Errors at the console, of scripts, of the content policy."""
    strays: list[str] = field(default_factory=list)
    """Requests to other hosts."""

    def __post_init__(self) -> None:
        host = urlsplit(self.site).netloc

        def requested(request: Any) -> None:
            address = urlsplit(request.url)
            if address.scheme not in ("data", "blob") and address.netloc != host:
                self.strays.append(request.url)

        def said(message: Any) -> None:
            # A refusal shown on a page is also an error to the console; it is no fault.
            refused = "the server responded with a status of 4" in message.text
            if message.type in ("error", "warning") and not refused:
                self.complaints.append(message.text)

        self.page.on("request", requested)
        self.page.on("console", said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, path: str) -> Page:
        """Open a page of the site."""
        self.page.goto(f"{self.site}{path}")
        return self.page

    def sign_in(self, name: str, password: str = PASSWORD) -> None:
        """Fill in the form."""
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password or token").fill(password)
        self.page.get_by_role("button", name="Sign in").click()

    def text(self) -> str:
        """Give what the page says."""
        return " ".join(self.page.inner_text("main").split())

    def violations(self) -> list[str]:
        """Ask axe what keeps people out. Evaluated from outside, it needs no leave of the CSP."""
        while True:
            self.page.wait_for_load_state()
            try:
                if not self.page.evaluate("'axe' in window"):
                    self.page.evaluate(_axe())
                found: list[str] = self.page.evaluate(_AXE)
                return found
            except Error as error:  # the page was left for another one under axe's eyes
                if "context was destroyed" not in str(error):
                    raise

    def weight(self) -> dict[str, int]:
        """Give the bytes of the page and of all that it loaded, as sent."""
        return {urlsplit(name).path: size for name, size in self.page.evaluate(_WEIGHT)}

    def look(self, *, wide: bool = True, dark: bool = False) -> None:
        """Change the window and the colours."""
        width, height = WIDE if wide else PHONE
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme="dark" if dark else "light")


@contextmanager
def tab(
    browser: Browser, live: Live | str, user: str | None = None, **options: Any
) -> Iterator[Tab]:
    """Open a browser of its own, signed in as a user if one is named."""
    site = live if isinstance(live, str) else live.address
    width, height = options.pop("size", WIDE)
    context = browser.new_context(viewport={"width": width, "height": height}, **options)
    if user is not None:
        assert isinstance(live, Live)
        context.add_cookies([{"name": SESSION, "value": session(live, user), "url": site}])
    context.set_default_timeout(PATIENCE)
    found = Tab(site, context, context.new_page())
    try:
        yield found
        assert found.complaints == []
        assert found.strays == []
    finally:
        context.close()


def session(live: Live, user: str) -> str:
    """Open a session without the sign-in page."""
    return live.served.session(user)
