"""Run an ONNX model over an Arrow stream on stdin; write its predictions as one to stdout.

A program of its own, that imports nothing of this package: where it runs, only it, the model and
installed libraries can be seen. Called with the model's file and a file of what to do, in JSON:

    {"threads": 2, "seconds": 60, "memory": BYTES,
     "output": NAME, "width": WIDTH, "shapes": {INPUT: [SIZE, ...], ...}}

Column i of the stream is model input i; each row of it has the given shape. `width` is how many
values a prediction has: 0 for a single one, null for any number.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import re
import resource
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import pyarrow as pa

# Since 1.29 onnxruntime reports the models it runs, and their errors, to its makers by default;
# and it asks for this only once, when it is loaded.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as ort

_PIPE_BYTES = 1 << 20
"""The most that Linux gives an ordinary user; the default of 64 KB costs many switches."""
_LONGEST = 2000
_WHERE = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : |/onnxruntime_src/\S+ .*?\) (?=[A-Z\[])")
_TOO_NEW = re.compile(r"Opset (\d+) is under development.*domain (\S+) is till opset (\d+)", re.S)


class WithoutPandas:
    """Says that there is no pandas.

    pyarrow imports it with the first array it makes, only to find out that the array is none of
    pandas': that takes as long as all else at the start of a run.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse it."""
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def limit(seconds: float, memory: int, threads: int) -> None:
    """Set limits for good, on top of those that a sandbox may have set."""
    processor_time = math.ceil(seconds * threads) + 1
    pa.set_memory_pool(pa.system_memory_pool())  # the default one takes 1 GiB of addresses at once
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (processor_time, processor_time))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def load(path: str) -> ort.InferenceSession:
    """Open the model on the CPU, reproducibly."""
    ort.set_seed(0)
    ort.set_default_logger_severity(4)  # what matters is raised
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False  # it would plan, and keep, memory for each size of a batch
    return ort.InferenceSession(
        path,
        options,
        providers=["CPUExecutionProvider"],
        # A few bytes of constants can stand for gigabytes: they are made when needed, if ever.
        disabled_optimizers=["ConstantFolding"],
    )


def feed(batch: Any, shapes: dict[str, list[int]]) -> dict[str, Any]:
    """Return each model input its column, without a copy where the type allows."""
    fed = {}
    for (name, shape), column in zip(shapes.items(), batch.columns, strict=True):
        values = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
        array = values.to_numpy(zero_copy_only=False)
        fed[name] = array.reshape(batch.num_rows, *shape)
    return fed


def column_of(found: Any, rows: int, width: int | None) -> Any:
    """Turn an output into a column: a value or a list of values for each row."""
    shape: tuple[int, ...] = getattr(found, "shape", ())
    single = shape in ((rows,), (rows, 1)) and not width
    if not single and (len(shape) != 2 or shape[0] != rows or width not in (shape[1], None)):
        needed = f"{rows}, or {rows} x {'any number' if width is None else width or 1}"
        raise ValueError(f"output of shape {' x '.join(map(str, shape))} given, {needed} needed")
    values = pa.array(found.ravel(), pa.string() if found.dtype.kind == "O" else None)
    return values if single else pa.FixedSizeListArray.from_arrays(values, shape[1])


def run(
    session: ort.InferenceSession,
    threads: int,
    output: str,
    width: int | None,
    shapes: dict[str, list[int]],
) -> None:
    """Predict batch by batch, one in each thread; the next is read meanwhile.

    A batch for each thread, rather than all threads for a batch: none ever waits for another.
    """
    for pipe in (sys.stdin, sys.stdout):
        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    reading, computing = ThreadPoolExecutor(1), ThreadPoolExecutor(threads)

    def predict(batch: Any) -> Any:
        (found,) = session.run([output], feed(batch, shapes))
        return pa.record_batch([column_of(found, batch.num_rows, width)], ["prediction"])

    reader, writer = pa.ipc.open_stream(sys.stdin.buffer), None
    coming = reading.submit(next, reader, None)
    begun: deque[Any] = deque()
    while (batch := coming.result()) is not None or begun:
        if batch is not None:
            begun.append(computing.submit(predict, batch))
            coming = reading.submit(next, reader, None)
            if len(begun) <= threads:
                continue
        predictions = begun.popleft().result()
        if writer is None:
            writer = pa.ipc.new_stream(sys.stdout.buffer, predictions.schema)
        writer.write_batch(predictions)
    if writer is None:
        raise ValueError("no inputs given")
    writer.close()
    sys.stdout.buffer.flush()


def reason(error: BaseException) -> str:
    """Say in one line what went wrong, without places in the source of onnxruntime."""
    text = str(error) or type(error).__name__
    if too_new := _TOO_NEW.search(text):
        given, domain, known = too_new.groups()
        return f"opset {given} of {domain} given, {known} or older needed: export with that opset"
    return " ".join(_WHERE.sub("", text[:_LONGEST]).split())


def main(model: str, plan: str) -> NoReturn:
    """Leave without tidying up: a thread may still wait for input, and large models take time."""
    sys.meta_path.insert(0, WithoutPandas())
    try:
        with open(plan, encoding="utf-8") as file:
            todo = json.load(file)
        limit(todo["seconds"], todo["memory"], todo["threads"])
        run(load(model), todo["threads"], todo["output"], todo["width"], todo["shapes"])
    except BaseException as error:  # whatever it is, it is told in one line
        print(reason(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
