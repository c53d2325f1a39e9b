"""The page where somebody who was invited chooses a password.

The secret stands behind the # of the link, which browsers do not send: a script puts it into the
form. So it is in no log, and nothing that only follows the link uses it up.
"""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from easeml_meter.errors import InvalidInput, Unauthenticated
from easeml_meter.server.auth import SiteHere
from easeml_meter.server.limits import LoginCounted
from easeml_meter.server.web.pages import (
    SESSION,
    SESSION_DAYS,
    FormHere,
    check_door,
    door_form,
    sentence,
    set_cookie,
)
from easeml_meter.service.actor import ANYONE
from easeml_meter.service.invitations import redeem
from easeml_meter.service.users import LONGEST_PASSWORD, SHORTEST_PASSWORD

router = APIRouter(include_in_schema=False)


@router.get("/join")
def join_page(request: Request) -> Response:
    """Show the form."""
    return _form(request)


def _form(
    request: Request, *, invitation: str = "", problem: str = "", status: int = 200
) -> Response:
    return door_form(
        request,
        "join.html",
        status=status,
        invitation=invitation,
        problem=problem,
        shortest=SHORTEST_PASSWORD,
        longest=LONGEST_PASSWORD,
    )


@router.post("/join")
async def join(request: Request, site: SiteHere, form: FormHere, _: LoginCounted) -> Response:
    """Set the password, and open a session with it."""
    secret, password = form.get("invitation", "").strip(), form.get("password", "")
    if problem := check_door(request, form):
        return _form(request, problem=problem, status=403)
    exchange = partial(redeem, ANYONE, site, secret, password, days=SESSION_DAYS)
    try:
        _, session = await request.app.state.hashing(partial(exchange, purpose="browser"))
    except Unauthenticated as error:
        request.app.state.metrics.count_failed_login()
        return _form(request, problem=sentence(error), status=401)
    except InvalidInput as error:
        given = secret[:200]
        return _form(request, invitation=given, problem=sentence(error), status=422)
    answer = RedirectResponse("/meters", 303)
    set_cookie(request, answer, SESSION, session)
    return answer
