"""The time and cost of jobs by use, as the page Savings and a job's page show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual
from costguard.model.budget import Scope
from costguard.pages.page import ShownJob
from costguard.spend import goodput_rows
from costguard.spend.goodput import Goodput, TimeUse, added
from costguard.spend.goodput_rows import GoodputGrouping

_NAMES = {
    TimeUse.KEPT: "kept",
    TimeUse.LOST: "lost",
    TimeUse.UNSAVED: "not saved yet",
    TimeUse.STARTING: "starting",
    TimeUse.ENDING: "ending",
    TimeUse.WAITING: "waiting",
}


class UseShown(NamedTuple):
    """A use with its bar from `x` over `width`, of 10,000; `percent` is `83.4%`."""

    use: TimeUse
    name: str
    x: int
    width: int
    percent: str


@dataclass(frozen=True, slots=True)
class GoodputShown:
    """Figures under a name; uses without time are left out."""

    name: str
    figures: Goodput

    @property
    def uses(self) -> Sequence[UseShown]:
        shown, x = [], 0
        for use, share in self.figures.shares.items():
            if self.figures.spans[use]:
                shown.append(UseShown(use, _NAMES[use], x, share, _percent(share)))
            x += share
        return shown

    @property
    def words(self) -> str:
        """Describes the bar for screen readers, and instead of a legend."""
        return ", ".join(f"{use.percent} {use.name}" for use in self.uses)

    @property
    def of_paid(self) -> str:
        share = self.figures.kept_share_of_paid
        return "–" if share is None else _percent(share)


@dataclass(frozen=True, slots=True)
class GoodputTable:
    title: str
    rows: Sequence[GoodputShown]


@dataclass(frozen=True, slots=True)
class GoodputTables:
    """`total` is of all jobs in the range; tables without rows are left out."""

    total: GoodputShown
    tables: Sequence[GoodputTable]
    uses: Sequence[tuple[TimeUse, str]] = tuple(_NAMES.items())


def goodput_tables(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> GoodputTables:
    groupings = [[GoodputGrouping.PRESET, GoodputGrouping.OWNER]]
    if (first.year, first.month) != (last.year, last.month):
        groupings.append([GoodputGrouping.MONTH])
    by_owner, *by_month = goodput_rows.goodput_reports(connection, accrual, first, last, groupings, scope)
    tables = [
        GoodputTable("Preset", _summed((row.group[0], row.goodput) for row in by_owner.rows)),
        GoodputTable("Owner", _summed((row.group[1] or "unowned", row.goodput) for row in by_owner.rows)),
        *(GoodputTable("Month", [GoodputShown(row.group[0], row.goodput) for row in one.rows]) for one in by_month),
    ]
    return GoodputTables(GoodputShown("All", by_owner.total), [table for table in tables if table.rows])


def goodput_of_job(job: ShownJob) -> GoodputShown | None:
    """Returns the goodput of a job; None for a development VM."""
    figures = goodput_rows.of_job(job.connection, job.accrual, job.id)
    return None if figures is None else GoodputShown("", figures)


def _summed(rows: Iterable[tuple[str, Goodput]]) -> Sequence[GoodputShown]:
    """Sums rows by name, the most expensive first."""
    by_name: dict[str, list[Goodput]] = {}
    for name, figures in rows:
        by_name.setdefault(name, []).append(figures)
    shown = [GoodputShown(name, added(of_name)) for name, of_name in by_name.items()]
    return sorted(shown, key=lambda one: (-one.figures.cost.amount.nanos, one.name))


def _percent(share: int) -> str:
    """`83.4%`; what is not nothing is never `0.0%`."""
    return f"{share // 100}.{share % 100 // 10}%" if share >= 10 or not share else "<0.1%"
