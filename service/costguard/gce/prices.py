"""Prices: the Cloud Billing Catalog, the snapshot that ships with Costguard, and estimates of unlisted resources."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from costguard.errors import PriceSourceError
from costguard.gce.pages import walk
from costguard.gce.sku import prices_of_sku
from costguard.gce.vertex.estimates import vertex_estimates
from costguard.model.price import Price, PriceKey
from costguard.refusals.reader import explain

if TYPE_CHECKING:
    import requests
    from requests.adapters import BaseAdapter
import tomllib
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from costguard.model.instance import ProvisioningModel
from costguard.model.managed.machines import Seller
from costguard.model.money import Money
from costguard.model.price import Unit

log = logging.getLogger(__name__)

ESTIMATED: Final = "estimated"

# Google's price page charges 5 % more for custom E2 VMs than for predefined ones. Of the catalogue some say that it has
# SKUs of their own ("E2 Custom Instance ..."), others saw custom VMs billed by the ordinary ones (OpenCost issue 613).
_PREMIUM_PERCENT: Final = 105


def estimates(prices: Iterable[Price]) -> Iterator[Price]:
    """Yields the prices of custom E2 VMs wherever `prices` have the predefined ones alone."""
    published = {price.key: price for price in prices}
    for key, price in published.items():
        family, _, part = key.resource.partition(":")
        custom = replace(key, resource=f"e2-custom:{part}")
        if family == "e2" and custom not in published:
            rate_nanos = (price.rate_nanos * _PREMIUM_PERCENT + 50) // 100  # halves up, as Google's page has them
            yield replace(price, key=custom, rate_nanos=rate_nanos, source=f"{price.source}, {ESTIMATED}", sku_id="")


def vertex_estimated(prices: Iterable[Price], recorded: Collection[PriceKey], only: str = "") -> Iterator[Price]:
    """Yields estimates for Vertex AI of what `recorded` does not hold; `only`: of resources that begin so."""
    for key, nanos, price in vertex_estimates(prices):
        if key not in recorded and key.resource.startswith(only):
            yield replace(price, key=key, rate_nanos=nanos, source=f"{price.source}, {ESTIMATED}", sku_id="")


_COLAB_DISK: Final = f"disk:{Seller.COLAB.mark}-"
_FILE = Path(__file__).with_name("price_snapshot.toml")
_VERTEX_FILE = _FILE.parent / "vertex" / _FILE.name
_REGIONS = {"us": ("us-central1", "us-east1", "us-west1")}


def snapshot_prices() -> tuple[Price, ...]:
    """Every shipped price, and estimates. Their files name the source of each figure, and of each correction."""
    given, of_vertex = _figures(_FILE), _figures(_VERTEX_FILE)
    recorded = {price.key for price in of_vertex}
    return (*given, *estimates(given), *of_vertex, *vertex_estimated(given, recorded))


def _figures(file: Path) -> list[Price]:
    snapshot = tomllib.loads(file.read_text("utf-8"))
    return [price for figure in snapshot["figures"] for price in _prices(figure, snapshot)]


def _prices(figure: dict[str, Any], snapshot: dict[str, Any]) -> Iterator[Price]:
    for model in ProvisioningModel:
        for place, dollars in figure.get(model.value, {}).items():
            for region in _REGIONS.get(place, (place,)):
                yield Price(
                    key=PriceKey(figure["resource"], region, model),
                    unit=Unit(figure["unit"]),
                    rate_nanos=Money.of(dollars).nanos,
                    in_force_from=snapshot["in_force_from"],
                    source=f"snapshot {snapshot['date']}",
                )


GOOGLE: Final = "https://cloudbilling.googleapis.com"
_HOST = GOOGLE.removeprefix("https://")
_COMPUTE_ENGINE: Final = "6F81-5844-456A"
_VERTEX_AI: Final = "C7E2-9256-1C43"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-billing.readonly"
_PAGE_SIZE: Final = 5000  # the most that Google gives; Compute Engine has some tens of thousands of SKUs
_MOST_PAGES: Final = 100  # a catalogue that never ends is broken
_TIMEOUT_S: Final = 60
_OK: Final = 200


class CatalogPrices:
    """Reads Compute Engine's list prices of every region, on-demand and Spot, and `with_vertex` those of Vertex AI.

    Google is asked with `api_key`, or with the application default credentials; a server named by
    `endpoint` is asked without any.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        api_key: str | None = None,
        adapter: BaseAdapter | None = None,
        *,
        with_vertex: bool = False,
    ) -> None:
        self._with_vertex = with_vertex
        self._base = (endpoint or GOOGLE).rstrip("/")
        self._api_key = api_key
        self._adapter = adapter  # carries requests in the place of sockets
        self._plain = endpoint is not None or api_key is not None
        self._session: requests.Session | None = None

    def fetch(self) -> Sequence[Price]:
        """All prices of what Costguard bills, one for each key, and estimates. Raises PriceSourceError."""
        prices: dict[PriceKey, Price] = {}
        for sku in self._skus():
            for price in prices_of_sku(sku):
                rival = prices.get(price.key)
                # Two SKUs for one key: believe the newer, and of equals the dearer.
                if rival is None or _weight(price) > _weight(rival):
                    prices[price.key] = price
        if not prices:
            raise PriceSourceError(
                f"The price catalogue at {self._base} holds no price of a Compute Engine resource.",
                "Check the endpoint; the last good prices stay in force.",
            )
        # Of Colab's disks no SKU is recorded: where none is read as one, they are estimated.
        disks = vertex_estimated(prices.values(), prices, only=_COLAB_DISK) if self._with_vertex else ()
        return (*prices.values(), *estimates(prices.values()), *disks)

    def _skus(self) -> Iterator[Any]:
        yield from self._skus_of(_COMPUTE_ENGINE)
        if not self._with_vertex:
            return
        try:
            yield from self._skus_of(_VERTEX_AI)
        except PriceSourceError as error:
            log.warning("the prices of Vertex AI could not be read, so the last good ones stay in force: %s", error)

    def _skus_of(self, service: str) -> Iterator[Any]:
        for page in walk(lambda token: self._page(service, token), self._failure, _MOST_PAGES):
            yield from page.get("skus") or ()

    def _page(self, service: str, token: str) -> dict[str, Any]:
        url = f"{self._base}/v1/services/{service}/skus"
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
            reading = explain(answer.content, status=answer.status_code, service=_HOST)
            raise self._failure(f"it answered {answer.status_code}: {reading.said.rstrip('.')}", reading.mend)
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
            if self._adapter is not None:
                self._session.mount(self._base, self._adapter)
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

    def _failure(self, reason: str, mend: str = "") -> PriceSourceError:
        what = mend or (f"Check the network, the credentials and that the Cloud Billing API is enabled ({_HOST}).")
        return PriceSourceError(
            f"The price catalogue at {self._base} could not be read: {reason}.",
            f"The last good prices stay in force. {what}",
        )


def _weight(price: Price) -> tuple[Any, ...]:
    return (price.in_force_from, price.rate_nanos, price.sku_id)
