"""No waiting: for the disk, for hashes, before answers to models leave, for children that read.

What was written survives a kill without waiting for the disk, though not a power cut. Passwords are
slow to hash because somebody may guess them. The wait before an answer hides from developers how
long their model ran on hidden rows, and a child bounds what a stranger's file can cost. Tests that
ask about none of these do without. No setting turns them off: tests do in their own process, and
programs that `forking` starts do in theirs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from socketserver import BaseServer
from typing import Any

import argon2
import pytest
import sqlalchemy as sa

from easeml_meter.scoring import onnx_checks
from easeml_meter.service import users
from easeml_meter.service.submissions import running
from easeml_meter.storage import store
from easeml_meter.tables import apart as children
from easeml_meter.tables import opening
from easeml_meter.vault import inspection

_wait_until = running.wait_until
_ASKING = (opening, inspection, onnx_checks)
_fsync = os.fsync
_sqlite = store._sqlite
_hasher = argon2.PasswordHasher
_nobodys = users._NOBODYS


def answer_here(work: children.Work, *given: object, **_: object) -> tuple[Any, Any]:
    """Do in this process what a child does."""
    return work(*given)


def _sqlite_in_memory_first(address: sa.URL) -> sa.Engine:
    """Open a database that leaves it to the system when to write to the disk."""
    engine = _sqlite(address)
    for first in (True, False):  # before its log is made, and after the usual settings
        sa.event.listen(
            engine, "connect", lambda own, _: own.execute("PRAGMA synchronous = OFF"), insert=first
        )
    return engine


def quicken(patch: pytest.MonkeyPatch) -> None:
    """Wait for no disk, and hash passwords quickly, in this process."""
    patch.setattr(os, "fsync", lambda file: None)
    patch.setattr(store, "_sqlite", _sqlite_in_memory_first)
    cheap = partial(argon2.PasswordHasher, time_cost=1, memory_cost=8, parallelism=1)
    patch.setattr(argon2, "PasswordHasher", cheap)
    patch.setattr(users, "_NOBODYS", cheap().hash(_nobodys))


def hurry() -> None:
    """Let answers leave at once, in this process."""
    running.wait_until = lambda moment: None


@pytest.fixture(scope="session", autouse=True)
def _hurried() -> Iterator[None]:
    """Wait for nothing in any test, nor in what modules of tests share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "wait_until", lambda moment: None)
        # Small servers of tests end at once when they are asked to.
        patch.setattr(BaseServer.serve_forever, "__defaults__", (0.02,))
        for module in _ASKING:
            patch.setattr(module, "answer_apart", answer_here)
        quicken(patch)
        yield


@pytest.fixture
def durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the disk, as for users."""
    monkeypatch.setattr(os, "fsync", _fsync)
    monkeypatch.setattr(store, "_sqlite", _sqlite)


@pytest.fixture
def costly_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash passwords slowly, as for users."""
    monkeypatch.setattr(argon2, "PasswordHasher", _hasher)
    monkeypatch.setattr(users, "_NOBODYS", _nobodys)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let children read what strangers send, as they do for users."""
    for module in _ASKING:
        monkeypatch.setattr(module, "answer_apart", children.answer_apart)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let answers wait, as they do for users."""
    monkeypatch.setattr(running, "wait_until", _wait_until)
