"""Somebody who was invited chooses a password in a browser, and is signed in."""

from __future__ import annotations

from tests.server.helpers import Served
from tests.server.web.helpers import PASSWORD, Visitor, shown_secret, words

from easeml_meter.service.users import check_password


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
