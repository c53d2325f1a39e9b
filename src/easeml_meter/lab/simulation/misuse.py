"""The invalid uses: counts that hold under an assumption about people, and people who break it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from easeml_meter.charts import altair
from easeml_meter.lab.meters import equal_edges, gap_meter, in_teams
from easeml_meter.lab.simulation.coverage import Advance, Coverage, coverage, experiment
from easeml_meter.promise.budgets import Reverts
from easeml_meter.promise.compare import published
from easeml_meter.promise.meter import Budget, Meter


@dataclass(frozen=True)
class Misuse:
    """A meter, a developer who breaks its assumption, and the meter that would have been right."""

    name: str
    meter: Meter
    developer: str
    right: Meter
    """The same session, counted without the assumption."""

    @cached_property
    def planned(self) -> int:
        """The labels that suffice under the assumption."""
        return published(self.meter)

    @cached_property
    def needed(self) -> int:
        """The labels that suffice without it."""
        return published(self.right)

    def at(
        self,
        labels: int,
        runs: int,
        *,
        seed: int = 7,
        pool: Executor | None = None,
        advance: Advance = lambda _: None,
    ) -> Coverage:
        """Play it with a test set of this size."""
        setting = experiment(
            self.meter, self.developer, planned=self.planned, labels=labels, seed=seed
        )
        return coverage(setting, runs, pool=pool, advance=advance)

    def sizes(self) -> list[int]:
        """List sizes from half of what was planned to what is needed, for a chart."""
        doubled = (self.planned * 2 ** (half / 2) for half in itertools.count(-2))
        below = itertools.takewhile(lambda size: size < self.needed, doubled)
        return [*map(round, below), self.needed]


def _meter(budget: Budget | int) -> Meter:
    tolerances = [0.05, 0.1, 0.15, 0.2, 0.25]
    return gap_meter(equal_edges(5), tolerances, delta=0.05, budget=budget)


_TEAMS = (25,) * 16


MISUSES = (
    Misuse(
        "16 teams pass on checkpoints, but are counted as isolated",
        in_teams(_meter(400), _TEAMS),
        "checkpoints",
        in_teams(_meter(400), _TEAMS, handover=True),
    ),
    Misuse(
        "200 reverts after bad answers, but counted as fixed in advance",
        _meter(Reverts(steps=200, reverts=tuple(range(1, 201)))),
        "reverter",
        _meter(200),
    ),
)


def curve(
    misuse: Misuse,
    sizes: Sequence[int],
    runs: int,
    *,
    seed: int = 7,
    pool: Executor | None = None,
    advance: Callable[[str], Advance] = lambda _: lambda _: None,
) -> list[Coverage]:
    """Play a misuse at several sizes of the test set."""
    return [
        misuse.at(
            labels,
            runs,
            seed=seed,
            pool=pool,
            advance=advance(f"{misuse.developer}, {labels:,} labels"),
        )
        for labels in sizes
    ]


def chart(curves: Sequence[tuple[Misuse, Sequence[Coverage]]]) -> Any:
    """Draw failure rate against labels, one panel for each misuse, with both plans marked."""
    alt = altair()
    panels = []
    for misuse, points in curves:
        values = [
            {"labels": point.experiment.labels, "rate": point.rate}
            | dict(zip(("lower", "upper"), point.interval, strict=True))
            for point in points
        ]
        rules = [
            {"labels": misuse.planned, "what": "planned under the assumption"},
            {"labels": misuse.needed, "what": "planned without it"},
        ]
        scale = alt.Scale(type="log", nice=False)
        x = alt.X("labels:Q", scale=scale, title="labels in the hidden test set")
        data = alt.Chart(alt.Data(values=values))
        band = data.mark_area(opacity=0.2).encode(x=x, y="lower:Q", y2="upper:Q")
        share = alt.Scale(domain=[0, 1])
        y = alt.Y("rate:Q", title="sessions with a broken promise", scale=share)
        line = data.mark_line(point=True).encode(x=x, y=y)
        marks = alt.Chart(alt.Data(values=rules)).mark_rule(strokeDash=[4, 3], strokeWidth=2)
        marked = marks.encode(x="labels:Q", color=alt.Color("what:N", title=None, sort=None))
        delta = {"delta": float(misuse.meter.delta_of_stage), "name": "delta"}
        allowed = alt.Chart(alt.Data(values=[delta])).encode(y="delta:Q")
        rule = allowed.mark_rule(color="#888")
        name = allowed.mark_text(align="left", dx=4, dy=-6, color="#666").encode(
            x=alt.value(0), text="name:N"
        )
        title = alt.Title(misuse.name, fontSize=11)
        panel = alt.layer(rule, name, marked, band, line)
        panels.append(panel.properties(width=330, height=240, title=title))
    return (
        alt.hconcat(*panels)
        .configure_axis(grid=False)
        .configure_legend(orient="bottom", labelLimit=300)
    )
