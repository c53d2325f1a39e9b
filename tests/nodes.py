"""Whether a test that is named somewhere exists."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def exists(node: str) -> bool:
    """Whether a test of this id is there, without importing it."""
    file, *names = node.split("::")
    if not names or not (ROOT / file).is_file():
        return False
    found: list[ast.stmt] = _parsed(ROOT / file).body
    for name in names:
        named = [each for each in found if getattr(each, "name", "") == name]
        if not named:
            return False
        found = getattr(named[0], "body", [])
    return names[-1].startswith("test_")
