"""Numbers that can be repeated: seeds, processes, files of results, intervals, verdicts."""

from __future__ import annotations

import json
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import binomtest

from easeml_meter.errors import InvalidInput
from easeml_meter.lab.simulation.coverage import (
    CHUNK,
    PRECISION,
    Coverage,
    Experiment,
    coverage,
    experiment,
    find_limit,
    workers,
)
from easeml_meter.lab.simulation.developers import DEVELOPERS
from easeml_meter.spec import MeterSpec

SPEC = MeterSpec.uniform(signals=3, tolerance=0.1, steps=4, delta=0.1)
METER = SPEC.meter


@pytest.fixture
def setting() -> Experiment:
    """Half the labels needed, so that there is something to see."""
    return experiment(METER, labels=120, seed=5)


def test_the_same_seed_gives_the_same_numbers_in_any_number_of_processes(
    setting: Experiment,
) -> None:
    alone = coverage(setting, 1100)
    with workers(2) as pool:
        assert coverage(setting, 1100, pool=pool) == alone
    assert 0 < alone.failures < 1100
    assert coverage(replace(setting, seed=6), 1100).failures != alone.failures


def test_a_session_does_not_depend_on_how_many_follow(setting: Experiment) -> None:
    failed = [place for place in setting.chunk(0) if place < 100]
    assert coverage(setting, 100).failures == len(failed)


def test_results_are_kept_and_not_played_again(
    setting: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "results.json"
    done: list[int] = []
    first = coverage(setting, 600, resume=file, advance=done.append)
    assert sum(done) == 600
    assert coverage(setting, 600) == first
    played: list[int] = []
    original = Experiment.chunk

    def chunk(self: Experiment, number: int) -> tuple[int, ...]:
        played.append(number)
        return original(self, number)

    monkeypatch.setattr(Experiment, "chunk", chunk)
    done.clear()
    assert coverage(setting, 600, resume=file, advance=done.append) == first
    assert played == []
    assert sum(done) == 600
    more = coverage(setting, 4 * CHUNK, resume=file)
    assert played == [3]
    monkeypatch.undo()
    assert coverage(setting, 4 * CHUNK) == more


def test_an_interrupted_run_goes_on(setting: Experiment, tmp_path: Path) -> None:
    file = tmp_path / "results.json"

    def stop(done: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        coverage(setting, 600, resume=file, advance=stop)
    assert list(json.loads(file.read_text())["chunks"]) == ["0"]
    assert coverage(setting, 600, resume=file) == coverage(setting, 600)
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"about": {}, "chunks": {"x": 1}}', "\xff"])
def test_a_file_of_something_else(setting: Experiment, tmp_path: Path, text: str) -> None:
    file = tmp_path / "results.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInput, match=r"is not a file of results|another experiment"):
        coverage(setting, 10, resume=file)


def test_a_file_of_another_experiment(setting: Experiment, tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    coverage(setting, 10, resume=file)
    with pytest.raises(InvalidInput, match=r"another experiment \(seed\)"):
        coverage(replace(setting, seed=6), 10, resume=file)
    with pytest.raises(InvalidInput, match=r"another experiment \(developer\)"):
        coverage(replace(setting, developer="climber"), 10, resume=file)
    with pytest.raises(InvalidInput, match="a file, not a folder"):
        coverage(setting, 10, resume=tmp_path)
    with pytest.raises(InvalidInput, match="cannot be written"):
        coverage(setting, 10, resume=tmp_path / "nowhere" / "results.json")


@pytest.mark.parametrize(
    ("failures", "runs", "verdict"),
    [
        (0, 10, "not decided"),
        (0, 40, "promise holds"),
        (10, 100, "not decided"),
        (40, 400, "promise holds"),
        (60, 400, "not decided"),
        (61, 400, "promise broken"),
        (400, 400, "promise broken"),
        (2, 2, "not decided"),
        (4, 4, "promise broken"),
    ],
)
def test_verdicts(setting: Experiment, failures: int, runs: int, verdict: str) -> None:
    """Broken from 61 of 400 on: that is where the one-sided binomial test at 0.001 rejects."""
    found = Coverage(setting, runs, failures)
    assert found.verdict == verdict
    rejected = binomtest(failures, runs, 0.1, alternative="greater").pvalue < 1e-3
    assert (found.verdict == "promise broken") == rejected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"developer": "nobody"}, "developer: 'nobody' given, one of independent, "),
        ({"seed": -1}, "seed: -1 given, it must be a whole number, 0 or more"),
        ({"labels": 0}, "labels: 0 given, it must be a whole number, 1 or more"),
    ],
)
def test_wrong_experiments(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        experiment(METER, **changes)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


def test_wrong_runs_and_jobs(setting: Experiment) -> None:
    with pytest.raises(InvalidInput, match="runs: 0 given"):
        coverage(setting, 0)
    with pytest.raises(InvalidInput, match="jobs: 0 given"), workers(0) as pool:
        assert isinstance(pool, Executor)
    with pytest.raises(InvalidInput, match="only meters answer submissions"):
        experiment(SPEC.replace(protocol="resampling").meter)


def test_which_assumptions_are_broken() -> None:
    def breaking(spec: MeterSpec) -> set[str]:
        return {name for name, each in DEVELOPERS.items() if each.breaks(spec.meter) is not None}

    everyone = set(DEVELOPERS) - {"independent"}
    assert breaking(SPEC) == set()
    assert breaking(SPEC.replace(tenants=(2, 2))) == {"checkpoints"}
    assert breaking(SPEC.replace(tenants=(2, 2), handover=True)) == set()
    assert breaking(SPEC.replace(reverts=(1, 2))) == everyone
    assert breaking(SPEC.replace(memory=1)) == everyone - {"forgetful"}


def test_developers_without_use_for_their_ways_are_twins_of_another() -> None:
    foreign = {name for name, each in DEVELOPERS.items() if not each.at_home(METER)}
    assert foreign == {"checkpoints", "handover", "crasher", "guesser"}
    assert DEVELOPERS["guesser"].at_home(SPEC.replace(drawn=0.4).meter)
    assert DEVELOPERS["checkpoints"].at_home(SPEC.replace(tenants=(2, 2)).meter)
    handover = DEVELOPERS["handover"]
    assert handover.at_home(SPEC.replace(tenants=(2, 2)).meter)
    assert not handover.at_home(SPEC.replace(tenants=(2, 2), handover=True).meter)
    assert DEVELOPERS["crasher"].at_home(SPEC.replace(loss="my.own:loss").meter)
    twins = [experiment(METER, name, labels=120) for name in ("threshold", *foreign)]
    assert len({each.chunk(0) for each in twins}) == 1


def test_the_limit_lies_where_the_best_attack_crosses_delta() -> None:
    found = find_limit(METER, ["threshold", "independent"], runs=1000)
    assert found.too_few is not None
    assert found.too_few.rate > 0.1 >= found.enough.rate
    assert found.labels <= found.too_few.experiment.labels * (1 + PRECISION) + 1
    assert found.planned == experiment(METER).labels
    assert 1.2 < found.ratio < 3
    assert found.to_json()["limit"] == found.labels


def test_the_limit_of_a_broken_assumption_lies_above_the_plan() -> None:
    meter = SPEC.replace(tenants=(1,) * 12, steps=12).meter
    found = find_limit(meter, ["checkpoints"], runs=500)
    assert found.ratio < 1
    assert found.enough.rate <= 0.1


def test_where_nothing_breaks_the_limit_is_one_label() -> None:
    meter = MeterSpec.uniform(signals=1, tolerance=0.99, steps=1, delta=0.5).meter
    found = find_limit(meter, runs=250)
    assert found.labels == 1
    assert found.too_few is None
