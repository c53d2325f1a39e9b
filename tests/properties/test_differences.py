"""A meter that reads n - o in bands, from its file to its release, alone and among others."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.service.helpers import Session, condition_spec, make_session
from tests.service.submissions.test_deciding import submit

from easeml_meter.core.gate import Gate
from easeml_meter.core.views import signal_from_json, view_from_json
from easeml_meter.errors import InvalidInput
from easeml_meter.report.gauge import plain
from easeml_meter.report.meter import meter_svg
from easeml_meter.report.page import html_page
from easeml_meter.report.terminal import history_terminal, session_terminal, terminal
from easeml_meter.spec import MeterSpec

READING = "n - o at -0.2, 0.1 +/- 0.2"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    spec = condition_spec(question=READING, disagreement=0.45, inputs="public")
    return make_session(tmp_path, spec)


def test_the_file_comes_back(tmp_path: Path) -> None:
    spec = condition_spec(question="n-o at -.2,.1+/-.2", disagreement=0.5)
    assert (spec.question, spec.signals, spec.bands) == (READING, 3, ())
    spec.write(tmp_path / "meter.toml")
    assert MeterSpec.read(tmp_path / "meter.toml") == spec
    for options in ({}, {"disagreement": 0.5, "models": True}, {"disagreement": 0.5, "passes": 1}):
        with pytest.raises(InvalidInput):
            condition_spec(question=READING, **options)


def test_each_model_is_read_beside_the_old_one(session: Session) -> None:
    first = submit(session, 0.5, "deployed")
    told = [submit(session, right, f"m{right}") for right in (0.2, 0.45, 0.75)]
    far = submit(session, 0.01, "far")
    assert (first.name, first.steps_left) == ("baseline", 4)
    assert [each.band for each in told] == [1, 2, 3]
    assert [each.change for each in told] == [(-1.0, -0.2), (-0.2, 0.1), (0.1, 1.0)]
    assert told[1].true_change == pytest.approx((-0.4, 0.3))
    assert "true accuracy minus that of step 1 lies between -0.4 and 0.3." in told[1].promise
    assert (told[1].gap, told[1].true_loss_at_most, told[1].passed) == (None, None, None)
    assert (far.name, far.change) == ("too-far", None)
    assert "on more than 0.45 of the rows exactly one of the two is right" in far.promise
    for each in (first, *told, far):
        assert signal_from_json(json.loads(json.dumps(each.to_dict())), each.spec) == each
    with pytest.raises(InvalidInput, match="no gate"):
        Gate().check(session.meter.spec)


def test_the_reader_decides_what_is_promoted(session: Session) -> None:
    submit(session, 0.5, "deployed")
    submit(session, 0.45, "worse")
    assert session.meter.promote("worse") == 2
    assert submit(session, 0.7, "next").old == 2
    with pytest.raises(InvalidInput, match="was answered"):
        session.meter.promote("unknown")


def test_everything_that_shows_a_session_can_show_it(session: Session) -> None:
    submit(session, 0.5, "deployed")
    signals = [submit(session, right, f"m{right}") for right in (0.2, 0.45, 0.75, 0.01)]
    view = session.meter.status()
    console = Console(width=120, record=True, file=io.StringIO())
    for shown in (*map(terminal, signals), session_terminal(view), history_terminal(view)):
        console.print(shown)
    words = console.export_text()
    assert "Step 2: n - o below -0.2, model m0.2" in words
    assert "n - o on the test set: -0.2 to 0.1. Tolerance: 0.2." in words
    assert "≠ too far" in words
    assert "0.1 or more" in plain(signals[2])
    page, drawn = html_page(view), meter_svg(view)
    assert "the accuracy of the model minus that of the old one (n - o)" in page
    assert ">gap<" not in page
    assert "height: n - o" in drawn
    assert ">-1<" in drawn
    assert view_from_json(json.loads(json.dumps(view.to_dict())), view.spec) == view


def test_release_says_which_answers_were_right(session: Session) -> None:
    submit(session, 0.5, "deployed")
    for right in (0.2, 0.45, 0.01):
        submit(session, right, f"m{right}")
    folder = session.released()
    truths = [each["truth"] for each in json.loads((folder / "retrospective.json").read_text())]
    assert [each["band"] for each in truths] == [None, 1, 2, None]
    assert truths[1]["change"] == pytest.approx(-0.3, abs=0.01)
    assert (
        "In all 3 steps with losses, the answer was right." in (folder / "report.html").read_text()
    )
    assert session.meter.audit().sound
