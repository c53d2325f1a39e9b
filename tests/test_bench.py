"""The benchmarks run and agree; how fast they are is for `make bench` to say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import bench
import httpx
import pytest
from bench import Benchmark, Timing, all_benchmarks, costs, measure, table
from bench.__main__ import main
from redteam.starting import started
from redteam.target import Target


@pytest.mark.parametrize("benchmark", all_benchmarks(small=True), ids=lambda each: each.name)
def test_both_sides_give_the_same_answer(benchmark: Benchmark) -> None:
    assert benchmark.agree(benchmark.ours(), benchmark.reference())


def timing(ours: float, *, agreed: bool = True) -> Timing:
    return Timing(Benchmark("sums", int, int, at_most=0.5, seconds=0.01), ours, 1.0, agreed)


@pytest.mark.parametrize(
    ("measured", "passed", "verdict"),
    [
        (timing(0.001), True, "ok"),
        (timing(0.4), True, "ok, slower than aimed at"),
        (timing(0.6), False, "MISSED, slower than aimed at"),
        (timing(0.001, agreed=False), False, "DISAGREE"),
    ],
)
def test_the_ratio_decides_and_the_seconds_inform(
    measured: Timing, passed: bool, verdict: str
) -> None:
    assert measured.passed is passed
    _, line = table([measured])
    assert line.startswith("sums ")
    assert line.endswith("  " + verdict)


def test_measuring_keeps_the_best_time() -> None:
    found = measure(Benchmark("sums", lambda: sum(range(10)), lambda: sum(range(99_999)), 1))
    assert not found.agreed
    assert 0 < found.ours < found.reference


@pytest.mark.parametrize(("at_most", "code"), [(1e9, 0), (1e-9, 1)])
def test_a_missed_ratio_is_the_exit_code(
    at_most: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    some = [Benchmark("sums", lambda: sum(range(9)), lambda: sum(range(9)), at_most)]
    monkeypatch.setattr("bench.__main__.all_benchmarks", lambda: some)
    assert main(["sum"]) == code
    assert "sums" in capsys.readouterr().out
    assert main(["something else"]) == 0


def test_modules_are_registered() -> None:
    assert "bench.planner" in bench.MODULES


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Start the server that `bench costs` starts, once."""
    with started(tmp_path_factory.mktemp("costs")) as found:
        yield found


@pytest.mark.slow
def test_the_worst_price_of_a_route_is_the_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], target: Target
) -> None:
    monkeypatch.setattr(costs, "started", lambda folder: nullcontext(target))
    monkeypatch.setattr(costs, "MOST_SECONDS", 1e-9)
    assert costs.main(roles=["developer"], words=["GET /planner/answer"]) == 1
    capsys.readouterr()
    monkeypatch.setattr(costs, "MOST_SECONDS", 1e9)  # how fast is for `make bench` to say
    # Last: the session is over then.
    assert costs.main(roles=["outsider", "developer"], words=["POST", "/logout"]) == 0
    heading, line, worst = capsys.readouterr().out.splitlines()
    assert "MB/KB" in heading
    assert line.startswith("POST /logout ")
    assert worst.startswith("the worst of 1: POST /logout")


@pytest.mark.slow
def test_every_route_and_page_has_a_price(target: Target) -> None:
    asked = dict(costs.requests(target))
    document = httpx.get(
        f"{target.address}/api/v1/openapi.json", trust_env=False, timeout=120
    ).json()
    operations = [path for path in document["paths"].values() for _ in path]
    assert len(asked) >= len(operations)
    assert {"POST /login", "POST /plans", "GET /planner", "GET /meters/{meter}/labels"} <= {*asked}
    assert list(asked)[-1] == "POST /logout"
