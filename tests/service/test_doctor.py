"""The examination of a server: each check finds what is wrong, and says what to do."""

from __future__ import annotations

import os
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import OpenerDirector

import pytest
from tests.postgresql import Cluster
from tests.service.helpers import small_spec

from easeml_meter.core.doctor import BELIEVED, Finding, Verdict
from easeml_meter.scoring import sandbox
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.doctor import Installation, examine, readiness
from easeml_meter.service.meters import create_meter
from easeml_meter.service.notifications.emails import MailServer
from easeml_meter.service.place import RECIPIENT, Site
from easeml_meter.service.room import Room
from easeml_meter.vault.keys import Identity

CHECKS = ["key", "sandbox", "database", "clock", "disk", "files", "proxy", "mail"]


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


def test_a_clock_behind_the_books_fails(place: Installation) -> None:
    ahead = lambda: datetime.now(UTC) + timedelta(hours=1)  # noqa: E731
    site = Site.open(place.database, place.files, place.key, ahead)
    create_meter(SYSTEM, site, small_spec(), "spam")
    site.close()
    finding = found(place, "clock")
    assert finding.verdict is Verdict.FAIL
    assert "newest audit link" in finding.said


def test_the_clock_is_compared_with_that_of_postgresql(
    place: Installation, postgresql: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = replace(place, database=postgresql.new_database(empty=False))
    site = Site.open(place.database, place.files, place.key)
    assert found(place, "clock") == Finding("clock", Verdict.OK, "as the database's")

    class Slow(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) - timedelta(minutes=1)

    monkeypatch.setattr("easeml_meter.service.doctor.datetime", Slow)
    assert "60 s behind" in found(place, "clock").said
    assert {each.verdict for each in readiness(SYSTEM, site, place.folder)} == {
        Verdict.OK,
        Verdict.FAIL,
    }
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


def test_an_object_store_is_tried(place: Installation, s3_url: str) -> None:
    assert found(replace(place, files=s3_url), "files").said.startswith("s3: a file was written")


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({"trusted_proxy": ("0.0.0.0/0",)}, Verdict.FAIL),
        ({"in_the_clear": True}, Verdict.WARN),
        ({"trusted_proxy": ("10.0.0.1",)}, Verdict.WARN),
        ({"trusted_proxy": ("10.0.0.1",), "allowed_host": ("meter.example",)}, Verdict.OK),
    ],
)
def test_settings_of_a_proxy_are_judged(
    place: Installation, change: dict[str, object], verdict: Verdict
) -> None:
    assert found(replace(place, **change), "proxy").verdict is verdict  # type: ignore[arg-type]


@contextmanager
def answering(body: str, believed: str | None = None) -> Iterator[str]:
    """Serve one text at every path, and name the headers that were believed."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if believed is not None:
                self.send_header(BELIEVED, believed)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("said", "verdict"),
    [("ok database\nok proxy\n", Verdict.OK), ("ok database\nwarn proxy\n", Verdict.FAIL)],
)
def test_the_running_server_is_asked_through_its_proxy(
    place: Installation, said: str, verdict: Verdict
) -> None:
    with answering(said) as address:
        assert found(replace(place, public_url=address), "proxy").verdict is verdict
    assert found(replace(place, public_url=address), "proxy").verdict is Verdict.WARN


@pytest.mark.parametrize(
    ("believed", "verdict"),
    [
        ("X-Forwarded-For", Verdict.OK),
        ("", Verdict.FAIL),
        ("X-Forwarded-Proto", Verdict.FAIL),
        (None, Verdict.WARN),  # a server of an earlier version
    ],
)
def test_a_trusted_proxy_must_say_whom_it_speaks_for(
    place: Installation, believed: str | None, verdict: Verdict
) -> None:
    trusting = replace(place, trusted_proxy=("127.0.0.1",), allowed_host=("127.0.0.1",))
    with answering("ok database\nok proxy\n", believed) as address:
        assert found(replace(trusting, public_url=address), "proxy").verdict is verdict


@pytest.mark.parametrize("kept", [True, False])
def test_https_needs_the_scheme_from_the_proxy(
    place: Installation, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    """Without it the server takes requests for http, and its cookies are not for https alone."""
    believed = "X-Forwarded-For, X-Forwarded-Proto" if kept else "X-Forwarded-For"
    trusting = replace(place, trusted_proxy=("127.0.0.1",), allowed_host=("127.0.0.1",))
    reached = OpenerDirector.open
    with answering("ok proxy\n", believed) as address:
        monkeypatch.setattr(
            OpenerDirector, "open", lambda self, _, timeout: reached(self, address, None, timeout)
        )
        finding = found(replace(trusting, public_url="https://meter.example"), "proxy")
    assert finding.verdict is (Verdict.OK if kept else Verdict.FAIL)
    assert kept or "no X-Forwarded-Proto came" in finding.said


def test_a_mail_server_that_is_not_there_is_a_warning(place: Installation) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    mail = MailServer("127.0.0.1", "meter@example.org", port, "meter", "secret")
    finding = found(replace(place, mail=mail), "mail")
    assert finding.verdict is Verdict.WARN
    assert finding.said == (
        f"127.0.0.1:{port}: the mail server cannot be reached (Connection refused)"
    )
    assert "secret" not in finding.line


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (smtplib.SMTPAuthenticationError(535, b"no"), "does not let us in"),
        (smtplib.SMTPNotSupportedError("no STARTTLS"), "does not let us in"),
        (ssl.SSLCertVerificationError("expired"), "does not let us in"),
        (smtplib.SMTPConnectError(554, b"busy"), "cannot be reached"),
        (smtplib.SMTPServerDisconnected("gone"), "cannot be reached"),
        (TimeoutError("timed out"), "cannot be reached"),
    ],
)
def test_a_mail_server_that_refuses_is_told_from_one_that_is_away(
    place: Installation, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(smtplib, "SMTP", refuse)
    finding = found(replace(place, mail=MailServer("mail", "m@example.org", 25)), "mail")
    assert f"the mail server {said} (" in finding.said
