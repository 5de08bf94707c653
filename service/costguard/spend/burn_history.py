"""What burned in the last day, mark by mark: how the dollars an hour came to be what they are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from costguard.ledger import projects, running_totals
from costguard.ledger.accrual import Accrual
from costguard.ledger.running_totals import rate_of_kind
from costguard.model.budget import Scope
from costguard.model.money import Money
from costguard.spend import burn_history_rows

STEP = timedelta(minutes=15)
_LENGTH = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class BurnHistory:
    """Dollars an hour at each mark from `since` on, the last not after now. Empty while less than two are known."""

    since: datetime
    rates: tuple[Money, ...]

    @property
    def peak(self) -> tuple[datetime, Money]:
        """The first moment at which it was dearest."""
        place = max(range(len(self.rates)), key=lambda each: (self.rates[each].nanos, -each))
        return self.since + place * STEP, self.rates[place]


def burned(connection: Connection, accrual: Accrual, scope: Scope) -> BurnHistory:
    """At today's prices, so that the line moves with the fleet alone; without what has no price.

    It begins when the first project came to be watched: of what was over before then nobody knows.
    """
    last = accrual.now - (accrual.now - _EPOCH) % STEP  # by the clock, so that the same is asked until the next
    since, count = last - _LENGTH, _LENGTH // STEP + 1
    rows = running_totals.read(connection, accrual, scope, by=()).rows
    now = sum(of.machine_rate + of.gpu_rate + of.storage_rate for _, _, of in rows)
    changes = [now] + [0] * count
    for spell in burn_history_rows.spells(connection, since, STEP, scope):
        nanos = (rate_of_kind(accrual, spell.kind) or 0) * spell.count
        changes[min(spell.begins, count)] += nanos
        # What is open bills now, and did not at the first mark.
        changes[0 if spell.ends is None else min(spell.ends, count)] -= nanos
    nanos, rates = 0, []
    for change in changes[:count]:
        nanos += change
        rates.append(Money(nanos))
    watched = min((look.first_seen_at for look in projects.read_all(connection)), default=accrual.now)
    unknown = min(count, max(0, -(-(watched - since) // STEP)))
    known = tuple(rates[unknown:])
    return BurnHistory(since + unknown * STEP, known if len(known) > 1 else ())
