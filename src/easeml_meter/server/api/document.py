"""The document of the API: names of operations and groups, and how its types read to people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fastapi.routing import APIRoute

from easeml_meter.server.errors import PREFIX

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


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and description of every operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


PAGE = "Listed_"
"""How the schemas of pages of objects begin; they are described once, for all."""


def type_words(schema: dict[str, Any], link: Callable[[str], str]) -> str:
    """Describe a type in a few words; `link` writes the name of an object."""
    if "$ref" in schema:
        name: str = schema["$ref"].rpartition("/")[2]
        if name.startswith(PAGE):
            inner = name.removeprefix(PAGE).removesuffix("_")
            return "page of objects" if inner.startswith("dict") else f"page of {link(inner)}"
        return link(name)
    if "anyOf" in schema:
        return " or ".join(type_words(each, link) for each in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{each}`" for each in schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "array":
            return f"list of {type_words(schema.get('items', {}), link)}"
        case "object":
            return "object"
        case "string" if schema.get("format") == "binary":
            return "bytes"
        case "string":
            return "text"
        case "integer" | "number" as number:
            least, most = schema.get("minimum"), schema.get("maximum")
            bounds = [f" from {least}"] * (least is not None) + [f" to {most}"] * (most is not None)
            return f"{number}{''.join(bounds)}"
        case None:
            return "any"
        case other:
            return str(other)


def content_words(media: str, content: dict[str, Any], link: Callable[[str], str]) -> str:
    """Describe what a request or an answer carries: its JSON type, or the type of its bytes."""
    words = type_words(content.get("schema", {}), link)
    return words if media == "application/json" and words != "any" else f"`{media}`"


def field_rows(
    schema: dict[str, Any], link: Callable[[str], str]
) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and description of the fields of an object."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        optional = "" if name in required else default_words(field) or ", may be left out"
        yield name, type_words(field, link) + optional, field.get("description", "")


def default_words(schema: dict[str, Any]) -> str:
    """Say which value stands where none is given; empty: none does."""
    value = schema.get("default")
    return "" if value in (None, "") else f", `{str(value).lower()}` by default"
