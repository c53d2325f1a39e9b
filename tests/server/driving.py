"""What labelers and developers do, through the API."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests import forms
from tests.service.helpers import Labels, rows, with_errors

from easeml_meter.vault.sealing import seal

from .helpers import Served

VALIDATION = np.random.default_rng(99).integers(0, 2, 20)


def packed(**files: bytes) -> bytes:
    """Make the body of a submission; `test_parquet` stands for test.parquet."""
    return forms.packed({name.replace("_", ".", 1): files[name] for name in files})


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def predictions(values: Labels, salt: str = "") -> bytes:
    table = pa.table({"id": np.arange(len(values)), "prediction": values})
    return parquet(table.replace_schema_metadata({"salt": salt}))


def submission(test: Labels, validation: Labels = VALIDATION, salt: str = "") -> bytes:
    """Make the body of a submission of predictions."""
    return packed(
        test_parquet=predictions(test, salt), validation_parquet=predictions(validation, salt)
    )


def sealed(served: Served, meter: str, table: pa.Table, folder: Path, **options: Any) -> bytes:
    """Seal rows as the labeler does, at home."""
    path = folder / "labelers.sealed"
    recipient = served.site.identity.recipient
    seal(
        table,
        path,
        meter=meter,
        id_column="id",
        recipients=[recipient],
        **{"generation": 1, "label": "label", **options},
    )
    content = path.read_bytes()
    path.unlink()
    return content


def upload(labeler: httpx.Client, meter: str, content: bytes) -> str:
    """Send a file, in pieces; return the upload's id."""
    begun = labeler.post(f"/meters/{meter}/uploads", json={"name": "set", "size": len(content)})
    assert begun.status_code == 201, begun.text
    identifier: str = begun.json()["id"]
    step = begun.json()["piece"]
    for offset in range(0, len(content), step):
        sent = labeler.put(
            f"/meters/{meter}/uploads/{identifier}",
            params={"offset": offset},
            content=content[offset : offset + step],
        )
        assert sent.status_code == 200, sent.text
    return identifier


def add(labeler: httpx.Client, meter: str, content: bytes, **options: Any) -> httpx.Response:
    """Upload a sealed file and have it taken in; every set of these meters is numbered from 0."""
    body = {"upload": upload(labeler, meter, content), "ids_renumbered": True, **options}
    return labeler.post(f"/meters/{meter}/test-sets", json=body)


def give_validation(developer: httpx.Client, meter: str, seed: int = 7) -> httpx.Response:
    return developer.post(
        f"/meters/{meter}/validation-sets",
        params={"label": "label"},
        content=parquet(rows(VALIDATION, seed=seed)),
    )


def begin(
    served: Served, meter: str, folder: Path, *, prefix: str = "", seed: int = 0, size: int = 0
) -> Labels:
    """Give a meter its validation set and its test set; return the test labels."""
    labeler, developer = served.client(f"{prefix}labeler"), served.client(f"{prefix}developer")
    assert give_validation(developer, meter).status_code == 201
    needed = labeler.get(f"/meters/{meter}/requests").json()["items"][0]["labels_needed"]
    labels = np.random.default_rng(seed).integers(0, 2, size or needed)
    content = sealed(served, meter, rows(labels, seed=1000 + seed), folder)
    added = add(labeler, meter, content)
    assert added.status_code == 201, added.text
    return labels


def begun(served: Served, folder: Path, *spec: Any, **options: Any) -> tuple[str, Labels]:
    """Make a meter that takes submissions; return its id and the test labels."""
    meter = served.add_meter(*spec, **options)
    return meter, begin(served, meter, folder)


def submit(
    developer: httpx.Client,
    meter: str,
    labels: Labels,
    *,
    errors: int = 0,
    validation_errors: int = 0,
    salt: str = "",
    **options: Any,
) -> httpx.Response:
    """Hand in predictions with so many errors."""
    body = submission(with_errors(labels, errors), with_errors(VALIDATION, validation_errors), salt)
    params = {"model": options.pop("model", "model")}
    for name in {"tenant", "note", "link"} & set(options):
        params[name] = str(options.pop(name))
    params |= options.pop("params", {})
    return developer.post(f"/meters/{meter}/submissions", params=params, content=body, **options)
