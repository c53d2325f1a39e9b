"""The planner's page computes in the browser what Python computes, and everybody can use it."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from tests.cli.running import plan_json

from easeml_meter.core.questions.planning import (
    reachable_tolerance,
    required_labels,
    supported_steps,
)
from easeml_meter.errors import InvalidInput
from easeml_meter.report.planner import planner_page
from easeml_meter.spec import MeterSpec

from .browsing import Tab, tab

pytestmark = pytest.mark.slow
TOLERANCES, STEPS, DELTAS = (0.01, 0.025, 0.05), (1, 7, 32, 1001), (0.1, 0.001)
LABELS = 5_000
QUESTIONS: dict[str, Callable[[MeterSpec], float]] = {
    "requiredLabels": lambda spec: required_labels(spec).labels,
    "supportedSteps": lambda spec: supported_steps(spec, LABELS).spec.steps,
    "reachableTolerance": lambda spec: reachable_tolerance(spec, LABELS).spec.tolerances[0],
}
_ASK = """
([question, meter, labels]) => {
  try { return Plan[question](meter, labels); }
  catch (error) { if (error instanceof Plan.Impossible) return null; throw error; }
}
"""


@pytest.fixture(scope="module")
def planner(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    path: Path = tmp_path_factory.mktemp("planner") / "planner.html"
    path.write_text(planner_page(), encoding="utf-8")
    with tab(browser, "file://") as found:
        found.go(str(path))
        yield found


def meters() -> Iterator[tuple[dict[str, Any], MeterSpec]]:
    """Give meters as the page and as Python describe them."""
    forms = itertools.product(
        (None, 0.05, 0.3),  # ceilings
        ([0.05, 0.1, 0.2], [0.05, 0.06, 0.07, 0.3], [0.2]),
        ("regular", "incremental", 0.2),  # the last one draws its edges
    )
    numbers_of = itertools.cycle(itertools.product(TOLERANCES, STEPS, DELTAS))
    for ceiling, edges, form in forms:
        drawn = form if isinstance(form, float) else None
        if drawn and (ceiling or edges != [0.2]):
            continue
        numbers: dict[str, Any] = dict(
            zip(("tolerance", "steps", "delta"), next(numbers_of), strict=True)
        )
        options: dict[str, Any] = {"ceiling": ceiling} if ceiling else {}
        bands: dict[str, Any] = {"drawn": drawn} if drawn else {"edges": edges}
        protocol = "regular" if drawn else form
        spec = MeterSpec.uniform(**numbers, **options, **bands, protocol=protocol)
        page = {"edges": [] if drawn else edges, "ceiling": ceiling, "drawn": drawn}
        yield {**numbers, **page, "incremental": form == "incremental"}, spec


def test_the_numbers_are_those_of_python(planner: Tab) -> None:
    answers = []
    for meter, spec in meters():
        for question, ask in QUESTIONS.items():
            try:
                answer = ask(spec)
            except InvalidInput:
                answer = None
            assert planner.page.evaluate(_ASK, [question, meter, LABELS]) == answer, (
                question,
                meter,
            )
            answers.append(answer)
    assert len(answers) > 40
    assert sum(answer is not None for answer in answers) > 30


@pytest.mark.parametrize("preset", range(4))
def test_the_command_shown_gives_the_figure_shown(
    planner: Tab, preset: int, capsys: pytest.CaptureFixture[str]
) -> None:
    page = planner.page
    page.locator("#presets button").nth(preset).click()
    program, command, *options = shlex.split(page.inner_text("#command"))
    plan = plan_json(capsys, *options)
    figure = page.inner_text("#figure").replace(",", "")
    assert (program, command) == ("meter", "plan")
    assert str(plan["labels"] if "labels" in figure else plan["steps"]) in figure or (
        figure == f"tolerance {plan['tolerances'][0]}"
    )
    assert str(plan["labels"]) in page.inner_text("#promise").replace(",", "")


def test_wrong_input_is_one_sentence_and_the_address_keeps_the_rest(planner: Tab) -> None:
    page = planner.page
    page.locator("#presets button").nth(1).click()
    page.locator("[name=tolerance]").fill("0,02")
    page.locator("#figure.problem").wait_for()
    assert page.inner_text("#figure") == "tolerance: write a number from 0.0005 to 0.5"
    page.locator("[name=tolerance]").fill("0.04")
    page.locator("#figure.figure").wait_for()
    before = page.inner_text("#figure")
    page.reload()
    assert page.inner_text("#figure") == before


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("dark", [True, False])
def test_nobody_is_kept_out(planner: Tab, wide: bool, dark: bool) -> None:
    planner.look(wide=wide, dark=dark)
    assert planner.violations() == []
    widths = "[document.documentElement.scrollWidth, window.innerWidth]"
    content, window = planner.page.evaluate(widths)
    assert content <= window
