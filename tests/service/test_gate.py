"""One gate: every use case declares its permission, and whoever lacks it is refused."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from easeml_meter import service
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied
from easeml_meter.service.actor import SYSTEM, Actor, Permission, needs

SOURCE = Path(service.__file__).parent.parent
_PLACES = {"Workspace", "Site", "Place"}
_MACHINERY = {f"{service.__name__}.{name}" for name in ("actor", "jobs", "place")}


def public_functions() -> Iterator[Callable[..., Any]]:
    """List the public functions of all modules of the service."""
    for found in pkgutil.walk_packages(service.__path__, f"{service.__name__}."):
        if found.name in _MACHINERY:
            continue
        for name, value in vars(import_module(found.name)).items():
            defined_here = getattr(value, "__module__", None) == found.name
            if inspect.isfunction(value) and defined_here and not name.startswith("_"):
                yield value


def touches_a_place(function: Callable[..., Any]) -> bool:
    """Whether a function opens the books itself, rather than running in a caller's transaction."""
    annotations = inspect.get_annotations(function)
    first = list(inspect.signature(function).parameters)[:2]
    placed = any(str(annotations.get(name)).split(" |")[0] in _PLACES for name in first)
    return placed and "Books" not in map(str, annotations.values())


def name_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__name__}".removeprefix("easeml_meter.service.")


INSIDE = {
    "journal.catch_up",
    "submissions.measuring.read_kept",
    "submissions.answering.known_by_name",
    "submissions.answering.settle",
    "submissions.kinds.made_of_hidden",
    "submissions.measuring.open_sealed",
    "submissions.waiting.check_free",
    "submissions.waiting.keep_labels",
    "submissions.waiting.read_labels",
    "submissions.waiting.read_pending",
    "testsets.delivery.asked_of",
    "testsets.delivery.check_alone",
    "testsets.delivery.check_reuse",
    "testsets.delivery.open_delivered",
    "testsets.delivery.take_in",
    "testsets.reuse.refuse_active",
    "testsets.release.choose",
    "testsets.release.hand_out",
    "testsets.release.truths_of",
    "testsets.reuse.fresh_rows",
    "testsets.reuse.keep_notices",
    "testsets.reuse.kept_notices",
    "testsets.reuse.overlaps",
    "testsets.reuse.same_rows",
    "testsets.reuse.sealed_rows",
    "testsets.reuse.with_validation",
    "testsets.checking.check_enough",
    "testsets.windows.free_oldest",
    "testsets.windows.fresh_batch",
    "testsets.windows.joined",
    "testsets.windows.note_joined",
    "tokens.issue",
    "users.check_password",
    "users.join",
}
"""What several use cases share: none of these is called from outside the service."""
FOUND = [function for function in public_functions() if touches_a_place(function)]
USE_CASES = [function for function in FOUND if name_of(function) not in INSIDE]


def test_there_are_use_cases() -> None:
    assert len(USE_CASES) > 40
    assert {name_of(function) for function in FOUND} >= INSIDE


def test_what_has_no_gate_is_called_inside_the_service_only() -> None:
    files = [path for each in ("server", "client", "cli") for path in (SOURCE / each).rglob("*.py")]
    texts = {path: path.read_text() for path in files}
    for name in INSIDE:
        module, _, function = name.rpartition(".")
        parent = module.rpartition(".")[2]
        named = re.compile(rf"{parent}\.{function}\(|{module} import [^\n]*\b{function}\b")
        assert [path for path, text in texts.items() if named.search(text)] == [], name


def test_every_use_case_declares_its_permission() -> None:
    for use_case in USE_CASES:
        name, declared = name_of(use_case), getattr(use_case, "needs", ())
        assert declared, f"{name}: declare it with @needs(Permission...), and take an Actor first"
        assert all(isinstance(each, Permission) for each in declared), name
        first = next(iter(inspect.signature(use_case).parameters))
        assert inspect.get_annotations(use_case)[first] == "Actor", name


ONLY_THE_GATE = {
    "audit.newest_link",
    "audit.verify",
    "doctor.readiness",
    "doctor.totals",
    "handovers.list_handovers",
    "meters.list_archived",
    "meters.list_meters",
    "meters.may_archive",
    "seats.seats_of_user",
    "submissions.queue.charged",
    "testsets.orders.waited_for",
    "testsets.parts.columns_before",
    "testsets.parts.taken_in",
    "testsets.release.releasable",
    "testsets.requests.list_requests",
    "testsets.requests.list_test_sets",
    "testsets.windows.released_batches",
    "tokens.admin_can_sign_in",
    "tokens.list_tokens",
    "tokens.log_out",
    "tokens.make_admin_token",
    "uploads.sweep_uploads",
    "users.list_users",
    "users.user_names",
    "validation.list_validation_sets",
}
"""Use cases that refuse nobody whom the gate lets in: they only read, or tidy up."""


def test_every_use_case_that_can_refuse_says_what_it_raises() -> None:
    silent = {name_of(each) for each in USE_CASES if "Raises:" not in (each.__doc__ or "")}
    assert silent - ONLY_THE_GATE == set(), "add Raises: to their docstrings"
    assert ONLY_THE_GATE - silent == set(), "take these off the list"


def test_an_actor_without_the_permission_does_not_get_in() -> None:
    ran: list[Actor] = []

    @needs(Permission.RELEASE)
    def use_case(actor: Actor) -> None:
        ran.append(actor)

    for role in (Role.DEVELOPER, Role.RUNNER, Role.ADMIN):
        with pytest.raises(Denied, match=f"{role}s may not release a test set"):
            use_case(Actor(((role, 1),)))
    with pytest.raises(Denied):
        use_case(Actor(()))
    assert ran == []
    use_case(SYSTEM)
    assert len(ran) == 1
