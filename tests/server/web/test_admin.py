"""The admin's pages: meters, the audit, and forms that need their token."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.server.driving import begin, begun, submit
from tests.server.helpers import Served
from tests.server.web.helpers import PASSWORD, Visitor, shown_secret, words
from tests.service.helpers import actor_of, small_spec

from easeml_meter.core import people
from easeml_meter.core.people import Role
from easeml_meter.errors import Unauthenticated
from easeml_meter.service import seats, tokens, users
from easeml_meter.service.actor import ANYONE, SYSTEM
from easeml_meter.service.meters import create_meter
from easeml_meter.storage import schema

TOML = """
[question]
ask = "gap"
tolerance = 0.1
edges = [0.1]

[budget]
steps = 3
"""


def addresses(meter: str, user: str) -> list[tuple[str, str]]:
    return [
        ("GET", "/admin"),
        ("GET", "/admin/users"),
        ("POST", "/admin/users"),
        ("GET", f"/admin/users/{user}"),
        ("POST", f"/admin/users/{user}"),
        ("GET", "/admin/meters/new"),
        ("POST", "/admin/meters/new"),
        ("POST", "/admin/meters/new/plan"),
        ("GET", f"/admin/meters/{meter}"),
        ("POST", f"/admin/meters/{meter}/archive"),
        ("POST", f"/admin/meters/{meter}/seats"),
        ("POST", f"/admin/meters/{meter}/seats/remove"),
    ]


@pytest.mark.parametrize("name", ["developer", "labeler", "runner", "stranger"])
def test_only_admins_pass(served: Served, name: str) -> None:
    meter = served.add_meter()
    visitor = Visitor(served, name)
    before = (
        users.list_users(SYSTEM, served.site),
        seats.list_seats(SYSTEM, served.site.space(meter)),
    )
    for method, path in addresses(meter, served.users["admin"].id):
        given = {"csrf": visitor.csrf, "name": "x", "text": TOML, "change": "no admin"}
        body = given if method == "POST" else None
        answer = visitor.client.request(method, path, data=body)
        hidden = name == "stranger" and "/meters/" in path and "/new" not in path
        assert answer.status_code == (404 if hidden else 403), path
    assert (
        users.list_users(SYSTEM, served.site),
        seats.list_seats(SYSTEM, served.site.space(meter)),
    ) == before


def test_every_form_needs_its_csrf_token(served: Served, admin: Visitor) -> None:
    meter = served.add_meter()
    own = [("POST", f"/account/{each}") for each in ("tokens", "tokens/revoke", "password")]
    for method, path in addresses(meter, served.users["admin"].id) + own:
        if method == "POST":
            answer = admin.client.post(path, data={"csrf": "0" * 64, "name": "x", "days": "1"})
            assert answer.status_code == 403, path
    assert {user.name for user in users.list_users(SYSTEM, served.site)} == set(served.users)


def test_every_form_of_every_page_carries_a_token(served: Served, admin: Visitor) -> None:
    meter = served.add_meter()
    ada = served.users["admin"].id
    for method, path in [*addresses(meter, ada), ("GET", "/account")]:
        if method == "GET":
            page = admin.get(path)
            assert page.status_code == 200, path
            for form in re.findall(r'<form[^>]*method="post".*?</form>', page.text, re.DOTALL):
                assert f'name="csrf" value="{admin.csrf}"' in form


def test_a_meter_is_archived_before_its_first_answer(
    served: Served, admin: Visitor, tmp_path: Path
) -> None:
    meter, labels = begun(served, tmp_path)
    page = admin.get(f"/admin/meters/{meter}")
    assert f"Its {len(labels)} labels stay its own" in words(page)
    unsure = admin.send(f"/admin/meters/{meter}/archive")
    assert unsure.status_code == 422
    answer = admin.send(f"/admin/meters/{meter}/archive", sure="on")
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin")
    assert "1 archived" in words(admin.get("/admin"))
    assert meter not in admin.get("/meters").text
    said = words(admin.get(f"/admin/meters/{meter}"))
    assert "admin archived the meter before its first answer." in said
    assert "Archive this meter" not in said
    for name in ("developer", "labeler", "runner"):
        said = words(Visitor(served, name).get(f"/meters/{meter}"))
        assert "This meter is archived" in said
        for false in ("labels needed", "once the labels are delivered", "The first submission"):
            assert false not in said
    said = words(Visitor(served, "labeler").get(f"/meters/{meter}/labels"))
    assert "This meter is archived: it takes no labels." in said


def test_a_meter_that_has_answered_cannot_be_archived(
    served: Served, admin: Visitor, tmp_path: Path
) -> None:
    meter, labels = begun(served, tmp_path)
    told = submit(served.client("developer"), meter, labels, errors=1, model="m")
    assert told.status_code == 200
    assert "Archive this meter" not in words(admin.get(f"/admin/meters/{meter}"))
    refused = admin.send(f"/admin/meters/{meter}/archive", sure="on")
    assert refused.status_code == 409


def test_the_audit_trail_is_verified_and_hides_answers(
    served: Served, admin: Visitor, tmp_path: Path
) -> None:
    meter, labels = begun(served, tmp_path)
    told = submit(served.client("developer"), meter, labels, errors=1, model="the-model")
    assert told.status_code == 200
    page = admin.get(f"/admin/meters/{meter}")
    said = words(page)
    assert "every link of the chain matches" in said
    assert "An answer was given." in said
    assert "the-model" not in page.text
    assert "band" not in said.partition("Audit trail")[2]
    table = schema.audit
    with served.site.writing() as books:
        books.connection.execute(
            table.update().where(table.c.number == 2), {"at": datetime.now(UTC).isoformat()}
        )
    assert "The chain does not match." in words(admin.get(f"/admin/meters/{meter}"))


def test_a_long_trail_is_read_page_by_page(served: Served, admin: Visitor) -> None:
    meter = served.add_meter()
    user = served.users["stranger"].id
    for _ in range(30):
        seats.add_seat(SYSTEM, served.site.space(meter), user, Role.LABELER)
        seats.remove_seat(SYSTEM, served.site.space(meter), user, Role.LABELER)
    first = admin.get(f"/admin/meters/{meter}")
    following = re.search(r'href="([^"]+)#audit">Later links', first.text)
    assert following
    second = admin.get(following[1])
    numbers = [re.findall(r'<th scope="row">(\d+)</th>', page.text) for page in (first, second)]
    assert [int(number) for number in numbers[0] + numbers[1]] == list(range(1, 66))
    assert "Later links" not in second.text


def test_the_servers_key_is_shown_and_its_secret_is_not(served: Served, admin: Visitor) -> None:
    page = admin.get("/admin")
    assert served.site.identity.recipient in page.text
    assert "AGE-SECRET" not in page.text
    assert re.search(r"([0-9a-f]{4} ){7}[0-9a-f]{4}", page.text)


def test_a_token_is_made_shown_once_and_revoked(served: Served) -> None:
    visitor = Visitor(served, "stranger")
    page = visitor.send("/account/tokens", name="for CI", days="7", scope="developer")
    secret = shown_secret(page)
    token = tokens.recognize(ANYONE, served.site, secret).token
    assert (token.name, token.kind, token.scopes) == ("for CI", "api", ("developer",))
    assert secret not in visitor.get("/account").text
    assert "for CI" in visitor.get("/account").text
    assert visitor.send("/account/tokens/revoke", token=token.id).status_code == 303
    assert "for CI" not in visitor.get("/account").text
    with pytest.raises(Unauthenticated):
        tokens.recognize(ANYONE, served.site, secret)


def test_a_token_may_have_a_pace(served: Served) -> None:
    visitor = Visitor(served, "stranger")
    page = visitor.send("/account/tokens", name="agent", days="7", scope="developer", pace="5")
    assert tokens.recognize(ANYONE, served.site, shown_secret(page)).token.pace == 5
    shown = words(visitor.get("/account"))
    assert "developer 5/day" in shown
    assert "everything you may do no limit" in shown
    for pace in ("0", "many", "1.5"):
        page = visitor.send("/account/tokens", name="x", days="7", scope="", pace=pace)
        assert page.status_code == 422
        assert (
            f'name="pace" type="number" min="1" max="1000000" placeholder="no limit" value="{pace}"'
            in page.text
        )


def test_nobody_revokes_the_tokens_of_others(served: Served, admin: Visitor) -> None:
    token = tokens.list_tokens(actor_of(served.users["stranger"].id), served.site)[0]
    assert admin.send("/account/tokens/revoke", token=token.id).status_code == 404
    tokens.recognize(ANYONE, served.site, served.tokens["stranger"])


@pytest.mark.parametrize(("days", "name"), [("0", "x"), ("soon", "x"), ("9", ""), ("nan", "x")])
def test_a_wrong_token_is_said_beside_the_form(served: Served, days: str, name: str) -> None:
    page = Visitor(served, "stranger").send("/account/tokens", name=name, days=days, scope="")
    assert page.status_code == 422
    assert '<p class="problem" role="alert">' in page.text


def test_a_limited_session_makes_no_unlimited_token(served: Served) -> None:
    visitor = Visitor(served)
    user = served.users["stranger"].id
    unlimited = tokens.list_tokens(actor_of(user), served.site)[0]
    limited = replace(unlimited, id="0" * 32, kind="session", scopes=("developer",))
    with served.site.writing() as books:
        books.tokens.add(limited, hashlib.sha256(b"emt_limited").hexdigest())
    visitor.client.cookies.set("meter_session", "emt_limited", domain="server.local")
    assert visitor.get("/account").status_code == 200
    assert visitor.send("/account/tokens", name="x", days="1").status_code == 403
    assert visitor.send("/account/password", current="x", new=PASSWORD).status_code == 403


def test_a_new_site_has_a_list_of_first_steps(
    served: Served, admin: Visitor, tmp_path: Path
) -> None:
    said = words(admin.get("/admin"))
    assert "Set up this site 1 of 5 done" in said  # there are people
    assert "Add people , done" in said
    assert "2 Make a meter" in said
    empty = create_meter(SYSTEM, served.site, small_spec(), "first").id
    assert "2 of 5 done" in words(admin.get("/admin"))
    assert f'href="/admin/meters/{empty}#seats"' in admin.get("/admin").text
    meter = served.add_meter()
    assert "3 of 5 done" in words(admin.get("/admin"))  # it has a labeler and a developer
    begin(served, meter, tmp_path)
    assert "Set up this site" not in words(admin.get("/admin"))
    assert "Manage this meter" in words(admin.get(f"/meters/{meter}"))


def test_a_user_is_added_with_a_password_that_is_shown_once(served: Served, admin: Visitor) -> None:
    page = admin.send("/admin/users", name="Ada <b>", email="ada@example.org")
    assert page.status_code == 200
    assert "Ada &lt;b&gt;" in page.text
    made = users.check_password(served.site, "Ada <b>", shown_secret(page))
    assert (made.email, made.admin) == ("ada@example.org", False)
    assert 'role="status"' not in admin.get("/admin/users").text


def test_what_was_wrong_stands_beside_the_form_with_what_was_typed(
    served: Served, admin: Visitor
) -> None:
    page = admin.send("/admin/users", name="grace", email="nowhere", admin="1")
    assert page.status_code == 422
    assert "email: 'nowhere' given" in words(page)
    assert 'value="grace"' in page.text
    assert admin.send("/admin/users", name="stranger").status_code == 409
    assert "grace" not in {user.name for user in users.list_users(SYSTEM, served.site)}


def test_an_account_is_changed(served: Served, admin: Visitor) -> None:
    stranger = served.users["stranger"].id
    path = f"/admin/users/{stranger}"

    def change(what: str) -> people.User:
        answer = admin.send(path, change=what)
        assert (answer.status_code, answer.headers["location"]) == (303, path)
        return users.show_user(SYSTEM, served.site, stranger)

    assert change("make admin").admin
    assert not change("no admin").admin
    assert change("disable").disabled
    assert not change("enable").disabled
    assert "stranger can sign in again." in words(admin.get(path))
    assert admin.send(path, change="fly").status_code == 422


def test_a_new_password_ends_all_sessions(served: Served, admin: Visitor) -> None:
    other = Visitor(served, "stranger")
    assert other.get("/account").status_code == 200
    page = admin.send(f"/admin/users/{served.users['stranger'].id}", change="password")
    users.check_password(served.site, "stranger", shown_secret(page))
    assert other.get("/account").status_code == 303


def test_the_last_admin_stays_one(served: Served, admin: Visitor) -> None:
    page = admin.send(f"/admin/users/{served.users['admin'].id}", change="no admin")
    assert page.status_code == 409
    assert "cannot remove the last admin" in words(page)


def test_a_password_is_changed_by_who_knows_it(served: Served) -> None:
    served.add_user("ada", password=PASSWORD)
    visitor = Visitor(served, "ada")
    wrong = visitor.send("/account/password", current="not it", new="another long secret")
    assert (wrong.status_code, "current password" in words(wrong)) == (422, True)
    short = visitor.send("/account/password", current=PASSWORD, new="short")
    assert (short.status_code, "10 to 1000 characters" in words(short)) == (422, True)
    done = visitor.send("/account/password", current=PASSWORD, new="another long secret")
    assert (done.status_code, done.headers["location"]) == (303, "/sign-in")
    users.check_password(served.site, "ada", "another long secret")
    assert visitor.get("/account").status_code == 303


def test_seats_are_given_and_taken(served: Served, admin: Visitor) -> None:
    meter = served.add_meter(small_spec(steps=4, tenants=(2, 2)))
    path, user = f"/admin/meters/{meter}", served.users["stranger"].id
    given = admin.send(f"{path}/seats", user=user, role="developer", tenant="2")
    assert given.status_code == 303
    assert "stranger is developer of this meter now." in words(admin.get(path))
    own = [seat for seat in seats.list_seats(SYSTEM, served.site.space(meter)) if seat.user == user]
    assert [(seat.role, seat.tenant) for seat in own] == [(Role.DEVELOPER, 2)]
    assert "developer (team 2) of" in words(admin.get(f"/admin/users/{user}"))
    taken = admin.send(f"{path}/seats/remove", user=user, role="developer", tenant="2")
    assert taken.status_code == 303
    assert user not in {seat.user for seat in seats.list_seats(SYSTEM, served.site.space(meter))}


@pytest.mark.parametrize(
    ("role", "tenant", "status"),
    [("developer", "3", 409), ("developer", "x", 422), ("admin", "", 422), ("cook", "", 422)],
)
def test_a_seat_that_cannot_be_given(
    served: Served, admin: Visitor, role: str, tenant: str, status: int
) -> None:
    meter = served.add_meter()
    user = served.users["stranger"].id
    page = admin.send(f"/admin/meters/{meter}/seats", user=user, role=role, tenant=tenant)
    assert page.status_code == status
    assert '<p class="problem" role="alert">' in page.text
    assert user not in {seat.user for seat in seats.list_seats(SYSTEM, served.site.space(meter))}
