"""Result files of every form."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from easeml_meter.client.results import Form, read_results
from easeml_meter.errors import InvalidInput

ROWS = [{"id": "a", "score": 1}, {"id": "b", "score": 0}, {"id": "10", "score": 1}]
CASES = {"a": 1, "b": 0, "10": 1}
INSPECT = [
    {"id": row["id"], "scores": {"match": {"value": "C" if row["score"] else "I"}}} for row in ROWS
]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps(ROWS)),
        ("a.json", "\ufeff" + json.dumps(CASES)),
        ("a.json", json.dumps({"results": {"version": 3, "results": ROWS}})),
        ("a.json", json.dumps({"eval": {"model": "m"}, "samples": INSPECT})),
        ("a.json", json.dumps([{**row, "id": row["score"], "testIdx": row["id"]} for row in ROWS])),
        ("a.jsonl", "\n".join(map(json.dumps, ROWS)) + "\n\n"),
        ("a.txt", "\n".join(map(json.dumps, ROWS))),
        ("a.json", json.dumps([{"case": row["id"], "passed": bool(row["score"])} for row in ROWS])),
        ("a.csv", "id,score\na,1\nb,0\n10,1\n"),
        ("a.csv", "\ufeffscore;ID;note\n1;a;x,y\n0;b;\n1;10;\n"),
        ("a.csv", 'id\tcorrect\na\tTrue\n"b"\tFalse\n10\tpass\n'),
        ("a.tsv", "doc_id\tacc\na\t1.0\nb\t0.0\n10\t1\n"),
    ],
)
def test_every_form(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert read_results(tmp_path / name, Form(), "old").cases == CASES


def test_parquet_series_and_numpy(tmp_path: Path) -> None:
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "a.parquet")
    assert read_results(tmp_path / "a.parquet", Form(), "old").cases == CASES
    assert read_results(pd.Series(CASES), Form(), "old").cases == CASES
    assert read_results(np.array([True, False]), Form(), "old").cases == {"1": 1, "2": 0}


def test_columns_are_named_or_found(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("key,f1,user\na,0.25,u\nb,1,u\n")
    form = Form(id="key", score="f1", cluster="user", scores=True)
    found = read_results(tmp_path / "a.csv", form, "old")
    assert (found.cases, found.clusters) == ({"a": 0.25, "b": 1.0}, {"a": "u", "b": "u"})
    with pytest.raises(InvalidInput, match="no column id: --id COLUMN, one of key, f1, user"):
        read_results(tmp_path / "a.csv", Form(), "old")
    with pytest.raises(InvalidInput, match="cluster"):
        read_results({"a": 1}, form, "old")


@pytest.mark.parametrize("case", [1.0, 1.5, ("a", 1), True])
def test_ids_of_a_mapping_are_texts_or_whole_numbers(case: object) -> None:
    assert read_results({1: 1, "b": 0}, Form(), "old").cases == {"1": 1, "b": 0}
    with pytest.raises(InvalidInput, match="texts or whole numbers"):
        read_results({case: 1, "b": 0}, Form(), "old")


HIDDEN = "hidden-case"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", json.dumps([{"id": HIDDEN, "score": "maybe"}, *ROWS]), "1 of 4 values"),
        ("a.json", json.dumps([{"id": HIDDEN, "score": 0.5}, *ROWS]), "--scores"),
        ("a.json", json.dumps([{"id": HIDDEN, "score": 1}] * 2), "1 ids stand there twice"),
        ("a.json", json.dumps([{"id": None, "score": 1}, *ROWS]), "1 rows have no id"),
        ("a.json", json.dumps([{"id": 1.5, "score": 1}]), "texts or whole numbers"),
        ("a.json", json.dumps([*ROWS, HIDDEN]), "each case has to be an object"),
        ("a.json", json.dumps([*ROWS, None, *ROWS]), "each case has to be an object"),
        ("a.json", json.dumps([{"id": HIDDEN, "scores": {"a": 1, "b": 0}}]), "1 of 1 values"),
        ("a.json", json.dumps([{"id": HIDDEN, "score": [1]}]), "1 of 1 values"),
        ("a.json", "[]", "a list of cases"),
        ("a.json", HIDDEN, "this is no JSON"),
        ("a.json", "[" * 100_000, "this is no JSON"),
        ("a.csv", f"id,score\n{HIDDEN},1,1\n", "row 2: 3 fields, 2 in the first row"),
        ("a.csv", f'id,score\n"{HIDDEN}" x,1\n', "this is no JSON"),
        ("a.csv", "id,score\n", "no case is in it"),
        ("a.csv", "", "no column id"),
        ("a.parquet", HIDDEN, "this is no JSON"),
    ],
)
def test_what_is_wrong_is_said_with_counts_alone(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=said) as error:
        read_results(tmp_path / name, Form(), "new")
    assert str(error.value).startswith("new results: ")
    assert HIDDEN not in str(error.value)


@pytest.mark.parametrize("value", ["nan", "inf", "1e400", "x", None, "", 11, -0.1, [1]])
def test_scores_are_numbers_in_their_range(value: object) -> None:
    form = Form(scores=True, range=(Fraction(0), Fraction(10)))
    with pytest.raises(InvalidInput, match=r"1 of 1 values are no number|1 scores are not within"):
        read_results({"a": value}, form, "new")


def test_the_report_of_a_test_run(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "import pytest\n"
        "@pytest.mark.parametrize('n', [1, 2, 3])\n"
        "def test_n(n): assert n != 2\n"
        "def test_skips(): pytest.skip()\n"
    )
    report = tmp_path / "run.xml"
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "test_a.py")
    subprocess.run([sys.executable, *command], cwd=tmp_path, check=False, capture_output=True)
    cases = {f"test_a::test_n[{n}]": int(n != 2) for n in (1, 2, 3)} | {"test_a::test_skips": 0}
    assert read_results(report, Form(), "new").cases == cases


def test_the_only_column_that_is_called_so_is_found(tmp_path: Path) -> None:
    rows = [{"question_id": n, "judge_score": 7, "note": ""} for n in range(3)]
    (tmp_path / "a.json").write_text(json.dumps({"results": rows}))
    form = Form(scores=True, range=(Fraction(0), Fraction(10)))
    found = read_results(tmp_path / "a.json", form, "old")
    assert (found.form.id, found.form.score) == ("question_id", "judge_score")
    (tmp_path / "a.json").write_text(json.dumps([{**row, "user_id": 1} for row in rows]))
    with pytest.raises(InvalidInput, match="no column id"):
        read_results(tmp_path / "a.json", form, "old")


def test_a_report_that_grows_without_end_is_refused(tmp_path: Path) -> None:
    grows = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    document = f'<!DOCTYPE t [<!ENTITY e0 "{"x" * 1000}">{grows}]><testcase name="&e11;"/>'
    (tmp_path / "a.xml").write_text(document)
    with pytest.raises(InvalidInput, match="this is no JSON"):
        read_results(tmp_path / "a.xml", Form(), "new")
