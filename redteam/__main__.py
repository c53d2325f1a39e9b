"""Run the attacks: `python -m redteam`, or `python -m redteam WORD` for those named with a word.

URL and TOKEN (an admin's) name a server that runs already; it should be one made for this, since
accounts and meters are made there. Otherwise one is started, on SQLite, or on the PostgreSQL
that PGHOST and its like name. PROCESSES are the ids of a server's processes on this machine.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from redteam import Verdict, all_attacks, judge, table
from redteam.starting import started
from redteam.target import Target


@contextlib.contextmanager
def target_of(environment: Mapping[str, str]) -> Iterator[Target]:
    """Find the server that variables name, or start one."""
    if "URL" in environment:
        processes = tuple(map(int, environment.get("PROCESSES", "").split()))
        yield Target(environment["URL"].rstrip("/"), environment["TOKEN"], processes)
        return
    with tempfile.TemporaryDirectory(prefix="redteam-") as folder:
        postgresql = ""
        if "PGHOST" in environment:
            words = [environment[f"PG{each}"] for each in ("USER", "PASSWORD", "HOST", "PORT")]
            postgresql = "postgresql://{}:{}@{}:{}/".format(*words) + environment["PGDATABASE"]
        with started(Path(folder), postgresql) as target:
            yield target


def main(words: list[str]) -> int:
    """Print a table, and exit with 1 if anything is broken."""
    verdicts: list[Verdict] = []
    with target_of(os.environ) as target:
        _ = target.people

        def judged() -> Iterator[Verdict]:
            for attack in all_attacks():
                if all(word in attack.name for word in words):
                    verdicts.append(judge(attack, target))
                    yield verdicts[-1]

        for line in table(judged()):
            print(line, flush=True)
    return 0 if verdicts and all(verdict.held for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
