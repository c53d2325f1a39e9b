"""Plain files of scores."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integrations.artefacts import scored

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.scores import read


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "score,id,more\n1,007,x\n0.5,8,y\n"),
        ("a.jsonl", '{"id": "007", "score": 1}\n{"id": "8", "score": 0.5}\n'),
    ],
)
def test_ids_and_scores_in_any_format_of_a_table(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    found = read(tmp_path / name, scored())
    assert found.ids == ("007", "8")
    assert found.values == (1.0, 0.5)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("id,points\n1,1\n", "score"),
        ("score\n1\n", "id"),
        ("id,score\n1,x\n", "row 1: 'x' given, a finite number needed"),
        ("id,score\n1,\n", "row 1"),
        ("id,score\n1,1\n1,0\n", "more than once: '1'"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(InvalidInput, match=said):
        read(tmp_path / "a.csv", scored())
