"""`meter gate`, next to a program that does nothing, a bare reading of its files, a first look."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from functools import cache, partial
from pathlib import Path

from bench import Benchmark, folder
from easeml_meter.client.gate import Gate
from easeml_meter.client.ledger import Ledger

MANY, LOOKS, DISCARD = 10**6, 100_000, 6
_ledgers = itertools.count()


def benchmarks() -> list[Benchmark]:
    """List them."""
    return [
        Benchmark(
            name="meter gate, an answer of before (reference: python -c pass)",
            ours=partial(_gate, 300, "json", "again.jsonl", "--name", "a"),
            reference=partial(_run, "-c", "pass"),
            at_most=12,
            agree=_both_ran,
            prepare=partial(_gate, 300, "json", "again.jsonl", "--name", "a"),
        ),
        *(
            Benchmark(
                name=f"meter gate on {MANY:,} cases, {form} (reference: two json.loads)",
                ours=partial(_gate, MANY, form),
                reference=_loads,
                at_most=5,
                agree=_both_ran,
                prepare=partial(_files, form),
            )
            for form in ("json", "jsonl", "csv")
        ),
        Benchmark(
            name=f"meter gate after {LOOKS:,} looks (reference: the first look)",
            ours=partial(_gate, 300, "json", "long.jsonl"),
            reference=partial(_gate, 300, "json"),
            at_most=2,
            prepare=_long_ledger,
        ),
    ]


def _both_ran(ours: int, reference: int) -> bool:
    return (ours, reference) == (DISCARD, 0)


def _run(*arguments: str) -> int:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, check=False).returncode  # noqa: S603


def _gate(cases: int, form: str, ledger: str | None = None, *more: str) -> int:
    path = folder() / (ledger or f"gate-{next(_ledgers)}.jsonl")
    named = map(str, (*files(cases, form), "--ledger", path))
    return _run("-m", "easeml_meter", "gate", *named, "--new", *more)


def _loads() -> int:
    for path in files(MANY):
        json.loads(path.read_text())
    return 0


def _files(form: str) -> None:
    files(MANY)
    files(MANY, form)


@cache
def files(cases: int, form: str = "json") -> tuple[Path, Path]:
    """Write results of two systems, of which the new one is not better."""
    old, new = (folder() / f"{name}-{cases}.{form}" for name in ("old", "new"))
    for path, right in ((old, 1), (new, 0)):
        rows = [(f"case-{n:07}", right if n % 3 else 1 - right) for n in range(cases)]
        objects = [{"id": case, "score": score} for case, score in rows]
        if form == "csv":
            path.write_text("id,score\n" + "".join(f"{case},{score}\n" for case, score in rows))
        elif form == "json":
            path.write_text(json.dumps(objects))
        else:
            path.write_text("\n".join(map(json.dumps, objects)))
    return old, new


@cache
def _long_ledger() -> None:
    """Write as many looks as a loop would."""
    path = folder() / "long.jsonl"
    Gate(path).ask(*files(300))
    ledger = Ledger(path)
    text = bytearray(ledger.text)
    for number in range(LOOKS):
        text += discarded(ledger, f"m{number}")
    path.write_bytes(text)


def discarded(ledger: Ledger, name: str) -> bytes:
    """Return the line of one more look, whose answer is discard."""
    state = ledger.state
    look = {"look": state.look + 1, "new": name, "old": state.incumbent, "by_hand": False}
    look |= {"share": str(state.share), "level": str(state.level(ledger.settings))}
    return ledger.line(look | {"answer": "discard"}, state.after(ledger.settings, look, yes=False))
