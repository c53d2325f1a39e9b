"""All meters side by side, for one budget of steps and one promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from easeml_meter.spec import MeterSpec, Protocol
from easeml_meter.stats.planning import Plan, assumptions_of, required_labels


@dataclass(frozen=True)
class Comparison:
    """One meter's three prices; the paper does not know every meter."""

    name: str
    published: Plan | None
    tightened: Plan
    with_ceiling: Plan | None

    @property
    def rests_on_people(self) -> bool:
        """Whether the promise holds only if people behave as assumed."""
        return any("about people" in line for line in assumptions_of(self.tightened.spec))


@dataclass(frozen=True)
class Setting:
    """What all compared meters have in common; the first tolerance is the uniform one."""

    signals: int
    tolerances: tuple[float, ...]
    delta: float
    ceiling: float | None
    """None: no column for it."""


def compare(setting: Setting, steps: int, *, most_masked: int = 10_000) -> tuple[Comparison, ...]:
    """Plan every meter for the same steps and the same promise, the ideal one first.

    Masked reverts, counted step by step and revert by revert, are left out beyond `most_masked`.
    """
    forms = (*lines(setting, steps), *_special(setting, steps, most_masked))
    rows = [_compare_one(name, spec, setting.ceiling) for name, spec in forms]
    return tuple(sorted(rows, key=lambda row: row.tightened.labels))


def lines(setting: Setting, steps: int) -> list[tuple[str, MeterSpec]]:
    """Return the meters of the paper's figures."""
    uniform = MeterSpec.uniform(
        signals=setting.signals, tolerance=setting.tolerances[0], steps=steps, delta=setting.delta
    )
    by_band = uniform.with_tolerances(setting.tolerances)
    return [
        ("no adaptivity (ideal)", uniform.replace(protocol=Protocol.INDEPENDENT)),
        ("incremental, nonuniform", by_band.replace(protocol=Protocol.INCREMENTAL)),
        ("incremental, uniform", uniform.replace(protocol=Protocol.INCREMENTAL)),
        ("regular, nonuniform", by_band),
        ("regular, uniform", uniform),
        ("resampling (baseline)", uniform.replace(protocol=Protocol.RESAMPLING)),
    ]


def _special(setting: Setting, steps: int, most_masked: int) -> list[tuple[str, MeterSpec]]:
    """Return the meters that need more than one step or signal to differ."""
    regular = dict(lines(setting, steps))["regular, nonuniform"]
    found = []
    if steps >= 2:
        halves = (steps - steps // 2, steps // 2)
        found.append(("regular, two teams", regular.replace(tenants=halves)))
    if setting.signals >= 2 and 4 <= steps <= most_masked:
        masked = regular.replace(masked_reverts=steps // 3, mask_above=1)
        found.append((f"regular, {steps // 3} masked reverts", masked))
    return found


def _compare_one(name: str, spec: MeterSpec, ceiling: float | None) -> Comparison:
    published = None if spec.masked_reverts else required_labels(spec.replace(published=True))
    return Comparison(
        name=name,
        published=published,
        tightened=required_labels(spec),
        with_ceiling=None if ceiling is None else required_labels(spec.replace(ceiling=ceiling)),
    )


def labels_by_steps(setting: Setting, steps: Sequence[int]) -> dict[str, dict[str, list[float]]]:
    """Return, for each form and each meter of the paper's figures, the labels at these steps."""
    found: dict[str, dict[str, list[float]]] = {}
    for count in steps:
        for name, spec in lines(setting, count):
            row = _compare_one(name, spec, setting.ceiling)
            forms = {
                "as published": row.published,
                "tightened": row.tightened,
                f"tightened, ceiling {setting.ceiling or 1:g}": row.with_ceiling,
            }
            for form, plan in forms.items():
                if plan is not None:
                    found.setdefault(form, {}).setdefault(name, []).append(plan.labels)
    return found
