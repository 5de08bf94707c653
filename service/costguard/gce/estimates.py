"""Prices that no catalogue gives, worked out from one that it does, and marked as estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from costguard.model.price import Price

ESTIMATED: Final = "estimated"

# Google's price page charges 5 % more for custom E2 VMs than for predefined ones. Of the catalogue some say that it has
# SKUs of their own ("E2 Custom Instance ..."), others saw custom VMs billed by the ordinary ones (OpenCost issue 613).
_PREMIUM_PERCENT: Final = 105


def estimates(prices: Iterable[Price]) -> Iterator[Price]:
    """What custom E2 VMs cost wherever `prices` have the predefined ones alone."""
    known = {price.key: price for price in prices}
    for key, price in known.items():
        family, _, part = key.resource.partition(":")
        custom = replace(key, resource=f"e2-custom:{part}")
        if family == "e2" and custom not in known:
            rate_nanos = (price.rate_nanos * _PREMIUM_PERCENT + 50) // 100  # halves up, as Google's page has them
            yield replace(price, key=custom, rate_nanos=rate_nanos, source=f"{price.source}, {ESTIMATED}", sku_id="")
