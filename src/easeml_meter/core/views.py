"""What people are shown: one answer, a session, and after release the whole truth.

All of it is a function of the published answers, except `Retrospective`, which exists only once a
test set has been released.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from itertools import zip_longest
from typing import Any, NamedTuple

from easeml_meter.checks import known
from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import AuditLink
from easeml_meter.core.questions.planning import following
from easeml_meter.core.sentences import sentence
from easeml_meter.core.signals import (
    ALARM,
    FAIL,
    OK,
    PASS,
    answer_named,
    name_of,
)
from easeml_meter.core.submissions import Note
from easeml_meter.promise import ledger, questions, words
from easeml_meter.promise.condition import Change
from easeml_meter.promise.gap import Gap
from easeml_meter.promise.meter import Meter
from easeml_meter.promise.numbers.rounding import as_written, at_least, at_most
from easeml_meter.showing import Shown
from easeml_meter.spec import MeterSpec

Range = tuple[float, float]


class Read(NamedTuple):
    """What an answer tells and promises, in numbers that are rounded outward; None: nothing."""

    gap: Range | None = None
    """Between validation and test loss, as told."""
    change: Range | None = None
    """Of n - o as told, where that is asked."""
    tolerance: float | None = None
    true_gap: Range | None = None
    true_change: Range | None = None
    true_loss_at_least: float | None = None
    true_loss_at_most: float | None = None


def read_of(meter: Meter, answer: str, shown: questions.Shown, stage: int = 0) -> Read:
    """Return what an answer of a meter tells and promises."""
    question = meter.asked
    found = {each.of: each for each in ledger.promises(meter, answer, shown, stage)}
    told, tolerance = question.range_of(answer, shown), question.tolerance_of(answer)
    edges = None if told is None else (_low(told[0]), _high(told[1]))
    loss = found.get("true loss") if shown.validation is not None else None
    compared = isinstance(question, Change)
    return Read(
        gap=None if compared else edges,
        change=edges if compared else None,
        tolerance=None if tolerance is None else float(tolerance),
        true_gap=_range(found.get("true gap")),
        true_change=_range(found.get("true n - o")) if compared else None,
        true_loss_at_least=_low(loss.at_least) if loss is not None else None,
        true_loss_at_most=_high(loss.at_most) if loss is not None else None,
    )


def _range(promise: questions.Promise | None) -> Range | None:
    if promise is None or promise.at_least is None or promise.at_most is None:
        return None
    return float(at_least(promise.at_least, 15)), float(at_most(promise.at_most, 15))


def _low(value: Fraction | None) -> Any:
    return None if value is None else float(at_least(value, 15))


def _high(value: Fraction | None) -> Any:
    return None if value is None else float(at_most(value, 15))


@dataclass(frozen=True, repr=False)
class Signal(Shown):
    """What a submission is answered with, and what that promises."""

    spec: MeterSpec
    answer: int
    step: int
    generation: int
    model: str
    tenant: int
    told_at: datetime
    battery: float
    """Share of the capacity left after this answer, from 1 down to 0."""
    steps_left: int
    """Steps still promised whatever the answers will be."""
    repeated: bool = False
    """An identical submission was answered before: same answer, nothing charged."""
    by_name: bool = False
    """A model of this name was answered before, and that is enough: files were not looked at."""
    first_edge: float | None = None
    """Where the bands of this answer begin, if they were drawn; of an alarm, its g."""
    rows: int | None = None
    """The examples of its test set, which its tolerance follows."""
    old: int | None = None
    """The step of the model that it was compared with; None: with none."""
    validation_loss: float | None = None
    """The loss on the validation set; None where it was not measured."""
    exact: questions.Shown | None = field(default=None, compare=False)
    """What its promise follows from, without rounding: where its entry is at hand."""
    read: Read | None = field(default=None, compare=False)
    """What it tells and promises, as a server said it; None: to be found."""

    @property
    def name(self) -> str:
        """The answer by name: a band's number, or such as pass, fail, above-ceiling, reverted."""
        return name_of(self.answer)

    @property
    def band(self) -> int | None:
        """The number of the band told, 1..m; None for an answer without one."""
        return self.answer if self.answer > 0 else None

    @property
    def highest_band(self) -> int | None:
        """The highest band that the answer leaves open: near the ceiling, one reaches over several.

        The band told is the lowest of them.
        """
        if self.band is None or self.told_edges is None:
            return self.band
        upper = self.told_edges[1]
        return sum(low < as_written(upper) for low in self.spec.meter.question.ends[:-1])

    @property
    def g(self) -> float | None:
        """What an alarm accepted at this answer; None where another question was asked."""
        return self.first_edge if self.spec.meter.question.vouches else None

    @property
    def passed(self) -> bool | None:
        """Whether the model passed the condition asked; None where the gap was asked for."""
        return {PASS: True, OK: True, FAIL: False, ALARM: False}.get(self.answer)

    @cached_property
    def _read(self) -> Read:
        stage = self.spec.meter.renewal.stage(self.generation)
        return self.read or read_of(self.spec.meter, self.name, self._shown, stage)

    @property
    def _shown(self) -> questions.Shown:
        if self.exact is not None:
            return self.exact
        loss, edge = self.validation_loss, self.first_edge
        return questions.Shown(
            self.rows or 0,
            None if loss is None else as_written(loss),
            None,
            None if edge is None else as_written(edge),
        )

    def edges_of(self, answer: int) -> Range | None:
        """Return the edges that another answer to this submission would have told."""
        told = self.spec.meter.asked.range_of(name_of(answer), self._shown)
        return None if told is None else (_low(told[0]), _high(told[1]))

    @property
    def side(self) -> int:
        """Return 1 if the test loss must be above the validation loss, -1 if below, 0: unknown."""
        question = self.spec.meter.asked
        return question.side(self.name, self._shown) if isinstance(question, Gap) else 0

    @property
    def told_edges(self) -> Range | None:
        """The edges of the band told, where some may be left out near the ceiling."""
        return self.gap if self.spec.meter.asked.merges else None

    @property
    def tolerance(self) -> float | None:
        """How far the test loss may be from the true loss; None without a reading."""
        return self._read.tolerance

    @property
    def true_loss_at_least(self) -> float | None:
        """The least true loss that this answer promises; None for nothing."""
        return self._read.true_loss_at_least

    @property
    def true_loss_at_most(self) -> float | None:
        """The largest true loss that this answer promises; None for nothing."""
        return self._read.true_loss_at_most

    @property
    def confidence(self) -> float:
        """Probability that every promise of this session holds."""
        return float(self.spec.meter.confidence(self.generation))

    @property
    def gap(self) -> Range | None:
        """Edges of the gap between validation and test loss as told; None without a reading."""
        return self._read.gap

    @property
    def change(self) -> tuple[float, float] | None:
        """Edges of n - o as told; None where another question was asked, or without a reading."""
        return self._read.change

    @property
    def true_change(self) -> tuple[float, float] | None:
        """Edges of the true n - o as promised."""
        return self._read.true_change

    @property
    def told(self) -> tuple[float, float] | None:
        """Edges of what was read, the gap or n - o; None without a reading."""
        return self.change if self.gap is None else self.gap

    @property
    def promised(self) -> tuple[float, float] | None:
        """The same of the truth, as promised."""
        return self.true_change if self.true_gap is None else self.true_gap

    @property
    def true_gap(self) -> tuple[float, float] | None:
        """Edges of the gap between validation and true loss as promised; None without a reading."""
        return self._read.true_gap

    @property
    def together(self) -> str:
        """Say which answers share the probability of its promise, as part of a sentence."""
        return together(self.spec, self.generation)

    @property
    def promise(self) -> str:
        """Say in one sentence what is promised."""
        sure = self.spec.meter.confidence(self.generation)
        sure = f"With probability at least {sure}, {self.together}"
        return sentence(self, sure)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it: the same from the command line and from the server."""
        return {
            "question": self.spec.question,
            "answer": self.name,
            "passed": self.passed,
            "old": self.old,
            "band": self.band,
            "gap": self.gap,
            "g" if self.spec.meter.question.vouches else "first_edge": self.first_edge,
            "change": self.change,
            "true_change": self.true_change,
            "tolerance": self.tolerance,
            "true_gap": self.true_gap,
            "validation_loss": self.validation_loss,
            "true_loss_at_least": self.true_loss_at_least,
            "true_loss_at_most": self.true_loss_at_most,
            "confidence": self.confidence,
            "promise": self.promise,
            "model": self.model,
            "step": self.step,
            "generation": self.generation,
            "tenant": self.tenant,
            "told_at": self.told_at.isoformat(),
            "rows": self.rows,
            "repeated": self.repeated,
            "by_name": self.by_name,
            "battery": self.battery,
            "steps_left": self.steps_left,
        }


def band_words(signal: Signal) -> str:
    """Name the band told, or the bands that the answer reaches over."""
    several = signal.band != signal.highest_band
    return f"{'bands' if several else 'band'} {band_numbers(signal)}"


def band_numbers(signal: Signal) -> str:
    """Return the number of the band told, or the first and the last that the answer reaches."""
    if signal.band == signal.highest_band:
        return str(signal.band)
    return f"{signal.band}-{signal.highest_band}"


def together(spec: MeterSpec, number: int = 1) -> str:
    """Say which answers share the probability of a promise, as part of a sentence.

    A rolling test set goes on without end, so no probability covers all that it will ever answer:
    `number` is that of the window.
    """
    return words.together(spec.meter, number)


@dataclass(frozen=True)
class Consequence:
    """What a hand-over means, told before it is confirmed. Tenants count from 1."""

    generation: int
    giver: int
    receiver: int
    sharing: tuple[int, ...]
    """All tenants that would share one history: each of them has to agree."""
    steps_left_before: tuple[int, ...]
    """Promised to each of them as things are."""
    steps_left_after: int
    """Promised to all of them together after the hand-over."""
    labels_planned_shared: int
    """Labels that the same steps take when tenants share a history from the start."""
    spends: bool
    """Whether no tenant at all has an answer left afterwards: then the test set is spent."""
    agreed: tuple[int, ...] = ()
    """The tenants that have agreed so far."""
    recorded: bool = False
    """Whether it counts."""

    @property
    def waiting_for(self) -> tuple[int, ...]:
        """The tenants that have not agreed yet."""
        return tuple(tenant for tenant in self.sharing if tenant not in self.agreed)

    @property
    def sentence(self) -> str:
        """Say it to people."""
        before = " + ".join(map(str, self.steps_left_before))
        return (
            f"Teams {_and(self.sharing)} will share one history on test set {self.generation}: "
            f"{before} steps left now, {self.steps_left_after} together afterwards. "
            f"{f'Test set {self.generation} will be spent. ' if self.spends else ''}"
            f"A meter with handover = true needs {self.labels_planned_shared:,} labels."
        )

    @property
    def standing(self) -> str:
        """Say whether it counts, or what is missing."""
        if self.recorded:
            return f"Teams {_and(self.sharing)} share one history from now on."
        if not self.agreed:
            return "Nothing is recorded yet."
        command = f"meter handover {self.giver} {self.receiver}"
        return f"{self.missing}: `{command} --accept` or `--decline`."

    @property
    def missing(self) -> str:
        """Say who has to agree."""
        teams = self.waiting_for
        named = f"Team {teams[0]} has" if len(teams) == 1 else f"Teams {_and(teams)} have"
        return f"{named} to agree"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it, with what it says to people."""
        said = {"waiting_for": list(self.waiting_for), "sentence": self.sentence}
        return {**asdict(self), **said, "standing": self.standing}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Consequence:
        """Read what `to_json` gave."""
        found: dict[str, Any] = {each.name: data[each.name] for each in fields(cls)}
        lists = {name: tuple(value) for name, value in found.items() if isinstance(value, list)}
        return cls(**(found | lists))


def _and(tenants: Iterable[int]) -> str:
    return " and ".join(map(str, tenants))


@dataclass(frozen=True)
class Truth:
    """One step as it really was; known only after release."""

    validation_loss: float
    test_loss: float
    band: int | None
    """The band of the gap itself, whatever was told; None where a condition was asked."""
    passed: bool | None = None
    """Whether the test set shows that the condition holds; None where the gap was asked for."""
    change: float | None = None
    """The accuracy minus that of the model it was compared with, on the test set; where that was
    read, `band` is its band, and None if the two models were too far apart."""
    too_few: bool | None = None
    """Whether too few rows were predicted positive for a reading, where that can happen."""


@dataclass(frozen=True, repr=False)
class SessionView(Shown):
    """One test set's history as a developer may see it."""

    meter: str
    spec: MeterSpec
    generation: int
    phase: Phase
    rows: int | None
    labels_needed: int
    signals: tuple[Signal, ...]
    battery: float
    steps_left: int
    promise: str
    assumptions: tuple[str, ...]
    retrospective: tuple[Truth | None, ...] = ()
    """After release: one for each signal (None where a model could not be measured)."""
    brought: tuple[int, ...] = ()
    """After release, before each step: the worst band told to those who shared the history then."""
    sharing: tuple[int, ...] = ()
    """The tenants that share this history by hand-over; empty: the one tenant alone."""
    handovers: tuple[Consequence, ...] = ()
    """Hand-overs that wait for a tenant to agree, of those that concern this history."""
    notes: tuple[Note, ...] = ()
    """What the senders of these submissions noted on them."""
    validation_noise: str = ""
    """How far a share measured on the validation set may be off; empty: not known."""
    submitters: tuple[str, ...] = field(default=(), compare=False)
    """Ids of the users who submitted each step, where there are accounts; not in the JSON."""

    @property
    def active(self) -> bool:
        """Whether the test set answers submissions."""
        return self.phase is Phase.ACTIVE

    @property
    def ended(self) -> bool:
        """Whether the test set gives no further answer."""
        return self.phase not in (Phase.REQUESTED, Phase.ACTIVE)

    @property
    def released(self) -> bool:
        """Whether the test set was handed out in the clear."""
        return self.phase is Phase.RELEASED

    @property
    def labels(self) -> int | None:
        """How many rows have a label: all of them, but with a judge."""
        return self.rows if self.rows is None else self.rows - self.spec.meter.sample.unlabelled

    @property
    def noted(self) -> dict[tuple[int, int], Note]:
        """The notes by test set and step."""
        return {(note.generation, note.step): note for note in self.notes}

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "meter": self.meter,
            "generation": self.generation,
            "phase": str(self.phase),
            "rows": self.rows,
            "labels_needed": self.labels_needed,
            "battery": self.battery,
            "steps_left": self.steps_left,
            "promise": self.promise,
            "assumptions": list(self.assumptions),
            "signals": [signal.to_dict() for signal in self.signals],
            "retrospective": [truth and vars(truth) for truth in self.retrospective],
            "brought": list(self.brought),
            "sharing": list(self.sharing),
            "handovers": [each.to_json() for each in self.handovers],
            "notes": [each.to_json() for each in self.notes],
            "validation_noise": self.validation_noise,
        }


class History(Shown, tuple[SessionView, ...]):
    """The sessions of all test sets, the oldest first."""

    __slots__ = ()

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the sessions as JSON has them."""
        return [view.to_dict() for view in self]

    def to_pandas(self) -> Any:
        """Return a DataFrame with a row for every answer; after release with the losses.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd

        rows = [
            signal.to_dict() | (vars(truth) if truth else {})
            for view in self
            for signal, truth in zip_longest(view.signals, view.retrospective)
        ]
        return pd.DataFrame(rows)


@dataclass(frozen=True, repr=False)
class Audit(Shown):
    """The links that the reader may see, and what is wrong with the books."""

    links: tuple[AuditLink, ...]
    """Without details where an answer is none of the reader's; then all without digests."""
    problems: tuple[str, ...]
    restored: tuple[str, ...] = ()
    """When the books came from a backup, and what came back or is unknown since."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        links = [asdict(link) for link in self.links]
        return {"links": links, "problems": list(self.problems), "restored": list(self.restored)}

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def state(self) -> str:
        """What it comes to, in two words."""
        return "does not match" if self.problems else "sound" + ", restored" * bool(self.restored)


def _as_told(data: Mapping[str, Any], spec: MeterSpec) -> MeterSpec:
    """Return the meter as it is for a test set of so many rows."""
    found, rows = spec.of_test_set(data["generation"]), data["rows"]
    return found if rows is None else following(found, rows)


def _as_read(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def signal_from_json(data: Mapping[str, Any], spec: MeterSpec) -> Signal:
    """Read what `Signal.to_dict` gave; the specification says the rest."""
    spec = _as_told(data, spec)
    return Signal(
        spec=spec,
        answer=answer_named(data["answer"]),
        tenant=data["tenant"],
        told_at=datetime.fromisoformat(data["told_at"]),
        **{name: data[name] for name in _PLAIN},
        by_name=data["by_name"],
        first_edge=data["g"] if spec.meter.question.vouches else data["first_edge"],
        old=data["old"],
        validation_loss=data["validation_loss"],
        read=Read(**{name: _as_read(data[name]) for name in Read._fields}),
    )


_PLAIN = (
    "step",
    "generation",
    "model",
    "rows",
    "battery",
    "steps_left",
    "repeated",
)


def view_from_json(data: Mapping[str, Any], spec: MeterSpec) -> SessionView:
    """Read what `SessionView.to_dict` gave."""
    return SessionView(
        meter=data["meter"],
        spec=_as_told(data, spec),
        generation=data["generation"],
        phase=Phase(data["phase"]),
        rows=data["rows"],
        labels_needed=data["labels_needed"],
        signals=tuple(signal_from_json(each, spec) for each in data["signals"]),
        battery=data["battery"],
        steps_left=data["steps_left"],
        promise=data["promise"],
        assumptions=tuple(data["assumptions"]),
        retrospective=tuple(each and Truth(**known(Truth, each)) for each in data["retrospective"]),
        brought=tuple(data["brought"]),
        sharing=tuple(data["sharing"]),
        handovers=tuple(map(Consequence.from_json, data["handovers"])),
        notes=tuple(Note(**known(Note, each)) for each in data["notes"]),
        validation_noise=data["validation_noise"],
    )


NAMED_ROWS = 10
"""Rows that a refusal or a notice names; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """How many rows of a test set stand in another set: a validation set, or a test set."""

    at: str
    generation: int
    """The number of the test set."""
    validation_set: int | None = None
    test_set: int | None = None
    """The other test set; without it and a validation set, the test set itself."""
    rows_shared: int | None
    """None: not known, because there was nothing to compare."""
    first_rows: tuple[int, ...] = ()
    ids_renumbered: int = 0
    """Rows with an id of the other set but other inputs, which the labeler said are other rows."""

    @property
    def other(self) -> str:
        """What the test set was compared with."""
        if self.validation_set is not None:
            return f"validation set {self.validation_set}"
        return f"test set {self.test_set if self.test_set is not None else self.generation}"

    @property
    def sentence(self) -> str:
        """The notice in words."""
        this = f"test set {self.generation}"
        if self.other == this:
            return f"{self.rows_shared:,} rows of {this} have the inputs of another of its rows"
        if self.rows_shared is None:
            return f"it is not known whether {self.other} shares rows with {this}"
        numbered = f", and {self.ids_renumbered:,} ids with other inputs"
        renumbered = numbered if self.ids_renumbered else ""
        return f"{self.other} shares {self.rows_shared:,} rows with {this}{renumbered}"

    def to_json(self) -> dict[str, Any]:
        """Return the notice as JSON has it."""
        return {**asdict(self), "first_rows": list(self.first_rows), "sentence": self.sentence}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Notice:
        """Return what `to_json` told."""
        return cls(**known(cls, data, first_rows=tuple(data["first_rows"])))


_LONGEST_CELL = 1_000
"""Characters of a cell in JSON: whole rows are in the released file."""


@dataclass(frozen=True)
class Compared:
    """One of the two submissions."""

    step: int
    model: str
    test_loss: float


@dataclass(frozen=True)
class DifferingExample:
    """A row of the test set on which the two submissions differ."""

    row: int
    """From 1, in the order of the test set."""
    id: Any
    """None: the test set has no ids."""
    label: Any
    predictions: tuple[str, str]
    losses: tuple[float, float]
    inputs: dict[str, Any]
    """The first columns."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it: values that JSON does not know, as text."""
        found = asdict(self) | {"id": plain(self.id), "label": plain(self.label)}
        return found | {"inputs": {name: plain(value) for name, value in self.inputs.items()}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DifferingExample:
        """Read what `to_json` gave."""
        pairs = {name: tuple(data[name]) for name in ("predictions", "losses")}
        return cls(**known(cls, data, **pairs))


@dataclass(frozen=True)
class Differences:
    """What became worse and what became better, from the first submission to the second."""

    generation: int
    first: Compared
    second: Compared
    rows: int
    worse: int
    better: int
    zero_one: bool
    """Whether an example is right or wrong, and nothing between."""
    page: int
    pages: int
    examples: tuple[DifferingExample, ...]
    """Those of one page, of the kind that was asked for."""
    found: int
    """Examples of that kind."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self) | {"examples": [each.to_json() for each in self.examples]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Differences:
        """Read what `to_json` gave."""
        sides = {name: Compared(**known(Compared, data[name])) for name in ("first", "second")}
        examples = tuple(map(DifferingExample.from_json, data["examples"]))
        return cls(**known(cls, data, **sides, examples=examples))


def plain(value: Any) -> Any:
    """Return a cell of any table as JSON can have it."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):  # an image, say
        return f"{len(value['bytes']):,} bytes"
    return str(value)[:_LONGEST_CELL]
