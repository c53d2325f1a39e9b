"""The list of meters, and a meter's page."""

from __future__ import annotations

import re
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.server.driving import add, begin, sealed, submit
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, body_with, words
from tests.service.helpers import Labels, rows, small_spec

from easeml_meter.core.people import Role
from easeml_meter.server.web.history import NEWEST
from easeml_meter.server.web.meters import MeterPage
from easeml_meter.service import meters as service
from easeml_meter.service import seats
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.audit import newest_link
from easeml_meter.service.submissions import queue
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.rounding import at_least, at_most
from easeml_meter.storage.books.users import Users


class TestList:
    def test_shows_each_meter_at_a_glance(self, served: Served, tmp_path: Path) -> None:
        meter, new = served.add_meter(), served.add_meter(prefix="new-")
        labels = begin(served, meter, tmp_path)
        submit(served.client("developer"), meter, labels, errors=len(labels) // 5)
        seats.add_seat(
            SYSTEM, served.site.space(new), served.users["developer"].id, Role.DEVELOPER, 1
        )
        answer = Visitor(served, "developer").get("/meters")
        said = words(answer)
        assert "Active meter test set 1, developer" in said
        assert "band 2, true error, 80 % sure 3 of 4 answers left" in said
        assert "Labels needed new-meter test set 1, developer" in said
        needed = served.client("developer").get(f"/meters/{new}/status").json()["labels_needed"]
        assert f"{needed:,} labels needed Hand in the validation set" in said
        assert f'href="/meters/{meter}"' in answer.text

    def test_shows_signals_only_to_those_who_may_see_them(
        self, served: Served, tmp_path: Path
    ) -> None:
        meter = served.add_meter()
        submit(served.client("developer"), meter, begin(served, meter, tmp_path))
        shown = {
            user: "band 1" in words(Visitor(served, user).get("/meters"))
            for user in ("developer", "labeler", "runner", "admin", "stranger")
        }
        assert shown == {
            "developer": True,
            "labeler": True,
            "runner": False,
            "admin": False,
            "stranger": False,
        }
        assert "You have no seat" in words(Visitor(served, "stranger").get("/meters"))

    def test_reads_no_users_but_those_who_submitted(
        self, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It read every account of the site, once for each meter."""
        meter = served.add_meter()
        submit(served.client("developer"), meter, begin(served, meter, tmp_path))
        visitors = [Visitor(served, name) for name in ("developer", "labeler")]
        monkeypatch.delattr(Users, "all")
        for path in ("/meters", f"/meters/{meter}"):
            assert all("band 1" in words(each.get(path)) for each in visitors)
        assert "labels" in words(visitors[1].get(f"/meters/{meter}/labels"))


class TestMeter:
    def test_tells_a_developer_everything(self, served: Served, tmp_path: Path) -> None:
        meter = served.add_meter()
        labels = begin(served, meter, tmp_path)
        submit(served.client("developer"), meter, labels, model="net <1>")
        submit(served.client("developer"), meter, labels, errors=len(labels) // 5, salt="b")
        answer = Visitor(served, "developer").get(f"/meters/{meter}")
        said = words(answer)
        assert "The meter has climbed from band 1 to band 2" in said
        assert "this model's true gap lies between 0 and 55 %" in said
        assert "True error at most 55 % 80 % sure 0 % is what validation shows for m" in said
        assert "Latest answer 2 Band 2 of 3 gap 10 to 30 %" in said
        assert "Answers left 2 of 4" in said
        assert "Best promise so far: net <1> , true error at most 35 %, 80 % sure." in said
        assert "1 net <1> 1 band 1 gap 0 to 10 %" in said
        assert "gap 0 to 10 % 0 % 0 to 35 % developer just now 3" in said
        assert answer.text.count('<svg class="chart') == 2
        assert "net &lt;1&gt;" in answer.text

    def test_says_who_handed_in_a_step(self, served: Served, tmp_path: Path) -> None:
        meter = served.add_meter()
        labels = begin(served, meter, tmp_path)
        submit(served.client("developer"), meter, labels)
        submit(served.client("runner"), meter, labels, salt="b")
        said = words(Visitor(served, "labeler").get(f"/meters/{meter}"))
        found = re.findall(r"gap 0 to 10 % 0 % 0 to 35 % (\w+) just now", said)
        assert found == ["runner", "developer"]

    def test_shows_each_role_what_it_may_see_and_do(self, served: Served, tmp_path: Path) -> None:
        meter = served.add_meter(small_spec(models=True, inputs="public"))
        submit(served.client("developer"), meter, begin(served, meter, tmp_path))
        marks = {
            "signals": "Answers left",
            "history": "band 1",
            "submit": "Check for free",
            "validation": "20 rows",
            "replace": "Replace the validation set",
            "labels": "Labels Overview",
            "manage": "Manage this meter",
        }
        shown = {}
        for user in ("developer", "labeler", "runner", "admin"):
            visitor = Visitor(served, user)
            tabs = re.findall(
                rf'href="(/meters/{meter}[^"]*)"', visitor.get(f"/meters/{meter}").text
            )
            kinds = ("", "/promise", "/test-sets", "/validation", "/settings")
            own = {f"/meters/{meter}{kind}" for kind in kinds} & set(tabs)
            pages = {tab: visitor.get(tab) for tab in own}
            assert {page.status_code for page in pages.values()} == {200}
            said = " ".join(map(words, pages.values()))
            assert "With 80 % certainty" in words(pages[f"/meters/{meter}"])
            assert "With 80 % certainty" in words(pages[f"/meters/{meter}/promise"])
            shown[user] = {name for name, mark in marks.items() if mark in said}
        assert shown == {
            "developer": {"signals", "history", "submit", "validation", "replace"},
            "labeler": {"signals", "history", "validation", "labels"},
            "runner": {"submit", "validation"},
            "admin": {"manage"},
        }

    def test_without_a_seat_does_not_exist(self, served: Served) -> None:
        meter = served.add_meter()
        visitor = Visitor(served, "stranger")
        answers = [visitor.get(f"/meters/{each}") for each in (meter, "0" * 32, "x")]
        assert [answer.status_code for answer in answers] == [404, 404, 404]
        assert meter[:32] in answers[0].text  # as it was typed
        assert Visitor(served, "admin").get(f"/meters/{'0' * 32}").status_code == 404

    def test_belongs_to_a_tenant(self, served: Served, tmp_path: Path) -> None:
        meter = served.add_meter(small_spec(steps=4, tenants=(2, 2)))
        labels = begin(served, meter, tmp_path)
        submit(served.client("developer2"), meter, labels, model="of the second")
        first, labeler = Visitor(served, "developer"), Visitor(served, "labeler")
        assert "of the second" not in first.get(f"/meters/{meter}").text
        assert first.get(f"/meters/{meter}?tenant=2").status_code == 403
        assert "of the second" not in labeler.get(f"/meters/{meter}").text
        assert "of the second" in labeler.get(f"/meters/{meter}?tenant=2").text
        assert "of the second" in Visitor(served, "developer2").get(f"/meters/{meter}").text

    def test_stays_small_however_long_the_history(self, served: Served, tmp_path: Path) -> None:
        steps = 2 * NEWEST + 5
        spec = small_spec(steps=steps, signals=1, edges=[], tolerance=0.45, delta=0.5)
        meter = served.add_meter(spec)
        labels = begin(served, meter, tmp_path)
        for number in range(steps - 1):
            body = body_with(labels, salt=str(number))
            name = f"a model with a name, number {number}"
            queue.accept(Actor(((Role.DEVELOPER, 1),)), served.site.space(meter), name, body)
        answer = Visitor(served, "developer").get(f"/meters/{meter}")
        assert f"The first {NEWEST} of {steps - 1} submissions." in words(answer)
        assert f"The newest {NEWEST} of {steps - 1} submissions." in words(answer)
        assert len(answer.content) < 80_000
        assert (
            f"number {steps - 2}"
            in Visitor(served, "developer").get(f"/meters/{meter}/report.html").text
        )

    def test_after_release(self, served: Served, tmp_path: Path) -> None:
        meter = served.add_meter(small_spec(steps=1))
        submit(served.client("developer"), meter, begin(served, meter, tmp_path), model="only")
        visitor = Visitor(served, "developer")
        spent = words(visitor.get(f"/meters/{meter}"))
        assert "gives no more answers" in spent
        assert "meter release" not in spent
        assert "You cannot submit now" in spent
        assert "In retrospect" not in spent
        files = f"/meters/{meter}/test-sets/1/released"
        assert visitor.get(f"{files}/testset.parquet").status_code == 404
        released = served.client("labeler").post(f"/meters/{meter}/test-sets/1/release")
        assert released.status_code == 200
        page = visitor.get(f"/meters/{meter}")
        assert "In all 1 step with losses, the answer was right." in words(page)
        assert 'class="m-svg m-curves' in page.text
        links = re.findall(rf'href="({files}/[^"]+)"', page.text)
        assert len(links) == 3
        for link in links:
            assert visitor.get(link).status_code == 200
        assert visitor.get(f"{files}/testset.parquet").content.startswith(b"PAR1")
        assert Visitor(served, "stranger").get(links[0]).status_code == 404
        assert Visitor(served, "admin").get(links[0]).status_code == 403

    def test_offers_its_files(self, served: Served, tmp_path: Path) -> None:
        meter = served.add_meter(small_spec(inputs="public"))
        begin(served, meter, tmp_path)
        visitor = Visitor(served, "developer")
        page = "".join(visitor.get(f"/meters/{meter}{tab}").text for tab in ("", "/validation"))
        paths = [f"/meters/{meter}/validation/1", f"/meters/{meter}/test-sets/1/inputs.parquet"]
        for path in paths:
            assert f'href="{path}"' in page
            assert visitor.get(path).content.startswith(b"PAR1")
            assert Visitor(served, "admin").get(path).status_code == 403

    def test_hides_hidden_inputs(self, served: Served, tmp_path: Path) -> None:
        meter = served.add_meter(small_spec(inputs="hidden"))
        begin(served, meter, tmp_path)
        visitor = Visitor(served, "developer")
        assert "inputs.parquet" not in visitor.get(f"/meters/{meter}").text
        path = f"/meters/{meter}/test-sets/1/inputs.parquet"
        assert visitor.get(path).status_code == 403
        assert Visitor(served, "runner").get(path).status_code == 200


@pytest.mark.parametrize("read", ["the meter", "its answers"])
def test_what_happens_while_a_page_is_drawn_is_news_to_it(
    served: Served, meter: str, labels: Labels, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    pages = sys.modules[MeterPage.__module__]
    place, name = (service, "meter_state") if read == "the meter" else (pages, "show_session")
    real = getattr(place, name)
    answered: list[bool] = []

    def answered_meanwhile(*given: object) -> object:
        found = real(*given)
        if not answered:
            answered.append(True)
            submit(served.client("runner"), meter, labels, model="meanwhile")
        return found

    visitor = Visitor(served, "developer")
    before = newest_link(SYSTEM, served.site.space(meter))
    monkeypatch.setattr(place, name, answered_meanwhile)
    page = visitor.get(f"/meters/{meter}")
    assert f'data-after="{before}"' in page.text
    assert newest_link(SYSTEM, served.site.space(meter)) == before + 1


def test_the_page_of_an_earlier_test_set_sends_to_the_one_that_answers(
    served: Served, tmp_path: Path
) -> None:
    meter = served.add_meter(small_spec(models=True), prefix="old-")
    begin(served, meter, tmp_path, prefix="old-")
    Visitor(served, "old-labeler").send(f"/meters/{meter}/test-sets/1/retire")
    labeler = served.client("old-labeler")
    needed = labeler.get(f"/meters/{meter}/requests").json()["items"][0]["labels_needed"]
    table = rows(np.arange(needed) % 2, seed=5)
    assert add(labeler, meter, sealed(served, meter, table, tmp_path, generation=2)).is_success
    developer = Visitor(served, "old-developer")
    assert "Submit the model, use an answer" in words(developer.get(f"/meters/{meter}"))
    page = developer.get(f"/meters/{meter}?generation=1")
    assert "You see test set 1. To the current one" in words(page)
    assert "Submit the model" not in words(page), "it would be answered by test set 2"
    assert f'href="/meters/{meter}#submit"' in page.text


def test_drawn_edges_stand_on_the_page(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter(small_spec(drawn=0.3, tolerance=0.2))
    labels = begin(served, meter, tmp_path)
    developer = served.client("developer")
    submit(developer, meter, labels, errors=len(labels) // 2)
    (told,) = developer.get(f"/meters/{meter}/status").json()["signals"]
    lower, upper = (100 * Fraction(str(edge)) for edge in told["gap"])
    gap = f"{at_least(lower, 4)} to {at_most(upper, 4)} %"
    page = Visitor(served, "developer").get(f"/meters/{meter}")
    assert f"Latest answer Gap {gap}" in words(page)
    assert "band 1" not in words(page)
    assert words(page).count(f"gap {gap}") >= 2  # in the tip of its column, and in the activity
    promise = words(Visitor(served, "developer").get(f"/meters/{meter}/promise"))
    assert "The meter draws the edges of the bands for each answer, 30 % apart" in promise
    report = Visitor(served, "developer").get(f"/meters/{meter}/report.html")
    assert f"band {gap}" in words(report)


def test_pages_bring_no_style_or_script_of_their_own_and_guard_every_form(
    served: Served, tmp_path: Path
) -> None:
    meter = served.add_meter(small_spec(steps=6, tenants=(3, 3), models=True))
    submit(served.client("developer"), meter, begin(served, meter, tmp_path))
    visitor = Visitor(served, "developer")
    tabs = [f"/meters/{meter}/{tab}" for tab in ("promise", "test-sets", "validation", "settings")]
    paths = ("/meters", f"/meters/{meter}", *tabs, "/nowhere")
    pages = [visitor.get(path).text for path in paths]
    pages.append(visitor.send(f"/meters/{meter}/handover", giver="1", receiver="2").text)
    pages.append(Visitor(served).get("/sign-in").text)
    for page in pages:
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=\"/static/)", page)
        for form in re.findall(r"<form.*?</form>", page, flags=re.DOTALL):
            assert 'name="csrf" value="' in form or "data-upload" in form or 'method="get"' in form
        assert re.findall(r"<h1", page) == ["<h1"]


def test_a_condition_is_passed_or_failed_on_the_page(served: Served, tmp_path: Path) -> None:
    spec = MeterSpec((), steps=3, delta=0.2, question="n > 0.5 +/- 0.2", classes=(0, 1))
    meter = served.add_meter(spec)
    labels = begin(served, meter, tmp_path)
    developer = served.client("developer")
    submit(developer, meter, labels, model="good")
    submit(developer, meter, labels, errors=len(labels), model="bad")
    visitor = Visitor(served, "developer")
    said = words(visitor.get(f"/meters/{meter}"))
    assert "Latest answer ✗ Fail" in said
    assert "2 bad ✗ fail" in said
    assert "1 good ✓ pass" in said
    for tab in ("promise", "settings"):
        assert "n > 0.5 +/- 0.2" in words(visitor.get(f"/meters/{meter}/{tab}"))
    assert "✓ ✗" in words(visitor.get(f"/meters/{meter}/test-sets"))
