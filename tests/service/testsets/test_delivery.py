"""Delivery: sealing from a file or from memory, and what a test set may not hold."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Clock, make_session, rows, small_spec
from tests.service.sites import make_room, make_site

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied, InvalidInput
from easeml_meter.meter import Meter
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets import delivery
from easeml_meter.tables.source import Held

LABELER = Actor.embedded(Role.LABELER)


def test_refusals_name_rows_by_number(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    n = meter.plan.labels
    labels = np.random.default_rng(0).integers(0, 2, n)
    good = rows(labels, seed=1)
    pq.write_table(rows(labels[:20], seed=7), tmp_path / "validation.parquet")
    meter.set_validation(tmp_path / "validation.parquet", label="label")
    validation = pq.read_table(tmp_path / "validation.parquet")
    cases = {
        "too few": (good.slice(0, n - 1), "too few"),
        "twice": (pa.concat_tables([good, good.slice(4, 1)]), f"rows {n + 1} "),
        "shared": (pa.concat_tables([good, validation.slice(2, 1)]), f"rows {n + 1} "),
        "class": (good.set_column(3, "label", pa.array([7, *labels[1:].tolist()])), "row 1"),
    }
    for name, (table, message) in cases.items():
        pq.write_table(table, tmp_path / "plain.parquet")
        sealed = tmp_path / f"{name}.sealed"
        meter.seal(tmp_path / "plain.parquet", sealed, label="label", id_column="id")
        with pytest.raises(InvalidInput, match=message) as refused:
            meter.add_test_set(sealed)
        assert "\n" not in str(refused.value)
        assert meter.generations[-1].phase is Phase.REQUESTED
    missing = good.set_column(3, "label", pa.array([None, *labels[1:].tolist()]))
    pq.write_table(missing, tmp_path / "plain.parquet")
    with pytest.raises(InvalidInput, match="1"):
        meter.seal(tmp_path / "plain.parquet", tmp_path / "m.sealed", label="label")


def test_a_later_test_set_must_look_like_the_first_and_be_fresh(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for step in range(4):
        session.submit(0, 0, model=str(step))
    session.meter.release()
    old = rows(session.test_labels, seed=1000)
    other = old.rename_columns(["id", "x", "z", "label"])
    for table, message in ((other, "column"), (old, "released")):
        pq.write_table(table, tmp_path / "plain.parquet")
        sealed = tmp_path / f"{message}.sealed"
        session.meter.seal(tmp_path / "plain.parquet", sealed, label="label", id_column="id")
        with pytest.raises(InvalidInput, match=message):
            session.meter.add_test_set(sealed)


def test_rows_are_sealed_from_memory(tmp_path: Path) -> None:
    meter = Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    space = Workspace.open(tmp_path / "meter", Clock())
    table = rows(np.random.default_rng(0).integers(0, 2, meter.plan.labels), seed=1)
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out)
    sealed = tmp_path / "labels.sealed"
    held = Held("labels.csv", out.getvalue())
    manifest = delivery.seal_labels(LABELER, space, held, sealed, label="label", id_column="id")
    assert manifest.rows == len(table)
    with open_sealed(space, meter.generations[-1], sealed) as opened:
        assert pa.Table.from_batches(opened.batches()).to_pydict() == table.to_pydict()
    assert delivery.add_test_set(LABELER, space, sealed).phase is Phase.ACTIVE
    with pytest.raises(Denied, match="developers may not seal"):
        delivery.seal_labels(Actor.embedded(Role.DEVELOPER), space, held, sealed, label="label")


def test_the_same_rows_count_at_one_meter_of_a_server(tmp_path: Path) -> None:
    """Also where the books that knew the other meter are lost: the claim lies with the files."""
    site = make_site(tmp_path / "site", f"sqlite:///{tmp_path}/first.db")
    make_room(site, tmp_path / "first")
    with pytest.raises(InvalidInput, match="test set of another meter on this server"):
        make_room(site, tmp_path / "second", name="second")
    site.close()
    lost = make_site(tmp_path / "site", f"sqlite:///{tmp_path}/other.db")
    with pytest.raises(InvalidInput, match="test set of another meter on this server"):
        make_room(lost, tmp_path / "third", name="third")
    lost.close()
