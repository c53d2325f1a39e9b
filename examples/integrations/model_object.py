"""A fitted model, submitted as it is: `python model_object.py` makes a meter and asks it.

Connect to a server instead (`easeml_meter.connect`), and the same line sends the model as ONNX,
after it was compared with the model on the validation set.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from easeml_meter import Meter, MeterSpec, reachable_tolerance
from easeml_meter.integrations import models


def main(folder: Path) -> None:
    data = load_digits(as_frame=True).frame.sample(frac=1, random_state=0)
    train, validation, hidden = data[:500], data[500:700], data[700:]
    wish = MeterSpec.uniform(
        signals=3,
        edges=[0.1, 0.2],
        tolerance=0.1,
        steps=10,
        delta=0.1,
        models=True,
        classes=tuple(range(10)),
    )
    meter = Meter.create(folder / "meter", reachable_tolerance(wish, len(hidden)).spec)
    meter.set_validation(validation, label="target")
    meter.seal(hidden, folder / "hidden.sealed", label="target")
    meter.add_test_set(folder / "hidden.sealed")
    model = LogisticRegression(max_iter=1000).fit(train.drop(columns="target"), train["target"])
    print(models.submit(meter, model))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="model-")))
