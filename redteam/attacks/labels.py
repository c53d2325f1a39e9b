"""Whoever delivers labels, or takes them from others."""

from __future__ import annotations

import contextlib
import shutil

import numpy as np
import pyarrow as pa

from easeml_meter.errors import MeterError
from redteam import attack
from redteam.target import NOBODY, Client, Ground, draw, hold, refused, rows_of


@attack(who="labeler", finding="an upload is another's, or more than announced", attempts=[6, 7])
def uploads_of_others(client: Client) -> None:
    ground = client.target.meter(begun=False)
    begun = client.post(ground.at("/uploads"), json={"name": "set", "size": 10}).json()
    path = ground.at(f"/uploads/{begun['id']}")
    refused(client.put(path, params={"offset": 0}, content=b"x" * 11))
    refused(client.put(path, params={"offset": 10}, content=b"x"), 409)
    for wrong in ("../../server", "..%2f..%2fserver.key", NOBODY, "%00"):
        refused(client.get(ground.at(f"/uploads/{wrong}")))
        refused(client.post(ground.at("/test-sets"), json={"upload": wrong}))
    another = client.target.person("labeler")
    with client.target.client("admin") as admin:
        seat = {"user": another.id, "role": "labeler", "tenant": 0}
        admin.post(ground.at("/members"), json=seat).raise_for_status()
    with client.target.client(another) as second:
        refused(second.get(path), 404)
        refused(second.put(path, params={"offset": 0}, content=b"x"), 404)
        refused(second.post(ground.at("/test-sets"), json={"upload": begun["id"]}), 404)


@attack(who="labeler", finding="what is announced, and not sent, keeps other labelers out")
def announced_uploads(client: Client) -> None:
    free = shutil.disk_usage(client.target.folder).free
    size = min(free - (2 << 30), 99 << 30)
    own, other = (client.target.meter(begun=False) for _ in range(2))
    begun = client.post(own.at("/uploads"), json={"name": "x", "size": size})
    second = client.target.person("labeler")
    with client.target.client("admin") as admin:
        seat = {"user": second.id, "role": "labeler"}
        admin.post(other.at("/members"), json=seat).raise_for_status()
    with client.target.client(second) as labeler:
        sent = labeler.post(other.at("/uploads"), json={"name": "y", "size": free // 4})
    client.delete(own.at(f"/uploads/{begun.json().get('id', NOBODY)}"))
    hold(sent.status_code == 201, f"after {begun.status_code} for {size}: {sent.text}"[:200])


@attack(who="labeler", finding="labels leave before the test set is spent", attempts=[59, 61])
def release_before_its_time(client: Client) -> None:
    ground = client.target.meter()
    for number in (1, 2, 0, 10**30):
        refused(client.post(ground.at(f"/test-sets/{number}/release")))
    refused(ground.submit(client), 403)
    with client.target.client("developer") as developer:
        for _ in range(4):
            ground.submit(developer).raise_for_status()
        refused(developer.post(ground.at("/test-sets/1/release")), 403)
        file = ground.at("/test-sets/1/released/testset.parquet")
        refused(developer.get(file), 404, 409)
        client.post(ground.at("/test-sets/1/release")).raise_for_status()
        hold(developer.get(file).status_code == 200, "a released set is not handed out")


def spent(client: Client) -> Ground:
    """Return a meter whose first test set is spent, and not released."""
    ground = client.target.meter()
    with client.target.client("developer") as developer:
        for _ in range(4):
            ground.submit(developer).raise_for_status()
    return ground


def variants(table: pa.Table) -> dict[str, pa.Table]:
    """Return test sets that are nearly the same rows."""
    shuffled = table.take(np.random.default_rng(0).permutation(table.num_rows))
    fresh = rows_of(draw(1))
    flipped = table.column("label").to_numpy().copy()
    flipped[0] = 1 - flipped[0]
    return {
        "the same rows": table,
        "rows in another order": shuffled,
        "columns in another order": table.select(table.column_names[::-1]),
        "one row exchanged": pa.concat_tables([table.slice(1), fresh.cast(table.schema)]),
        "one row more": pa.concat_tables([table, fresh.set_column(0, "id", [[10**6]])]),
        "one label flipped": table.set_column(3, "label", pa.array(flipped)),
    }


@attack(who="labeler", finding="nearly the same rows get a fresh budget", attempts=[62], seconds=15)
def near_duplicates(client: Client) -> None:
    ground = spent(client)
    for name, table in variants(ground.table).items():
        with contextlib.suppress(MeterError):
            Ground(client.target, ground.id).deliver(table, accept_shared=True)
        phases = [each["phase"] for each in client.get(ground.at("/test-sets")).json()["items"]]
        hold("active" not in phases, f"{name}: active, with a budget of its own")


@attack(who="labeler", finding="another meter answers from the same rows", attempts=[62])
def near_duplicates_at_another_meter(client: Client) -> None:
    ground = spent(client)
    table = ground.table
    for name in ("the same rows", "one label flipped", "one row more"):
        other = client.target.meter(begun=False)
        with client.target.client("developer") as developer:
            other.validate(developer).raise_for_status()
        try:
            other.deliver(variants(table)[name])
        except MeterError:
            continue
        hold(False, f"{name}: active at a second meter")
