"""What an answer shows: nothing but the bit depends on hidden rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.client.loops import pair

from easeml_meter.client.answers import Answer
from easeml_meter.client.gate import Gate


def world(folder: Path, seed: int, *, sealed: bool) -> tuple[list[Answer], dict[str, bytes]]:
    """Run a loop whose bits are fixed, and whose rows are not."""
    folder.mkdir()
    draw = random.Random(seed)  # noqa: S311
    asked = Gate(folder / "gate.jsonl", sealed=sealed)
    told = []
    for number, bit in enumerate((0, 1, 0, 0, 1, 0)):
        losses = draw.randrange(5)
        wins = draw.randrange(60, 90) if bit else draw.randrange(losses + 3)
        old, new = pair(200, wins, losses)
        mixed = [dict(draw.sample(list(each.items()), len(each))) for each in (old, new)]
        results: Any = mixed[1]
        if sealed and not bit and seed:
            broken = [{**results, "case-0": "?"}, {}, {"x": 1}, dict(list(results.items())[:9])]
            results = draw.choice([*broken, folder / "absent.json"])
        told.append(asked.ask(mixed[0], results, name=f"m{number}"))
    return told, {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("sealed", [False, True])
def test_two_worlds_with_the_same_bits_look_the_same(tmp_path: Path, sealed: bool) -> None:
    told, files = world(tmp_path / "0", 0, sealed=sealed)
    assert [each.yes for each in told] == [False, True, False, False, True, False]
    assert set(files) == {"gate.jsonl", "gate.cases"}
    assert b"case-" not in files["gate.jsonl"]
    shown = [repr(each).replace(str(tmp_path / "0"), "") for each in told]
    for seed in (1, 2, 3):
        others, same = world(tmp_path / str(seed), seed, sealed=sealed)
        assert [repr(each).replace(str(tmp_path / str(seed)), "") for each in others] == shown
        assert same == files
