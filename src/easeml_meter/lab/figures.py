"""`meter lab figures`: the paper's evaluation, computed, drawn, checked and written to a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile

from easeml_meter import charts
from easeml_meter.core.questions.assumptions import gap_assumptions
from easeml_meter.errors import MeterError, invalid
from easeml_meter.lab import curves, drawings
from easeml_meter.lab.claims import CLAIMS
from easeml_meter.lab.curves import CurveForm, Curves
from easeml_meter.lab.misprints import misprints
from easeml_meter.lab.numbers import compare_numbers
from easeml_meter.lab.results import Drawing, Figure, Report
from easeml_meter.lab.tables import as_csv, number_row, rows
from easeml_meter.lab.traces import Trace
from easeml_meter.lab.trees import Tree, paper_trees

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
    _require_extras()
    _prepare(out)
    drawn = []
    for name in wanted:
        progress(name)
        drawn.append(_draw_one(out, name))
    progress("index page")
    numbers = compare_numbers()
    report = Report(tuple(drawn), numbers, misprints(numbers))
    _write(out / "numbers.csv", as_csv([number_row(number) for number in numbers]))
    _write(out / "claims.csv", as_csv(report.claims()))
    _write(out / "misprints.csv", as_csv([asdict(misprint) for misprint in report.misprints]))
    from easeml_meter.lab.page import index_page

    _write(out / "index.html", index_page(report))
    return report


def _require_extras() -> None:
    missing = [module for module in EXTRAS if find_spec(module) is None]
    if missing:
        raise MeterError(
            f'the figures need the extra "lab" (missing: {", ".join(missing)}): '
            'pip install "easeml-meter[lab]"'
        )


def _prepare(out: Path) -> None:
    """Make the folder, and find out that it can be written before anything is computed."""
    try:
        if out.exists() and not out.is_dir():
            raise invalid("out", str(out), "a folder, not a file")
        out.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise _unwritable(out, error) from None


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
        for line in gap_assumptions(curves.spec_of(meter, curves.Case(10, reverts=3)))
        if "about people" in line
    )
