"""Parts: labels that come bit by bit, from files or from a browser, and are taken back."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.properties.test_races_in_a_folder import before
from tests.service.helpers import Clock, rows, small_spec

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import LabelRequest
from easeml_meter.core.people import Role
from easeml_meter.errors import Denied, InvalidInput, MeterError, NotFound, VaultError, WrongPhase
from easeml_meter.meter import Meter
from easeml_meter.service.actor import Actor
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets import delivery, parts, requests
from easeml_meter.service.testsets.reuse import LabelerDecisions
from easeml_meter.vault.keys import Identity, wrap

LABELER = Actor(((Role.LABELER, 0),), user="labeler")
TABLE = rows(np.random.default_rng(5).integers(0, 2, 40), seed=5)


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    Meter.create(tmp_path / "meter", small_spec(), clock=Clock())
    return Workspace.open(tmp_path / "meter", Clock())


def sealed(space: Workspace, folder: Path, start: int, size: int) -> Path:
    """Seal some rows."""
    plain, path = folder / f"{start}.parquet", folder / f"{start}.sealed"
    pq.write_table(TABLE.slice(start, size), plain)
    choices = delivery.Choices(label="label", id_column="id", part=True)
    delivery.seal_labels(LABELER, space, plain, path, choices)
    return path


def encrypted(recipient: str, start: int, size: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(TABLE.slice(start, size), out)
    return wrap(out.getvalue(), [recipient])


def test_the_request_says_what_is_here(space: Workspace, tmp_path: Path) -> None:
    first = parts.add_labels(LABELER, space, sealed(space, tmp_path, 0, 10))
    assert (first.test_set.phase, first.labels_here) == (Phase.REQUESTED, 10)
    assert requests.list_requests(LABELER, space) == [first]
    assert [part.added_by for part in first.parts] == ["labeler"]
    last = parts.add_labels(LABELER, space, sealed(space, tmp_path, 10, 30))
    assert (last.test_set.phase, last.test_set.rows, last.labels_here) == (Phase.ACTIVE, 40, 40)
    assert not space.files.names("parts")
    with pytest.raises(WrongPhase, match="its labels have already arrived"):
        parts.withdraw_part(LABELER, space, 1, 1)


def test_a_whole_set_may_be_given_as_a_part(space: Workspace, tmp_path: Path) -> None:
    assert parts.add_labels(LABELER, space, sealed(space, tmp_path, 0, 40), part=True).test_set.rows


@pytest.mark.parametrize("last", [10, 20])
def test_fewer_rows_than_planned_are_all_there_are(
    space: Workspace, tmp_path: Path, last: int
) -> None:
    files = [sealed(space, tmp_path, start, 10) for start in (0, 10, 20)]
    for file in files[:2]:
        assert parts.add_labels(LABELER, space, file).test_set.phase is Phase.REQUESTED
    decided = LabelerDecisions(accept_fewer=True)  # of a further file, or of the last one again
    whole = parts.add_labels(LABELER, space, files[last // 10], decided)
    assert (whole.test_set.phase, whole.test_set.rows) == (Phase.ACTIVE, last + 10)
    assert not space.files.names("parts")


def test_a_part_is_withdrawn(space: Workspace, tmp_path: Path) -> None:
    for start in (0, 5):
        parts.add_labels(LABELER, space, sealed(space, tmp_path, start, 5))
    parts.withdraw_part(LABELER, space, 1, 1)
    (request,) = requests.list_requests(LABELER, space)
    assert [(part.number, part.rows) for part in request.parts] == [(2, 5)]
    assert len(space.files.names("parts")) == 1
    for generation, number in ((1, 1), (2, 2)):
        with pytest.raises(NotFound):
            parts.withdraw_part(LABELER, space, generation, number)
    with pytest.raises(Denied):
        parts.withdraw_part(Actor.embedded(Role.DEVELOPER), space, 1, 2)


def test_a_part_is_refused_if_another_came_meanwhile(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not compared with the other one: the two could share rows."""
    paths = [sealed(space, tmp_path, start, 5) for start in (0, 3)]
    before(monkeypatch, parts, "copy_into", lambda: parts.add_labels(LABELER, space, paths[1]))
    with pytest.raises(MeterError, match="meanwhile: try again"):
        parts.add_labels(LABELER, space, paths[0])
    (request,) = requests.list_requests(LABELER, space)
    assert request.labels_here == 5


def test_a_part_is_refused_if_one_took_the_place_of_another_meanwhile(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many parts as before are not the same parts."""
    paths = [sealed(space, tmp_path, start, 5) for start in (0, 5, 8)]
    parts.add_labels(LABELER, space, paths[0])

    def replaced() -> None:
        parts.withdraw_part(LABELER, space, 1, 1)
        parts.add_labels(LABELER, space, paths[1])

    before(monkeypatch, parts, "copy_into", replaced)
    with pytest.raises(MeterError, match="meanwhile: try again"):
        parts.add_labels(LABELER, space, paths[2])
    (request,) = requests.list_requests(LABELER, space)
    assert request.labels_here == 5


def test_a_part_that_was_withdrawn_meanwhile_is_in_no_test_set(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.add_labels(LABELER, space, sealed(space, tmp_path, 0, 5))
    last = sealed(space, tmp_path, 5, 35)
    before(monkeypatch, delivery, "add_test_set", lambda: parts.withdraw_part(LABELER, space, 1, 1))
    with pytest.raises(
        MeterError, match="another part was added or withdrawn meanwhile: try again"
    ):
        parts.add_labels(LABELER, space, last)
    (request,) = requests.list_requests(LABELER, space)
    assert (request.test_set.phase, request.labels_here) == (Phase.REQUESTED, 0)
    assert parts.add_labels(LABELER, space, last).labels_here == 35


@pytest.mark.parametrize(("first", "entry"), [(5, "add_test_set"), (0, "take_in")])
def test_no_part_is_dropped_that_was_added_meanwhile(
    space: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, entry: str
) -> None:
    """While the others became a test set, or a whole one came."""
    table = rows(np.random.default_rng(6).integers(0, 2, 60), seed=6)
    monkeypatch.setitem(globals(), "TABLE", table)
    if first:
        parts.add_labels(LABELER, space, sealed(space, tmp_path, 0, first))
    last, late = (sealed(space, tmp_path, *at) for at in ((first, 45 - first), (45, 5)))
    before(monkeypatch, delivery, entry, lambda: parts.add_labels(LABELER, space, late))
    with pytest.raises(
        MeterError, match="another part was added or withdrawn meanwhile: try again"
    ):
        parts.add_labels(LABELER, space, last)
    (request,) = requests.list_requests(LABELER, space)
    assert request.labels_here == first + 5
    assert len(space.files.names("parts")) == len(request.parts)
    assert parts.add_labels(LABELER, space, last).test_set.rows == 50


def test_a_part_whose_ids_are_not_named_is_told_apart(space: Workspace) -> None:
    """The same columns, once with ids: the refusal has to say what differs."""

    def give(start: int, id_column: str | None) -> None:
        sent = encrypted(space.identity.recipient, start, 5)
        choices = delivery.Choices(label="label", id_column=id_column)
        parts.add_labels_from_browser(LABELER, space, sent, choices, kind="parquet")

    give(0, None)
    with pytest.raises(InvalidInput) as refused:
        give(5, "id")
    given, needed = str(refused.value).split("as in the parts before")
    assert ("(id)" in given, "(id)" in needed) == (True, False)
    assert ("(label)" in given, "(label)" in needed) == (True, True)


def test_labels_come_from_a_browser(space: Workspace) -> None:
    key = space.identity.recipient
    choices = delivery.Choices(label="label", id_column="id")

    def give(start: int, size: int) -> LabelRequest:
        sent = encrypted(key, start, size)
        return parts.add_labels_from_browser(LABELER, space, sent, choices, kind="parquet")

    assert parts.columns_before(LABELER, space) == parts.KnownColumns("label", "")
    first = give(0, 7)
    assert first.labels_here == 7
    assert parts.columns_before(LABELER, space) == parts.KnownColumns("label", "id")
    give(7, 33)
    # The page that asks stays open to its labeler once the files of the parts are gone.
    assert parts.columns_before(LABELER, space) == parts.KnownColumns("label", "id")
    test_set = requests.show_test_set(LABELER, space, 1)
    with open_sealed(space, test_set) as opened:
        assert pa.Table.from_batches(opened.batches()).to_pydict() == TABLE.to_pydict()


def test_what_is_encrypted_to_another_key_does_not_open(space: Workspace) -> None:
    other = encrypted(Identity.new().recipient, 0, 5)
    choices = delivery.Choices(label="label")
    with pytest.raises(VaultError, match="the file cannot be opened"):
        parts.add_labels_from_browser(LABELER, space, other, choices, kind="parquet")


def test_ids_are_unique_across_parts_and_inputs_are_not(space: Workspace, tmp_path: Path) -> None:
    parts.add_labels(LABELER, space, sealed(space, tmp_path, 0, 10))
    with pytest.raises(InvalidInput, match="rows 1, 2 of the test set have ids that stand in part"):
        parts.add_labels(LABELER, space, sealed(space, tmp_path, 8, 12))
    again = TABLE.slice(0, 30).set_column(0, "id", pa.array(np.arange(100, 130)))
    pq.write_table(again, tmp_path / "again.parquet")
    choices = delivery.Choices(label="label", id_column="id")
    path = tmp_path / "again.sealed"
    delivery.seal_labels(LABELER, space, tmp_path / "again.parquet", path, choices)
    assert parts.add_labels(LABELER, space, path).test_set.rows == 40


# --- Without ids: a part that is sent twice ---


def unnamed(
    space: Workspace, folder: Path, table: pa.Table, *, columns: list[str] | None = None
) -> Path:
    """Seal rows without ids, in a file of its own each time."""
    number = len(list(folder.glob("unnamed*.sealed")))
    plain, path = folder / f"unnamed{number}.parquet", folder / f"unnamed{number}.sealed"
    pq.write_table(table.drop_columns(["id"]), plain)
    choices = delivery.Choices(label="label", columns=columns, part=True)
    delivery.seal_labels(LABELER, space, plain, path, choices)
    return path


@pytest.mark.parametrize("size", [5, 20], ids=["some", "the rest"])
def test_the_same_file_is_no_further_part(space: Workspace, tmp_path: Path, size: int) -> None:
    """As when a labeler's connection broke before the answer came."""
    path = unnamed(space, tmp_path, TABLE.slice(0, size))
    parts.add_labels(LABELER, space, path, part=True)
    with pytest.raises(InvalidInput, match="this part was added already, as part 1:"):
        parts.add_labels(LABELER, space, path, part=True)
    (request,) = requests.list_requests(LABELER, space)
    assert request.labels_here == size
    assert len(space.files.names("parts")) == 1
    rest = parts.add_labels(LABELER, space, unnamed(space, tmp_path, TABLE.slice(size)))
    assert rest.test_set.rows == TABLE.num_rows


@pytest.mark.parametrize("columns", [None, []], ids=["inputs", "labels alone"])
def test_the_same_rows_sealed_again_are_no_further_part(
    space: Workspace, tmp_path: Path, columns: list[str] | None
) -> None:
    for start in (0, 12):
        sent = unnamed(space, tmp_path, TABLE.slice(start, 12), columns=columns)
        parts.add_labels(LABELER, space, sent)
    again = unnamed(space, tmp_path, TABLE.slice(12, 12), columns=columns)
    accepted = LabelerDecisions(accept_shared=True)
    with pytest.raises(InvalidInput, match="this part was added already, as part 2:"):
        parts.add_labels(LABELER, space, again, accepted)
    (request,) = requests.list_requests(LABELER, space)
    assert request.labels_here == 24


def test_a_part_that_mostly_repeats_another_is_for_the_labeler_to_decide(
    space: Workspace, tmp_path: Path
) -> None:
    parts.add_labels(LABELER, space, unnamed(space, tmp_path, TABLE.slice(0, 12)))
    mostly = unnamed(space, tmp_path, TABLE.slice(5, 12))
    with pytest.raises(InvalidInput, match=r"in part 1: 58\.3 % of the smaller .* --accept-shared"):
        parts.add_labels(LABELER, space, mostly)
    accepted = LabelerDecisions(accept_shared=True)
    assert parts.add_labels(LABELER, space, mostly, accepted).labels_here == 24


def test_inputs_that_repeat_by_chance_are_taken(space: Workspace, tmp_path: Path) -> None:
    """Repeated inputs are part of a random sample."""
    labels = np.random.default_rng(7).integers(0, 2, 40)
    few = pa.table({"id": np.arange(40), "x": np.arange(40) % 3, "label": labels})
    for start, here in ((0, 12), (12, 26)):
        sent = unnamed(space, tmp_path, few.slice(start, here - start))
        assert parts.add_labels(LABELER, space, sent).labels_here == here
