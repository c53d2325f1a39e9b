"""Every command in README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import click
import pytest
from click.testing import CliRunner
from tests.cli.team import team
from tests.forking import HURRIED, SCRIPT, run, shims

from easeml_meter.cli import meter

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
METER = Path(sys.executable).with_name("meter")


# A page that starts with this comment is one sequence of commands in one folder, which the script
# fills first. Its Python runs there, too, in its turn.
SHARED = re.compile(r"<!-- test: shared, setup=(\S+) -->\n")
# One that starts with this is such a sequence at a throwaway server, in somebody's role.
AT_SERVER = re.compile(r"<!-- test: at a server, as (\w+) -->\n")
# And one that starts with this has shell commands for an empty server; a block of text after some
# of them is what they print.
WITH_CURL = "<!-- test: with curl -->\n"


Program = Callable[[Sequence[str], Path, str, Mapping[str, str]], tuple[int, str]]
"""Runs `meter` with arguments, in a folder, with an input and an environment."""


@dataclass(frozen=True)
class Command:
    """A command on a page, and what the page says it prints: `...` stands for anything."""

    page: str
    line: str
    output: tuple[str, ...]
    code: int = 0

    def run(
        self,
        program: Program,
        folder: Path,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        name, *arguments = shlex.split(self.line)
        assert name == "meter", f"{self.page}: only meter commands are run"
        given = "a password, where one is asked for\n"
        settings = {"COLUMNS": "80", "PATH": "/usr/bin:/bin", **environment}
        code, text = program(arguments, folder, given, settings)
        assert code == self.code, f"{self.line}\n{text}"
        assert text, self.line
        if self.output:
            printed = [line.rstrip() for line in text.rstrip().split("\n")]
            expected = [line.rstrip() for line in self.output]
            same = printed == expected or matches(expected, printed)
            assert same, "\n".join([self.line, *printed])


def installed(
    arguments: Sequence[str], folder: Path, given: str, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Run the program that was installed; return its exit code, and what it printed."""
    done = subprocess.run(
        [METER, *arguments],
        cwd=folder,
        input=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=dict(environment),
    )
    return done.returncode, done.stdout


def forked(
    arguments: Sequence[str], folder: Path, given: str, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Run it without importing everything again."""
    done = run(arguments, environment, program=HURRIED, given=given, folder=folder, merged=True)
    return done.returncode, done.stdout


def script(path: str, folder: Path) -> None:
    """Run a file as Python does, in a folder."""
    done = run([path], program=SCRIPT, folder=folder)
    assert done.returncode == 0, done.stderr


def matches(expected: list[str], printed: list[str]) -> bool:
    """Compare, where `...` in a line is any text, and on a line of its own any lines."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.split("..."))) + r"\n"
    return re.fullmatch(pattern, "\n".join(printed) + "\n") is not None


def blocks(page: Path, kind: str) -> list[tuple[str, str]]:
    """Give the blocks of some kinds, in their order."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```({kind})\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(page: Path, block: str) -> list[Command]:
    found = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, *output = part.rstrip("\n").split("\n")
        code = 0
        if output and (ending := re.fullmatch(r"\[exit (\d+)\]", output[-1])):
            code = int(ending[1])
            output.pop()
        found.append(Command(page.name, line, tuple(output), code))
    return found


def setup_of(page: Path) -> Path | None:
    found = SHARED.match(page.read_text(encoding="utf-8"))
    return ROOT / found[1] if found else None


def role_of(page: Path) -> str | None:
    found = AT_SERVER.match(page.read_text(encoding="utf-8"))
    return found[1] if found else None


def alone(page: Path) -> list[Command]:
    """Give the commands of a page that need nothing but the program."""
    if setup_of(page) is not None or role_of(page) is not None:
        return []
    return [each for _, block in blocks(page, "console") for each in commands(page, block)]


@pytest.mark.parametrize("page", [page for page in PAGES if alone(page)], ids=lambda p: p.name)
def test_documented_commands(page: Path, tmp_path: Path) -> None:
    for number, command in enumerate(alone(page)):
        folder = tmp_path / str(number)
        folder.mkdir()
        # What a reader tries first is run as they run it.
        command.run(installed if command.page == "README.md" else forked, folder)


@pytest.mark.parametrize("page", [page for page in PAGES if setup_of(page)], ids=lambda p: p.name)
def test_documented_sequence(page: Path, tmp_path: Path) -> None:
    script(str(setup_of(page)), tmp_path)
    for kind, block in blocks(page, "console|python"):
        if kind == "python":
            (tmp_path / "block.py").write_text(block, encoding="utf-8")
            script("block.py", tmp_path)
            (tmp_path / "block.py").unlink()
        for command in commands(page, block) if kind == "console" else []:
            command.run(forked, tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if role_of(page)], ids=lambda p: p.name)
def test_documented_sequence_at_a_server(page: Path, tmp_path: Path) -> None:
    with team(tmp_path, role_of(page) or "") as environment:
        for _, block in blocks(page, "console"):
            for command in commands(page, block):
                command.run(forked, tmp_path, environment)


def curl_pages() -> list[Path]:
    return [page for page in PAGES if page.read_text(encoding="utf-8").startswith(WITH_CURL)]


@pytest.mark.slow
@pytest.mark.parametrize("page", curl_pages(), ids=lambda page: page.name)
def test_documented_sequence_with_curl(page: Path, tmp_path: Path) -> None:
    """All commands run in one shell, as for somebody who pastes them, and print what is told."""
    parts = blocks(page, "bash|text")
    with team(tmp_path, "admin") as environment:
        path = f"{shims()}:{METER.parent}:/usr/bin:/bin"
        mark, script, expected = "--- next block ---", "set -eu -o pipefail\n", [""]
        for kind, block in parts:
            if kind == "text":
                expected[-1] = block
            elif "https://meter.example.org" not in block:
                script += f"{block}echo; echo '{mark}'\n"
                expected.append("")
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={**environment, "PATH": path, "COLUMNS": "80", "no_proxy": "127.0.0.1"},
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    printed = done.stdout.split(f"{mark}\n")
    assert len(printed) == len(expected) > 10
    for told, said in zip(printed, expected[1:], strict=False):
        lines, wanted = told.strip().splitlines(), said.strip().splitlines()
        assert matches(wanted, lines) or lines == wanted, f"{said}\nprinted:\n{told}"


def shown() -> Iterator[tuple[str, list[str]]]:
    """Give the meter commands that pages show without their output: they are not run."""
    for page in PAGES:
        for _, block in blocks(page, "sh"):
            for line in block.replace("\\\n", "").splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["meter"]:
                    yield page.name, words[1:]


def unknown(words: list[str]) -> list[str]:
    """Give the words of a command line that are neither its commands nor its options."""
    command: click.Command = meter
    options = {name for each in meter.params for name in each.opts}
    context = click.Context(meter)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0]) if words else None
        if found is None:
            return words
        command, words = found, words[1:]
        options |= {name for each in command.params for name in each.opts}
    return [word for word in words if word.startswith("-") and word not in options]


def test_shown_commands_have_these_options() -> None:
    found = list(shown())
    assert len(found) > 10
    assert [each for each in found if unknown(each[1])] == []
    assert unknown(["seat", "keep", "ann"]) == ["keep", "ann"]
    assert unknown(["plan", "--stepps", "10"]) == ["--stepps"]


def test_the_plan_of_every_question_in_the_table_is_made() -> None:
    text = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    found = re.findall(r"\| `meter (plan [^`]+)` \|", text)
    assert len(found) == 13
    for line in found:
        done = CliRunner().invoke(meter, shlex.split(line))
        assert done.exit_code == 0, f"{line}: {done.output}"
        assert " needed " in done.output


def test_readme_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = blocks(ROOT / "README.md", "python")
    assert found
    for _, block in found:
        exec(compile(block, "README.md", "exec"), {})  # noqa: S102  the page's own code


def test_readme_make_targets_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)", text, re.MULTILINE)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
