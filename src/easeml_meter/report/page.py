"""The report: one self-contained page, without script and without anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.questions.kinds import question_of
from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.core.signals import Rules
from easeml_meter.core.views import SessionView, Signal, together
from easeml_meter.report.advice import advice
from easeml_meter.report.badges import battery_svg
from easeml_meter.report.checks import Check, checks, summary
from easeml_meter.report.curves import curves_svg
from easeml_meter.report.meter import meter_svg
from easeml_meter.report.percent import in_percent
from easeml_meter.report.scale import answer_colour
from easeml_meter.report.style import STYLE
from easeml_meter.report.svg import element, escaped
from easeml_meter.report.words import (
    gap_name,
    loss_name,
    loss_sentence,
    named_set,
    range_words,
    share_words,
    short_words,
    sure_words,
    true_loss_words,
    validation_words,
    when,
)
from easeml_meter.stats.rounding import as_written

_PHASES = {
    Phase.REQUESTED: "The labelers have been asked for its labels.",
    Phase.ACTIVE: "It answers submissions.",
    Phase.SPENT: "It gives no more answers.",
    Phase.ARCHIVED: "Its meter was given up before the first answer.",
    Phase.RELEASED: "It was given to the developers and hides nothing any more.",
}
_NAME_LENGTH = 60
_DECIMALS = 5


def html_page(view: SessionView) -> str:
    """Write the report of one test set as a page that stands alone."""
    title = f"{escaped(view.meter, _NAME_LENGTH)}, test set {view.generation}"
    return page(f"Overfitting meter: {title}", *sections(view))


def page(title: str, *content: str) -> str:
    """Write a page that stands alone; title and content are markup."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        "</head>",
        "<body>",
        "<main>",
        *content,
        "</main>",
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(parts)


def sections(view: SessionView) -> tuple[str, ...]:
    """Return the parts of the page in order, for a page of one's own."""
    found = (
        _header(view),
        _section("What to do now", _bullets(_said(view, advice(view))), kind="m-now"),
        *_last(view),
        _section("The meter", _meter(view)),
        _section("What is left", _left(view)),
        _section("The promise", f"<p>{escaped(in_percent(view.promise, view.spec))}</p>"),
        _section("What the promise rests on", _bullets(_said(view, view.assumptions))),
        _section("History", _history(view)),
    )
    return (*found, _section("In retrospect", _retrospect(view))) if view.retrospective else found


def _said(view: SessionView, lines: Iterable[str]) -> list[str]:
    return [in_percent(line, view.spec) for line in lines]


def _header(view: SessionView) -> str:
    phase = f'<span class="m-phase">{escaped(str(view.phase))}</span> {_PHASES[view.phase]}'
    return (
        f"<header><h1>Meter <bdi>{escaped(view.meter, _NAME_LENGTH)}</bdi>, "
        f"{named_set(view)}</h1><p>{phase}</p></header>"
    )


def _last(view: SessionView) -> tuple[str, ...]:
    """Say what is known of the last model's true loss."""
    said = loss_sentence(view.signals[-1], alone=True) if view.signals else ""
    if not said:
        return ()
    last = view.signals[-1]
    words = f"Step {last.step:,}, {_name(last.model)}: <strong>{escaped(said)}</strong>"
    return (_section("The last model", f"<p>{words}</p>"),)


def _section(heading: str, content: str, kind: str = "") -> str:
    opening = f'<div class="{kind}">{content}</div>' if kind else content
    return f"<section><h2>{heading}</h2>\n{opening}</section>"


def _bullets(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{_with_code(line)}</li>" for line in lines) + "</ul>"


def _with_code(line: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escaped(line))


def _scroll(label: str, content: str) -> str:
    """Wrap something wide so that it scrolls by itself, also by keyboard."""
    return f'<div class="m-scroll" role="region" aria-label="{label}" tabindex="0">{content}</div>'


def _meter(view: SessionView) -> str:
    told = (
        "the worst band so far: the gap is at most that"
        if Rules(view.spec).incremental
        else f"the band that contains the {gap_name(view.spec)}"
    )
    scale = (
        "All bands are drawn at the same height; the numbers on the axis are their edges."
        if view.spec.drawn is None
        else "Its edges were drawn by the meter, for this answer alone; they stand beside it."
    )
    caption = (
        f"One column per step. The solid bar is {told}. The grey bars are the tolerance: with them "
        f"it covers the gap to the true loss, as promised. {scale}"
    )
    words = question_of(view.spec).words
    if words is not None:
        caption = escaped(words.caption)
    figure = _scroll("The meter, step by step", meter_svg(view))
    return f"<figure>{figure}<figcaption>{caption}</figcaption></figure>"


def _left(view: SessionView) -> str:
    needing = "it was topped up with" if view.spec.topped_up else "a test set needs"
    facts = [
        ("steps promised, whatever the answers", f"{view.steps_left:,}"),
        ("steps taken", f"{len(view.signals):,}"),
        (
            f"{view.spec.unit} in this test set",
            "none yet" if view.labels is None else f"{view.labels:,}",
        ),
        (f"{view.spec.unit} that {needing}", f"{view.labels_needed:,}"),
    ]
    if view.spec.window is not None:
        batch = f"{labels_needed(view.spec, 2):,}"
        left = ("answers left in this window", f"{view.steps_left:,}")
        facts = [left, *facts[1:3], ("labels that each new batch needs", batch)]
    rows = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts)
    return f'<figure>{battery_svg(view.battery)}</figure><dl class="m-facts">{rows}</dl>'


def _table(caption: str, headings: Iterable[str], rows: Iterable[str]) -> str:
    heads = "".join(f'<th scope="col">{name}</th>' for name in headings)
    body = "\n".join(rows)
    table = f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead>"
    return _scroll(caption, f"{table}<tbody>\n{body}\n</tbody></table>")


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _name(text: str) -> str:
    """Isolate a name: one written from right to left cannot reorder what stands around it."""
    return f"<bdi>{escaped(text, _NAME_LENGTH)}</bdi>"


def _answer(signal: Signal) -> str:
    """Name the answer, with its colour beside it."""
    words = short_words(signal)
    if signal.band is None:
        return words
    square = element("path", d="M0 0h10v10H0z")
    return (
        element("svg", square, class_="m-dot", fill=answer_colour(signal), aria_hidden="true")
        + words
    )


def _history(view: SessionView) -> str:
    if not view.signals:
        return "<p>No answers yet.</p>"
    tenants = len({signal.tenant for signal in view.signals}) > 1
    headings = ["step", *(["team"] if tenants else []), "model", "answer"]
    headings += ["gap"] if view.spec.bands else []
    name = loss_name(view.spec)
    # After release, the table of retrospect has the losses.
    losses = [] if view.retrospective else [f"validation {name}", f"true {name} promised"]
    headings += [*losses, "when (UTC)", "steps left"]
    rows = []
    for signal in view.signals:
        cells = [
            f"{signal.step:,}",
            *([str(signal.tenant)] if tenants else []),
            _name(signal.model),
            _answer(signal),
            *([_gap(signal)] if view.spec.bands else []),
            *([validation_words(signal), true_loss_words(signal)] if losses else []),
            f"<time>{when(signal.told_at)}</time>",
            f"{signal.steps_left:,} ({share_words(signal.battery)})",
        ]
        rows.append(_row(cells))
    return _table("Every answer, in order", headings, rows)


def _gap(signal: Signal) -> str:
    return "unknown" if signal.gap is None else range_words(signal.spec, signal.gap)


def _retrospect(view: SessionView) -> str:
    found = checks(view)
    words = question_of(view.spec).words
    remains = "it lies within the tolerance of the test loss" if words is None else words.remains
    average = "" if view.spec.window is None else ", averaged over the window,"
    known = (
        "The validation loss and the test loss of every step are now known, and so is whether each "
        f"answer was right. The true loss{average} stays unknown: that {remains} remains a "
        f"promise, {sure_words(view.spec)} {together(view.spec, view.generation)}."
    )
    figure = _scroll("Validation and test loss, step by step", curves_svg(view))
    headings = ["step", "model", "answer", "validation loss", "test loss", "gap"]
    headings += ["true loss promised", "right?"]
    rows = [_truth(check) for check in found]
    return (
        f"<p><strong>{summary(found)}</strong></p><p>{known}</p>"
        f"<figure>{figure}</figure>{_table('Every step, with its losses', headings, rows)}"
    )


def _truth(check: Check) -> str:
    truth = check.truth
    losses = (None,) * 3 if truth is None else (truth.validation_loss, truth.test_loss, check.gap)
    interval = check.true_loss
    promised = "nothing" if interval is None else _outward(*interval)
    words = escaped(check.words)
    cells = [
        f"{check.signal.step:,}",
        _name(check.signal.model),
        _answer(check.signal),
        *("unknown" if loss is None else f"{loss:.{_DECIMALS}f}" for loss in losses),
        promised,
        f'<strong class="m-no">{words}</strong>' if check.right is False else words,
    ]
    return _row(cells)


def _outward(least: float, most: float) -> str:
    """Return where a loss was promised to be, with as many decimals as those measured."""
    low, high = (as_written(each) * 10**_DECIMALS for each in (least, most))
    ends = (math.floor(low), math.ceil(high))
    return " to ".join(f"{each / 10**_DECIMALS:.{_DECIMALS}f}" for each in ends)
