"""`meter serve`, `meter worker` and `meter doctor`."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import PATH, Command, echo_either, json_option, write_privately
from easeml_meter.core.doctor import healthy
from easeml_meter.errors import InvalidInput, not_installed
from easeml_meter.service.actor import SYSTEM

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from easeml_meter.server.settings import Settings
    from easeml_meter.service.doctor import Installation

try:
    from easeml_meter.server.settings import ENVIRONMENT, Settings, read_settings
except ModuleNotFoundError as error:
    raise not_installed("the server needs", error, "server") from error


_TYPES: dict[Any, Any] = {
    int: int,
    float: float,
    Path: PATH,
    Path | None: PATH,
}


def settings_options(*names: str) -> Callable[[Command], Command]:
    """Add --settings and a flag for each setting, or for those named."""

    def add(command: Command) -> Command:
        for name in reversed(names or tuple(Settings.model_fields)):
            command = _option(name, Settings.model_fields[name])(command)
        return click.option(
            "--settings",
            "settings_file",
            type=PATH,
            help="TOML file with settings named like the flags, with _ instead of -.",
        )(command)

    return add


def given_settings(file: Path | None, flags: dict[str, Any]) -> Settings:
    """Return the settings given by flags, by the environment and in a file."""
    return read_settings(file, os.environ, flags)


def _option(name: str, setting: FieldInfo) -> Callable[[Command], Command]:
    flag = "--" + name.replace("_", "-")
    options: dict[str, Any] = {"default": None, "type": _TYPES.get(setting.annotation)}
    if setting.annotation is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    elif setting.annotation == tuple[str, ...]:
        # Not given is not the same as given none: the environment and the file may say more.
        options |= {"multiple": True, "callback": lambda _, __, value: value or None}
    text = f"{setting.description} [{ENVIRONMENT}{name.upper()}; {_shown(setting.default)}]"
    return click.option(flag, name, help=text, **options)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return f"default: {str(value).lower()}"
    return f"default: {value}" if value not in (None, "", ()) else "default: none"


@click.command()
@click.option("--new-admin-token", is_flag=True, help="Make and print a token for the user admin.")
@click.option("--new-site", is_flag=True, help="Start with an empty database beside full files.")
@click.option("--demo", is_flag=True, help="Make a new site with people and meters to look at.")
@settings_options()
def serve(
    settings_file: Path | None,
    new_admin_token: bool,
    new_site: bool,
    demo: bool,
    **flags: Any,
) -> None:
    """Serve meters to teams: REST API, dashboard, accounts, roles.

    Prints the address and, while no admin can sign in otherwise, a token for the user "admin".
    Logs go to stderr, one JSON object per line. SIGTERM and Ctrl-C let accepted requests finish.

    Each setting comes from its flag, its environment variable, or the file given with --settings,
    in this order of precedence. Several values in one variable are separated by commas. Pass
    secrets through the environment or the file: others on this machine can see flags.
    """
    settings = given_settings(settings_file, flags)
    write_privately()
    try:
        from easeml_meter.server.serve import open_site, run
    except ModuleNotFoundError as error:
        raise not_installed("the server needs", error, "server") from error
    if demo:
        if settings.folder.exists() or settings.database:
            place = settings.database or settings.folder
            again = f"meter serve --folder {settings.folder}"
            raise InvalidInput(f"--demo: {place} exists: serve it with {again}, or name another")
        from easeml_meter.demo.site import PEOPLE, fill

        with closing(open_site(settings)) as site:
            password = fill(site)
        people = ", ".join(f"{name} ({role})" for name, role in PEOPLE.items())
        click.echo(f"sign in as {people}; the password of each: {password}")
    run(settings, click.echo, new_admin_token=new_admin_token, new_site=new_site)


@click.command()
@click.option(
    "--heartbeat",
    type=float,
    default=10.0,
    show_default=True,
    help="Seconds between signs of life; after three missed ones, another worker takes over.",
)
@settings_options(
    *("database", "executor", "files", "folder", "key"),
    *("log_level", "model_minutes", "shutdown_seconds"),
)
def worker(settings_file: Path | None, heartbeat: float, **flags: Any) -> None:
    """Run the submissions that wait on a server, on this machine.

    Any number of workers on any number of machines share the work; each team's submissions are
    answered in order. A worker needs what the server has: its PostgreSQL, its files (a shared
    folder or a URL) and a copy of its key file. The settings are those of meter serve, and come
    from the same places.

    SIGTERM and Ctrl-C let the current submission finish, or put it back.
    """
    settings = given_settings(settings_file, flags)
    write_privately()
    try:
        from easeml_meter.server.worker import run
    except ImportError as error:
        raise not_installed("a worker needs", error, "server") from error
    run(settings, click.echo, heartbeat=heartbeat)


@click.command()
@settings_options()
@json_option
def doctor(settings_file: Path | None, as_json: bool, **flags: Any) -> None:
    """Check a server's or worker's key, sandbox, database, disk, files, workers and proxy.

    Prints one line for each: ok, warn or fail, what was found, and what to do. Exits with 1 if
    a check failed. Changes nothing; a small file is written where sealed files are kept, and
    removed. The settings are those of meter serve, and come from the same places: run it on the
    same machine, as the same account. /readyz answers with the cheap checks.
    """
    from easeml_meter.service.doctor import examine

    findings = examine(SYSTEM, installation(given_settings(settings_file, flags)))
    sound = healthy(findings)
    shown = {"ok": sound, "checks": [asdict(each) for each in findings]}
    echo_either(as_json, shown, *(each.line for each in findings))
    raise click.exceptions.Exit(0 if sound else 1)


def installation(settings: Settings) -> Installation:
    """Return what there is to examine."""
    from easeml_meter.service.doctor import Installation

    return Installation(
        folder=settings.folder,
        database=settings.database_url,
        files=settings.files_place,
        key=settings.key_file,
        room=settings.room,
        trusted_proxy=settings.trusted_proxy,
        allowed_host=settings.allowed_host,
        exposed=settings.exposed,
        in_the_clear=settings.in_the_clear,
    )
