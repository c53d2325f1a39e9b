"""The examination of a server: each check finds what is wrong, and says what to do."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from easeml_meter.core.doctor import Finding, Verdict
from easeml_meter.errors import StorageError
from easeml_meter.scoring import sandbox
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.doctor import Installation, examine, readiness
from easeml_meter.service.place import RECIPIENT, Room, Site
from easeml_meter.storage.store import Store
from easeml_meter.vault.keys import Identity

CHECKS = ["key", "sandbox", "database", "disk", "files", "workers", "proxy"]


@pytest.fixture(autouse=True)
def _sandbox_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting a real one takes a while; its own test below does."""
    monkeypatch.setattr(sandbox, "missing", lambda: None)


@pytest.fixture
def place(tmp_path: Path) -> Installation:
    """Make a server that lacks nothing."""
    folder = tmp_path / "site"
    folder.mkdir(mode=0o700)
    found = Installation(
        folder=folder,
        database=f"sqlite:///{folder}/meter.db",
        files=str(folder / "files"),
        key=folder / "server.key",
        room=Room(free=1 << 20),
    )
    site = Site.open(found.database, found.files, found.key)
    site.files.put(RECIPIENT, site.identity.recipient.encode())
    site.close()
    return found


def found(place: Installation, check: str) -> Finding:
    findings = examine(SYSTEM, place)
    assert [each.check for each in findings] == CHECKS
    return next(each for each in findings if each.check == check)


def test_a_sound_server_has_nothing_to_do(place: Installation) -> None:
    assert {each.verdict for each in examine(SYSTEM, place)} == {Verdict.OK}
    assert sorted(os.listdir(place.files)) == [RECIPIENT]  # nothing is left behind


def test_before_the_first_start_nothing_fails_and_nothing_is_made(tmp_path: Path) -> None:
    site = tmp_path / "site"
    place = Installation(site, f"sqlite:///{site}/meter.db", str(site / "f"), site / "k", Room())
    verdicts = {each.check: each.verdict for each in examine(SYSTEM, place)}
    assert {check for check, each in verdicts.items() if each is Verdict.WARN} == {
        "key",
        "database",
        "files",
    }
    assert not site.exists()


def test_a_key_that_others_may_read_fails(place: Installation) -> None:
    place.key.chmod(0o640)
    finding = found(place, "key")
    assert finding.verdict is Verdict.FAIL
    assert finding.remedy.startswith(f"chmod 600 {place.key}")


def test_a_key_file_without_a_key_fails(place: Installation) -> None:
    place.key.write_text("nothing\n")
    assert found(place, "key").verdict is Verdict.FAIL


def test_the_key_of_another_server_fails(place: Installation) -> None:
    place.key.unlink()
    Identity.new().write(place.key)
    assert found(place, "files").remedy == "put the server's own key in place"


def test_what_the_sandbox_lacks_is_a_warning(
    place: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "missing", lambda: "bwrap is not installed")
    assert found(place, "sandbox").verdict is Verdict.WARN


def test_a_database_that_does_not_answer_fails(place: Installation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    address = f"postgresql://meter:secret@127.0.0.1:{port}/meter"
    finding = found(replace(place, database=address), "database")
    assert finding.verdict is Verdict.FAIL
    assert "secret" not in finding.line


def test_an_address_of_no_database_fails_once(place: Installation) -> None:
    findings = examine(SYSTEM, replace(place, database="nonsense"))
    failed = [each.check for each in findings if each.verdict is not Verdict.OK]
    assert failed == ["database"]


@pytest.mark.parametrize(("version", "verdict"), [("0000", Verdict.WARN), ("9999", Verdict.FAIL)])
def test_tables_of_another_version_are_found_and_left_alone(
    place: Installation, version: str, verdict: Verdict
) -> None:
    site = Site.open(place.database, place.files, place.key)
    order = f"UPDATE alembic_version SET version_num = '{version}'"  # noqa: S608
    with site.writing() as books:
        books.connection.exec_driver_sql(order)
    assert found(place, "database").verdict is verdict
    # A process that runs has passed the check at its start: a newer one has migrated since.
    assert readiness(SYSTEM, site, place.folder)[0].verdict is Verdict.WARN
    with site.reading() as books:
        assert books.version() == version
    site.close()


def test_a_running_server_says_no_address_of_its_database(
    place: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Store) -> None:
        raise StorageError('connection to server at "127.0.0.1", port 5477 failed')

    site = Site.open(place.database, place.files, place.key)
    monkeypatch.setattr(Store, "reading", away)
    lines = [each.line for each in readiness(SYSTEM, site, place.folder)]
    assert lines[0].startswith("fail  database  it does not answer: ")
    assert not any("5477" in line for line in lines)
    assert "5477" in found(place, "database").said
    site.close()


@pytest.mark.parametrize(("times", "verdict"), [(1.5, Verdict.WARN), (0.5, Verdict.FAIL)])
def test_a_disk_that_fills_up_is_told_before_it_is_full(
    place: Installation, monkeypatch: pytest.MonkeyPatch, times: float, verdict: Verdict
) -> None:
    monkeypatch.setattr(
        "easeml_meter.storage.files.free_bytes", lambda _: int(times * place.room.kept_free)
    )
    assert found(place, "disk").verdict is verdict


def test_files_that_cannot_be_written_fail(place: Installation) -> None:
    blocked = place.folder / "blocked"
    blocked.write_text("")
    assert found(replace(place, files=str(blocked)), "files").verdict is Verdict.FAIL


def test_files_of_meters_that_the_database_lacks_fail(place: Installation) -> None:
    (Path(place.files) / "meters" / ("a" * 32)).mkdir(parents=True)
    assert found(place, "files").verdict is Verdict.OK
    (Path(place.files) / "meters" / ("a" * 32) / "x").write_text("x")
    for gone in (False, True):
        if gone:
            Path(place.folder / "meter.db").unlink()
        said = found(place, "files")
        assert (said.verdict, "1 meters, and the database has none" in said.said) == (
            Verdict.FAIL,
            True,
        )


def test_an_object_store_is_tried(place: Installation, s3_url: str) -> None:
    assert found(replace(place, files=s3_url), "files").said.startswith("s3: a file was written")


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"trusted_proxy": ("0.0.0.0/0",)}, Verdict.FAIL),
        ({"exposed": True, "in_the_clear": True}, Verdict.WARN),
        ({"exposed": True}, Verdict.WARN),
        ({"trusted_proxy": ("10.0.0.1",)}, Verdict.WARN),
        ({"trusted_proxy": ("10.0.0.1",), "allowed_host": ("meter.example",)}, Verdict.OK),
    ],
)
def test_settings_of_a_proxy_are_judged(
    place: Installation, change: dict[str, object], verdict: Verdict
) -> None:
    assert found(replace(place, **change), "proxy").verdict is verdict  # type: ignore[arg-type]
