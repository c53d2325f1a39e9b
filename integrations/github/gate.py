"""Submit a model to a meter, or ask what was told of it, in a job of GitHub Actions.

In mode "gate" it asks for keep or discard of two result files, with the ledger on a branch.

It reads METER_* and GITHUB_* from the environment and exits as `meter status --model` does: 0
passes, 6 does not, 4 if nothing was told of the model yet. Everything is printed as one escaped
annotation, since lines of the log that begin with "::" are commands to the runner.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

METER = Path(sys.executable).with_name("meter")
WRONG_INPUT, NOT_ALLOWED, CLOSED = 2, 5, 6
"""Exit codes of `meter`."""
FIXED = (
    *(
        "looks",
        "confidence",
        "scores",
        "vote",
        "lower-is-better",
        "range",
        "missing",
        "id",
        "score",
    ),
    *("cluster", "from", "not-worse", "better-by", "at-least", "reference", "ledger"),
)
"""Settings of a ledger; no other option comes from an input, such as --by-hand or --again."""
OF_ANOTHER_COMMIT = ("issue_comment", "workflow_run")
"""Events for a pull request whose GITHUB_SHA has nothing of it."""


def main() -> int:
    """Run the gate, and return its exit code."""
    event = json.loads(Path(given("GITHUB_EVENT_PATH") or os.devnull).read_text("utf-8") or "{}")
    head = event.get("pull_request", {}).get("head", {})
    if given("GITHUB_EVENT_NAME") == "pull_request_target":
        # This event hands the secrets to whoever opens a pull request.
        return failed(NOT_ALLOWED, "pull_request_target: strangers could spend the test set")
    if given("METER_MODE") == "gate":
        return keep_or_discard(head)
    remote = given("METER_SERVER") or not given("METER_FOLDER")
    if remote and not given("METER_TOKEN") and without_secrets(head):
        return skipped()
    if remote and not given("METER_SERVER"):
        # `meter` would take this folder: the checkout, whose own meter could tell anything.
        return failed(WRONG_INPUT, "no server given: set it, and pass it on as `server`")
    if remote and not given("METER_TOKEN"):  # forgotten: that must not open the gate
        return failed(NOT_ALLOWED, "no token: set the secret, and pass it on as `token`")
    model = name_of(head)
    if model is None:
        return nameless()
    gate = [f"--model={model}", *options("fail-above", "most-loss")]
    files = options("test", "validation", "onnx")
    if files:
        # A summary asks for a gate: where that needs a limit and has none, nothing is charged.
        done = meter("submit", "--once", *files, *gate, f"--summary={os.devnull}")
        if done.returncode not in (0, CLOSED):
            return refused(done)
    # The gate is free, and says the same again with its reasons.
    done = meter("status", *gate, *options("junit"), f"--summary={written('GITHUB_STEP_SUMMARY')}")
    if done.returncode not in (0, CLOSED):
        return refused(done)
    verdict = json.loads(done.stdout)
    output(verdict)
    annotate("notice" if verdict["passed"] else "error", verdict["sentence"])
    return done.returncode


def keep_or_discard(head: dict[str, Any]) -> int:
    """Ask `meter gate`, which pushes the ledger before it says anything."""
    if without_secrets(head):
        return skipped()
    model = name_of(head)
    if model is None:
        return nameless()
    settings = shlex.split(given("METER_SETTINGS"))
    for word in settings:
        name = word.removeprefix("--").partition("=")[0]
        if word.startswith("-") and name not in FIXED:
            return failed(WRONG_INPUT, f"settings: {word} given, one of --{', --'.join(FIXED)}")
    missing = [each for each in ("new", "old-name") if not given(variable(each))]
    if missing:
        return failed(WRONG_INPUT, f"no {missing[0]} given: pass it on as `{missing[0]}`")
    files = [path for path in (given("METER_OLD"), given("METER_NEW")) if path]
    branch = given("METER_BRANCH") or "meter-ledger"
    asked = [f"--name={model}", *options("old-name"), f"--branch={branch}", "--sealed", *settings]
    new = ["--new"] if given("METER_FIRST") == "true" else []
    done = meter("gate", *asked, *new, "--", *files)
    if done.returncode not in (0, CLOSED):
        return refused(done)
    answer = json.loads(done.stdout)
    output({"passed": done.returncode == 0, "signal": answer | {"band": None}})
    with written("GITHUB_STEP_SUMMARY").open("a", encoding="utf-8") as file:
        file.write(f"### Overfitting meter: {answer['answer']}\n\n")
        file.writelines(f"    {line}\n" for line in answer["text"])
    annotate("error" if done.returncode else "notice", f"{answer['answer']}: {answer['text'][0]}")
    return done.returncode


def name_of(head: dict[str, Any]) -> str | None:
    """Return the name of the model; None where the commit of the event is another one."""
    if given("GITHUB_EVENT_NAME") in OF_ANOTHER_COMMIT and not given("METER_MODEL"):
        return None
    # GITHUB_SHA of a pull request is a merge commit: a new one whenever the target branch moves.
    return given("METER_MODEL") or head.get("sha") or given("GITHUB_SHA")


def nameless() -> int:
    """Say that the event has no commit of the model."""
    words = "its commit is that of the default branch: name the model by `model`"
    return failed(WRONG_INPUT, f"{given('GITHUB_EVENT_NAME')}: {words}")


def without_secrets(head: dict[str, Any]) -> bool:
    """Whether GitHub keeps secrets, and variables of the repository, from this run."""
    stranger = head and (head.get("repo") or {}).get("full_name") != given("GITHUB_REPOSITORY")
    return bool(stranger) or given("GITHUB_ACTOR") == "dependabot[bot]"


def skipped() -> int:
    """Skip what cannot have a token."""
    words = "skipped: pull requests of forks and of Dependabot get no secrets; nothing was asked"
    annotate("notice", words)
    with written("GITHUB_STEP_SUMMARY").open("a", encoding="utf-8") as file:
        file.write(f"### Overfitting meter: {words}\n")
    return 0


def meter(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `meter`; what an input leaves empty is not set."""
    environment = {
        name: value for name, value in os.environ.items() if value or not name.startswith("METER_")
    }
    return subprocess.run(  # noqa: S603 (a list of arguments: no shell reads a name)
        [METER, arguments[0], "--json", *arguments[1:]],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env=environment,
    )


def options(*names: str) -> list[str]:
    """Return the options that were given as inputs, each in one word: a name may begin with "-"."""
    values = {name: given(variable(name)) for name in names}
    return [f"--{name}={value}" for name, value in values.items() if value]


def variable(name: str) -> str:
    """Return the variable that an input comes in."""
    return f"METER_{name.upper().replace('-', '_')}"


def given(name: str) -> str:
    """Return a variable of the environment; it may be empty."""
    return os.environ.get(name, "")


def written(name: str) -> Path:
    """Return the file that the runner reads, if there is a runner."""
    return Path(given(name) or os.devnull)


def output(verdict: dict[str, Any]) -> None:
    """Write the outputs of the step: each is one line, so no value can begin another one."""
    signal = verdict["signal"]
    values = {
        "passed": json.dumps(verdict["passed"]),
        "answer": signal["answer"],
        "band": "" if signal["band"] is None else signal["band"],
        "steps-left": signal.get("steps_left", signal.get("answers_left")),
        "signal": json.dumps(signal),
    }
    with written("GITHUB_OUTPUT").open("a", encoding="utf-8") as file:
        file.writelines(f"{name}={value}\n" for name, value in values.items())


def refused(done: subprocess.CompletedProcess[str]) -> int:
    """Say why `meter` gave no answer."""
    for said in (done.stderr, done.stdout):
        try:
            return failed(done.returncode, json.loads(said)["message"])
        except ValueError:
            continue
    return failed(done.returncode, done.stderr.strip())


def failed(code: int, words: str) -> int:
    """Say what was wrong, and return the exit code."""
    annotate("error", words)
    return code


def annotate(kind: str, words: str) -> None:
    """Print an annotation of the run, in one line that cannot be another command."""
    for character in "%\r\n":
        words = words.replace(character, f"%{ord(character):02X}")
    print(f"::{kind} title=Overfitting meter::{words}")


if __name__ == "__main__":
    sys.exit(main())
