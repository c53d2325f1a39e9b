"""The document of the API: names of operations, groups, and an example of each.

Examples are recorded by `scripts/examples.py`, which does everything once at a small server, so
that they show what is really answered; a test does it again and compares. Ids, keys, secrets and
times in them are made up.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import FastAPI
from fastapi.routing import APIRoute

from easeml_meter.server.errors import PREFIX

SAMPLES = "x-codeSamples"
"""Where a document says how an operation is called; programs that show documents know it."""

TAGS = [
    {"name": "submissions", "description": "Hand in predictions or models, and read the answer."},
    {"name": "accounts", "description": "Signing in, tokens, users, and their seats at meters."},
    {"name": "meters", "description": "Meters, and plans for new ones."},
    {"name": "requests for labels", "description": "Labels that are needed, why, until when."},
    {"name": "uploads", "description": "Sealed files too large for one request, in pieces."},
    {"name": "test sets", "description": "Delivered, in use, retired and released."},
    {"name": "validation sets", "description": "The developers' own sets, in the clear."},
    {"name": "signals", "description": "What was answered, as data and as pictures."},
    {"name": "hand-overs", "description": "Teams that go on from another team's model."},
    {"name": "audit", "description": "The chain of everything that was disclosed."},
    {"name": "webhooks", "description": "Addresses that are told what happens at a meter."},
    {"name": "plans", "description": "How many labels a meter needs, for everyone."},
]

ABOUT = f"""\
Requests carry a token: `Authorization: Bearer emt_...`. A meter is named in a path by its id or,
if no two of yours have it, by its name, percent-encoded. A list comes in pages of `items`; the
`next` of one page is the `after` of the following. Every error has the same shape: `error`, a word
for programs, `message`, a line for people, and `request`, which the server's log knows it by.

A number is the shortest decimal that stands for one 64-bit float, and a meter takes it as that
decimal: 0.3 is three tenths. Tolerances, edges and delta come back with the value that was given.
What is promised has at most 15 digits, rounded so that it never promises more than what holds. A
loss is a fraction of rows, rounded to the nearest such number.

All paths are below `{PREFIX}`.
"""


def operation_id(route: APIRoute) -> str:
    """Name an operation by what it does, as in a program: `list_submissions`."""
    return route.endpoint.__name__


@cache
def examples() -> dict[str, dict[str, Any]]:
    """Return a request and its answer for each operation."""
    text = (files("easeml_meter.server.api") / "examples.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and description of every operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def install(app: FastAPI) -> None:
    """Have an app put examples into its document."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = make()
            for method, path, operation in operations(document):
                if "202" in operation["responses"]:
                    _add_waiting(operation["responses"]["202"]["content"]["application/json"])
                if (example := examples().get(operation["operationId"])) is not None:
                    _add(method, path, operation, example)
        return app.openapi_schema or {}

    app.openapi = openapi  # type: ignore[method-assign]


# Not recorded: whether something waits depends on the kind of database and on workers.
_WAITING: dict[str, dict[str, Any]] = {
    "SubmissionShown": {
        "id": "6543a85f6ff48273067298a6cde74dc9",
        "state": "queued",
        "kind": "onnx",
        "model": "m1",
        "tenant": 1,
        "generation": None,
        "step": None,
        "created_at": "2026-03-02T09:30:00.000000+00:00",
        "problem": None,
        "signal": None,
    },
    "Released": {"generation": 1, "state": "waiting", "files": [], "problem": None},
}


def _add_waiting(content: dict[str, Any]) -> None:
    content["example"] = _WAITING[content["schema"]["$ref"].rpartition("/")[2]]


def _add(method: str, path: str, operation: dict[str, Any], example: dict[str, Any]) -> None:
    given = example.get("path", {}) | example.get("query", {})
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in given:
            parameter["example"] = given[parameter["name"]]
    content = operation.get("requestBody", {}).get("content", {})
    if "json" in example:
        content["application/json"]["example"] = example["json"]
    answers = operation["responses"][str(example["status"])].get("content", {})
    if "answer" in example:
        answers["application/json"]["example"] = example["answer"]
    operation[SAMPLES] = [{"lang": "Shell", "label": "curl", "source": curl(method, path, example)}]


def curl(method: str, path: str, example: dict[str, Any]) -> str:
    """Write the request of an example as a command."""
    filled = path
    for name, value in example.get("path", {}).items():
        filled = filled.replace(f"{{{name}}}", quote(str(value), safe=""))
    query = f"?{urlencode(example['query'])}" if example.get("query") else ""
    parts = ["curl --fail-with-body"]
    sends = {"json", "form", "body"} & example.keys()
    if method.upper() not in ("GET", "POST") or (method == "post" and not sends):
        parts[0] += f" --request {method.upper()}"
    if example.get("anyone") is None:
        parts.append('--header "Authorization: Bearer $METER_TOKEN"')
    if "json" in example:
        parts.append(f"--json {shlex.quote(json.dumps(example['json']))}")
    if "body" in example:
        parts.append(f"--data-binary {shlex.quote(example['body'])}")
    for field, value in example.get("form", ()):
        parts.append(f"--form {shlex.quote(f'{field}={value}')}")
    if "save" in example:
        parts.append(f"--output {shlex.quote(example['save'])}")
    parts.append(f'"$METER_SERVER{filled}{query}"')
    return " \\\n    ".join(parts)
