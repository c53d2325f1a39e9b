"""Every parser and route stands some fuzzing here; `make fuzz SECONDS=3600` does more."""

from __future__ import annotations

import secrets
from random import Random

import pytest
from fuzz import Failed, all_targets, draw_of, one_line
from fuzz.running import fuzz as run_for
from fuzz.running import run_case

TARGETS = all_targets()


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_few_cases_end_in_an_answer_or_a_refusal(name: str) -> None:
    for case in range(12):
        assert run_case(TARGETS[name], 1, case) in (True, False)


@pytest.mark.verify
@pytest.mark.parametrize("name", TARGETS)
def test_no_target_crashes(name: str) -> None:
    seed = secrets.randbelow(10**9)
    found = run_for(name, seed, 60 / len(TARGETS))
    assert not found.crashes, f"seed {seed}: {found.crashes[:3]}"
    assert found.cases > 1


@pytest.mark.parametrize("name", [n for n in TARGETS if n not in ("age", "routes", "sealed")])
def test_a_case_is_the_same_again(name: str) -> None:
    """Not of what is encrypted, or sent to a server: keys and ids are new in every process."""
    target = TARGETS[name]
    cases = [target.make(draw_of(name, 7, case)) for case in range(5)]
    assert cases == [target.make(draw_of(name, 7, case)) for case in range(5)]
    assert len(set(cases)) > 1


class Broken:
    """A parser that fails at some inputs."""

    name = "broken"

    def make(self, draw: Random) -> bytes:
        return bytes([draw.randrange(4)])

    def run(self, data: bytes) -> bool:
        if data == b"\0":
            raise KeyError("x")
        return True


def test_what_a_parser_raises_is_a_crash() -> None:
    with pytest.raises(KeyError):
        all(run_case(Broken(), 1, case) for case in range(50))


@pytest.mark.parametrize("line", ["", "two\nlines", "x" * 2000])
def test_a_refusal_is_one_line(line: str) -> None:
    one_line(ValueError("a line"))
    with pytest.raises(Failed):
        one_line(ValueError(line))


def test_a_process_that_dies_is_noticed_and_its_case_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert run_for("csv", 3, 0.01, first=5).crashes[0] == "case 5: ended with 1: "
