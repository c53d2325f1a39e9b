"""Small files that cost much to read."""

from __future__ import annotations

import io
import json
import struct
from functools import partial
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
from tests.forms import KIND, packed

from easeml_meter.vault.containers import binding, write_container
from redteam import attack
from redteam.target import Client, Ground, draw, hold, parquet, predictions, refused

HUGE = 1 << 50


def as_predictions(ground: Ground, name: str, content: bytes) -> bytes:
    """Return a submission with one odd file in it."""
    return packed({name: content, "validation.parquet": predictions(ground.validation)})


@attack(
    who="developer",
    finding="a small table unpacks to gigabytes",
    attempts=[52],
    seconds=15,
    small=False,
)
def predictions_that_unpack(client: Client) -> None:
    ground = client.target.ground
    rows = len(ground.labels)
    texts = pa.table({"id": np.arange(rows), "prediction": ["a" * (8 << 20)] * rows})
    lists = pa.table({"id": np.arange(rows), "prediction": [[0] * 2_000_000] * rows})
    for content in (small(texts), small(lists)):
        refused(ground.submit(client, as_predictions(ground, "test.parquet", content)), 413, 422)


def small(table: pa.Table) -> bytes:
    """Return a Parquet file that is small, whatever it unpacks to."""
    content = parquet(table, compression="zstd")
    hold(len(content) < 1 << 20, "the file is not small")
    return content


@attack(
    who="developer",
    finding="a label of any length is taken",
    attempts=[52],
    seconds=15,
    small=False,
)
def a_label_of_many_megabytes(client: Client) -> None:
    ground = client.target.meter(begun=False, classes=())
    label = pa.array(["a" * (300 << 20)] + ["b"] * 19)
    refused(ground.validate(client, small(pa.table({"x": np.arange(20.0), "label": label}))))


@attack(who="developer", finding="rows are not limited", attempts=[52], seconds=15, small=False)
def a_validation_set_of_many_rows(client: Client) -> None:
    ground = client.target.meter(begun=False)
    size = 20_000_000
    table = pa.table({"x": np.zeros(size), "label": np.zeros(size, np.int8)})
    refused(ground.validate(client, small(table)), 413, 422)


@attack(
    who="developer",
    finding="columns or classes are not limited",
    attempts=[52],
    seconds=20,
    small=False,
)
def wide_tables(client: Client) -> None:
    ground = client.target.meter(begun=False, classes=())
    names = ",".join(f"c{number}" for number in range(300_000))
    wide = f"{names},label\n".encode()
    body = as_predictions(client.target.ground, "test.csv", wide)
    refused(client.target.ground.submit(client, body), 413, 422)
    many = parquet(pa.table({f"c{n}": [0.0] for n in range(50_000)} | {"label": ["a"]}))
    refused(ground.validate(client, many))
    classes = pa.table({"x": np.zeros(1_500_000), "label": np.arange(1_500_000).astype(str)})
    refused(ground.validate(client, parquet(classes)))


@attack(
    who="developer",
    finding="an open quote is read again and again",
    attempts=[52],
    seconds=8,
    small=False,
)
def an_open_quote(client: Client) -> None:
    ground = client.target.ground
    content = b'id,prediction\n0,"' + b"\n" * (20 << 20)
    refused(ground.submit(client, as_predictions(ground, "test.csv", content)), 413, 422)


def npy(header: bytes, content: bytes = b"") -> bytes:
    """Return an npy file with a header of one's own."""
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + content


@attack(who="developer", finding="a header or a pickle is believed", attempts=[53])
def odd_arrays_and_lines(client: Client) -> None:
    ground = client.target.ground
    shape = b"{'descr': '<i8', 'fortran_order': False, 'shape': (%d,)}"
    pickled = io.BytesIO()
    np.save(pickled, np.array([print], dtype=object), allow_pickle=True)
    for content in (
        *(npy(shape % HUGE), npy(shape % -1), npy(b"__import__('os').system('id')")),
        *(npy(b"(" * 10_000), b"\x93NUMPY\x02\x00\xff\xff\xff\xff", pickled.getvalue()),
    ):
        refused(ground.submit(client, as_predictions(ground, "test.npy", content)), 413, 422)
    for line in (
        *("[" * 100_000, '{"prediction": 1e999999}', '{"prediction": ' + "9" * 10_000 + "}"),
        *('{"prediction": "\\ud800"}', json.dumps({f"c{n}": 0 for n in range(50_000)})),
    ):
        content = (line + "\n").encode()
        refused(ground.submit(client, as_predictions(ground, "test.jsonl", content)), 413, 422)


@attack(who="labeler", finding="a file for thousands of recipients is opened", attempts=[60])
def a_long_age_header(client: Client) -> None:
    ground = client.target.meter(begun=False)
    stanza = b"-> X25519 " + b"A" * 43 + b"\n" + b"B" * 43 + b"\n"
    content = b"age-encryption.org/v1\n" + stanza * 2000 + b"--- " + b"C" * 43 + b"\n" + b"x" * 99
    refused(offered(client, ground, content))


def offered(client: Client, ground: Ground, content: bytes) -> httpx.Response:
    """Upload a file, and offer it as the test set."""
    begun = client.post(ground.at("/uploads"), json={"name": "set", "size": len(content)}).json()
    path = ground.at(f"/uploads/{begun['id']}")
    client.put(path, params={"offset": 0}, content=content).raise_for_status()
    return client.post(ground.at("/test-sets"), json={"upload": begun["id"]})


@attack(who="labeler", finding="what was sealed unpacks to gigabytes", attempts=[52], seconds=10)
def sealed_files_that_unpack(client: Client) -> None:
    ground = client.target.meter(begun=False)
    (request,) = client.get(ground.at("/requests")).json()["items"]
    size = 200_000
    words = pa.DictionaryArray.from_arrays(np.zeros(size, np.int32), ["x" * 20_000])
    label = pa.table({"label": np.zeros(size, np.int8)})
    notes: dict[str, Any] = {"label": "label", "id_column": None, "order_digest": None}
    notes |= {"created": "", "draws": "00" * 32, "batch_rows": []}
    for table, classes in ((label, ["x" * 20_000]), (label.append_column("x", words), None)):
        sink, said = io.BytesIO(), notes | {"classes": classes}
        write_container(
            sink,
            table.schema,
            table.to_batches(),
            bound_to=binding("test set", ground.id, 1),
            recipients=request["recipients"],
            notes=partial(dict, said),
        )
        hold(len(sink.getvalue()) < 1 << 20, "the file is not small")
        refused(offered(client, ground, sink.getvalue()), 413)


@attack(
    who="developer",
    finding="what was refused stays in memory",
    attempts=[55],
    megabytes=400,
    small=False,
)
def refused_bodies_are_freed(client: Client) -> None:
    ground = client.target.ground
    body = packed({"test.parquet": bytes(40 << 20), "validation.parquet": b""})
    for _ in range(12):
        refused(ground.submit(client, body))


@attack(
    who="developer",
    finding="unfinished bodies fill the memory",
    attempts=[55],
    megabytes=700,
    small=False,
)
def unfinished_bodies(client: Client) -> None:
    from redteam.attacks.wire import connection

    token = client.target.people["developer"].token
    head = f"POST /api/v1{client.target.ground.at('/submissions?model=m')} HTTP/1.1\r\nHost: h\r\n"
    body = packed({"test.parquet": bytes(40 << 20)})
    head += f"Authorization: Bearer {token}\r\nContent-Type: {KIND}\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    wires = []
    try:
        for _ in range(24):
            wires.append(connection(client.target))
            try:
                wires[-1].sendall(head.encode() + body[:-1])
                client.target.sent += len(body)
            except OSError:
                continue  # the server has closed this one
    finally:
        for wire in wires:
            wire.close()


@attack(who="developer", finding="one user fills the disk", attempts=[55], small=False)
def validation_sets_without_end(client: Client) -> None:
    if not client.target.processes:
        return  # how much another server allows is its own business
    ground = client.target.meter(begun=False)
    draws = np.random.default_rng(0)
    statuses = []
    for _ in range(60):
        table = pa.table({"x": draws.normal(size=1_200_000), "label": np.zeros(1_200_000, np.int8)})
        statuses.append(ground.validate(client, parquet(table, compression="none")).status_code)
        if statuses[-1] >= 400:
            break
    hold(statuses[-1] >= 400, f"{len(statuses)} sets of 10 MB are kept")


@attack(who="labeler", finding="any size may be announced", attempts=[7, 55])
def an_upload_of_a_petabyte(client: Client) -> None:
    ground = client.target.meter(begun=False)
    refused(client.post(ground.at("/uploads"), json={"name": "set", "size": HUGE}))


@attack(who="developer", finding="a mutated file stops the server", attempts=[54])
def damaged_files(client: Client) -> None:
    ground = client.target.ground
    left, good = ground.steps_left(), predictions(draw(len(ground.labels)))
    random = np.random.default_rng(0)
    for _ in range(60):
        content = bytearray(good)
        for place in random.integers(0, len(content), 8):
            content[place] = random.integers(0, 256)
        body = as_predictions(ground, "test.parquet", bytes(content))
        answer = client.post(ground.at("/submissions/check"), content=body)
        hold(answer.status_code in (200, 413, 422), f"status {answer.status_code}")
    hold(ground.steps_left() == left, "a check was charged")
