"""Every "Next:" that a command prints is run as it stands, from one to the other.

Words in capitals are what its reader has: files, columns, names.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.workbench import VALIDATION, Workbench, animal_spec, animals, ready, rows, wrong
from tests.live import Live
from tests.scoring.onnx_models import classifier
from tests.service.helpers import condition_spec

from easeml_meter.service.submissions import running

NEXT = re.compile(r"^Next(?:, for ([a-z ]+))?: meter (.*)$", re.M)
DEVELOPER = ["--test", "t.csv", "--validation", "v.csv", "--model", "second"]
COLUMNS = {"--label": "label", "--id": "id", "--cluster": "cluster", "--judge": "judge"}
FILES = {
    "seal": "hidden.csv",
    "validation": "visible.csv",
    "--test": "t.csv",
    "--validation": "v.csv",
    "--model": "model",
    "--onnx": "net.onnx",
}


def typed(line: str, fill: Mapping[str, str]) -> list[str]:
    """Type a next step, with what one has in place of the words in capitals."""
    words = shlex.split(line)
    for at, word in enumerate(words):
        if re.fullmatch(r"[A-Z]+", word):
            words[at] = fill[words[0] if word == "DATA" else words[at - 1]]
    return words


def follow(desk: Workbench, out: str, **fill: str) -> str:
    """Do what was said to be next, once; return what that prints."""
    ((_, line),) = NEXT.findall(out)
    words = typed(line, FILES | COLUMNS | fill)
    shown = desk.run(*words)
    assert (shown.code, shown.err) == (0, ""), (words, shown)
    return shown.out


def walk(desk: Workbench, out: str, **fill: str) -> list[str]:
    """Do all that is said to be next, until nothing is, or a test set is to be sealed anew."""
    done: list[str] = []
    while found := NEXT.findall(out):
        verb = found[0][1].split()[0]
        if verb == "seal" and "seal" in done:
            break
        done.append(verb)
        out = follow(desk, out, **fill)
    return done


def json_of(desk: Workbench, *words: str) -> Any:
    """Return what a command says as JSON."""
    return json.loads(desk.run(*words, "--json").out)


def written(
    desk: Workbench, labels: Sequence[Any], visible: Sequence[Any], *inputs: str, **more: Any
) -> None:
    """Write the rows of both sets, and predictions on them."""
    for name, also, given, first in (("hidden", "t", labels, 0), ("visible", "v", visible, 10_000)):
        ids = list(range(first, first + len(given)))
        columns = rows(given, seed=first) | {"id": ids}
        columns |= {each: values[: len(given)] for each, values in more.items()}
        kept = (*inputs, "label") if inputs else columns
        desk.write(name, {each: columns[each] for each in kept})
        desk.write(also, {"id": ids, "prediction": list(given)})


PUBLIC = {"inputs": "public"}
WAYS = {
    "bands": (animal_spec(steps=1, **PUBLIC), "seal testset validation testset submit release"),
    "classes open": (
        animal_spec(steps=1, classes=(), **PUBLIC),
        "validation seal testset submit release",
    ),
    "more answers": (animal_spec(**PUBLIC), "seal testset validation testset submit status"),
    "hidden": (animal_spec(), "seal testset validation submit status"),
    "compared": (
        condition_spec(question="n - o > 0 +/- 0.3", classes=("cat", "dog"), **PUBLIC),
        "seal testset validation testset submit status",
    ),
    "rolling": (animal_spec(window=2), "seal testset validation submit"),
    "clusters": (animal_spec(clusters=True), "seal testset validation submit status"),
}


@pytest.mark.parametrize("way", WAYS)
def test_from_a_new_meter_every_next_step_leads_on(tmp_path: Path, way: str) -> None:
    desk, (spec, verbs) = Workbench(tmp_path), WAYS[way]
    spec.write(tmp_path / "spec.toml")
    made = desk.run("init", "--spec", "spec.toml", "--name", "small", "-C", "a meter").out
    labels = animals(json_of(desk, "status", "-C", "a meter")["labels_needed"])
    more = {"cluster": list(range(len(labels)))} if spec.clusters else {}
    written(desk, labels, VALIDATION, **more)
    done = walk(desk, made)
    assert done[: len(verbs.split())] == verbs.split()


def test_the_first_line_of_a_newcomer_leads_to_an_answer(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = animals(200)
    written(desk, labels, VALIDATION)
    made = desk.run("init", "--labels", "200").out
    assert walk(desk, made)[-1] == "submit"  # ok, or an alarm, has the last word


def test_a_model_is_what_comes_next_where_inputs_are_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "wait_until", lambda moment: None)
    desk = Workbench(tmp_path)
    labels = list(map(int, np.random.default_rng(0).integers(0, 2, 200)))
    animal_spec(models="onnx", classes=(0, 1), steps=1).write(tmp_path / "spec.toml")
    made = desk.run("init", "--spec", "spec.toml", "--name", "small").out
    written(desk, labels, labels[:20], "x", "y")
    (tmp_path / "net.onnx").write_bytes(classifier(np.eye(2)))
    assert walk(desk, made)[-2:] == ["submit", "release"]


def test_labels_that_a_step_waits_for_come_next(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    asked = {"question": "n - o > 0 +/- 0.2", "disagreement": 0.4, "on_demand": True}
    condition_spec(classes=("cat", "dog"), inputs="public", **asked).write(tmp_path / "spec.toml")
    made = desk.run("init", "--spec", "spec.toml", "--name", "small").out
    labels = animals(json_of(desk, "status")["labels_needed"])
    written(desk, labels, VALIDATION)
    assert walk(desk, made)[-2:] == ["submit", "status"]
    desk.write("t", {"id": list(range(len(labels))), "prediction": wrong(labels, 9)})
    assert desk.run("submit", *DEVELOPER).code == 4
    out = follow(desk, desk.run("testset", "requests").out)
    sheet = tmp_path / "wanted.csv"
    ids = [int(line.split(",")[0].strip('"')) for line in sheet.read_text().split()[1:]]
    sheet.write_text("id,label\n" + "".join(f"{each},{labels[each]}\n" for each in ids))
    assert "second" in follow(desk, follow(desk, out))


def test_what_was_asked_of_one_team_goes_on_with_it(tmp_path: Path) -> None:
    """The next step was about the first team."""
    desk = Workbench(tmp_path)
    labels = ready(desk, tenants=(2, 2), inputs="public")
    written(desk, labels, VALIDATION)
    second = ["--tenant", "2"]
    told = desk.ok("submit", *DEVELOPER, *second)
    assert "second" in follow(desk, told)
    assert "second" in follow(desk, desk.ok("report", "--svg", "r.svg", *second))
    half = len(labels) // 2
    desk.write("t", {"id": list(range(len(labels))), "prediction": wrong(labels, half)})
    desk.ok("submit", *DEVELOPER[:-1], "third", *second)
    desk.ok("testset", "retire", "--yes")
    released = desk.ok("release")
    assert NEXT.findall(released)[0][1].startswith("seal ")
    shown, pages = desk.ok("diff", *second), 1
    while "--page" in NEXT.findall(shown)[0][1]:
        shown, pages = follow(desk, shown), pages + 1
    assert pages == -(-half // 20)
    assert "third" in follow(desk, shown)
    other = desk.ok("diff", "2", "1", *second)
    assert f"{half} went from wrong to right" in follow(desk, other)


def test_people_at_a_server_are_led_on_by_the_options_they_typed(
    site: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, name = Workbench(tmp_path), f"small {tmp_path.name}"
    people = {role: f"{role} {tmp_path.name}" for role in ("labeler", "developer", "runner")}
    for user in people.values():
        site.served.add_user(user)

    def acting(role: str) -> None:
        token = site.served.tokens[people.get(role, role)]
        monkeypatch.setenv("METER_TOKEN", token)

    acting("admin")
    animal_spec(inputs="public").write(tmp_path / "spec.toml")
    made = desk.run("init", "--spec", "spec.toml", "--name", name, "--server", site.address).out
    ((_, seat),) = NEXT.findall(made)
    for role, user in people.items():
        words = [{"NAME": user, "ROLE": role}.get(word, word) for word in shlex.split(seat)]
        assert desk.run(*words).code == 0, words
    place = ["--server", site.address, "--meter", name]
    acting("labeler")
    labels = animals(json_of(desk, "status", *place)["labels_needed"])
    written(desk, labels, VALIDATION)
    out = desk.run("seal", "hidden.csv", "--label", "label", "--out", "a b.sealed", *place).out
    while found := NEXT.findall(out):
        if found[0][0] == "developers":
            acting("developer")
        out = follow(desk, out)
    (tmp_path / "inputs.parquet").unlink()
    for role, user in people.items():
        acting(role)
        token = site.served.tokens[user]
        came = desk.run("login", "--server", site.address, "--token", token).out
        follow(desk, came)


def test_a_plan_for_keep_or_discard_leads_to_a_gate(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    for name, right in (("old", 0), ("new", 1)):
        cases = [{"id": f"c{at}", "score": right} for at in range(60)]
        (tmp_path / f"{name}.json").write_text(json.dumps(cases))
    planned = desk.run("plan", "60", "--ask", "keep", "--steps", "20", "--confidence", "95").out
    ((_, line),) = NEXT.findall(planned)
    files = {"OLD": "old.json", "NEW": "new.json"}
    shown = desk.run(*[files.get(word, word) for word in shlex.split(line)])
    assert (shown.code, shown.out.split()[0]) == (0, "keep")
    assert "95 % sure, 20 answers" in shown.err
