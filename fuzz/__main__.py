"""Fuzz every parser and every route: `python -m fuzz --seconds 60`, or `... WORD` for some."""

from __future__ import annotations

import argparse
import os
import random
import sys
import traceback

from fuzz import all_targets
from fuzz.running import Outcome, fuzz, run_case

SECONDS_A_TURN = 60


def main(words: list[str]) -> int:
    """Print the figures of a target after each of its turns; exit with 1 if one crashed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help="names of targets; all if none is named")
    parser.add_argument("--seconds", type=float, default=60, help="for all of them together")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--case", type=int, help="run this one case here, and let it crash")
    given = parser.parse_args(words)
    known = all_targets()
    chosen = given.targets or list(known)
    for name in chosen:
        if name not in known:
            parser.error(f"{name!r} is no target: one of {' '.join(known)}")
    if given.case is not None:
        crashed = 0
        try:
            taken = run_case(known[chosen[0]], given.seed, given.case)
            print("taken" if taken else "refused", flush=True)
        except Exception:
            traceback.print_exc()
            crashed = 1
        os._exit(crashed)  # threads of a server must not keep the process
    print(f"seed {given.seed}, {given.seconds:g} seconds, {len(chosen)} targets")
    print(f"{'target':<10} {'cases':>10} {'taken':>10} {'MB':>6} {'crashes':>8}")
    total = {name: Outcome(name) for name in chosen}
    # In turns: a run that is cut short has reached every target, and its lines say how far.
    share = given.seconds / len(chosen)
    turns = max(1, int(share / SECONDS_A_TURN))
    for _ in range(turns):
        for name in chosen:
            so_far = total[name]
            found = fuzz(name, given.seed, share / turns, so_far.cases)
            so_far.add(found)
            figures = f"{so_far.cases:>10,} {so_far.taken:>10,} {so_far.megabytes:>6,.0f}"
            print(f"{name:<10} {figures} {len(so_far.crashes):>8}", flush=True)
            for line in found.crashes[:10]:
                print(f"    {line}", flush=True)
    crashes = sum(len(each.crashes) for each in total.values())
    cases = sum(each.cases for each in total.values())
    memory = max(each.megabytes for each in total.values())
    print(f"{cases:,} cases, {crashes} crashes, at most {memory:,.0f} MB")
    if crashes:
        print(f"again: python -m fuzz --seed {given.seed} --case NUMBER TARGET")
    return 1 if crashes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
