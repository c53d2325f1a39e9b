"""Good ONNX models predict as they do elsewhere; bad ones are refused before any input is read."""

from __future__ import annotations

import hashlib
import json
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
import pyarrow as pa
import pytest
from onnx import helper
from tests.scoring import onnx_models as models
from tests.scoring.examples import ANIMALS, DIGITS, expected
from tests.scoring.onnx_models import DOUBLE, FLOAT, INT64, constant, graph, row_wise, value
from tests.tables.costs import cost_of

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring import onnx_checks, onnx_model, onnx_runner
from easeml_meter.scoring.classes import Classes
from easeml_meter.scoring.onnx_model import OnnxModel
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import checked_answers
from easeml_meter.scoring.predictor import Limits, ModelFailed
from easeml_meter.scoring.sandbox import missing

WEIGHTS = np.array([[1, 0, 2], [0, 1, -1], [1, 1, 0]], np.float32)
ROWS = np.array([[1, 2, 3], [0, 5, 1], [4, 0, 0], [-1, 1, 0]], np.float64)
THREE = pa.schema([("a", pa.float64()), ("b", pa.float64()), ("c", pa.float64())])
REAL = "absolute[-100,100]"
SHORT = Limits(seconds=3)


WITHOUT = missing()


@pytest.fixture(autouse=True)
def _some_way(monkeypatch: pytest.MonkeyPatch) -> None:
    if WITHOUT:
        monkeypatch.setattr(shutil, "which", lambda name: None)


@pytest.fixture(params=["sandbox", "child"])
def _each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "child":
        monkeypatch.setattr(shutil, "which", lambda name: None)
    elif WITHOUT:
        pytest.skip(WITHOUT)


def columns(rows: Any = ROWS) -> pa.RecordBatch:
    return pa.record_batch([pa.array(column) for column in rows.T], list("abc")[: rows.shape[1]])


def predict(content: bytes, needed: Expected, *batches: pa.RecordBatch) -> Any:
    """Check a model, run it, and read its answers as the scorer does."""
    model = OnnxModel.of(content, needed)
    model.check(batches[0].schema)
    return answers(model, needed, *batches)


def answers(model: OnnxModel, needed: Expected, *batches: pa.RecordBatch) -> Any:
    found = model.predict(batches[0].schema, iter(batches), Limits(), hidden=False)
    return np.concatenate(list(checked_answers(found, needed, 1, needed.rows)))


def untouchable() -> Iterator[NoReturn]:
    raise AssertionError("an input was touched")
    yield


def refusal(
    content: bytes,
    needed: Expected | None = None,
    schema: pa.Schema = THREE,
) -> str:
    """Submit a bad model; give the one line that it is refused with."""
    with pytest.raises(InvalidInput) as refused:
        OnnxModel.of(content, needed or expected(4, "0-1", ANIMALS)).check(schema)
    line = str(refused.value)
    assert not isinstance(refused.value, ModelFailed)
    assert line.isprintable()
    assert len(line) < 800
    return line


# --- Good models ---


@pytest.mark.usefixtures("_each_way")
class TestOutputs:
    def test_a_class_by_its_place_in_a_list(self) -> None:
        found = predict(models.classifier(WEIGHTS), expected(4, "0-1", ANIMALS), columns())
        assert found.tolist() == (ROWS @ WEIGHTS).argmax(axis=1).tolist()

    def test_a_class_by_its_name(self) -> None:
        content = models.words(["meow", "bark"], ["cat", "dog"])
        batch = pa.record_batch({"sound": ["bark", "meow", "bark"]})
        assert predict(content, expected(3, "0-1", ANIMALS), batch).tolist() == [1, 0, 1]

    def test_probabilities_are_found_by_their_name(self) -> None:
        found = predict(models.classifier(WEIGHTS), expected(4, "brier", ANIMALS), columns())
        powers = np.exp(ROWS @ WEIGHTS)
        assert np.allclose(found, powers / powers.sum(axis=1, keepdims=True), atol=1e-6)

    def test_scores_of_classes(self) -> None:
        found = predict(models.linear(WEIGHTS), expected(4, "0-1", ANIMALS), columns())
        assert found.tolist() == (ROWS @ WEIGHTS).argmax(axis=1).tolist()

    def test_scores_rank_classes(self) -> None:
        found = predict(models.linear(WEIGHTS), expected(4, "top-2", ANIMALS), columns())
        assert (
            found.tolist() == np.argsort(-(ROWS @ WEIGHTS), axis=1, kind="stable")[:, :2].tolist()
        )

    def test_places_mean_nothing_unless_the_classes_were_declared(self) -> None:
        found = Classes.of(ANIMALS.values, declared=False)
        for loss, model in (
            ("0-1", models.classifier),
            ("top-2", models.linear),
            ("brier", models.classifier),
        ):
            line = refusal(model(WEIGHTS), expected(4, loss, found))
            assert "scores given for classes of unknown order" in line
        content = models.words(["meow", "bark"], ["cat", "dog"])
        batch = pa.record_batch({"sound": ["bark", "meow", "bark"]})
        assert predict(content, expected(3, "0-1", found), batch).tolist() == [1, 0, 1]

    def test_a_number(self) -> None:
        found = predict(models.linear(WEIGHTS[:, :1]), expected(4, REAL), columns())
        assert found.tolist() == (ROWS @ WEIGHTS[:, 0]).tolist()


class TestInputs:
    def test_double_precision_is_kept(self) -> None:
        rows = ROWS + 1e-12
        weights = WEIGHTS[:, :1].astype(np.float64)
        found = predict(models.linear(weights, DOUBLE), expected(4, REAL), columns(rows))
        assert found.tolist() == (rows @ weights)[:, 0].tolist()
        assert (found != found.astype(np.float32)).any()

    def test_any_number_of_columns(self) -> None:
        content = models.linear(WEIGHTS[:, :1], size="F")
        assert predict(content, expected(4, REAL), columns())[0] == 4

    def test_numbers_of_any_type_make_a_matrix(self) -> None:
        batch = pa.record_batch(
            {
                "a": pa.array([1, 2], pa.uint8()),
                "b": pa.array([True, False]),
                "c": pa.array(["1.50", "2.25"]).cast(pa.decimal128(5, 2)),
            }
        )
        found = predict(models.linear(WEIGHTS[:, :1]), expected(2, REAL), batch)
        assert found.tolist() == [2.5, 4.25]

    def test_a_column_of_lists_is_a_matrix(self) -> None:
        lists = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 3)
        batch = pa.record_batch({"pixels": lists}).slice(1)
        found = predict(models.linear(WEIGHTS[:, :1]), expected(3, REAL), batch)
        assert found.tolist() == (ROWS @ WEIGHTS[:, 0])[1:].tolist()

    def test_lists_take_the_shape_of_the_input(self) -> None:
        body = graph(
            [helper.make_node("ReduceSum", ["image", "axes"], ["y"], keepdims=0)],
            [value("image", FLOAT, ["N", 2, 3])],
            [value("y", FLOAT, ["N"])],
            constant("axes", [1, 2], np.int64),
        )
        lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12, dtype=np.float32)), 6)
        found = predict(models.content(body), expected(2, REAL), pa.record_batch({"image": lists}))
        assert found.tolist() == [15, 51]

    @pytest.mark.usefixtures("_each_way")
    def test_columns_by_name(self) -> None:
        texts = pa.array(["yes", "no", "yes"])
        batch = pa.record_batch(
            {
                "unused": [7, 7, 7],
                "c": texts.dictionary_encode(),
                "b": pa.array([1, 2, 3], pa.int32()),
                "a": [0.5, 1.5, -2.5],
            }
        )
        assert predict(models.by_column(), expected(3, REAL), batch).tolist() == [3.5, 5.5, 4.5]

    def test_missing_numbers_are_nan(self) -> None:
        nodes = [
            helper.make_node("IsNaN", ["x"], ["is"]),
            helper.make_node("Cast", ["is"], ["ones"], to=FLOAT),
            helper.make_node("ReduceSum", ["ones", "axis"], ["y"], keepdims=0),
        ]
        content = row_wise(nodes, constant("axis", [1], np.int64), out=value("y", FLOAT, ["N"]))
        batch = pa.record_batch(
            {"a": [1, None], "b": pa.array([None, None], pa.float64()), "c": [True, None]}
        )
        assert predict(content, expected(2, REAL), batch).tolist() == [1, 3]

    def test_how_the_table_is_cut_does_not_show(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(onnx_model, "_MOST_ROWS", 3)
        nodes = [  # how many rows come together
            helper.make_node("Shape", ["x"], ["size"], start=0, end=1),
            helper.make_node("Cast", ["size"], ["count"], to=FLOAT),
            helper.make_node("ReduceSum", ["x", "axis"], ["sum"], keepdims=0),
            helper.make_node("Mul", ["sum", "zero"], ["none"]),
            helper.make_node("Add", ["none", "count"], ["y"]),
        ]
        constants = constant("axis", [1], np.int64), constant("zero", [0.0])
        content = row_wise(nodes, *constants, out=value("y", FLOAT, ["N"]))
        needed, whole = expected(8, REAL), columns(np.tile(ROWS, (2, 1)))
        model = OnnxModel.of(content, needed)
        for cuts in ([8], [1, 7], [4, 4], [0, 2, 3, 0, 3]):
            ends = np.cumsum([0, *cuts])
            batches = [whole.slice(at, size) for at, size in zip(ends, cuts, strict=False)]
            found = answers(model, needed, *batches)
            assert found.tolist() == [3, 3, 3, 3, 3, 3, 2, 2]


def test_a_pipeline_of_scikit_learn(tmp_path: Path) -> None:
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    random = np.random.default_rng(5)
    rows = random.normal(size=(500, 4)).astype(np.float32)
    labels = np.array(ANIMALS.values)[(rows[:, :3] + random.normal(size=(500, 3))).argmax(axis=1)]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    path = tmp_path / "model.onnx"
    path.write_bytes(to_onnx(pipeline, rows, options={"zipmap": False}).SerializeToString())
    batch = pa.record_batch([pa.array(column) for column in rows.T], list("wxyz"))

    for loss, truth in (
        ("0-1", np.searchsorted(ANIMALS.values, pipeline.predict(rows))),
        ("brier", pipeline.predict_proba(rows)),
    ):
        needed = expected(500, loss, ANIMALS)
        model = pickle.loads(pickle.dumps(OnnxModel.open(path, needed)))  # noqa: S301
        assert model.digest == hashlib.sha256(path.read_bytes()).hexdigest()
        model.check(batch.schema)
        found = model.predict(batch.schema, [batch], Limits(), hidden=True)
        (answer,) = checked_answers(found, needed, 1, 500)
        assert np.allclose(answer, truth, atol=1e-5)


def test_categories_unknown_to_the_model_may_be_made_up() -> None:
    """The trial's empty text is no reason to refuse a model that knows all texts of the table."""
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import StringTensorType
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    words = np.array([["red"], ["blue"], ["red"], ["green"]])
    pipeline = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(words, [1, 0, 1, 0])
    exported = to_onnx(
        pipeline,
        initial_types=[("colour", StringTensorType([None, 1]))],
        options={"zipmap": False},
    )
    batch = pa.record_batch({"colour": words[:, 0].tolist()})
    needed = expected(4, "0-1", Classes.of([0, 1]))
    assert predict(exported.SerializeToString(), needed, batch).tolist() == [1, 0, 1, 0]


def test_random_numbers_are_the_same_each_time() -> None:
    nodes = [
        helper.make_node("RandomNormalLike", ["x"], ["noise"]),
        helper.make_node("ReduceSum", ["noise", "axis"], ["y"], keepdims=0),
    ]
    content = row_wise(nodes, constant("axis", [1], np.int64), out=value("y", FLOAT, ["N"]))
    once, again = (predict(content, expected(4, REAL), columns()) for _ in range(2))
    assert once.tolist() == again.tolist()
    assert len(set(once.tolist())) == 4


# --- Files that are no models, or bad ones ---


@pytest.mark.parametrize(
    "content",
    [
        b"",
        np.random.default_rng(1).bytes(1000),
        models.classifier(WEIGHTS)[:-30],
        models.classifier(WEIGHTS)[:10],
        b"PK\x03\x04 not a model",
    ],
    ids=["empty", "random", "truncated", "almost nothing", "zip"],
)
def test_no_model(content: bytes) -> None:
    assert refusal(content) == "no ONNX model, or a damaged one: export it again"


def test_what_no_file_is_named(tmp_path: Path) -> None:
    for path, line in ((tmp_path / "none", "cannot be read"), (tmp_path, "a folder given")):
        with pytest.raises(InvalidInput, match=line):
            OnnxModel.open(path, expected(4, "0-1", ANIMALS))


def test_too_large_a_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    with path.open("wb") as file:
        file.truncate(onnx_checks.LARGEST_FILE + 1)
    with pytest.raises(InvalidInput, match=r"large\.onnx: 513 MB given, 512 MB or less needed"):
        OnnxModel.open(path, expected(4, "0-1", ANIMALS))


def test_a_graph_that_hangs_together_nowhere() -> None:
    content = row_wise([helper.make_node("Relu", ["nothing"], ["y"])])
    assert refusal(content).startswith("no valid ONNX model: ")


def one_node(operator: str, domain: str = "", **options: Any) -> bytes:
    """Give a model of a single operator, which takes and gives three numbers for a row."""
    body = graph(
        [helper.make_node(operator, ["x"], ["y"], domain=domain)],
        [value("x", FLOAT, ["N", 3])],
        [value("y", FLOAT, ["N", 3])],
    )
    return models.content(body, **({"domains": {domain: 1}} if domain else {}) | options)


class TestOtherFiles:
    LINE = "kept in another file, all data must be in the model itself"

    def test_of_weights(self) -> None:
        weights = models.external(constant("w", WEIGHTS))
        assert self.LINE in refusal(
            row_wise([helper.make_node("MatMul", ["x", "w"], ["y"])], weights)
        )

    def test_in_a_branch(self) -> None:
        branch = models.subgraph(models.external(constant("c", [1.0])))
        assert self.LINE in refusal(models.branching(branch))

    def test_in_a_node_of_a_branch(self) -> None:
        kept = helper.make_node("Constant", [], ["c"], value=models.external(constant("c", [1.0])))
        assert self.LINE in refusal(models.branching(models.subgraph(nodes=[kept])))

    def test_in_a_function(self) -> None:
        kept = helper.make_node("Constant", [], ["c"], value=models.external(constant("c", [1.0])))
        body = [kept, helper.make_node("Add", ["p", "c"], ["q"])]
        assert self.LINE in refusal(models.with_function(body))

    def test_of_a_sparse_tensor(self) -> None:
        values = models.external(constant("w", [1.0]))
        sparse = helper.make_sparse_tensor(values, constant("", [0], np.int64), [9])
        body = models.model(
            graph(
                [helper.make_node("MatMul", ["x", "w"], ["y"])],
                [value("x", FLOAT, ["N", 3])],
                [value("y", FLOAT, ["N", 3])],
            )
        )
        body.graph.sparse_initializer.append(sparse)
        assert self.LINE in refusal(body.SerializeToString())

    def test_by_an_address_in_memory(self) -> None:
        weights = constant("w", WEIGHTS)
        weights.data_location = onnx.TensorProto.EXTERNAL
        for key, text in (("location", "*/_ORT_MEM_ADDR_/*"), ("offset", "4096")):
            weights.external_data.add(key=key, value=text)
        assert self.LINE in refusal(
            row_wise([helper.make_node("MatMul", ["x", "w"], ["y"])], weights)
        )


class TestOperators:
    def test_of_another_domain(self) -> None:
        line = refusal(one_node("Upload", "evil"))
        assert line == "operator 'evil.Upload' given, only those of onnxruntime itself are run"

    def test_constant_without_output(self) -> None:
        """The server failed at it, six times."""
        kept = helper.make_node("Constant", [], [], value=constant("c", [1.0]))
        copied = helper.make_node("Identity", ["x"], ["y"])
        line = refusal(row_wise([kept, copied]))
        assert line.startswith("no valid ONNX model: ")

    def test_unknown_to_onnxruntime(self) -> None:
        assert "com.microsoft:Upload" in refusal(one_node("Upload", "com.microsoft"))

    def test_of_onnxruntime(self) -> None:
        content = one_node("Gelu", "com.microsoft")
        assert predict(content, expected(4, "0-1", ANIMALS), columns()).tolist() == [2, 1, 0, 1]

    def test_made_of_known_ones(self) -> None:
        inner = models.function("negative", [helper.make_node("Neg", ["p"], ["q"])])
        content = models.with_function(models.calls("negative", 3), inner)
        assert predict(content, expected(4, "0-1", ANIMALS), columns()).tolist() == [0, 0, 1, 0]

    def test_made_of_unknown_ones(self) -> None:
        inner = models.function("hidden", [helper.make_node("Upload", ["p"], ["q"], domain="evil")])
        line = refusal(models.with_function(models.calls("hidden"), inner))
        assert line.startswith("operator 'evil.Upload' given")

    def test_of_a_function_that_is_not_there(self) -> None:
        line = refusal(models.with_function(models.calls("gone")))
        assert line.startswith("operator 'mine.gone' given")

    def test_newer_than_onnxruntime(self) -> None:
        newest = onnx.defs.onnx_opset_version()
        assert f"opset {newest} of ai.onnx given, " in refusal(one_node("Relu", opset=newest))


class TestBombs:
    """Few bytes that stand for gigabytes."""

    def added(self, nodes: list[Any], *constants: Any) -> bytes:
        return row_wise([*nodes, helper.make_node("Add", ["x", "z"], ["y"])], *constants)

    @pytest.mark.parametrize("raw", [True, False])
    @pytest.mark.parametrize("dims", [[1 << 40], [2], [0], [-1], [1] * 65])
    def test_dimensions_without_the_data(self, raw: bool, dims: list[int]) -> None:
        tensor = constant("z", [1.0])
        if not raw:
            tensor = helper.make_tensor("z", FLOAT, [1], [1.0])
        tensor.ClearField("dims")
        tensor.dims.extend(dims)
        line = refusal(self.added([], tensor))
        assert "declared, other data given" in line or "65 dimensions given, 64 at most" in line

    def test_functions_that_call_functions(self) -> None:
        last = models.function("f9", [helper.make_node("Neg", ["p"], ["q"])])
        inner = [models.function(f"f{n}", models.calls(f"f{n + 1}", 10)) for n in range(9)]
        content = models.with_function(models.calls("f0", 10), *inner, last)
        assert refusal(content) == "more than 250,000 nodes and tensors given, fewer needed"

    def test_functions_that_call_themselves(self) -> None:
        line = refusal(models.with_function(models.calls("twice")))
        assert line == "function 'twice': calls of calls deeper than 50, or without end"

    def test_too_many_nodes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(onnx_checks, "MOST_PARTS", 2)
        assert refusal(models.classifier(WEIGHTS)).startswith("more than 2 nodes and tensors given")

    @pytest.mark.parametrize("operator", ["ConstantOfShape", "Expand", "Tile", "RandomNormal"])
    def test_shapes_meet_the_limit_of_the_run(self, operator: str) -> None:
        taken = {"ConstantOfShape": ["shape"], "RandomNormal": []}.get(operator, ["one", "shape"])
        shape: Any = {"shape": [1 << 20, 1 << 20]} if operator == "RandomNormal" else {}
        constants = constant("one", [[1.0]]), constant("shape", [1 << 20, 1 << 20], np.int64)
        made = helper.make_node(operator, taken, ["z"], **shape)
        line = refusal(self.added([made], *constants))
        assert line.startswith("on a made-up row of these columns, the model failed: ")

    def test_ranges_meet_the_limit_of_the_run(self) -> None:
        ends = {"start": 0, "stop": 1e12, "step": 1}
        made = helper.make_node("Range", list(ends), ["z"])
        constants = (constant(name, end, np.float32) for name, end in ends.items())
        line = refusal(self.added([made], *constants))
        assert line.startswith("on a made-up row of these columns, the model failed: ")

    def test_what_is_computed_meets_the_limit_of_the_run(self) -> None:
        nodes = [
            helper.make_node("Mul", ["shape", "shape"], ["squared"]),
            helper.make_node("ConstantOfShape", ["squared"], ["z"]),
        ]
        line = refusal(self.added(nodes, constant("shape", [1 << 20], np.int64)))
        assert line.startswith("on a made-up row of these columns, the model failed: ")

    @pytest.mark.slow
    def test_millions_of_empty_nodes_are_refused_at_little_cost(self, tmp_path: Path) -> None:
        """Two bytes each in the file, and 150 each in memory."""
        path = tmp_path / "model.onnx"
        path.write_bytes(b"\x3a\x80\x80\x80\x04" + b"\x0a\x00" * (1 << 22))
        cost = cost_of("onnx", path)
        assert cost.refusal
        assert "\n" not in cost.refusal
        assert cost.megabytes < 30

    def test_every_cut_is_refused_in_one_line(self) -> None:
        content = models.linear(WEIGHTS)
        assert onnx_checks.inspect(content).outputs
        for end in range(len(content)):
            with pytest.raises(InvalidInput, match=r"^[^\n]+$"):
                onnx_checks.inspect(content[:end])

    def test_a_child_finds_the_same(self, apart: None) -> None:
        content = models.linear(WEIGHTS)
        assert onnx_checks.inspect_apart(content) == onnx_checks.inspect(content)
        for broken in (b"", content[:-5]):
            with pytest.raises(InvalidInput) as here:
                onnx_checks.inspect(broken)
            with pytest.raises(InvalidInput) as there:
                onnx_checks.inspect_apart(broken)
            assert str(here.value) == str(there.value)


# --- Columns and outputs that do not fit ---


class TestColumns:
    def matrix(self, kind: int, size: int | None = 3) -> bytes:
        body = graph(
            [helper.make_node("Cast", ["x"], ["y"], to=FLOAT)],
            [value("x", kind, ["N", size])],
            [value("y", FLOAT, ["N", size])],
        )
        return models.content(body)

    def test_too_few(self) -> None:
        line = refusal(
            models.linear(WEIGHTS), schema=pa.schema([("a", pa.int8()), ("b", pa.int8())])
        )
        assert line == (
            "model input 'x' float32[?, 3] given, a matrix [?, 2] needed, "
            "for the columns 'a (int8)', 'b (int8)'"
        )

    def test_too_few_for_what_a_model_does_not_say(self) -> None:
        content = models.linear(WEIGHTS, size="F")
        line = refusal(content, schema=pa.schema([("a", pa.int8()), ("b", pa.int8())]))
        assert line.startswith("on a made-up row of these columns, the model failed: ")
        assert "dimension" in line

    def test_of_other_names(self) -> None:
        schema = pa.schema([("a", pa.float32()), ("b", pa.int64()), ("d", pa.string())])
        line = refusal(models.by_column(), expected(4, REAL), schema)
        assert line == (
            "model inputs 'a' float32[?, 1], 'b' int64[?, 1], 'c' str[?, 1] given, one for each "
            "column, named as it, or a single matrix of all: 'a (float)', 'b (int64)', "
            "'d (string)' needed"
        )

    @pytest.mark.parametrize(
        ("kind", "taken"),
        [
            (pa.string(), DOUBLE),
            (pa.string(), FLOAT),
            (pa.timestamp("s"), FLOAT),
            (pa.list_(pa.float32()), FLOAT),
            (pa.list_(pa.float32(), 3), FLOAT),
            (pa.float64(), INT64),
            (pa.uint64(), INT64),
            (pa.int64(), onnx.TensorProto.INT32),
            (pa.int64(), onnx.TensorProto.BOOL),
            (pa.int64(), onnx.TensorProto.STRING),
            (pa.int64(), onnx.TensorProto.BFLOAT16),
        ],
    )
    def test_of_other_types(self, kind: Any, taken: int) -> None:
        schema = pa.schema([("a", pa.bool_()), ("b", pa.bool_()), ("odd", kind)])
        line = refusal(self.matrix(taken), schema=schema)
        assert "one that takes the column" in line

    def test_one_row_at_a_time(self) -> None:
        body = graph(
            [helper.make_node("Relu", ["x"], ["y"])],
            [value("x", FLOAT, [1, 3])],
            [value("y", FLOAT, [1, 3])],
        )
        assert "export it with a dynamic first size" in refusal(models.content(body))

    def test_lists_of_another_size(self) -> None:
        schema = pa.schema([("pixels", pa.list_(pa.float32(), 4))])
        line = refusal(models.linear(WEIGHTS), schema=schema)
        assert line == "model input 'x' float32[?, 3] given, [?, 4] needed for the column 'pixels'"

    @pytest.mark.parametrize("hidden", [True, False])
    def test_missing_where_there_is_no_nan(self, hidden: bool) -> None:
        model = OnnxModel.of(self.matrix(INT64), expected(2, "0-1", ANIMALS))
        batch = pa.record_batch({"a": [1, 2], "b": [3, None], "c": [4, 5]})
        with pytest.raises(ModelFailed) as failed:
            list(model.predict(batch.schema, [batch], Limits(), hidden=hidden))
        line = "column 'b': a value is missing, which int64 cannot say: "
        hint = "train the model on float inputs, or without this column"
        constant_line = "the model failed on hidden inputs"
        assert str(failed.value) == (constant_line if hidden else line + hint)


class TestUnfitOutputs:
    def test_maps_of_scikit_learn(self) -> None:
        line = refusal(models.zip_map())
        assert line == (
            "model outputs 'maps' sequence[?] given, classes as integers or text [?], "
            "or scores as float [?, 3] needed: export it with zipmap=False"
        )

    @pytest.mark.parametrize(
        ("loss", "classes", "needed"),
        [
            ("0-1", DIGITS, "classes as integers or text [?], or scores as float [?, 10] needed"),
            ("brier", DIGITS, "probabilities as float [?, 10] needed"),
            ("top-2", DIGITS, "scores as float [?, 10] needed"),
            (REAL, None, "numbers [?] or [?, 1] needed"),
        ],
    )
    def test_of_another_shape(self, loss: str, classes: Classes | None, needed: str) -> None:
        line = refusal(models.linear(WEIGHTS), expected(4, loss, classes))
        assert line == f"model outputs 'scores' float32[?, 3] given, {needed}"

    def test_that_turn_out_to_be_of_another_shape(self) -> None:
        nodes = [helper.make_node("Transpose", ["x"], ["y"])]
        assert "output of shape 3 x 1 given, 1, or 1 x 3 needed" in refusal(row_wise(nodes))


# --- Models that fail when they are run ---


@pytest.mark.usefixtures("_each_way")
class TestFailures:
    def failure(
        self, content: bytes, rows: Any, limits: Limits = SHORT, *, hidden: bool = False
    ) -> str:
        batch = columns(rows)
        model = OnnxModel.of(content, expected(len(rows), REAL))
        with pytest.raises(ModelFailed) as failed:
            list(model.predict(batch.schema, [batch], limits, hidden=hidden))
        assert failed.value.__context__ is None
        return str(failed.value)

    @pytest.mark.parametrize("hidden", [True, False])
    def test_on_some_rows(self, hidden: bool) -> None:
        rows = np.array([[0.0], [7.0]])
        OnnxModel.of(models.picky(), expected(2, REAL)).check(columns(rows).schema)
        line = self.failure(models.picky(), rows, hidden=hidden)
        assert line == "the model failed on hidden inputs" if hidden else "idx=7" in line

    @pytest.mark.parametrize("hidden", [True, False])
    def test_without_end(self, hidden: bool) -> None:
        line = self.failure(models.endless(), ROWS, Limits(seconds=2), hidden=hidden)
        hidden_line = "the model failed on hidden inputs"
        assert line == (
            hidden_line if hidden else "the model failed: it took longer than 2 seconds"
        )

    def test_by_taking_more_and_more_memory(self) -> None:
        line = self.failure(models.growing(), ROWS, Limits(seconds=30, memory=1 << 30))
        assert "took longer" not in line

    def test_closing_the_answers_ends_the_run(self) -> None:
        batch = columns()
        model = OnnxModel.of(models.linear(WEIGHTS[:, :1]), expected(4, REAL))

        def endless() -> Iterator[pa.RecordBatch]:
            while True:
                yield batch

        # By identity, not by number: a thread of an earlier test may end at any moment.
        before = set(threading.enumerate())
        found: Any = model.predict(batch.schema, endless(), Limits(), hidden=True)
        assert next(found).num_rows > 0
        assert set(threading.enumerate()) - before
        found.close()
        assert not set(threading.enumerate()) - before


def test_a_model_without_end_is_refused_in_its_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_model, "_TRIAL", Limits(seconds=1))
    assert "it took longer than 1 seconds" in refusal(models.endless(), expected(4, REAL))


def test_no_input_is_touched_before_the_columns_are_known_to_fit() -> None:
    model = OnnxModel.of(models.linear(WEIGHTS), expected(4, "0-1", ANIMALS))
    with pytest.raises(InvalidInput, match="a matrix"):
        list(model.predict(THREE.remove(0), untouchable(), Limits(), hidden=True))


def test_the_runner_needs_nothing_of_this_package_nor_pandas(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As a plain program, far from here, with the interpreter's own paths only.

    Before, pyarrow imported pandas at each start of a model, which took as long as all else.
    """
    first = tmp_path_factory.mktemp("first")
    (first / "pandas.py").write_text("import sys; print('pandas', file=sys.stderr)")
    (tmp_path / "model.onnx").write_bytes(models.linear(WEIGHTS[:, :1]))
    plan = {"threads": 1, "seconds": 60, "memory": 4 << 30, "output": "scores", "width": 0}
    (tmp_path / "plan.json").write_text(json.dumps({**plan, "shapes": {"x": [3]}}))
    lists = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.astype(np.float32).ravel()), 3)
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"x": lists})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch.slice(2))
    program = "import sys; sys.modules['easeml_meter'] = None; import runpy, os; "
    program += f"sys.path.insert(0, {str(first)!r}); "
    program += f"runpy.run_path({onnx_runner.__file__!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, "model.onnx", "plan.json"],
        input=sink.getvalue().to_pybytes(),
        capture_output=True,
        cwd=tmp_path,
        env={"HOME": str(tmp_path)},
        check=True,
    )
    found = pa.ipc.open_stream(done.stdout).read_all()["prediction"].to_pylist()
    truth = (ROWS @ WEIGHTS[:, 0]).tolist()
    assert found == truth + truth[2:]
    assert done.stderr == b""
    # onnxruntime would keep here what it is about to report to its makers.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.onnx", "plan.json"]
