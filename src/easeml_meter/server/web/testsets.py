"""The labelers' page: labels asked for, delivered, taken back, and handed out once spent."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool

from easeml_meter.core.lifecycle import Phase
from easeml_meter.core.model import TestSet, stamp
from easeml_meter.errors import WrongPhase, invalid
from easeml_meter.server.api.common import seat_for
from easeml_meter.server.auth import meter_for
from easeml_meter.server.limits import streamed
from easeml_meter.server.parameters import Id, Number
from easeml_meter.server.web.pages import Visit, VisitHere
from easeml_meter.service import users
from easeml_meter.service.actor import Permission
from easeml_meter.service.testsets import browser, parts, requests
from easeml_meter.service.testsets.browser import Columns

router = APIRouter(include_in_schema=False)

Kind = Annotated[str, Query(max_length=20, pattern="^[a-z0-9]+$")]
Column = Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
_HEADER = 1 << 16  # what encryption adds, with room to spare
_LONGEST_REASON = 500


@router.get("/meters/{meter}/labels")
def labels_page(visit: VisitHere, meter: Id) -> Response:
    """Show what is asked for, and how far it has got."""
    site = visit.site
    opened = meter_for(site, visit.caller, meter, Permission.ADD_TEST_SET)
    space = site.space(meter)
    with space.reading() as books:
        situation = space.state(books)
    columns = browser.columns_before(space)
    return visit.render(
        "labels.html",
        meter=situation.meter,
        requests=requests.requests(space),
        names={user.id: user.name for user in users.users(site)},
        generations=situation.generations,
        releasable=_releasable(situation.generations),
        notices=[notice for notice in reversed(opened.notices()) if notice["rows_shared"]],
        columns=columns,
        commands=_commands(str(visit.request.base_url).rstrip("/"), meter, columns),
        recipient=site.identity.recipient,
        largest=browser.LARGEST,
    )


def _commands(server: str, meter: str, columns: Columns) -> str:
    """Say how to seal at home, in lines that a shell takes as they are."""
    place = ["--server", server, "--meter", meter]
    names = ["--label", columns.label, *(["--id", columns.id] if columns.id else [])]
    lines = (
        ["meter", "login", "--server", server],
        ["meter", "seal", "labels.parquet", *names, "--out", "labels.sealed", *place],
        ["meter", "testset", "add", "labels.sealed", *place],
    )
    return "\n".join(map(shlex.join, lines))


@router.post("/meters/{meter}/labels")
async def add_labels(
    visit: VisitHere,
    meter: Id,
    kind: Kind,
    label: Column,
    id_column: Annotated[str, Query(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = "",
) -> Response:
    """Take in a file that the page's script encrypted to the server's key."""
    seat_for(visit.site, visit.caller, meter, Permission.ADD_TEST_SET)
    pieces = [piece async for piece in streamed(visit.request, browser.LARGEST + _HEADER)]
    row = await run_in_threadpool(
        browser.add_labels,
        visit.site.space(meter),
        b"".join(pieces),
        kind=kind,
        label=label,
        id_column=id_column or None,
        user=visit.caller.user.id,
    )
    answer = _to_page(visit, meter, await run_in_threadpool(_progress, visit, row))
    # The script goes there with the browser: if it followed by itself, it would eat the message.
    answer.status_code = 204
    answer.headers["HX-Redirect"] = answer.headers["location"]
    return answer


def _progress(visit: Visit, row: TestSet) -> str:
    if row.phase is Phase.ACTIVE:
        return f"Test set {row.number} begins, with {row.rows:,} labels."
    with visit.site.reading() as books:
        here = sum(part.rows for part in requests.parts_of(books, row))
    return f"Taken in: {here:,} of {row.labels_needed:,} labels are here."


@router.post("/meters/{meter}/labels/{number}/describe")
def describe(visit: VisitHere, meter: Id, number: Number) -> Response:
    """Say why labels are asked for, and until when."""
    seat_for(visit.site, visit.caller, meter, Permission.ADD_TEST_SET)
    reason = visit.form.get("reason", "").strip()
    if len(reason) > _LONGEST_REASON or not reason.isprintable():
        raise invalid("reason", reason[:40], f"one line of at most {_LONGEST_REASON} characters")
    deadline = _end_of_day(visit.form.get("deadline", ""))
    space = visit.site.space(meter)
    requests.describe_request(space, number, reason=reason or None, deadline=deadline)
    return _to_page(visit, meter, "Saved.")


def _end_of_day(text: str) -> str | None:
    if not text:
        return None
    try:
        return stamp(datetime.strptime(text, "%Y-%m-%d").replace(hour=23, minute=59, tzinfo=UTC))
    except ValueError:
        raise invalid("deadline", text[:40], "a day such as 2026-03-31, or nothing") from None


@router.post("/meters/{meter}/labels/{number}/parts/{part}/withdraw")
def withdraw(visit: VisitHere, meter: Id, number: Number, part: Number) -> Response:
    """Take back labels that turned out wrong, before the test set begins."""
    seat_for(visit.site, visit.caller, meter, Permission.ADD_TEST_SET)
    parts.withdraw(visit.site.space(meter), number, part)
    return _to_page(visit, meter, f"Part {part} is taken back.")


@router.post("/meters/{meter}/labels/{number}/release")
def release(visit: VisitHere, meter: Id, number: Number) -> Response:
    """Hand a spent test set to the developers, with what really happened."""
    opened = meter_for(visit.site, visit.caller, meter, Permission.RELEASE)
    oldest = _releasable(opened.generations)
    if oldest is None or oldest.number != number:
        raise WrongPhase(f"test set {number}: only the oldest spent one can be released")
    opened.release()
    return _to_page(visit, meter, f"Test set {number} is released to the developers.")


def _releasable(generations: tuple[TestSet, ...]) -> TestSet | None:
    return next((row for row in generations if row.phase is Phase.SPENT), None)


def _to_page(visit: Visit, meter: str, message: str) -> Response:
    return visit.redirect(f"/meters/{meter}/labels", message)
