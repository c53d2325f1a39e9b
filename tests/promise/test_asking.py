"""What readers ask of the parts of a meter, whatever modes it has."""

from __future__ import annotations

import pytest

from easeml_meter.promise.meter import Meter
from easeml_meter.promise.renewals import Fresh, TopUp, Window

GAP = 'question = {ask = "gap", tolerance = 0.1}\n'
CHANGE = 'question = {ask = "n - o > 0 +/- 0.02", disagreement = 0.105}\n'


@pytest.mark.parametrize(
    ("renewal", "wanted"),
    [
        (Fresh(), [((1,), 0, 0, 1, 0, 4), ((2,), 0, 0, 2, 0, 4), ((3,), 0, 0, 3, 0, 4)]),
        (
            Window(window=2, answers=3),
            [((1, 2), 0, 0, 2, 0, 3), ((2, 3), 1, 1, 3, 0, 3), ((3, 4), 1, 1, 4, 0, 3)],
        ),
        (TopUp(then=7), [((1,), 0, 0, 2, 0, 4), ((1, 2), 1, 0, 2, 1, 7), ((3,), 0, 0, 4, 0, 4)]),
    ],
)
def test_a_renewal_says_which_rows_are_in_use(renewal: Fresh, wanted: list[object]) -> None:
    budget = Meter.loads(f"{GAP}budget = {{steps = 4}}").budget
    found = [
        (
            tuple(renewal.batches(number)),
            renewal.joins(number),
            renewal.leaves(number),
            renewal.last_sharing(number),
            renewal.stage(number),
            renewal.gives(budget, number),
        )
        for number in (1, 2, 3)
    ]
    assert found == wanted


@pytest.mark.parametrize(("steps", "first"), [(2, 4), (4, 3), (9, 1)])
def test_windows_share_a_delta_beyond_their_rows(steps: int, first: int) -> None:
    budget = Meter.loads(f"{GAP}budget = {{steps = {steps}}}").budget
    assert Window(window=3).first_sharing(budget, 6) == first


@pytest.mark.parametrize(
    ("sample", "seals", "fixes", "counts", "handed_in"),
    [
        ("", True, False, True, "labels"),
        ('loss = "score"', False, False, True, "labels"),
        ('loss = "recall[a]"', True, True, False, "labels"),
        ('loss = "precision[a]"', True, False, False, "labels"),
        ('cluster = "user"', True, False, True, "clusters"),
        ("judge_error = 0.1\npool = 900", True, True, False, "labels"),
        ('stratum = "s"\nstrata = ["a", "b"]\nweights = [0.5, 0.5]', True, False, True, "labels"),
    ],
)
def test_a_sample_says_what_is_sealed(
    sample: str, *, seals: bool, fixes: bool, counts: bool, handed_in: str
) -> None:
    rows = Meter.loads(f"{GAP}[sample]\n{sample}").sample
    found = (rows.seals_labels, rows.fixes_rows, rows.counts_rows, rows.handed_in)
    assert found == (seals, fixes, counts, handed_in)


def test_labels_on_demand_have_a_quota() -> None:
    meter = Meter.loads(f"{CHANGE}sample = {{on_demand = true}}")
    assert (meter.sample.handed_in, meter.sample.seals_labels) == ("inputs", False)
    assert [meter.quota(rows) for rows in (100, 200, 201)] == [11, 21, 22]
    with pytest.raises(ValueError, match="labels on demand"):
        Meter.loads(CHANGE).quota(100)


def test_a_judge_is_refused_above_its_error() -> None:
    judge = Meter.loads(f"{GAP}sample = {{judge_error = 0.1, pool = 900}}").sample
    assert judge.unlabelled == 900
    assert judge.allows(10, 100)
    assert not judge.allows(11, 100)


@pytest.mark.parametrize(
    ("question", "needs", "promotes", "verdict"),
    [
        ('ask = "gap"', {"validation", "labels"}, False, False),
        ('ask = "alarm"', {"validation", "labels"}, False, True),
        ('ask = "keep"', {"old", "labels"}, False, True),
        ('ask = "keep"\nthan = "deployed"', {"old", "labels"}, True, True),
        ('ask = "n > 0.8 +/- 0.01"', {"labels"}, False, True),
        ('ask = "d < 0.2 +/- 0.01"', {"old"}, True, True),
        ('ask = "n - o at 0 +/- 0.01"\ndisagreement = 0.1', {"old", "labels"}, True, False),
    ],
)
def test_a_question_says_what_it_needs(
    question: str, needs: set[str], *, promotes: bool, verdict: bool
) -> None:
    found = Meter.loads(f"[question]\n{question}").question
    assert (found.needs, found.promotes, found.verdict) == (frozenset(needs), promotes, verdict)


@pytest.mark.parametrize(
    ("text", "only_planned"),
    [
        ("", False),
        ("renewal = {every_step = true}", True),
        ("budget = {steps = 4, memory = 0}", True),
        ("budget = {steps = 4, memory = 1}", False),
    ],
)
def test_a_baseline_and_a_limit_answer_nobody(text: str, *, only_planned: bool) -> None:
    assert Meter.loads(GAP + text).only_planned == only_planned


def test_the_tables_of_a_meter_are_those_of_its_file() -> None:
    meter = Meter.loads(f"{GAP}budget = {{steps = 4}}\nrenewal = {{then = 2}}")
    assert Meter.from_tables(meter.tables()) == meter
    assert meter.tables()["renewal"] == {"then": 2}
