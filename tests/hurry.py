"""Answers to models that leave as soon as they are known.

The wait before such an answer hides from developers how long their model ran on hidden rows. Tests
that do not ask about time need no wait. No setting turns it off: a test does in its own process,
and other programs are started through this one: `python tests/hurry.py PROGRAM ARGUMENT...`.
"""

from __future__ import annotations

import os
import runpy
import sys

import pytest

from easeml_meter.service.submissions import measuring

_wait_until = measuring.wait_until


def hurry() -> None:
    """Let answers leave at once, in this process."""
    measuring.wait_until = lambda moment: None


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers leave at once, in every test."""
    monkeypatch.setattr(measuring, "wait_until", lambda moment: None)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers wait, as they do for users."""
    monkeypatch.setattr(measuring, "wait_until", _wait_until)


if __name__ == "__main__":
    hurry()
    del sys.argv[0]
    sys.path[0] = os.path.dirname(sys.argv[0])
    runpy.run_path(sys.argv[0], run_name="__main__")
