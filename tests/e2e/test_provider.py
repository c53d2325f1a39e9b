"""A real browser that goes to an OpenID provider and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.live import Live, live
from tests.server.provider import CLIENT, SECRET, OwnProvider, own_provider

from .browsing import PASSWORD, Tab, tab


@pytest.fixture
def there() -> Iterator[OwnProvider]:
    with own_provider() as provider:
        provider.person = {"sub": "7", "preferred_username": "ann"}
        yield provider


@pytest.fixture
def site(tmp_path: Path, there: OwnProvider) -> Iterator[Live]:
    known = {
        "oidc_issuer": there.issuer,
        "oidc_name": "Example Login",
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "public_url": "http://server",
    }
    with live(tmp_path / "site", working=False, **known) as found:
        found.served.add_user("ann", password=PASSWORD)
        there.back = found.address
        yield found


def been_there(at: Tab, there: OwnProvider) -> None:
    """Forget that the browser went to the provider, once, and to nobody else."""
    (went,) = at.strays
    assert went.startswith(f"{there.issuer}/authorize?")
    at.strays.clear()


def test_an_account_is_connected_and_then_signed_in_to(
    site: Live, there: OwnProvider, browser: Browser
) -> None:
    with tab(browser, site) as at:
        at.go("/account")
        at.sign_in("ann")
        at.go("/account").get_by_role("button", name="Connect with Example Login").click()
        told = "Your account is connected: sign in by the provider."
        expect(at.page.get_by_text(told)).to_be_visible()
        been_there(at, there)
    with tab(browser, site) as at:
        at.go("/sign-in").get_by_role("link", name="Sign in with Example Login").click()
        at.page.wait_for_url(f"{site.address}/meters**")
        expect(at.page.get_by_role("banner")).to_contain_text("ann")
        been_there(at, there)
