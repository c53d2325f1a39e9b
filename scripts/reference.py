"""Write the reference pages from the code: commands, routes of the API, names of the package.

python scripts/reference.py FOLDER
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import click
from msgspec import NODEFAULT

import easeml_meter
from easeml_meter.cli import meter
from easeml_meter.errors import ANSWERED
from easeml_meter.promise.meter import PARTS, Meter
from easeml_meter.promise.schema import settings_of, shown
from easeml_meter.server import errors
from easeml_meter.server.api.document import (
    PAGE,
    content_words,
    default_words,
    field_rows,
    type_words,
)
from easeml_meter.server.app import create_app
from easeml_meter.server.settings import Settings

WIDTH = 90


# Commands


def commands_page() -> str:
    """Give the help of all commands."""
    parts = [
        "# All options\n",
        "What `meter COMMAND --help` prints. [Commands](../commands.md) tells what they are for.\n",
    ]
    for path, text in _helps(meter, None, "meter"):
        parts += [f"## {path}\n", f"```text\n{text}\n```\n"]
    return "\n".join(parts)


def _helps(
    command: click.Command, parent: click.Context | None, name: str
) -> Iterator[tuple[str, str]]:
    options = command.context_settings | {"terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, info_name=name, parent=parent, **options)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            if found is None:
                raise SystemExit(f"{context.command_path} {each}: listed, but not there")
            yield from _helps(found, context, each)


# meter.toml


def settings_table() -> str:
    """Return all settings of meter.toml, by their tables: what docs/commands.md has of them."""
    rows = [
        *("| table | key | default | meaning |", "| --- | --- | --- | --- |"),
        "| `[question]` | `ask` | | `gap`, `alarm`, `keep`, or a condition |",
    ]
    seen = {"ask", "each", "question", "budget", "sample", "renewal"}
    for table, kinds in {**PARTS, "meter": (Meter,)}.items():
        for name, field in chain(*(settings_of(kind).items() for kind in kinds)):
            if name not in seen:
                cells = f"`{name}`", _default(field.default), _cell(field.setting.help)
                rows.append(f"| `[{table}]` | {' | '.join(cells)} |")
            seen.add(name)
    return "\n".join(rows)


def _default(value: object) -> str:
    if value is NODEFAULT or value is None or value is True or value in ("", ()):
        return ""  # a key that is true says which class a table is
    if isinstance(value, tuple):
        value = value[0]
    return f"`{value if isinstance(value, str) else str(shown(value)).lower()}`"


# API


def api_page() -> str:
    """Describe all routes, by what they are about, and the objects they take and give."""
    # The document depends on routes alone, so no site is needed.
    document = create_app(None, Settings()).openapi()  # type: ignore[arg-type]
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, route in methods.items():
            groups.setdefault(route["tags"][0], []).append(_route(method, path, route))
    parts = [_BEFORE, "| status | `error` |", "| --- | --- |"]
    words: dict[int, list[str]] = {}
    for error in ANSWERED:
        words.setdefault(error.status, []).append(f"`{error.word}`")
    parts += [f"| {status} | {', '.join(each)} |" for status, each in sorted(words.items())]
    for tag, routes in groups.items():
        parts += [f"\n## {tag[0].upper()}{tag[1:]}", *routes]
    parts.append("\n## Objects")
    objects = sorted(document["components"]["schemas"].items())
    parts += [_object(name, each) for name, each in objects if not name.startswith(PAGE)]
    return "\n".join(parts) + "\n"


_BEFORE = f"""# REST API

All paths are below `{errors.PREFIX}`. A running server describes itself at
`{errors.PREFIX}/openapi.json`; this page is made from the same document. Requests carry a token as
`Authorization: Bearer emt_...` (from `meter login`, the page "Your account", or `POST /tokens`),
except for login and plans. A list comes in pages of
`items`; the `next` of one page is the `after` of the following. Every error has the same shape,
[Problem](#problem): a word for programs, a line for people.
"""


def _position(path: str, name: str) -> int:
    """Return where a parameter stands in a path; those of the query follow."""
    found = path.find(f"{{{name}}}")
    return len(path) if found < 0 else found


def _route(method: str, path: str, route: dict[str, Any]) -> str:
    parts = [
        f"\n### `{method.upper()} {path.removeprefix(errors.PREFIX)}`\n",
        route["description"].strip(),
        "",
    ]
    if given := route.get("parameters"):
        parts += ["| parameter | in | type | |", "| --- | --- | --- | --- |"]
        # A dependency may read some of them: the order of the path is the same for all routes.
        for each in sorted(given, key=lambda each: _position(path, each["name"])):
            about = _cell(each.get("description", ""))
            kind = type_words(each["schema"], _link) + default_words(each["schema"])
            parts.append(f"| `{each['name']}` | {each['in']} | {kind} | {about} |")
        parts.append("")
    body = route.get("requestBody", {}).get("content", {})
    parts += [f"Body: {content_words(kind, each, _link)}.\n" for kind, each in body.items()]
    good = {code: each for code, each in route["responses"].items() if code < "400"}
    bad = sorted(code for code in route["responses"] if code >= "400")
    for code, each in sorted(good.items()):
        content = [
            content_words(kind, found, _link) for kind, found in each.get("content", {}).items()
        ]
        parts.append(f"Answer {code}: {', '.join(content) or 'empty'}. Errors: {', '.join(bad)}.")
        bad = bad if len(good) == 1 else []
    return "\n".join(parts).replace(" Errors: .", "")


def _object(name: str, schema: dict[str, Any]) -> str:
    parts = [f"\n### {name}\n", schema.get("description", "").strip(), ""]
    if "enum" in schema:
        return "\n".join([*parts, f"One of {type_words(schema, _link)}."])
    rows = field_rows(schema, _link)
    parts += ["| field | type | |", "| --- | --- | --- |"]
    parts += [f"| `{field}` | {kind} | {_cell(text)} |" for field, kind, text in rows]
    return "\n".join(parts)


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# Python


def python_page() -> str:
    """Describe the public names, and what can be done with each."""
    parts = [
        "# Python reference\n",
        "What `from easeml_meter import ...` gives. [Python](../python.md) tells how it is used.\n",
    ]
    for name in sorted(set(dir(easeml_meter)) - {"__version__"}, key=str.lower):
        value = getattr(easeml_meter, name)
        parts += [f"## {name}\n", *(_class(value) if inspect.isclass(value) else _function(value))]
    return "\n".join(parts)


def _class(kind: type) -> Iterator[str]:
    if not issubclass(kind, Exception) and "__init__" in vars(kind):
        yield f"```text\n{kind.__name__}{_signature(kind)}\n```\n"
    yield f"{_words(kind)}\n"
    fields = (
        {each.name for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else ()
    )
    if fields:
        yield f"Fields: {', '.join(f'`{name}`' for name in sorted(fields))}.\n"
    rows = []
    for name in sorted(set(dir(kind)) - set(dir(Exception))):
        value = inspect.getattr_static(kind, name)
        if name.startswith("_") or name in fields:
            continue
        if isinstance(value, (property, cached_property)):
            rows.append(f"| `{name}` | {_cell(_words(value))} |")
        elif _is_ours(found := getattr(kind, name)):
            rows.append(f"| `{name}{_cell(_signature(found))}` | {_cell(_words(found))} |")
    if rows:
        yield "\n".join(["| | |", "| --- | --- |", *rows]) + "\n"


def _is_ours(value: Any) -> bool:
    return callable(value) and str(getattr(value, "__module__", "")).startswith("easeml_meter")


def _function(function: Any) -> Iterator[str]:
    yield f"```text\n{function.__name__}{_signature(function)}\n```\n"
    yield f"{_words(function)}\n"


def _signature(function: Any) -> str:
    """Return the parameters without their types, which say little without the code."""
    found = inspect.signature(function)
    plain = [
        each.replace(annotation=inspect.Parameter.empty, default=_brief(each.default))
        for name, each in found.parameters.items()
        if name not in ("self", "cls")
    ]
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


class _Dots:
    def __repr__(self) -> str:
        return "..."


def _brief(default: object) -> object:
    """Return a default that is short to read; others are three dots."""
    plain = isinstance(default, str | int | float | tuple | None) and not isinstance(default, Enum)
    return default if plain or default is inspect.Parameter.empty else _Dots()


def _words(value: Any) -> str:
    """Return the first paragraphs of a docstring, without what it raises or shows."""
    text = inspect.getdoc(value) or ""
    return re.split(r"\n\s*(?:Raises:|>>>)", text)[0].strip()


def main(folder: Path) -> None:
    """Write all pages."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"commands.md": commands_page, "api.md": api_page, "python.md": python_page}
    for name, page in pages.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
