"""The meter on a terminal: bands side by side, the one told in its colour, the tolerance in grey.

What rich prints; whatever is said in colour is said in text as well.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from easeml_meter.core.people import Role
from easeml_meter.core.signals import (
    ABOVE_CEILING,
    ALARM,
    BASELINE,
    BELOW_FLOOR,
    FAIL,
    NO_READING,
    OK,
    PASS,
    TOO_FAR,
    TOO_FEW,
)
from easeml_meter.core.views import SessionView, Signal
from easeml_meter.promise.assumptions import about_people
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most
from easeml_meter.report.advice import advice
from easeml_meter.report.checks import Check, checks, summary
from easeml_meter.report.gauge import (
    DARK,
    LIT,
    SOFT,
    Gauge,
    filled_cells,
    headline,
    left_line,
    told_lines,
)
from easeml_meter.report.palette import CHARGE, LOW_CHARGE, text_on
from easeml_meter.report.scale import Scale, answer_colour
from easeml_meter.report.words import (
    LOW_BATTERY,
    answer_words,
    change_words,
    gap_words,
    left_words,
    loss_name,
    loss_sentence,
    named_set,
    needed_words,
    share_words,
    sharing_words,
    short_words,
    shown,
    true_loss_words,
    validation_words,
    when,
)

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    from easeml_meter.core.submissions import Note

_GREY = "#8a939c"
_BLOCK = "█"
_COLUMN = 3
_MOST_COLUMNS = 20
_MOST_ROWS = 12
_GLYPHS = {
    ABOVE_CEILING: "▲",
    NO_READING: "×",
    PASS: "✓",
    OK: "✓",
    ALARM: "!",
    FAIL: "✗",
    BASELINE: "○",
    TOO_FAR: "≠",
    BELOW_FLOOR: "▼",
    TOO_FEW: "∅",
}


def terminal(signal: Signal) -> Group:
    """Print one answer as the coloured meter."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    gauge = Gauge(signal)
    parts: list[RenderableType] = [Text(headline(signal), style="bold")]
    if gauge.cell:
        row = Text("  ", no_wrap=True, overflow="crop")
        for kind, chars in gauge.runs({LIT: _BLOCK, SOFT: "▒", DARK: "·"}):
            if kind == LIT:
                row.append_text(_solid(chars, signal))
            else:
                row.append(chars, style=_GREY)
        edges = Text(f"  {gauge.edges()}", style=_GREY, no_wrap=True, overflow="crop")
        parts += [row, edges]
    parts += [Padding(Text(line), (0, 2)) for line in told_lines(signal)]
    parts.append(Text("  left ").append_text(_bar(signal.battery)).append(f" {left_line(signal)}"))
    return Group(*parts)


def _solid(chars: str, signal: Signal) -> Text:
    """Paint a piece of the bar told: solid also where there is no colour, with its number on it."""
    from rich.text import Text

    colour = answer_colour(signal)
    text = Text()
    for char in chars:
        ink = colour if char in f"{_BLOCK}▓" else f"bold {text_on(colour)}"
        text.append(char, style=ink if char == "▓" else f"{ink} on {colour}")
    return text


def _bar(share: float) -> Text:
    from rich.text import Text

    filled = filled_cells(share, 10)
    colour = CHARGE if share >= LOW_BATTERY else LOW_CHARGE
    bar = Text("▕").append("█" * filled, style=colour)
    return bar.append("░" * (10 - filled), style=_GREY).append("▏")


def session_terminal(view: SessionView, role: Role | None = None) -> Group:
    """Print where a session stands: battery, meter per step, promise, and what to do now.

    Without a role, advice is for all of them.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    title = Text(f"Meter {shown(view.meter, 40)}, {named_set(view)}: ", style="bold")
    title.append(str(view.phase), style="bold reverse")
    left = Text("left ").append_text(_bar(view.battery))
    left.append(f" {share_words(view.battery)}, ")
    left.append(left_words(view.spec, view.steps_left))
    rows = "none yet" if view.labels is None else f"{view.labels:,}"
    labels = Text(f"{view.spec.meter.sample.handed_in}: {rows} {needed_words(view)}", style=_GREY)
    parts: list[RenderableType] = [title, left, labels, Text()]
    if view.signals:
        parts += [_chart(view), Text()]
        if said := loss_sentence(view.signals[-1], alone=True):
            last = view.signals[-1]
            model = _ltr(shown(last.model, 40))
            parts += [Text(f"Step {last.step:,}, model {model}: {said}"), Text()]
    parts.append(Text(view.promise))
    parts += [Text(f"This assumes that {line}.") for line in about_people(view.assumptions)]
    parts += [Text(view.validation_noise)] if view.validation_noise else []
    parts.append(Text())
    found = checks(view)
    if found:
        parts += [Text(summary(found)), Text()]
    for line in sharing_words(view):
        parts += [_with_commands(line), Text()]
    parts.append(Text("What to do now", style="bold"))
    steps = Table.grid(padding=(0, 1))
    for line in advice(view, role):
        steps.add_row(Text("-"), _with_commands(line))
    return Group(*parts, steps)


def _with_commands(line: str) -> Text:
    from rich.text import Text

    words = Text()
    for index, part in enumerate(line.split("`")):
        words.append(part, style="bold" if index % 2 else None)
    return words


def _chart(view: SessionView) -> Text:
    """Draw the last steps as columns, the lowest band at the bottom."""
    from rich.text import Text

    signals = view.signals[-_MOST_COLUMNS:]
    scale = Scale(view.spec, signals)
    rungs = scale.rungs
    chart = Text(no_wrap=True, overflow="crop")
    if len(signals) < len(view.signals):
        chart.append(f"the last {len(signals)} of {len(view.signals):,} steps\n", style=_GREY)
    kinds = {"gap": gap_words, "n - o": change_words}
    words = kinds.get(view.spec.meter.question.reads, lambda _: "answer")
    labels = [words(rung) for rung in rungs]
    width = max(map(len, [*labels, "step"]))
    if len(rungs) <= _MOST_ROWS:
        for index, rung in reversed([*enumerate(rungs)]):
            chart.append(f"{labels[index]:>{width}} ", style=_GREY)
            for signal in signals:
                top = index == len(rungs) - 1
                shows = scale.shows(signal)
                chart.append_text(_square(signal, *rung, top=top, shown=shows))
            chart.append("\n")
    else:
        chart.append(f"{'band':>{width}} ", style=_GREY)
        for signal in signals:
            chart.append_text(_sign(signal))
        chart.append("\n")
    chart.append(f"{'step':>{width}} ", style=_GREY)
    apart = 1 if signals[-1].step < 100 else 5
    for signal in signals[::apart]:
        number = f"{signal.step:^{_COLUMN}}" if apart == 1 else f" {signal.step}"
        chart.append(f"{number:<{apart * _COLUMN}}", style=_GREY)
    odd = sorted({signal.answer for signal in signals if signal.answer < 0}, reverse=True)
    if odd:
        signs = ", ".join(f"{_GLYPHS[answer]} {answer_words(answer)}" for answer in odd)
        chart.append(f"\n{'':>{width}} {signs}")
    return chart


def _sign(signal: Signal) -> Text:
    from rich.text import Text

    if signal.band is None:
        return Text(f"{_GLYPHS[signal.answer]:^{_COLUMN}}", style="bold")
    return _solid(f"{signal.answer:{_BLOCK}^{_COLUMN}}", signal)


def _square(signal: Signal, lower: float, upper: float, *, top: bool, shown: bool) -> Text:
    """Draw one rung of one step; `top`: the highest one; `shown`: the scale is of its kind."""
    from rich.text import Text

    told, promised = signal.told, signal.promised
    if told is None or promised is None or not shown:
        return _sign(signal) if top else Text(" · ", style=_GREY)
    if not signal.spec.meter.question.numbered and told[0] < upper and lower < told[1]:
        # A band with drawn edges lies across rungs: less than half of one is drawn lighter.
        half = min(upper, told[1]) - max(lower, told[0]) >= (upper - lower) / 2
        return _solid((_BLOCK if half else "▓") * _COLUMN, signal)
    if told[0] <= lower and upper <= told[1]:
        if signal.change or signal.band is None:
            return _sign(signal)
        if signal.spec.meter.question.ends[signal.answer - 1] == as_written(lower):
            return _sign(signal)
        return _solid(_BLOCK * _COLUMN, signal)
    if promised[0] >= upper or promised[1] <= lower:
        return Text(" · ", style=_GREY)
    above = lower >= told[1]
    whole = promised[1] >= upper if above else promised[0] <= lower
    return Text(("▒" if whole else "▂" if above else "▔") * _COLUMN, style=_GREY)


def history_terminal(view: SessionView) -> Table:
    """Print every answer as a table; after release with the losses instead of the times."""
    from rich.table import Table
    from rich.text import Text

    title = f"{shown(view.meter, 40)}, {named_set(view)}: {view.phase}"
    title += "" if view.signals else ", no answers yet"
    table = Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold underline",
    )
    found = checks(view)
    tenants = len({signal.tenant for signal in view.signals}) > 1
    table.add_column("step", justify="right", no_wrap=True)
    for heading in [*(["team"] if tenants else []), "model"]:
        table.add_column(heading, overflow="fold", min_width=10)
    name = f"true {loss_name(view.spec)}"
    late = ("test", "right?") if found else (name, "when (UTC)")
    gap = ("gap",) if view.spec.meter.question.reads == "gap" else ()
    for heading in ("answer", *gap, "validation", *late):
        table.add_column(heading, no_wrap=heading != "right?", min_width=6)
    notes = view.noted
    if notes:
        table.add_column("note", overflow="fold", min_width=10)
    for index, signal in enumerate(view.signals):
        names = [str(signal.tenant)] if tenants else []
        names.append(shown(signal.model, 28))
        answer = Text(short_words(signal))
        if signal.band is not None:
            answer = Text.assemble(("■ ", answer_colour(signal)), answer)
        if found:
            late_cells = _truth(found[index])
        else:
            cells = (
                validation_words(signal),
                true_loss_words(signal),
                when(signal.told_at)[:10],
            )
            late_cells = [*map(Text, cells)]
        table.add_row(
            Text(f"{signal.step:,}"),
            *(Text(_ltr(name)) for name in names),
            answer,
            *(Text(_dashed(signal.gap)) for _ in gap),
            *late_cells,
            *([Text(_noted(notes.get((signal.generation, signal.step))))] if notes else []),
        )
    return table


def _noted(note: Note | None) -> str:
    return "" if note is None else " ".join(filter(None, (note.text, note.link)))


def _truth(check: Check) -> list[Text]:
    from rich.text import Text

    losses = ["unknown"] * 2
    if check.truth is not None:
        losses = [f"{loss:.5f}" for loss in (check.truth.validation_loss, check.truth.test_loss)]
    style = "bold red" if check.right is False else ""
    return [*map(Text, losses), Text(check.words, style=style)]


def _dashed(edges: tuple[float, float] | None) -> str:
    return "unknown" if edges is None else f"{at_least(edges[0])}-{at_most(edges[1])}"


def _ltr(name: str) -> str:
    """Close a name written from right to left, so that it cannot reorder what follows it."""
    turned = any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in name)
    return f"{name}\u200e" if turned else name
