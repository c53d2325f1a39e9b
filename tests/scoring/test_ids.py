"""The rows of a file are joined to the ids of a set: in any order, or refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scoring.examples import ANIMALS, DIGITS, FORMATS, expected, untouchable, write

from easeml_meter.errors import InvalidInput
from easeml_meter.scoring import ids as module
from easeml_meter.scoring import predictions
from easeml_meter.scoring.ids import CommittedIds, Joined, RowMatching, match
from easeml_meter.scoring.outputs import Expected
from easeml_meter.scoring.predictions import Accepted, Predictions
from easeml_meter.scoring.score import score

TABLES = tuple(ending for ending in FORMATS if ending != ".npy")
IDS = [101, 7, 42, 9, 3]


def committed(ids: list[Any], *, told: bool = True) -> CommittedIds:
    """Commit to ids, which then come in two arrays."""
    whole = pa.array(ids)
    arrays = [whole.slice(0, 2), whole.slice(2)]
    found = CommittedIds.of("the test set", "id", lambda: arrays)
    return CommittedIds(found.owner, found.column, found.digest, found.read, told)


def opened(path: Path, needed: Expected, ids: CommittedIds | None, **matching: Any) -> Predictions:
    return Predictions.open(path, expected=needed, ids=ids, matching=RowMatching(**matching))


def values(found: Predictions) -> Any:
    half = found.rows // 2
    return np.concatenate(list(found.batches([half, found.rows - half]))).tolist()


def refusal(path: Path, needed: Expected, ids: CommittedIds | None, **matching: Any) -> str:
    """Return the one line that a file is refused with, before a label is touched."""
    with pytest.raises(InvalidInput) as refused:
        score(opened(path, needed, ids, **matching), untouchable())
    line = str(refused.value)
    assert "\n" not in line
    return line


@pytest.fixture(params=[True, False], ids=["kept", "read again"])
def _kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(predictions, "KEEP_BYTES", 0)
        monkeypatch.setattr(predictions, "_TAKEN_ROWS", 2)


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("ending", TABLES)
class TestAnyOrder:
    NEEDED = expected(5, "0-1", DIGITS)

    def test_rows_come_in_any_order(self, tmp_path: Path, ending: str) -> None:
        for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
            columns = {"id": [IDS[at] for at in order], "prediction": order}
            found = opened(write(tmp_path / f"p{ending}", columns), self.NEEDED, committed(IDS))
            assert values(found) == [0, 1, 2, 3, 4]
            assert found.joined == Joined(rows=5, matched=5, missing=0)
            assert (found.joined.places is None) == (order == [0, 1, 2, 3, 4])

    def test_ids_with_leading_zeros_stay_text(self, tmp_path: Path, ending: str) -> None:
        columns = {"id": ["7", "007", "07"], "prediction": [1, 2, 3]}
        path = write(tmp_path / f"p{ending}", columns)
        ids, needed = committed(["007", "07", "7"]), expected(3, "0-1", DIGITS)
        assert values(opened(path, needed, ids)) == [2, 3, 1]

    def test_scores_move_with_their_ids(self, tmp_path: Path, ending: str) -> None:
        columns = {
            "probability_owl": [0.0, 0.25],
            "probability_cat": [0.5, 0.75],
            "probability_dog": [0.5, 0.0],
            "id": ["b", "a"],
        }
        path = write(tmp_path / f"p{ending}", columns)
        found = opened(path, expected(2, "brier", ANIMALS), committed(["a", "b"]))
        assert values(found) == [[0.75, 0.0, 0.25], [0.5, 0.5, 0.0]]

    def test_what_is_kept_for_later_is_in_the_order_of_the_set(
        self, tmp_path: Path, ending: str
    ) -> None:
        columns = {"id": IDS[::-1], "prediction": [4, 3, 2, 1, 0], "other": [0, 0, 0, 0, 0]}
        found = opened(write(tmp_path / f"p{ending}", columns), self.NEEDED, committed(IDS))
        kept = Accepted.of_bytes(found.to_bytes(), self.NEEDED)
        assert kept.values.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("loss", ["0-1", "top-2", "absolute[0,9]", "squared[0,9]", "brier"])
def test_json_lines_with_whole_numbers_as_ids_work_for_every_loss(
    tmp_path: Path, loss: str
) -> None:
    """Whole numbers were read as floats where the loss asks for numbers, and refused as ids."""
    large = 2**53 + 1
    row = {"top-2": "[1, 2]", "brier": "[" + ", ".join(["0.1"] * 10) + "]"}.get(loss, "1")
    path = tmp_path / "p.jsonl"
    path.write_text(f'{{"id": 2, "prediction": {row}}}\n{{"id": {large}, "prediction": {row}}}\n')
    found = opened(path, expected(2, loss, DIGITS), committed([large, 2]))
    assert found.joined == Joined(2, 2, 0)


# --- Refusals ---


def test_missing_and_unknown_ids_are_named_the_first_ten_and_a_count(tmp_path: Path) -> None:
    wanted = [f"w{number:02}" for number in range(30)]
    path = write(tmp_path / "p.csv", {"id": wanted[:3], "prediction": [1, 2, 3]})
    line = refusal(path, expected(30, "0-1", DIGITS), committed(wanted))
    assert "'w03', 'w04'" in line
    assert "'w12' and 17 more (27 in all)" in line
    assert "'w13'" not in line
    path = write(tmp_path / "q.csv", {"id": [*wanted[1:], "x"], "prediction": [1] * 30})
    line = refusal(path, expected(30, "0-1", DIGITS), committed(wanted))
    assert "ids of the test set without a row: 'w00'; ids that are not in the test set: 'x'" in line


@pytest.mark.parametrize("extra", [["a", "a", "b"], ["a", "b", "b", "c"], ["a", "b", "c", "c"]])
def test_repeated_ids_are_an_error(tmp_path: Path, extra: list[str]) -> None:
    path = write(tmp_path / "p.csv", {"id": extra, "prediction": [1] * len(extra)})
    line = refusal(path, expected(3, "0-1", DIGITS), committed(["a", "b", "c"]))
    twice = next(each for each in extra if extra.count(each) > 1)
    assert f"more than once: '{twice}': give one row for each id" in line


def test_the_ids_of_a_set_are_distinct_and_all_there() -> None:
    with pytest.raises(InvalidInput, match="more than once: 'a', 'b'"):
        committed(["a", "b", "c", "b", "a"])
    with pytest.raises(InvalidInput, match="one is missing"):
        committed(["a", None])


@pytest.mark.parametrize("ending", FORMATS)
def test_predictions_without_ids_need_the_word_that_they_are_in_order(
    tmp_path: Path, ending: str
) -> None:
    """They were taken and charged, in whatever order they were."""
    needed, ids = expected(5, "0-1", DIGITS), committed(IDS)
    path = write(tmp_path / f"p{ending}", {"prediction": [0, 1, 2, 3, 4]})
    line = refusal(path, needed, ids)
    assert "no column 'id'" in line
    assert "--id" in line
    assert "--no-ids" in line
    found = opened(path, needed, ids, in_order=True)
    assert values(found) == [0, 1, 2, 3, 4]
    assert found.joined == Joined(rows=5, matched=None)
    assert values(opened(path, needed, None)) == [0, 1, 2, 3, 4]


def test_relying_on_the_order_does_not_look_at_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "p.csv", {"id": [1, 1], "prediction": [3, 4]})
    found = opened(path, expected(2, "0-1", DIGITS), committed([5, 6]), in_order=True)
    assert values(found) == [3, 4]


def test_an_id_column_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    """It was ignored."""
    columns = {"id": [1, 2], "key": [2, 1], "prediction": [3, 4]}
    path, needed, ids = write(tmp_path / "p.csv", columns), expected(2, "0-1", DIGITS), [1, 2]
    assert values(opened(path, needed, committed(ids), id_column="key")) == [4, 3]
    line = refusal(path, needed, committed(ids), id_column="customer")
    assert "no column 'customer' (there are 'id', 'key', 'prediction')" in line
    with pytest.raises(InvalidInput, match="order of the rows is relied on"):
        RowMatching(id_column="key", in_order=True)


def test_who_may_not_see_the_inputs_is_told_nothing_of_ids(tmp_path: Path) -> None:
    """One sentence for all that is wrong, and committed ids are not even read."""

    def unreadable() -> Iterator[Any]:
        raise AssertionError("hidden ids were read")
        yield

    hidden = committed(IDS, told=False)
    hidden = CommittedIds(hidden.owner, hidden.column, hidden.digest, unreadable, told=False)
    needed = expected(5, "0-1", DIGITS)
    lines = set()
    for ids in (IDS[::-1], [*IDS[:4], 8], [1, 2, 3, 4, 5], [7, 7, 7, 7, 7]):
        path = write(tmp_path / "p.csv", {"id": ids, "prediction": [1] * 5})
        lines.add(refusal(path, needed, hidden))
    assert len(lines) == 1
    assert "the ids do not fit the test set" in (line := lines.pop())
    assert "a runner or a model is needed" in line
    path = write(tmp_path / "p.csv", {"id": IDS, "prediction": [1] * 5})
    assert opened(path, needed, hidden).joined == Joined(5, 5)


# --- Matching texts ---


def test_matching_is_that_of_a_dictionary() -> None:
    random = np.random.default_rng(0)
    for size in (0, 1, 2, 100, 70_000):
        texts = [f"{number}-{'x' * (number % 40)}" for number in range(size)]
        order = random.permutation(size)
        given_ids = [texts[at] for at in order[: size - size // 10]] + ["stranger"]
        wanted, array = pa.array(texts, pa.large_string()), pa.array(given_ids, pa.large_string())
        known = {text: place for place, text in enumerate(given_ids)}
        pieces = [wanted.slice(0, size // 3), wanted.slice(size // 3)]
        assert match(pieces, array).tolist() == [known.get(text, -1) for text in texts]


@given(st.lists(st.text(max_size=20)), st.lists(st.text(max_size=20)))
def test_any_texts_match_where_they_stand(wanted: list[str], present: list[str]) -> None:
    pool = present + wanted[::2]
    found = match([pa.array(wanted, pa.large_string())], pa.array(pool, pa.large_string()))
    for text, place in zip(wanted, found.tolist(), strict=True):
        assert (pool[place] == text) if place >= 0 else (text not in pool)


@given(st.lists(st.sampled_from(["", "a", "b", "ab", "abcdefgh", "abcdefghi"]), max_size=8))
def test_collisions_of_hashes_change_nothing(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_hashes", lambda array, key: np.zeros(len(array), np.uint64))
        wanted = pa.array(["abcdefgh", "a", "", "none"], pa.large_string())
        found = match([wanted], pa.array(texts, pa.large_string()))
    for text, place in zip(wanted.to_pylist(), found.tolist(), strict=True):
        assert (texts[place] == text) if place >= 0 else (text not in texts)
