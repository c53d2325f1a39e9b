"""The sheet of components and tokens, for those who work on the pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from fastapi import APIRouter, Request, Response

from easeml_meter.server.web.pages import TOKENS, MaybeCaller, render, static_text

router = APIRouter(include_in_schema=False)

_DARK = "@media (prefers-color-scheme: dark)"


@dataclass(frozen=True)
class DesignToken:
    """A token, with its value in both schemes."""

    name: str
    light: str
    dark: str

    @property
    def is_colour(self) -> bool:
        """Whether it can be shown as a patch."""
        return bool(re.fullmatch("#[0-9a-f]{6}", self.light))


@cache
def tokens() -> tuple[DesignToken, ...]:
    """Read the tokens from the style sheet; one without a value for the dark has the same there."""
    light, _, dark = static_text(TOKENS).partition(_DARK)
    darker = dict(_declared(dark))
    return tuple(
        DesignToken(name, value, darker.get(name, value)) for name, value in _declared(light)
    )


def _declared(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(--[a-z0-9-]+): ([^;]+);", text)


@router.get("/styleguide")
def styleguide(request: Request, caller: MaybeCaller) -> Response:
    """Show everything that the pages are made of."""
    return render(request, "styleguide.html", caller=caller, tokens=tokens())
