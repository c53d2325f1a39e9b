"""Room on disk: how much one meter and one user may take of it, and how much stays free."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from easeml_meter.errors import TooLarge
from easeml_meter.storage.files import Files, free_bytes

KEPT = ("validation", "predictions", "submissions", "orders")
"""Folders of a meter that grow with what developers send: sets, kept submissions, models."""
MOST_UPLOADS = 100
"""Unfinished uploads of one user."""
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
        self._clock = clock
        self._used: dict[str, int] = {}
        self._enough_for: dict[str, int] = {}
        """What may be used before the files are counted again."""
        self._counted_at: dict[str, float] = {}
        self._lock = threading.Lock()

    def check(self, meter: str, files: Files, size: int) -> None:
        """Refuse bytes for a meter, before anything of them is written.

        Raises:
            TooLarge: they do not fit into what the meter may take, or into the free disk.
        """
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
        """Refuse bytes for a folder of this machine that would leave too little of its disk free.

        Raises:
            TooLarge: they would.
        """
        while not folder.exists():
            folder = folder.parent
        self.check_free(free_bytes(folder), size)

    def check_free(self, free: int | None, size: int) -> None:
        """Refuse bytes where so many are free, or nobody knows how many.

        Raises:
            TooLarge: they would leave too little.
        """
        if not self.leaves_enough(free, size):
            raise TooLarge(f"{size:,} bytes given, the disk is nearly full: ask an admin for room")

    def leaves_enough(self, free: int | None, size: int) -> bool:
        """Whether bytes fit where so many are free, or nobody knows how many."""
        return free is None or not self.kept_free or free - size >= self.kept_free
