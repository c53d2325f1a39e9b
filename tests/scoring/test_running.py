"""Models, run on hidden and on visible rows: cut the same way, failing in the right words."""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scoring import functions
from tests.scoring.examples import write

from easeml_meter.errors import InvalidInput, MeterError, VaultError
from easeml_meter.scoring import running
from easeml_meter.scoring.losses import Loss, LossFailed, Sums, ZeroOne, parse_loss
from easeml_meter.scoring.predictor import (
    FunctionModel,
    Limits,
    ModelFailed,
    Predictor,
    SandboxUnavailable,
)
from easeml_meter.scoring.running import (
    SHARD_ROWS,
    HiddenRows,
    ShardTask,
    VisibleRows,
    score_model,
    shards,
)
from easeml_meter.scoring.score import Score, Unscorable
from easeml_meter.scoring.silence import be_heard, silence
from easeml_meter.scoring.validation import Validation
from easeml_meter.vault.sealing import SealedTestSet

LIMITS = Limits()
INPUTS = pa.schema([("size", pa.float64()), ("weight", pa.float64())])
ABSOLUTE = "absolute[-3,3]"


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[SealedTestSet]:
    """Hide 300 rows with numbers as labels."""
    with functions.hidden(functions.labelled(ABSOLUTE, 300), tmp_path, ABSOLUTE) as opened:
        yield opened


def visible(path: Path, loss: str | Loss, inputs: pa.Schema = INPUTS) -> VisibleRows:
    classes = functions.CLASSES.get(loss) if isinstance(loss, str) else None
    loss = parse_loss(loss) if isinstance(loss, str) else loss
    return VisibleRows.of(Validation.open(path, label="label", loss=loss, classes=classes), inputs)


def model(function: Callable[[pa.RecordBatch], Any]) -> FunctionModel:
    return FunctionModel(function, "mine")


# --- Shards ---


def test_shards_take_as_many_row_groups_as_fit() -> None:
    half = SHARD_ROWS // 2
    assert shards([]) == []
    assert shards([1]) == [range(1)]
    assert shards([half, half]) == [range(2)]
    assert shards([half, half, 1]) == [range(2), range(2, 3)]
    assert shards([half, half + 1, 1]) == [range(1), range(1, 3)]
    assert shards([2 * SHARD_ROWS, 1]) == [range(1), range(1, 2)]
    assert shards([1, 2 * SHARD_ROWS]) == [range(1), range(1, 2)]


@given(st.lists(st.integers(1, SHARD_ROWS), max_size=40))
def test_shards_are_all_row_groups_in_order(sizes: list[int]) -> None:
    found = shards(sizes)
    assert [group for groups in found for group in groups] == list(range(len(sizes)))
    rows = [sum(sizes[group] for group in groups) for groups in found]
    assert all(count <= SHARD_ROWS for count in rows)
    for before, groups in zip(rows, found[1:], strict=False):
        assert before + sizes[groups.start] > SHARD_ROWS


def test_a_model_runs_on_each_shard_and_on_half_of_it_again(
    sealed: SealedTestSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SHARD_ROWS", 130)
    runs: list[int] = []

    @dataclass(frozen=True)
    class Counted(FunctionModel):
        def predict(
            self,
            inputs: pa.Schema,
            batches: Iterable[pa.RecordBatch],
            limits: Limits,
            *,
            hidden: bool,
        ) -> Iterator[pa.RecordBatch]:
            assert (inputs, hidden) == (INPUTS, True)
            # A second run has what is left of the time.
            assert (limits == LIMITS) is (len(runs) % 8 == 0)
            assert replace(limits, seconds=LIMITS.seconds) == LIMITS
            table = pa.Table.from_batches(batches)
            assert table.schema == INPUTS
            runs.append(len(table))
            (batch,) = table.combine_chunks().to_batches()
            for at in range(0, len(table), 50):  # other pieces than the inputs came in
                yield from super().predict(inputs, [batch.slice(at, 50)], limits, hidden=hidden)

    source = functions.rows_of(sealed, ABSOLUTE)
    whole = score_model(model(functions.numbers), source, LIMITS)
    assert score_model(Counted(functions.numbers, "mine"), source, LIMITS) == whole
    assert runs[::8] == [128, 128, 44]
    assert [sum(runs[at + 1 : at + 8]) for at in (0, 8, 16)] == [64, 64, 22]
    assert whole.count == 300


# --- Hidden rows ---


def short(batch: pa.RecordBatch) -> Any:
    return functions.numbers(batch)[1:]


def long(batch: pa.RecordBatch) -> Any:
    return np.zeros(batch.num_rows + 1)


def not_finite(batch: pa.RecordBatch) -> Any:
    return np.full(batch.num_rows, np.nan)


def outside(batch: pa.RecordBatch) -> Any:
    values = functions.numbers(batch)
    values[2] = 77
    return values


def texts(batch: pa.RecordBatch) -> Any:
    return ["x"] * batch.num_rows


def no_column(batch: pa.RecordBatch) -> Any:
    return pa.RecordBatch.from_pydict({"a": [1] * batch.num_rows, "b": [1] * batch.num_rows})


def twice(batch: pa.RecordBatch) -> Any:
    values = pa.array(functions.numbers(batch))
    return pa.RecordBatch.from_arrays([values, values], ["prediction", "prediction"])


def broken(batch: pa.RecordBatch) -> Any:
    offsets = pa.py_buffer(np.array([0, 99, 1, 2], np.int32))
    return pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"ab")])


def cube(batch: pa.RecordBatch) -> Any:
    return np.zeros((batch.num_rows, 1, 1))


WRONG = (
    short,
    long,
    not_finite,
    outside,
    texts,
    no_column,
    twice,
    broken,
    cube,
    functions.telling,
    functions.leaving,
)


def test_every_failure_on_hidden_rows_looks_the_same(
    sealed: SealedTestSet, capfd: pytest.CaptureFixture[str]
) -> None:
    source = functions.rows_of(sealed, ABSOLUTE)
    failing = [(model(function), source) for function in WRONG]
    for name in ("raising", "too_large", "too_few"):
        own = parse_loss(f"tests.scoring.examples:{name}[real]")
        failing.append((model(functions.numbers), HiddenRows.of(sealed, own, None)))
    narrow = parse_loss("absolute[-0.1,0.1]")  # labels that do not fit
    failing.append(
        (model(lambda batch: [0.0] * batch.num_rows), HiddenRows.of(sealed, narrow, None))
    )
    seen = set()
    for predictor, rows in failing:
        with pytest.raises(Unscorable) as failed:
            score_model(predictor, rows, LIMITS)
        seen.add(str(failed.value))
        assert failed.value.__context__ is None
    assert len(seen) == 1
    assert capfd.readouterr() == ("", "")


def test_a_failure_in_the_last_shard_is_one_of_the_whole(
    sealed: SealedTestSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "SHARD_ROWS", 64)

    def failing_late(batch: pa.RecordBatch) -> Any:
        return texts(batch) if batch.num_rows == 44 else functions.numbers(batch)

    told: list[int] = []
    with pytest.raises(Unscorable):
        score_model(
            model(failing_late),
            functions.rows_of(sealed, ABSOLUTE),
            LIMITS,
            progress=lambda done, _: told.append(done),
        )
    assert told == [64, 128, 192, 256]


def test_what_is_no_fault_of_the_model_stays_what_it_is(
    sealed: SealedTestSet, tmp_path: Path
) -> None:
    source = functions.rows_of(sealed, ABSOLUTE)
    wrong = replace(source, grant=replace(sealed.grant(), _secret=bytes(64)))
    with pytest.raises(VaultError):
        score_model(model(functions.numbers), wrong, LIMITS)
    raw = bytearray((tmp_path / "hidden.sealed").read_bytes())
    raw[100:200] = bytes(100)  # in the first row group
    (tmp_path / "hidden.sealed").write_bytes(raw)
    for predictor in (model(functions.numbers), Blaming(functions.numbers, "mine")):
        with pytest.raises(VaultError):
            score_model(predictor, source, LIMITS)
    (tmp_path / "hidden.sealed").unlink()
    with pytest.raises(InvalidInput, match="cannot be read"):
        score_model(model(functions.numbers), source, LIMITS)


@dataclass(frozen=True)
class Blaming(FunctionModel):
    """Takes inputs that cannot be read for a failure of its own."""

    def predict(
        self, inputs: pa.Schema, batches: Iterable[pa.RecordBatch], limits: Limits, *, hidden: bool
    ) -> Iterator[pa.RecordBatch]:
        try:
            yield from super().predict(inputs, batches, limits, hidden=hidden)
        except MeterError:
            raise ModelFailed("the model failed") from None


@dataclass(frozen=True)
class Choosy(FunctionModel):
    """Cannot run where a variable is not set."""

    def check(self, inputs: pa.Schema) -> None:
        raise AssertionError("checked a second time")

    def predict(
        self, inputs: pa.Schema, batches: Iterable[pa.RecordBatch], limits: Limits, *, hidden: bool
    ) -> Iterator[pa.RecordBatch]:
        if "CHOOSY" not in os.environ:
            raise SandboxUnavailable("model: no CHOOSY here, set it")
        yield from super().predict(inputs, batches, limits, hidden=hidden)


def test_a_machine_that_lacks_something_is_no_answer(
    sealed: SealedTestSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    choosy, source = Choosy(functions.numbers, "mine"), functions.rows_of(sealed, ABSOLUTE)
    with pytest.raises(SandboxUnavailable, match="no CHOOSY here"):
        score_model(choosy, source, LIMITS)
    with pytest.raises(SandboxUnavailable, match="no CHOOSY here"):
        ShardTask(choosy, source, LIMITS, range(1), 1, 64).total()
    monkeypatch.setenv("CHOOSY", "1")
    assert score_model(choosy, source, LIMITS).count == 300


def test_labels_alone_take_no_model(tmp_path: Path) -> None:
    table = functions.labelled(ABSOLUTE, 10).select(["label"])
    with (
        functions.hidden(table, tmp_path, ABSOLUTE) as sealed,
        pytest.raises(InvalidInput, match="no inputs to run a model on: submit predictions"),
    ):
        functions.rows_of(sealed, ABSOLUTE)


# --- Visible rows ---


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv", ".jsonl"])
@pytest.mark.parametrize("loss", functions.CLASSES)
def test_visible_rows_score_as_hidden_ones_do(tmp_path: Path, loss: str, ending: str) -> None:
    table = functions.labelled(loss, 200)
    predictor = model(functions.MODELS[loss])
    with functions.hidden(table, tmp_path, loss) as sealed:
        found = score_model(predictor, functions.rows_of(sealed, loss), LIMITS)
    source = visible(write(tmp_path / f"seen{ending}", table.to_pydict()), loss)
    assert score_model(predictor, source, LIMITS) == found
    assert found.count == 200


def test_inputs_have_the_types_of_the_test_set(tmp_path: Path) -> None:
    inputs = pa.schema([("size", pa.float32()), ("name", pa.string())])
    columns = {"name": [7, 8], "label": [0.5, 0.5], "size": [1, 2], "spare": ["a", "b"]}
    seen: list[pa.RecordBatch] = []

    def kept(batch: pa.RecordBatch) -> Any:
        seen.append(batch)
        return np.ones(batch.num_rows)

    for ending in (".parquet", ".csv"):
        source = visible(write(tmp_path / f"seen{ending}", columns), "absolute[0,1]", inputs)
        assert score_model(model(kept), source, LIMITS).mean == 0.5
    assert [batch.schema for batch in seen] == [inputs] * 4
    assert seen[0] == seen[2]
    assert seen[0].to_pydict() == {"size": [1.0, 2.0], "name": ["7", "8"]}


def test_inputs_that_do_not_fit_are_named(tmp_path: Path) -> None:
    columns = {"size": ["1.5", "many"], "label": [0.5, 0.5]}
    path = write(tmp_path / "seen.parquet", columns)
    with pytest.raises(InvalidInput, match="no column 'weight', which is an input of the test set"):
        visible(path, "absolute[0,1]")
    source = visible(path, "absolute[0,1]", pa.schema([("size", pa.float64())]))
    for predictor in (model(functions.numbers), Blaming(functions.numbers, "mine")):
        with pytest.raises(InvalidInput, match=r"column 'size' of type string given, .* double"):
            score_model(predictor, source, LIMITS)
    with pytest.raises(InvalidInput, match=r"seen\.csv: column 'size': a value that is not of"):
        visible(
            write(tmp_path / "seen.csv", columns),
            "absolute[0,1]",
            pa.schema([("size", pa.float64())]),
        )


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (short, "the model's predictions: 20 rows given, 30 needed, one per example"),
        (long, "the model's predictions: more than 30 rows given, 30 needed"),
        (not_finite, "the model's predictions: row 1: nan given, a finite number needed"),
        (outside, "the model's predictions: row 3: 77.0 given, a number from -3.0 to 3.0 needed"),
        (texts, "the model's predictions: row 1: 'x' given, a finite number needed"),
        (no_column, "the model's predictions: columns 'a', 'b' given, a column named prediction"),
        (twice, "the model's predictions: two columns named 'prediction'"),
        (broken, "the model's predictions: no valid Arrow data given"),
        (cube, "the model failed: ArrowInvalid: 'only handle 1-dimensional arrays'"),
        (functions.leaving, "the model failed: SystemExit: 'secret'"),
    ],
)
def test_failures_on_visible_rows_are_told(
    tmp_path: Path, function: Callable[[pa.RecordBatch], Any], line: str
) -> None:
    path = write(tmp_path / "seen.parquet", functions.labelled(ABSOLUTE, 30).to_pydict())
    with pytest.raises(ModelFailed) as failed:
        score_model(model(function), visible(path, ABSOLUTE), LIMITS)
    assert str(failed.value).startswith(line)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize("answer", [[1] * 8, [[0.5, 0.5]] * 8], ids=["places", "scores"])
def test_places_of_undeclared_classes_are_refused_on_visible_rows(
    tmp_path: Path, answer: list[Any]
) -> None:
    """They are found there, free of charge, before the model sees a hidden row."""
    path = write(
        tmp_path / "v.csv", {"size": [0.5] * 8, "weight": [1.5] * 8, "label": [*"abababab"]}
    )
    with pytest.raises(ModelFailed, match="given for classes of unknown order"):
        score_model(model(lambda batch: answer), visible(path, ZeroOne()), LIMITS)
    names = model(lambda batch: ["a"] * len(batch))
    assert score_model(names, visible(path, ZeroOne()), LIMITS).mean == 0.5


def test_a_loss_that_fails_on_visible_rows_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "seen.csv", functions.labelled(ABSOLUTE, 30).to_pydict())
    source = visible(path, "tests.scoring.examples:too_large[real]")
    with pytest.raises(LossFailed, match=r"returned a loss outside \[0, 1\]"):
        score_model(model(functions.numbers), source, LIMITS)


def test_a_file_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    table = functions.labelled(ABSOLUTE, 30)
    path = write(tmp_path / "seen.parquet", table.to_pydict())
    source = visible(path, ABSOLUTE)
    write(path, table.slice(1).to_pydict() | {"label": table["label"].to_pylist()[:29]})
    with pytest.raises(InvalidInput):
        score_model(model(functions.numbers), source, LIMITS)
    write(path, {name: values[::-1] for name, values in table.to_pydict().items()})
    with pytest.raises(InvalidInput, match="changed while it was read"):
        score_model(model(functions.numbers), source, LIMITS)


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_many_visible_rows_are_read_shard_by_shard(tmp_path: Path, ending: str) -> None:
    rows = 2 * SHARD_ROWS + 5
    table = pa.table({"size": np.arange(rows) % 7 / 7, "label": np.arange(rows) % 5 / 5})
    path = tmp_path / f"seen{ending}"
    if ending == ".parquet":
        pq.write_table(table, path, row_group_size=300_000)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=300_000)
    told: list[int] = []
    source = visible(path, "absolute[0,1]", pa.schema([("size", pa.float64())]))
    predictor = model(lambda batch: batch.column("size"))
    found = score_model(predictor, source, LIMITS, progress=lambda done, _: told.append(done))
    assert told == [SHARD_ROWS, 2 * SHARD_ROWS, rows]
    losses = np.abs(table["size"].to_numpy() - table["label"].to_numpy())
    assert float(found.mean) == pytest.approx(losses.mean(), abs=1e-9)
    middle = pa.Table.from_batches(source.inputs_of(range(1, 2)))
    assert middle == table.select(["size"]).slice(SHARD_ROWS, SHARD_ROWS)


# --- Functions ---


def same(answers: Any, batch: pa.RecordBatch) -> Any:
    return answers[: batch.num_rows]


def test_what_a_function_may_give(tmp_path: Path) -> None:
    columns = {"size": [1.0, 2.0], "label": ["cat", "owl"]}
    path = write(tmp_path / "seen.parquet", columns)
    source = VisibleRows.of(
        Validation.open(
            path, label="label", loss=parse_loss("0-1"), classes=functions.CLASSES["0-1"]
        ),
        pa.schema([("size", pa.float64())]),
    )
    for answers in (
        ["cat", "cat"],
        np.array(["cat", "cat"]),
        pa.array(["cat", "cat"]),
        pa.chunked_array([["cat"], ["cat"]]),
        np.array([[0.9, 0.1, 0.0], [0.5, 0.4, 0.1]]),
        np.asfortranarray([[0.9, 0.1, 0.0], [0.5, 0.4, 0.1]]),
        pa.RecordBatch.from_pydict({"prediction": ["cat", "cat"], "beside": [1, 2]}),
        pa.RecordBatch.from_pydict(
            {f"probability_{name}": [0.5, 0.5] for name in functions.ANIMALS}
        ),
    ):
        found = score_model(model(partial(same, answers)), source, LIMITS)
        assert found == Score(Sums(1), 2), answers
    masked = np.ma.array(["cat", "cat"], mask=[False, True])
    with pytest.raises(ModelFailed, match="row 2: None given, no value may be missing"):
        score_model(model(partial(same, masked)), source, LIMITS)


def test_functions_are_told_apart_by_their_identity() -> None:
    predictor: Predictor = model(functions.numbers)
    assert predictor.digest == model(functions.classes).digest
    assert predictor.digest != FunctionModel(functions.numbers, "another").digest
    assert len(predictor.digest) == 64
    for identity in ("", " ", None):
        with pytest.raises(InvalidInput, match="identity"):
            FunctionModel(functions.numbers, identity)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="function"):
        FunctionModel("numbers", "mine")  # type: ignore[arg-type]


# --- Silence ---


def test_what_is_printed_in_silence_goes_to_the_null_device_and_is_let_go_of() -> None:
    with silence():
        print("once")
        nowhere = sys.stdout.fileno()
        assert os.path.samestat(os.fstat(nowhere), os.stat(os.devnull))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(nowhere)


def test_silence_lasts_until_the_last_thread_is_out(capsys: pytest.CaptureFixture[str]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with silence():
            inside.set()
            leave.wait()
            print("from the other")

    thread = threading.Thread(target=other)
    with silence():
        thread.start()
        inside.wait()
        print("from this one")
    print("still silent")
    warnings.warn("still silent", stacklevel=1)
    leave.set()
    thread.join()
    print("heard")
    assert capsys.readouterr() == ("heard\n", "")


def test_a_thread_that_waits_no_longer_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with silence():
            inside.set()
            leave.wait()
            print("from the other")

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    print("not yet")
    be_heard()
    print("the answer")
    print("a remark", file=sys.stderr)
    with silence():
        print("on hidden labels")
    print("silent again, like all others")
    leave.set()
    thread.join()
    assert capsys.readouterr() == ("the answer\n", "a remark\n")
