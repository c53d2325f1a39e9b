"""`meter validation`: sets given and replaced; bad ones are refused for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.workbench import (
    VALIDATION,
    Workbench,
    ready,
    rows,
    text,
)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,x,y\n0,1,2\n", "no column 'label'"),
        ("id,x,y,label\n", "no rows"),
        ("id,x,y,label\n0,1,2,bird\n", "row 1"),
        ("id,x,y,label\n0,1,2,cat\n1,1,2,\n", "row 2"),
        ("", "bad.csv"),
        ('id,x,y,label\n0,1,2,"cat\n', "bad.csv"),
    ],
)
def test_validation_sets(desk: Workbench, content: str, words: str) -> None:
    name = text(content)(desk)
    assert words in desk.refused(2, "validation", "replace", name)
    assert desk.left() == 3


def test_a_first_validation_set_without_the_label_column(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    desk.init()
    name = text("id,x\n0,1\n")(desk)
    given = ["validation", "set", name, "--label", "label"]
    assert "no column 'label' (there are 'id', 'x')" in desk.refused(2, *given)


def test_predictions_are_joined_by_the_ids_of_a_validation_set(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    labels = ready(desk)
    desk.ok("validation", "replace", "validation-1000.csv", "--id", "id")
    files = desk.predictions(labels, VALIDATION, name="m")
    lines = (desk.folder / files[3]).read_text().splitlines(keepends=True)
    (desk.folder / files[3]).write_text("".join([lines[0], *reversed(lines[1:])]))
    assert desk.json("submit", *files)["band"] == 1
    (desk.folder / files[3]).write_text("".join(lines[:-2]))
    assert "ids of the validation set without a row" in desk.refused(2, "submit", *files)
    assert desk.json("submit", *files, "--missing", "wrong")["step"] == 2
    assert "no column 'key'" in desk.refused(2, "submit", *files, "--id", "key")


def test_json_says_which_set_is_in_use(desk: Workbench) -> None:
    name = desk.write("fresh", rows(VALIDATION, seed=5))
    shown = desk.json("validation", "replace", name)
    assert shown == {"validation_set": 2, "rows": len(VALIDATION)}
