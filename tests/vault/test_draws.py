"""Drawn edges: one secret for each sealed test set, and everything that moves a reading goes in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from scipy import stats
from tests.storage.examples import ENTRY
from tests.vault.conftest import Seal

from easeml_meter.errors import InvalidInput
from easeml_meter.promise.bands import DRAWS
from easeml_meter.vault.draws import Draws, read_draws
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet

SECRET = bytes(range(32))
DRAW = Draws(SECRET)


def opened(path: Path, key: Identity) -> SealedTestSet:
    return SealedTestSet.open(path, key, meter="cats", generation=1)


def test_the_same_answer_has_the_same_edges() -> None:
    """What is known only when the answer is entered, and what moves nothing, is left out."""
    edge = DRAW.first_edge(ENTRY, 0.2)
    assert edge == Fraction(819_541, 5_000_000)  # as openssl computes it
    later = replace(ENTRY, step=7, answer="", told_at="", model="renamed", user="u", blob="b")
    assert DRAW.first_edge(later, 0.2) == edge
    assert DRAW.first_edge(ENTRY, 0.1) == edge / 2


@pytest.mark.parametrize(
    "change",
    [
        {"tenant": 2},
        {"submission": "t" * 64},
        {"validation_set": "e" * 64},
        {"validation_loss": "1/4"},
    ],
    ids=str,
)
def test_everything_that_moves_the_reading_moves_the_edges(change: dict[str, object]) -> None:
    assert DRAW.first_edge(replace(ENTRY, **change), 0.2) != DRAW.first_edge(ENTRY, 0.2)  # type: ignore[arg-type]


def test_fields_do_not_run_into_each_other() -> None:
    first = replace(ENTRY, submission="ab", validation_set="c")
    second = replace(ENTRY, submission="a", validation_set="bc")
    assert DRAW.first_edge(first, 1) != DRAW.first_edge(second, 1)


def test_edges_are_spread_evenly_and_lie_on_the_grid() -> None:
    edges = [DRAW.first_edge(replace(ENTRY, submission=str(k)), 0.05) for k in range(4_000)]
    assert all(0 <= edge < Fraction(1, 20) for edge in edges)
    assert all((edge * 20 * DRAWS).denominator == 1 for edge in edges)
    found = Counter(int(edge * 20 * 40) for edge in edges)
    assert stats.chisquare([found[k] for k in range(40)]).pvalue > 1e-4


def test_the_secret_shows_nowhere() -> None:
    assert SECRET.hex() not in repr(DRAW) + DRAW.commitment
    assert repr(SECRET) not in repr(DRAW)
    assert Draws(bytes(32)).commitment != DRAW.commitment


def test_what_is_published_draws_the_same_edges() -> None:
    again = read_draws(DRAW.published())
    assert again == DRAW
    for wrong in (None, 7, "", "ab", SECRET.hex()[:-2], "g" * 64, SECRET.hex() + "\n"):
        assert read_draws(wrong) is None


def test_every_sealed_file_has_a_secret_of_its_own(
    table: pa.Table, seal_it: Seal, meter_key: Identity, tmp_path: Path
) -> None:
    """Sealed again, the same rows get other edges; neither manifest nor bytes tell which."""
    manifests = [seal_it(table, tmp_path / name) for name in ("a", "b")]
    with opened(tmp_path / "a", meter_key) as first, opened(tmp_path / "b", meter_key) as second:
        assert first.draws.commitment != second.draws.commitment
        with first.grant().open() as elsewhere:
            assert elsewhere.draws == first.draws
        secret = first.draws.published()
        assert secret not in str(manifests[0].to_dict()) + repr(first) + repr(first.grant())
    assert secret.encode() not in (tmp_path / "a").read_bytes()
    assert bytes.fromhex(secret) not in (tmp_path / "a").read_bytes()


def test_a_file_sealed_before_has_none(
    table: pa.Table, seal_it: Seal, meter_key: Identity, tmp_path: Path
) -> None:
    with mock.patch.object(Draws, "published", return_value=None):
        seal_it(table, tmp_path / "old")
    with opened(tmp_path / "old", meter_key) as sealed:
        assert sealed.labels(0).to_pylist()[:3] == ["cat", "dog", "bird"]
        with pytest.raises(InvalidInput, match=r"without the secret .* seal the rows again") as no:
            _ = sealed.draws
    assert "\n" not in str(no.value)
