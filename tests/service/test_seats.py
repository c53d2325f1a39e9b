"""Seats that would break the promise: after labels, hidden inputs or answers of another team."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.properties.test_races_in_a_folder import before
from tests.server.driving import add, begin, give_validation, sealed, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import rows, small_spec

from easeml_meter.core.people import GroupSeat, Person, Role
from easeml_meter.errors import MeterError
from easeml_meter.service import identities, seats
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.service.testsets import delivery, parts, requests
from easeml_meter.spec import MeterSpec

TEAMS = small_spec(tenants=(2, 2))
TABLE = rows(np.arange(40) % 2, seed=5)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path / "site") as each:
        yield each


def move(served: Served, meter: str, name: str, old: str, new: str) -> str:
    """Exchange the seat of a user for another one; return why that is refused, if it is."""
    space, user = served.site.space(meter), served.users[name].id
    for text, act in ((old, seats.remove_seat), (new, seats.add_seat)):
        role, _, tenant = text.partition(" ")
        try:
            if text:
                act(SYSTEM, space, user, Role(role), int(tenant or 0))
        except MeterError as error:
            return str(error)
    return ""


def give_part(served: Served, meter: str, folder: Path, size: int, name: str = "labeler") -> int:
    """Deliver some rows; return the status."""
    content = sealed(served, meter, TABLE.slice(0, size), folder)
    return add(served.client(name), meter, content, part=True).status_code


@pytest.mark.parametrize("role", ["developer", "runner"])
@pytest.mark.parametrize("given", ["whole", "part", "withdrawn", "upload"])
def test_whoever_labeled_submits_only_after_the_release(
    served: Served, tmp_path: Path, role: str, given: str
) -> None:
    """After a part of a set that was not active yet, a labeler could develop."""
    meter = served.add_meter()
    space = served.site.space(meter)
    if given == "whole":
        begin(served, meter, tmp_path)
    elif given == "upload":
        announced = {"name": "set", "size": 10}
        sent = served.client("labeler").post(f"/meters/{meter}/uploads", json=announced)
        assert sent.status_code == 201
    else:
        assert give_part(served, meter, tmp_path, 10) == 201
    if given == "withdrawn":
        parts.withdraw_part(SYSTEM, space, 1, 1)
    assert "not released" in move(served, meter, "labeler", "labeler", role)
    assert move(served, meter, "labeler", "", "labeler") == ""


def test_a_labeler_of_whom_nothing_came_may_develop(served: Served) -> None:
    assert move(served, served.add_meter(), "labeler", "labeler", "developer") == ""


@pytest.mark.parametrize("role", ["developer", "runner"])
def test_nobody_takes_answers_to_an_isolated_team(
    served: Served, tmp_path: Path, role: str
) -> None:
    """Seats at two teams were refused at a time, but not one after the other."""
    meter = served.add_meter(TEAMS)
    assert "one team each" in move(served, meter, "developer", "", "developer 2")
    assert move(served, meter, "developer", "developer 1", "developer 2") == ""
    assert move(served, meter, "developer", "developer 2", "developer 1") == ""
    labels = begin(served, meter, tmp_path)
    assert submit(served.client("developer"), meter, labels).status_code == 200
    refused = move(served, meter, "developer", "developer 1", f"{role} 2")
    assert "answers of team 1 on test set 1" in refused
    assert move(served, meter, "developer", "", "developer 1") == ""
    assert "one team each" not in move(served, meter, "developer2", "developer 2", "runner 1")
    requests.retire_test_set(SYSTEM, served.site.space(meter))
    assert move(served, meter, "developer", "developer 1", f"{role} 2") == ""


def test_teams_that_share_a_history_share_developers(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter(TEAMS)
    labels = begin(served, meter, tmp_path)
    assert submit(served.client("developer"), meter, labels).status_code == 200
    pair = {"giver": 1, "receiver": 2}
    for name in ("developer", "developer2"):
        asked = served.client(name).post(
            f"/meters/{meter}/handovers", json=pair | {"confirm": True}
        )
        assert asked.status_code == 200, asked.text
    assert move(served, meter, "developer", "developer 1", "developer 2") == ""


@pytest.mark.parametrize("spec", [small_spec(), small_spec(inputs="public")])
def test_whoever_had_hidden_inputs_develops_once_they_are_out_of_use(
    served: Served, tmp_path: Path, spec: MeterSpec
) -> None:
    meter = served.add_meter(spec)
    assert move(served, meter, "runner", "runner 1", "developer") == ""
    assert move(served, meter, "runner", "developer 1", "runner") == ""
    begin(served, meter, tmp_path)
    refused = move(served, meter, "runner", "runner 1", "developer")
    assert ("hidden inputs of test set 1" in refused) == (spec.inputs == "hidden")
    requests.retire_test_set(SYSTEM, served.site.space(meter))
    assert move(served, meter, "runner", "", "developer") == ""


def test_a_group_at_a_provider_gives_no_such_seat(served: Served, tmp_path: Path) -> None:
    meter = served.add_meter()
    rules = [GroupSeat.parse(f"{role}={role}:{meter}") for role in ("labeler", "developer")]

    def sign_in(group: str) -> str:
        ann = Person("https://login.example.org", "1", "ann", None, frozenset({group}))
        _, secret = identities.sign_in(ANYONE, served.site, ann, rules, days=1, purpose="test")
        served.tokens["ann"] = secret
        held = served.client("ann").get("/me").json()["seats"]
        return " ".join(each["role"] for each in held)

    assert [sign_in("developer"), sign_in("labeler")] == ["developer", "labeler"]
    assert give_part(served, meter, tmp_path, 10, "ann") == 201
    assert sign_in("developer") == ""


@pytest.mark.parametrize("size", [10, 40])
def test_a_delivery_that_is_under_way_while_its_labeler_moves_is_refused(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Seats are looked at when they are given, and labels may come after that."""
    meter = served.add_meter()
    give_validation(served.client("developer"), meter)
    content = sealed(served, meter, TABLE.slice(0, size), tmp_path)

    def moved() -> None:
        with served.site.writing() as books:
            for upload in books.uploads.all():
                books.uploads.remove(upload.id)
        assert move(served, meter, "labeler", "labeler", "developer") == ""

    before(monkeypatch, parts if size == 10 else delivery, "copy_into", moved)
    refused = add(served.client("labeler"), meter, content, part=size == 10)
    assert (refused.status_code, "develops here" in refused.text) == (409, True)
    assert served.site.space(meter).read_state().current.needs_labels
