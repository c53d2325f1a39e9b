"""Here models run as for users."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _as_for_users(sandboxed: None) -> None:
    """Run every model in the sandbox."""
