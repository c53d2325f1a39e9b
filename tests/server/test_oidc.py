"""A provider's answer: taken if every check holds, and refused if any one does not."""

from __future__ import annotations

import base64
import hmac
import io
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc import jwt
from tests.server.helpers import own_lines
from tests.server.provider import CLIENT, KEY, OTHER, SECRET, OwnProvider, own_provider, signed

from easeml_meter.errors import MeterError, Unauthenticated
from easeml_meter.server import oidc
from easeml_meter.server.oidc import Begun, Provider, provider_of
from easeml_meter.server.settings import Settings


@pytest.fixture
def there() -> Iterator[OwnProvider]:
    with own_provider() as provider:
        yield provider


def ours(there: OwnProvider, **options: Any) -> Provider:
    given = {
        "oidc_issuer": there.issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "public_url": "http://server",
    }
    found = provider_of(Settings(**(given | options)))
    assert found is not None
    return found


def test_who_signed_in_is_known(there: OwnProvider) -> None:
    there.person = {"sub": "7", "preferred_username": "ann", "email": "ann@example.org"}
    there.claims = {"groups": ["a", 3, "b"], "email_verified": True}
    provider, begun = ours(there), Begun.new()
    person = provider.person(begun, there.authorize(provider.address(begun)))
    assert (person.issuer, person.subject, person.name) == (there.issuer, "7", "ann")
    assert person.email == "ann@example.org"
    assert sorted(person.groups) == ["a", "b"]


@pytest.mark.parametrize("verified", [False, None, "false", 1])
def test_an_address_that_was_not_verified_is_not_taken(there: OwnProvider, verified: Any) -> None:
    there.person = {"sub": "7", "email": "boss@example.org", "email_verified": verified}
    provider, begun = ours(there), Begun.new()
    assert provider.person(begun, there.authorize(provider.address(begun))).email is None


def _text(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def _unsigned(claims: dict[str, Any]) -> str:
    return f"{_text({'alg': 'none'})}.{_text(claims)}."


def _with_secret(claims: dict[str, Any], secret: bytes) -> str:
    """Sign by hand: no library would make such a token."""
    signed_part = f"{_text({'alg': 'HS256', 'kid': 'one'})}.{_text(claims)}"
    digest = hmac.digest(secret, signed_part.encode(), "sha256")
    return f"{signed_part}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def _with_public_key(claims: dict[str, Any]) -> str:
    """Sign with a secret that everybody knows: the provider's public key."""
    return _with_secret(claims, KEY.as_pem(private=False))


def _with_client_secret(claims: dict[str, Any]) -> str:
    return _with_secret(claims, SECRET.encode())


def _own_key_inside(claims: dict[str, Any]) -> str:
    header = {"alg": "RS256", "kid": "one", "jwk": OTHER.as_dict(private=False)}
    return jwt.encode(header, claims, OTHER)


def _changed(claims: dict[str, Any]) -> str:
    head, _, signature = signed(claims).split(".")
    body = base64.urlsafe_b64encode(json.dumps(claims | {"sub": "admin"}).encode())
    return f"{head}.{body.rstrip(b'=').decode()}.{signature}"


NOW = int(time.time())


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ({"claims": {"iss": "https://elsewhere.example"}}, "issuer"),
        ({"claims": {"iss": None}}, "issuer"),
        ({"claims": {"aud": "another client"}}, "audience"),
        ({"claims": {"aud": ["another client"]}}, "audience"),
        ({"claims": {"aud": None}}, "audience"),
        ({"claims": {"aud": [CLIENT, "another"]}}, "authorized party"),
        ({"claims": {"azp": "another"}}, "authorized party"),
        ({"claims": {"exp": NOW - 120}}, "expired"),
        ({"claims": {"exp": None}}, "expired"),
        ({"claims": {"exp": "9999999999"}}, "expired"),
        ({"claims": {"iat": NOW - 7200}}, "time of issue"),
        ({"claims": {"iat": NOW + 7200}}, "time of issue"),
        ({"claims": {"iat": None}}, "time of issue"),
        ({"claims": {"nbf": NOW + 7200}}, "not yet valid"),
        ({"claims": {"nonce": "of another sign-in"}}, "nonce"),
        ({"claims": {"nonce": None}}, "nonce"),
        ({"person": {}}, "subject"),
        ({"person": {"sub": ""}}, "subject"),
        ({"person": {"sub": ["1"]}}, "subject"),
        ({"person": {"sub": "x" * 256}}, "subject"),
        ({"sign": _unsigned}, "signature"),
        ({"sign": _with_public_key}, "signature"),
        ({"sign": _with_client_secret}, "signature"),
        ({"sign": _own_key_inside}, "signature"),
        ({"sign": _changed}, "signature"),
        ({"sign": lambda claims: signed(claims, OTHER)}, "signature"),
        ({"sign": lambda claims: "no.token.at-all"}, "signature"),
        ({"sign": lambda claims: ""}, "signature"),
        ({"sign": lambda claims: None}, "no ID token"),
        ({"keys": ()}, "signature"),
        ({"document": {"authorization_response_iss_parameter_supported": True}}, "iss"),
    ],
)
def test_one_wrong_part_is_enough(
    there: OwnProvider, lie: dict[str, Any], reason: str, log: io.StringIO
) -> None:
    provider, begun = ours(there), Begun.new()
    for name, value in lie.items():
        setattr(there, name, value)
    back = there.authorize(provider.address(begun))
    with pytest.raises(Unauthenticated, match="answer was refused: try again"):
        provider.person(begun, back)
    (line,) = [each for each in own_lines(log) if each["event"] == "sign-in refused"]
    assert line["reason"].startswith(reason)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "of somebody else"},
        {"state": ""},
        {"iss": "https://elsewhere.example"},
        {"error": "access_denied"},
        {"code": ""},
        {"code": "guessed"},
    ],
)
def test_what_the_browser_brings_is_checked(there: OwnProvider, change: dict[str, str]) -> None:
    provider, begun = ours(there), Begun.new()
    back = there.authorize(provider.address(begun))
    with pytest.raises(Unauthenticated):
        provider.person(begun, back | change)


def test_a_stolen_code_is_of_no_use_without_the_verifier(there: OwnProvider) -> None:
    provider, begun = ours(there), Begun.new()
    back = there.authorize(provider.address(begun))
    thief = Begun(begun.state, begun.nonce, Begun.new().verifier)
    with pytest.raises(Unauthenticated):
        provider.person(thief, back)


def test_a_code_is_good_once(there: OwnProvider) -> None:
    provider, begun = ours(there), Begun.new()
    back = there.authorize(provider.address(begun))
    provider.person(begun, back)
    with pytest.raises(Unauthenticated):
        provider.person(begun, back)


def test_new_keys_are_fetched_and_not_for_every_wrong_token(there: OwnProvider) -> None:
    provider = ours(there)

    def tried() -> bool:
        begun = Begun.new()
        try:
            provider.person(begun, there.authorize(provider.address(begun)))
        except Unauthenticated:
            return False
        return True

    assert tried()
    there.keys, there.sign = (OTHER,), lambda claims: signed(claims, OTHER)
    before = there.asked.count("/keys")
    assert not any(tried() for _ in range(3))  # read less than a minute ago
    assert there.asked.count("/keys") == before
    provider._keys = (time.monotonic() - 61, provider._keys[1])  # type: ignore[index]
    assert tried()


@pytest.mark.parametrize(
    "odd",
    [
        {"kty": "EC", "crv": "BP-256", "x": "AA", "y": "AA", "kid": "two"},
        {"kty": "OKP", "crv": "Ed449", "x": "AA", "kid": "two"},
        {"kty": "RSA", "kid": "two"},
    ],
)
def test_a_key_that_is_not_understood_does_not_take_away_the_others(
    there: OwnProvider, monkeypatch: pytest.MonkeyPatch, odd: dict[str, str]
) -> None:
    """RFC 7517, section 5: such keys are ignored. Nobody could sign in any more."""
    listed = oidc._fetched

    def with_odd(*given: Any) -> dict[str, Any]:
        found = listed(*given)
        return {"keys": [odd, *found["keys"]]} if "keys" in found else found

    monkeypatch.setattr(oidc, "_fetched", with_odd)
    provider, begun = ours(there), Begun.new()
    assert provider.person(begun, there.authorize(provider.address(begun))).subject == "1"


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://elsewhere.example"},
        {"authorization_endpoint": "http://elsewhere.example/authorize"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": 7},
    ],
)
def test_a_document_that_is_not_the_providers_is_refused(
    there: OwnProvider, document: dict[str, Any]
) -> None:
    there.document = document
    with pytest.raises(MeterError, match="oidc_issuer"):
        ours(there).address(Begun.new())


@pytest.mark.parametrize("name", ["token_endpoint", "jwks_uri"])
def test_secrets_and_keys_travel_encrypted_only(there: OwnProvider, name: str) -> None:
    there.document = {name: "http://elsewhere.example/x"}
    provider, begun = ours(there), Begun.new()
    with pytest.raises(Unauthenticated, match="cannot be reached"):
        provider.person(begun, there.authorize(provider.address(begun)))


def test_the_secret_goes_the_way_the_provider_takes_it(there: OwnProvider) -> None:
    there.document = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    provider, begun = ours(there), Begun.new()
    assert provider.person(begun, there.authorize(provider.address(begun))).subject == "1"


def test_without_an_issuer_there_is_no_provider() -> None:
    assert provider_of(Settings()) is None
