"""The invalid uses: counts that hold under an assumption about people, and people who break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from easeml_meter.charts import altair
from easeml_meter.lab.simulation.coverage import Advance, Coverage, coverage, experiment
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.planning import required_labels


@dataclass(frozen=True)
class Misuse:
    """A meter, a developer who breaks its assumption, and the meter that would have been right."""

    name: str
    spec: MeterSpec
    developer: str
    right: MeterSpec
    """The same session, counted without the assumption."""

    @cached_property
    def planned(self) -> int:
        """The labels that suffice under the assumption."""
        return required_labels(self.spec).labels

    @cached_property
    def needed(self) -> int:
        """The labels that suffice without it."""
        return required_labels(self.right).labels

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
        setting = experiment(self.spec, self.developer, labels=labels, seed=seed)
        return coverage(setting, runs, pool=pool, advance=advance)

    def sizes(self) -> list[int]:
        """List sizes from half of what was planned to what is needed, for a chart."""
        found = [self.planned // 2]
        while found[-1] < self.needed:
            found.append(round(found[-1] * 2**0.5))
        return sorted({self.planned, self.needed, *(size for size in found if size < self.needed)})


def _published(steps: int, **options: Any) -> MeterSpec:
    tolerances = [0.05, 0.1, 0.15, 0.2, 0.25]
    return MeterSpec.uniform(
        signals=5, tolerance=tolerances, steps=steps, delta=0.05, published=True, **options
    )


MISUSES = (
    Misuse(
        "16 tenants hand on checkpoints, but are counted as isolated",
        _published(400, tenants=(25,) * 16),
        "checkpoints",
        _published(400, tenants=(25,) * 16, handover=True),
    ),
    Misuse(
        "200 reverts after bad signals, but counted as fixed in advance",
        _published(200, reverts=tuple(range(1, 201))),
        "reverter",
        _published(200),
    ),
)


def curve(
    misuse: Misuse,
    runs: int,
    *,
    seed: int = 7,
    pool: Executor | None = None,
    advance: Callable[[str], Advance] = lambda _: lambda _: None,
) -> Iterator[Coverage]:
    """Play a misuse at many sizes, the smallest first."""
    for labels in misuse.sizes():
        bar = advance(f"{misuse.developer}, {labels:,} labels")
        yield misuse.at(labels, runs, seed=seed, pool=pool, advance=bar)


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
        x = alt.X("labels:Q", scale=alt.Scale(type="log"), title="labels in the hidden test set")
        data = alt.Chart(alt.Data(values=values))
        band = data.mark_area(opacity=0.2).encode(x=x, y="lower:Q", y2="upper:Q")
        title = "sessions with a broken promise"
        line = data.mark_line(point=True).encode(
            x=x, y=alt.Y("rate:Q", title=title, scale=alt.Scale(domain=[0, 1]))
        )
        marks = alt.Chart(alt.Data(values=rules)).mark_rule(strokeDash=[4, 3], strokeWidth=2)
        marked = marks.encode(x="labels:Q", color=alt.Color("what:N", title=None, sort=None))
        delta = alt.Chart(alt.Data(values=[{"delta": misuse.spec.session_delta}]))
        allowed = delta.mark_rule(color="#888").encode(y="delta:Q")
        panel = alt.layer(allowed, marked, band, line)
        panels.append(panel.properties(width=330, height=240, title=misuse.name))
    return alt.hconcat(*panels).configure_legend(orient="bottom").configure_title(fontSize=11)
