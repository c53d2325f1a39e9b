"""What an examination of a server found: one line a check, with what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

SILENT = timedelta(minutes=5)
"""A worker that gave no sign of life for so long is none."""


class Verdict(StrEnum):
    """How a check went."""

    OK = "ok"
    WARN = "warn"
    """The server runs, but not as it should."""
    FAIL = "fail"
    """The server does not run, or does not keep its promises."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    verdict: Verdict
    said: str
    remedy: str = ""
    """What to do; empty only where nothing is to be done."""

    def __post_init__(self) -> None:
        if (self.verdict is Verdict.OK) is bool(self.remedy):
            raise ValueError("remedy: every finding but ok needs one, and ok has none")

    @property
    def line(self) -> str:
        """The finding for people."""
        text = f"{self.said}: {self.remedy}" if self.remedy else self.said
        return f"{self.verdict:<5} {self.check:<9} {' '.join(text.split())}"


def ok(check: str, said: str) -> Finding:
    """Return that a check found nothing to do."""
    return Finding(check, Verdict.OK, said)


def healthy(findings: Iterable[Finding]) -> bool:
    """Whether no check failed."""
    return all(each.verdict is not Verdict.FAIL for each in findings)
