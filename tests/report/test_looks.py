"""Plans, answers, sessions, histories and audits are short at a prompt and drawn in a notebook."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from tests.report.sessions import drawn_session
from tests.service.helpers import Session, make_session

import easeml_meter
from easeml_meter import Meter
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.showing import Shown
from easeml_meter.spec import MeterSpec, Protocol

NAME = "<script>alert(1)"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    found = make_session(tmp_path_factory.mktemp("looks"))
    for step, model in enumerate(("first", NAME, "third")):
        found.submit(10 * step, 0, model=model)
    return found


def regular() -> easeml_meter.MeterSpec:
    return easeml_meter.MeterSpec.uniform(signals=3, tolerance=0.05, steps=10, delta=0.1)


@pytest.fixture(params=["plan", "signal", "status", "history", "audit", "drawn", "forms", "spec"])
def value(request: pytest.FixtureRequest, session: Session) -> Shown:
    meter = session.meter
    makers: dict[str, Callable[[], Shown]] = {
        "plan": lambda: meter.plan,
        "signal": lambda: meter.status().signals[1],
        "status": meter.status,
        "history": meter.history,
        "audit": meter.audit,
        "forms": lambda: easeml_meter.compare_forms(regular(), ceiling=0.3),
        "spec": lambda: meter.spec,
        "drawn": lambda: drawn_session([0.02, 0.3]).signals[1],
    }
    return makers[request.param]()


def test_a_prompt_shows_one_short_line(value: Shown) -> None:
    assert re.fullmatch(r"<[^\n]{20,120}>", repr(value))
    assert type(value).__name__ in repr(value)


def test_printed_lines_fit_a_terminal(value: Shown) -> None:
    lines = str(value).splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 100
    assert str(value) != repr(value)


def test_a_notebook_gets_well_formed_markup_without_script(value: Shown) -> None:
    markup = value._repr_html_()
    assert markup is not None
    ElementTree.fromstring(markup)  # noqa: S314
    assert "<script" not in markup


def test_programs_get_plain_data(value: Shown) -> None:
    if not isinstance(value, MeterSpec):  # its data are its meter.toml
        assert json.loads(json.dumps(value.to_dict(), default=str))  # type: ignore[attr-defined]


def test_rich_prints_an_answer_in_colour(session: Session) -> None:
    console = Console(force_terminal=True, color_system="truecolor", width=80)
    with console.capture() as captured:
        console.print(session.meter.status().signals[-1])
    assert "\x1b[" in captured.get()


def test_a_history_is_a_table_of_answers(session: Session) -> None:
    frame = session.meter.history().to_pandas()
    assert frame["model"].to_list() == ["first", NAME, "third"]
    assert frame["step"].to_list() == [1, 2, 3]
    assert {"band", "validation_loss", "true_loss_at_most"} <= set(frame.columns)


def test_a_meter_draws_where_it_stands(session: Session, tmp_path: Path) -> None:
    assert re.fullmatch(r"<Meter in '[^\n]+'>", repr(session.meter))
    assert session.meter._repr_html_() == session.meter.status()._repr_html_()
    assert str(session.meter) == str(session.meter.status())
    assert session.meter.to_dict() == session.meter.status().to_dict()
    blind = Meter(session.meter.workspace, easeml_meter.Role.ADMIN)
    assert blind._repr_html_() is None
    assert str(blind) == repr(blind)


def test_several_tries_make_nobody_surer() -> None:
    """The share of delta that one try has was shown as that of all."""
    plan = easeml_meter.plan_question(metric="recall", tolerance=0.2, steps=3, delta=0.3, tries=3)
    assert "at least 0.7, in all" in plan.promise
    assert ", 0.7 sure" in repr(plan)
    assert ">0.7<" in (plan._repr_html_() or "")
    assert 0.2 < plan.failure_probability <= 0.3
    spec = MeterSpec.uniform(
        tolerance=0.2, steps=3, delta=0.3, tries=3, loss="recall[a]", rows=999, classes=("a", "b")
    )
    assert 0.2 < required_labels(spec).failure_probability <= 0.3


def test_a_plan_draws_its_bands_without_a_style_sheet() -> None:
    markup = easeml_meter.required_labels(regular())._repr_html_()
    assert markup is not None
    bands = ElementTree.fromstring(markup).findall(".//svg/rect")  # noqa: S314
    assert len({band.get("fill") for band in bands}) >= 3


def test_forms_are_a_table_and_those_of_another_meter_are_refused() -> None:
    forms = easeml_meter.compare_forms(regular())
    frame = forms.to_pandas()
    assert frame["form"].to_list() == [form.name for form in forms]
    assert frame["labels"].to_list() == [form.plan.labels for form in forms]
    assert forms.recommended.name in str(forms).splitlines()[0]
    incremental = regular().replace(protocol=Protocol.INCREMENTAL)
    uneven = regular().with_tolerances([0.05, 0.05, 0.1])
    for other in (incremental, uneven, regular().replace(ceiling=0.3)):
        with pytest.raises(easeml_meter.InvalidInput, match="give a regular one"):
            easeml_meter.compare_forms(other)


def test_what_a_cell_ends_with_is_one_line(session: Session) -> None:
    meter = session.meter
    assert repr(meter.generations[0]) == f"<TestSet 1: active, {len(session.test_labels)} rows>"
    assert repr(meter.spec) == "<MeterSpec: 4 answers, 3 bands, 80 % sure>"
