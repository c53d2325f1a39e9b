"""What real tools wrote; README.md says how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.service.helpers import small_spec

from easeml_meter.spec import MeterSpec

FOLDER = Path(__file__).parent


def scored(metric: str = "", loss: str = "score[0-1]", **options: Any) -> MeterSpec:
    """Give a meter that takes scores."""
    return small_spec(loss=loss, classes=(), metric=metric, **options)
