"""Estimators are given their inputs as they were fitted, and predict what the loss compares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring.estimators import predictions_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": RNG.normal(size=30), "y": RNG.normal(size=30)})
LABELS = np.where(FRAME["x"] > 0, "up", "down")
# The columns of the inputs come in another order than those it was fitted with.
INPUTS = pa.table({"id": np.arange(30), "y": FRAME["y"], "x": FRAME["x"]})
FITTED = LogisticRegression().fit(FRAME, LABELS)


def test_columns_are_found_by_their_names() -> None:
    found = predictions_of(FITTED, INPUTS, "0-1", "id")
    assert found.column_names == ["prediction", "id"]
    assert found["prediction"].to_pylist() == list(FITTED.predict(FRAME))


def test_an_estimator_without_names_gets_all_columns_in_order() -> None:
    class Echo:
        def predict(self, inputs: Any) -> Any:
            return inputs[:, 0]

    found = predictions_of(Echo(), INPUTS, "absolute[-9,9]", "id")
    assert found["prediction"].to_pylist() == FRAME["y"].to_list()


def test_documents_are_given_as_texts() -> None:
    texts = ["good day", "bad day", "good night"]
    fitted = make_pipeline(CountVectorizer(), MultinomialNB()).fit(texts, [1, 0, 1])
    found = predictions_of(fitted, pa.table({"text": texts}), "0-1")
    assert found["prediction"].to_pylist() == [1, 0, 1]


def test_probabilities_are_named_by_their_class() -> None:
    found = predictions_of(FITTED, INPUTS, "brier")
    assert found.column_names == ["probability_down", "probability_up"]
    assert np.array_equal(found["probability_up"], FITTED.predict_proba(FRAME)[:, 1])


def test_classes_are_ranked_by_their_probability() -> None:
    found = predictions_of(FITTED, INPUTS, "top-2")
    assert found.column_names == ["prediction_1", "prediction_2"]
    assert found["prediction_1"].to_pylist() == list(FITTED.predict(FRAME))


@pytest.mark.parametrize("loss", ["nowhere:loss", "nowhere:loss[class]"])
def test_a_loss_of_the_servers_own_need_not_be_here(loss: str) -> None:
    assert predictions_of(FITTED, INPUTS, loss).num_rows == 30


class Short:
    def predict(self, inputs: Any) -> Any:
        return inputs[:-1, 0]


@pytest.mark.parametrize(
    ("estimator", "loss", "said"),
    [
        (Short(), "absolute[-9,9]", "29 predictions for 30 rows"),
        (Short(), "brier", "'Short' given, one with predict_proba"),
        (LogisticRegression().fit(FRAME.to_numpy(), LABELS), "0-1", "fitted with 2 columns"),
        (LogisticRegression().fit(FRAME.rename(columns=str.upper), LABELS), "0-1", "'X', 'Y'"),
    ],
)
def test_what_does_not_fit_is_refused(estimator: Any, loss: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        predictions_of(estimator, INPUTS, loss)
