"""The report: one self-contained page, without script and without anything from elsewhere."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.questions.planning import labels_needed
from easeml_meter.core.views import SessionView, Signal, together
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.words import words_of
from easeml_meter.report.advice import advice
from easeml_meter.report.badges import battery_svg
from easeml_meter.report.checks import Check, checks, summary
from easeml_meter.report.curves import curves_svg
from easeml_meter.report.meter import meter_svg
from easeml_meter.report.percent import in_percent
from easeml_meter.report.scale import answer_colour
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

_PAGE = """\
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f6f8fa; --ink: #1c2733; --quiet: #55606b; --line: #cfd6dd;
  --track: #e4e8ec; --tolerance: #a3acb5; --validation: #0062a8; --test: #b34700;
  --wrong: #9b1c31; --link: #0062a8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #12161b; --card: #1a2027; --ink: #e8ebee; --quiet: #a8b1ba; --line: #39424c;
    --track: #2a323b; --tolerance: #6f7a85; --validation: #6cb6f5; --test: #f2a35e;
    --wrong: #ff8193; --link: #6cb6f5;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, "Segoe UI", Helvetica, Arial, sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p, ul, dl { margin: .5rem 0; }
ul { padding-left: 1.25rem; }
code { background: var(--card); border: 1px solid var(--line); border-radius: 4px; }
code { padding: 0 .3em; white-space: nowrap; }
.m-phase {
  display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: 0 .7rem;
  font-weight: 600;
}
.m-quiet { color: var(--quiet); }
.m-now { background: var(--card); border-left: 4px solid var(--link); padding: .25rem 1rem; }
.m-scroll { overflow-x: auto; max-width: 100%; }
.m-scroll:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
figure { margin: .5rem 0; }
figcaption { color: var(--quiet); font-size: .9rem; }
.m-facts { display: grid; gap: .1rem 1rem; }
.m-facts { grid-template-columns: minmax(0, max-content) max-content; }
.m-facts dt { color: var(--quiet); }
.m-facts dd { margin: 0; font-weight: 600; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--quiet); padding-bottom: .25rem; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); }
td { vertical-align: top; white-space: nowrap; }
th { vertical-align: bottom; overflow-wrap: normal; }
td:first-child, th:first-child { text-align: right; }
td > bdi { display: inline-block; white-space: normal; min-width: 8rem; max-width: 16rem; }
.m-no { color: var(--wrong); }
.m-dot { width: 10px; height: 10px; margin-right: .4em; }
@media print { .m-scroll { overflow: visible; } }
"""

DRAWINGS = """\
svg.m-svg { display: block; color: var(--ink); }
@media (min-width: 48rem) { svg.m-small { width: 34rem; height: auto; } }
svg .m-paper { fill: none; }
svg .m-quiet { fill: var(--quiet); }
svg .m-track { fill: var(--track); }
svg .m-grid { stroke: var(--track); }
svg .m-tol { fill: var(--tolerance); }
svg .m-validation { fill: var(--validation); stroke: var(--validation); }
svg .m-test { fill: var(--test); stroke: var(--test); }
svg .m-wrong { stroke: var(--wrong); }
svg .m-chosen { fill: var(--ink); }
@media (prefers-color-scheme: dark) {
  svg .m-line-0 { stroke: #c9a2e8; }
  svg .m-line-1 { stroke: #f2a35e; }
  svg .m-line-2 { stroke: #ffe9d2; }
  svg .m-line-3 { stroke: #6cb6f5; }
  svg .m-line-4 { stroke: #8a95a0; }
  svg .m-line-5 { stroke: #55d6ae; }
}
"""
"""The rules of drawings alone, for pages with a style of their own."""

STYLE = _PAGE + DRAWINGS


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
    phase = f'<span class="m-phase">{escaped(str(view.phase))}</span> {_PHASES[view.phase]}'
    name = f"Meter <bdi>{escaped(view.meter, _NAME_LENGTH)}</bdi>, {named_set(view)}"
    found = (
        f"<header><h1>{name}</h1><p>{phase}</p></header>",
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


def _last(view: SessionView) -> tuple[str, ...]:
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
    said = (re.sub(r"`([^`]*)`", r"<code>\1</code>", escaped(line)) for line in lines)
    return "<ul>" + "".join(f"<li>{line}</li>" for line in said) + "</ul>"


def _scroll(label: str, content: str) -> str:
    """Wrap something wide so that it scrolls by itself, also by keyboard."""
    return f'<div class="m-scroll" role="region" aria-label="{label}" tabindex="0">{content}</div>'


def _meter(view: SessionView) -> str:
    told = (
        "the worst band so far: the gap is at most that"
        if view.spec.meter.question.climbs_only
        else f"the band that contains the {gap_name(view.spec)}"
    )
    scale = (
        "All bands are drawn at the same height; the numbers on the axis are their edges."
        if view.spec.meter.question.numbered
        else "Its edges were drawn by the meter, for this answer alone; they stand beside it."
    )
    caption = (
        f"One column per step. The solid bar is {told}. The grey bars are the tolerance: with them "
        f"it covers the gap to the true loss, as promised. {scale}"
    )
    words = words_of(view.spec.meter)
    if words is not None:
        caption = escaped(words.caption)
    figure = _scroll("The meter, step by step", meter_svg(view))
    return f"<figure>{figure}<figcaption>{caption}</figcaption></figure>"


def _left(view: SessionView) -> str:
    needing = (
        "it was topped up with"
        if view.spec.meter.renewal.stage(view.generation)
        else "a test set needs"
    )
    facts = [
        ("steps promised, whatever the answers", f"{view.steps_left:,}"),
        ("steps taken", f"{len(view.signals):,}"),
        (
            f"{view.spec.meter.sample.handed_in} in this test set",
            "none yet" if view.labels is None else f"{view.labels:,}",
        ),
        (f"{view.spec.meter.sample.handed_in} that {needing}", f"{view.labels_needed:,}"),
    ]
    if view.spec.meter.renewal.rolls:
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
    headings += ["gap"] if view.spec.meter.question.reads == "gap" else []
    name = loss_name(view.spec)
    # After release, the table of retrospect has the losses.
    losses = [] if view.retrospective else [f"validation {name}", f"true {name} promised"]
    headings += [*losses, "when (UTC)", "steps left"]
    rows = []
    for signal in view.signals:
        gap = "unknown" if signal.gap is None else range_words(signal.spec, signal.gap)
        cells = [
            f"{signal.step:,}",
            *([str(signal.tenant)] if tenants else []),
            _name(signal.model),
            _answer(signal),
            *([gap] if view.spec.meter.question.reads == "gap" else []),
            *([validation_words(signal), true_loss_words(signal)] if losses else []),
            f"<time>{when(signal.told_at)}</time>",
            f"{signal.steps_left:,} ({share_words(signal.battery)})",
        ]
        rows.append(_row(cells))
    return _table("Every answer, in order", headings, rows)


def _retrospect(view: SessionView) -> str:
    found = checks(view)
    words = words_of(view.spec.meter)
    remains = "it lies within the tolerance of the test loss" if words is None else words.remains
    average = "" if not view.spec.meter.renewal.rolls else ", averaged over the window,"
    known = (
        "The validation loss and the test loss of every step are now known, and so is whether each "
        f"answer was right. The true loss{average} stays unknown: that {remains} remains a "
        f"promise, {sure_words(view.spec, view.generation)} {together(view.spec, view.generation)}."
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
