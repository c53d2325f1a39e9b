"""A check in words."""

from __future__ import annotations

from dataclasses import replace

from tests.report.sessions import SPEC

from easeml_meter.core.submissions import CheckedFile, CheckedSubmission
from easeml_meter.report.checked import checked_lines

CHECKED = CheckedSubmission(
    kind="predictions",
    tenant=1,
    generation=2,
    answer=7,
    answers=12,
    repeated=False,
    test=CheckedFile(1300, 1280, 20, ("ham", None, "spam")),
    validation=CheckedFile(50, None, 0, ("ham", "ham", "spam")),
    classes=("ham", "spam"),
    validation_loss=0.16,
)


def test_a_check_in_words() -> None:
    assert checked_lines(CHECKED, SPEC) == [
        "Test predictions: 1,300 rows, 1,280 matched by id, 20 missing, which count as wrong; the "
        "first are read as ham; none; spam.",
        "Validation predictions: 50 rows; the first are read as ham; ham; spam.",
        "Classes, in this order: ham, spam.",
        "Validation error: 16 %.",
        "Submitting it uses answer 7 of 12 from test set 2.",
        "This check was free: no label of the test set was touched.",
    ]


def test_scores_stand_beside_the_classes_they_are_for() -> None:
    file = CheckedFile(2, None, 0, ({"ham": 0.25, "spam": 0.75}, ["spam", "ham"]))
    (line, *_) = checked_lines(replace(CHECKED, test=file), SPEC)
    assert line.endswith("read as ham=0.25 spam=0.75; spam > ham.")


def test_an_empty_prediction_is_said_to_be_one() -> None:
    (line, *_) = checked_lines(replace(CHECKED, test=CheckedFile(2, None, 0, ("", "a"))), SPEC)
    assert line.endswith("read as an empty text; a.")


def test_what_else_may_be_said() -> None:
    again = checked_lines(replace(CHECKED, repeated=True), SPEC)
    assert "It was answered before: submitting it again costs nothing." in again
    model = replace(CHECKED, kind="onnx", test=None, validation=None, validation_loss=None)
    assert "run on the validation set when it is submitted" in checked_lines(model, SPEC)[1]
    many = replace(CHECKED, classes=tuple(range(30)))
    assert ", 19, and 10 more." in checked_lines(many, SPEC)[2]
    (first, *_) = checked_lines(
        replace(CHECKED, test=CheckedFile(1, 1, 0, ("\x1b[31m" + "x" * 999,))), SPEC
    )
    assert "\x1b" not in first
    assert len(first) < 200
