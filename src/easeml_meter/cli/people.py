"""Who may do what at a server, and who is told: user, seat, token, webhook."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
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


@user.command()
@click.argument("name")
@server_options
@json_option
def disable(place: Place, name: str, as_json: bool) -> None:
    """Close the account NAME: nobody can sign in with it, and its tokens are revoked."""
    changed = _set_disabled(place, name, True)
    if as_json:
        echo_json(changed)
    else:
        click.echo(f"account {changed['name']} is disabled, its tokens are revoked")


@user.command()
@click.argument("name")
@server_options
@json_option
def enable(place: Place, name: str, as_json: bool) -> None:
    """Open the account NAME again; tokens that were revoked stay so."""
    changed = _set_disabled(place, name, False)
    if as_json:
        echo_json(changed)
    else:
        click.echo(f"account {changed['name']} can sign in again")


def _set_disabled(place: Place, name: str, disabled: bool) -> Any:
    with _connected(place) as connection:
        path = f"/users/{_user_id(connection, name)}"
        return connection.call("PATCH", path, json={"disabled": disabled})


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


@click.group()
def token() -> None:
    """Your tokens at a server, for scripts and jobs."""


@token.command()
@click.option("--name", required=True, help="What it is for.")
@click.option("--days", type=float, default=90, show_default=True, help="How long it is valid.")
@click.option(
    "--scope",
    "scopes",
    metavar="ROLE[:METER]",
    multiple=True,
    help="Limit it to a role, or to a seat at one meter; may be repeated.",
)
@server_options
@json_option
def new(place: Place, name: str, days: float, scopes: tuple[str, ...], as_json: bool) -> None:
    """Make a token of your account; it is printed this once.

    Without --scope it may do all that you may. A token with scopes makes no others.
    """
    from easeml_meter.service.accounts import check_token

    check_token(name, [each.partition(":")[0] for each in scopes], days)
    with _connected(place) as connection:
        given = {"name": name, "days": days, "scopes": [_scope(place, each) for each in scopes]}
        made = connection.call("POST", "/tokens", json=given)
    if as_json:
        echo_json(made)
        return
    click.echo(made["token"])
    click.echo(
        f"valid until {made['expires_at'][:10]} and shown this once: keep it secret, use it as "
        f"METER_TOKEN; to end it: meter token revoke {made['id']}",
        err=True,
    )


@token.command(name="list")
@server_options
@json_option
def list_tokens(place: Place, as_json: bool) -> None:
    """List your tokens, the newest first; those that were revoked only with --json."""
    with _connected(place) as connection:
        found = list(connection.listed("/tokens"))
    if as_json:
        echo_json(found)
        return
    for each in found:
        if each["revoked_at"] is None:
            limits = f" ({', '.join(each['scopes'])})" if each["scopes"] else ""
            click.echo(f"{each['name']}{limits}, until {each['expires_at'][:10]}, id {each['id']}")


@token.command()
@click.argument("identifier", metavar="ID")
@server_options
def revoke(place: Place, identifier: str) -> None:
    """End one of your tokens (admins: anyone's)."""
    from easeml_meter.errors import NotFound

    if not re.fullmatch("[0-9a-f]{32}", identifier):
        raise invalid("token", "(hidden)", "the id of one, not the token: see meter token list")
    with _connected(place) as connection:
        try:
            connection.call("DELETE", f"/tokens/{identifier}")
        except NotFound as error:
            raise NotFound(f"{error}: see meter token list") from None
    click.echo(f"token {identifier} is revoked")


@click.group()
def webhook() -> None:
    """Addresses that are told what happens at a meter of a server (admins)."""


@webhook.command(name="add")
@click.argument("url")
@click.option(
    "--event",
    "events",
    multiple=True,
    help="What it is told, such as spent; may be repeated. Default: all but signals (told:TENANT).",
)
@place_options
@json_option
def add_webhook(place: Place, url: str, events: tuple[str, ...], as_json: bool) -> None:
    """Tell URL from now on; the secret that signs the messages is printed this once."""
    from easeml_meter.service.hooks import check_url

    check_url(url)
    given = {"url": url} | ({"events": list(events)} if events else {})
    with _connected(place) as connection, open_remote(place) as meter:
        made = connection.call("POST", f"/meters/{meter.id}/webhooks", json=given)
    if as_json:
        echo_json(made)
        return
    click.echo(made["secret"])
    click.echo(
        "shown this once: give it to the receiver, to check signatures with; to end it: "
        f"meter webhook remove {made['id']}",
        err=True,
    )


@webhook.command(name="list")
@place_options
@json_option
def list_webhooks(place: Place, as_json: bool) -> None:
    """List a meter's webhooks, and what became of their messages."""
    with _connected(place) as connection, open_remote(place) as meter:
        found = list(connection.listed(f"/meters/{meter.id}/webhooks"))
    if as_json:
        echo_json(found)
        return
    for each in found:
        click.echo(f"{each['url']}, id {each['id']}")
        click.echo(f"  told: {', '.join(each['events'])}")
        counts = f"{each['sent']} sent, {each['waiting']} waiting, {each['given_up']} given up"
        click.echo(f"  messages: {counts}")
    if not found:
        click.echo("no webhooks")


@webhook.command(name="remove")
@click.argument("identifier", metavar="ID")
@place_options
def remove_webhook(place: Place, identifier: str) -> None:
    """Tell an address nothing more, not even what is waiting."""
    with _connected(place) as connection, open_remote(place) as meter:
        path = f"/meters/{meter.id}/webhooks"
        if identifier not in [each["id"] for each in connection.listed(path)]:
            remedy = "no webhook of this meter has that id: see meter webhook list"
            raise invalid("webhook", identifier[:80], remedy)
        connection.call("DELETE", f"{path}/{identifier}")
    click.echo(f"webhook {identifier} is removed")


def _scope(place: Place, given: str) -> str:
    """Put the id of the meter that a scope names in the place of its name."""
    role, colon, meter = given.partition(":")
    if not colon:
        return role
    with open_remote(replace(place, meter=meter)) as found:
        return f"{role}:{found.id}"


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
