"""The prices that ship with Costguard, for a start without the Cloud Billing Catalog."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from costguard.gce.estimates import estimates
from costguard.model.instance import LIST_PRICED
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit

_FILE = Path(__file__).with_name("price_snapshot.toml")
_REGIONS = {"us": ("us-central1", "us-east1", "us-west1")}


def snapshot_prices(file: Path = _FILE) -> tuple[Price, ...]:
    """Every price of the snapshot, and estimates. Its file names the source of each figure, and of each correction."""
    with file.open("rb") as opened:
        snapshot = tomllib.load(opened)
    given = [price for figure in snapshot["figures"] for price in _prices(figure, snapshot)]
    return (*given, *estimates(given))


def _prices(figure: dict[str, Any], snapshot: dict[str, Any]) -> Iterator[Price]:
    for model in LIST_PRICED:
        for place, dollars in figure.get(model.value, {}).items():
            for region in _REGIONS.get(place, (place,)):
                yield Price(
                    key=PriceKey(figure["resource"], region, model),
                    unit=Unit(figure["unit"]),
                    rate_nanos=Money.of(dollars).nanos,
                    in_force_from=snapshot["in_force_from"],
                    source=f"snapshot {snapshot['date']}",
                )
