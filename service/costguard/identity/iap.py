"""Identity-Aware Proxy: the person that its signed header names."""

from __future__ import annotations

from costguard.identity.assertions import address_in, claims_of, refused
from costguard.identity.keys import Keys, TimeSource, get

KEYS = "https://www.gstatic.com/iap/verify/public_key-jwk"
_ISSUER = "https://cloud.google.com/iap"
_WHAT = "The assertion of Google's Identity-Aware Proxy"


class Iap:
    """`audience` is what the proxy's page names: /projects/NUMBER/global/backendServices/ID.

    `clock` is the machine's, whatever time the guard keeps: Google signs by it.
    """

    def __init__(self, audience: str, clock: TimeSource, keys_url: str = KEYS) -> None:
        self._audience = audience
        self._clock = clock
        self._keys = Keys(lambda: get(keys_url, "The keys of Google's Identity-Aware Proxy"), clock)

    def address(self, assertion: str) -> str:
        """Returns the person's address, in lower case. Raises SignInRefused; the assertion is in no message."""
        claims = claims_of(assertion, self._keys, ("ES256",), _ISSUER, self._clock.now(), _WHAT)
        if claims.get("aud") != self._audience:
            raise refused(_WHAT, "it is for another server")
        return address_in(claims, _WHAT)
