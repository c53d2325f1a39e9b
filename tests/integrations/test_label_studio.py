"""The exports of Label Studio 1.23.2, as tests/tools/label_studio.py recorded them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integrations.test_sourcing import EXPORTS

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.label_studio import rows
from easeml_meter.integrations.sourcing import WantedColumns, rows_from

JSON, MIN = EXPORTS / "label-studio.json", EXPORTS / "label-studio-min.json"
CSV = EXPORTS / "label-studio.csv"
WANTED = WantedColumns("kind", "mail_id")
INPUTS = replace(WANTED, columns=["text"])


def test_a_task_is_one_row_of_its_data_and_the_label_of_most() -> None:
    table, left_out = rows(JSON, WANTED)
    assert table.to_pylist() == [
        {"mail_id": name, "text": f"text of {name}", "kind": kind}
        for name, kind in (("m1", "spam"), ("m3", "ham"), ("m6", "ham"), ("m7", "spam"))
    ]
    assert left_out == {"annotators disagree": 1, "skipped": 1, "not labelled": 2}


@pytest.mark.parametrize("path", [MIN, CSV], ids=["json-min", "csv"])
def test_rows_of_annotations_are_joined_by_task(path: Path) -> None:
    """The same task was two examples with contradicting labels; annotators were inputs."""
    table, left_out = rows(path, INPUTS)
    assert table.to_pylist() == [
        {"mail_id": name, "text": f"text of {name}", "kind": kind}
        for name, kind in (("m1", "spam"), ("m6", "ham"), ("m7", "spam"))
    ]
    assert (
        left_out.pop("annotators disagree") == 2
    )  # one of them by ground truth, which is not there
    assert left_out.pop("not labelled") == 2
    with pytest.raises(InvalidInput, match="skipped tasks, which only an export as JSON has"):
        rows_from("label-studio", path, INPUTS, allow_left_out=False)


@pytest.mark.parametrize("path", [MIN, CSV], ids=["json-min", "csv"])
def test_inputs_are_named_where_the_export_does_not_tell_them(path: Path) -> None:
    with pytest.raises(InvalidInput, match="name the inputs with --columns"):
        rows(path, WANTED)


def test_ratings_and_numbers_are_labels_and_several_choices_are_not() -> None:
    assert rows(JSON, replace(WANTED, label="stars"))[0]["stars"].to_pylist() == [3]
    assert rows(JSON, replace(WANTED, label="amount"))[0]["amount"].to_pylist() == [7]
    assert rows(MIN, replace(INPUTS, label="stars"))[0]["stars"].to_pylist() == [3]
    assert rows(CSV, replace(INPUTS, label="stars"))[0]["stars"].to_pylist() == [3]
    for path, wanted in ((JSON, WANTED), (MIN, INPUTS), (CSV, INPUTS)):
        table, left_out = rows(path, replace(wanted, label="topics"))
        assert table["topics"].to_pylist() == ["money", "health"]
        assert left_out["more than one label"] == 1


def test_spans_are_refused(tmp_path: Path) -> None:
    said = {"from_name": "kind", "type": "labels", "value": {"labels": ["X"], "start": 0, "end": 1}}
    task = {"id": 1, "data": {"text": "x"}, "annotations": [{"result": [said]}]}
    (tmp_path / "x.json").write_text(json.dumps([task]))
    with pytest.raises(InvalidInput, match="'kind' is a control of labels"):
        rows(tmp_path / "x.json", WANTED)


def test_a_choice_for_a_region_is_no_label_of_the_task(tmp_path: Path) -> None:
    """With one region in a task, its choice was sealed as the label of the whole task."""
    place = {"start": 0, "end": 1, "text": "x"}
    region = {"id": "r", "from_name": "what", "type": "labels", "value": place | {"labels": ["X"]}}
    said = {"id": "r", "from_name": "kind", "type": "choices", "value": place | {"choices": ["a"]}}
    task = {"id": 1, "data": {"text": "x"}, "annotations": [{"result": [region, said]}]}
    (tmp_path / "x.json").write_text(json.dumps([task]))
    with pytest.raises(InvalidInput, match="'kind' is a control of regions, controls that say one"):
        rows(tmp_path / "x.json", WANTED)


@pytest.mark.parametrize("path", [JSON, MIN, CSV], ids=["json", "json-min", "csv"])
def test_a_control_that_is_not_there_is_refused(path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no label 'knd' .did you mean 'kind'"):
        rows(path, replace(INPUTS, label="knd"))


def test_labels_and_ids_of_csv_are_what_is_written(tmp_path: Path) -> None:
    """007 and 7 were one class, and NA was no label."""
    lines = ["annotation_id,id,mail_id,text,kind"]
    kinds = ["007", "7", "1.0", "true", "NA", '"a, ""b"""']
    lines += [f"{at},{at},0{at},x,{kind}" for at, kind in enumerate(kinds)]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    table, _ = rows(tmp_path / "x.csv", INPUTS)
    assert table["kind"].to_pylist() == [*kinds[:-1], 'a, "b"']
    assert table["mail_id"].to_pylist() == [f"0{at}" for at in range(len(kinds))]


@pytest.mark.parametrize("path", [MIN, CSV], ids=["json-min", "csv"])
def test_clusters_need_not_be_inputs(path: Path) -> None:
    """A column that --cluster named was left out, and then missing."""
    wanted = replace(INPUTS, columns=["text"], id_column=None, others=["annotator"])
    assert {"annotator", "text"} <= set(rows(path, wanted)[0].column_names)
