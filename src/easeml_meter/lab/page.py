"""The index page: what the paper claims, figure by figure, and what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version
from importlib.resources import files

from easeml_meter.lab import verdicts
from easeml_meter.lab.results import Report
from easeml_meter.lab.verdicts import ClaimVerdict


def tally(judged: Iterable[ClaimVerdict]) -> str:
    """Count verdicts in words, such as "3 hold, 1 holds roughly, 2 do not hold"."""
    counts = Counter(judged)
    plural = {
        ClaimVerdict.HOLDS: "hold",
        ClaimVerdict.ROUGHLY: "hold roughly",
        ClaimVerdict.FAILS: "do not hold",
    }
    words = [
        f"{counts[verdict]} {str(verdict) if counts[verdict] == 1 else plural[verdict]}"
        for verdict in ClaimVerdict
        if counts[verdict]
    ]
    return ", ".join(words)


def index_page(report: Report) -> str:
    """Write the page: one file, nothing loaded from elsewhere."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    source = files("easeml_meter.lab").joinpath("templates/figures.html").read_text("utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    findings = [finding for drawing in report.drawings for _, finding in drawing.findings]
    return environment.from_string(source).render(
        report=report,
        svg=Markup,  # our own drawings
        version=version("easeml-meter"),
        claims_tally=tally(finding.verdict for finding in findings),
        numbers_tally=tally(number.verdict for number in report.numbers),
        claims=len(findings),
        verdicts=verdicts,
        css={ClaimVerdict.HOLDS: "good", ClaimVerdict.ROUGHLY: "fair", ClaimVerdict.FAILS: "bad"},
    )
