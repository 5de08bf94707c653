"""A small OpenID provider on loopback: it signs people in without asking, and keeps to the rules that we rely on."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc.jwk import RSAKey
from tests.identity.served import Answer, Asked, Served, serving
from tests.identity.signing import NOW, key_set, rsa_key, signed

CLIENT, SECRET = "costguard-client", "a secret/with:signs"
KEY = rsa_key("r1")


@dataclass
class Provider:
    """`claims` and `token` change the claims of the next sign-in; `down` are paths that fail.

    It signs with `key`, and publishes that one alone.
    """

    served: Served = field(default_factory=Served)
    description: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    token: str | None = None
    key: RSAKey = field(default_factory=lambda: KEY)
    userinfo: dict[str, Any] | None = None
    down: dict[str, Answer] = field(default_factory=dict)
    _codes: dict[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return self.served.url

    def sign_in(self, url: str) -> tuple[str, str]:
        """Signs in as a browser that follows this address, and returns code and state."""
        query = dict(parse_qsl(urlsplit(url).query))
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert set(query["scope"].split()) >= {"openid", "email"}
        code = secrets.token_hex(8)
        self._codes[code] = query
        return code, query["state"]

    def __call__(self, request: Asked) -> Answer:
        if request.path in self.down:
            return self.down[request.path]
        if request.path == "/.well-known/openid-configuration":
            return 200, self._described()
        if request.path == "/authorize":
            code, state = self.sign_in(f"?{urlencode(request.query)}")
            return 302, f"{request.query['redirect_uri']}?{urlencode({'code': code, 'state': state})}"
        if request.path == "/keys":
            return 200, key_set(self.key)
        if request.path == "/token":
            return self._redeem(request)
        if request.path == "/userinfo" and self.userinfo is not None:
            return (200, self.userinfo) if request.headers.get("authorization") == "Bearer opaque" else (401, {})
        return 404, {}

    def _described(self) -> dict[str, Any]:
        places = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
        places |= {"userinfo_endpoint": "/userinfo"} if self.userinfo is not None else {}
        described = {"issuer": self.issuer, **{name: f"{self.issuer}{path}" for name, path in places.items()}}
        return {**described, **self.description}

    def _redeem(self, request: Asked) -> Answer:
        form = request.form
        shown = request.basic or f"{form.get('client_id')}:{form.get('client_secret')}"
        credentials = {f"{CLIENT}:{SECRET}", f"{CLIENT}:a%20secret%2Fwith%3Asigns"}
        if shown not in credentials:
            return 401, {"error": "invalid_client"}
        begun = self._codes.pop(form["code"], None)  # good for once
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=")
        if begun is None or begun["code_challenge"] != challenge.decode():
            return 400, {"error": "invalid_grant", "error_description": "<b>call 555-0100</b>"}
        if begun["redirect_uri"] != form["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        return 200, {"id_token": self.token or self._id_token(begun), "access_token": "opaque", "token_type": "Bearer"}

    def _id_token(self, begun: Mapping[str, str]) -> str:
        second = int(NOW.timestamp())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "1",
            "iat": second,
            "exp": second + 300,
            "nonce": begun["nonce"],
            "email": "Ana@Example.com",
            "email_verified": True,
            **self.claims,
        }
        return signed({name: value for name, value in claims.items() if value is not None}, self.key, "RS256")


@contextmanager
def providing() -> Iterator[Provider]:
    provider = Provider()
    with serving(provider) as served:
        provider.served = served
        yield provider
