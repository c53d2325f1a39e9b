from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest
from tests.server.helpers import Served, serve
from tests.server.provider import CLIENT, SECRET, OwnProvider, own_provider
from tests.service.helpers import StoppedClock, actor_of

from easeml_meter.service import tokens, users
from easeml_meter.service.actor import SYSTEM
from easeml_meter.service.users import check_password, reset_password

from .helpers import PASSWORD, Visitor, cookies_of, shown_secret, words


@pytest.fixture
def served(tmp_path: Path, clock: StoppedClock) -> Iterator[Served]:
    with serve(tmp_path / "site", clock=clock) as each:
        each.add_user("anna", password=PASSWORD)
        yield each


def sign_in(visitor: Visitor, password: str = PASSWORD, **fields: str) -> httpx.Response:
    visitor.get("/sign-in")
    return visitor.send("/sign-in", **({"name": "anna", "password": password} | fields))


def is_signed_in(visitor: Visitor) -> bool:
    answer = visitor.get("/meters")
    assert answer.status_code in (200, 303)
    return answer.status_code == 200


class TestSigningIn:
    def test_leads_back_to_where_one_wanted_to_go(self, served: Served) -> None:
        visitor = Visitor(served)
        asked = visitor.get("/meters?x=1&y=2")
        assert asked.status_code == 303
        form = visitor.get(asked.headers["location"])
        assert "session has ended" not in form.text
        assert 'name="back" value="/meters?x=1&amp;y=2"' in form.text
        answer = visitor.send("/sign-in", name="anna", password=PASSWORD, back="/meters?x=1&y=2")
        assert (answer.status_code, answer.headers["location"]) == (303, "/meters?x=1&y=2")
        assert "anna" in words(visitor.get("/meters"))

    def test_start(self, served: Served) -> None:
        visitor = Visitor(served)
        assert visitor.get("/").headers["location"] == "/sign-in"
        sign_in(visitor)
        assert visitor.get("/").headers["location"] == "/meters"
        assert visitor.get("/sign-in?back=/planner").headers["location"] == "/planner"

    @pytest.mark.parametrize(
        "back",
        [
            "",
            "https://evil.example/",
            "//evil.example/",
            "/\\evil.example/",
            "javascript:alert(1)",
            "/meters\r\nSet-Cookie: a=b",
            "/sign-in",
        ],
    )
    def test_leads_to_no_other_site(self, served: Served, back: str) -> None:
        visitor = Visitor(served)
        assert sign_in(visitor, back=back).headers["location"] == "/meters"
        assert visitor.get("/sign-in", params={"back": back}).headers["location"] == "/meters"

    def test_wrong_words_all_look_the_same(self, served: Served) -> None:
        visitor = Visitor(served)
        tries = [("anna", "wrong"), ("nobody", PASSWORD), ("stranger", "")]
        answers = [sign_in(visitor, name=name, password=word) for name, word in tries]
        assert {answer.status_code for answer in answers} == {401}
        assert {words(answer).partition(" Name ")[0] for answer in answers} == {
            words(answers[0]).partition(" Name ")[0]
        }
        assert "Name or password is wrong" in words(answers[0])
        assert not is_signed_in(visitor)
        text = served.client("admin").get("http://server/metrics").text
        assert "\nmeter_failed_logins_total 3.0\n" in text

    def test_what_was_typed_is_shown_as_text(self, served: Served) -> None:
        answer = sign_in(Visitor(served), name='"><script>alert(1)</script>')
        assert "<script>alert" not in answer.text
        assert "&lt;script&gt;alert" in answer.text

    def test_a_token_serves_as_a_password(self, served: Served) -> None:
        visitor = Visitor(served)
        sign_in(visitor, name="admin", password=served.tokens["admin"])
        assert "Admin" in words(visitor.get("/meters"))

    def test_a_limited_token_does_not(self, served: Served) -> None:
        anna = served.users["anna"].id
        _, limited = tokens.make_token(actor_of(anna), served.site, "ci", scopes=["developer"])
        _, paced = tokens.make_token(actor_of(anna), served.site, "agent", pace=5)
        for token in (limited, paced, served.tokens["stranger"], "emt_unknown"):
            visitor = Visitor(served)
            assert sign_in(visitor, password=token).status_code == 401
            assert not is_signed_in(visitor)

    def test_is_limited_by_address(self, tmp_path: Path) -> None:
        with serve(tmp_path / "other", logins_per_minute=2) as served:
            visitor = Visitor(served)
            answers = [sign_in(visitor, name="x", password="y") for _ in range(3)]  # noqa: S106
            assert [answer.status_code for answer in answers] == [401, 401, 429]
            assert 1 <= int(answers[2].headers["retry-after"]) <= 30
            assert answers[2].headers["content-type"].startswith("text/html")
            assert "Too many requests" in words(answers[2])


class TestForms:
    def test_of_sign_in_need_their_token(self, served: Served) -> None:
        visitor = Visitor(served)
        other = Visitor(served)
        other.get("/sign-in")
        visitor.get("/sign-in")
        for csrf in ("", "x", "ü", other.csrf):
            answer = visitor.send("/sign-in", csrf=csrf, name="anna", password=PASSWORD)
            assert answer.status_code == 403
        assert not is_signed_in(visitor)

    def test_of_sign_in_need_cookies(self, served: Served) -> None:
        answer = Visitor(served).send("/sign-in", name="anna", password=PASSWORD)
        assert answer.status_code == 403
        assert "allow cookies" in words(answer)

    def test_need_the_token_of_their_own_session(self, served: Served) -> None:
        visitor, other = Visitor(served, "anna"), Visitor(served, "anna")
        for csrf in ("", "x", other.csrf):
            assert visitor.send("/sign-out", csrf=csrf).status_code == 403
            assert visitor.client.post("/sign-out").status_code == 403
        assert is_signed_in(visitor)

    def test_that_are_none_are_refused(self, served: Served) -> None:
        visitor = Visitor(served, "anna")
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        for body in (b"\xff", b"a=b&" * 200):
            answer = visitor.client.post("/sign-out", content=body, headers=headers)
            assert answer.status_code == 422
        assert is_signed_in(visitor)


class TestSessions:
    def test_end_at_sign_out_on_the_server_too(self, served: Served) -> None:
        visitor = Visitor(served)
        sign_in(visitor)
        kept = dict(visitor.client.cookies)
        visitor.get("/meters")
        answer = visitor.send("/sign-out")
        assert answer.headers["location"] == "/sign-in"
        assert "meter_session" not in dict(visitor.client.cookies)
        assert "You are signed out." in words(visitor.get("/sign-in"))
        assert "You are signed out." not in words(visitor.get("/sign-in"))
        again = Visitor(served)
        again.client.cookies.update(kept)
        assert not is_signed_in(again)

    def test_expire(self, served: Served, clock: StoppedClock) -> None:
        visitor = Visitor(served, "anna")
        clock.moment += timedelta(hours=11)
        assert is_signed_in(visitor)
        clock.moment += timedelta(hours=1)
        answer = visitor.get("/meters?x=1")
        assert answer.headers["location"] == "/sign-in?back=/meters%3Fx%3D1&ended=1"
        form = visitor.get(answer.headers["location"])
        assert "Your session has ended." in words(form)
        assert 'value="/meters?x=1"' in form.text

    def test_expired_under_a_form_lead_back_to_its_page(
        self, served: Served, clock: StoppedClock
    ) -> None:
        visitor = Visitor(served, "anna")
        clock.moment += timedelta(days=1)
        headers = {"Referer": "http://server/meters/abc?tenant=2"}
        answer = visitor.client.post("/sign-out", headers=headers)
        back = "/sign-in?back=/meters/abc%3Ftenant%3D2"
        assert answer.headers["location"].startswith(back)
        foreign = {"Referer": "http://evil.example/meters/abc"}
        answer = Visitor(served).client.post("/sign-out", headers=foreign)
        assert answer.headers["location"] == "/sign-in?back=/meters"

    def test_expired_under_a_script_tell_it_where_to_go(
        self, served: Served, clock: StoppedClock
    ) -> None:
        visitor = Visitor(served, "anna")
        clock.moment += timedelta(days=1)
        headers = {"HX-Request": "true", "HX-Current-URL": "http://server/meters/abc"}
        answer = visitor.client.post("/sign-out", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["hx-redirect"] == "/sign-in?back=/meters/abc&ended=1"

    def test_end_with_the_account(self, served: Served) -> None:
        visitor = Visitor(served, "anna")
        users.change_user(SYSTEM, served.site, served.users["anna"].id, disabled=True)
        assert not is_signed_in(visitor)

    def test_survive_a_link_from_elsewhere(self, served: Served) -> None:
        """The browser keeps the cookie back from such a request, and sends it with our own."""
        visitor = Visitor(served)
        answer = visitor.get("/meters?a=<b>", headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code == 200
        assert 'http-equiv="refresh" content="0; url=/meters?a=%3Cb%3E"' in answer.text
        again = visitor.get("/meters", headers={"Sec-Fetch-Site": "same-origin"})
        assert again.status_code == 303


class TestCookies:
    @pytest.mark.parametrize("scheme", ["http", "https"])
    def test_are_kept_from_scripts_and_other_sites(self, served: Served, scheme: str) -> None:
        visitor = Visitor(served, scheme=scheme)
        shown = cookies_of(visitor.get("/sign-in"))
        given = cookies_of(sign_in(visitor))
        prefix = "__Host-" if scheme == "https" else ""
        assert set(shown) == {f"{prefix}meter_door"}
        assert set(given) == {f"{prefix}meter_session"}
        for attributes in (*shown.values(), *given.values()):
            assert {"httponly", "samesite=strict", "path=/"} <= attributes
            assert ("secure" in attributes) == (scheme == "https")
            assert not any(each.startswith("domain") for each in attributes)
        assert is_signed_in(visitor)

    def test_are_nothing_to_the_api_and_tokens_nothing_to_pages(self, served: Served) -> None:
        visitor = Visitor(served, "admin")
        assert visitor.client.get("/api/v1/users").status_code == 401
        assert served.client("admin").get("http://server/meters").status_code == 303
        # Nor does a token for programs become a session by being put into the cookie.
        other = Visitor(served)
        other.client.cookies.set("meter_session", served.tokens["admin"], domain="server.local")
        assert not is_signed_in(other)

    def test_of_messages_are_ours(self, served: Served) -> None:
        visitor = Visitor(served, "anna")
        for forged in ("UGF5IHVz.0000", "x", "."):
            visitor.client.cookies.set("meter_message", forged, domain="server.local")
            answer = visitor.get("/meters")
            assert answer.status_code == 200
            assert "Pay us" not in answer.text
            assert 'class="done"' not in answer.text


def test_an_invitation_is_shown_once_and_redeemed(served: Served, admin: Visitor) -> None:
    path = f"/admin/users/{served.users['stranger'].id}"
    page = admin.send(path, change="invite")
    address, _, secret = shown_secret(page).partition("/join#")
    assert address.startswith("http")
    assert secret not in admin.get(path).text
    guest = Visitor(served)
    assert "Choose a password" in words(guest.get("/join"))
    assert guest.send("/join", invitation=secret, password="short").status_code == 422  # noqa: S106
    answer = guest.send("/join", invitation=secret, password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, "/meters")
    assert guest.get("/meters").status_code == 200
    assert check_password(served.site, "stranger", PASSWORD).name == "stranger"
    late = Visitor(served)
    late.get("/join")
    again = late.send("/join", invitation=secret, password=PASSWORD)
    assert again.status_code == 401
    assert "was used" in words(again)


def test_looking_at_the_page_uses_nothing_up(served: Served, admin: Visitor) -> None:
    """A chat program that follows the link for a preview sends what stands before the #."""
    page = admin.send(f"/admin/users/{served.users['stranger'].id}", change="invite")
    secret = shown_secret(page).partition("#")[2]
    guest = Visitor(served)
    for _ in range(2):
        assert secret not in guest.get("/join").text
    assert guest.send("/join", invitation=secret, password=PASSWORD).status_code == 303


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
def provided(tmp_path: Path, there: OwnProvider) -> Iterator[Served]:
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
    provided: Served, there: OwnProvider
) -> None:
    visitor = Visitor(provided)
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
    provided: Served,
) -> None:
    (cookie,) = Visitor(provided).client.get(PROVIDER).headers.get_list("set-cookie")
    assert "SameSite=lax" in cookie
    assert "HttpOnly" in cookie


def test_a_link_with_somebody_elses_code_signs_nobody_in(
    provided: Served, there: OwnProvider
) -> None:
    """Else a victim would work in the attacker's account, without noticing."""
    attackers = gone(Visitor(provided), there)
    victim = Visitor(provided)
    assert victim.client.get(CALLBACK, params=attackers).status_code == 401
    gone(victim, there)
    refused = victim.client.get(CALLBACK, params=attackers)
    assert refused.status_code == 401
    assert "meter_session" not in str(refused.headers.get_list("set-cookie"))


def test_a_callback_is_good_once(provided: Served, there: OwnProvider) -> None:
    visitor = Visitor(provided)
    back = gone(visitor, there)
    assert visitor.client.get(CALLBACK, params=back).status_code == 200
    again = visitor.client.get(CALLBACK, params=back)
    assert again.status_code == 401
    assert "took too long, or began elsewhere" in words(again)


def test_a_cookie_that_was_changed_or_is_old_is_no_cookie(
    provided: Served, there: OwnProvider
) -> None:
    for change in (lambda text: "x" + text, lambda text: text[:-1] + "0", lambda _: "..", str):
        visitor = Visitor(provided)
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
    provided: Served, there: OwnProvider, address: str
) -> None:
    visitor = Visitor(provided)
    back = gone(visitor, there, f"{PROVIDER}?back={address}")
    page = visitor.client.get(CALLBACK, params=back)
    assert 'url=/meters"' in page.text


def test_an_error_of_the_provider_is_told_without_its_words(provided: Served) -> None:
    visitor = Visitor(provided)
    visitor.client.get(PROVIDER)
    answer = visitor.client.get(CALLBACK, params={"error": "<b>phishing</b>", "state": "x"})
    assert answer.status_code == 401
    assert "phishing" not in answer.text


def test_a_provider_that_is_away_leaves_the_password(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    with serve(tmp_path, **settings(f"http://127.0.0.1:{port}")) as provided:
        answer = Visitor(provided).client.get(PROVIDER)
        assert answer.status_code == 503
        assert "cannot be reached now" in words(answer)
        assert 'name="password"' in answer.text


def test_an_account_of_this_server_is_connected(provided: Served, there: OwnProvider) -> None:
    there.person = {"sub": "9", "preferred_username": "developer"}
    refused = Visitor(provided)
    taken = refused.client.get(CALLBACK, params=gone(refused, there))
    assert "is here already: sign in to it with its password" in words(taken)
    owner = Visitor(provided, "developer")
    assert "Connect with Example Login" in words(owner.get("/account"))
    page = owner.client.get(CALLBACK, params=gone_to_connect(owner, there))
    assert 'url=/account"' in page.text
    assert "connected" in words(owner.get("/account"))
    fresh = Visitor(provided)
    assert fresh.client.get(CALLBACK, params=gone(fresh, there)).status_code == 200
    assert "developer" in words(fresh.get("/account"))


def test_a_session_that_was_revoked_meanwhile_connects_nothing(
    provided: Served, there: OwnProvider
) -> None:
    there.person = {"sub": "9", "preferred_username": "thief"}
    thief = Visitor(provided, "developer")
    back = gone_to_connect(thief, there)
    reset_password(SYSTEM, provided.site, provided.users["developer"].id)
    refused = thief.client.get(CALLBACK, params=back)
    assert refused.status_code == 401
    assert "revoked: log in again" in words(refused)
    fresh = Visitor(provided)
    fresh.client.get(CALLBACK, params=gone(fresh, there))
    assert "thief" in words(fresh.get("/account"))


def test_only_who_is_signed_in_connects(provided: Served) -> None:
    sent = Visitor(provided).client.post("/account/connect")
    assert sent.headers["location"].startswith("/sign-in")


def test_no_link_or_form_of_another_site_begins_to_connect(provided: Served) -> None:
    """Whoever had signed a victim's browser in to the provider as themselves got their account."""
    owner = Visitor(provided, "developer")
    answer = owner.client.get("/account/connect")
    assert (answer.status_code, owner.client.cookies.get(COOKIE)) == (405, None)
    owner.csrf = "0" * 64
    answer = owner.send("/account/connect")
    assert (answer.status_code, owner.client.cookies.get(COOKIE)) == (403, None)


def test_without_a_provider_there_is_no_such_page(tmp_path: Path) -> None:
    with serve(tmp_path) as provided:
        for path in (PROVIDER, CALLBACK):
            assert Visitor(provided).client.get(path).status_code == 404
        assert "Sign in with" not in Visitor(provided).get("/sign-in").text


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
        serve(tmp_path, **settings(real)) as provided,
    ):
        assert provider.put(f"{real}/users/ann-1", json=claims).status_code == 204
        provided.add_meter()
        visitor = Visitor(provided)
        sent = visitor.client.get(PROVIDER).headers["location"]
        assert "Authorize" in provider.get(sent).text
        came = provider.post(sent, data={"sub": "ann-1"}).headers["location"]
        assert came.startswith("http://server/sign-in/callback?")
        query = dict(parse_qsl(urlsplit(came).query))
        assert visitor.client.get(CALLBACK, params=query).status_code == 200
        assert "ann" in words(visitor.get("/account"))
        assert "meter" in words(visitor.get("/meters"))
        again = Visitor(provided)
        again.client.get(PROVIDER)
        assert again.client.get(CALLBACK, params=query).status_code == 401
