"""Accounts and passwords by a browser."""

from __future__ import annotations

from tests.server.helpers import Served
from tests.server.web.helpers import PASSWORD, Visitor, shown_secret, words

from easeml_meter.core import people
from easeml_meter.service import users
from easeml_meter.service.actor import SYSTEM


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
