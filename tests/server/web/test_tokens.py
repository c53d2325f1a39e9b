from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from tests.server.helpers import Served, serve
from tests.service.helpers import StoppedClock, actor_of

from easeml_meter.service import tokens, users
from easeml_meter.service.actor import SYSTEM

from .helpers import PASSWORD, Visitor, cookies_of, words


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
