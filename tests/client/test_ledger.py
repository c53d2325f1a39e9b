"""The ledger: what is on disk at any moment, and what becomes of lines that were changed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from bench.gate import discarded
from tests.client.loops import lines, pair, read

from easeml_meter.client import answers, decision, gate, ledger
from easeml_meter.client.gate import Gate
from easeml_meter.client.ledger import BrokenLedger, Ledger, digest
from easeml_meter.errors import Spent


def test_both_writes_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    plain = os.fsync
    path = tmp_path / "gate.jsonl"

    def sync(handle: int) -> None:
        synced.append(path.read_text().rsplit("\n", 1)[-1] if path.exists() else "")
        plain(handle)

    monkeypatch.setattr(os, "fsync", sync)
    Gate(path).ask(*pair(60, 0))
    synced.clear()
    Gate(path).ask(*pair(60, 0))
    assert [text.startswith('{"look": 2') for text in synced] == [True, False]


def test_a_ledger_cut_anywhere_loses_no_look(tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    Gate(path).ask(*pair(60, 0), name="a")
    before = path.read_bytes()
    Gate(path).ask(*pair(60, 30), name="b")
    after = path.read_bytes()
    staked = after.index(b', "answer": "keep"')
    path.write_bytes(before + b'{"look": 2, "new": "' + b"x" * 2000)
    assert Gate(path).ask(*pair(60, 30), name="b").look == 2
    assert path.read_bytes() == after
    for size in range(len(before), len(after) + 1, 3):
        path.write_bytes(after[:size])
        told = Gate(path).ask(*pair(60, 0), name="c")  # another one comes first
        charged = staked <= size
        assert (told.look, told.answer) == (3 if charged else 2, "discard")
        looks = [each["new"] for each in lines(path) if "look" in each]
        assert looks == (["a", "b", "c"] if charged else ["a", "c"])
        read(path)
        path.write_bytes(after[:size])
        assert Gate(path).status()["answers"] == (2 if charged else 1)
        told = Gate(path).ask(*pair(60, 30), name="b")  # the same comes again
        assert (told.look, told.answer, told.repeated) == (2, "keep", size == len(after))
        assert path.read_bytes() == after


def killed_at(step: int, path: Path, name: str) -> bool:
    """Look in another process, which is killed before that line of the gate's modules runs."""
    modules = tuple(each.__file__ for each in (gate, ledger, decision, answers))
    pid = os.fork()
    if pid == 0:
        left = step

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in modules:
                return None
            left -= event == "line"
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        sys.settrace(trace)
        Gate(path).ask(*pair(60, 30), name=name)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "kills", [pytest.param(25, id="25"), pytest.param(200, id="200", marks=pytest.mark.verify)]
)
def test_a_process_that_is_killed_between_two_lines_used_its_look_once(
    tmp_path: Path, kills: int
) -> None:
    path, draw = tmp_path / "gate.jsonl", random.Random(kills)  # noqa: S311
    Gate(path).ask(*pair(60, 0), name="first")
    killed = 0
    for number in range(kills):
        name = f"m{number // 2}"  # every second call comes again after it was killed
        killed += killed_at(draw.randrange(660), path, name)
        if draw.random() < 0.3:
            Gate(path).ask(*pair(60, 0), name=f"other-{number}")
    assert killed > kills / 2
    asked = Gate(path)
    before = {line["new"]: line["answer"] for line in lines(path) if "answer" in line}
    for number in range(kills // 2):
        answer = asked.ask(*pair(60, 30), name=f"m{number}")
        assert answer.answer == before.get(f"m{number}", answer.answer)
    names = [line["new"] for line in lines(path) if "look" in line]
    assert len(names) == len(set(names))
    assert len(read(path)) == len(names)


MANY = """
import sys
from easeml_meter.client.gate import Gate
for number in range(6):
    Gate("gate.jsonl").ask([0] * 60, [0] * 60, name=f"{sys.argv[1]}-{number}")
    Gate("gate.jsonl").ask([0] * 60, [0] * 60, name=f"common-{number}")
"""


@pytest.mark.slow
def test_eight_processes_at_once_lose_and_double_no_look(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", MANY, str(number)], cwd=tmp_path)
        for number in range(8)
    ]
    assert [each.wait(60) for each in started] == [0] * 8
    names = [each["new"] for each in lines(tmp_path / "gate.jsonl") if "look" in each]
    assert len(names) == len(set(names)) == 8 * 6 + 6
    read(tmp_path / "gate.jsonl")
    assert {path.name for path in tmp_path.iterdir()} == {"gate.jsonl", "gate.cases"}


def test_an_edited_line_a_fork_and_a_cut_are_named(tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    asked = Gate(path)
    heads = [asked.ask(*pair(60, 0), name=f"m{n}").head for n in range(4)]
    text = path.read_text()
    assert Gate(path).audit(heads[2]) == 4
    path.write_bytes(text.replace("\n", "\r\n").encode())  # a checkout of Windows
    assert Gate(path).audit() == 4
    written = text.splitlines()

    def broken(*changed: str) -> str:
        path.write_text("".join(f"{line}\n" for line in changed))
        with pytest.raises(BrokenLedger) as error:
            Gate(path).audit(heads[3])
        return str(error.value)

    edited = [*written[:3], written[3].replace('"discard"', '"keep"'), *written[4:]]
    assert "line 4" in broken(*edited)
    assert "line 4" in broken(*written[:3], *written[4:])  # one look is gone
    assert "line 7" in broken(*written, written[4])  # of another branch
    assert "no line" in broken(*written[:-1])  # cut: the rest follows
    forged = {**json.loads(written[-1]), "level": "1/2"}  # with a digest that fits
    forged["digest"] = digest(forged)
    assert "(level)" in broken(*written[:-1], json.dumps(forged))
    forged = {**json.loads(written[-1]), "share": "1/2"}
    forged["digest"] = digest(forged)
    assert "(share)" in broken(*written[:-1], json.dumps(forged))
    forged = {**json.loads(written[3]), "new": "m9"}
    forged["digest"] = digest(forged)
    assert "line 5" in broken(*written[:3], json.dumps(forged), *written[4:])
    path.write_text(text.replace('"delta": "1/10"', '"delta": "1/4"'))
    with pytest.raises(BrokenLedger, match="line 1 was changed"):
        asked.ask(*pair(60, 0))
    path.write_text(text[:-2] + "\n")
    with pytest.raises(BrokenLedger, match="line 6 was changed"):
        asked.ask(*pair(60, 0))
    path.write_text(text.replace('"m3"', '"m9"'))
    with pytest.raises(BrokenLedger, match="line 6 was changed"):
        asked.ask(*pair(60, 0))


def test_a_call_refuses_a_line_of_another_branch(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl")
    for name in ("a", "b", "c"):
        asked.ask(*pair(60, 0), name=name)
    written = asked.path.read_text().splitlines()
    asked.path.write_text("".join(f"{line}\n" for line in (*written, written[3])))
    with pytest.raises(BrokenLedger, match=r"line 6 does not follow .*chain"):
        asked.ask(*pair(60, 0), name="d")


def test_a_look_that_another_pair_ended_is_a_repeat(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl")
    asked.ask(*pair(60, 0), name="a")
    asked.ask(*pair(60, 30), name="b")
    text = asked.path.read_bytes()
    asked.path.write_bytes(text[: text.index(b', "answer": "keep"')])  # killed in between
    more = [{**results, "joined": 1} for results in pair(60, 30)]
    told = asked.ask(*more, name="b", joined=True)
    assert (told.answer, told.look, told.repeated) == ("discard", 2, True)
    assert len(read(asked.path)) == 2


def test_a_share_of_any_length_is_read(tmp_path: Path) -> None:
    asked = Gate(tmp_path / "gate.jsonl", scores=True)
    asked.ask([0.1] * 60, [0.1] * 60)
    ledger = Ledger(asked.path)
    small = replace(ledger.state, share=Fraction(1, 7**9_000))
    ledger.write(ledger.line({"void": 1, "reason": "a share of 7,600 digits"}, small))
    with pytest.raises(Spent, match="no number of wins"):
        asked.ask([0.1] * 60, [0.9] * 60)
    with pytest.raises(BrokenLedger, match="state"):
        asked.audit()


def test_git_merges_no_ledger_and_ignores_the_ids(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.pyc")
    Gate(tmp_path / "gate.jsonl").ask(*pair(60, 0))
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\ngate.cases\n"
    assert (tmp_path / ".gitattributes").read_text() == "gate.jsonl merge=binary -text\n"


def test_a_look_after_two_thousand_takes_as_long_as_the_first(tmp_path: Path) -> None:
    def fastest(path: Path) -> float:
        times = []
        for _ in range(9):
            began = time.process_time()
            Gate(path).ask(*pair(300, 0))
            times.append(time.process_time() - began)
        return min(times)

    Gate(tmp_path / "first.jsonl").ask(*pair(300, 0))
    Gate(tmp_path / "gate.jsonl").ask(*pair(300, 0))
    ledger = Ledger(tmp_path / "gate.jsonl")
    more = b"".join(discarded(ledger, f"m{number}") for number in range(2_000))
    ledger.path.write_bytes(ledger.text + more)
    assert fastest(ledger.path) <= 2 * fastest(tmp_path / "first.jsonl")
    assert Gate(ledger.path).audit() == 2_010
