"""Verdicts of the gate for continuous integration: Markdown for people, JUnit for programs."""

from __future__ import annotations

from html import escape

from easeml_meter.core.gate import GateVerdict
from easeml_meter.core.views import Signal
from easeml_meter.report.gauge import headline
from easeml_meter.report.svg import element, escaped
from easeml_meter.report.words import left_words, loss_sentence, shown, told_words


def markdown(verdict: GateVerdict) -> str:
    """Write a summary, such as a pull request shows it."""
    mark = "✅ passed" if verdict.passed else "❌ failed"
    notes = [f"- {reason}" for reason in verdict.reasons]
    return _summary(verdict.signal, mark, notes + [verdict.note] * bool(verdict.note))


def answer_markdown(signal: Signal) -> str:
    """Write a summary of an answer that nothing was demanded of."""
    return _summary(signal, told_words(signal), [])


def _summary(signal: Signal, mark: str, notes: list[str]) -> str:
    rows = {
        "model": f"`{_plain(signal.model)}`",
        "answer": headline(signal).partition(", model ")[0],
        "loss": loss_sentence(signal) or "unknown",
        "left": left_words(signal.spec, signal.steps_left),
    }
    lines = [f"### Overfitting meter: {mark}", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {words} |" for name, words in rows.items()]
    return "\n".join([*lines, "", *notes, "", signal.promise, ""])


def junit(verdict: GateVerdict) -> str:
    """Write a report with one test case: the model."""
    signal = verdict.signal
    told = {
        "answer": told_words(signal),
        "step": str(signal.step),
        "test_set": str(signal.generation),
        "steps_left": str(signal.steps_left),
    }
    properties = [element("property", name_=name, value=value) for name, value in told.items()]
    failure = element("failure", escaped(signal.promise), message="; ".join(verdict.reasons))
    case = element(
        "testcase",
        element("properties", *properties),
        "" if verdict.passed else failure,
        classname="easeml_meter.gate",
        name_=shown(signal.model, 200),
    )
    suite = element(
        "testsuite",
        case,
        name_="easeml-meter",
        tests="1",
        errors="0",
        failures="0" if verdict.passed else "1",
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{element("testsuites", suite)}\n'


def _plain(name: str) -> str:
    """Make a stranger's name harmless in a table of Markdown."""
    return escape(shown(name, 80)).replace("|", "\\|").replace("`", "'")
