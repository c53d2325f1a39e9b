"""A meter in a folder and one at a server have the same verbs."""

from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.service.helpers import make_session

from easeml_meter.client import RemoteMeter
from easeml_meter.errors import InvalidInput
from easeml_meter.meter import Meter, MeterVerbs

VERBS = [name for name in vars(MeterVerbs) if not name.startswith("_")]
OWN: dict[type[Any], set[str]] = {Meter: {"create", "open"}, RemoteMeter: {"id"}}
"""How one gets hold of a meter differs; all else does not."""
SHARED = {"submit", "check", "evaluate", "gate", "to_dict"}
"""Verbs that the protocol itself makes of others."""


@pytest.mark.parametrize("kind", [Meter, RemoteMeter])
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_the_same_signature(kind: type[Any], verb: str) -> None:
    wanted, found = getattr(MeterVerbs, verb), getattr(kind, verb)
    if isinstance(wanted, property):
        assert isinstance(found, property)
        wanted, found = wanted.fget, found.fget
    assert inspect.signature(found) == inspect.signature(wanted)


@pytest.mark.parametrize("kind", [Meter, RemoteMeter])
def test_no_verb_is_missing_from_the_protocol(kind: type[Any]) -> None:
    public = {name for name in vars(kind) if not name.startswith("_")}
    assert public - OWN[kind] == set(VERBS) - SHARED


CANNOT_REFUSE = {"batches", "close", "generations", "plan", "spec"}
"""Verbs whose only refusals are those that the protocol itself lists for all verbs."""


@pytest.mark.parametrize("kind", [MeterVerbs, Meter, RemoteMeter])
@pytest.mark.parametrize("verb", sorted({*VERBS} - CANNOT_REFUSE))
def test_every_verb_that_can_refuse_says_what_it_raises(kind: type[Any], verb: str) -> None:
    assert "Raises:" in (inspect.getdoc(getattr(kind, verb)) or "")


@pytest.mark.parametrize("kind", [Meter, RemoteMeter])
def test_what_a_verb_does_is_said_once(kind: type[Any]) -> None:
    """A docstring of its own would hide that of the protocol, with what the verb raises."""
    again = [verb for verb in VERBS if getattr(vars(kind).get(verb), "__doc__", None)]
    assert again == []


def test_the_verbs_that_cannot_refuse_are_verbs() -> None:
    assert {*VERBS} >= CANNOT_REFUSE


def test_there_are_verbs() -> None:
    assert len(VERBS) >= 20


def test_a_refusal_names_the_argument_of_python(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    nameless = {"prediction": [0] * len(session.test_labels)}
    wanted = r"name the column of ids \(matching=RowMatching\(id_column=\.\.\.\)\)"
    given = pa.table(nameless), pa.table({"prediction": [0] * 20})
    for verb in (session.meter.check, partial(session.meter.submit, model="m")):
        with pytest.raises(InvalidInput, match=wanted) as refused:
            verb(*given)
        assert "--" not in str(refused.value)
