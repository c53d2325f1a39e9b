"""Result files: one row for each case (or each run of a case), with an id and a score.

JSON, JSON Lines, CSV and JUnit need the standard library alone; Parquet is read where pyarrow is
there, and logs of harnesses by their integrations, which are imported when such a log comes.
Messages have counts and names of columns, never a case: what is wrong with the results of hidden
cases must not tell which these are. Nothing is chosen by what the values are.
"""

from __future__ import annotations

import csv
import gc
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

from easeml_meter.errors import InvalidInput, invalid

# promptfoo makes a new "id" in every run; "testIdx" stays.
IDS = ("testidx", "id", "case", "case_id", "sample_id", "example_id", "doc_id", "task_id")
SCORES = ("score", "correct", "passed", "pass", "success", "resolved", "reward", "acc", "value")
_YES, _NO = "1 1.0 true pass passed correct yes c", "0 0.0 false fail failed incorrect no i error"
_RIGHT: dict[Any, int] = (
    {0: 0, 1: 1} | dict.fromkeys(_YES.split(), 1) | dict.fromkeys(_NO.split(), 0)
)
_NOT_PASSED = ("failure", "error", "skipped")
_INSPECT, _LM_EVAL = {"status", "eval", "plan"}, {"doc_id", "filter", "metrics"}
_LISTS = ("results", "cases", "samples", "rows", "data", "examples")
_UNIT = (Fraction(0), Fraction(1))
Source = str | Path | Mapping[Any, Any] | Iterable[Any]


@dataclass(frozen=True)
class Form:
    """How results are read; a ledger fixes it by its first use.

    Attributes:
        id: The column of ids, or None: one of the usual names. The same holds for `score`.
        cluster: The column that says which cases belong together.
        reader: The integration that reads the files; None: they are plain, or known by their form.
        scores: Whether cases have scores; else they are right or wrong.
        vote: Whether the majority of the runs of a case counts.
        lower: Whether less is better.
        range: The worst and the best score that is possible.
    """

    id: str | None = None
    score: str | None = None
    cluster: str | None = None
    reader: str | None = None
    scores: bool = False
    vote: bool = False
    lower: bool = False
    range: tuple[Fraction, Fraction] = _UNIT

    def __post_init__(self) -> None:
        if self.cluster is not None and not self.scores:
            raise invalid("cluster", self.cluster, "only with --scores")
        if self.vote and self.scores:
            raise invalid("vote", True, "one of --vote and --scores")
        if not self.range[0] < self.range[1] or (
            self.range[1] - self.range[0] != 1 and not self.scores
        ):
            raise invalid("range", ",".join(map(str, self.range)), "LOW,HIGH with --scores: 0,10")

    @property
    def worst(self) -> float:
        """What a case that is missing counts as, where it may be."""
        return float(self.range[self.lower]) if self.scores else int(self.lower)


@dataclass(slots=True)
class Results:
    """What one system did: for each case 0 or 1, a score, or the scores of its runs."""

    cases: dict[str, Any]
    clusters: dict[str, str]
    form: Form
    """How they were read, with the columns that were found."""
    wrong: bool = False
    """Whether a sealed gate answers "discard" whatever they are."""


def read_results(source: Source, form: Form, which: str) -> Results:
    """Read the results of the old or the new system.

    Raises:
        InvalidInput: there are none, or not all of them can be read.
    """
    cycles = gc.isenabled()
    gc.disable()  # a million rows take half the time
    try:
        found, columns = _columns(source, form)
        results = _results(columns, found)
    except OSError as error:
        raise InvalidInput(f"{which} results: {str(source)[:200]}: {error.strerror}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{which} results: {error}") from None
    except Exception:  # whatever a file makes a reader do, a sealed gate has to charge it
        needed = "JSON, JSON Lines, CSV, Parquet or JUnit, in UTF-8"
        raise InvalidInput(f"{which} results: this is no {needed}") from None
    finally:
        if cycles:
            gc.enable()
    if form.cluster is not None and not results.clusters:
        raise invalid("cluster", form.cluster, "rows with columns, not a mapping or a list")
    return results


Row = tuple[Any, Any, Any]
"""Id, value and cluster."""
Columns = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]
"""Ids, values and clusters of many rows; without clusters the last are empty."""
_AT_ONCE = 10_000


def _results(columns: Iterable[Columns], form: Form) -> Results:
    parts = list(columns)
    ids, written, groups = ([each for part in parts for each in part[at]] for at in range(3))
    if set(map(type, ids)) != {str}:
        ids = list(map(_id, ids))
    if not ids:
        raise InvalidInput("no case is in it")
    if "" in ids:
        raise InvalidInput(f"{ids.count(''):,} rows have no {form.id}")
    values: list[Any] = _numbers(written) if form.scores else _rights(written)
    if None in values:
        needed = "neither right nor wrong: --scores takes numbers, --range 0,10 those up to 10"
        needed = "no number" if form.scores else needed
        raise InvalidInput(f"{values.count(None):,} of {len(ids):,} values are {needed}")
    low, high = map(float, form.range)
    outside = sum(not low <= value <= high for value in values) if form.scores else 0
    if outside:
        least_and_most = f"within {low:g},{high:g}: --range says the least and the most, as 0,10"
        raise InvalidInput(f"{outside:,} scores are not {least_and_most}")
    cases = dict(zip(ids, values, strict=True))
    if len(cases) < len(ids):
        cases = _runs(ids, values, form)
    return Results(cases, dict(zip(ids, groups, strict=True)) if groups else {}, form)


def _id(value: Any) -> str:
    if type(value) not in (str, int, type(None)):
        raise InvalidInput("ids have to be texts or whole numbers")
    return "" if value is None else str(value)


def _runs(ids: Iterable[str], values: Iterable[Any], form: Form) -> dict[str, Any]:
    """Put the runs of each case together: their vote, or all of them."""
    found: dict[str, list[Any]] = {}
    for case, value in zip(ids, values, strict=True):
        found.setdefault(case, []).append(value)
    runs = Counter(map(len, found.values()))
    if not (form.scores or form.vote):
        raise InvalidInput(
            f"{len(found) - runs[1]:,} ids stand there twice: one row for each case, or --vote or "
            "--scores where cases were run several times"
        )
    if len(runs) > 1:
        raise InvalidInput("all cases need the same number of runs")
    if form.vote and min(runs) % 2 == 0:
        raise InvalidInput("a vote needs an odd number of runs of each case")
    if form.vote:
        return {case: int(2 * sum(each) > len(each)) for case, each in found.items()}
    return {case: tuple(each) for case, each in found.items()}


def _rights(values: list[Any]) -> list[int | None]:
    try:
        known = {value: _right(value) for value in set(values)}
    except TypeError:  # a list, say
        return [_right(value) for value in values]
    return list(map(known.get, values))


def _right(value: Any) -> int | None:
    if isinstance(value, str):
        value = value.strip().lower()
    return _RIGHT.get(value) if isinstance(value, Hashable) else None


def _numbers(values: list[Any]) -> list[float | None]:
    with suppress(TypeError, ValueError, OverflowError):
        return list(map(float, values))
    return list(map(_number, values))


def _number(value: Any) -> float | None:
    with suppress(TypeError, ValueError, OverflowError):
        return float(value)
    return None


# --- rows of a file -------------------------------------------------------------------------------


def _columns(source: Source, form: Form) -> tuple[Form, Iterable[Columns]]:
    if isinstance(source, str):
        source = Path(source)
    if isinstance(source, Path):
        ending = source.suffix.lower()
        if form.reader is not None or ending == ".eval":
            return _log(source, form.reader or "inspect", form)
        if ending in (".csv", ".tsv"):
            return _separated(source, form)
        if ending == ".xml":
            return form, _turned(_junit(source))
        if ending == ".parquet":
            return _picked(_parquet(source), form)
        # Runs that are voted, and clusters, stand in rows alone.
        rows = _document(source, logs=not (form.vote or form.cluster))
        return _log(source, rows, form) if isinstance(rows, str) else _picked(rows, form)
    items = getattr(source, "items", None)  # of a dict, or of a Series with its index
    pairs = items() if items is not None else enumerate(source, 1)
    return form, _turned((_plain(case), _plain(value)) for case, value in pairs)


def _plain(value: Any) -> Any:
    """Return a number of another library as one of Python's own."""
    return value.item() if hasattr(value, "item") else value


def _turned(rows: Iterable[Sequence[Any]]) -> Iterator[Columns]:
    """Turn rows to columns."""
    while part := list(islice(rows := iter(rows), _AT_ONCE)):
        ids, values, *_ = zip(*part, strict=True)
        yield ids, values, ()


def _picked(rows: Iterator[Any], form: Form) -> tuple[Form, Iterator[Columns]]:
    """Find the columns by the first row, and pick them from all."""
    first = next(rows, None)
    rows = chain([first], rows)
    if isinstance(first, tuple):  # an id and its value, of a mapping
        return form, _turned((case, _scalar(value)) for case, value in rows)
    if type(first) is not dict:
        raise InvalidInput("a list of cases is needed, each with an id and a score")
    found = _found(list(first), form)

    def picked() -> Iterator[Columns]:
        while part := list(islice(rows, _AT_ONCE)):
            if set(map(type, part)) != {dict}:
                raise InvalidInput("each case has to be an object with an id and a score")
            values = [row.get(found.score) for row in part]
            if dict in map(type, values):
                values = list(map(_scalar, values))
            groups = [str(row.get(found.cluster)) for row in part] if found.cluster else ()
            yield [row.get(found.id) for row in part], values, groups

    return found, picked()


def _scalar(value: Any) -> Any:
    """Return the one score of a log that has them by scorer, as Inspect's."""
    while isinstance(value, Mapping) and ("value" in value or len(value) == 1):
        value = value["value"] if "value" in value else next(iter(value.values()))
    return value


def _found(names: list[Any], form: Form) -> Form:
    """Find the columns that were not named, by their usual names."""
    known = {str(name).strip().lower(): name for name in reversed(names)}

    def find(what: str, wanted: str | None, usual: Iterable[str]) -> Any:
        found = next((known[each] for each in usual if each in known), None)
        if found is None:  # question_id, judge_score: if only one is called so
            alike = [name for each, name in known.items() if each.endswith(f"_{what}")]
            found = alike[0] if len(alike) == 1 else None
        found = found if wanted is None else wanted
        if found not in names:
            there = ", ".join(str(name)[:40] for name in names[:8])
            raise InvalidInput(f"no column {wanted or what}: --{what} COLUMN, one of {there}")
        return found

    key = find("id", form.id, IDS)
    score = find("score", form.score, (*SCORES, "exact_match", "scores"))
    if form.cluster is not None:
        find("cluster", form.cluster, ())
    return replace(form, id=key, score=score)


def _separated(path: Path, form: Form) -> tuple[Form, Iterator[Columns]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = file.readline()
    separator = max(",;\t", key=header.count)
    names = next(csv.reader([header], delimiter=separator), [])
    found = _found(names, form)
    wanted = [names.index(str(found.id)), names.index(str(found.score))]
    wanted.append(names.index(found.cluster) if found.cluster else -1)

    def picked() -> Iterator[Columns]:
        begin = 2
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            next(reader)
            while part := list(islice(reader, _AT_ONCE)):
                if set(map(len, part)) != {len(names)}:
                    for number, row in enumerate(part, begin):
                        if len(row) not in (0, len(names)):
                            there = f"{len(row)} fields, {len(names)} in the first row"
                            raise InvalidInput(f"row {number}: {there}")
                begin += len(part)
                full = zip(*filter(None, part), strict=True)
                turned = list(full) or [()] * len(names)
                ids, values, groups = (turned[at] if at >= 0 else () for at in wanted)
                yield ids, values, groups

    return found, picked()


def _log(path: Path, tool: str, form: Form) -> tuple[Form, Iterator[Columns]]:
    """Read the log of a harness by its integration, which may need more than this module."""
    source, found = import_module("easeml_meter.integrations.cases").cases(path, tool, form)
    return found, _turned(source)


def _junit(path: Path) -> Iterator[Row]:
    """Read the report of a test run: a case passed if nothing says that it did not."""
    from xml.etree import ElementTree as ET

    for case in ET.parse(path).iter("testcase"):  # noqa: S314 (expat 2.4.1 bounds entities)
        name = "::".join(filter(None, map(case.get, ("classname", "name"))))
        yield name, int(all(case.find(each) is None for each in _NOT_PASSED)), None


def _document(path: Path, *, logs: bool) -> Iterator[Any] | str:
    """Read JSON (a list, a mapping of ids, an object with a list of cases), or JSON Lines.

    Of a log that has more than rows, return the name of the integration that reads it.
    """
    text = path.read_text("utf-8-sig")
    try:
        data = json.loads(text)
    except ValueError:
        rows = _json_lines(text)
        first = next(rows, None)
        if logs and isinstance(first, dict) and first.keys() >= _LM_EVAL:
            return "lm-eval"
        return rows if first is None else chain([first], rows)
    if logs and isinstance(data, dict) and data.keys() >= _INSPECT:
        return "inspect"
    if isinstance(data, Mapping) and "\n" not in text.strip() and path.suffix == ".jsonl":
        return iter([data])
    for _ in range(2):  # promptfoo has results in its results
        name = next((each for each in _LISTS if isinstance(data, Mapping) and each in data), None)
        data = data[name] if name and isinstance(data[name], list | dict) else data
    return iter(data.items() if isinstance(data, Mapping) else data)


def _json_lines(text: str) -> Iterator[Any]:
    """Read thousands of lines at once, which takes half the time."""
    lines = [line for line in text.split("\n") if line.strip()]
    for begin in range(0, len(lines), 5_000):
        yield from json.loads(f"[{','.join(lines[begin : begin + 5_000])}]")


def _parquet(path: Path) -> Iterator[Any]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise InvalidInput("Parquet needs pyarrow: write CSV or JSON") from None
    for batch in pq.ParquetFile(path).iter_batches():
        yield from batch.to_pylist()
