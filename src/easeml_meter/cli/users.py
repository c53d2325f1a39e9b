"""`meter user`: accounts at a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    MeterPlace,
    connected,
    echo_either,
    json_option,
    server_options,
)
from easeml_meter.cli.tokens import ask_password
from easeml_meter.errors import invalid

if TYPE_CHECKING:
    from easeml_meter.client.connection import Connection


@click.group()
def user() -> None:
    """Accounts on a server (admins)."""


@user.command(name="add")
@click.argument("name")
@click.option("--email", help="Address for e-mail to labelers.")
@click.option("--admin", is_flag=True, help="May manage the server.")
@server_options
@json_option
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
@server_options
@json_option
def invite(place: MeterPlace, name: str, as_json: bool) -> None:
    """Print a link with which the owner of the account NAME chooses its password.

    It works once, and for three days. An earlier link no longer works.
    """
    with connected(place) as connection:
        path = f"/users/{user_id_of(connection, name)}/invitations"
        link = connection.server + connection.call("POST", path)["path"]
    echo_either(as_json, {"link": link}, link)


@user.command(name="list")
@server_options
@json_option
def list_users(place: MeterPlace, as_json: bool) -> None:
    """List the accounts."""
    with connected(place) as connection:
        found = list(connection.listed("/users"))
    lines = (f"{each['name']}{_marks(each)}, id {each['id']}" for each in found)
    echo_either(as_json, found, *lines)


def _marks(account: dict[str, Any]) -> str:
    return "".join(f" ({mark})" for mark in ("admin", "disabled") if account[mark])


@user.command()
@click.argument("name")
@server_options
@json_option
def disable(place: MeterPlace, name: str, as_json: bool) -> None:
    """Close the account NAME: nobody can sign in with it, and its tokens are revoked."""
    changed = _set_disabled(place, name, True)
    line = f"account {changed['name']} is disabled, its tokens are revoked"
    echo_either(as_json, changed, line)


@user.command()
@click.argument("name")
@server_options
@json_option
def enable(place: MeterPlace, name: str, as_json: bool) -> None:
    """Open the account NAME again; revoked tokens stay revoked."""
    changed = _set_disabled(place, name, False)
    echo_either(as_json, changed, f"account {changed['name']} can sign in again")


@user.command()
@click.argument("name")
@server_options
@json_option
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
