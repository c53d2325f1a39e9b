"""The secret that band edges are drawn with: sealed with the labels, published at release.

Whoever knows where the next edge will be can aim a model at it, and then the promise fails. So the
secret leaves the sealed test set only as edges of answers that were entered, and as a digest that
binds the meter to it before the first answer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass, field
from fractions import Fraction

from easeml_meter.core.model import Entry
from easeml_meter.promise.bands import DRAWS
from easeml_meter.promise.numbers.rounding import as_written

BYTES = 32


@dataclass(frozen=True)
class Draws:
    """Draws the edges of answers: the same answer has the same edges, and no two have more."""

    _secret: bytes = field(repr=False)

    def first_edge(self, entry: Entry, apart: float | Fraction) -> Fraction:
        """Return where the bands of an answer begin, from 0 up to `apart`."""
        return self.place(entry) * as_written(apart) / DRAWS

    def place(self, entry: Entry) -> int:
        """Return which of the DRAWS places for a first edge is drawn, counted from 0.

        Everything that moves the reading goes in. A model may behave in another way when another
        team submits it, or measure another validation loss: then the known edge is of no use.
        """
        facts = (entry.tenant, entry.submission, entry.validation_set, entry.validation_loss)
        return int.from_bytes(self._keyed("first edge", *facts)) % DRAWS

    @property
    def commitment(self) -> str:
        """A digest that tells nothing of the secret, and fits no other one."""
        return self._keyed("commitment").hex()

    def published(self) -> str:
        """Return the secret as text: for a test set that was released."""
        return self._secret.hex()

    def _keyed(self, *facts: str | int) -> bytes:
        message = json.dumps(["easeml-meter/1", *facts]).encode()
        return hmac.new(self._secret, message, hashlib.sha256).digest()


def read_draws(text: object) -> Draws | None:
    """Read what `published` gave; None where there is no secret, as in files sealed before."""
    if not isinstance(text, str) or re.fullmatch(f"[0-9a-f]{{{2 * BYTES}}}", text) is None:
        return None
    return Draws(bytes.fromhex(text))
