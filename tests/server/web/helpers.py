"""People in front of a browser, without one: cookies, forms, and what a page says."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx
from tests.server.driving import VALIDATION, submission
from tests.server.helpers import Served
from tests.service.helpers import Labels, with_errors

from easeml_meter.server.web.pages import SESSION

SITE = "http://server"
PASSWORD = "a secret of some length"  # noqa: S105


class Visitor:
    """A browser's client: it keeps cookies, follows no redirect, and brings CSRF tokens."""

    def __init__(self, served: Served, user: str | None = None, *, scheme: str = "http") -> None:
        self.client = served.client_from("192.0.2.9")
        self.client.base_url = httpx.URL(f"{scheme}://server")
        self.csrf = ""
        if user is not None:
            secret = served.session(user)
            name = f"__Host-{SESSION}" if scheme == "https" else SESSION
            self.client.cookies.set(name, secret, domain="server.local")
            self.get("/meters")

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Open a page, and take note of its CSRF token."""
        answer = self.client.get(path, **options)
        found = re.search(r'name="csrf(?:-token)?" (?:content|value)="(\w+)"', answer.text)
        if found:
            self.csrf = found[1]
        return answer

    def send(self, path: str, **fields: str) -> httpx.Response:
        """Send a form."""
        return self.client.post(path, data={"csrf": self.csrf} | fields)

    def put_in(self, path: str, body: bytes, **params: str) -> httpx.Response:
        """Send a file, as the script of a page does."""
        headers = {"X-CSRF-Token": self.csrf, "HX-Request": "true"}
        return self.client.post(path, params=params, content=body, headers=headers)


def words(answer: httpx.Response) -> str:
    """Give what a page says, without its tags."""
    text = re.sub(r"<(title|desc)>.*?</\1>", " ", answer.text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def cookies_of(answer: httpx.Response) -> dict[str, set[str]]:
    """Give the cookies that an answer sets, each with its attributes."""
    found = {}
    for line in answer.headers.get_list("set-cookie"):
        first, *rest = line.split(";")
        found[first.partition("=")[0]] = {each.strip().lower() for each in rest}
    return found


def body_with(labels: Labels, errors: int = 0, salt: str = "") -> bytes:
    return submission(with_errors(labels, errors), VALIDATION, salt)


def shown_secret(page: httpx.Response) -> str:
    """Give what a page shows once."""
    found = re.search(r'role="status">.*?<code class="long">([^<]+)</code>', page.text, re.DOTALL)
    assert found, page.text
    assert page.headers["cache-control"] == "no-store"
    return found[1]
