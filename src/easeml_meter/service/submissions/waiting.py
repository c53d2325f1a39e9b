"""Labels on demand: the labels that a submission waits for, and those that have come so far.

A meter that asks for n - o reads no label of a row on which both models predict the same. So its
test set is sealed without labels. Each step asks the labelers for a fixed number of them: those of
the rows on which the two models differ, and random others. After t steps, t times that number were
asked for, until every row has one, whatever anybody submitted: neither the bill nor the wait tells
more than the number of the step. A model that differs on too many rows waits like any other. Teams
share the orders, so who waits keeps others waiting; they are counted as if they shared all answers.

An order is a link of the audit chain. What it asks for, and what waits for it, is a file that only
the meter opens.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from easeml_meter.conditions import Comparison
from easeml_meter.core.model import AuditLink, Entry, Event, LabelOrder, TestSet
from easeml_meter.errors import MeterError, Waiting, invalid
from easeml_meter.scoring.predictions import Content
from easeml_meter.scoring.score import Unscorable, compare_known, differing
from easeml_meter.service.place import ORDERS, Workspace
from easeml_meter.service.submissions.deciding import Draft, Known, old_model
from easeml_meter.service.submissions.measuring import Kept, Measured
from easeml_meter.storage.books import Books
from easeml_meter.tables.spelling import as_texts
from easeml_meter.vault.keys import unwrap, wrap

_WIDTH = 64
"""Bytes that each label takes in its file, unless a class has a longer name."""


@dataclass(frozen=True)
class Pending:
    """A submission that waits, and the rows whose labels it waits for."""

    draft: Draft
    """Measured on the validation set; its files are kept in it."""
    rows: tuple[int, ...]
    ids: tuple[str, ...]


def orders_of(books: Books, test_set: TestSet) -> list[LabelOrder]:
    """Return the orders of a test set, the oldest first."""
    given = {link.details["order"]: link.at for link in _links(books, test_set, given=True)}
    return [
        LabelOrder(
            test_set.number,
            link.details["order"],
            link.details["labels"],
            link.at,
            given.get(link.details["order"], ""),
        )
        for link in _links(books, test_set, given=False)
    ]


def order_files(books: Books, test_set: TestSet) -> list[str]:
    """Return the names of the files of all orders: what waits, and the labels that have come."""
    orders = orders_of(books, test_set)
    given = [_labels_name(order) for order in orders if order.given_at]
    return [_name(order) for order in orders] + given


def _links(books: Books, test_set: TestSet, *, given: bool) -> list[AuditLink]:
    event = Event.LABELS_GIVEN if given else Event.LABELS_ASKED
    links = books.audit.of(test_set.meter, event)
    return [link for link in links if link.details["generation"] == test_set.number]


def open_order(orders: Sequence[LabelOrder]) -> LabelOrder | None:
    """Return the order whose labels have not come yet; there is never more than one."""
    return orders[-1] if orders and not orders[-1].given_at else None


def read_pending(space: Workspace, order: LabelOrder) -> Pending:
    """Open what waits for an order, or has waited."""
    content = unwrap(space.files.read(_name(order)), space.identity, "the waiting submission")
    head, _, kept = content.partition(b"\n")
    found = json.loads(head)
    entry = Entry(**found["entry"])
    draft = Draft(
        entry,
        kept=Kept.of(entry, found["suffix"], kept),
        old=found["old"],
    )
    return Pending(draft, tuple(found["rows"]), tuple(found["ids"]))


def unanswered(books: Books, waited: Sequence[Draft]) -> Draft | None:
    """Return the oldest of those whose labels have come that has no answer yet."""
    return next((draft for draft in waited if Known.read(books, draft).same is None), None)


def _name(order: LabelOrder) -> str:
    return f"{ORDERS}/{order.generation}-{order.number}.age"


def _next_number(space: Workspace, test_set: TestSet, orders: Sequence[LabelOrder]) -> int:
    """Return the number of the next order, which no file has.

    Older books do not know of the newest orders: their labels were paid for, and stay.
    """
    stems = (name.removesuffix(".age").split("-") for name in space.files.names(ORDERS))
    taken = [int(stem[1]) for stem in stems if stem[0] == str(test_set.number)]
    return max([0, *taken, *(each.number for each in orders)]) + 1


def _labels_name(order: LabelOrder) -> str:
    return f"{ORDERS}/{order.generation}-{order.number}-labels.age"


def keep_labels(
    space: Workspace, order: LabelOrder, labels: Sequence[str], known: Iterable[object]
) -> None:
    """Write down the labels that an order asked for, in its order; `known` are the classes.

    All take the same room: the size of the file must not tell how long the names are.
    """
    texts = [each.encode() for each in labels]
    width = max([_WIDTH, *(len(str(each).encode()) for each in known)])
    if max(map(len, texts), default=0) > width:
        raise invalid("labels", "a name that is longer than every class", f"at most {width} bytes")
    content = b"".join(each.ljust(width, b"\0") for each in texts)
    space.files.put(_labels_name(order), wrap(content, [space.identity.recipient]))


def read_labels(space: Workspace, order: LabelOrder) -> list[str]:
    """Return the labels that came for an order, in its order."""
    wrapped = space.files.read(_labels_name(order))
    content = unwrap(wrapped, space.identity, "the labels")
    width = len(content) // order.labels
    places = range(0, len(content), width)
    return [content[at : at + width].rstrip(b"\0").decode() for at in places]


@dataclass(frozen=True)
class KnownLabels:
    """The labels of a test set that have come so far."""

    places: NDArray[np.int64]
    """The rows that have one."""
    labels: pa.Array

    @classmethod
    def read(cls, space: Workspace, orders: Sequence[LabelOrder]) -> KnownLabels:
        """Open them."""
        places: list[int] = []
        labels: list[str] = []
        for order in orders:
            if order.given_at:
                labels += read_labels(space, order)
                places += read_pending(space, order).rows
        return cls(np.array(places, np.int64), pa.array(labels, pa.string()))

    def column(self, rows: int) -> pa.Array:
        """Return the labels of all rows, for a release: null where nobody has asked for one."""
        found = np.full(rows, -1)
        found[self.places] = np.arange(len(self.places))
        return self.labels.take(pa.array(found, pa.int64(), mask=found < 0))

    def cover(self, new: Content, old: Content) -> bool:
        """Whether every row on which two models differ has a label."""
        unlike = differing(new, old)
        unlike[self.places] = False
        return not unlike.any()

    def compared(self, new: Content, old: Content) -> Comparison | None:
        """Compare two models; None if a label does not fit the loss."""
        try:
            return compare_known(new, old, self.places, self.labels)
        except Unscorable:
            return None


def needed(new: Content, old: Content, known: NDArray[np.int64], quota: int) -> list[int]:
    """Return the rows whose labels a step asks for: as many as its quota, while there are any.

    First those on which the models differ; where they differ on too many, no label is read. The
    rest are drawn at random from all rows without a label.
    """
    unlike = differing(new, old)
    unknown = np.ones(new.rows, bool)
    unknown[known] = False
    too_far = np.count_nonzero(unlike) > quota
    wanted = [] if too_far else np.flatnonzero(unlike & unknown).tolist()
    unknown[wanted] = False
    # Always filled up to the quota: how many labels are asked for must not tell developers how
    # much the models differ.
    others = np.flatnonzero(unknown).tolist()
    drawn = secrets.SystemRandom().sample(others, min(quota - len(wanted), len(others)))
    return sorted([*wanted, *drawn])


def check_free(space: Workspace, test_set: TestSet, draft: Draft) -> None:
    """Refuse a submission while one waits: what is asked next may follow from its answer."""
    with space.reading() as books:
        _refuse_waiting(space, orders_of(books, test_set), draft)


def _refuse_waiting(space: Workspace, orders: Sequence[LabelOrder], draft: Draft) -> None:
    order = open_order(orders)
    if order is None:
        return
    waits = read_pending(space, order).draft
    if waits.entry.tenant != draft.entry.tenant:
        # Neither the name of what waits nor whether it is the same: teams do not see each other's.
        raise _waiting(order, "a submission of another team", same=False)
    same = waits.entry.submission == draft.entry.submission
    raise _waiting(order, waits.entry.model, same=same)


def _waiting(order: LabelOrder, what: str, *, same: bool) -> Waiting:
    asked = f"{what} waits for {order.labels:,} labels, which the labelers were asked for"
    if same:
        return Waiting(f"{asked}: submit it again later, for its answer")
    return Waiting(f"{asked}: submit this one after its answer")


def compared_on_demand(on: Measured, draft: Draft, new: Content, old: Content) -> Comparison | None:
    """Compare a model with the old one, once all labels that it needs are here.

    `draft` has its validation loss, its files, and the step of the old model.

    Raises:
        Waiting: labels are asked for.
        MeterError: another submission came meanwhile.
    """
    space, test_set = on.space, on.generation
    with space.reading() as books:
        before = orders_of(books, test_set)
    _refuse_waiting(space, before, draft)  # one may have come since we looked last
    known = KnownLabels.read(space, before)
    rows = needed(new, old, known.places, on.spec.meter.quota(new.rows))
    packed = _packed(draft, rows, _ids(on, rows)) if rows else b""
    waited = [read_pending(space, each).draft for each in before]
    with space.writing() as books:
        state = space.state(books)
        entry = draft.entry
        # Compared without the lock: another order, or another old model, changes what is asked for.
        same = old_model(books, state, test_set, entry.tenant)
        if (
            state.active().number != test_set.number
            or orders_of(books, test_set) != before
            # Labels come before the answer that they are for; ours may follow from that answer.
            or unanswered(books, waited) is not None
            or (0 if same is None else same.step) != draft.old
        ):
            raise MeterError("another submission came meanwhile: submit this one again")
        number = _next_number(space, test_set, before)
        order = LabelOrder(test_set.number, number, len(rows), space.now())
        if rows:
            # The file before its link: whoever finds an order in the chain finds what waits for it.
            space.files.put(_name(order), wrap(packed, [space.identity.recipient]))
            details = {"generation": order.generation, "order": order.number}
            details["labels"] = order.labels
            books.audit.append(test_set.meter, order.at, Event.LABELS_ASKED, details)
    if not rows:
        return known.compared(new, old)
    raise _waiting(order, draft.entry.model, same=True)


def _packed(draft: Draft, rows: list[int], ids: list[str]) -> bytes:
    if draft.kept is None:
        raise AssertionError("what waits is kept")
    head = {
        "entry": asdict(draft.entry),
        "suffix": draft.kept.suffix,
        "old": draft.old,
        "rows": rows,
        "ids": ids,
    }
    return json.dumps(head).encode() + b"\n" + draft.kept.content


def _ids(on: Measured, rows: list[int]) -> list[str]:
    column = on.sealed.manifest.id_column
    if column is None:
        raise AssertionError("a test set without labels was sealed with ids")
    batches = [as_texts(batch.column(0)) for batch in on.sealed.batches([column])]
    found: list[str] = pa.chunked_array(batches).take(pa.array(rows)).to_pylist()
    return found
