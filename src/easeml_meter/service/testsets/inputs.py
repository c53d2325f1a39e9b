"""The inputs of a test set, without labels, for whoever may see them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from easeml_meter.core.model import TestSet
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.tables.writing import new_file


def export_inputs(space: Workspace, destination: Path) -> int:
    """Write ids and inputs of the test set in use, without labels; give the number of rows."""
    with space.reading() as books:
        situation = space.state(books)
    generation = situation.active()
    with open_sealed(space, generation) as sealed:
        columns = [name for name in sealed.schema.names if name != sealed.manifest.label.name]
        schema = pa.schema([sealed.schema.field(name) for name in columns])
        with new_file(destination) as stream, pq.ParquetWriter(stream, schema) as writer:
            for batch in sealed.batches(columns):
                writer.write_batch(batch)
        return sealed.rows


def stream_inputs(space: Workspace, generation: TestSet) -> Iterator[bytes]:
    """Give ids and inputs of a test set, without labels, as the bytes of a Parquet file."""
    with open_sealed(space, generation) as sealed:
        columns = [name for name in sealed.schema.names if name != sealed.manifest.label.name]
        schema = pa.schema([sealed.schema.field(name) for name in columns])
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, schema) as writer:
            for batch in sealed.batches(columns):
                writer.write_batch(batch)
                yield _taken_from(sink)
        yield _taken_from(sink)


def _taken_from(sink: io.BytesIO) -> bytes:
    """Empty a sink."""
    data = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return data
