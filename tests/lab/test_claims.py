"""Claims are judged by what is computed: other numbers, other verdicts."""

from __future__ import annotations

import pytest

from easeml_meter.lab import claims
from easeml_meter.lab.claims import CLAIMS
from easeml_meter.lab.curves import Case, Curve, CurveForm, labels
from easeml_meter.lab.figures import FIGURES
from easeml_meter.lab.numbers import Claim, ClaimVerdict, graded, worst


def claim(words: str) -> Claim:
    [found] = [each for listed in CLAIMS.values() for each in listed if words in each.says]
    return found


def test_every_figure_has_claims() -> None:
    assert list(CLAIMS) == list(FIGURES)
    assert all(CLAIMS.values())


@pytest.mark.parametrize(
    ("words", "verdict", "found"),
    [
        ("samples required by each approach increase", ClaimVerdict.HOLDS, "16 of 16"),
        ("much more slowly", ClaimVerdict.ROUGHLY, "Resampling 13.0x, Regular Meter 7.7x"),
        ("O(T ln T), O(T), O(ln T)", ClaimVerdict.HOLDS, "all fall"),
        ("visible gap", ClaimVerdict.HOLDS, "1.75"),
        ("only slightly increases", ClaimVerdict.ROUGHLY, "26.9%"),
        ("around 25x", ClaimVerdict.HOLDS, "25.00x"),
        ("order of magnitude", ClaimVerdict.HOLDS, "41.8x"),
        ("both meters increases with m", ClaimVerdict.HOLDS, "108,080 to 142,148"),
        ("same rate, O(ln m)", ClaimVerdict.ROUGHLY, "in the limit"),
        ("slightly improves over Regular", ClaimVerdict.HOLDS, "1.087x"),
        ("regardless of T", ClaimVerdict.ROUGHLY, "1.304x at T = 1"),
        ("close to No Adaptivity.", ClaimVerdict.HOLDS, "1.0000"),
        ("With other settings of the tolerances", ClaimVerdict.ROUGHLY, "not below"),
        ("roughly by 2x", ClaimVerdict.ROUGHLY, "1.58x at T = 10, 1.94x at T = 100"),
        ("asymptotically 2x", ClaimVerdict.HOLDS, "1.9999x"),
        ("checkpoint made by the other", ClaimVerdict.FAILS, "51,009"),
        ("up to 2.64x", ClaimVerdict.ROUGHLY, "2.6321x"),
        ("converges to No Adaptivity", ClaimVerdict.HOLDS, "1.0000"),
        ("revert once an overfitting signal", ClaimVerdict.HOLDS, "63,145 instead of 86,542"),
        ("200K to 300K", ClaimVerdict.HOLDS, "203,008 to 295,112"),
        ("by 2.5x to 8x", ClaimVerdict.HOLDS, "2.52x to 8.00x"),
        ("by 1.6x to 3x", ClaimVerdict.FAILS, "1.48x to 2.85x"),
        ("just 37K at 0.99", ClaimVerdict.HOLDS, "36,889"),
        ("T + 1 = 3 levels", ClaimVerdict.HOLDS, "1, 2, 4"),
        ("only 50K labels", ClaimVerdict.ROUGHLY, "50,776 and 80,472"),
    ],
)
def test_verdicts(words: str, verdict: ClaimVerdict, found: str) -> None:
    finding = claim(words).check()
    assert finding.verdict is verdict
    assert found in finding.found


def in_another_world(monkeypatch: pytest.MonkeyPatch, world: dict[str, int] | int) -> None:
    """Let every meter need other labels than it does."""

    def other(meter: Curve, setting: Case, form: CurveForm = CurveForm.PUBLISHED) -> int:
        if isinstance(world, int):
            return world
        return world.get(meter.name, labels(meter, setting, form))

    def ratio(a: Curve, b: Curve, setting: Case, form: CurveForm = CurveForm.PUBLISHED) -> float:
        return other(a, setting, form) / other(b, setting, form)

    monkeypatch.setattr(claims, "labels", other)
    monkeypatch.setattr(claims, "ratio", ratio)


@pytest.mark.parametrize(
    "words",
    [
        "samples required by each approach increase",
        "much more slowly",
        "visible gap",
        "around 25x",
        "order of magnitude",
        "both meters increases with m",
        "significantly improves over the uniform",
        "improves significantly over single tenancy",
        "roughly by 2x",
        "asymptotically 2x",
        "travel regular meter improves significantly",
        "increases with the budget",
        "200K to 300K",
        "just 37K at 0.99",
        "only 50K labels",
    ],
)
def test_where_every_meter_needs_the_same_claims_of_difference_fail(
    monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    in_another_world(monkeypatch, 1000)
    assert claim(words).check().verdict is ClaimVerdict.FAILS


@pytest.mark.parametrize(
    ("words", "world"),
    [
        ("close to No Adaptivity.", {"Incremental, Nonuniform": 10**6}),
        ("does not improve: both match", {"Incremental, Two Tenants": 1000}),
        ("converges to No Adaptivity", {"Regular, Time Travel": 10**6}),
        ("not improve, regardless of B", {"Incremental, Time Travel": 1000}),
        ("slightly improves over Regular", {"Regular, Nonuniform": 1000}),
        ("regardless of T", {"Regular, Nonuniform": 1000}),
    ],
)
def test_claims_of_likeness_fail_where_meters_differ(
    monkeypatch: pytest.MonkeyPatch, words: str, world: dict[str, int]
) -> None:
    in_another_world(monkeypatch, world)
    assert claim(words).check().verdict is ClaimVerdict.FAILS


def test_a_claim_can_turn_true(monkeypatch: pytest.MonkeyPatch) -> None:
    world = {"Regular Meter": 160, "Incremental Meter": 100} | {
        "Regular, Nonuniform": 300,
        "Incremental, Nonuniform": 100,
    }

    def ratios(_: CurveForm, pairs: list[tuple[Curve, Curve]]) -> list[float]:
        return [world[a.name] / world[b.name] for a, b in pairs]

    monkeypatch.setattr(claims, "case_ratios", ratios)
    assert claim("by 1.6x to 3x").check().verdict is ClaimVerdict.HOLDS


def test_grades() -> None:
    assert graded(True, True) is ClaimVerdict.HOLDS
    assert graded(False, True) is ClaimVerdict.ROUGHLY
    assert graded(False, False) is ClaimVerdict.FAILS
    assert (
        worst([ClaimVerdict.HOLDS, ClaimVerdict.FAILS, ClaimVerdict.ROUGHLY]) is ClaimVerdict.FAILS
    )
