"""Every page, as each role sees it: for everyone to use, light, at home, and forms with tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser
from tests.live import live
from tests.service.helpers import Clock

from .browsing import Tab, tab
from .furnishing import Furnished, furnish

MOST = 100_000
"""Bytes of a page with all that it loads, as sent."""
IDS = re.compile(r"[0-9a-f]{32}")
_ADDRESSES = "links => links.map(link => link.href.baseVal ?? link.href)"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Furnished]:
    folder = tmp_path_factory.mktemp("pages")
    with live(folder / "site", clock=Clock(), badges=True) as found:
        yield furnish(found, folder)


STARTS: dict[str | None, list[str]] = {
    None: ["/sign-in", "/planner", "/no-such-page", "/docs"],
    "developer": ["/meters", "/meters/ACTIVE", "/meters/RELEASED", "/meters/REQUESTED"],
    "labeler": ["/meters/ACTIVE/labels", "/meters/REQUESTED/labels", "/meters/RELEASED/labels"],
    "runner": ["/meters/ACTIVE"],
    "ada": ["/admin", "/admin/meters/ACTIVE", "/meters/ACTIVE"],
}


def explore(site: Furnished, found: Tab, user: str | None) -> Iterator[tuple[str, str]]:
    """Open the pages that one must see, and one of each other kind to which links lead."""
    todo = [
        (start, re.sub("[A-Z]{6,}", lambda name: site.meters[name[0]], start))
        for start in STARTS[user]
    ]
    for start, path in todo:
        found.go(path)
        yield start, path
        for link in found.page.locator("a[href]:not([download])").evaluate_all(_ADDRESSES):
            address = urlsplit(link)
            kind = IDS.sub("ID", re.sub(r"=[^&]*", "", f"{address.path}?{address.query}"))
            # Not pages: a report is a file to keep, with its styles inside; programs read JSON.
            known = kind in site.seen or re.search(r"/report\.html|\.json", kind)
            if address.netloc == urlsplit(found.site).netloc and not known:
                site.seen.add(kind)
                todo.append((kind, f"{address.path}?{address.query}".removesuffix("?")))


@pytest.mark.parametrize("user", STARTS)
def test_pages_are_for_everyone(site: Furnished, browser: Browser, user: str | None) -> None:
    with tab(browser, site.live, user) as found:
        for _, path in explore(site, found, user):
            for wide, dark in ((True, False), (True, True), (False, False), (False, True)):
                found.look(wide=wide, dark=dark)
                assert found.violations() == [], f"{path}, wide {wide}, dark {dark}"
            across = found.page.evaluate("document.documentElement.scrollWidth")
            assert across <= 360, f"{path} is {across} px wide at a phone"
            weight = found.weight()
            assert sum(weight.values()) < MOST, f"{path}: {weight}"
            check_forms(found, path)


def check_forms(found: Tab, path: str) -> None:
    """Find the CSRF token in whatever changes something, and no label of a field missing."""
    forms = found.page.locator("form")
    token = found.page.locator("meta[name=csrf-token]")
    for form in forms.all():
        if form.get_attribute("data-upload") is not None:  # sent by a script, with a header
            assert token.get_attribute("content"), path
        elif (form.get_attribute("method") or "get").lower() != "get":
            assert re.fullmatch("[0-9a-f]{64}", form.locator("[name=csrf]").input_value()), path
