"""A signal that shows itself: `print(signal)` draws the meter, and rich draws it in colour."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from easeml_meter.core.views import SessionView, Signal
from easeml_meter.report.gauge import plain
from easeml_meter.report.terminal import terminal

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True)
class ShownSignal(Signal):
    """What `Meter.submit` returns."""

    def __str__(self) -> str:
        return plain(self)

    def __rich__(self) -> RenderableType:
        return terminal(self)


def shown(signal: Signal) -> ShownSignal:
    """Return a signal that shows itself."""
    return ShownSignal(**{field.name: getattr(signal, field.name) for field in fields(signal)})


def shown_view(view: SessionView) -> SessionView:
    """Return a session whose signals show themselves."""
    return replace(view, signals=tuple(map(shown, view.signals)))
