"""The sets that predictions are measured on: opened once, read as little as their size allows."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.service.helpers import Session, make_session, small_spec

from easeml_meter.errors import InvalidInput
from easeml_meter.service.submissions import measuring
from easeml_meter.service.submissions.kinds import PredictionFiles
from easeml_meter.service.submissions.measuring import Conditions, Losses, Measured
from easeml_meter.vault.sealing import SealedTestSet


def measured_on(session: Session) -> Measured:
    space = session.meter.workspace
    state = space.read_state()
    assert state.validation is not None
    return Measured(space, state.spec, state.current, state.validation)


def losses(session: Session, on: Measured, test: int, validation: int) -> Losses:
    files = session.files(test, validation)
    return PredictionFiles(*files).open(on).measure(on)


@pytest.mark.parametrize("few", [measuring._FEW, 1], ids=["few rows", "many rows"])
def test_sets_of_any_size_give_the_same_losses(
    tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_FEW", few)
    session = make_session(tmp_path)
    with measured_on(session) as on:
        found = losses(session, on, 3, 5)
        assert (on.few_labels is None) == (on.visible_labels is None) == (few == 1)
    assert found.validation == Fraction(5, 20)
    assert found.test is not None
    assert found.test.mean == Fraction(3, len(session.test_labels))


def test_submissions_that_are_measured_together_open_a_small_test_set_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(tmp_path)
    opened, decrypted = 0, 0
    open_set, labels_of = SealedTestSet.open, SealedTestSet.labels

    def opening(*arguments: Any, **options: Any) -> SealedTestSet:
        nonlocal opened
        opened += 1
        return open_set(*arguments, **options)

    def decrypting(sealed: SealedTestSet, group: int) -> Any:
        nonlocal decrypted
        decrypted += 1
        return labels_of(sealed, group)

    monkeypatch.setattr(SealedTestSet, "open", opening)
    monkeypatch.setattr(SealedTestSet, "labels", decrypting)
    with measured_on(session) as on:
        for errors in range(3):
            losses(session, on, errors, 0)
        assert (opened, decrypted) == (1, on.sealed.row_groups)


def test_a_loss_that_fails_on_hidden_labels_is_no_reading(tmp_path: Path) -> None:
    """What it raises holds a label: nothing but that it failed may get out."""
    loss = "tests.service.submissions.test_measuring:fails_on_many[class]"
    session = make_session(tmp_path, small_spec(loss=loss))
    with measured_on(session) as on:
        found = losses(session, on, 0, 0)
    assert found.validation == Fraction(0)
    assert found.test is None


def fails_on_many(predictions: Any, labels: Any) -> Any:
    if len(labels) > 20:  # more than the validation set has
        raise ValueError(labels)
    return (predictions != labels).astype(float)


@pytest.mark.parametrize("seconds", [0.01, 10**6])
def test_a_run_is_given_a_time_that_makes_sense(seconds: float) -> None:
    with pytest.raises(InvalidInput, match=f"seconds: {seconds}"):
        Conditions(seconds=seconds)
