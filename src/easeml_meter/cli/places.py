"""The folder of a meter, or a server, for commands that work on everything in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import PATH, Command
from easeml_meter.errors import InvalidInput, MeterError

if TYPE_CHECKING:
    from easeml_meter.server.settings import Settings
    from easeml_meter.service.backup import Place
    from easeml_meter.service.place import Home, Site


def place_options(command: Command) -> Command:
    """Add the options that name a meter's folder or a server."""
    # A meter in a folder is backed up without the packages that a server needs.
    with suppress(MeterError):
        from easeml_meter.cli.server import settings_options

        command = settings_options("database", "files", "key")(command)
    return click.option(
        "--folder",
        "-C",
        type=PATH,
        envvar="METER_FOLDER",
        help="Folder of a meter or a server. Default: this one, or the server's settings.",
    )(command)


def typed_folder(folder: Path | None) -> Path | None:
    """Return the folder named after the command, or before it."""
    return folder or click.get_current_context().find_root().params.get("folder")


def names_server(file: Path | None, flags: dict[str, Any]) -> bool:
    """Whether somebody has typed an option that only a server has."""
    return file is not None or any(value is not None for value in flags.values())


def embedded_meter(folder: Path | None, file: Path | None, flags: dict[str, Any]) -> Home | None:
    """Return the meter in a folder, if there is one and no server is named."""
    from easeml_meter.service.place import Home

    if names_server(file, flags):
        return None
    home = Home(folder or Path())
    return home if home.database.is_file() and home.key.is_file() else None


def server_settings(folder: Path | None, file: Path | None, flags: dict[str, Any]) -> Settings:
    """Read the settings of a server, with those given on the command line."""
    from easeml_meter.cli.server import given_settings

    return given_settings(file, flags | {"folder": folder})


def used_server(folder: Path | None, file: Path | None, flags: dict[str, Any]) -> Settings:
    """Read the settings of a server that has a key already.

    Raises:
        InvalidInput: there is none, so nothing is here that could be opened.
    """
    settings = server_settings(folder, file, flags)
    if not settings.key_file.is_file():
        raise InvalidInput(
            f"{settings.key_file}: there is no key: name the folder of a meter or of a server"
        )
    return settings


@contextmanager
def opened_home(home: Home) -> Iterator[Place]:
    """Open the folder of a meter."""
    from easeml_meter.service.backup import Place

    place = Place.of_folder(home)
    try:
        yield place
    finally:
        place.store.close()


@contextmanager
def opened_site(settings: Settings) -> Iterator[Place]:
    """Open the site of a server, to copy it or bring it back."""
    from easeml_meter.service.backup import Place

    with server_site(settings) as site:
        yield Place.of_site(site)


@contextmanager
def server_site(settings: Settings) -> Iterator[Site]:
    """Open the site of a server."""
    from easeml_meter.service.place import Site

    # The key will lie there, and the hashes of passwords.
    settings.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    site = Site.open(settings.database_url, settings.files_place, settings.key_file)
    try:
        yield site
    finally:
        site.close()
