"""Reports answers as Markdown: to a file, or to the summary of a job of GitHub Actions."""

from __future__ import annotations

import os
from pathlib import Path

from easeml_meter.core.views import SessionView, Signal
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.integrations.reporting import Report
from easeml_meter.report.gate import answer_markdown


def markdown(where: str) -> Report:
    """Write a file, such as a comment of a pull request is made of."""
    if not where:
        raise InvalidInput("markdown: give the file: --report markdown=answer.md")
    path = Path(where)
    if not path.parent.is_dir():
        raise invalid("markdown", where, "a file in a folder that exists")

    def report(signal: Signal, _: SessionView) -> None:
        path.write_text(answer_markdown(signal), encoding="utf-8")

    return report


def github(where: str) -> Report:
    """Add to the summary of this job."""
    if where:
        raise invalid("github", where, "no place: it is the summary of this job")
    if not (path := os.environ.get("GITHUB_STEP_SUMMARY")):
        needed = "run it in a job of GitHub Actions, or write a file: --report markdown=answer.md"
        raise InvalidInput(f"github: GITHUB_STEP_SUMMARY is not set: {needed}")

    def report(signal: Signal, _: SessionView) -> None:
        # All steps of a job share the file.
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(answer_markdown(signal))

    return report
