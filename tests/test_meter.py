"""A meter in a folder and one at a server have the same verbs."""

from __future__ import annotations

import inspect
import pydoc
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.service.helpers import make_session, rows, small_spec

import easeml_meter
from easeml_meter.client import RemoteMeter
from easeml_meter.core.gate import Gate
from easeml_meter.core.people import Role
from easeml_meter.core.questions.planning import reachable_tolerance
from easeml_meter.errors import Denied, InvalidInput, MeterError
from easeml_meter.meter import Meter, MeterVerbs

VERBS = [name for name in vars(MeterVerbs) if not name.startswith("_")]
OWN: dict[type[Any], set[str]] = {Meter: {"create", "open", "open_or_create"}, RemoteMeter: {"id"}}
"""How one gets hold of a meter differs; all else does not."""


@pytest.mark.parametrize("kind", [Meter, RemoteMeter])
def test_verbs_are_those_of_the_protocol_with_the_same_signatures(kind: type[Any]) -> None:
    public = {name for name in vars(kind) if not name.startswith("_")}
    assert public - OWN[kind] <= set(VERBS)
    for verb in public - OWN[kind]:
        wanted, found = getattr(MeterVerbs, verb), getattr(kind, verb)
        if isinstance(wanted, property):
            assert isinstance(found, property)
            wanted, found = wanted.fget, found.fget
        assert inspect.signature(found) == inspect.signature(wanted), verb


CANNOT_REFUSE = {
    *("audit", "batches", "close", "generations", "handovers", "notices", "plan", "requests"),
    *("charges_broken_files", "spec", "to_dict", "wanted"),
}
"""Verbs whose only refusals are those that the protocol itself lists for all verbs."""


@pytest.mark.parametrize("kind", [MeterVerbs, Meter, RemoteMeter])
def test_every_verb_that_can_refuse_says_what_it_raises(kind: type[Any]) -> None:
    """A docstring of its own would hide that of the protocol, with what the verb raises."""
    silent = {
        verb for verb in VERBS if "Raises:" not in (inspect.getdoc(getattr(kind, verb)) or "")
    }
    assert silent <= CANNOT_REFUSE
    if kind is not MeterVerbs:
        again = [verb for verb in VERBS if getattr(vars(kind).get(verb), "__doc__", None)]
        assert again == []


@pytest.mark.parametrize("options", [{"published": True}, {"count": "all"}], ids=str)
def test_no_meter_is_made_with_what_compare_alone_computes(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match=r"is no setting: leave it out.* meter compare shows"):
        Meter.create(tmp_path / "meter", small_spec(**options))
    assert not (tmp_path / "meter").exists()


def test_a_refusal_names_the_argument_of_python(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    nameless = {"prediction": [0] * len(session.test_labels)}
    wanted = r"name the column of ids \(matching=RowMatching\(id_column=\.\.\.\)\)"
    given = pa.table(nameless), pa.table({"prediction": [0] * 20})
    for verb in (session.meter.check, partial(session.meter.submit, model="m")):
        with pytest.raises(InvalidInput, match=wanted) as refused:
            verb(*given)
        assert "--" not in str(refused.value)


def test_developers_of_a_folder_see_the_answers_of_their_own_team(tmp_path: Path) -> None:
    """As at a server: the same gate, although nothing keeps them from saying another team."""
    session = make_session(tmp_path, small_spec(tenants=(2, 2)))
    for tenant in (1, 2):
        session.submit(tenant, 0, model=f"m{tenant}", tenant=tenant)
    for own, other in ((1, 2), (2, 1)):
        with Meter.open(tmp_path / "meter", role=Role.DEVELOPER, tenant=own) as meter:
            assert [each.model for each in meter.status().signals] == [f"m{own}"]
            assert meter.status(tenant=own) == meter.status()
            assert [each.event for each in meter.audit().links if each.details].count("told") == 1
            for look in (meter.status, meter.history):
                with pytest.raises(Denied, match=f"team {other}: not yours"):
                    look(tenant=other)
            with pytest.raises(Denied, match=f"team {other}: not yours"):
                meter.submit(*session.files(3, 0), model="theirs", tenant=other)
    for role in (Role.OWNER, Role.LABELER):
        with Meter.open(tmp_path / "meter", role=role) as meter:
            assert [meter.status(tenant=each).signals[0].model for each in (1, 2)] == ["m1", "m2"]


def test_completion_finds_the_public_names() -> None:
    names = [name for name in dir(easeml_meter) if not name.startswith("_")]
    assert {"Meter", "MeterSpec", "RemoteMeter", "InvalidInput"} < {*names}
    assert all(getattr(easeml_meter, name).__name__ == name for name in names)


def test_a_gate_takes_what_it_asks_by_name(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(0, 0, model="m")
    assert session.meter.gate("m", fail_above=3) == session.meter.gate("m", Gate(3))
    assert session.meter.gate("m", most_loss=0.0).reasons


@pytest.fixture
def given() -> dict[str, Any]:
    """What a data scientist has: rows to hide, and rows to look at."""
    labels = np.random.default_rng(3).integers(0, 2, 430)
    data = rows(labels, seed=5)
    return {"test": data.slice(30), "validation": data.slice(0, 30), "label": "label"}


def test_a_meter_is_made_of_rows_alone(tmp_path: Path, given: dict[str, Any]) -> None:
    with Meter.create(tmp_path / "churn", **given, id_column="id") as meter:
        spec, test_set = meter.spec, meter.generations[0]
        assert (spec.steps, spec.delta, spec.inputs) == (10, 0.1, "public")
        assert (test_set.active, test_set.rows) == (True, 400)
        assert (spec.question, spec.labels) == ("alarm", 400)
        submitted = [
            each.drop_columns(["x", "y"]).rename_columns(["id", "prediction"])
            for each in (given["test"], given["validation"])
        ]
        assert meter.submit(*submitted, model="m").name == "ok"


def test_too_few_rows_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="29 given, too few for one answer of use"):
        Meter.create(tmp_path / "churn", **given | {"test": given["test"].slice(0, 29)})


def test_everything_is_done_once_however_often_it_is_run(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    seen = []
    for _ in range(2):
        with Meter.open_or_create(tmp_path / "churn", **given, steps=6) as meter:
            seen.append((meter.spec, meter.generations, [*meter.audit().links]))
    assert seen[0] == seen[1]
    assert seen[0][0].steps == 6
    wrong = [
        ({"steps": 7}, "holds another meter, <MeterSpec: 6 answers"),
        ({"test": given["test"].slice(1), "spec": seen[0][0]}, "already exists, with other rows"),
        ({"validation": given["validation"].slice(1)}, "already: use replace_validation"),
        ({"label": None}, r"name the label column \(label=\.\.\.\)"),
        ({"label": "y2"}, "no column 'y2'"),
    ]
    for changes, said in wrong:
        with pytest.raises(MeterError, match=said):
            Meter.open_or_create(tmp_path / "churn", **({"steps": 6} | given | changes))
    with Meter.open(tmp_path / "churn") as meter:
        meter.retire()
    with Meter.open_or_create(tmp_path / "churn", **given, steps=6) as meter:
        assert [each.phase for each in meter.generations] == ["spent", "requested"]
    with pytest.raises(InvalidInput, match="spec: 100 given, a MeterSpec, such as"):
        reachable_tolerance(100, 10)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="already holds a meter"):
        Meter.create(tmp_path / "churn", **given)
    with pytest.raises(InvalidInput, match="spec: nothing given, give a MeterSpec, or test: the"):
        Meter.create(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_help_shows_no_function_at_an_address() -> None:
    assert " at 0x" not in pydoc.plain(pydoc.render_doc(Meter.create))
