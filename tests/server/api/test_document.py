"""The document of the API: names that read well, and types in words."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from easeml_meter.server.api.document import TAGS, operations, type_words
from easeml_meter.server.app import create_app
from easeml_meter.server.settings import Settings

_VERB = (
    "add|answer|archive|begin|cancel|change|check|compare|create|describe|download|draw|follow|give|invite|"
    "list|log|make|note|plan|promote|release|remove|request|retire|revoke|send|show|submit|withdraw"
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(None, Settings()).openapi()  # type: ignore[arg-type]


def test_operations_are_named_by_what_they_do(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(names) == len(set(names)) > 50
    assert [name for name in names if not re.fullmatch(rf"({_VERB})(_[a-z]+)*", name)] == []


def test_nothing_is_described_that_few_tools_know(document: dict[str, Any]) -> None:
    assert "prefixItems" not in json.dumps(document)


def test_every_group_is_described_and_used(document: dict[str, Any]) -> None:
    used = {tag for _, _, operation in operations(document) for tag in operation["tags"]}
    assert used == {tag["name"] for tag in TAGS}


def test_every_operation_is_in_one_group(document: dict[str, Any]) -> None:
    tags = {
        operation["operationId"]: operation["tags"]
        for path in document["paths"].values()
        for operation in path.values()
    }
    assert [name for name, own in tags.items() if len(own) != 1] == []
    assert tags["plan_meter"] == ["plans"]


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "#/components/schemas/Plan"}, "<Plan>"),
        ({"$ref": "#/components/schemas/Listed_Plan_"}, "page of <Plan>"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "text or null"),
        ({"enum": ["a", "b"]}, "`a`, `b`"),
        ({"type": "array", "items": {"type": "integer", "minimum": 1}}, "list of integer from 1"),
        ({"type": "string", "format": "binary"}, "bytes"),
        ({}, "any"),
    ],
)
def test_types_read_as_words(schema: dict[str, Any], words: str) -> None:
    assert type_words(schema, lambda name: f"<{name}>") == words
