"""What plans, answers, sessions and audits look like at a prompt, printed, and in a notebook."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime

from easeml_meter.core.questions.comparison import Forms
from easeml_meter.core.questions.planning import Plan
from easeml_meter.core.views import Audit, History, SessionView, Signal
from easeml_meter.report.badges import battery_svg
from easeml_meter.report.bands import bands_svg
from easeml_meter.report.checks import checks, summary
from easeml_meter.report.curves import curves_svg
from easeml_meter.report.gauge import (
    DARK,
    LIT,
    SOFT,
    Gauge,
    headline,
    plain,
    told_lines,
)
from easeml_meter.report.meter import meter_svg
from easeml_meter.report.palette import TOLERANCE, TRACK, text_on
from easeml_meter.report.scale import answer_colour
from easeml_meter.report.svg import box, element, escaped, image, number
from easeml_meter.report.terminal import session_terminal, terminal
from easeml_meter.report.words import (
    left_words,
    loss_sentence,
    standing_words,
    steps_words,
    sure_words,
    told_words,
    true_loss_words,
    validation_words,
    when,
)
from easeml_meter.report.words import shown as cut
from easeml_meter.showing import Look, register
from easeml_meter.spec import MeterSpec

_WIDTH = 78
_CHARACTER = 9.0
"""Pixels for one character of a gauge."""
_FEW = 12
"""Rows of a table that are shown; the others are counted."""


def _plan_brief(plan: Plan) -> str:
    more = "" if plan.top_up is None else f"; {_top_up(plan.top_up)}"
    answers = "answers without an end"
    if not plan.budget.endless:
        answers = steps_words(plan.budget.steps)
    needed = f"{plan.labels:,} {_unit(plan)} for {answers}"
    return f"Plan: {needed}, {plan.question.brief}, {plan.confidence} sure{more}"


def _unit(plan: Plan) -> str:
    """Name what is delivered: rows, where the promise is counted of some of them."""
    return plan.unit if plan.labels == plan.size else "rows"


def _top_up(more: dict[str, int]) -> str:
    return f"{more['more_labels']:,} more for {steps_words(more['steps'])} more"


def _plan_words(plan: Plan) -> str:
    rests = (f"- {line}" for line in plan.assumptions)
    lines = [f"{_plan_brief(plan)}.", plan.promise, "This rests on:", *rests]
    return "\n".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ") for line in lines)


def _plan_html(plan: Plan) -> str:
    facts = {
        f"{_unit(plan)} needed": f"<b>{plan.labels:,}</b>",
        "steps": plan.budget.answers,
        **{name: escaped(each) for name, each in plan.question.facts.items()},
        "sure": plan.confidence,
    }
    if plan.top_up is not None:
        facts["top-up"] = _top_up(plan.top_up)
    drawn = "" if plan.meter is None else bands_svg(plan.meter)
    rests = "".join(f"<li>{escaped(line)}</li>" for line in plan.assumptions)
    more = f"<details><summary>What this rests on</summary><ul>{rests}</ul></details>"
    listed = _table((), [list(fact) for fact in facts.items()])
    picture = f'<div style="max-width: 40em">{drawn}</div>' if drawn else ""
    return _block(listed, picture, escaped(plan.promise), more)


def _spec_brief(spec: MeterSpec) -> str:
    question = spec.meter.question
    asked = f"{question.rungs} bands" if question.reads == "gap" else question.text
    steps = spec.meter.budget.steps
    count = steps if isinstance(steps, str) else f"{steps:,}"
    return f"MeterSpec: {count} answers, {asked}, {sure_words(spec)}"


def _forms_brief(forms: Forms) -> str:
    plans = [form.plan for form in forms]
    least, most = min(each.labels for each in plans), max(each.labels for each in plans)
    meter = plans[0].spec.meter
    steps = steps_words(meter.answers() or 0)
    asked = f"{steps} from {least:,} to {most:,} {meter.sample.handed_in}"
    return f"Forms: {len(forms)} forms of one meter, {asked}, {forms.recommended.name} first"


def _forms_rows(forms: Forms) -> tuple[list[str], list[list[str]]]:
    headings = ["form", forms[0].plan.spec.meter.sample.handed_in, "what it asks for"]
    return headings, [[form.name, f"{form.plan.labels:,}", form.asks] for form in forms]


def _forms_words(forms: Forms) -> str:
    _, rows = _forms_rows(forms)
    width, room = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    lines = [
        textwrap.fill(
            f"{name:{width}}  {labels:>{room}}  {asks}",
            _WIDTH,
            subsequent_indent=" " * (width + room + 4),
        )
        for name, labels, asks in rows
    ]
    return "\n".join([f"{_forms_brief(forms)}.", *lines])


def _forms_html(forms: Forms) -> str:
    headings, rows = _forms_rows(forms)
    first = forms.recommended.name
    cells = [
        [f"<b>{escaped(cell)}</b>" if row[0] == first else escaped(cell) for cell in row]
        for row in rows
    ]
    return _block(_table(headings, cells))


def _signal_html(signal: Signal) -> str:
    lines = map(escaped, told_lines(signal))
    return _block(f"<b>{escaped(headline(signal))}</b>", _gauge(signal), *lines, _battery(signal))


def _gauge(signal: Signal) -> str:
    gauge = Gauge(signal)
    if not gauge.cell:
        return ""
    colour = TRACK if signal.band is None else answer_colour(signal)
    paint = {LIT: colour, SOFT: TOLERANCE, DARK: TRACK}
    parts, left = [], 1.0
    for kind, chars in gauge.runs(dict.fromkeys(paint, " ")):
        width = len(chars) * _CHARACTER
        parts.append(element("path", d=box(left, 1, width, 22), fill=paint[kind]))
        # The numbers of the bands stand where a terminal has them.
        for at, char in enumerate(chars):
            if char != " ":
                x, ink = number(left + (at + 0.5) * _CHARACTER), text_on(paint[kind])
                parts.append(
                    element("text", char, x=x, y=16, fill=ink, text_anchor="middle", font_size=11)
                )
        left += width
    edges = gauge.edges()
    at = 0
    for word in edges.split():
        at = edges.index(word, at)
        parts.append(element("text", word, x=number(1 + at * _CHARACTER), y=38, font_size=10))
        at += len(word)
    room = left + 20
    return image(
        "gauge", room, 44, headline(signal), " ".join(told_lines(signal)), *parts, small=True
    )


def _view_brief(view: SessionView) -> str:
    return (
        f"SessionView: meter {cut(view.meter, 40)}, {standing_words(view)}, "
        f"{left_words(view.spec, view.steps_left)}"
    )


def _view_words(view: SessionView) -> str:
    from rich.console import Console

    console = Console(width=_WIDTH, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(session_terminal(view))
    return captured.get().rstrip()


def _view_html(view: SessionView) -> str:
    last = loss_sentence(view.signals[-1], alone=True) if view.signals else ""
    truth = [escaped(summary(checks(view))), curves_svg(view)] if view.retrospective else []
    said = f"<b>{escaped(last)}</b>" if last else ""
    return _block(said, meter_svg(view), _battery(view), *truth, escaped(view.promise))


def _history_brief(history: History) -> str:
    answers = sum(len(view.signals) for view in history)
    return f"History: test sets: {len(history)}, answers: {answers:,}"


def _history_rows(history: History) -> tuple[list[str], list[list[str]]]:
    headings = ["test set", "step", "model", "answer", "validation", "promised", "when (UTC)"]
    told = [signal for view in history for signal in view.signals]
    return headings, [
        [
            *(f"{each.generation}", f"{each.step:,}", cut(each.model, 40), told_words(each)),
            *(validation_words(each), true_loss_words(each), when(each.told_at)),
        ]
        for each in told
    ]


def _history_html(history: History) -> str:
    headings, rows = _history_rows(history)
    drawn = meter_svg(history[-1]) if history else ""
    return _block(drawn, _table(headings, [[*map(escaped, row)] for row in rows]))


def _audit_brief(audit: Audit) -> str:
    state = f"{len(audit.problems)} problems" if audit.problems else audit.state
    return f"Audit: {len(audit.links):,} links, {state}"


def _audit_rows(audit: Audit) -> tuple[list[str], list[list[str]]]:
    headings = ["link", "when (UTC)", "event"]
    return headings, [
        [f"{each.number:,}", when(datetime.fromisoformat(each.at)), each.event]
        for each in audit.links
    ]


def _audit_words(audit: Audit) -> str:
    return "\n".join(
        [f"{_audit_brief(audit)}.", *audit.problems, *audit.restored, _aligned(*_audit_rows(audit))]
    )


def _audit_html(audit: Audit) -> str:
    headings, rows = _audit_rows(audit)
    problems = "".join(f"<li>{escaped(line)}</li>" for line in (*audit.problems, *audit.restored))
    listed = f"<ul>{problems}</ul>" if problems else ""
    head = f"<b>{escaped(_audit_brief(audit))}</b>"
    return _block(head, listed, _table(headings, [[*map(escaped, row)] for row in rows]))


def _aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Print a table as text; of many rows the last ones."""
    shown = [headings, *rows[-_FEW:]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in shown
    ]
    more = len(rows) - _FEW
    return "\n".join(lines + ([f"(and {more:,} before)"] if more > 0 else []))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table, of which the cells are markup; of many rows the last ones."""
    left = 'style="text-align: left"'
    head = "".join(f"<th {left}>{heading}</th>" for heading in headings)
    body = "".join(
        f"<tr>{''.join(f'<td {left}>{cell}</td>' for cell in row)}</tr>" for row in rows[-_FEW:]
    )
    more = len(rows) - _FEW
    note = f"<caption>The last {_FEW} of {len(rows):,}</caption>" if more > 0 else ""
    return f"<table>{note}{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def _battery(of: Signal | SessionView) -> str:
    words = escaped(left_words(of.spec, of.steps_left))
    return f'<span style="vertical-align: middle">{battery_svg(of.battery)}</span> {words}'


def _block(*parts: str) -> str:
    rows = "".join(f'<div style="margin: .4em 0">{part}</div>' for part in parts if part)
    return f"<div>{rows}</div>"


register(Plan, Look(_plan_brief, _plan_words, _plan_html))
register(Signal, Look(lambda each: f"Signal: {headline(each)}", plain, _signal_html, terminal))
register(SessionView, Look(_view_brief, _view_words, _view_html, session_terminal))
register(
    History, Look(_history_brief, lambda history: _aligned(*_history_rows(history)), _history_html)
)
register(
    MeterSpec, Look(_spec_brief, MeterSpec.to_toml, lambda spec: _block(escaped(_spec_brief(spec))))
)
register(Forms, Look(_forms_brief, _forms_words, _forms_html))
register(Audit, Look(_audit_brief, _audit_words, _audit_html))
