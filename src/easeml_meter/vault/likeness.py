"""How much of one test set stands in another, whatever their columns are called.

For test sets of different meters, whose ids and column names mean nothing to each other. Inputs
that repeat within a set may be equal by chance, so without ids only rows that occur once count.
By chance, a value that occurs once here occurs once in an independent sample with probability at
most (1 - 1/n)**(n - 1), near 1/e: more than `LARGEST_SHARE` of the rows is no coincidence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from easeml_meter.vault.comparison import Rows, Sketches, paired
from easeml_meter.vault.digests import Digests

LARGEST_SHARE = 0.5
"""A test set that shares more of its rows with one of another meter is refused."""

LEAST_ROWS = 20
"""Fewer equal rows than this may be a coincidence."""

_ALIKE = 0.25
"""The share of these values that columns of the same content have in common, at least."""

_MOST_RENAMED = 64
"""Columns of each set that are looked for under other names."""

Pairs = tuple[tuple[str, str], ...]


def likeness(rows: Rows, others: Rows) -> float:
    """Return how much of the smaller of two sets stands in the other, from 0 to 1.

    Columns that are constant in their set tell no rows apart and are left out. At least half of
    the columns of the set that has fewer must be found in the other: two sets about the same
    customers are not the same rows.
    """
    mine, theirs = rows.sketches, others.sketches
    fewer = min(len(mine), len(theirs))
    ways = {_namesakes(mine, theirs), _alike(mine, theirs)}
    enough = [pairs for pairs in ways if pairs and 2 * len(pairs) >= fewer]
    return max((_share_on(rows, others, pairs) for pairs in enough), default=0.0)


def repeated(rows: Rows, others: Rows) -> float:
    """Return how much of the smaller of two parts stands in the other, told by equal inputs.

    They have the same columns. Inputs that repeat within a part may be equal by chance: they count
    as rows that are not found.
    """
    if not rows.inputs:
        return 0.0
    mine, theirs = (each.digests(rows.inputs) for each in (rows, others))
    common = len(np.intersect1d(_once(mine), _once(theirs), assume_unique=True))
    return common / max(1, min(len(mine), len(theirs)))


def _namesakes(mine: Sketches, theirs: Sketches) -> Pairs:
    return tuple((name, name) for name in sorted(mine) if name in theirs)


def _alike(mine: Sketches, theirs: Sketches) -> Pairs:
    """Pair the columns with the same content: namesakes first, then whatever they are called."""
    pairs = [(a, b) for a, b in _namesakes(mine, theirs) if _similar(mine[a], theirs[b]) > _ALIKE]
    left = [name for name in mine if (name, name) not in pairs][:_MOST_RENAMED]
    free = [name for name in theirs if (name, name) not in pairs][:_MOST_RENAMED]
    for name in left:
        scores = [_similar(mine[name], theirs[other]) for other in free]
        if scores and max(scores) > _ALIKE:
            pairs.append((name, free.pop(int(np.argmax(scores)))))
    return tuple(sorted(pairs))


def _similar(mine: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> float:
    """Estimate which share of the values of one column stands in the other, as far as both go."""
    end = min(mine[-1], theirs[-1])
    mine, theirs = mine[mine <= end], theirs[theirs <= end]
    common = len(np.intersect1d(mine, theirs, assume_unique=True))
    return common / max(1, min(len(mine), len(theirs)))


def _share_on(rows: Rows, others: Rows, pairs: Pairs) -> float:
    """Compare the rows on these columns, and where both have ids, on id and columns."""
    names = [name for name, _ in pairs]
    mine = rows.digests(names)
    theirs = others.digests([other for _, other in pairs], called=names)
    shares = [_share(_once(mine), _once(theirs))]
    if rows.ids is not None and others.ids is not None:
        with_ids = (paired(rows.ids, mine), paired(others.ids, theirs))
        share = _share(*(np.unique(each[:, 0]) for each in with_ids))
        # Sets that are both numbered from 1 agree by chance where few inputs are possible.
        chance = _chance(mine, theirs)
        shares.append((share - chance) / (1 - chance) if chance < 1 else 0.0)
    return max(shares)


def _chance(mine: Digests, theirs: Digests) -> float:
    """Return how likely it is that two rows, one of each set, have equal inputs."""
    values, counts = np.unique(mine[:, 0], return_counts=True)
    others, frequencies = np.unique(theirs[:, 0], return_counts=True)
    _, here, there = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    return float(np.dot(counts[here] / len(mine), frequencies[there] / len(theirs)))


def _once(digests: Digests) -> NDArray[np.uint64]:
    values, counts = np.unique(digests[:, 0], return_counts=True)
    once: NDArray[np.uint64] = values[counts == 1]
    return once


def _share(mine: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> float:
    common = len(np.intersect1d(mine, theirs, assume_unique=True))
    return common / min(len(mine), len(theirs)) if common >= LEAST_ROWS else 0.0
