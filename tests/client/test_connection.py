"""Connections that break: what was lost is asked for again, and charged once."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.client.people import People, fresh, people_at
from tests.live import Live, live, wire

from easeml_meter.client import RemoteMeter, connect, connection
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Upload
from easeml_meter.core.views import Signal
from easeml_meter.errors import (
    InvalidInput,
    MeterError,
    TooLarge,
    Unreachable,
)
from easeml_meter.service import uploads
from easeml_meter.service.submissions import queue
from easeml_meter.service.submissions.answering import answer


@pytest.mark.parametrize("replaced", [False, True], ids=["same sets", "another validation set"])
def test_a_lost_answer_is_asked_for_again_and_charged_once(
    site: Live, at_server: People, tmp_path: Path, replaced: bool
) -> None:
    """Also if the validation set was replaced meanwhile."""
    labels = at_server.begin()
    files = at_server.predictions(labels, 0)
    other = fresh(np.random.default_rng(9).integers(0, 2, 30))
    with wire(site.port) as (line, address):
        prefix = f"{tmp_path.name}-"
        with site.meter(f"{prefix}developer", f"{prefix}meter", address) as developer:
            assert developer.spec.steps == 4
            broken = line.connections
            begun: list[int] = []

            def cut(number: int, up: int, down: int) -> bool:
                # The request goes up whole; of the answer nothing comes down.
                if up > 1500 and not begun:
                    begun.append(down)
                if not (begun and down > begun[0] and number < broken):
                    return False
                if replaced and len(begun) == 1:  # its answer is on the way, so it counts
                    begun.append(0)
                    at_server.developer.replace_validation(other)
                return True

            line.cut = cut
            signal = developer.submit(*files, model="m")
    assert line.connections > broken
    assert (signal.step, signal.repeated) == (1, True)  # it was answered before, unheard
    assert len(at_server.developer.status().signals) == 1


def test_an_answer_that_takes_long_is_waited_for(
    site: Live, at_server: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for again, it would be measured once more beside the first."""
    labels = at_server.begin()
    calls: list[int] = []

    def slow(*given: Any, **options: Any) -> Any:
        calls.append(1)
        time.sleep(3)
        return answer(*given, **options)

    monkeypatch.setattr(queue, "answer", slow)
    monkeypatch.setattr(connection, "_ANSWER_SECONDS", 1.0)
    signal = at_server.submit(labels, 0, model="m")
    assert (signal.step, signal.repeated, calls) == (1, False, [1])


def test_an_upload_goes_on_where_it_broke_off(
    site: Live, at_server: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "PIECE", 250_000)
    at_server.developer.set_validation(at_server.validation(), label="label")
    labels = np.random.default_rng(0).integers(0, 2, 60_000)
    sealed = at_server.sealed(fresh(labels))
    assert sealed.stat().st_size > 1_300_000
    with wire(site.port) as (line, address):
        prefix = f"{tmp_path.name}-"
        with site.meter(f"{prefix}labeler", f"{prefix}meter", address) as labeler:
            # No connection carries half of it.
            line.cut = lambda number, up, down: up > 600_000
            added = labeler.add_test_set(sealed, ids_renumbered=True)
    assert added.rows == len(labels)


def test_an_upload_that_does_not_get_on_is_given_up(
    site: Live, at_server: People, tmp_path: Path
) -> None:
    sealed = at_server.sealed(fresh(np.random.default_rng(0).integers(0, 2, 60_000)))
    with wire(site.port) as (line, address):
        prefix = f"{tmp_path.name}-"
        with site.meter(f"{prefix}labeler", f"{prefix}meter", address) as labeler:
            line.cut = lambda number, up, down: up > 5_000
            with pytest.raises(MeterError, match="the connection broke"):
                labeler.add_test_set(sealed)
    assert [row.phase for row in at_server.labeler.generations] == [Phase.REQUESTED]


def unfinished(site: Live, people: People) -> list[Upload]:
    assert isinstance(people.labeler, RemoteMeter)
    with site.served.site.reading() as books:
        return [each for each in books.uploads.all() if each.meter == people.labeler.id]


@pytest.mark.parametrize("change", ["longer", "shorter", "another"])
def test_a_file_that_changes_while_it_is_sent_is_refused(
    change: str, site: Live, at_server: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, its parts did not fit together: a traceback, or a file that does not open."""
    monkeypatch.setattr(uploads, "PIECE", 250_000)
    sealed = at_server.sealed(fresh(np.random.default_rng(0).integers(0, 2, 60_000)))
    content = sealed.read_bytes()
    changed = {
        "longer": content + b"more",
        "shorter": content[:-4],
        "another": content[:1000] + content[1000:][::-1],
    }
    with wire(site.port) as (line, address):
        prefix = f"{tmp_path.name}-"
        with site.meter(f"{prefix}labeler", f"{prefix}meter", address) as labeler:

            def cut(number: int, up: int, down: int) -> bool:
                if up < 600_000 or sealed.read_bytes() != content:
                    return False
                sealed.write_bytes(changed[change])
                return True

            line.cut = cut
            with pytest.raises(InvalidInput, match=r"sealed: it changed while it was sent: "):
                labeler.add_test_set(sealed)
    assert [row.phase for row in at_server.labeler.generations] == [Phase.REQUESTED]
    assert unfinished(site, at_server) == []


def test_a_test_set_that_is_refused_takes_no_room(tmp_path: Path) -> None:
    """Before, its upload stayed for a day: with the decision it asked for, it did not fit."""
    with live(tmp_path / "small", disk_bytes_per_user=3_000_000) as site:
        for people in people_at(site, tmp_path, "x-"):
            people.developer.set_validation(people.validation(), label="label")
            sealed = people.sealed(fresh(np.random.default_rng(0).integers(0, 2, 60_000)))
            assert 2 * sealed.stat().st_size > 3_000_000
            with pytest.raises(InvalidInput, match="--ids-renumbered"):
                people.labeler.add_test_set(sealed)
            assert unfinished(site, people) == []
            assert people.labeler.add_test_set(sealed, ids_renumbered=True).rows == 60_000


def test_an_upload_that_is_interrupted_takes_no_room(site: Live, at_server: People) -> None:
    sealed = at_server.sealed(fresh(np.random.default_rng(0).integers(0, 2, 60_000)))

    def interrupt(what: str, done: float, total: float) -> None:
        if done:
            raise KeyboardInterrupt

    at_server.labeler.progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        at_server.labeler.add_test_set(sealed)
    assert unfinished(site, at_server) == []


def test_nobody_answers() -> None:
    with pytest.raises(MeterError, match=r"http://127\.0\.0\.1:9: it cannot be reached"):
        connect("http://127.0.0.1:9", token="emt_x")  # noqa: S106


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("self-signed certificate", "not trusted here: give its authority with --ca FILE"),
        ("unable to get local issuer certificate", "not trusted here: give its authority with"),
        ("certificate has expired", "not valid (certificate has expired): tell its admin"),
        (
            "Hostname mismatch, certificate is not valid for 'a'.",
            "not valid (Hostname mismatch, certificate is not valid for 'a'): is this its address",
        ),
    ],
)
def test_what_is_wrong_with_a_certificate(reason: str, words: str) -> None:
    """Before, --ca was the advice for all of them, and helped with the first two only."""
    line = f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {reason} (_ssl.c:992)"

    def send() -> httpx.Response:
        raise httpx.ConnectError(line)

    opened = connection.Connection("http://127.0.0.1:9")
    with pytest.raises(Unreachable) as refused:
        opened._repeated(send)
    assert f"its certificate is {words}" in str(refused.value)
    opened.close()


def test_too_much_is_refused_in_the_servers_words(tmp_path: Path) -> None:
    with live(tmp_path / "small", largest_body=10_000) as site:
        for people in people_at(site, tmp_path, "x-"):
            labels = people.begin()
            test, validation = people.predictions(labels, 0)
            test.write_bytes(bytes(5_000_000))
            with pytest.raises(TooLarge, match="more than 10000 bytes"):
                people.developer.submit(test, validation, model="m")


def test_two_threads_share_nothing(site: Live, at_server: People) -> None:
    """A meter may be used from several threads; each submission gets its own answer."""
    labels = at_server.begin()
    found: dict[int, Signal] = {}

    def one(errors: int) -> None:
        found[errors] = at_server.submit(labels, errors, model=f"m{errors}")

    threads = [threading.Thread(target=one, args=(errors,)) for errors in (0, len(labels))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {errors: signal.band for errors, signal in found.items()} == {0: 1, len(labels): 3}
    assert {signal.step for signal in found.values()} == {1, 2}
