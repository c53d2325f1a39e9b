"""Backup and restore: everything comes back, and no answer is ever forgotten by it."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from unittest import mock

import pytest
from tests.storage.examples import stored

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import stamp
from easeml_meter.core.people import Role
from easeml_meter.core.views import Signal
from easeml_meter.errors import (
    InvalidInput,
    MeterError,
    NotFound,
    Spent,
    StorageError,
    Unauthenticated,
)
from easeml_meter.meter import Meter
from easeml_meter.service import backup, seats, tokens, users
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.service.audit import verify
from easeml_meter.service.backup import Backup, Place, back_up, check_mounted, faults
from easeml_meter.service.keys import rotate_key
from easeml_meter.service.meters import archive_meter, create_meter
from easeml_meter.service.place import RECIPIENT, TEST_SETS, Home, Site, Workspace
from easeml_meter.service.restore import (
    NOTE,
    Restored,
    _Case,
    check_backup,
    restore,
    verified_at,
)
from easeml_meter.service.testsets.delivery import Choices, seal_labels
from easeml_meter.service.testsets.parts import add_labels
from easeml_meter.storage import schema
from easeml_meter.storage.books.copies import LEFT_OUT, METER_TABLES, SITE_TABLES
from easeml_meter.storage.files import FolderFiles, open_files
from easeml_meter.storage.journal import SUFFIX, entries_in
from easeml_meter.vault.keys import Identity
from easeml_meter.vault.sealing import seal

from .demand import begin
from .helpers import Clock, actor_of, condition_spec, deliver, make_session, rows, small_spec
from .sites import Room, make_room, make_site, same_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def site(folder: Path, database: str) -> Iterator[Site]:
    opened = make_site(folder, database)
    yield opened
    opened.close()


@pytest.fixture
def room(site: Site, tmp_path: Path) -> Room:
    return make_room(site, tmp_path / "room")


@pytest.fixture
def fresh(tmp_path: Path, folder: Path) -> Iterator[Callable[[str], Site]]:
    """Give empty sites with the same key."""
    made = []

    def make(name: str) -> Site:
        place = tmp_path / name
        same_key(place, folder)
        made.append(make_site(place, f"sqlite:///{place / 'meter.db'}"))
        return made[-1]

    yield make
    for each in made:
        each.close()


Fresh = Callable[[str], Site]


def saved(site: Site, out: Path, **options: Any) -> Path:
    back_up(SYSTEM, Place.of_site(site), out, **options)
    return out


def members_of(path: Path) -> dict[str, bytes]:
    """Read a backup as any other program would."""
    with tarfile.open(path) as archive:
        return {each.name: _content(archive.extractfile(each)) for each in archive}


def _content(file: IO[bytes] | None) -> bytes:
    assert file is not None
    return file.read()


def written(path: Path, members: dict[str, bytes]) -> Path:
    """Write a backup of these members."""
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    return path


def brought(site: Site, path: Path, **options: Any) -> Restored:
    (only,) = restore(SYSTEM, Place.of_site(site), path, **options).meters
    return only


def rows_of(site: Site, leave_out: tuple[str, ...] = ("audit", "deliveries")) -> dict[str, Any]:
    with site.reading() as books:
        return {
            table.name: sorted(stored(books, table), key=repr)
            for table in schema.metadata.sorted_tables
            if table.name not in leave_out
        }


def as_there(room: Room, site: Site) -> Room:
    """Give the same meter on another site."""
    meter = Meter(site.space(room.id))
    return Room(site, room.id, replace(room.session, meter=meter))


@pytest.mark.parametrize("there", ["memory://promoted-there", "files"])
def test_promotions_come_back_from_an_object_store(tmp_path: Path, there: str) -> None:
    """Lists of lines are folders there, and a backup failed at one that was no journal."""
    database = f"sqlite:///{tmp_path / 'here.db'}"
    with closing(Site.open(database, f"memory://{tmp_path.name}", tmp_path / "key")) as site:
        spec = condition_spec(question="n - o > 0.1 +/- 0.25", inputs="public")
        room = make_room(site, tmp_path / "room", spec)
        rows = len(room.session.test_labels)
        for errors, model in ((rows, "deployed"), (0, "better"), (1, "best")):
            room.session.submit(errors, 0, model=model, baseline=model == "deployed")
        for model in ("best", "better"):
            room.meter.promote(model)
        journal = site.space(room.id).journal(room.meter.generations[0])
        path = saved(site, tmp_path / "backup.tar")
        told = journal.promotions()
        assert [each.model for each in told] == ["best", "better"]
    files: str | Path = there if "://" in there else tmp_path / there
    database = f"sqlite:///{tmp_path / 'there.db'}"
    with closing(Site.open(database, files, tmp_path / "key")) as site:
        for _ in range(2):
            brought(site, path)
            space = site.space(room.id)
            meter = Meter(space)
            assert space.journal(meter.generations[0]).promotions() == told
        assert as_there(room, site).session.submit(2, 0, model="next").old == 2


def test_every_table_is_in_or_knowingly_left_out() -> None:
    known = [*SITE_TABLES, *METER_TABLES, *LEFT_OUT]
    assert sorted(known) == sorted(schema.metadata.tables)


def test_a_whole_site_comes_back(site: Site, room: Room, fresh: Fresh, tmp_path: Path) -> None:
    admin = users.add_user(SYSTEM, site, "admin", password="long enough", admin=True)  # noqa: S106
    token = tokens.make_token(actor_of(admin.id), site, "t")[1]
    labeler = users.add_user(SYSTEM, site, "labeler", email="l@example.org")
    seats.add_seat(SYSTEM, site.space(room.id), labeler.id, Role.LABELER)
    other = make_room(site, tmp_path / "other", seed=5, name="other")
    for number in range(4):
        room.submit(number, model=f"m{number}")
    room.meter.release()
    other.submit(1, model="x")
    path = saved(site, tmp_path / "all.tar")
    there = fresh("there")
    restored = restore(SYSTEM, Place.of_site(there), path).meters
    assert [(each.name, each.answers_then, each.answers_now) for each in restored] == [
        ("small", 4, 4),
        ("other", 1, 1),
    ]
    assert tokens.recognize(ANYONE, site, token).admin
    with pytest.raises(Unauthenticated):  # it may have been revoked since the backup
        tokens.recognize(ANYONE, there, token)
    with site.writing() as books, there.reading() as copied:
        moment = next(iter(copied.copies.rows("tokens")))["revoked_at"]
        books.tokens.revoke(moment)
    assert rows_of(there) == rows_of(site)
    for original in (room, other):
        copy = as_there(original, there)
        assert copy.meter.status() == original.meter.status()
        assert copy.meter.history() == original.meter.history()
        assert copy.meter.notices() == original.meter.notices()
        links = copy.meter.audit().links
        assert links[:-1] == original.meter.audit().links
        assert links[-1].event == "restored"
    again = as_there(other, there).submit(1, model="x")  # the sealed set opens and answers
    assert (again.step, again.repeated) == (1, True)
    assert as_there(other, there).submit(2, model="y").step == 2
    released = there.files.read(f"meters/{room.id}/released/1/testset.parquet")
    assert released == site.files.read(f"meters/{room.id}/released/1/testset.parquet")


def test_what_was_revoked_since_the_backup_stays_revoked(
    site: Site, room: Room, fresh: Fresh, tmp_path: Path
) -> None:
    user = users.add_user(SYSTEM, site, "dev", password="long enough")  # noqa: S106
    actor = actor_of(user.id)
    given = {name: tokens.make_token(actor, site, name) for name in ("kept", "stolen", "old")}
    tokens.revoke_token(actor, site, given["old"][0].id)
    path = saved(site, tmp_path / "all.tar")
    tokens.revoke_token(actor, site, given["stolen"][0].id)
    restore(SYSTEM, Place.of_site(site), path)
    assert tokens.recognize(ANYONE, site, given["kept"][1]).user.id == user.id
    there = fresh("there")
    restore(SYSTEM, Place.of_site(there), path)
    restore(SYSTEM, Place.of_site(there), path)  # a second time brings none back either
    for where, names in ((site, ("stolen", "old")), (there, ("kept", "stolen", "old"))):
        for name in names:
            with pytest.raises(Unauthenticated):
                tokens.recognize(ANYONE, where, given[name][1])


def test_one_meter_comes_without_accounts_and_secrets(
    site: Site, room: Room, fresh: Fresh, tmp_path: Path
) -> None:
    user = users.add_user(SYSTEM, site, "dev", password="long enough")  # noqa: S106
    seats.add_seat(SYSTEM, site.space(room.id), user.id, Role.DEVELOPER)
    make_room(site, tmp_path / "other", seed=5, name="other")
    path = saved(site, tmp_path / "one.tar", meter=room.id)
    assert not [name for name in members_of(path) if name.startswith(("site", "key"))]
    there = fresh("there")
    assert brought(there, path).name == "small"
    assert seats.list_seats(SYSTEM, there.space(room.id)) == []  # nobody of that id is here
    # On the site that it came from, where books and journals are, nothing changes but the chain.
    before = rows_of(site)
    assert brought(site, path).witnessed
    assert rows_of(site) == before


def test_one_meter_of_a_backup_of_all(site: Site, room: Room, fresh: Fresh, tmp_path: Path) -> None:
    make_room(site, tmp_path / "other", seed=5, name="other")
    path = saved(site, tmp_path / "all.tar")
    there = fresh("there")
    assert brought(there, path, meter=room.id).id == room.id
    with there.reading() as books:
        assert [row.name for row in books.meters.all()] == ["small"]
    with pytest.raises(NotFound):
        restore(SYSTEM, Place.of_site(there), path, meter="f" * 32)


def test_it_may_be_in_use_meanwhile(site: Site, room: Room, fresh: Fresh, tmp_path: Path) -> None:
    """An answer told between the snapshot of the books and the copying of files is not lost."""
    room.submit(0, model="before")
    place = Place.of_site(site)
    told: list[Signal] = []

    def space(meter: str) -> Any:
        if not told:
            told.append(room.submit(1, model="meanwhile"))
        return site.space(meter)

    back_up(SYSTEM, replace(place, space=space), tmp_path / "busy.tar")
    there = fresh("there")
    restored = brought(there, tmp_path / "busy.tar")
    assert (restored.answers_then, restored.answers_now) == (1, 2)
    assert as_there(room, there).submit(1, model="meanwhile").repeated
    assert check_backup(SYSTEM, site.identity, tmp_path / "busy.tar")  # and what was kept of it


def test_a_test_set_that_is_retired_meanwhile_stays_retired(
    site: Site, room: Room, fresh: Fresh, tmp_path: Path
) -> None:
    """Only its journal said so, and a restore brought no more than the answers of a journal.

    The test set answered again, though its labels may have been released since.
    """
    room.submit(0, model="before")
    place = Place.of_site(site)

    def space(meter: str) -> Any:
        if room.meter.generations[0].phase is Phase.ACTIVE:
            room.meter.retire()
        return site.space(meter)

    back_up(SYSTEM, replace(place, space=space), tmp_path / "busy.tar")
    there = fresh("there")
    brought(there, tmp_path / "busy.tar")
    copy = as_there(room, there)
    with pytest.raises(Spent):
        copy.submit(1, model="later")
    assert [row.phase for row in copy.meter.generations] == [Phase.SPENT, Phase.REQUESTED]
    assert copy.submit(0, model="before").repeated


def test_a_restore_that_is_refused_for_one_meter_leaves_no_note_of_another(
    site: Site, room: Room, fresh: Fresh, tmp_path: Path
) -> None:
    """The rows of the first were noted as its own at a server that does not have it."""
    other = make_room(site, tmp_path / "other", seed=5, name="other")
    path, there, check = saved(site, tmp_path / "all.tar"), fresh("there"), _Case.check

    def refused(case: _Case) -> None:
        check(case)
        if case.meter.id == other.id:
            raise MeterError("answered differently")

    with mock.patch.object(_Case, "check", refused), pytest.raises(MeterError):
        restore(SYSTEM, Place.of_site(there), path)
    assert there.files.names("claims") == []
    restore(SYSTEM, Place.of_site(there), path)
    assert len(there.files.names("claims")) == 2
    assert as_there(room, there).submit(1, model="x").step == 1


class TestNoAnswerIsForgotten:
    def test_over_newer_books(self, site: Site, room: Room, tmp_path: Path) -> None:
        room.submit(0, model="a")
        path = saved(site, tmp_path / "old.tar")
        for name in "bcd":
            room.submit(1, model=name)
        restored = brought(site, path)
        assert (restored.answers_then, restored.answers_now) == (1, 4)
        with pytest.raises(Spent):
            room.submit(2, model="e")
        found = room.meter.audit()
        assert found.problems == ()
        assert [line[:11] for line in found.restored] == ["restored on"]
        assert found.links[-1].event == "restored"
        assert found.links[-1].details == {
            "backup_at": restored.backup_at,
            "answers_then": 1,
            "answers_now": 4,
            "witnessed": True,
        }

    def test_into_an_empty_database_beside_the_files(
        self, site: Site, room: Room, folder: Path, tmp_path: Path
    ) -> None:
        room.submit(0, model="a")
        path = saved(site, tmp_path / "old.tar")
        for name in "bcd":
            room.submit(1, model=name)
        there = make_site(folder, f"sqlite:///{tmp_path / 'new.db'}")
        restored = brought(there, path)
        assert (restored.answers_then, restored.answers_now) == (1, 4)
        assert restored.witnessed
        copy = as_there(room, there)
        assert copy.submit(1, model="d").repeated
        with pytest.raises(Spent):
            copy.submit(2, model="e")
        audit = copy.meter.audit()
        assert (audit.state, audit.problems) == ("sound, restored", ())
        (line,) = audit.restored
        assert f"from the backup of {restored.backup_at[:16].replace('T', ' ')}" in line
        assert line.endswith("3 answers came back from the journal")
        # It is spent: the labelers are asked for the next one.
        phases = [row.phase for row in copy.meter.generations]
        assert phases == [Phase.SPENT, Phase.REQUESTED]
        there.close()

    def test_what_only_the_books_or_only_the_backup_knows(
        self, site: Site, folder: Path, tmp_path: Path
    ) -> None:
        """As many answers in the books as in the journal, and not the same ones."""
        room = make_room(site, tmp_path / "room", small_spec(tenants=(2, 2)))
        room.submit(0, model="a", tenant=1)
        path = saved(site, tmp_path / "old.tar")
        with site.store.writing(room.id) as books:
            books.connection.execute(schema.entries.delete())  # by hand
        (journal,) = (folder / "files" / "meters" / room.id / TEST_SETS).glob(f"*{SUFFIX}")
        journal.unlink()
        room.submit(1, model="b", tenant=2)
        journal.unlink()
        restored = brought(site, path)
        assert restored.answers_now == 2
        assert room.submit(0, model="a", tenant=1).repeated
        assert room.submit(1, model="b", tenant=2).repeated

    def test_into_a_place_with_nothing_the_audit_says_so_for_ever(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        room.submit(0, model="a")
        path = saved(site, tmp_path / "old.tar")
        room.submit(1, model="b")
        there = fresh("there")
        assert not brought(there, path).witnessed
        copy = as_there(room, there)
        assert len(copy.meter.status().signals) == 1
        copy.submit(1, model="c")
        audit = copy.meter.audit()
        assert audit.problems == ()
        (line,) = audit.restored
        assert "answers given in between are unknown" in line

    def test_nothing_is_unknown_of_a_meter_without_a_test_set(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        bare = create_meter(SYSTEM, site, small_spec(), "bare").id
        room.submit(0, model="a")
        path, there = saved(site, tmp_path / "old.tar"), fresh("there")
        found = restore(SYSTEM, Place.of_site(there), path).meters
        assert {each.id: each.witnessed for each in found} == {bare: True, room.id: False}
        assert verify(SYSTEM, there.space(bare)).state == "sound"

    @pytest.mark.parametrize("known", [False, True])
    def test_one_that_was_cut_short_is_no_witness_of_itself(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path, known: bool
    ) -> None:
        """The journals that it had brought told the next one that no answer was missing."""
        room.submit(0, model="a")
        path = saved(site, tmp_path / "old.tar")
        room.submit(1, model="b")
        there = site if known else fresh("there")
        cut = mock.patch.object(_Case, "bring_books", side_effect=KeyboardInterrupt)
        for _ in range(2):
            with cut, pytest.raises(KeyboardInterrupt):
                brought(there, path)
        assert brought(there, path).witnessed is known
        audit = as_there(room, there).meter.audit()
        assert audit.problems == ()
        assert ["answers given in between are unknown" in each for each in audit.restored] == (
            [False] if known else [True]
        )
        # Once it is done, the books here tell what was answered since the backup.
        assert brought(there, path).witnessed

    def test_a_newer_backup_completes_what_an_older_one_restored(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        room.submit(0, model="a")
        older = saved(site, tmp_path / "older.tar")
        room.submit(1, model="b")
        newer = saved(site, tmp_path / "newer.tar")
        there = fresh("there")
        brought(there, older)
        restored = brought(there, newer)
        assert (restored.answers_then, restored.answers_now) == (2, 2)
        copy = as_there(room, there)
        assert copy.submit(1, model="b").repeated
        assert copy.submit(2, model="c").step == 3

    def test_older_books_are_brought_up_to_date(
        self, site: Site, room: Room, folder: Path, tmp_path: Path
    ) -> None:
        """An old copy of the database that was put back, without a trace of its own."""
        room.submit(0, model="a")
        with site.reading() as books:
            tables = [t for t in schema.metadata.sorted_tables if t.name != "alembic_version"]
            copied = {table: stored(books, table) for table in tables}
        for name in "bcd":
            room.submit(1, model=name)
        room.meter.release()
        path = saved(site, tmp_path / "newer.tar")
        there = make_site(folder, f"sqlite:///{tmp_path / 'old.db'}")
        with there.writing() as books:
            for table, rows in copied.items():
                if rows:
                    books.connection.execute(table.insert(), rows)
        restored = brought(there, path)
        assert (restored.answers_now, restored.witnessed) == (4, True)
        assert rows_of(there) == rows_of(site)
        assert as_there(room, there).meter.audit().problems == ()
        there.close()

    def test_two_copies_that_both_answered_are_not_mixed(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        path = saved(site, tmp_path / "old.tar")
        there = fresh("there")
        brought(there, path)
        room.submit(0, model="here")
        as_there(room, there).submit(1, model="there")
        newer = saved(site, tmp_path / "newer.tar")
        before = rows_of(there, ())
        with pytest.raises(MeterError, match="answered differently here and in the backup"):
            brought(there, newer)
        assert rows_of(there, ()) == before

    def test_a_longer_journal_is_never_shortened(
        self, site: Site, room: Room, folder: Path, tmp_path: Path
    ) -> None:
        room.submit(0, model="a")
        path = saved(site, tmp_path / "old.tar")
        room.submit(1, model="b")
        (journal,) = (folder / "files" / "meters" / room.id / TEST_SETS).glob(f"*{SUFFIX}")
        before = journal.read_text()
        brought(site, path)
        assert journal.read_text().startswith(before)
        journal.unlink()  # and one that is gone is written anew, from books and backup
        restored = brought(site, path)
        assert restored.answers_now == 2
        assert len(entries_in(journal.read_text().splitlines())) == 2


class TestOneBudgetPerTestSet:
    def test_the_same_rows_at_another_meter_are_refused(
        self, site: Site, room: Room, tmp_path: Path
    ) -> None:
        other = Meter(site.space(create_meter(SYSTEM, site, small_spec(), "second").id))
        with pytest.raises(InvalidInput, match="test set of another meter"):
            deliver(other, tmp_path, room.session.test_labels, seed=0)
        assert [row.phase for row in other.generations] == [Phase.REQUESTED]
        deliver(other, tmp_path, room.session.test_labels, seed=3)  # other inputs
        assert [row.phase for row in other.generations] == [Phase.ACTIVE]

    def test_also_after_release(self, site: Site, room: Room, tmp_path: Path) -> None:
        for number in range(4):
            room.submit(number, model=f"m{number}")
        room.meter.release()
        other = Meter(site.space(create_meter(SYSTEM, site, small_spec(), "second").id))
        with pytest.raises(InvalidInput, match="test set of another meter"):
            deliver(other, tmp_path, room.session.test_labels, seed=0)

    def test_also_if_the_database_was_lost(self, room: Room, folder: Path, tmp_path: Path) -> None:
        there = make_site(folder, f"sqlite:///{tmp_path / 'new.db'}")
        other = Meter(there.space(create_meter(SYSTEM, there, small_spec(), "again").id))
        with pytest.raises(InvalidInput, match="test set of another meter"):
            deliver(other, tmp_path, room.session.test_labels, seed=0)
        there.close()

    def test_the_books_refuse_it_even_if_two_come_at_once(self, site: Site, room: Room) -> None:
        other = create_meter(SYSTEM, site, small_spec(), "second").id
        with site.reading() as books:
            (first,) = books.testsets.all(room.id)

        def enter() -> None:
            with site.store.writing(other) as books:
                row = replace(books.testsets.all(other)[0], fingerprint=first.fingerprint)
                books.testsets.update(row)

        with pytest.raises(StorageError, match=r"(?i)unique"):
            enter()

    def test_a_restored_meter_whose_rows_were_given_to_another_one_meanwhile(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        path = saved(site, tmp_path / "old.tar")
        there = fresh("there")
        other = Meter(there.space(create_meter(SYSTEM, there, small_spec(), "second").id))
        deliver(other, tmp_path, room.session.test_labels, seed=0)
        with pytest.raises(InvalidInput, match="test set of another meter"):
            brought(there, path)
        with there.reading() as books:
            assert [row.name for row in books.meters.all()] == ["second"]

    def test_a_restored_one_is_refused_elsewhere(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        there = fresh("there")
        brought(there, saved(site, tmp_path / "b.tar"))
        other = Meter(there.space(create_meter(SYSTEM, there, small_spec(), "second").id))
        with pytest.raises(InvalidInput, match="test set of another meter"):
            deliver(other, tmp_path, room.session.test_labels, seed=0)


class TestTheFile:
    def test_it_holds_no_key_unless_asked(self, site: Site, room: Room, folder: Path) -> None:
        key = folder / "server.key"
        plain, full = folder / "plain.tar", folder / "full.tar"
        assert not back_up(SYSTEM, Place.of_site(site), plain).with_key
        assert back_up(SYSTEM, Place.of_site(site), full, key=key).with_key
        secret = key.read_bytes().splitlines()[-1]
        assert secret not in plain.read_bytes()
        with Backup.open(full) as opened:
            assert opened.key() == key.read_bytes()
        assert plain.stat().st_mode & 0o077 == 0

    def test_it_holds_no_plain_label_before_release(self, tmp_path: Path) -> None:
        site = make_site(tmp_path, f"sqlite:///{tmp_path / 'meter.db'}")
        room = make_room(site, tmp_path / "room")
        room.submit(1, model="a")
        path = saved(site, tmp_path / "b.tar")
        found = members_of(path)
        assert not [name for name in found if "/released/" in name]
        plain = [name for name, content in found.items() if content[:4] == b"PAR1"]
        assert len(plain) == 1
        assert "/validation/" in plain[0]
        site.close()

    def test_another_key_is_refused(self, site: Site, room: Room, tmp_path: Path) -> None:
        path = saved(site, tmp_path / "b.tar")
        there = make_site(tmp_path / "there", f"sqlite:///{tmp_path / 'there.db'}")
        with pytest.raises(InvalidInput, match=r"--key FILE.* leave the one here"):
            brought(there, path)  # after a rotation, only the key here opens what lies here
        there.close()

    def test_what_is_restored_belongs_to_its_key(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        """A server that was started without it made a new key, and opened nothing with that."""
        there = fresh("there")
        brought(there, saved(site, tmp_path / "b.tar"))
        assert there.files.read(RECIPIENT).decode().strip() == site.identity.recipient

    def test_the_former_key_brings_nothing_among_files_of_a_new_one(
        self, site: Site, room: Room, tmp_path: Path
    ) -> None:
        """It was brought, and neither key opened all that lay there."""
        path = saved(site, tmp_path / "b.tar")
        site.files.put(RECIPIENT, b"age1another\n")
        with pytest.raises(InvalidInput, match="the files here belong to age1another: nothing was"):
            brought(site, path)

    def test_it_is_restored_from_an_archive_of_the_same_members(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        room.submit(1, model="a")
        path = saved(site, tmp_path / "b.tar", key=tmp_path / "site" / "server.key")
        copied = written(tmp_path / "copied.tar", members_of(path))
        there = fresh("there")
        assert brought(there, copied).answers_now == 1
        with Backup.open(copied) as opened:
            assert opened.key() == (tmp_path / "site" / "server.key").read_bytes()

    @pytest.mark.parametrize("part", ["entries.jsonl", ".sealed", ".journal", "manifest.json"])
    def test_a_changed_member_is_found(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path, part: str
    ) -> None:
        room.submit(1, model="a")
        found = members_of(saved(site, tmp_path / "b.tar"))
        # One answer, one byte, or one digest that would fit another content.
        for name in [name for name in found if name.endswith(part)]:
            found[name] = found[name].replace(b"a", b"b")
        there = fresh("there")
        with pytest.raises(MeterError):
            brought(there, written(tmp_path / "changed.tar", found))
        with there.reading() as books:
            assert not books.meters.all()

    def test_a_missing_or_additional_member_is_found(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        found = members_of(saved(site, tmp_path / "b.tar"))
        less = {name: each for name, each in found.items() if not name.endswith(".sealed")}
        more = {**found, f"meters/{room.id}/files/testsets/extra": b""}
        assert len(less) < len(found)
        there = fresh("there")
        for number, bad in enumerate((less, more)):
            with pytest.raises(MeterError, match="damaged"):
                brought(there, written(tmp_path / f"{number}.tar", bad))

    def test_a_manifest_signed_by_nobody_is_refused(
        self, site: Site, room: Room, fresh: Fresh, tmp_path: Path
    ) -> None:
        """Whoever can write to where backups lie cannot take an answer out of one."""
        room.submit(1, model="a")
        found = members_of(saved(site, tmp_path / "b.tar"))
        signed = json.loads(found[backup.MANIFEST])
        signed["manifest"] = signed["manifest"].replace('"answers": 1', '"answers": 0')
        forged = {**found, backup.MANIFEST: json.dumps(signed).encode()}
        with pytest.raises(MeterError, match="damaged, or changed"):
            brought(fresh("there"), written(tmp_path / "forged.tar", forged))

    def test_a_manifest_of_any_length_is_not_read(
        self, site: Site, room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = members_of(saved(site, tmp_path / "b.tar"))
        path = written(tmp_path / "copied.tar", found)
        monkeypatch.setattr(backup, "_LONGEST_MANIFEST", len(found[backup.MANIFEST]))
        with Backup.open(path) as opened:
            assert opened.contents.meters
        monkeypatch.setattr(backup, "_LONGEST_MANIFEST", len(found[backup.MANIFEST]) - 1)
        with pytest.raises(InvalidInput, match="meter backup wrote"), Backup.open(path):
            pass

    @pytest.mark.parametrize("content", [b"", b"PK", b"hello" * 1000])
    def test_what_is_no_backup(self, site: Site, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "no.tar"
        path.write_bytes(content)
        with pytest.raises(MeterError, match=r"no\.tar"):
            restore(SYSTEM, Place.of_site(site), path)

    def test_another_schema_is_refused(
        self, site: Site, room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(backup, "SCHEMA", "9999")
            path = saved(site, tmp_path / "b.tar")
        with pytest.raises(InvalidInput, match="restore it with that version"):
            restore(SYSTEM, Place.of_site(site), path)

    def test_missing_files_are_named(self, site: Site, room: Room, folder: Path) -> None:
        (validation,) = (folder / "files" / "meters" / room.id / "validation").iterdir()
        validation.unlink()
        contents = back_up(SYSTEM, Place.of_site(site), folder / "b.tar")
        assert [name.rpartition("/")[2] for name in contents.missing] == [validation.name]

    def test_an_existing_file_is_not_replaced(self, site: Site, room: Room, folder: Path) -> None:
        path = saved(site, folder / "b.tar")
        with pytest.raises(InvalidInput, match="already exists"):
            saved(site, path)

    def test_no_such_meter(self, site: Site, room: Room, folder: Path) -> None:
        with pytest.raises(NotFound):
            saved(site, folder / "b.tar", meter="f" * 32)
        assert not (folder / "b.tar").exists()

    def test_the_same_content_gives_the_same_members(
        self, site: Site, room: Room, folder: Path
    ) -> None:
        room.submit(1, model="a")
        first = back_up(SYSTEM, Place.of_site(site), folder / "1.tar")
        second = back_up(SYSTEM, Place.of_site(site), folder / "2.tar")
        assert first.members == second.members


class TestAFolder:
    def test_it_comes_back(self, tmp_path: Path) -> None:
        session = make_session(tmp_path)
        session.submit(1, 0, model="a")
        home = Home(tmp_path / "meter")
        place = Place.of_folder(home)
        assert back_up(SYSTEM, place, tmp_path / "b.tar").single
        place.store.close()
        there = Home(tmp_path / "there")
        there.key.parent.mkdir(parents=True)
        Identity.read(home.key).write(there.key)
        there.prepare()
        copy = Place.of_folder(there)
        (restored,) = restore(SYSTEM, copy, tmp_path / "b.tar").meters
        copy.store.close()
        assert restored.answers_now == 1
        with Meter.open(there.folder, clock=Clock()) as meter:
            assert meter.status() == session.meter.status()
            assert replace(session, meter=meter).submit(1, 0, model="a").repeated
            assert "unknown" in meter.audit().restored[0]

    def test_it_holds_one_meter(self, tmp_path: Path) -> None:
        make_session(tmp_path).meter.close()
        home = Home(tmp_path / "meter")
        place = Place.of_folder(home)
        back_up(SYSTEM, place, tmp_path / "b.tar")
        second = Home(tmp_path / "second")
        second.key.parent.mkdir(parents=True)
        Identity.read(home.key).write(second.key)
        Meter.create(second.folder, small_spec(), name="second").close()
        other = Place.of_folder(second)
        with pytest.raises(InvalidInput, match="one folder holds one"):
            restore(SYSTEM, other, tmp_path / "b.tar")
        place.store.close()
        other.store.close()


def checked(site: Site, path: Path) -> list[int]:
    """Verify a backup for a site; return the answers of its meters."""
    found = check_backup(SYSTEM, site.identity, path, files=site.files)
    return [each.answers_now for each in found]


def test_an_empty_database_beside_full_files_is_not_served(
    site: Site, room: Room, folder: Path, tmp_path: Path
) -> None:
    """Systemd did so by itself, with a green and empty site, and accounts in the restore's way."""
    check_mounted(SYSTEM, site)
    with closing(make_site(folder, f"sqlite:///{tmp_path / 'new.db'}")) as there:
        with pytest.raises(MeterError, match="hold 1 meters, and the database has none: bring it"):
            check_mounted(SYSTEM, there)
        check_mounted(SYSTEM, there, new=True)
        users.add_user(SYSTEM, there, "admin")  # as a first start does
        check_mounted(SYSTEM, there)


def named(site: Site) -> Site:
    """Note whose files these are, as a server does when it starts."""
    site.files.put(RECIPIENT, f"{site.identity.recipient}\n".encode())
    return site


def noted(site: Site) -> str | None:
    found = verified_at(site.files)
    return None if found is None else stamp(found)


def test_a_check_finds_books_that_were_changed(site: Site, room: Room, tmp_path: Path) -> None:
    room.submit(1, model="m1")
    with site.writing() as books:
        books.connection.execute(schema.entries.update().values(model="another"))
    path = saved(named(site), tmp_path / "b.tar")
    with pytest.raises(MeterError, match="is not sound"):
        checked(site, path)
    assert noted(site) is None


def test_a_check_notes_when_the_backup_of_a_whole_site_was_made(
    site: Site, room: Room, tmp_path: Path
) -> None:
    room.submit(1, model="m1")
    part = saved(named(site), tmp_path / "part.tar", meter=room.id)
    assert checked(site, part) == [1]
    assert noted(site) is None
    for number in range(2):
        made = back_up(SYSTEM, Place.of_site(site), tmp_path / f"{number}.tar")
        assert checked(site, tmp_path / f"{number}.tar") == [1]
        assert noted(site) == made.at


def test_a_check_notes_nothing_among_files_of_another_key(
    site: Site, room: Room, tmp_path: Path
) -> None:
    path, there = saved(site, tmp_path / "b.tar"), FolderFiles(tmp_path / "there")
    for text in (None, b"age1another\n"):
        if text:
            there.put(RECIPIENT, text)
        assert check_backup(SYSTEM, site.identity, path, files=there)
        assert not there.exists(NOTE)


@pytest.mark.parametrize("text", [b"", b"yesterday", b"\x00", b"\xff"])
def test_a_note_that_cannot_be_read_is_no_backup(tmp_path: Path, text: bytes) -> None:
    files = FolderFiles(tmp_path)
    files.put(NOTE, text)
    assert verified_at(files) is None


def test_files_that_are_away_know_of_no_backup(s3_url: str) -> None:
    assert verified_at(open_files(s3_url)) is None
    assert verified_at(open_files("s3://no-such-bucket-anywhere/meter")) is None


def of_meter(room: Room) -> Path:
    files = room.site.files
    assert isinstance(files, FolderFiles)
    return files.root / "meters" / room.id


def assert_not_whole(site: Site, path: Path, said: str) -> None:
    """Nothing is noted, and one line names the file."""
    before = noted(site)
    with pytest.raises(MeterError, match=said) as refused:
        checked(site, saved(site, path))
    assert "\n" not in str(refused.value)
    assert noted(site) == before


@pytest.mark.parametrize("pattern", ["testsets/*.sealed", "validation/*", "predictions/*.age"])
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_check_finds_a_file_that_was_lost_or_damaged_before(
    site: Site, room: Room, tmp_path: Path, pattern: str, how: str
) -> None:
    room.submit(1, model="m1")
    path = max(of_meter(room).glob(pattern))
    if how == "missing":
        path.unlink()
    else:  # one bit in the middle, as a failing disk does
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content))
    assert_not_whole(named(site), tmp_path / "b.tar", f"{path.name} is {how}")


def test_a_check_of_a_server_that_lost_all_its_files_fails(
    site: Site, room: Room, tmp_path: Path
) -> None:
    """It was called sound."""
    room.submit(1, model="m1")
    meters = of_meter(room).parent
    meters.rename(tmp_path / "elsewhere")
    assert_not_whole(named(site), tmp_path / "lost.tar", r"and 2 more files: use an earlier backup")
    (tmp_path / "elsewhere").rename(meters)
    assert checked(site, saved(site, tmp_path / "b.tar")) == [1]


def test_a_check_finds_another_test_set_in_the_place_of_one(
    site: Site, room: Room, tmp_path: Path
) -> None:
    """It opens, as it is sealed for the same meter and number; its rows have never answered."""
    room.submit(1, model="m1")
    (path,) = of_meter(room).glob("testsets/*.sealed")
    path.unlink()
    others = rows(1 - room.session.test_labels, seed=9)
    to = [room.site.identity.recipient]
    seal(others, path, meter=room.id, generation=1, label="label", id_column="id", recipients=to)
    assert_not_whole(named(site), tmp_path / "b.tar", "is not the one that the books name")


def test_a_released_test_set_needs_its_sealed_files_no_more(
    site: Site, room: Room, tmp_path: Path
) -> None:
    """Whoever removed them to make room still has backups, as long as the plain rows are there."""
    for number in range(4):
        room.submit(number, model=f"m{number}")
    room.meter.release()
    folder = of_meter(room)
    for path in (*folder.glob("testsets/*.sealed"), *folder.glob("predictions/*.age")):
        path.unlink()
    made = back_up(SYSTEM, Place.of_site(named(site)), tmp_path / "b.tar")
    assert len(made.missing) == 5
    assert checked(site, tmp_path / "b.tar") == [4]
    (folder / "released" / "1" / "testset.parquet").unlink()
    assert_not_whole(site, tmp_path / "less.tar", "sealed is missing")


def test_a_key_that_was_changed_leaves_backups_sound(
    site: Site, room: Room, tmp_path: Path
) -> None:
    """The sealed file has another digest then than when it was delivered."""
    room.submit(1, model="m1")
    key = tmp_path / "site" / "server.key"
    rotate_key(SYSTEM, Place.of_site(site), key, site)
    again = replace(site, identity=Identity.read(key))
    assert checked(again, saved(again, tmp_path / "b.tar")) == [1]


def link(kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo("manifest.json")
    member.type, member.linkname = kind, "/etc/passwd"
    return member


@pytest.mark.parametrize(
    "bad",
    [
        link(tarfile.SYMTYPE),
        link(tarfile.LNKTYPE),
        link(tarfile.DIRTYPE),
        link(tarfile.FIFOTYPE),
        link(tarfile.GNUTYPE_SPARSE),
        tarfile.TarInfo("manifest.json"),
    ],
    ids=["symbolic link", "link", "folder", "pipe", "holes", "twice"],
)
def test_anything_but_plain_files_is_refused_before_it_is_read(
    site: Site, room: Room, fresh: Fresh, tmp_path: Path, bad: tarfile.TarInfo
) -> None:
    found = members_of(saved(site, tmp_path / "b.tar"))
    path = written(tmp_path / "bad.tar", found)
    there = fresh("there")
    assert brought(there, path)
    with tarfile.open(path, "a") as archive:
        archive.addfile(bad)
    with pytest.raises(MeterError, match="damaged, or changed"):
        brought(there, path)


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_a_backup_that_was_cut_short_is_refused(
    site: Site, room: Room, fresh: Fresh, tmp_path: Path, cut: float
) -> None:
    content = saved(site, tmp_path / "b.tar").read_bytes().rstrip(b"\0")
    (tmp_path / "cut.tar").write_bytes(content[: int(cut * len(content))])
    there = fresh("there")
    with pytest.raises(MeterError, match=r"cut\.tar"):
        brought(there, tmp_path / "cut.tar")
    with there.reading() as books:
        assert not books.meters.all()


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def assert_each_is_missed(space: Workspace, state: Path, names: list[str]) -> None:
    """Take each file away, then change a bit of it."""
    assert faults(SYSTEM, space) == []
    for name in names:
        path = state / name
        path.rename(state / "away")
        assert faults(SYSTEM, space) == [f"{name} is missing"]
        (state / "away").rename(path)
        whole = path.read_bytes()
        spoil(path)
        (problem,) = faults(SYSTEM, space)
        assert problem.startswith(f"{name} is damaged: ")
        path.write_bytes(whole)
    assert faults(SYSTEM, space) == []


def files_named(state: Path, *patterns: str) -> list[str]:
    found = [str(path.relative_to(state)) for each in patterns for path in state.glob(each)]
    assert len(found) >= len(patterns)
    return found


def test_sealed_sets_validation_sets_and_kept_submissions(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    home = Home(tmp_path / "meter")
    names = files_named(home.state, "testsets/*.sealed", "validation/*", "predictions/*")
    assert_each_is_missed(home.workspace(), home.state, names)


def test_orders_and_the_labels_that_came(tmp_path: Path) -> None:
    demand = begin(tmp_path)
    demand.submit(range(9), "deployed")
    demand.answered(range(3), "first")
    demand.wait(range(5), "second")
    home = Home(tmp_path / "meter")
    names = files_named(home.state, "orders/*")
    assert len(names) == 3  # what waited, its labels, and what waits
    assert_each_is_missed(home.workspace(), home.state, names)


def test_parts_that_wait_for_others_and_archived_sets(tmp_path: Path) -> None:
    Meter.create(tmp_path / "meter", small_spec(), clock=Clock()).close()
    home = Home(tmp_path / "meter")
    space = home.workspace(Clock())
    (tmp_path / "rows.csv").write_text("id,x,label\n" + "".join(f"{i},{i},1\n" for i in range(5)))
    choices = Choices(label="label", id_column="id", part=True)
    seal_labels(SYSTEM, space, tmp_path / "rows.csv", tmp_path / "part.sealed", choices)
    add_labels(SYSTEM, space, tmp_path / "part.sealed", part=True)
    names = files_named(home.state, "parts/*")
    assert_each_is_missed(space, home.state, names)
    archive_meter(SYSTEM, space)
    (home.state / names[0]).unlink()
    assert faults(SYSTEM, space) == []


def test_a_notice_that_is_damaged(tmp_path: Path) -> None:
    """The books do not name it, so only what is there can be looked at."""
    make_session(tmp_path)
    home = Home(tmp_path / "meter")
    (notice, *_) = files_named(home.state, "testsets/notice-*.age")
    spoil(home.state / notice)
    assert faults(SYSTEM, home.workspace()) == [f"{notice} is damaged: it does not open"]


def test_kept_submissions_are_needed_until_the_release(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for errors in range(4):
        session.submit(errors, 0, model=f"m{errors}")
    home = Home(tmp_path / "meter")
    kept = home.state / files_named(home.state, "predictions/*")[0]
    content = kept.read_bytes()
    kept.unlink()
    assert len(faults(SYSTEM, home.workspace())) == 1
    kept.write_bytes(content)
    session.meter.release()
    kept.unlink()
    assert faults(SYSTEM, home.workspace()) == []


def test_a_site_whose_files_are_all_away_is_refused(tmp_path: Path) -> None:
    """A share that is not mounted looks like this: an empty folder."""
    with closing(make_site(tmp_path / "site", f"sqlite:///{tmp_path}/meter.db")) as site:
        check_mounted(SYSTEM, site)
        create_meter(SYSTEM, site, small_spec(), "empty")
        check_mounted(SYSTEM, site)  # it has no file yet
        room = make_room(site, tmp_path / "room")
        room.submit(1, model="a")
        files = tmp_path / "site" / "files"
        files.rename(tmp_path / "away")
        files.mkdir()
        # A server that starts without its files makes the note anew, and only that.
        (files / RECIPIENT).write_text(str(site.identity.recipient))
        for _ in range(2):
            with pytest.raises(MeterError, match="none of the files is there") as refused:
                check_mounted(SYSTEM, site)
            assert "\n" not in str(refused.value)
        with pytest.raises(MeterError, match="none of the files is there"):
            rotate_key(SYSTEM, Place.of_site(site), tmp_path / "site" / "server.key", site)
        # One of them is enough: some may be lost, and all others still answer.
        (validation,) = (tmp_path / "away").glob("meters/*/validation/*")
        there = files / validation.relative_to(tmp_path / "away")
        there.parent.mkdir(parents=True)
        validation.rename(there)
        check_mounted(SYSTEM, site)
