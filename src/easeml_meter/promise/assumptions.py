"""What promises rest on, in plain words: of every question, and of each part of a meter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from easeml_meter.promise.alarm import Alarm
from easeml_meter.promise.budgets import Memory, Reverts
from easeml_meter.promise.condition import Change, Condition
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.promise.renewals import EveryStep
from easeml_meter.promise.samples import Judge, Rows, Strata

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
ROLLING = (
    "each batch is a random sample of its time, and developers learn nothing about a batch in use "
    "except the meter's answers; what has left the window is known to them"
)
"""The same where batches follow each other: drift is allowed, feedback into samples is not."""
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
BOUGHT = (
    "labels are given without knowledge of the models",
    "each step buys the same number of labels, so that the bill tells nothing",
    "all rows on which the two models predict different things count towards the disagreement",
)
"""What keeps the labels that were bought from telling more than the answers."""
_PEOPLE = " (about people)"
PUBLIC_INPUTS = "no model treats the test inputs, which are public, specially (about people)"
CARRIED_INPUTS = PUBLIC_INPUTS.replace("are public", "commands may carry out")
_OLD = "the old model was fixed before the session, or is one that was submitted"


def assumptions_of(meter: Meter) -> tuple[str, ...]:
    """List, in plain words, everything the promise of a meter rests on."""
    question = meter.question
    if isinstance(question, Gap):
        found = _of_windows(meter) if meter.renewal.rolls else _of_gap(meter, question)
    else:
        found = [*COMMON_ASSUMPTIONS, RIGHT_OR_WRONG, *_of_claims(meter)]
        if meter.sample.orders_labels:
            found += ["the inputs were drawn before the first submission", *BOUGHT]
        found += [*inputs_assumption(meter.sample), delta_words(meter)]
    return tuple(dict.fromkeys(found))


def about_people(assumptions: Iterable[str]) -> list[str]:
    """Return what a promise rests on that only people can keep: status and report name it."""
    found = (each for each in assumptions if each == BLIND_VALIDATION or _PEOPLE in each)
    return [each.replace(_PEOPLE, "") for each in found]


def delta_words(meter: Meter) -> str:
    """Say what delta is for."""
    topped = " and its top-up together" if meter.renewal.joined else ""
    many = "S test sets in a row fail with probability at most S * delta"
    return f"delta applies to one test set{topped}: {many}"


def inputs_assumption(sample: Rows) -> tuple[str, ...]:
    """Say what developers must not do with inputs that they know, or could."""
    if sample.public:
        return (PUBLIC_INPUTS,)
    return (CARRIED_INPUTS,) if sample.commands_may_carry_inputs_out else ()


def _of_claims(meter: Meter) -> Iterator[str]:
    question = meter.question
    if isinstance(question, Alarm):
        yield BLIND_VALIDATION
    if meter.compares:
        yield _OLD
    if isinstance(question, Change):
        yield f'a model is "too far" {APART} {at_most(question.most_apart)} of the rows'
    if isinstance(question, Condition) and question.disagreement is not None:
        yield f"a model fails {APART} {at_most(question.disagreement)} of the rows"
    last = meter.budget.last_pass
    if last is not None:
        yield f"{'the first pass' if last == 1 else f'pass number {last}'} closes the test set"
    if meter.budget.last_alarm is not None:
        yield f"alarm number {meter.budget.last_alarm} closes the test set"


def _of_windows(meter: Meter) -> list[str]:
    return [
        ROLLING,
        *COMMON_ASSUMPTIONS[1:],
        RIGHT_OR_WRONG,
        BLIND_VALIDATION,
        *([] if meter.question.numbered else [DRAWN_EDGES]),
        "batches are independent of each other and do not react to answers: no deployed model "
        "changes what is sampled",
        *([PUBLIC_INPUTS] if meter.sample.public else []),
        "delta covers the first so many windows; as many further ones cost another delta",
    ]


def _of_gap(meter: Meter, question: Gap) -> list[str]:
    sample, budget = meter.sample, meter.budget
    nobody_looks = isinstance(budget, Memory) and budget.memory == 0
    fresh = isinstance(meter.renewal, EveryStep)
    found = list(COMMON_ASSUMPTIONS)
    if sample.grouped:
        found[0] = CLUSTERED
    if sample.parts is not None:
        found[0] = STRATIFIED
    if sample.models:
        found[-1] += ", which is checked where the meter runs the model"
    found += _of_losses(sample)
    if not (nobody_looks or fresh):
        found.append(BLIND_VALIDATION)
    if not question.numbered:
        found.append(DRAWN_EDGES)
    if meter.renewal.joined:
        found.append(TOPPED_UP)
    found += inputs_assumption(sample)
    if nobody_looks:
        found.append("no model depends on any answer of the meter (about people: nobody may look)")
    elif isinstance(budget, Memory):
        found.append(
            f"each model depends on at most the last {budget.memory} answers (about people)"
        )
    if fresh:
        found.append("every step is measured on a fresh test set that no earlier answer came from")
    if budget.apart > 1:
        found.append(
            "no team's models depend on another team's answers, nor does anyone replace the "
            "validation set, which all teams share, because of an answer (about people)"
        )
    if isinstance(budget, Reverts):
        found.append(
            "the steps to revert are fixed in advance, and nothing learnt from a reverted step is "
            "used afterwards (about people)"
        )
    found.append(delta_words(meter))
    if question.worst and len(set(question.tolerances)) > 1:
        found.append("once the meter has climbed to a band, later models get only its tolerance")
    return found


def _of_losses(sample: Rows) -> list[str]:
    """Say what is measured of each example, or what a check at sealing rests on."""
    if sample.fixes_rows:
        tries = f"at most {sample.tries:,} times, of which delta has room"
        drawn = f"a test set is drawn {'once' if sample.tries == 1 else tries}"
        if isinstance(sample, Judge):
            most = at_most(sample.judge_error)
            refused = f"one on whose labels the judge errs more often than {most} is refused"
            return [*JUDGED, f"{drawn}: {refused}"]
        unit = "" if sample.measured.score is None else sample.measured.score.kind.unit
        return [FIXED_SIZE, f"{drawn}: one with too few {unit} is refused"]
    if not sample.counts_rows:
        return []
    if sample.grouped:
        return ["the loss of a cluster, the mean loss of its rows, lies between 0 and 1"]
    if sample.zero_one and (not isinstance(sample, Strata) or sample.proportional):
        return ["the loss of each example is 0 or 1"]
    return ["the loss of each example lies between 0 and 1"]
