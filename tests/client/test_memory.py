"""A meter in a folder and one at a server take data from memory as they take files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from tests.client.people import SEEDS, VALIDATION, People
from tests.service.helpers import Labels, rows, with_errors

from easeml_meter import Denied, InvalidInput, Signal, WrongPhase


def frame(labels: Labels, seed: int) -> pd.DataFrame:
    return rows(labels, seed=seed).to_pandas()


def begin(people: People) -> Labels:
    people.developer.set_validation(frame(VALIDATION, 7), label="label", id_column="id")
    labels = np.random.default_rng(0).integers(0, 2, people.labeler.plan.labels)
    sealed = people.folder / "test.sealed"
    hidden = frame(labels, 1000 + next(SEEDS))
    people.labeler.seal(hidden, sealed, label="label", id_column="id")
    people.labeler.add_test_set(sealed, ids_renumbered=True)
    return labels


def given(kind: str, values: Labels) -> Any:
    ids = np.arange(len(values))
    table = {"id": ids, "prediction": values}
    match kind:
        case "pandas":
            return pd.DataFrame(table).sample(frac=1, random_state=1).set_index("id")
        case "series":
            return pd.Series(values, pd.Index(ids, name="id"))
        case "polars":
            return pl.DataFrame(table)
        case "dict":
            return dict(zip(ids.tolist(), values.tolist(), strict=True))
    raise AssertionError(kind)


class TestPublicInputs:
    @pytest.fixture
    def options(self) -> dict[str, Any]:
        return {"inputs": "public"}

    def test_the_same_predictions_get_the_same_answer_in_every_form(self, people: People) -> None:
        labels = begin(people)
        files = people.predictions(labels, 3, salt="")
        told: list[Signal] = [people.developer.submit(*files, model="file")]
        for kind in ("pandas", "series", "polars", "dict"):
            test = given(kind, with_errors(labels, 3))
            told.append(people.developer.submit(test, given(kind, VALIDATION), model=kind))
        assert [each.repeated for each in told] == [False, True, True, True, True]
        assert {each.answer for each in told} == {told[0].answer}

    def test_an_estimator_is_evaluated(self, people: People) -> None:
        with pytest.raises(WrongPhase):
            people.developer.evaluate(LogisticRegression(), model="too early")
        labels = begin(people)
        estimator = LogisticRegression().fit(
            rows(VALIDATION, seed=7).to_pandas()[["x", "y"]], VALIDATION
        )
        told = people.developer.evaluate(estimator, model="logistic")
        seen = frame(VALIDATION, 7)
        wrong = (estimator.predict(seen[["x", "y"]]) != VALIDATION).mean()
        assert told.validation_loss == pytest.approx(wrong)
        assert people.developer.evaluate(estimator, model="again").repeated
        assert len(labels) == people.developer.status().rows

    def test_a_refusal_says_what_was_given_and_costs_nothing(self, people: People) -> None:
        labels = begin(people)
        with pytest.raises(InvalidInput, match=r"validation \(dict\): ids of the validation set"):
            people.developer.submit({0: 1}, {0: 1}, model="short")
        with pytest.raises(InvalidInput, match=r"test \(ndarray\): no column 'id'"):
            people.developer.submit(labels, given("pandas", VALIDATION), model="plain")
        assert people.developer.status().signals == ()


def test_hidden_inputs_are_not_given_to_an_estimator(people: People) -> None:
    begin(people)
    with pytest.raises(Denied, match="submit the model itself"):
        people.developer.evaluate(LogisticRegression(), model="curious")
