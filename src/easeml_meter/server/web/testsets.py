"""Test sets: the labelers' page, and files of test sets for those who may have them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Response

from easeml_meter.core.model import LabelRequest, ReleaseRequest
from easeml_meter.errors import InvalidInput, NotFound
from easeml_meter.report import words
from easeml_meter.report.page import html_page
from easeml_meter.server.api.testsets import released_batch as batch_of_released
from easeml_meter.server.api.testsets import released_file as file_of_released
from easeml_meter.server.api.testsets import test_inputs as inputs_of
from easeml_meter.server.limits import streamed
from easeml_meter.server.parameters import FileName, Id, Number, Tenant
from easeml_meter.server.web.pages import Visit, VisitHere, download
from easeml_meter.service import users
from easeml_meter.service.actor import Actor, Permission
from easeml_meter.service.meters import classes_open, meter_state, show_meter
from easeml_meter.service.place import Workspace
from easeml_meter.service.testsets import orders, parts, release, requests
from easeml_meter.service.testsets.delivery import Choices
from easeml_meter.service.testsets.parts import KnownColumns
from easeml_meter.service.testsets.releasing import request_release, requested_release
from easeml_meter.service.testsets.reuse import LabelerDecisions
from easeml_meter.service.validation import list_notices
from easeml_meter.spec import MeterSpec

router = APIRouter(include_in_schema=False)

Kind = Annotated[str, Query(max_length=20, pattern="^[a-z0-9]+$")]
Names = Annotated[str, Query(max_length=2000, pattern=r"^[^\x00-\x1f\x7f]*$")]
_HEADER = 1 << 16  # what encryption adds, with room to spare


BOXES = {
    "keep_unknown_labels": (
        "Keep labels outside the class list",
        ": every model is wrong there.",
    ),
    "ids_renumbered": (
        "Ids of earlier sets are other examples",
        ": they were numbered again.",
    ),
    "accept_shared": (
        "Rows with the inputs of earlier sets were drawn independently",
        ".",
    ),
    "accept_fewer": (
        "These are all the rows there are",
        ": fewer than planned make the promise weaker.",
    ),
}
"""What labelers decide: each box, with the rest of its sentence."""


@dataclass(frozen=True)
class Labeling:
    """The labelers' page of a meter: all of it is for those who may add labels."""

    visit: Visit
    meter: str
    actor: Actor
    space: Workspace

    def back(self, message: str) -> Response:
        """Return to the page, after a form was taken."""
        return self.visit.redirect(f"/meters/{self.meter}/labels", message)


def the_labeling(visit: VisitHere, meter: Id) -> Labeling:
    """Return the page of a meter, to a labeler."""
    # Once for the whole page: whoever may not add labels learns nothing from its parts.
    actor = visit.at(meter).granted(Permission.ADD_TEST_SET)
    return Labeling(visit, meter, actor, visit.site.space(meter))


LabelingHere = Annotated[Labeling, Depends(the_labeling)]


@router.get("/meters/{meter}/labels")
def labels_page(page: LabelingHere) -> Response:
    """Show what is asked for, and how far it has got."""
    visit, actor, space = page.visit, page.actor, page.space
    columns = parts.columns_before(actor, space)
    shown = show_meter(actor, space)
    state = meter_state(actor, space)
    spec = state.spec
    releasable = release.releasable(actor, space)
    given = state.validation.settings.get("classes") if state.validation else None
    class_list = [str(each) for each in spec.meter.sample.classes or given or ()]
    asked = requests.list_requests(actor, space)
    senders = {part.added_by for each in asked for part in each.parts}
    return visit.render(
        "labels.html",
        meter=shown.meter,
        requests=asked,
        names=users.user_names(actor, space, senders),
        generations=requests.list_test_sets(actor, space),
        releasable=releasable,
        asked_release=releasable and _asked_release(actor, space, releasable.number),
        notices=[each for each in reversed(list_notices(actor, space)) if each.rows_shared != 0],
        columns=columns,
        commands=_commands(visit.server, page.meter, columns, spec),
        label_commands=_label_commands(visit.server, page.meter),
        scores=not spec.meter.sample.seals_labels,
        wanted=orders.wanted(actor, space) if spec.meter.sample.orders_labels else None,
        rolling=spec.meter.renewal.rolls and len(spec.meter.renewal.batches(1)),
        archived=state.archived,
        spec=spec,
        classes=words.shown(", ".join(class_list), 200),
        class_list=class_list,
        of_classes=classes_open(spec),
        earlier=any(each.manifest for each in state.generations),
        boxes=BOXES,
        recipient=shown.recipient,
        largest=parts.LARGEST_FROM_BROWSER,
    )


def _asked_release(actor: Actor, space: Workspace, number: int) -> ReleaseRequest | None:
    with suppress(NotFound):
        return requested_release(actor, space, number)
    return None


def _commands(server: str, meter: str, columns: KnownColumns, spec: MeterSpec) -> str:
    """Return the commands to seal on one's own machine, quoted for a shell."""
    place, scores = ["--server", server, "--meter", meter], not spec.meter.sample.seals_labels
    named = {
        "--label": "" if scores else columns.label,
        "--id": columns.id or "id" * scores,
        "--cluster": columns.cluster or "cluster" * spec.meter.sample.grouped,
        "--judge": "judge" * spec.meter.sample.estimated,
    }
    names = [word for pair in named.items() if pair[1] for word in pair]
    lines = (
        ["meter", "login", "--server", server],
        ["meter", "seal", "labels.parquet", *names, "--out", "labels.sealed", *place],
        ["meter", "testset", "add", "labels.sealed", *place],
    )
    return "\n".join(map(shlex.join, lines))


def _label_commands(server: str, meter: str) -> str:
    place = ["--server", server, "--meter", meter]
    lines = (
        ["meter", "login", "--server", server],
        ["meter", "testset", "wanted", "--out", "wanted.csv", *place],
        ["meter", "testset", "label", "wanted.csv", "--label", "label", *place],
    )
    return "\n".join(map(shlex.join, lines))


@router.post("/meters/{meter}/labels")
async def add_labels(
    page: LabelingHere,
    *,
    kind: Kind,
    label: Names = "",
    id_column: Names = "",
    cluster: Names = "",
    judge: Names = "",
    drop: Names = "",
    keep_unknown_labels: bool = False,
    ids_renumbered: bool = False,
    accept_shared: bool = False,
    accept_fewer: bool = False,
    file_name: FileName = "",
) -> Response:
    """Take in a file that the page's script encrypted to the server's key."""
    dropped = [name.strip() for name in drop.split(",") if name.strip()]
    choices = Choices(
        label=label or None,
        id_column=id_column or None,
        cluster=cluster or None,
        judge=judge or None,
        drop=dropped,
        keep_unknown_labels=keep_unknown_labels,
    )
    decisions = LabelerDecisions(ids_renumbered, accept_shared, accept_fewer)

    def add(content: bytes) -> Response:
        added = parts.add_labels_from_browser(
            page.actor, page.space, content, choices, decisions, kind=kind, title=file_name
        )
        return page.back(_progress(added, _unit(page)))

    return await _taken_in(page, add)


async def _taken_in(page: Labeling, work: Callable[[bytes], Response]) -> Response:
    """Do something with a file that the page's script encrypted."""
    request, largest = page.visit.request, parts.LARGEST_FROM_BROWSER + _HEADER
    # In memory alone: what the page sends is encrypted, and is decrypted there, too.
    content = b"".join([piece async for piece in streamed(request, largest)])
    try:
        answer = await request.app.state.labeling(partial(work, content))
    except InvalidInput as error:
        raise InvalidInput(_in_boxes(str(error))) from None
    return _gone_to(answer)


@router.get("/meters/{meter}/labels/wanted.csv")
def wanted_sheet(page: LabelingHere) -> Response:
    """Return the ids whose labels a step waits for, with a column to fill in."""
    return download(orders.wanted_sheet(page.actor, page.space), "text/csv", "wanted.csv")


@router.post("/meters/{meter}/labels/wanted")
async def give_labels(
    page: LabelingHere,
    *,
    kind: Kind,
    label: Names,
    id_column: Names = "",
    keep_unknown_labels: bool = False,
    file_name: FileName = "",
) -> Response:
    """Take in the labels that a step waits for, which the page's script encrypted."""
    columns = orders.Columns(
        label=label, id_column=id_column or None, keep_unknown_labels=keep_unknown_labels
    )

    def give(content: bytes) -> Response:
        given = orders.give_encrypted(
            page.actor, page.space, content, columns, kind=kind, title=file_name
        )
        return page.back(f"Received {given.labels:,} labels: the submission is answered.")

    return await _taken_in(page, give)


def _gone_to(answer: Response) -> Response:
    """Have the browser load the page: a script that followed would use up the message."""
    answer.status_code = 204
    answer.headers["HX-Redirect"] = answer.headers["location"]
    return answer


def _in_boxes(message: str) -> str:
    """Name the box of this page in place of the option of a command."""
    for name, (words_of_box, _) in BOXES.items():
        option = "--yes" if name == "accept_fewer" else f"--{name.replace('_', '-')}"
        message = message.replace(option, f'the box "{words_of_box}"')
    return message


def _unit(page: Labeling) -> str:
    sample = meter_state(page.actor, page.space).spec.meter.sample
    return "rows" if sample.estimated else sample.handed_in  # most of them have no label


def _progress(added: LabelRequest, unit: str) -> str:
    test_set, here = added.test_set, added.labels_here
    if test_set.rows is not None:
        return f"Test set {test_set.number} is active, with {here:,} {unit}."
    return f"Received: {here:,} of {test_set.labels_needed:,} {unit} have arrived."


@router.post("/meters/{meter}/labels/{number}/describe")
def describe(page: LabelingHere, number: Number) -> Response:
    """Say why labels are asked for, and until when."""
    form = page.visit.form
    day = form.get("deadline", "")
    requests.describe_request(
        page.actor,
        page.space,
        number,
        reason=form.get("reason", "").strip(),
        deadline=f"{day}T23:59:00+00:00" if day else None,  # a form has days, not moments
    )
    return page.back("Saved.")


@router.post("/meters/{meter}/labels/{number}/parts/{part}/withdraw")
def withdraw(page: LabelingHere, number: Number, part: Number) -> Response:
    """Take back labels that turned out wrong, before the test set begins."""
    parts.withdraw_part(page.actor, page.space, number, part)
    return page.back(f"Part {part} is taken back.")


@router.post("/meters/{meter}/labels/{number}/release")
async def release_test_set(page: LabelingHere, number: Number) -> Response:
    """Hand a spent test set to the developers, with what really happened."""
    state = page.visit.request.app.state
    hand_out = partial(request_release, page.actor, page.space, number, draw=html_page)
    if await state.labeling(hand_out) is None:
        return page.back(f"Test set {number} is released to the developers.")
    if state.worker is not None:
        state.worker.call()
    return page.back(f"Test set {number} will be released: its models run once more first.")


@router.post("/meters/{meter}/test-sets/{number}/retire")
def retire_test_set(visit: VisitHere, meter: Id, number: Number) -> Response:
    """Retire the active test set early: for labelers and admins, who have different pages."""
    requests.retire_test_set(visit.at(meter), visit.site.space(meter), number)
    return visit.redirect(f"/meters/{meter}", f"Test set {number} is retired.")


@router.get("/meters/{meter}/test-sets/{number}/inputs.parquet")
def test_inputs(visit: VisitHere, meter: str, number: Number) -> Response:
    """Return the test inputs, to those who may see them."""
    return inputs_of(visit.at(meter), visit.site.space(meter), number)


@router.get("/meters/{meter}/batches/{number}")
def released_batch(visit: VisitHere, meter: Id, number: Number) -> Response:
    """Return a batch that has left the window of a rolling test set."""
    return batch_of_released(visit.at(meter), visit.site.space(meter), number)


@router.get("/meters/{meter}/test-sets/{number}/released/{file}")
def released_file(
    visit: VisitHere,
    meter: str,
    number: Number,
    file: Literal["testset.parquet", "retrospective.json", "report.html"],
    tenant: Tenant = None,
) -> Response:
    """Return a file of a released test set."""
    return file_of_released(visit.at(meter, tenant), visit.site.space(meter), number, file)
