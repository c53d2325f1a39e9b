"""A site whose files lie under a URL, on both databases: the whole loop, and what outlives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import Session, deliver, rows, small_spec

from easeml_meter.meter import Meter
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Site
from easeml_meter.storage import schema


class Remote:
    """A site with one meter in use; `meter` can be opened by any number of processes."""

    def __init__(self, database: str, url: str, folder: Path) -> None:
        self.place = (database, url, folder / "server.key")
        self.site = Site.open(*self.place)
        self.id = create_meter(SYSTEM, self.site, small_spec(), "remote").id
        meter = self.meter()
        test = np.random.default_rng(0).integers(0, 2, meter.plan.labels)
        validation = np.random.default_rng(99).integers(0, 2, 20)
        pq.write_table(rows(validation, seed=7), folder / "validation.parquet")
        meter.set_validation(folder / "validation.parquet", label="label")
        deliver(meter, folder, test, seed=0)
        self.session = Session(folder, meter, test, validation)

    def meter(self) -> Meter:
        return Meter(self.site.space(self.id))


@pytest.fixture
def remote(database: str, s3_url: str, tmp_path: Path) -> Iterator[Remote]:
    made = Remote(database, s3_url, tmp_path)
    yield made
    made.site.close()


def test_the_whole_loop(remote: Remote) -> None:
    session = remote.session
    told = [session.submit(errors, 0, model=str(errors)) for errors in (0, 5, 9, 2)]
    assert [signal.step for signal in told] == [1, 2, 3, 4]
    assert session.submit(5, 0, model="5").repeated
    files = remote.site.files.under(f"meters/{remote.id}")
    assert len([name for name in files.names("testsets") if name.endswith(".sealed")]) == 1
    assert len(files.names("predictions")) == 4
    session.meter.release()
    assert "testset.parquet" in files.names("released/1")
    with files.local("released/1/testset.parquet") as path:
        assert pq.read_table(path)["label"].to_pylist() == session.test_labels.tolist()
    assert session.meter.audit().problems == ()


def test_entries_that_the_books_lost_come_back_from_the_journal(remote: Remote) -> None:
    remote.session.submit(0, 0, model="a")
    remote.session.submit(5, 0, model="b")
    with remote.site.writing() as books:
        table = schema.entries
        books.connection.execute(table.delete().where(table.c.step == 2))
    # Another process, which has fetched nothing yet.
    site = Site.open(*remote.place)
    remote.session.meter = Meter(site.space(remote.id))
    assert any("an older copy" in problem for problem in remote.session.meter.audit().problems)
    assert remote.session.submit(9, 0, model="c").step == 3
    site.close()
