"""Parameters of paths and queries, as the API documents them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from easeml_meter.checks import MAX_NAME

Id = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="32 hexadecimal digits.")]

MeterKey = Annotated[
    str,
    Path(min_length=1, max_length=MAX_NAME, description="Id of the meter, or its name."),
]

FileName = Annotated[str, Query(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""What somebody calls a file that they send, for refusals."""

Number = Annotated[int, Path(ge=1, le=1_000_000, description="Number, from 1.")]

Tenant = Annotated[
    int | None,
    Query(ge=1, le=1_000_000, description="Number of the team; by default your own."),
]
