from __future__ import annotations

import json

from easeml_meter.vault.manifest import Column, Manifest

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
