"""The ledger on a branch: what jobs of continuous integration do, with a bare repository."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests import forking

from easeml_meter.client.branch import Branch, NotPushed
from easeml_meter.errors import MeterError


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    command = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cloned(site: Path, name: str) -> Path:
    git(site, "clone", "--quiet", str(site / "remote.git"), name)
    for result, wrong in (("main", 40), ("better", 10), ("same", 40)):
        cases = [{"id": n, "score": int(n >= wrong)} for n in range(300)]
        (site / name / f"{result}.json").write_text(json.dumps(cases))
    return site / name


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return remote_of(tmp_path)


def remote_of(tmp_path: Path) -> Path:
    """Make a bare repository, remote.git, with one commit on main."""
    git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    git(tmp_path, "init", "--quiet", "first")
    git(tmp_path / "first", "commit", "--quiet", "--allow-empty", "-m", "begin")
    git(tmp_path / "first", "push", "--quiet", str(tmp_path / "remote.git"), "HEAD:main")
    git(tmp_path / "remote.git", "symbolic-ref", "HEAD", "refs/heads/main")
    return tmp_path


def ask(job: Path, new: str, *more: str) -> tuple[int, str, str]:
    command = ("gate", "main.json", f"{new}.json", "--branch", "ledger", "--sealed", *more)
    kept = {name: value for name, value in os.environ.items() if name != "METER_KEY"}
    done = forking.run(command, {**kept, "CI": "true"}, folder=job)
    return done.returncode, done.stdout, done.stderr


def ledger(site: Path) -> list[str]:
    return git(site / "remote.git", "show", "ledger:gate.jsonl").splitlines()


def test_jobs_share_a_ledger_that_is_pushed_before_its_answer(site: Path) -> None:
    one, two = cloned(site, "one"), cloned(site, "two")
    code, out, err = ask(one, "better", "--name", "a")
    assert (code, out) == (2, "")
    assert "gate.jsonl of branch ledger" in err
    assert "--new" in err
    code, out, err = ask(one, "better", "--name", "a", "--new")
    assert (code, out.split()[0]) == (0, "keep")
    assert "New ledger gate.jsonl of branch ledger: 90 % sure" in err
    assert len(ledger(site)) == 3
    # The checkout of another job has nothing but Git's; the model to beat comes with the branch.
    for _ in range(2):
        code, out, _ = ask(two, "same", "--name", "b", "--old-name", "a")
        assert (code, out.split()[0]) == (6, "discard")
        assert len(ledger(site)) == 4
    gone = ask(two, "gone", "--name", "c", "--old-name", "a")
    assert (gone[0], gone[1].split()[0], len(ledger(site))) == (6, "discard", 5)
    done = forking.run(("gate", "--branch", "ledger", "--json"), dict(os.environ), folder=one)
    assert json.loads(done.stdout)["kept"] == ["a"]
    void = ("gate", "--branch", "ledger", "--void", "1", "--reason", "the grader timed out")
    assert forking.run(void, dict(os.environ), folder=one).returncode == 0
    assert '"void": 1' in ledger(site)[-1]
    assert not git(one, "status", "--porcelain").replace("?? ", "").strip("\n").count("gate")


def test_a_job_that_may_not_push_shows_nothing(site: Path) -> None:
    """As the token of a fork's pull request: it can read the ledger, and that is all."""
    one = cloned(site, "one")
    assert ask(one, "better", "--name", "a", "--new")[0] == 0
    hook = site / "remote.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    before = ledger(site)
    told = {ask(one, new, "--name", "b", "--old-name", "a") for new in ("better", "same", "gone")}
    ((code, out, err),) = told
    assert (code, out, ledger(site)) == (4, "", before)
    assert "the ledger could not be pushed to ledger: no answer is shown" in err


def test_the_job_that_comes_second_is_asked_again(site: Path, tmp_path: Path) -> None:
    one = cloned(site, "one")
    held = []
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        held.append(Branch("ledger", one, tmp_path / name / "gate.jsonl"))
        held[-1].ledger.write_text(f"{name}\n")
    held[0].push("first")
    with pytest.raises(NotPushed):
        held[1].push("second")
    assert ledger(site) == ["x"]
    # Another ledger of the same branch: both stay.
    (tmp_path / "z").mkdir()
    other = Branch("ledger", one, tmp_path / "z" / "not-worse.jsonl")
    assert other.ledger.with_name("gate.jsonl").read_text() == "x\n"
    other.ledger.write_text("z\n")
    other.push("other")
    assert git(site / "remote.git", "ls-tree", "--name-only", "ledger").split() == [
        *("gate.jsonl", "not-worse.jsonl"),
    ]


@pytest.mark.parametrize("name", ["-x", "a..b", "a b", "a:b", ""])
def test_strange_names_reach_no_remote(site: Path, name: str) -> None:
    with pytest.raises(MeterError):
        Branch(name, cloned(site, "one"), site / "gate.jsonl")


def test_a_remote_that_cannot_be_reached_is_no_empty_ledger(site: Path) -> None:
    one = cloned(site, "one")
    (site / "remote.git").rename(site / "away.git")
    code, out, err = ask(one, "better", "--name", "a", "--new")
    assert (code, out) == (1, "")
    assert "git ls-remote failed" in err


def test_two_kinds_of_budget_do_not_share_the_cases_of_a_branch(site: Path) -> None:
    one = cloned(site, "one")
    assert ask(one, "better", "--name", "a", "--new")[0] == 0
    other = ("--ledger", "not-worse.jsonl", "--not-worse", "20%", "--reference", "v1", "--new")
    code, out, err = ask(one, "better", "--name", "a", *other)
    assert (code, out) == (2, "")
    assert "gate.jsonl asks these cases another way: each needs cases of its own" in err
    assert ask(one, "better", "--name", "a", "--ledger", "x.csv")[0] == 2
    assert git(site / "remote.git", "ls-tree", "--name-only", "ledger") == "gate.jsonl\n"
