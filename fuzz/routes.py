"""Every route of a server, as every role: it answers or refuses, and never fails."""

from __future__ import annotations

import base64
import json
import re
import tempfile
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.forms import KIND, packed
from tests.hurry import quicken
from tests.server.driving import begin, submission, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import actor_of, small_spec
from tests.template import upgrade

from easeml_meter.errors import MeterError
from easeml_meter.server.api.forms import FORM
from easeml_meter.service import tokens
from easeml_meter.storage import migrate
from fuzz import Failed
from fuzz.files import Form, Onnx
from fuzz.mutation import NUMBERS, change, word
from fuzz.tables import TARGETS as TABLES

PREFIX = "/api/v1"
USERS = ("developer", "developer", "developer2", "labeler", "runner", "admin", "stranger", None)
RENEWED = 400
"""Cases until the server is made again: by then, an admin may have locked everybody out."""
FREE: dict[str, Any] = {
    "requests_per_second": 0,
    "logins_per_minute": 0,
    "plans_per_minute": 0,
    "badges": True,
}


class Routes:
    """A server in this process, with a meter in the middle of its life."""

    name = "routes"

    def __init__(self) -> None:
        self._hurried = False
        self._cases = 0
        self._stack = ExitStack()
        self._served: Served | None = None
        self._known: dict[str, str] = {}
        self._body = b""

    @cached_property
    def _document(self) -> dict[str, Any]:
        answer = self._renewed().client().get("/openapi.json")
        document: dict[str, Any] = answer.json()
        return document

    @cached_property
    def _operations(self) -> list[tuple[str, str, dict[str, Any]]]:
        found = [
            (method, path, operation)
            for path, methods in self._document["paths"].items()
            for method, operation in methods.items()
        ]
        pages = {route.path for route in self._renewed().app.routes if hasattr(route, "path")}
        return found + [("get", path, {}) for path in sorted(pages) if not path.startswith(PREFIX)]

    def _renewed(self) -> Served:
        """Return the server; another one from time to time."""
        if not self._hurried:  # most of a case would be spent waiting for the disk
            patch = pytest.MonkeyPatch()
            quicken(patch)
            patch.setattr(migrate, "upgrade", upgrade)
            self._hurried = True
        if self._served is None or self._cases % RENEWED == 0:
            self._stack.close()
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            self._served = self._stack.enter_context(serve(folder / "site", **FREE))
            meter = self._served.add_meter(small_spec(tenants=(2, 2), models=True))
            labels = begin(self._served, meter, folder)
            told = submit(self._served.client("developer"), meter, labels).json()
            self._known = {
                "meter": meter,
                "submission": told["id"],
                "user": self._served.users["developer2"].id,
                "number": "1",
                "tenant": "1",
                "role": "developer",
            }
            self._body = submission(labels)
        return self._served

    def make(self, draw: Random) -> bytes:
        """Make a request to any route: most of it in order."""
        self._renewed()
        method, path, operation = draw.choice(self._operations)

        def value(found: re.Match[str]) -> str:
            name = found[1].partition(":")[0]
            given = self._known.get(name, "0" * 32) if draw.random() < 0.9 else word(draw)
            return quote(given, safe="", errors="replace")

        query = {}
        for each in operation.get("parameters", ()):
            if each["in"] == "query" and draw.random() < 0.3:
                query[each["name"]] = self._parameter(each["name"], each.get("schema", {}), draw)
        kind, body = self._content(operation, draw)
        request = {
            "method": draw.choice(("post", "put", "patch")) if draw.random() < 0.02 else method,
            "path": re.sub(r"\{([^}]+)\}", value, path),
            "query": query,
            "user": draw.choice(USERS),
            "kind": kind,
            "body": base64.b64encode(body).decode(),
        }
        return json.dumps(request).encode()

    def run(self, data: bytes) -> bool:
        """Send it; only the server's own failures are failures."""
        self._cases += 1
        served, request = self._renewed(), json.loads(data)
        headers = {} if request["kind"] is None else {"Content-Type": request["kind"]}
        name = request["user"]
        if name is not None and name not in served.tokens:
            with suppress(MeterError):  # somebody closed the account
                user = actor_of(served.users[name].id)
                served.tokens[name] = tokens.make_token(user, served.site, "one")[1]
        if name in served.tokens:
            headers["Authorization"] = f"Bearer {served.tokens[name]}"
        try:
            answer = served.client_from("192.0.2.1", headers=headers).request(
                request["method"].upper(),
                httpx.URL(f"http://server{request['path']}"),
                params=request["query"],
                content=base64.b64decode(request["body"]),
            )
        except (httpx.InvalidURL, UnicodeEncodeError):
            return False  # no client could send it
        if answer.status_code == 401:  # a request may have ended this token
            served.tokens.pop(name, None)
        if answer.status_code >= 500:
            shown = f"{answer.status_code} {answer.text[:200]} to {data[:3000].decode()}"
            raise Failed(shown)
        return answer.status_code < 400

    def _parameter(self, name: str, schema: dict[str, Any], draw: Random) -> str:
        if name == "wait":  # nobody works here, so nothing is worth waiting for
            return draw.choice(("0", "-1", "nan", "x"))
        if draw.random() < 0.3:
            return word(draw)
        found = self._value(schema, draw, 0)
        return found if isinstance(found, str) else json.dumps(found)

    def _content(self, operation: dict[str, Any], draw: Random) -> tuple[str | None, bytes]:
        content = operation.get("requestBody", {}).get("content", {})
        if not content:
            return None, b"" if draw.random() < 0.95 else draw.randbytes(20)
        kind = draw.choice(list(content))
        if kind == "application/json":
            body = json.dumps(self._value(content[kind].get("schema", {}), draw, 0)).encode()
        elif kind == FORM and draw.random() < 0.5:
            boundary, _, form = Form().make(draw).partition(b"\n--")
            edge = boundary.decode("ascii", "ignore").strip() or "x"  # headers are ASCII
            body, kind = b"--" + form, f"{kind}; boundary={edge}"
        elif kind == FORM:
            body, kind = draw.choice((self._body, _packed(draw), change(self._body, draw))), KIND
        else:
            body = draw.choice(TABLES).make(draw)
        if draw.random() < 0.1:
            body = change(body, draw) if body else body
        return kind if draw.random() < 0.95 else word(draw).encode("ascii", "ignore").decode(), body

    def _value(self, schema: dict[str, Any], draw: Random, depth: int) -> Any:
        """Make a value that fits a schema, or almost."""
        if draw.random() < 0.05 or depth > 8:
            strange: list[Any] = [None, True, -1, 1e300, 10**40, [], {}, [[[[]]]], word(draw)]
            return draw.choice(strange)
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            return self._value(self._document["components"]["schemas"][name], draw, depth)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self._value(draw.choice(schema[several]), draw, depth)
        if "enum" in schema:
            return draw.choice(schema["enum"])
        match schema.get("type"):
            case "object" if "properties" in schema:
                needed, found = schema.get("required", ()), {}
                for name, each in schema["properties"].items():
                    if name in needed or draw.random() < 0.4:
                        known = name in self._known and draw.random() < 0.7
                        found[name] = (
                            self._known[name] if known else self._value(each, draw, depth + 1)
                        )
                return found
            case "object":
                return {
                    word(draw): self._value({}, draw, depth + 1) for _ in range(draw.randrange(3))
                }
            case "array":
                items = schema.get("items", {})
                return [self._value(items, draw, depth + 1) for _ in range(draw.randrange(4))]
            case "integer":
                return draw.choice((1, 2, 3, 10, *NUMBERS))
            case "number":
                return draw.choice((0.1, 0.5, 1, 0, -1, 1e-300, 1e300, *NUMBERS))
            case "boolean":
                return draw.random() < 0.5
            case "null":
                return None
        return draw.choice(("0-1", "a", "label", "developer", "name", word(draw)))


def _packed(draw: Random) -> bytes:
    """Make the form of a table or a model as a submission."""
    if draw.random() < 0.3:
        return packed({"model.onnx": Onnx().make(draw)})
    made = [(draw.choice(TABLES), name) for name in ("test", "validation")]
    return packed({f"{name}.{table.name}": table.make(draw) for table, name in made})


TARGETS = [Routes()]
