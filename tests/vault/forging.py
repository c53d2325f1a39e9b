"""Sealed files that no labeler's machine would write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

from easeml_meter.vault import containers
from easeml_meter.vault.keys import Identity


def forged(
    path: Path, key: Identity, groups: list[pa.Table], *, meter: str = "cats", **notes: Any
) -> Path:
    """Seal rows as no labeler's machine would: whoever seals a file writes all of it."""
    schema = groups[0].schema
    said: Mapping[str, object] = {
        "label": "label",
        "id_column": None,
        "order_digest": None,
        "created": "",
        "classes": None,
        "batch_rows": [],
    } | notes
    batches: Iterator[pa.RecordBatch] = (each for group in groups for each in group.to_batches())
    # Without Arrow's own notes, dictionaries are written out when they are read.
    with (
        path.open("wb") as stream,
        mock.patch.object(pq, "ParquetWriter", partial(pq.ParquetWriter, store_schema=False)),
    ):
        containers.write_container(
            stream,
            schema,
            batches,
            bound_to=containers.binding("test set", meter, 1),
            recipients=[key.recipient],
            notes=lambda: said,
            group_rows=len(groups[0]),
        )
    return path
