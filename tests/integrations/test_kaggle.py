"""Solutions of Kaggle competitions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.workbench import Workbench
from tests.integrations.test_sourcing import EXPORTS
from tests.service.helpers import small_spec

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.kaggle import rows
from easeml_meter.integrations.sourcing import WantedColumns, rows_from
from easeml_meter.meter import Meter

WANTED = WantedColumns("author", "id", usage="Private")
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


def test_other_targets_are_no_inputs_and_ids_stay_as_written(tmp_path: Path) -> None:
    """Whoever got the inputs of the test set was told its other targets."""
    content = "id,toxic,insult,weight,Usage\n007,1,0,2,Private\n08,0,1,1,Private\n"
    (tmp_path / "s.csv").write_text(content)
    wanted = WantedColumns("toxic", "id", usage="Private")
    assert rows(tmp_path / "s.csv", wanted)[0].to_pylist() == [
        {"id": "007", "toxic": 1},
        {"id": "08", "toxic": 0},
    ]
    weighed = rows(tmp_path / "s.csv", replace(wanted, columns=["weight"]))[0]
    assert weighed.column_names == ["id", "toxic", "weight"]
    with pytest.raises(InvalidInput, match="no column 'key'"):
        rows(tmp_path / "s.csv", replace(wanted, id_column="key"))


@pytest.mark.parametrize(
    ("head", "cells", "dropped"),
    [
        ("id,kind,insult,Usage", "{at},{name},1,Private", "insult,Usage"),
        ("id,cat,dog,weight,Usage", "{at},{cat},{dog},2,Private", "weight"),
    ],
    ids=["targets", "one-hot"],
)
def test_columns_that_are_no_inputs_may_be_dropped(
    tmp_path: Path, head: str, cells: str, dropped: str
) -> None:
    """A column of the file was refused as "no column"; beside classes, a weight as no label."""
    bench = Workbench(tmp_path)
    lines = [
        cells.format(at=at, name=("cat", "dog")[at % 2], cat=1 - at % 2, dog=at % 2)
        for at in range(bench.init())
    ]
    (tmp_path / "s.csv").write_text("\n".join([head, *lines]))
    solution = ("s.csv", "--from", "kaggle", "--usage", "Private", "--label", "kind", "--id", "id")
    sealed = bench.json("seal", *solution, "--out", "s.sealed", "--drop", dropped)
    assert not {"insult", "Usage", "weight"} & set(json.dumps(sealed).split('"'))
    refused = bench.refused(2, "seal", *solution, "--out", "t.sealed", "--drop", f"{dropped},typo")
    assert "no column 'typo'" in refused
    unnamed = bench.refused(2, "seal", "s.csv", "--from", "kaggle", "--id", "id", "--out", "u")
    assert unnamed.startswith("meter: --label: nothing given")


@pytest.mark.parametrize("head", ["id,kind,site,Usage", "id,cat,dog,site,Usage"])
@pytest.mark.parametrize("inputs", [(), ("--columns", "site")])
def test_clusters_are_a_column_of_the_solution(
    tmp_path: Path, head: str, inputs: tuple[str, ...]
) -> None:
    """It was "no column", and beside a column for each class it was one of these."""
    bench = Workbench(tmp_path)
    count = bench.init(clusters=True, inputs="public")
    lines = [f"{at},cat,0{at},Private" for at in range(count)]
    if "dog" in head:
        lines = [f"{at},1,0,0{at},Private" for at in range(count)]
    (tmp_path / "s.csv").write_text("\n".join([head, *lines]))
    solution = ("s.csv", "--from", "kaggle", "--usage", "Private", "--label", "kind", "--id", "id")
    sealed = ("seal", *solution, "--cluster", "site", *inputs, "--out", "s.sealed")
    assert bench.json(*sealed)["clusters"] == count


def test_one_target_is_no_class_of_its_own(tmp_path: Path) -> None:
    """With a label that was mistyped, all rows of target 1 were of a class "target"."""
    (tmp_path / "s.csv").write_text("id,target\n1,1\n2,0\n")
    with pytest.raises(InvalidInput, match=r"no label 'taget' .did you mean 'target'"):
        rows(tmp_path / "s.csv", WantedColumns("taget", "id"))


@pytest.mark.parametrize("columns", ["probabilities", "classes"])
def test_a_submission_is_read_as_it_is(tmp_path: Path, columns: str) -> None:
    """Sealed from a solution of one column for each class; ids come in any order."""
    authors = ("EAP", "HPL", "MWS")
    spec = small_spec(classes=authors, loss="brier" if columns == "probabilities" else "0-1")
    meter = Meter.create(tmp_path / "meter", spec, name="authors")
    count = meter.plan.labels
    ids = [f"id{at}" for at in range(count)]
    one_hot = [[float(at % 3 == each) for each in range(3)] for at in range(count)]
    table(
        tmp_path / "solution.csv",
        ["id", *authors, "Usage"],
        [[name, *row, "Private"] for name, row in zip(ids, one_hot, strict=True)],
    )
    wanted = WantedColumns("author", "id", usage="Private")
    source, left_out = rows_from("kaggle", tmp_path / "solution.csv", wanted, allow_left_out=False)
    assert left_out == ""
    meter.seal(source, tmp_path / "s.sealed", label="author", id_column="id")
    meter.add_test_set(tmp_path / "s.sealed")
    table(tmp_path / "validation.csv", ["id", "author"], [["v1", "EAP"], ["v2", "MWS"]])
    meter.set_validation(tmp_path / "validation.csv", label="author", id_column="id")
    if columns == "probabilities":
        names = ["id", "MWS", "EAP", "HPL"]
        test = [[name, row[2], row[0], row[1]] for name, row in zip(ids, one_hot, strict=True)]
        visible: list[list[object]] = [["v2", 0.9, 0.1, 0.0], ["v1", 0.2, 0.8, 0.0]]
    else:
        names = ["id", "author"]
        test = [[name, authors[row.index(1)]] for name, row in zip(ids, one_hot, strict=True)]
        visible = [["v2", "MWS"], ["v1", "EAP"]]
    table(tmp_path / "submission.csv", names, test[::-1])
    table(tmp_path / "visible.csv", names, visible)
    files = tmp_path / "submission.csv", tmp_path / "visible.csv"
    assert meter.submit(*files, model="kaggle").band == 1
    short = (tmp_path / "submission.csv").read_text().rpartition("id0")[0]
    (tmp_path / "submission.csv").write_text(short)
    with pytest.raises(InvalidInput):
        meter.submit(*files, model="short")
    assert len(meter.history()[0].signals) == 1


def table(path: Path, names: list[str], rows: list[list[object]]) -> None:
    """Write a CSV file."""
    lines = [",".join(names), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


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
