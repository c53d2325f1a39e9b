"""No waiting: answers to models leave as soon as they are known, and no child reads deliveries.

The wait before such an answer hides from developers how long their model ran on hidden rows, and a
child bounds what a sealed file can cost. Tests that ask about neither do without. No setting turns
them off: a test does in its own process, and other programs are started through this one:
`python tests/hurry.py PROGRAM ARGUMENT...`.
"""

from __future__ import annotations

import os
import runpy
import sys
from dataclasses import replace

import pytest

from easeml_meter.service.submissions import measuring
from easeml_meter.tables.limits import TableLimits
from easeml_meter.vault.inspection import Delivered, Inspected

_wait_until = measuring.wait_until
_inspect_apart = Delivered.inspect_apart


def _inspect_here(delivered: Delivered, limits: TableLimits) -> Inspected:
    return delivered.inspect(replace(limits, longest_text=limits.most_decoded_bytes))


def hurry() -> None:
    """Let answers leave at once, in this process."""
    measuring.wait_until = lambda moment: None


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers leave at once, and deliveries be read here, in every test."""
    monkeypatch.setattr(measuring, "wait_until", lambda moment: None)
    monkeypatch.setattr(Delivered, "inspect_apart", _inspect_here)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a child read deliveries, as it does for users."""
    monkeypatch.setattr(Delivered, "inspect_apart", _inspect_apart)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers wait, as they do for users."""
    monkeypatch.setattr(measuring, "wait_until", _wait_until)


if __name__ == "__main__":
    hurry()
    del sys.argv[0]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
