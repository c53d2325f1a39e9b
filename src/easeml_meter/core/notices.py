"""Notices: what only labelers are told about the rows of a test set."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from easeml_meter.checks import known

NAMED_ROWS = 10
"""Rows that a refusal or a notice names; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """How many rows of a test set stand in another set: a validation set, or a test set."""

    at: str
    generation: int
    """The number of the test set."""
    validation_set: int | None = None
    test_set: int | None = None
    """The other test set; without it and a validation set, the test set itself."""
    rows_shared: int | None
    """None: not known, because there was nothing to compare."""
    first_rows: tuple[int, ...] = ()
    ids_renumbered: int = 0
    """Rows with an id of the other set but other inputs, which the labeler said are other rows."""

    @property
    def other(self) -> str:
        """What the test set was compared with."""
        if self.validation_set is not None:
            return f"validation set {self.validation_set}"
        return f"test set {self.test_set if self.test_set is not None else self.generation}"

    @property
    def sentence(self) -> str:
        """The notice in words."""
        this = f"test set {self.generation}"
        if self.other == this:
            return f"{self.rows_shared:,} rows of {this} have the inputs of another of its rows"
        if self.rows_shared is None:
            return f"it is not known whether {self.other} shares rows with {this}"
        numbered = f", and {self.ids_renumbered:,} ids with other inputs"
        renumbered = numbered if self.ids_renumbered else ""
        return f"{self.other} shares {self.rows_shared:,} rows with {this}{renumbered}"

    def to_json(self) -> dict[str, Any]:
        """Return the notice as JSON has it."""
        return {**asdict(self), "first_rows": list(self.first_rows), "sentence": self.sentence}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Notice:
        """Return what `to_json` told."""
        return cls(**known(cls, data, first_rows=tuple(data["first_rows"])))
