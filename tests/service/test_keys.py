"""A new key takes the place of the old one: nothing is lost, and no answer is given back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.service.helpers import deliver, make_session
from tests.service.sites import Room, make_room, make_site

from easeml_meter.errors import InvalidInput, MeterError, Spent, VaultError
from easeml_meter.meter import Meter
from easeml_meter.server.worker import check_key, prepare
from easeml_meter.service import keys
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.backup import Place, back_up
from easeml_meter.service.keys import Rotated, rotate_key
from easeml_meter.service.place import Home
from easeml_meter.service.restore import check_backup
from easeml_meter.service.submissions import answering
from easeml_meter.service.submissions.measuring import open_sealed, read_kept
from easeml_meter.storage.files import FolderFiles
from easeml_meter.vault.keys import Identity, fingerprint_key, signing_key, unwrap, wrap


@pytest.fixture
def room(tmp_path: Path, database: str) -> Iterator[Room]:
    """A meter of a server, with a released test set, an active one and answers."""
    site = make_site(tmp_path / "site", database)
    prepare(site)
    made = make_room(site, tmp_path / "people")
    for step in range(4):
        made.submit(step, model=f"first-{step}")
    deliver(made.meter, tmp_path / "people", made.session.test_labels, seed=31)
    made.submit(1, model="second")
    yield made
    site.close()


def rotate(room: Room) -> Rotated:
    key = key_of(room)
    site = replace(room.site, identity=Identity.read(key))
    return rotate_key(SYSTEM, Place.of_site(site), key, site)


def key_of(room: Room) -> Path:
    return room.session.folder.parent / "site" / "server.key"


def again(room: Room) -> Room:
    """Start the server again, with the key that is in the file."""
    site = replace(room.site, identity=Identity.read(key_of(room)))
    session = replace(room.session, meter=Meter(site.space(room.id)))
    return Room(site, room.id, session)


def everything_opens(room: Room, identity: Identity) -> None:
    """Open all that is sealed, with one key."""
    space = replace(room.site.space(room.id), open_identity=lambda: identity)
    with space.reading() as books:
        for test_set in books.testsets.all(room.id):
            if test_set.blob is None:
                continue
            with open_sealed(space, test_set) as sealed:
                assert sealed.verify().rows == test_set.rows
                assert sealed.fingerprint(fingerprint_key(identity)) == test_set.fingerprint
            for entry in books.entries.all(room.id, test_set.number):
                assert read_kept(space, entry.blob)[0]
    assert Meter(space).notices()


def test_all_is_sealed_to_the_new_key_and_goes_on(room: Room) -> None:
    old = Identity.read(key_of(room))
    everything_opens(room, old)
    before = room.meter.status()
    done = rotate(room)
    new = Identity.read(key_of(room))
    assert (done.before, done.recipient) == (old.recipient, new.recipient)
    assert done.unopened == ()
    assert new.former is None
    assert new.recipient != old.recipient
    assert key_of(room).stat().st_mode & 0o077 == 0
    assert Identity.read(done.former).recipient == old.recipient
    everything_opens(room, new)
    with pytest.raises(VaultError):
        everything_opens(room, old)
    after = again(room)
    check_key(after.site)
    assert after.meter.status() == before
    assert after.submit(1, model="second").repeated
    assert after.submit(2, model="third").step == 2
    audit = after.meter.audit()
    assert audit.problems == ()
    (link,) = [link for link in audit.links if link.event == "key changed"]
    assert (link.details["recipient"], link.details["before"]) == (new.recipient, old.recipient)
    for step in range(2):
        after.submit(10 + step, model=f"last-{step}")
    # Rows that have answered are known by their fingerprint, and give no answer back.
    (after.session.folder / "set-31.sealed").unlink()
    with pytest.raises(InvalidInput, match="the same rows were test set 2"):
        deliver(after.meter, after.session.folder, after.session.test_labels, seed=31)
    with pytest.raises(Spent):
        after.submit(50, model="one too many")


def test_a_second_change_and_a_backup(room: Room, tmp_path: Path) -> None:
    first = rotate(room)
    second = rotate(room)
    assert second.before == first.recipient
    identity = Identity.read(key_of(room))
    everything_opens(room, identity)
    # With a key that was kept, rows that have answered are known again, whichever change it was.
    for kept in (first.former, second.former):
        assert fingerprint_key(Identity.read(kept)) == fingerprint_key(identity)
    place = Place.of_site(again(room).site)
    back_up(SYSTEM, place, tmp_path / "new.tar")
    assert [each.name for each in check_backup(SYSTEM, identity, tmp_path / "new.tar")] == ["small"]
    events = [link.event for link in again(room).meter.audit().links]
    assert events.count("key changed") == 2


def test_a_former_key_signs_nothing_any_more(tmp_path: Path) -> None:
    old = Identity.new()
    new = old.successor()
    assert fingerprint_key(new) == fingerprint_key(old)
    assert fingerprint_key(new.alone().successor()) == fingerprint_key(old)
    assert signing_key(new) != signing_key(old)
    sealed = wrap(b"x", [old.recipient])
    assert unwrap(sealed, new) == b"x"
    with pytest.raises(VaultError):
        unwrap(sealed, new.alone())
    new.write(tmp_path / "key")
    read = Identity.read(tmp_path / "key")
    assert (read.recipient, fingerprint_key(read)) == (new.recipient, fingerprint_key(new))
    assert read.former is not None
    assert read.former.recipient == old.recipient
    assert str(old._key) not in repr(new)
    assert fingerprint_key(new).hex() not in repr(new)


def test_it_can_be_cut_short_before_any_write_and_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every point the key in the file opens everything, and the next try ends it."""
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    shutil.copytree(tmp_path / "meter", tmp_path / "before")
    for stop in range(1, 100):
        home = Home(tmp_path / f"try-{stop}")
        shutil.copytree(tmp_path / "before", home.folder)
        was_cut = False
        with monkeypatch.context() as patched:
            cut_before(patched, stop)
            try:
                rotate_key(SYSTEM, Place.of_folder(home), home.key)
            except KeyboardInterrupt:
                was_cut = True
        session.meter = Meter.open(home.folder)
        assert session.submit(1, 0, model="a").repeated
        with open_sealed(home.workspace(), session.meter.generations[0]) as sealed:
            sealed.verify()
        assert session.meter.notices()
        if not was_cut:
            break
        rotate_key(SYSTEM, Place.of_folder(home), home.key)
        assert Identity.read(home.key).former is None
        session.meter = Meter.open(home.folder)
        session.submit(2, 0, model="b")
        session.meter.retire()
        truths = json.loads((session.meter.release() / "retrospective.json").read_text())
        assert [each["truth"]["test_loss"] > 0 for each in truths] == [True, True]
        audit = session.meter.audit()
        assert audit.problems == ()
        assert [link.event for link in audit.links].count("key changed") == 1
    assert stop > 8


def cut_before(patched: pytest.MonkeyPatch, stop: int) -> None:
    """Let the power fail before so many writes to the disk, of whatever kind."""
    writes = 0

    def cut(original: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == stop:
                raise KeyboardInterrupt
            return original(*args, **options)

        return counted

    for owner, name in (
        (Identity, "replace"),
        (Identity, "write"),
        (FolderFiles, "put"),
        (keys, "rewrap"),
        (keys, "_note"),
    ):
        patched.setattr(owner, name, cut(getattr(owner, name)))


def test_a_server_refuses_to_start_in_between(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        cut_before(patched, 4)
        with pytest.raises(KeyboardInterrupt):
            rotate(room)
    with pytest.raises(MeterError, match="run meter key rotate once more"):
        check_key(again(room).site)
    rotate(room)
    check_key(again(room).site)


def test_in_a_folder(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    home = Home(tmp_path / "meter")
    done = rotate_key(SYSTEM, Place.of_folder(home), home.key)
    assert done.files == 4  # the test set, two notices to labelers, and a submission
    meter = Meter.open(tmp_path / "meter")
    session.meter = meter
    assert session.submit(1, 0, model="a").repeated
    assert session.submit(2, 0, model="b").step == 2
    assert meter.audit().problems == ()
    session.meter.retire()
    meter.release()


def test_a_process_with_the_former_key_writes_nothing_that_nobody_can_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key changes while a submission is measured: it is refused, and can be sent again."""
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    home, tell = Home(tmp_path / "meter"), answering._tell

    def changing(*arguments: Any) -> Any:
        rotate_key(SYSTEM, Place.of_folder(home), home.key)
        return tell(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(answering, "_tell", changing)
        with pytest.raises(MeterError, match="key of the meter was changed: open the meter again"):
            session.submit(2, 0, model="b")
    assert len(session.meter.status().signals) == 1
    for attempt in (session.meter.retire, lambda: session.submit(3, 0)):
        with pytest.raises(MeterError, match="open the meter again"):
            attempt()
    session.meter = Meter.open(tmp_path / "meter")
    assert session.submit(2, 0, model="b").step == 2
    for name in session.meter.workspace.files.names("predictions"):
        assert unwrap((home.state / "predictions" / name).read_bytes(), Identity.read(home.key))
    session.meter.retire()
    assert session.meter.release().is_dir()


def test_whoever_only_reads_goes_on_with_the_new_key(tmp_path: Path) -> None:
    """It said that what is sealed does not open, and asked for rows sealed to the former key."""
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    reader, home = Meter.open(tmp_path / "meter"), Home(tmp_path / "meter")
    told, rows = reader.notices(), reader.export_inputs(tmp_path / "before.parquet")
    rotate_key(SYSTEM, Place.of_folder(home), home.key)
    assert reader.notices() == told
    assert reader.export_inputs(tmp_path / "after.parquet") == rows
    with Meter.open(tmp_path / "meter") as writer:
        writer.retire()
    (asked,) = reader.requests()
    assert asked.recipients == (Identity.read(home.key).recipient,)
    with pytest.raises(MeterError, match="key of the meter was changed: open the meter again"):
        reader.release()
    reader.close()


def test_a_key_changes_between_transactions_only(tmp_path: Path) -> None:
    """What another process is writing, it has sealed to the former key: that is sealed anew."""
    session = make_session(tmp_path)
    home, before = Home(tmp_path / "meter"), Identity.read(Home(tmp_path / "meter").key).recipient
    space = session.meter.workspace
    with ThreadPoolExecutor(1) as pool:
        with space.writing():
            done = pool.submit(lambda: rotate_key(SYSTEM, Place.of_folder(home), home.key))
            with pytest.raises(TimeoutError):
                done.result(0.5)
            assert Identity.read(home.key).recipient == before
            space.files.put("predictions/late.age", wrap(b"late", [space.identity.recipient]))
        done.result(20)
    content = space.files.read("predictions/late.age")
    assert unwrap(content, Identity.read(home.key)) == b"late"


def test_a_file_that_neither_key_opens_is_named(tmp_path: Path) -> None:
    make_session(tmp_path)
    home = Home(tmp_path / "meter")
    foreign = wrap(b"x", [Identity.new().recipient])
    (home.state / "predictions" / "foreign.age").write_bytes(foreign)
    done = rotate_key(SYSTEM, Place.of_folder(home), home.key)
    assert done.unopened == ("predictions/foreign.age",)


def test_two_keys_are_not_mixed_up(room: Room, tmp_path: Path) -> None:
    other = tmp_path / "other.key"
    Identity.new().write(other)
    with pytest.raises(InvalidInput, match="it was changed meanwhile"):
        rotate_key(SYSTEM, Place.of_site(room.site), other, room.site)
