"""OpenID Connect: the authorization code flow, with PKCE and a nonce, for the one provider that is configured."""

from __future__ import annotations

import base64
import hashlib
import hmac
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from costguard.errors import SignInRefused, SignInUnavailable
from costguard.identity import keys
from costguard.identity.assertions import address_in, claims_of, refused
from costguard.identity.keys import Keys, TimeSource

_ALGORITHMS = ("RS256", "ES256")
_WHAT = "The provider's token"
_BY_FORM = "client_secret_post"


@dataclass(frozen=True, slots=True)
class OidcClient:
    """The identity of this client at the provider. `domain`: only accounts of this Google Workspace; "" takes all."""

    issuer: str
    id: str
    secret: str = field(repr=False)
    domain: str = ""


class Oidc:
    """`clock` is the machine's, whatever time the guard keeps: providers sign by it."""

    def __init__(self, client: OidcClient, clock: TimeSource, timeout_s: float = 5.0) -> None:
        self._client = client
        self._clock = clock
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._document: Mapping[str, Any] | None = None
        self._keys = Keys(self._fetch_keys, clock)

    def begin(self, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        """Returns the address to send the browser to.

        Raises SignInUnavailable when the provider's document cannot be read.
        """
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._client.id,
            "redirect_uri": redirect_uri,
            "scope": "openid email",
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            **({"hd": self._client.domain} if self._client.domain else {}),
        }
        address = self._endpoint("authorization_endpoint")
        return f"{address}{'&' if urlsplit(address).query else '?'}{urlencode(query)}"

    def finish(self, code: str, redirect_uri: str, nonce: str, verifier: str) -> str:
        """Returns the person's address, in lower case.

        Raises SignInRefused; neither code nor tokens are in any message.
        """
        answer = self._redeem(code, redirect_uri, verifier)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise refused(_WHAT, "it did not come")
        issuer = self._client.issuer
        claims = claims_of(token, self._keys, _ALGORITHMS, issuer, self._clock.now(), _WHAT)
        self._check(claims, nonce)
        return self._verified_address(claims, answer.get("access_token"))

    def _redeem(self, code: str, redirect_uri: str, verifier: str) -> Mapping[str, Any]:
        address = self._endpoint("token_endpoint")
        methods = self._discovered().get("token_endpoint_auth_methods_supported")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        auth = None
        if isinstance(methods, list) and _BY_FORM in methods and "client_secret_basic" not in methods:
            form |= {"client_id": self._client.id, "client_secret": self._client.secret}
        else:
            auth = (quote(self._client.id, safe=""), quote(self._client.secret, safe=""))
        status, answer = keys.post(address, "The provider's token", form, auth, timeout_s=self._timeout_s)
        if status == 401 or answer.get("error") == "invalid_client":
            raise SignInRefused(
                "The provider does not take this server's client id and secret.",
                "Check oidc_client_id and COSTGUARD_OIDC_CLIENT_SECRET, then restart the server.",
            )
        if status != 200:
            raise refused("The provider's code", "it was used before, has expired, or belongs to another sign-in")
        return answer

    def _check(self, claims: Mapping[str, Any], nonce: str) -> None:
        given = claims.get("nonce")
        if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
            raise refused(_WHAT, "it belongs to another sign-in")
        audience, party = claims.get("aud"), claims.get("azp")
        listed = audience if isinstance(audience, list) else [audience]
        if self._client.id not in listed or (party is None and len(listed) > 1):
            raise refused(_WHAT, "it is for another server")
        if party is not None and party != self._client.id:
            raise refused(_WHAT, "it was issued to another server")
        if self._client.domain and claims.get("hd") != self._client.domain:
            raise SignInRefused(
                f"This account is not one of {self._client.domain}.", f"Sign in with one of {self._client.domain}."
            )

    def _verified_address(self, claims: Mapping[str, Any], access_token: object) -> str:
        """Some providers keep the address out of their tokens, and tell it only when they are asked for it."""
        answer = claims
        if "email" not in claims and isinstance(access_token, str) and "userinfo_endpoint" in self._discovered():
            address = self._endpoint("userinfo_endpoint")
            answer = keys.get(address, "The provider's word on you", bearer=access_token, timeout_s=self._timeout_s)
            if answer.get("sub") != claims.get("sub") or not isinstance(answer.get("sub"), str):
                raise refused("The provider's word on you", "it is about someone else")
        address = address_in(answer, _WHAT)
        if answer.get("email_verified") is not True:
            raise SignInRefused(
                "The provider has not verified that this e-mail address is yours.",
                "Confirm the address there, or have an administrator of the provider do so; then sign in again.",
            )
        return address

    def _discovered(self) -> Mapping[str, Any]:
        """The provider's own description: read once, as it changes about never."""
        if self._document is None:
            with self._lock:
                if self._document is None:
                    self._document = self._discover()
        return self._document

    def _discover(self) -> Mapping[str, Any]:
        issuer, what = self._client.issuer, "The sign-in provider's description"
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        document = keys.get(url, what, timeout_s=self._timeout_s)
        if document.get("issuer") != issuer:
            raise SignInUnavailable(
                f"The sign-in provider at {issuer} calls itself otherwise.",
                "Set oidc_issuer to exactly what its /.well-known/openid-configuration gives as `issuer`.",
            )
        return document

    def _endpoint(self, name: str) -> str:
        """An address out of the description. Nothing secret goes to one without TLS, unless the issuer has none."""
        url = self._discovered().get(name)
        schemes = {"https", urlsplit(self._client.issuer).scheme}
        if not isinstance(url, str) or urlsplit(url).scheme not in schemes:
            raise keys.unavailable("The sign-in provider", self._client.issuer, f"it has no usable {name}")
        return url

    def _fetch_keys(self) -> Mapping[str, Any]:
        return keys.get(self._endpoint("jwks_uri"), "The sign-in provider's keys", timeout_s=self._timeout_s)
