"""The API as a page: every operation and object, from the document that programs read.

It is made here, from nothing but that document: no script or style from elsewhere is needed.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from markupsafe import Markup, escape

from easeml_meter.server.api.document import (
    ABOUT,
    PAGE,
    TAGS,
    content_words,
    field_rows,
    operations,
    type_words,
)
from easeml_meter.server.errors import PREFIX
from easeml_meter.server.web.pages import MaybeCaller, render

router = APIRouter(include_in_schema=False)

_EXPLAINED_ONCE = ("meter",)
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
    bodies: tuple[Markup, ...]
    answers: tuple[tuple[str, tuple[Markup, ...]], ...]
    """Statuses, and what comes with them; nothing: an empty answer."""


@dataclass(frozen=True)
class OperationGroup:
    """Operations about the same thing."""

    name: str
    text: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class ObjectShape:
    """An object that operations take or return."""

    name: str
    text: str
    fields: tuple[tuple[str, Markup, str], ...]
    """Name, type and description."""
    one_of: Markup
    """The values of an enumeration; else empty."""


@router.get("/docs")
def documentation(request: Request, caller: MaybeCaller) -> Response:
    """Show every operation of the API, and every object."""
    about = [" ".join(each.split()) for each in ABOUT.strip().split("\n\n")]
    groups, objects = _read(request.app)
    page = render(
        request,
        "docs.html",
        caller=caller,
        about=about,
        groups=groups,
        objects=objects,
        prefix=PREFIX,
    )
    page.headers["Vary"] = "Accept-Encoding"
    # Other pages are sent as they are: from the size of a compressed page that repeats what a
    # request says, somebody could guess the token of its forms. This one repeats nothing.
    if "gzip" in request.headers.get("accept-encoding", ""):
        page.body = gzip.compress(bytes(page.body), mtime=0)
        page.headers["Content-Encoding"] = "gzip"
        page.headers["Content-Length"] = str(len(page.body))
    return page


def _read(app: FastAPI) -> tuple[tuple[OperationGroup, ...], tuple[ObjectShape, ...]]:
    """Read the document; once, as it does not change while the server runs."""
    if not hasattr(app.state, "documentation"):
        document = app.openapi()
        found: dict[str, list[Operation]] = {}
        for method, path, operation in operations(document):
            found.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
        app.state.documentation = (
            tuple(
                OperationGroup(tag["name"], tag["description"], tuple(found[tag["name"]]))
                for tag in TAGS
                if tag["name"] in found
            ),
            tuple(
                _described(name, schema)
                for name, schema in sorted(document["components"]["schemas"].items())
                if not name.startswith(PAGE)
            ),
        )
    read: tuple[tuple[OperationGroup, ...], tuple[ObjectShape, ...]] = app.state.documentation
    return read


def _operation(method: str, path: str, described: dict[str, Any]) -> Operation:
    return Operation(
        name=described["operationId"],
        method=method.upper(),
        path=path.removeprefix(PREFIX),
        paragraphs=tuple(described["description"].strip().split("\n\n")),
        parameters=tuple(_parameters(described)),
        bodies=_carried(described.get("requestBody", {})),
        answers=tuple(
            (code, _carried(answer))
            for code, answer in described["responses"].items()
            if code < "400"
        ),
    )


def _parameters(described: dict[str, Any]) -> Iterator[Parameter]:
    for each in described.get("parameters", ()):
        if each["name"] not in _EXPLAINED_ONCE:
            yield Parameter(
                each["name"], each["in"], each.get("required", False), each.get("description", "")
            )


def _carried(described: dict[str, Any]) -> tuple[Markup, ...]:
    """Describe what a request or an answer carries, in each form that it may have."""
    content = described.get("content", {})
    return tuple(_marked(content_words(media, each, _link)) for media, each in content.items())


def _described(name: str, schema: dict[str, Any]) -> ObjectShape:
    fields = field_rows(schema, _link)
    return ObjectShape(
        name=name,
        text=schema.get("description", "").strip(),
        fields=tuple((field, _marked(words), text) for field, words, text in fields),
        one_of=_marked(type_words(schema, _link)) if "enum" in schema else Markup(),
    )


def _link(name: str) -> str:
    return f"\x00{name}\x00"


def _marked(words: str) -> Markup:
    """Write a type as HTML: code between backticks, and names of objects as links."""
    text = re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(words)))
    text = re.sub("\x00([^\x00]*)\x00", r'<a href="#\1">\1</a>', text)
    return Markup(text)  # noqa: S704 - escaped above
