"""The gate in continuous integration: GitHub's action, GitLab's template, the hook, the docs.

The script and the templates run here as a runner runs them, with a meter in a folder.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from tests.client import test_branch
from tests.client.people import people_at
from tests.forking import shims
from tests.live import live
from tests.service.helpers import Session, condition_spec, make_session

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "integrations" / "github" / "gate.py"
PAGE = ROOT / "docs" / "integrations" / "ci.md"
COMMIT = "5f0c" * 10
AT_SERVER = {"METER_SERVER": "https://meter.invalid"}
HOSTILE = ("$(touch pwned)", "`touch pwned`", '"; touch pwned #', "--help", "%0A::error::x", "a|b`")

Done = subprocess.CompletedProcess[str]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path)


def loaded(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def run(command: list[str], folder: Path, environment: dict[str, str]) -> Done:
    kept = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    path = f"{shims()}:{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PATH": path, "HOME": str(folder), **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def act(
    folder: Path,
    event: dict[str, Any] | None = None,
    /,
    *,
    python: str | Path = "",
    **given: str,
) -> Done:
    """Run the script of the action as a runner would, in a job of its own."""
    (folder / "event.json").write_text(json.dumps(event or {}))
    for name in ("output", "summary.md"):
        (folder / name).write_text("")
    environment = {
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_EVENT_NAME": "pull_request" if event else "workflow_dispatch",
        "GITHUB_REPOSITORY": "team/spam",
        "GITHUB_SHA": COMMIT,
        "METER_FOLDER": str(folder / "meter"),
        # As the action sets them where an input was not given.
        **dict.fromkeys(("METER_NAME", "METER_CA", "METER_MODEL", "METER_JUNIT"), ""),
        "METER_FAIL_ABOVE": "2",
    }
    python = python or shims() / "python"
    return run([str(python), str(SCRIPT)], folder, environment | given)


def files(session: Session, test: int, validation: int, salt: str = "") -> dict[str, str]:
    paths = map(str, session.files(test, validation, salt=salt))
    return dict(zip(("METER_TEST", "METER_VALIDATION"), paths, strict=True))


def outputs(folder: Path) -> dict[str, str]:
    pairs = [line.split("=", 1) for line in (folder / "output").read_text().splitlines()]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def pull_request(repository: str | None) -> dict[str, Any]:
    repo = repository and {"full_name": repository}
    return {"pull_request": {"head": {"sha": "a" * 40, "repo": repo}}}


def test_a_model_that_passes_is_asked_once_per_commit(session: Session) -> None:
    for salt in ("first", "trained again"):
        done = act(session.folder, **files(session, 0, 0, salt))
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("::notice title=Overfitting meter::passed: model 5f0c")
    (signal,) = session.meter.status().signals
    assert signal.model == COMMIT
    told = outputs(session.folder)
    assert list(told) == ["passed", "answer", "band", "steps-left", "signal"]
    assert (told["passed"], told["answer"], told["band"], told["steps-left"]) == (
        *("true", "1", "1"),
        str(signal.steps_left),
    )
    assert json.loads(told["signal"])["model"] == COMMIT
    summary = (session.folder / "summary.md").read_text()
    assert summary.startswith("### Overfitting meter: ✅ passed\n")
    assert signal.promise in summary


def test_a_model_above_the_band_fails(session: Session) -> None:
    report = session.folder / "junit.xml"
    given = files(session, 25, 0) | {"METER_JUNIT": str(report)}
    done = act(session.folder, python=sys.executable, METER_MODEL="named", **given)
    assert done.returncode == 6
    assert done.stdout.startswith("::error title=Overfitting meter::failed: model named: step 1")
    assert (outputs(session.folder)["passed"], outputs(session.folder)["band"]) == ("false", "3")
    assert "❌ failed" in (session.folder / "summary.md").read_text()
    assert ET.parse(report).find(".//failure") is not None  # noqa: S314 (our own file)


@pytest.mark.parametrize(("errors", "code"), [(0, 0), (30, 6)])
def test_a_condition_is_a_gate_without_limits(tmp_path: Path, errors: int, code: int) -> None:
    """One had to be given, and only most-loss was accepted."""
    session = make_session(tmp_path, condition_spec())
    given = files(session, errors, 0) | {"METER_FAIL_ABOVE": ""}
    for done in (act(session.folder, **given), act(session.folder, METER_FAIL_ABOVE="")):
        assert done.returncode == code, done.stdout
        assert outputs(session.folder)["passed"] == ("true", "false")[code // 6]
    assert gitlab(session, **given).returncode == code
    assert len(session.meter.status().signals) == 1


def test_without_files_nothing_is_submitted(session: Session) -> None:
    done = act(session.folder)
    assert (done.returncode, outputs(session.folder)) == (4, {})
    assert "nothing was told of it yet" in done.stdout
    session.submit(0, 0, model="a" * 40)
    # Not GITHUB_SHA: that is a merge commit, and changes with the target branch.
    assert act(session.folder, pull_request("team/spam")).returncode == 0
    assert len(session.meter.status().signals) == 1


def test_wrong_input_costs_nothing(session: Session) -> None:
    given = files(session, 0, 0)
    missing = act(session.folder, **given | {"METER_TEST": "nowhere.csv"})
    no_band = act(session.folder, **given | {"METER_FAIL_ABOVE": "9"})
    no_gate = act(session.folder, **given | {"METER_FAIL_ABOVE": ""})
    nothing_asked = act(session.folder, METER_FAIL_ABOVE="")
    for done in (missing, no_band, no_gate, nothing_asked):
        assert (done.returncode, outputs(session.folder)) == (2, {})
        assert re.fullmatch("::error title=Overfitting meter::.+\n", done.stdout)
    assert "fail-above" in no_gate.stdout
    assert "fail-above" in nothing_asked.stdout
    assert gitlab(session, **given | {"METER_FAIL_ABOVE": ""}).returncode == 2
    assert session.meter.status().signals == ()


@pytest.mark.parametrize(
    ("event", "given"),
    [
        (pull_request("stranger/spam"), {}),
        (pull_request(None), {}),  # the fork was deleted
        (pull_request("team/spam"), {"GITHUB_ACTOR": "dependabot[bot]"}),
    ],
)
def test_pull_requests_without_secrets_are_skipped(
    tmp_path: Path, event: dict[str, Any], given: dict[str, str]
) -> None:
    done = act(tmp_path, event, **AT_SERVER, METER_TOKEN="", **given)
    assert done.returncode == 0
    # The server is often a secret or a variable, too, and forks get neither.
    nowhere = act(tmp_path, event, METER_SERVER="", METER_FOLDER="", METER_TOKEN="", **given)
    assert (nowhere.returncode, nowhere.stdout) == (0, done.stdout)
    assert done.stdout.startswith("::notice title=Overfitting meter::skipped: ")
    assert "skipped" in (tmp_path / "summary.md").read_text()
    assert outputs(tmp_path) == {}


@pytest.mark.parametrize("event", [{}, pull_request("team/spam")])
def test_a_forgotten_token_does_not_open_the_gate(tmp_path: Path, event: dict[str, Any]) -> None:
    done = act(tmp_path, event, **AT_SERVER, METER_TOKEN="")
    assert done.returncode == 5
    assert done.stdout.startswith("::error title=Overfitting meter::no token: ")


def test_an_event_that_gives_strangers_the_secrets_is_refused(session: Session) -> None:
    given = files(session, 0, 0) | {"GITHUB_EVENT_NAME": "pull_request_target"}
    assert act(session.folder, pull_request("stranger/spam"), **given).returncode == 5
    assert session.meter.status().signals == ()


def test_a_meter_that_came_with_the_checkout_is_not_asked(session: Session) -> None:
    """Without a server, the gate opened by what a folder of the pull request told."""
    session.submit(0, 0, model=COMMIT)
    checkout = session.folder / "meter"
    nowhere = {"METER_SERVER": "", "METER_FOLDER": "", "METER_TOKEN": "emt_secret"}
    done = act(checkout, **nowhere)
    assert (done.returncode, outputs(checkout)) == (2, {})
    assert done.stdout.startswith("::error title=Overfitting meter::no server given")


@pytest.mark.parametrize("event", ["issue_comment", "workflow_run"])
def test_an_event_of_the_default_branch_needs_a_name(session: Session, event: str) -> None:
    """The model of a pull request got the answer of the default branch, free, and passed by it."""
    session.submit(0, 0, model=COMMIT)
    given = files(session, 25, 0) | {"GITHUB_EVENT_NAME": event}
    assert act(session.folder, **given).returncode == 2
    assert act(session.folder, METER_MODEL="a" * 40, **given).returncode == 6


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_harmless(session: Session, name: str) -> None:
    session.submit(0, 0, model=name)
    done = act(session.folder, METER_MODEL=name, GITHUB_HEAD_REF=name, GITHUB_REF_NAME=name)
    assert (done.returncode, done.stderr) == (0, "")
    # One line, and so one command to the runner; five outputs, and none of another name.
    assert re.fullmatch(r"::notice title=Overfitting meter::[^\r\n]+\n", done.stdout)
    assert len(outputs(session.folder)) == 5
    assert outputs(session.folder)["passed"] == "true"
    assert json.loads(outputs(session.folder)["signal"])["model"] == name
    assert not list(session.folder.rglob("pwned"))


@pytest.mark.parametrize("name", ["x\n::error::pwned", "x\r\npassed=true"])
def test_names_of_several_lines_are_refused_in_one(session: Session, name: str) -> None:
    done = act(session.folder, METER_MODEL=name, **files(session, 0, 0))
    assert (done.returncode, outputs(session.folder)) == (2, {})
    assert re.fullmatch(r"::error title=Overfitting meter::[^\r\n]+\n", done.stdout)
    assert session.meter.status().signals == ()


def test_the_token_is_on_no_command_line_and_the_gate_decides(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "python").symlink_to(Path(sys.executable).resolve())
    program = tools / "meter"
    program.write_text(
        """#!/bin/sh
echo "$@" >> called
test "$METER_TOKEN" = emt_secret && test -z "${METER_CA+set}" || exit 99
test "$1" = submit && exit 0
echo '{"error": "not-allowed", "message": "not allowed: runner", "exit_code": 5}' >&2
exit 5
"""
    )
    program.chmod(0o755)
    given = {"METER_TOKEN": "emt_secret", "METER_ONNX": "m.onnx", **AT_SERVER}
    done = act(tmp_path, python=tools / "python", **given)
    assert (done.returncode, done.stderr) == (5, "")
    assert done.stdout == "::error title=Overfitting meter::not allowed: runner\n"
    summary = f"--summary={tmp_path / 'summary.md'}"
    gate = f"--model={COMMIT} --fail-above=2"
    assert (tmp_path / "called").read_text().splitlines() == [
        f"submit --json --once --onnx=m.onnx {gate} --summary=/dev/null",
        f"status --json {gate} {summary}",
    ]


@pytest.mark.slow
def test_a_runner_submits_and_a_developer_gates_at_a_server(tmp_path: Path) -> None:
    with live(tmp_path / "site") as site:
        for people in people_at(site, tmp_path, "ci-"):
            paths = map(str, people.predictions(people.begin(), 0))
            given = dict(zip(("METER_TEST", "METER_VALIDATION"), paths, strict=True))
            server = {"METER_SERVER": site.address, "METER_NAME": "ci-meter", "METER_FOLDER": ""}
            tokens = site.served.tokens
            runner = act(tmp_path, METER_TOKEN=tokens["ci-runner"], **server, **given)
            # Whoever may not be told the answer hands in by the command, and another job gates.
            assert (runner.returncode, outputs(tmp_path)) == (5, {})
            assert not people.developer.status().signals
            named = (f"--test={given['METER_TEST']}", f"--validation={given['METER_VALIDATION']}")
            asked = [str(shims() / "meter"), "submit", "--once", f"--model={COMMIT}", *named]
            own = {"METER_SERVER": site.address, "METER_NAME": "ci-meter"}
            handed_in = run(asked, tmp_path, own | {"METER_TOKEN": tokens["ci-runner"]})
            assert handed_in.returncode == 0, handed_in.stderr
            developer = act(tmp_path, METER_TOKEN=tokens["ci-developer"], **server)
            assert developer.returncode == 0, developer.stdout
            assert outputs(tmp_path)["band"] == "1"
            (signal,) = people.developer.status().signals
            assert signal.model == COMMIT


def test_the_action_hands_every_input_to_the_script_by_environment() -> None:
    action = loaded("action.yml")
    assert set(action) == {"name", "description", "inputs", "outputs", "runs"}
    assert action["runs"]["using"] == "composite"
    install, gate = action["runs"]["steps"]
    assert all("${{" not in step["run"] and step["shell"] for step in (install, gate))
    assert "env" not in install  # no token where packages are installed
    used = {value: name for name, value in gate["env"].items()}
    assert set(used) == {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}
    read = SCRIPT.read_text(encoding="utf-8")
    for name in action["inputs"]:
        variable = "METER_NAME" if name == "meter" else f"METER_{name.upper().replace('-', '_')}"
        assert used[f"${{{{ inputs.{name} }}}}"] == variable
        assert variable in {"METER_NAME", "METER_CA"} or variable in read or f'"{name}"' in read
    for name, output in action["outputs"].items():
        assert output["value"] == f"${{{{ steps.{gate['id']}.outputs.{name} }}}}"
        assert f'"{name}": ' in read


def gitlab(session: Session, **given: str) -> Done:
    """Run the script of GitLab's job."""
    job = loaded("integrations/gitlab/meter.gitlab-ci.yml")[".meter"]
    lines = "\n".join(job["script"])
    environment = {"METER_FOLDER": str(session.folder / "meter"), "CI_COMMIT_SHA": COMMIT}
    return run(["sh", "-ec", lines], session.folder, job["variables"] | environment | given)


def test_the_job_of_gitlab(session: Session) -> None:
    report = session.folder / "meter.xml"
    for salt in ("first", "trained again"):
        done = gitlab(session, **files(session, 0, 0, salt))
        assert done.returncode == 0, done.stderr
    assert ET.parse(report).find(".//failure") is None  # noqa: S314 (our own file)
    name = "$(touch pwned); --help"
    bad = files(session, 25, 0)
    assert gitlab(session, CI_MERGE_REQUEST_SOURCE_BRANCH_SHA=name, **bad).returncode == 6
    assert ET.parse(report).find(".//failure") is not None  # noqa: S314 (our own file)
    assert [signal.model for signal in session.meter.status().signals] == [COMMIT, name]
    assert not list(session.folder.rglob("pwned"))


def test_the_job_of_gitlab_asks_no_meter_of_the_checkout(session: Session) -> None:
    """Without the variables of the project, a folder of the merge request opened the gate."""
    given = files(session, 0, 0) | {"METER_FOLDER": ""}
    session.folder = session.folder / "meter"
    done = gitlab(session, **given)
    assert done.returncode != 0
    assert "METER_SERVER is not set in this pipeline" in done.stderr
    assert session.meter.status().signals == ()


def test_one_job_of_gitlab_at_a_time_started_by_a_person() -> None:
    job = loaded("integrations/gitlab/meter.gitlab-ci.yml")[".meter"]
    assert (job["resource_group"], job["interruptible"]) == ("meter", False)
    assert job["artifacts"] == {"when": "always", "reports": {"junit": "meter.xml"}}
    merge_request, by_hand = job["rules"]
    assert (merge_request["when"], merge_request["allow_failure"]) == ("manual", False)
    assert by_hand == {"if": '$CI_PIPELINE_SOURCE == "web"'}
    assert "TOKEN" not in "\n".join(job["script"])


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Return the checkout of a job, with results beside it and a bare repository as its origin."""
    return test_branch.cloned(test_branch.remote_of(tmp_path), "job")


GATE = {"METER_MODE": "gate", "METER_OLD": "main.json", "METER_OLD_NAME": "main"}


def gate(job: Path, event: dict[str, Any] | None = None, /, **given: str) -> Done:
    return act(job, event, **GATE | {"METER_NEW": "better.json", "CI": "true"} | given)


def test_the_gate_of_github(job: Path) -> None:
    forgotten = gate(job)
    assert (forgotten.returncode, outputs(job)) == (2, {})
    assert "make the first one with --new" in forgotten.stdout
    done = gate(job, METER_FIRST="true")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"::notice title=Overfitting meter::keep: {COMMIT} is better")
    told = outputs(job)
    assert list(told) == ["passed", "answer", "band", "steps-left", "signal"]
    assert (told["passed"], told["answer"], told["steps-left"]) == ("true", "keep", "None")
    assert (job / "summary.md").read_text().startswith("### Overfitting meter: keep\n\n    5f0c")
    # Whatever is wrong with the results is a discard, and so is what crashed before it wrote any.
    for name, new in (("b", "same.json"), ("c", "gone.json")):
        done = gate(job, METER_MODEL=name, METER_NEW=new, METER_OLD_NAME=COMMIT)
        assert (done.returncode, outputs(job)["answer"]) == (6, "discard")
        assert done.stdout.startswith(f"::error title=Overfitting meter::discard: {name} is not")
    remote = job.parent / "remote.git"
    assert len(test_branch.git(remote, "show", "meter-ledger:gate.jsonl").splitlines()) == 5


def test_not_worse_than_production_has_a_ledger_of_its_own(job: Path) -> None:
    settings = "--not-worse=20% --reference=production --ledger=not-worse.jsonl"
    given = {"METER_SETTINGS": settings, "METER_OLD_NAME": "production", "METER_FIRST": "true"}
    done = gate(job, **given)
    assert (done.returncode, outputs(job)["answer"]) == (0, "ok"), done.stdout
    remote = job.parent / "remote.git"
    names = test_branch.git(remote, "ls-tree", "--name-only", "meter-ledger")
    assert names == "not-worse.jsonl\n"


@pytest.mark.parametrize("option", ["--by-hand", "--again", "--advise", "--branch=x", "-h"])
def test_no_input_opens_the_gate(job: Path, option: str) -> None:
    done = gate(job, METER_SETTINGS=f"--looks=20 {option}", METER_FIRST="true")
    assert (done.returncode, outputs(job)) == (2, {})
    assert f"settings: {option} given" in done.stdout
    assert gate(job, METER_OLD_NAME="").returncode == 2
    assert gate(job, METER_NEW="").returncode == 2


def test_forks_and_strangers_events_ask_no_gate(job: Path) -> None:
    done = gate(job, pull_request("stranger/spam"), METER_FIRST="true")
    assert (done.returncode, outputs(job)) == (0, {})
    assert "::notice title=Overfitting meter::skipped: pull requests of forks" in done.stdout
    event = {"GITHUB_EVENT_NAME": "pull_request_target", "METER_FIRST": "true"}
    assert gate(job, pull_request("stranger/spam"), **event).returncode == 5
    assert gate(job, GITHUB_EVENT_NAME="workflow_run", METER_FIRST="true").returncode == 2
    assert test_branch.git(job.parent / "remote.git", "branch") == "* main\n"


def test_the_gate_of_gitlab(job: Path) -> None:
    template = loaded("integrations/gitlab/meter.gitlab-ci.yml")[".meter-gate"]
    assert template["rules"] == loaded("integrations/gitlab/meter.gitlab-ci.yml")[".meter"]["rules"]
    assert (template["resource_group"], template["interruptible"]) == ("meter-gate", False)
    lines = "\n".join(template["script"])

    def ask(new: str, **more: str) -> Done:
        given = {"METER_OLD": "main.json", "METER_NEW": new, "METER_PUSH_TOKEN": "t", "CI": "true"}
        given |= {"METER_REMOTE": str(job.parent / "remote.git"), "CI_COMMIT_SHA": new, **more}
        return run(["sh", "-ec", lines], job, template["variables"] | given)

    assert ask("better.json").returncode == 2
    assert ask("better.json", METER_SETTINGS="--looks=20 --new").returncode == 0
    assert ask("same.json", METER_OLD_NAME="better.json").returncode == 6
    assert ask("same.json", METER_PUSH_TOKEN="").returncode not in (0, 6)
    assert "$METER_PUSH_TOKEN" in lines


@pytest.mark.parametrize(("model", "code"), [("good", 0), ("bad", 6), ("new", 4)])
def test_the_hook_of_pre_commit(session: Session, model: str, code: int) -> None:
    session.submit(0, 0, model="good")
    session.submit(25, 0, model="bad")
    (hook,) = loaded(".pre-commit-hooks.yaml")
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert (hook["pass_filenames"], hook["always_run"]) == (False, True)
    command = [*shlex.split(hook["entry"]), f"--model={model}", "--fail-above=2"]
    folder = {"METER_FOLDER": str(session.folder / "meter")}
    assert run(command, session.folder, folder).returncode == code
    assert len(session.meter.status().signals) == 2


def test_the_examples_of_the_page_avoid_its_traps() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    asking, workflow, template, hooks = map(yaml.safe_load, blocks)
    assert asking[True] == {"pull_request": {"types": ["labeled"]}}
    assert asking["concurrency"] == {"group": "meter-gate", "cancel-in-progress": False}
    assert asking["jobs"]["gate"]["environment"] == "gate"
    *_, step = asking["jobs"]["gate"]["steps"]
    assert (step["with"]["mode"], set(step["with"]) <= set(loaded("action.yml")["inputs"])) == (
        *("gate", True),
    )
    assert template["gate"]["extends"] == ".meter-gate"
    events = workflow[True]  # "on" is a boolean of YAML 1.1
    assert events == {"pull_request": {"types": ["labeled"]}, "workflow_dispatch": None}
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"] == {"group": "meter", "cancel-in-progress": False}
    (step,) = (step for step in workflow["jobs"]["gate"]["steps"] if "meter" in step["uses"])
    assert set(step["with"]) <= set(loaded("action.yml")["inputs"])
    assert "secrets.METER_TOKEN" in step["with"]["token"]
    # GitHub counts a skipped job as passed: it runs whatever became of the predictions, and asks.
    gate, given = workflow["jobs"]["gate"], "needs.predict.result == 'success'"
    assert gate["if"] == "always()"
    assert gate["steps"][0]["if"] == given
    assert all(given in step["with"][name] for name in ("test", "validation"))
    # Whatever runs the pull request's code has no token.
    assert "secrets" not in json.dumps(workflow["jobs"]["predict"])
    assert template["include"][0]["file"] == "integrations/gitlab/meter.gitlab-ci.yml"
    assert template["meter"]["extends"] == ".meter"
    (hook,) = hooks["repos"][0]["hooks"]
    assert hook["id"] == loaded(".pre-commit-hooks.yaml")[0]["id"]
