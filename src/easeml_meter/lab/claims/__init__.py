"""What the paper says about its figures; each claim is checked by code."""

from __future__ import annotations

from easeml_meter.lab.claims import cases, meters, nonuniform, sharing
from easeml_meter.lab.verdicts import Claim

CLAIMS: dict[str, tuple[Claim, ...]] = {
    "uniform": meters.UNIFORM,
    "signals": meters.SIGNALS,
    "nonuniform": nonuniform.NONUNIFORM,
    "tenants": sharing.TENANTS,
    "time-travel": sharing.TIME_TRAVEL,
    "case-study": cases.CASE_STUDY,
    "trees": cases.TREES,
    "traces": cases.TRACES,
}
"""The claims about each figure."""
