"""The whole loop on real data: handwritten digits, an eager developer, and a meter that climbs.

Run it with `make demo`. A labeler seals a test set; a developer with 60 validation images submits
twelve models, ever more tuned to those 60; the meter tells how far the validation score has
drifted; the budget runs out; the test set is released, and the truth is shown.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from easeml_meter import Meter, MeterSpec, RowMatching, Signal, reachable_tolerance
from easeml_meter.errors import Spent
from easeml_meter.report.terminal import history_terminal

Array = NDArray[Any]
TRAIN, VALIDATION = 120, 60


def table(images: Array, digits: Array, first: int) -> pa.Table:
    """Lay images out as columns, with an id and the label."""
    pixels = {f"pixel_{i}": images[:, i] for i in range(images.shape[1])}
    return pa.table({"id": np.arange(first, first + len(digits)), **pixels, "digit": digits})


def developer(images: Array, digits: Array) -> Any:
    """Develop models, one after the other, with an eye on the validation score alone."""
    train = images[:TRAIN], digits[:TRAIN]
    validation = images[TRAIN : TRAIN + VALIDATION], digits[TRAIN : TRAIN + VALIDATION]

    def best_of(count: int) -> Any:
        trees = (DecisionTreeClassifier(max_features=8, random_state=seed) for seed in range(count))
        return max((tree.fit(*train) for tree in trees), key=lambda tree: tree.score(*validation))

    def peeking(model: Any, share: float) -> Any:
        seen = int(share * VALIDATION)
        inputs = np.concatenate([train[0], validation[0][:seen]])
        return model.fit(inputs, np.concatenate([train[1], validation[1][:seen]]))

    yield "a tree", DecisionTreeClassifier(random_state=0).fit(*train)
    yield "a shallow tree", DecisionTreeClassifier(max_depth=6, random_state=0).fit(*train)
    for count in (3, 10, 30, 100, 300):
        yield f"best of {count} trees", best_of(count)
    for share in (0.25, 0.5, 1.0):
        tree = DecisionTreeClassifier(max_features=8, random_state=7)
        yield f"a tree that saw {share:.0%} of validation", peeking(tree, share)
    yield "a forest that saw it all", peeking(RandomForestClassifier(50, random_state=0), 1.0)
    yield "support vectors that saw it all", peeking(SVC(C=10, gamma=0.001), 1.0)


def main(folder: Path) -> None:
    """Run the loop in a folder."""
    console = Console(highlight=False)
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    images, digits = images[order], digits[order]
    hidden = TRAIN + VALIDATION

    wish = MeterSpec.uniform(
        signals=5,
        edges=[0.05, 0.1, 0.2, 0.3],
        tolerance=0.1,
        steps=12,
        delta=0.05,
        inputs="public",
        classes=tuple(range(10)),
    )
    spec = reachable_tolerance(wish, len(digits) - hidden, keep_edges=True).spec
    meter = Meter.create(folder / "meter", spec, name="digits")
    console.rule("The plan")
    console.print(f"{meter.plan.labels:,} labels are needed. {meter.plan.promise}")

    console.rule("A labeler seals the test set; nobody else sees its labels again")
    plain, sealed = folder / "labelled.parquet", folder / "testset.sealed"
    pq.write_table(table(images[hidden:], digits[hidden:], hidden), plain)
    manifest = meter.seal(plain, sealed, label="digit", id_column="id")
    plain.unlink()
    meter.add_test_set(sealed)
    console.print(f"test set {manifest.generation}: {manifest.rows:,} rows, sealed and active")
    pq.write_table(table(images[TRAIN:hidden], digits[TRAIN:hidden], TRAIN), folder / "val.parquet")
    meter.set_validation(folder / "val.parquet", label="digit")

    console.rule("A developer submits models")
    for name, model in developer(images, digits):
        np.save(folder / "test.npy", model.predict(images[hidden:]))
        np.save(folder / "validation.npy", model.predict(images[TRAIN:hidden]))
        score = float(np.mean(model.predict(images[TRAIN:hidden]) == digits[TRAIN:hidden]))
        console.print(f"\n[bold]{name}[/bold]: {score:.1%} right on the validation set")
        signal = submit(meter, folder, name)
        console.print(signal)

    console.rule("The budget is spent")
    guess = np.load(folder / "test.npy")  # of the last model, with one prediction changed each time
    for attempt in range(meter.status().steps_left + 1):
        guess[attempt] = (guess[attempt] + 1) % 10
        np.save(folder / "test.npy", guess)
        try:
            console.print(submit(meter, folder, "one more"))
        except Spent as refusal:
            console.print(f"refused: {refusal}")

    console.rule("The test set is released, and the truth with it")
    released = meter.release()
    console.print(history_terminal(meter.status(generation=1)))
    console.print(f"problems found by the audit: {len(meter.audit().problems)}")
    console.print(f"the report, with curves: {released}/report.html")


def submit(meter: Meter, folder: Path, model: str) -> Signal:
    """Submit the predictions of a model: arrays without ids, in the order of the rows."""
    test, validation = folder / "test.npy", folder / "validation.npy"
    return meter.submit(test, validation, model=model, matching=RowMatching(in_order=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="digits-")))
