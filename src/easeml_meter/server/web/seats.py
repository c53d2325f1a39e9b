"""Forms by which admins give seats and take them away, on the page of a meter."""

from __future__ import annotations

from fastapi import APIRouter, Response

from easeml_meter.checks import one_of
from easeml_meter.core.people import Role
from easeml_meter.errors import invalid
from easeml_meter.server.parameters import Id
from easeml_meter.server.web.admin import at_meter
from easeml_meter.server.web.pages import Visit, VisitHere
from easeml_meter.service import seats, users

router = APIRouter(include_in_schema=False)


@router.post("/admin/meters/{meter}/seats")
def add_seat(visit: VisitHere, meter: Id) -> Response:
    """Give a user a seat."""

    def add() -> Response:
        user, role, tenant = _seat(visit)
        seats.add_seat(visit.at(meter), visit.site.space(meter), user, role, tenant)
        return _done(visit, meter, user, f"is {role} of this meter now")

    return at_meter(visit, meter, "seat", add)


@router.post("/admin/meters/{meter}/seats/remove")
def remove_seat(visit: VisitHere, meter: Id) -> Response:
    """Take a seat away."""

    def remove() -> Response:
        user, role, tenant = _seat(visit)
        seats.remove_seat(visit.at(meter), visit.site.space(meter), user, role, tenant)
        return _done(visit, meter, user, f"is no longer {role}")

    return at_meter(visit, meter, "seat", remove)


def _done(visit: Visit, meter: str, user: str, what: str) -> Response:
    name = users.show_user(visit.at_site(), visit.site, user).name
    return visit.redirect(f"/admin/meters/{meter}", f"{name} {what}.")


def _seat(visit: Visit) -> tuple[str, Role, int]:
    tenant = visit.form.get("tenant", "").strip() or "0"
    if not (tenant.isascii() and tenant.isdigit() and len(tenant) <= 6):
        raise invalid("tenant", tenant[:40], "its number, from 1; nothing for labelers")
    return visit.field("user", longest=32), one_of("role", visit.field("role"), Role), int(tenant)
