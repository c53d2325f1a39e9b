"""Write `shown/` anew; see the package. `answers/` needs an option that nobody should need."""

from __future__ import annotations

import sys

from tests.recorded.replay import record

BREAK = "--break-the-promise-of-unchanged-answers"
if sys.argv[1:] not in ([], [BREAK]):
    raise SystemExit("usage: python -m tests.recorded")
record(answers=bool(sys.argv[1:]))
