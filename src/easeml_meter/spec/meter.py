"""The settings of a meter as one value: read, checked, and written."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from easeml_meter.checks import finite, listed, one_of, settle, whole
from easeml_meter.conditions import (
    BETTER,
    Condition,
    Difference,
    Vouching,
    parse_question,
)
from easeml_meter.corpus import WEIGHTED, Corpus
from easeml_meter.errors import InvalidInput, invalid
from easeml_meter.promise.numbers.bounds import Bound
from easeml_meter.showing import Shown
from easeml_meter.spec.bands import Band, default_edges
from easeml_meter.spec.names import GAP, Count, Gap, Protocol, is_exact, is_zero_one
from easeml_meter.spec.questions import (
    check_corpus,
    check_drawn,
    check_memory,
    check_on_demand,
    check_published,
    check_question,
    check_reverts,
    check_scores,
    check_tenants,
    check_top_up,
    check_window,
)
from easeml_meter.spec.strata import check_strata, stratum_shares, stratum_weights

if TYPE_CHECKING:
    from easeml_meter.promise.meter import Meter

DEFAULT_STEPS, DEFAULT_DELTA = 10, 0.1
"""What a meter answers, and how sure it is, where nobody says so."""
_SMALLEST_DELTA = 1e-300
_SMALLEST_CEILING = 1e-100
"""The next size at which one more error fits below it must be a number that floats reach."""
_BOUNDS = {
    "auc": Bound.CONVEX,
    "roc": Bound.HOEFFDING,  # DKW has the same exponent, at all thresholds together
    "balanced-accuracy": Bound.KL,
    "macro-recall": Bound.KL,
    WEIGHTED: Bound.KL,
}
"""The bounds of scores of a whole test set; the others have the exact one."""


@dataclass(frozen=True, repr=False)
class MeterSpec(Shown):
    """A meter and the promise asked of it.

    A meter that asks a condition in place of the gap has no bands.

    The paper's symbols: `steps` is T, the bands are (r_k, eps_k) for k = 1..m, `delta` is delta.
    `delta` covers one test set.
    """

    bands: tuple[Band, ...]
    steps: int
    delta: float
    protocol: Protocol = Protocol.REGULAR
    loss: str = "0-1"
    gap: Gap = Gap.ABSOLUTE
    """Whether a model that is better on the test set has a gap, too, or is in band 1."""
    published: bool = False
    """Count as the paper does (pairs of model and signal) and use Hoeffding's bound: no setting,
    but what `meter compare` and the lab show."""
    count: Count = Count.CONSISTENT
    """Which histories are counted; the published analysis counts all of them. No setting."""
    drawn: float | None = None
    """Draw the band edges of every answer at random, this far apart, in place of the bands' own."""
    ceiling: float | None = None
    """Answer "above the ceiling", and nothing else, when the test loss exceeds this."""
    tenants: tuple[int, ...] = ()
    """Steps per tenant; they sum to `steps`. Empty: one developer."""
    handover: bool = False
    """Tenants may start from each other's checkpoints."""
    reverts: tuple[int, ...] = ()
    """Steps, fixed in advance, that are undone (the paper's time travel)."""
    memory: int | None = None
    """Each model depends on at most this many last signals (an assumption about people)."""
    inputs: str = "hidden"
    """Whether developers see the test inputs: "hidden", or "public" (predictions are uploaded)."""
    classes: tuple[str | int, ...] = ()
    """The classes that may be predicted; empty: those of the validation set."""
    models: bool | str = False
    """Models may be submitted too; "onnx": ONNX files only. One can fail on the hidden inputs."""
    commands_may_carry_inputs_out: bool = False
    """At a server, take commands also where inputs are hidden: what files of the system a command
    has touched tells its developer's next one about these, bit by bit."""
    question: str = GAP
    """What a test set is asked: for the gap, or a condition that models pass or fail."""
    passes: int | None = None
    """How many models may pass a condition before the one that closes the test set."""
    g: float | None = None
    """Of an alarm: the overfitting that is accepted; None: as little as the rows allow."""
    expects: float | None = None
    """Of an alarm without g: the loss that g is planned for; 0.2 if nobody says so."""
    alarms: int | None = None
    """Of an alarm: the alarm of this number closes the test set; the third if nobody says so."""
    endless: bool = False
    """Of an alarm: it has no last answer, and `steps` says nothing. A file has steps = "no end"."""
    labels: int | None = None
    """Of an alarm without g: how many labels there will be."""
    metric: str = ""
    """Which scores of an evaluation count, as its tool calls them: chosen before any is seen."""
    disagreement: float | None = None
    """With "n - o": fail where exactly one of the two is right on a larger share of rows."""
    tolerance: float | None = None
    """With "better": by how much the test set has to show it."""
    floor: float | None = None
    """Of a score of the whole test set: answer "below the floor", and nothing else, below this."""
    rows: int | None = None
    """Of such a score: how many rows are drawn for a test set. How many of them count is seen when
    it is sealed."""
    tries: int = 1
    """Of such a score: how many test sets may be drawn until one has enough. Each could be the
    lucky one, so delta is divided."""
    window: int | None = None
    """A rolling test set: the batches in use at a time. `steps` are the windows of one delta."""
    submissions: int = 1
    """How many submissions each window of a rolling test set answers."""
    top_up: int | None = None
    """Steps that a test set answers after its own, once fresh labels have joined it."""
    topped_up: int = 0
    """Steps that a part of the test set answered before. No setting: see `of_test_set`."""
    clusters: bool | str = False
    """Rows belong together, as a column says that may be named: one example is a cluster, and its
    loss the mean of its rows'."""
    judge_error: float | None = None
    """Most rows have the word of a judge in place of a label: refuse one that errs on more."""
    pool: int | None = None
    """With a judge: how many rows have no label."""
    on_demand: bool = False
    """With "n - o": a test set is sealed without labels. Each step asks for a fixed number of them,
    where the two models differ."""
    stratum: str = ""
    """A column that says which stratum a row is in: each is a sample of its own, of fixed size."""
    strata: tuple[str | int, ...] = ()
    """The strata by name."""
    weights: tuple[float, ...] = ()
    """What each stratum counts: the loss is the sum of weight times mean loss."""
    sizes: tuple[int, ...] = ()
    """How many rows of each stratum a test set has; empty: as many as its weight is of all."""

    def __post_init__(self) -> None:
        lists = ("bands", "tenants", "reverts", "classes")
        for name in (*lists, "strata", "weights", "sizes"):
            settle(self, **{name: listed(name, getattr(self, name))})
        carried = "commands_may_carry_inputs_out"
        for name in ("published", "handover", "on_demand", "endless", carried):
            if not isinstance(getattr(self, name), bool):
                raise invalid(name, getattr(self, name), "true or false")
        if not isinstance(self.models, bool) and self.models != "onnx":
            raise invalid("models", self.models, 'true, false or "onnx"')
        if self.clusters is True:
            settle(self, clusters="cluster")
        settle(self, protocol=one_of("protocol", self.protocol, Protocol))
        settle(self, gap=one_of("gap", self.gap, Gap))
        settle(self, count=one_of("count", self.count, Count))
        check_question(self)
        check_corpus(self)
        check_drawn(self)
        whole("steps", self.steps, at_least=1)
        finite("delta", self.delta)
        if not 0 < self.delta < 1:
            raise invalid("delta", self.delta, "a number between 0 and 1 (both excluded)")
        if self.session_delta < _SMALLEST_DELTA:
            raise invalid("delta", self.delta, f"at least {_SMALLEST_DELTA:g} for each test set")
        if not isinstance(self.loss, str) or not self.loss:
            raise invalid("loss", self.loss, 'the name of a loss, such as "0-1"')
        check_strata(self)
        if self.inputs not in ("hidden", "public"):
            raise invalid("inputs", self.inputs, 'either "hidden" or "public"')
        if self.commands_may_carry_inputs_out and (self.models, self.inputs) != (True, "hidden"):
            raise invalid(carried, True, 'only with models = true and inputs = "hidden"')
        self._check_classes()
        if self.ceiling is not None:
            finite("ceiling", self.ceiling)
            settle(self, ceiling=float(self.ceiling))
            if not 0 < self.ceiling < 1:
                raise invalid("ceiling", self.ceiling, "a loss between 0 and 1 (both excluded)")
            if self.ceiling < _SMALLEST_CEILING:
                raise invalid("ceiling", self.ceiling, f"{_SMALLEST_CEILING:g} or more")
        check_tenants(self)
        check_reverts(self)
        check_memory(self)
        check_published(self)
        check_scores(self)
        check_window(self)
        check_top_up(self)
        check_on_demand(self)
        self._forget()

    def _check_classes(self) -> None:
        if not all(isinstance(each, str | int) for each in self.classes):
            raise invalid("classes", list(self.classes), "a list of texts or whole numbers")
        if len(set(self.classes)) != len(self.classes):
            raise invalid("classes", list(self.classes), "each class once")

    def _forget(self) -> None:
        """Forget what was worked out on the way: checks settle settings, so it may be wrong."""
        for name in ("_hash", "tolerances"):
            self.__dict__.pop(name, None)

    def __hash__(self) -> int:
        """Return the same as any frozen value would; plans and rules are looked up by meters."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(getattr(self, each.name) for each in dataclasses.fields(self)))

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was worked out: another process has other hashes."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @cached_property
    def meter(self) -> Meter:
        """The same meter as a composition of a question, a budget, a sample and a renewal."""
        from easeml_meter.spec.composing import compose

        return compose(self)

    @property
    def condition(self) -> Condition | None:
        """What models pass or fail; None: the question is a reading."""
        return self.asked if isinstance(self.asked, Condition) else None

    @property
    def difference(self) -> Difference | None:
        """The reading of n - o that is asked; None: the question is another one."""
        return self.asked if isinstance(self.asked, Difference) else None

    @property
    def teams_apart(self) -> bool:
        """Whether teams share nothing but the validation set, as if each were alone."""
        return bool(self.tenants) and not self.handover

    @property
    def vouches(self) -> bool:
        """Whether it raises alarms."""
        return isinstance(self.asked, Vouching)

    @property
    def verdict(self) -> bool:
        """Whether an answer is yes or no, and has no height."""
        return isinstance(self.asked, Condition | Vouching)

    @property
    def compares(self) -> bool:
        """Whether each answer is about a model beside an old one."""
        return self.asked is not None and self.asked.needs_old

    @cached_property
    def asked(self) -> Condition | Difference | Vouching | None:
        """The question as it is understood; None: it is the gap."""
        if self.question == GAP:
            return None
        return parse_question(
            self.question,
            disagreement=self.disagreement,
            passes=self.passes,
            tolerance=self.tolerance,
        )

    @cached_property
    def corpus(self) -> Corpus | None:
        """The score of the whole test set whose loss this is; None: an average over rows."""
        return Corpus.parse(self.loss) if isinstance(self.loss, str) else None

    @property
    def curve(self) -> bool:
        """Whether the loss is how far a ROC curve is from that on the validation set."""
        return self.corpus is not None and self.corpus.curve

    @property
    def stratified(self) -> bool:
        """Whether its test sets have strata of fixed sizes."""
        return bool(self.stratum)

    @property
    def proportional(self) -> bool:
        """Whether each stratum has as large a share of the rows as it has weight."""
        return stratum_shares(self) == stratum_weights(self)

    def stratum_rows(self, labels: int) -> dict[str, int]:
        """Return how many of so many rows each stratum has, by its name."""
        shares = zip(map(str, self.strata), stratum_shares(self), strict=True)
        return {name: int(labels * share) for name, share in shares}

    @property
    def promotes(self) -> bool:
        """Whether models are compared with one that was promoted."""
        return self.compares and not self.ladder

    @property
    def ladder(self) -> bool:
        """Whether the old model of each answer is the last one that passed."""
        return self.question.strip() == BETTER

    def quota(self, rows: int) -> int:
        """Return how many labels a step asks for: no more rows can differ in a model that passes.

        Raises:
            ValueError: labels are not asked for on demand.
        """
        if not self.on_demand or self.disagreement is None:
            raise ValueError("only a meter with labels on demand has a quota")
        return math.ceil(rows * Fraction(repr(self.disagreement)))

    @property
    def signals(self) -> int:
        """The number of bands, m: of the gap, or of n - o."""
        if self.difference is not None:
            return len(self.difference.edges) + 1
        return len(self.bands)

    @property
    def edges(self) -> tuple[float, ...]:
        """The inner edges of the bands, e_1 < ... < e_(m-1)."""
        return tuple(band.lower for band in self.bands[1:])

    @cached_property
    def tolerances(self) -> tuple[float, ...]:
        """The tolerance of each band, eps_1 <= ... <= eps_m."""
        return tuple(band.tolerance for band in self.bands)

    @property
    def zero_one(self) -> bool:
        """Whether the loss of every example is 0 or 1; the mean of a cluster need not be."""
        return is_zero_one(self.loss) and not self.clusters

    @property
    def rounds(self) -> bool:
        """Whether losses are rounded before they are summed, and not fractions known exactly."""
        return bool(self.clusters) or not is_exact(self.loss)

    @property
    def unit(self) -> str:
        """What the size of a test set counts."""
        if self.on_demand:
            return "inputs"
        return "clusters" if self.clusters else "labels"

    @property
    def seals_labels(self) -> bool:
        """Whether test sets are sealed with labels: not where scores or later ones stand in."""
        return not (self.takes_scores or self.on_demand)

    @property
    def takes_scores(self) -> bool:
        """Whether the loss is made of scores that a runner measured elsewhere."""
        return self.loss == "score" or self.loss.startswith("score[")

    @property
    def may_fail(self) -> bool:
        """Whether measuring a model on hidden data can fail, which is then an answer.

        Labels are checked against a built-in loss when a test set is taken in; whether a loss of
        one's own accepts them, or a model takes the inputs, shows only when it is called.
        """
        return bool(self.models) or self.own_loss

    @property
    def own_loss(self) -> bool:
        """Whether the loss is the function that it names; "f1[b:PER]" has a class with a colon."""
        return self.corpus is None and ":" in self.loss

    @property
    def merges(self) -> bool:
        """Whether edges near the ceiling are left out of an answer.

        No promise broken, "above the ceiling" then stands for one band, and promises something:
        the true loss is at least the ceiling minus the tolerance. A test set that counts all
        histories keeps its edges, and so do meters whose bands are remembered.
        """
        fixed = self.protocol is Protocol.REGULAR and self.drawn is None
        plain = self.count is Count.CONSISTENT and self.memory is None
        return self.ceiling is not None and plain and fixed

    @property
    def judged(self) -> bool:
        """Whether a judge stands in for most labels."""
        return self.judge_error is not None

    @property
    def sized(self) -> bool:
        """Whether its test sets are counted by another number than that of their rows."""
        return self.judged or self.corpus is not None

    @property
    def fixes_rows(self) -> bool:
        """Whether sealing checks the labels: the size was fixed then, and tries are counted."""
        return self.judged or (self.corpus is not None and self.corpus.kind.sealed)

    @property
    def may_be_too_few(self) -> bool:
        """Whether how much a score is counted of depends on the model, so that it may be too few.

        Of all others, sealing makes sure that there is enough.
        """
        return self.corpus is not None and not self.corpus.kind.sealed

    @property
    def silent_answers(self) -> int:
        """The number of answers that promise nothing, and can come at any step."""
        above = self.ceiling is not None and not self.merges
        return int(above) + int(self.may_fail) + int(self.may_be_too_few)

    @property
    def stages(self) -> int:
        """How many test sets share the delta of one: two, if the second one is the first and more.

        Each of them has an equal part.
        """
        return 1 if self.top_up is None and not self.topped_up else 2

    @cached_property
    def _other_stage(self) -> Self:
        if self.top_up is None:
            return self.replace(steps=self.topped_up, top_up=self.steps, topped_up=0)
        return self.replace(steps=self.top_up, top_up=None, topped_up=self.steps)

    def of_test_set(self, number: int) -> Self:
        """Return the meter as it is for a test set: with `top_up`, every second one is a top-up."""
        second = self.stages > 1 and number % 2 == 0
        return self if second == bool(self.topped_up) else self._other_stage

    @property
    def session_delta(self) -> float:
        """The failure probability that one test set may use, and of it one try at sealing."""
        return self.delta / (self.tries * self.stages)

    @property
    def tail(self) -> Bound:
        """The bound in force: the tightest that is valid for the loss."""
        if self.published:
            return Bound.HOEFFDING
        if self.corpus is not None:
            return _BOUNDS.get(self.corpus.name, Bound.EXACT)
        if self.stratified and not self.proportional:
            return Bound.KL
        return Bound.EXACT if self.zero_one else Bound.CONVEX

    @classmethod
    def uniform(
        cls,
        *,
        signals: int | None = None,
        tolerance: float | Sequence[float],
        steps: int = DEFAULT_STEPS,
        delta: float = DEFAULT_DELTA,
        edges: Sequence[float] | None = None,
        **options: Any,
    ) -> Self:
        """Build a meter from one tolerance, or one for each of its m bands.

        `edges` are the m - 1 inner edges of the bands. Given `signals` or several tolerances
        instead, the bands are equally wide; given neither, they have the default edges.
        """
        if signals is None and edges is None and not isinstance(tolerance, Sequence):
            edges = default_edges(tolerance, costly=_edges_cost(options))
        if signals is None:
            given = tolerance if isinstance(tolerance, Sequence) else ()
            signals = len(given) if edges is None else len(edges) + 1
        whole("signals", signals, at_least=1)
        if signals > 10_000:
            raise invalid("signals", signals, "at most 10,000 bands")
        if isinstance(tolerance, Sequence):
            tolerances = list(tolerance)
            if len(tolerances) != signals:
                allowed = f"one number, or one for each of the {signals} bands"
                raise invalid("tolerance", tolerances, allowed)
        else:
            tolerances = [tolerance] * signals
        if edges is not None and len(edges) != signals - 1:
            raise invalid("edges", list(edges), f"{signals - 1} inner edges for {signals} bands")
        inner = [k / signals for k in range(1, signals)] if edges is None else list(edges)
        if any(upper <= lower for lower, upper in itertools.pairwise(inner)):
            listed = ",".join(f"{each:g}" for each in sorted({*inner}))
            raise invalid("edges", inner, f"they must rise, as {listed} do")
        outer = [0.0, *inner, 1.0]
        bands = tuple(
            Band(lower, upper, tolerance)
            for (lower, upper), tolerance in zip(itertools.pairwise(outer), tolerances, strict=True)
        )
        return cls(bands=bands, steps=steps, delta=delta, **options)

    def replace(self, **changes: Any) -> Self:
        """Copy with changes, validated again."""
        return dataclasses.replace(self, **changes)

    def with_tolerances(self, tolerances: Sequence[float]) -> Self:
        """Copy with other tolerances on the same bands."""
        pairs = zip(self.bands, tolerances, strict=True)
        return self.replace(bands=tuple(Band(b.lower, b.upper, eps) for b, eps in pairs))

    def with_edges(self, edges: Sequence[float]) -> Self:
        """Copy with other edges, and the first tolerance in every band."""
        ends = itertools.pairwise((0.0, *edges, 1.0))
        return self.replace(bands=tuple(Band(*each, self.tolerances[0]) for each in ends))

    @property
    def has_default_edges(self) -> bool:
        """Whether its bands are what nobody chose."""
        if self.drawn is not None or len(set(self.tolerances)) != 1:
            return False
        (tolerance,) = set(self.tolerances)
        return self.edges in [default_edges(tolerance, costly=each) for each in (False, True)]

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> MeterSpec:
        """Build from the five tables of a meter.toml."""
        from easeml_meter.promise.meter import Meter
        from easeml_meter.spec.composing import flatten

        return flatten(Meter.from_tables(data))

    def to_mapping(self) -> dict[str, Any]:
        """Return the tables of a meter.toml; defaults are left out."""
        return self.meter.tables()

    @classmethod
    def read(
        cls, path: str | Path, make: Callable[[Mapping[str, Any]], MeterSpec] | None = None
    ) -> MeterSpec:
        """Read a meter.toml; `make` a meter of its tables in another way than `from_mapping`."""
        from easeml_meter.promise.meter import read_tables

        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            reason = error.strerror or error
            raise InvalidInput(f"{path}: cannot be read ({reason}): give a meter.toml") from error
        except ValueError as error:
            raise InvalidInput(f"{path}: not a valid TOML file: {error}") from error
        try:
            return (make or cls.from_mapping)(read_tables(text))
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {str(error).removeprefix('meter.toml: ')}") from error

    def to_toml(self) -> str:
        """Return it as the text of a meter.toml."""
        return self.meter.dumps()

    def write(self, path: Path) -> None:
        """Write as meter.toml."""
        path.write_text(self.to_toml(), encoding="utf-8")


def _edges_cost(options: Mapping[str, Any]) -> bool:
    """Whether every edge more costs labels, whatever its place."""
    worst = options.get("protocol") == Protocol.INCREMENTAL
    return worst or options.get("memory") is not None
