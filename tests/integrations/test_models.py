"""Models of scikit-learn, submitted as they are; `make integrations` tries torch and Keras."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from tests.service.helpers import Clock

from easeml_meter import Meter, MeterSpec
from easeml_meter.core.views import Signal
from easeml_meter.errors import InvalidInput
from easeml_meter.integrations import models
from easeml_meter.integrations.predict_bundled import run
from easeml_meter.service.submissions.kinds import Command, OnnxFile


def flowers(rows: int, seed: int) -> pa.Table:
    draw = np.random.default_rng(seed)
    wide, long = draw.normal(size=(2, rows))
    kind = np.where(wide + long + draw.normal(scale=0.05, size=rows) > 0, "iris", "rose")
    return pa.table({"id": 1000 * seed + np.arange(rows), "wide": wide, "long": long, "kind": kind})


@pytest.fixture
def meter(tmp_path: Path) -> Meter:
    spec = MeterSpec.uniform(
        signals=3,
        edges=[0.1, 0.3],
        tolerance=0.25,
        steps=4,
        delta=0.2,
        models=True,
        classes=("iris", "rose"),
    )
    meter = Meter.create(tmp_path / "meter", spec, clock=Clock())
    meter.set_validation(flowers(40, 1), label="kind", id_column="id")
    meter.seal(flowers(meter.plan.labels, 2), tmp_path / "t", label="kind", id_column="id")
    meter.add_test_set(tmp_path / "t")
    return meter


class Elsewhere:
    """A meter that is in no folder: what is sent to it is kept, and answered by none."""

    def __init__(self, meter: Meter) -> None:
        self.spec, self._copy_validation = meter.spec, meter._copy_validation
        self.sent: list[tuple[str, Any]] = []

    def submit_any(self, submitted: Any, *, model: str, **_: object) -> Signal | None:
        self.sent.append((model, submitted))
        return None


def fitted(model: Any = None, seed: int = 3) -> Any:
    rows = flowers(200, seed)
    inputs = np.column_stack([rows["wide"], rows["long"]])
    return (LogisticRegression() if model is None else model).fit(inputs, rows["kind"].to_pylist())


def test_a_folder_runs_the_model_itself_and_knows_it_by_its_content(meter: Meter) -> None:
    model = fitted()
    signal = models.submit(meter, model)
    assert (signal.band, signal.model[:19]) == (1, "LogisticRegression-")
    again = models.submit(meter, pickle.loads(pickle.dumps(model)), name="loaded again")  # noqa: S301
    assert again.repeated
    assert not models.submit(meter, fitted(seed=4)).repeated


def test_both_forms_are_compared_before_anything_is_sent(meter: Meter) -> None:
    shown: list[object] = []
    server = Elsewhere(meter)
    models.submit(server, fitted(), show=shown.append)  # type: ignore[arg-type]
    assert [str(each) for each in shown] == [
        "onnx: the same prediction on 40 of 40 validation rows"
    ]
    ((name, sent),) = server.sent
    assert isinstance(sent, OnnxFile)
    assert name.startswith("LogisticRegression-")


def test_forms_that_disagree_are_not_sent(meter: Meter, monkeypatch: pytest.MonkeyPatch) -> None:
    other = LogisticRegression().fit(np.array([[0.0, 0.0], [1.0, 0.0]]), ["rose", "iris"])
    honest = models._sklearn_onnx
    monkeypatch.setattr(models, "_sklearn_onnx", lambda _, width: honest(other, width))
    server = Elsewhere(meter)
    with pytest.raises(InvalidInput, match="nothing was submitted"):
        models.submit(server, fitted(), show=lambda _: None)  # type: ignore[arg-type]
    assert server.sent == []
    models.submit(server, fitted(), show=lambda _: None, least_agreement=0)  # type: ignore[arg-type]
    assert len(server.sent) == 1


def test_a_bundle_predicts_what_the_model_predicts(meter: Meter) -> None:
    server = Elsewhere(meter)
    forest = fitted(RandomForestClassifier(5, random_state=0))
    models.submit(server, forest, form="bundle", show=lambda _: None)  # type: ignore[arg-type]
    ((_, sent),) = server.sent
    assert isinstance(sent, Command)
    assert {each.name for each in sent.bundle.files} == {"model.joblib", "predict.py"}
    rows = flowers(9, 5).drop_columns(["id", "kind"])
    given, out = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(given, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=4)
    run(forest, io.BytesIO(given.getvalue()), out)
    found = pa.ipc.open_stream(out.getvalue()).read_all()["prediction"].to_pylist()
    assert found == list(forest.predict(np.column_stack([rows["wide"], rows["long"]])))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"classes": ("rose", "iris")}, "those of the meter, in its order"),
        ({"inputs": ["long", "wide"]}, "all columns in their order: 'wide', 'long'"),
    ],
)
def test_what_does_not_fit_is_refused(meter: Meter, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        models.submit(meter, fitted(), **options)
    assert meter.status().signals == ()


def test_a_model_of_no_known_kind_is_refused(meter: Meter) -> None:
    with pytest.raises(InvalidInput, match="scikit-learn, torch or Keras"):
        models.submit(meter, object())


def test_numbers_agree_within_what_float32_loses() -> None:
    rows = flowers(30, 1).drop_columns(["id", "kind"])
    inputs = np.column_stack([rows["wide"], rows["long"]])
    line = LinearRegression().fit(inputs, inputs @ [1.5, -2.0] + 1e3)
    predict = models._onnx(models._sklearn_onnx(line, 2))
    agreement = models._compare("onnx", line, predict, rows, "absolute[0,2000]")
    assert (agreement.same, agreement.rows) == (30, 30)
