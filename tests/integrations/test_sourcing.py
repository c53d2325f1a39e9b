"""`meter seal --from`: one row for each example; what is left out must be accepted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.workbench import Workbench

from easeml_meter.errors import InvalidInput
from easeml_meter.integrations.sourcing import (
    Example,
    LeftOut,
    WantedColumns,
    gather,
    only,
    records,
)

EXPORTS = Path(__file__).parents[1] / "data" / "exports"
WANTED = WantedColumns("kind", "id")


def labelled(*answers: Any) -> Any:
    table, left_out = gather([Example({"text": "x"}, answers, 1)], WANTED)
    return table.to_pylist() or left_out


@pytest.mark.parametrize(
    ("answers", "label"),
    [
        (["spam"], "spam"),
        (["ham", "spam", "ham"], "ham"),
        (["ham", LeftOut.SKIPPED], "ham"),
        ([3, 3, 4], 3),
    ],
)
def test_most_annotators_decide(answers: list[Any], label: Any) -> None:
    assert labelled(*answers) == [{"text": "x", "id": 1, "kind": label}]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([], "not labelled"),
        (["ham", "spam"], "annotators disagree"),
        ([LeftOut.SKIPPED, LeftOut.UNLABELLED], "skipped"),
        ([only(["ham", "spam"])], "more than one label"),
        ([only([])], "not labelled"),
        ([LeftOut.REJECTED], "rejected"),
    ],
)
def test_what_is_left_out_is_counted_by_reason(answers: list[Any], reason: str) -> None:
    assert labelled(*answers) == {reason: 1}


def test_an_example_that_stands_there_twice_is_refused() -> None:
    """Sealing refuses ids that repeat; without --id, both rows were sealed."""
    twice = [Example({"text": "x"}, [label], own) for label in ("ham", "spam") for own in (7, 8, 9)]
    with pytest.raises(
        InvalidInput, match=r"given more than once \(own id '7', '8', '9'\): .* --id"
    ):
        gather(twice, WantedColumns("kind"))
    unknown = [Example({"text": "x"}, ["ham"]) for _ in range(2)]
    assert gather(unknown, WantedColumns("kind"))[0].num_rows == 2


@pytest.mark.parametrize("label", [each.value for each in LeftOut])
def test_a_label_that_is_called_like_a_reason_is_a_label(label: str) -> None:
    """Loans are approved or rejected: all of one class were left out."""
    assert labelled(label) == [{"text": "x", "id": 1, "kind": label}]
    assert labelled(label, LeftOut.SKIPPED) == labelled(label)


def test_inputs_are_those_of_all_examples_in_any_order() -> None:
    """Those that the first example lacks were dropped."""
    short, whole = Example({"text": "a"}, ["x"], 1), Example({"text": "b", "lang": "en"}, ["x"], 2)
    rows = [
        {"text": "a", "lang": None, "id": 1, "kind": "x"},
        {"text": "b", "lang": "en", "id": 2, "kind": "x"},
    ]
    assert gather([short, whole], WANTED)[0].to_pylist() == rows
    table = gather([whole, short], WANTED)[0]
    assert table.to_pylist() == rows[::-1]
    assert table.column_names[-1] == "kind"


@pytest.mark.parametrize("first", [0, 1])
def test_ids_of_the_data_and_of_the_tool_are_not_mixed(first: int) -> None:
    """An example without an id in its data got the tool's, which is another example's there."""
    pair = Example({"text": "a", "id": 2}, ["x"], 1), Example({"text": "b"}, ["x"], 2)
    table, _ = gather([pair[first], pair[1 - first]], WANTED)
    assert {row["text"]: row["id"] for row in table.to_pylist()} == {"a": 2, "b": None}


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """Make a desk with more mails than its meter needs, of which one is skipped."""
    bench = Workbench(tmp_path)
    needed = bench.init(classes=("ham", "spam"))
    mails = [
        {"id": at, "text": f"mail {at}", "label": [["ham", "spam"][at % 2]]} for at in range(needed)
    ]
    skipped = {"id": needed, "text": "hard", "label": []}
    lines = [json.dumps(mail) for mail in (*mails, skipped)]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    return bench


SEAL = ("seal", "all.jsonl", "--from", "doccano", "--label", "label", "--id", "id", "--out", "t")


def test_what_is_left_out_must_be_accepted(bench: Workbench) -> None:
    line = bench.refused(2, *SEAL)
    assert "examples; left out: 1 not labelled: " in line
    assert "--allow-left-out to go on" in line
    assert not (bench.folder / "t").exists()
    out = bench.ok(*SEAL, "--allow-left-out")
    assert "left out: 1 not labelled" in out
    assert "sealed " in out
    assert bench.ok("testset", "add", "t").startswith("test set 1 is active")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "no JSON"),
        ('{"a": 1}\n[2]', "no list of examples"),
        ("", "no examples"),
        ('{"id": 1, "text": "x"}', "no label 'label' (there are 'id', 'text')"),
        ('{"id": 1, "label": [[0, 3, "X"]]}', "spans"),
        ("\xff", "no JSON"),
        ('{"id": 1, "label": {"a": 1}}', "no export of doccano that can be read"),
        ('{"id": 1, "label": []}', "no example has a label (not labelled)"),
    ],
)
def test_bad_files_are_one_line_and_nothing_is_written(
    bench: Workbench, content: str, said: str
) -> None:
    (bench.folder / "all.jsonl").write_bytes(content.encode("latin-1"))
    line = bench.refused(2, *SEAL)
    assert said in line
    assert "all.jsonl" in line
    assert not (bench.folder / "t").exists()


def test_options_of_exports_need_an_export(bench: Workbench) -> None:
    plain = [each for each in SEAL if each not in ("--from", "doccano")]
    assert "only together with --from" in bench.refused(2, *plain, "--allow-left-out")
    assert "did you mean 'doccano'" in bench.refused(
        2, *["docano" if each == "doccano" else each for each in SEAL]
    )


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        records(tmp_path / "nowhere.json")
