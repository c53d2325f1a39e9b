"""An alarm from meter.toml to release: ok at its bar, an alarm one error above it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from easeml_meter import Meter, MeterSpec
from easeml_meter.core.questions.asking import answered
from easeml_meter.core.questions.labels import other_ways, plan_labels
from easeml_meter.core.questions.planning import plan_of
from easeml_meter.core.views import signal_from_json
from easeml_meter.errors import InvalidInput, Spent
from easeml_meter.promise import ledger
from easeml_meter.promise.alarm import bar_of
from easeml_meter.promise.ledger import Snapshot, margin
from easeml_meter.promise.questions import Shown, measured_of
from easeml_meter.report.page import html_page

HIDDEN, VISIBLE = 200, 100
SIZES = Shown(HIDDEN, None, VISIBLE)


def alarm(**settings: Any) -> MeterSpec:
    given: dict[str, Any] = {"question": "alarm", "labels": HIDDEN, "steps": 10, "delta": 0.1}
    return MeterSpec(**({"bands": (), "inputs": "public"} | given | settings))


def frame(name: str, rows: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": [f"{name}{i}" for i in range(rows)],
            "x": range(rows),
            "y": [i % 2 for i in range(rows)],
        }
    )


def guesses(truth: pd.DataFrame, errors: int, first: int = 0) -> pd.DataFrame:
    """Predictions that are wrong on so many rows from the first one on."""
    wrong = (truth.index - first) % len(truth) < errors
    return pd.DataFrame({"id": truth.id, "prediction": truth.y.where(~wrong, 1 - truth.y)})


@pytest.fixture
def team(tmp_path: Path) -> tuple[Meter, pd.DataFrame, pd.DataFrame]:
    return opened(tmp_path, alarm())


def opened(
    folder: Path, spec: MeterSpec, hidden_rows: int = HIDDEN
) -> tuple[Meter, pd.DataFrame, pd.DataFrame]:
    meter = Meter.create(folder / "meter", spec)
    hidden, visible = frame("h", hidden_rows), frame("v", VISIBLE)
    visible["x"] += 10_000
    meter.seal(hidden, folder / "h.sealed", label="y", id_column="id")
    meter.add_test_set(folder / "h.sealed")
    meter.set_validation(visible, label="y", id_column="id")
    return meter, hidden, visible


def bar(spec: MeterSpec, alarms: int, rows: int, visible_errors: int) -> tuple[Fraction, int]:
    """g and the most errors that are ok, after so many alarms, by the room of promises alone."""
    at = Snapshot(0, (9, *range(alarms)))
    g = margin(spec.meter, at, Shown(rows, None, VISIBLE))
    assert g is not None
    level = ledger.level(spec.meter, at)
    found = bar_of(Shown(rows, Fraction(visible_errors, VISIBLE), VISIBLE), g, level)
    assert found is not None
    return g, found


def test_ok_at_the_bar_and_an_alarm_one_error_above_it(
    team: tuple[Meter, pd.DataFrame, pd.DataFrame],
) -> None:
    meter, hidden, visible = team
    seen = []
    for alarms in range(3):
        g, most = bar(meter.spec, alarms, HIDDEN, 10)
        seen.append(most)
        ok = meter.submit(guesses(hidden, most, alarms), guesses(visible, 10), model=f"{alarms}")
        assert (ok.name, ok.true_loss_at_most) == ("ok", float(Fraction(1, 10) + g))
        assert ok.to_dict()["g"] == ok.g == float(g)
        assert "first_edge" not in ok.to_dict()
        assert signal_from_json(ok.to_dict(), meter.spec).g == ok.g
        assert ok.steps_left == 3 - alarms
        above = guesses(hidden, most + 1, alarms)
        worse = meter.submit(above, guesses(visible, 10), model=f"{alarms}, one above")
        assert (worse.name, worse.true_loss_at_most) == ("alarm", None)
    assert sorted(seen) == seen  # g widens after an alarm, though less of delta is left
    with pytest.raises(Spent):
        meter.submit(guesses(hidden, 0), guesses(visible, 9), model="late")
    assert meter.status().phase.value == "spent"
    meter.release()
    told = [signal.name for signal in meter.history()[0].signals]
    assert told == ["ok", "alarm"] * 3
    assert meter.audit().sound


def test_the_same_predictions_cost_nothing(
    team: tuple[Meter, pd.DataFrame, pd.DataFrame],
) -> None:
    meter, hidden, visible = team
    first = meter.submit(guesses(hidden, 9), guesses(visible, 5), model="a")
    again = meter.submit(guesses(hidden, 9), guesses(visible, 5), model="b")
    assert (again.step, again.repeated) == (first.step, True)


def test_status_says_what_ok_means_now(team: tuple[Meter, pd.DataFrame, pd.DataFrame]) -> None:
    meter, hidden, visible = team
    before, _ = bar(meter.spec, 0, HIDDEN, 0)
    assert f"validation loss and {float(before):g} more" in meter.status().promise
    meter.submit(guesses(hidden, HIDDEN), guesses(visible, 0), model="bad")
    after, _ = bar(meter.spec, 1, HIDDEN, 0)
    assert after > before
    assert f"validation loss and {float(after):g} more" in meter.status().promise


def test_a_given_g_does_not_widen(tmp_path: Path) -> None:
    meter, hidden, visible = opened(tmp_path, alarm(g=0.3, labels=None), 300)
    for number, errors in enumerate((300, 0)):
        told = meter.submit(guesses(hidden, errors), guesses(visible, 10), model=f"m{number}")
    assert told.true_loss_at_most == 0.4


def test_a_model_is_charged_though_an_alarm_left_no_g_while_it_was_measured() -> None:
    """Hidden rows were touched: no refusal, which would be free."""
    meter = alarm().meter
    at = ledger.fold(meter, ["alarm", "alarm"])
    decided = ledger.decide(meter, at, measured_of(Shown(9, Fraction(0), 1), Fraction(0)))
    assert decided.answer == "alarm"
    assert decided.edge == 0
    assert not decided.promises


def test_teams_that_are_counted_apart_share_delta() -> None:
    apart, alone = alarm(steps=20, tenants=(10, 10)), alarm()
    levels = [ledger.level(spec.meter, Snapshot(0, (0,), 0, 1)) for spec in (apart, alone)]
    assert levels[0] < levels[1]
    shown = Shown(HIDDEN, None, VISIBLE)
    wide, narrow = (margin(each.meter, ledger.start(each.meter), shown) for each in (apart, alone))
    assert wide is not None
    assert narrow is not None
    assert wide > narrow


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"labels": None}, "an alarm needs the labels"),
        ({"g": 1.5}, "g: 1.5"),
        ({"delta": 0.3}, "at most 0.25"),
        ({"window": 3}, "window"),
        ({"tolerance": 0.1}, "an alarm has none"),
        ({"passes": 1}, "not with an alarm"),
        ({"labels": 4}, "too few for an alarm"),
        ({"question": "gap"}, "only with question"),
    ],
)
def test_what_an_alarm_does_not_take_is_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        plan_of(alarm(**settings))


def test_settings_of_an_alarm_are_refused_elsewhere() -> None:
    with pytest.raises(InvalidInput, match="only with question"):
        MeterSpec.uniform(tolerance=0.1, steps=3, delta=0.1, alarms=2)


def test_options_plan_an_alarm_and_labels_offer_one() -> None:
    plan, _ = answered(ask="alarm", labels=500)
    assert plan.spec == alarm(labels=500, inputs="hidden")
    bands = plan_labels(MeterSpec.uniform(tolerance=0.1, delta=0.1), 500)
    ways = other_ways(bands, 500)
    assert (ways[0].change, ways[0].plan.question.promised_points) == ("ok, or an alarm", 10.5)


def test_a_file_goes_there_and_back(tmp_path: Path) -> None:
    spec = alarm(expects=0.1, alarms=2)
    spec.write(tmp_path / "meter.toml")
    assert MeterSpec.read(tmp_path / "meter.toml") == spec


def test_an_alarm_without_an_end_answers_on(tmp_path: Path) -> None:
    spec = alarm(endless=True)
    spec.write(tmp_path / "meter.toml")
    assert 'steps = "no end"' in (tmp_path / "meter.toml").read_text()
    assert MeterSpec.read(tmp_path / "meter.toml") == spec
    meter, hidden, visible = opened(tmp_path, spec)
    for number in range(12):  # more than a meter gives that says nothing of them
        told = meter.submit(guesses(hidden, 9, number), guesses(visible, 5), model=f"m{number}")
        assert (told.name, told.steps_left, told.battery) == ("ok", 3, 1.0)
    late = meter.submit(guesses(hidden, HIDDEN), guesses(visible, 5), model="bad")
    wider = meter.submit(guesses(hidden, 1, 3), guesses(visible, 4), model="good")
    assert (late.name, wider.name, wider.steps_left) == ("alarm", "ok", 2)
    at = ledger.fold(spec.meter, [*["ok"] * 12, "alarm"])
    early = ledger.fold(spec.meter, ["alarm"])
    then, soon = (ledger.margin(spec.meter, each, SIZES) or Fraction(9) for each in (at, early))
    assert wider.g == float(then) > float(soon), "the later an alarm comes, the less is left"
    for number in (0, 1):
        meter.submit(guesses(hidden, HIDDEN - 1, number), guesses(visible, 3), model=f"l{number}")
    with pytest.raises(Spent):
        meter.submit(guesses(hidden, 0), guesses(visible, 9), model="late")
    assert "in all steps together" in meter.status().promise
    assert "no end answers" in repr(spec)
    assert "alarm" in html_page(meter.status())
    meter.release()
    assert meter.audit().sound


def test_only_an_alarm_has_no_end() -> None:
    for question in ({"ask": "n > 0.8 +/- 0.1"}, {"ask": "gap", "tolerance": 0.1}):
        with pytest.raises(InvalidInput, match="alarms alone have no end"):
            MeterSpec.from_mapping({"question": question, "budget": {"steps": "no end"}})
    with pytest.raises(InvalidInput, match="teams and no end"):
        alarm(endless=True, tenants=(5, 5))
