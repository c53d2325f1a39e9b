"""The meters of a server: finding one by its name, making one, listing one's own."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

from easeml_meter.checks import is_id
from easeml_meter.client.connection import Connection
from easeml_meter.client.meter import RemoteMeter
from easeml_meter.errors import NotFound, invalid
from easeml_meter.service.meters import check_meter
from easeml_meter.spec import MeterSpec


def connect(
    server: str,
    meter: str | None = None,
    *,
    token: str | None = None,
    ca: str | Path | None = None,
) -> RemoteMeter:
    """Open a meter at a server, by its name or id; without one, the only meter that is yours.

    The token is that of METER_TOKEN or of `meter login`, unless given. `ca` is a file with the
    certificate of an authority of your own.

    Raises:
        InvalidInput: several meters are yours, or have the name.
        NotFound: none of the name is yours, or none at all.
        Unauthenticated: there is no token, or it is not valid.
        Unreachable: the server does not answer.
    """
    connection = Connection.open(server, token, ca=ca)
    return _meter_at(connection, lambda: _find(connection, meter))


def create_meter(
    server: str,
    spec: MeterSpec,
    *,
    name: str,
    token: str | None = None,
    ca: str | Path | None = None,
) -> RemoteMeter:
    """Make a meter at a server, and ask for its first test set (an admin's verb).

    Raises:
        Denied: the token is not an admin's.
        InvalidInput: no meter can be made of this specification or name.
        Unauthenticated: there is no token, or it is not valid.
        Unreachable: the server does not answer.
    """
    check_meter(spec, name)
    connection = Connection.open(server, token, ca=ca)
    given = {"id": secrets.token_hex(16), "name": name, "settings": spec.to_mapping()}
    return _meter_at(connection, lambda: connection.call("POST", "/meters", json=given)["id"])


def _meter_at(connection: Connection, found: Callable[[], str]) -> RemoteMeter:
    """Return a meter that keeps the connection; without a meter, nobody else would close it."""
    try:
        return RemoteMeter(connection, found())
    except BaseException:
        connection.close()
        raise


def list_meters(connection: Connection) -> list[dict[str, Any]]:
    """List the meters at which the caller has a seat: id, name, roles."""
    return list(connection.listed("/meters"))


def _find(connection: Connection, meter: str | None) -> str:
    if meter is not None and is_id(meter):
        return meter
    meters = list_meters(connection)
    found = [each["id"] for each in meters if meter in (None, each["name"])]
    if len(found) == 1:
        return str(found[0])
    if meter is not None and not found:
        raise NotFound(f"meter {meter[:80]!r}: none of that name that you have a seat at")
    if not meters:
        raise NotFound(f"{connection.server}: you have no seat at any meter: ask an admin")
    if meter is not None:
        raise invalid("meter", meter[:80], f"{len(found)} have that name: give the id of one")
    names = ", ".join(sorted(each["name"] for each in meters)[:10])
    raise invalid("meter", None, f"name one of yours with --meter: {names}")
