"""In a browser: forms of other sites, markup in names, redirects, files."""

from __future__ import annotations

import re
from contextlib import closing
from html.parser import HTMLParser

import httpx
from tests.forms import KIND

from redteam import attack
from redteam.target import Client, Target, hold, refused

MARKUP = "<script>alert(1)</script>\"><img src=x onerror=alert(1)>{{7*7}}${7*7}' onload='x"
CSRF = re.compile(r'name="csrf(?:-token)?" (?:content|value)="(\w+)"')


class Visitor(Client):
    """Somebody with a browser, signed in."""

    def __init__(self, target: Target, name: str) -> None:
        super().__init__(target, None, base_url=target.address)
        person = target.people[name]
        form = {"name": person.name, "password": person.token}  # a token serves as a password
        self.post("/sign-in", data=form | {"csrf": csrf(self.get("/sign-in"))})
        self.csrf = csrf(self.get("/account"))


def csrf(page: httpx.Response) -> str:
    """Return the token of a page's forms."""
    found = CSRF.search(page.text)
    hold(found, f"no form at {page.request.url.path}: {page.status_code}")
    assert found is not None
    return found[1]


@attack(who="outsider", finding="a form of another site acts for somebody", attempts=[19])
def forms_of_another_site(client: Client) -> None:
    with closing(Visitor(client.target, "stranger")) as stranger:
        other = stranger.csrf
    with closing(Visitor(client.target, "developer")) as visitor:
        for token in ("", "x" * 64, other):
            refused(visitor.post("/account/tokens", data={"name": "t", "csrf": token}), 403)
        plain = {"Content-Type": "text/plain"}
        refused(visitor.post("/account/tokens", content=b"name=t", headers=plain))
        body = client.target.ground.guesses()
        submit = f"/meters/{client.target.ground.id}/submit?model=m"
        refused(visitor.post(submit, content=body, headers={"Content-Type": KIND}), 403)
        refused(visitor.get("/api/v1/me"), 401)


@attack(who="outsider", finding="a session of the intruder's choice", attempts=[19])
def a_session_brought_along(client: Client) -> None:
    token = client.target.people["stranger"].token
    for name in ("session", "meter-session", "__Host-session", "__Host-meter-session"):
        cookie = {"Cookie": f"{name}={token}"}
        page = client.get(f"{client.target.address}/account", headers=cookie)
        hold(page.status_code != 200, f"an API token as cookie {name} opens a page")


@attack(who="admin", finding="an open page follows a meter after its account was closed")
def a_page_that_outlives_its_account(client: Client) -> None:
    target = client.target
    ground, target.people["leaver"] = target.meter(begun=False), target.person("leaver")
    seats = [{"user": target.people[who].id, "role": "developer"} for who in ("leaver", "other")]
    client.post(ground.at("/members"), json=seats[0]).raise_for_status()
    newest = client.get(ground.at("/audit")).json()["items"][-1]["number"]
    with closing(Visitor(target, "leaver")) as visitor:
        page = f"/meters/{ground.id}/live?after={newest}"
        with visitor.stream("GET", page) as stream:
            client.patch(f"/users/{seats[0]['user']}", json={"disabled": True}).raise_for_status()
            client.post(ground.at("/members"), json=seats[1]).raise_for_status()
            hold("data" not in "".join(stream.iter_text()), "it heard that there is something new")


class _Scripts(HTMLParser):
    """Collect what a browser would run, or take from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            outside = name in ("src", "href", "action") and (value or "").startswith("http")
            inside = name.startswith("on") or "javascript:" in (value or "")
            if inside or (outside and tag != "a"):
                self.found.append(f"<{tag} {name}>")
        if tag == "script" and "src" not in dict(attributes):
            self.found.append("<script>")


@attack(who="developer", finding="markup of a name is run in a page", attempts=[20, 21])
def markup_in_names(client: Client) -> None:
    ground = client.target.meter(name=MARKUP[:80])
    ground.submit(client, model=MARKUP)
    home = f"/meters/{ground.id}"
    with closing(Visitor(client.target, "developer")) as developer:
        paths = ("/meters", home, f"{home}/report.html", f"/meters/{MARKUP}")
        pages = [developer.get(path) for path in paths]
    with closing(Visitor(client.target, "labeler")) as labeler:
        pages += [labeler.get(f"{home}/labels"), labeler.get("/account")]
    for page in pages:
        path = page.request.url.path
        reader = _Scripts()
        reader.feed(page.text)
        hold(not reader.found, f"{path}: {reader.found}")
        hold("49" not in page.text.partition("alert(1)")[2][:60], f"{path}: 7*7 was computed")
        policy = page.headers["Content-Security-Policy"]
        scripts = policy.partition("script-src")[2].partition(";")[0]
        hold("default-src 'none'" in policy and "unsafe" not in scripts, f"{path}: {policy}")
    for each in ("report.svg", "badge.svg"):
        drawing = client.get(ground.at(f"/{each}")).text
        hold("<script" not in drawing and "<img" not in drawing, f"{each} has markup")


@attack(who="outsider", finding="sign-in leads to another site", attempts=[22])
def open_redirects(client: Client) -> None:
    backs = (
        *(
            "https://example.org/",
            "//example.org/",
            "///example.org",
            "/\\example.org",
            "\\\\e.org",
        ),
        *("https:example.org", "javascript:alert(1)", "/%09/example.org", "/\t/example.org"),
        *("http:/example.org", "@example.org", ".example.org", "/..//example.org"),
    )
    with closing(Visitor(client.target, "developer")) as visitor:
        for back in backs:
            leads = visitor.get("/sign-in", params={"back": back}).headers.get("Location", "")
            fine = leads.startswith("/") and leads[1:2] not in ("/", "\\") and "\t" not in leads
            hold(fine, f"back={back!r} leads to {leads!r}")


@attack(who="outsider", finding="a file of the server is read by its path", attempts=[23])
def traversal(client: Client) -> None:
    ground = client.target.ground
    names = ("../server.key", "..%2f..%2fserver.key", "%2e%2e/server.key", "....//server.key")
    for name in (*names, "/etc/passwd", "%00", "style.css%00.js", "..\\server.key"):
        for path in (f"/static/{name}", f"/badge/{name}.svg"):
            refused(client.get(client.target.address + path))
        with client.target.client("developer") as developer:
            refused(developer.get(ground.at(f"/test-sets/1/released/{name}")))


@attack(who="outsider", finding="figures of the server leave through its proxy", attempts=[24])
def metrics_through_a_proxy(client: Client) -> None:
    for header in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "Via"):
        address = "for=127.0.0.1" if header == "Forwarded" else "127.0.0.1"
        answer = client.get(f"{client.target.address}/metrics", headers={header: address})
        refused(answer, 401)
