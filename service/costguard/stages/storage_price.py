"""Prices of what data stages store: dollars a GiB and month of Standard storage, by the bucket's location.

cloud.google.com/storage/pricing, "Data storage", as copies of the page of 2022 and 2026 show it; of the regions whose
rows those have, and of the multi-region `us` by its price an hour ($0.000035616). A month is 730 hours there. Read in
November 2026.
"""

from __future__ import annotations

from datetime import timedelta

from costguard.model.money import Money

GIB = 1 << 30
MONTH = timedelta(hours=730)
_SECOND = timedelta(seconds=1)
_PRICES = {
    "us": "0.026",
    "us-central1": "0.020", "us-east1": "0.020", "us-east4": "0.023", "us-east5": "0.020", "us-south1": "0.020",
    "us-west1": "0.020", "us-west2": "0.023", "us-west3": "0.023", "us-west4": "0.023",
    "northamerica-northeast1": "0.023", "northamerica-northeast2": "0.023", "northamerica-south1": "0.026",
    "europe-central2": "0.023", "europe-north1": "0.020", "europe-north2": "0.023", "europe-west1": "0.020",
    "europe-west2": "0.023", "europe-west3": "0.023",
}  # fmt: skip


def a_month(size: int, location: str) -> Money | None:
    """Returns what so many bytes cost in a month, cut off to a nano-dollar; None: the location's price is not known."""
    price = _PRICES.get(location)
    return None if price is None else Money(Money.of(price).nanos * size // GIB)


def over(size: int, location: str, span: timedelta) -> Money | None:
    """Returns what so many bytes cost over a span, cut off to a nano-dollar; None: the price is not known."""
    of_month = a_month(size, location)
    return None if of_month is None else Money(of_month.nanos * (span // _SECOND) // (MONTH // _SECOND))
