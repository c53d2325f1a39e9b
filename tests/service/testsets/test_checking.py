"""What a table must be, before it is sealed and when it arrives."""

from __future__ import annotations

import pyarrow as pa
import pytest

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import LabelRequest, Part, TestSet
from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.losses import parse_loss
from easeml_meter.service.testsets.checking import Asked, UnknownLabels
from easeml_meter.spec import MeterSpec


def asked(loss: str = "0-1", classes: tuple[str, ...] | None = ("a", "b"), here: int = 0) -> Asked:
    wanted = TestSet("meter", 1, Phase.REQUESTED, labels_needed=1669, changed_at="")
    parts = (Part("meter", 1, 1, here, "", "", "", ""),) if here else ()
    known = Classes.of(classes) if classes else None
    return Asked(LabelRequest(wanted, (), parts), known, parse_loss(loss))


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (0, "labels: 500 given, 1,669 needed: label 1,169 more rows"),
        (69, "labels: 500 given and 69 have arrived, 1,669 needed: label 1,100 more rows"),
    ],
)
def test_rows_given_and_rows_needed_are_named(here: int, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        asked(here=here).check_rows(500)
    asked(here=here).check_rows(1669 - here)
    asked(here=here).check_rows(1, part=True)


def test_unknown_labels_are_counted_over_batches_most_frequent_first() -> None:
    batches = [pa.array(["a", "fox", "b"]), pa.array(["eel", "a", "eel"]), pa.array(["b"])]
    found = asked().unknown_labels(batches)
    assert found.counts == (("eel", 2), ("fox", 1))
    assert str(found) == "'eel' in 2 rows, 'fox' in 1 row"
    with pytest.raises(InvalidInput, match="--keep-unknown-labels"):
        found.refuse(asked().classes)
    none = asked().unknown_labels([pa.array(["a", "b"])])
    none.refuse(asked().classes)
    assert none.rows == 0


def test_of_very_many_unknown_labels_only_the_rows_are_counted() -> None:
    found = UnknownLabels().plus(pa.array([f"text {row}" for row in range(5000)]))
    assert (len(found.counts), found.more, found.rows) == (1000, 4000, 5000)
    assert str(found).endswith("others in 4,990 rows")


@pytest.mark.parametrize(
    ("loss", "labels", "words"),
    [
        ("absolute[0,1]", [0.5, 2.0], "row 2: a label that does not fit given, a number from 0"),
        ("0-1", [["a"]], "given"),
    ],
)
def test_labels_that_the_loss_cannot_take_are_refused(
    loss: str, labels: list[object], words: str
) -> None:
    for classes in (("a", "b"), None):
        with pytest.raises(InvalidInput, match=words):
            asked(loss, classes).unknown_labels([pa.array(labels)])


def test_a_function_that_the_server_names_is_not_imported_here() -> None:
    spec = MeterSpec.uniform(
        steps=1, tolerance=0.2, delta=0.2, signals=2, loss="no.such.module:function"
    )
    there = Asked.elsewhere(asked().request, spec, None)
    assert there.loss is None
    assert there.unknown_labels([pa.array([1.5])]).rows == 0


def test_a_class_with_a_colon_is_no_function() -> None:
    """It had an answer "no reading", which costs labels, and its labels were not checked."""
    spec = MeterSpec.uniform(
        steps=4, tolerance=0.2, delta=0.2, signals=2, loss="recall[b:PER]", classes=("O", "b:PER")
    )
    assert not spec.may_fail
    there = Asked.elsewhere(asked().request, spec, None)
    assert there.unknown_labels([pa.array(["O", "b:LOC"])]).rows == 1
