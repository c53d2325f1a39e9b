"""The audit: everything that was disclosed, in a hash chain."""

from __future__ import annotations

from dataclasses import dataclass

from easeml_meter.core.model import AuditLink


@dataclass(frozen=True)
class Audit:
    """What the books say of themselves."""

    links: tuple[AuditLink, ...]
    problems: tuple[str, ...]
