"""What a developer can observe is a function of the signal history alone.

Two meters differ in nothing but the labels of their test sets. The same developer drives both, side
by side. As long as the signals are the same, everything else must be, byte for byte: what the
commands print, their exit codes, and every file in the meter's folder, ids and times aside.
"""

from __future__ import annotations

import contextlib
import io
import re
import sqlite3
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from tests.properties.stories import (
    INPUTS_SEED,
    JUDGE,
    ROWS,
    SCORES,
    STRATA,
    Action,
    Story,
    hidden_rows,
    measured_story,
    one_secret,
    patient,
    predicted,
    stories,
    visible_rows,
)
from tests.service.helpers import Clock, Labels, rows, small_spec, write_predictions

from easeml_meter.cli import main
from easeml_meter.core.model import Entry, stamp
from easeml_meter.meter import Meter
from easeml_meter.service import place
from easeml_meter.service.submissions.measuring import Measured
from easeml_meter.spec import MeterSpec

IDS = re.compile(r"[0-9a-f]{32,64}")


@dataclass
class Side:
    """One of the two meters, and all that its developer has seen."""

    folder: Path
    labels: Labels
    spec: MeterSpec
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        meter = Meter.create(self.folder / "meter", self.spec, name="m", clock=self.clock)
        validation = np.random.default_rng(1).integers(0, 2, 30)
        visible = visible_rows(self.spec, validation, seed=2)
        pq.write_table(visible, self.folder / "validation.parquet")
        meter.set_validation(self.folder / "validation.parquet", label="label")
        pq.write_table(hidden_rows(self.spec, self.labels), self.folder / "plain.parquet")
        sealed = self.folder / "set.sealed"
        judge = "judge" if self.spec.judged else None
        with one_secret():
            meter.seal(
                self.folder / "plain.parquet", sealed, label="label", id_column="id", judge=judge
            )
        meter.add_test_set(sealed, ids_renumbered=True)
        (self.folder / "plain.parquet").unlink()
        sealed.unlink()
        meter.close()

    def _now(self) -> str:
        return stamp(self.clock())

    def run(self, *arguments: str) -> tuple[object, str, str]:
        """Run a command as the developer does, and return everything it shows."""
        out, err = io.StringIO(), io.StringIO()
        code: object = None
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            mock.patch.object(place.Workspace, "now", side_effect=self._now),
        ):
            try:
                main([*arguments, "-C", "meter"])
            except SystemExit as stopped:
                code = stopped.code
        return code, IDS.sub("<id>", out.getvalue()), IDS.sub("<id>", err.getvalue())

    def files(self) -> dict[str, object]:
        """Show every file that a developer could read; of encrypted ones, name and size."""
        found: dict[str, Any] = {}
        for path in sorted((self.folder / "meter").rglob("*")):
            name = IDS.sub("<id>", str(path.relative_to(self.folder)))
            if path.is_dir() or "meter.db" in name or name.endswith(".key"):
                continue
            if name.endswith(".age"):  # age pads its header at random
                found[name] = "encrypted"
            elif name.endswith(".sealed"):
                # All but the wrapped key at the end, which age pads at random.
                content = path.read_bytes()
                found[name] = len(content) - int.from_bytes(content[-4:], "little")
            elif name.endswith(".parquet"):
                found[name] = path.read_bytes()
            else:  # journals are named by fingerprints, so there may be several
                text = IDS.sub("<id>", path.read_text(encoding="utf-8"))
                found[name] = sorted([*found.get(name, ()), text])
        with contextlib.closing(
            sqlite3.connect(self.folder / "meter" / ".meter" / "meter.db")
        ) as database:
            found["books"] = [IDS.sub("<id>", line) for line in database.iterdump()]
        return found

    def answers(self) -> list[str]:
        """Give the signal history."""
        with Meter.open(self.folder / "meter") as meter:
            return [signal.name for view in meter.history() for signal in view.signals]


def perform(side: Side, action: Action, number: int) -> tuple[object, str, str]:
    """Do on one side what the developer decided to do."""
    kind, detail = action
    if kind in ("submit", "check"):
        guess, errors = detail
        validation = np.random.default_rng(1).integers(0, 2, 30)
        validation[:errors] ^= 1
        for name, values in (("t", np.array(guess)), ("v", validation)):
            table = predicted(side.spec, values, str(number))
            pq.write_table(table, side.folder / f"{name}{number}.parquet")
        files = ["--test", f"t{number}.parquet", "--validation", f"v{number}.parquet"]
        option = ["--baseline"] if side.spec.compares and not side.answers() else []
        option = ["--check"] if kind == "check" else option
        return side.run("submit", *files, "--json", *option)
    if kind == "repeat":
        last = sorted(side.folder.glob("t*.parquet"))
        if not last:
            return side.run("status")
        name = last[-1].name
        return side.run("submit", "--test", name, "--validation", "v" + name[1:])
    if kind == "bad":
        return side.run(*bad_submission(side, detail))
    if kind == "validation":
        table = visible_rows(side.spec, np.zeros(30, dtype=np.int64), seed=detail)
        pq.write_table(table, side.folder / "new.parquet")
        return side.run("validation", "replace", "new.parquet", "--yes")
    if detail == "report":
        drawings = {"html": "r.html", "svg": "r.svg", "badge": "b.svg", "shields": "b.json"}
        shown = side.run("report", *(f"--{kind}={name}" for kind, name in drawings.items()))
        drawn = "".join((side.folder / name).read_text() for name in drawings.values())
        return shown[0], shown[1] + drawn, shown[2]
    return side.run(detail, "--json")


def bad_submission(side: Side, kind: str) -> list[str]:
    """Make a submission that must be refused before a label is touched."""
    guess = np.zeros(ROWS - (kind == "short"), dtype=np.int64)
    if kind == "class":
        guess[3] = 9
    table = pa.table({"id": np.arange(len(guess)) + (kind == "ids")})
    pq.write_table(table.append_column("prediction", pa.array(guess)), side.folder / "bad.parquet")
    write_predictions(side.folder / "bv.parquet", np.zeros(30, dtype=np.int64))
    name = "x" * 10_000 if kind == "name" else "bad"
    return ["submit", "--test", "bad.parquet", "--validation", "bv.parquet", "--model", name]


LOOKS = ("status", "history", "report", "audit")
told = stories(Story, validation=30, bad=("short", "class", "ids", "name"), looks=LOOKS)


@given(story=told)
@settings(patient, max_examples=10)
def test_equal_signals_look_equal(story: Story) -> None:
    play(story)


@pytest.mark.verify
@given(story=told)
@settings(patient, max_examples=200)
def test_equal_signals_look_equal_in_many_stories(story: Story) -> None:
    play(story)


def play(story: Story) -> list[str] | None:
    """Tell both sides of a story; as long as their signals are equal, everything is.

    Return the signals; None: they came to differ.
    """
    first, second = story.both
    with tempfile.TemporaryDirectory() as left, tempfile.TemporaryDirectory() as right:
        sides = [Side(Path(left), first, story.spec), Side(Path(right), second, story.spec)]
        assert sides[0].files() == sides[1].files()
        for number, action in enumerate(story.todo):
            shown = [perform(side, action, number) for side in sides]
            if sides[0].answers() != sides[1].answers():
                return None  # the signals differ: from here on everything may
            assert shown[0] == shown[1]
            assert sides[0].files() == sides[1].files()
        return sides[0].answers()


@pytest.mark.parametrize("measured", [*SCORES, JUDGE, STRATA])
def test_scores_and_estimates_show_nothing_but_their_answers(measured: str) -> None:
    story = measured_story(Story, measured, LOOKS)
    assert play(story) == ["1", "2", {"precision[1]": "too-few", STRATA: "1"}.get(measured, "2")]


def drawn_story() -> Story:
    """Tell of two test sets that get the same bands, and of a developer who looks around."""
    first = np.random.default_rng(0).integers(0, 2, ROWS)
    guesses = [first.tolist(), np.roll(first, 1).tolist(), (1 - first).tolist()]
    todo: list[Action] = [("check", (guesses[0], 1)), *(("submit", (each, 1)) for each in guesses)]
    todo += [("look", look) for look in LOOKS]
    return Story(first.tolist(), [0, 1], todo, "regular", None, drawn=True)


def test_drawn_edges_do_not_depend_on_the_labels() -> None:
    """The same submissions get the same edges, though their test losses differ."""
    assert play(drawn_story()) is not None  # the answers never differ


def test_edges_that_depend_on_the_labels_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def looking(on: Measured, entry: Entry) -> Fraction:
        hidden = sum(sum(on.sealed.labels(k).to_pylist()) for k in range(on.sealed.row_groups))
        return on.sealed.draws.first_edge(entry, 0.5) * hidden / 100

    monkeypatch.setattr(Measured, "first_edge", looking)
    with pytest.raises(AssertionError):
        play(drawn_story())


def test_a_validation_set_made_of_test_rows_is_refused_whatever_their_labels() -> None:
    labels = np.random.default_rng(0).integers(0, 2, ROWS)
    with tempfile.TemporaryDirectory() as left, tempfile.TemporaryDirectory() as right:
        shown = []
        for folder, hidden in ((left, labels), (right, 1 - labels)):
            side = Side(Path(folder), hidden, small_spec(inputs="public"))
            before = set(side.files())
            pq.write_table(rows(labels, seed=INPUTS_SEED).slice(0, 20), side.folder / "p.parquet")
            shown.append(side.run("validation", "replace", "p.parquet", "--yes"))
            assert set(side.files()) == before
        assert shown[0] == shown[1]
        assert f"20 of {ROWS} rows of the test set stand among the 20" in shown[0][2]
