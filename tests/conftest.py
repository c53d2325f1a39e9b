"""Settings for all tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import settings

# `bench` and the slow oracles of the tests are imported from the root of the repository.
ROOT = str(Path(__file__).parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

# onnxruntime reports to its maker unless told not to, before it is imported.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

# The same examples on every run, and no clock: a test fails for a reason, never by chance.
settings.register_profile("meter", derandomize=True, deadline=None, database=None)
settings.load_profile("meter")

pytest_plugins = ["tests.postgresql", "tests.s3"]
