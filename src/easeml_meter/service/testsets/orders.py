"""Orders of labels: what the labelers of a meter with labels on demand are asked for, and give."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import csv

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import Event, LabelOrder, LabelRequest, Wanted
from easeml_meter.errors import InvalidInput, WrongPhase, invalid
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.answering import settle
from easeml_meter.service.submissions.waiting import (
    keep_labels,
    open_order,
    orders_of,
    read_labels,
    read_pending,
)
from easeml_meter.service.testsets.delivery import asked_of
from easeml_meter.tables.opening import open_table
from easeml_meter.tables.source import Held, Source, about, excerpt
from easeml_meter.tables.spelling import as_texts
from easeml_meter.vault.keys import read_recipient, unwrap, wrap

_NAMED = 3
"""Ids without a label that a refusal names."""
_NOTHING = "no step waits for labels: nothing to give"


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Where a file has its ids and labels, and what its sender has decided."""

    label: str
    id_column: str | None = None
    """None: as the test set was sealed."""
    keep_unknown_labels: bool = False


@needs(Permission.SEE_METER)
def waited_for(_: Actor, space: Workspace) -> LabelOrder | None:
    """Return how many labels a step waits for; None: no step does."""
    with space.reading() as books:
        test_set = space.state(books).current
        if test_set.phase is not Phase.ACTIVE:
            return None
        return open_order(orders_of(books, test_set))


@needs(Permission.ADD_TEST_SET)
def wanted(_: Actor, space: Workspace) -> Wanted | None:
    """Return the labels that a step waits for; None: no step does.

    Raises:
        VaultError: what waits for them does not open.
    """
    with space.reading() as books:
        test_set = space.state(books).current
        order = open_order(orders_of(books, test_set))
    if order is None or test_set.manifest is None or test_set.phase is not Phase.ACTIVE:
        return None
    ids = read_pending(space, order).ids
    return Wanted(order, test_set.manifest["id_column"], ids, (space.identity.recipient,))


@needs(Permission.ADD_TEST_SET)
def wanted_sheet(actor: Actor, space: Workspace) -> bytes:
    """Return the ids that are wanted as CSV, with a column of labels to fill in.

    Raises:
        WrongPhase: no step waits for labels.
    """
    asked = wanted(actor, space)
    if asked is None:
        raise WrongPhase(_NOTHING)
    out = io.BytesIO()
    csv.write_csv(sheet(asked), out)
    return out.getvalue()


def sheet(asked: Wanted) -> pa.Table:
    """Return the ids that are wanted, with an empty column of labels."""
    label = "label_" if asked.id_column == "label" else "label"
    empty = pa.nulls(len(asked.ids), pa.string())
    return pa.table({asked.id_column: list(asked.ids), label: empty})


def encrypt_labels(asked: Wanted, source: Source) -> bytes:
    """Encrypt a file of labels on this machine, for the server that asks for them."""
    recipients = [read_recipient(each) for each in asked.recipients]
    return wrap(source.read_bytes(), recipients)


@needs(Permission.ADD_TEST_SET)
def give_encrypted(
    actor: Actor,
    space: Workspace,
    encrypted: bytes,
    columns: Columns,
    *,
    kind: str,
    title: str = "",
) -> LabelOrder:
    """Take in a file that was encrypted to the server's key; `kind` is its ending.

    It is decrypted in memory: plain labels never touch the disk. `title` is what its sender calls
    it.

    Raises:
        InvalidInput, WrongPhase: as `give_labels` says.
        VaultError: the file was not encrypted to this server's key.
    """
    content = unwrap(encrypted, space.identity, "the file")
    plain = Held(f"labels.{kind}", content, title, limits=space.limits)
    return give_labels(actor, space, plain, columns)


@needs(Permission.ADD_TEST_SET)
def give_labels(actor: Actor, space: Workspace, source: Source, columns: Columns) -> LabelOrder:
    """Take in the labels that a step waits for, and answer it.

    Rows that were not asked for are left out: a file may grow from order to order. Labels that came
    before are not taken in again.

    Raises:
        InvalidInput: the file cannot be read, a label is missing, stands twice, or is no class.
        WrongPhase: no step waits for labels.
    """
    asked = wanted(actor, space)
    if asked is None:
        if (given := _given_before(space, source, columns)) is not None:
            return given
        raise WrongPhase(_NOTHING)
    labels, classes = _labels(space, asked, source, columns)
    with space.writing() as books:
        test_set = space.state(books).active()
        order = asked.order
        if open_order(orders_of(books, test_set)) != order:
            raise WrongPhase(f"the labels of order {order.number} were given meanwhile")
        # The file before its link: labels that the chain says were given are there.
        keep_labels(space, order, labels, classes)
        now = space.now()
        details = {"generation": order.generation, "order": order.number, "labels": order.labels}
        books.audit.append(test_set.meter, now, Event.LABELS_GIVEN, details | actor.by_user)
    # A transaction of its own: if answering fails, the labels stay given, and it is done later.
    while settle(space):
        pass
    return replace(order, given_at=now)


def _given_before(space: Workspace, source: Source, columns: Columns) -> LabelOrder | None:
    """Return the last order if these are the labels that came for it."""
    with space.reading() as books:
        test_set = space.state(books).current
        orders = orders_of(books, test_set)
    if not orders or test_set.manifest is None:
        return None
    ids = read_pending(space, orders[-1]).ids
    asked = Wanted(orders[-1], test_set.manifest["id_column"], ids, ())
    with suppress(InvalidInput):
        if _labels(space, asked, source, columns)[0] == read_labels(space, orders[-1]):
            return orders[-1]
    return None


def _labels(
    space: Workspace, asked: Wanted, source: Source, columns: Columns
) -> tuple[list[str], tuple[str | int, ...]]:
    """Return the labels that were asked for, in the order of the ids, and the classes."""
    id_column = columns.id_column or asked.id_column
    table = open_table(source, texts=[columns.label, id_column])
    with about(source):
        table.require(columns.label, "label column")
        table.require(id_column, "id column")
        found = _found(table.batches([id_column, columns.label]), set(asked.ids))
        missing = [each for each in asked.ids if each not in found]
        if missing:
            first = ", ".join(excerpt(each, 40) for each in missing[:_NAMED])
            raise InvalidInput(
                f"{len(asked.ids) - len(missing):,} of {len(asked.ids):,} labels given, "
                f"missing for {id_column} {first}{', ...' * (len(missing) > _NAMED)}: add them"
            )
        labels = [found[each] for each in asked.ids]
        state = space.read_state()
        checks = asked_of(space, state, LabelRequest(state.current, (), ()))
        unknown = checks.unknown_labels([pa.array(labels, pa.string())])
        if not columns.keep_unknown_labels:
            unknown.refuse(checks.classes)
    return labels, () if checks.classes is None else tuple(checks.classes.values)


def _found(batches: Iterable[pa.RecordBatch], wanted_ids: set[str]) -> dict[str, str]:
    """Return the labels of the rows that are wanted, by id; an empty one is none."""
    found: dict[str, str] = {}
    for batch in batches:
        present = batch.filter(batch.column(1).is_valid())
        ids, labels = as_texts(present.column(0)), as_texts(present.column(1), "labels")
        for each, label in zip(ids.to_pylist(), labels.to_pylist(), strict=True):
            if each not in wanted_ids or label == "":
                continue
            if found.setdefault(each, label) != label:
                raise invalid("id", each, "it stands there with two labels: give one")
    return found
