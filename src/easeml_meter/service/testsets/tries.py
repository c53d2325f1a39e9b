"""Tries at sealing: whether a test set has enough of the rows that its score counts.

Whoever draws again until a test set suits has chosen it. So the check is made once for each test
set that is delivered, every failure is in the audit chain, and after as many as delta was divided
by no other is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import Event, Part, TestSet
from easeml_meter.errors import InvalidInput, WrongPhase
from easeml_meter.scoring.classes import classes_in_force
from easeml_meter.scoring.corpora import counted_in
from easeml_meter.scoring.judged import judged_in
from easeml_meter.service.place import TEST_SETS, Workspace
from easeml_meter.spec import MeterSpec
from easeml_meter.stats.rounding import as_written, at_most
from easeml_meter.storage.books import Books
from easeml_meter.vault.sealing import SealedTestSet


def check_enough(
    space: Workspace,
    state: MeterState,
    sealed: SealedTestSet,
    fingerprint: str,
    parts: Sequence[Part] = (),
) -> None:
    """Refuse a test set with too few rows that count, and enter that it was tried.

    The same rows again, in whatever file, are refused again, and are no further try. The parts that
    it was made of are withdrawn: together with fresh rows, they would be no fresh draw.

    Raises:
        InvalidInput: there are too few.
        WrongPhase: it was tried as often as was planned.
    """
    spec, wanted = state.spec, state.requested()
    if not spec.fixes_rows:
        return
    with space.reading() as books:
        known = fingerprint in _failed(space, books, wanted)
        if not known:
            this_try(space, books, spec, wanted)
    if not known and _is_enough(space, state, sealed):
        return
    with space.writing() as books:
        wanted = space.state(books).requested()
        if not known:
            details = {
                "generation": wanted.number,
                "rows": sealed.rows,
                "try": this_try(space, books, spec, wanted),
                "tries": spec.tries,
                "digest": fingerprint,
            }
            # Beside the test sets, as journals are: an older database put back forgets no try.
            space.files.put(f"{TEST_SETS}/{wanted.number}-{fingerprint}{_TRIED}", b"")
            books.audit.append(wanted.meter, space.now(), Event.SEALING_FAILED, details)
        used = len(_failed(space, books, wanted))
        here = books.parts.all(wanted)
        for part in (each for each in parts if each in here):
            withdraw(space, books, part)
    for part in parts:
        space.files.remove(part.blob)
    # How many there are is not said: it is a count of hidden labels.
    given = f"test set {wanted.number}: {_lacking(state)} (try {used} of {spec.tries})"
    if used >= spec.tries:
        raise InvalidInput(f"{given}: {_NO_TRY_LEFT}")
    gone = " (its parts were withdrawn)" if parts else ""
    raise InvalidInput(f"{given}: draw another one, of fresh rows{gone}")


def withdraw(space: Workspace, books: Books, part: Part) -> None:
    """Enter that a part was taken back."""
    books.parts.remove(part)
    details = {"generation": part.generation, "part": part.number, "rows": part.rows}
    books.audit.append(part.meter, space.now(), Event.PART_WITHDRAWN, details)


_TRIED = ".tried"
"""How the note ends that rows were tried."""
_NO_TRY_LEFT = (
    "no try is left, since drawing until one suits breaks the promise: make a new meter, "
    "with more rows or more tries in meter.toml"
)


def this_try(space: Workspace, books: Books, spec: MeterSpec, wanted: TestSet) -> int:
    """Return the number of the try that a delivery is.

    Raises:
        WrongPhase: it was tried as often as was planned.
    """
    used = len(_failed(space, books, wanted)) if spec.fixes_rows else 0
    if spec.fixes_rows and used >= spec.tries:
        tried = "once" if used == 1 else f"{used:,} times"
        raise WrongPhase(f"test set {wanted.number} was tried {tried}: {_NO_TRY_LEFT}")
    return used + 1


def _is_enough(space: Workspace, state: MeterState, sealed: SealedTestSet) -> bool:
    spec, loss = state.spec, space.loss(state.spec)
    classes = classes_in_force(spec, state.validation)
    labels = map(sealed.labels, range(sealed.row_groups))
    if not spec.judged:
        counted = counted_in(loss, classes, labels)
        return counted is None or counted >= state.plan.size
    judged = judged_in(classes, labels)
    if (judged.labels, judged.pool) != (spec.rows, spec.pool):
        raise InvalidInput(
            f"rows: {judged.labels:,} with a label and {judged.pool:,} without one given, "
            f"{spec.rows:,} and {spec.pool:,} needed"
        )
    return Fraction(judged.wrong, judged.labels) <= as_written(spec.judge_error or 0.0)


def _lacking(state: MeterState) -> str:
    corpus, spec = state.spec.corpus, state.spec
    if corpus is None:
        most = at_most(spec.judge_error or 0.0)
        return f"the judge errs on more than {most} of the labels"
    return f"too few {corpus.counted(spec.classes)}, {state.plan.size:,} are needed"


def _failed(space: Workspace, books: Books, wanted: TestSet) -> set[str]:
    """Return the fingerprints of the rows that were tried and refused."""
    links = books.audit.of(wanted.meter, Event.SEALING_FAILED)
    found = [link.details for link in links if link.details["generation"] == wanted.number]
    start = f"{wanted.number}-"
    names = (name for name in space.files.names(TEST_SETS) if name.endswith(_TRIED))
    kept = {name[len(start) : -len(_TRIED)] for name in names if name.startswith(start)}
    return kept | {str(details["digest"]) for details in found}
