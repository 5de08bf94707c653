"""The prices of Google's catalogue: read when they are due, and stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog

from costguard.db.health_rows import catalogue_read_at
from costguard.db.lease import Lease
from costguard.db.transaction import Database
from costguard.errors import PriceSourceError
from costguard.ledger import price_refresh
from costguard.model.ports import Clock
from costguard.model.price import Price

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PriceCatalogue:
    """`fetch` reads the catalogue and raises PriceSourceError; it is asked only where the settings allow it."""

    database: Database
    clock: Clock
    fetch: Callable[[], Sequence[Price]]
    every: timedelta
    is_enabled: bool

    def store(self, fetched: Sequence[Price], fence: Lease | None) -> None:
        price_refresh.record(self.database, fetched, self.clock.now(), fence)

    def refresh(self, fence: Lease | None) -> None:
        """Reads and stores the prices. Raises PriceSourceError."""
        if self.is_enabled:
            self.store(self.fetch(), fence)

    def refresh_old(self, lease: Lease) -> None:
        """Does so where that is due. If the catalogue cannot be read, the last good prices stay in force."""
        with self.database.read() as connection:
            read_at = catalogue_read_at(connection)
        if read_at is not None and self.clock.now() - read_at < self.every:
            return
        try:
            self.refresh(lease)
        except PriceSourceError as error:
            log.error("prices_not_refreshed", error=str(error))
