"""The planner as one page that computes in the browser: it can be opened or hosted anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from easeml_meter.report.presets import told
from easeml_meter.report.svg import element, escaped


def planner_page() -> str:
    """Write the page; its script has the numbers of `stats.planning` for losses of 0 or 1."""
    parts = {
        name: files("easeml_meter.report").joinpath("static", file).read_text("utf-8")
        for name, file in (
            ("style", "planner.css"),
            ("numbers", "plan.js"),
            ("behaviour", "planner.js"),
        )
    }
    scripts = " ".join(_digest(parts[name]) for name in ("numbers", "behaviour"))
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {scripts}"
    page = files("easeml_meter.report").joinpath("static", "planner.html").read_text("utf-8")
    for name, text in (parts | {"policy": policy, "presets": _presets()}).items():
        page = page.replace(f"{{{name}}}", text)
    return page


def _presets() -> str:
    """Write a button for each story that this page can tell: it knows of one team alone."""
    stories = {title: story for title, story in told().items() if "tenants" not in story}
    return "".join(
        element("button", escaped(title), type="button", data_fill=urlencode(_fields(story)))
        for title, story in stories.items()
    )


def _fields(story: Mapping[str, Any]) -> dict[str, Any]:
    return {"form" if name == "protocol" else name: value for name, value in story.items()}


def _digest(script: str) -> str:
    """Return what a content policy calls a script that it allows."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
