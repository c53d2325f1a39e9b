"""Rows that come again: every earlier set is compared, and labelers decide what ids leave open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Session, make_session, rows

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.tables.table_file import write_table


@pytest.fixture
def spent(tmp_path: Path) -> Session:
    """A meter whose first test set is spent, not released, and whose next one is requested."""
    session = make_session(tmp_path)
    for step in range(4):
        session.submit(0, 0, model=str(step))
    return session


def first(session: Session) -> pa.Table:
    """Return the rows of the first test set."""
    return rows(session.test_labels, seed=1000)


def sealed(session: Session, table: pa.Table, name: str) -> Path:
    """Seal rows for the next test set."""
    path = session.folder / f"{name}.sealed"
    pq.write_table(table, path.with_suffix(".parquet"))
    session.meter.seal(path.with_suffix(".parquet"), path, label="label", id_column="id")
    return path


def with_ids(table: pa.Table, start: int) -> pa.Table:
    """Number rows again."""
    return table.set_column(0, "id", pa.array(np.arange(start, start + len(table))))


def test_a_spent_set_with_one_row_exchanged_is_refused(spent: Session) -> None:
    """Then `release` of the first set published the labels of the second."""
    fresh = with_ids(rows(np.array([1]), seed=5), 10_000)
    table = pa.concat_tables([first(spent).slice(1), fresh])
    with pytest.raises(InvalidInput, match=r"rows 1, 2, .* stand in test set 1 under the same id"):
        spent.meter.add_test_set(
            sealed(spent, table, "again"), ids_renumbered=True, accept_shared=True
        )
    # Under other ids they may be other examples: the labeler sees how many, and decides.
    share = rf"{len(table) - 1} of {len(table)} rows \(9[0-9.]+ %\) in test set 1"
    with pytest.raises(InvalidInput, match=share):
        spent.meter.add_test_set(sealed(spent, with_ids(table, 500), "renamed"))
    assert spent.meter.generations[-1].phase is Phase.REQUESTED


def test_ids_with_other_inputs_are_numbered_again_if_the_labeler_says_so(spent: Session) -> None:
    path = sealed(spent, rows(spent.test_labels, seed=77), "renumbered")
    count = len(spent.test_labels)
    asked = rf"{count} in test set 1, 20 in validation set 1: .* --ids-renumbered"
    with pytest.raises(InvalidInput, match=asked):
        spent.meter.add_test_set(path)
    assert spent.meter.add_test_set(path, ids_renumbered=True).phase is Phase.ACTIVE
    told = {each["test_set"]: each for each in spent.meter.notices() if each["generation"] == 2}
    assert told[1]["ids_renumbered"] == count
    assert told[1]["sentence"] == (
        f"test set 1 shares 0 rows with test set 2, and {count} ids with other inputs"
    )


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
def test_rows_of_a_replaced_validation_set_are_refused(
    spent: Session, tmp_path: Path, ending: str
) -> None:
    """Only the validation set in force was compared."""
    seen = with_ids(rows(np.zeros(20, dtype=np.int64), seed=30), 2000)
    for name, table in (("seen", seen), ("next", with_ids(rows(np.ones(20, int), seed=31), 3000))):
        write_table(tmp_path / f"{name}{ending}", table.schema, table.to_batches())
        spent.meter.replace_validation(tmp_path / f"{name}{ending}")
    fresh = with_ids(rows(spent.test_labels, seed=32), 5000)
    table = pa.concat_tables([fresh, seen.slice(4, 2)])
    with pytest.raises(InvalidInput, match=r"stand in validation set 2 under the same id"):
        spent.meter.add_test_set(sealed(spent, table, "seen"))


def test_ids_alone_identify_rows_that_have_no_inputs_in_common(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for step in range(4):
        session.submit(0, 0, model=str(step))
    only_ids = pa.table({"id": np.arange(9000, 9020), "label": np.zeros(20, dtype=np.int64)})
    pq.write_table(only_ids, tmp_path / "ids.parquet")
    session.meter.replace_validation(tmp_path / "ids.parquet")
    table = with_ids(rows(session.test_labels, seed=40), 9010)
    with pytest.raises(InvalidInput, match=r"rows 1, .* stand in validation set 2 under the same"):
        session.meter.add_test_set(sealed(session, table, "ids"))


def test_developers_see_a_digest_of_what_labelers_were_told(spent: Session) -> None:
    spent.meter.add_test_set(
        sealed(spent, rows(spent.test_labels, seed=78), "next"), ids_renumbered=True
    )
    link = [each for each in spent.meter.audit().links if each.event == "test set added"][-1]
    assert set(link.details) == {"generation", "rows", "digest"}
    with Meter.open(spent.folder / "meter", role=Role.DEVELOPER) as meter:
        assert link in meter.audit().links
