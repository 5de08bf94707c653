"""Verifies JSON Web Tokens: issuer, audience, times and signature."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import BadSignatureError, ClaimError, ExpiredTokenError, InvalidClaimError, JoseError

from costguard.errors import SignInRefused
from costguard.identity.keys import Keys

_LEEWAY_S = 60  # as far as clocks may differ
_LONGEST = 16 * 1024
_AGAIN = "Sign in again; if it happens again, contact the administrator of this server."
_KINDS = {"ES256": "EC", "RS256": "RSA"}
_CLAIMS = {"iss": "someone else issued it", "iat": "it is not good yet", "nbf": "it is not good yet"}
# A name in front of it (`securetoken.google.com/...:ana@example.com`) makes it no address of ours.
_ADDRESS = re.compile(r"[a-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[a-z0-9.-]{1,190}\.[a-z0-9-]{2,63}")


class _Strict(json.JSONDecoder):
    """No key twice: readers differ in which of the two they believe."""

    def __init__(self, **_options: Any) -> None:
        super().__init__(object_pairs_hook=_once)


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    claims = dict(pairs)
    if len(claims) < len(pairs):
        raise ValueError("a name that stands there twice")
    return claims


def claims_of(
    token: str, keys: Keys, algorithms: Sequence[str], issuer: str, now: datetime, what: str
) -> Mapping[str, Any]:
    """Returns the claims of a token that this issuer signed and that is valid now. Raises SignInRefused, and repeats
    none of it.

    The caller checks the audience.
    """
    if len(token) > _LONGEST:
        raise refused(what, "it is too long")
    registry = jws.JWSRegistry(algorithms=algorithms, strict_check_header=False)
    try:
        header = jws.extract_compact(token.encode("ascii"), registry=registry).headers()
        algorithm, kid = str(header.get("alg")), header.get("kid")
        if algorithm not in algorithms or not (kid is None or isinstance(kid, str)):
            raise refused(what, "it is signed in a way that is not taken")
        key = keys.find(kid, _KINDS[algorithm])
        if key is None:
            raise refused(what, "it is signed with a key that its issuer does not publish")
        claims = jwt.decode(token, key, algorithms, registry, _Strict).claims
        jwt.JWTClaimsRegistry(
            now=int(now.timestamp()),
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": issuer},
            exp={"essential": True},
            iat={"essential": True},
        ).validate(claims)
    except JoseError as error:
        raise refused(what, _why(error)) from None
    except (ValueError, TypeError, AttributeError, RecursionError):  # the library trusts headers to be objects
        raise refused(what, "it cannot be read") from None
    return claims


def address_in(claims: Mapping[str, Any], what: str) -> str:
    """The address that it is about, in lower case. Raises SignInRefused."""
    email = claims.get("email")
    address = email.lower() if isinstance(email, str) else ""
    if not _ADDRESS.fullmatch(address):
        raise refused(what, "it names no e-mail address")
    return address


def refused(what: str, why: str) -> SignInRefused:
    return SignInRefused(f"{what} is not taken: {why}.", _AGAIN)


def _why(error: JoseError) -> str:
    if isinstance(error, BadSignatureError):
        return "its signature is wrong"
    if isinstance(error, ExpiredTokenError):
        return "it has expired"
    if isinstance(error, InvalidClaimError) and error.claim in _CLAIMS:
        return _CLAIMS[error.claim]
    if isinstance(error, ClaimError):
        return f"what it says of {error.claim} is wrong or missing"
    return "it is no token that is signed as it must be"
