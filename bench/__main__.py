"""Run the benchmarks: `python -m bench`, or `python -m bench WORD` for those named with a word."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench import Timing, all_benchmarks, measure, table


def main(words: list[str]) -> int:
    """Print a table, and exit with 1 if a ratio misses its target or an answer differs."""
    timings: list[Timing] = []

    def measured() -> Iterator[Timing]:
        for benchmark in all_benchmarks():
            if all(word in benchmark.name for word in words):
                timings.append(measure(benchmark))
                yield timings[-1]

    for line in table(measured()):
        print(line, flush=True)
    return 0 if all(timing.passed for timing in timings) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
