"""Commands that keep a meter or a server safe from disasters: backup, restore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from easeml_meter.cli.common import (
    PATH,
    echo_json,
    embedded_meter,
    json_option,
    names_server,
    opened_home,
    opened_site,
    server_settings,
    site_options,
    typed_folder,
    used_server,
    write_privately,
)
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.service.actor import SYSTEM

if TYPE_CHECKING:
    from easeml_meter.service.backup import Backup, Contents
    from easeml_meter.service.restore import Restoration, Restored

_FEW = 10
"""Meters that have a line each; of more, those that are alike share one."""


@click.command()
@click.argument("out", type=PATH)
@click.option("--meter", "identifier", help="Id of one meter of a server. Default: all meters.")
@click.option("--with-key", is_flag=True, help="Include the secret key.")
@site_options
@json_option
def backup(
    out: Path,
    *,
    identifier: str | None,
    with_key: bool,
    folder: Path | None,
    settings_file: Path | None = None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Back up a meter's folder, or a server, to the file OUT, even while it is in use.

    Test sets and stored submissions stay encrypted; validation sets and released test sets are
    plain. The key that opens everything is not included, unless you say --with-key.
    """
    from easeml_meter.service.backup import back_up

    folder = typed_folder(folder)
    home = embedded_meter(folder, settings_file, flags)
    if home is not None:
        opened, key = opened_home(home), home.key
    else:
        settings = used_server(folder, settings_file, flags)
        write_privately()
        opened, key = opened_site(settings), settings.key_file
    secret = key if with_key else None
    with opened as place:
        contents = back_up(SYSTEM, place, out, meter=identifier, key=secret)
    _echo_backup(contents, out, None if with_key else key, as_json=as_json)


@click.command()
@click.argument("source", type=PATH)
@click.option("--check", is_flag=True, help="Restore into a folder of its own, audit, remove it.")
@click.option("--meter", "identifier", help="Id of one meter in it. Default: all.")
@site_options
@json_option
def restore(
    source: Path,
    *,
    check: bool,
    identifier: str | None,
    folder: Path | None,
    settings_file: Path | None = None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Restore SOURCE into an empty folder or server, or over an existing one.

    Nothing that is there is lost: answers given since the backup still count. Stop servers and
    workers first. Accounts come back without their tokens: people sign in again. With --check, a
    server is only told the time of the backup, which it shows among its metrics.
    """
    from easeml_meter.service.backup import Backup
    from easeml_meter.service.place import Home
    from easeml_meter.service.restore import check_backup
    from easeml_meter.service.restore import restore as bring_back
    from easeml_meter.spec import MeterSpec
    from easeml_meter.storage.files import open_files
    from easeml_meter.storage.store import alone, sqlite_url
    from easeml_meter.vault.keys import Identity

    if check and identifier is not None:
        raise invalid("meter", identifier, "--check looks at the whole backup: leave out --meter")
    folder = typed_folder(folder)
    if not source.is_file():
        raise InvalidInput(f"{source}: there is no such file")
    home = None
    with Backup.open(source) as found:
        if found.contents.single:
            if names_server(settings_file, flags):
                needed = "the backup of a meter's folder: name a folder with -C, and no server"
                raise InvalidInput(f"{source}: {needed}")
            home = Home(folder or Path())
            database, key, opened = sqlite_url(home.database), home.key, opened_home(home)
        else:
            settings = server_settings(folder, settings_file, flags)
            write_privately()
            database, key, opened = settings.database_url, settings.key_file, opened_site(settings)
        # A backup that is only checked must not bring its key here.
        if check:
            if not key.is_file():
                other = ", or name it (--key FILE)" if home is None else ""
                needed = f"there is no key: put the one that belongs to the backup there{other}"
                raise InvalidInput(f"{key}: {needed}")
            files = open_files(settings.files_place) if home is None else None
            checked = check_backup(SYSTEM, Identity.read(key), source, files=files)
            _echo_checked(checked, as_json=as_json)
            return
        _place_key(found, key)
        if home is not None:
            home.prepare()
    # A server that went on answering meanwhile would answer from books that are replaced.
    with alone(database), opened as place:
        brought = bring_back(SYSTEM, place, source, meter=identifier)
        if home is not None and not home.settings.exists():
            with place.store.reading() as books:
                MeterSpec.from_mapping(books.meters.get().settings).write(home.settings)
    _echo_restored(brought, as_json=as_json)


def _echo_checked(meters: list[Restored], *, as_json: bool) -> None:
    if as_json:
        shown = [
            {
                "id": each.id,
                "name": each.name,
                "backup_at": each.backup_at,
                "answers": each.answers_then,
                "sound": True,  # a backup with any that is not is an error
            }
            for each in meters
        ]
        echo_json(shown)
        return
    _echo_meters([(each.name, each.id, each.answers_then) for each in meters], ", sound")
    if not meters:
        click.echo("no meter in it; all else can be restored")


def _echo_meters(answers: Sequence[tuple[str, str, int]], end: str = "") -> None:
    """Print how many answers each meter has, by name and id; of many meters, in one line."""
    if len(answers) > _FEW:
        told = sum(each[2] for each in answers)
        click.echo(f"{len(answers):,} meters: {told:,} answers{end}")
        return
    for name, identifier, told in answers:
        click.echo(f"meter {name} ({identifier}): {told} answers{end}")


def _echo_restored(found: Restoration, *, as_json: bool) -> None:
    if as_json:
        echo_json([asdict(each) for each in found.meters])
    else:
        _tell_restored(found.meters)
    if found.accounts or found.seats:
        said = f"{found.accounts:,} accounts and {found.seats:,} seats of the backup"
        why = "this server has accounts of its own: restore into an empty database, or add them"
        click.echo(f"left out: {said}, as {why}", err=True)
        raise click.exceptions.Exit(1)


def _tell_restored(meters: Sequence[Restored]) -> None:
    if not meters:
        click.echo("no meter was in the backup")
    same = [each for each in meters if each.witnessed and each.answers_now == each.answers_then]
    same = same if len(same) > _FEW else []
    if same:
        end = f", as when they were backed up ({same[0].backup_at[:19]})"
        _echo_meters([(each.name, each.id, each.answers_now) for each in same], end)
    for each in meters:
        if each not in same:
            click.echo(
                f"meter {each.name} ({each.id}): {each.answers_then} answers when it was backed up "
                f"({each.backup_at[:19]}), {each.answers_now} now"
            )
    if unknown := [each.name for each in meters if not each.witnessed]:
        more = f" and {len(unknown) - _FEW:,} more" if unknown[_FEW:] else ""
        click.echo(
            f"warning: {', '.join(unknown[:_FEW])}{more}: there was no journal to compare with: "
            "answers given since the backup are unknown, and meter audit says so from now on",
            err=True,
        )


def _echo_backup(contents: Contents, out: Path, key: Path | None, *, as_json: bool) -> None:
    if as_json:
        shown = asdict(contents) | {"members": len(contents.members)}
        echo_json({"file": str(out), **shown})
        return
    _echo_meters([(each.name, each.id, each.answers) for each in contents.meters])
    if not contents.meters:
        click.echo("no meter yet: accounts only")
    for name in contents.missing:
        click.echo(f"warning: {name} is missing", err=True)
    size = f"{len(contents.members)} members, {out.stat().st_size:,} bytes"
    click.echo(f"backed up to {out}: {size}")
    if key is None:
        click.echo("warning: the key is in it: whoever reads this file reads the labels", err=True)
    else:
        click.echo(f"the key is not in it: keep a copy of {key} elsewhere")


def _place_key(found: Backup, path: Path) -> None:
    """Put the key of a backup where it belongs, unless there is one."""
    from easeml_meter.tables.writing import new_file

    if path.is_file():
        return
    key = found.key()
    if key is None:
        raise InvalidInput(
            f"{path}: there is no key, and none in the backup: put the one that belongs to it there"
        )
    # Whoever reads this file opens every test set.
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with new_file(path, private=True) as stream:
        stream.write(key)
