"""The one gate: who may do what, and what is said to those who may not."""

from __future__ import annotations

import pytest

from easeml_meter.core.people import SEATED, Role, Seat, Token, User
from easeml_meter.errors import Denied, NotFound
from easeml_meter.service.actor import ANYONE, SYSTEM, Actor, Permission, needs, permit
from easeml_meter.service.tokens import Caller

OWN = {
    Permission.SIGN_IN,
    Permission.SEE_ACCOUNT,
    Permission.CHANGE_ACCOUNT,
    Permission.MAKE_TOKENS,
    Permission.REVOKE_TOKENS,
    Permission.LOG_OUT,
}


def caller(
    *seats: tuple[str, Role, int], admin: bool = False, scopes: str = "", pace: int | None = None
) -> Caller:
    user = User("u", "anna", None, admin, False, "")
    token = Token("t", "u", "test", "api", tuple(scopes.split()), "", "", None, pace)
    return Caller(user, token, tuple(Seat("u", meter, role, at, "") for meter, role, at in seats))


def permissions(actor: Actor) -> set[Permission]:
    return {each for each in Permission if actor.may(each)}


def test_at_a_site() -> None:
    assert permissions(ANYONE) == {Permission.SIGN_IN}
    assert permissions(caller(("m", Role.LABELER, 0)).at_site()) == OWN
    admins = caller(admin=True).at_site()
    assert permissions(admins) > OWN | {Permission.MANAGE}
    assert permissions(SYSTEM) == set(Permission)


def test_a_token_with_scopes_leads_to_no_wider_one() -> None:
    narrow = {Permission.SIGN_IN, Permission.SEE_ACCOUNT, Permission.LOG_OUT}
    assert permissions(caller(scopes="developer").at_site()) == narrow
    assert permissions(caller(admin=True, scopes="developer").at_site()) == narrow
    managing = caller(admin=True, scopes="admin").at_site()
    assert managing.may(Permission.MANAGE)
    assert not managing.may(Permission.MAKE_TOKENS)
    with pytest.raises(Denied, match="a token with scopes or a pace may not do this: log in"):
        managing.granted(Permission.MAKE_TOKENS)


def test_a_token_for_metrics_is_an_admins_and_good_for_nothing_else() -> None:
    assert permissions(caller(admin=True, scopes="metrics").at_site()) == {Permission.SEE_METRICS}
    assert permissions(caller(scopes="metrics").at_site()) == permissions(ANYONE)
    sitting = caller(("m", Role.DEVELOPER, 1), admin=True, scopes="metrics")
    with pytest.raises(NotFound):
        sitting.at("m")
    both = caller(admin=True, scopes="metrics developer").at_site()
    narrow = permissions(caller(scopes="developer").at_site())
    assert permissions(both) == narrow | {Permission.SEE_METRICS}
    with pytest.raises(Denied, match="a token with scopes or a pace may not do this: log in"):
        caller(admin=True, scopes="metrics").at_site().granted(Permission.SEE_ACCOUNT)


def test_a_token_with_a_pace_leads_to_none_without() -> None:
    paced = caller(("m", Role.DEVELOPER, 1), pace=5)
    assert permissions(paced.at_site()) == permissions(caller(scopes="developer").at_site())
    acting = paced.at("m")
    assert (acting.token, acting.pace) == (paced.token.id, 5)
    free = caller(("m", Role.DEVELOPER, 1)).at("m")
    assert (free.token, free.pace) == ("", None)


def test_a_meter_without_a_seat_looks_like_none() -> None:
    sitting = caller(("m", Role.DEVELOPER, 1), ("m", Role.DEVELOPER, 2), scopes="developer:m")
    assert sitting.at("m").seats == ((Role.DEVELOPER, 1), (Role.DEVELOPER, 2))
    for missing in (caller(), caller(("m", Role.DEVELOPER, 1), scopes="labeler"), sitting):
        with pytest.raises(NotFound, match="none of that name that you have a seat at"):
            missing.at("n")


@needs(Permission.HAND_OVER, Permission.SEE_REQUESTS)
def acting(actor: Actor) -> tuple[Role, int | None]:
    return actor.role, actor.tenant


def test_the_tenant_is_one_of_the_seats() -> None:
    two = caller(("m", Role.DEVELOPER, 2), ("m", Role.DEVELOPER, 3))
    assert acting(two.at("m")) == (Role.DEVELOPER, 2)
    assert acting(two.at("m", 3)) == (Role.DEVELOPER, 3)
    with pytest.raises(Denied, match="team 1: not yours"):
        acting(two.at("m", 1))
    everywhere = caller(("m", Role.LABELER, 0))
    assert acting(everywhere.at("m")) == (Role.LABELER, 1)
    assert acting(everywhere.at("m", 7)) == (Role.LABELER, 7)


def test_the_first_permission_that_somebody_has_counts() -> None:
    both = caller(("m", Role.DEVELOPER, 2), admin=True)
    assert acting(both.at("m")) == (Role.DEVELOPER, 2)
    assert acting(caller(admin=True).at("m")) == (Role.ADMIN, 1)


@pytest.mark.parametrize("role", SEATED)
def test_only_admins_manage(role: Role) -> None:
    with pytest.raises(Denied, match="only an admin may do this"):
        caller(("m", role, 0)).at("m").granted(Permission.MANAGE)


def test_whether_somebody_may_is_known_without_doing_it() -> None:
    done: list[Actor] = []
    use_case = needs(Permission.SUBMIT)(done.append)
    permit(caller(("m", Role.RUNNER, 1)).at("m"), use_case)
    with pytest.raises(Denied, match="labelers may not submit"):
        permit(caller(("m", Role.LABELER, 0)).at("m"), use_case)
    assert done == []
