"""Every parser and route stands some fuzzing here; `make fuzz SECONDS=3600` does more."""

from __future__ import annotations

import secrets

import pytest
from fuzz import all_targets
from fuzz.running import fuzz as run_for
from fuzz.running import run_case

TARGETS = all_targets()


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
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


def test_a_process_that_dies_is_noticed_and_its_case_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    assert run_for("csv", 3, 0.01, first=5).crashes[0] == "case 5: ended with 1: "
