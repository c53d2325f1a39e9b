"""The pages of the site of `meter serve --demo`: who opens each, and where it is.

`python -m tests.demo.pages`, part of `make screenshots`, writes docs/pages.md again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from anyio.from_thread import start_blocking_portal
from tests.server.helpers import Served

from easeml_meter.demo.site import fill
from easeml_meter.server.app import create_app
from easeml_meter.server.serve import open_site
from easeml_meter.server.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "https://meter.example.org"
"""What pages and commands give as the address of the site."""


@dataclass(frozen=True)
class Page:
    """A page of the site; the name of a meter or user in braces stands for its id."""

    name: str
    who: str | None
    path: str
    title: str

    def address(self, ids: dict[str, str]) -> str:
        """Return where it is on one site."""
        return re.sub(r"\{([\w-]+)\}", lambda found: ids[found[1]], self.path)


PAGES = (
    Page("sign-in", None, "/sign-in", "Sign in"),
    Page("join", None, "/join", "By an invitation, one chooses a password"),
    Page("planner", None, "/planner", "How many labels a test set needs"),
    Page("not-found", None, "/no-such-page", "An address that leads nowhere"),
    Page("meters", "dan", "/meters", "All meters, those first that wait for you"),
    Page("meter", "dan", "/meters/{mail-filter}", "A meter that is nearly spent"),
    Page("meter-new", "dan", "/meters/{comment-filter}", "A meter with most answers left"),
    Page("meter-requested", "dan", "/meters/{review-filter}", "A meter that waits for labels"),
    Page(
        *("meter-released", "dan", "/meters/{attachment-filter}?generation=1"),
        "A test set that was released: the truth beside the answers",
    ),
    Page("promise", "dan", "/meters/{mail-filter}/promise", "What is promised, and on what terms"),
    Page("test-sets", "dan", "/meters/{attachment-filter}/test-sets", "All test sets of a meter"),
    Page(
        *("story", "dan", "/meters/{attachment-filter}/test-sets/1"),
        "The story of a released test set",
    ),
    Page(
        *("compare", "dan", "/meters/{attachment-filter}/test-sets/1/compare"),
        "Two models on a released test set, example by example",
    ),
    Page("validation", "dan", "/meters/{mail-filter}/validation", "The validation set in use"),
    Page("settings", "dan", "/meters/{mail-filter}/settings", "What was planned"),
    Page("account", "dan", "/account", "Your own tokens and password"),
    Page("labeler-meters", "lena", "/meters", "All meters, as a labeler sees them"),
    Page("labeler-meter", "lena", "/meters/{mail-filter}", "A meter, as a labeler sees it"),
    Page("labels-needed", "lena", "/meters/{review-filter}/labels", "Labels are needed"),
    Page("labels", "lena", "/meters/{mail-filter}/labels", "No labels are needed"),
    Page("admin", "ada", "/admin", "What is left to set up, and all meters"),
    Page("admin-meter", "ada", "/admin/meters/{mail-filter}", "Seats, audit trail and webhooks"),
    Page("admin-users", "ada", "/admin/users", "All accounts"),
    Page("admin-user", "ada", "/admin/users/{dan}", "An account, and its invitation"),
    Page("admin-new-meter", "ada", "/admin/meters/new", "Make a meter"),
)
"""Kept as pictures in docs/images/pages, by name."""
VARIANTS = ("desktop-light", "desktop-dark", "phone-light", "phone-dark")
_OPENED_BY = {
    None: "For everyone",
    "dan": "Developer",
    "lena": "Labeler",
    "ada": "Admin",
}


def gallery() -> str:
    """Write the page of the docs that shows all pages."""
    lines = [
        "<!-- Written by tests/demo/pages.py: change the list there, run make screenshots. -->",
        "",
        "# The pages",
        "",
        "Every page of the site that `meter serve --demo` makes, in a wide window and light",
        "colours; below each picture, the same in the dark and on a phone. Pages are light or dark",
        "as your system is.",
    ]
    for who, heading in _OPENED_BY.items():
        lines += ["", f"## {heading}"]
        for page in PAGES:
            if page.who == who:
                first, *others = VARIANTS
                at = f"images/pages/{page.name}"
                links = [f"[{each.replace('-', ', ')}]({at}-{each}.webp)" for each in others]
                lines += ["", f"### {page.title}", "", f"![{page.title}]({at}-{first}.webp)"]
                lines += ["", " · ".join(links)]
    return "".join(f"{line}\n" for line in lines)


def ids_of(api: httpx.Client, password: str) -> dict[str, str]:
    """Ask a site for the ids of its meters and users, by name."""
    found: dict[str, str] = {}
    for who, path in (("dan", "/meters"), ("ada", "/users")):
        answer = api.post("/login", json={"name": who, "password": password})
        headers = {"Authorization": f"Bearer {answer.json()['token']}"}
        listed = api.get(path, headers=headers).json()["items"]
        found |= {each["name"]: each["id"] for each in listed}
    return found


@dataclass
class Seeded:
    """The seeded site in this process, and a browser's client for each of its people."""

    served: Served
    password: str
    ids: dict[str, str]
    clients: dict[str | None, httpx.Client] = field(default_factory=dict)

    def open(self, page: Page) -> httpx.Response:
        """Open a page as the one it is for."""
        if page.who not in self.clients:
            client = self.clients[page.who] = self.served.client_from("192.0.2.9")
            client.base_url = httpx.URL("http://server")
            if page.who is not None:
                self._sign_in(client, page.who)
        return self.clients[page.who].get(page.address(self.ids))

    def _sign_in(self, client: httpx.Client, who: str) -> None:
        door = re.search('name="csrf" value="([0-9a-f]+)"', client.get("/sign-in").text)
        assert door is not None
        form = {"csrf": door[1], "name": who, "password": self.password}
        assert client.post("/sign-in", data=form).status_code == 303


@contextmanager
def seeded(folder: Path) -> Iterator[Seeded]:
    """Fill a new site as `meter serve --demo` does, and open it without a network."""
    settings = Settings(folder=folder, public_url=ADDRESS, requests_per_second=0)
    with closing(open_site(settings)) as site, start_blocking_portal() as portal:
        password = fill(site)
        served = Served(site, create_app(site, settings), portal)
        yield Seeded(served, password, ids_of(served.client(), password))


if __name__ == "__main__":
    (DOCS / "pages.md").write_text(gallery(), encoding="utf-8")
