"""What was saved and what keeps cost: Spot against on-demand, stops, stops that were only recorded, and keeps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual
from costguard.model.budget import Scope
from costguard.model.money import Money, Priced
from costguard.spend.enforced import StopRow
from costguard.spend.enforcements import ShadowReport, StopReport, enforcements
from costguard.spend.kept import KeepReport, KeepRow, kept
from costguard.spend.spend_rows import day_start
from costguard.spend.spot import SpotSaving
from costguard.spend.spot_rows import lost_to_preemptions
from costguard.spend.spot_savings import saved_by_spot

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Saved:
    spot: SpotSaving
    lost: Money  # what was paid for work that had to be done again
    stops: Sequence[StopReport]
    shadows: Sequence[ShadowReport]
    keeps: Sequence[KeepReport]

    @property
    def by_stops(self) -> Priced:
        return _sum(stop.saving.amount for stop in self.stops if stop.saving is not None)

    @property
    def carried_out(self) -> int:
        return sum(stop.saving is not None for stop in self.stops)

    @property
    def by_shadows(self) -> Priced:
        return _sum(shadow.saving.amount for shadow in self.shadows if shadow.saving is not None)

    @property
    def by_keeps(self) -> Priced:
        return _sum(keep.cost for keep in self.keeps)

    @property
    def spot_share(self) -> int:
        """What Spot cost, in thousandths of what on-demand would have."""
        return min(1000, 1000 * self.spot.cost.nanos // max(1, self.spot.on_demand.nanos))


def saved_between(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Saved:
    """On the UTC days [first, last], of what the scope holds."""
    since, until = day_start(first), day_start(last) + _DAY
    enforced = enforcements(connection, accrual.book, accrual.now, since, until)
    return Saved(
        spot=saved_by_spot(connection, accrual, first, last, scope),
        lost=lost_to_preemptions(connection, first, last, scope),
        stops=[stop for stop in enforced.stops if _is_in(scope, stop.stop)],
        shadows=[shadow for shadow in enforced.shadows if _is_in(scope, shadow.stop)],
        keeps=[
            report for report in kept(connection, accrual.book, accrual.now, since, until) if _is_in(scope, report.keep)
        ],
    )


def _is_in(scope: Scope, row: StopRow | KeepRow) -> bool:
    return scope.holds(row.key.project, row.preset, row.owner, "")


def _sum(amounts: Iterable[Priced]) -> Priced:
    return sum(amounts, Priced())
