"""What burned in the last day, mark by mark: how the dollars an hour came to be what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from costguard.ledger import projects
from costguard.ledger.accrual import Accrual
from costguard.model.budget import Scope
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.money import Money
from costguard.spend import burn_history_rows
from costguard.spend.burn_history_rows import Kind, Spell

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
    changes = [0] * (count + 1)
    for spells, rate in (
        (burn_history_rows.machines(connection, since, STEP, scope), _machine_rate(accrual)),
        (burn_history_rows.stored(connection, since, STEP, scope), _storage_rate(accrual)),
    ):
        _add(changes, spells, rate)
    nanos, rates = 0, []
    for change in changes[:count]:
        nanos += change
        rates.append(Money(nanos))
    watched = min((look.first_seen_at for look in projects.read_all(connection)), default=accrual.now)
    unknown = min(count, max(0, -(-(watched - since) // STEP)))
    known = tuple(rates[unknown:])
    return BurnHistory(since + unknown * STEP, known if len(known) > 1 else ())


def _add(changes: list[int], spells: Sequence[Spell], rate_of: Callable[[Kind], Money | None]) -> None:
    rates: dict[Kind, int] = {}
    for spell in spells:
        if spell.kind not in rates:
            rate = rate_of(spell.kind)
            rates[spell.kind] = 0 if rate is None else rate.nanos
        nanos = rates[spell.kind] * spell.count
        for mark, change in ((spell.begins, nanos), (spell.ends, -nanos)):
            if mark is not None and mark < len(changes):
                changes[mark] += change


def _machine_rate(accrual: Accrual) -> Callable[[Kind], Money | None]:
    return lambda kind: accrual.rate(Shape(*kind[:6]), kind[7], ProvisioningModel(kind[6]))


def _storage_rate(accrual: Accrual) -> Callable[[Kind], Money | None]:
    return lambda kind: accrual.storage_rate(*kind)
