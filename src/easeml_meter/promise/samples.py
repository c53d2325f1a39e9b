"""Samples: what is drawn, what is measured of it, and what the size of a test set counts."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, NamedTuple

from easeml_meter.corpus import Corpus, why_not
from easeml_meter.errors import invalid
from easeml_meter.promise.numbers.rounding import at_most
from easeml_meter.promise.schema import Exact, Setting, Settings

_MOST_STRATA = 1_000
_MOST_LABELS = 10**15


class Loss(NamedTuple):
    """A loss as its name says it: of each row 0 or 1, a number in [0, 1], or a score of all."""

    name: str
    zero_one: bool = False
    score: Corpus | None = None

    @property
    def exact(self) -> bool:
        """Whether sums of it are fractions known exactly."""
        return self.zero_one or self.score is not None

    @property
    def own(self) -> bool:
        """Whether it is a function of the team: whether it accepts the rows shows when it runs."""
        return self.score is None and ":" in self.name

    @property
    def reported(self) -> bool:
        """Whether it is made of scores that a runner measured elsewhere."""
        return self.name == "score" or self.name.startswith("score[")

    @property
    def curve(self) -> bool:
        """Whether it is how far a ROC curve is from that on the validation set."""
        return self.score is not None and self.score.curve

    @property
    def top(self) -> int:
        """How many ranked classes it looks at."""
        return int(self.name[4:]) if self.name.startswith("top-") else 1

    @property
    def unsized(self) -> bool:
        """Whether how much it is counted of depends on the model, and can be too little."""
        return self.score is not None and not self.score.kind.sealed


@lru_cache(maxsize=256)
def parse_loss(name: str) -> Loss:
    """Read the name of a loss.

    Raises:
        InvalidInput: no promise can be made about it.
    """
    if (why := why_not(name)) is not None:
        raise invalid("loss", name, why)
    score = Corpus.parse(name)
    if score is not None and score.problem is not None:
        raise invalid("loss", name, score.problem)
    zero_one = re.fullmatch(r"0-1|top-[1-9][0-9]*|score\[0-1\]", name) is not None
    return Loss(name, zero_one, score)


class Parts(NamedTuple):
    """Parts of the population, each with a sample of its own."""

    column: str
    names: tuple[str, ...]
    weights: tuple[Fraction, ...]
    shares: tuple[Fraction, ...]

    def rows(self, size: int) -> dict[str, int]:
        """Return how many of so many rows each part has, by its name."""
        return {
            name: int(size * share) for name, share in zip(self.names, self.shares, strict=True)
        }


class Rows(Settings, frozen=True, kw_only=True):
    """Rows drawn alike, each by itself."""

    loss: Annotated[str, Setting("what is measured: 0-1, top-K, a loss in [0, 1], f1[a], ..")] = (
        "0-1"
    )
    labels: Annotated[
        int | None, Setting("labels there are; none: as planned", least=1, most=_MOST_LABELS)
    ] = None
    classes: Annotated[
        tuple[str | int, ...], Setting("the classes that may be predicted; none: as validated")
    ] = ()
    inputs: Annotated[
        Literal["hidden", "public"], Setting("whether developers see the inputs of the test set")
    ] = "hidden"
    models: Annotated[
        bool | Literal["onnx"], Setting("models may be submitted, too, and run here")
    ] = False
    commands_may_carry_inputs_out: Annotated[
        bool, Setting("at a server, take commands also where inputs are hidden")
    ] = False
    metric: Annotated[str, Setting("which scores of an evaluation count, as its tool says")] = ""
    rows: Annotated[
        int | None, Setting("rows drawn, where a score is counted of some", least=1)
    ] = None
    tries: Annotated[
        int, Setting("draws until one has enough of what a score is counted of", least=1, most=1000)
    ] = 1
    word: ClassVar[str] = "plain rows"
    grouped: ClassVar[bool] = False
    """Whether rows belong together, as a column says."""
    estimated: ClassVar[bool] = False
    """Whether the loss is estimated, with labels of few rows."""
    orders_labels: ClassVar[bool] = False
    """Whether labels are asked for step by step, of inputs sealed without any."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_loss(self.loss)
        if len(set(self.classes)) != len(self.classes):
            raise invalid("classes", list(self.classes), "each class once")
        carried = "commands_may_carry_inputs_out"
        if self.commands_may_carry_inputs_out and (self.models, self.inputs) != (True, "hidden"):
            raise invalid(carried, True, 'only with models = true and inputs = "hidden"')

    @property
    def measured(self) -> Loss:
        """The loss, read."""
        return parse_loss(self.loss)

    @property
    def may_fail(self) -> bool:
        """Whether a model can fail on hidden rows, which is then an answer."""
        return bool(self.models) or self.measured.own

    @property
    def unit(self) -> str:
        """What the size of a test set counts."""
        score = self.measured.score
        return "labels" if score is None else score.counted(self.classes)

    @property
    def handed_in(self) -> str:
        """What labelers count that they hand in."""
        return "labels"

    @property
    def public(self) -> bool:
        """Whether developers see the inputs."""
        return self.inputs == "public"

    @property
    def takes_scores(self) -> bool:
        """Whether scores are submitted that were measured elsewhere."""
        return self.measured.reported

    @property
    def seals_labels(self) -> bool:
        """Whether test sets are sealed with labels."""
        return not (self.takes_scores or self.orders_labels)

    @property
    def zero_one(self) -> bool:
        """Whether the loss of every example is 0 or 1."""
        return self.measured.zero_one

    @property
    def exact(self) -> bool:
        """Whether losses are fractions known exactly, and not rounded before they are summed."""
        return self.measured.exact

    @property
    def counts_rows(self) -> bool:
        """Whether each row with a label has a loss of its own, and counts."""
        return self.measured.score is None

    @property
    def fixes_rows(self) -> bool:
        """Whether sealing checks the labels: the size was fixed then, and tries are counted."""
        return self.measured.score is not None and self.measured.score.kind.sealed

    @property
    def unlabelled(self) -> int:
        """How many rows have no label, besides those that have one."""
        return 0

    @property
    def parts(self) -> Parts | None:
        """The parts of the population, if each has a sample of its own."""
        return None

    def allows(self, wrong: int, labels: int) -> bool:
        """Whether what stands in for most labels errs on few enough of the labels there are."""
        return not wrong

    def lacking(self, size: int) -> str:
        """Say why labels are refused when they are sealed."""
        return f"too few {self.unit}, {size:,} are needed"

    def rounded(self, size: int) -> int:
        """Return the least size that can be drawn."""
        return size

    def rounded_down(self, size: int) -> int:
        """Return the largest size up to this one that can be drawn; 0 for none."""
        return size


class Clusters(Rows, frozen=True, kw_only=True):
    """Rows that belong together: a cluster is one example, and its loss the mean of its rows'."""

    cluster: Annotated[str, Setting("the column that says which rows belong together")] = ""
    largest: Annotated[int | None, Setting("most rows of a cluster", least=1)] = None
    word: ClassVar[str] = "clusters"
    grouped: ClassVar[bool] = True
    zero_one: ClassVar[bool] = False
    exact: ClassVar[bool] = False
    unit: ClassVar[str] = "clusters"
    handed_in: ClassVar[str] = "clusters"


class Strata(Rows, frozen=True, kw_only=True):
    """Parts of the population, each with a sample of its own."""

    stratum: Annotated[str, Setting("the column that says which stratum a row is in")] = ""
    strata: Annotated[tuple[str | int, ...], Setting("the strata by name")] = ()
    weights: Annotated[
        tuple[Exact, ...], Setting("what each stratum counts; they sum to 1", above=0, below=1)
    ] = ()
    sizes: Annotated[
        tuple[int, ...], Setting("rows of each stratum; none: as many as its weight", least=1)
    ] = ()
    word: ClassVar[str] = "strata"

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.strata)
        if not 2 <= count <= _MOST_STRATA or len(set(map(str, self.strata))) != count:
            raise invalid("strata", count, f"2 to {_MOST_STRATA:,} strata, each once")
        if len(self.weights) != count or sum(self.weights) != 1:
            raise invalid("weights", list(map(float, self.weights)), "one each, that sum to 1")
        if self.sizes and len(self.sizes) != count:
            raise invalid("sizes", list(self.sizes), f"the rows of each of {count} strata")

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Each stratum's share of the rows."""
        if not self.sizes:
            return self.weights
        return tuple(Fraction(size, sum(self.sizes)) for size in self.sizes)

    @property
    def parts(self) -> Parts:
        """The strata."""
        return Parts(self.stratum, tuple(map(str, self.strata)), self.weights, self.shares)

    @property
    def proportional(self) -> bool:
        """Whether each has as large a share of the rows as it has weight."""
        return self.shares == self.weights

    def rounded(self, size: int) -> int:
        """Return the least size of which each stratum has whole rows."""
        if not self.sizes:
            return -(-size // self.whole) * self.whole
        if sum(self.sizes) < size:
            needed = f"too few: {size:,} rows are needed in all"
            raise invalid("sizes", list(self.sizes)[:20], needed)
        return sum(self.sizes)

    def rounded_down(self, size: int) -> int:
        """Return the largest size of whole strata; those that are given have no other one."""
        if self.sizes:
            return sum(self.sizes) if sum(self.sizes) <= size else 0
        return size - size % self.whole

    @property
    def whole(self) -> int:
        """The fewest rows of which every stratum has a whole number."""
        return math.lcm(*(share.denominator for share in self.shares))

    @property
    def cost(self) -> float:
        """How many times as many rows Hoeffding's bound needs as for a plain sample."""
        parts = zip(self.weights, self.shares, strict=True)
        return float(sum(weight * weight / share for weight, share in parts))


class Judge(Rows, frozen=True, kw_only=True):
    """A judge's word on a large pool of inputs, and labels on few of them."""

    judge_error: Annotated[
        Exact, Setting("refuse a judge that errs on a larger share of the labels", above=0, below=1)
    ]
    pool: Annotated[int, Setting("inputs with the judge's word alone", least=1, most=_MOST_LABELS)]
    word: ClassVar[str] = "a judge"
    estimated: ClassVar[bool] = True
    counts_rows: ClassVar[bool] = False
    fixes_rows: ClassVar[bool] = True

    @property
    def unlabelled(self) -> int:
        """The rows with the judge's word alone."""
        return self.pool

    def allows(self, wrong: int, labels: int) -> bool:
        """Whether the judge errs on few enough of the labels."""
        return wrong <= self.judge_error * labels

    def lacking(self, size: int) -> str:
        """Say why labels are refused when they are sealed."""
        return f"the judge errs on more than {at_most(self.judge_error)} of the labels"


class OnDemand(Rows, frozen=True, kw_only=True):
    """Inputs whose labels are bought when two models differ on them."""

    on_demand: Annotated[bool, Setting("seal inputs alone; labels are asked for later")] = True
    word: ClassVar[str] = "labels on demand"
    orders_labels: ClassVar[bool] = True
    unit: ClassVar[str] = "inputs"
    handed_in: ClassVar[str] = "inputs"


Sample = Rows | Clusters | Strata | Judge | OnDemand
