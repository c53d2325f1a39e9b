"""Every loss through the whole loop; a loss of one's own may fail, which is an answer, too."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.cli.workbench import Workbench, rows

Values = list[Any]


def numbers(count: int, *, seed: int = 0) -> Values:
    drawn: Values = np.random.default_rng(seed).uniform(0, 10, count).round(3).tolist()
    return drawn


def thirds(count: int, *, seed: int = 0) -> Values:
    return [str(each) for each in np.random.default_rng(seed).choice(["a", "b", "c"], count)]


def ready(desk: Workbench, draw: Callable[..., Values], **options: Any) -> tuple[Values, Values]:
    """Make a meter and hand in both sets; give the labels of both."""
    test, validation = draw(desk.init(**options)), draw(20, seed=99)
    desk.validate(validation)
    desk.deliver(test)
    return test, validation


def spend(desk: Workbench, expected: list[float]) -> None:
    """Release, and compare the test losses that are now known."""
    desk.ok("release")
    truths = desk.json("status")["retrospective"]
    assert [truth["test_loss"] for truth in truths] == pytest.approx(expected, abs=1e-6)
    assert [truth["validation_loss"] for truth in truths] == pytest.approx([0, 0], abs=1e-6)
    assert desk.json("audit")["sound"]


@pytest.mark.parametrize(("loss", "each"), [("absolute[0,10]", 0.2), ("squared[0,10]", 0.04)])
def test_errors_with_a_declared_range(tmp_path: Path, loss: str, each: float) -> None:
    desk = Workbench(tmp_path, "parquet")
    test, validation = ready(desk, numbers, loss=loss, steps=2, classes=())
    assert desk.submit(test, validation, name="exact")["band"] == 1
    off = [value + 2 if value < 5 else value - 2 for value in test]
    assert desk.submit(off, validation, name="off")["band"] == (2 if each == 0.2 else 1)
    files = desk.predictions([5] * len(test), validation, name="more")
    desk.refused(3, "submit", *files)
    spend(desk, [0, each])


@pytest.mark.parametrize("value", [10.5, -0.1, float("nan"), float("inf"), None])
def test_predictions_out_of_the_declared_range(tmp_path: Path, value: float | None) -> None:
    desk = Workbench(tmp_path, "parquet")
    test, validation = ready(desk, numbers, loss="absolute[0,10]", steps=2, classes=())
    bad = desk.predictions([*test[:6], value, *test[7:]], validation)
    assert "row 7" in desk.refused(2, "submit", *bad)
    assert desk.left() == 2


def test_brier(tmp_path: Path) -> None:
    desk = Workbench(tmp_path, "parquet")
    classes = ("a", "b", "c")
    test, validation = ready(desk, thirds, loss="brier", steps=2, classes=classes)

    def corners(labels: Values) -> Values:
        return [[float(label == each) for each in classes] for label in labels]

    sure = corners(validation)
    assert desk.submit(corners(test), sure, name="sure")["band"] == 1
    flat = [[1 / 3] * 3 for _ in test]
    assert desk.submit(flat, sure, name="flat")["band"] == 3
    spend(desk, [0, 1 / 3])


@pytest.mark.parametrize(
    "value", [[0.5, 0.5], [0.5, 0.6, 0.2], [-0.1, 0.6, 0.5], [float("nan"), 0.5, 0.5], None]
)
def test_probabilities_that_are_none(tmp_path: Path, value: list[float] | None) -> None:
    desk = Workbench(tmp_path, "parquet")
    test, validation = ready(desk, thirds, loss="brier", steps=2, classes=("a", "b", "c"))
    flat = [[1 / 3] * 3 for _ in test]
    sure = [[1 / 3] * 3 for _ in validation]
    bad = desk.predictions([*flat[:6], value, *flat[7:]], sure)
    assert "row 7" in desk.refused(2, "submit", *bad)
    assert desk.left() == 2


def test_the_best_two_of_three(tmp_path: Path) -> None:
    desk = Workbench(tmp_path, "parquet")
    test, validation = ready(desk, thirds, loss="top-2", steps=2, classes=("a", "b", "c"))

    def second_best(labels: Values) -> Values:
        return [["a" if label != "a" else "b", label] for label in labels]

    assert desk.submit(second_best(test), second_best(validation), name="right")["band"] == 1
    never_c = [["a", "b"] for _ in test]
    told = desk.submit(never_c, second_best(validation), name="never c")
    share = test.count("c") / len(test)
    assert told["band"] == (1 if share < 0.1 else 2 if share < 0.3 else 3)
    three = desk.predictions([["a", "b", "c"]] * len(test), second_best(validation), name="three")
    assert "a list of 3" in desk.refused(2, "submit", *three)
    spend(desk, [0, share])


# Classes whose order nobody declared

PLACES = {"b": 0, "c": 1, "a": 2}
"""The order that a developer's model knows; the validation set has them alphabetically."""


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow", "jsonl"])
def test_a_perfect_model_with_another_order_of_classes_is_refused(
    tmp_path: Path, kind: str
) -> None:
    """Its losses were 1 and 1, so the gap was 0 and the answer band 1."""
    desk = Workbench(tmp_path, kind)
    test, validation = ready(desk, thirds, steps=2, classes=())
    files = desk.predictions([PLACES[v] for v in test], [PLACES[v] for v in validation])
    shown = desk.refused(2, "submit", *files)
    assert "whole numbers given for classes of unknown order ('a', 'b', 'c')" in shown
    assert desk.submit(test, validation, name="names")["band"] == 1


# A loss of one's own

MODULE = """
import sys, warnings
import numpy as np

def tenth(predictions, labels):
    '''A tenth of the distance; anything but finite numbers is the caller's fault.'''
    return np.abs(np.asarray(predictions, float) - np.asarray(labels, float)) / 10

def raises(predictions, labels):
    if 7.0 in labels:
        raise RuntimeError(f"cannot judge {labels[0]}")
    return tenth(predictions, labels)

def too_large(predictions, labels):
    return tenth(predictions, labels) + (2 if 7.0 in labels else 0)

def negative(predictions, labels):
    return tenth(predictions, labels) - (2 if 7.0 in labels else 0)

def not_a_number(predictions, labels):
    return tenth(predictions, labels) * (np.nan if 7.0 in labels else 1)

def too_few(predictions, labels):
    return tenth(predictions, labels)[: -1 if 7.0 in labels else None]

def leaves(predictions, labels):
    if 7.0 in labels:
        sys.exit(int(labels[0]))
    return tenth(predictions, labels)

def differs(predictions, labels):
    return np.where(predictions == labels, 0.0, 1.0)

def score(predictions, labels):
    '''What a judge gave, from 0 to 1; labels are not looked at.'''
    return 1 - np.asarray(predictions, float)

def letters(predictions, labels):
    return np.array([{"C": 0.0, "I": 1.0}[each] for each in predictions])

def talks(predictions, labels):
    if 7.0 in labels:
        print("label", labels[0])
        print("label", labels[0], file=sys.stderr)
        warnings.warn(f"label {labels[0]}")
        np.log(np.array([0.0]))
    return tenth(predictions, labels)
"""

FAILING = ["raises", "too_large", "negative", "not_a_number", "too_few", "leaves"]


@pytest.fixture
def losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with losses, importable; give its name (a new one each time: modules stay)."""
    name = f"losses_{abs(hash(tmp_path)):x}"
    (tmp_path / "lib" / name).mkdir(parents=True)
    (tmp_path / "lib" / name / "__init__.py").touch()
    (tmp_path / "lib" / name / "own.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "lib")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return f"{name}.own"


def with_seven(count: int, *, seed: int = 0) -> Values:
    """Hidden labels hold a 7, on which some losses fail; the validation set has none."""
    drawn = numbers(count, seed=seed)
    return drawn if seed == 99 else [*drawn[:5], 7.0, *drawn[6:]]


def test_a_loss_of_ones_own(tmp_path: Path, losses: str) -> None:
    desk = Workbench(tmp_path, "parquet")
    options = {"loss": f"{losses}:tenth", "steps": 2, "classes": ()}
    test, validation = ready(desk, with_seven, **options)
    assert desk.submit(test, validation, name="exact")["band"] == 1
    assert desk.submit([value + 2 for value in test], validation, name="off")["band"] == 2
    spend(desk, [0, 0.2])


@pytest.mark.parametrize("function", FAILING)
def test_a_loss_that_fails_on_hidden_labels_is_an_answer(
    tmp_path: Path, losses: str, function: str
) -> None:
    desk = Workbench(tmp_path, "parquet")
    options = {"loss": f"{losses}:{function}", "steps": 2, "classes": ()}
    test, validation = ready(desk, with_seven, **options)
    files = desk.predictions(test, validation, name="model")
    shown = desk.run("submit", *files, "-C", "meter")
    # The same bytes whatever the reason, and a step is charged.
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0] == "Step 1: no reading, model model-on-test"
    assert shown.out.count("\n") == 7
    assert "50 %, 1 step promised" in shown.out
    told = desk.json("submit", *files)
    assert (told["answer"], told["band"], told["repeated"]) == ("no-reading", None, True)
    assert desk.left() == 1
    desk.submit([*test[1:], test[0]], validation, name="another")
    desk.ok("release")
    assert desk.json("status")["retrospective"] == [None, None]
    labels = pq.read_table(tmp_path / "meter" / ".meter" / "released" / "1" / "testset.parquet")[
        "label"
    ]
    assert labels.to_pylist() == test


def test_all_failures_look_alike(tmp_path: Path, losses: str) -> None:
    seen = set()
    for function in FAILING:
        folder = tmp_path / function
        folder.mkdir()
        desk = Workbench(folder, "parquet")
        options = {"loss": f"{losses}:{function}", "steps": 2, "classes": ()}
        test, validation = ready(desk, with_seven, **options)
        shown = desk.run("submit", *desk.predictions(test, validation), "-C", "meter")
        seen.add((shown.code, shown.out, shown.err))
    assert len(seen) == 1


def test_what_a_loss_says_of_hidden_labels_is_not_passed_on(tmp_path: Path, losses: str) -> None:
    desk = Workbench(tmp_path, "parquet")
    options = {"loss": f"{losses}:talks", "steps": 2, "classes": ()}
    test, validation = ready(desk, with_seven, **options)
    shown = desk.run("submit", *desk.predictions(test, validation), "-C", "meter")
    assert (shown.code, shown.err) == (0, "")
    assert "label" not in shown.out


def test_a_loss_that_fails_on_the_validation_set_costs_nothing(tmp_path: Path, losses: str) -> None:
    desk = Workbench(tmp_path, "parquet")
    options = {"loss": f"{losses}:too_large", "steps": 2, "classes": ()}
    test = numbers(desk.init(**options))
    desk.deliver(test)
    validation = with_seven(20)
    desk.validate(validation)
    files = desk.predictions(test, validation)
    assert "outside [0, 1]" in desk.refused(1, "submit", *files)
    assert desk.left() == 2


def test_labels_that_do_not_fit_the_loss_are_refused_at_the_door(tmp_path: Path) -> None:
    desk = Workbench(tmp_path, "parquet")
    labels = numbers(desk.init(loss="absolute[0,10]", classes=()))
    name = desk.write("test", rows([*labels[:3], 10.25, *labels[4:]], seed=0))
    shown = desk.refused(2, "seal", name, "--label", "label", "--out", "set.sealed")
    assert "row 4" in shown
    assert "10.25" not in shown


@pytest.mark.parametrize(
    ("function", "good", "bad"),
    [("score[real]", 0.5, 3.5), ("letters", "C", "x"), ("letters", "C", "c")],
)
def test_predictions_that_have_no_loss_with_any_known_label_cost_nothing(
    tmp_path: Path, losses: str, function: str, good: Any, bad: Any
) -> None:
    """A mistake in the format of the test file alone was the answer "no reading", and charged."""
    desk = Workbench(tmp_path, "parquet")
    draw = numbers if function == "score[real]" else thirds
    test, validation = ready(desk, draw, loss=f"{losses}:{function}", steps=2, classes=())
    fine = [good] * len(validation)
    wrong = [*[good] * 6, bad, *[good] * (len(test) - 7)]
    shown = desk.refused(2, "submit", *desk.predictions(wrong, fine))
    assert "row 7: no loss in [0, 1] found" in shown
    assert desk.left() == 2


NAMES = {
    "whole numbers": ["42", "7", "-3"],
    "leading zeros": ["01234", "1234", "7"],
    "fractions": ["0.50", "0.5", "7"],
    "booleans": ["true", "false", "yes"],
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("function", ["differs", "0-1"])
def test_labels_of_csv_files_are_the_same_text_in_both_sets(
    tmp_path: Path, losses: str, names: list[str], function: str
) -> None:
    """Hidden labels had types and visible ones were text: exact match was 0 here and 1 there."""
    desk = Workbench(tmp_path, "csv")

    def draw(count: int, *, seed: int = 0) -> Values:
        return [str(each) for each in np.random.default_rng(seed).choice(names, count)]

    loss = "0-1" if function == "0-1" else f"{losses}:{function}"
    test, validation = ready(desk, draw, loss=loss, steps=2, classes=())
    desk.submit(test, validation, name="exact")
    other = [names[names.index(value) - 1] for value in test]
    desk.submit(other, validation, name="wrong")
    spend(desk, [0, 1])


def test_labels_in_forms_that_do_not_go_together_are_refused(tmp_path: Path, losses: str) -> None:
    desk = Workbench(tmp_path, "parquet")
    test = numbers(desk.init(loss=f"{losses}:differs", steps=2, classes=()))
    desk.deliver(test)
    desk.kind = "csv"
    validation = numbers(20, seed=99)
    desk.validate(validation)
    shown = desk.refused(2, "submit", *desk.predictions(test, validation))
    assert "the labels of the validation set are text, those of the test set numbers" in shown


@pytest.mark.parametrize("loss", ["0-1", "brier", "absolute[0,10]"])
def test_lists_as_labels_of_a_built_in_loss_are_refused_in_one_line(
    tmp_path: Path, loss: str
) -> None:
    """They ended in a traceback."""
    desk = Workbench(tmp_path, "parquet")
    count = desk.init(loss=loss, classes=() if loss == "absolute[0,10]" else ("a", "b"))
    lists = [[1, 2]] * count
    for kind in ("parquet", "jsonl", "arrow"):
        desk.kind = kind
        name = desk.write("lists", rows(lists, seed=0))
        shown = desk.refused(2, "validation", "set", name, "--label", "label")
        assert "type list<" in shown
        sealed = f"{kind}.sealed"
        if desk.run("seal", name, "--label", "label", "--out", sealed, "-C", "meter").code == 0:
            shown = desk.refused(2, "testset", "add", sealed)
        assert "type list<" in shown


def test_lists_as_labels_are_refused_where_no_class_was_declared(tmp_path: Path) -> None:
    desk = Workbench(tmp_path, "parquet")
    name = desk.write("lists", rows([["a"]] * desk.init(classes=()), seed=0))
    assert "type list<" in desk.refused(2, "validation", "set", name, "--label", "label")
