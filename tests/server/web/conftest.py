"""What the tests of the pages share."""

from __future__ import annotations

import pytest
from tests.server.helpers import Served
from tests.server.web.helpers import Visitor


@pytest.fixture
def admin(served: Served) -> Visitor:
    return Visitor(served, "admin")
