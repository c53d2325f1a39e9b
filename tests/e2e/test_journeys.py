"""What each role comes for, done from the pages alone; axe looks at every stop.

On a phone they run in `make test`; the other sizes and colours in `make verify`.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.live import Live
from tests.server.driving import begin
from tests.service.helpers import Labels, rows, small_spec

from easeml_meter.service import users
from easeml_meter.service.actor import SYSTEM

from .browsing import PASSWORD, PHONE, WIDE, Tab, tab
from .test_session import _check, _give_seat, _give_validation

pytestmark = pytest.mark.slow


@dataclass
class Journey:
    """Somebody at a browser, a meter of their own, and a folder with their files."""

    site: Live
    browser: Browser
    folder: Path
    prefix: str
    found: Tab

    @property
    def page(self) -> Page:
        return self.found.page

    def stop(self) -> None:
        """Look at the page: everybody can use it, and nothing sticks out of the window."""
        assert self.found.violations() == [], self.page.url
        inner, outer = self.page.evaluate(
            "[document.documentElement.scrollWidth, window.innerWidth]"
        )
        assert inner <= outer, f"{self.page.url}: {inner} px in {outer}"

    def sign_in(self, role: str) -> None:
        """Sign in by the form."""
        who = self.site.served.users[f"{self.prefix}{role}"]
        users.change_user(SYSTEM, self.site.served.site, who.id, password=PASSWORD)
        self.found.go("/")
        self.stop()
        self.found.sign_in(who.name)
        expect(self.page.get_by_role("heading", level=1)).to_have_text("Meters")
        self.stop()

    def meter(self, **options: object) -> str:
        """Make a meter with everyone at it."""
        return self.site.served.add_meter(small_spec(**options), prefix=self.prefix)

    def open_meter(self) -> None:
        """Go on from the list."""
        self.follow(self.page.get_by_role("link", name=f"{self.prefix}meter"))

    def follow(self, link: Locator) -> None:
        """Go where a link leads, and look only once the new page is there."""
        with self.page.expect_navigation():
            link.click()
        self.stop()

    def begun(self, meter: str) -> Labels:
        """Deliver both sets, as others did."""
        return begin(self.site.served, meter, self.folder, prefix=self.prefix, seed=self.seed)

    @property
    def seed(self) -> int:
        """A number of this journey's own: no two meters may have the same rows."""
        return zlib.crc32(self.prefix.encode()) % 10_000


def stranger(journey: Journey) -> None:
    """Find out what 5,000 labels are good for."""
    page = journey.found.go("/")
    journey.follow(page.get_by_role("link", name="planner", exact=True))
    page.get_by_label("I have").fill("5,000")
    expect(page.locator("#answer")).to_contain_text("10 answers from 5,000 labels")
    journey.stop()
    shown = page.locator("#answer .labels").inner_text()
    page.get_by_role("link", name="Link to this plan").click()
    assert page.locator("#answer .labels").inner_text() == shown
    page.get_by_role("link", name="A look every week").click()
    expect(page.locator("#answer")).to_contain_text("52 answers from")
    journey.stop()


def admin(journey: Journey) -> None:
    """Let somebody in, and give them a seat."""
    meter = journey.meter()
    journey.site.served.add_user(f"{journey.prefix}admin", admin=True)
    journey.sign_in("admin")
    journey.follow(journey.page.get_by_role("link", name="Admin", exact=True))
    page, name = journey.found.go("/admin/users"), f"{journey.prefix}newcomer"
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Add", exact=True).click()
    journey.follow(page.get_by_role("link", name=name).first)
    page.get_by_role("button", name="Invite by a link").click()
    link = page.locator(".done code").inner_text()
    journey.stop()
    journey.found.go(f"/admin/meters/{meter}")
    journey.stop()
    _give_seat(journey.found, name, "developer")
    journey.stop()
    with tab(journey.browser, journey.site) as other:
        other.go(re.sub("https?://[^/]+", "", link))
        other.page.get_by_label("New password").fill(PASSWORD)
        other.page.get_by_role("button", name="Set the password").click()
        expect(other.page.get_by_role("link", name=f"{journey.prefix}meter")).to_be_visible()


def labeler(journey: Journey) -> None:
    """Send the labels that are asked for."""
    journey.meter()
    journey.sign_in("labeler")
    journey.open_meter()
    page = journey.page
    journey.follow(page.get_by_role("link", name="Labels needed"))
    needed = int(page.locator("#here").get_attribute("max") or 0)
    file = journey.folder / "labels.csv"
    pyarrow.csv.write_csv(rows(np.arange(needed) % 2, seed=journey.seed), file)
    page.get_by_label("File with one row per example").set_input_files(file)
    expect(page.locator("#looked")).to_contain_text('The column "id" would count as an input')
    page.get_by_label("Id column").fill("id")
    page.get_by_role("button", name="Encrypt and send").click()
    expect(page.locator("main")).to_contain_text("Test set 1 is active")
    journey.stop()


def developer(journey: Journey) -> None:
    """Check a model for free, submit it, and look at everything about the meter."""
    labels = journey.begun(journey.meter(inputs="public"))
    journey.sign_in("developer")
    journey.open_meter()
    told = _check(journey.page, journey.folder, "first", labels, errors=0)
    expect(told).to_contain_text("Checked, not submitted.")
    journey.stop()
    journey.page.get_by_role("button", name="Submit, use answer 1 of 4").click()
    expect(told).to_contain_text("Answer 1: band 1.")
    journey.stop()
    for name in ("Promise", "Test sets", "Validation set", "Settings"):
        menu = journey.page.get_by_role("navigation", name="This meter")
        journey.follow(menu.get_by_role("link", name=name))


def runner(journey: Journey) -> None:
    """Submit predictions on hidden inputs, without learning the answer."""
    labels = journey.begun(journey.meter())
    journey.sign_in("runner")
    journey.open_meter()
    told = _check(journey.page, journey.folder, "nightly", labels, errors=0)
    assert not told.inner_text()  # what is made of hidden rows is not checked for free
    journey.stop()
    journey.page.get_by_role("button", name="Submit, use an answer").click()
    expect(told).to_contain_text("Submitted as number 1.")
    assert "band" not in told.inner_text()
    journey.stop()


def newcomer(journey: Journey) -> None:
    """Hand in the first validation set of a meter."""
    journey.meter(inputs="public")
    journey.sign_in("developer")
    journey.open_meter()
    _give_validation(journey.page, journey.folder)
    journey.stop()


JOURNEYS: tuple[Callable[[Journey], None], ...] = (
    *(stranger, admin, labeler, newcomer, developer, runner),
)


def cases() -> Iterator[object]:
    """Give each journey on a phone, and for `make verify` in all other windows and colours."""
    for journey in JOURNEYS:
        for size, dark in ((PHONE, False), (PHONE, True), (WIDE, False), (WIDE, True)):
            name = f"{journey.__name__}-{size[0]}-{'dark' if dark else 'light'}"
            marks = () if (size, dark) == (PHONE, False) else pytest.mark.verify
            yield pytest.param((journey, size, dark), id=name, marks=marks)


@pytest.mark.parametrize("case", list(cases()))
def test_a_journey(
    site: Live,
    browser: Browser,
    tmp_path: Path,
    case: tuple[Callable[[Journey], None], tuple[int, int], bool],
) -> None:
    journey, size, dark = case
    prefix = f"{journey.__name__} {size[0]}{' dark' * dark} "
    with tab(browser, site, size=size, color_scheme="dark" if dark else "light") as found:
        journey(Journey(site, browser, tmp_path, prefix, found))
