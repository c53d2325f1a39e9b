"""`meter login`, `meter logout` and `meter token`."""

from __future__ import annotations

import getpass
import os
import sys
from contextlib import closing
from dataclasses import replace

import click

from easeml_meter.checks import is_id
from easeml_meter.cli.common import (
    MeterPlace,
    account_options,
    at_terminal,
    connected,
    echo_either,
    echo_json,
    json_option,
    next_step,
    open_remote,
    server_of,
    server_options,
)
from easeml_meter.cli.lazy import HelpfulGroup
from easeml_meter.errors import invalid


@click.group(cls=HelpfulGroup)
def token() -> None:
    """Your tokens on a server, for scripts and jobs."""


@token.command()
@click.option("--name", required=True, help="What it is for.")
@click.option("--days", type=float, default=90, show_default=True, help="How long it is valid.")
@click.option(
    "--scope",
    "scopes",
    metavar="ROLE[:METER]",
    multiple=True,
    help="Limit it to a role, to a seat at one meter, or to metrics (admins). Repeatable.",
)
@click.option(
    "--pace",
    metavar="N/day",
    help="Give it at most N answers of a meter in any 24 hours. Default: no limit.",
)
@account_options
def new(  # noqa: PLR0917
    place: MeterPlace,
    name: str,
    days: float,
    scopes: tuple[str, ...],
    pace: str | None,
    as_json: bool,
) -> None:
    """Make a token of your account, and print it once.

    Without --scope it may do everything you may. A token with scopes or a pace cannot make other
    tokens. With --scope metrics, which only admins can give, it reads /metrics of the server and
    nothing else.
    """
    from easeml_meter.service.tokens import check_token

    most = None if pace is None else _per_day(pace)
    check_token(name, [each.partition(":")[0] for each in scopes], days, most)
    with connected(place) as connection:
        limited = [_scope(place, each) for each in scopes]
        given = {"name": name, "days": days, "scopes": limited, "pace": most}
        made = connection.call("POST", "/tokens", json=given)
    if as_json:
        echo_json(made)
        return
    click.echo(made["token"])
    click.echo(
        f"valid until {made['expires_at'][:10]} and shown only once: keep it secret, use it as "
        f"METER_TOKEN; to end it: meter token revoke {made['id']}",
        err=True,
    )


@token.command(name="list")
@account_options
def list_tokens(place: MeterPlace, as_json: bool) -> None:
    """List your tokens, newest first; revoked ones only with --json."""
    with connected(place) as connection:
        found = list(connection.listed("/tokens"))
    if as_json:
        echo_json(found)
        return
    for each in found:
        if each["revoked_at"] is None:
            named = [*each["scopes"], *([f"{each['pace']}/day"] if each["pace"] else [])]
            limits = f" ({', '.join(named)})" if named else ""
            click.echo(f"{each['name']}{limits}, until {each['expires_at'][:10]}, id {each['id']}")


@token.command()
@click.argument("identifier", metavar="ID")
@account_options
def revoke(place: MeterPlace, identifier: str, as_json: bool) -> None:
    """End one of your tokens (admins: anyone's)."""
    from easeml_meter.errors import NotFound

    if not is_id(identifier):
        raise invalid("token", "(hidden)", "the id of one, not the token: see meter token list")
    with connected(place) as connection:
        try:
            connection.call("DELETE", f"/tokens/{identifier}")
        except NotFound as error:
            raise NotFound(f"{error}: see meter token list") from None
    revoked = {"id": identifier, "revoked": True}
    echo_either(as_json, revoked, f"token {identifier} is revoked")


def _per_day(given: str) -> int:
    number, _, unit = given.partition("/")
    if unit != "day" or not (number.isascii() and number.isdigit()):
        raise invalid("pace", given, "a number of answers a day, such as 5/day")
    return int(number)


def _scope(place: MeterPlace, given: str) -> str:
    """Put the id of the meter that a scope names in the place of its name."""
    role, colon, meter = given.partition(":")
    if not colon:
        return role
    with open_remote(replace(place, meter=meter)) as found:
        return f"{role}:{found.id}"


@click.command()
@server_options
@click.option("--name", help="Name of your account. Default: asked for.")
@click.option("--token", help="A token that an admin gave you. Safer: put it in METER_TOKEN.")
@json_option
def login(place: MeterPlace, name: str | None, token: str | None, as_json: bool) -> None:
    """Log in to a server, and store its token in a file that only you can read.

    Without a terminal, the password is the first line of stdin. With a token, no password is
    needed: the token is tried and stored.
    """
    from easeml_meter.client import credentials, list_meters
    from easeml_meter.client.connection import TOKEN, Connection

    server = server_of(place)
    # A name that was typed means that account, whatever token the environment has.
    if not token and name is None:
        token = os.environ.get(TOKEN)
    # An empty one is none: pipelines set the variable also where they have no secret for it.
    if not token:
        name = name or _ask_name()
        with closing(Connection(server, ca=place.ca)) as connection:
            given = {"name": name, "password": ask_password()}
            token = connection.call("POST", "/login", json=given)["token"]
    with closing(Connection.open(server, token, ca=place.ca)) as connection:
        me = connection.call("GET", "/me")
        meters = list_meters(connection)
    expires_at = me["token"]["expires_at"]
    path = credentials.store(connection.server, credentials.Credential(token, expires_at))
    user = me["user"]["name"]
    if as_json:
        names = [each["name"] for each in meters]
        shown = {"server": connection.server, "user": user, "expires_at": expires_at}
        echo_json({**shown, "stored_in": str(path), "meters": names})
        return
    click.echo(f"logged in to {connection.server} as {user} until {expires_at[:10]}")
    click.echo(f"the token is stored in {path}")
    if meters:
        click.echo(f"your meters: {', '.join(each['name'] for each in meters)}")
        step = {"runner": "testset inputs --out inputs.parquet", None: "seat give NAME ROLE"}
        role = next(iter(meters[0]["roles"]), None)
        next_step(replace(place, meter=meters[0]["name"]), step.get(role, "status"))
    elif me["user"]["admin"]:
        next_step(place, "user add NAME")
    else:
        click.echo("you have no seat at any meter yet: an admin gives them with meter seat give")


def _ask_name() -> str:
    if not at_terminal():
        raise invalid(
            "name", None, "give --name, or a token in METER_TOKEN (no terminal to ask at)"
        )
    return str(click.prompt("Name", default=getpass.getuser()))


def ask_password(question: str = "Password", *, twice: bool = False) -> str:
    """Ask for a password without showing it; without a terminal, read a line from stdin."""
    # Also if the output goes to a file: what is typed would be seen.
    if sys.stdin.isatty():
        asked = click.prompt(question, hide_input=True, confirmation_prompt=twice, err=True)
        return str(asked)
    return sys.stdin.readline().rstrip("\n")


@click.command()
@account_options
def logout(place: MeterPlace, as_json: bool) -> None:
    """Log out of a server: revoke the token there, and forget it here."""
    from easeml_meter.client import credentials
    from easeml_meter.client.connection import Connection
    from easeml_meter.errors import MeterError, Unauthenticated

    server = credentials.server_address(server_of(place))
    kept = credentials.find(server)
    if kept is None:
        raise invalid("server", server, "you are not logged in there")
    revoked = True
    with closing(Connection(server, kept.token, ca=place.ca)) as connection:
        try:
            connection.call("POST", "/logout")
        except Unauthenticated:  # it has expired, or was revoked before
            pass
        except MeterError as error:
            revoked = False
            click.echo(f"warning: the token was not revoked: {error}", err=True)
    # Forgotten here even if the server did not do its part: the warning says what is left to do.
    credentials.forget(server)
    echo_either(as_json, {"server": server, "revoked": revoked}, f"logged out of {server}")
