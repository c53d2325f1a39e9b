"""What the commands of a meter share.

Also the folder of a meter, or a server, for commands that work on everything in it; and what is
going on, how fast, and how long it will take, on stderr.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from easeml_meter.core.people import EMBEDDED, Role
from easeml_meter.errors import InvalidInput, MeterError, invalid

if TYPE_CHECKING:
    from easeml_meter.client import RemoteMeter
    from easeml_meter.client.connection import Connection
    from easeml_meter.meter import MeterVerbs
    from easeml_meter.server.settings import Settings
    from easeml_meter.service.backup import Place
    from easeml_meter.service.place import Home, Site
    from easeml_meter.spec import MeterSpec

Command = TypeVar("Command", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)
"""A file or folder; whether it exists is checked where it is read."""

HONOUR = (
    "Embedded mode is an honour system: this account could read the key that opens the test set."
)


@dataclass(frozen=True)
class MeterPlace:
    """Where a meter is: in a folder, or at a server, where it has a name."""

    folder: Path = Path()
    server: str | None = None
    meter: str | None = None
    ca: Path | None = None


_FOLDER = click.option(
    "--folder",
    "-C",
    type=PATH,
    envvar="METER_FOLDER",
    help="Folder of the meter. Default: this one, or METER_FOLDER.",
)

_SERVER = click.option("--server", help="Address of a server, or METER_SERVER.")

_METER = click.option(
    "--meter", help="Name or id of the meter on the server, or METER_NAME. Default: the only one."
)

_CA = click.option(
    "--ca",
    type=PATH,
    help="Certificate of your own authority (PEM), or METER_CA.",
)


def place_options(command: Command) -> Command:
    """Add the options that say where the meter is; the command gets a `place`."""
    return _placed(command, _FOLDER, _SERVER, _METER, _CA)


def server_options(command: Command) -> Command:
    """Add the options that name a server; the command gets a `place`."""
    return _placed(command, _SERVER, _CA)


def _placed(command: Command, *options: Callable[[Any], Any]) -> Command:
    @functools.wraps(command)
    def placed(
        *,
        folder: Path | None = None,
        server: str | None = None,
        meter: str | None = None,
        ca: Path | None = None,
        **others: Any,
    ) -> Any:
        return command(place=_place(folder, server, meter, ca), **others)

    found: Any = placed
    for option in reversed(options):
        found = option(found)
    return cast(Command, found)


def _place(
    folder: Path | None, server: str | None, meter: str | None, ca: Path | None
) -> MeterPlace:
    """Choose between folder and server; what was typed counts more than the environment.

    What the environment says of a server is the value of the options of `meter` itself.
    """
    context = click.get_current_context()
    root = context.find_root()
    # click fills in variables, too: only its source tells what a person has typed.
    folder_typed = any(
        each.get_parameter_source("folder") is ParameterSource.COMMANDLINE
        for each in (context, root)
    )
    if context.get_parameter_source("folder") is not ParameterSource.COMMANDLINE:
        folder = root.params.get("folder") or folder
    server_typed = (
        server is not None or root.get_parameter_source("server") is ParameterSource.COMMANDLINE
    )
    server = server or root.params.get("server")
    if folder is not None and server is not None:
        if folder_typed == server_typed:
            raise invalid("place", "a folder and a server", "give -C FOLDER or --server URL")
        if folder_typed:
            server = None
    named = root.get_parameter_source("meter_name") is ParameterSource.COMMANDLINE
    if server is not None or named:  # in a folder, METER_NAME is that of another meter
        meter = meter or root.params.get("meter_name")
    return MeterPlace(folder or Path(), server, meter, ca or root.params.get("ca"))


def tenant_option(command: Command) -> Command:
    """Add --tenant."""
    return click.option(
        "--tenant", type=int, help="Number of the team. Default: 1, on a server your own."
    )(command)


def json_option(command: Command) -> Command:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def meter_options(command: Command) -> Command:
    """Add `place_options` and --json."""
    return place_options(json_option(command))


def account_options(command: Command) -> Command:
    """Add `server_options` and --json."""
    return server_options(json_option(command))


def chart_option(command: Command) -> Command:
    """Add --chart; an ending that cannot be drawn is refused before anything is computed."""
    return click.option(
        "--chart",
        type=PATH,
        callback=_drawable,
        help="Draw to .svg, .png or .html.",
    )(command)


def _drawable(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in (".svg", ".png", ".html"):
        raise invalid("chart", str(path), "a file name that ends in .svg, .png or .html")
    return path


def save_chart(path: Path, title: str, drawn: str) -> None:
    """Write a drawing, given as SVG, in the format that the file's ending names."""
    from easeml_meter import charts
    from easeml_meter.report.page import page

    kind = path.suffix.lower()
    content = page(title, drawn) if kind == ".html" else drawn
    try:
        path.write_bytes(charts.png(drawn) if kind == ".png" else content.encode())
    except OSError as error:
        raise invalid("chart", str(path), f"cannot be written: {error.strerror or error}") from None


def file_argument(name: str) -> Callable[[Command], Command]:
    """Add a file as an argument; that it exists is checked where it is read."""
    return click.argument(name, type=PATH)


def open_meter(place: MeterPlace) -> MeterVerbs:
    """Open the meter of a command.

    In a folder, in the role that METER_ROLE names (owner: may do it all).
    """
    role = role_here(place)
    if role is None:
        return open_remote(place)
    from easeml_meter.meter import Meter

    # Whoever uses a folder says of which team they are, as they say in which role.
    tenant = click.get_current_context().params.get("tenant") or 1
    meter = Meter.open(place.folder, role=role, tenant=tenant)
    here = meter.workspace.read_state().meter.name
    if place.meter not in (None, here):
        raise invalid("meter", place.meter, f"the one in this folder is {here!r}")
    return meter


def role_here(place: MeterPlace) -> Role | None:
    """Return the role that METER_ROLE names; None at a server, which knows the roles itself."""
    if place.server is not None:
        return None
    role = os.environ.get("METER_ROLE") or Role.OWNER
    if role not in EMBEDDED:
        raise invalid("METER_ROLE", role[:40], f"one of {', '.join(EMBEDDED)}")
    return Role(role)


def open_remote(place: MeterPlace) -> RemoteMeter:
    """Open a meter at a server."""
    from easeml_meter.client import connect

    meter = connect(server_of(place), place.meter, ca=place.ca)
    click.get_current_context().call_on_close(meter.close)
    return meter


def server_of(place: MeterPlace) -> str:
    """Return the address of the server, for commands that need one."""
    if place.server is None:
        raise invalid("server", None, "name one with --server, or in METER_SERVER")
    return place.server


def echo_json(data: object) -> None:
    """Print for programs."""
    click.echo(json.dumps(data, indent=2, default=str))


def echo_either(as_json: bool, data: object, *lines: str) -> None:
    """Print data for programs, or lines for people."""
    if as_json:
        echo_json(data)
        return
    for line in lines:
        click.echo(line)


def next_step(place: MeterPlace, step: str, *, reader: str = "", tenant: int | None = None) -> None:
    """Say what to type now, with the options that lead to the same meter and team again."""
    where = "" if tenant is None else f" --tenant {tenant}"
    folder, server = map(os.environ.get, ("METER_FOLDER", "METER_SERVER"))
    if place.server is None:
        # The folder where one stands has to be named, too, where the environment names a place.
        if place.folder != Path() or folder or server:
            where += f" -C {shlex.quote(str(place.folder))}"
    else:
        # Beside a folder of the environment, a server has to be typed, whichever it is.
        for option, value, known in (
            ("--server", place.server, None if folder else server),
            ("--meter", place.meter, os.environ.get("METER_NAME")),
            ("--ca", place.ca, os.environ.get("METER_CA")),
        ):
            if value and str(value) != known:
                where += f" {option} {shlex.quote(str(value))}"
    click.echo(f"Next{reader and f', for {reader}'}: meter {step}{where}")


def seal_step(spec: MeterSpec) -> str:
    """Return how to seal a test set."""
    judge = " --judge COLUMN" if spec.meter.sample.estimated else ""
    needed = "label" if spec.meter.sample.seals_labels else "id"
    return f"seal DATA --{needed} COLUMN{_cluster(spec)}{judge} --out testset.sealed"


def validate_step(spec: MeterSpec) -> str:
    """Return how to hand in a validation set."""
    needed = "id" if spec.meter.sample.takes_scores else "label"
    return f"validation set DATA --{needed} COLUMN{_cluster(spec)}"


def _cluster(spec: MeterSpec) -> str:
    return " --cluster COLUMN" if spec.meter.sample.grouped else ""


def submit_step(spec: MeterSpec, *, fresh: bool = False) -> str:
    """Return how to submit: a model, where developers have no inputs to predict on.

    `fresh`: to a test set without an answer, where the first model may be that to compare with.
    """
    if not spec.meter.sample.public and spec.meter.sample.models:
        return "submit --onnx MODEL"
    first = " --baseline" if fresh and spec.meter.compares else ""
    return f"submit --test PREDICTIONS --validation PREDICTIONS --model NAME{first}"


def unanswered(meter: MeterVerbs) -> bool:
    """Whether the test set in use has no answer yet, as far as the caller may know."""
    try:
        return not meter.status().signals
    except MeterError:
        return False


def print_rich(*items: Any) -> None:
    """Print for people, in colour where the terminal has it."""
    from rich.console import Console

    console = Console(highlight=False)
    for item in items:
        console.print(item)


def at_terminal() -> bool:
    """Whether there is a person to ask."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(question: str, *, yes: bool) -> None:
    """Ask at a terminal before something that cannot be undone; elsewhere, demand --yes."""
    if yes:
        return
    # A script has nobody to ask, and silence is no consent.
    if not at_terminal():
        raise MeterError(f"nothing was done: {question} Confirm it with --yes")
    if not click.confirm(question, default=False):
        raise MeterError("nothing was done: it was not confirmed")


def connected(place: MeterPlace) -> closing[Connection]:
    """Connect to the server of a command, until its `with` block ends."""
    from easeml_meter.client.connection import Connection

    return closing(Connection.open(server_of(place), ca=place.ca))


def write_privately() -> None:
    """Let what this command makes in a site be for its account alone.

    Its folder may have been there, open to everybody: the mode of a new one would not help then.
    """
    before = os.umask(0o077)
    click.get_current_context().call_on_close(lambda: os.umask(before))


_HIDDEN = "running on the test set"


@contextmanager
def progress_bar(*, shown: bool) -> Iterator[Callable[[str, float, float], None]]:
    """Yield a function that reports progress; without a terminal, it shows nothing."""
    if not (shown and sys.stderr.isatty()):
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    # The stream itself: while hidden rows are scored, sys.stderr leads nowhere.
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        bar = bars.add_task("", total=None, rate="")
        current, started = "", time.monotonic()

        def progress(what: str, done: float, total: float) -> None:
            nonlocal current, started
            if what != current:
                current, started = what, time.monotonic()
                bars.reset(bar)
            elapsed = time.monotonic() - started
            unit = "bytes" if what == "sending" else "rows"
            rate = f"{done:,.0f} of {total:,.0f} {unit}"
            if done and elapsed > 0:
                rate += f", {done / elapsed:,.0f} per second"
            # How far a model got would tell of hidden rows; the clock, set beforehand, does not.
            if what == _HIDDEN:
                rate = f"the answer comes after {total:g} seconds"
                Thread(target=tick, args=(total,), daemon=True).start()
            if not total:  # at a server: nobody knows how long it takes
                rate = f"{elapsed:,.0f} seconds"
            bars.update(bar, description=what, completed=done, total=total or None, rate=rate)

        def tick(seconds: float) -> None:
            """Move the bar with the clock."""
            begun = started
            while current == _HIDDEN and not bars.finished:
                bars.update(bar, completed=min(seconds, time.monotonic() - begun))
                time.sleep(0.2)

        try:
            yield progress
        finally:
            current = ""


def site_options(command: Command) -> Command:
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
