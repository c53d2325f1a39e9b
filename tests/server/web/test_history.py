"""Answers on a meter's page: filtered, sorted, and as a file."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from tests.server.driving import begin, submit
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, words


@pytest.fixture
def meter(served: Served, tmp_path: Path) -> str:
    """A meter with three answers."""
    made = served.add_meter()
    labels = begin(served, made, tmp_path)
    developer, runner = served.client("developer"), served.client("runner")
    submit(developer, made, labels, model="alpha")
    submit(developer, made, labels, errors=len(labels) // 5, validation_errors=4, model="=beta")
    submit(runner, made, labels, validation_errors=2, model="Gamma", salt="c")
    return made


def shown(page: str) -> list[str]:
    """Give the steps of the lines, in order."""
    return re.findall(r'<tr id="answer-(\d)"', page)


def test_lines_are_sorted_and_turned_round(served: Served, meter: str) -> None:
    visitor = Visitor(served, "developer")
    orders = {
        "": ["3", "2", "1"],
        "?by=step&up=true": ["1", "2", "3"],
        "?by=model&up=true": ["2", "1", "3"],
        "?by=validation": ["2", "3", "1"],
        "?by=answer": ["3", "2", "1"],
        "?by=promised&up=true": ["1", "3", "2"],
    }
    for query, order in orders.items():
        page = visitor.get(f"/meters/{meter}{query}").text
        assert shown(page)[0] == order[0], query
        assert sorted(shown(page)) == ["1", "2", "3"]
    assert visitor.get(f"/meters/{meter}?by=label").status_code == 422
    page = visitor.get(f"/meters/{meter}?by=validation").text
    assert 'aria-sort="descending"' in page
    assert "by=validation&amp;up=true" in page


def test_lines_are_filtered_by_name_and_person(served: Served, meter: str) -> None:
    visitor = Visitor(served, "developer")
    assert shown(visitor.get(f"/meters/{meter}?q=gamma").text) == ["3"]
    assert shown(visitor.get(f"/meters/{meter}?q=runner").text) == ["3"]
    nothing = visitor.get(f"/meters/{meter}?q=<b>nothing")
    assert "No submission matches." in words(nothing)
    assert "<b>nothing" not in nothing.text


def test_the_file_has_every_line_and_no_formula(served: Served, meter: str) -> None:
    visitor = Visitor(served, "developer")
    answer = visitor.get(f"/meters/{meter}/history.csv?by=step&up=true")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["model"] for row in table] == ["alpha", "'=beta", "Gamma"]
    assert [row["who"] for row in table] == ["developer", "developer", "runner"]
    status = served.client("developer").get(f"/meters/{meter}/status").json()["signals"]
    for row, signal in zip(table, status, strict=True):
        assert row["answer"] == signal["answer"]
        assert float(row["true_loss_at_most"]) == signal["true_loss_at_most"]
        assert float(row["validation_loss"]) == signal["validation_loss"]
    assert Visitor(served, "runner").get(f"/meters/{meter}/history.csv").status_code == 403
    assert Visitor(served, "stranger").get(f"/meters/{meter}/history.csv").status_code == 404


def test_a_note_is_written_shown_found_and_taken_away(served: Served, meter: str) -> None:
    visitor = Visitor(served, "developer")
    form = f"/meters/{meter}/note?generation=1&step=2"
    assert form.replace("&", "&amp;") in visitor.get(f"/meters/{meter}").text
    assert "A note on =beta" in words(visitor.get(form))
    link = "https://example.org/commit/1?a=1&b=2"
    saved = visitor.send(form, text="=<b>deep</b> & 'tree'", link=link)
    assert saved.status_code == 303
    page = visitor.get(saved.headers["location"])
    assert "The note was saved." in words(page)
    assert "=&lt;b&gt;deep&lt;/b&gt; &amp; &#39;tree&#39;" in page.text
    assert 'href="https://example.org/commit/1?a=1&amp;b=2" rel="noopener' in page.text
    assert "<b>deep" not in page.text
    assert shown(visitor.get(f"/meters/{meter}?q=DEEP").text) == ["2"]
    table = list(csv.DictReader(io.StringIO(visitor.get(f"/meters/{meter}/history.csv").text)))
    assert [(row["note"], row["link"]) for row in table] == [
        ("", ""),
        ("'=<b>deep</b> & 'tree'", link),
        ("", ""),
    ]
    assert 'value="https://example.org/commit/1?a=1&amp;b=2"' in visitor.get(form).text
    labeler = Visitor(served, "labeler").get(f"/meters/{meter}").text
    assert "example.org/commit/1" in labeler
    assert f"/meters/{meter}/note" not in labeler
    gone = visitor.send(form, text="", link="")
    assert "example.org" not in visitor.get(gone.headers["location"]).text


def test_a_note_is_none_without_a_submission_or_by_others(served: Served, meter: str) -> None:
    visitor = Visitor(served, "developer")
    form = f"/meters/{meter}/note?generation=1&step="
    for user, step, status in (
        ("developer", 9, 404),
        ("developer", 0, 422),
        ("labeler", 1, 403),
        ("stranger", 1, 404),
    ):
        other = Visitor(served, user)
        assert other.get(f"{form}{step}").status_code == status, user
        assert other.send(f"{form}{step}", text="x").status_code == status, user
    bad = visitor.send(f"{form}1", link="javascript:alert(1)")
    assert bad.status_code == 422
    assert "http:// or https://" in words(bad)
    assert served.client("developer").get(f"/meters/{meter}/status").json()["notes"] == []


def test_a_runner_notes_its_own_submission_by_the_api(served: Served, meter: str) -> None:
    runner = served.client("runner")
    path = f"/meters/{meter}/submissions/note"
    done = runner.post(path, json={"submission": "Gamma", "text": "by the night job"})
    assert done.json() == {"model": "Gamma", "step": 3, "generation": 1}
    assert runner.post(path, json={"submission": "alpha", "text": "x"}).status_code == 404
    assert runner.post(path, json={"submission": 1, "text": "x"}).status_code == 404
    assert runner.post(path, json={"submission": True, "text": "x"}).status_code == 422
    notes = served.client("developer").get(f"/meters/{meter}/status").json()["notes"]
    assert [(each["step"], each["text"]) for each in notes] == [(3, "by the night job")]
