"""A meter is a composition: a question, a budget, a sample, a renewal, and delta.

    sum over trees and claims of  COUNT x TAIL  <=  delta

COUNT comes from the shape of the question and the runs of the budget, TAIL from the claim and the
sample. What no table of `proofs` has a row for is refused.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Self

import msgspec

from easeml_meter.conditions import BETTER
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise.alarm import Alarm
from easeml_meter.promise.budgets import Memory, Reverts, Steps
from easeml_meter.promise.closing import Closing, Shares
from easeml_meter.promise.condition import Change, Condition
from easeml_meter.promise.gap import Gap, Unmerged
from easeml_meter.promise.keep import Keep
from easeml_meter.promise.kernel import MOST_DELTA
from easeml_meter.promise.numbers.rounding import confidence_of
from easeml_meter.promise.proofs import check_pairs
from easeml_meter.promise.renewals import EveryStep, Fresh, TopUp, Window
from easeml_meter.promise.samples import Clusters, Judge, OnDemand, Rows, Strata
from easeml_meter.promise.schema import (
    Exact,
    Part,
    Setting,
    Settings,
    decode,
    encode,
    exact,
    settings_of,
    shown,
)
from easeml_meter.promise.shapes import Shape
from easeml_meter.promise.teams import Teams

WORDS: Mapping[str, Any] = {"gap": Gap, "alarm": Alarm, "keep": Keep}
"""Questions that one word names; others are written out."""
BUDGETS = {
    "alarms": Closing,
    "fails": Closing,
    "passes": Closing,
    "keeps": Closing,
    "teams": Teams,
    "reverts": Reverts,
    "memory": Memory,
    "gate": Shares,
}
SAMPLES = {"cluster": Clusters, "stratum": Strata, "judge_error": Judge, "on_demand": OnDemand}
RENEWALS = {"every_step": EveryStep, "window": Window, "then": TopUp}
"""The key of a table that says which class it is."""
_TABLES = ("question", "budget", "sample", "renewal", "meter")
_SMALLEST_DELTA = Fraction(1, 10**12)

Question = Gap | Alarm | Keep | Condition | Change
Budget = Steps | Closing | Shares | Teams | Reverts | Memory
Renewal = Fresh | EveryStep | Window | TopUp


class Meter(Settings, frozen=True, kw_only=True, dict=True):
    """What a test set is asked, how often, on which rows, and how sure its answers are."""

    question: Annotated[Question, Setting("what a test set is asked")]
    budget: Annotated[Budget, Setting("its answers; none: what is usual")] = None  # type: ignore[assignment]
    sample: Annotated[Rows, Setting("what is drawn and measured")] = Rows()
    renewal: Annotated[Renewal, Setting("which rows the next test set has")] = Fresh()
    delta: Annotated[
        Exact,
        Setting("the chance that some answer of a test set is false", above=0, below=1),
    ] = Fraction(1, 10)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget is None:
            msgspec.structs.force_setattr(self, "budget", usual_budget(self.question))
        if self.delta < _SMALLEST_DELTA:
            raise invalid("delta", float(self.delta), "at least 10^-12")
        if self.question.form == "level" and self.delta > MOST_DELTA:
            raise invalid("delta", float(self.delta), f"at most {float(MOST_DELTA):g}")
        check_pairs(self.question, self.budget, self.sample, self.renewal)

    def __hash__(self) -> int:
        """Return the same as any frozen value would: levels and plans are looked up by meters."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.question, self.budget, self.sample, self.renewal, self.delta))

    @cached_property
    def asked(self) -> Question:
        """Its question as it is answered: where answers are forgotten, no ceiling merges bands."""
        question = self.question
        if isinstance(self.budget, Memory) and isinstance(question, Gap) and question.merges:
            return Unmerged(**msgspec.structs.asdict(question))
        return question

    @cached_property
    def bands(self) -> int | None:
        """How many bands of the gap there are; None: another question is asked."""
        return self.question.bands if isinstance(self.question, Gap) else None

    @property
    def counted(self) -> Budget:
        """Its budget as it is counted: who waits for labels keeps other teams waiting, so no team
        is alone where labels come on demand."""
        if isinstance(self.budget, Teams) and isinstance(self.sample, OnDemand):
            return msgspec.structs.replace(self.budget, handover=True)
        return self.budget

    @cached_property
    def shape(self) -> Shape:
        """What is counted of its question, with what a model can fail to be measured by."""
        return self.shape_of()

    def shape_of(self, possible: int | None = None) -> Shape:
        """Return its shape, as if so many bands of a gap were possible."""
        loss, question = self.sample.measured, self.asked
        shape: Shape
        if isinstance(question, Gap):
            shape = question.shape(loss, possible)
        else:
            shape = question.shape(loss)
        return shape.with_silent(int(self.sample.may_fail))

    @property
    def unit(self) -> str:
        """What the size of a test set counts, in a plan."""
        if isinstance(self.renewal, Window):
            return f"{self.sample.unit} a batch"
        fresh = isinstance(self.renewal, EveryStep) and isinstance(self.sample, OnDemand)
        return f"{self.sample.unit} a step" if fresh else self.sample.unit

    def confidence(self, number: int = 1) -> str:
        """Return the probability that a test set keeps its promise, rounded down and never 1.

        Of a rolling test set: that all windows do up to the last one that shares its delta with the
        one of this number. Every delta is for the first promise that is broken, so they add up.
        """
        steps = self.budget.steps if self.renewal.rolls else number
        deltas = -(-number // steps) if isinstance(steps, int) else 1
        return confidence_of(min(Fraction(1), deltas * self.delta))

    def answers(self, number: int = 1) -> int | None:
        """Return how many answers a test set gives, of all teams together; None: no end."""
        return self.renewal.gives(self.budget, number)

    def before(self, number: int) -> int:
        """Return how many answers were given on rows that a test set goes on with."""
        stage = self.renewal.stage(number)
        return (self.answers(number - 1) or 0) if stage else 0

    @property
    def delta_of_stage(self) -> Fraction:
        """The part of delta that one try at sealing has, of one of the stages that share it."""
        stages = 1 + self.renewal.stage(2)
        return self.delta / (self.sample.tries * stages)

    @property
    def only_planned(self) -> bool:
        """Whether it is a baseline, or a limit, to compare meters with: it answers nobody."""
        blind = isinstance(self.budget, Memory) and not self.budget.memory
        return self.renewal.anew or blind

    @property
    def compares(self) -> bool:
        """Whether each answer is about a model beside an old one."""
        return "old" in self.question.needs

    def quota(self, rows: int) -> int:
        """Return how many labels a step asks for: no more rows can differ in a model that passes.

        Raises:
            ValueError: labels are not asked for step by step.
        """
        if not self.sample.orders_labels:
            raise ValueError("only a meter with labels on demand has a quota")
        return math.ceil(rows * self.question.most_apart)

    @classmethod
    def loads(cls, text: str) -> Self:
        """Read the text of a meter.toml.

        Raises:
            InvalidInput: one line with the path of what is wrong.
        """
        return cls.from_tables(read_tables(text))

    @classmethod
    def from_tables(cls, data: Mapping[str, Any]) -> Self:
        """Build a meter from the five tables of a file, or of a program.

        Raises:
            InvalidInput: one line; of a setting that is elsewhere, it says where.
        """
        for name in data:
            if name not in _TABLES:
                raise InvalidInput(f"meter.toml: {name[:40]!r} is no table: {_instead(name)}")
        tables = {name: data.get(name, {}) for name in _TABLES}
        for name, table in tables.items():
            if not isinstance(table, Mapping):
                raise invalid(name, table, f"a table: [{name}]")
        _check_keys("meter", tables["meter"], ["delta"])
        question = _question(tables["question"])
        budget = _budget(tables["budget"], question)
        sample = _chosen("sample", tables["sample"], SAMPLES, Rows)
        renewal = _chosen("renewal", tables["renewal"], RENEWALS, Fresh)
        return cls(
            question=question,
            budget=budget,
            sample=_decoded(sample, tables["sample"], "sample"),
            renewal=_decoded(renewal, tables["renewal"], "renewal"),
            delta=exact(tables["meter"].get("delta", "0.1"), "meter.delta"),
        )

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the tables of a meter.toml: answers, tolerance, delta, and all that is no default.

        What every meter has is always there: it must not follow a default that changes.
        """
        question = encode(self.question)
        word = next((word for word, kind in WORDS.items() if type(self.question) is kind), None)
        if isinstance(self.question, Gap):
            question = {"tolerance": shown(self.question.tolerance[0]), **question}
        if word is not None:
            question = {"ask": word, **question}
        found = {"question": question, "budget": _budget_table(self.budget)}
        for name, part in (("sample", self.sample), ("renewal", self.renewal)):
            if table := {**_key_of(part), **encode(part)}:
                found[name] = table
        return {**found, "meter": {"delta": float(self.delta)}}

    def dumps(self) -> str:
        """Return it as the text of a meter.toml."""
        tables = (
            "\n".join(
                [f"[{name}]", *(f"{key} = {_written(value)}" for key, value in table.items())]
            )
            for name, table in self.tables().items()
        )
        return "\n\n".join(tables) + "\n"


def read_tables(text: str) -> dict[str, Any]:
    """Read the tables of a meter.toml, each number as it is written.

    Raises:
        InvalidInput: it is no TOML.
    """
    try:
        return tomllib.loads(text, parse_float=Number)
    except RecursionError:
        raise InvalidInput("meter.toml: not a valid TOML file: nested too deeply") from None
    except ValueError as error:  # also of a number with thousands of digits
        raise InvalidInput(f"meter.toml: not a valid TOML file: {error}") from None


def _written(value: Any) -> str:
    """Write a value of a table, a list on one line."""
    import tomli_w

    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return tomli_w.dumps({"": value}).partition(" = ")[2].rstrip("\n")


class Number(float):
    """A number of a file that remembers its text, which is checked before it is a fraction."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """Read a number, and keep its text."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self) -> str:
        return self.text


def usual_budget(question: Question) -> Budget:
    """Return the budget of a meter that names none."""
    if isinstance(question, Alarm):
        return Closing(alarms=3)
    return Shares() if isinstance(question, Keep) else Steps()


def _question(table: Mapping[str, Any]) -> Question:
    ask = table.get("ask")
    if not isinstance(ask, str):
        raise invalid("question.ask", ask, 'gap, alarm, keep, or a condition: "n > 0.8 +/- 0.01"')
    if ask.strip() == BETTER:
        raise invalid("question.ask", ask, 'write "n - o > 0 +/- 0.02", and than = "kept"')
    if ask in WORDS:
        rest = {key: value for key, value in table.items() if key != "ask"}
        named: Question = _decoded(WORDS[ask], rest, "question")
        return named
    reading = re.match(r"\s*n\s*-\s*o\s+at\b", ask)
    return (
        _decoded(Change, table, "question") if reading else _decoded(Condition, table, "question")
    )


def _decoded(kind: type[Part], table: Mapping[str, Any], where: str) -> Part:
    """Read a part of a meter, and say of a key that it has not where that one is."""
    _check_keys(where, table, [key for key in settings_of(kind) if key != "each"])
    return decode(kind, table, where)


def _chosen(where: str, table: Mapping[str, Any], keys: Mapping[str, type], plain: type) -> Any:
    """Return the class whose key a table has."""
    kinds = {keys[key]: key for key in table if key in keys}
    if len(kinds) > 1:
        first, second, *_ = kinds.values()
        raise InvalidInput(f"[{where}] has {first} and {second}: no {where} has both")
    return next(iter(kinds), plain)


def _budget(table: Mapping[str, Any], question: Question) -> Budget:
    usual = usual_budget(question)
    inner = {key: value for key, value in table.items() if key not in ("teams", "handover")}
    kind = _chosen("budget", inner, BUDGETS, type(usual))
    if kind is Closing and not any(BUDGETS.get(key) is Closing for key in inner):
        inner = {"alarms": 3, **inner}
    if "teams" not in table:
        if "handover" in table:
            raise invalid("budget.handover", table["handover"], "only with teams = [5, 5]")
        alone: Budget = _decoded(kind, inner, "budget")
        return alone
    teams = _decoded(Teams, {key: table[key] for key in table if key not in inner}, "budget")
    if "steps" in inner or kind not in (Closing, Shares, Steps):
        key = "steps" if "steps" in inner else next(iter(inner))
        raise InvalidInput(f"budget.{key}: not with teams, whose answers are in the list")
    if kind is Steps:
        _check_keys("budget", inner, ["teams", "handover"])
        together: Budget = teams
        return together
    whole = {"steps": teams.steps} if kind is Closing else {}
    return msgspec.structs.replace(teams, each=_decoded(kind, inner | whole, "budget"))


def _budget_table(budget: Any) -> dict[str, Any]:
    if isinstance(budget, Teams):
        table = encode(msgspec.structs.replace(budget, each=None))
        each = {} if budget.each is None else _budget_table(budget.each)
        return table | {key: value for key, value in each.items() if key != "steps"}
    return {"steps": budget.steps, **_key_of(budget), **encode(budget)}


def _key_of(part: Settings) -> dict[str, Any]:
    """Return the key that says which class a table is, where its value is the default."""
    marks = {"gate": Shares, "every_step": EveryStep, "on_demand": OnDemand}
    return {key: True for key, kind in marks.items() if type(part) is kind}


PARTS: Mapping[str, tuple[type[Settings], ...]] = {
    "question": (Gap, Alarm, Keep, Condition, Change),
    "budget": (Steps, Closing, Shares, Teams, Reverts, Memory),
    "sample": (Rows, Clusters, Strata, Judge, OnDemand),
    "renewal": (Fresh, EveryStep, Window, TopUp),
}
"""What a table may be."""
_ELSEWHERE = {
    "bands": "[question] edges = [0.1, 0.2] and tolerance = 0.05",
    "clusters": '[sample] cluster = "COLUMN"',
    "count": "leave it out: meter compare shows what all answers would need",
    "gap": "[question] signed = true",
    "passes": "[budget] passes: the pass of this number closes the test set",
    "protocol": "[question] worst = true, or [renewal] every_step = true, or [budget] memory = 0",
    "published": "leave it out: it is a bound, which meter compare shows",
    "question": "[question] ask",
    "submissions": "[renewal] answers",
    "tenants": "[budget] teams",
    "top_up": "[renewal] then",
    "topped_up": "[renewal] then, the answers after it",
}
"""Names that other files have for settings, and what to write."""


def _homes(key: str) -> list[str]:
    """Return the tables that have a setting."""
    tables = [
        name for name, kinds in PARTS.items() if any(key in settings_of(kind) for kind in kinds)
    ]
    return [*tables, *(["meter"] if key == "delta" else [])]


def _instead(key: str) -> str:
    """Say what to write for a key that is not where it belongs."""
    if key in _ELSEWHERE:
        said = _ELSEWHERE[key]
        return f"write {said}" if said.startswith("[") else said
    if homes := _homes(key):
        return f"write [{homes[0]}] {key}"
    names = {name for kinds in PARTS.values() for kind in kinds for name in settings_of(kind)}
    near = difflib.get_close_matches(key, [*_TABLES, *sorted(names), "delta"], 1)
    if near and near[0] not in _TABLES:
        return f"did you mean [{_homes(near[0])[0]}] {near[0]}?"
    return (
        f"did you mean [{near[0]}]?" if near else f"known: {', '.join(map('[{}]'.format, _TABLES))}"
    )


def _check_keys(where: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a key that a part of a meter does not have.

    Raises:
        InvalidInput: it says where the setting is, or what it may be called.
    """
    for key in table:
        if key in known:
            continue
        if where in _homes(key):
            said = f"not in this {where}, which has {', '.join(known) or 'no settings'}"
        elif near := difflib.get_close_matches(key, known, 1):
            said = f"did you mean {near[0]!r}?"
        else:
            said = _instead(key)
        raise InvalidInput(f"meter.toml: [{where}] {key[:40]!r} is no setting: {said}")
