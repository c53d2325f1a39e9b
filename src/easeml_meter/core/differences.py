"""Two submissions side by side on a released test set: which examples got worse, which better."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from easeml_meter.checks import known

_LONGEST_CELL = 1_000
"""Characters of a cell in JSON: whole rows are in the released file."""


@dataclass(frozen=True)
class Compared:
    """One of the two submissions."""

    step: int
    model: str
    test_loss: float


@dataclass(frozen=True)
class DifferingExample:
    """A row of the test set on which the two submissions differ."""

    row: int
    """From 1, in the order of the test set."""
    id: Any
    """None: the test set has no ids."""
    label: Any
    predictions: tuple[str, str]
    losses: tuple[float, float]
    inputs: dict[str, Any]
    """The first columns."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it: values that JSON does not know, as text."""
        found = asdict(self) | {"id": plain(self.id), "label": plain(self.label)}
        return found | {"inputs": {name: plain(value) for name, value in self.inputs.items()}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DifferingExample:
        """Read what `to_json` gave."""
        pairs = {name: tuple(data[name]) for name in ("predictions", "losses")}
        return cls(**known(cls, data, **pairs))


@dataclass(frozen=True)
class Differences:
    """What became worse and what became better, from the first submission to the second."""

    generation: int
    first: Compared
    second: Compared
    rows: int
    worse: int
    better: int
    zero_one: bool
    """Whether an example is right or wrong, and nothing between."""
    page: int
    pages: int
    examples: tuple[DifferingExample, ...]
    """Those of one page, of the kind that was asked for."""
    found: int
    """Examples of that kind."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self) | {"examples": [each.to_json() for each in self.examples]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Differences:
        """Read what `to_json` gave."""
        sides = {name: Compared(**known(Compared, data[name])) for name in ("first", "second")}
        examples = tuple(map(DifferingExample.from_json, data["examples"]))
        return cls(**known(cls, data, **sides, examples=examples))


def plain(value: Any) -> Any:
    """Return a cell of any table as JSON can have it."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):  # an image, say
        return f"{len(value['bytes']):,} bytes"
    return str(value)[:_LONGEST_CELL]
