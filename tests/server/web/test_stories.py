"""The story of a released test set, and its picture; and badges."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.server.driving import VALIDATION, begin, begun, packed, parquet, submit
from tests.server.helpers import Served, serve
from tests.server.web.helpers import Visitor, words
from tests.service.helpers import Labels, small_spec, with_errors

from easeml_meter import charts
from easeml_meter.server.web.history import NEWEST
from easeml_meter.spec import MeterSpec


def release(served: Served, meter: str) -> None:
    """Retire the test set and hand it out."""
    labeler = served.client("labeler")
    labeler.post(f"/meters/{meter}/test-sets/1/retire")
    released = labeler.post(f"/meters/{meter}/test-sets/1/release")
    assert released.status_code == 200, released.text


def told(served: Served, spec: MeterSpec, folder: Path) -> str:
    """Make a meter that answered three submissions; the second is the best on validation."""
    meter = served.add_meter(spec)
    labels = begin(served, meter, folder)
    for number, (errors, seen) in enumerate(
        [(len(labels) // 5, 10), (len(labels) // 2, 2), (5, 8)]
    ):
        answer = submit(
            served.client("developer"),
            meter,
            labels,
            errors=errors,
            validation_errors=seen,
            model=f"model {number}",
        )
        assert answer.status_code == 200, answer.text
    return meter


def test_the_story_tells_what_was_seen_and_what_was_true(served: Served, tmp_path: Path) -> None:
    meter = told(served, small_spec(), tmp_path)
    release(served, meter)
    visitor = Visitor(served, "developer")
    records = visitor.get(f"/meters/{meter}/test-sets/1/released/retrospective.json").json()
    truth = records[1]["truth"]
    assert truth["validation_loss"] == min(each["truth"]["validation_loss"] for each in records)
    page = visitor.get(f"/meters/{meter}/test-sets/1")
    said = words(page)
    saw, was = (f"{round(100 * truth[name], 1):g} %" for name in ("validation_loss", "test_loss"))
    assert f"You saw {saw} . It was {was} ." in said
    assert "model 1 has the best validation error" in said
    assert "3 of 3 In all 3 steps with losses, the answer was right." in said
    for each in records:
        assert f"{round(100 * each['truth']['test_loss'], 1):g} %" in said
    assert page.text.count('id="answer-') == 3
    assert 'class="ring"' in page.text
    assert "style=" not in page.text
    ids = re.findall(r' id="([^"]+)"', page.text)
    assert len(ids) == len(set(ids))


def test_the_story_is_linked_and_its_links_lead_somewhere(served: Served, tmp_path: Path) -> None:
    meter = told(served, small_spec(), tmp_path)
    release(served, meter)
    visitor = Visitor(served, "developer")
    story = f"/meters/{meter}/test-sets/1"
    for path in (f"/meters/{meter}?generation=1", f"/meters/{meter}/test-sets"):
        assert f'href="{story}?tenant=1"' in visitor.get(path).text
    links = set(re.findall(r'href="(/meters[^"#]*)"', visitor.get(story).text))
    assert f"{story}/story.svg?tenant=1" in links
    for link in links:
        assert visitor.get(link.replace("&amp;", "&")).status_code == 200


def test_the_picture_stands_alone(served: Served, tmp_path: Path) -> None:
    meter = told(served, small_spec(), tmp_path)
    release(served, meter)
    visitor, story = Visitor(served, "developer"), f"/meters/{meter}/test-sets/1"
    answer = visitor.get(f"{story}/story.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["content-disposition"] == 'attachment; filename="test-set-1.svg"'
    assert "You saw" in answer.text
    assert "model 1" not in answer.text
    assert visitor.get(f"{story}/story.gif").status_code == 422


def test_the_picture_is_a_png_where_the_extra_is_installed(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("vl_convert")
    meter = told(served, small_spec(), tmp_path)
    release(served, meter)
    visitor, story = Visitor(served, "developer"), f"/meters/{meter}/test-sets/1"
    assert f'href="{story}/story.png?tenant=1"' in visitor.get(story).text
    assert visitor.get(f"{story}/story.png").content.startswith(b"\x89PNG")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    monkeypatch.setattr(charts, "draws_png", lambda: False)
    assert "story.png" not in visitor.get(story).text
    refused = visitor.get(f"{story}/story.png")
    assert refused.is_client_error
    assert "charts need the extra" in words(refused)


@pytest.mark.parametrize("path", ["", "/story.svg", "/story.png"])
def test_before_release_there_is_no_story(served: Served, tmp_path: Path, path: str) -> None:
    meter = told(served, small_spec(), tmp_path)
    visitor = Visitor(served, "developer")
    for number in (1, 2, 7):
        answer = visitor.get(f"/meters/{meter}/test-sets/{number}{path}")
        assert answer.status_code == 404
        assert "It was" not in answer.text
    assert "its story" not in words(visitor.get(f"/meters/{meter}/test-sets"))
    served.client("labeler").post(f"/meters/{meter}/test-sets/1/retire")
    assert visitor.get(f"/meters/{meter}/test-sets/1{path}").status_code == 404


@pytest.mark.parametrize("path", ["", "/story.svg"])
def test_each_team_has_its_own_story(served: Served, tmp_path: Path, path: str) -> None:
    meter, labels = begun(served, tmp_path, small_spec(steps=4, tenants=(2, 2)))
    submit(served.client("developer"), meter, labels, validation_errors=3, model="first team's")
    submit(served.client("developer2"), meter, labels, validation_errors=9, model="second team's")
    release(served, meter)
    story = f"/meters/{meter}/test-sets/1{path}"
    one, two = (Visitor(served, user).get(story) for user in ("developer", "developer2"))
    assert one.status_code == two.status_code == 200
    assert "second team" not in one.text
    assert "first team" not in two.text
    assert words(one) != words(two)
    others = Visitor(served, "developer2").get(story, params={"tenant": 1})
    assert others.status_code in (403, 404)
    assert Visitor(served, "stranger").get(story).status_code == 404
    assert Visitor(served, "runner").get(story).status_code == 403


@pytest.mark.parametrize(
    "spec",
    [
        MeterSpec((), steps=4, delta=0.2, question="n > 0.5 +/- 0.2", classes=(0, 1)),
        small_spec(protocol="incremental", edges=[0.1, 0.6]),
        small_spec(drawn=0.3, tolerance=0.2),
        small_spec(ceiling=0.3),
    ],
    ids=["pass or fail", "incremental", "drawn edges", "ceiling"],
)
def test_every_kind_of_meter_has_a_story(served: Served, tmp_path: Path, spec: MeterSpec) -> None:
    meter = told(served, spec, tmp_path)
    release(served, meter)
    visitor = Visitor(served, "developer")
    page = visitor.get(f"/meters/{meter}/test-sets/1")
    assert page.status_code == 200
    assert "model 1 has the best validation error" in words(page)
    assert "the answer was right." in words(page)
    assert visitor.get(f"/meters/{meter}/test-sets/1/story.svg").status_code == 200
    assert "its story" in words(visitor.get(f"/meters/{meter}/test-sets"))


def probabilities(labels: Labels, errors: int) -> bytes:
    chance = 0.25 + with_errors(labels, errors) / 2
    columns = {"probability_0": 1 - chance, "probability_1": chance}
    return parquet(pa.table({"id": np.arange(len(labels)), **columns}))


def test_the_story_of_roc_curves_calls_none_the_best(served: Served, tmp_path: Path) -> None:
    meter, labels = begun(served, tmp_path, small_spec(loss="roc[1]", rows=400))
    for number, errors in enumerate((0, len(labels) // 5)):
        body = packed(
            test_parquet=probabilities(labels, errors),
            validation_parquet=probabilities(VALIDATION, number),
        )
        path, params = f"/meters/{meter}/submissions", {"model": f"model {number}"}
        answer = served.client("developer").post(path, params=params, content=body)
        assert answer.status_code == 200, answer.text
    release(served, meter)
    said = words(Visitor(served, "developer").get(f"/meters/{meter}/test-sets/1"))
    assert re.search(r"The ROC curves were at most 0\.\d+ apart\.", said)
    assert "In all 2 steps with losses, the answer was right." in said
    assert "model 1" in said
    assert "best" not in said
    assert "You saw" not in said


def test_a_test_set_that_gave_no_answer_has_nothing_to_tell(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter()
    begin(served, meter, tmp_path)
    release(served, meter)
    visitor = Visitor(served, "developer")
    said = words(visitor.get(f"/meters/{meter}/test-sets/1"))
    assert "No losses to compare. No answers were given from this test set." in said
    assert "You saw" not in said
    assert "0 of" in said
    assert "no answers" in said


def test_long_stories_list_the_newest(served: Served, tmp_path: Path) -> None:
    meter, labels = begun(served, tmp_path, small_spec(steps=NEWEST + 3, signals=1, edges=[]))
    for number in range(NEWEST + 2):
        submit(
            served.client("developer"), meter, labels, model=f"number {number}", salt=f"{number}"
        )
    release(served, meter)
    page = Visitor(served, "developer").get(f"/meters/{meter}/test-sets/1")
    assert page.text.count('id="answer-') == NEWEST
    assert f"These are the newest {NEWEST} of {NEWEST + 2} submissions." in words(page)
    assert len(page.content) < 100_000


def answered(served: Served, folder: Path, spec: MeterSpec | None = None) -> tuple[str, int]:
    """Make a meter that answered two submissions; return it with the number of its labels."""
    meter = served.add_meter(spec or small_spec())
    labels = begin(served, meter, folder)
    for errors in (2, 30):
        told = submit(
            served.client("developer"), meter, labels, errors=errors, model=f"{errors} errors"
        )
        assert told.status_code == 200, told.text
    return meter, len(labels)


def test_before_release_the_page_says_why_there_is_nothing(served: Served, tmp_path: Path) -> None:
    meter, _ = answered(served, tmp_path)
    visitor = Visitor(served, "developer")
    page = visitor.get(f"/meters/{meter}/test-sets/1/compare?first=1&second=2")
    assert page.status_code == 404
    assert "before, they would tell of its labels" in words(page)
    assert "once the test set is released: before, that would tell labels" in words(
        visitor.get(f"/meters/{meter}")
    )


@pytest.mark.parametrize("name", ["developer", "labeler"])
def test_two_models_are_compared_down_to_the_examples(
    served: Served, tmp_path: Path, name: str
) -> None:
    meter, rows = answered(served, tmp_path)
    release(served, meter)
    visitor = Visitor(served, name)
    story = visitor.get(f"/meters/{meter}/test-sets/1")
    assert f"/meters/{meter}/test-sets/1/compare?tenant=1" in story.text
    page = visitor.get(f"/meters/{meter}/test-sets/1/compare?first=1&second=2")
    said = words(page)
    assert page.status_code == 200
    assert f"{round(100 * 2 / rows, 1):g} % test error" in said
    assert f"{round(100 * 30 / rows, 1):g} % test error" in said
    assert "28 right to wrong 0 wrong to right" in said
    assert "Examples 1 to 20 of 28." in said
    second = visitor.get(f"/meters/{meter}/test-sets/1/compare?first=1&second=2&page=2")
    assert "Examples 21 to 28 of 28." in words(second)
    assert second.text.count('<th scope="row">') == 8
    turned = visitor.get(f"/meters/{meter}/test-sets/1/compare?first=2&second=1&show=better")
    assert "0 right to wrong 28 wrong to right" in words(turned)
    assert turned.text.count('<th scope="row">') == 20


def test_numbers_out_of_range_are_refused(served: Served, tmp_path: Path) -> None:
    meter, _ = answered(served, tmp_path)
    release(served, meter)
    visitor = Visitor(served, "developer")
    for query in ("first=9", "page=0", "show=labels"):
        page = visitor.get(f"/meters/{meter}/test-sets/1/compare?{query}")
        assert page.status_code == 422, query


@pytest.mark.parametrize(("name", "status"), [("runner", 403), ("admin", 403), ("stranger", 404)])
def test_who_sees_no_answers_sees_no_comparison(
    served: Served, tmp_path: Path, name: str, status: int
) -> None:
    meter, _ = answered(served, tmp_path)
    release(served, meter)
    page = Visitor(served, name).get(f"/meters/{meter}/test-sets/1/compare")
    assert page.status_code == status
    assert "errors" not in words(page)


def test_badges_show_the_last_signal_to_everyone_where_the_site_wants_that(tmp_path: Path) -> None:
    with serve(tmp_path / "site", badges=True) as served:
        meter = served.add_meter()
        visitor = Visitor(served)
        assert "no answers yet" in visitor.get(f"/badge/{meter}.svg").text
        labels = begin(served, meter, tmp_path)
        submit(served.client("developer"), meter, labels, model="secret name")
        answer = visitor.get(f"/badge/{meter}.svg")
        assert answer.headers["content-type"] == "image/svg+xml"
        assert answer.headers["cache-control"] == "no-cache"
        assert "band 1, 3 steps left" in answer.text
        assert "secret name" not in answer.text
        shields = visitor.get(f"/badge/{meter}.json")
        assert shields.headers["content-type"] == "application/json"
        assert shields.headers["cache-control"] == "no-cache"
        assert shields.json()["message"] == "band 1, 3 steps left"
        assert set(shields.json()) == {"schemaVersion", "label", "message", "color", "labelColor"}
        for kind in ("svg", "json"):
            assert visitor.get(f"/badge/{'0' * 32}.{kind}").status_code == 404


@pytest.mark.parametrize("kind", ["svg", "json"])
def test_badges_are_off_unless_asked_for(tmp_path: Path, kind: str) -> None:
    with serve(tmp_path / "site") as served:
        meter = served.add_meter()
        real, made_up = (Visitor(served).get(f"/badge/{m}.{kind}") for m in (meter, "0" * 32))
        assert (real.status_code, made_up.status_code) == (404, 404)
        assert real.text.replace(meter, "") == made_up.text.replace("0" * 32, "")
