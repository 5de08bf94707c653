"""Estimates the saving of a stop, also of one that shadow mode only recorded. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import bill_lifetime
from costguard.model.lifetime import Lifetime
from costguard.model.money import ZERO, Money, Priced

MOST = timedelta(hours=24)  # nobody knows when it would have been noticed

STOP_METHOD = (
    "An estimate: the hourly rate of what was stopped, times the time until it ran again, until now, or 24 hours, "
    "whichever is shortest. How long it would have run on unnoticed is not known."
)
SHADOW_METHOD = (
    "From the ledger: the cost from the moment at which something would have been stopped until it ended, or "
    "until now. The first 24 hours count as saved, as for a stop."
)
KEEP_METHOD = (
    "From the ledger: the cost of what was kept, from that moment or when it was due, if that was later, until the "
    "keep expired, it ended, or now."
)


class Bound(StrEnum):
    """The end of the time that is counted."""

    RAN_AGAIN = "ran_again"
    ENDED = "ended"
    DECIDED_AGAIN = "decided_again"  # the next stop of the same run counts from there on
    RAN_OUT = "ran_out"
    NOW = "now"
    LONGEST = "longest"


@dataclass(frozen=True, slots=True)
class Saving:
    """`amount` is not whole where the machine has no price. `in_all` is a shadow stop's cost without the 24 hours."""

    amount: Priced
    since: datetime
    until: datetime
    bound: Bound
    method: str
    in_all: Priced | None = None


def of_stop(rate: Money | None, stopped_at: datetime, ran_again_at: datetime | None, now: datetime) -> Saving:
    """Returns the saving of a stop that was carried out; `rate` is per hour, None where the machine had no price."""
    until, bound = _first((stopped_at + MOST, Bound.LONGEST), (ran_again_at, Bound.RAN_AGAIN), (now, Bound.NOW))
    amount = Priced(ZERO, whole=False) if rate is None else Priced(rate.over(max(timedelta(), until - stopped_at)))
    return Saving(amount, stopped_at, until, bound, STOP_METHOD)


def of_shadow(run: Lifetime, at: datetime, again_at: datetime | None, book: PriceBook, now: datetime) -> Saving:
    """Returns the saving of a stop that a rule would have made at `at`; `again_at` is when it would have made the next
    of this run.
    """
    ends = ((run.ended_at, Bound.ENDED), (again_at, Bound.DECIDED_AGAIN), (now, Bound.NOW))
    whole, _ = _first(*ends)
    until, bound = _first((at + MOST, Bound.LONGEST), *ends)
    return Saving(_cost(run, at, until, book), at, until, bound, SHADOW_METHOD, in_all=_cost(run, at, whole, book))


def of_keep(run: Lifetime, since: datetime, until: datetime, book: PriceBook, now: datetime) -> Saving:
    """Returns the cost by now of a keep from `since` until `until`: the opposite of a saving, and none is negative."""
    end, bound = _first((run.ended_at, Bound.ENDED), (until, Bound.RAN_OUT), (now, Bound.NOW))
    return Saving(_cost(run, since, end, book), since, end, bound, KEEP_METHOD)


def _first(*ends: tuple[datetime | None, Bound]) -> tuple[datetime, Bound]:
    """The earliest of them; of equals, the one that was given first."""
    reached = [(moment, bound) for moment, bound in ends if moment is not None]
    return min(reached, key=lambda end: end[0])


def _cost(run: Lifetime, since: datetime, until: datetime, book: PriceBook) -> Priced:
    if until <= since:
        return Priced()
    bill = bill_lifetime(run, book, until, since)
    return Priced(bill.amount, not bill.unpriced)
