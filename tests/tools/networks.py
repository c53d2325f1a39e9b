"""Networks of torch and Keras: real fits, both forms, at a folder and as ONNX."""

# needs: torch==2.15.0 keras==3.15.1 onnxscript==0.7.2 onnx onnxruntime pytest

from __future__ import annotations

import copy
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

os.environ["KERAS_BACKEND"] = "torch"
import keras
import torch
from tests.hurry import hurry

from easeml_meter import Meter, MeterSpec
from easeml_meter.core.views import Signal
from easeml_meter.integrations import models

CLASSES = ("iris", "rose")


def flowers(rows: int, seed: int) -> tuple[pa.Table, Any, Any]:
    draw = np.random.default_rng(seed)
    inputs = draw.normal(size=(rows, 2)).astype(np.float32)
    kinds = (inputs.sum(axis=1) > 0).astype(np.int64)
    names = np.asarray(CLASSES)[kinds]
    table = pa.table({"wide": inputs[:, 0], "long": inputs[:, 1], "kind": names})
    return table, torch.from_numpy(inputs), torch.from_numpy(kinds)


def of_torch() -> Any:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)
    )
    _, inputs, kinds = flowers(400, 3)
    steps = torch.optim.Adam(net.parameters(), 0.05)
    for _ in range(100):
        steps.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs), kinds).backward()
        steps.step()
    return net


def of_keras() -> Any:
    keras.utils.set_random_seed(0)
    net = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(2, "softmax")]
    )
    net.compile("adam", "sparse_categorical_crossentropy")
    _, inputs, kinds = flowers(400, 3)
    net.fit(inputs.numpy(), kinds.numpy(), epochs=20, verbose=0)
    return net


def answer(meter: Meter, net: Any, form: models.Form) -> Signal:
    shown: list[Any] = []
    signal = models.submit(
        meter, net, inputs=["wide", "long"], classes=CLASSES, form=form, show=shown.append
    )
    print(f"{type(net).__name__} as {form}: band {signal.band}", *shown)
    assert signal.band == 1
    assert [(each.same, each.rows) for each in shown] == [(100, 100)] * (form == "onnx")
    return signal


def main(folder: Path) -> None:
    hurry()
    spec = MeterSpec.uniform(
        signals=3,
        edges=[0.1, 0.3],
        tolerance=0.2,
        steps=8,
        delta=0.2,
        models=True,
        classes=CLASSES,
    )
    meter = Meter.create(folder / "meter", spec)
    meter.set_validation(flowers(100, 1)[0], label="kind")
    meter.seal(flowers(meter.plan.labels, 2)[0], folder / "t", label="kind")
    meter.add_test_set(folder / "t")
    for net in (of_torch(), of_keras()):
        answer(meter, net, "function")
        answer(meter, net, "onnx")
        assert answer(meter, net, "function").repeated
    net = of_torch()
    was = models._known(net, CLASSES, "0-1").identity
    assert models._known(copy.deepcopy(net).eval(), CLASSES, "0-1").identity == was
    with torch.no_grad():
        net[0].weight[0, 0] += 1e-4
    assert models._known(net, CLASSES, "0-1").identity != was
    net = of_keras()
    path = folder / "net.keras"
    net.save(path)
    loaded = keras.models.load_model(path)
    same = [models._known(each, CLASSES, "0-1").identity for each in (net, loaded)]
    assert same[0] == same[1]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print("torch and Keras: both forms agree, and a network is known by its content")
