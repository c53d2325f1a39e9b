"""Fitted models of scikit-learn, torch and Keras, submitted as they are.

A meter in a folder runs the model itself, in this process. At a server it is sent as an ONNX file,
or as a bundle that the sandbox runs. What is sent is compared with the model first, on the
validation set, since a step is spent on what is sent. There is no callback for each epoch: each
would use an answer.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from easeml_meter.core.views import Signal
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.integrations.reporting import one_line
from easeml_meter.meter import Meter, MeterVerbs
from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.scoring.estimators import Estimator, predictions_of
from easeml_meter.scoring.losses import output_of
from easeml_meter.scoring.outputs import OF_CLASSES
from easeml_meter.service.submissions.kinds import Command, Function, OnnxFile, Submitted
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import Held, some

Form = Literal["function", "onnx", "bundle"]

_PREDICT = Path(__file__).with_name("predict_bundled.py")


@dataclass(frozen=True)
class Agreement:
    """How far what is sent predicts the same as the model, on the validation set."""

    form: Form
    rows: int
    same: int

    def __str__(self) -> str:
        return f"{self.form}: the same prediction on {self.same:,} of {self.rows:,} validation rows"


@dataclass(frozen=True)
class _Known:
    estimator: Estimator
    identity: str
    """A digest of its content: the same for the same model, however often it is loaded."""
    onnx: Callable[[int], bytes]
    """Returns the ONNX file, for a number of inputs."""


def submit(
    meter: MeterVerbs,
    model: Any,
    *,
    name: str | None = None,
    inputs: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    form: Form | None = None,
    least_agreement: float = 1.0,
    show: Callable[[object], None] = print,
    tenant: int | None = None,
    once: bool = False,
) -> Signal:
    """Submit a fitted model, and return the answer.

    `inputs` and `classes` are what a network takes and gives, in its order; they are compared with
    the sets. By default a folder gets a `function`, a server an `onnx` file; a `bundle` needs the
    framework beside the server's workers. `show` is called with the `Agreement`.

    Raises:
        InvalidInput: the model is of no known kind, does not fit, or its forms agree on a smaller
            share of the validation rows than `least_agreement`. Nothing was charged.
    """
    known = _known(model, classes or meter.spec.meter.sample.classes, meter.spec.meter.sample.loss)
    if classes is not None and tuple(classes) != meter.spec.meter.sample.classes:
        needed = f"those of the meter, in its order: {some(meter.spec.meter.sample.classes or ())}"
        raise invalid("classes", some(classes), needed)
    with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
        given, path = meter._copy_validation(Path(folder))
        rows = open_table(path, texts=[given.label]).in_memory()
    ids = [] if given.id_column is None else [given.id_column]
    rows = rows.drop_columns([given.label, *ids])
    if inputs is not None and list(inputs) != rows.column_names:
        needed = f"all columns in their order: {some(rows.column_names)}"
        raise invalid("inputs", some(inputs), needed)
    form = form or ("function" if isinstance(meter, Meter) else "onnx")
    submitted, predict = _formed(form, known, rows, meter.spec.meter.sample.loss)
    if form != "function":
        agreement = _compare(form, known.estimator, predict, rows, meter.spec.meter.sample.loss)
        show(agreement)
        if agreement.same < least_agreement * agreement.rows:
            needed = f"agreement on at least {least_agreement:.4g} of the rows"
            raise InvalidInput(f"{agreement}; {needed} needed: nothing was submitted")
    name = name or f"{type(model).__name__}-{known.identity[:12]}"
    return meter.submit_any(submitted, model=name, tenant=tenant, once=once)


Predict = Callable[[pa.Table], Any]


def _formed(form: Form, known: _Known, rows: pa.Table, loss: str) -> tuple[Submitted, Predict]:
    """Return what is submitted, and how it predicts."""
    if form == "function":

        def function(batch: pa.RecordBatch) -> pa.RecordBatch:
            table = predictions_of(known.estimator, pa.Table.from_batches([batch]), loss)
            return table.combine_chunks().to_batches()[0]

        return Function.of(function, known.identity), function
    if form == "onnx":
        try:
            content = known.onnx(rows.num_columns)
        except ImportError as error:
            raise InvalidInput(f"ONNX: {one_line(error)}: pip install {error.name}") from None
        except Exception as error:  # converters raise what they like
            reason = f"{type(error).__name__}: {one_line(error)}"
            raise InvalidInput(f"ONNX: cannot be converted ({reason}): try form='bundle'") from None
        return OnnxFile(Held("model.onnx", content)), _onnx(content)
    pickled = _pickled(known.estimator)
    files = (
        BundledFile("model.joblib", pickled),
        BundledFile("predict.py", _PREDICT.read_bytes()),
    )
    again = _unpickled(pickled)
    return Command(Bundle("python predict.py", files)), lambda table: again.predict(
        _given(again, table)
    )


def _onnx(content: bytes) -> Predict:
    import onnxruntime

    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    first = session.get_inputs()[0].name
    return lambda table: session.run(None, {first: _matrix(table).astype(np.float32)})[0]


def _matrix(table: pa.Table) -> Any:
    return np.column_stack([column.to_numpy() for column in table.columns])


def _given(estimator: Any, table: pa.Table) -> Any:
    names = getattr(estimator, "feature_names_in_", None)
    return _matrix(table) if names is None else table.select(list(names)).to_pandas()


def _compare(
    form: Form, estimator: Estimator, predict: Predict, rows: pa.Table, loss: str
) -> Agreement:
    own = np.asarray(estimator.predict(_given(estimator, rows))).reshape(rows.num_rows, -1)[:, 0]
    sent = np.asarray(predict(rows))
    if isinstance(estimator, _Network):
        sent = estimator.read(sent)
    sent = sent.reshape(rows.num_rows, -1)[:, 0]
    if output_of(loss) in OF_CLASSES:
        same = own == sent
    else:
        same = np.isclose(own.astype(float), sent.astype(float), rtol=1e-3, atol=1e-6)
    return Agreement(form, rows.num_rows, int(np.count_nonzero(same)))


def _known(model: Any, classes: Sequence[Any] | None, loss: str) -> _Known:
    """Find out by the type's own packages what a model is, without importing a framework."""
    families = {each.__module__.partition(".")[0] for each in type(model).__mro__}
    named = classes if output_of(loss) in OF_CLASSES else None
    if "keras" in families:  # first: with the backend torch, it is a module of torch as well
        return _keras(model, named)
    if "torch" in families:
        return _torch(model, named)
    if "sklearn" in families:
        import joblib

        # Loading shares equal texts, which changes the hash: so it is that of a loaded copy.
        identity = joblib.hash(_unpickled(_pickled(model)))
        return _Known(model, identity, lambda width: _sklearn_onnx(model, width))
    given = f"{type(model).__module__}.{type(model).__name__}"
    raise invalid("model", given, "a model of scikit-learn, torch or Keras; or meter.evaluate")


def _sklearn_onnx(model: Any, width: int) -> bytes:
    from skl2onnx import to_onnx

    options = {"zipmap": False} if hasattr(model, "classes_") else None
    found: bytes = to_onnx(
        model, np.zeros((1, width), np.float32), options=options
    ).SerializeToString()
    return found


def _pickled(estimator: Any) -> bytes:
    if isinstance(estimator, _Network):
        raise invalid("form", "bundle", "'onnx' for networks")
    import joblib

    content = io.BytesIO()
    joblib.dump(estimator, content)
    return content.getvalue()


def _unpickled(content: bytes) -> Any:
    import joblib

    return joblib.load(io.BytesIO(content))


@dataclass(frozen=True)
class _Network:
    """A network as an estimator: scores become classes, one score stays a number."""

    scores: Callable[[Any], Any]
    classes: tuple[Any, ...] | None

    def predict(self, inputs: Any) -> Any:
        return self.read(self.scores(np.asarray(inputs, np.float32)))

    def read(self, scores: Any) -> Any:
        """Return what scores say."""
        if self.classes is None:
            return scores.reshape(-1)
        if scores.ndim != 2 or scores.shape[1] != len(self.classes):
            given = f"outputs of shape {scores.shape[1:]}"
            raise invalid("model", given, f"one score for each of {len(self.classes)} classes")
        return np.asarray(self.classes)[scores.argmax(axis=1)]


def _torch(model: Any, classes: Sequence[Any] | None) -> _Known:
    import torch

    @contextmanager
    def evaluating() -> Iterator[None]:
        was = model.training
        model.eval()  # else dropout draws, and a batch norm judges rows together
        try:
            with torch.no_grad():
                yield
        finally:
            model.train(was)

    def scores(inputs: Any) -> Any:
        with evaluating():
            return model(torch.from_numpy(inputs)).numpy()

    def exported(width: int) -> bytes:
        with tempfile.TemporaryDirectory() as name, evaluating():
            path = Path(name, "model.onnx")
            rows = {0: torch.export.Dim("rows")}
            torch.onnx.export(
                model,
                (torch.zeros(2, width),),
                path,
                dynamo=True,
                dynamic_shapes=(rows,),
                external_data=False,
                verbose=False,
            )
            return path.read_bytes()

    arrays = [(name, each.detach().cpu().numpy()) for name, each in model.state_dict().items()]
    own = _Network(scores, None if classes is None else tuple(classes))
    return _Known(own, _digest(str(model), arrays), exported)


def _keras(model: Any, classes: Sequence[Any] | None) -> _Known:
    def scores(inputs: Any) -> Any:
        return np.asarray(model.predict(inputs, verbose=0))

    def exported(_: int) -> bytes:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name, "model.onnx")
            model.export(path, format="onnx", verbose=False)
            return path.read_bytes()

    # By position: loading a model may change the names of its weights.
    arrays = [(str(at), np.asarray(each.numpy())) for at, each in enumerate(model.weights)]
    own = _Network(scores, None if classes is None else tuple(classes))
    layers = json.dumps([each.get_config() for each in model.layers], sort_keys=True, default=str)
    return _Known(own, _digest(layers, arrays), exported)


def _digest(structure: str, arrays: Sequence[tuple[str, Any]]) -> str:
    """Return SHA-256 of weights and layers, the same wherever they were loaded."""
    found = hashlib.sha256(structure.encode())
    for name, array in arrays:
        found.update(f"|{name}|{array.dtype}|{array.shape}|".encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()
