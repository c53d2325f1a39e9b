"""Where a use case works: the books, key and files of one meter, or of a whole site.

And how much room on disk one meter and one user may take of it, and how much stays free.
"""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import Event, TestSet, stamp
from easeml_meter.errors import InvalidInput, MeterError, TooLarge
from easeml_meter.scoring.losses import Loss, check_allowed, parse_loss
from easeml_meter.spec import MeterSpec
from easeml_meter.storage import jobs
from easeml_meter.storage.books import Books
from easeml_meter.storage.files import Files, FolderFiles, free_bytes, open_files, unusable
from easeml_meter.storage.journal import SUFFIX, Journal
from easeml_meter.storage.store import Store
from easeml_meter.tables.source import USUAL_LIMITS, TableLimits
from easeml_meter.vault.keys import Identity, signing_key

Clock = Callable[[], datetime]

STATE = ".meter"
"""Folder of what an embedded meter keeps; Git ignores it."""

TEST_SETS = "testsets"
"""Sealed test sets, their journals, and notes to the labelers."""

RELEASED = "released"
"""What is public: test sets by their numbers, and batches that have left a rolling one."""

ORDERS = "orders"
"""What waits for labels on demand, and the labels that have come."""

RECIPIENT = "server.recipient"
"""A note of the server's public key beside its files, for workers to compare theirs with."""


def utc_now() -> datetime:
    """Return the time, for everything that is not a test."""
    return datetime.now(UTC)


KEPT = ("validation", "predictions", "submissions", "orders")
"""Folders of a meter that grow with what developers send: sets, kept submissions, models."""
MOST_UPLOADS = 100
"""Unfinished uploads of one user."""
MOST_LINKS = 100
"""Links of one kind that a user enters into a chain, where they cost no answer, for a test set."""
_PAUSE = 10.0
"""Seconds before the files of a meter that is filling up are counted again."""
_SHARE = 8
"""The files are counted again after an eighth of what was left: so eight servers may share it."""


class Room:
    """What the settings of a server leave; 0: no limit.

    The files of a meter are counted once, then what is added. They are counted again when there
    seems to be no room, as some may have been removed since, and whenever a share of what was left
    is used up here, as other servers may have taken as much.
    """

    def __init__(
        self,
        per_meter: int = 0,
        per_user: int = 0,
        free: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.per_user = per_user
        self._per_meter = per_meter
        self.kept_free = free
        self.database: Path | None = None
        """The file of a SQLite database, whose disk must not fill up either."""
        self._clock = clock
        self._used: dict[str, int] = {}
        self._enough_for: dict[str, int] = {}
        """What may be used before the files are counted again."""
        self._counted_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def check(self, meter: str, files: Files, size: int) -> None:
        """Refuse bytes for a meter, before anything of them is written."""
        if self.kept_free:  # asking the disk takes time
            self.check_free(files.free(), size)
        if not self._per_meter:
            return
        with self._lock:
            used = self._used.get(meter)
            counted_at = self._counted_at.get(meter, -_PAUSE)
        now = self._clock()
        enough = used is not None and used + size <= self._enough_for[meter]
        if used is None or (not enough and now - counted_at >= _PAUSE):
            used = sum(map(files.size, KEPT))
            with self._lock:
                self._used[meter], self._counted_at[meter] = used, now
                self._enough_for[meter] = used + (self._per_meter - used) // _SHARE
        with self._lock:
            if self._used[meter] + size > self._per_meter:
                line = f"{size:,} bytes given, the meter has used up its {self._per_meter:,}"
                raise TooLarge(f"{line}: ask an admin for more (disk_bytes_per_meter)")
            self._used[meter] += size

    def check_disk(self, folder: Path, size: int) -> None:
        """Refuse bytes for a folder of this machine that would leave its disk too little free."""
        while not folder.exists():
            folder = folder.parent
        self.check_free(free_bytes(folder), size)

    def check_free(self, free: int | None, size: int) -> None:
        """Refuse bytes where so many are free, or it is unknown; and beside a full database."""
        if not self.kept_free:
            return
        left = [] if free is None else [free - size]
        left += [free_bytes(self.database.parent)] if self.database else []
        if any(each < self.kept_free for each in left):
            raise TooLarge(f"{size:,} bytes given, the disk is nearly full: ask an admin for room")


@dataclass(frozen=True)
class Home:
    """The folder of an embedded meter: its `meter.toml`, and all that it keeps in `.meter`."""

    folder: Path

    @property
    def state(self) -> Path:
        """The folder of the books, the key and the files."""
        return self.folder / STATE

    @property
    def database(self) -> Path:
        """The books."""
        return self.state / "meter.db"

    @property
    def settings(self) -> Path:
        """The specification, for people; the books hold the one in force."""
        return self.folder / "meter.toml"

    @property
    def key(self) -> Path:
        """The meter's own key, to which test sets are sealed."""
        return self.state / "keys" / "meter.key"

    def prepare(self) -> None:
        """Make the folders and a key, unless there is one already."""
        try:
            state, key = self.state, self.key
            for name in (TEST_SETS, "validation", "predictions", "keys"):
                (state / name).mkdir(parents=True, exist_ok=True)
            # A key that `git add .` takes along opens the test set to everybody.
            (state / ".gitignore").write_text("*\n", encoding="utf-8")
            key.parent.chmod(0o700)
            if not key.exists():
                Identity.new().write(key)
        except OSError as error:
            raise unusable(self.folder, error) from error

    def workspace(self, clock: Clock = utc_now) -> Workspace:
        """Return the meter in this folder."""
        return Workspace(
            FolderFiles(self.state),
            lambda: Store.at(self.database),
            lambda: Identity.read(self.key),
            clock,
        )


@dataclass(frozen=True)
class Workspace:
    """Books, key and files of one meter; the first two are opened when first used."""

    files: Files
    open_store: Callable[[], Store]
    open_identity: Callable[[], Identity]
    clock: Clock = utc_now
    meter: str | None = None
    """Id of the meter; None: the only one of an embedded database."""
    allowed_losses: frozenset[str] | None = None
    """Functions that a loss may name; None: any, as in a folder, where all code is its owner's."""
    room: Room | None = None
    """What a meter may take of the disk; None: all of it, as in a folder."""
    limits: TableLimits | None = None
    """What tables in uploads may hold; None: any amount, as in a folder with its owner's files."""
    claims: Files | None = None
    """Where a server notes at which meter each test set counts; None: there is only one."""
    beside: Callable[[str], Workspace] | None = None
    """Gives another meter of the same server, by its id; None: there is only one."""

    @classmethod
    def open(cls, folder: Path, clock: Clock = utc_now) -> Workspace:
        """Find the meter in a folder."""
        home = Home(folder)
        try:
            found = home.database.is_file()
        except OSError as error:
            raise unusable(folder, error) from error
        if not found:
            raise InvalidInput(f"{folder}: holds no meter: give its folder, or run meter init")
        return home.workspace(clock)

    @property
    def embedded(self) -> bool:
        """Whether it is in a folder, whose owner has every role and sees all files."""
        return self.beside is None

    @cached_property
    def store(self) -> Store:
        """The opened books."""
        return self.open_store()

    @property
    def identity(self) -> Identity:
        """The key to which test sets are sealed, as it is now: it opens what the former one did."""
        found = self.open_identity()
        self.__dict__.setdefault("recipient_at_first", found.recipient)
        return found

    def reading(self) -> AbstractContextManager[Books]:
        """Read a consistent snapshot of the books."""
        return self.store.reading()

    def asking(self) -> AbstractContextManager[Books]:
        """Read without a snapshot: for advice, which is checked again under the lock."""
        self.check_key()
        return self.store.asking()

    @contextmanager
    def writing(self) -> Iterator[Books]:
        """Hold this meter's write lock; commit at the end, or leave no trace."""
        with self.store.writing(self.meter) as books:
            self.check_key()  # under the lock, within which alone it changes
            yield books

    def check_key(self) -> None:
        """Refuse to write once another process has changed the key.

        Something may be sealed to the former one by now, and nobody could open it any more.
        """
        known = self.__dict__.get("recipient_at_first")
        if known is not None and self.open_identity().recipient != known:
            raise MeterError("the key of the meter was changed: open the meter again")

    def now(self) -> str:
        """Stamp this moment."""
        return stamp(self.clock())

    def state(self, books: Books) -> MeterState:
        """Read the state of this meter in a transaction."""
        return MeterState.of(*books.meters.overview(self.meter))

    def read_state(self) -> MeterState:
        """Read the state of this meter in a transaction of its own."""
        with self.reading() as books:
            return self.state(books)

    def loss(self, spec: MeterSpec) -> Loss:
        """Return the loss of a meter, if it may be used here."""
        return allowed_loss(spec, self.allowed_losses)

    def check_room(self, size: int) -> None:
        """Refuse bytes that would be kept, before anything of them is written."""
        if self.room is not None:
            self.room.check(self.meter or "", self.files, size)

    def check_links(self, books: Books, user: str, *events: Event) -> None:
        """Refuse links that a user has entered often enough since labels were last asked for.

        They cost no answer, and everybody reads the whole chain.
        """
        if self.room is not None:
            self.room.check_free(None, 0)
        meter = self.state(books).meter.id
        since = books.audit.newest_of(meter, Event.REQUESTED, 1)[0].number
        links = [link for event in events for link in books.audit.of(meter, event)]
        own = (link for link in links if link.number > since and link.details.get("user") == user)
        if user and len(list(own)) >= MOST_LINKS:
            line = f"{events[-1]}: {MOST_LINKS} times by you on this test set"
            raise MeterError(f"{line}: wait for the next one")

    def journal(self, generation: TestSet) -> Journal:
        """Return the journal that is kept beside a test set."""
        return Journal(self.files, f"{TEST_SETS}/{generation.fingerprint}{SUFFIX}")


def allowed_loss(spec: MeterSpec, allowed: frozenset[str] | None) -> Loss:
    """Return the loss of a meter; a function must be among those allowed, unless all are."""
    if allowed is not None:
        check_allowed(spec.meter.sample.loss, allowed)
    return parse_loss(spec.meter.sample.loss)


@dataclass(frozen=True)
class Site:
    """Everything a server's use cases work with."""

    store: Store
    files: Files
    identity: Identity = field(repr=False)
    clock: Clock = utc_now
    allowed_losses: frozenset[str] = frozenset()
    """Functions that a meter's loss may name: whoever names one makes the server run it."""
    limits: TableLimits = USUAL_LIMITS
    """What tables in uploads may hold."""
    room: Room = field(default_factory=Room, compare=False, repr=False)
    """What meters and users may take of the disk."""

    @classmethod
    def open(
        cls,
        database: str,
        files: str | Path,
        key: Path,
        clock: Clock = utc_now,
        *,
        allowed_losses: Collection[str] = (),
        limits: TableLimits = USUAL_LIMITS,
        room: Room | None = None,
    ) -> Site:
        """Open the database (made or upgraded as needed), the files and the key (made if new)."""
        if not key.exists():
            key.parent.mkdir(parents=True, exist_ok=True)
            Identity.new().write(key)
        store = Store.open(database)
        jobs.install(store)
        identity = Identity.read(key)
        allowed = frozenset(allowed_losses)
        room = room or Room()
        room.database = Store.file(database)
        return cls(store, open_files(files), identity, clock, allowed, limits, room)

    def derived_key(self, purpose: bytes) -> bytes:
        """Return a key for one purpose, derived from the site's own: it opens nothing sealed."""
        return hmac.digest(signing_key(self.identity), purpose, "sha256")

    def close(self) -> None:
        """Close the database."""
        self.store.close()

    def now(self) -> str:
        """Stamp this moment."""
        return stamp(self.clock())

    def require_meter(self, meter: str) -> None:
        """Refuse a meter that does not exist."""
        with self.reading() as books:
            books.meters.get(meter)

    def space(self, meter: str) -> Workspace:
        """Return what the use cases of one meter work with."""
        return Workspace(
            self.files.under(f"meters/{meter}"),
            lambda: self.store,
            lambda: self.identity,
            self.clock,
            meter,
            allowed_losses=self.allowed_losses,
            limits=self.limits,
            room=self.room,
            claims=self._claims,
            beside=self.space,
        )

    @cached_property
    def _claims(self) -> Files:
        return self.files.under("claims")

    def reading(self) -> AbstractContextManager[Books]:
        """Read a consistent snapshot of the books."""
        return self.store.reading()

    def writing(self) -> AbstractContextManager[Books]:
        """Hold the lock of what belongs to no meter: users, tokens, the list of meters."""
        return self.store.writing()
