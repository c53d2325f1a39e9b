"""The list of meters, and a meter's page."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.forms import archived
from tests.report.sessions import session
from tests.server.driving import add, begin, begun, sealed, submit
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, body_with, words
from tests.server.web.test_stories import release, told
from tests.service.helpers import Labels, condition_spec, rows, small_spec

from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.views import SessionView
from easeml_meter.server.web.history import NEWEST, Session
from easeml_meter.server.web.meters import MeterPage, spans
from easeml_meter.service import meters as service
from easeml_meter.service import seats
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.audit import newest_link
from easeml_meter.service.submissions import queue
from easeml_meter.spec import MeterSpec
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
        meter, labels = begun(served, tmp_path)
        submit(served.client("developer"), meter, labels, model="net <1>")
        submit(served.client("developer"), meter, labels, errors=len(labels) // 5, salt="b")
        answer = Visitor(served, "developer").get(f"/meters/{meter}")
        said = words(answer)
        assert "The meter has climbed from band 1 to band 2" in said
        assert "this model's true gap lies between 1.6 and 53.6 %" in said
        assert "True error at most 53.6 % 80 % sure 0 % is what validation shows for m" in said
        assert "Latest answer 2 Band 2 of 3 gap 10 to 30 %" in said
        assert "Answers left 2 of 4" in said
        assert "Best promise so far: net <1> , true error at most 30 %, 80 % sure." in said
        assert "1 net <1> 1 band 1 gap 0 to 10 %" in said
        assert "gap 0 to 10 % 0 % 0 to 30 % developer just now 3" in said
        assert answer.text.count('<svg class="chart') == 2
        assert "net &lt;1&gt;" in answer.text

    def test_says_who_handed_in_a_step(self, served: Served, tmp_path: Path) -> None:
        meter, labels = begun(served, tmp_path)
        submit(served.client("developer"), meter, labels)
        submit(served.client("runner"), meter, labels, model="another")
        said = words(Visitor(served, "labeler").get(f"/meters/{meter}"))
        found = re.findall(r"gap 0 to 10 % 0 % 0 to [\d.]+ % (\w+) just now", said)
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
        meter, labels = begun(served, tmp_path, small_spec(steps=4, tenants=(2, 2)))
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
        meter, labels = begun(served, tmp_path, spec)
        for number in range(steps - 1):
            body = archived(body_with(labels, salt=str(number)))
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
    meter, labels = begun(served, tmp_path, small_spec(drawn=0.3, tolerance=0.2))
    developer = served.client("developer")
    submit(developer, meter, labels, errors=len(labels) // 2)
    (told,) = developer.get(f"/meters/{meter}/status").json()["signals"]
    lower, upper = (1000 * Fraction(str(edge)) for edge in told["gap"])
    gap = f"{math.floor(lower) / 10:g} to {math.ceil(upper) / 10:g} %"
    page = Visitor(served, "developer").get(f"/meters/{meter}")
    assert f"Latest answer Gap {gap}" in words(page)
    assert "band 1" not in words(page)
    assert words(page).count(f"gap {gap}") >= 2  # in the tip of its column, and in the activity
    promise = words(Visitor(served, "developer").get(f"/meters/{meter}/promise"))
    assert "The meter draws the edges of the bands for each answer, 30 % apart" in promise
    report = Visitor(served, "developer").get(f"/meters/{meter}/report.html")
    assert f"band {gap}" in words(report)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ({"question": "alarm", "labels": 50}, "ok means that the true loss is at most"),
        ({"question": "n > 0.5 +/- 0.2"}, "Each model passes or fails: n > 0.5 +/- 0.2"),
    ],
)
def test_the_promise_of_a_verdict_has_no_bands(
    served: Served, question: dict[str, Any], said: str
) -> None:
    spec = MeterSpec(bands=(), steps=4, delta=0.2, classes=(0, 1), **question)
    meter = served.add_meter(spec)
    page = Visitor(served, "developer").get(f"/meters/{meter}/promise")
    assert said in words(page)
    assert "<table>" not in page.text


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
    meter, labels = begun(served, tmp_path, spec)
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


def later(view: SessionView, generation: int, hours: int) -> SessionView:
    """Give the same session on another test set, some time later."""
    signals = [
        replace(each, told_at=each.told_at + timedelta(hours=hours)) for each in view.signals
    ]
    return replace(view, generation=generation, signals=tuple(signals))


def test_test_sets_lie_one_after_the_other() -> None:
    views = [session([1, 1, 1]), later(session([1]), 2, 28), later(session([]), 3, 0)]
    found = spans([Session(view, Role.DEVELOPER, {}) for view in views])
    assert (found[1].start, found[1].length) == (0, 50)
    assert found[2].start + found[2].length == 100
    assert found[2].length > 0, "a single answer can be seen"
    assert found[1].days == "2 Mar 2026"
    assert found[2].days == "3 Mar 2026"
    assert found[3].days == ""


@pytest.mark.parametrize("answers", [[], [1]])
def test_a_moment_is_a_time_line(answers: list[int]) -> None:
    (span,) = spans([Session(session(answers), Role.DEVELOPER, {})]).values()
    assert 0 <= span.start <= span.start + span.length <= 100


def test_the_time_line_says_what_an_answer_costs(served: Served, tmp_path: Path) -> None:
    meter = told(served, small_spec(), tmp_path)
    visitor = Visitor(served, "developer")
    status = served.client("developer").get(f"/meters/{meter}/status").json()
    labels = status["rows"]
    said = words(visitor.get(f"/meters/{meter}/test-sets"))
    assert f"{labels} 3 of 4 {labels / 4:,.0f} planned" in said
    release(served, meter)
    page = visitor.get(f"/meters/{meter}/test-sets")
    assert f"{labels} 3 of 3 {labels / 3:,.0f} " in words(page)
    assert 'class="span"' in page.text
    runner = words(Visitor(served, "runner").get(f"/meters/{meter}/test-sets"))
    assert "Labels per answer" not in runner


class TestHandover:
    @pytest.fixture
    def meter(self, served: Served, tmp_path: Path) -> str:
        spec = small_spec(steps=6, tenants=(3, 3))
        meter = served.add_meter(spec)
        begin(served, meter, tmp_path, size=required_labels(spec).labels + 10)
        return meter

    def test_is_shown_before_it_is_recorded(self, served: Served, meter: str) -> None:
        visitor = Visitor(served, "developer")
        assert "Hand over a checkpoint" in words(visitor.get(f"/meters/{meter}/settings"))
        path = f"/meters/{meter}/handover"
        for _ in range(2):
            shown = visitor.send(path, giver="1", receiver="2")
            assert "Teams 1 and 2 will share one history on test set 1" in words(shown)
            left = re.findall(r'right number">([0-9]+)(?:, shared)?<', shown.text)
            assert left == ["3", "4", "3", "4"], "each team: now, and shared afterwards"
        answer = visitor.send(path, giver="1", receiver="2", confirm="yes")
        assert answer.status_code == 303
        assert "Team 2 has to agree" in words(visitor.get(f"/meters/{meter}"))
        assert "Withdraw" in words(visitor.get(f"/meters/{meter}"))
        other = Visitor(served, "developer2")
        for page in (f"/meters/{meter}", f"/meters/{meter}/changed"):
            said = words(other.get(page))
            assert "Hand-over from team 1 to team 2 Team 2 has to agree" in said
            assert "1 3 4, shared yes 2 (yours) 3 4, shared not yet" in said
            assert "Agree to share one history Decline" in said
        accepted = other.send(f"{path}/answer", giver="1", receiver="2", answer="accept")
        assert accepted.status_code == 303
        assert "share one history from now on" in words(other.get(f"/meters/{meter}"))
        assert "teams 1 and 2 share one history" in words(visitor.get(f"/meters/{meter}"))
        again = visitor.send(path, giver="1", receiver="2")
        assert again.status_code == 422
        assert "already" in words(again)

    def test_whoever_agrees_last_is_told_that_it_counts_at_once(
        self, served: Served, meter: str
    ) -> None:
        path = f"/meters/{meter}/handover"
        Visitor(served, "developer").send(path, giver="1", receiver="2", confirm="yes")
        last = Visitor(served, "developer2")
        for giver, receiver in (("1", "2"), ("2", "1")):
            shown = words(last.send(path, giver=giver, receiver=receiver))
            assert "It counts as soon as you agree" in shown
            assert "1 3 4, shared yes 2 (yours) 3 4, shared not yet" in shown
            assert "Agree to share one history Cancel" in shown
            assert "Request the hand-over" not in shown
        last.send(path, giver="1", receiver="2", confirm="yes")
        assert "share one history from now on" in words(last.get(f"/meters/{meter}"))

    def test_names_all_teams_that_have_to_agree(self, served: Served, tmp_path: Path) -> None:
        spec = small_spec(steps=6, tenants=(2, 2, 2))
        meter = served.add_meter(spec, prefix="three-")
        begin(served, meter, tmp_path, prefix="three-")
        path = f"/meters/{meter}/handover"
        for user in ("three-developer", "three-developer2"):
            Visitor(served, user).send(path, giver="1", receiver="2", confirm="yes")
        shown = words(Visitor(served, "three-developer3").send(path, giver="1", receiver="3"))
        assert "It counts once teams 1 and 2 have agreed;" in shown

    @pytest.mark.parametrize("answer", ["accept", "decline"])
    def test_is_answered_by_an_admin(self, served: Served, meter: str, answer: str) -> None:
        path, asked = f"/meters/{meter}/handover", {"giver": "1", "receiver": "2"}
        Visitor(served, "developer").send(path, **asked, confirm="yes")
        admin = Visitor(served, "admin")
        assert "Agree to share one history" in words(admin.get(f"/admin/meters/{meter}"))
        sent = admin.send(f"{path}/answer", **asked, answer=answer)
        assert sent.headers["location"] == f"/admin/meters/{meter}"
        links = served.client("labeler").get(f"/meters/{meter}/audit").json()["items"]
        recorded = "handed over" in [link["event"] for link in links]
        assert recorded is (answer == "accept")
        assert "Hand-over from team 1" not in words(admin.get(f"/admin/meters/{meter}"))

    def test_is_for_developers_of_either_tenant(self, served: Served, meter: str) -> None:
        path = f"/meters/{meter}/handover"
        codes = {
            user: Visitor(served, user).send(path, giver="1", receiver="2").status_code
            for user in ("developer", "developer2", "labeler", "runner", "admin", "stranger")
        }
        assert codes == {
            "developer": 200,
            "developer2": 200,
            "labeler": 403,
            "runner": 403,
            "admin": 403,
            "stranger": 404,
        }

    @pytest.mark.parametrize("receiver", ["", "x", "1", "3", "²", "99999999"])
    def test_to_nobody(self, served: Served, meter: str, receiver: str) -> None:
        visitor = Visitor(served, "developer")
        answer = visitor.send(f"/meters/{meter}/handover", giver="1", receiver=receiver)
        assert answer.status_code == 422

    def test_is_refused_where_teams_share_every_answer(
        self, served: Served, tmp_path: Path
    ) -> None:
        spec = condition_spec(steps=6, tenants=(3, 3))
        meter = served.add_meter(spec, prefix="shared-")
        begin(served, meter, tmp_path, prefix="shared-")
        visitor = Visitor(served, "shared-developer")
        for more in ({}, {"confirm": "yes"}):
            answer = visitor.send(f"/meters/{meter}/handover", giver="1", receiver="2", **more)
            assert answer.status_code == 422
            assert "their levels use up delta: make a meter with handover" in words(answer)

    def test_is_not_offered_where_there_is_nobody_else(
        self, served: Served, tmp_path: Path
    ) -> None:
        meter = served.add_meter(prefix="one-")
        begin(served, meter, tmp_path, prefix="one-")
        assert "Hand over" not in Visitor(served, "one-developer").get(f"/meters/{meter}").text
