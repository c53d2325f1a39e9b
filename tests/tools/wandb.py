"""Answers in an offline run of Weights & Biases, read back from its file."""

# needs: wandb==0.31.0

from __future__ import annotations

import json
import os
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import wandb
from tests.service.helpers import make_session
from wandb.proto import wandb_internal_pb2

from easeml_meter.integrations.wandb import reporter


def main(folder: Path) -> None:
    os.environ |= {"WANDB_MODE": "offline", "WANDB_DIR": str(folder), "WANDB_PROJECT": "mail"}
    session = make_session(folder)
    first, second = session.submit(0, 0, model="a"), session.submit(30, 0, model="b")
    view = session.meter.status()

    with wandb.init() as run:
        run.log({"loss": 0.5})
        reporter("")(first, view)
        reporter("")(second, view)
        assert run.summary["meter/band"] == second.band
        run.log({"loss": 0.4})
    logged, summary = read(folder)
    steps = [(each["meter/step"], each["meter/band"]) for each in logged if "meter/step" in each]
    assert steps == [(1, 1), (2, second.band)]
    assert [each["loss"] for each in logged if "loss" in each] == [0.5, 0.4]
    assert summary["meter.promise"] == second.promise
    assert list(folder.rglob("*.html"))

    os.environ["WANDB_DIR"] = str(folder / "own")
    (folder / "own").mkdir()
    reporter("")(first, view)
    assert wandb.run is None
    logged, summary = read(folder / "own")
    assert summary["meter.model"] == "a"
    # Nothing that was printed is stored.
    assert not list((folder / "own").rglob("output.log"))


def read(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return what was logged, and the summary, of the only run below a folder."""
    # Its process writes the file when it ends; the next one reads the variables again.
    wandb.teardown()
    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    logged: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    for data in records(path.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            logged.append(items(record.history.item))
        elif record.WhichOneof("record_type") == "summary":
            summary |= items(record.summary.update)
    return logged, summary


def records(content: bytes) -> Iterator[bytes]:
    """Return the records of a log of LevelDB: blocks of 32 KB, in which records are cut up."""
    at, whole = 7, b""  # its own header comes first
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:  # no room for a header: the rest of a block is empty
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        whole += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole one, or the last part
            yield whole
            whole = b""


def items(found: Any) -> dict[str, Any]:
    return {each.key or "/".join(each.nested_key): json.loads(each.value_json) for each in found}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
    print("W&B has an offline run with the answers, the summary and the report")
