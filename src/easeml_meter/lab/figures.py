"""`meter lab figures`: the paper's evaluation, computed, drawn, checked and written to a folder."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from easeml_meter import charts
from easeml_meter.errors import MeterError, invalid
from easeml_meter.lab import curves, drawings, numbers
from easeml_meter.lab.claims import CLAIMS
from easeml_meter.lab.curves import Curve, CurveForm, Curves
from easeml_meter.lab.drawings import Drawn, Sign
from easeml_meter.lab.meters import Protocol
from easeml_meter.lab.numbers import (
    NUMBERS,
    Claim,
    ClaimFinding,
    ClaimVerdict,
    Misprint,
    Number,
    misprints,
)
from easeml_meter.lab.traces import Trace, readings
from easeml_meter.lab.trees import Tree, paper_trees
from easeml_meter.promise.assumptions import assumptions_of

Row = dict[str, object]


def rows(data: Drawn) -> list[Row]:
    """Return the data behind a figure in long form."""
    if isinstance(data, Curves):
        return [
            {
                "panel": panel.title,
                "series": point.series,
                "bound": str(point.form),
                data.x_title: point.x,
                "labels": point.labels,
            }
            for panel in data.panels
            for point in panel.points
        ]
    return list(
        itertools.chain.from_iterable(
            _tree_rows(each) if isinstance(each, Tree) else _trace_rows(each) for each in data
        )
    )


def _tree_rows(tree: Tree) -> list[Row]:
    return [
        {
            "panel": tree.title,
            "node": node.name,
            "answers": node.level,
            "counted by the paper": int(node.published),
            "distinct model": int(node.distinct),
            "pruned": int(node.pruned),
        }
        for node in tree.nodes
    ]


def _trace_rows(trace: Trace) -> list[Row]:
    return [
        {
            "panel": trace.title,
            "meter": str(protocol),
            "step": reading.step,
            "change": step.change,
            "validation loss": step.validation_loss,
            "test loss": step.test_loss,
            "true loss": step.true_loss,
            "gap": step.gap,
            "signal": reading.answer,
            "band lower": reading.lower,
            "band upper": reading.upper,
            "tolerance": reading.tolerance,
        }
        for protocol in (Protocol.REGULAR, Protocol.INCREMENTAL)
        for step, reading in zip(trace.steps, readings(trace, protocol), strict=True)
    ]


def as_csv(table: Sequence[Row]) -> str:
    """Write rows that all have the same columns."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return stream.getvalue()


def number_row(number: Number) -> Row:
    """Return a printed number as one row of numbers.csv."""
    return {
        "printed": number.printed,
        "what": number.what,
        "places": number.sections("; "),
        "computed": number.computed,
        "tightened": number.tightened,
        "verdict": str(number.verdict),
        "note": number.note,
    }


CURVES_KEY = "Solid: as published. Dashed: tightened (exact tail, distinct models)."


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: where it stands and what to draw."""

    number: str
    title: str
    data: Callable[[], Drawn]
    key: str = CURVES_KEY
    note: str = ""
    meters: tuple[Curve, ...] = ()
    """Meters whose promise rests on how people behave."""


@dataclass(frozen=True)
class Drawing:
    """A figure that was drawn and checked."""

    name: str
    figure: Figure
    panels: tuple[str, ...]
    """Each panel as SVG, in the ink of the page it stands on."""
    signs: tuple[Sign, ...]
    findings: tuple[tuple[Claim, ClaimFinding], ...]
    saving: str
    stories: tuple[str, ...]
    conditions: tuple[str, ...]

    @property
    def files(self) -> dict[str, str]:
        """Names of the files in the folder."""
        return {ending: f"{self.name}.{ending}" for ending in ("svg", "png", "csv")}


@dataclass(frozen=True)
class Report:
    """Everything that was drawn and found."""

    drawings: tuple[Drawing, ...]
    numbers: tuple[Number, ...]
    misprints: tuple[Misprint, ...]

    def claims(self) -> list[Row]:
        """List the claims and what was found, one row each."""
        return [
            {
                "figure": drawing.name,
                "place": claim.place,
                "claim": claim.says,
                "verdict": str(finding.verdict),
                "found": finding.found,
            }
            for drawing in self.drawings
            for claim, finding in drawing.findings
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data for programs."""
        return {
            "figures": [
                {
                    "name": drawing.name,
                    "number": drawing.figure.number,
                    "title": drawing.figure.title,
                    "files": drawing.files,
                    "rests_on": list(drawing.conditions),
                }
                for drawing in self.drawings
            ],
            "claims": self.claims(),
            "numbers": [number_row(number) for number in self.numbers],
            "misprints": [asdict(misprint) for misprint in self.misprints],
        }


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
        verdicts=numbers,
        css={ClaimVerdict.HOLDS: "good", ClaimVerdict.ROUGHLY: "fair", ClaimVerdict.FAILS: "bad"},
    )


EXTRAS = ("altair", "vl_convert", "jinja2", "sklearn")


def _histories() -> Sequence[Trace]:
    from easeml_meter.lab.histories import histories

    return histories()


FIGURES = {
    "uniform": Figure("Figure 8", "Uniform meters against the baselines, m = 5", curves.uniform),
    "signals": Figure(
        "Figure 9",
        "The impact of the number of signals, delta = epsilon = 0.01",
        curves.signals,
        note="The paper draws m = 5 and m = 10, and names 20 and 50 among its settings.",
    ),
    "nonuniform": Figure(
        "Figure 10",
        "Nonuniform tolerances (0.01 to 0.05) against uniform ones (0.01), m = 5",
        curves.nonuniform,
    ),
    "tenants": Figure(
        "Figure 11",
        "Two tenants against one, m = 5",
        curves.tenants,
        meters=(curves.REGULAR_TENANTS,),
    ),
    "time-travel": Figure(
        "Figure 12",
        "Time travel: reverting steps 1 to B, m = 5, delta = 0.01",
        curves.time_travel,
        meters=(curves.REGULAR_TRAVEL,),
    ),
    "case-study": Figure("Figure 13", "The case study: eight development steps", curves.case_study),
    "trees": Figure(
        "Figure 5",
        "Dependency trees of regular and incremental meters",
        paper_trees,
        key="Filled: counted by the paper. Ring: a distinct model. Grey: pruned.",
        note="The paper counts the nodes below the root. Nothing is submitted after the last "
        "answer, and the first model is submitted before any: distinct models are the nodes with "
        "a ring.",
    ),
    "traces": Figure(
        "Figure 3",
        "Two development histories, and what the meters report at each step",
        _histories,
        key="Bar: the reported band (pale: this model may lie lower). Grey: tolerance. Diamond: "
        "real gap.",
        note="The paper's two traces are not published as numbers. These are two histories of "
        "eight steps, run here with scikit-learn (examples/development_history.py shows them). We "
        "tried a few models and seeds and picked those that show overfitting clearly: they "
        "illustrate what meters report, and are not evidence of how often developers overfit.",
    ),
}
"""Every figure by the name that --only takes, in the order of the page."""


def draw(
    out: Path, names: Iterable[str] = FIGURES, progress: Callable[[str], None] = lambda _: None
) -> Report:
    """Draw the figures of these names into a folder, with their data and an index page."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in FIGURES:
            raise invalid("only", name, f"one of {', '.join(FIGURES)}")
    missing = [module for module in EXTRAS if find_spec(module) is None]
    if missing:
        raise MeterError(
            f'the figures need the extra "lab" (missing: {", ".join(missing)}): '
            'pip install "easeml-meter[lab]"'
        )
    try:  # before anything is computed
        if out.exists() and not out.is_dir():
            raise invalid("out", str(out), "a folder, not a file")
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise _unwritable(out, error) from None
    drawn = []
    for name in wanted:
        progress(name)
        drawn.append(_draw_one(out, name))
    progress("index page")
    report = Report(tuple(drawn), NUMBERS, misprints())
    _write(out / "numbers.csv", as_csv([number_row(number) for number in NUMBERS]))
    _write(out / "claims.csv", as_csv(report.claims()))
    _write(out / "misprints.csv", as_csv([asdict(misprint) for misprint in report.misprints]))
    _write(out / "index.html", index_page(report))
    return report


def _unwritable(path: Path, error: OSError) -> MeterError:
    return invalid("out", str(path), f"cannot be written: {error.strerror or error}")


def _write(path: Path, content: str | bytes) -> None:
    try:
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        else:
            path.write_bytes(content)
    except OSError as error:
        raise _unwritable(path, error) from None


def _draw_one(out: Path, name: str) -> Drawing:
    figure = FIGURES[name]
    data = figure.data()
    drawing = Drawing(
        name=name,
        figure=figure,
        panels=tuple(charts.svg(panel) for panel in drawings.panels(data)),
        signs=tuple(drawings.signs(data)),
        findings=tuple((claim, claim.check()) for claim in CLAIMS[name]),
        saving=saving(data) if isinstance(data, Curves) else "",
        stories=() if isinstance(data, Curves) else stories(data),
        conditions=conditions(figure),
    )
    whole = charts.svg(drawings.whole(data, f"{figure.number}. {figure.title}", figure.key))
    _write(out / drawing.files["svg"], whole)
    _write(out / drawing.files["png"], charts.png(whole))
    _write(out / drawing.files["csv"], as_csv(rows(data)))
    return drawing


def saving(data: Curves) -> str:
    """Say what the tightened bound saves, over all points that have both forms."""
    pairs: dict[tuple[str, str, float], dict[CurveForm, int]] = {}
    for panel in data.panels:
        for point in panel.points:
            pairs.setdefault((panel.title, point.series, point.x), {})[point.form] = point.labels
    shares = [
        1 - both[CurveForm.TIGHTENED] / both[CurveForm.PUBLISHED]
        for both in pairs.values()
        if len(both) == len(CurveForm)
    ]
    return f"Tightened, the same promise takes {min(shares):.0%} to {max(shares):.0%} fewer labels."


def stories(data: Sequence[Tree] | Sequence[Trace]) -> tuple[str, ...]:
    """Say where each development history comes from."""
    return tuple(f"{each.title}: {each.story}" for each in data if isinstance(each, Trace))


def conditions(figure: Figure) -> tuple[str, ...]:
    """List what the promise of a figure's meters rests on beyond the usual."""
    return tuple(
        f"{meter.name}: {line.replace(' (about people)', '')}"
        for meter in figure.meters
        for line in assumptions_of(curves.meter_of(meter, curves.Case(10, reverts=3)))
        if "about people" in line
    )
