"""Commands about servers: login, logout, meters."""

from __future__ import annotations

import getpass
import os
import sys

import click

from easeml_meter.cli.common import (
    Place,
    at_terminal,
    echo_json,
    json_option,
    server_of,
    server_options,
)
from easeml_meter.errors import invalid


@click.command()
@server_options
@click.option("--name", help="Name of your account. Default: asked for.")
@click.option("--token", help="A token that an admin gave you; better put it in METER_TOKEN.")
def login(place: Place, name: str | None, token: str | None) -> None:
    """Log in at a server: the token it gives is kept in a file that you alone can read.

    Without a terminal, the password is the first line of stdin. With a token, no password is
    needed: it is tried, and kept.
    """
    from easeml_meter.client import credentials, list_meters
    from easeml_meter.client.connection import TOKEN, Connection

    server = server_of(place)
    if token is None and name is None:
        token = os.environ.get(TOKEN)
    if token is None:
        name = name or _ask_name()
        connection = Connection(server, ca=place.ca)
        try:
            given = {"name": name, "password": ask_password()}
            token = connection.call("POST", "/login", json=given)["token"]
        finally:
            connection.close()
    connection = Connection.open(server, token, ca=place.ca)
    try:
        me = connection.call("GET", "/me")
        meters = list_meters(connection)
    finally:
        connection.close()
    expires_at = me["token"]["expires_at"]
    path = credentials.store(connection.server, credentials.Credential(token, expires_at))
    user = me["user"]["name"]
    click.echo(f"logged in at {connection.server} as {user} until {expires_at[:10]}")
    click.echo(f"the token is kept in {path}")
    if meters:
        click.echo(f"your meters: {', '.join(each['name'] for each in meters)}")


def _ask_name() -> str:
    if not at_terminal():
        raise invalid(
            "name", None, "give --name, or a token in METER_TOKEN (no terminal to ask at)"
        )
    return str(click.prompt("Name", default=getpass.getuser()))


def ask_password(question: str = "Password", *, twice: bool = False) -> str:
    """Ask for a password without showing it; without a terminal, read a line from stdin."""
    if at_terminal():
        return str(click.prompt(question, hide_input=True, confirmation_prompt=twice))
    return sys.stdin.readline().rstrip("\n")


@click.command()
@server_options
def logout(place: Place) -> None:
    """Log out from a server: the token is revoked there, and forgotten here."""
    from easeml_meter.client import credentials
    from easeml_meter.client.connection import Connection
    from easeml_meter.errors import Unauthenticated, Unreachable

    server = credentials.server_address(server_of(place))
    kept = credentials.find(server)
    if kept is None:
        raise invalid("server", server, "you are not logged in there")
    connection = Connection(server, kept.token, ca=place.ca)
    try:
        connection.call("POST", "/logout")
    except Unauthenticated:  # it has expired, or was revoked before
        pass
    except Unreachable as error:
        click.echo(f"warning: the token was not revoked: {error}", err=True)
    finally:
        connection.close()
    credentials.forget(server)
    click.echo(f"logged out from {server}")


@click.command()
@server_options
@json_option
def meters(place: Place, as_json: bool) -> None:
    """List your meters at a server; an admin sees all of them."""
    from easeml_meter.client import list_meters
    from easeml_meter.client.connection import Connection

    connection = Connection.open(server_of(place), ca=place.ca)
    try:
        found = list_meters(connection)
    finally:
        connection.close()
    if as_json:
        echo_json(found)
        return
    for each in found:
        click.echo(f"{each['name']} ({', '.join(each['roles'])}), id {each['id']}")
    if not found:
        click.echo("no meter at which you have a seat")
