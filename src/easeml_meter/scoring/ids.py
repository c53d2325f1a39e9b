"""Ids: the committed order of a set's rows, and the rows of a file joined to it.

A file in the committed order is recognized by one digest, while it is read. Only for another order
are ids held in memory, as Arrow text and numpy numbers: keyed hashes of 64 bits are sorted on both
sides and paired. Texts decide in the end, so a collision of hashes changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.tables.order import OrderDigest
from easeml_meter.tables.spelling import as_texts
from easeml_meter.tables.wording import excerpt, some

NAMED = 10
"""Ids that a refusal names; of the others it tells the number."""
_BLOCK = 1 << 15
"""Rows hashed together, so that they stay in the processor's cache."""
_COMPARED = 1 << 18
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
        """Take in the ids of a set that its owner gives in the clear.

        Raises:
            InvalidInput: one is missing, or stands there more than once.
        """
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
        """Return the column to compare with the committed ids; None: the order is relied on.

        Raises:
            InvalidInput: the file has no such column.
        """
        wanted = next(iter(self.columns(committed)), None)
        if committed is not None and wanted is not None and wanted not in names:
            line = f"no column {excerpt(wanted)} (there are {some(names) or 'none'})"
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


def join(given: Iterable[Any], committed: CommittedIds, *, lenient: bool) -> Joined:
    """Find the row of a file for each row of a set; `lenient`: rows may be missing.

    Raises:
        InvalidInput: ids are missing, unknown, or stand there more than once.
    """
    if not committed.told:
        # One fixed sentence, before any committed id is read: neither words nor time may depend
        # on ids that the sender must not see.
        raise InvalidInput(
            f"the ids do not fit {committed.owner}: its inputs are hidden, so a runner or a model "
            "is needed"
        )
    texts, wanted = _texts(given), _texts(committed.read())
    places = match(wanted, texts)
    missing = int(np.count_nonzero(places < 0))
    unknown = np.ones(len(texts), bool)
    unknown[places[places >= 0]] = False
    if unknown.any():  # a text that stands there twice is found once
        _check_distinct(texts)
    problems = []
    if missing and not lenient:
        problems.append(f"ids of {committed.owner} without a row: {_named(wanted, places < 0)}")
    if unknown.any():
        problems.append(f"ids that are not in {committed.owner}: {_named(texts, unknown)}")
    if problems:
        raise InvalidInput(f"{'; '.join(problems)}: give one row for each id")
    return Joined(len(texts), len(texts), missing, places)


def match(wanted: Any, given: Any) -> Places:
    """Return where each text of `wanted` stands first in `given`; -1: nowhere."""
    places = np.full(len(wanted), -1, np.int64)
    if not len(given):
        return places
    bits = max(len(wanted), len(given)).bit_length()
    key = secrets.randbits(64) | 1
    hashes_wanted, rows_wanted = _sorted_hashes(wanted, bits, key)
    hashes_given, rows_given = _sorted_hashes(given, bits, key)
    if np.array_equal(hashes_wanted, hashes_given):
        paired, at = _alone(hashes_wanted), np.arange(len(wanted))
    else:
        at = np.minimum(np.searchsorted(hashes_given, hashes_wanted), len(given) - 1)
        paired = hashes_given[at] == hashes_wanted
        paired &= _alone(hashes_wanted) & _alone(hashes_given)[at]
    places[rows_wanted[paired]] = rows_given[at[paired]]
    for start in range(0, len(wanted), _COMPARED):
        part = places[start : start + _COMPARED]
        found = given.take(pa.array(part, mask=part < 0))
        same = pc.equal(wanted.slice(start, _COMPARED), found).fill_null(False)
        part[~same.to_numpy(zero_copy_only=False)] = -1
    # The few that share a hash with others are left: of those, the texts themselves are looked up.
    left = np.flatnonzero(places < 0)
    unused = np.ones(len(given), bool)
    unused[places[places >= 0]] = False
    if len(left) and unused.any():
        candidates = np.flatnonzero(unused)
        found = pc.index_in(wanted.take(pa.array(left)), given.take(pa.array(candidates)))
        hit = found.is_valid().to_numpy(zero_copy_only=False)
        places[left[hit]] = candidates[found.drop_null().to_numpy()]
    return places


def _texts(arrays: Iterable[Any]) -> Any:
    texts = [as_texts(each) for each in arrays]
    return pa.concat_arrays(texts) if texts else pa.array([], pa.large_string())


def _named(texts: Any, chosen: NDArray[np.bool_]) -> str:
    """Name the first of the chosen texts, and tell how many there are."""
    rows = np.flatnonzero(chosen)
    first = texts.take(pa.array(rows[:NAMED])).to_pylist()
    more = len(rows) - len(first)
    return some(first, NAMED) + (f" and {more:,} more ({len(rows):,} in all)" if more else "")


def _check_distinct(texts: Any) -> None:
    """Refuse ids that stand there more than once."""
    bits = len(texts).bit_length()
    hashes, rows = _sorted_hashes(texts, bits, secrets.randbits(64) | 1)
    crowded = rows[~_alone(hashes)]
    if not len(crowded):
        return
    counts = texts.take(pa.array(np.sort(crowded))).value_counts()
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(repeated):
        chosen = np.ones(len(repeated), bool)
        line = f"ids that stand there more than once: {_named(repeated, chosen)}"
        raise InvalidInput(f"{line}: give one row for each id")


def _sorted_hashes(texts: Any, bits: int, key: int) -> tuple[Words, Places]:
    """Return the high bits of each text's hash, sorted, and the rows that they are of.

    Hash and row share a word, so that one sort moves both.
    """
    words = _hashes(texts, np.uint64(key))
    words >>= np.uint64(bits)
    words <<= np.uint64(bits)
    words |= np.arange(len(words), dtype=np.uint64)
    words.sort()
    rows = (words & np.uint64((1 << bits) - 1)).astype(np.int64)
    words >>= np.uint64(bits)
    return words, rows


def _alone(hashes: Words) -> NDArray[np.bool_]:
    """Tell which of sorted hashes differ from both neighbors."""
    differs = np.ones(len(hashes) + 1, bool)
    differs[1:-1] = hashes[1:] != hashes[:-1]
    alone: NDArray[np.bool_] = differs[1:] & differs[:-1]
    return alone


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
    rows = np.arange(len(starts))
    while len(rows):
        mixed = (hashes[rows] ^ words[starts] & _LOW_BYTES[np.minimum(left, 8)]) * key
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
        hashes[rows] = mixed
        more = left > 8
        rows, starts, left = rows[more], starts[more] + 8, left[more] - 8
    return hashes
