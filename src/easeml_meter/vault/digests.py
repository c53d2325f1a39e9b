"""Keyed digests of rows: which rows are the same, without keeping the rows.

A row's digest is 128 bits of SipHash-2-4 under a secret key, or of keyed BLAKE2b where the row is
long. It depends on the values alone: not on batches, on the order of the columns, on the type of a
number, on how text is laid out, composed (NFC) or padded.

J.-P. Aumasson, D. J. Bernstein: SipHash: a fast short-input PRF, 2012; the 128-bit variant is the
one of their reference code. Only additions, rotations and exclusive ors: numpy does them in place.

Why not `hashlib.blake2b` for every row: a test set's fingerprint is made of these digests and its
budget is keyed to the fingerprint, so a change of hash would give every test set in use a fresh
budget. BLAKE2b was also 3 to 5 times slower (one core, the same memory): 5 million rows of 2 to 5
columns took 4.3 s instead of 0.9 to 1.3 s for numbers, and 8.3 to 9.0 s instead of 2.2 to 2.7 s
with a column of text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from easeml_meter.errors import InvalidInput
from easeml_meter.tables.spelling import as_texts

Words = NDArray[np.uint64]

_START = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_BLOCK = 4096
"""Rows taken together, so that the state stays in the processor's cache."""


def siphash128(
    words: Sequence[Words], rows: int, key: bytes, tail: Words | None = None
) -> NDArray[np.uint64]:
    """Hash row i of all `words`, in their order, under a key of 16 bytes; two words a row.

    `tail` is SipHash's last word: a message's length in its top byte, its last bytes below.
    """
    if tail is None:
        tail = np.full(rows, (8 * len(words) % 256) << 56, np.uint64)
    result = np.empty((rows, 2), np.uint64)
    for start in range(0, rows, _BLOCK):
        part = slice(start, min(start + _BLOCK, rows))
        state = _State(key, part.stop - start)
        for column in words:
            state.absorb(column[part])
        state.absorb(tail[part])
        result[part, 0] = state.squeeze(2, 0xEE)
        result[part, 1] = state.squeeze(1, 0xDD)
    return result


class _State:
    """The four words of SipHash's state, for each row of a block."""

    def __init__(self, key: bytes, rows: int) -> None:
        first, second = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
        keyed = zip(_START, (first, second, first, second), strict=True)
        self.v = [np.full(rows, constant ^ half, np.uint64) for constant, half in keyed]
        self.v[1] ^= np.uint64(0xEE)
        self.spare = np.empty(rows, np.uint64)

    def absorb(self, word: Words) -> None:
        self.v[3] ^= word
        self._rounds(2)
        self.v[0] ^= word

    def squeeze(self, index: int, constant: int) -> Words:
        self.v[index] ^= np.uint64(constant)
        self._rounds(4)
        return self.v[0] ^ self.v[1] ^ self.v[2] ^ self.v[3]

    def _rounds(self, count: int) -> None:
        v0, v1, v2, v3 = self.v
        for _ in range(count):
            v0 += v1
            self._rotate(v1, 13)
            v1 ^= v0
            self._rotate(v0, 32)
            v2 += v3
            self._rotate(v3, 16)
            v3 ^= v2
            v0 += v3
            self._rotate(v3, 21)
            v3 ^= v0
            v2 += v1
            self._rotate(v1, 17)
            v1 ^= v2
            self._rotate(v2, 32)

    def _rotate(self, word: Words, by: int) -> None:
        np.right_shift(word, np.uint64(64 - by), out=self.spare)
        np.left_shift(word, np.uint64(by), out=word)
        np.bitwise_or(word, self.spare, out=word)


Digests = NDArray[np.uint64]
"""One row of two words per table row."""

_SIPHASH_BYTES = 256
"""Above this a call of BLAKE2b per row is cheaper than the vectorised rounds."""

_SLICE_BYTES = 4 << 20
_BUCKET_ROWS = 1 << 22
"""Rows, about, that are sorted at a time."""
_NAN = np.uint64(0x7FF8_0000_0000_0000)
_NULL = np.uint64(0x7FF8_0000_0000_0001)
"""A missing number: a NaN that no number is mapped to."""

_FLOAT_DIGITS = 15
"""Decimals of so many digits are different floats."""
TEXT = (pa.string(), pa.large_string(), pa.string_view())
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def row_digests(
    batches: Iterable[pa.RecordBatch], columns: Sequence[str], key: bytes
) -> Iterator[Digests]:
    """Digest `columns` of every row, batch by batch: equal rows, and only they, are equal."""
    names = sorted(columns)
    seed = _derive(key, "row 2", json.dumps(names))  # 2: the version of what follows
    for batch in batches:
        # Small values grow to words of 64 bits: only so many rows at a time.
        rows = max(64, _SLICE_BYTES * batch.num_rows // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            words = [word for name in names for word in _column_words(part, name, key)]
            yield _hash_words(words, part.num_rows, seed)


def id_digests(ids: Iterable[Any], key: bytes) -> Iterator[Digests]:
    """Digest ids by their text, array by array: 7 is the same id in every format."""
    seed = _derive(key, "id", "")
    for each in ids:
        yield _hash_slices(*_text(as_texts(each))[::-1], seed)


def value_digests(batch: pa.RecordBatch, name: str, key: bytes) -> Words:
    """Digest the values of one column, in 64 bits, whatever the column is called."""
    words = _column_words(batch, name, key)
    return _hash_words(words, batch.num_rows, _derive(key, "column", ""))[:, 0]


def collect(parts: Iterable[Digests]) -> Digests:
    """Bring the digests of a whole table together, 16 bytes a row."""
    found, rows = np.empty((0, 2), np.uint64), 0
    for part in parts:
        # Grown in place: beside a list of all parts, there would be two copies of them.
        found.resize((rows + len(part), 2), refcheck=False)
        found[rows:] = part
        rows += len(part)
    return found


def _buckets(*sets: Digests) -> Iterator[list[NDArray[np.int64]]]:
    """Yield the places of digests with near first words, in each array: equal ones are together.

    What is sorted then takes little memory beside the digests of many rows.
    """
    count = 1 + max(map(len, sets)) // _BUCKET_ROWS
    edges = [number * (1 << 64) // count for number in range(1, count)]
    bounds = [None, *map(np.uint64, edges), None]
    for low, high in pairwise(bounds):
        yield [_between(each[:, 0], low, high) for each in sets]


def _between(words: Words, low: np.uint64 | None, high: np.uint64 | None) -> NDArray[np.int64]:
    inside = np.ones(len(words), bool)
    if low is not None:
        inside &= words >= low
    if high is not None:
        inside &= words < high
    return np.flatnonzero(inside)


def duplicate_rows(digests: Digests) -> NDArray[np.int64]:
    """Return the numbers, from 1, of the rows that repeat an earlier one."""
    found = [places[_duplicates(digests[places])] for (places,) in _buckets(digests)]
    return np.sort(np.concatenate(found)) + 1


def repeated_rows(digests: Digests) -> NDArray[np.int64]:
    """Return the numbers, from 1, of the rows that stand there more than once."""
    return shared_rows(digests, digests[duplicate_rows(digests) - 1])


def _duplicates(digests: Digests) -> NDArray[np.int64]:
    order = np.argsort(digests[:, 0])
    ordered = digests[order, 0]
    same = ordered[1:] == ordered[:-1]
    suspects = np.zeros(len(order), bool)
    suspects[1:] |= same
    suspects[:-1] |= same
    rows = np.sort(order[suspects])
    _, first = np.unique(digests[rows], axis=0, return_index=True)
    return np.delete(rows, first).astype(np.int64)


def shared_rows(digests: Digests, others: Digests) -> NDArray[np.int64]:
    """Return the numbers, from 1, of the rows in `digests` that also stand in `others`."""
    found = [
        here[_shared(digests[here], others[there])] for here, there in _buckets(digests, others)
    ]
    return np.sort(np.concatenate(found)) + 1


def _shared(digests: Digests, others: Digests) -> NDArray[np.int64]:
    known = others[np.argsort(others[:, 0])]
    # Looked up in their order, neighbours are found near each other: memory is what limits this.
    order = np.argsort(digests[:, 0])
    first = np.empty(len(digests), np.int64)
    first[order] = np.searchsorted(np.ascontiguousarray(known[:, 0]), digests[order, 0])
    found = np.zeros(len(digests), bool)
    left = np.arange(len(digests))
    # The first words nearly always differ or belong to the same row: one turn, or two.
    while len(left):
        left = left[first[left] < len(known)]
        left = left[known[first[left], 0] == digests[left, 0]]
        same = known[first[left], 1] == digests[left, 1]
        found[left[same]] = True
        left = left[~same]
        first[left] += 1
    return np.flatnonzero(found).astype(np.int64)


def content_digest(parts: Iterable[Digests], key: bytes) -> str:
    """Digest a whole table, whatever the order of its rows, as hexadecimal digits.

    The rows' digests are added up lane by lane (an additive multiset hash): without the key no
    two tables with the same sum can be looked for.
    """
    total, rows = np.zeros(2, np.uint64), 0
    for part in parts:
        total += part.sum(axis=0, dtype=np.uint64)
        rows += len(part)
    return _derive(key, "content", f"{rows}:{total[0]:016x}{total[1]:016x}", size=32).hex()


def _column_words(batch: pa.RecordBatch, name: str, key: bytes) -> list[Words]:
    try:
        return _words(batch.column(name), key)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        kind = batch.column(name).type
        raise InvalidInput(f"column {name!r} of type {kind} cannot be compared") from None


def _words(array: pa.Array, key: bytes) -> list[Words]:
    """Represent each value by a fixed number of 64-bit words, equal only for equal values."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _words(array.storage, key)
    if pa.types.is_dictionary(kind):
        words = _words(array.dictionary, key)
        index = pc.fill_null(array.indices.cast(pa.int64()), len(array.dictionary))
        missing = _words(pa.nulls(1, kind.value_type), key)
        chosen = index.to_numpy(zero_copy_only=False)
        return [np.append(w, m)[chosen] for w, m in zip(words, missing, strict=True)]
    if pa.types.is_null(kind):
        return [np.full(len(array), _NULL)]
    if pa.types.is_boolean(kind):
        return [_numpy(array.cast(pa.uint8()), 2).astype(np.uint64)]
    if pa.types.is_integer(kind):
        return [_mark(array, _integer_words(_numpy(array), _derive(key, "integer", "")))]
    if pa.types.is_floating(kind):
        return [_mark(array, _float_words(_numpy(array.cast(pa.float64()))))]
    if pa.types.is_decimal(kind):
        return [_mark(array, _decimal_words(array, _derive(key, "decimal", "")))]
    if pa.types.is_temporal(kind):
        return [_mark(array, words) for words in _time_words(array)]
    if pa.types.is_struct(kind):
        parts = [_numpy(array.is_valid().cast(pa.uint8())).astype(np.uint64)]
        for child in array.flatten():
            parts += _words(child, key)
        return parts
    if _is_list(kind):
        offsets, values = _list(array)
        inner = _words(values, key)
        content = np.column_stack(inner).view(np.uint8).ravel()
        offsets = offsets * (8 * len(inner))
    else:
        offsets, content = _text(_composed(array) if kind in TEXT else array)
    pairs = _hash_slices(content, offsets, _derive(key, "value", str(_is_list(kind))))
    if array.null_count:
        pairs[_numpy(array.is_null().cast(pa.uint8())) == 1] = 0
    return [pairs[:, 0], pairs[:, 1]]


def _numpy(array: pa.Array, missing: int = 0) -> NDArray[Any]:
    filled = pc.fill_null(array, pa.scalar(missing, array.type)) if array.null_count else array
    values: NDArray[Any] = filled.to_numpy(zero_copy_only=False)
    return values


def _mark(array: pa.Array, words: Words) -> Words:
    """Tell missing values from all numbers."""
    if not array.null_count:
        return words
    return np.where(_numpy(array.is_null().cast(pa.uint8())) == 1, _NULL, words)


def _float_words(values: NDArray[Any]) -> Words:
    numbers = np.asarray(values, np.float64) + 0.0  # -0.0 becomes 0.0
    return np.where(np.isnan(numbers), _NAN, numbers.view(np.uint64))


def _integer_words(values: NDArray[Any], seed: bytes) -> Words:
    """Return a whole number the word of the equal float, or a keyed one where there is none."""
    with np.errstate(invalid="ignore"):
        numbers = values.astype(np.float64)
        words = _float_words(numbers)
        # 2**53 + 1 is rounded to 2**53: whoever is there may have been rounded, too.
        if values.dtype.itemsize < 8 or not (np.abs(numbers) >= 2.0**53).any():
            return words
        inexact = np.flatnonzero((numbers.astype(values.dtype) != values) | (numbers >= 2.0**63))
    raw = values[inexact].astype(np.uint64)
    negative = (values[inexact] < 0).astype(np.uint64)
    words[inexact] = siphash128([raw, negative], len(raw), seed)[:, 0]
    return words


def _decimal_words(array: pa.Array, seed: bytes) -> Words:
    """Return a decimal the word of the equal float, and a keyed one if it has too many digits."""
    texts = pc.fill_null(array.cast(pa.string()), "0")
    words = _float_words(_numpy(texts.cast(pa.float64())))
    digits = pc.utf8_trim(pc.replace_substring_regex(texts, r"[-.]|E.*", ""), "0")
    long = np.flatnonzero(_numpy(pc.utf8_length(digits)) > _FLOAT_DIGITS)
    if len(long):
        words[long] ^= _hash_slices(*_text(digits.take(pa.array(long)))[::-1], seed)[:, 0]
    return words


def _composed(array: pa.Array) -> pa.Array:
    """Return text as it is compared: é may be one sign or two, and a space at an end is none."""
    texts = array.cast(pa.large_string())
    if not pc.all(pc.string_is_ascii(texts)).as_py():
        texts = pc.utf8_normalize(texts, form="NFC")
    return pc.ascii_trim_whitespace(texts)


def _time_words(array: pa.Array) -> list[Words]:
    """Seconds and nanoseconds, so that the unit does not matter."""
    kind = array.type
    if pa.types.is_date32(kind):
        seconds = _numpy(array.cast(pa.int32())).astype(np.int64) * 86_400
        return [seconds.view(np.uint64), np.zeros(len(array), np.uint64)]
    narrow = pa.int32() if pa.types.is_time32(kind) else pa.int64()
    ticks = _numpy(array.cast(narrow)).astype(np.int64)
    per_second = 1000 if pa.types.is_date64(kind) else _PER_SECOND[kind.unit]
    seconds, rest = np.divmod(ticks, per_second)
    return [seconds.view(np.uint64), (rest * (10**9 // per_second)).view(np.uint64)]


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    bytes_ = (types.is_binary, types.is_large_binary, types.is_binary_view)
    return any(test(kind) for test in (*texts, *bytes_, types.is_fixed_size_binary))


def _is_list(kind: pa.DataType) -> bool:
    types = pa.types
    tests = (types.is_list, types.is_large_list, types.is_map, types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _text(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Where each value starts and ends, and the bytes they lie in."""
    if not _is_text(array.type):
        array = array.cast(pa.string())
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.binary())
    binary = array.cast(pa.large_binary())
    _, offsets, content = binary.buffers()
    starts = np.frombuffer(offsets, np.int64)[binary.offset :][: len(binary) + 1]
    return starts, np.frombuffer(content or b"", np.uint8)


def _list(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Where each list starts and ends, from 0, and the items they lie in."""
    kind = array.type
    if pa.types.is_fixed_size_list(kind):
        array = array.cast(pa.large_list(kind.value_field))
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets - offsets[0], array.values.slice(offsets[0], offsets[-1] - offsets[0])


def _hash_words(words: Sequence[Words], rows: int, seed: bytes) -> Digests:
    if 8 * len(words) <= _SIPHASH_BYTES:
        return siphash128(words, rows, seed)
    content = np.column_stack(words).view(np.uint8).ravel()
    return _hash_slices(content, 8 * len(words) * np.arange(rows + 1, dtype=np.int64), seed)


def _hash_slices(content: NDArray[np.uint8], offsets: NDArray[np.int64], seed: bytes) -> Digests:
    """Digest the byte strings that lie between `offsets`."""
    lengths = np.diff(offsets)
    result = np.empty((len(lengths), 2), np.uint64)
    # Padded, eight bytes can be loaded at any position: one overlapping view, no copies.
    padded = np.append(content, np.zeros(8, np.uint8))
    loads: Words = np.ndarray((len(padded) - 7,), "<u8", buffer=padded, strides=(1,))
    for count in np.unique(lengths[lengths <= _SIPHASH_BYTES] // 8):
        chosen = np.flatnonzero((lengths <= _SIPHASH_BYTES) & (lengths // 8 == count))
        starts, sizes = offsets[chosen], lengths[chosen].astype(np.uint64)
        words = [loads[starts + 8 * i] for i in range(count)]
        tail = loads[starts + 8 * count] & ((np.uint64(1) << (8 * (sizes % 8))) - 1)
        result[chosen] = siphash128(words, len(chosen), seed, tail | (sizes << np.uint64(56)))
    long = np.flatnonzero(lengths > _SIPHASH_BYTES)
    view = np.ascontiguousarray(content).data
    ends = zip(offsets[long].tolist(), offsets[long + 1].tolist(), strict=True)
    hashed = [hashlib.blake2b(view[a:b], digest_size=16, key=seed).digest() for a, b in ends]
    result[long] = np.frombuffer(b"".join(hashed), "<u8").reshape(-1, 2)
    return result


def _derive(key: bytes, purpose: str, text: str, size: int = 16) -> bytes:
    """Derive a key, or a last digest, for one purpose."""
    person = purpose.encode()
    return hashlib.blake2b(text.encode(), digest_size=size, key=key, person=person).digest()
