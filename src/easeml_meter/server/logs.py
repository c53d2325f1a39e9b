"""Logs for operators: one JSON object per line, without anything that was sent or read.

How long a request took is in here and in `metrics`: developers can reach neither.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from easeml_meter.core.model import stamp
from easeml_meter.server.errors import REQUEST

OWN = "easeml_meter"


class JsonLines(logging.Formatter):
    """Write a record as JSON.

    Texts of errors are left out, and so is what other libraries fill into their messages: it may
    hold what was read from a request or a test set. Numbers, and codes of errors, hold none of it.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        own = record.name.split(".")[0] == OWN
        line: dict[str, Any] = {
            "time": stamp(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "event": record.getMessage() if own else _filled(record),
        }
        if not own:
            line["logger"] = record.name
        if request := REQUEST.get():
            line["request"] = request
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            line |= described(record.exc_info[1])
        return json.dumps(line, default=str)


class _Said(str):
    """A word that stands for itself, also where a message asks for it in quotation marks."""

    __repr__ = str.__str__


def _filled(record: logging.LogRecord) -> str:
    """Fill in what is safe of another library's message."""
    given = record.args if isinstance(record.args, tuple) else ()
    template = str(record.msg).split("\n", 1)[0]
    with suppress(TypeError, ValueError):  # another number of them, or other kinds
        return template % tuple(map(_safe, given))
    return template


def _safe(value: object) -> object:
    if isinstance(value, BaseException):
        return _Said(" ".join([type(value).__name__, *code_of(value)]))
    return value if isinstance(value, int | float) else _Said("(hidden)")


def code_of(error: BaseException | None) -> list[str]:
    """Return the code of what lies behind an error: PostgreSQL's, or that of the system."""
    while error is not None:
        if found := getattr(error, "sqlstate", None) or errno.errorcode.get(
            getattr(error, "errno", None) or 0
        ):
            return [str(found)]
        # The library of PostgreSQL gives the system's words alone.
        said = str(error) if type(error).__module__.startswith("psycopg") else ""
        for number, name in errno.errorcode.items():
            if said and os.strerror(number) in said:
                return [name]
        error = error.__cause__ or getattr(error, "orig", None) or error.__context__
    return []


def described(error: BaseException) -> dict[str, Any]:
    """Return the kind of an error, its code and where it arose, never its text."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(each.filename).name}:{each.lineno} {each.name}" for each in frames[-8:]]
    codes = {"code": code} if (code := "".join(code_of(error))) else {}
    return {"error": type(error).__name__, **codes, "where": places}


def configure(level: str) -> None:
    """Send all logs of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    # Libraries from warnings on only: below that they log addresses and statements.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger(OWN).setLevel(level.upper())
