"""Estimators: objects with `predict`, as scikit-learn has them, run on a table of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.scoring.losses import Output, output_of, parse_loss
from easeml_meter.tables.memory import as_table
from easeml_meter.tables.source import some
from easeml_meter.tables.spelling import is_text


class Estimator(Protocol):
    """Anything that predicts; `predict_proba` and `classes_` are used where the loss needs them."""

    def predict(self, inputs: Any) -> Any:
        """Return one prediction for each row."""


def predictions_of(
    estimator: Estimator,
    inputs: pa.Table,
    loss: str,
    id_column: str | None = None,
    *,
    frame: bool = False,
) -> pa.Table:
    """Return what an estimator predicts for each row, with the ids, laid out as a file would be.

    It is given the columns it was fitted with, as a DataFrame, if it knows their names
    (`feature_names_in_`); else all inputs, as an array, or as a DataFrame if `frame` says that
    they were given so and it does not count its columns, as those fitted with arrays do.
    """
    ids = {} if id_column is None else {id_column: inputs[id_column]}
    features = _features(estimator, inputs.drop_columns(list(ids)), frame=frame)
    if output_of(loss) in (Output.PROBABILITIES, Output.RANKED):
        found = _by_probability(estimator, features, loss)
    else:
        found = as_table(estimator.predict(features))
    if found.num_rows != inputs.num_rows:
        given = f"{found.num_rows:,} predictions for {inputs.num_rows:,} rows"
        raise invalid("estimator", given, "one prediction for each row")
    for name, column in ids.items():
        found = found.append_column(name, column)
    return found


def _features(estimator: Estimator, inputs: pa.Table, *, frame: bool) -> Any:
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        return _frame(inputs, [str(name) for name in names])
    if frame and not hasattr(estimator, "n_features_in_"):
        return _frame(inputs, inputs.schema.names)
    if inputs.num_columns == 1 and is_text(inputs.schema.types[0]):
        return np.asarray(inputs.column(0).to_pylist(), object)  # documents
    wanted = getattr(estimator, "n_features_in_", inputs.num_columns)
    if wanted != inputs.num_columns:
        given = f"one fitted with {wanted} columns"
        raise invalid(
            "estimator", given, f"one for {inputs.num_columns}: {some(inputs.schema.names)}"
        )
    return np.column_stack([column.to_numpy() for column in inputs.columns])


def _frame(inputs: pa.Table, names: Sequence[str]) -> Any:
    missing = [name for name in names if name not in inputs.schema.names]
    if missing:
        line = f"fitted with {some(missing)}, which the inputs lack (there are "
        raise InvalidInput(f"estimator: {line}{some(inputs.schema.names)}): name columns alike")
    try:
        return inputs.select(names).to_pandas()
    except ImportError:
        line = "fitted with a DataFrame: that needs pandas (pip install pandas)"
        raise InvalidInput(f"estimator: {line}") from None


def _by_probability(estimator: Any, features: Any, loss: str) -> pa.Table:
    if not hasattr(estimator, "predict_proba") or not hasattr(estimator, "classes_"):
        needed = f"one with predict_proba and classes_: the loss {loss} compares probabilities"
        raise invalid("estimator", type(estimator).__name__, needed)
    scores, classes = np.asarray(estimator.predict_proba(features)), estimator.classes_
    if output_of(loss) is Output.PROBABILITIES:  # by name: its order need not be that of meter.toml
        return pa.table({f"probability_{name}": scores[:, at] for at, name in enumerate(classes)})
    best = np.argsort(-scores, axis=1, kind="stable")[:, : parse_loss(loss).ranks]
    ranked = np.asarray(classes)[best]
    return pa.table({f"prediction_{at + 1}": ranked[:, at] for at in range(ranked.shape[1])})
