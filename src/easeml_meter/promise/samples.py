"""Samples: what is drawn, what is measured of it, and what the size of a test set counts."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, NamedTuple

from easeml_meter.corpus import Corpus, why_not
from easeml_meter.errors import invalid
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

    def rounded(self, size: int) -> int:
        """Return the least size that can be drawn."""
        return size


class Clusters(Rows, frozen=True, kw_only=True):
    """Rows that belong together: a cluster is one example, and its loss the mean of its rows'."""

    cluster: Annotated[str, Setting("the column that says which rows belong together")] = ""
    largest: Annotated[int | None, Setting("most rows of a cluster", least=1)] = None
    word: ClassVar[str] = "clusters"

    @property
    def unit(self) -> str:
        """What the size of a test set counts."""
        return "clusters"


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
    def proportional(self) -> bool:
        """Whether each has as large a share of the rows as it has weight."""
        return self.shares == self.weights

    def rounded(self, size: int) -> int:
        """Return the least size of which each stratum has whole rows."""
        if self.sizes:
            return sum(self.sizes)
        whole = math.lcm(*(share.denominator for share in self.shares))
        return -(-size // whole) * whole


class Judge(Rows, frozen=True, kw_only=True):
    """A judge's word on a large pool of inputs, and labels on few of them."""

    judge_error: Annotated[
        Exact, Setting("refuse a judge that errs on a larger share of the labels", above=0, below=1)
    ]
    pool: Annotated[int, Setting("inputs with the judge's word alone", least=1, most=10**9)]
    word: ClassVar[str] = "a judge"


class OnDemand(Rows, frozen=True, kw_only=True):
    """Inputs whose labels are bought when two models differ on them."""

    on_demand: Annotated[bool, Setting("seal inputs alone; labels are asked for later")] = True
    word: ClassVar[str] = "labels on demand"

    @property
    def unit(self) -> str:
        """What the size of a test set counts."""
        return "inputs"


Sample = Rows | Clusters | Strata | Judge | OnDemand
