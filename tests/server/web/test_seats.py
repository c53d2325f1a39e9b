"""Seats by a browser."""

from __future__ import annotations

import pytest
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor, words
from tests.service.helpers import small_spec

from easeml_meter.core.people import Role
from easeml_meter.service import seats
from easeml_meter.service.actor import SYSTEM


def test_seats_are_given_and_taken(served: Served, admin: Visitor) -> None:
    meter = served.add_meter(small_spec(steps=4, tenants=(2, 2)))
    path, user = f"/admin/meters/{meter}", served.users["stranger"].id
    given = admin.send(f"{path}/seats", user=user, role="developer", tenant="2")
    assert given.status_code == 303
    assert "stranger is developer of this meter now." in words(admin.get(path))
    own = [seat for seat in seats.list_seats(SYSTEM, served.site.space(meter)) if seat.user == user]
    assert [(seat.role, seat.tenant) for seat in own] == [(Role.DEVELOPER, 2)]
    assert "developer (team 2) of" in words(admin.get(f"/admin/users/{user}"))
    taken = admin.send(f"{path}/seats/remove", user=user, role="developer", tenant="2")
    assert taken.status_code == 303
    assert user not in {seat.user for seat in seats.list_seats(SYSTEM, served.site.space(meter))}


@pytest.mark.parametrize(
    ("role", "tenant", "status"),
    [("developer", "3", 409), ("developer", "x", 422), ("admin", "", 422), ("cook", "", 422)],
)
def test_a_seat_that_cannot_be_given(
    served: Served, admin: Visitor, role: str, tenant: str, status: int
) -> None:
    meter = served.add_meter()
    user = served.users["stranger"].id
    page = admin.send(f"/admin/meters/{meter}/seats", user=user, role=role, tenant=tenant)
    assert page.status_code == status
    assert '<p class="problem" role="alert">' in page.text
    assert user not in {seat.user for seat in seats.list_seats(SYSTEM, served.site.space(meter))}
