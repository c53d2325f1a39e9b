"""Budgets whose answers all have one level: which steps there are, and what is counted of them."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, ClassVar, Literal, NamedTuple

from easeml_meter.errors import invalid
from easeml_meter.promise.schema import NO_END, Setting, Settings
from easeml_meter.promise.shapes import Answer, Flat, Shape, State, Verdict

MOST_STEPS = 10**9


class Run(NamedTuple):
    """So many trees, each with its events at depths first..last; stage 1 is after a top-up."""

    times: int
    first: int
    last: int
    stage: int = 0


class Plain(Settings, frozen=True, kw_only=True):
    """A budget that remembers nothing: every step is as good as another."""

    start: ClassVar[State] = 0
    teams: ClassVar[tuple[int, ...]] = ()
    """The answers of each team; nothing for one."""
    apart: ClassVar[int] = 1
    """How many teams have a history of their own."""
    last_pass: ClassVar[int | None] = None
    """The pass of this number closes the test set."""
    last_alarm: ClassVar[int | None] = None
    """The alarm of this number does."""

    def after(self, spent: State, answer: Answer) -> State:
        """Return the state after an answer."""
        return spent

    def open(self, spent: State) -> bool:
        """Return whether the kind of answers so far leaves the test set open."""
        return True


class Steps(Plain, frozen=True, kw_only=True):
    """So many answers of one test set; or no end, with levels that fall."""

    steps: Annotated[
        int | Literal["no end"],
        Setting("answers of one test set", least=1, most=MOST_STEPS),
    ] = 10
    levels: Annotated[
        Literal["equal", "falling"],
        Setting('"falling": the first answers are sharper (always so without an end)'),
    ] = "equal"

    def runs(self) -> tuple[Run, ...]:
        """All histories of the steps before an answer."""
        if self.falls or isinstance(self.steps, str):
            raise invalid("levels", "falling", "levels of their own are not counted alike")
        return (Run(1, 0, self.steps - 1),)

    @property
    def falls(self) -> bool:
        """Whether each step has a level of its own."""
        return self.levels == "falling" or self.steps == NO_END

    def after(self, spent: State, answer: Answer) -> State:
        """Count the answers, if levels follow them."""
        if not self.falls or not isinstance(spent, int):
            return spent
        return spent + 1

    def level(self, spent: State, shape: Shape) -> Fraction:
        """Return the share of delta of the next answer, where levels fall.

        The lengths of histories share it as 1/T, or 1/(t (t+1)) without an end; the histories of
        one length, which are b^(t-1) for readings and at most 2^(t-1) for claims, share that.
        """
        done = spent if isinstance(spent, int) else 0
        endless = isinstance(self.steps, str)
        length = Fraction(1, (done + 1) * (done + 2) if endless else int(self.steps))
        if isinstance(shape, Flat):
            histories: Fraction = shape.b**done
            return length / histories
        if isinstance(shape, Verdict):
            return length / int(2**done)
        raise invalid("levels", "falling", 'not with "worst": ask for each answer by itself')


class Reverts(Plain, frozen=True, kw_only=True):
    """Steps fixed in advance that are undone (the paper's time travel)."""

    steps: Annotated[int, Setting("answers of one test set", least=1, most=MOST_STEPS)]
    reverts: Annotated[
        tuple[int, ...],
        Setting("steps, fixed in advance, that are undone: nobody acts on their answers", least=1),
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        if list(self.reverts) != sorted(self.reverts) or self.reverts[-1:] > (self.steps,):
            raise invalid("reverts", list(self.reverts), f"rising steps, at most {self.steps}")
        for before, at in enumerate(self.reverts):
            if at <= before:
                raise invalid("reverts", at, "one revert undoes one step: too many too early")

    def runs(self) -> tuple[Run, ...]:
        """The steps that are kept form a tree; an undone one adds what could stand there."""
        kept = self.steps - len(self.reverts)
        tree = (Run(1, 0, kept - 1),) if kept else ()
        return (*tree, *(Run(1, depth, depth) for depth in self.undone))

    @property
    def undone(self) -> tuple[int, ...]:
        """After how many kept answers each undone step comes."""
        return tuple(at - 1 - before for before, at in enumerate(self.reverts))


class Memory(Plain, frozen=True, kw_only=True):
    """Developers whose models depend on a few last answers (an assumption about people)."""

    steps: Annotated[int, Setting("answers of one test set", least=1, most=MOST_STEPS)]
    memory: Annotated[
        int, Setting("a model depends on at most so many last answers; 0: nobody looks", least=0)
    ]

    def runs(self) -> tuple[Run, ...]:
        """At most the histories of Steps; `proofs` takes the windows where they are fewer."""
        if self.memory == 0:
            return (Run(self.steps, 0, 0),)
        return (Run(1, 0, self.steps - 1),)
