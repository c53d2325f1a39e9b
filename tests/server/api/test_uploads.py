"""Uploads: in pieces, resumed, limited, swept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.server.driving import sealed, upload
from tests.server.helpers import Served, serve
from tests.service.helpers import Clock, rows

from easeml_meter.core.people import Role
from easeml_meter.service import seats, uploads
from easeml_meter.service.actor import SYSTEM, Actor
from easeml_meter.service.uploads import Inbox


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def served(tmp_path: Path, clock: Clock) -> Iterator[Served]:
    with serve(tmp_path / "site", clock=clock) as site:
        yield site


@pytest.fixture
def inbox(served: Served, meter: str) -> Inbox:
    return Inbox(served.site.space(meter), served.app.state.settings.folder / "uploads")


@pytest.fixture
def labeler(served: Served, meter: str) -> Actor:
    return Actor(((Role.LABELER, 0),), user=served.users["labeler"].id)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of five bytes."""
    monkeypatch.setattr(uploads, "PIECE", 5)


def begun(served: Served, meter: str, size: int) -> str:
    body = {"name": "set", "size": size}
    answer = served.client("labeler").post(f"/meters/{meter}/uploads", json=body)
    assert (answer.status_code, answer.json()["offset"]) == (201, 0)
    return f"/meters/{meter}/uploads/{answer.json()['id']}"


def test_pieces_follow_each_other(
    served: Served, meter: str, inbox: Inbox, labeler: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "PIECE", 1500)
    content = bytes(range(256)) * 40
    client = served.client("labeler")
    identifier = upload(client, meter, content)
    shown = client.get(f"/meters/{meter}/uploads/{identifier}").json()
    assert (shown["offset"], shown["size"]) == (len(content), len(content))
    assert shown["piece"] == 1500
    found = uploads.find_upload(labeler, inbox, identifier)
    with inbox.whole(found) as path:
        assert path.read_bytes() == content


@pytest.mark.usefixtures("small")
def test_an_offset_that_is_not_next_says_which_is(served: Served, meter: str) -> None:
    labeler, path = served.client("labeler"), begun(served, meter, 13)
    for _ in range(2):  # it may be sent again
        assert labeler.put(path, params={"offset": 0}, content=b"12345").json()["offset"] == 5
    for offset in (1, 4, 6, 10, 13, 15):
        refused = labeler.put(path, params={"offset": offset}, content=b"12345")
        assert (refused.status_code, refused.json()["error"]) == (409, "conflict")
        assert "5 is next" in refused.json()["message"]
    for content in (b"", b"6789"):
        refused = labeler.put(path, params={"offset": 5}, content=content)
        assert (refused.status_code, refused.json()["error"]) == (422, "invalid")
        assert "5 bytes are next" in refused.json()["message"]
    assert labeler.put(path, params={"offset": 5}, content=b"67890x").status_code == 413
    assert labeler.put(path, params={"offset": 5}, content=b"67890").json()["offset"] == 10
    assert labeler.put(path, params={"offset": 10}, content=b"123").json()["offset"] == 13


def test_more_than_announced_is_refused(served: Served, meter: str) -> None:
    labeler, path = served.client("labeler"), begun(served, meter, 10)
    refused = labeler.put(path, params={"offset": 0}, content=b"x" * 11)
    assert (refused.status_code, refused.json()["error"]) == (422, "invalid")
    assert "10 bytes are next" in refused.json()["message"]
    large = labeler.put(path, params={"offset": 0}, content=b"x" * (uploads.PIECE + 1))
    assert large.status_code == 413


def test_an_unfinished_upload_is_no_test_set(served: Served, meter: str) -> None:
    labeler, path = served.client("labeler"), begun(served, meter, 10)
    body = {"upload": path.rpartition("/")[2]}
    refused = labeler.post(f"/meters/{meter}/test-sets", json=body)
    assert refused.status_code == 409
    assert "0 of 10 bytes" in refused.json()["message"]


def test_uploads_are_ones_own(served: Served, meter: str) -> None:
    path = begun(served, meter, 10)
    served.add_meter(prefix="other-")
    for user in ("developer", "runner", "admin"):
        assert served.client(user).get(path).status_code == 403
    for user in ("other-labeler", "stranger"):
        assert served.client(user).get(path).status_code == 404
    second = served.add_user("labeler2")
    seats.add_seat(SYSTEM, served.site.space(meter), second.id, Role.LABELER)
    assert served.client("labeler2").get(path).status_code == 404
    assert served.client("labeler2").put(path, params={"offset": 0}, content=b"1").is_error


@pytest.mark.usefixtures("small")
def test_an_upload_can_be_cancelled(served: Served, meter: str, inbox: Inbox) -> None:
    labeler, path = served.client("labeler"), begun(served, meter, 10)
    assert labeler.put(path, params={"offset": 0}, content=b"12345").is_success
    assert labeler.delete(path).status_code == 204
    assert labeler.get(path).status_code == 404
    assert inbox.space.files.names(f"uploads/{path.rpartition('/')[2]}") == []


def test_a_finished_upload_keeps_what_it_became(
    served: Served, meter: str, tmp_path: Path, inbox: Inbox, clock: Clock
) -> None:
    """Whoever missed the answer asks again: until the upload is swept, and by the same file."""
    labels = np.random.default_rng(1).integers(0, 2, 200)
    labeler, path = served.client("labeler"), f"/meters/{meter}/test-sets"
    (request,) = labeler.get(f"/meters/{meter}/requests").json()["items"]
    table = rows(labels[: request["labels_needed"]], seed=1)
    for start, end in ((0, 10), (10, len(table))):  # a part, and the one that makes them enough
        content = sealed(served, meter, table[start:end], tmp_path)
        asked = {"upload": upload(labeler, meter, content), "ids_renumbered": True}
        added = labeler.post(path, json=asked)
        assert (added.status_code, added.json()["labels_here"]) == (201, end)
        again = labeler.post(path, json=asked)
        assert (again.status_code, again.json()) == (201, added.json())
        file = labeler.post(f"{path}/file", content=content)
        assert (file.status_code, file.json()) == (201, added.json())
        assert not inbox.space.files.names(f"uploads/{asked['upload']}")
    assert added.json()["phase"] == "active"
    clock.moment += 2 * uploads.KEPT
    uploads.sweep_uploads(SYSTEM, served.site, inbox.folder)
    assert labeler.post(path, json=asked).status_code == 404
