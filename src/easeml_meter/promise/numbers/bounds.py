"""Names of the bounds on tails."""

from __future__ import annotations

from enum import StrEnum


class Bound(StrEnum):
    """Which tail bound holds one model's test loss near its true loss."""

    EXACT = "exact"
    CONVEX = "convex"
    KL = "kl"
    HOEFFDING = "hoeffding"
