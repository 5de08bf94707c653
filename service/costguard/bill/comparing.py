"""Compares the days that are new, or whose bill or ledger changed, and stores what came out.

Where the bill drifts from the ledger it raises one alarm by project or SKU's resource: not one a day, nor one a VM.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import Connection, func, select

from costguard.bill import compared_rows, stored
from costguard.bill.compare import Context, compare_day
from costguard.bill.ledger_uses import LedgerDay
from costguard.bill.lines import BillLine, BillStanding, DayComparison, Reason
from costguard.bill.stories import story, title
from costguard.bill.sums import SkuNames, SoldAs, usual_rates
from costguard.db.lease import Lease
from costguard.db.tables import bill_days, bill_partitions, bill_usage, events
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.isolation import Isolated
from costguard.ledger import prices, projects
from costguard.model.billing.bill import BillRow
from costguard.model.event import Event, new_event
from costguard.model.moments import day_start
from costguard.model.money import Money
from costguard.model.price import without_commitment

CLOSES_AFTER = timedelta(hours=72)
"""The time after the end of a UTC day.

Google guarantees nothing; M-Lab saw 1.6 days (m-lab/prometheus-support PR 703).
"""
_SOON, _AGAIN = timedelta(minutes=30), timedelta(hours=20)
_RECENT = 10  # days that are compared again daily, as the ledger learns of ends late, too
_DAY = timedelta(days=1)

WordsOfSku = Callable[[str], SoldAs | None]
"""A function that reads from a SKU's words what it prices, for SKUs that no stored price names."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The number of days compared, of their lines that differ without an explanation, and the days that failed."""

    days: int = 0
    differing: int = 0
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BillComparer:
    """Compares within the daemon or a command. `gpu_only`: VMs without a GPU are not watched."""

    database: Database
    words_of_sku: WordsOfSku
    gpu_only: bool = False

    def run(self, now: datetime, fence: Lease | None = None) -> Compared:
        """Compares days, one transaction each; where nothing changed, nothing is written."""
        with self.database.read() as connection:
            reading = _reading(connection)
            days = _due_days(connection, reading, now)
        differing: list[BillLine] = []
        troubles: list[str] = []
        for day in days:
            with Isolated("bill_day_not_compared", day=day.isoformat()) as failure:
                comparison, standings = self._compared(day, reading, now)
                with self.database.write(fence) as connection:
                    compared_rows.store_day(connection, comparison, standings, now)
                differing += [line for line in comparison.lines if line.is_compared and not line.is_explained]
            if failure.error is not None:
                troubles.append(f"The bill of {day} could not be compared ({failure.words}).")
        if differing:
            with self.database.write(fence) as connection:
                event = drift_event(connection, differing, now)
                audit_log.append(connection, [event] if event is not None else [], now)
        return Compared(len(days) - len(troubles), len(differing), tuple(troubles))

    def _compared(
        self, day: date, reading: _Reading, now: datetime
    ) -> tuple[DayComparison, Mapping[str, BillStanding]]:
        with self.database.read() as connection:
            rows = [row for row in stored.rows_of(connection, day - _DAY, day + _DAY) if _is_near(row, day)]
            looks = {look.project: look for look in projects.read_all(connection)}
            skus = sku_names(connection, self.words_of_sku)
            ledger = LedgerDay(connection, day)
            uses, unpriced = ledger.uses(), ledger.unpriced()
        begin = day_start(day)
        billing: dict[str, set[str]] = defaultdict(set)
        for row in rows:
            if row.utc_day == day:
                billing[row.project_id].add(row.source)

        def standing(project: str) -> BillStanding:
            look = looks.get(project)
            if look is not None and (
                look.first_seen_at > begin or look.last_complete_at is None or look.last_complete_at < begin + _DAY
            ):
                return BillStanding.BEFORE_WATCH
            return reading.standing(project, day, now, billing.get(project, set()))

        context = Context(
            skus=skus,
            standing=standing,
            watched=lambda project: project in looks,
            gpu_only=self.gpu_only,
            unpriced=unpriced,
            rates=usual_rates(rows),
        )
        comparison = compare_day(day, uses, rows, context)
        names = {line.thing.project for line in comparison.lines} | {line.bill_project for line in comparison.lines}
        names |= {key.project for key in comparison.outside}
        names |= {project for project, _ in comparison.unused_reservations}
        return comparison, {project: standing(project) for project in names}


def sku_names(connection: Connection, words: WordsOfSku) -> SkuNames:
    """Returns names by the ids of stored prices; by a SKU's words where no price of that id was ever stored.

    A commitment's price is no price of use.
    """
    by_id = {
        price.sku_id: SoldAs(price.key.resource, price.key.provisioning_model.value)
        for price in prices.load(connection)
        if price.sku_id and not without_commitment(price.key.resource)[1]
    }
    by_words: dict[str, SoldAs | None] = {}

    def named(sku_id: str, text: str) -> SoldAs | None:
        sold = by_id.get(sku_id)
        if sold is not None:
            return sold
        if text not in by_words:
            by_words[text] = words(text)
        return by_words[text]

    return named


def _is_near(row: BillRow, day: date) -> bool:
    return abs((row.utc_day - day).days) <= 1


@dataclass(frozen=True, slots=True)
class _Source:
    first: date  # the first export day that was read
    newest: datetime  # up to when its rows were read


@dataclass(frozen=True, slots=True)
class _Reading:
    """The progress of reading each billing account's bill, and the accounts that have paid for each project."""

    sources: Mapping[str, _Source] = field(default_factory=dict)
    of_projects: Mapping[str, set[str]] = field(default_factory=dict)

    def standing(self, project: str, day: date, now: datetime, billing: Collection[str]) -> BillStanding:
        """`billing` has the sources with rows of the project on that day: the day is closed once all of them are.

        Without rows it is closed once any source of the project is: the others may be accounts that it left.
        """
        sources = [self.sources[name] for name in billing or self.of_projects.get(project, ()) if name in self.sources]
        if not sources:
            return BillStanding.NO_EXPORT
        begun = [source for source in sources if source.first <= day]
        if not begun or (billing and len(begun) < len(sources)):
            return BillStanding.BEFORE_EXPORT
        closed = [_closes_at(day) <= min(now, source.newest) for source in begun]
        return BillStanding.CLOSED if (all(closed) if billing else any(closed)) else BillStanding.OPEN


def _reading(connection: Connection) -> _Reading:
    counted = set(stored.counted_sources(connection))
    sources: dict[str, _Source] = {}
    for part in stored.partitions(connection):
        if part.source in counted:
            newest = part.last_export_at or part.read_at
            before = sources.get(part.source)
            if before is None:
                sources[part.source] = _Source(part.day, newest)
            else:
                sources[part.source] = _Source(min(before.first, part.day), max(before.newest, newest))
    return _Reading(sources, stored.sources_of_projects(connection))


def _due_days(connection: Connection, reading: _Reading, now: datetime) -> list[date]:
    """Days whose bill was read since they were compared, that closed since, or that are recent and were due again."""
    if not reading.sources:
        return []
    columns = bill_days.c
    last: datetime | None = connection.scalar(select(func.max(columns.compared_at)))
    changed = select(bill_partitions.c.id)
    if last is not None:
        changed = changed.where(bill_partitions.c.read_at >= last)
    due: set[date] = set(
        connection.scalars(select(bill_usage.c.utc_day).where(bill_usage.c.partition_id.in_(changed)).distinct())
    )
    query = select(columns.day, func.min(columns.compared_at).label("at"), func.max(columns.standing).label("standing"))
    compared = {row.day: (row.at, row.standing) for row in connection.execute(query.group_by(columns.day))}
    newest = max(source.newest for source in reading.sources.values())
    first = min(source.first for source in reading.sources.values())
    today = now.astimezone(UTC).date()
    for number in range((today - first).days):
        day = first + number * _DAY
        at, standing = compared.get(day, (None, ""))
        # "open" is the last of the standings by the alphabet: the day has a project whose bill is still to come.
        may_close = standing == BillStanding.OPEN and _closes_at(day) <= min(now, newest)
        is_recent = (today - day).days <= _RECENT
        # A day that is open for long waits for an account that is read no more: it is not asked about all the time.
        wait = _SOON if may_close and is_recent else _AGAIN
        if at is None or ((may_close or is_recent) and now - at >= wait):
            due.add(day)
    return sorted(due)


def _closes_at(day: date) -> datetime:
    return day_start(day) + _DAY + CLOSES_AFTER


KIND = "BillDrifted"
_LEAST = 1_000_000_000  # nano-dollars that a project or a SKU differs by
_LEAST_SHARE = 1000  # of what is billed at list: a thousandth
_QUIET = timedelta(days=30)  # after an alarm, for what it named
WORST = 10


def drifting(lines: Iterable[BillLine]) -> dict[str, int]:
    """Projects and resources with their differences in nano-dollars, of lines that nothing explains.

    At least a dollar and a thousandth of what is billed; what the other side lacks wholly needs no thousandth. Lines
    are counted by themselves, so that one too many hides none too few; credits count what they take off.
    """
    sums: dict[str, int] = defaultdict(int)
    absolute: dict[str, int] = defaultdict(int)
    billed: dict[str, int] = defaultdict(int)
    lacking: dict[str, int] = defaultdict(int)
    for line in lines:
        if line.is_explained or not line.is_compared:
            continue
        for name in (f"project {line.thing.project}", f"SKU {line.resource}"):
            weight = _weight(line)
            sums[name] += line.difference
            absolute[name] += weight
            billed[name] += line.list_nanos or 0
            if line.reason in (Reason.MISSING, Reason.UNKNOWN_VM, Reason.UNKNOWN_PART):
                lacking[name] += weight
    return {
        name: sums[name]
        for name, nanos in absolute.items()
        if lacking[name] >= _LEAST or (nanos >= _LEAST and nanos * _LEAST_SHARE >= billed[name])
    }


def _weight(line: BillLine) -> int:
    if line.reason is Reason.CREDIT:
        return line.savings.total
    if line.reason is Reason.OTHER_PROJECT:
        return line.list_nanos or 0
    return abs(line.difference)


def drift_event(connection: Connection, lines: Sequence[BillLine], now: datetime) -> Event | None:
    """Makes an event; None where nothing drifts that was not named in the last thirty days."""
    names = drifting(lines)
    new = sorted(names.keys() - _named(connection, now - _QUIET))
    if not new:
        return None
    worst = sorted(lines, key=lambda line: (-_weight(line), line.day, line.thing, line.resource))[:WORST]
    total = sum(_weight(line) for line in lines)
    days = sorted({line.day for line in lines})
    span = f"{days[0]}" if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    return new_event(
        KIND,
        now,
        f"Google's bill of {span} differs from the ledger by {Money(total)} that nothing explains: "
        f"{', '.join(new[:WORST])}{f' and {len(new) - WORST} more' if len(new) > WORST else ''}.",
        *(days[0].isoformat(), now.isoformat()),
        data={
            "names": sorted(names),
            "total_nanos": total,
            "first": days[0].isoformat(),
            "last": days[-1].isoformat(),
            "worst": [f"{line.day} {title(line)}: {story(line)}" for line in worst],
        },
    )


def _named(connection: Connection, since: datetime) -> set[str]:
    query = select(events.c.data).where(events.c.kind == KIND, events.c.occurred_at >= since)
    return {str(name) for data in connection.scalars(query) for name in data.get("names", ())}
