"""What drawing the figures gives: pictures, findings, numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from easeml_meter.lab.curves import Curve
from easeml_meter.lab.drawings import Drawn, Sign
from easeml_meter.lab.misprints import Misprint
from easeml_meter.lab.paper import PrintedNumber
from easeml_meter.lab.tables import Row, number_row
from easeml_meter.lab.verdicts import Claim, ClaimFinding

CURVES_KEY = "Solid: as published. Dashed: tightened (exact tail, distinct models)."


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: where it stands and what to draw."""

    number: str
    title: str
    data: Callable[[], Drawn]
    key: str = CURVES_KEY
    note: str = ""
    meters: tuple[Curve, ...] = ()
    """Meters whose promise rests on how people behave."""


@dataclass(frozen=True)
class Drawing:
    """A figure that was drawn and checked."""

    name: str
    figure: Figure
    panels: tuple[str, ...]
    """Each panel as SVG, in the ink of the page it stands on."""
    signs: tuple[Sign, ...]
    findings: tuple[tuple[Claim, ClaimFinding], ...]
    saving: str
    stories: tuple[str, ...]
    conditions: tuple[str, ...]

    @property
    def files(self) -> dict[str, str]:
        """Names of the files in the folder."""
        return {ending: f"{self.name}.{ending}" for ending in ("svg", "png", "csv")}


@dataclass(frozen=True)
class Report:
    """Everything that was drawn and found."""

    drawings: tuple[Drawing, ...]
    numbers: tuple[PrintedNumber, ...]
    misprints: tuple[Misprint, ...]

    def claims(self) -> list[Row]:
        """List the claims and what was found, one row each."""
        return [
            {
                "figure": drawing.name,
                "place": claim.place,
                "claim": claim.says,
                "verdict": str(finding.verdict),
                "found": finding.found,
            }
            for drawing in self.drawings
            for claim, finding in drawing.findings
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data for programs."""
        return {
            "figures": [
                {
                    "name": drawing.name,
                    "number": drawing.figure.number,
                    "title": drawing.figure.title,
                    "files": drawing.files,
                    "rests_on": list(drawing.conditions),
                }
                for drawing in self.drawings
            ],
            "claims": self.claims(),
            "numbers": [number_row(number) for number in self.numbers],
            "misprints": [asdict(misprint) for misprint in self.misprints],
        }
