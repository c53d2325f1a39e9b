"""The document of the API: names that read well, and an example of everything, which is true."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from tests.nodes import ROOT

from easeml_meter.server.api.document import TAGS, curl, examples, install, operations
from easeml_meter.server.api.submissions import SubmissionShown
from easeml_meter.server.api.testsets import Released
from easeml_meter.server.app import create_app
from easeml_meter.server.settings import Settings

_VERB = (
    "add|answer|archive|begin|cancel|change|check|compare|create|describe|download|draw|follow|give|invite|"
    "list|log|make|note|plan|promote|release|remove|request|retire|revoke|send|show|submit|withdraw"
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(None, Settings()).openapi()  # type: ignore[arg-type]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("examples", ROOT / "scripts" / "examples.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "examples", module)  # its dataclasses look for it there
    spec.loader.exec_module(module)
    return module


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


def test_what_waits_has_an_example_too(document: dict[str, Any]) -> None:
    waiting = {
        operation["operationId"]: operation["responses"]["202"]["content"]["application/json"]
        for path in document["paths"].values()
        for operation in path.values()
        if "202" in operation["responses"]
    }
    assert len(waiting) >= 4
    kinds = {"SubmissionShown": SubmissionShown, "Released": Released}
    for name, content in waiting.items():
        assert "example" in content, name
        kind = kinds[content["schema"]["$ref"].rpartition("/")[2]]
        assert kind(**content["example"]).model_dump() == content["example"]


def test_every_operation_has_an_example(document: dict[str, Any]) -> None:
    assert without_example(document) == []
    assert sorted(examples()) == sorted(each["operationId"] for _, _, each in operations(document))


def without_example(document: dict[str, Any]) -> list[str]:
    """Name the operations without an example, or with half of one."""
    found = []
    for _, _, operation in operations(document):
        needed = [each for each in operation.get("parameters", ()) if each.get("required")]
        body = operation.get("requestBody", {}).get("content", {}).get("application/json")
        good = [each for code, each in operation["responses"].items() if code < "300"]
        data = [
            each["content"]["application/json"]
            for each in good
            if "application/json" in each.get("content", {})
        ]
        shown = (
            "x-codeSamples" in operation
            and all("example" in each for each in needed)
            and (body is None or "example" in body)
            and (not data or any("example" in each for each in data))
        )
        if not shown:
            found.append(operation["operationId"])
    return found


def test_an_operation_without_an_example_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = {name: each for name, each in examples().items() if name != "submit"}
    monkeypatch.setattr("easeml_meter.server.api.document.examples", lambda: fewer)
    app = create_app(None, Settings())  # type: ignore[arg-type]
    install(app)
    assert without_example(app.openapi()) == ["submit"]


def test_examples_fit_what_is_documented(document: dict[str, Any]) -> None:
    checked = 0
    for _, _, operation in operations(document):
        example = examples()[operation["operationId"]]
        for given, described in (
            (example.get("json"), operation.get("requestBody", {})),
            (example.get("answer"), operation["responses"][str(example["status"])]),
        ):
            if given is None:
                continue
            schema = described["content"]["application/json"]["schema"]
            jsonschema.validate(given, schema | {"components": document["components"]})
            checked += 1
    assert checked > 50


@pytest.mark.slow
def test_examples_are_what_a_server_answers(script: ModuleType) -> None:
    assert script.record() == examples(), "run make reference"


def test_nothing_in_an_example_is_a_secret() -> None:
    text = json.dumps(examples())
    assert re.findall(r"emt_[\\w-]{20,}|AGE-SECRET|whsec_\\w{5,}", text) == []


def test_commands_are_quoted_for_a_shell() -> None:
    example = {"path": {"meter": "a b/c"}, "json": {"name": "it's"}, "query": {"q": "1 2&3"}}
    line = curl("post", "/api/v1/meters/{meter}/x", example)
    words = shlex.split(line)
    assert words[-1] == "$METER_SERVER/api/v1/meters/a%20b%2Fc/x?q=1+2%263"
    assert json.loads(words[words.index("--json") + 1]) == {"name": "it's"}
