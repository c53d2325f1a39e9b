"""What a meter is: its bands, its budget, its promise. Frozen, and validated once, here."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from easeml_meter.checks import finite, listed, one_of, whole
from easeml_meter.conditions import BETTER, Condition, Difference, Variable, parse_question
from easeml_meter.corpus import WEIGHTED, Corpus
from easeml_meter.errors import InvalidInput, invalid


class Protocol(StrEnum):
    """What a submission is answered with."""

    REGULAR = "regular"  # the signal of this submission
    INCREMENTAL = "incremental"  # the worst signal so far
    INDEPENDENT = "independent"  # signals that nobody acts on: the ideal, not a meter
    RESAMPLING = "resampling"  # a fresh test set for every step: the baseline


class Bound(StrEnum):
    """Which tail bound holds one model's test loss near its true loss."""

    EXACT = "exact"
    CONVEX = "convex"
    KL = "kl"
    HOEFFDING = "hoeffding"


class Gap(StrEnum):
    """What the bands divide: how far validation loss and test loss are apart."""

    ABSOLUTE = "absolute"  # |test loss - validation loss|, as in the paper
    SIGNED = "signed"  # test loss - validation loss, and 0 where the test loss is the lower one


class Count(StrEnum):
    """Which histories of answers the promise is counted over."""

    CONSISTENT = "consistent"  # those that keep every promise before the last answer
    ALL = "all"  # all that the protocol allows


_SMALLEST_DELTA = 1e-300
_SMALLEST_TOLERANCE = 1e-6
"""A smaller one takes more than the 10^12 labels that any meter can have."""
_NARROWEST_DRAWN = 1e-4
_LONGEST_METRIC = 200
_MOST_ABOVE = 100
_MOST_TRIES = 1_000
_MOST_ALSO = 19
"""Bands and answers are counted one by one: more of them than anybody reads are refused."""
METERS = (Protocol.REGULAR, Protocol.INCREMENTAL)
GAP = "gap"
"""The question of a meter with bands."""
_BOUNDS = {
    "auc": Bound.CONVEX,
    "balanced-accuracy": Bound.KL,
    "macro-recall": Bound.KL,
    WEIGHTED: Bound.KL,
}
"""The bounds of scores of a whole test set; the others have the exact one."""
DEFAULT_EDGES = (0.02, 0.05, 0.1, 0.2)
"""Where bands of a meter begin for which no others are given, as far as its tolerance allows."""


def default_edges(tolerance: float) -> tuple[float, ...]:
    """Return the default edges that leave every band two tolerances wide; the last one, always.

    Closer edges would cost labels: more bands could then be told of the same model.
    """
    finite("tolerance", tolerance)
    apart = 2 * Fraction(str(tolerance))
    for first in range(len(DEFAULT_EDGES)):
        edges = DEFAULT_EDGES[first:]
        widths = (Fraction(str(b)) - Fraction(str(a)) for a, b in itertools.pairwise((0, *edges)))
        if min(widths) >= apart:
            return edges
    return DEFAULT_EDGES[-1:]


def is_zero_one(loss: str) -> bool:
    """Whether a loss, by its name, is 0 or 1 for every example."""
    return re.fullmatch(r"0-1|top-[1-9][0-9]*|score\[0-1\]", loss) is not None


def is_exact(loss: str) -> bool:
    """Whether a loss, by its name, is a fraction of whole numbers, known without rounding."""
    return is_zero_one(loss) or Corpus.parse(loss) is not None


def classes_of(text: str) -> tuple[str | int, ...]:
    """Read classes with commas between them: numbers if all of them are, else texts."""
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    return tuple(map(int, names)) if all(name.isdecimal() for name in names) else names


@dataclass(frozen=True, slots=True)
class Band:
    """One signal: gaps in [lower, upper) are told as this band, with this tolerance.

    The last band of a meter also contains its upper edge, 1.
    """

    lower: float
    upper: float
    tolerance: float

    def __post_init__(self) -> None:
        for name in ("lower", "upper", "tolerance"):
            finite(f"band {name}", getattr(self, name))
            object.__setattr__(self, name, float(getattr(self, name)))
        if not 0 <= self.lower < self.upper <= 1:
            raise invalid("band", f"[{self.lower}, {self.upper})", "0 <= lower < upper <= 1 needed")
        if self.tolerance <= 0:
            raise invalid("tolerance", self.tolerance, "it must be a number above 0")
        if self.tolerance < _SMALLEST_TOLERANCE:
            raise invalid("tolerance", self.tolerance, f"at least {_SMALLEST_TOLERANCE:g}")


@dataclass(frozen=True)
class MeterSpec:
    """A meter and the promise asked of it.

    A meter that asks a condition in place of the gap has no bands.

    The paper's symbols: `steps` is T, the bands are (r_k, eps_k) for k = 1..m, `delta` is delta.
    `delta` covers `sessions` test sets together, one unless said otherwise.
    """

    bands: tuple[Band, ...]
    steps: int
    delta: float
    protocol: Protocol = Protocol.REGULAR
    loss: str = "0-1"
    gap: Gap = Gap.ABSOLUTE
    """Whether a model that is better on the test set has a gap, too, or is in band 1."""
    bound: Bound | None = None
    """None: the tightest that is valid for the loss."""
    published: bool = False
    """Count as the paper does (pairs of model and signal) and use Hoeffding's bound."""
    count: Count = Count.CONSISTENT
    """Which histories are counted; the published analysis counts all of them."""
    drawn: float | None = None
    """Draw the band edges of every answer at random, this far apart, in place of the bands' own."""
    above: int | None = None
    """How many answers "above the ceiling" leave a test set with drawn edges in use."""
    ceiling: float | None = None
    """Answer "above the ceiling", and nothing else, when the test loss exceeds this."""
    variance_ceiling: float | None = None
    """Answer "too spread", and nothing else, when the losses on the test set vary more."""
    tenants: tuple[int, ...] = ()
    """Steps per tenant; they sum to `steps`. Empty: one developer."""
    handover: bool = False
    """Tenants may start from each other's checkpoints."""
    reverts: tuple[int, ...] = ()
    """Steps, fixed in advance, that are undone (the paper's time travel)."""
    masked_reverts: int = 0
    """How many steps the meter itself may undo without telling the signal."""
    mask_above: int = 0
    """Signals above this one are masked while masked reverts are left."""
    memory: int | None = None
    """Each model depends on at most this many last signals (an assumption about people)."""
    resets: int = 0
    """How often the incremental meter's maximum may be reset."""
    sticky: bool = False
    """Tell each reason why a model has no reading once, then only when the maximum rises."""
    sessions: int = 1
    elastic: bool = False
    """Go on after the promised steps while the history of answers is a predictable one."""
    mixture: tuple[float, float, float] = (0.5, 0.25, 0.25)
    """Shares of delta: the promised steps, and the two codes that an elastic budget bets on."""
    inputs: str = "hidden"
    """Whether developers see the test inputs: "hidden", or "public" (predictions are uploaded)."""
    classes: tuple[str | int, ...] = ()
    """The classes that may be predicted; empty: those of the validation set."""
    models: bool | str = False
    """Models may be submitted too; "onnx": ONNX files only. One can fail on the hidden inputs."""
    question: str = GAP
    """What a test set is asked: for the gap, or a condition that models pass or fail."""
    passes: int | None = None
    """How many models may pass a condition before the one that closes the test set."""
    metric: str = ""
    """Which scores of an evaluation count, as its tool calls them: chosen before any is seen."""
    disagreement: float | None = None
    """With "n - o": fail whatever differs from the old model on a larger share of rows."""
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
    also: tuple[str, ...] = ()
    """What a submission may be asked instead, if it says so: all share one budget."""
    window: int | None = None
    """A rolling test set: the batches in use at a time. `steps` are the windows of one delta."""
    submissions: int = 1
    """How many submissions each window of a rolling test set answers."""
    clusters: bool = False
    """Rows belong together: one example is a cluster, and its loss the mean of its rows'."""
    judge_error: float | None = None
    """Most rows have the word of a judge in place of a label: refuse one that errs on more."""
    pool: int | None = None
    """With a judge: how many rows have no label."""
    on_demand: bool = False
    """With "n - o": a test set is sealed without labels. Each step asks for a fixed number of them,
    where the two models differ."""

    def __post_init__(self) -> None:
        for name in ("bands", "tenants", "reverts", "mixture", "classes", "also"):
            object.__setattr__(self, name, listed(name, getattr(self, name)))
        for name in ("published", "handover", "elastic", "sticky", "clusters", "on_demand"):
            if not isinstance(getattr(self, name), bool):
                raise invalid(name, getattr(self, name), "true or false")
        if not isinstance(self.models, bool) and self.models != "onnx":
            raise invalid("models", self.models, 'true, false or "onnx"')
        object.__setattr__(self, "protocol", one_of("protocol", self.protocol, Protocol))
        object.__setattr__(self, "gap", one_of("gap", self.gap, Gap))
        object.__setattr__(self, "count", one_of("count", self.count, Count))
        if self.bound is not None:
            object.__setattr__(self, "bound", one_of("bound", self.bound, Bound))
        self._check_question()
        self._check_corpus()
        self._check_drawn()
        whole("steps", self.steps, at_least=1)
        finite("delta", self.delta)
        if not 0 < self.delta < 1:
            raise invalid("delta", self.delta, "a number between 0 and 1 (both excluded)")
        whole("sessions", self.sessions, at_least=1)
        if self.session_delta < _SMALLEST_DELTA:
            raise invalid("delta", self.delta, f"at least {_SMALLEST_DELTA:g} for each session")
        if not isinstance(self.loss, str) or not self.loss:
            raise invalid("loss", self.loss, 'the name of a loss, such as "0-1"')
        if self.corpus is None and self.tail is Bound.EXACT and not self.zero_one:
            given = "the mean of a cluster" if self.clusters else f'"{self.loss}"'
            allowed = f"needs a loss of 0 or 1 per example, not {given}: take convex"
            raise invalid("bound", "exact", allowed)
        if self.inputs not in ("hidden", "public"):
            raise invalid("inputs", self.inputs, 'either "hidden" or "public"')
        if not all(isinstance(each, str | int) for each in self.classes):
            raise invalid("classes", list(self.classes), "a list of texts or whole numbers")
        if len(set(self.classes)) != len(self.classes):
            raise invalid("classes", list(self.classes), "each class once")
        if self.ceiling is not None:
            finite("ceiling", self.ceiling)
            object.__setattr__(self, "ceiling", float(self.ceiling))
            if not 0 < self.ceiling < 1:
                raise invalid("ceiling", self.ceiling, "a loss between 0 and 1 (both excluded)")
        self._check_variance_ceiling()
        self._check_tenants()
        self._check_reverts()
        self._check_memory_and_resets()
        self._check_published()
        self._check_elastic()
        self._check_sticky()
        self._check_scores()
        self._check_window()
        self._check_on_demand()

    def _check_question(self) -> None:
        """Check the bands of a meter for the gap; a condition has none, and refuses the rest."""
        for text in self.questions:
            if not isinstance(text, str):
                raise invalid("question", text, 'a text, such as "n > 0.8 +/- 0.01"')
        if self.also:
            self._check_also()
            return
        if self._asked is None:
            for name in ("passes", "disagreement", "tolerance"):
                if getattr(self, name) is not None:
                    raise invalid(
                        name, getattr(self, name), "only with a question, or in [[bands]]"
                    )
            _check_bands(self.bands)
            return
        object.__setattr__(self, "question", BETTER if self.ladder else str(self._asked))
        if self.difference is not None and self.disagreement is None:
            needed = "a reading of n - o needs one, such as 0.1"
            raise invalid("disagreement", None, needed)
        if self.compares and self.models:
            raise invalid("models", self.models, "only predictions are compared with an old model")
        if not is_zero_one(self.loss):
            raise invalid("loss", self.loss, 'a question about n needs "0-1" or "top-K"')
        if self.clusters:
            raise invalid("clusters", True, "a question about n needs rows that are independent")
        unasked = {
            "bands": self.bands,
            f"the {self.protocol} protocol": self.protocol is not Protocol.REGULAR,
            "a signed gap": self.gap is not Gap.ABSOLUTE,
            f"the bound {self.bound}": self.bound not in (None, Bound.EXACT),
            "published": self.published,
            'count = "all"': self.count is Count.ALL,
            "drawn": self.drawn is not None,
            "above": self.above is not None,
            "ceiling": self.ceiling is not None,
            "variance ceiling": self.variance_ceiling is not None,
            "elastic": self.elastic,
            "sticky": self.sticky,
            "reverts": self.reverts,
            "masked reverts": self.masked_reverts,
            "memory": self.memory is not None,
            "resets": self.resets,
            "passes and isolated teams": self.passes is not None
            and self.tenants
            and not self.handover,
        }
        for name in (name for name, used in unasked.items() if used):
            raise invalid("question", self.question, f"no gap, so not with {name}")

    def _check_corpus(self) -> None:
        """Check what belongs to a score of the whole test set; a floor is a ceiling on its loss."""
        corpus = self.corpus
        whole("tries", self.tries, at_least=1)
        if self.tries > _MOST_TRIES:
            raise invalid("tries", self.tries, f"at most {_MOST_TRIES:,}")
        if self.rows is not None:
            whole("rows", self.rows, at_least=1)
        if self.judged:
            self._check_judge()
            return
        if self.pool is not None:
            raise invalid("pool", self.pool, "only with judge_error")
        if corpus is None:
            for name, default in (("floor", None), ("rows", None), ("tries", 1)):
                if getattr(self, name) != default:
                    allowed = 'only with a score of the whole test set, as in loss = "f1[fraud]"'
                    raise invalid(name, getattr(self, name), allowed)
            return
        if corpus.problem is not None:
            raise invalid("loss", self.loss, corpus.problem)
        if self.tries > 1 and not corpus.kind.sealed:
            raise invalid("tries", self.tries, f"sealing checks nothing for the {corpus.word}")
        names = [str(each) for each in self.classes]
        if corpus.kind.averaged and len(names) < 2:
            raise invalid("classes", names, f"an average over classes ({self.loss}) needs the list")
        if corpus.kind.averaged and len(corpus.weights(len(names))) != len(names):
            raise invalid("loss", self.loss, f"a weight for each of {len(names)} classes")
        if names and corpus.positive and corpus.positive not in names:
            raise invalid("loss", self.loss, f"one of the classes, {', '.join(names)[:200]}")
        unproved = {
            "published": self.published,
            f"the bound {self.bound}": self.bound is not None,
            "variance ceiling": self.variance_ceiling is not None,
            "clusters": self.clusters,
            f"the {self.protocol} protocol": self.protocol not in METERS,
        }
        for name in (name for name, used in unproved.items() if used):
            raise invalid("loss", self.loss, f"not with {name}: nobody has proved that count")
        if self.floor is None:
            if self.ceiling is not None:
                raise invalid("ceiling", self.ceiling, "a score has a floor: floor = 0.8")
            return
        finite("floor", self.floor)
        object.__setattr__(self, "floor", float(self.floor))
        if not 0 < self.floor < 1 or round(self.floor, 6) != self.floor:
            allowed = "a score between 0 and 1 (both excluded), with at most 6 decimals"
            raise invalid("floor", self.floor, allowed)
        if not corpus.kind.floor:
            raise invalid("floor", self.floor, f"it saves no label of the {corpus.word}")
        if self.drawn is not None:
            raise invalid("floor", self.floor, "not with drawn edges: nobody has proved it")
        ceiling = float(1 - Fraction(repr(self.floor)))
        if self.ceiling not in (None, ceiling):
            raise invalid("ceiling", self.ceiling, "a floor is one: leave it out")
        object.__setattr__(self, "ceiling", ceiling)

    def _check_also(self) -> None:
        """Check each question as if it were the only one, and that together they are counted."""
        if len(self.also) > _MOST_ALSO:
            raise invalid("also", f"{len(self.also)} questions", f"at most {_MOST_ALSO}")
        if GAP in self.also:
            raise invalid("also", GAP, 'bands are those of the question: write question = "gap"')
        uncounted = {
            f"the {self.protocol} protocol": self.protocol is not Protocol.REGULAR,
            "passes": self.passes is not None,
            "tenants": self.tenants,
            "above": self.above is not None,
            "elastic": self.elastic,
            "published": self.published,
            'count = "all"': self.count is Count.ALL,
            "reverts": self.reverts,
            "masked reverts": self.masked_reverts,
            "resets": self.resets,
            "memory": self.memory is not None,
            "clusters": self.clusters,
            "on_demand": self.on_demand,
        }
        if self.question.strip() != GAP:
            of_bands = {each.name: getattr(self, each.name) != each.default for each in _OF_THE_GAP}
            uncounted |= of_bands | {"bands": self.bands}
        for name in (name for name, used in uncounted.items() if used):
            raise invalid("also", "; ".join(self.questions), f"not with {name}")
        if self.disagreement is not None and not any(each.disagreement for each in self.each):
            raise invalid("disagreement", self.disagreement, 'only with "n - o"')
        if self.tolerance is not None and BETTER not in (each.question for each in self.each):
            raise invalid("tolerance", self.tolerance, "conditions have their own, after +/-")
        names = tuple(each.question for each in self.each)
        if len(set(names)) < len(names):
            raise invalid("also", list(self.also), "each question once")
        object.__setattr__(self, "question", names[0])
        object.__setattr__(self, "also", names[1:])

    def _check_judge(self) -> None:
        """Check what belongs to a judge, whose estimate has a tail of its own."""
        finite("judge_error", self.judge_error)
        if not 0 < (self.judge_error or 0) < 1:
            raise invalid("judge_error", self.judge_error, "a share between 0 and 1")
        if self.pool is None:
            raise invalid("pool", None, "with judge_error: the rows without a label, as 100000")
        whole("pool", self.pool, at_least=1)
        if self.loss != "0-1":
            raise invalid("loss", self.loss, "a judge needs the loss 0-1")
        unproved = {
            "published": self.published,
            f"the bound {self.bound}": self.bound is not None,
            "ceiling": self.ceiling is not None,
            "floor": self.floor is not None,
            "question": self._asked is not None,
            "also": self.also,
            "window": self.window is not None,
            "clusters": self.clusters,
            f"the {self.protocol} protocol": self.protocol not in METERS,
        }
        for name in (name for name, used in unproved.items() if used):
            raise invalid("judge_error", self.judge_error, f"not with {name}: nobody has proved it")

    def _check_drawn(self) -> None:
        """Refuse what no proof covers, and leave one band, from 0 to 1, for its tolerance."""
        if self.drawn is None:
            if self.above is not None:
                raise invalid("above", self.above, "only with drawn edges and a ceiling")
            return
        finite("drawn", self.drawn)
        object.__setattr__(self, "drawn", float(self.drawn))
        if not _NARROWEST_DRAWN <= self.drawn <= 1:
            raise invalid("drawn", self.drawn, f"a distance from {_NARROWEST_DRAWN:g} to 1")
        if round(self.drawn, 6) != self.drawn:  # so that every drawn edge is an exact decimal
            raise invalid("drawn", self.drawn, "at most 6 decimals")
        if len(set(self.tolerances)) > 1:
            raise invalid("tolerance", list(self.tolerances), "drawn edges need one for all bands")
        unproved = {
            f"the {self.protocol} protocol": self.protocol is not Protocol.REGULAR,
            "elastic": self.elastic,
            "published": self.published,
            'count = "all"': self.count is Count.ALL,
            "reverts": self.reverts,
            "masked reverts": self.masked_reverts,
            "resets": self.resets,
            "memory": self.memory is not None,
        }
        for name in (name for name, used in unproved.items() if used):
            raise invalid("drawn", self.drawn, f"not with {name}: nobody has proved that count")
        if (self.ceiling is None) != (self.above is None):
            given = "a ceiling" if self.above is None else "no ceiling"
            needed = "drawn edges need both: ceiling, and above: the answers above it, such as 3"
            raise invalid("above", f"{self.above} with {given}", needed)
        if self.above is not None:
            whole("above", self.above, at_least=0)
            if self.above > _MOST_ABOVE:
                raise invalid("above", self.above, f"at most {_MOST_ABOVE}")
        object.__setattr__(self, "bands", (Band(0.0, 1.0, self.tolerances[0]),))

    def _check_variance_ceiling(self) -> None:
        if self.variance_ceiling is None:
            return
        finite("variance ceiling", self.variance_ceiling)
        object.__setattr__(self, "variance_ceiling", float(self.variance_ceiling))
        if self.zero_one:
            raise invalid(
                "variance ceiling", self.variance_ceiling, "not for losses of 0 or 1: take ceiling"
            )
        eps = self.tolerances[0]
        least = max(0.0, eps / 3 - eps**2)  # so far the proof of `log_variance` reaches
        if eps > 0.15 or not least <= self.variance_ceiling <= 0.25 or self.variance_ceiling == 0:
            allowed = f"from {least:g} to 0.25 at this tolerance, which must not exceed 0.15"
            raise invalid("variance ceiling", self.variance_ceiling, allowed)
        if self.protocol not in METERS or self.drawn is not None:
            raise invalid("variance ceiling", self.variance_ceiling, "only meters with fixed edges")

    def _check_tenants(self) -> None:
        for share in self.tenants:
            whole("tenants", share, at_least=1)
        if self.tenants and sum(self.tenants) != self.steps:
            given = ",".join(map(str, self.tenants))
            raise invalid("tenants", given, f"must sum to the steps, {self.steps}")
        if self.handover and not self.tenants:
            raise invalid("handover", True, "only with several teams: give their steps as tenants")

    def _check_reverts(self) -> None:
        for index, step in enumerate(self.reverts):
            whole("reverts", step, at_least=1)
            if step > self.steps:
                raise invalid("reverts", step, f"a step from 1 to {self.steps}")
            if index and step < self.reverts[index - 1]:
                raise invalid("reverts", step, "steps in increasing order")
            if step - index < 1:
                raise invalid("reverts", step, "one revert undoes one step: too many too early")
        whole("masked reverts", self.masked_reverts, at_least=0)
        whole("mask above", self.mask_above, at_least=0)
        if bool(self.masked_reverts) != bool(self.mask_above):
            given = f"{self.masked_reverts} reverts, above band {self.mask_above}"
            raise invalid("masked reverts", given, "both a number of reverts and a band needed")
        if self.masked_reverts >= self.steps:
            raise invalid("masked reverts", self.masked_reverts, f"fewer than {self.steps} steps")
        if self.mask_above and self.mask_above >= self.signals:
            raise invalid("mask above", self.mask_above, f"a band from 1 to {self.signals - 1}")
        if self.reverts and self.masked_reverts:
            raise invalid("reverts", list(self.reverts), "not together with masked reverts")

    def _check_memory_and_resets(self) -> None:
        if self.memory is not None:
            whole("memory", self.memory, at_least=0)
        whole("resets", self.resets, at_least=0)
        if self.resets and self.protocol is not Protocol.INCREMENTAL:
            raise invalid("resets", self.resets, "only the incremental meter has resets")
        special = {
            "reverts": bool(self.reverts),
            "masked reverts": bool(self.masked_reverts),
            "memory": self.memory is not None,
            "resets": bool(self.resets),
        }
        named = [name for name, used in special.items() if used]
        if len(named) > 1:
            raise invalid(named[0], f"with {named[1]}", "no count is known for both at once")
        if named and self.tenants:
            raise invalid("tenants", ",".join(map(str, self.tenants)), f"not with {named[0]}")
        if self.protocol not in METERS:
            for name in [*named, *(["tenants"] if self.tenants else [])]:
                raise invalid(name, f"with the {self.protocol} protocol", "only meters have it")

    def _check_published(self) -> None:
        if not self.published:
            return
        if self.bound not in (None, Bound.HOEFFDING):
            raise invalid("bound", str(self.bound), "the published analysis uses hoeffding")
        beyond = {
            "ceiling": self.ceiling,
            "variance ceiling": self.variance_ceiling,
            "masked reverts": self.masked_reverts or None,
            "memory": self.memory,
            "resets": self.resets or None,
        }
        if self.models:
            raise invalid(
                "models", self.models, "the paper has no count for it: leave out published"
            )
        if self.may_fail:
            raise invalid("loss", self.loss, "the paper has no count for it: leave out published")
        for name, value in beyond.items():
            if value is not None:
                raise invalid(name, value, "the paper has no count for it: leave out published")

    def _check_elastic(self) -> None:
        for share in self.mixture:
            finite("mixture", share)
        shares = list(self.mixture)
        if len(shares) != 3 or min(shares) < 0 or shares[0] == 0 or sum(shares) > 1 + 1e-12:
            raise invalid("mixture", shares, "three shares of at most 1 in all, the first above 0")
        if not self.elastic:
            return
        if self.protocol not in METERS or self.published:
            raise invalid("elastic", True, "only meters with the tightened count are elastic")
        if self.memory is not None or self.reverts:
            raise invalid("elastic", True, "not with memory or reverts fixed in advance")

    def _check_sticky(self) -> None:
        if not self.sticky:
            return
        if self.protocol is not Protocol.INCREMENTAL or not self.silent_answers:
            allowed = "an incremental meter with a ceiling, or with models that may fail"
            raise invalid("sticky", True, f"only for {allowed}")
        uncounted = {
            "elastic": self.elastic,
            "handover": self.handover,
            "reverts": self.reverts,
            "masked reverts": self.masked_reverts,
            "resets": self.resets,
            "memory": self.memory is not None,
        }
        for name in (name for name, used in uncounted.items() if used):
            raise invalid("sticky", True, f"not with {name}: nobody has proved that count")

    @property
    def condition(self) -> Condition | None:
        """What models pass or fail; None: the question is a reading."""
        return self._asked if isinstance(self._asked, Condition) else None

    @property
    def difference(self) -> Difference | None:
        """The reading of n - o that is asked; None: the question is another one."""
        return self._asked if isinstance(self._asked, Difference) else None

    @property
    def compares(self) -> bool:
        """Whether each answer is about a model beside an old one."""
        return self._asked is not None and self._asked.needs_old

    @cached_property
    def _asked(self) -> Condition | Difference | None:
        if self.also:
            return self.each[0]._asked
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
    def questions(self) -> tuple[str, ...]:
        """All that a submission may be asked, the usual one first."""
        return (self.question, *self.also)

    @cached_property
    def each(self) -> tuple[Self, ...]:
        """This meter as if it asked one of its questions only, for every one of them."""
        return tuple(map(self._alone, self.questions)) if self.also else (self,)

    def _alone(self, question: str) -> Self:
        if question.strip() == GAP:
            return self.replace(also=(), tolerance=None, disagreement=None)
        own = None
        if question.strip() == BETTER:  # where nothing else is said, as precise as the bands
            own = self.tolerance or min(self.tolerances, default=None)
        compares = parse_question(question, tolerance=own).compares
        unasked = {field.name: field.default for field in _OF_THE_GAP}
        return self.replace(
            question=question,
            also=(),
            bands=(),
            tolerance=own,
            disagreement=self.disagreement if compares else None,
            **unasked,
        )

    def number_asked(self, question: str) -> int:
        """Return which of the questions is meant, from 0; nothing said: the usual one.

        Raises:
            InvalidInput: this meter does not ask it.
        """
        meant = question.strip()
        if not meant:
            return 0
        with suppress(InvalidInput):  # as it is written here, with or without spaces
            meant = meant if meant == BETTER else str(parse_question(meant))
        if meant not in self.questions:
            raise invalid("ask", question[:200], f"one of: {'; '.join(self.questions)}")
        return self.questions.index(meant)

    @property
    def promotes(self) -> bool:
        """Whether models are compared with one that was promoted."""
        return any(each.compares and not each.ladder for each in self.each)

    @property
    def ladder(self) -> bool:
        """Whether the old model of each answer is the last one that passed."""
        return self.question.strip() == BETTER

    def _check_window(self) -> None:
        """Refuse what the proof for rolling test sets does not cover."""
        whole("submissions", self.submissions, at_least=1)
        if self.window is None:
            if self.submissions != 1:
                raise invalid("submissions", self.submissions, "only with a window")
            return
        whole("window", self.window, at_least=1)
        unproved = {
            f'the question "{self.question}"': self.question != GAP,
            f"the {self.protocol} protocol": self.protocol is not Protocol.REGULAR,
            f"the loss {self.loss}": not is_zero_one(self.loss),
            f"the bound {self.bound}": self.bound not in (None, Bound.EXACT),
            "unequal tolerances": len(set(self.tolerances)) > 1,
            "published": self.published,
            'count = "all"': self.count is Count.ALL,
            "ceiling": self.ceiling is not None,
            "tenants": self.tenants,
            "sessions": self.sessions > 1,
            "elastic": self.elastic,
            "reverts": self.reverts,
            "masked reverts": self.masked_reverts,
            "memory": self.memory is not None,
            "clusters": self.clusters,
        }
        for name in (name for name, used in unproved.items() if used):
            raise invalid("window", self.window, f"not with {name}: no proof covers it")

    def _check_on_demand(self) -> None:
        """Refuse what reads labels of rows on which the two models agree."""
        if not self.on_demand:
            return
        if not self.compares or self.disagreement is None:
            needed = 'only with "n - o" and a disagreement, which says how many labels a step needs'
            raise invalid("on_demand", True, needed)
        clauses = () if self.condition is None else self.condition.clauses
        unknown = {
            # Whoever waits would keep others waiting: that tells of their submissions.
            "tenants": self.tenants,
            'a clause about "n"': any(each.variable is Variable.ACCURACY for each in clauses),
        }
        for name in (name for name, used in unknown.items() if used):
            raise invalid("on_demand", True, f"not with {name}")

    def quota(self, rows: int) -> int:
        """Return how many labels a step asks for: no more rows can differ in a model that passes.

        Raises:
            ValueError: labels are not asked for on demand.
        """
        if not self.on_demand or self.disagreement is None:
            raise ValueError("only a meter with labels on demand has a quota")
        return math.ceil(rows * Fraction(repr(self.disagreement)))

    def _check_scores(self) -> None:
        if not isinstance(self.metric, str) or len(self.metric) > _LONGEST_METRIC:
            raise invalid("metric", self.metric, f"a text of at most {_LONGEST_METRIC} characters")
        if self.metric and not self.takes_scores:
            raise invalid("metric", self.metric, 'only with loss = "score"')
        if self.models and self.clusters:
            raise invalid("models", self.models, "not with clusters: submit predictions")
        if self.models and self.takes_scores:
            raise invalid("models", self.models, f"the loss {self.loss} takes scores, not models")

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

    @property
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
        return self.clusters or not is_exact(self.loss)

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
        return bool(self.models) or ":" in self.loss

    @property
    def merges(self) -> bool:
        """Whether edges near the ceiling are left out of an answer.

        No promise broken, "above the ceiling" then stands for one band, and promises something:
        the true loss is at least the ceiling minus the tolerance. A test set that counts all
        histories keeps its edges, and so do meters whose bands are coded or remembered.
        """
        plain = not (self.masked_reverts or self.elastic) and self.memory is None
        # A variance ceiling is not looked at above the ceiling, so its tail promises nothing there.
        fixed = self.protocol is Protocol.REGULAR and self.drawn is self.variance_ceiling is None
        return self.ceiling is not None and self.count is Count.CONSISTENT and plain and fixed

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
        """The number of answers that promise nothing, and can come at any step.

        On a sticky meter each of them comes once.
        """
        ceilings = (None if self.merges else self.ceiling, self.variance_ceiling)
        silent = int(self.may_fail) + int(self.may_be_too_few)
        return sum(each is not None for each in ceilings) + silent

    @property
    def session_delta(self) -> float:
        """The failure probability that one test set may use, and of it one try at sealing."""
        return self.delta / (self.sessions * self.tries)

    @property
    def tail(self) -> Bound:
        """The bound in force: the one asked for, else the tightest valid for the loss."""
        if self.published:
            return Bound.HOEFFDING
        if self.bound is not None:
            return self.bound
        if self.corpus is not None:
            return _BOUNDS.get(self.corpus.name, Bound.EXACT)
        return Bound.EXACT if self.zero_one else Bound.CONVEX

    @classmethod
    def uniform(
        cls,
        *,
        signals: int | None = None,
        tolerance: float | Sequence[float],
        steps: int,
        delta: float,
        edges: Sequence[float] | None = None,
        **options: Any,
    ) -> Self:
        """Build a meter from one tolerance, or one for each of its m bands.

        `edges` are the m - 1 inner edges of the bands. Given `signals` or several tolerances
        instead, the bands are equally wide; given neither, they have the default edges.
        """
        if signals is None and edges is None and not isinstance(tolerance, Sequence):
            edges = default_edges(tolerance)
        if signals is None:
            given = tolerance if isinstance(tolerance, Sequence) else ()
            signals = len(given) if edges is None else len(edges) + 1
        whole("signals", signals, at_least=1)
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

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> Self:
        """Build from the tables of a meter.toml: [meter] and one [[bands]] per signal."""
        unknown = sorted(set(data) - {"meter", "bands"})
        if unknown:
            raise invalid("meter.toml", unknown[0], "only [meter] and [[bands]] are known")
        meter, bands = data.get("meter"), data.get("bands")
        if not isinstance(meter, Mapping):
            raise invalid("meter.toml", "no [meter] table", "it must hold steps and delta")
        if bands is None and meter.get("question", GAP) != GAP:
            bands = []
        elif not isinstance(bands, list) or not bands:
            raise invalid("meter.toml", "no [[bands]]", "give lower, upper and tolerance of each")
        known = {field.name for field in dataclasses.fields(cls)} - {"bands"}
        for key in meter:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1)
                meant = (
                    f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
                )
                raise InvalidInput(f"meter.toml: [meter] {key[:40]!r} is no setting: {meant}")
        for key in ("steps", "delta"):
            if key not in meter:
                example = {"steps": "10", "delta": "0.05"}[key]
                raise InvalidInput(f"meter.toml: [meter] {key} is missing: add {key} = {example}")
        return cls(
            bands=tuple(_band(number, band) for number, band in enumerate(bands, 1)), **meter
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the tables of a meter.toml; defaults are left out."""
        meter: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            required = field.default is dataclasses.MISSING
            if field.name != "bands" and (required or value != field.default):
                plain = str(value) if isinstance(value, StrEnum) else value
                meter[field.name] = list(plain) if isinstance(plain, tuple) else plain
        if self.floor is not None:
            del meter["ceiling"]  # it follows from the floor
        if self._asked is not None:
            return {"meter": meter}
        return {"meter": meter, "bands": [dataclasses.asdict(band) for band in self.bands]}

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a meter.toml."""
        try:
            data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            reason = error.strerror or error
            raise InvalidInput(f"{path}: cannot be read ({reason}): give a meter.toml") from error
        except RecursionError:
            raise InvalidInput(f"{path}: not a valid TOML file: nested too deeply") from None
        except ValueError as error:  # also of a number with thousands of digits
            raise InvalidInput(f"{path}: not a valid TOML file: {error}") from error
        try:
            return cls.from_mapping(data)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {str(error).removeprefix('meter.toml: ')}") from error

    def to_toml(self) -> str:
        """Return it as the text of a meter.toml."""
        import tomli_w

        return tomli_w.dumps(self.to_mapping())

    def write(self, path: Path) -> None:
        """Write as meter.toml."""
        path.write_text(self.to_toml(), encoding="utf-8")


_OF_THE_GAP = tuple(
    field
    for field in dataclasses.fields(MeterSpec)
    if field.name in ("gap", "bound", "drawn", "ceiling", "variance_ceiling")
)


def _band(number: int, data: object) -> Band:
    keys = {"lower", "upper", "tolerance"}
    if not isinstance(data, Mapping) or set(data) != keys:
        raise invalid(f"band {number}", data, "exactly lower, upper and tolerance needed")
    return Band(**data)


def _check_bands(bands: tuple[Band, ...]) -> None:
    if not bands:
        raise invalid("bands", "none", "at least one")
    if not all(isinstance(band, Band) for band in bands):
        raise invalid("bands", bands, "a sequence of Band")
    if bands[0].tolerance >= 1:  # a later band may promise nothing; the first one must
        raise invalid("tolerance", bands[0].tolerance, "the first band's must be below 1")
    if bands[0].lower != 0:
        raise invalid("bands", f"first band starts at {bands[0].lower}", "it must start at 0")
    if bands[-1].upper != 1:
        raise invalid("bands", f"last band ends at {bands[-1].upper}", "it must end at 1")
    for number, (band, following) in enumerate(itertools.pairwise(bands), 1):
        if band.upper != following.lower:
            kind = "gap" if band.upper < following.lower else "overlap"
            given = f"{kind} between {band.upper} and {following.lower}"
            raise invalid("bands", given, f"band {number + 1} must start where band {number} ends")
        if following.tolerance < band.tolerance:
            given = f"{band.tolerance} then {following.tolerance}"
            raise invalid("tolerance", given, "tolerances must not decrease from band to band")
