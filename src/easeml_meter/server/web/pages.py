"""What all pages share: sessions, CSRF tokens, templates, messages, forms, error pages.

What is wrong is shown beside its form, which keeps what was typed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import re
import secrets
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from importlib.resources import files
from typing import Annotated, Any, cast
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from easeml_meter.errors import (
    Denied,
    FilesUnusable,
    MeterError,
    NotFound,
    StorageError,
    Unauthenticated,
    invalid,
)
from easeml_meter.report.page import DRAWINGS
from easeml_meter.report.percent import in_percent
from easeml_meter.report.words import ago, shown, when
from easeml_meter.server.auth import SettingsHere, SiteHere, actor_at, noted
from easeml_meter.server.errors import Problem, problem
from easeml_meter.server.settings import Settings
from easeml_meter.service.actor import ANYONE, Actor
from easeml_meter.service.place import Site
from easeml_meter.service.tokens import Caller, recognize

SESSION = "meter_session"
DOOR = "meter_door"
"""Names a browser before it has a session, for the CSRF token of the sign-in form."""
MESSAGE = "meter_message"
TOKENS = "tokens.css"
"""The colours and sizes of all pages."""
SESSION_DAYS = 0.5
_FORM = "application/x-www-form-urlencoded"
_LONGEST_MESSAGE = 500
_SAFE = ("GET", "HEAD")
_CALLER = "meter.caller"

static = APIRouter(include_in_schema=False)


# Forms


async def the_form(request: Request) -> dict[str, str]:
    """Read the fields of a form; a body of any other kind is left to the route."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != _FORM:
        return {}
    try:
        found = parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=99)
    except ValueError:
        raise invalid("form", "no fields", f"a form as {_FORM}") from None
    return {name: values[0] for name, values in found.items()}


FormHere = Annotated[dict[str, str], Depends(the_form)]


# Cookies and CSRF tokens


def cookie_name(request: Request, name: str) -> str:
    """Return a cookie's name; over TLS the browser itself keeps other hosts from setting it."""
    return f"__Host-{name}" if request.url.scheme == "https" else name


def set_cookie(
    request: Request, answer: Response, name: str, value: str, *, comes_back: bool = False
) -> None:
    """Set a cookie that scripts cannot read and other sites cannot use; empty: take it away.

    With `comes_back`, it is also sent by a browser that follows a link or redirect from elsewhere.
    """
    answer.set_cookie(
        cookie_name(request, name),
        value,
        max_age=None if value else 0,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="lax" if comes_back else "strict",
    )


def get_cookie(request: Request, name: str) -> str:
    """Read a cookie; empty if there is none."""
    return request.cookies.get(cookie_name(request, name), "")


def csrf_token(site: Site, name: str) -> str:
    """Return the token without which no form of this session, or browser, is accepted."""
    return signature(site, f"csrf {name}")


def signature(site: Site, text: str) -> str:
    """Sign a text that a browser keeps for this site."""
    key = site.derived_key(b"easeml-meter/1 pages")
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def check_csrf(request: Request, form: dict[str, str], expected: str) -> None:
    """Refuse a request that changes something and does not come from a page of this site."""
    given = request.headers.get("x-csrf-token") or form.get("csrf", "")
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise Denied("the form is too old, or not from this site: load the page again")


# Who asks


@dataclass(frozen=True)
class Visit:
    """A request for a page by somebody who is signed in."""

    request: Request
    site: Site
    settings: Settings
    caller: Caller
    form: dict[str, str]

    @property
    def server(self) -> str:
        """The address of this server, for commands and links that people copy.

        The Host header is whatever the request says, so the settings come first.
        """
        return self.settings.public_url or str(self.request.base_url).rstrip("/")

    def at(self, meter: str, tenant: int | None = None) -> Actor:
        """Return the visitor as an actor at a meter."""
        return actor_at(self.site, self.caller, meter, tenant)

    def at_site(self) -> Actor:
        """Return the visitor as an actor for what belongs to no meter."""
        return self.caller.at_site()

    def field(self, name: str, *, longest: int = 1000) -> str:
        """Return a required field of the form, without spaces around it."""
        value = self.form.get(name, "").strip()
        if not 1 <= len(value) <= longest:
            raise invalid(name, value[:40], f"1 to {longest} characters")
        return value

    def render(self, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Answer with a page."""
        return render(self.request, template, status=status, caller=self.caller, **values)

    def redirect(self, address: str, message: str = "") -> RedirectResponse:
        """Go on to another page, after a form was taken; it shows the message once."""
        answer = RedirectResponse(address, 303)
        if message:
            set_cookie(self.request, answer, MESSAGE, packed_message(self.site, message))
        return answer


def signed_in(request: Request, site: SiteHere, settings: SettingsHere, form: FormHere) -> Visit:
    """Return who asks, by the session's cookie alone; forms must carry their CSRF token."""
    caller = _caller(request, site)
    if request.method not in _SAFE:
        check_csrf(request, form, csrf_token(site, caller.token.id))
    return Visit(request, site, settings, caller, form)


VisitHere = Annotated[Visit, Depends(signed_in)]


def _caller(request: Request, site: Site) -> Caller:
    caller = recognize(ANYONE, site, get_cookie(request, SESSION))
    # Only what signing in has made: a token for scripts may last for years.
    if caller.token.kind != "session":
        raise Unauthenticated("this token is no session: sign in")
    request.scope[_CALLER] = caller
    return noted(request, caller)


def maybe_signed_in(request: Request, site: SiteHere) -> Caller | None:
    """Return who asks, if anyone is signed in, for a page that everyone may read."""
    try:
        return _caller(request, site)
    except Unauthenticated:
        return None


MaybeCaller = Annotated[Caller | None, Depends(maybe_signed_in)]


# Pages


@cache
def _templates() -> Environment:
    found = Environment(
        loader=PackageLoader("easeml_meter.server.web"),
        autoescape=True,
        # A name that is misspelt fails in the tests, and does not leave a gap in a page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["static"] = static_address
    found.filters["shown"] = shown
    found.filters["thousands"] = lambda number: f"{number:,}"
    found.filters["percent"] = in_percent
    found.filters["code"] = _with_code
    found.filters["initials"] = _initials
    found.filters["moment"] = lambda stamp: f"{stamp[:10]} {stamp[11:16]}"
    return found


def _ago(stamp: str | datetime, now: datetime) -> Markup:
    """Mark a moment: how long ago it was, and on hover when, in UTC."""
    moment = datetime.fromisoformat(stamp) if isinstance(stamp, str) else stamp
    written = when(moment)
    title = f"{written[:10]} {written[11:16]} UTC"
    marked = Markup('<time datetime="{}" title="{}">{}</time>')
    return marked.format(written, title, ago(moment, now))


def _initials(name: str) -> str:
    """Return two letters for a picture of somebody."""
    words = re.findall(r"\w+", name)
    return (words[0][0] + words[-1][0] if len(words) > 1 else "".join(words)[:2]).upper()


def _with_code(line: str) -> Markup:
    """Mark commands, which stand in `backticks`."""
    parts = enumerate(line.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(p) if n % 2 else p for n, p in parts)


def render(
    request: Request,
    template: str,
    *,
    status: int = 200,
    caller: Caller | None = None,
    **values: Any,
) -> HTMLResponse:
    """Answer with a page, for whoever asks."""
    site: Site = request.app.state.site
    message = _unpacked(site, get_cookie(request, MESSAGE))
    shared = {
        "caller": caller,
        "csrf": "" if caller is None else csrf_token(site, caller.token.id),
        "path": request.url.path,
        "message": message,
        "fragment": wants_fragment(request),
        "ago": _clocked(site),
    }
    text = _templates().get_template(template).render(shared | values)
    # A form may tell from which page it was sent: one returns there after signing in again.
    answer = HTMLResponse(text, status, {"Referrer-Policy": "same-origin"})
    # A fragment shows no message, so it must not use one up.
    if message and not shared["fragment"]:
        set_cookie(request, answer, MESSAGE, "")
    return answer


def door_form(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Answer with a form for somebody without a session, which only their browser can send back.

    Otherwise another site could sign a visitor in, to an account whose owner then watches.
    """
    site: Site = request.app.state.site
    door = get_cookie(request, DOOR) or secrets.token_urlsafe(24)
    values["door_csrf"] = csrf_token(site, door)
    answer = render(request, template, status=status, **values)
    set_cookie(request, answer, DOOR, door)
    return answer


def check_door(request: Request, form: dict[str, str]) -> str:
    """Check a form of `door_form`; return what to tell a browser that keeps no cookies."""
    door = get_cookie(request, DOOR)
    if not door:
        return "This browser sent no cookie back: allow cookies of this site, and try again."
    check_csrf(request, form, csrf_token(request.app.state.site, door))
    return ""


def sentence(error: Exception) -> str:
    """Return a refusal as a page says it."""
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


def download(content: str | bytes, media_type: str, name: str) -> Response:
    """Answer with a file that the browser saves under a name."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=media_type, headers=headers)


def fragment(site: Site, template: str, **values: Any) -> str:
    """Write a part of a page that is not made for one visitor: it knows no session and no token."""
    return _templates().get_template(template).render({"ago": _clocked(site)} | values)


def _clocked(site: Site) -> Callable[[str | datetime], Markup]:
    return partial(_ago, now=site.clock())


def wants_fragment(request: Request) -> bool:
    """Whether a script of a page asks, which puts the answer into that page."""
    return request.headers.get("hx-request") == "true"


def packed_message(site: Site, message: str) -> str:
    """Return a message as the cookie that shows it once."""
    content = message[:_LONGEST_MESSAGE].encode(errors="replace")
    text = base64.urlsafe_b64encode(content).decode().rstrip("=")
    return f"{text}.{signature(site, f'message {text}')}"


def _unpacked(site: Site, cookie: str) -> str:
    """Read a message that this site has signed: nobody else may speak in its name."""
    text, _, given = cookie.partition(".")
    if not hmac.compare_digest(given.encode(), signature(site, f"message {text}").encode()):
        return ""
    return base64.urlsafe_b64decode(f"{text}==").decode()


# Static files


@cache
def _static(name: str) -> tuple[bytes, str]:
    """Return a file's content, compressed, and its digest."""
    # Looked up in a listing: no name leads out of the folder, and none that strangers make up is
    # cached.
    there = {each.name: each for each in (files("easeml_meter.server.web") / "static").iterdir()}
    if name not in there:
        raise NotFound(f"file {name[:80]!r}: there is none")
    content = there[name].read_bytes()
    if name == "style.css":  # one request for all, and drawings as in reports
        content = there[TOKENS].read_bytes() + DRAWINGS.encode() + content
    return gzip.compress(content, mtime=0), hashlib.sha256(content).hexdigest()[:16]


def static_text(name: str) -> str:
    """Return the text of a file."""
    return gzip.decompress(_static(name)[0]).decode()


def static_address(name: str) -> str:
    """Return the address of a file as it is now; a changed file has another one."""
    return f"/static/{name}?v={_static(name)[1]}"


_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@static.get("/static/{name}")
def static_file(request: Request, name: str, v: str = "") -> Response:
    """Send a style sheet, a script or a picture.

    These are public, so they may be compressed. Pages are not: the length of a compressed page
    would depend on what its secrets, such as CSRF tokens, have in common with its other text.
    """
    content, digest = _static(name)
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable" if v == digest else "no-cache",
        "Vary": "Accept-Encoding",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
    else:
        content = gzip.decompress(content)
    return Response(content, media_type=_KINDS[name.rpartition(".")[2]], headers=headers)


# Errors


def recognise(request: Request) -> None:
    """Note who is signed in, so that an error page can show it."""
    if _CALLER not in request.scope and get_cookie(request, SESSION):
        with suppress(MeterError):
            _caller(request, request.app.state.site)


def error_page(request: Request, status: int, problem: Problem) -> Response:
    """Answer with what went wrong; visitors without a session are sent to sign in, and back."""
    if status == 401:
        return _to_sign_in(request)
    caller = cast(Caller | None, request.scope.get(_CALLER))
    template = "problem.html" if wants_fragment(request) else "error.html"
    message = problem.message.encode(errors="replace").decode()
    heading = _HEADINGS.get(status, "This did not work")
    return render(request, template, status=status, caller=caller, heading=heading, problem=message)


_HEADINGS = {
    403: "You may not see or do this",
    404: "There is no such page",
    405: "There is no such page",
    409: "Something changed in the meantime",
    413: "This is too large",
    422: "Something is not right",
    429: "Too many requests",
    500: "The server failed",
    503: "The server cannot answer now",
}


def _to_sign_in(request: Request) -> Response:
    ended = bool(get_cookie(request, SESSION))
    if not ended and request.headers.get("sec-fetch-site") == "cross-site":
        # A link from elsewhere comes without our cookie; asked for by ourselves, it has it.
        return render(request, "again.html", address=here(request))
    address = f"/sign-in?back={quote(here(request), safe='/')}{'&ended=1' if ended else ''}"
    # An open stream must not fetch the sign-in page by itself: that would void the form of another.
    streams = request.headers.get("accept") == "text/event-stream"
    if wants_fragment(request) or streams:
        return Response(status_code=401, headers={"HX-Redirect": address})
    answer = RedirectResponse(address, 303)
    set_cookie(request, answer, SESSION, "")
    return answer


def here(request: Request) -> str:
    """Return the address of the page that somebody sees: the one requested, or that of the form."""
    if request.method == "GET" and not wants_fragment(request):
        query = f"?{request.url.query}" if request.url.query else ""
        return own_address(f"{request.url.path}{query}")
    try:
        page = urlsplit(request.headers.get("hx-current-url") or request.headers.get("referer", ""))
    except ValueError:  # no address at all
        return "/meters"
    if page.netloc != request.url.netloc:
        return "/meters"
    return own_address(f"{page.path}?{page.query}" if page.query else page.path)


def own_address(address: str) -> str:
    """Return an address if it is on this site, else that of the list of meters."""
    # Browsers read a backslash as a slash, and // as the beginning of another host.
    plain = address.isprintable() and "\\" not in address
    own = address.startswith("/") and not address.startswith(("//", "/sign-in"))
    return address if plain and own else "/meters"


_PAGES = (Unauthenticated, Denied, NotFound, StorageError, FilesUnusable)
"""Errors with a page of their own; all others are shown beside the form."""


def fill(
    visit: Visit, form: str, act: Callable[[], Response], page: Callable[..., Response]
) -> Response:
    """Do what a form asks for, or show its page again with what was wrong, beside that form."""
    try:
        return act()
    except _PAGES:
        raise
    except MeterError as error:
        status, told = problem(error)
        return page(visit, status=status, problems={form: told.message})


def show_forms(
    visit: Visit, template: str, problems: dict[str, str] | None, **values: Any
) -> Response:
    """Answer with a page of forms: those with a problem keep what was typed.

    What is shown once, such as a password, stays out of every cache.
    """
    typed = visit.form if problems else {}
    answer = visit.render(
        template,
        problems=defaultdict(str, problems or {}),
        form=defaultdict(str, typed),
        **values,
    )
    answer.headers["Cache-Control"] = "no-store"
    return answer
