"""The API as a page: every operation and object, from the document that programs read.

It is made here, from nothing but that document: no script or style from elsewhere is needed.
"""

from __future__ import annotations

import gzip
import re
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

Shown = dict[str, Any]
"""What the template shows of an operation or an object."""
_EXPLAINED_ONCE = ("meter",)
"""Parameters of many operations: the page has a sentence about each at its top."""


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


def _read(app: FastAPI) -> tuple[list[Shown], list[Shown]]:
    """Read the document; once, as it does not change while the server runs."""
    if not hasattr(app.state, "documentation"):
        document = app.openapi()
        found: dict[str, list[Shown]] = {}
        for method, path, operation in operations(document):
            found.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
        groups = [
            {"name": tag["name"], "text": tag["description"], "operations": found[tag["name"]]}
            for tag in TAGS
            if tag["name"] in found
        ]
        schemas = sorted(document["components"]["schemas"].items())
        objects = [_described(*each) for each in schemas if not each[0].startswith(PAGE)]
        app.state.documentation = (groups, objects)
    read: tuple[list[Shown], list[Shown]] = app.state.documentation
    return read


def _operation(method: str, path: str, described: Shown) -> Shown:
    known = (
        each for each in described.get("parameters", ()) if each["name"] not in _EXPLAINED_ONCE
    )
    return {
        "name": described["operationId"],
        "method": method.upper(),
        "path": path.removeprefix(PREFIX),
        "paragraphs": described["description"].strip().split("\n\n"),
        "parameters": list(known),
        "bodies": _carried(described.get("requestBody", {})),
        # Statuses, and what comes with them; nothing: an empty answer.
        "answers": [
            (code, _carried(answer))
            for code, answer in described["responses"].items()
            if code < "400"
        ],
    }


def _carried(described: Shown) -> tuple[Markup, ...]:
    """Describe what a request or an answer carries, in each form that it may have."""
    content = described.get("content", {})
    return tuple(_marked(content_words(media, each, _link)) for media, each in content.items())


def _described(name: str, schema: Shown) -> Shown:
    return {
        "name": name,
        "text": schema.get("description", "").strip(),
        "fields": [(field, _marked(kind), text) for field, kind, text in field_rows(schema, _link)],
        # The values of an enumeration.
        "one_of": _marked(type_words(schema, _link)) if "enum" in schema else "",
    }


def _link(name: str) -> str:
    return f"\x00{name}\x00"


def _marked(words: str) -> Markup:
    """Write a type as HTML: code between backticks, and names of objects as links."""
    text = re.sub("`([^`]*)`", r"<code>\1</code>", str(escape(words)))
    text = re.sub("\x00([^\x00]*)\x00", r'<a href="#\1">\1</a>', text)
    return Markup(text)  # noqa: S704 - escaped above
