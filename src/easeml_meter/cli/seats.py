"""`meter seat`: who has which role at a meter of a server."""

from __future__ import annotations

import click

from easeml_meter.cli.common import (
    MeterPlace,
    connected,
    echo_json,
    json_option,
    open_remote,
    place_options,
)
from easeml_meter.cli.users import user_id_of

_ROLES = click.Choice(["developer", "labeler", "runner"])


@click.group()
def seat() -> None:
    """Who has which role at a meter on a server (admins)."""


@seat.command()
@click.argument("name")
@click.argument("role", type=_ROLES)
@click.option("--tenant", type=int, help="Number of the team of a developer or runner.")
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
    if as_json:
        echo_json({"name": name, **given})
    else:
        click.echo(f"{name} is now {described(role, given['tenant'])}")


@seat.command()
@click.argument("name")
@click.argument("role", type=_ROLES)
@click.option("--tenant", type=int, help="Number of the team of a developer or runner.")
@place_options
@json_option
def take(place: MeterPlace, name: str, role: str, tenant: int | None, as_json: bool) -> None:
    """Take a seat away from the user NAME."""
    with connected(place) as connection, open_remote(place) as meter:
        number = seat_tenant(role, tenant)
        user = user_id_of(connection, name)
        connection.call("DELETE", f"/meters/{meter.id}/members/{user}/{role}/{number}")
    if as_json:
        echo_json({"name": name, "user": user, "role": role, "tenant": number})
    else:
        click.echo(f"{name} is no longer {described(role, number)}")


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
    if as_json:
        echo_json(found)
        return
    for each in found:
        click.echo(f"{each['name']}: {described(each['role'], each['tenant'])}")


def seat_tenant(role: str, tenant: int | None) -> int:
    """Return the number of a seat's tenant: labelers have none, others the first by default."""
    return 0 if role == "labeler" else 1 if tenant is None else tenant


def described(role: str, tenant: object) -> str:
    """Describe a seat in words."""
    return role if role == "labeler" else f"{role} of team {tenant}"
