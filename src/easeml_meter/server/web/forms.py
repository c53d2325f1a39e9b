"""Pages with forms: what is wrong is shown beside the form, which keeps what was typed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from fastapi import Response

from easeml_meter.errors import (
    Denied,
    FilesUnusable,
    MeterError,
    NotFound,
    StorageError,
    Unauthenticated,
)
from easeml_meter.server.errors import problem
from easeml_meter.server.web.pages import Visit

_PAGES = (Unauthenticated, Denied, NotFound, StorageError, FilesUnusable)
"""Errors with a page of their own; all others are shown beside the form."""


def fill(
    visit: Visit, form: str, act: Callable[[], Response], page: Callable[..., Response]
) -> Response:
    """Do what a form asks for, or show its page again with what was wrong, beside that form."""
    try:
        return act()
    except _PAGES:
        raise
    except MeterError as error:
        status, told = problem(error)
        return page(visit, status=status, problems={form: told.message})


def show_forms(
    visit: Visit, template: str, problems: dict[str, str] | None, **values: Any
) -> Response:
    """Answer with a page of forms: those with a problem keep what was typed.

    What is shown once, such as a password, stays out of every cache.
    """
    typed = visit.form if problems else {}
    answer = visit.render(
        template,
        problems=defaultdict(str, problems or {}),
        form=defaultdict(str, typed),
        **values,
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer
