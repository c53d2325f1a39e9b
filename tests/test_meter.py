"""A meter in a folder and one at a server have the same verbs."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from easeml_meter.client import RemoteMeter
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


def test_there_are_verbs() -> None:
    assert len(VERBS) >= 20
