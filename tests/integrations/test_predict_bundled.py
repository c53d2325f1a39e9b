"""What the sandbox runs for a bundled model."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pyarrow as pa

from easeml_meter.integrations.predict_bundled import run


def test_columns_go_by_the_names_a_model_was_fitted_with() -> None:
    model = SimpleNamespace(feature_names_in_=["b", "a"], predict=lambda frame: frame["b"] * 2)
    given, out = io.BytesIO(), io.BytesIO()
    rows = pa.table({"a": [1, 2], "b": [3, 4]})
    with pa.ipc.new_stream(given, rows.schema) as writer:
        writer.write_table(rows)
    run(model, io.BytesIO(given.getvalue()), out)
    assert pa.ipc.open_stream(out.getvalue()).read_all().to_pydict() == {"prediction": [6, 8]}
