"""Signing in by a provider, in a browser: there and back, with every way to misuse it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from tests.server.helpers import Served, serve
from tests.server.provider import CLIENT, SECRET, OwnProvider, own_provider
from tests.server.web.helpers import Visitor, words

from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.users import reset_password

PROVIDER = "/sign-in/provider"
CALLBACK = "/sign-in/callback"
COOKIE = "meter_provider"


def settings(issuer: str) -> dict[str, Any]:
    return {
        "oidc_issuer": issuer,
        "oidc_name": "Example Login",
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "oidc_seat": ["filters=developer:meter"],
        "public_url": "http://server",
    }


@pytest.fixture
def there() -> Iterator[OwnProvider]:
    with own_provider() as provider:
        provider.person = {"sub": "7", "preferred_username": "ann", "groups": ["filters"]}
        yield provider


@pytest.fixture
def served(tmp_path: Path, there: OwnProvider) -> Iterator[Served]:
    with serve(tmp_path, **settings(there.issuer)) as each:
        each.add_meter()
        yield each


def gone(visitor: Visitor, there: OwnProvider, path: str = PROVIDER) -> dict[str, str]:
    """Go to the provider and sign in there; return what the browser brings back."""
    sent = visitor.client.get(path)
    assert sent.status_code == 303, sent.text
    assert sent.headers["location"].startswith(f"{there.issuer}/authorize?")
    return there.authorize(sent.headers["location"])


def gone_to_connect(owner: Visitor, there: OwnProvider) -> dict[str, str]:
    """The same from "Your account", to connect it; the page goes on by itself."""
    owner.get("/account")
    page = owner.send("/account/connect")
    assert page.status_code == 200, page.text
    address = unescape(re.findall(r'content="0; url=([^"]*)"', page.text)[0])
    assert address.startswith(f"{there.issuer}/authorize?")
    return there.authorize(address)


def test_somebody_signs_in_and_has_the_seats_of_their_groups(
    served: Served, there: OwnProvider
) -> None:
    visitor = Visitor(served)
    page = visitor.get("/sign-in?back=/account")
    assert "Sign in with Example Login" in words(page)
    link = unescape(re.findall(r'href="(/sign-in/provider[^"]*)"', page.text)[0])
    back = visitor.client.get(CALLBACK, params=gone(visitor, there, link))
    assert back.status_code == 200
    assert 'content="0; url=/account"' in back.text  # the browser asks by itself: it has the cookie
    cookies = back.headers.get_list("set-cookie")
    assert any("meter_session=" in each and "SameSite=strict" in each for each in cookies)
    assert any(f'{COOKIE}=""' in each for each in cookies)
    assert "ann" in words(visitor.get("/account"))
    assert "meter" in words(visitor.get("/meters"))


def test_the_cookie_of_a_sign_in_comes_back_from_elsewhere_and_scripts_do_not_see_it(
    served: Served,
) -> None:
    (cookie,) = Visitor(served).client.get(PROVIDER).headers.get_list("set-cookie")
    assert "SameSite=lax" in cookie
    assert "HttpOnly" in cookie


def test_a_link_with_somebody_elses_code_signs_nobody_in(
    served: Served, there: OwnProvider
) -> None:
    """Else a victim would work in the attacker's account, without noticing."""
    attackers = gone(Visitor(served), there)
    victim = Visitor(served)
    assert victim.client.get(CALLBACK, params=attackers).status_code == 401
    gone(victim, there)
    refused = victim.client.get(CALLBACK, params=attackers)
    assert refused.status_code == 401
    assert "meter_session" not in str(refused.headers.get_list("set-cookie"))


def test_a_callback_is_good_once(served: Served, there: OwnProvider) -> None:
    visitor = Visitor(served)
    back = gone(visitor, there)
    assert visitor.client.get(CALLBACK, params=back).status_code == 200
    again = visitor.client.get(CALLBACK, params=back)
    assert again.status_code == 401
    assert "took too long, or began elsewhere" in words(again)


def test_a_cookie_that_was_changed_or_is_old_is_no_cookie(
    served: Served, there: OwnProvider
) -> None:
    for change in (lambda text: "x" + text, lambda text: text[:-1] + "0", lambda _: "..", str):
        visitor = Visitor(served)
        back = gone(visitor, there)
        kept = visitor.client.cookies[COOKIE]
        changed = change(kept)
        visitor.client.cookies.clear()
        visitor.client.cookies.set(COOKIE, changed, domain="server.local")
        answer = visitor.client.get(CALLBACK, params=back)
        assert (answer.status_code == 200) is (changed == kept)


@pytest.mark.parametrize(
    "address", ["https://elsewhere.example/", "//elsewhere.example", "/sign-in", "javascript:1"]
)
def test_nobody_is_sent_elsewhere_afterwards(
    served: Served, there: OwnProvider, address: str
) -> None:
    visitor = Visitor(served)
    back = gone(visitor, there, f"{PROVIDER}?back={address}")
    page = visitor.client.get(CALLBACK, params=back)
    assert 'url=/meters"' in page.text


def test_an_error_of_the_provider_is_told_without_its_words(served: Served) -> None:
    visitor = Visitor(served)
    visitor.client.get(PROVIDER)
    answer = visitor.client.get(CALLBACK, params={"error": "<b>phishing</b>", "state": "x"})
    assert answer.status_code == 401
    assert "phishing" not in answer.text


def test_a_provider_that_is_away_leaves_the_password(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    with serve(tmp_path, **settings(f"http://127.0.0.1:{port}")) as served:
        answer = Visitor(served).client.get(PROVIDER)
        assert answer.status_code == 503
        assert "cannot be reached now" in words(answer)
        assert 'name="password"' in answer.text


def test_an_account_of_this_server_is_connected(served: Served, there: OwnProvider) -> None:
    there.person = {"sub": "9", "preferred_username": "developer"}
    refused = Visitor(served)
    taken = refused.client.get(CALLBACK, params=gone(refused, there))
    assert "is here already: sign in to it with its password" in words(taken)
    owner = Visitor(served, "developer")
    assert "Connect with Example Login" in words(owner.get("/account"))
    page = owner.client.get(CALLBACK, params=gone_to_connect(owner, there))
    assert 'url=/account"' in page.text
    assert "connected" in words(owner.get("/account"))
    fresh = Visitor(served)
    assert fresh.client.get(CALLBACK, params=gone(fresh, there)).status_code == 200
    assert "developer" in words(fresh.get("/account"))


def test_a_session_that_was_revoked_meanwhile_connects_nothing(
    served: Served, there: OwnProvider
) -> None:
    there.person = {"sub": "9", "preferred_username": "thief"}
    thief = Visitor(served, "developer")
    back = gone_to_connect(thief, there)
    reset_password(SYSTEM, served.site, served.users["developer"].id)
    refused = thief.client.get(CALLBACK, params=back)
    assert refused.status_code == 401
    assert "revoked: log in again" in words(refused)
    fresh = Visitor(served)
    fresh.client.get(CALLBACK, params=gone(fresh, there))
    assert "thief" in words(fresh.get("/account"))


def test_only_who_is_signed_in_connects(served: Served) -> None:
    sent = Visitor(served).client.post("/account/connect")
    assert sent.headers["location"].startswith("/sign-in")


def test_no_link_or_form_of_another_site_begins_to_connect(served: Served) -> None:
    """Whoever had signed a victim's browser in to the provider as themselves got their account."""
    owner = Visitor(served, "developer")
    answer = owner.client.get("/account/connect")
    assert (answer.status_code, owner.client.cookies.get(COOKIE)) == (405, None)
    owner.csrf = "0" * 64
    answer = owner.send("/account/connect")
    assert (answer.status_code, owner.client.cookies.get(COOKIE)) == (403, None)


def test_without_a_provider_there_is_no_such_page(tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        for path in (PROVIDER, CALLBACK):
            assert Visitor(served).client.get(path).status_code == 404
        assert "Sign in with" not in Visitor(served).get("/sign-in").text


@pytest.fixture(scope="module")
def real() -> Iterator[str]:
    """The provider of the package oidc-provider-mock, in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "oidc_provider_mock",
        "--port",
        str(port),
        "--require-nonce",
        "true",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as process:  # type: ignore[call-overload]
        address = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                httpx.get(address, trust_env=False)
                break
            except httpx.ConnectError:
                time.sleep(0.1)
        yield address
        process.terminate()


@pytest.mark.slow
def test_somebody_signs_in_by_a_provider_of_others(real: str, tmp_path: Path) -> None:
    claims = {"preferred_username": "ann", "email": "ann@example.org", "groups": ["filters"]}
    with (
        httpx.Client(trust_env=False) as provider,
        serve(tmp_path, **settings(real)) as served,
    ):
        assert provider.put(f"{real}/users/ann-1", json=claims).status_code == 204
        served.add_meter()
        visitor = Visitor(served)
        sent = visitor.client.get(PROVIDER).headers["location"]
        assert "Authorize" in provider.get(sent).text
        came = provider.post(sent, data={"sub": "ann-1"}).headers["location"]
        assert came.startswith("http://server/sign-in/callback?")
        query = dict(parse_qsl(urlsplit(came).query))
        assert visitor.client.get(CALLBACK, params=query).status_code == 200
        assert "ann" in words(visitor.get("/account"))
        assert "meter" in words(visitor.get("/meters"))
        again = Visitor(served)
        again.client.get(PROVIDER)
        assert again.client.get(CALLBACK, params=query).status_code == 401
