"""Claims about the case study, the dependency trees and the development traces."""

from __future__ import annotations

import math

from easeml_meter.lab.curves import (
    DELTAS,
    IDEAL,
    INCREMENTAL,
    INCREMENTAL_NONUNIFORM,
    REGULAR,
    RESAMPLING,
    Case,
    CurveForm,
    labels,
    ratio,
)
from easeml_meter.lab.numbers import INCREMENTAL_OVER_REGULAR, METERS_OF_THE_CASE, case_ratios
from easeml_meter.lab.traces import readings
from easeml_meter.lab.trees import paper_trees, tree
from easeml_meter.lab.verdicts import Claim, ClaimFinding, close, graded, of_number, worst
from easeml_meter.spec import Protocol


def _resampling_is_expensive() -> ClaimFinding:
    low, high = (labels(RESAMPLING, Case(8, delta)) for delta in (DELTAS[0], DELTAS[-1]))
    verdict = worst([of_number("200K", low, about=True), of_number("300K", high, about=True)])
    return ClaimFinding(verdict, f"{low:,} to {high:,}")


def _range(low: str, high: str, found: list[float], tight: list[float]) -> ClaimFinding:
    verdict = worst([of_number(low, min(found)), of_number(high, max(found))])
    return ClaimFinding(
        verdict,
        f"{min(found):.2f}x to {max(found):.2f}x over all delta from 0.1 to 0.01 "
        f"(tightened: {min(tight):.2f}x to {max(tight):.2f}x)",
    )


def _meters_save() -> ClaimFinding:
    pairs = METERS_OF_THE_CASE
    return _range(
        "2.5x",
        "8x",
        case_ratios(CurveForm.PUBLISHED, pairs),
        case_ratios(CurveForm.TIGHTENED, pairs),
    )


def _incremental_saves() -> ClaimFinding:
    pairs = INCREMENTAL_OVER_REGULAR
    found = _range(
        "1.6x",
        "3x",
        case_ratios(CurveForm.PUBLISHED, pairs),
        case_ratios(CurveForm.TIGHTENED, pairs),
    )
    at = {delta: ratio(REGULAR, INCREMENTAL, Case(8, delta)) for delta in (0.1, 0.01)}
    uniform = ", ".join(f"{value:.2f}x at delta = {delta}" for delta, value in at.items())
    return ClaimFinding(found.verdict, f"{found.found}; the uniform meters alone: {uniform}")


def _best_is_near_the_ideal() -> ClaimFinding:
    ratios = [ratio(INCREMENTAL_NONUNIFORM, IDEAL, Case(8, delta)) for delta in DELTAS]
    ends = [labels(INCREMENTAL_NONUNIFORM, Case(8, delta)) for delta in (0.1, 0.01)]
    near = graded(all(close(r, 1) for r in ratios), close(ratios[0], 1))
    verdict = worst([near, of_number("25K", ends[0]), of_number("37K", ends[1])])
    return ClaimFinding(
        verdict,
        f"{ends[0]:,} labels at reliability 0.9, {ends[1]:,} at 0.99; at most {max(ratios):.4f} "
        "times No Adaptivity",
    )


CASE_STUDY = (
    Claim(
        "6.3",
        "Resampling requires around 200K to 300K labels for 8 steps.",
        _resampling_is_expensive,
    ),
    Claim("6.3", "All meters improve over Resampling, by 2.5x to 8x.", _meters_save),
    Claim(
        "6.3",
        "The incremental meters outperform the regular meters, by 1.6x to 3x.",
        _incremental_saves,
    ),
    Claim(
        "6.3",
        "The nonuniform incremental meter is close to No Adaptivity: only 25K labels at "
        "reliability 0.9, just 37K at 0.99.",
        _best_is_near_the_ideal,
    ),
)


def _levels_of_the_tree() -> ClaimFinding:
    regular, _ = paper_trees()
    counts = [len(regular.at_level(level)) for level in range(3)]
    deepest = max(node.level for node in regular.nodes)
    found = f"{deepest + 1} levels with {', '.join(map(str, counts))} nodes"
    return ClaimFinding(graded(counts == [1, 2, 4] and deepest == 2, deepest == 2), found)


def _sizes_of_the_trees() -> ClaimFinding:
    """Count nodes one by one, and compare with the closed forms of Theorems 1 and 2."""
    checked, good = 0, 0
    for m in range(2, 5):
        for steps in range(1, 6):
            regular = tree(m, steps, Protocol.REGULAR).published
            incremental = tree(m, steps, Protocol.INCREMENTAL).published
            checked += 2
            good += regular == m * (m**steps - 1) // (m - 1)
            good += incremental == math.comb(m + steps, m) - 1
    regular, incremental = (each.published for each in paper_trees())
    found = (
        f"{good} of {checked} trees with m = 2 to 4, T = 1 to 5, counted node by node; for m = 2, "
        f"T = 2 they have {regular} and {incremental} nodes"
    )
    return ClaimFinding(graded(good == checked, good > checked / 2), found)


def _pruned_nodes() -> ClaimFinding:
    regular, incremental = paper_trees()
    pruned = sum(node.pruned for node in incremental.nodes)
    found = (
        f"{pruned} of {regular.published} nodes: {incremental.published} are left; as distinct "
        f"models, the regular meter has {regular.distinct} and the incremental one "
        f"{incremental.distinct}"
    )
    return ClaimFinding(graded(pruned > 0, False), found)


TREES = (
    Claim(
        "4.2",
        "The tree for m = 2, T = 2 has T + 1 = 3 levels, two nodes at level 1, four at level 2.",
        _levels_of_the_tree,
    ),
    Claim(
        "4.3 and 4.4",
        "The tree has m (m^T - 1)/(m - 1) nodes for the regular meter (the root aside), "
        "C(m+T, m) - 1 for the incremental one.",
        _sizes_of_the_trees,
    ),
    Claim("4.4", "The incremental meter prunes the shadowed nodes.", _pruned_nodes),
)


def _labels_of_the_traces() -> ClaimFinding:
    at = Case(8, 0.1)
    incremental, regular = labels(INCREMENTAL, at), labels(REGULAR, at)
    tight = [labels(meter, at, CurveForm.TIGHTENED) for meter in (INCREMENTAL, REGULAR)]
    return ClaimFinding(
        worst([of_number("50K", incremental), of_number("80K", regular)]),
        f"{incremental:,} and {regular:,} (tightened: {tight[0]:,} and {tight[1]:,})",
    )


def _one_direction() -> ClaimFinding:
    from easeml_meter.lab.histories import histories

    told = [[r.answer for r in readings(trace, Protocol.INCREMENTAL)] for trace in histories()]
    good = [answers == sorted(answers) for answers in told]
    listed = " and ".join(" ".join(map(str, answers)) for answers in told)
    return ClaimFinding(graded(all(good), any(good)), f"answers {listed}")


def _clue_is_lost() -> ClaimFinding:
    from easeml_meter.lab.histories import histories

    hidden = [
        sum(
            worst_so_far.answer > own.answer
            for worst_so_far, own in zip(
                readings(trace, Protocol.INCREMENTAL),
                readings(trace, Protocol.REGULAR),
                strict=True,
            )
        )
        for trace in histories()
    ]
    counts = " and ".join(str(count) for count in hidden)
    found = f"in {counts} of 8 steps the answer stands above the model's own signal"
    return ClaimFinding(graded(all(hidden), any(hidden)), found)


def _test_is_near_truth() -> ClaimFinding:
    from easeml_meter.lab.histories import made

    trace = made()
    errors = [
        abs(step.test_loss - step.true_loss) for step in trace.steps if step.true_loss is not None
    ]
    tolerance = trace.spec.tolerances[0]
    found = (
        f"where the truth is known, test and true loss are at most {max(errors):.4f} apart in "
        f"{len(errors)} steps (tolerance {tolerance:g}, {trace.labels:,} labels); one history "
        "proves no probability: meter lab coverage runs thousands"
    )
    return ClaimFinding(graded(max(errors) <= tolerance, max(errors) <= 2 * tolerance), found)


TRACES = (
    Claim(
        "3.3",
        "At delta = 0.1, epsilon = 0.01, T = 8 the incremental meter requires only 50K labels, the "
        "regular meter 80K.",
        _labels_of_the_traces,
    ),
    Claim(
        "3.3",
        "At each step the distributional overfitting is smaller than epsilon with probability "
        "1 - delta.",
        _test_is_near_truth,
    ),
    Claim("4.4", "The incremental meter only moves in one direction.", _one_direction),
    Claim(
        "3.3",
        "Developers may lose clue on an individual submission if the incremental meter does not "
        "march.",
        _clue_is_lost,
    ),
)
