"""Uploads: in pieces, resumed, limited, swept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.server import upload as large_upload
from tests.server.driving import upload
from tests.server.helpers import Served, serve
from tests.service.helpers import Clock

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


def begun(served: Served, meter: str, size: int) -> str:
    body = {"name": "set", "size": size}
    answer = served.client("labeler").post(f"/meters/{meter}/uploads", json=body)
    assert (answer.status_code, answer.json()["offset"]) == (201, 0)
    return f"/meters/{meter}/uploads/{answer.json()['id']}"


def test_pieces_follow_each_other(served: Served, meter: str, inbox: Inbox, labeler: Actor) -> None:
    content = bytes(range(256)) * 40
    client = served.client("labeler")
    identifier = upload(client, meter, content, pieces=7)
    shown = client.get(f"/meters/{meter}/uploads/{identifier}").json()
    assert (shown["offset"], shown["size"]) == (len(content), len(content))
    found = uploads.find_upload(labeler, inbox, identifier)
    assert shown["missing"] == []
    with inbox.whole(found) as path:
        assert path.read_bytes() == content


def test_an_offset_that_is_here_says_which_is_next(served: Served, meter: str) -> None:
    labeler, path = served.client("labeler"), begun(served, meter, 10)
    assert labeler.put(path, params={"offset": 0}, content=b"12345").json()["offset"] == 5
    for offset in (0, 4, 10):
        refused = labeler.put(path, params={"offset": offset}, content=b"12345")
        assert (refused.status_code, refused.json()["error"]) == (409, "conflict")
        assert "5 is next" in refused.json()["message"]
    assert labeler.put(path, params={"offset": 5}, content=b"").json()["offset"] == 5
    later = labeler.put(path, params={"offset": 8}, content=b"90").json()
    assert (later["offset"], later["missing"]) == (5, [[5, 8]])
    assert labeler.put(path, params={"offset": 5}, content=b"6789").status_code == 413
    assert labeler.put(path, params={"offset": 5}, content=b"678").json()["offset"] == 10


def test_more_than_announced_is_refused(served: Served, meter: str) -> None:
    labeler, path = served.client("labeler"), begun(served, meter, 10)
    refused = labeler.put(path, params={"offset": 0}, content=b"x" * 11)
    assert (refused.status_code, refused.json()["error"]) == (413, "too-large")
    large = labeler.put(path, params={"offset": 0}, content=b"x" * (3 << 20))
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


def test_an_upload_can_be_cancelled(served: Served, meter: str, inbox: Inbox) -> None:
    labeler, path = served.client("labeler"), begun(served, meter, 10)
    assert labeler.put(path, params={"offset": 0}, content=b"12345").is_success
    assert labeler.delete(path).status_code == 204
    assert labeler.get(path).status_code == 404
    assert inbox.space.files.names(f"uploads/{path.rpartition('/')[2]}") == []


def test_a_large_upload_takes_little_memory(tmp_path: Path) -> None:
    assert large_upload(tmp_path, 128 << 20) <= 200 << 20
