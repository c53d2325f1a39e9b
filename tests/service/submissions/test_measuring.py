"""The sets that predictions are measured on: opened once, read as little as their size allows."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.helpers import Labels, Session, make_session, small_spec, with_errors
from tests.service.sites import make_room, make_site, same_key
from tests.storage.examples import ENTRY

from easeml_meter.core.model import Entry
from easeml_meter.errors import InvalidInput, VaultError
from easeml_meter.meter import Meter
from easeml_meter.scoring.ids import IN_ORDER
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.backup import Place, back_up
from easeml_meter.service.place import Workspace
from easeml_meter.service.restore import restore
from easeml_meter.service.submissions import measuring
from easeml_meter.service.submissions.answering import Submission
from easeml_meter.service.submissions.kinds import PredictionFiles
from easeml_meter.service.submissions.measuring import (
    Conditions,
    Keeping,
    Kept,
    Losses,
    Measured,
    read_kept,
)
from easeml_meter.tables.source import Held
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import SealedTestSet


def measured_on(session: Session) -> Measured:
    space = session.meter.workspace
    state = space.read_state()
    assert state.validation is not None
    return Measured(space, state.spec, state.current, state.validation)


def losses(session: Session, on: Measured, test: int, validation: int) -> Losses:
    files = session.files(test, validation)
    return PredictionFiles(*files).open(on).measure(on)


@pytest.mark.parametrize("few", [measuring._FEW, 1], ids=["few rows", "many rows"])
def test_sets_of_any_size_give_the_same_losses(
    tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_FEW", few)
    session = make_session(tmp_path)
    with measured_on(session) as on:
        found = losses(session, on, 3, 5)
        assert (on.few_labels is None) == (on.visible_labels is None) == (few == 1)
    assert found.validation == Fraction(5, 20)
    assert found.test is not None
    assert found.test.mean == Fraction(3, len(session.test_labels))


def test_submissions_that_are_measured_together_open_a_small_test_set_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(tmp_path)
    opened, decrypted = 0, 0
    open_set, labels_of = SealedTestSet.open, SealedTestSet.labels

    def opening(*arguments: Any, **options: Any) -> SealedTestSet:
        nonlocal opened
        opened += 1
        return open_set(*arguments, **options)

    def decrypting(sealed: SealedTestSet, group: int) -> Any:
        nonlocal decrypted
        decrypted += 1
        return labels_of(sealed, group)

    monkeypatch.setattr(SealedTestSet, "open", opening)
    monkeypatch.setattr(SealedTestSet, "labels", decrypting)
    with measured_on(session) as on:
        for errors in range(3):
            losses(session, on, errors, 0)
        assert (opened, decrypted) == (1, on.sealed.row_groups)


def test_a_loss_that_fails_on_hidden_labels_is_no_reading(tmp_path: Path) -> None:
    """What it raises holds a label: nothing but that it failed may get out."""
    loss = "tests.service.submissions.test_measuring:fails_on_many[class]"
    session = make_session(tmp_path, small_spec(loss=loss))
    with measured_on(session) as on:
        found = losses(session, on, 0, 0)
    assert found.validation == Fraction(0)
    assert found.test is None


def fails_on_many(predictions: Any, labels: Any) -> Any:
    if len(labels) > 20:  # more than the validation set has
        raise ValueError(labels)
    return (predictions != labels).astype(float)


@pytest.mark.parametrize("seconds", [0.01, 10**6])
def test_a_run_is_given_a_time_that_makes_sense(seconds: float) -> None:
    with pytest.raises(InvalidInput, match=f"seconds: {seconds}"):
        Conditions(seconds=seconds)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path)


@pytest.fixture
def space(session: Session) -> Workspace:
    return session.meter.workspace


def kept(content: bytes, suffix: str = ".parquet", stem: str = "a") -> Kept:
    return Kept(stem * 64, suffix, content)


def keep(space: Workspace, kept: Kept) -> str:
    with Keeping(space, kept) as keeping:
        keeping.wait()
        return keeping.name


# --- Keeping and reading ---


def test_each_has_a_file_of_its_own_and_is_found(space: Workspace) -> None:
    several = [
        kept(b"first"),
        kept(b"the second", ".csv", "b"),
        kept(b"first", ".npy", "c"),
        kept(b"", ".jsonl", "d"),
        kept(b"no ending", "", "e"),
    ]
    names = [keep(space, each) for each in several]
    assert [read_kept(space, name) for name in names] == [
        (each.content, each.suffix) for each in several
    ]
    assert names[1] == f"predictions/{'b' * 64}.csv.age"
    assert sorted(f"predictions/{name}" for name in space.files.names("predictions")) == sorted(
        names
    )
    # After a crash it is written again, and does not lie there twice.
    assert keep(space, several[1]) == names[1]
    assert len(list(space.files.names("predictions"))) == len(names)


def test_what_is_kept_for_other_sets_replaces_nothing(space: Workspace) -> None:
    """Its rows are in the order of the test set, and its curve is that of the validation set."""
    entry = replace(ENTRY, validation_set="b" * 64)
    others = [replace(entry, generation=2), replace(entry, validation_set="c" * 64)]
    entries = [entry, *others, replace(entry, submission="d" * 64)]
    named = [
        keep(space, Kept.of(each, ".arrow", str(number).encode()))
        for number, each in enumerate(entries)
    ]
    found = [(str(number).encode(), ".arrow") for number in range(4)]
    assert [read_kept(space, name) for name in named] == found
    # The same again is the same file: a crash leaves nothing behind.
    assert keep(space, Kept.of(entry, ".arrow", b"0")) == named[0]


def test_nothing_to_keep_writes_nothing(space: Workspace) -> None:
    with Keeping(space, None) as keeping:
        keeping.wait()
    assert (keeping.name, list(space.files.names("predictions"))) == ("", [])


def test_it_lies_encrypted_under_the_key_of_the_meter(space: Workspace) -> None:
    name = keep(space, kept(b"the secret"))
    assert b"secret" not in space.files.read(name)
    stranger = replace(space, open_identity=Identity.new)
    with pytest.raises(VaultError):
        read_kept(stranger, name)


def test_any_contents_come_back(space: Workspace) -> None:
    suffixes = st.sampled_from([".parquet", ".CSV", ".npy", ".onnx", ".tar", ""])

    @settings(max_examples=25)
    @given(st.binary(max_size=50), suffixes)
    def check(content: bytes, suffix: str) -> None:
        name = keep(space, kept(content, suffix))
        assert read_kept(space, name) == (content, suffix)

    check()


# --- What becomes of it ---


def parquet(values: Labels, salt: str) -> Held:
    out = io.BytesIO()
    table = pa.table({"id": np.arange(len(values)), "prediction": values})
    pq.write_table(table.replace_schema_metadata({"salt": salt}), out)
    return Held("test.parquet", out.getvalue())


def csv(values: Labels, salt: str) -> Held:
    lines = [f"prediction,{salt}", *(f"{value},0" for value in values), ""]
    return Held("test.csv", "\n".join(lines).encode())


def npy(values: Labels, _salt: str) -> Held:
    out = io.BytesIO()
    np.save(out, values)
    return Held("test.npy", out.getvalue())


FORMATS: tuple[Callable[[Labels, str], Held], ...] = (parquet, csv, npy, csv)


def submissions(session: Session) -> list[Submission]:
    """Make four submissions, of different formats and losses, that spend the set."""
    n = len(session.test_labels)
    made = []
    for number, errors in enumerate((0, n // 5, n // 2, 3)):
        test = FORMATS[number](with_errors(session.test_labels, errors), f"s{number}")
        validation = parquet(with_errors(session.validation_labels, number), f"s{number}")
        made.append(Submission(PredictionFiles(test, validation, IN_ORDER), f"m{number}"))
    return made


def submit_all(session: Session) -> None:
    """Hand the four in."""
    for each in submissions(session):
        session.meter.submit_any(each.submitted, model=each.model)


def entries_of(session: Session) -> list[Entry]:
    with session.meter.workspace.reading() as books:
        return books.entries.all(session.meter.generations[0].meter, 1)


def truth_of(session: Session) -> object:
    """Release the set; give what is told of it."""
    released = session.meter.release()
    written = json.loads((released / "retrospective.json").read_text(encoding="utf-8"))
    return written, session.meter.status(generation=1).retrospective


def test_the_retrospective_tells_the_truth(session: Session) -> None:
    submit_all(session)
    truth_of(session)
    n = len(session.test_labels)
    truths = session.meter.status(generation=1).retrospective
    assert [each and each.test_loss for each in truths] == [
        pytest.approx(errors / n) for errors in (0, n // 5, n // 2, 3)
    ]
    validation = len(session.validation_labels)
    assert [each and each.validation_loss for each in truths] == [
        pytest.approx(errors / validation) for errors in range(4)
    ]


def test_what_is_kept_is_what_was_read(session: Session) -> None:
    submit_all(session)
    n = len(session.test_labels)
    for entry, errors in zip(entries_of(session), (0, n // 5, n // 2, 3), strict=True):
        content, suffix = read_kept(session.meter.workspace, entry.blob)
        (column,) = pa.ipc.open_file(content).read_all().columns
        assert column.to_pylist() == with_errors(session.test_labels, errors).tolist()
        assert suffix == ".arrow"


def test_a_backup_takes_it_along_and_what_is_restored_can_be_released(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", f"sqlite:///{tmp_path / 'site.db'}")
    room = make_room(site, tmp_path / "room")
    submit_all(room.session)
    contents = back_up(SYSTEM, Place.of_site(site), tmp_path / "all.tar")
    assert contents.missing == ()
    with tarfile.open(tmp_path / "all.tar") as archive:
        saved = [name for name in archive.getnames() if "/predictions/" in name]
    assert len(saved) == len(set(saved)) == 4

    same_key(tmp_path / "there", tmp_path / "site")
    there = make_site(tmp_path / "there", f"sqlite:///{tmp_path / 'there.db'}")
    restore(SYSTEM, Place.of_site(there), tmp_path / "all.tar")
    copy = replace(room.session, meter=Meter(there.space(room.id)))
    assert entries_of(copy) == entries_of(room.session)
    assert truth_of(copy) == truth_of(room.session)
    site.close()
    there.close()
