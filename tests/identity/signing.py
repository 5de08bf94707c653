"""Tokens as those sign them who vouch for people, and as those forge them who would like to be someone."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson
from joserfc import jws, jwt
from joserfc.jwk import ECKey, RSAKey

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def ec_key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid})


def rsa_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid})


def key_set(*keys: ECKey | RSAKey) -> dict[str, Any]:
    return {"keys": [{**key.as_dict(private=False), "use": "sig"} for key in keys]}


def signed(claims: Mapping[str, Any], key: ECKey | RSAKey, algorithm: str = "ES256", **header: Any) -> str:
    whole = {"alg": algorithm, "kid": key.kid, **header}
    return jwt.encode(
        {name: value for name, value in whole.items() if value is not None}, dict(claims), key, [algorithm]
    )


def by_secret(claims: Mapping[str, Any], secret: bytes, **header: Any) -> str:
    """Signed by HS256. By hand, since no library lends itself to a public key as the secret."""
    head = f"{_part({'alg': 'HS256', 'typ': 'JWT', **header})}.{_part(claims)}"
    return f"{head}.{encoded(hmac.digest(secret, head.encode(), 'sha256'))}"


def unsigned(claims: Mapping[str, Any], **header: Any) -> str:
    return f"{_part({'alg': 'none', 'typ': 'JWT', **header})}.{_part(claims)}."


def raw_signed(payload: bytes, key: ECKey) -> str:
    """Signed as it stands, which need be no good JSON."""
    return jws.serialize_compact({"alg": "ES256", "kid": key.kid}, payload, key, ["ES256"])


def _part(data: Mapping[str, Any]) -> str:
    return encoded(orjson.dumps(data))


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
