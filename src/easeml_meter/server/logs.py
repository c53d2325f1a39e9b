"""Logs for operators: one JSON object per line, without anything that was sent or read.

How long a request took is in here and in `metrics`: developers can reach neither.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from easeml_meter.core.model import stamp
from easeml_meter.server.errors import REQUEST

OWN = "easeml_meter"


class JsonLines(logging.Formatter):
    """Write a record as JSON.

    Texts of errors are left out, and so is what other libraries fill into their messages: it may
    hold what was read from a request or a test set.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        own = record.name.split(".")[0] == OWN
        line: dict[str, Any] = {
            "time": stamp(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "event": record.getMessage() if own else str(record.msg).split("\n", 1)[0],
        }
        if not own:
            line["logger"] = record.name
        if request := REQUEST.get():
            line["request"] = request
        line |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            line |= described(record.exc_info[1])
        return json.dumps(line, default=str)


def described(error: BaseException) -> dict[str, Any]:
    """Return the kind of an error and where it arose, never its text."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(each.filename).name}:{each.lineno} {each.name}" for each in frames[-8:]]
    return {"error": type(error).__name__, "where": places}


def configure(level: str) -> None:
    """Send all logs of this process to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    # Libraries from warnings on only: below that they log addresses and statements.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger(OWN).setLevel(level.upper())
