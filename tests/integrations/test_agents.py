"""An agent submits files below its root, and is told errors in one line."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from tests.service.helpers import Session, condition_spec, make_session, small_spec

from easeml_meter import Gate
from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.agents import GateTools, RefusedCall, Tools, refusing
from easeml_meter.meter import Meter


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path)


@pytest.fixture
def tools(session: Session) -> Tools:
    return Tools(Meter(session.meter.workspace, Role.DEVELOPER), session.folder)


def test_a_submission_is_charged_once_for_a_name(session: Session, tools: Tools) -> None:
    test, validation = (path.name for path in session.files(3, 0))
    checked = tools.check(test, validation, None)
    assert (checked["answer"], checked["repeated"]) == (1, False)
    first = tools.submit("m", test, validation, "", None)
    test, validation = (path.name for path in session.files(20, 0))
    again = tools.submit("m", test, validation, "", None)
    assert (first["step"], again["step"], again["by_name"]) == (1, 1, True)
    assert tools.status()["steps_left"] == 3
    assert tools.gate("m", 3)["passed"] is True


def test_an_agent_passes_a_condition(tmp_path: Path) -> None:
    session = make_session(tmp_path, condition_spec(inputs="public"))
    tools = Tools(Meter(session.meter.workspace, Role.DEVELOPER), session.folder)
    test, validation = (path.name for path in session.files(0, 0))
    passed = tools.submit("m", test, validation, "", None)
    assert (passed["question"], passed["passed"]) == ("n > 0.5 +/- 0.2", True)
    assert tools.gate("m", None)["signal"]["step"] == 1
    with pytest.raises(InvalidInput, match="fail-above: 1 given"):
        tools.gate("m", 1)


@pytest.mark.parametrize(
    "given",
    [
        "../outside.csv",
        "/etc/passwd",
        "meter/.meter/meter.key",
        "link.csv",
        "folder.csv",
        "pipe.csv",
        "missing.csv",
        "nul\0.csv",
        "link/outside.csv",
        "loop.csv",
    ],
)
def test_what_is_not_below_the_root_is_refused_alike(tools: Tools, given: str) -> None:
    """Nobody learns from a refusal what exists elsewhere."""
    root = tools.root / "work"
    root.mkdir()
    secret = tools.root / "outside.csv"
    secret.write_text("prediction\n1\n")
    (root / "link.csv").symlink_to(secret)
    (root / "link").symlink_to(tools.root)
    (root / "loop.csv").symlink_to(root / "loop.csv")
    (root / "folder.csv").mkdir()
    os.mkfifo(root / "pipe.csv")
    inside = Tools(tools.meter, root)
    with pytest.raises(InvalidInput) as refusal:
        inside.file(given)
    name = os.path.basename(given)
    assert str(refusal.value).startswith(f"{name!r} given, a file below {root} that ends in ")


def test_a_link_to_another_kind_of_file_is_refused(tools: Tools) -> None:
    key = tools.root / "server.key"
    key.write_text("secret")
    (tools.root / "predictions.csv").symlink_to(key)
    with pytest.raises(InvalidInput):
        tools.file("predictions.csv")


def test_errors_have_their_exit_code_and_word(tools: Tools) -> None:
    with pytest.raises(
        RefusedCall, match=r"^\[exit 2\] invalid: give test and validation, or onnx"
    ):
        refusing(tools.submit)("m", "", "", "", None)
    with pytest.raises(RefusedCall, match=r"^\[exit 4\] wrong-time: model 'm': nothing was told"):
        refusing(tools.gate)("m", 1)


def test_no_error_speaks_of_options_of_a_shell(session: Session, tools: Tools) -> None:
    with pytest.raises(RefusedCall, match=r"give fail_above, the number of a band$"):
        refusing(tools.gate)("m", None)
    _, validation = (path.name for path in session.files(3, 0))
    with pytest.raises(RefusedCall, match="give labels or tolerance"):
        refusing(tools.plan)(None, 10, None, 0.1)
    (session.folder / "bare.csv").write_text("prediction\n" + "0\n" * len(session.test_labels))
    with pytest.raises(RefusedCall, match=r"name the column of ids \(id_column\)$"):
        refusing(tools.check)("bare.csv", validation, None)


def test_labels_are_asked_what_they_promise(tools: Tools) -> None:
    reached = tools.plan(8000, 10, None, 0.1)["tolerance"]
    assert tools.plan(None, 10, reached, 0.1)["labels"] <= 8000
    assert tools.plan(500, 10, None, 0.1)["promised_points"] == 10.5


def test_a_status_is_short_however_many_answers_there_are(tmp_path: Path) -> None:
    session = make_session(tmp_path, small_spec(steps=8))
    for step in range(8):
        session.submit(step, 0, model=f"a-model-of-this-name-{step}")
    told = Tools(session.meter, session.folder).status()
    assert (told["answers"], len(told["last"])) == (8, 5)
    assert told["last"][-1].startswith("8 a-model-of-this-name-7: ")
    assert re.search(r"true error [\d.]+ to [\d.]+ %$", told["last"][-1])
    assert len(json.dumps(told, indent=2)) < 1024


def test_no_verb_of_a_labeler_exists() -> None:
    verbs = {name for name in vars(Tools) if not name.startswith("_")}
    assert verbs == {"plan", "status", "check", "submit", "gate", "file"}


@pytest.fixture
def keeping(tmp_path: Path) -> GateTools:
    for name, wrong in (("old", 40), ("new", 10)):
        cases = [{"id": n, "score": int(n >= wrong)} for n in range(300)]
        (tmp_path / f"{name}.json").write_text(json.dumps(cases))
    return GateTools(Gate(tmp_path / "gate.jsonl"), tmp_path)


def test_an_agent_is_told_keep_or_discard_in_few_words(keeping: GateTools) -> None:
    names = [str(n) + "\N{GRINNING FACE}" * 199 for n in range(1, 8)]
    told = [keeping.gate("old.json", "new.json", names[0], None)]
    told.append(keeping.gate("old.json", "new.json", names[0], None))
    for name in names[1:]:
        told.append(keeping.gate("old.json", "new.json", name, names[0]))
        told.append(keeping.gate("new.json", "new.json", f"{name[:-1]}x", None))
    assert [each["answer"] for each in told[:2]] == ["keep", "keep"]
    assert [each["repeated"] for each in told[:3]] == [False, True, False]
    status = keeping.status()
    assert status["answers"] == 13
    for reply in (*told, status):
        assert len(json.dumps(reply, ensure_ascii=False)) < 1024


def test_an_agent_hands_in_results_below_its_folder_only(keeping: GateTools) -> None:
    root = keeping.root / "root"
    root.mkdir()
    inside = GateTools(keeping.keeping, root)
    (root / "link.json").symlink_to(keeping.root / "old.json")
    for path in ("../old.json", "link.json", "/etc/passwd", "gone.json", "", "a\0.json"):
        with pytest.raises(InvalidInput, match="a file below"):
            inside.gate(path, path, "a", None)
    with pytest.raises(RefusedCall, match=r"^\[exit 2\] invalid: .*there is none: gate makes it"):
        refusing(inside.status)()
    assert not (keeping.root / "gate.jsonl").exists()
