"""An OpenID provider of our own: honest about PKCE, codes and clients, and a liar when told to."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "meter", "of the client"
KEY = RSAKey.generate_key(2048, {"kid": "one"})
OTHER = RSAKey.generate_key(2048, {"kid": "one"})
"""Somebody else's key, of the same name."""


def signed(claims: dict[str, Any], key: RSAKey = KEY) -> str:
    return jwt.encode({"alg": "RS256", "kid": "one"}, claims, key)


@dataclass
class OwnProvider:
    """What it says of people; each part can be made to lie."""

    issuer: str = ""
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "1", "name": "Ann"})
    claims: dict[str, Any] = field(default_factory=dict)
    """Laid over those of a token; None takes one away."""
    document: dict[str, Any] = field(default_factory=dict)
    sign: Callable[[dict[str, Any]], str] = signed
    keys: tuple[RSAKey, ...] = (KEY,)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    back: str = ""
    """Where it sends browsers back to, in the place of the server's public address."""

    def authorize(self, address: str) -> dict[str, str]:
        """Sign the person in; return what their browser brings back."""
        query = dict(parse_qsl(urlsplit(address).query))
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        assert query["response_type"] == "code"
        code = secrets.token_hex(8)
        self.codes[code] = query
        return {"code": code, "state": query["state"]}

    def described(self) -> dict[str, Any]:
        places = {
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }
        return {"issuer": self.issuer} | places | self.document

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        basic = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '+')}".encode()).decode()
        posted = (form.get("client_id"), form.get("client_secret"))
        if (
            asked is None
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != form.get("redirect_uri")
            or (authorization != f"Basic {basic}" and posted != (CLIENT, SECRET))
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300}
        claims |= {"nonce": asked["nonce"]} | self.person | self.claims
        claims = {name: value for name, value in claims.items() if value is not None}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.sign(claims)}


@contextmanager
def own_provider() -> Iterator[OwnProvider]:
    """Serve it on this machine."""
    provider = OwnProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.asked.append(self.path)
            if self.path == "/.well-known/openid-configuration":
                self.answer(200, provider.described())
            elif self.path == "/keys":
                public = [key.as_dict(private=False) for key in provider.keys]
                self.answer(200, {"keys": public})
            elif self.path.startswith("/authorize?"):
                brought = urlencode(provider.authorize(self.path))
                self.send_response(303)
                self.send_header("Location", f"{provider.back}/sign-in/callback?{brought}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self.answer(404, {})

        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            form = dict(parse_qsl(self.rfile.read(length).decode()))
            self.answer(*provider.token(form, self.headers.get("Authorization", "")))

        def answer(self, status: int, content: dict[str, Any]) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield provider
        server.shutdown()
