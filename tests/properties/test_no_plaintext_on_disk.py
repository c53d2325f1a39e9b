"""No plain label is on disk at any time but in the labeler's own file and, in the end, released."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.workbench import Workbench, rows, write_table

MODULE = """
import numpy as np

def last_word(predictions, labels):
    return np.array([not label.endswith(word) for word, label in zip(predictions, labels)], float)
"""


@dataclass
class Watch:
    """Look at every file of a folder, and at each once more before it is changed or removed."""

    folder: Path
    needles: Sequence[bytes]
    allowed: set[str]
    looked_at: set[str] = field(default_factory=set)
    found: set[str] = field(default_factory=set)

    def look(self, path: Path) -> None:
        name = str(path.relative_to(self.folder))
        try:
            content = path.read_bytes()
        except OSError:
            return
        self.looked_at.add(name)
        if name not in self.allowed and any(needle in content for needle in self.needles):
            self.found.add(name)

    def look_everywhere(self) -> None:
        for path in self.folder.rglob("*"):
            if path.is_file():
                self.look(path)

    def hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Before a file vanishes, moves, or is opened: look at what is in it now."""
        if event in ("os.remove", "os.rename", "os.link", "os.truncate", "open"):
            path = arguments[0]
            if isinstance(path, str | bytes | os.PathLike):
                full = Path(os.path.abspath(os.fsdecode(path)))
                if full.is_relative_to(self.folder) and full.is_file():
                    _watching.clear()  # looking opens files, too
                    self.look(full)
                    _watching.append(self)


_watching: list[Watch] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching:
        _watching[0].hook(event, arguments)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Hooks cannot be removed, so there is one, and it does nothing unless asked to."""
    if not hasattr(sys, "_watched_by_tests"):
        sys.addaudithook(_audit)
        sys._watched_by_tests = True  # type: ignore[attr-defined]
    _watching.append(watch)
    try:
        yield
    finally:
        _watching.clear()
    watch.look_everywhere()


def texts(count: int, seed: int) -> tuple[list[Any], list[bytes]]:
    """Make labels that are all different, of which only the last word is public."""
    words = np.random.default_rng(seed).choice(["cat", "dog"], count)
    labels = [f"MARKER{seed}{at:05}-{word}" for at, word in enumerate(words)]
    return labels, [f"MARKER{seed}".encode(), f"MARKER{seed}".encode("utf-16-le")]


def numbers(count: int, seed: int) -> tuple[list[Any], list[bytes]]:
    """Make numbers that are all different, and look for their digits and their bits."""
    labels = np.random.default_rng(seed).uniform(100_000, 900_000, count).round(5).tolist()
    digits = [f"{label!r}"[:11].encode() for label in labels]
    return labels, digits + [struct.pack("<d", label) for label in labels]


CASES = {
    "text": (texts, "own_losses_of_no_plaintext:last_word"),
    "numbers": (numbers, "absolute[0,1000000]"),
}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("case", CASES)
def test_no_plain_label_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, kind: str
) -> None:
    draw, loss = CASES[case]
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "own_losses_of_no_plaintext.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    desk = Workbench(tmp_path, kind)
    n = desk.init(loss=loss, steps=2, classes=())
    labels, needles = draw(n, 1)
    validation, _ = draw(20, 2)
    source = f"labelled.{kind}"
    write_table(tmp_path / source, rows(labels, seed=0))
    watch = Watch(tmp_path, needles, allowed={source})

    def guesses(count: int, step: int) -> list[Any]:
        return [("cat", "dog")[step % 2]] * count if case == "text" else [1000.0 * step] * count

    commands: list[list[object]] = [
        ["seal", source, "--label", "label", "--id", "id", "--out", "set.sealed"],
        ["testset", "add", "set.sealed"],
        ["testset", "inputs", "--out", "inputs.parquet"],
        ["validation", "set", desk.write("v", rows(validation, seed=9)), "--label", "label"],
    ]
    for step in (1, 2):
        files = desk.predictions(guesses(n, step), guesses(20, step), name=f"m{step}")
        commands += [["submit", *files], ["status"], ["history", "--json"]]
    commands += [
        ["report", "--html", "r.html", "--svg", "r.svg", "--badge", "b.svg"],
        ["testset", "notices", "--json"],
        ["audit", "--json"],
    ]
    printed = []
    for command in commands:
        with watched(watch):
            printed.append(desk.ok(*command))
    bad = desk.predictions(guesses(n - 1, 3), guesses(20, 3), name="bad")
    with watched(watch):
        printed.append(desk.run("submit", *bad, "-C", "meter").err)
    assert watch.found == set()
    assert not any(needle in "".join(printed).encode() for needle in needles)
    assert any(name.endswith(".part") for name in watch.looked_at)  # temporary ones, too
    assert any("meter.db" in name for name in watch.looked_at)

    # Once released, and only there. A release decrypts to the place it is released to.
    with watched(watch):
        desk.ok("release")
    assert {Path(name).parts[:3] for name in watch.found} == {("meter", ".meter", "released")}
    assert "meter/.meter/released/1/testset.parquet" in watch.found


def test_the_watch_sees_what_is_there_for_a_moment_only(tmp_path: Path) -> None:
    watch = Watch(tmp_path, [b"MARKER"], allowed=set())
    with watched(watch):
        (tmp_path / "gone").write_text("a MARKER", encoding="utf-8")
        (tmp_path / "gone").unlink()
        (tmp_path / "other").write_text("a MARKER", encoding="utf-8")
        (tmp_path / "other").write_text("nothing", encoding="utf-8")
    assert watch.found == {"gone", "other"}
