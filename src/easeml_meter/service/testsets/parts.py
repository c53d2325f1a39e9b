"""Test sets delivered in parts: each sealed by a labeler, merged when there are enough rows.

Merging decrypts into memory, a row group at a time, and seals again; plain labels touch no disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from easeml_meter.core.model import Event, LabelRequest, Part, TestSet
from easeml_meter.errors import InvalidInput, NotFound, VaultError
from easeml_meter.service.actor import Actor, Permission, needs
from easeml_meter.service.place import Workspace
from easeml_meter.service.submissions.measuring import open_sealed
from easeml_meter.service.testsets import delivery
from easeml_meter.service.testsets.checking import withdraw
from easeml_meter.service.testsets.delivery import DELIVERED, Choices
from easeml_meter.service.testsets.requests import as_request, open_request, refuse_changed
from easeml_meter.service.testsets.reuse import (
    UNDECIDED,
    LabelerDecisions,
    refuse_rows,
    same_rows,
    sealed_rows,
)
from easeml_meter.service.testsets.windows import SealedRows, check_alike
from easeml_meter.storage.files import copy_into
from easeml_meter.tables.source import Held
from easeml_meter.vault.digests import shared_rows
from easeml_meter.vault.keys import unwrap
from easeml_meter.vault.manifest import Manifest
from easeml_meter.vault.overlap import LARGEST_SHARE, Rows, repeated
from easeml_meter.vault.sealing import SealedTestSet, seal

LARGEST_FROM_BROWSER = 64 << 20
"""Bytes of a file sent from a page: all of it is in memory, here and in the browser."""


@dataclass(frozen=True)
class KnownColumns:
    """Names of the columns that are not inputs."""

    label: str = "label"
    id: str = ""
    cluster: str = ""


@needs(Permission.ADD_TEST_SET)
def add_labels(
    actor: Actor,
    space: Workspace,
    path: Path,
    decisions: LabelerDecisions = UNDECIDED,
    *,
    part: bool = False,
) -> LabelRequest:
    """Take in a sealed file: a whole test set, or with `part` or fewer rows, some of its rows.

    With the part that makes them enough, all parts become one test set, in the order in which
    they came. Return the request they are for, as it stands then. The labeler decides about the
    rows of a part when it comes, and about all rows when the last part does.

    Raises:
        InvalidInput: rows that may not be used or came before, other columns than before, or
            something that the labeler has to decide.
        MeterError: another part was added or withdrawn meanwhile, or a validation set handed in.
        TooLarge: the file decodes to more than the server takes.
        VaultError: the file does not open, or was sealed for another test set.
        WrongPhase: no test set is requested.
    """
    with space.reading() as books:
        state = space.state(books)
        wanted = state.requested()
        earlier = books.parts.all(wanted)
    with delivery.open_delivered(space, state, path) as sealed:
        asked = delivery.asked_of(space, state, LabelRequest(wanted, (), ()))
        if part:
            asked.refuse_part()
        complete = decisions.accept_fewer and not part and asked.follows is not None
        # Whoever says that this is all may say it of a file that became a part.
        kept = [
            each for each in earlier if not (complete and _repeats(space, wanted, each, sealed))
        ]
        here = sealed.rows + sum(each.rows for each in kept)
        enough = complete or here >= wanted.labels_needed
        if asked.whole or (not kept and not part and enough):
            added = delivery.take_in(
                actor,
                space,
                state,
                sealed,
                path,
                decisions=decisions,
                parts=earlier,
                delivered=sealed.manifest.sha256,
            )
        else:
            delivery.check_alone(space, state, sealed)
            with ExitStack() as stack:
                others = [stack.enter_context(_open(space, wanted, each)) for each in kept]
                rows = sealed_rows(space, sealed)
                for each, other in zip(kept, others, strict=True):
                    check_alike(other, sealed)
                    _check_new(space, each, other, sealed, rows, accepted=decisions.accept_shared)
                if not enough:
                    delivery.check_reuse(actor, space, state, sealed, decisions)
                    _keep(actor, space, wanted, path, sealed.manifest, before=earlier)
                    return _as_it_stands(space, wanted)
                added = _merge(actor, space, [*others, sealed], decisions, earlier)
    # Once all is entered: until then, nothing else holds the rows of these parts.
    for each in earlier:
        space.files.remove(each.blob)
    return _as_it_stands(space, added)


@needs(Permission.ADD_TEST_SET)
def taken_in(_: Actor, space: Workspace, digest: str) -> LabelRequest | None:
    """Return what a sealed file of this digest became, as it stands now; None: nothing.

    A part that made the rows enough became the test set, like one that is whole.
    """
    with space.reading() as books:
        state = space.state(books)
        for test_set in state.generations:
            manifest = test_set.manifest or {}
            known = {manifest.get(DELIVERED), manifest.get("sha256")}
            known |= {part.digest for part in books.parts.all(test_set)}
            if digest in known:
                return as_request(space, books, test_set)
    return None


def _as_it_stands(space: Workspace, test_set: TestSet) -> LabelRequest:
    with space.reading() as books:
        return as_request(space, books, test_set)


@needs(Permission.ADD_TEST_SET)
def add_labels_from_browser(
    actor: Actor,
    space: Workspace,
    encrypted: bytes,
    choices: Choices,
    decisions: LabelerDecisions = UNDECIDED,
    *,
    kind: str,
    title: str = "",
) -> LabelRequest:
    """Take in a file that a browser encrypted to the server's key; `kind` is its ending.

    `title` is what its sender calls it.

    It is decrypted in memory and sealed from there: plain labels never touch the disk.

    Raises:
        InvalidInput: as `seal_labels` and `add_labels` say.
        VaultError: the file was not encrypted to this server's key.
        WrongPhase: no test set is requested.
    """
    content = unwrap(encrypted, space.identity, "the file")
    plain = Held(f"labels.{kind}", content, title, limits=space.limits)
    with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
        sealed = Path(folder) / "labels.sealed"
        # Clusters and strata come all at once, and so do rows with a judge.
        stratified = space.read_state().spec.meter.sample.parts is not None
        at_once = stratified or choices.cluster is not None or choices.judge is not None
        some = replace(choices, part=not at_once)
        delivery.seal_labels(actor, space, plain, sealed, some)
        return add_labels(actor, space, sealed, decisions)


@needs(Permission.ADD_TEST_SET)
def columns_before(_: Actor, space: Workspace) -> KnownColumns:
    """Return the columns of the labels that came last; the next ones must be like them."""
    with space.reading() as books:
        test_sets = space.state(books).generations
        parts = books.parts.all(test_sets[-1])
    # Once they are one test set, the files of its parts are gone, and its manifest says it.
    if parts and not test_sets[-1].manifest:
        # A part that does not open must not keep its labeler from the page to take it back.
        with suppress(VaultError), _open(space, test_sets[-1], parts[-1]) as sealed:
            return KnownColumns(sealed.manifest.label.name, sealed.manifest.id_column or "")
    delivered = [each.manifest for each in test_sets if each.manifest]
    if not delivered:
        return KnownColumns()
    last = delivered[-1]
    cluster = last.get("cluster_column") or ""
    return KnownColumns(last["label"]["name"], last["id_column"] or "", cluster)


@needs(Permission.ADD_TEST_SET)
def withdraw_part(_: Actor, space: Workspace, generation: int, number: int) -> None:
    """Take back a part, as long as the test set has not begun.

    Raises:
        NotFound: there is no such test set or part.
        WrongPhase: the test set has begun.
    """
    with space.writing() as books:
        found = open_request(space, books, generation)
        parts = {part.number: part for part in books.parts.all(found)}
        if number not in parts:
            raise NotFound(f"part {number}: there is none of that number")
        withdraw(space, books, parts[number])
    # After the commit: the file of a part that the books name is there.
    space.files.remove(parts[number].blob)


def _keep(
    actor: Actor,
    space: Workspace,
    wanted: TestSet,
    path: Path,
    manifest: Manifest,
    *,
    before: Sequence[Part],
) -> None:
    rows, digest = manifest.rows, manifest.sha256
    blob = copy_into(space.files, f"parts/{wanted.number}-{digest}.sealed", path)
    with space.writing() as books:
        now = space.now()
        open_request(space, books, wanted.number)
        # The rows were compared with those parts, and with no other.
        refuse_changed(actor, books, wanted, before)
        number = 1 + max((part.number for part in before), default=0)
        books.parts.add(
            Part(wanted.meter, wanted.number, number, rows, digest, blob, actor.user, now)
        )
        details = {"generation": wanted.number, "part": number, "rows": rows}
        books.audit.append(wanted.meter, now, Event.PART_ADDED, details)


def _open(space: Workspace, test_set: TestSet, part: Part) -> SealedTestSet:
    return open_sealed(space, test_set, space.files.location(part.blob))


def _repeats(space: Workspace, wanted: TestSet, part: Part, sealed: SealedTestSet) -> bool:
    """Whether a file became a part; what a browser sends is sealed anew each time."""
    if part.digest == sealed.manifest.sha256:
        return True
    if part.rows != sealed.rows:
        return False
    with _open(space, wanted, part) as earlier:
        return same_rows(space, sealed, earlier)


def _check_new(
    space: Workspace,
    part: Part,
    earlier: SealedTestSet,
    sealed: SealedTestSet,
    rows: Rows,
    *,
    accepted: bool,
) -> None:
    """Refuse rows of an earlier part: counted twice, they would be fewer than planned.

    Ids tell which rows are the same: equal inputs under other ids are other examples. Without ids,
    some equal inputs belong to a random sample, but a part that is or mostly repeats another one
    was sent twice.
    """
    others = sealed_rows(space, earlier)
    if rows.ids is not None and others.ids is not None:
        problem = f"have ids that stand in part {part.number}"
        refuse_rows(shared_rows(rows.ids, others.ids), problem, "give each example once")
        return
    if sealed.manifest.sha256 == part.digest or same_rows(space, sealed, earlier):
        raise InvalidInput(
            f"this part was added already, as part {part.number}: give each example once; if "
            "these are other examples, give them together with more"
        )
    share = repeated(rows, others)
    if share > LARGEST_SHARE and not accepted:
        raise InvalidInput(
            f"inputs that stand in part {part.number}: {100 * share:.3g} % of the smaller of the "
            "two parts: if these rows were drawn independently, keep them with --accept-shared; "
            "if they were added already, leave them out"
        )


def _merge(
    actor: Actor,
    space: Workspace,
    parts: Sequence[SealedTestSet],
    decisions: LabelerDecisions,
    earlier: Sequence[Part],
) -> TestSet:
    """Seal the rows of all parts as one test set, and take that in."""
    manifest = parts[0].manifest
    table = SealedRows("the parts", parts[0].schema, sum(p.rows for p in parts), tuple(parts))
    with tempfile.TemporaryDirectory(prefix="easeml-meter-") as folder:
        whole = Path(folder) / "whole.sealed"
        seal(
            table,
            whole,
            meter=manifest.meter,
            generation=manifest.generation,
            label=manifest.label.name,
            id_column=manifest.id_column,
            recipients=[space.identity.recipient],
            clock=space.clock,
        )
        last = parts[-1].manifest.sha256
        return delivery.add_test_set(actor, space, whole, decisions, parts=earlier, delivered=last)
