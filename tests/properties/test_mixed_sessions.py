"""Readings, conditions and differences on one test set, from meter.toml to release."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console
from tests.cli.running import Captured, run
from tests.client.people import People
from tests.live import live
from tests.service.helpers import Session, condition_spec, make_session, small_spec
from tests.service.submissions.models import by_x, fails

from easeml_meter.errors import InvalidInput, Spent
from easeml_meter.meter import Meter
from easeml_meter.report.page import html_page
from easeml_meter.report.terminal import history_terminal, session_terminal, terminal
from easeml_meter.service.actor import Actor
from easeml_meter.service.submissions.answering import answer
from easeml_meter.service.submissions.kinds import Function
from easeml_meter.spec import MeterSpec

LEVEL, CHANGE = "n > 0.5 +/- 0.25", "n - o > 0.1 +/- 0.25"
ALSO = (LEVEL, CHANGE, "better")
CHEAP = "n > 0.5 +/- 0.4"


def mixed(**options: Any) -> MeterSpec:
    return small_spec(**({"also": ALSO, "inputs": "public"} | options))


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path, mixed())


def test_a_meter_is_read_from_its_file_and_written_back(tmp_path: Path) -> None:
    spec = mixed(also=["n>.5+/-.25", "better"])
    assert spec.questions == ("gap", LEVEL, "better")
    spec.write(tmp_path / "meter.toml")
    assert MeterSpec.read(tmp_path / "meter.toml") == spec
    assert MeterSpec.from_mapping(json.loads(json.dumps(spec.to_mapping()))) == spec
    assert [each.question for each in spec.each] == list(spec.questions)
    assert spec.each[0] == small_spec(inputs="public")
    assert (spec.each[1].bands, spec.each[2].tolerance) == ((), 0.25)


@pytest.mark.parametrize(
    "options",
    [
        {"protocol": "incremental"},
        {"tenants": (2, 2)},
        {"elastic": True},
        {"memory": 2},
        {"passes": 1},
        {"models": True},
        {"also": ["gap"]},
        {"also": [LEVEL, LEVEL]},
        {"also": [7]},
        {"also": LEVEL},
        {"also": [f"n > 0.{k} +/- 0.01" for k in range(10, 40)]},
        {"also": [LEVEL], "disagreement": 0.1},
        {"also": ["n > 0.5"]},
        {"loss": "brier"},
    ],
)
def test_what_cannot_be_counted_together_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        mixed(**options)


def test_conditions_alone_have_no_bands() -> None:
    spec = condition_spec(also=["better"], tolerance=0.2)
    assert (spec.bands, spec.questions) == ((), ("n > 0.5 +/- 0.2", "better"))
    for options in ({"ceiling": 0.1}, {"drawn": 0.2}, {"bands": small_spec().bands}):
        with pytest.raises(InvalidInput):
            condition_spec(also=["better"], tolerance=0.2, **options)


def test_each_submission_chooses_its_question(session: Session) -> None:
    rows = len(session.test_labels)
    reading = session.submit(rows // 2, 0, model="first")
    level = session.submit(0, 0, model="good", ask=LEVEL)
    worse = session.submit(rows, 0, model="bad", ask=" n>0.5 +/- 0.25")
    better = session.submit(1, 0, model="next", ask=CHANGE)
    assert (reading.band, reading.asked, reading.spec.question) == (3, "gap", "gap")
    assert (level.passed, level.asked, worse.passed) == (True, LEVEL, False)
    assert (better.passed, better.old) == (True, 1)  # the first model, whatever it was asked
    assert "has a true accuracy above 0.5" in level.promise
    assert "exceeds the old model's by more than 0.1" in better.promise
    assert [each.asked for each in session.meter.status().signals] == ["gap", LEVEL, LEVEL, CHANGE]
    with pytest.raises(InvalidInput, match="one of: gap; n > 0"):
        session.submit(0, 0, model="other", ask="n > 0.9 +/- 0.01")


def test_the_same_files_with_another_question_are_another_submission(session: Session) -> None:
    first = session.submit(0, 0, model="m", ask=LEVEL)
    again = session.submit(0, 0, model="m", ask=LEVEL)
    other = session.submit(0, 0, model="m")
    assert (first.step, again.step, again.repeated) == (1, 1, True)
    assert (other.step, other.repeated, other.band) == (2, False, 1)
    named = session.submit(3, 0, model="m", ask=LEVEL, once=True)
    assert (named.step, named.by_name) == (1, True)
    assert session.submit(3, 0, model="m", ask="better", once=True).step == 3


def test_every_question_compares_with_its_own_old_model(session: Session) -> None:
    """The ladder goes on from its last pass; the other one from what was promoted."""
    rows = len(session.test_labels)
    baseline = session.submit(rows, 0, model="deployed", ask=CHANGE)
    assert (baseline.name, baseline.battery) == ("baseline", 1.0)
    kept = session.submit(rows // 2, 0, model="kept", ask="better")
    assert (kept.passed, kept.old) == (True, 1)
    assert session.submit(rows // 2 - 1, 0, model="rung", ask="better").old == 2
    passed = session.submit(rows // 2 + 1, 0, model="passed", ask=CHANGE)
    assert (passed.passed, passed.old) == (True, 1)
    assert session.meter.promote("passed") == 4
    assert session.submit(0, 0, model="last", ask=CHANGE).old == 4
    assert session.meter.audit().sound


def test_prices_are_told_before_anything_is_asked(session: Session) -> None:
    test, validation = session.files(0, 0)
    checked = session.meter.check(test, validation, ask=LEVEL)
    assert (checked.question, checked.prices) == (LEVEL, session.meter.status().prices)
    before = {each.question: each for each in checked.prices}
    assert list(before) == ["gap", *ALSO]
    assert min(each.answers for each in checked.prices) >= 4
    session.submit(0, 0, ask=LEVEL)
    after = {each.question: each for each in session.meter.status().prices}
    for name, price in after.items():
        assert price.left == pytest.approx(before[name].left - before[LEVEL].nats)


def test_the_answer_that_closes_the_test_set_is_announced_as_such(
    tmp_path: Path, capsys: Captured
) -> None:
    """In JSON, at the terminal, by --check and on the page: the same words, and they come true."""
    session = make_session(tmp_path, mixed(also=[CHEAP]))
    place, announced, step = ("-C", str(tmp_path / "meter")), False, 0
    while session.meter.generations[-1].phase == "active":
        view = session.meter.status()
        announced = next(each.closes for each in view.prices if each.question == CHEAP)
        shown = json.loads(run(capsys, "status", "--json", *place)[1])["prices"]
        assert next(each["closes"] for each in shown if each["question"] == CHEAP) == announced
        step += 1
        test, validation = session.files(step, 0)
        files = ("--test", str(test), "--validation", str(validation), "--model", "m")
        check = run(capsys, "submit", *files, "--check", "--ask", CHEAP, *place)[1]
        for words in (check, run(capsys, "status", *place)[1], html_page(view)):
            assert ("it closes the test set" in " ".join(words.split())) == announced, words
        session.submit(step, 0, model=f"m{step}", ask=CHEAP)
    assert announced


def test_the_promised_steps_come_in_any_order_and_then_what_is_left(tmp_path: Path) -> None:
    """Whoever asked for readings only gets no further one, but cheaper questions."""
    session = make_session(tmp_path, mixed(also=[CHEAP]))
    for number in range(4):
        session.submit(number, 0, model=f"m{number}")
    prices = {each.question: each.answers for each in session.meter.status().prices}
    assert prices["gap"] == 0
    assert prices[CHEAP] > 1
    with pytest.raises(Spent, match='for "gap": ask n > 0'):
        session.submit(9, 0, model="reading")
    assert session.submit(9, 0, model="condition", ask=CHEAP).step == 5
    answers = 5
    while session.meter.generations[-1].phase == "active":
        answers += 1
        session.submit(2 * answers, 0, model=f"m{answers}", ask=CHEAP)
    assert session.meter.status().battery == 0
    with pytest.raises(Spent):
        session.submit(1, 0, model="after", ask=CHEAP)


def test_everything_that_shows_a_session_can_show_it(session: Session) -> None:
    signals = [session.submit(0, 0, model="a"), session.submit(1, 0, model="b", ask=LEVEL)]
    view = session.meter.status()
    console = Console(width=120, record=True, file=io.StringIO())
    for shown in (*map(terminal, signals), session_terminal(view), history_terminal(view)):
        console.print(shown)
    words = console.export_text()
    assert f"Asked: {LEVEL}." in words
    assert "What a question costs: gap: " in words
    page = html_page(view)
    assert "What a question costs: gap: " in page
    assert "<td>n &gt; 0.5 +/- 0.25</td>" in page


def test_release_says_which_answers_were_right(session: Session) -> None:
    session.submit(len(session.test_labels), 0, model="a")
    session.submit(0, 0, model="b", ask=LEVEL)
    session.submit(0, 0, model="c", ask=CHANGE)
    session.meter.retire()
    folder = session.meter.release()
    found = json.loads((folder / "retrospective.json").read_text())
    assert [each["question"] for each in found] == ["gap", LEVEL, CHANGE]
    assert [each["truth"]["passed"] for each in found] == [None, True, True]
    assert (
        "In all 3 steps with losses, the answer was right." in (folder / "report.html").read_text()
    )
    assert session.meter.audit().sound


def test_what_was_asked_is_in_the_chain_and_in_the_journal(session: Session) -> None:
    session.submit(0, 0, model="a", ask=LEVEL)
    (told,) = [each for each in session.meter.audit().links if each.event == "told"]
    assert told.details["asked"] == 1
    with session.meter.workspace.store.writing("x") as books:
        books.connection.exec_driver_sql("UPDATE entries SET asked = 0")
    problems = " ".join(session.meter.audit().problems)
    assert "another answer than the chain" in problems
    assert "not those of the journal" in problems


def test_questions_that_an_older_database_has_forgotten_are_still_paid(tmp_path: Path) -> None:
    session = make_session(tmp_path, mixed())
    session.meter.close()
    database = tmp_path / "meter" / ".meter" / "meter.db"
    before = database.read_bytes()
    for model, ask in (("first", "gap"), ("second", LEVEL), ("third", LEVEL)):
        with Meter.open(tmp_path / "meter") as meter:
            replace(session, meter=meter).submit(len(model), 0, model=model, ask=ask)
            prices = meter.status().prices
    database.write_bytes(before)
    with Meter.open(tmp_path / "meter") as meter:
        replace(session, meter=meter).submit(9, 0, model="fourth", ask=LEVEL)
        signals = meter.status().signals
        assert [each.asked for each in signals] == ["gap", LEVEL, LEVEL, LEVEL]
        assert all(
            after.left < each.left
            for each, after in zip(prices, meter.status().prices, strict=True)
        )


def test_the_command_line_asks_and_prices(session: Session, capsys: Captured) -> None:
    test, validation = session.files(0, 0)
    place = ("-C", str(session.folder / "meter"))
    files = ("--test", str(test), "--validation", str(validation), "--model", "m", *place)
    code, out, _ = run(capsys, "submit", *files, "--check", "--ask", LEVEL)
    said = " ".join(out.split())
    assert code == 0
    assert f'"{LEVEL}" costs 0.7 of ' in said
    assert "The others: gap: 1.1 of " in said
    code, out, err = run(capsys, "submit", *files, "--ask", LEVEL)
    assert (code, err) == (0, "")
    assert f"Asked: {LEVEL}." in out
    code, out, _ = run(capsys, "submit", *files, "--json")
    assert json.loads(out)["question"] == "gap"
    code, out, err = run(capsys, "submit", *files, "--ask", "n > 0.9")
    assert (code, out) == (2, "")
    assert "one of: gap; " in err
    code, out, _ = run(capsys, "status", "--json", *place)
    assert [each["question"] for each in json.loads(out)["prices"]] == ["gap", *ALSO]


@pytest.mark.slow
def test_a_server_takes_questions_too(tmp_path: Path) -> None:
    """The same over HTTP, and the page that a developer submits on offers the questions."""
    with live(tmp_path / "site") as site:
        meter = site.served.add_meter(mixed(), prefix="q-")
        with (
            site.meter("q-labeler", meter) as labeler,
            site.meter("q-developer", "q-meter") as developer,
        ):
            people = People(tmp_path, labeler, developer)
            labels = people.begin()
            assert people.submit(labels, 0, model="a").asked == "gap"
            told = people.submit(labels, 0, model="b", ask=LEVEL)
            assert (told.passed, told.asked) == (True, LEVEL)
            view = developer.status()
            assert [each.asked for each in view.signals] == ["gap", LEVEL]
            assert [each.question for each in view.prices] == ["gap", *ALSO]
            with pytest.raises(InvalidInput, match="ask"):
                people.submit(labels, 0, model="c", ask="n")
            with httpx.Client(
                base_url=site.address,
                headers={"Authorization": f"Bearer {site.served.tokens['q-developer']}"},
                timeout=120,
            ) as browser:
                for name in ("status", "report.html", "report.svg", "badge.svg"):
                    assert browser.get(f"/api/v1/meters/{meter}/{name}").status_code == 200


@pytest.mark.parametrize("ask", ["gap", LEVEL])
def test_a_model_that_fails_on_hidden_rows_is_charged(tmp_path: Path, ask: str) -> None:
    """It was refused for nothing once any answer was given, as if it were to be compared."""
    session = make_session(tmp_path, small_spec(also=(LEVEL,), inputs="hidden", models=True))
    actor, space = Actor.embedded(), session.meter.workspace
    first = answer(actor, space, Function.of(by_x, "1"), "first", ask=ask)
    second = answer(actor, space, Function.of(fails, "2"), "second", ask=ask)
    assert (first.step, second.step) == (1, 2)
    assert second.name == ("no-reading" if ask == "gap" else "fail")
    assert second.battery < first.battery


@pytest.mark.parametrize(("by", "sound"), [(1, True), (-7, True), (-(10**6), False)])
def test_another_machine_may_round_a_price_otherwise(
    session: Session, by: int, *, sound: bool
) -> None:
    """The audit spoke of books that were changed by hand."""
    session.submit(0, 0, model="a", ask=LEVEL)
    space, test_set = session.meter.workspace, session.meter.generations[0]
    with space.writing() as books:
        (folded,) = books.accounts.all(test_set.meter, 1).values()
        state = replace(folded.account.state, spent=folded.account.state.spent + by)
        account = replace(folded.account, state=state)
        books.accounts.put(test_set.meter, 1, [replace(folded, account=account)])
    assert session.meter.audit().sound is sound
