"""`meter user` and `meter seat`: accounts at a server, and who has which role at a meter of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    Command,
    MeterPlace,
    account_options,
    connected,
    echo_either,
    meter_options,
    open_remote,
)
from easeml_meter.cli.lazy import HelpfulGroup
from easeml_meter.cli.tokens import ask_password
from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.client.connection import Connection


@click.group(cls=HelpfulGroup)
def user() -> None:
    """Accounts on a server (admins)."""


@user.command(name="add")
@click.argument("name")
@click.option("--email", help="Address for e-mail to labelers.")
@click.option("--admin", is_flag=True, help="May manage the server.")
@account_options
def add_user(place: MeterPlace, name: str, email: str | None, admin: bool, as_json: bool) -> None:
    """Open an account; asks for its password, or reads it from the first line of stdin."""
    # Not an option: everybody on the machine can see the words of a command.
    password = ask_password(f"Password of {name}", twice=True)
    given = {"name": name, "password": password, "email": email, "admin": admin}
    with connected(place) as connection:
        made = connection.call("POST", "/users", json=given)
    echo_either(as_json, made, f"account {made['name']} opened, its id is {made['id']}")


@user.command()
@click.argument("name")
@account_options
def invite(place: MeterPlace, name: str, as_json: bool) -> None:
    """Print a link with which the owner of the account NAME chooses its password.

    It works once, and for three days. An earlier link no longer works.
    """
    with connected(place) as connection:
        path = f"/users/{user_id_of(connection, name)}/invitations"
        link = connection.server + connection.call("POST", path)["path"]
    echo_either(as_json, {"link": link}, link)


@user.command(name="list")
@account_options
def list_users(place: MeterPlace, as_json: bool) -> None:
    """List the accounts."""
    with connected(place) as connection:
        found = list(connection.listed("/users"))
    lines = []
    for each in found:
        marks = "".join(f" ({mark})" for mark in ("admin", "disabled") if each[mark])
        lines.append(f"{each['name']}{marks}, id {each['id']}")
    echo_either(as_json, found, *lines)


@user.command()
@click.argument("name")
@account_options
def disable(place: MeterPlace, name: str, as_json: bool) -> None:
    """Close the account NAME: nobody can sign in with it, and its tokens are revoked."""
    changed = _set_disabled(place, name, True)
    line = f"account {changed['name']} is disabled, its tokens are revoked"
    echo_either(as_json, changed, line)


@user.command()
@click.argument("name")
@account_options
def enable(place: MeterPlace, name: str, as_json: bool) -> None:
    """Open the account NAME again; revoked tokens stay revoked."""
    changed = _set_disabled(place, name, False)
    echo_either(as_json, changed, f"account {changed['name']} can sign in again")


@user.command()
@click.argument("name")
@account_options
def disconnect(place: MeterPlace, name: str, as_json: bool) -> None:
    """Let nobody sign in to the account NAME by the provider, and revoke its tokens.

    Its owner signs in with the password, and can connect it again; invite them if it has none.
    """
    with connected(place) as connection:
        identifier = user_id_of(connection, name)
        connection.call("DELETE", f"/users/{identifier}/identity")
    line = f"account {name} is disconnected, its tokens are revoked"
    echo_either(as_json, {"id": identifier, "disconnected": True}, line)


def _set_disabled(place: MeterPlace, name: str, disabled: bool) -> Any:
    with connected(place) as connection:
        path = f"/users/{user_id_of(connection, name)}"
        return connection.call("PATCH", path, json={"disabled": disabled})


def user_id_of(connection: Connection, name: str) -> str:
    """Return the id of the user who has this name, or this id."""
    for each in connection.listed("/users"):
        if name in (each["name"], each["id"]):
            return str(each["id"])
    raise invalid("user", name[:80], "no account has that name: see meter user list")


def _seat_options(command: Command) -> Command:
    team = "Number of the team of a developer or runner."
    for option in (
        click.option("--tenant", type=int, help=team),
        click.argument("role", type=click.Choice(["developer", "labeler", "runner"])),
        click.argument("name"),
    ):
        command = option(command)
    return command


@click.group(cls=HelpfulGroup)
def seat() -> None:
    """Who has which role at a meter on a server (admins)."""


@seat.command()
@_seat_options
@meter_options
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
@meter_options
def take(place: MeterPlace, name: str, role: str, tenant: int | None, as_json: bool) -> None:
    """Take a seat away from the user NAME."""
    with connected(place) as connection, open_remote(place) as meter:
        number = seat_tenant(role, tenant)
        user = user_id_of(connection, name)
        connection.call("DELETE", f"/meters/{meter.id}/members/{user}/{role}/{number}")
    taken = {"name": name, "user": user, "role": role, "tenant": number}
    echo_either(as_json, taken, f"{name} is no longer {described(role, number)}")


@seat.command(name="list")
@meter_options
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
