"""`meter seat`: who has which role at a meter of a server."""

from __future__ import annotations

import click

from easeml_meter.cli.common import (
    Command,
    MeterPlace,
    connected,
    echo_either,
    json_option,
    open_remote,
    place_options,
)
from easeml_meter.cli.users import user_id_of


def _seat_options(command: Command) -> Command:
    """Add what names a seat: a user, a role, and the team of some roles."""
    team = "Number of the team of a developer or runner."
    for option in (
        click.option("--tenant", type=int, help=team),
        click.argument("role", type=click.Choice(["developer", "labeler", "runner"])),
        click.argument("name"),
    ):
        command = option(command)
    return command


@click.group()
def seat() -> None:
    """Who has which role at a meter on a server (admins)."""


@seat.command()
@_seat_options
@place_options
@json_option
def give(place: MeterPlace, name: str, role: str, tenant: int | None, as_json: bool) -> None:
    """Give the user NAME a seat as developer, labeler or runner."""
    with connected(place) as connection, open_remote(place) as meter:
        path = f"/meters/{meter.id}/members"
        given = {
            "user": user_id_of(connection, name),
            "role": role,
            "tenant": seat_tenant(role, tenant),
        }
        connection.call("POST", path, json=given)
    now = described(role, given["tenant"])
    echo_either(as_json, {"name": name, **given}, f"{name} is now {now}")


@seat.command()
@_seat_options
@place_options
@json_option
def take(place: MeterPlace, name: str, role: str, tenant: int | None, as_json: bool) -> None:
    """Take a seat away from the user NAME."""
    with connected(place) as connection, open_remote(place) as meter:
        number = seat_tenant(role, tenant)
        user = user_id_of(connection, name)
        connection.call("DELETE", f"/meters/{meter.id}/members/{user}/{role}/{number}")
    taken = {"name": name, "user": user, "role": role, "tenant": number}
    echo_either(as_json, taken, f"{name} is no longer {described(role, number)}")


@seat.command(name="list")
@place_options
@json_option
def list_seats(place: MeterPlace, as_json: bool) -> None:
    """List the seats of a meter."""
    with connected(place) as connection, open_remote(place) as meter:
        names = {each["id"]: each["name"] for each in connection.listed("/users")}
        found = [
            {"name": names[each["user"]], **each}
            for each in connection.listed(f"/meters/{meter.id}/members")
        ]
    lines = (f"{each['name']}: {described(each['role'], each['tenant'])}" for each in found)
    echo_either(as_json, found, *lines)


def seat_tenant(role: str, tenant: int | None) -> int:
    """Return the number of a seat's tenant: labelers have none, others the first by default."""
    return 0 if role == "labeler" else 1 if tenant is None else tenant


def described(role: str, tenant: object) -> str:
    """Describe a seat in words."""
    return role if role == "labeler" else f"{role} of team {tenant}"
