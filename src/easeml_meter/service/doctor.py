"""The examination of a server: does everything work, and is it safe? And totals for who runs it.

Nothing is made, upgraded or repaired, so it may run beside a server, before its first start, and on
the machine of a worker.

The totals say nothing about losses or signals.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import secrets
import stat
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from easeml_meter.core.doctor import SILENT, Finding, Verdict, ok
from easeml_meter.core.history import MeterState
from easeml_meter.core.model import stamp
from easeml_meter.core.submissions import FINAL, WAITS, SubmissionState
from easeml_meter.errors import MeterError
from easeml_meter.scoring import sandbox
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.backup import meters_among
from easeml_meter.service.place import RECIPIENT, Room, Site, utc_now
from easeml_meter.service.restore import verified_at
from easeml_meter.storage.books.copies import SCHEMA
from easeml_meter.storage.files import FolderFiles, open_files
from easeml_meter.storage.store import Store
from easeml_meter.vault.keys import Identity

_NAMES = 100
"""How many sealed files, and how many validation sets, are looked for: those in use first."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LOST = "correct the setting files, or bring the files back from a backup"


@dataclass(frozen=True)
class Installation:
    """What the settings of a server name; nothing of it is opened yet."""

    folder: Path
    database: str = field(repr=False)
    files: str = field(repr=False)
    key: Path
    room: Room
    trusted_proxy: tuple[str, ...] = ()
    allowed_host: tuple[str, ...] = ()
    exposed: bool = False
    """Whether other machines reach it without a proxy."""
    in_the_clear: bool = False
    """Whether tokens travel unencrypted to whatever address it listens on."""


@needs(Permission.OPERATE)
def examine(_: Actor, installation: Installation) -> list[Finding]:
    """Check everything; return one finding for each check, always in the same order."""
    books = _books(installation.database)
    # What is wrong with the database is told once.
    named: list[str] | None = None
    with suppress(MeterError):
        named = _named(installation.database) if books.verdict is not Verdict.FAIL else None
    return [
        _key(installation.key),
        _sandbox(),
        books,
        _disk(installation.room, FolderFiles(installation.folder).free()),
        _files(installation, named),
        _workers(installation.database),
        _proxy(installation),
    ]


@needs(Permission.OPERATE)
def readiness(_: Actor, site: Site, folder: Path) -> list[Finding]:
    """Check what costs next to nothing, for a load balancer that asks every few seconds."""
    free = [each for each in (site.files.free(), FolderFiles(folder).free()) if each is not None]
    books = _opened(site.store, running=True)
    return [books, _disk(site.room, min(free)), _seen(site.store)]


def _key(path: Path) -> Finding:
    try:
        found = path.stat()
    except FileNotFoundError:
        remedy = "meter serve makes it at its first start; a worker needs a copy of the server's"
        return Finding("key", Verdict.WARN, f"{path}: there is none yet", remedy)
    except OSError as error:
        remedy = "run this as the account of the server (sudo -u ACCOUNT)"
        return Finding("key", Verdict.FAIL, f"{path}: {error.strerror}", remedy)
    owner = _account(found.st_uid)
    if found.st_mode & _OTHERS:
        said = f"{path}: accounts other than {owner} may use it (mode {found.st_mode & 0o777:o})"
        return Finding("key", Verdict.FAIL, said, f"chmod 600 {path}; it opens every test set")
    if found.st_uid not in (os.geteuid(), 0):
        said = f"{path}: belongs to {owner}, and this runs as {_account(os.geteuid())}"
        return Finding("key", Verdict.WARN, said, f"run this as {owner} (sudo -u {owner})")
    try:
        Identity.read(path)
    except (MeterError, OSError) as error:
        remedy = "bring it back from where you keep its copy; no other key opens the test sets"
        return Finding("key", Verdict.FAIL, str(error), remedy)
    return ok("key", f"{path}: readable by {owner}{'' if found.st_uid == 0 else ' and root'} only")


def _account(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"


def _sandbox() -> Finding:
    lacking = sandbox.missing()
    if lacking is None:
        return ok("sandbox", "a command ran in it")
    remedy = "until that is mended, submitted commands are refused here; ONNX models still run"
    return Finding("sandbox", Verdict.WARN, lacking, remedy)


def _books(url: str) -> Finding:
    try:
        store = Store.look(url)
    except MeterError as error:
        return _unreachable(str(error))
    if store is None:
        remedy = "meter serve makes it at its first start"
        return Finding("database", Verdict.WARN, "there is none yet", remedy)
    try:
        return _opened(store, running=False)
    finally:
        store.close()


def _opened(store: Store, *, running: bool) -> Finding:
    """Examine the books, for a server that is `running` or for one that would be started."""
    try:
        with store.reading() as books:
            version = books.version()
    except MeterError as error:
        # A server's answer may reach anybody: where its database is, the doctor says.
        return _unreachable("it does not answer" if running else str(error))
    if version == SCHEMA:
        return ok("database", f"{store.dialect}, schema {version}")
    if version is None or version < SCHEMA:
        said = f"{store.dialect}, schema {version or 'none'}, this program has {SCHEMA}"
        remedy = "meter serve upgrades it when it starts; make a backup first"
        return Finding("database", Verdict.WARN, said, remedy)
    said = f"{store.dialect}, schema {version}, newer than this program's {SCHEMA}"
    # What runs was let in at its start, and is meant to go on until it is replaced: if it said
    # that it is not ready, the first new server would put all old ones out of service.
    verdict = Verdict.WARN if running else Verdict.FAIL
    return Finding("database", verdict, said, "update easeml-meter on this machine")


def _unreachable(said: str) -> Finding:
    remedy = "start it, or correct the setting database; the server can do nothing without it"
    return Finding("database", Verdict.FAIL, said, remedy)


def _disk(room: Room, free: int) -> Finding:
    said = f"{free >> 20:,} MB free, {room.kept_free >> 20:,} MB stay free"
    if free < room.kept_free:
        remedy = "make room: submissions and labels are refused (setting free_disk_bytes)"
        return Finding("disk", Verdict.FAIL, said, remedy)
    if free < 2 * room.kept_free:
        return Finding("disk", Verdict.WARN, said, "make room before submissions are refused")
    return ok("disk", said)


def _named(url: str) -> list[str] | None:
    """List what must be among the files: nothing yet, if no server has made a meter there.

    None: it is not known.

    Of many sets only some, by name: it is the folder that gets lost, or a copy of it is old.
    """
    store = Store.look(url)
    if store is None:
        return []
    try:
        with store.reading() as books:
            # The tables of another version may be others; the check of the database says so.
            if books.version() not in (None, SCHEMA):
                return None
            if books.version() is None or not books.meters.all():
                return []
            sets = [*books.testsets.files(_NAMES), *books.validation.files(_NAMES)]
    finally:
        store.close()
    return [RECIPIENT, *(f"meters/{meter}/{name}" for meter, name in sets)]


def _files(installation: Installation, named: list[str] | None) -> Finding:
    """Write, read and remove a file where sealed files are kept, and look for those in use."""
    place = installation.files
    kind = place.partition("://")[0] if "://" in place else "folder"
    if kind == "folder" and not Path(place).exists():
        if named:
            said = f"{place}: there is no such folder, and the database has meters"
            return Finding("files", Verdict.FAIL, said, _LOST)
        remedy = "meter serve makes it at its first start"
        return Finding("files", Verdict.WARN, f"{place}: there is no such folder yet", remedy)
    # A name of its own: several machines may be examined at the same time.
    probe, content = f"doctor-{secrets.token_hex(8)}", secrets.token_bytes(32)
    try:
        files = open_files(place)
        files.put(probe, content)
        try:
            same = files.read(probe) == content
        finally:
            files.remove(probe)
        noted = files.read(RECIPIENT).decode().strip() if files.exists(RECIPIENT) else None
        missing = next((each for each in named or () if not files.exists(each)), None)
        lost = meters_among(files) if named == [] else 0
    except (MeterError, OSError) as error:
        remedy = "correct the setting files, or who may write there (for s3://, the AWS variables)"
        return Finding("files", Verdict.FAIL, str(error), remedy)
    if not same:
        remedy = "use a store where a file can be read as soon as it is written"
        return Finding("files", Verdict.FAIL, f"{kind}: other bytes came back", remedy)
    if lost:
        said = f"{kind}: the files hold {lost:,} meters, and the database has none"
        remedy = "bring it back with meter restore, or start anew with meter serve --new-site"
        return Finding("files", Verdict.FAIL, said, remedy)
    if missing is not None:
        said = f"{kind}: {missing} is not there, and the database has a meter that needs it"
        return Finding("files", Verdict.FAIL, said, _LOST)
    return (
        _same_key(installation.key, noted)
        or _open_to_others(installation)
        or ok("files", f"{kind}: a file was written, read and removed")
    )


def _open_to_others(installation: Installation) -> Finding | None:
    """Whether other accounts can look into what the server keeps on this machine.

    The site's folder closes all that is in it; what lies elsewhere must be closed by itself, or by
    the folder around it.
    """
    site, books = installation.folder, None
    with suppress(MeterError):  # no address of a database: its own check says so
        books = Store.file(installation.database)
    files = None if "://" in installation.files else Path(installation.files)
    apart = [
        path
        for path in (books, files)
        if path is not None and not path.resolve().is_relative_to(site.resolve())
    ]
    for path in (site, *(each for each in apart if _mode(each.parent) & _OTHERS)):
        mode = _mode(path)
        if mode & _OTHERS:
            closing = f"chmod 700 {path}" if path.is_dir() else f"chmod 600 {path}*"
            said = f"{path}: other accounts of this machine may look into it (mode {mode:o})"
            return Finding("files", Verdict.WARN, said, closing)
    return None


def _mode(path: Path) -> int:
    """Return the permissions of a file or folder; none, if it is not there."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0


def _same_key(path: Path, noted: str | None) -> Finding | None:
    """Whether the files belong to another key than the one here: nothing would open."""
    try:
        own = Identity.read(path).recipient
    except (MeterError, OSError):
        return None  # the check of the key says so
    if noted is None or noted == own:
        return None
    said = f"the files belong to the key {noted}, and the key here is {own}"
    return Finding("files", Verdict.FAIL, said, "put the server's own key in place")


def _workers(url: str) -> Finding:
    with suppress(MeterError):
        if (store := Store.look(url)) is not None:
            with closing(store):
                return _seen(store)
    return ok("workers", "none is needed without a database")


def _seen(store: Store) -> Finding:
    """Look for a sign of life of those who run models."""
    if store.dialect == "sqlite":
        return ok("workers", "the server runs models itself")
    with suppress(MeterError), store.reading() as books:
        if books.version() == SCHEMA:
            if seen := books.counts.workers(stamp(utc_now() - SILENT)):
                return ok("workers", f"{seen} seen in the last 5 minutes")
            remedy = "start meter worker, or see its log: models wait until one runs"
            return Finding("workers", Verdict.WARN, "none was seen for 5 minutes", remedy)
    return ok("workers", "not known while the database cannot be used")


def _proxy(installation: Installation) -> Finding:
    wide = [each for each in installation.trusted_proxy if not ipaddress.ip_network(each).prefixlen]
    if wide:
        remedy = "name the proxy's own address: anybody could pretend to be any other address"
        return Finding("proxy", Verdict.FAIL, f"trusted_proxy {wide[0]} trusts everybody", remedy)
    if installation.in_the_clear:
        remedy = "set tls_certificate and tls_key, or listen at 127.0.0.1 behind a trusted_proxy"
        return Finding("proxy", Verdict.WARN, "tokens travel in the clear", remedy)
    if installation.exposed:
        remedy = "listen at 127.0.0.1 behind a trusted_proxy, which ends idle and slow connections"
        return Finding("proxy", Verdict.WARN, "it listens to others without a proxy", remedy)
    if installation.trusted_proxy and not installation.allowed_host:
        remedy = "set allowed_host to the names under which the server is reached"
        return Finding("proxy", Verdict.WARN, "requests may name any host", remedy)
    named = ", ".join(installation.trusted_proxy) or "none"
    return ok("proxy", f"{named} is trusted")


NEARLY = 0.8
"""Share of its promised answers that a test set has given when it is nearly spent."""
_OPEN = tuple(each for each in SubmissionState if each not in FINAL)


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is of what, of all meters together."""

    submissions: dict[str, int]
    """By state."""
    oldest: dict[str, float]
    """How many seconds ago the oldest one was handed in that is queued or running; 0: none is."""
    answers: int
    nearly_spent: int
    """Active test sets that have given most of the answers they promise."""
    requests: int
    """Test sets that labels are needed for."""
    overdue: int
    """Those of them whose deadline is over."""
    waits: tuple[int, ...]
    """How many submissions were begun after a wait up to each bound of `WAITS`, or after longer."""
    waited: float
    """The seconds that all of them waited."""
    workers: int
    """How many were seen of late; on SQLite the server itself."""
    backup: datetime | None
    """When the backup verified last was made; None: none is known."""


@needs(Permission.SEE_METRICS)
def totals(_actor: Actor, site: Site) -> Totals:
    """Count submissions and answers. How much all tenants submit is not for each to know."""
    now, backup = site.clock(), verified_at(site.files)
    alone = int(site.store.dialect == "sqlite")
    with site.reading() as books:
        oldest = {
            state: (now - datetime.fromisoformat(since)).total_seconds() if since else 0.0
            for state, since in books.counts.oldest(*_OPEN).items()
        }
        deadlines = [each.deadline for each in books.testsets.requested()]
        # What was answered stays out of it: only how often counts.
        answers = books.counts.answers_of_active()
        specs = {each.id: MeterState.of(each, (), None).spec for each in books.meters.all()}
        nearly = [
            not specs[meter].endless and n >= NEARLY * specs[meter].of_test_set(number).steps
            for meter, (number, n) in answers.items()
        ]
        waits = books.counts.waits()
        return Totals(
            submissions=books.counts.submissions(),
            oldest=oldest,
            answers=books.counts.answers(),
            nearly_spent=sum(nearly),
            requests=len(deadlines),
            overdue=sum(each is not None and each < stamp(now) for each in deadlines),
            waits=tuple(waits.get(each, (0, 0.0))[0] for each in range(len(WAITS) + 1)),
            waited=sum(seconds for _, seconds in waits.values()),
            workers=alone or books.counts.workers(stamp(now - SILENT)),
            backup=backup,
        )
