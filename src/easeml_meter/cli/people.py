"""Commands of a server's admins: user, seat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    Place,
    echo_json,
    json_option,
    open_remote,
    place_options,
    server_of,
    server_options,
)
from easeml_meter.cli.remote import ask_password
from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.client.connection import Connection

_ROLES = click.Choice(["developer", "labeler", "runner"])


@contextmanager
def _connected(place: Place) -> Iterator[Connection]:
    from easeml_meter.client.connection import Connection

    connection = Connection.open(server_of(place), ca=place.ca)
    try:
        yield connection
    finally:
        connection.close()


@click.group()
def user() -> None:
    """Accounts at a server (admins)."""


@user.command(name="add")
@click.argument("name")
@click.option("--email", help="Where labelers are written to.")
@click.option("--admin", is_flag=True, help="May manage the server.")
@server_options
@json_option
def add_user(place: Place, name: str, email: str | None, admin: bool, as_json: bool) -> None:
    """Open an account; its password is asked for, or is the first line of stdin."""
    password = ask_password(f"Password of {name}", twice=True)
    given = {"name": name, "password": password, "email": email, "admin": admin}
    with _connected(place) as connection:
        made = connection.call("POST", "/users", json=given)
    if as_json:
        echo_json(made)
    else:
        click.echo(f"account {made['name']} opened, its id is {made['id']}")


@user.command(name="list")
@server_options
@json_option
def list_users(place: Place, as_json: bool) -> None:
    """List the accounts."""
    with _connected(place) as connection:
        found = list(connection.listed("/users"))
    if as_json:
        echo_json(found)
        return
    for each in found:
        marks = "".join(f" ({mark})" for mark in ("admin", "disabled") if each[mark])
        click.echo(f"{each['name']}{marks}, id {each['id']}")


@click.group()
def seat() -> None:
    """Who does what at a meter of a server (admins)."""


@seat.command()
@click.argument("name")
@click.argument("role", type=_ROLES)
@click.option("--tenant", type=int, help="Number of the tenant of a developer or runner.")
@place_options
def give(place: Place, name: str, role: str, tenant: int | None) -> None:
    """Give the user NAME a seat as developer, labeler or runner."""
    with _connected(place) as connection, open_remote(place) as meter:
        path = f"/meters/{meter.id}/members"
        given = {"user": _user_id(connection, name), "role": role, "tenant": _of(role, tenant)}
        connection.call("POST", path, json=given)
    click.echo(f"{name} is now {_described(role, given['tenant'])}")


@seat.command()
@click.argument("name")
@click.argument("role", type=_ROLES)
@click.option("--tenant", type=int, help="Number of the tenant of a developer or runner.")
@place_options
def take(place: Place, name: str, role: str, tenant: int | None) -> None:
    """Take a seat away from the user NAME."""
    with _connected(place) as connection, open_remote(place) as meter:
        number = _of(role, tenant)
        path = f"/meters/{meter.id}/members/{_user_id(connection, name)}/{role}/{number}"
        connection.call("DELETE", path)
    click.echo(f"{name} is no longer {_described(role, number)}")


@seat.command(name="list")
@place_options
@json_option
def list_seats(place: Place, as_json: bool) -> None:
    """List who sits at a meter."""
    with _connected(place) as connection, open_remote(place) as meter:
        names = {each["id"]: each["name"] for each in connection.listed("/users")}
        found = [
            {"name": names[each["user"]], **each}
            for each in connection.listed(f"/meters/{meter.id}/members")
        ]
    if as_json:
        echo_json(found)
        return
    for each in found:
        click.echo(f"{each['name']}: {_described(each['role'], each['tenant'])}")


def _user_id(connection: Connection, name: str) -> str:
    for each in connection.listed("/users"):
        if name in (each["name"], each["id"]):
            return str(each["id"])
    raise invalid("user", name[:80], "no account has that name: see meter user list")


def _of(role: str, tenant: int | None) -> int:
    """Give the number of a seat's tenant: labelers have none, others the first by default."""
    return 0 if role == "labeler" else 1 if tenant is None else tenant


def _described(role: str, tenant: Any) -> str:
    return role if role == "labeler" else f"{role} of tenant {tenant}"
