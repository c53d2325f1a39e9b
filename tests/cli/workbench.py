"""A folder with a meter in it, and the command line as people use it there."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.service.helpers import small_spec

from easeml_meter.cli import main
from easeml_meter.spec import MeterSpec

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Shown:
    """All that a command showed."""

    code: int
    out: str
    err: str


@dataclass
class Workbench:
    """Run commands in `folder`; the meter lives in `folder/meter`."""

    folder: Path
    kind: str = "csv"
    """Ending of the files that are written."""

    def run(self, *arguments: object) -> Shown:
        out, err = io.StringIO(), io.StringIO()
        code: object = None
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                main([str(argument) for argument in arguments])
            except SystemExit as stopped:
                code = stopped.code
        assert isinstance(code, int)
        return Shown(code, out.getvalue(), err.getvalue())

    def ok(self, *arguments: object) -> str:
        """Run a command that must work; give what it prints."""
        shown = self.run(*arguments, "-C", "meter")
        assert (shown.code, shown.err) == (0, ""), arguments
        return shown.out

    def json(self, *arguments: object) -> Any:
        return json.loads(self.ok(*arguments, "--json"))

    def refused(self, code: int, *arguments: object) -> str:
        """Run a command that must be refused: in one line, at no cost, with nothing changed."""
        before = self.snapshot()
        shown = self.run(*arguments, "-C", "meter")
        assert shown.code == code, shown
        assert shown.out == ""
        assert shown.err.startswith("meter: ")
        assert shown.err.count("\n") == 1
        assert len(shown.err) < 500
        assert self.snapshot() == before
        return shown.err

    def snapshot(self) -> dict[str, Any]:
        """Give every file of the meter, and the rows of its database."""
        meter = self.folder / "meter"
        found: dict[str, Any] = {
            str(path.relative_to(meter)): path.read_bytes()
            for path in meter.rglob("*")
            if path.is_file() and not path.name.startswith("meter.db")
        }
        books = meter / ".meter" / "meter.db"
        if books.is_file():
            with contextlib.closing(sqlite3.connect(books)) as database:
                found["books"] = list(database.iterdump())
        return found

    def init(self, **options: Any) -> int:
        """Make a meter from a meter.toml; give the labels it needs."""
        spec = animal_spec(**options)
        spec.write(self.folder / "spec.toml")
        labels = self.json("init", "--spec", "spec.toml", "--name", "small")["labels"]
        assert isinstance(labels, int)
        return labels

    def write(self, name: str, columns: Columns) -> str:
        """Write a table; give its file name."""
        path = self.folder / f"{name}.{self.kind}"
        write_table(path, columns)
        return path.name

    def deliver(self, labels: Sequence[Any], *, seed: int = 0, **columns: Sequence[Any]) -> None:
        """Seal a test set and hand it in."""
        name = self.write(f"test-{seed}", rows(labels, seed=seed) | columns)
        sealed = f"test-{seed}.sealed"
        self.ok("seal", name, "--label", "label", "--id", "id", "--out", sealed)
        # Every set on this desk is numbered from 0.
        self.ok("testset", "add", sealed, "--ids-renumbered")

    def validate(self, labels: Sequence[Any], *, verb: str = "set", seed: int = 1000) -> str:
        """Give a validation set."""
        name = self.write(f"validation-{seed}", rows(labels, seed=seed))
        label = ["--label", "label"] if verb == "set" else ["--yes"]
        return self.ok("validation", verb, name, *label)

    def predictions(
        self, test: Sequence[Any], validation: Sequence[Any], *, name: str = "model"
    ) -> list[str]:
        """Write the two files of a submission; give the options that name them."""
        files = []
        for which, values in (("test", test), ("validation", validation)):
            # The name stands in the file: other bytes are another submission.
            columns = {
                "id": list(range(len(values))),
                "prediction": list(values),
                "model": [name] * len(values),
            }
            files += [f"--{which}", self.write(f"{name}-on-{which}", columns)]
        return files

    def submit(
        self, test: Sequence[Any], validation: Sequence[Any], *options: object, name: str = "model"
    ) -> Any:
        """Submit, and read the answer."""
        files = self.predictions(test, validation, name=name)
        return self.json("submit", *files, "--model", name, *options)

    def left(self) -> int:
        """Give the steps that are left."""
        left = self.json("status")["steps_left"]
        assert isinstance(left, int)
        return left


def animal_spec(**options: Any) -> MeterSpec:
    """Return a meter of cats and dogs that needs only a few dozen labels."""
    return small_spec(**({"classes": ("cat", "dog")} | options))


def rows(labels: Sequence[Any], *, seed: int) -> dict[str, Sequence[Any]]:
    """Make ids and inputs for labels."""
    inputs = np.random.default_rng(seed).normal(size=(2, len(labels))).round(6).tolist()
    ids = list(range(len(labels)))
    return {"id": ids, "x": inputs[0], "y": inputs[1], "label": list(labels)}


def animals(count: int, *, seed: int = 0) -> list[str]:
    """Draw labels."""
    return [str(each) for each in np.random.default_rng(seed).choice(["cat", "dog"], count)]


def wrong(labels: Sequence[str], errors: int) -> list[str]:
    """Get the first few wrong."""
    other = {"cat": "dog", "dog": "cat"}
    return [other[label] if at < errors else label for at, label in enumerate(labels)]


def write_table(path: Path, columns: Columns) -> None:
    """Write a table in the format that the file's ending names."""
    lines = list(zip(*columns.values(), strict=True))
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([list(columns), *lines])
    elif path.suffix == ".jsonl":
        text = [json.dumps(dict(zip(columns, line, strict=True))) for line in lines]
        path.write_text("\n".join(text) + "\n", encoding="utf-8")
    elif path.suffix == ".parquet":
        pq.write_table(pa.table(dict(columns)), path)
    else:
        assert path.suffix == ".arrow"
        table = pa.table(dict(columns))
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)


def text(content: str | bytes, ending: str = "csv") -> Callable[[Workbench], str]:
    """Write a file as it is."""

    def write(desk: Workbench) -> str:
        data = content if isinstance(content, bytes) else content.encode()
        (desk.folder / f"bad.{ending}").write_bytes(data)
        return f"bad.{ending}"

    return write


def ready(desk: Workbench, **options: object) -> list[str]:
    """Make a meter with a test set and a validation set; give the hidden labels."""
    labels = animals(desk.init(**options))
    desk.validate(VALIDATION)
    desk.deliver(labels)
    return labels


VALIDATION = animals(20, seed=99)
