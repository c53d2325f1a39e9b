"""Answers on a meter's page: filtered, sorted, and as a file."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from tests.server.driving import begin, begun, submit
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, body_with, words


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


def test_a_note_is_shown_and_found(served: Served, tmp_path: Path) -> None:
    meter, labels = begun(served, tmp_path)
    link = "https://example.org/commit/1?a=1&b=2"
    visitor = Visitor(served, "developer")
    assert 'name="note"' in visitor.get(f"/meters/{meter}").text
    noted = {"note": " =<b>deep</b> & 'tree' ", "link": link}
    sent = visitor.put_in(f"/meters/{meter}/submit", body_with(labels), model="net", **noted)
    assert sent.status_code == 200
    runner = served.client("runner")
    answered = submit(runner, meter, labels, errors=1, model="job", note="by the night job")
    assert "night" not in answered.text
    page = visitor.get(f"/meters/{meter}").text
    assert "=&lt;b&gt;deep&lt;/b&gt; &amp; &#39;tree&#39;" in page
    assert 'href="https://example.org/commit/1?a=1&amp;b=2" rel="noopener' in page
    assert "<b>deep" not in page
    assert shown(visitor.get(f"/meters/{meter}?q=DEEP").text) == ["1"]
    table = list(csv.DictReader(io.StringIO(visitor.get(f"/meters/{meter}/history.csv").text)))
    assert [(row["note"], row["link"]) for row in table] == [
        ("by the night job", ""),
        ("'=<b>deep</b> & 'tree'", link),
    ]
    assert "example.org/commit/1" in Visitor(served, "labeler").get(f"/meters/{meter}").text
    assert "example.org" not in Visitor(served, "runner").get(f"/meters/{meter}").text
    notes = served.client("developer").get(f"/meters/{meter}/status").json()["notes"]
    assert [(each["step"], each["text"]) for each in notes] == [
        (1, "=<b>deep</b> & 'tree'"),
        (2, "by the night job"),
    ]


def test_what_is_no_note_is_refused(served: Served, tmp_path: Path) -> None:
    meter, labels = begun(served, tmp_path)
    bad = submit(served.client("developer"), meter, labels, link="javascript:alert(1)")
    assert bad.status_code == 422
    assert "http:// or https://" in bad.json()["message"]
    assert served.client("developer").get(f"/meters/{meter}/status").json()["signals"] == []
