"""A meter in a folder and one at a server have the same verbs."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.service.helpers import make_session, small_spec

from easeml_meter.client import RemoteMeter
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied, InvalidInput
from easeml_meter.meter import Meter, MeterVerbs

VERBS = [name for name in vars(MeterVerbs) if not name.startswith("_")]
OWN: dict[type[Any], set[str]] = {Meter: {"create", "open"}, RemoteMeter: {"id"}}
"""How one gets hold of a meter differs; all else does not."""
SHARED = {"submit", "check", "evaluate", "gate", "to_dict"}
"""Verbs that the protocol itself makes of others."""


@pytest.mark.parametrize("kind", [Meter, RemoteMeter])
def test_verbs_are_those_of_the_protocol_with_the_same_signatures(kind: type[Any]) -> None:
    public = {name for name in vars(kind) if not name.startswith("_")}
    assert public - OWN[kind] == set(VERBS) - SHARED
    for verb in VERBS:
        wanted, found = getattr(MeterVerbs, verb), getattr(kind, verb)
        if isinstance(wanted, property):
            assert isinstance(found, property)
            wanted, found = wanted.fget, found.fget
        assert inspect.signature(found) == inspect.signature(wanted), verb


CANNOT_REFUSE = {"batches", "close", "generations", "plan", "spec"}
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
