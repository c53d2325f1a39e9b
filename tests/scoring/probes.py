"""Programs that try something and predict 1 if it worked, run in the sandbox and outside of it."""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pyarrow as pa

from easeml_meter.scoring.bundle import Bundle, BundledFile
from easeml_meter.scoring.command import CommandModel
from easeml_meter.scoring.predictor import Limits

ROWS = pa.record_batch({"x": [0.5]})
QUICK = Limits(seconds=60, memory=2 << 30)

# Nothing is imported that the attempt does not need: there are many of them.
PROGRAM = """
import ctypes, glob, os, signal, socket, sys, time
C = ctypes.CDLL(None, use_errno=True)
TARGET = {target!r}
def attempt():
{attempt}
try:
    worked = bool(attempt())
except BaseException:
    worked = False
sys.stdin.buffer.read()
sys.stdout.buffer.write(open("yes" if worked else "no", "rb").read())
"""


def stream(*batches: Any, **options: Any) -> bytes:
    """Write batches as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema, **options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def bundle(program: str, **files: bytes) -> Bundle:
    """Bundle a Python program, and other files."""
    contents = {"program.py": program.encode(), **files}
    listed = (BundledFile(name, contents[name]) for name in sorted(contents))
    return Bundle("python program.py", tuple(listed))


def run(
    program: str | Bundle,
    *batches: Any,
    limits: Limits = QUICK,
    hidden: bool = False,
    inputs: Iterable[Any] | None = None,
) -> Iterator[Any]:
    """Run a program in the sandbox."""
    given = batches or (ROWS,)
    model = CommandModel(bundle(program) if isinstance(program, str) else program)
    return model.predict(given[0].schema, inputs or given, limits, hidden=hidden)


def predictions(batches: Iterable[Any]) -> list[Any]:
    """List what was predicted."""
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def probe(attempt: str, target: object = None) -> Bundle:
    """Bundle the body of a function that returns something true if it worked."""
    answers = {
        name: stream(pa.record_batch({"prediction": [value]}))
        for name, value in (("yes", 1), ("no", 0))
    }
    body = indent(attempt.strip("\n"), "    ")
    return bundle(PROGRAM.format(attempt=body, target=target), **answers)


def works_inside(attempt: str, target: object = None, limits: Limits = QUICK) -> bool:
    """Tell whether it worked in the sandbox."""
    return predictions(run(probe(attempt, target), limits=limits)) == [1]


def works_outside(attempt: str, target: object = None) -> bool:
    """Tell whether it worked as a plain process: if not, the attempt proves nothing."""
    with tempfile.TemporaryDirectory() as folder:
        probe(attempt, target).unpack(Path(folder))
        command = [sys.executable, "program.py"]
        done = subprocess.run(command, cwd=folder, input=b"", stdout=subprocess.PIPE, check=True)
    return predictions(pa.ipc.open_stream(done.stdout)) == [1]
