"""Submissions and validation sets on a meter's page, and what became of them."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse

from easeml_meter.core.submissions import Receipt
from easeml_meter.core.views import Signal
from easeml_meter.report.checked import checked_lines
from easeml_meter.server.api.common import body_of
from easeml_meter.server.api.forms import handed_in, submission_of
from easeml_meter.server.api.submissions import Baseline, MatchingHere, Model, NoteLink, NoteText
from easeml_meter.server.api.validation import Suffix
from easeml_meter.server.api.validation import validation_file as file_of_validation
from easeml_meter.server.parameters import FileName, Number, Tenant, one_line
from easeml_meter.server.web.history import ShownAnswer
from easeml_meter.server.web.meters import MeterPage
from easeml_meter.server.web.pages import Visit, VisitHere, wants_fragment
from easeml_meter.service.actor import Permission
from easeml_meter.service.submissions import checking, queue
from easeml_meter.service.validation import give_validation
from easeml_meter.tables.source import Held

router = APIRouter(include_in_schema=False)


def the_titles(test_name: FileName = "", validation_name: FileName = "") -> dict[str, str]:
    """Read what the sender calls the files of a submission."""
    return {"test": test_name, "validation": validation_name}


TitlesHere = Annotated[dict[str, str], Depends(the_titles)]


@router.post("/meters/{meter}/submit")
async def submit(  # noqa: PLR0917
    visit: VisitHere,
    meter: str,
    model: Model,
    matching: MatchingHere,
    titles: TitlesHere,
    tenant: Tenant = None,
    baseline: Baseline = False,
    note: NoteText = "",
    link: NoteLink = "",
) -> Response:
    """Accept a submission, as the form that the API takes; answer with a part of the page."""
    # Before the body is read, which may be large.
    actor = visit.caller.at(meter, tenant).granted(Permission.SUBMIT)
    space = visit.site.space(meter)
    body = await handed_in(visit.request, visit.settings, partial(queue.charged, actor, space))

    def accepted() -> Response:
        found = queue.accept(
            actor,
            space,
            model,
            body,
            matching=matching,
            titles=titles,
            baseline=baseline,
            note=note.strip(),
            link=link.strip(),
        )
        return _accepted(visit, meter, *found)

    return await run_in_threadpool(accepted)


@router.post("/meters/{meter}/check")
async def check(
    visit: VisitHere,
    meter: str,
    matching: MatchingHere,
    titles: TitlesHere,
    *,
    tenant: Tenant = None,
) -> Response:
    """Say how a submission is understood, without submitting it."""
    actor = visit.caller.at(meter, tenant).granted(Permission.SUBMIT)
    body = await submission_of(visit.request, visit.settings)

    def checked() -> Response:
        space = visit.site.space(meter)
        found = checking.check_packed(actor, space, body, matching, titles=titles)
        spec = MeterPage.open(visit, meter, tenant).state.spec
        return visit.render("checked.html", lines=checked_lines(found, spec), checked=found)

    return await run_in_threadpool(checked)


def _accepted(visit: Visit, meter: str, receipt: Receipt, signal: Signal | None) -> Response:
    if not receipt.final and visit.request.app.state.worker is not None:
        visit.request.app.state.worker.call()
    return _told(visit, meter, receipt, signal)


def _told(visit: Visit, meter: str, receipt: Receipt, signal: Signal | None) -> Response:
    answer = ShownAnswer(signal) if signal is not None else None
    opened = MeterPage.open(visit, meter, receipt.tenant)
    return opened.render("answer.html", receipt=receipt, answer=answer)


@router.get("/meters/{meter}/submissions/{submission}")
def show_submission(
    visit: VisitHere, meter: str, submission: str, tenant: Tenant = None
) -> Response:
    """Show how far a submission has got."""
    actor, space = visit.caller.at(meter, tenant), visit.site.space(meter)
    receipt = queue.receipt(actor, space, submission)
    if not wants_fragment(visit.request):
        return RedirectResponse(f"/meters/{meter}?tenant={receipt.tenant}", 303)
    return _told(visit, meter, receipt, queue.signal_for(actor, space, receipt))


@router.post("/meters/{meter}/submissions/{submission}/cancel")
def cancel(visit: VisitHere, meter: str, submission: str, tenant: Tenant = None) -> Response:
    """Withdraw a submission before a worker starts it."""
    actor = visit.caller.at(meter, tenant).granted(Permission.SUBMIT)
    queue.cancel(actor, visit.site.space(meter), submission)
    message = "The submission was taken back. It cost nothing."
    return visit.redirect(f"/meters/{meter}?tenant={actor.tenant}", message)


Column = Annotated[str, one_line()]


@router.post("/meters/{meter}/validation")
async def set_validation(  # noqa: PLR0917
    visit: VisitHere,
    meter: str,
    suffix: Suffix,
    label: Column = "",
    id_column: Column = "",
    cluster: Column = "",
    file_name: FileName = "",
) -> Response:
    """Hand in the first validation set, or replace it."""
    # Refused before the body is read: a stranger's may be long.
    actor = visit.at(meter).granted(Permission.SET_VALIDATION)
    body = await body_of(visit.request, visit.settings)

    def enter() -> Response:
        space = visit.site.space(meter)
        source = Held(f"validation.{suffix}", body, file_name, limits=space.limits)
        given = give_validation(
            actor,
            space,
            source,
            label=label or None,
            id_column=id_column,
            cluster=cluster or None,
        )
        return MeterPage.open(visit, meter).render("validated.html", entered=given)

    return await run_in_threadpool(enter)


@router.get("/meters/{meter}/validation")
def show_validation(visit: VisitHere, meter: str, tenant: Tenant = None) -> Response:
    """Show the validation set in use, and the form to replace it."""
    page = MeterPage.open(visit, meter, tenant)
    page.actor.granted(Permission.SEE_VALIDATION)
    return page.render("validation.html")


@router.get("/meters/{meter}/validation/{number}")
def validation_file(visit: VisitHere, meter: str, number: Number) -> Response:
    """Download a validation set."""
    return file_of_validation(visit.at(meter), visit.site.space(meter), number)
