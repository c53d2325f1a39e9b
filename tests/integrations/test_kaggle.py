"""Solutions of Kaggle competitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.integrations.test_sourcing import EXPORTS

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.kaggle import rows
from easeml_meter.integrations.sourcing import Wanted

WANTED = Wanted("author", "id", usage="Private")
SOLUTION = EXPORTS / "kaggle-solution.csv"


def test_rows_of_one_usage_without_that_column() -> None:
    table, left_out = rows(SOLUTION, WANTED)
    assert table.to_pylist() == [
        {"id": "id26305", "author": "EAP"},
        {"id": "id11008", "author": "EAP"},
        {"id": "id27763", "author": "MWS"},
    ]
    assert left_out == {}


def test_one_column_for_each_class_is_one_label() -> None:
    table, left_out = rows(EXPORTS / "kaggle-one-hot.csv", WANTED)
    assert table.to_pylist() == [
        {"id": "id26305", "author": "EAP"},
        {"id": "id11008", "author": "MWS"},
    ]
    assert left_out == {"not labelled": 1, "more than one label": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"usage": None}, r"rows of several uses \(Private 3, Public 2\): choose --usage"),
        ({"usage": "private"}, "choose --usage"),
        ({"id_column": None}, "--id NAME"),
        ({"label": "auther"}, "no label 'auther' .did you mean 'author'"),
    ],
)
def test_what_is_unclear_is_refused(change: dict[str, str | None], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        rows(SOLUTION, replace(WANTED, **change))  # type: ignore[arg-type]


def test_a_file_without_usages_has_none_to_choose(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,author\n1,EAP\n")
    with pytest.raises(InvalidInput, match="no column 'Usage'"):
        rows(tmp_path / "s.csv", WANTED)
    assert rows(tmp_path / "s.csv", replace(WANTED, usage=None))[0].num_rows == 1
