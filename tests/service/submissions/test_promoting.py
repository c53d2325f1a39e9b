"""The old model: the first submission, until another one that passed is promoted."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.service.helpers import Clock, Session, condition_spec, make_session, write_predictions

from easeml_meter.core.model import Event
from easeml_meter.core.people import Role
from easeml_meter.core.views import Signal
from easeml_meter.errors import Denied, InvalidInput, Spent
from easeml_meter.meter import Meter
from easeml_meter.report.page import html_page
from easeml_meter.report.terminal import session_terminal
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions import answering, promoting
from easeml_meter.storage.journal import Journal


def compared(tmp_path: Path, **options: Any) -> Session:
    settings = {"question": "n - o > 0.1 +/- 0.2", "steps": 4, "inputs": "public"}
    return make_session(tmp_path, condition_spec(**(settings | options)))


def submit(session: Session, right: float, model: str) -> Signal:
    """Submit a model that is right on a share of the rows, the same ones first."""
    labels = session.test_labels
    wrong = labels.copy()
    wrong[round(right * len(labels)) :] ^= 1
    test, validation = (session.folder / f"{part}-{model}.parquet" for part in ("t", "v"))
    write_predictions(test, wrong, model)
    write_predictions(validation, session.validation_labels, model)
    return session.meter.submit(test, validation, model=model)


def test_the_first_model_is_compared_with_by_all_others_and_is_free(tmp_path: Path) -> None:
    session = compared(tmp_path)
    first = submit(session, 0.5, "deployed")
    assert (first.name, first.passed, first.old, first.steps_left) == ("baseline", None, None, 4)
    told = [submit(session, right, f"m{right}") for right in (0.75, 0.82, 0.95)]
    assert [each.name for each in told] == ["fail", "pass", "pass"]
    assert {each.old for each in told} == {1}
    assert told[-1].steps_left == 1
    assert "exceeds the old model's by more than 0.1. The old model is that of step 1." in (
        told[-1].promise
    )


def test_a_model_that_passed_can_be_promoted(tmp_path: Path) -> None:
    session = compared(tmp_path)
    submit(session, 0.3, "deployed")
    submit(session, 0.4, "worse")
    assert submit(session, 0.7, "better").passed
    with pytest.raises(InvalidInput, match="has passed"):
        session.meter.promote("worse")
    with pytest.raises(InvalidInput, match="has passed"):
        session.meter.promote("unknown")
    assert session.meter.promote("better") == 3
    told = submit(session, 0.9, "next")
    assert (told.name, told.old) == ("fail", 3)
    assert session.meter.audit().sound


def test_promotions_do_not_fill_the_chain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every answer reads all of them, and a team could promote for nothing for ever."""
    monkeypatch.setattr(promoting, "MOST_FOR_EACH", 1)
    session = compared(tmp_path)
    for right in (0.3, 0.7, 0.8):
        submit(session, right, f"m{right}")
    for model in ("m0.7", "m0.7", "m0.8", "m0.7", "m0.7"):
        session.meter.promote(model)
    links = session.meter.audit().links
    assert [link.details["step"] for link in links if link.event == Event.PROMOTED] == [2, 3, 2]
    with pytest.raises(InvalidInput, match="at most 1 promotions for each answer"):
        session.meter.promote("m0.8")
    assert submit(session, 0.9, "next").old == 2
    assert session.meter.promote("m0.8") == 3


def test_a_ladder_goes_on_from_the_last_model_that_passed(tmp_path: Path) -> None:
    session = compared(tmp_path, question="better", tolerance=0.2, steps=5)
    told = [submit(session, right, f"m{right}") for right in (0.1, 0.35, 0.5, 0.6, 0.85)]
    assert [each.name for each in told] == ["baseline", "pass", "fail", "pass", "pass"]
    assert [each.old for each in told] == [None, 1, 2, 2, 4]
    with pytest.raises(InvalidInput, match="ladder"):
        session.meter.promote("m0.6")


def test_a_model_that_differs_too_much_fails(tmp_path: Path) -> None:
    session = compared(tmp_path, disagreement=0.4)
    submit(session, 0.1, "deployed")
    assert submit(session, 0.45, "near").passed
    assert submit(session, 0.9, "far").passed is False


def test_a_share_of_rows_is_limited(tmp_path: Path) -> None:
    session = compared(tmp_path, question="d < 0.6 +/- 0.2 /\\ n > 0.3 +/- 0.2")
    submit(session, 0.5, "deployed")
    assert submit(session, 0.7, "near").passed
    assert submit(session, 0.95, "far").passed is False


def test_release_compares_again_with_the_same_model(tmp_path: Path) -> None:
    session = compared(tmp_path, steps=2)
    for right in (0.3, 0.8, 0.35):
        submit(session, right, f"m{right}")
    folder = session.meter.release()
    found = [each["truth"] for each in json.loads((folder / "retrospective.json").read_text())]
    assert [each["passed"] for each in found] == [None, True, False]
    rows = len(session.test_labels)
    gained = (round(0.8 * rows) - round(0.3 * rows)) / rows
    assert found[1]["change"] == pytest.approx(gained)
    assert "In all 2 steps with losses, the answer was right." in (
        (folder / "report.html").read_text()
    )


def test_it_is_shown(tmp_path: Path) -> None:
    from rich.console import Console

    session = compared(tmp_path)
    submit(session, 0.3, "deployed")
    submit(session, 0.9, "new")
    view = session.meter.status()
    console = Console(width=100, record=True, quiet=True)
    console.print(session_terminal(view))
    assert "n - o &gt; 0.1 +/- 0.2" in html_page(view)
    assert "meter promote" in html_page(view)


def test_a_check_says_that_the_first_model_is_free(tmp_path: Path) -> None:
    session = compared(tmp_path)
    files = session.files(0, 0)
    assert session.meter.check(*files).baseline
    submit(session, 0.3, "deployed")
    assert not session.meter.check(*files).baseline


def test_only_developers_promote(tmp_path: Path) -> None:
    session = compared(tmp_path)
    submit(session, 0.3, "deployed")
    submit(session, 0.9, "new")
    with Meter.open(tmp_path / "meter", role=Role.LABELER) as labeler, pytest.raises(Denied):
        labeler.promote("new")


def test_a_meter_that_compares_nothing_promotes_nothing(tmp_path: Path) -> None:
    session = make_session(tmp_path, condition_spec())
    with pytest.raises(InvalidInput, match="compares no models"):
        session.meter.promote("x")


def test_of_two_first_models_at_once_one_is_the_first(tmp_path: Path) -> None:
    """The other is refused, or compared: it is never entered without having been measured."""
    session = compared(tmp_path)
    told: list[object] = []

    def run(right: float) -> None:
        with Meter.open(tmp_path / "meter") as meter:
            try:
                told.append(submit(replace(session, meter=meter), right, f"m{right}").name)
            except Exception as error:
                told.append(type(error).__name__)

    threads = [threading.Thread(target=run, args=(right,)) for right in (0.7, 0.8, 0.9)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert told.count("baseline") == 1
    assert set(told) <= {"baseline", "fail", "MeterError"}


def test_teams_have_old_models_of_their_own(tmp_path: Path) -> None:
    session = compared(tmp_path, steps=4, tenants=(2, 2))
    rows = np.arange(len(session.test_labels))
    for tenant in (1, 2):
        test, validation = session.files(len(rows) // 2, 0, salt=f"t{tenant}")
        assert session.meter.submit(test, validation, model="o", tenant=tenant).name == "baseline"


def test_a_promotion_that_an_older_database_has_forgotten_still_counts(tmp_path: Path) -> None:
    """The journal has it: the next model is compared with what was promoted, not with the first."""
    session = compared(tmp_path)
    submit(session, 0.2, "deployed")
    session.meter.close()
    database = tmp_path / "meter" / ".meter" / "meter.db"
    before = database.read_bytes()
    with Meter.open(tmp_path / "meter") as meter:
        open_again = replace(session, meter=meter)
        assert submit(open_again, 0.6, "better").passed
        assert meter.promote("better") == 2
    database.write_bytes(before)
    with Meter.open(tmp_path / "meter") as meter:
        open_again = replace(session, meter=meter)
        told = submit(open_again, 0.8, "next")
        assert (told.old, told.passed) == (2, False)
        events = [link.event for link in meter.audit().links]
        assert events.count("promotion was missing") == 1
        assert submit(open_again, 0.95, "last").old == 2
    database.write_bytes(before)
    with Meter.open(tmp_path / "meter") as meter:  # also for one who promotes first
        assert submit(replace(session, meter=meter), 0.95, "last").repeated
        assert meter.promote("last") == 4
        assert [
            each.step for each in meter.workspace.journal(meter.generations[0]).promotions()
        ] == [
            2,
            4,
        ]


def test_promotions_come_back_in_their_order_though_the_clock_was_set_back(tmp_path: Path) -> None:
    """The journal sorts them by their times, so the one before the last became the old model."""
    session, clock = compared(tmp_path), Clock()
    submit(session, 0.2, "deployed")
    session.meter.close()
    database = tmp_path / "meter" / ".meter" / "meter.db"
    before = database.read_bytes()
    with Meter(Workspace.open(tmp_path / "meter", clock)) as meter:
        for model, right in (("better", 0.6), ("best", 0.95)):
            assert submit(replace(session, meter=meter), right, model).passed
            meter.promote(model)
            clock.moment -= timedelta(hours=1)
    database.write_bytes(before)
    with Meter.open(tmp_path / "meter") as meter:
        assert submit(replace(session, meter=meter), 0.96, "next").old == 3


def test_books_without_a_promotion_know_of_a_retirement_before_a_late_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The late answer hid it: completed for the promotion, the books had as many as the journal.

    The test set answered again, after it was released.
    """
    session = compared(tmp_path)
    submit(session, 0.2, "deployed")
    session.meter.close()
    database = tmp_path / "meter" / ".meter" / "meter.db"
    before, tell = database.read_bytes(), answering._tell

    def retired_meanwhile(*arguments: Any) -> Any:
        with Meter.open(tmp_path / "meter") as labeler:
            labeler.retire()
        return tell(*arguments)

    with Meter.open(tmp_path / "meter") as meter:
        open_again = replace(session, meter=meter)
        assert submit(open_again, 0.7, "better").passed
        meter.promote("better")
        with monkeypatch.context() as patch:
            patch.setattr(answering, "_tell", retired_meanwhile)
            assert submit(open_again, 0.75, "late").step == 3
        meter.release()
    database.write_bytes(before)
    with Meter.open(tmp_path / "meter") as meter, pytest.raises(Spent):
        submit(replace(session, meter=meter), 0.95, "next")


def test_a_promotion_whose_line_was_cut_off_is_added_by_the_next_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash came after the commit, then an answer, then an older database."""
    session = compared(tmp_path)
    submit(session, 0.2, "deployed")
    session.meter.close()
    database = tmp_path / "meter" / ".meter" / "meter.db"
    before = database.read_bytes()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with Meter.open(tmp_path / "meter") as meter:
        open_again = replace(session, meter=meter)
        assert submit(open_again, 0.6, "better").passed
        with monkeypatch.context() as broken:
            broken.setattr(Journal, "append_promotion", crash)
            with pytest.raises(KeyboardInterrupt):
                meter.promote("better")
        assert submit(open_again, 0.7, "after").old == 2
    for _ in range(2):  # what came back from the journal is not told apart from what was made once
        database.write_bytes(before)
        with Meter.open(tmp_path / "meter") as meter:
            open_again = replace(session, meter=meter)
            assert submit(open_again, 0.95, "next").old == 2
            assert len(meter.workspace.journal(meter.generations[0]).promotions()) == 1
            events = [link.event for link in meter.audit().links]
            assert events.count("promotion was missing") == 1


def test_a_line_that_two_have_added_is_one_promotion(tmp_path: Path) -> None:
    """A server is about to add its line when another one answers, and adds it, too."""
    session = compared(tmp_path)
    submit(session, 0.2, "deployed")
    submit(session, 0.6, "better")
    session.meter.promote("better")
    journal = session.meter.workspace.journal(session.meter.generations[0])
    (line,) = journal.promotions()
    journal.append_promotion(line)
    submit(session, 0.7, "next")
    assert journal.promotions() == [line]
    events = [link.event for link in session.meter.audit().links]
    assert "promotion was missing" not in events
