"""Ids: whether the rows of a file are in the order that was committed at sealing, else a join.

A file in the committed order is recognized by one digest, while it is read. Only for another order
are ids held in memory, as Arrow text and numpy numbers: rows meet in a table of slots by keyed
hashes of 64 bits. Texts decide in the end, so a collision of hashes changes nothing.
"""

from __future__ import annotations

import os
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.tables.source import no_column, some
from easeml_meter.tables.spelling import OrderDigest, as_texts

NAMED = 10
"""Ids that a refusal names; of the others it tells the number."""
_BLOCK = 1 << 15
"""Rows hashed together, so that they stay in the processor's cache."""
_WORKERS = min(4, os.cpu_count() or 1)
_PIECE = 1 << 17
"""Rows looked up together."""
_FEW = 1 << 12
"""Texts that are looked up one by one."""
_NEXT = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without a pattern: it spreads the bits of a hash."""
_LOW_BYTES = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)

Words = NDArray[np.uint64]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class CommittedIds:
    """The ids of a set, one for each row, in the order of its rows."""

    owner: str
    """Whose they are, in refusals: "the test set"."""
    column: str
    digest: str
    """What `OrderDigest` says of them."""
    read: Callable[[], Iterable[Any]] = field(repr=False, compare=False)
    """Gives them as arrays, one after the other."""
    told: bool = True
    """Whether the sender may learn anything of them."""

    @classmethod
    def of(cls, owner: str, column: str, read: Callable[[], Iterable[Any]]) -> CommittedIds:
        """Take in the ids of a set that its owner gives in the clear."""
        digest, texts = OrderDigest(), _texts(read())
        digest.update(texts)
        _check_distinct(texts)
        return cls(owner, column, digest.hexdigest(), read)


@dataclass(frozen=True)
class RowMatching:
    """How the rows of a file are to be matched with the rows of a set."""

    id_column: str | None = None
    """The column of the file that holds the ids; None: the one of the set's name."""
    in_order: bool = False
    """The rows are in the order of the set, whatever ids there are: they are not looked at."""
    missing_wrong: bool = False
    """Rows without a prediction count as wrong; else they are refused."""

    def __post_init__(self) -> None:
        if self.in_order and self.id_column is not None:
            raise invalid("id", self.id_column, "none, if the order of the rows is relied on")

    def columns(self, committed: CommittedIds | None) -> tuple[str, ...]:
        """Return the column to compare with the committed ids; none: the order is relied on."""
        if committed is None or self.in_order:
            return ()
        return (self.id_column or committed.column,)

    def column_in(self, names: Sequence[str], committed: CommittedIds | None) -> str | None:
        """Return the column to compare with the committed ids; None: the order is relied on."""
        wanted = next(iter(self.columns(committed)), None)
        if committed is not None and wanted is not None and wanted not in names:
            line = no_column(wanted, names)
            ways = "name the column of ids (--id), or rely on the order of the rows (--no-ids)"
            raise InvalidInput(f"{line}, and {committed.owner} has ids: {ways}")
        return wanted


IN_ORDER = RowMatching(in_order=True)
BY_IDS = RowMatching()
"""By the ids, where the set has any."""


@dataclass(frozen=True)
class Joined:
    """How the rows of a file fit the rows of a set."""

    rows: int
    """Rows of the file."""
    matched: int | None = None
    """Ids of the file that are in the set; None: no ids were compared."""
    missing: int = 0
    """Rows of the set that the file has no row for."""
    places: Places | None = field(default=None, repr=False, compare=False)
    """For each row of the set its row of the file, from 0, or -1; None: the order is the same."""


class Order:
    """Follows the ids of a file, batch by batch, and joins them if they are not in order."""

    def __init__(self, committed: CommittedIds) -> None:
        self._committed, self._digest = committed, OrderDigest()
        self._held: list[Any] | None = None
        self._begun = False

    def add(self, ids: Any) -> None:
        """Go on with the ids of a batch: digest them, or hold them if the order is another one."""
        if not self._begun and self._committed.told and self._differs(as_texts(ids)):
            self._held = []
        self._begun = True
        if self._held is None:
            self._digest.update(ids)
        else:
            self._held.append(ids)

    def _differs(self, texts: Any) -> bool:
        """Whether the first ids tell already that the order is another one."""
        first = as_texts(next(iter(self._committed.read()), pa.array([], pa.string())))
        count = min(len(first), len(texts))
        return not first.slice(0, count).equals(texts.slice(0, count))

    def joined(self, rows: int, again: Callable[[], Iterable[Any]], *, lenient: bool) -> Joined:
        """Return how so many rows fit the set; `again` reads their ids once more."""
        if self._held is not None:
            # One by one: millions of ids are not to be in memory as they came and as texts.
            held, self._held = deque(self._held), None
            one_by_one = (held.popleft() for _ in range(len(held)))
            return join(one_by_one, self._committed, lenient=lenient)
        if self._digest.hexdigest() == self._committed.digest:
            return Joined(rows, rows)
        return join(again(), self._committed, lenient=lenient)


def join(given: Iterable[Any], committed: CommittedIds, *, lenient: bool) -> Joined:
    """Find the row of a file for each row of a set; `lenient`: rows may be missing."""
    if not committed.told:
        # One fixed sentence, before any committed id is read: neither words nor time may depend
        # on ids that the sender must not see.
        raise InvalidInput(
            f"the ids do not fit {committed.owner}: its inputs are hidden, so a runner or a model "
            "is needed"
        )
    texts = _texts(given)
    places = match(committed.read(), texts)
    absent, unknown = np.flatnonzero(places < 0), _unused(places, len(texts))
    if len(unknown):  # a text that stands there twice is found once
        _check_distinct(texts)
    problems = []
    if len(absent) and not lenient:
        first = _texts(committed.read()).take(pa.array(absent[:NAMED]))
        problems.append(f"ids of {committed.owner} without a row: {_named(first, len(absent))}")
    if len(unknown):
        first = texts.take(pa.array(unknown[:NAMED]))
        problems.append(f"ids that are not in {committed.owner}: {_named(first, len(unknown))}")
    if problems:
        raise InvalidInput(f"{'; '.join(problems)}: give one row for each id")
    return Joined(len(texts), len(texts), len(absent), places)


def is_shuffled(given: Iterable[Any], wanted: Iterable[Any]) -> bool:
    """Whether texts that are all different stand there in another order than is wanted."""
    try:
        texts, order = _texts(given), _texts(wanted)
    except InvalidInput:  # fractions, or values that are missing, are no ids
        return False
    if len(texts) != len(order) or texts.equals(order) or len(order.unique()) < len(order):
        return False
    return bool((match([order], texts) >= 0).all())


def match(wanted: Iterable[Any], given: Any) -> Places:
    """Return where each text of the arrays `wanted` stands in `given`; -1: nowhere."""
    key, bits = np.uint64(secrets.randbits(64) | 1), (2 * len(given)).bit_length()
    high = np.uint64(64 - bits)
    # A slot holds one row. New memory costs more than anything else here, so numbers are small,
    # and the wanted texts are looked at a few pieces at a time.
    slots = np.full(1 << bits, -1, np.int32 if len(given) < 1 << 31 else np.int64)

    def look_up(piece: Any) -> tuple[Places, Any]:
        rows = slots[_hashes(piece, key) >> high]
        there = given.take(pa.array(rows, mask=rows < 0))
        same = pc.equal(piece, there).fill_null(False)
        rows[~same.to_numpy(zero_copy_only=False)] = -1
        return rows, piece.filter(pc.invert(same))

    found, left = [np.empty(0, slots.dtype)], [pa.array([], pa.large_string())]
    with ThreadPoolExecutor(_WORKERS) as pool:
        start = 0
        for hashes in pool.map(lambda piece: _hashes(piece, key), _pieces([given])):
            slots[hashes >> high] = np.arange(start, start + len(hashes), dtype=slots.dtype)
            start += len(hashes)
        pieces = _pieces(map(as_texts, wanted))
        while some_pieces := list(islice(pieces, 2 * _WORKERS)):
            for rows, rest in pool.map(look_up, some_pieces):
                found.append(rows)
                left.append(rest)
    places = np.concatenate(found).astype(np.int64)
    _match_rest(places, pa.concat_arrays(left), given)
    return places


def _pieces(arrays: Iterable[Any]) -> Iterator[Any]:
    for array in arrays:
        for start in range(0, len(array), _PIECE):
            yield array.slice(start, _PIECE)


def _match_rest(places: Places, left: Any, given: Any) -> None:
    """Find the texts that had to leave their slot to another one."""
    rows, unused = np.flatnonzero(places < 0), _unused(places, len(given))
    if not len(rows) or not len(unused):
        return
    rest = given.take(pa.array(unused))
    if _FEW < len(unused) < len(given) // 2:
        found = match([left], rest)
    else:  # few, or most of them are the same
        places_in_rest = pc.index_in(left, rest).fill_null(-1)
        found = places_in_rest.to_numpy(zero_copy_only=False)
    hit = found >= 0
    places[rows[hit]] = unused[found[hit]]


def _unused(places: Places, count: int) -> Places:
    """Return the rows, of so many, that stand at no place."""
    unused = np.ones(count, bool)
    unused[places[places >= 0]] = False
    return np.flatnonzero(unused)


def _texts(arrays: Iterable[Any]) -> Any:
    texts = [as_texts(each) for each in arrays]
    return pa.concat_arrays(texts) if texts else pa.array([], pa.large_string())


def _named(first: Any, count: int) -> str:
    """Name the first of so many texts."""
    more = count - len(first)
    return some(first.to_pylist(), NAMED) + (
        f" and {more:,} more ({count:,} in all)" if more else ""
    )


def _check_distinct(texts: Any) -> None:
    counts = texts.value_counts()
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(repeated):
        line = f"ids that stand there more than once: {_named(repeated[:NAMED], len(repeated))}"
        raise InvalidInput(f"{line}: give one row for each id")


def _hashes(texts: Any, key: np.uint64) -> Words:
    """Hash texts, eight bytes at a time."""
    _, ends, content = texts.buffers()
    bounds = np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    flat = np.frombuffer(content or b"", np.uint8)
    hashes = np.empty(len(texts), np.uint64)
    for start in range(0, len(texts), _BLOCK):
        block = bounds[start : start + _BLOCK + 1]
        padded = np.zeros(int(block[-1] - block[0]) + 8, np.uint8)
        padded[:-8] = flat[block[0] : block[-1]]
        words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
        starts, lengths = block[:-1] - block[0], np.diff(block)
        hashes[start : start + _BLOCK] = _hash_block(words, starts, lengths, key)
    return hashes


def _hash_block(words: Words, starts: Places, left: Places, key: np.uint64) -> Words:
    """Hash the texts of `left` bytes from `starts` on; `words` begin at every byte."""
    hashes: Words = left.astype(np.uint64) * key
    rows: Places | slice = slice(None)
    while len(left):
        mixed = words[starts]
        if left.min() < 8:
            mixed &= _LOW_BYTES[np.minimum(left, 8)]
        mixed ^= hashes[rows]
        mixed *= key
        mixed ^= mixed >> np.uint64(29)
        mixed *= _NEXT
        mixed ^= mixed >> np.uint64(32)
        hashes[rows] = mixed
        more = np.flatnonzero(left > 8)
        rows = more if isinstance(rows, slice) else rows[more]
        starts, left = starts[more] + 8, left[more] - 8
    return hashes
