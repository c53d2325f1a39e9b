"""Values that show themselves: in a line at a prompt, in words when printed, drawn in a notebook.

Values are on lower floors than the words and drawings. So `report.looks` registers what each kind
of value looks like, and whoever imports a public name has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Look:
    """How a kind of value is shown."""

    brief: Callable[[Any], str]
    words: Callable[[Any], str]
    html: Callable[[Any], str]
    rich: Callable[[Any], Any] | None = None
    """What rich prints in colour, where that is more than the words."""


_LOOKS: dict[type, Look] = {}


def register(kind: type, look: Look) -> None:
    """Say how values of a kind are shown."""
    _LOOKS[kind] = look


class Shown:
    """A value that a person sees; a dataclass of this kind is declared with `repr=False`."""

    __slots__ = ()

    def __repr__(self) -> str:
        look = _look_of(self)
        return f"<{type(self).__name__}>" if look is None else f"<{look.brief(self)}>"

    def __str__(self) -> str:
        look = _look_of(self)
        return repr(self) if look is None else look.words(self)

    def __rich__(self) -> Any:
        look = _look_of(self)
        return str(self) if look is None or look.rich is None else look.rich(self)

    def _repr_html_(self) -> str | None:
        look = _look_of(self)
        return None if look is None else look.html(self)


def _look_of(value: object) -> Look | None:
    return next((_LOOKS[kind] for kind in type(value).__mro__ if kind in _LOOKS), None)
