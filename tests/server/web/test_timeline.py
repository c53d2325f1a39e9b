"""The time line of the test sets of a meter."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.report.sessions import session
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, words
from tests.server.web.test_stories import release, told
from tests.service.helpers import small_spec

from easeml_meter.core.people import Role
from easeml_meter.core.views import SessionView
from easeml_meter.server.web.history import Session
from easeml_meter.server.web.timeline import spans


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
