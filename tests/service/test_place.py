"""A site whose files lie under a URL, on both databases: the whole loop, and what outlives it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.server.driving import add, begin, give_validation, packed, sealed, submit
from tests.server.helpers import Served, serve
from tests.service.helpers import Session, deliver, rows, small_spec

from easeml_meter.errors import TooLarge
from easeml_meter.meter import Meter
from easeml_meter.service import place, tokens, uploads
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.service.place import Room, Site
from easeml_meter.service.testsets.requests import retire_test_set
from easeml_meter.storage import schema
from easeml_meter.storage.files import FolderFiles, RemoteFiles


class Remote:
    """A site with one meter in use; `meter` can be opened by any number of processes."""

    def __init__(self, database: str, url: str, folder: Path) -> None:
        self.place = (database, url, folder / "server.key")
        self.site = Site.open(*self.place)
        self.id = create_meter(SYSTEM, self.site, small_spec(), "remote").id
        meter = self.meter()
        test = np.random.default_rng(0).integers(0, 2, meter.plan.labels)
        validation = np.random.default_rng(99).integers(0, 2, 20)
        pq.write_table(rows(validation, seed=7), folder / "validation.parquet")
        meter.set_validation(folder / "validation.parquet", label="label")
        deliver(meter, folder, test, seed=0)
        self.session = Session(folder, meter, test, validation)

    def meter(self) -> Meter:
        return Meter(self.site.space(self.id))


@pytest.fixture
def remote(database: str, s3_url: str, tmp_path: Path) -> Iterator[Remote]:
    made = Remote(database, s3_url, tmp_path)
    yield made
    made.site.close()


def test_the_whole_loop(remote: Remote) -> None:
    session = remote.session
    told = [session.submit(errors, 0, model=str(errors)) for errors in (0, 5, 9, 2)]
    assert [signal.step for signal in told] == [1, 2, 3, 4]
    assert session.submit(5, 0, model="5").repeated
    files = remote.site.files.under(f"meters/{remote.id}")
    assert len([name for name in files.names("testsets") if name.endswith(".sealed")]) == 1
    assert len(files.names("predictions")) == 4
    session.meter.release()
    assert "testset.parquet" in files.names("released/1")
    with files.local("released/1/testset.parquet") as path:
        assert pq.read_table(path)["label"].to_pylist() == session.test_labels.tolist()
    assert session.meter.audit().problems == ()


def test_entries_that_the_books_lost_come_back_from_the_journal(remote: Remote) -> None:
    remote.session.submit(0, 0, model="a")
    remote.session.submit(5, 0, model="b")
    with remote.site.writing() as books:
        table = schema.entries
        books.connection.execute(table.delete().where(table.c.step == 2))
    # Another process, which has fetched nothing yet.
    site = Site.open(*remote.place)
    remote.session.meter = Meter(site.space(remote.id))
    assert any("an older copy" in problem for problem in remote.session.meter.audit().problems)
    assert remote.session.submit(9, 0, model="c").step == 3
    site.close()


class Seconds:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_meter_takes_so_much_and_gets_back_what_was_removed(tmp_path: Path) -> None:
    files, clock = FolderFiles(tmp_path), Seconds()
    limited = Room(per_meter=100, clock=clock)
    for name in ("validation/1", "predictions/1", "submissions/1"):
        limited.check("m", files, 30)
        files.put(name, bytes(30))
    files.put("testsets/1", bytes(1000))  # a labeler's, whose uploads are limited
    with pytest.raises(TooLarge, match="11 bytes given, the meter has used up its 100"):
        limited.check("m", files, 11)
    limited.check("other", FolderFiles(tmp_path / "other"), 100)
    files.remove("submissions/1")
    clock.now += 10
    limited.check("m", files, 40)
    with pytest.raises(TooLarge):
        limited.check("m", files, 1)


def test_what_another_server_has_taken_is_counted(tmp_path: Path) -> None:
    """Each process knew its own files only: two of them took twice as much."""
    files, clock = FolderFiles(tmp_path), Seconds()
    servers = [Room(per_meter=1000, clock=clock) for _ in range(2)]
    taken = 0
    for number in range(200):
        clock.now += 10
        with suppress(TooLarge):
            servers[number % 2].check("m", files, 20)
            files.put(f"predictions/{number}", bytes(20))
            taken += 20
    assert taken == 1000


def test_sizes_of_objects_are_known_too() -> None:
    files = RemoteFiles("memory://room")
    assert files.size("validation") == 0
    files.put("validation/1", bytes(30))
    assert files.size("validation") == 30
    assert files.free() is None


def test_a_full_disk_refuses_everything_before_it_is_written(tmp_path: Path) -> None:
    with serve(tmp_path / "site", free_disk_bytes=1 << 60) as served:
        meter = served.add_meter(small_spec())
        refused = give_validation(served.client("developer"), meter)
        assert (refused.status_code, refused.json()["error"]) == (413, "too-large")
        assert "the disk is nearly full" in refused.json()["message"]
        announced = {"name": "set", "size": 10}
        refused = served.client("labeler").post(f"/meters/{meter}/uploads", json=announced)
        assert refused.status_code == 413
        assert served.site.space(meter).files.names("validation") == []


def free_links(served: Served, meter: str, name: str) -> dict[str, int]:
    """Do what enters a link and costs no answer; return the statuses."""
    client, path = served.client(name), f"/meters/{meter}/handovers"
    asked = client.post(path, json={"giver": 1, "receiver": 2, "confirm": True})
    pair = {"giver": 1, "receiver": 2, "accept": False}
    served.client("developer2").post(f"{path}/answer", json=pair)
    given = give_validation(client, meter, seed=secrets.randbits(30))
    made = client.post("/tokens", json={"name": "t"})
    return {"asked": asked.status_code, "given": given.status_code, "made": made.status_code}


def test_what_costs_no_answer_is_limited_for_each_user_and_test_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain, which everybody reads whole, grew by gigabytes a day."""
    monkeypatch.setattr(place, "MOST_LINKS", 3)
    monkeypatch.setattr(tokens, "MOST_TOKENS", 3)
    with serve(tmp_path / "site") as served:
        meter = served.add_meter(small_spec(tenants=(2, 2)))
        begin(served, meter, tmp_path)
        done, enough = (
            {"asked": 200, "given": 201, "made": 201},
            dict.fromkeys(("asked", "given", "made"), 409),
        )
        assert [free_links(served, meter, "developer") for _ in range(3)][:2] == [done, done]
        assert free_links(served, meter, "developer") == enough
        assert free_links(served, meter, "developer2") == done
        retire_test_set(SYSTEM, served.site.space(meter))
        labels = served.client("labeler").get(f"/meters/{meter}/requests").json()["items"][0]
        content = rows(np.arange(labels["labels_needed"]) % 2, seed=9)
        assert (
            add(
                served.client("labeler"),
                meter,
                sealed(served, meter, content, tmp_path, generation=2),
            ).status_code
            == 201
        )
        assert free_links(served, meter, "developer") == done | {"made": 409}


def test_the_disk_of_the_database_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(tmp_path / "site", free_disk_bytes=1) as served:
        meter = served.add_meter(small_spec(tenants=(2, 2)))
        begin(served, meter, tmp_path)
        monkeypatch.setattr(FolderFiles, "free", lambda _: 1 << 40)
        monkeypatch.setattr(place, "free_bytes", lambda _: 0)
        assert [*free_links(served, meter, "developer").values()] == [413, 413, 201]


def test_a_full_meter_refuses_new_submissions_and_repeats_old_answers(tmp_path: Path) -> None:
    """Every validation set and every submission was kept, as many as there were."""
    most = 2_700  # room for the validation set and one submission
    with serve(tmp_path / "site", disk_bytes_per_meter=most) as served:
        meter = served.add_meter(small_spec(models=True))
        labels = begin(served, meter, tmp_path)
        developer = served.client("developer")
        told = submit(developer, meter, labels).json()["signal"]
        params, model = {"model": "m"}, packed(command=b"predict", **{"files/x": bytes(1 << 15)})
        refused = developer.post(f"/meters/{meter}/submissions", params=params, content=model)
        assert (refused.status_code, refused.json()["error"]) == (413, "too-large")
        assert submit(developer, meter, labels, errors=1).status_code == 413
        again = submit(developer, meter, labels).json()["signal"]
        assert again["repeated"]
        assert again["steps_left"] == told["steps_left"]
        for seed in range(20):
            if give_validation(developer, meter, seed=seed).status_code == 413:
                break
        else:
            pytest.fail("validation sets were taken without end")
        assert sum(map(served.site.space(meter).files.size, place.KEPT)) <= most


def test_unfinished_uploads_of_a_user_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that an upload can have could be announced."""
    monkeypatch.setattr("easeml_meter.service.uploads.MOST_UPLOADS", 3)
    with serve(tmp_path / "site", disk_bytes_per_user=100_000) as served:
        meter = served.add_meter(small_spec())
        labeler = served.client("labeler")

        def announce(size: int) -> int:
            body = {"name": "set", "size": size}
            return labeler.post(f"/meters/{meter}/uploads", json=body).status_code

        assert announce(uploads.LARGEST) == 413
        assert [announce(50_000), announce(50_001)] == [201, 413]
        assert [announce(10), announce(10), announce(10)] == [201, 201, 429]


def test_an_upload_that_was_taken_in_or_cancelled_counts_no_longer(tmp_path: Path) -> None:
    with serve(tmp_path / "site", disk_bytes_per_user=100_000) as served:
        meter = served.add_meter(small_spec())
        labeler, path = served.client("labeler"), f"/meters/{meter}/uploads"
        for _ in range(3):
            begun = labeler.post(path, json={"name": "set", "size": 90_000}).json()["id"]
            assert labeler.delete(f"{path}/{begun}").status_code == 204
        give_validation(served.client("developer"), meter)
        needed = labeler.get(f"/meters/{meter}/requests").json()["items"][0]["labels_needed"]
        content = sealed(served, meter, rows(np.arange(needed) % 2, seed=1), tmp_path)
        assert add(labeler, meter, content).status_code == 201
        assert labeler.post(path, json={"name": "set", "size": 90_000}).status_code == 201
