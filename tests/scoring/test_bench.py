"""The benchmark runs, and both ways agree; how fast they are is for `make bench` to say."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import scoring


def test_both_ways_count_the_same_errors() -> None:
    for benchmark in scoring.benchmarks(small=True):
        assert benchmark.agree(benchmark.ours(), benchmark.reference())


def test_labels_may_come_from_anywhere(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        benchmark = scoring.scoring(
            5000, tmp_path, "labels here", scoring.in_memory, map_function=threads.map
        )
        assert benchmark.ours() == benchmark.reference() > 0
