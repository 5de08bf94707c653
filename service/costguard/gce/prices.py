"""Prices from the Cloud Billing Catalog (cloud.google.com/billing/docs/reference/rest/v1/services.skus)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from costguard.errors import PriceSourceError
from costguard.gce.estimates import estimates
from costguard.gce.sku import prices_of_sku
from costguard.model.price import Price, PriceKey

if TYPE_CHECKING:
    import requests

GOOGLE: Final = "https://cloudbilling.googleapis.com"
_COMPUTE_ENGINE: Final = "6F81-5844-456A"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-billing.readonly"
_PAGE_SIZE: Final = 5000  # the most that Google gives; Compute Engine has some tens of thousands of SKUs
_MOST_PAGES: Final = 100  # a catalogue that never ends is broken
_TIMEOUT_S: Final = 60
_OK: Final = 200


class CatalogPrices:
    """Reads Compute Engine's list prices of every region, on-demand and Spot.

    Google is asked with `api_key`, or with the application default credentials; a server named by
    `endpoint` is asked without any.
    """

    def __init__(self, endpoint: str | None = None, api_key: str | None = None) -> None:
        self._base = (endpoint or GOOGLE).rstrip("/")
        self._api_key = api_key
        self._plain = endpoint is not None or api_key is not None
        self._session: requests.Session | None = None

    def fetch(self) -> Sequence[Price]:
        """All prices of what Costguard bills, one for each key, and estimates. Raises PriceSourceError."""
        found: dict[PriceKey, Price] = {}
        for sku in self._skus():
            for price in prices_of_sku(sku):
                known = found.get(price.key)
                # Two SKUs for one key: believe the newer, and of equals the dearer.
                if known is None or _weight(price) > _weight(known):
                    found[price.key] = price
        if not found:
            raise PriceSourceError(
                f"The price catalogue at {self._base} holds no price of a Compute Engine resource.",
                "Check the endpoint; the last good prices stay in force.",
            )
        return (*found.values(), *estimates(found.values()))

    def _skus(self) -> Iterator[Any]:
        token = ""
        for _ in range(_MOST_PAGES):
            page = self._page(token)
            yield from page.get("skus") or ()
            token = page.get("nextPageToken") or ""
            if not token:
                return
        raise self._failure(f"it went on for more than {_MOST_PAGES} pages")

    def _page(self, token: str) -> dict[str, Any]:
        url = f"{self._base}/v1/services/{_COMPUTE_ENGINE}/skus"
        wanted = {"currencyCode": "USD", "pageSize": str(_PAGE_SIZE)}
        if token:
            wanted["pageToken"] = token
        # In a header, because addresses end up in logs.
        headers = {"x-goog-api-key": self._api_key} if self._api_key else {}
        session = self._open()
        try:
            answer = session.get(url, params=wanted, headers=headers, timeout=_TIMEOUT_S)
        except Exception as error:  # google-auth and requests raise types of their own
            raise self._failure(str(error)) from error
        if answer.status_code != _OK:
            raise self._failure(f"it answered {answer.status_code}: {_words(answer.content)}")
        try:
            page = orjson.loads(answer.content)
        except orjson.JSONDecodeError as error:
            raise self._failure("its answer is not JSON") from error
        if not isinstance(page, dict) or not isinstance(page.get("skus") or [], list):
            raise self._failure("its answer is not a page of SKUs")
        return page

    def _open(self) -> requests.Session:
        if self._session is None:
            import requests  # only when prices are read: a server answers before that

            self._session = requests.Session() if self._plain else self._authorized()
        return self._session

    def _authorized(self) -> requests.Session:
        # Imported when needed: a test or a demo without Google pays nothing for it.
        import google.auth
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import AuthorizedSession

        try:
            credentials, _ = google.auth.default(scopes=[_SCOPE])
        except GoogleAuthError as error:
            raise self._failure(str(error)) from error
        session: requests.Session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
        return session

    def _failure(self, reason: str) -> PriceSourceError:
        return PriceSourceError(
            f"The price catalogue at {self._base} could not be read: {reason}.",
            "The last good prices stay in force. Check the network, the credentials and that the Cloud Billing API "
            "is enabled (cloudbilling.googleapis.com).",
        )


def _weight(price: Price) -> tuple[Any, ...]:
    return (price.in_force_from, price.rate_nanos, price.sku_id)


def _words(body: bytes) -> str:
    """Google's own sentence, if there is one."""
    try:
        return str(orjson.loads(body)["error"]["message"])
    except (orjson.JSONDecodeError, LookupError, TypeError):
        return body[:200].decode(errors="replace")
