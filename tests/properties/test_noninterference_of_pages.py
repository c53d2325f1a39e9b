"""What a developer's browser receives is a function of the signal history alone, too.

The story and the comparison are those of the API's test; the developer tells them by the pages.
"""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import httpx
import numpy as np
import pytest
from hypothesis import given, settings
from tests.properties.stories import INPUTS_SEED, JUDGE, ROWS, measured_story, patient
from tests.properties.test_noninterference_over_http import (
    Side,
    ToldOverHttp,
    perform,
    told,
    two_sides,
)
from tests.server.driving import parquet
from tests.server.web.helpers import Visitor
from tests.service.helpers import rows, small_spec

from easeml_meter.server.web import live

PAGES = {
    "": "/meters/METER",
    "/status": "/meters/METER?generation=1",
    "/history": "/meters/METER?tenant=1&generation=1",
    "/signals": "/meters/METER?tenant=2",
    "/report.html": "/meters/METER/report.html",
    "/report.svg": "/meters/METER/live",
    "/badge.svg": "/badge/METER.svg",
    "/audit": "/admin/meters/METER",
    "/test-sets": "/meters",
    "/test-sets/1/inputs": "/meters/METER/test-sets/1/inputs.parquet",
    "/test-sets/1/released/testset.parquet": "/meters/METER/test-sets/1/released/testset.parquet",
    "/validation-sets/1/file": "/meters/METER/validation/1",
    "/notices": "/meters/METER/labels",
    "/submissions": "/meters/METER/history.csv",
    "/test-sets/1": "/meters/METER/test-sets",
    "/validation-sets": "/meters/METER/validation",
    "/requests": "/meters/METER/changed",
}
"""What a developer opens in place of an address of the API; the meter's page for all others."""


class Browser(Side):
    """A side whose developer sits at a browser."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.visitor = Visitor(self.served, "developer")

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Do by the pages what would be done by the API."""
        headers = {"X-CSRF-Token": self.visitor.csrf, "HX-Request": "true"}
        if method == "POST" and path == "/submissions":
            page = "/meters/METER/submit"
        elif method == "POST" and path == "/submissions/check":
            page = "/meters/METER/check"
        elif method == "POST":
            page, options["params"] = "/meters/METER/validation", {"suffix": "parquet"}
        elif found := re.match(r"/submissions/\w+(?=/events$)", path):
            page = f"/meters/METER{found[0]}"
        else:
            page, headers = PAGES.get(path, PAGES[""]), {}
        address = f"http://server{page.replace('METER', self.meter)}"
        if page.endswith("/live"):
            return self.follow(address)
        return self.visitor.client.request(method, address, headers=headers, **options)

    def follow(self, address: str) -> httpx.Response:
        """Let a page hear what happened up to now, at the first of two looks at the books."""
        with mock.patch.multiple(live, _LOOK=0, _LONGEST=2):
            answer = self.visitor.client.get(address)
            self.served.portal.call(self._watched)
        return answer

    async def _watched(self) -> None:
        """Wait until the watcher has seen that nobody follows any more."""
        await self.served.app.state.live._task

    def ask(self, method: str, path: str, **options: Any) -> dict[str, object]:
        """Ask; how often the watcher looked while a page was told is up to the machine."""
        found = super().ask(method, path, **options)
        return found | {"work": []} if PAGES.get(path, "").endswith("/live") else found


@given(story=told)
@settings(patient, max_examples=8)
def test_equal_signals_give_equal_pages(story: ToldOverHttp) -> None:
    story.play(Browser)


@pytest.mark.verify
@given(story=told)
@settings(patient, max_examples=200)
def test_equal_signals_give_equal_pages_in_many_stories(story: ToldOverHttp) -> None:
    story.play(Browser)


@pytest.mark.parametrize("measured", ["precision[1]", "macro-recall", "weighted[0.4,0.6]", JUDGE])
def test_scores_and_estimates_show_nothing_but_their_answers(measured: str) -> None:
    story = measured_story(ToldOverHttp, measured)
    assert story.play(Browser) == ["1", "2", "too-few" if measured == "precision[1]" else "2"]


def test_a_validation_set_made_of_test_rows_gives_the_same_pages() -> None:
    labels = np.random.default_rng(0).integers(0, 2, ROWS)
    with two_sides(labels, labels, small_spec(inputs="public"), Browser) as sides:
        probes = [rows(labels, seed=seed).slice(0, 20) for seed in (INPUTS_SEED, 77)]
        for look in ("POST", *PAGES):
            seen = [
                side.ask("POST", "/validation-sets", content=parquet(probe))
                if look == "POST"
                else side.ask("GET", look)
                for side, probe in zip(sides, probes, strict=True)
            ]
            assert seen[0] == seen[1]


def test_a_page_hears_only_how_many_links_the_chain_has() -> None:
    labels = np.zeros(ROWS, dtype=np.int64)
    with two_sides(labels, labels, small_spec(inputs="public"), Browser) as sides:
        for number in range(3):
            heard = [side.ask("GET", "/report.svg") for side in sides]
            links = len(
                sides[0]
                .served.client("labeler")
                .get(f"/meters/{sides[0].meter}/audit")
                .json()["items"]
            )
            told = f"id: {links}\nevent: changed\ndata: {links}\n\n"
            assert heard[0] == heard[1]
            assert heard[0]["body"] == f": open\n\n{told}"
            for side in sides:
                perform(side, ("submit", ([number % 2] * ROWS, 0)), number)


def test_a_note_is_the_same_beside_the_same_answer() -> None:
    labels = np.zeros(ROWS, dtype=np.int64)
    other = labels.copy()
    other[0] = 1
    with two_sides(labels, other, small_spec(inputs="public"), Browser) as sides:
        shown = [perform(side, ("submit", ([0] * ROWS, 0)), 7) for side in sides]
        assert shown[0] == shown[1]
        assert shown[0]["status"] == 200
        for look in PAGES:
            seen = [side.ask("GET", look) for side in sides]
            assert seen[0] == seen[1], look
        assert "note 7" in str(sides[0].ask("GET", "/status")["body"])


def test_pages_are_what_is_compared() -> None:
    labels = np.zeros(ROWS, dtype=np.int64)
    with two_sides(labels, 1 - labels, small_spec(inputs="public"), Browser) as sides:
        shown = [perform(side, ("submit", ([0] * ROWS, 0)), 0) for side in sides]
        assert [each["status"] for each in shown] == [200, 200]
        assert "Answer 1: band 1." in str(shown[0]["body"])
        assert shown[0] != shown[1]
        statuses = {look: sides[0].ask("GET", look)["status"] for look in PAGES}
        expected = dict.fromkeys(PAGES, 200) | {
            "/signals": 403,
            "/audit": 403,
            "/notices": 403,
            "/badge.svg": 404,
            "/test-sets/1/released/testset.parquet": 404,
        }
        assert statuses == expected
