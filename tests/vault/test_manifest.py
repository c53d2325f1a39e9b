from __future__ import annotations

import dataclasses
import json

import pytest

from easeml_meter.errors import InvalidInput
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


def test_a_manifest_is_json_and_back() -> None:
    assert Manifest.from_json(MANIFEST.to_json()) == MANIFEST
    assert Manifest.from_dict(MANIFEST.to_dict()) == MANIFEST
    assert MANIFEST.to_dict()["label"] == {"name": "kind", "type": "string"}


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"version": 1}', '{"version": 1, "columns": 3, "label": 4}']
)
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not a manifest"):
        Manifest.from_json(text)


def test_a_manifest_from_the_future_is_refused() -> None:
    newer = dataclasses.replace(MANIFEST, version=2)
    with pytest.raises(InvalidInput, match="manifest version: 2 given, 1 is known here"):
        Manifest.from_json(newer.to_json())
    unknown = json.dumps({**MANIFEST.to_dict(), "mood": "good"})
    with pytest.raises(InvalidInput, match="not a manifest"):
        Manifest.from_json(unknown)
