"""Rows that come again: every earlier set is compared, and labelers decide what ids leave open."""

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
from tests.service import demand
from tests.service.helpers import Session, make_session, rows, small_spec
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
from easeml_meter.tables.writing import write_table
from easeml_meter.vault.overlap import LARGEST_SHARE


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
@pytest.mark.parametrize("at_a_server", [True, False])
def test_rows_of_a_replaced_validation_set_are_refused_at_a_server(
    tmp_path: Path, ending: str, at_a_server: bool
) -> None:
    """In a folder only the one in force counts: whoever owns it has seen all rows anyway."""
    if at_a_server:
        site = make_site(tmp_path / "site", f"sqlite:///{tmp_path / 'db'}")
        spent = make_room(site, tmp_path / "room").session
    else:
        spent = make_session(tmp_path)
    spent.meter.retire()
    seen = with_ids(rows(np.zeros(20, dtype=np.int64), seed=30), 2000)
    for name, table in (("seen", seen), ("next", with_ids(rows(np.ones(20, int), seed=31), 3000))):
        write_table(tmp_path / f"{name}{ending}", table.schema, table.to_batches())
        spent.meter.replace_validation(tmp_path / f"{name}{ending}")
    fresh = with_ids(rows(spent.test_labels, seed=32), 5000)
    path = sealed(spent, pa.concat_tables([fresh, seen.slice(4, 2)]), "seen")
    if not at_a_server:
        assert spent.meter.add_test_set(path).phase is Phase.ACTIVE
        return
    with pytest.raises(InvalidInput, match=r"stand in validation set 2 under the same id"):
        spent.meter.add_test_set(path)


def test_inputs_that_stand_in_every_sample_are_no_evidence(spent: Session) -> None:
    """With a sex for an input, or a stratum alone, 400 of 400 fresh rows were refused."""
    for number, seed in enumerate((1, 2)):
        count = len(spent.test_labels)
        few = np.random.default_rng(seed).choice([0.0, 1.0], count)
        ids = np.arange(count) + 1000 * (number + 1)
        table = pa.table({"id": ids, "x": few, "y": few, "label": spent.test_labels})
        if number:
            spent.meter.add_test_set(sealed(spent, table, "few"))
        else:
            spent.meter.replace_validation(table)


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


@pytest.mark.parametrize(("start", "step", "taken"), [(0, 1, True), (5000, 1, True), (0, 7, False)])
def test_rows_of_two_meters_that_are_merely_numbered_alike_are_not_the_same(
    tmp_path: Path, start: int, step: int, taken: bool
) -> None:
    """Sealed for labels on demand with its ids alone, the second set was refused as used."""
    site = make_site(tmp_path, f"sqlite:///{tmp_path / 'db'}")
    for number in range(2):
        made = create_meter(SYSTEM, site, demand.spec_of(), "on demand").id
        meter, path = Meter(site.space(made)), tmp_path / f"{number}.sealed"
        ids = start + step * np.arange(meter.requests()[0].test_set.labels_needed)
        pq.write_table(pa.table({"id": ids, "x": ids + number}), path.with_suffix(".parquet"))
        meter.seal(path.with_suffix(".parquet"), path, id_column="id")
        if number and not taken:
            with pytest.raises(InvalidInput, match="of another meter on this server"):
                meter.add_test_set(path)
        else:
            assert meter.add_test_set(path).active


def test_rows_that_another_meter_still_uses_are_not_released(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both test sets may be older than the comparison."""
    with monkeypatch.context() as before:
        before.setattr("easeml_meter.service.testsets.reuse.LARGEST_SHARE", 1.0)
        offered(room, tmp_path, rows(room.session.test_labels, seed=1000).slice(0, 36))
    for step in range(4):
        room.submit(0, model=str(step))
    with pytest.raises(WrongPhase, match=r"another meter on this server.* when that one is spent"):
        room.meter.release()
    assert LARGEST_SHARE < 1
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
