"""Signing in and out."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from easeml_meter.core.people import User
from easeml_meter.errors import Unauthenticated
from easeml_meter.server.auth import SiteHere
from easeml_meter.server.limits import LoginCounted
from easeml_meter.server.web.pages import (
    DOOR,
    SESSION,
    SESSION_DAYS,
    FormHere,
    MaybeCaller,
    VisitHere,
    check_csrf,
    csrf_token,
    get_cookie,
    own_address,
    render,
    set_cookie,
)
from easeml_meter.service import tokens, users
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import TOKEN_PREFIX

router = APIRouter(include_in_schema=False)

Back = Annotated[str, Query(max_length=2000)]


@router.get("/")
def start(caller: MaybeCaller) -> Response:
    """Go to the meters, or to sign in."""
    return RedirectResponse("/sign-in" if caller is None else "/meters", 303)


@router.get("/sign-in")
def sign_in_page(
    request: Request, caller: MaybeCaller, back: Back = "/meters", ended: bool = False
) -> Response:
    """Show the form; who is signed in already goes on."""
    if caller is not None:
        return RedirectResponse(own_address(back), 303)
    return _form(request, back=back, ended=ended)


def _form(
    request: Request,
    *,
    back: str,
    name: str = "",
    ended: bool = False,
    problem: str = "",
    status: int = 200,
) -> Response:
    site: Site = request.app.state.site
    door = get_cookie(request, DOOR) or secrets.token_urlsafe(24)
    answer = render(
        request,
        "sign_in.html",
        status=status,
        back=own_address(back),
        name=name,
        ended=ended,
        problem=problem,
        door_csrf=csrf_token(site.identity, door),
    )
    set_cookie(request, answer, DOOR, door)
    return answer


@router.post("/sign-in")
def sign_in(request: Request, site: SiteHere, form: FormHere, _: LoginCounted) -> Response:
    """Exchange a name and a password for a session."""
    name, given, address = (form.get(each, "") for each in ("name", "password", "back"))
    door = get_cookie(request, DOOR)
    if not door:
        problem = "This browser sent no cookie back: allow cookies of this site, and try again."
        return _form(request, back=address, name=name[:200], problem=problem, status=403)
    check_csrf(request, form, csrf_token(site.identity, door))
    try:
        user = _known(site, name.strip(), given)
    except Unauthenticated as error:
        request.app.state.metrics.count_failed_login()
        problem = str(error).capitalize() + "."
        return _form(request, back=address, name=name[:200], problem=problem, status=401)
    secret = tokens.new_token(site, user.id, "browser", days=SESSION_DAYS, kind="session")[1]
    answer = RedirectResponse(own_address(address), 303)
    set_cookie(request, answer, SESSION, secret)
    return answer


def _known(site: Site, name: str, given: str) -> User:
    """Check a password, or in its place a token that may do all its user may do."""
    if not given.startswith(TOKEN_PREFIX):
        return users.log_in(site, name, given)
    caller = tokens.caller_of(site, given)
    if caller.token.scopes or caller.user.name != name:
        raise Unauthenticated("the token is limited, or another user's: give your password")
    return caller.user


@router.post("/sign-out")
def sign_out(visit: VisitHere) -> Response:
    """End the session."""
    tokens.revoke_token(visit.site, visit.caller.token.id)
    answer = visit.redirect("/sign-in", "You are signed out.")
    set_cookie(visit.request, answer, SESSION, "")
    return answer
