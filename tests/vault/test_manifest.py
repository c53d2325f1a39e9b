from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.vault.forging import forged

from easeml_meter.errors import VaultError
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.manifest import Column, Manifest
from easeml_meter.vault.sealing import SealedTestSet

MANIFEST = Manifest(
    version=1,
    meter="cats",
    generation=2,
    rows=10,
    row_groups=1,
    columns=(Column("size", "double"), Column("kind", "string")),
    label=Column("kind", "string"),
    id_column=None,
    order_digest=None,
    created="2026-03-01T12:00:00+00:00",
    sha256="00" * 32,
)


def test_a_manifest_is_plain_json() -> None:
    fields = MANIFEST.to_dict()
    assert json.loads(json.dumps(fields)) == fields
    assert fields["label"] == {"name": "kind", "type": "string"}
    assert fields["columns"][0] == {"name": "size", "type": "double"}
    assert fields["sha256"] == MANIFEST.sha256


@pytest.mark.parametrize(
    "notes",
    [
        {"names": ["label", "label"]},
        {"names": ["label"]},
        {"label": "other"},
        {"label": ["label"]},
        {"id_column": "other"},
        {"id_column": ["x"]},
        {"id_column": "label"},
        {"created": 1},
        {"order_digest": 1},
        {"classes": 1},
    ],
    ids=str,
)
def test_notes_that_do_not_fit_the_columns_are_refused_when_a_set_is_opened(
    tmp_path: Path, meter_key: Identity, notes: dict[str, Any]
) -> None:
    """A labeler's own program may write any; some used to end as an error of the server's."""
    table = pa.table({"label": pa.array([0, 1], pa.int8()), "x": [1.0, 2.0]})
    path = forged(tmp_path / "a.sealed", meter_key, [table])
    SealedTestSet.open(path, meter_key, meter="cats", generation=1).close()
    path = forged(tmp_path / "b.sealed", meter_key, [table], **notes)
    with pytest.raises(VaultError, match="cannot be opened"):
        SealedTestSet.open(path, meter_key, meter="cats", generation=1)
