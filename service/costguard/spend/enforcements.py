"""What was stopped or would have been, and what that saved: what pages, API, digests and command line all show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.ledger.accrual import region_of
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import rate_per_hour, storage_rate_per_hour
from costguard.ledger.storage import MEMORY_RESOURCE
from costguard.model.action import StopOutcome
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.money import Money, Priced
from costguard.spend.enforced import StopRow, stops_between
from costguard.spend.savings import Saving, of_shadow, of_stop


@dataclass(frozen=True, slots=True)
class StopReport:
    """A stop that was begun. `rate` is what it took off, per hour; `saving` is None until the VM has stopped."""

    stop: StopRow
    rate: Priced | None
    saving: Saving | None


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """A stop that a rule would have made. `saving` is None where its run is not in the ledger."""

    stop: StopRow
    saving: Saving | None


@dataclass(frozen=True, slots=True)
class Enforcements:
    """All of a period, the latest first. Amounts are not whole where something in them has no price."""

    since: datetime
    until: datetime
    stops: tuple[StopReport, ...]
    shadows: tuple[ShadowReport, ...]

    @property
    def saved(self) -> Priced:
        return _sum(stop.saving.amount for stop in self.stops if stop.saving is not None)

    @property
    def would_have_saved(self) -> Priced:
        return _sum(shadow.saving.amount for shadow in self.shadows if shadow.saving is not None)

    @property
    def shadow_cost(self) -> Priced:
        """What the runs that would have been stopped went on to cost, without the bound of a day."""
        return _sum(
            shadow.saving.in_all for shadow in self.shadows if shadow.saving is not None and shadow.saving.in_all
        )


def enforcements(
    connection: Connection, book: PriceBook, now: datetime, since: datetime, until: datetime
) -> Enforcements:
    """What was decided in [since, until), with what that has saved by now."""
    rows = stops_between(connection, since, until)
    return Enforcements(
        since,
        until,
        tuple(_stop(row, book, now) for row in rows if row.outcome is not StopOutcome.SHADOW),
        tuple(_shadow(row, book, now) for row in rows if row.outcome is StopOutcome.SHADOW),
    )


def _stop(row: StopRow, book: PriceBook, now: datetime) -> StopReport:
    run = row.run
    if row.outcome is not StopOutcome.DONE or run is None or run.ended_at is None:
        return StopReport(row, None, None)
    rate = _rate(run, run.ended_at, book)
    return StopReport(
        row,
        Priced(whole=False) if rate is None else Priced(rate),
        of_stop(rate, run.ended_at, row.ran_again_at, now),
    )


def _shadow(row: StopRow, book: PriceBook, now: datetime) -> ShadowReport:
    return ShadowReport(row, None if row.run is None else of_shadow(row.run, row.intended_at, row.again_at, book, now))


def _rate(run: Lifetime, at: datetime, book: PriceBook) -> Money | None:
    """Of the VM without its disks, which go on billing, as the saved memory of a suspended VM does."""
    region = region_of(run.zone)
    rate = rate_per_hour(run.shape, region, run.provisioning_model, book, at)
    if rate is None or run.end_reason is not EndReason.SUSPENDED:
        return rate
    memory = storage_rate_per_hour(MEMORY_RESOURCE, run.shape.memory_mib, region, book, at)
    return None if memory is None else rate - memory


def _sum(amounts: Iterable[Priced]) -> Priced:
    return sum(amounts, Priced())
