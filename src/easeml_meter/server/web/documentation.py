"""The API as a page: every operation with an example, from the document that programs read.

It is made here, from nothing but that document: no script or style from elsewhere is needed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from markupsafe import Markup, escape

from easeml_meter.server.api.document import ABOUT, SAMPLES, TAGS, operations
from easeml_meter.server.errors import PREFIX
from easeml_meter.server.web.pages import MaybeCaller, render

router = APIRouter(include_in_schema=False)

_EXPLAINED_ONCE = ("meter", "Idempotency-Key")
"""Parameters of many operations: the page has a sentence about each at its top."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an operation."""

    name: str
    place: str
    required: bool
    text: str


@dataclass(frozen=True)
class Operation:
    """An operation, as the page shows it."""

    name: str
    method: str
    path: str
    paragraphs: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    bodies: tuple[str, ...]
    command: Markup
    answer: Markup
    """An example, as JSON; empty: a file, or nothing."""
    status: str


@dataclass(frozen=True)
class OperationGroup:
    """Operations about the same thing."""

    name: str
    text: str
    operations: tuple[Operation, ...]


@router.get("/docs")
def documentation(request: Request, caller: MaybeCaller) -> Response:
    """Show every operation of the API, with an example."""
    about = [" ".join(each.split()) for each in ABOUT.strip().split("\n\n")]
    groups = _groups(request.app)
    page = render(request, "docs.html", caller=caller, about=about, groups=groups, prefix=PREFIX)
    page.headers["Vary"] = "Accept-Encoding"
    # Other pages are sent as they are: from the size of a compressed page that repeats what a
    # request says, somebody could guess the token of its forms. This one repeats nothing.
    if "gzip" in request.headers.get("accept-encoding", ""):
        page.body = gzip.compress(bytes(page.body), mtime=0)
        page.headers["Content-Encoding"] = "gzip"
        page.headers["Content-Length"] = str(len(page.body))
    return page


def _groups(app: FastAPI) -> tuple[OperationGroup, ...]:
    """Read the document; once, as it does not change while the server runs."""
    if not hasattr(app.state, "documentation"):
        found: dict[str, list[Operation]] = {}
        for method, path, operation in operations(app.openapi()):
            found.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
        app.state.documentation = tuple(
            OperationGroup(tag["name"], tag["description"], tuple(found[tag["name"]]))
            for tag in TAGS
            if tag["name"] in found
        )
    groups: tuple[OperationGroup, ...] = app.state.documentation
    return groups


def _operation(method: str, path: str, described: dict[str, Any]) -> Operation:
    responses = described["responses"]
    good = [code for code in responses if code < "400"]
    answers = [
        (code, kind.get("example"))
        for code in good
        for kind in responses[code].get("content", {}).values()
    ]
    code, answer = next((each for each in answers if each[1] is not None), (good[0], None))
    return Operation(
        name=described["operationId"],
        method=method.upper(),
        path=path.removeprefix(PREFIX),
        paragraphs=tuple(described["description"].strip().split("\n\n")),
        parameters=tuple(_parameters(described)),
        bodies=tuple(described.get("requestBody", {}).get("content", {})),
        command=_verbatim(described[SAMPLES][0]["source"] if SAMPLES in described else ""),
        answer=_verbatim("" if answer is None else _written(answer)),
        status=code,
    )


def _parameters(described: dict[str, Any]) -> Iterator[Parameter]:
    for each in described.get("parameters", ()):
        if each["name"] not in _EXPLAINED_ONCE:
            yield Parameter(
                each["name"], each["in"], each.get("required", False), each.get("description", "")
            )


# The page shall weigh less than 100 KB, as every page of ours.
def _verbatim(text: str) -> Markup:
    """Escape a text for `<code>`, where quotes may stand as they are."""
    plain = str(escape(text)).replace("&#34;", '"').replace("&#39;", "'")
    return Markup(plain)  # noqa: S704 - escaped above


def _written(answer: Any) -> str:
    return json.dumps(_shortened(answer), indent=1, ensure_ascii=False)


def _shortened(value: Any) -> Any:
    """Return JSON with one object of each list; openapi.json has all."""
    match value:
        case [dict() as first, _, *_]:
            return [_shortened(first), "..."]
        case list():
            return [_shortened(each) for each in value]
        case dict():
            return {name: _shortened(each) for name, each in value.items()}
    return value
