"""The files that the books name: each is missed when it is gone, and found out when it is bad."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from easeml_meter.errors import MeterError
from easeml_meter.meter import Meter
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.backup import Place
from easeml_meter.service.holdings import check_mounted, faults
from easeml_meter.service.keys import rotate_key
from easeml_meter.service.meters import archive_meter, create_meter
from easeml_meter.service.place import RECIPIENT, Home, Workspace
from easeml_meter.service.testsets.delivery import Choices, seal_labels
from easeml_meter.service.testsets.parts import add_labels

from .demand import begin
from .helpers import Clock, make_session, small_spec
from .sites import make_room, make_site


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


def named(state: Path, *patterns: str) -> list[str]:
    found = [str(path.relative_to(state)) for each in patterns for path in state.glob(each)]
    assert len(found) >= len(patterns)
    return found


def test_sealed_sets_validation_sets_and_kept_submissions(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    home = Home(tmp_path / "meter")
    names = named(home.state, "testsets/*.sealed", "validation/*", "predictions/*")
    assert_each_is_missed(home.workspace(), home.state, names)


def test_orders_and_the_labels_that_came(tmp_path: Path) -> None:
    demand = begin(tmp_path)
    demand.submit(range(9), "deployed")
    demand.answered(range(3), "first")
    demand.wait(range(5), "second")
    home = Home(tmp_path / "meter")
    names = named(home.state, "orders/*")
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
    names = named(home.state, "parts/*")
    assert_each_is_missed(space, home.state, names)
    archive_meter(SYSTEM, space)
    (home.state / names[0]).unlink()
    assert faults(SYSTEM, space) == []


def test_a_notice_that_is_damaged(tmp_path: Path) -> None:
    """The books do not name it, so only what is there can be looked at."""
    make_session(tmp_path)
    home = Home(tmp_path / "meter")
    (notice, *_) = named(home.state, "testsets/notice-*.age")
    spoil(home.state / notice)
    assert faults(SYSTEM, home.workspace()) == [f"{notice} is damaged: it does not open"]


def test_kept_submissions_are_needed_until_the_release(tmp_path: Path) -> None:
    session = make_session(tmp_path)
    for errors in range(4):
        session.submit(errors, 0, model=f"m{errors}")
    home = Home(tmp_path / "meter")
    kept = home.state / named(home.state, "predictions/*")[0]
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
