"""Where everything in the drawing of a meter goes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from easeml_meter.core.views import SessionView
from easeml_meter.report.scale import Scale
from easeml_meter.report.svg import MARGIN, fitted, text_width

FEW = 24
"""Up to here every column carries its step and its model's name; beyond, they are thinned."""
PER_ROW = 50
_LEAST_WIDTH = 350.0
_NAME_LENGTH = 18


@dataclass(frozen=True)
class Layout:
    """Where everything goes."""

    view: SessionView

    @cached_property
    def coming(self) -> int:
        """Empty columns for the steps still promised, while there is room for them."""
        total = len(self.view.signals) + self.view.steps_left
        return self.view.steps_left if total <= FEW else 0

    @cached_property
    def columns(self) -> int:
        """All columns."""
        return len(self.view.signals) + self.coming

    @property
    def few(self) -> bool:
        """Whether there is room for names."""
        return self.columns <= FEW

    @cached_property
    def per_row(self) -> int:
        """Columns side by side before a new row is begun."""
        return max(1, min(self.columns, PER_ROW))

    @cached_property
    def pitch(self) -> float:
        """From one column to the next."""
        return 30.0 if self.columns <= 12 else 26.0 if self.few else 14.0

    @property
    def bar(self) -> float:
        """How wide a column is."""
        return self.pitch - (6 if self.few else 1)

    @cached_property
    def cell(self) -> float:
        """How high a band is; a column has room for the word "above ceiling", upright."""
        bands = len(self.scale.rungs)
        if self.view.spec.drawn is not None:  # the edges of each band stand beside it, upright
            return (200 if self.few else 100) / bands
        wanted = 150 if self.few else 100
        return max(min(4.0, 400 / bands), min(36.0, wanted / bands), 96 / bands)

    @cached_property
    def plot(self) -> float:
        """How high a column is."""
        return self.cell * len(self.scale.rungs)

    @cached_property
    def scale(self) -> Scale:
        """The scale of the columns."""
        return Scale(self.view.spec, self.view.signals)

    @cached_property
    def axis(self) -> float:
        """Room for the edges at the left, and for the first name, which leans that way."""
        widest = max(text_width(edge, 10) for edge in self.edges)
        return MARGIN + max(widest + 16, 44.0)

    @cached_property
    def edges(self) -> tuple[str, ...]:
        """The edges of the scale, from 0 up."""
        return tuple(f"{edge:g}" for edge in self.scale.edges)

    @cached_property
    def below(self) -> float:
        """Room for steps and names under a row."""
        if not self.few:
            return 24.0
        names = [self.name(index) for index in range(len(self.view.signals))]
        return 24.0 + 0.72 * max((text_width(name, 10) for name in names), default=0.0)

    def name(self, index: int) -> str:
        """Return a model's name as far as there is room for it, leaning to the left."""
        room = (self.axis + index * self.pitch + self.pitch / 2 - 4) / 0.72
        return fitted(self.view.signals[index].model, 10, room, _NAME_LENGTH)

    @cached_property
    def width(self) -> float:
        """The whole drawing's width."""
        return max(_LEAST_WIDTH, self.axis + self.per_row * self.pitch + MARGIN)

    @cached_property
    def top(self) -> float:
        """Where the first row begins, under the heading."""
        return 56.0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return max(1, -(-self.columns // PER_ROW))

    def row_top(self, row: int) -> float:
        """Where a row of columns begins."""
        return self.top + row * (self.plot + self.below)

    def place(self, index: int) -> tuple[float, float]:
        """Return the left and the top of a column."""
        row, column = divmod(index, PER_ROW)
        gutter = (self.pitch - self.bar) / 2
        return self.axis + column * self.pitch + gutter, self.row_top(row)

    def height_of(self, gap: float) -> float:
        """Return how far below the top of a column a gap lies."""
        return self.plot - self.cell * self.scale.place(gap)
