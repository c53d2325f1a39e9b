"""One answer as a row of characters: the bands side by side, the one told, its tolerance.

`plain` needs neither colour nor more than ASCII for what it draws; `terminal` colours the same row.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from functools import cached_property

from easeml_meter.core.views import Signal
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.report.scale import Scale
from easeml_meter.report.words import (
    change_words,
    gap_name,
    left_words,
    loss_sentence,
    share_words,
    shown,
    told_gap_words,
    told_words,
)

_WIDTH = 60
"""Characters for all bands together."""

LIT, SOFT, DARK = "lit", "soft", "dark"
"""What a character stands for: told, tolerance, neither, told of a reverted step."""


@dataclass(frozen=True)
class Gauge:
    """One answer as a row of characters, each with what it stands for."""

    signal: Signal

    @property
    def cell(self) -> int:
        """Characters for each band; 0 where there are none, or too many to draw."""
        if self.signal.spec.meter.question.verdict:
            return 0
        return min(12, _WIDTH // len(self.scale.rungs))

    @cached_property
    def scale(self) -> Scale:
        """The scale it is drawn on."""
        return Scale(self.signal.spec, (self.signal,))

    def place(self, gap: float) -> float:
        """Return where a gap lies; bands are equally wide."""
        return self.cell * self.scale.place(gap)

    def kinds(self) -> list[str]:
        """Say of each character whether it is told, within the tolerance, or neither."""
        kinds = [DARK] * (self.cell * len(self.scale.rungs))
        told, promised = self.signal.told, self.signal.promised
        if told is None or promised is None:
            return kinds
        first, last = round(self.place(told[0])), round(self.place(told[1]))
        first = min(first, len(kinds) - 1)
        last = max(last, first + 1)  # a band narrower than a character is drawn, too
        # A tolerance is drawn however thin it is: one character at least.
        least = first if promised[0] >= told[0] else min(first - 1, round(self.place(promised[0])))
        most = last if promised[1] <= told[1] else max(last + 1, round(self.place(promised[1])))
        kinds[max(0, least) : most] = [SOFT] * (min(len(kinds), most) - max(0, least))
        kinds[first:last] = [LIT] * (last - first)
        return kinds

    def runs(self, fill: dict[str, str]) -> list[tuple[str, str]]:
        """Return the characters, in runs of one kind, with the bands' numbers in their middles.

        Of a bar over several bands, only the band told keeps its number.
        """
        kinds = self.kinds()
        chars = [fill[kind] for kind in kinds]
        # Bands with drawn edges have no numbers.
        for band in range(
            self.signal.spec.meter.question.rungs if self.signal.spec.meter.question.numbered else 0
        ):
            digits = str(band + 1)
            start = band * self.cell + (self.cell - len(digits)) // 2
            if self.cell > len(digits) and (kinds[start] != LIT or band + 1 == self.signal.answer):
                chars[start : start + len(digits)] = digits
        runs: list[tuple[str, str]] = []
        for kind, char in zip(kinds, chars, strict=True):
            if runs and runs[-1][0] == kind:
                runs[-1] = (kind, runs[-1][1] + char)
            else:
                runs.append((kind, char))
        return runs

    def edges(self) -> str:
        """Return the line of the bands' edges, as many as fit."""
        *lower, highest = self.scale.edges
        end = len(lower) * self.cell
        line = ""
        for index, edge in enumerate(lower):
            written = f"{edge:g}"
            start = index * self.cell
            if index == 0 or (len(line) < start and start + len(written) < end):
                line = line.ljust(start) + written
        return line.ljust(end) + f"{highest:g}"


def plain(signal: Signal) -> str:
    """Print one answer without colour; what is drawn is ASCII, for any log and any terminal."""
    gauge = Gauge(signal)
    lines = [headline(signal, ellipsis="...", unprintable="?")]
    fill = {LIT: "#", SOFT: "~", DARK: "."}
    if gauge.cell:
        drawn = "".join(chars for _, chars in gauge.runs(fill))
        lines += [f"  {drawn}", f"  {gauge.edges()}"]
    for line in told_lines(signal, f" ({fill[LIT]})", f" ({fill[SOFT]})"):
        lines += textwrap.wrap(line, 78, initial_indent="  ", subsequent_indent="  ")
    filled = filled_cells(signal.battery, 10)
    lines.append(f"  left: [{'#' * filled}{'-' * (10 - filled)}] {left_line(signal)}")
    return "\n".join(lines)


def headline(signal: Signal, ellipsis: str = "…", unprintable: str = "\ufffd") -> str:
    """Say what was told, and of which model."""
    told = told_words(signal)
    if signal.gap is not None and signal.band is not None and signal.spec.meter.question.numbered:
        told += f" of {signal.spec.meter.question.rungs}"
        told += ", the worst so far" if signal.spec.meter.question.climbs_only else ""
    told = f"Step {signal.step:,}: {told}, model "
    room = max(20, 79 - len(told))
    return told + shown(signal.model, room, ellipsis=ellipsis, unprintable=unprintable)


def told_lines(signal: Signal, told: str = "", tolerance: str = "") -> list[str]:
    """Return what was told and promised, line by line; signs may be named with it."""
    lines = [signal.promise]
    if signal.gap is not None and signal.tolerance is not None:
        name = gap_name(signal.spec)
        gap = f"{name[0].upper()}{name[1:]}{told}: {told_gap_words(signal)}."
        lines.insert(0, f"{gap} Tolerance{tolerance}: {at_most(signal.tolerance)}.")
    if signal.change is not None and signal.tolerance is not None:
        read = f"n - o on the test set{told}: {change_words(signal.change)}."
        lines.insert(0, f"{read} Tolerance{tolerance}: {at_most(signal.tolerance)}.")
    if said := loss_sentence(signal):
        lines.insert(-1, said)
    if signal.by_name:
        lines.append(
            "A model of this name was answered before, and this is its answer: the files were not "
            "looked at, and nothing was charged."
        )
    elif signal.repeated:
        lines.append("The same submission was answered before: nothing was charged.")
    return lines


def left_line(signal: Signal) -> str:
    """Say what is left after an answer."""
    left = left_words(signal.spec, signal.steps_left)
    return f"{share_words(signal.battery)}, {left}"


def filled_cells(share: float, cells: int) -> int:
    """Return how many cells of a battery are full: none, or all, only where that is exact."""
    if not 0 < share < 1:
        return cells if share >= 1 else 0
    return min(cells - 1, max(1, round(share * cells)))
