"""Seats: who has which role at a meter. One role per person and meter."""

from __future__ import annotations

from dataclasses import asdict

from easeml_meter.core.people import Member, Role
from easeml_meter.errors import MeterError, NotFound, invalid
from easeml_meter.service.place import Site
from easeml_meter.service.users import user
from easeml_meter.spec import MeterSpec
from easeml_meter.storage import schema
from easeml_meter.storage.books import Books
from easeml_meter.storage.people import member_of


def add_member(site: Site, user_id: str, meter: str, role: Role, tenant: int = 0) -> Member:
    """Give a user a seat at a meter; developers and runners sit with a tenant."""
    if role not in (Role.DEVELOPER, Role.LABELER, Role.RUNNER):
        raise invalid("role", str(role), "developer, labeler or runner")
    user(site, user_id)
    site.require_meter(meter)
    with site.writing() as books:
        books.lock(meter)
        spec = MeterSpec.from_mapping(books.meters.get(meter).settings)
        count = 1 if spec.handover else max(1, len(spec.tenants))
        if role is Role.LABELER:
            tenant = 0
        elif not 1 <= (tenant := tenant or 1) <= count:
            raise MeterError(f"tenant: {tenant} given, this meter has those from 1 to {count}")
        rows = [row for row in seats_of(books, user_id) if row.meter == meter]
        # Two roles in one hand would show a developer the hidden inputs, or the labels.
        if others := {row.role for row in rows} - {role}:
            holds = others.pop()
            raise MeterError(
                f"role: {role} given, this user is {holds} of the meter: one role each"
            )
        member = Member(user_id, meter, role, tenant, site.now())
        if not any((row.role, row.tenant) == (role, tenant) for row in rows):
            books.connection.execute(schema.members.insert(), asdict(member))
            details = {"user": user_id, "role": str(role), "tenant": tenant}
            books.audit.append(meter, member.added_at, "member added", details)
    return member


def remove_member(site: Site, user_id: str, meter: str, role: Role, tenant: int = 0) -> None:
    """Take a seat away."""
    table = schema.members
    with site.writing() as books:
        books.lock(meter)
        where = (
            (table.c.user == user_id)
            & (table.c.meter == meter)
            & (table.c.role == str(role))
            & (table.c.tenant == tenant)
        )
        if books.connection.execute(table.delete().where(where)).rowcount == 0:
            raise NotFound("member: there is no such seat")
        details = {"user": user_id, "role": str(role), "tenant": tenant}
        books.audit.append(meter, site.now(), "member removed", details)


def members(site: Site, meter: str) -> list[Member]:
    """List the seats at a meter."""
    table = schema.members
    with site.reading() as books:
        rows = books.select(table, table.c.meter == meter, order=(table.c.added_at, table.c.user))
    return [member_of(row) for row in rows]


def seats_of(books: Books, user_id: str) -> list[Member]:
    """Return the seats of a user at all meters."""
    table = schema.members
    return [member_of(row) for row in books.select(table, table.c.user == user_id)]
