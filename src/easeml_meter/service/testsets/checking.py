"""The checks of a test set by itself: labels too few or of no class, too few that a score counts.

They need nothing but its rows and what the meter asks for, so the labeler's machine runs them
before it seals, and the meter again when the sealed file arrives.

Whoever draws again until a test set suits has chosen it. So whether it has enough of the rows that
its score counts is checked once for each test set that is delivered, every failure is in the audit
chain, and after as many as delta was divided by no other is taken.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from easeml_meter.core.history import MeterState
from easeml_meter.core.model import Event, LabelRequest, Part, TestSet, ValidationSet
from easeml_meter.core.questions.planning import following, follows, promise_of
from easeml_meter.errors import InvalidInput, WrongPhase, invalid
from easeml_meter.scoring.classes import Classes, classes_in_force
from easeml_meter.scoring.corpora import counted_in
from easeml_meter.scoring.judged import hidden_loss, judged_in
from easeml_meter.scoring.losses import Loss, names_as_labels, parse_loss
from easeml_meter.scoring.outputs import OF_CLASSES, read_labels
from easeml_meter.scoring.predictions import InBatches
from easeml_meter.scoring.validation import may_be_classes, strata_of
from easeml_meter.service.place import TEST_SETS, Workspace
from easeml_meter.spec import MeterSpec
from easeml_meter.storage.books import Books
from easeml_meter.tables.groups import StrataNamed
from easeml_meter.tables.source import excerpt
from easeml_meter.vault.digests import shared_rows
from easeml_meter.vault.keys import fingerprint_key
from easeml_meter.vault.overlap import Rows
from easeml_meter.vault.sealing import SealedTestSet
from easeml_meter.vault.survey import NAMED

_MOST_STRANGERS = 1000
"""Distinct labels outside the class list that are counted one by one."""


@dataclass(frozen=True)
class Asked:
    """What a test set must be, as far as a labeler may know it."""

    request: LabelRequest
    classes: Classes | None
    """The class list in force; None: the loss has none, or nobody has given one yet."""
    loss: Loss | None
    """None: a function that only the meter's machine has, which checks the labels there."""
    text_labels: bool = True
    """Whether labels are names, which have one text form, and not numbers to calculate with."""
    exactly: bool = False
    """Whether there must be no more rows than asked for: a size fixed beforehand is a promise."""
    clusters: bool = False
    """Whether one example is a cluster of rows."""
    pool: int | None = None
    """How many rows have the word of a judge alone; None: there is no judge."""
    on_demand: bool = False
    """Whether the rows are sealed without labels, which are asked for later."""
    strata: StrataNamed | None = None
    """The strata, of which each has a size fixed beforehand; None: there are none."""
    follows: MeterSpec | None = None
    """The meter, if its plan follows the rows that are delivered."""

    @classmethod
    def elsewhere(
        cls, request: LabelRequest, spec: MeterSpec, latest: ValidationSet | None
    ) -> Asked:
        """Return what a server asks for; no function that the server names is imported."""
        # MODULE:FUNCTION would be code of the server's choosing on the labeler's machine.
        sample = spec.meter.sample
        loss = None if sample.measured.own else hidden_loss(parse_loss(sample.loss), spec)
        classes = classes_in_force(spec, latest)
        return cls.of(request, spec, classes, loss)

    @classmethod
    def of(
        cls, request: LabelRequest, spec: MeterSpec, classes: Classes | None, loss: Loss | None
    ) -> Asked:
        """Return what a meter asks for."""
        return cls(
            request,
            classes,
            loss,
            text_labels=names_as_labels(spec.meter.sample.loss),
            exactly=spec.meter.sample.fixes_rows or spec.meter.sample.parts is not None,
            clusters=spec.meter.sample.grouped,
            pool=spec.meter.sample.unlabelled or None,
            on_demand=spec.meter.sample.orders_labels,
            strata=strata_of(spec),
            follows=spec if follows(spec) else None,
        )

    @property
    def whole(self) -> bool:
        """Whether a test set comes in one file."""
        return self.clusters or self.strata is not None

    def refuse_part(self) -> None:
        """Refuse some of the rows where all of them come in one file."""
        if self.whole:
            what = "clusters" if self.clusters else "strata"
            raise invalid("part", True, f"a test set of {what} is delivered whole")

    def check_strata(self, table: InBatches, columns: Collection[str]) -> None:
        """Refuse a test set whose strata have other sizes than were planned."""
        if self.strata is None:
            return
        if self.strata.column not in columns:
            raise invalid("stratum column", "none", f"{self.strata.column!r} in each row")
        found = self.strata.of(table.batches([self.strata.column])).sizes.tolist()
        needed = dict(self.request.strata)
        for name, rows in zip(self.strata.names, found, strict=True):
            if rows != needed[name]:
                raise InvalidInput(
                    f"stratum {excerpt(name, 40)}: {rows:,} rows given, exactly {needed[name]:,} "
                    "needed: a size that was not fixed before the rows were drawn breaks the "
                    "promise"
                )

    def check_rows(self, rows: int, *, part: bool = False, accepted: bool = False) -> None:
        """Refuse fewer examples than the plan needs, or can follow and the labeler has `accepted`.

        A part may have fewer rows.
        """
        needed, here = self.request.test_set.labels_needed, self.request.labels_here
        if self.pool is not None:
            self._check_pool(rows, needed, part=part)
            return
        if self.exactly and rows + here > needed:
            raise InvalidInput(
                f"labels: {rows + here:,} given, exactly {needed:,} needed: a size that was not "
                "fixed before the rows were drawn breaks the promise"
            )
        if part or rows + here >= needed:
            return
        promise = self.follows and promise_of(following(self.follows, rows + here))
        if promise and accepted:
            return
        if promise:
            what = "clusters" if self.clusters else "labels"
            raise InvalidInput(
                f"{what}: {rows + here:,} given, {needed:,} planned, which weakens the promise: "
                f"{promise}. If they are all there are, confirm it with --yes"
            )
        if self.clusters:
            raise InvalidInput(
                f"clusters: {rows:,} given, {needed:,} needed: label the rows of "
                f"{needed - rows:,} more"
            )
        arrived = f" and {here:,} have arrived" if here else ""
        what, verb = ("inputs", "draw") if self.on_demand else ("labels", "label")
        raise InvalidInput(
            f"{what}: {rows:,} given{arrived}, {needed:,} needed: {verb} {needed - here - rows:,} "
            "more rows, or deliver these as a part (--part)"
        )

    def _check_pool(self, rows: int, needed: int, *, part: bool) -> None:
        if part:
            raise InvalidInput("part: rows with a judge come in one file, labelled ones and others")
        if rows != needed + (self.pool or 0):
            raise InvalidInput(
                f"rows: {rows:,} given, exactly {needed:,} with a label and {self.pool:,} without "
                "one are needed"
            )

    def unknown_labels(self, columns: Iterable[Any]) -> UnknownLabels:
        """Refuse labels that the loss cannot take; count those outside the class list."""
        row, found, loss, classes = 1, UnknownLabels(), self.loss, self.classes
        if loss is None:
            return found
        of_classes = loss.output in OF_CLASSES
        for labels in columns:
            if of_classes and classes is None:  # whatever the class list will be
                if not may_be_classes(labels.type):
                    given = f"type {excerpt(labels.type)} given"
                    raise InvalidInput(f"labels: {given}, text or whole numbers needed")
            else:
                codes = read_labels(labels, loss, classes, first_row=row)
                if of_classes and classes is not None:
                    strange = (codes if codes.ndim == 1 else codes[:, 0]) == len(classes)
                    found = found.plus(labels.filter(pa.array(strange)))
            row += len(labels)
        return found


@dataclass(frozen=True)
class UnknownLabels:
    """Labels outside the class list: no model predicts them, so every model is wrong there."""

    counts: tuple[tuple[str, int], ...] = ()
    """Each label as text, and in how many rows it stands; most frequent first."""
    more: int = 0
    """Rows with still other labels outside the list."""

    @property
    def rows(self) -> int:
        """In how many rows they stand."""
        return sum(count for _, count in self.counts) + self.more

    def plus(self, labels: Any) -> UnknownLabels:
        """Return these with the labels of a batch, all of them outside the list."""
        if not len(labels):
            return self
        counts, more = dict(self.counts), self.more
        for each in pc.value_counts(labels):
            text, count = str(each["values"].as_py()), each["counts"].as_py()
            # A column of free texts would otherwise fill the memory with its values.
            if text in counts or len(counts) < _MOST_STRANGERS:
                counts[text] = counts.get(text, 0) + count
            else:
                more += count
        ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        return UnknownLabels(tuple(ranked), more)

    def __str__(self) -> str:
        named = [f"{excerpt(text, 40)} in {_rows(count)}" for text, count in self.counts[:NAMED]]
        rest = self.rows - sum(count for _, count in self.counts[:NAMED])
        return ", ".join([*named, *([f"others in {_rows(rest)}"] if rest else [])])

    def refuse(self, classes: Classes | None) -> None:
        """Ask the labeler to correct these labels, or to say that they are meant."""
        if self.rows:
            alike = classes and all(classes.near(text) for text, _ in self.counts)
            apart = ", which differ from classes by case or space alone" if alike else ""
            raise InvalidInput(
                f"labels outside the class list ({classes}): {self}{apart}: correct them, or "
                "keep them with --keep-unknown-labels (every model is wrong there)"
            )


def _rows(count: int) -> str:
    return f"{count:,} row{'s' * (count != 1)}"


def check_enough(
    space: Workspace,
    state: MeterState,
    sealed: SealedTestSet,
    fingerprint: str,
    parts: Sequence[Part] = (),
    *,
    accept_shared: bool = False,
) -> None:
    """Refuse a test set with too few rows that count, and enter that it was tried.

    The same rows again, in whatever file, are refused again, and are no further try; nor is a draw
    with rows of a refused one, whose others were exchanged until it suits. The parts that it was
    made of are withdrawn: together with fresh rows, they would be no fresh draw.
    """
    spec, wanted = state.spec, state.requested()
    if not spec.meter.sample.fixes_rows:
        return
    with space.reading() as books:
        known = fingerprint in _failed(space, books, wanted)
        if not known:
            this_try(space, books, spec, wanted)
    rows = Rows.of_sealed(sealed, fingerprint_key(space.identity))
    again = 0 if known else _of_refused(space, rows, accept_shared=accept_shared)
    if not known and not again and _is_enough(space, state, sealed):
        return
    with space.writing() as books:
        wanted = space.state(books).requested()
        if not known and not again:
            details = {
                "generation": wanted.number,
                "rows": sealed.rows,
                "try": this_try(space, books, spec, wanted),
                "tries": spec.meter.sample.tries,
                "digest": fingerprint,
            }
            # Beside the test sets, as journals are: an older database put back forgets no try.
            name = f"{TEST_SETS}/{wanted.number}-{fingerprint}{_TRIED}"
            space.files.put(name, _note_of(rows))
            books.audit.append(wanted.meter, space.now(), Event.SEALING_FAILED, details)
        used = len(_failed(space, books, wanted))
        here = books.parts.all(wanted)
        for part in (each for each in parts if each in here):
            withdraw(space, books, part)
    for part in parts:
        space.files.remove(part.blob)
    if again:
        ways = "" if rows.ids is not None else ", or if it was drawn independently, --accept-shared"
        raise InvalidInput(
            f"test set {wanted.number}: {_rows(again)} of a draw that was refused: with others "
            f"exchanged it is no random sample; draw another one, of fresh rows{ways}"
        )
    # How many there are is not said: it is a count of hidden labels.
    sample = spec.meter.sample
    lacking = sample.lacking(state.plan.size)
    given = f"test set {wanted.number}: {lacking} (try {used} of {sample.tries})"
    if used >= sample.tries:
        raise InvalidInput(f"{given}: {_NO_TRY_LEFT}")
    gone = " (its parts were withdrawn)" if parts else ""
    raise InvalidInput(f"{given}: draw another one, of fresh rows{gone}")


def withdraw(space: Workspace, books: Books, part: Part) -> None:
    """Enter that a part was taken back."""
    books.parts.remove(part)
    details = {"generation": part.generation, "part": part.number, "rows": part.rows}
    books.audit.append(part.meter, space.now(), Event.PART_WITHDRAWN, details)


def _note_of(rows: Rows) -> bytes:
    """Return keyed digests of rows: of their ids, and of inputs that no two of them share."""
    none = np.empty((0, 2), np.uint64)
    found = rows.digests(rows.inputs) if rows.inputs else none
    values, counts = np.unique(found, axis=0, return_counts=True)
    note = io.BytesIO()
    np.savez(note, ids=none if rows.ids is None else rows.ids, inputs=values[counts == 1])
    return note.getvalue()


def _of_refused(space: Workspace, rows: Rows, *, accept_shared: bool) -> int:
    """Count the rows that stand in one draw that was refused, at most.

    By their ids; without, by inputs that no two rows of a draw share.
    """
    names = [name for name in space.files.names(TEST_SETS) if name.endswith(_TRIED)]
    mine = np.load(io.BytesIO(_note_of(rows))) if names else {}
    kept = (np.load(io.BytesIO(space.files.read(f"{TEST_SETS}/{name}"))) for name in names)
    found = [0]
    for before in kept:
        by_id = len(mine["ids"]) and len(before["ids"])
        if by_id or not accept_shared:
            kind = "ids" if by_id else "inputs"
            found.append(len(shared_rows(mine[kind], before[kind])))
    return max(found)


_TRIED = ".tried"
"""How the note ends that rows were tried."""
_NO_TRY_LEFT = (
    "no try is left, since drawing until one suits breaks the promise: make a new meter, "
    "with more rows or more tries in meter.toml"
)


def this_try(space: Workspace, books: Books, spec: MeterSpec, wanted: TestSet) -> int:
    """Return the number of the try that a delivery is."""
    used = len(_failed(space, books, wanted)) if spec.meter.sample.fixes_rows else 0
    if spec.meter.sample.fixes_rows and used >= spec.meter.sample.tries:
        tried = "once" if used == 1 else f"{used:,} times"
        raise WrongPhase(f"test set {wanted.number} was tried {tried}: {_NO_TRY_LEFT}")
    return used + 1


def _is_enough(space: Workspace, state: MeterState, sealed: SealedTestSet) -> bool:
    sample, loss = state.spec.meter.sample, space.loss(state.spec)
    classes = classes_in_force(state.spec, state.validation)
    labels = map(sealed.labels, range(sealed.row_groups))
    if not sample.estimated:
        counted = counted_in(loss, classes, labels)
        return counted is None or counted >= state.plan.size
    judged = judged_in(classes, labels)
    if (judged.labels, judged.pool) != (sample.rows, sample.unlabelled):
        raise InvalidInput(
            f"rows: {judged.labels:,} with a label and {judged.pool:,} without one given, "
            f"{sample.rows:,} and {sample.unlabelled:,} needed"
        )
    return sample.allows(judged.wrong, judged.labels)


def _failed(space: Workspace, books: Books, wanted: TestSet) -> set[str]:
    """Return the fingerprints of the rows that were tried and refused."""
    links = books.audit.of(wanted.meter, Event.SEALING_FAILED)
    found = [link.details for link in links if link.details["generation"] == wanted.number]
    start = f"{wanted.number}-"
    names = (name for name in space.files.names(TEST_SETS) if name.endswith(_TRIED))
    kept = {name[len(start) : -len(_TRIED)] for name in names if name.startswith(start)}
    return kept | {str(details["digest"]) for details in found}
