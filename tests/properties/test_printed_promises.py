"""Whatever is printed of true gaps and true losses is true, in every small world that can be.

A world is a history of models with known validation, test and true losses. The test loss is within
the promised tolerance of the true loss, as it is unless the promise fails. Then every sentence of
every answer, report, status and page must hold for the model that it speaks of: after
"above the ceiling", "no reading", and answers to another team. A sentence about true gaps
or losses that this test does not know fails it.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.server.driving import begin, submit
from tests.server.helpers import serve
from tests.server.web.helpers import Visitor, words
from tests.service.helpers import Clock, small_spec

from easeml_meter.core.history import MeterState, delivered, session_view
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Entry, MeterRecord, TestSet
from easeml_meter.core.questions.planning import required_labels
from easeml_meter.core.signals import (
    ABOVE_CEILING,
    NO_READING,
    answer_named,
    name_of,
)
from easeml_meter.core.views import SessionView
from easeml_meter.lab.meters import gap_of
from easeml_meter.promise import ledger
from easeml_meter.promise.levels import ends_of
from easeml_meter.promise.numbers.rounding import as_written
from easeml_meter.promise.questions import Shown, measured_of
from easeml_meter.report.gauge import plain
from easeml_meter.report.page import html_page
from easeml_meter.report.terminal import session_terminal
from easeml_meter.spec import MeterSpec

GRID = [Fraction(k, 10) for k in (0, 3, 10)]
METERS: dict[str, dict[str, Any]] = {
    "regular": {},
    "incremental": {"protocol": "incremental"},
    "ceiling": {"ceiling": 0.4},
    "ceiling incremental": {"protocol": "incremental", "ceiling": 0.4},
    "no reading": {"protocol": "incremental", "models": True},
    "by band": {"protocol": "incremental", "tolerance": [0.1, 0.2, 0.3]},
    "teams": {"protocol": "incremental", "tenants": (3, 3)},
    "drawn": {"drawn": 0.3},
    "strata": {"stratum": "part", "strata": ("a", "b"), "weights": (0.5, 0.5)},
    "curve": {"loss": "roc[1]"},
    "curve incremental": {"loss": "roc[1]", "protocol": "incremental"},
}
GAPS = [
    (name, gap)
    for name, each in METERS.items()
    for gap in ("absolute", "signed")
    if gap == "absolute" or "roc" not in each.get("loss", "")  # a distance has no sign
]
every_meter = pytest.mark.parametrize(("name", "gap"), GAPS)
EVERY = [Fraction(k, 40) for k in range(41)]
FIRST_EDGES = [Fraction(0), Fraction(1, 10), Fraction(3, 11 * 10**6), Fraction(299_999, 10**6)]


def spec_of(name: str, gap: str) -> MeterSpec:
    settings: dict[str, Any] = {
        "signals": 3,
        "tolerance": 0.1,
        "steps": 6,
        "delta": 0.1,
        "edges": [0.15, 0.45],
    }
    return MeterSpec.uniform(**(settings | METERS[name]), gap=gap)


@dataclass(frozen=True)
class Tried:
    """A model, and what was told of it."""

    validation: Fraction
    test: Fraction | None
    """None: it failed on the hidden rows."""
    answer: int
    first_edge: Fraction | None = None
    """Where its bands begin, if they are drawn."""

    def true_losses(self, spec: MeterSpec) -> list[Fraction]:
        """List what its true loss may be: anything, where nothing is promised."""
        asked = gap_of(spec.meter)
        tolerance = asked.tolerance_of(name_of(self.answer))
        if self.answer == ABOVE_CEILING:
            return [true for true in EVERY if true >= (asked.least_above or 0)]
        if tolerance is None or self.test is None:
            return EVERY
        ends = ends_of(spec.meter, required_labels(spec).labels)
        least, most = ends(self.test, self.test, tolerance)
        return [true for true in EVERY if least <= true <= most]


@dataclass(frozen=True)
class World:
    """One team's session, and its models."""

    view: SessionView
    models: tuple[Tried, ...]


def play(
    spec: MeterSpec,
    losses: Sequence[tuple[Any, Any]],
    edges: int = 0,
) -> World:
    """Answer models with these losses by the rules.

    `edges` says which ones are drawn, where they are.
    """
    size = required_labels(spec).labels
    test_set = TestSet("m", 1, Phase.ACTIVE, 1, "", rows=size)
    state = MeterState.of(MeterRecord("m", "meter", spec.to_mapping(), ""), [test_set], None)
    on = delivered(spec, test_set)
    tenant = len(spec.tenants) or 1  # the last team: others were answered before it
    folded, entries, models = on.start(tenant), [], []
    for step, (validation, test) in enumerate(losses, 1):
        # Every model has other edges, whatever its losses are.
        drawn = FIRST_EDGES[(len(losses) * step + edges) % 4] if spec.drawn else None
        loss = None if test is None else as_written(test)
        shown = Shown(size, as_written(validation), None, drawn)
        decided = ledger.decide(on.meter, folded.at, measured_of(shown, loss))
        answer = answer_named(decided.answer)
        models.append(Tried(validation, test, answer, drawn))
        entries.append(
            Entry(
                meter="m",
                generation=1,
                tenant=tenant,
                step=step,
                answer=decided.answer,
                model=f"m{step}",
                submission=str(step),
                validation_number=1,
                validation_set="",
                validation_loss=str(validation),
                blob="",
                told_at="2026-03-02T09:00:00+00:00",
                first_edge="" if drawn is None or answer < 1 else str(drawn),
            )
        )
        folded = folded.after(on.meter, entries[-1])
    return World(session_view(state, test_set, entries, folded.at), tuple(models))


NUMBER = r"(\d+(?:\.\d+)?(?:e-?\d+)?)"
SENTENCES = {
    "gap at most": rf"this model's true gap is at most {NUMBER}\.",
    "gap between": rf"this model's true gap lies between {NUMBER} and {NUMBER}\.",
    "at most": rf"[Tt]rue error at most {NUMBER} %",
    "at least": rf"(?:and|[Tt]rue error) at least {NUMBER} %",
    # Losses that are not 0 or 1 are no errors, and are said as they are.
    "mean at most": rf"[Tt]rue loss at most {NUMBER}(?: |,|\.)",
    "mean at least": rf"(?:\d and|[Tt]rue loss) at least {NUMBER}[ ,]",
    "no bound": r"This answer gives no upper bound on the true (?:error|loss|distance)\.",
    "loss at least": rf"this model's true loss is at least {NUMBER}\.",
    "plan at least": rf"then its true loss is at least {NUMBER}\)",
    # Pages say the same in percent.
    "gap at most %": rf"this model's true gap is at most {NUMBER} %\.",
    "gap between %": rf"this model's true gap lies between {NUMBER} and {NUMBER} %\.",
    "loss at least %": rf"this model's true error is at least {NUMBER} %\.",
    "plan at least %": rf"then its true error is at least {NUMBER} %\)",
    "plan %": r"test error(?: \([^)]*\))? is within [^.]*?(?:\.\d[^.]*?)* of its true error",
    "signed %": r"\(by how much its true error exceeds its validation error, or 0\)",
    "plan": r"test loss(?: \([^)]*\))? is within [^.]*?(?:\.\d[^.]*?)* of its true loss",
    "plan at most": r"So its true gap[^.]*? is at most the upper edge of the reported band plus",
    "plan between": r"So its true gap[^.]*? lies between the lower edge of the reported band minus",
    "signed": r"\(by how much its true loss exceeds its validation loss, or 0\)",
    "above": r"The test loss is above the validation loss",
    "below": r"the test loss can only be below it",
    # Of ROC curves, the gap is a distance.
    "rates at most": rf"true rates of true and false positives are within {NUMBER} of those",
    "rates at least": rf"; the largest difference is at least {NUMBER}\.",
    "distance at most": rf"true distance at most {NUMBER}(?: |,|\.)",
    "distance at least": rf"true distance (?:at most [\d.e-]+ and )?at least {NUMBER},",
    "plan rates": r"positives on the test set are within [\d.]+ of its true ones",
    "plan rates at most": r"its true ROC curve [^.]*? is at most the upper edge of the reported",
    "plan rates between": r"its true ROC curve [^.]*? lies between the lower edge of the reported",
    # What explains the drawing or the table, and claims nothing of a model.
    "caption": r"with them it covers the gap to the true loss, as promised",
    "heading": r"[Tt]rue (?:error|loss|distance) promised",
    "legend": r"the true (?:error|loss) is below the cap, [\d.]+ % sure",
    "nothing": r"[Tt]rue (?:error|loss) (?:Nothing promised|No answers yet|no upper bound)",
}
CLAIMS = re.compile(
    r"true (?:gap|loss|error|distance|r)|largest diff|no model (?:so far|has)|never below",
    re.IGNORECASE,
)


def judge(text: str, world: World) -> set[str]:
    """Check every claim of a text; return the kinds of sentences it has."""
    text = " ".join(text.split())
    found, rest = set(), text
    for kind, pattern in SENTENCES.items():
        for match in re.finditer(pattern, text):
            unit = 100 if kind.endswith("%") else 1
            numbers = tuple(Fraction(each) / unit for each in match.groups())
            meant = kind.removesuffix(" %")
            found.add(meant)
            for model in _meant(meant, text[: match.start()], world):
                assert _holds(meant, numbers, model, world.view.spec), (match[0], model, world)
        rest = re.sub(pattern, " ", rest)
    unknown = CLAIMS.search(rest)
    assert unknown is None, f"not checked here: {rest[unknown.start() - 80 : unknown.end() + 80]}"
    return found


def _meant(kind: str, before: str, world: World) -> Iterator[Tried]:
    """Give the models that a sentence speaks of: all of them, or the one named before it."""
    if kind == "plan at least":
        yield from (model for model in world.models if model.answer == ABOVE_CEILING)
        return
    if kind.startswith("plan"):
        yield from (model for model in world.models if model.answer > 0)
        return
    named = re.findall(r"\bm(\d)\b", before)
    about_last = kind in ("above", "below")  # advice is on the last band told
    told = [model for model in world.models if model.answer > 0]
    yield told[-1] if about_last else world.models[int(named[-1]) - 1 if named else -1]


def _gap_of(spec: MeterSpec, model: Tried, true: Fraction) -> Fraction:
    above = true - model.validation
    return max(Fraction(0), above) if spec.meter.question.one_sided else abs(above)


Ranges = dict[str, Callable[[], tuple[Fraction | int, Fraction | int]]]
"""What kinds of sentences say of a true gap, or of a true loss."""


@cache  # most sentences are said of the same model again, in the next world
def _holds(kind: str, numbers: tuple[Fraction, ...], model: Tried, spec: MeterSpec) -> bool:
    if kind in ("above", "below"):
        assert model.test is not None
        return (model.test > model.validation) == (kind == "above")
    lower, upper, eps = Fraction(0), Fraction(1), Fraction(0)
    if model.answer > 0 and model.first_edge is not None:
        lower = max(Fraction(0), model.first_edge + (model.answer - 2) * Fraction(str(spec.drawn)))
        upper = min(Fraction(1), model.first_edge + (model.answer - 1) * Fraction(str(spec.drawn)))
        eps = Fraction(str(spec.tolerances[0]))
    elif model.answer > 0:
        band = spec.bands[model.answer - 1]
        told_with = Shown(1, as_written(model.validation))
        edges = gap_of(spec.meter).range_of(str(model.answer), told_with) or (0, 1)
        told = (band.lower, edges[1], band.tolerance)
        lower, upper, eps = (Fraction(str(x)) for x in told)
    ranges: Ranges = {
        "gap at most": lambda: (0, numbers[0]),
        "gap between": lambda: (numbers[0], numbers[1]),
        "plan at most": lambda: (0, upper + eps),
        "plan between": lambda: (lower - eps, upper + eps),
        "rates at most": lambda: (0, numbers[0]),
        "rates at least": lambda: (numbers[0], 1),
        "distance at most": lambda: (0, numbers[0]),
        "distance at least": lambda: (numbers[0], 1),
        "plan rates at most": lambda: (0, upper + eps),
        "plan rates between": lambda: (lower - eps, upper + eps),
    }
    losses: Ranges = {
        "at most": lambda: (0, numbers[0] / 100),
        "at least": lambda: (numbers[0] / 100, 1),
        "mean at most": lambda: (0, numbers[0]),
        "mean at least": lambda: (numbers[0], 1),
        "loss at least": lambda: (numbers[0], 1),
        "plan at least": lambda: (numbers[0], 1),
    }
    for true in model.true_losses(spec):
        if kind in ranges:
            least, most = ranges[kind]()
            if not least <= _gap_of(spec, model, true) <= most:
                return False
        if kind in losses:
            least, most = losses[kind]()
            if not least <= true <= most:
                return False
    return True


def printed(view: SessionView) -> str:
    console = Console(file=io.StringIO(), width=80, color_system=None, highlight=False)
    console.print(session_terminal(view))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def text_of(page: str) -> str:
    # A model's name is followed by what is said of it, in the page and in the titles of drawings.
    return unescape(re.sub(r"<style>.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL))


def worlds(name: str, gap: str, every: int = 1) -> Iterator[World]:
    """Play all histories of two models, or one of so many."""
    spec = spec_of(name, gap)
    tests: list[Fraction | None] = [*GRID, *([None] if spec.may_fail else [])]
    # A curve is compared with that on the validation set, which is no distance away from itself.
    visible = [Fraction(0)] if spec.curve else GRID
    histories = itertools.product(itertools.product(visible, tests), repeat=2)
    edges = range(4) if spec.drawn else range(1)
    every_one = itertools.product(histories, edges)
    for losses, drawn in itertools.islice(every_one, 0, None, every):
        yield play(spec, losses, drawn)


@every_meter
def test_every_answer_says_what_is_true_of_its_model(name: str, gap: str) -> None:
    kinds, answers = set(), set()
    for world in worlds(name, gap):
        shown = world.view.to_dict()["signals"]
        for signal, data, model in zip(world.view.signals, shown, world.models, strict=True):
            kinds |= judge(plain(signal), world)
            check_numbers(data, model, world.view.spec)
            answers.add(model.answer)
    odd = {"ceiling": ABOVE_CEILING, "no reading": NO_READING}
    assert {answer for key, answer in odd.items() if name.startswith(key)} <= answers
    spec = spec_of(name, gap)
    if spec.curve:
        assert {"rates at most", "distance at most"} <= kinds
        assert ("rates at least" in kinds) == (name == "curve")
        return
    assert "gap at most" in kinds or "gap between" in kinds
    assert ("mean at most" if spec.loss == "absolute" else "at most") in kinds


def check_numbers(shown: dict[str, Any], model: Tried, spec: MeterSpec) -> None:
    """Check the promises in the JSON of an answer."""
    least, most = shown["true_loss_at_least"], shown["true_loss_at_most"]
    for true in model.true_losses(spec):
        assert least is None or Fraction(repr(least)) <= true
        assert most is None or true <= Fraction(repr(most))
        if shown["true_gap"] is not None:
            low, high = (Fraction(repr(edge)) for edge in shown["true_gap"])
            assert low <= _gap_of(spec, model, true) <= high


@every_meter
def test_status_and_report_say_what_is_true_of_each_model(name: str, gap: str) -> None:
    kinds = set()
    for world in worlds(name, gap, every=7):
        for text in (printed(world.view), text_of(html_page(world.view))):
            kinds |= judge(text, world)
    of_rates = " rates" * spec_of(name, gap).curve
    assert f"plan{of_rates}" in kinds
    between = f"plan{of_rates} between" in kinds
    assert between == (not spec_of(name, gap).meter.question.climbs_only)


def test_the_judge_finds_the_sentences_that_were_false() -> None:
    """What a running maximum was said to promise before, and what advice was read from it."""
    bad, good = (Fraction(0), Fraction(1)), (Fraction(0), Fraction(0))
    after = play(spec_of("incremental", "absolute"), [bad, good])
    with pytest.raises(AssertionError, match="lies between"):
        judge("m2: this model's true gap lies between 0.35 and 1.", after)
    with pytest.raises(AssertionError, match="not checked here"):
        judge("m2: no model so far has a true gap above 0.25.", after)
    with pytest.raises(AssertionError, match="at most"):
        judge("m1: this model's true gap is at most 0.25.", after)
    with pytest.raises(AssertionError, match="not checked here"):
        judge("The gap was never below band 3.", after)
    assert judge(plain(after.view.signals[1]), after) >= {"gap at most"}


def test_pages_and_api_after_another_teams_answer_and_a_ceiling(tmp_path: Path) -> None:
    spec = small_spec(protocol="incremental", tenants=(2, 2), ceiling=0.45)
    answers = {"developer": (3, ABOVE_CEILING), "developer2": (1,)}
    with serve(tmp_path / "site", clock=Clock(), requests_per_second=0) as served:
        meter = served.add_meter(spec)
        labels = begin(served, meter, tmp_path)
        wrong = {"developer": (2 * len(labels) // 5, len(labels)), "developer2": (0,)}
        for name, steps in wrong.items():
            for step, errors in enumerate(steps, 1):
                submit(served.client(name), meter, labels, errors=errors, model=f"m{step}")
        for name, steps in wrong.items():
            told = [Tried(Fraction(0), Fraction(n, len(labels)), 0) for n in steps]
            models = [replace(each, answer=a) for each, a in zip(told, answers[name], strict=True)]
            world = World(play(spec, []).view, tuple(models))
            view = served.client(name).get(f"/meters/{meter}/status").json()
            assert [each["answer"] for each in view["signals"]] == list(map(name_of, answers[name]))
            for shown, model in zip(view["signals"], models, strict=True):
                check_numbers(shown, model, spec)
            page = words(Visitor(served, name).get(f"/meters/{meter}"))
            kinds = judge(page, world) | judge(view["promise"], world)
            assert kinds >= {"plan at most", "heading"}
            assert ("gap at most" in kinds) == (name == "developer2")
