"""What an answer shows: nothing but the bit depends on hidden rows."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.client.loops import pair

from easeml_meter.client.answers import Answer
from easeml_meter.client.gate import Gate


def world(folder: Path, seed: int, **settings: Any) -> tuple[list[Answer], dict[str, bytes]]:
    """Run a loop whose bits are fixed, and whose rows are not."""
    folder.mkdir()
    draw = random.Random(seed)  # noqa: S311
    asked = Gate(folder / "gate.jsonl", **settings)
    told = []
    for number, bit in enumerate((0, 1, 0, 0, 1, 0)):
        losses = draw.randrange(5)
        wins = draw.randrange(60, 90) if bit else draw.randrange(losses + 3)
        old, new = pair(200, wins, losses)
        mixed = [dict(draw.sample(list(each.items()), len(each))) for each in (old, new)]
        results: Any = mixed[1]
        if "missing" in settings and not bit:
            results = dict(draw.sample(list(results.items()), 200 - draw.randrange(9)))
        if "sealed" in settings and not bit and seed:
            broken = [{**results, "case-0": "?"}, {}, {"x": 1}, dict(list(results.items())[:9])]
            results = draw.choice([*broken, folder / "absent.json"])
        told.append(asked.ask(mixed[0], results, name=f"m{number}"))
    return told, {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sealed": True},
        {"missing": "wrong"},
        {"better_by": "1%", "looks": 9},
        {"scores": True},
        {"scores": True, "missing": "wrong"},
    ],
    ids=str,
)
def test_two_worlds_with_the_same_bits_look_the_same(tmp_path: Path, settings: Any) -> None:
    told, files = world(tmp_path / "0", 0, **settings)
    assert [each.yes for each in told] == [False, True, False, False, True, False]
    assert set(files) == {"gate.jsonl", "gate.cases"}
    assert b"case-" not in files["gate.jsonl"]
    shown = [repr(each).replace(str(tmp_path / "0"), "") for each in told]
    for seed in (1, 2, 3):
        others, same = world(tmp_path / str(seed), seed, **settings)
        assert [repr(each).replace(str(tmp_path / str(seed)), "") for each in others] == shown
        assert same == files
