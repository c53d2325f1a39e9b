"""What so many labels, rows of a validation set, or rows without a split are good for."""

from __future__ import annotations

import pytest

from easeml_meter.core.questions.labels import from_tables, plan_labels, split, validation_noise
from easeml_meter.errors import InvalidInput
from easeml_meter.spec import MeterSpec

WISH = MeterSpec.uniform(tolerance=0.1)


def test_too_few_labels_are_one_honest_line() -> None:
    with pytest.raises(InvalidInput, match=r"^labels: 29 given, too few for one answer of use: 30"):
        plan_labels(WISH, 29)
    with pytest.raises(InvalidInput, match="too few for one answer within 20 points"):
        plan_labels(WISH.replace(delta=1e-6), 40)
    assert plan_labels(WISH, 20, steps=1).spec.steps == 1  # who asks for it sees it


def test_a_file_says_labels_instead_of_a_tolerance() -> None:
    gap, labels = {"ask": "gap"}, {"labels": 500}
    found = from_tables({"question": gap, "sample": {**labels, "inputs": "public"}})
    assert found == plan_labels(WISH, 500).spec.replace(inputs="public")
    few = {"question": gap, "budget": {"steps": 5}, "sample": {"labels": 50}}
    assert from_tables(few).steps == 5
    with pytest.raises(InvalidInput, match=r"sample.labels: 500 given, with tolerance"):
        from_tables({"question": {**gap, "tolerance": 0.1}, "sample": labels})
    alarm = {"question": {"ask": "alarm"}, "sample": labels}
    assert from_tables(alarm) == MeterSpec.from_mapping(alarm)  # which has labels of its own
    with pytest.raises(InvalidInput, match=r"sample.labels: Expected `int"):
        from_tables({"question": gap, "sample": {"labels": "many"}})


def test_the_noise_of_a_validation_set_is_held_against_the_lowest_edge() -> None:
    said = validation_noise(100, WISH.with_edges([0.03]))
    assert "100 rows: 10 % wrong may be 5.5 to 16.4 % (90 % sure, of one model); 400 rows" in said
    assert said.endswith("bring that below the lowest edge, 3 points.")
    more = validation_noise(400, WISH.with_edges([0.03]))
    assert more.endswith("less than the lowest edge, 3 points.")
    assert validation_noise(3, WISH).startswith("Validation set of 3 rows: 0 % wrong may be 0 to ")
    assert validation_noise(100, WISH.replace(loss="brier")) == ""


def test_rows_are_split_into_hidden_validation_and_training() -> None:
    assert split(1_000) == (400, 200, 400)
    assert sum(split(569)) == 569
