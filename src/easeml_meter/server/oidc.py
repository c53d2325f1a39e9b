"""Signing in by an OpenID provider: authorization code with PKCE, and every check of its answer.

`Provider` speaks to the provider: it reads what it publishes of itself, and exchanges a code for an
ID token. Nothing that comes back is believed before the token's signature, issuer, audience, time
and nonce were checked; with any of them wrong, nobody is signed in, and the page says no more than
that. Only the log says which check failed.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import secrets
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

from easeml_meter.core.people import Person
from easeml_meter.errors import MeterError, Unauthenticated, not_installed
from easeml_meter.server.settings import Settings, is_secure

CALLBACK = "/sign-in/callback"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures that are believed: by a key that only the provider has. Never none, never a secret
that both have."""
LEEWAY = 60
"""Seconds that the clocks of two machines may differ."""
_OLDEST = 600
"""Seconds since a token was issued: it was asked for a moment ago."""
_KEPT = 3600.0
"""Seconds for which what a provider publishes is kept."""
_PAUSE = 60.0
"""Seconds before its keys are read again because of a token that none of them signed."""
_SECONDS = 10.0
_LARGEST = 1 << 20
_SCOPE = "openid profile email"
_REFUSED = "the provider's answer was refused: try again, or ask an admin"

_LOG = logging.getLogger(__name__)


class Refused(Exception):
    """A check failed; the message, for the log, says which one, and nothing of what was sent."""


@dataclass(frozen=True)
class Begun:
    """A sign-in that was begun: what the browser keeps until it comes back."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> Begun:
        """Draw the secrets of one sign-in."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))

    @property
    def challenge(self) -> str:
        """What the provider is shown of the verifier (RFC 7636, S256)."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def provider_of(settings: Settings) -> Provider | None:
    """Return the provider that the settings name; None: there is none."""
    if not settings.oidc_issuer:
        return None
    try:
        import joserfc  # noqa: F401
    except ImportError as error:
        what = "oidc_issuer: signing in by a provider needs"
        raise not_installed(what, error, "oidc") from error
    return Provider(settings)


class Provider:
    """An OpenID provider, as its discovery document describes it."""

    def __init__(self, settings: Settings) -> None:
        self.issuer = settings.oidc_issuer
        self._client = settings.oidc_client_id
        self._secret = settings.oidc_client_secret
        self._groups = settings.oidc_groups_claim
        self.callback = f"{settings.public_url}{CALLBACK}"
        self._lock = threading.Lock()
        self._published: tuple[float, dict[str, Any]] | None = None
        self._keys: tuple[float, Any] | None = None

    def address(self, begun: Begun) -> str:
        """Return where a browser is sent to sign in.

        Raises:
            MeterError: the provider cannot be reached, or is not what the settings say.
        """
        query = {
            "response_type": "code",
            "client_id": self._client,
            "redirect_uri": self.callback,
            "scope": _SCOPE,
            "state": begun.state,
            "nonce": begun.nonce,
            "code_challenge": begun.challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._endpoint("authorization_endpoint")
        return f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{urlencode(query)}"

    def person(self, begun: Begun, query: dict[str, str]) -> Person:
        """Return who signed in, by the parameters that their browser brought back."""
        try:
            self._check_response(begun, query)
            claims = self._claims(self._id_token(begun, query["code"]))
            self._check(begun, claims)
        except Refused as error:
            # The browser is told the same whatever was wrong: a forger must not learn how far a
            # forgery got.
            _LOG.warning("sign-in refused", extra={"fields": {"reason": str(error)}})
            raise Unauthenticated(_REFUSED) from None
        except MeterError as error:
            _LOG.warning("sign-in failed", extra={"fields": {"reason": str(error)}})
            raise Unauthenticated("the provider cannot be reached now: try again") from None
        return self._described(claims)

    def _check_response(self, begun: Begun, query: dict[str, str]) -> None:
        # Ties the answer to this browser: nobody can hand somebody else an answer of their own.
        if not secrets.compare_digest(query.get("state", "").encode(), begun.state.encode()):
            raise Refused("state")
        # RFC 9207: a mix-up of two providers is noticed before a code goes to the wrong one.
        named = self._document().get("authorization_response_iss_parameter_supported") is True
        if ("iss" in query or named) and query.get("iss") != self.issuer:
            raise Refused("iss of the response")
        if "error" in query or not query.get("code"):
            raise Refused("the provider refused")

    # The token

    def _id_token(self, begun: Begun, code: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.callback,
            "code_verifier": begun.verifier,
        }
        headers: dict[str, str] = {}
        known = self._document().get("token_endpoint_auth_methods_supported")
        if not self._secret:
            form["client_id"] = self._client
        elif isinstance(known, list) and "client_secret_basic" not in known:
            form |= {"client_id": self._client, "client_secret": self._secret}
        else:
            # RFC 6749, section 2.3.1: each half is form-encoded before the two are joined.
            both = f"{quote_plus(self._client)}:{quote_plus(self._secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(both.encode()).decode()}"
        told = _fetched(self._endpoint("token_endpoint"), form, headers)
        token = told.get("id_token")
        if not isinstance(token, str) or len(token) > _LARGEST:
            raise Refused("no ID token")
        return token

    def _claims(self, token: str) -> dict[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError

        for fresh in (False, True):
            try:
                found = jwt.decode(token, self._key_set(fresh=fresh), algorithms=list(ALGORITHMS))
            except (JoseError, ValueError, KeyError, TypeError):
                continue  # perhaps the provider has new keys
            if not isinstance(found.claims, dict):
                raise Refused("claims")
            return found.claims
        raise Refused("signature")

    def _check(self, begun: Begun, claims: dict[str, Any]) -> None:
        now = time.time()
        audience = claims.get("aud")
        several = audience if isinstance(audience, list) else [audience]
        nonce, subject = claims.get("nonce"), claims.get("sub")
        if claims.get("iss") != self.issuer:
            raise Refused("issuer")
        if self._client not in several:
            raise Refused("audience")
        # A token for several audiences must say that it was issued to us, and not to another client
        # of the provider that now shows it here (OpenID Connect Core, section 3.1.3.7).
        if (len(several) > 1 or "azp" in claims) and claims.get("azp") != self._client:
            raise Refused("authorized party")
        if not _number(claims.get("exp")) or claims["exp"] <= now - LEEWAY:
            raise Refused("expired")
        if not _number(claims.get("iat")) or not -_OLDEST <= claims["iat"] - now <= LEEWAY:
            raise Refused("time of issue")
        if "nbf" in claims and (not _number(claims["nbf"]) or claims["nbf"] > now + LEEWAY):
            raise Refused("not yet valid")
        # Ties the token to this sign-in: one that was caught elsewhere cannot be shown again.
        if not isinstance(nonce, str) or not secrets.compare_digest(
            nonce.encode(), begun.nonce.encode()
        ):
            raise Refused("nonce")
        if not isinstance(subject, str) or not 1 <= len(subject) <= 255:
            raise Refused("subject")

    def _described(self, claims: dict[str, Any]) -> Person:
        """Return what the claims say of somebody, as far as it can be used."""
        names = (claims.get(each) for each in ("preferred_username", "email", "name", "sub"))
        name = next(each for each in names if isinstance(each, str) and each.strip())
        groups = claims.get(self._groups)
        listed = groups if isinstance(groups, list) else [groups]
        # An address that the provider does not call verified may be anybody's.
        email = claims.get("email") if claims.get("email_verified") is True else None
        return Person(
            issuer=self.issuer,
            subject=claims["sub"],
            name=name.strip(),
            email=email if isinstance(email, str) else None,
            groups=frozenset(each for each in listed if isinstance(each, str)),
        )

    # What the provider publishes

    def _document(self) -> dict[str, Any]:
        # Fetched under the lock: a crowd that signs in at once asks the provider once.
        with self._lock:
            if self._published is None or time.monotonic() - self._published[0] > _KEPT:
                address = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
                found = _fetched(address)
                # Another issuer's document would lead to endpoints and keys of its own.
                if found.get("issuer") != self.issuer:
                    line = "the document there is another issuer's"
                    raise MeterError(f"oidc_issuer: {self.issuer!r} given, {line}")
                self._published = (time.monotonic(), found)
            return self._published[1]

    def _endpoint(self, name: str) -> str:
        address = self._document().get(name)
        if not isinstance(address, str) or not is_secure(address):
            raise MeterError(f"oidc_issuer: {self.issuer}: no usable {name}")
        return address

    def _key_set(self, *, fresh: bool) -> Any:
        """Return the provider's keys; `fresh`: read again, unless that was just done."""
        from joserfc.jwk import KeySet

        address = self._endpoint("jwks_uri")
        with self._lock:
            limit = _PAUSE if fresh else _KEPT
            if self._keys is None or time.monotonic() - self._keys[0] > limit:
                listed = _fetched(address).get("keys")
                # Public keys alone: a shared secret that anybody can read here must sign nothing.
                usable = [
                    each
                    for each in (listed if isinstance(listed, list) else ())
                    if isinstance(each, dict)
                    and each.get("kty") in ("RSA", "EC", "OKP")
                    and each.get("use", "sig") == "sig"
                ]
                known = [key for each in usable for key in _understood(each)]
                self._keys = (time.monotonic(), KeySet(known))
            return self._keys[1]


def _understood(listed: dict[str, Any]) -> list[Any]:
    """Return a key that a provider lists; none if it is of a kind that is not known here."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        return KeySet.import_key_set({"keys": [listed]}).keys
    except (JoseError, ValueError, KeyError, TypeError):
        return []  # RFC 7517, section 5: the others are still good


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fetched(
    address: str, form: dict[str, str] | None = None, headers: dict[str, str] | None = None
) -> dict[str, Any]:
    """Ask the provider for a JSON object, of bounded size, within bounded time."""
    import httpx

    host = urlsplit(address).hostname or "?"
    method = "GET" if form is None else "POST"
    begun = time.monotonic()
    try:
        with (
            # No redirects: this address was found secure, and nobody looked at where it leads.
            httpx.Client(timeout=_SECONDS, follow_redirects=False) as client,
            client.stream(method, address, data=form, headers=headers) as answer,
        ):
            content = b""
            for piece in answer.iter_bytes():
                content += piece
                # The timeout of httpx is for each read: a server that drips could go on for ever.
                if len(content) > _LARGEST or time.monotonic() - begun > 2 * _SECONDS:
                    raise MeterError(f"{host}: it answers with too much, or too slowly")
            if answer.status_code != 200:
                raise MeterError(f"{host}: it answered {answer.status_code}")
        found = json.loads(content)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
        raise MeterError(f"{host}: no usable answer ({type(error).__name__})") from None
    if not isinstance(found, dict):
        raise MeterError(f"{host}: no usable answer")
    return found
