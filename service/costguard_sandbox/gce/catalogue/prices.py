"""The price list of the simulated cloud: one timeline per resource, region and provisioning model."""

from bisect import bisect_right
from datetime import UTC, datetime

from costguard_sandbox.gce.catalogue.price_table import first_prices, is_storage, unit_of

OPENING = datetime(2024, 1, 1, 8, 0, tzinfo=UTC)
"""When the first prices came into force."""

Timeline = tuple[tuple[datetime, int], ...]


class NoRate(LookupError):
    """Nothing of that kind is sold in that region."""


class PriceList:
    """What everything costs, and since when. Prices change only forward."""

    def __init__(self) -> None:
        self._timelines: dict[tuple[str, str, bool], Timeline] = {
            key: ((OPENING, nanos),) for key, nanos in first_prices().items()
        }

    def rate(self, resource: str, region: str, spot: bool, at: datetime) -> tuple[int, str]:
        """Nano-dollars per unit at a moment, and the unit: `h`, `GiBy.h` or `GiBy.mo`.

        Disks and saved memory cost a Spot VM what they cost any other. Before the opening, the opening price.
        """
        timeline = self.history(resource, region, spot)
        index = bisect_right(timeline, at, key=lambda change: change[0])
        return timeline[max(index - 1, 0)][1], unit_of(resource)

    def change(self, resource: str, region: str, spot: bool, nanos: int, at: datetime) -> None:
        """A new price from a moment on; a ValueError when a later one is already set."""
        timeline = self.history(resource, region, spot)
        if at <= timeline[-1][0]:
            raise ValueError(f"{resource} in {region} already has a price from {timeline[-1][0].isoformat()}")
        self._timelines[self._key(resource, region, spot)] = (*timeline, (at, nanos))

    def history(self, resource: str, region: str, spot: bool) -> Timeline:
        """Every (in force from, nano-dollars), oldest first."""
        try:
            return self._timelines[self._key(resource, region, spot)]
        except KeyError:
            model = "Spot" if spot else "on demand"
            raise NoRate(f"{resource} is not sold {model} in {region}") from None

    def sold(self) -> list[tuple[str, str, bool]]:
        """Every (resource, region, Spot) that has a price."""
        return list(self._timelines)

    @staticmethod
    def _key(resource: str, region: str, spot: bool) -> tuple[str, str, bool]:
        return resource, region, spot and (resource == "local-ssd" or not is_storage(resource))
