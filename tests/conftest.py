"""Settings for all tests."""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# `bench` and the slow oracles of the tests are imported from the root of the repository.
ROOT = str(Path(__file__).parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

# onnxruntime reports to its maker unless told not to, before it is imported.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# In a job, a gate makes no ledger unasked: tests say themselves when they are one.
os.environ.pop("CI", None)

# The same examples on every run, and no clock: a test fails for a reason, never by chance.
settings.register_profile("meter", derandomize=True, deadline=None, database=None)
settings.load_profile("meter")

# What is collected stays to the end: looking through it for garbage, over and over, finds none.
gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage from now on, and only among what the tests make."""
    gc.freeze()
    gc.enable()


pytest_plugins = [
    *("tests.hurry", "tests.postgresql", "tests.s3", "tests.seconds", "tests.template"),
    "tests.warm",
]


# Fixtures, and values of parameters, that start another program.
PROGRAMS = {"postgresql", "team_database", "s3", "s3_address", "s3_url"}
# Where the SQL of the two databases differs: elsewhere, only `make verify` runs tests on both.
BOTH_DATABASES = (
    *("properties/test_races", "properties/test_several_servers.py", "server/test_limits.py"),
    *("server/test_metrics.py", "service/submissions/test_deciding.py", "service/test_guesses.py"),
    *("service/test_jobs.py", "service/test_place.py", "service/testsets/test_reuse.py"),
    *("service/test_backup.py::test_a_whole_site", "storage/"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what starts one, and as a slow proof what runs on PostgreSQL as well."""
    both = tuple(f"tests/{each}" for each in BOTH_DATABASES)
    for item in items:
        case = getattr(item, "callspec", None)
        given = [each for each in case.params.values() if isinstance(each, str)] if case else []
        if PROGRAMS & {*getattr(item, "fixturenames", ()), *given}:
            item.add_marker("slow")
        if "postgresql" in given and not item.nodeid.startswith(both):
            item.add_marker("verify")


@pytest.fixture(autouse=True)
def _no_logs_of_others() -> Iterator[None]:
    """Forget where a command that ran in this process logged to: its test closes that stream."""
    yield
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if type(handler.formatter).__name__ == "JsonLines":
            root.removeHandler(handler)
            logging.getLogger("easeml_meter").setLevel(logging.NOTSET)
