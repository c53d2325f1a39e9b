"""What the tests of submissions share."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.service.helpers import Session, make_session
from tests.service.submissions.models import VISIBLE, hidden_spec

from easeml_meter.scoring import running


@pytest.fixture(autouse=True)
def fewer_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run hidden rows again once: a busy machine needs seconds for a start."""
    monkeypatch.setattr(running, "HIDDEN_RUNS", 1)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return make_session(tmp_path, hidden_spec(), validation_size=VISIBLE)
