"""`meter backup` and `meter restore` on a meter's folder; docs/server.md runs them on a server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from tests.cli.running import Captured, run
from tests.cli.workbench import Workbench
from tests.service.helpers import make_session, small_spec
from tests.service.sites import make_room, make_site, same_key

from easeml_meter.core.people import Role
from easeml_meter.meter import Meter
from easeml_meter.server.metrics import Metrics
from easeml_meter.server.worker import prepare
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.seats import add_seat
from easeml_meter.service.users import add_user, list_users
from easeml_meter.spec import MeterSpec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A meter that has answered once."""
    session = make_session(tmp_path)
    session.submit(1, 0, model="a")
    session.meter.close()
    return tmp_path / "meter"


def test_a_folder_there_and_back(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    file, there = str(tmp_path / "b.tar"), tmp_path / "there"
    code, out, err = run(capsys, "backup", file, "--with-key", "-C", str(folder))
    assert (code, out.splitlines()[0].split(" ")[1]) == (0, "small")
    assert "the key is in it" in err
    code, out, err = run(capsys, "restore", file, "-C", str(there), "--json")
    assert (code, err) == (0, "")
    (restored,) = json.loads(out)
    assert (restored["answers_then"], restored["answers_now"]) == (1, 1)
    assert not restored["witnessed"]
    assert MeterSpec.read(there / "meter.toml") == MeterSpec.read(folder / "meter.toml")
    assert (there / ".meter" / "keys" / "meter.key").stat().st_mode & 0o077 == 0
    with Meter.open(folder) as before, Meter.open(there) as after:
        assert after.status() == before.status()
    code, out, _ = run(capsys, "audit", "-C", str(there))
    assert code == 0
    assert "from the backup of" in out
    assert "\nthe chain is sound, restored\n" in out


@pytest.mark.parametrize("named", ["settings", "database", "files", "key"])
def test_a_server_that_is_named_is_meant_also_in_the_folder_of_a_meter(
    named: str, folder: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, that meter was backed up, or got another key, and the server seemed to."""
    site, file = tmp_path / "site", tmp_path / "site.toml"
    opened = make_site(site, f"sqlite:///{site}/meter.db")
    add_user(SYSTEM, opened, "anna")
    opened.close()
    file.write_text(f"folder = {json.dumps(str(site))}")
    given = {
        "settings": file,
        "database": f"sqlite:///{site}/meter.db",
        "files": site / "files",
        "key": site / "server.key",
    }
    monkeypatch.chdir(folder)
    if named != "settings":
        monkeypatch.setenv("METER_SERVER_FOLDER", str(site))
    server, backup = (f"--{named}", str(given[named])), str(tmp_path / "b.tar")
    code, out, err = run(capsys, "backup", backup, *server)
    assert (code, err) == (0, "")
    assert out.startswith("no meter yet: accounts only\n")
    own = (folder / ".meter" / "keys" / "meter.key").read_bytes()
    code, out, _ = run(capsys, "key", "rotate", *server)
    assert (code, "the new key file" in out) == (0, True)
    assert (folder / ".meter" / "keys" / "meter.key").read_bytes() == own


def test_the_backup_of_a_folder_is_not_restored_to_a_server(
    folder: Path, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it went into the folder where one stood, whatever server was named."""
    backup, here = str(tmp_path / "b.tar"), tmp_path / "here"
    run(capsys, "backup", backup, "--with-key", "-C", str(folder))
    here.mkdir()
    monkeypatch.chdir(here)
    database = f"sqlite:///{tmp_path}/site.db"
    code, out, err = run(capsys, "restore", backup, "--database", database)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the backup of a meter's folder: name a folder with -C" in err
    assert list(here.iterdir()) == []


def test_over_what_is_there(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    file = str(tmp_path / "b.tar")
    code, out, err = run(capsys, "backup", file, "-C", str(folder), "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["with_key"] is False
    code, out, err = run(capsys, "restore", file, "-C", str(folder))
    assert (code, err) == (0, "")
    assert out.endswith("1 now\n")
    assert run(capsys, "audit", "-C", str(folder))[0] == 0


def test_without_a_key(folder: Path, tmp_path: Path, capsys: Captured) -> None:
    file, there = str(tmp_path / "b.tar"), tmp_path / "there"
    run(capsys, "backup", file, "-C", str(folder))
    code, _, err = run(capsys, "restore", file, "-C", str(there))
    assert code == 2
    assert "there is no key, and none in the backup" in err
    assert not there.exists()


def test_a_backup_is_not_checked_without_a_key(
    tmp_path: Path, folder: Path, capsys: Captured
) -> None:
    """Nobody is sent to a backup for the key that this backup needs."""
    file, there = str(tmp_path / "b.tar"), tmp_path / "there"
    run(capsys, "backup", file, "-C", str(folder))
    code, _, err = run(capsys, "restore", file, "--check", "-C", str(there))
    assert code == 2
    assert err.endswith(
        "meter.key: there is no key: put the one that belongs to the backup there\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["backup", "{tmp}/b.tar", "-C", "{tmp}/nowhere"], "there is no key"),
        (["backup", "{tmp}/b.tar", "-C", "{meter}", "--meter", "0" * 32], "no such meter"),
        (["backup", "{tmp}/no/b.tar", "-C", "{meter}"], "cannot write"),
        (["backup", "{meter}/.meter/meter.db", "-C", "{meter}"], "already exists"),
        (["restore", "{tmp}/nothing.tar"], "there is no such file"),
        (["restore", "{tmp}", "--check"], "there is no such file"),
        (["restore", "{meter}/.meter/meter.db"], "damaged"),
    ],
)
def test_what_goes_wrong(
    folder: Path, tmp_path: Path, capsys: Captured, arguments: list[str], said: str
) -> None:
    code, out, err = run(capsys, *(each.format(tmp=tmp_path, meter=folder) for each in arguments))
    assert code in (1, 2)
    assert out == ""
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


def test_without_the_packages_of_a_server(folder: Path, tmp_path: Path) -> None:
    """A folder is backed up all the same; for a server one line says what is missing."""
    code = "import sys; sys.modules['pydantic_settings'] = None; import easeml_meter.cli as c; "
    file, there = str(tmp_path / "b.tar"), str(tmp_path / "there")

    def without(*arguments: str) -> tuple[int, str]:
        program = f"{code}c.main({list(arguments)!r})"
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        return done.returncode, done.stderr

    missing = (
        1,
        "meter: the server needs pydantic_settings; run: pip install 'easeml-meter[server]'\n",
    )
    assert without("backup", file, "--with-key", "-C", str(folder))[0] == 0
    assert without("restore", file, "-C", there)[0] == 0
    assert without("backup", file, "-C", str(tmp_path)) == missing
    assert without("serve", "--port", "0") == missing
    assert without("worker") == missing


def test_the_folder_may_be_named_before_the_command(tmp_path: Path) -> None:
    desk = Workbench(tmp_path)
    desk.init()
    shown = desk.run("-C", "meter", "backup", "meter.backup")
    assert (shown.code, shown.err) == (0, "")
    assert (tmp_path / "meter.backup").is_file()


def test_the_backup_of_a_server_is_checked_noted_and_restored(
    tmp_path: Path, capsys: Captured
) -> None:
    """The server's metrics know of it, and all comes back."""
    site, file = tmp_path / "site", str(tmp_path / "b.tar")
    opened = make_site(site, f"sqlite:///{site}/meter.db")
    prepare(opened)
    room = make_room(opened, tmp_path / "room")
    for number in range(3):
        room.submit(number, model=f"m{number}")
    code, out, err = run(capsys, "backup", file, "--folder", str(site), "--json")
    assert (code, err) == (0, "")
    made = json.loads(out)
    assert "\nmeter_backup_time_seconds " not in Metrics().text(SYSTEM, opened, timed=False)
    code, out, _ = run(capsys, "restore", file, "--check", "--folder", str(site))
    assert (code, out.endswith("3 answers, sound\n")) == (0, True)
    shown = Metrics().text(SYSTEM, opened, timed=False)
    (line,) = re.findall(r"^meter_backup_time_seconds (.*)$", shown, re.MULTILINE)
    assert float(line) == pytest.approx(datetime.fromisoformat(made["at"]).timestamp(), abs=0.01)
    opened.close()
    same_key(tmp_path / "there", site)
    code, out, _ = run(capsys, "restore", file, "--folder", str(tmp_path / "there"))
    assert (code, out.endswith("3 now\n")) == (0, True)


def test_a_server_that_lost_its_files_is_told(tmp_path: Path, capsys: Captured) -> None:
    """It was "sound", with exit code 0."""
    site, good, file = tmp_path / "site", str(tmp_path / "good.tar"), str(tmp_path / "left.tar")
    opened = make_site(site, f"sqlite:///{site}/meter.db")
    prepare(opened)
    make_room(opened, tmp_path / "room").submit(1, model="m1")
    opened.close()
    assert run(capsys, "backup", good, "--folder", str(site))[0] == 0
    assert run(capsys, "restore", good, "--check", "--folder", str(site))[0] == 0
    noted = (site / "files" / "server.backup").read_text()
    (site / "files" / "meters").rename(tmp_path / "away")
    # What is left can still be put into a file, which says itself that it is not whole.
    code, _, err = run(capsys, "backup", file, "--folder", str(site))
    assert (code, err.count(" is missing\n")) == (0, 3)
    code, out, err = run(capsys, "restore", file, "--check", "--folder", str(site))
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert ".sealed is missing, and 2 more files: use an earlier backup" in err
    assert (site / "files" / "server.backup").read_text() == noted
    code, _, err = run(capsys, "restore", good, "--folder", str(site))
    assert (code, err) == (0, "")
    (tmp_path / "left.tar").unlink()
    assert run(capsys, "backup", file, "--folder", str(site))[0] == 0
    assert run(capsys, "restore", file, "--check", "--folder", str(site))[0] == 0


def test_a_server_without_meters_is_backed_up_and_restored(
    tmp_path: Path, capsys: Captured
) -> None:
    """It failed there, so the alert for old backups fired at every new server."""
    site, there, file = tmp_path / "site", tmp_path / "there", str(tmp_path / "b.tar")
    opened = make_site(site, f"sqlite:///{site}/meter.db")
    prepare(opened)
    add_user(SYSTEM, opened, "anna")
    code, out, err = run(capsys, "backup", file, "--folder", str(site))
    assert (code, err) == (0, "")
    assert out.startswith("no meter yet: accounts only\nbacked up to")
    code, out, err = run(capsys, "restore", file, "--check", "--folder", str(site))
    assert (code, out, err) == (0, "no meter in it; all else can be restored\n", "")
    assert "\nmeter_backup_time_seconds " in Metrics().text(SYSTEM, opened, timed=False)
    opened.close()
    same_key(there, site)
    for _ in range(2):  # at last over what is there
        code, out, err = run(capsys, "restore", file, "--folder", str(there))
        assert (code, out, err) == (0, "no meter was in the backup\n", "")
    reopened = make_site(there, f"sqlite:///{there}/meter.db")
    assert [user.name for user in list_users(SYSTEM, reopened)] == ["anna"]
    reopened.close()
    missing = ("restore", file, "--meter", "0" * 32, "--folder", str(there))
    assert "holds no such meter" in run(capsys, *missing)[2]


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    assert os.umask(before) == 0o022  # commands leave it as it was


def open_to_others(folder: Path) -> list[str]:
    """List what other accounts may read or enter."""
    found = (path for path in folder.rglob("*") if path.stat().st_mode & 0o077)
    return sorted(str(path.relative_to(folder)) for path in found)


@pytest.mark.usefixtures("usual_umask")
def test_what_commands_write_into_a_site_is_for_its_owner_alone(
    tmp_path: Path, capsys: Captured
) -> None:
    """In a folder that somebody had made, everybody could read hashes of passwords and answers."""
    site, there, file = tmp_path / "site", tmp_path / "there", str(tmp_path / "b.tar")
    opened = make_site(site, f"sqlite:///{site}/meter.db")
    make_room(opened, tmp_path / "room").submit(1, model="m1")
    opened.close()
    run(capsys, "backup", file, "--with-key", "--folder", str(site))
    there.mkdir()
    there.chmod(0o755)
    assert run(capsys, "restore", file, "--folder", str(there))[0] == 0
    assert open_to_others(there) == []
    assert (there / "meter.db").is_file()
    assert run(capsys, "key", "rotate", "--folder", str(there))[0] == 0
    again = str(tmp_path / "again.tar")
    assert run(capsys, "backup", again, "--folder", str(there))[0] == 0
    assert run(capsys, "restore", again, "--check", "--folder", str(there))[0] == 0
    assert (there / "files" / "server.backup").is_file()
    assert open_to_others(there) == []
    assert there.stat().st_mode & 0o777 == 0o755  # whoever made it knows why


def test_a_check_speaks_json_and_is_of_the_whole_backup(
    folder: Path, tmp_path: Path, capsys: Captured
) -> None:
    file = str(tmp_path / "b.tar")
    run(capsys, "backup", file, "-C", str(folder))
    words = ("restore", file, "--check", "-C", str(folder))
    code, out, err = run(capsys, *words, "--json")
    (found,) = json.loads(out)
    assert (code, err, found["name"], found["answers"], found["sound"]) == (0, "", "small", 1, True)
    code, out, err = run(capsys, *words, "--meter", found["id"])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--check looks at the whole backup" in err


def test_many_meters_share_a_line_and_what_is_left_out_is_told(
    tmp_path: Path, capsys: Captured
) -> None:
    """201 meters had 201 lines, and 195 of them a warning without a name; accounts none at all."""
    site, there, file = tmp_path / "site", tmp_path / "there", str(tmp_path / "b.tar")
    opened = make_site(site, f"sqlite:///{site}/meter.db")
    prepare(opened)
    user = add_user(SYSTEM, opened, "anna").id
    rooms = [create_meter(SYSTEM, opened, small_spec(), f"m{k}").id for k in range(11)]
    add_seat(SYSTEM, opened.space(rooms[0]), user, Role.DEVELOPER, 1)
    opened.close()
    code, out, err = run(capsys, "backup", file, "--folder", str(site))
    assert (code, out.splitlines()[0], err) == (0, "11 meters: 0 answers", "")
    code, out, _ = run(capsys, "restore", file, "--check", "--folder", str(site))
    assert (code, out) == (0, "11 meters: 0 answers, sound\n")
    same_key(there, site)
    opened = make_site(there, f"sqlite:///{there}/meter.db")
    add_user(SYSTEM, opened, "admin")
    opened.close()
    code, out, err = run(capsys, "restore", file, "--folder", str(there))
    assert code == 1
    assert re.fullmatch(r"11 meters: 0 answers, as when they were backed up \(.*\)\n", out)
    assert err.startswith("left out: 1 accounts and 1 seats of the backup, as this server has")
