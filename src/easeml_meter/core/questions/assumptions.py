"""What promises rest on, in plain words: of every question, and of the gap of each meter."""

from __future__ import annotations

from collections.abc import Iterable

from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.spec import METERS, Count, MeterSpec, Protocol

COMMON_ASSUMPTIONS = (
    "the test set is an independent random sample from the distribution that matters, and "
    "developers learn nothing about it except the meter's answers",
    "the developer's own randomness is independent of the test set",
    "each prediction depends on its own row only",
)
"""What every promise of every question rests on."""
CLUSTERED = (
    "the clusters of the test set are independent random samples from the distribution that "
    "matters (the rows of one may depend on each other), none of them has rows in a validation set "
    "or an earlier test set, and developers learn nothing about them except the meter's answers"
)
"""What stands in the place of the first of them where one example is a cluster."""
STRATIFIED = (
    "the rows of each stratum of the test set are independent random samples from the stratum, as "
    "many as were planned, the weights are what the strata are to count, and developers learn "
    "nothing about the rows except the meter's answers"
)
"""The same where a test set is drawn stratum by stratum."""
BLIND_VALIDATION = "validation sets are drawn and replaced without looking at the test set"
"""What the count of consistent histories assumes, and the count of all histories does not."""
RIGHT_OR_WRONG = "each prediction is right or wrong"
APART = "if exactly one of it and the old one is right on more than"
"""What a disagreement counts: no row on which both are wrong, each in its way."""
FIXED_SIZE = "the size of the test set was fixed before it was drawn, and it is sealed as drawn"
"""What a check at sealing rests on: the size of the sample was no choice."""
JUDGED = (
    RIGHT_OR_WRONG,
    "the judge was fixed before the labels were drawn",
    "the rows with labels and those without are random samples of the same distribution",
    FIXED_SIZE,
)
"""What every estimate with a judge rests on."""
DRAWN_EDGES = "the band edges are drawn by the meter, secretly and independently of the test set"
TOPPED_UP = (
    "the labels that top up a test set are a random sample of the same distribution, independent "
    "of it; whether, when and how many of them join depends on nothing but the answers"
)
_PEOPLE = " (about people)"
PUBLIC_INPUTS = "no model treats the test inputs, which are public, specially (about people)"
CARRIED_INPUTS = PUBLIC_INPUTS.replace("are public", "commands may carry out")


def inputs_assumption(spec: MeterSpec) -> tuple[str, ...]:
    """Say what developers must not do with inputs that they know, or could."""
    if spec.inputs == "public":
        return (PUBLIC_INPUTS,)
    return (CARRIED_INPUTS,) if spec.commands_may_carry_inputs_out else ()


def about_people(assumptions: Iterable[str]) -> list[str]:
    """Return what a promise rests on that only people can keep: status and report name it."""
    found = (each for each in assumptions if each == BLIND_VALIDATION or _PEOPLE in each)
    return [each.replace(_PEOPLE, "") for each in found]


def gap_assumptions(spec: MeterSpec) -> tuple[str, ...]:
    """List, in plain words, everything the promise of a gap rests on."""
    found = list(COMMON_ASSUMPTIONS)
    if spec.clusters:
        found[0] = CLUSTERED
    if spec.stratified:
        found[0] = STRATIFIED
    if spec.models:
        found[-1] += ", which is checked where the meter runs the model"
    if spec.sized:
        found += _sealing_assumptions(spec)
    elif spec.tail is Bound.EXACT:
        found.append("the loss of each example is 0 or 1")
    elif spec.clusters:
        found.append("the loss of a cluster, the mean loss of its rows, lies between 0 and 1")
    else:
        found.append("the loss of each example lies between 0 and 1")
    if spec.count is Count.CONSISTENT and spec.protocol in METERS and not spec.published:
        found.append(BLIND_VALIDATION)
    if spec.drawn is not None:
        found.append(DRAWN_EDGES)
    if spec.stages > 1:
        found.append(TOPPED_UP)
    found += inputs_assumption(spec)
    if spec.protocol is Protocol.INDEPENDENT:
        found.append("no model depends on any answer of the meter (about people: nobody may look)")
    if spec.protocol is Protocol.RESAMPLING:
        found.append("every step is measured on a fresh test set that no earlier answer came from")
    if spec.teams_apart:
        found.append(
            "no team's models depend on another team's answers, nor does anyone replace the "
            "validation set, which all teams share, because of an answer (about people)"
        )
    if spec.reverts:
        found.append(
            "the steps to revert are fixed in advance, and nothing learnt from a reverted step is "
            "used afterwards (about people)"
        )
    if spec.memory is not None:
        found.append(f"each model depends on at most the last {spec.memory} answers (about people)")
    found.append(delta_words(spec))
    if spec.protocol is Protocol.INCREMENTAL and len(set(spec.tolerances)) > 1:
        found.append("once the meter has climbed to a band, later models get only its tolerance")
    return tuple(found)


def _sealing_assumptions(spec: MeterSpec) -> list[str]:
    """Say what a check at sealing rests on, and how often it may be tried."""
    if not spec.fixes_rows:
        return []
    tries = "once" if spec.tries == 1 else f"at most {spec.tries:,} times, of which delta has room"
    if spec.corpus is not None:
        refused = f"one with too few {spec.corpus.kind.unit}"
        return [FIXED_SIZE, f"a test set is drawn {tries}: {refused} is refused"]
    most = at_most(spec.judge_error or 0.0)
    return [
        *JUDGED,
        f"a test set is drawn {tries}: one on whose labels the judge errs more often than {most} "
        "is refused",
    ]


def delta_words(spec: MeterSpec) -> str:
    """Say what delta is for."""
    topped = " and its top-up together" if spec.stages > 1 else ""
    many = "S test sets in a row fail with probability at most S * delta"
    return f"delta applies to one test set{topped}: {many}"
