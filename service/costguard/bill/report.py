"""Reports the comparison for people: a line a day, the worst VMs with their stories, savings, unused reservations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Table, cast, func, select

from costguard.bill.compared_rows import COMMITMENT, OFFSET, OUTSIDE, RESERVATION, SAVED_OUTSIDE
from costguard.bill.lines import EXPLAINED, BilledThing, BillLine, BillStanding, BillState, Reason, Savings
from costguard.bill.stories import story, title
from costguard.db.tables import bill_costs, bill_days, bill_differences, bill_others
from costguard.model.billing.bill import BilledKind
from costguard.model.money import Money

WORST = 10
_STORIES = 3  # of one VM
_ACCURACY_DAYS = 30
_CENT = 10_000_000  # nano-dollars: what is explained and less is not worth a line


@dataclass(frozen=True, slots=True)
class BillDay:
    """A UTC day, of all projects or of one. `difference` is the bill less the ledger, at list price."""

    day: date
    state: BillState
    why_open: str  # "" once any project of the day is compared
    ledger: Money
    list_price: Money
    explained: Money
    unexplained: Money
    effective: Money
    savings: Savings
    outside: Money
    unused_reservations: Money
    differing: int

    @property
    def difference(self) -> Money:
        return self.list_price - self.ledger

    @property
    def is_compared(self) -> bool:
        """Says whether the difference says anything: of an open day rows are still to come."""
        return self.state is not BillState.OPEN


@dataclass(frozen=True, slots=True)
class WorstVm:
    """A VM or disk with all that differs of it, and why, the largest difference first."""

    project: str
    gce_id: str
    title: str
    difference: Money
    is_explained: bool
    reasons: Sequence[Reason]
    stories: Sequence[str]


@dataclass(frozen=True, slots=True)
class SavingVm:
    """The amount that discounts took off a VM's list price."""

    project: str
    gce_id: str
    name: str
    owner: str
    list_price: Money
    sustained: Money
    committed: Money


@dataclass(frozen=True, slots=True)
class NotHeld:
    """Something that Google billed and the ledger does not hold."""

    project: str
    name: str
    cost: Money


@dataclass(frozen=True, slots=True)
class CommitmentFee:
    """A fee, before what use took off it. `used` is that part; None where the fee does not say.

    An hour's fee that its use does not take up is lost: no other hour can. So parts of hours add up to parts of days.
    """

    project: str
    name: str
    cost: Money
    used: Money | None

    @property
    def unused(self) -> Money | None:
        return None if self.used is None else self.cost - self.used

    @property
    def used_percent(self) -> int | None:
        """Returns the used part in whole percents, cut off; None where it is not known."""
        return None if self.used is None or self.cost.nanos <= 0 else 100 * self.used.nanos // self.cost.nanos


@dataclass(frozen=True, slots=True)
class Commitments:
    """The amount that commitments took off Compute Engine's usage, and their own cost.

    In Google's data model since 2025 use is taken off the fee, and what is left of it is what was not used. Before, and
    for resource-based ones, a fee is paid in full. `unused` is None where no fee says.
    """

    fees: Sequence[CommitmentFee]
    paid: Money
    saved: Money
    unused: Money | None

    @property
    def net(self) -> Money:
        """Less than nothing where the fees are higher than what they save."""
        return self.saved - self.paid


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The distance between the ledger and Google's bill on closed days: `permille` of the list price, rounded up."""

    permille: int
    through: date

    @property
    def text(self) -> str:
        """`within 0.3% of Google's bill through 18 November`"""
        percent = f"{self.permille // 10}.{self.permille % 10}%"
        return f"within {percent} of Google's bill through {self.through.day} {self.through:%B}"


@dataclass(frozen=True, slots=True)
class BillReport:
    days: Sequence[BillDay]
    total: BillDay | None  # of the closed days
    worst: Sequence[WorstVm]
    savings: Sequence[SavingVm]
    commitments: Commitments
    reservations: Sequence[NotHeld]
    outside: Sequence[NotHeld]
    accuracy: Accuracy | None


def bill_report(connection: Connection, first: date, last: date, project: str | None = None) -> BillReport:
    """The latest day first."""
    columns = bill_days.c
    query = select(bill_days).where(columns.day.between(first, last))
    if project is not None:
        query = query.where(columns.project == project)
    by_day: dict[date, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(query.order_by(columns.day.desc())):
        by_day[row.day].append(row)
    days = [_day(day, rows) for day, rows in by_day.items()]
    closed = [row for rows in by_day.values() for row in rows if row.standing == BillStanding.CLOSED]
    return BillReport(
        days=days,
        total=_day(last, closed) if closed else None,
        worst=_worst(connection, first, last, project),
        savings=_savings(connection, first, last, project),
        commitments=_commitments(connection, first, last, project),
        reservations=_others(connection, RESERVATION, first, last, project),
        outside=_others(connection, OUTSIDE, first, last, project),
        accuracy=accuracy(connection),
    )


def accuracy(connection: Connection) -> Accuracy | None:
    """Returns the accuracy of the latest thirty closed days; None before the first day is closed.

    Each line's difference counts by itself, so that a VM billed twice makes up for none that is missing.
    """
    columns = bill_days.c
    open_days = select(columns.day).where(columns.standing == BillStanding.OPEN.value)
    closed = [columns.standing == BillStanding.CLOSED.value, columns.day.not_in(open_days)]
    through: date | None = connection.scalar(select(func.max(columns.day)).where(*closed))
    if through is None:
        return None
    sums = select(
        cast(func.sum(columns.absolute_nanos), BigInteger).label("absolute"),
        cast(func.sum(columns.list_nanos), BigInteger).label("listed"),
    )
    row = connection.execute(sums.where(*closed, columns.day > through - timedelta(days=_ACCURACY_DAYS))).one()
    if not row.listed:
        return None
    return Accuracy(-(-int(row.absolute) * 1000 // int(row.listed)), through)


def _day(day: date, rows: Sequence[Row[Any]]) -> BillDay:
    def total(name: str) -> int:
        return sum(getattr(row, f"{name}_nanos") for row in rows)

    closed = [row for row in rows if row.standing == BillStanding.CLOSED]
    differing = sum(row.differing for row in closed)
    state = BillState.DIFFERS if differing else BillState.AGREED
    if not closed or any(row.standing == BillStanding.OPEN for row in rows):
        state = BillState.OPEN
    return BillDay(
        day=day,
        state=state,
        why_open=_why_open(rows) if state is BillState.OPEN else "",
        ledger=Money(total("ledger")),
        list_price=Money(total("list")),
        explained=Money(sum(row.explained_nanos for row in closed)),
        unexplained=Money(sum(row.unexplained_nanos for row in closed)),
        effective=Money(total("effective")),
        savings=Savings(total("sustained"), total("committed"), total("contract"), total("other_savings")),
        outside=Money(total("outside")),
        unused_reservations=Money(total("reservation")),
        differing=differing,
    )


_WHY_OPEN = {
    BillStanding.OPEN: "still to come",
    BillStanding.BEFORE_EXPORT: "before the export that was read",
    BillStanding.NO_EXPORT: "in no export that was read",
    BillStanding.BEFORE_WATCH: "not watched all day",
}


def _why_open(rows: Iterable[Row[Any]]) -> str:
    standings = {row.standing for row in rows}
    return next((words for standing, words in _WHY_OPEN.items() if standing in standings), "")


def _worst(connection: Connection, first: date, last: date, project: str | None) -> list[WorstVm]:
    columns = bill_differences.c
    query = select(bill_differences).where(columns.day.between(first, last))
    if project is not None:
        query = query.where(columns.project == project)
    lines: dict[BilledThing, list[BillLine]] = defaultdict(list)
    for row in connection.execute(query.order_by(columns.day, columns.rank)):
        line = _line(row)
        lines[line.thing].append(line)
    worst = [vm for vm in map(_worst_vm, lines.values()) if not vm.is_explained or abs(vm.difference.nanos) >= _CENT]
    worst.sort(key=lambda vm: (vm.is_explained, -abs(vm.difference.nanos), vm.title))
    return worst[:WORST]


def _worst_vm(lines: Sequence[BillLine]) -> WorstVm:
    ordered = sorted(lines, key=lambda line: (line.is_explained, -abs(line.difference), line.day, line.resource))
    first = ordered[0]
    return WorstVm(
        project=first.thing.project,
        gce_id=first.gce_id,
        title=title(first),
        difference=Money(sum(line.difference for line in ordered)),
        is_explained=all(line.reason in EXPLAINED for line in ordered),
        reasons=list(dict.fromkeys(line.reason for line in ordered)),
        stories=[f"{line.day}: {story(line)}" for line in ordered[:_STORIES]],
    )


def _line(row: Row[Any]) -> BillLine:
    saved = (row.list_nanos or 0) - (row.effective_nanos or 0)
    return BillLine(
        day=row.day,
        thing=BilledThing(BilledKind(row.kind), row.project, row.thing_id),
        name=row.name,
        gce_id=row.gce_id,
        vm_name=row.vm_name,
        zone=row.zone,
        resource=row.resource,
        sku_ids=tuple(row.sku_ids),
        state=BillState.DIFFERS,
        reason=Reason(row.reason),
        ledger_used=Fraction(row.ledger_used),
        billed_used=Fraction(row.billed_used),
        ledger_nanos=row.ledger_nanos,
        list_nanos=row.list_nanos,
        effective_nanos=row.effective_nanos,
        savings=Savings(other=saved),
        bill_project=row.bill_project,
        seconds=row.seconds,
        billed_model=row.billed_model,
        expected_nanos=row.expected_nanos,
    )


def _savings(connection: Connection, first: date, last: date, project: str | None) -> list[SavingVm]:
    columns = bill_costs.c
    sums = {name: cast(func.sum(columns[f"{name}_nanos"]), BigInteger) for name in ("list", "sustained", "committed")}
    kinds = (columns.project, columns.gce_id, columns.name, columns.owner)
    query = select(*kinds, *(total.label(name) for name, total in sums.items()))
    query = query.where(columns.day.between(first, last)).group_by(*kinds)
    if project is not None:
        query = query.where(columns.project == project)
    saved = sums["sustained"] + sums["committed"]
    rows = connection.execute(query.having(saved > 0).order_by(saved.desc(), columns.name).limit(WORST))
    return [
        SavingVm(row.project, row.gce_id, row.name, row.owner, *map(Money, (row.list, row.sustained, row.committed)))
        for row in rows
    ]


def _others(
    connection: Connection, kind: str, first: date, last: date, project: str | None, most: int | None = WORST
) -> list[NotHeld]:
    """The dearest first; `most` of them."""
    columns = bill_others.c
    total = cast(func.sum(columns.nanos), BigInteger)
    query = select(columns.project, columns.name, total.label("nanos"))
    query = query.where(columns.day.between(first, last), columns.kind == kind)
    if project is not None:
        query = query.where(columns.project == project)
    query = query.group_by(columns.project, columns.name).order_by(total.desc(), columns.name).limit(most)
    return [NotHeld(row.project, row.name, Money(row.nanos)) for row in connection.execute(query)]


def _commitments(connection: Connection, first: date, last: date, project: str | None) -> Commitments:
    """Sums up all days and fees of the range: the fees that are named are the largest."""
    columns = bill_others.c
    says_use = columns.name.in_(select(columns.name).where(columns.kind == OFFSET))

    def total(table: Table, column: ColumnElement[int], *conditions: ColumnElement[bool]) -> int | None:
        query = select(cast(func.sum(column), BigInteger)).where(table.c.day.between(first, last), *conditions)
        return connection.scalar(query if project is None else query.where(table.c.project == project))

    fees = total(bill_others, columns.nanos, columns.kind == COMMITMENT) or 0
    offsets = total(bill_others, columns.nanos, columns.kind == OFFSET)
    use_fees = total(bill_others, columns.nanos, columns.kind == COMMITMENT, says_use) or 0
    in_lines = total(bill_days, bill_days.c.committed_nanos) or 0
    outside = total(bill_others, columns.nanos, columns.kind == SAVED_OUTSIDE) or 0
    return Commitments(
        fees=_fees(connection, first, last, project),
        paid=Money(fees + (offsets or 0)),
        saved=Money(in_lines + outside),
        unused=None if offsets is None else Money(use_fees + offsets),
    )


def _fees(connection: Connection, first: date, last: date, project: str | None) -> list[CommitmentFee]:
    offsets = {(one.project, one.name): one.cost for one in _others(connection, OFFSET, first, last, project, None)}
    return [
        CommitmentFee(
            fee.project,
            fee.name,
            fee.cost,
            None if (offset := offsets.get((fee.project, fee.name))) is None else Money(-offset.nanos),
        )
        for fee in _others(connection, COMMITMENT, first, last, project)
    ]
