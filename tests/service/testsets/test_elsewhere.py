"""Rows of another meter on the same server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.service.helpers import rows, small_spec
from tests.service.sites import Room, make_room, make_site

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.people import Role
from easeml_meter.errors import InvalidInput, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.service import seats
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.journal import reconcile
from easeml_meter.service.meters import create_meter
from easeml_meter.service.testsets import delivery
from easeml_meter.service.users import add_user
from easeml_meter.storage.files import Files
from easeml_meter.vault import likeness


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """A meter on a server, with an active test set."""
    site = make_site(tmp_path / "site", f"sqlite:///{tmp_path}/site.db")
    return make_room(site, tmp_path / "first")


def offered(room: Room, folder: Path, table: pa.Table, user: str = "") -> Meter:
    """Offer rows to a second meter of the server."""
    second = Meter(room.site.space(create_meter(SYSTEM, room.site, small_spec(), "second").id))
    if user:
        for meter in (room.id, str(second.workspace.meter)):
            seats.add_seat(SYSTEM, room.site.space(meter), user, Role.LABELER, 0)
        second = Meter(second.workspace, Role.LABELER, user=user)
    pq.write_table(table, folder / "offered.parquet")
    second.seal(folder / "offered.parquet", folder / "offered.sealed", label="label")
    second.add_test_set(folder / "offered.sealed")
    return second


def test_nearly_the_same_rows_are_refused_and_both_chains_show_it(
    room: Room, tmp_path: Path
) -> None:
    """One row left out, a column renamed or a constant one more used to be enough."""
    table = rows(room.session.test_labels, seed=1000).slice(1)
    fresh = rows(np.array([1, 0]), seed=3)
    table = pa.concat_tables([table, fresh]).rename_columns(["key", "a", "y", "label"])
    table = table.append_column("source", pa.array(["web"] * len(table)))
    with pytest.raises(InvalidInput) as refused:
        offered(room, tmp_path, table)
    line = str(refused.value)
    assert "rows of the test set of another meter on this server" in line
    assert "small" not in line
    assert "%" not in line
    with room.site.reading() as books:
        for meter in books.meters.all():
            (link,) = [x for x in books.audit.all(meter.id) if x.event == "reuse refused"]
            assert link.details == {"generation": 1}
            assert books.testsets.all(meter.id)[-1].phase is (
                Phase.ACTIVE if meter.id == room.id else Phase.REQUESTED
            )


def test_a_labeler_of_both_is_told_which_meter_and_how_much(room: Room, tmp_path: Path) -> None:
    user = add_user(SYSTEM, room.site, "ann", password="a long password")  # noqa: S106
    old = rows(room.session.test_labels, seed=1000).slice(1)
    table = pa.concat_tables([old, rows(np.array([1, 0]), seed=3)])
    with pytest.raises(InvalidInput, match=r"test set 1 of the meter 'small' \(97.1 % of them\)"):
        offered(room, tmp_path, table, user.id)


def test_fresh_rows_are_taken(room: Room, tmp_path: Path) -> None:
    table = rows(room.session.test_labels, seed=4)
    assert offered(room, tmp_path, table).generations[-1].phase is Phase.ACTIVE
    events = [link.event for link in room.meter.audit().links]
    assert "reuse refused" not in events


def test_rows_that_another_meter_still_uses_are_not_released(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both test sets may be older than the comparison."""
    with monkeypatch.context() as before:
        before.setattr("easeml_meter.service.testsets.elsewhere.LARGEST_SHARE", 1.0)
        offered(room, tmp_path, rows(room.session.test_labels, seed=1000).slice(0, 36))
    for step in range(4):
        room.submit(0, model=str(step))
    with pytest.raises(WrongPhase, match=r"another meter on this server.* when that one is spent"):
        room.meter.release()
    assert likeness.LARGEST_SHARE < 1
    assert room.meter.generations[0].phase is Phase.SPENT


@pytest.mark.parametrize("same", [True, False])
def test_two_meters_that_are_given_the_same_rows_at_once(
    tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    """Each was compared with what had arrived, and neither had: both were taken."""
    with (
        closing(make_site(tmp_path / "site", database)) as here,
        closing(make_site(tmp_path / "site", database)) as there,
    ):
        made = [create_meter(SYSTEM, here, small_spec(), name).id for name in ("first", "second")]
        first, second = Meter(here.space(made[0])), Meter(there.space(made[1]))
        labels = np.random.default_rng(0).integers(0, 2, first.plan.labels + 1)
        for start, meter in enumerate((first, second)):
            table = rows(labels, seed=1000 + (0 if same else start))
            pq.write_table(table.slice(start, first.plan.labels), tmp_path / "plain.parquet")
            meter.seal(tmp_path / "plain.parquet", tmp_path / f"{start}.sealed", label="label")
        refused: list[Exception] = []

        def deliver_second() -> None:
            try:
                second.add_test_set(tmp_path / "1.sealed")
            except InvalidInput as error:
                refused.append(error)

        rival = threading.Thread(target=deliver_second)

        def entering(*arguments: Any) -> Any:
            """Let the second one come while the first is entered, and not yet committed."""
            monkeypatch.setattr(delivery, "reconcile", reconcile)
            rival.start()
            rival.join(timeout=2)
            return reconcile(*arguments)

        monkeypatch.setattr(delivery, "reconcile", entering)
        first.add_test_set(tmp_path / "0.sealed")
        rival.join()
        phases = [each.generations[-1].phase for each in (first, second)]
        assert phases == [Phase.ACTIVE, Phase.REQUESTED if same else Phase.ACTIVE]
        events = [[link.event for link in each.audit().links] for each in (first, second)]
        assert [each.count("reuse refused") for each in events] == ([1, 1] if same else [0, 0])
    lines = ["rows of the test set of another meter on this server" in str(e) for e in refused]
    assert lines == ([True] if same else [])


class Interrupted:
    """The notes of who owns which test set; something else happens just after the first look."""

    def __init__(self, files: Files, meanwhile: Callable[[], object]) -> None:
        self._files = files
        self._meanwhile = [meanwhile]

    def exists(self, name: str) -> bool:
        found = self._files.exists(name)
        while self._meanwhile:
            self._meanwhile.pop()()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def test_the_note_names_the_meter_that_got_the_rows(tmp_path: Path) -> None:
    """It named the one that was refused, and the owner's backup could not be restored."""
    site = make_site(tmp_path / "site", f"sqlite:///{tmp_path}/site.db")
    spaces = [
        site.space(create_meter(SYSTEM, site, small_spec(), name).id) for name in ("one", "two")
    ]
    pq.write_table(
        rows(np.arange(Meter(spaces[0]).plan.labels) % 2, seed=1000), tmp_path / "plain.parquet"
    )
    for number, space in enumerate(spaces):
        sealed = tmp_path / f"{number}.sealed"
        Meter(space).seal(tmp_path / "plain.parquet", sealed, label="label")
    assert spaces[0].claims is not None
    claims: Any = Interrupted(
        spaces[0].claims, lambda: Meter(spaces[1]).add_test_set(tmp_path / "1.sealed")
    )
    with pytest.raises(InvalidInput, match="another meter on this server"):
        Meter(replace(spaces[0], claims=claims)).add_test_set(tmp_path / "0.sealed")
    owner = Meter(spaces[1]).generations[-1]
    assert owner.phase is Phase.ACTIVE
    assert claims.read(str(owner.fingerprint)).decode() == spaces[1].meter
