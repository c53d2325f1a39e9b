"""Everything but tables: forms, models, settings, keys, journals, and what models write."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from onnx import TensorProto, helper
from starlette.datastructures import Headers

from easeml_meter.core.model import Entry
from easeml_meter.errors import InvalidInput, VaultError
from easeml_meter.scoring.answers import Unreadable, read_answers
from easeml_meter.scoring.onnx_checks import inspect_apart
from easeml_meter.server.api.forms import packed, read_form
from easeml_meter.service.submissions.kinds import unpack
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.files import FolderFiles
from easeml_meter.storage.journal import Journal
from easeml_meter.vault.containers import binding, write_container
from easeml_meter.vault.inspection import Delivered
from easeml_meter.vault.keys import Identity, unwrap, wrap
from easeml_meter.vault.overlap import Rows, compare
from easeml_meter.vault.sealing import SealedTestSet, seal
from fuzz import Failed, one_line
from fuzz.mutation import change, word
from fuzz.tables import LIMITS, random_table


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="meter-fuzz-"))


@cache
def _identity() -> Identity:
    return Identity.new()


class Form:
    """Bodies of submissions as forms, with headers of every kind."""

    name = "form"

    def make(self, draw: Random) -> bytes:
        """Make a form, with its boundary in front: most of it in order."""
        boundary = draw.choice((b"edge", b"-" * 40 + b"x", b"\r\n", b"--", b"x" * 70))
        out = boundary + b"\n--" + boundary
        for _ in range(draw.choice((0, 1, 2, 2, 3, 5))):
            out += draw.choice((b"\r\n", b"\r\n", b"\r\n", b"\n", b"", b"--"))
            out += b"\r\n".join(self._headers(draw)) + draw.choice((b"\r\n\r\n",) * 5 + (b"\r\n",))
            out += draw.choice((draw.randbytes(20), b"\r\n--" + boundary[:-1], b"", b"1\n0\n"))
            out += draw.choice((b"\r\n--",) * 9 + (b"--",)) + boundary
        out += draw.choice((b"--\r\n", b"--", b"--\r\n", b"", b"\r\n", b"--more"))
        return out if draw.random() < 0.8 else change(out, draw)

    def _headers(self, draw: Random) -> list[bytes]:
        name = draw.choice(("test", "validation", "onnx", "command", "files", "file", word(draw)))
        filename = draw.choice(("a.csv", "../a", '\\"a\\"', "%22", word(draw), "a" * 3000))
        quoted = [f'; name="{name}"', f"; name={name}", "", f'; name="{name}']
        files = ["", f'; filename="{filename}"', f'; filename="{filename}"', f"; filename*={name}"]
        kind = draw.choice(("form-data",) * 9 + ("attachment",))
        parameters = draw.choice(quoted[:1] * 7 + quoted) + draw.choice(files)
        others = ("Content-Type: text/csv", "Content-Transfer-Encoding: base64", word(draw), ": :")
        found = [f"Content-Disposition: {kind}{parameters}"]
        found += draw.sample(others, draw.choice((0, 0, 1, 2)))
        return [line.encode("utf-8", "replace") for line in found]

    def run(self, data: bytes) -> bool:
        """Take it for a submission, and for a file."""
        boundary, _, body = data.partition(b"\n--")
        edge = boundary.decode("latin-1").strip() or "x"
        headers = Headers({"content-type": f"multipart/form-data; boundary={edge}"})
        try:
            fields = asyncio.run(read_form(headers, _pieces(b"--" + body), 1 << 20, 100, "files"))
            if sum(len(field.content) for field in fields) > 3 * len(body):
                raise Failed("more was unpacked than sent")
            unpack(packed(fields), limits=LIMITS)
        except InvalidInput as error:
            one_line(error)
            return False
        return True


async def _pieces(body: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(body), 1000):
        yield body[start : start + 1000]


class Onnx:
    """Models with changed bytes."""

    name = "onnx"

    def make(self, draw: Random) -> bytes:
        """Change some bytes of a model."""
        return change(draw.choice(_models()), draw)

    def run(self, data: bytes) -> bool:
        """Look at it as a server does before it is run."""
        try:
            inspect_apart(data)
        except InvalidInput as error:
            one_line(error)
            return False
        return True


@cache
def _models() -> list[bytes]:
    def info(name: str, kind: int = TensorProto.FLOAT, shape: Any = (None, 2)) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    weights = helper.make_tensor("w", TensorProto.FLOAT, [2, 2], [1, 0, 0, 1])
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [3, 2])
    graphs = [
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            "g",
            [info("x")],
            [info("y")],
            [weights],
        ),
        helper.make_graph(
            [
                helper.make_node("Constant", [], ["s"], value=shape),
                helper.make_node("ConstantOfShape", ["s"], ["y"]),
            ],
            "g",
            [info("x")],
            [info("y")],
        ),
        helper.make_graph(
            [
                helper.make_node("Range", ["a", "b", "c"], ["y"]),
                helper.make_node("If", ["x"], ["z"]),
            ],
            "g",
            [info("x", TensorProto.BOOL, [])],
            [info("y", TensorProto.INT64, [None])],
            [
                helper.make_tensor(n, TensorProto.INT64, [], [v])
                for n, v in (("a", 0), ("b", 9), ("c", 1))
            ],
        ),
    ]
    made = [helper.make_model(graph).SerializeToString() for graph in graphs]
    opset = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    body = [helper.make_node("Relu", ["p"], ["q"])]
    function = helper.make_function("own", "F", ["p"], ["q"], body, opset[:1])
    calls = [helper.make_node("F", ["x"], ["y"], domain="own")]
    graph = helper.make_graph(calls, "g", [info("x")], [info("y")])
    model = helper.make_model(graph, functions=[function], opset_imports=opset)
    return [*made, model.SerializeToString()]


class Toml:
    """Specifications of meters."""

    name = "toml"
    _plain = """[question]
ask = "gap"
tolerance = 0.1
edges = [0.1]
[budget]
steps = 10
[sample]
loss = "0-1"
[renewal]
[meter]
delta = 0.1
"""
    _keys = (
        *("loss", "steps", "delta", "teams", "worst", "then", "window", "g", "alarms", "labels"),
        *("models", "inputs", "classes", "handover", "signed", "ceiling", "memory", "kept"),
    )
    _values = (
        *("0", "-1", "1", "3", "1e-300", "1e400", "nan", "inf", "0x10", "9" * 40, "1979-05-27"),
        *("true", '"0-1"', '"top-3"', '"no end"', '"falling"', '"kept"', '"onnx"', "[]"),
        *("[1, 2]", '["a", "b"]', "{}", "{a = 1}", "[[[[]]]]", '"os:system"', '"\\ud800"', "'x'"),
    )

    def make(self, draw: Random) -> bytes:
        """Add settings in order and out of it, then change bytes."""
        lines = self._plain.splitlines()
        for _ in range(draw.choice((0, 1, 2, 5))):
            value = draw.choice((*self._values, word(draw), "[" * draw.choice((3, 3000))))
            at = draw.randrange(len(lines) + 1)
            lines[at : at + draw.randrange(2)] = [f"{draw.choice(self._keys)} = {value}"]
        data = "\n".join(lines).encode("utf-8", "replace")
        return data if draw.random() < 0.6 else change(data, draw)

    def run(self, data: bytes) -> bool:
        """Read a meter.toml."""
        path = _folder() / "meter.toml"
        path.write_bytes(data)
        try:
            MeterSpec.read(path)
        except InvalidInput as error:
            one_line(error)
            return False
        return True


class Age:
    """Files encrypted to the server's key."""

    name = "age"

    def make(self, draw: Random) -> bytes:
        """Change the header of an encrypted file, stanza by stanza."""
        data = wrap(b"content" * draw.randrange(5), [_identity().recipient])
        header, mark, body = data.partition(b"\n---")
        lines = header.split(b"\n")
        for _ in range(draw.randrange(4)):
            name = draw.choice(("X25519", "scrypt", "piv-p256", word(draw))).encode(
                "utf-8", "replace"
            )
            argument = base64.b64encode(draw.randbytes(draw.choice((0, 16, 31, 32, 33)))).rstrip(
                b"="
            )
            stanza = [b"-> " + name + b" " + argument, argument]
            lines[1:1] = stanza * draw.choice((1, 1, 2, 100))
        data = b"\n".join(lines) + mark + body
        return data if draw.random() < 0.3 else change(data, draw, 0, draw.choice((200, None)))

    def run(self, data: bytes) -> bool:
        """Decrypt it."""
        try:
            unwrap(data, _identity())
        except VaultError as error:
            one_line(error)
            return False
        return True


class Sealed:
    """Sealed test sets, as they are taken in."""

    name = "sealed"

    def make(self, draw: Random) -> bytes:
        """Seal anything, as a labeler can, or change the bytes of an ordinary one."""
        if draw.random() < 0.6:
            return self._forged(draw)
        return change(
            _sealed(), draw, *draw.choice(((0, None), (0, 700), (len(_sealed()) - 700, None)))
        )

    def _forged(self, draw: Random) -> bytes:
        """Seal a table of any type, under notes that need not fit it."""
        table, sink = random_table(draw), io.BytesIO()
        names = (*table.column_names, word(draw))
        notes: dict[str, Any] = {
            "label": draw.choice(names),
            "id_column": draw.choice((None, *names)),
            "order_digest": draw.choice((None, "0" * 64)),
            "created": "2020-01-01",
            "classes": draw.choice((None, None, ["a", "b"], [], [None], [word(draw)] * 3)),
            "draws": draw.choice((None, "00" * 32, word(draw))),
            "batch_rows": draw.choice(([], [], [table.num_rows], [1, table.num_rows - 1])),
        }
        for _ in range(draw.choice((0, 0, 1, 2))):
            key = draw.choice(("names", *notes))
            strange: list[Any] = [None, -1, [], {}, [[]], "x", list(names[1:]), list(names) * 2]
            notes[key] = draw.choice(strange)
        key, bound = _identity().recipient, binding("test set", "m", 1)
        batches = table.to_batches()
        try:
            write_container(
                sink, table.schema, batches, bound_to=bound, recipients=[key], notes=lambda: notes
            )
        except (InvalidInput, pa.ArrowException):
            return _sealed()  # Parquet has no such type
        return sink.getvalue()

    def run(self, data: bytes) -> bool:
        """Inspect it, and read all of it, as whoever takes it in does."""
        path = _folder() / "changed.sealed"
        path.write_bytes(data)
        try:
            given = Delivered.of(path, _identity(), meter="m", generations=(1, 2))
            given.inspect_apart(LIMITS)
            with SealedTestSet.open(path, _identity(), meter="m", generation=1) as opened:
                for group in range(opened.row_groups):
                    opened.labels(group)
                opened.fingerprint(bytes(32))
                rows = Rows.of_sealed(opened, bytes(32))
                compare(rows, rows)
                rows.repeated_inputs()
        except (InvalidInput, VaultError) as error:
            one_line(error)
            return False
        return True


@cache
def _sealed() -> bytes:
    path = _folder() / "set.sealed"
    table = pa.table({"label": ["a", "b", "a"], "x": [1, 2, 3]})
    key = _identity().recipient
    seal(table, path, meter="m", generation=1, label="label", recipients=[key])
    return path.read_bytes()


class JournalLines:
    """Journals beside sealed test sets."""

    name = "journal"
    _entry = asdict(
        Entry("m", 1, 1, 1, "1", "model", "s" * 64, 1, "v" * 64, "0.5", "b", "2020-01-01")
    )

    def make(self, draw: Random) -> bytes:
        """Write lines whose values are of other types, missing or cut short."""
        lines = []
        for _ in range(draw.choice((0, 1, 2, 5))):
            entry: dict[str, Any] = self._entry | draw.choice(({}, {"format": 2}))
            for _ in range(draw.randrange(3)):
                values: list[Any] = [None, True, -1, 10**30, 1.5, float("nan"), [], {}, word(draw)]
                entry[draw.choice((*entry, word(draw)))] = draw.choice(values)
            line = json.dumps(entry)
            lines.append(draw.choice((line, line, "[" * 3000, word(draw), '{"retired": 1}')))
        data = "\n".join(lines).encode("utf-8", "replace")
        return data if draw.random() < 0.5 else change(data, draw)

    def run(self, data: bytes) -> bool:
        """Read it; what is no line of ours is left out."""
        files = FolderFiles(_folder())
        for name in ("a.journal", "a.handovers"):
            (_folder() / name).write_bytes(data)
        journal = Journal(files, "a.journal")
        found = journal.read()
        journal.handovers()
        journal.retired()
        journal.answers()
        return bool(found)


class Answers:
    """What a model writes to stdout."""

    name = "answers"

    def make(self, draw: Random) -> bytes:
        """Change a stream of predictions."""
        sink, table = io.BytesIO(), random_table(draw)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return change(sink.getvalue(), draw) if draw.random() < 0.8 else sink.getvalue()

    def run(self, data: bytes) -> bool:
        """Read it as the worker does."""
        try:
            with tempfile.TemporaryFile() as file:
                file.write(data)
                file.seek(0)
                for _ in read_answers(file, lambda rows: rows <= 1000, seconds=60):
                    pass
        except Unreadable as error:
            one_line(error)
            return False
        return True


TARGETS = [Form(), Onnx(), Toml(), Age(), Sealed(), JournalLines(), Answers()]
