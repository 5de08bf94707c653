"""Rows of charges, and which spans are due to be charged."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    Table,
    TextClause,
    Update,
    bindparam,
    case,
    delete,
    literal,
    null,
    text,
    update,
)
from sqlalchemy.sql.dml import ReturningDelete

from costguard.db.bulk import adding, beginning, chunks, ending, stored_rows
from costguard.db.prepared import prepared
from costguard.db.table_sums import TableSums
from costguard.db.tables import UNCHARGED, charges, instances
from costguard.db.types import Timestamp
from costguard.ledger.accrual import attribution_of, lifetime_of, select_lifetimes, select_storage, storage_of
from costguard.ledger.labels.label_history import KEPT_BY
from costguard.ledger.roll_up import LIFETIME, STORAGE, TABLES, DailyChange, SpanGroup, change_of
from costguard.ledger.running import burn_rates
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Attribution, Charge, Lifetime, StorageSpan
from costguard.model.money import rounded

_WHERE_DUE = (
    ("uncharged", UNCHARGED),
    ("open_charged_to", "ended_at IS NULL AND charged_to < :midnight"),
    ("open_charged_to", "ended_at IS NULL AND charged_to IS NULL AND started_at < :midnight"),
)
# From where on it is charged: from its start again where its end or a price changed.
_SINCE = "CASE WHEN charged_to IS NULL OR unpriced <> '' OR ended_at < charged_to THEN started_at ELSE charged_to END"
_DAY_MICROSECONDS = 86_400_000_000
_KINDS = tuple(TABLES)


@dataclass(frozen=True, slots=True)
class DueId:
    """A span that is due, with the most days of it to charge."""

    kind: str  # LIFETIME or STORAGE
    id: int
    days: int


@dataclass(frozen=True, slots=True)
class DueSpan:
    """A span with charges to be stored after `charged_to` (None: all of them), and its VM's name."""

    kind: str  # LIFETIME or STORAGE
    id: int
    span: Lifetime | StorageSpan
    attribution: Attribution
    name: str
    charged_to: datetime | None
    unpriced: str
    kept_by: tuple[str, str]  # kind and product of the VM's keeper, as running totals have them


@dataclass(frozen=True, slots=True)
class ChargedSpan:
    """The result of a due span: its charges after `since` replace those that are stored."""

    due: DueSpan
    since: datetime | None
    charged_to: datetime
    charges: Sequence[Charge]
    unpriced: str


@dataclass(frozen=True, slots=True)
class ReadyCharges:
    """The charges of due spans, ready to be stored: `rows` as `adding` takes them, and the daily sums that they add.

    `whose` are the groups of the spans, by kind and id. `sums` are those of `change`, None until they are worked out.
    """

    entries: Sequence[ChargedSpan]
    whose: Mapping[str, Mapping[int, SpanGroup]]
    rows: Sequence[Any]
    change: DailyChange
    sums: Sequence[TableSums] | None = None


class DueIds:
    """Spans that are due, in the order in which to charge them: 13 bytes each, for a first pass has hundreds of
    thousands.
    """

    def __init__(self, rows: Iterable[Sequence[Any]]) -> None:
        self._kinds, self._ids, self._days = bytearray(), array("q"), array("i")
        for kind, span_id, days in rows:
            self._kinds.append(_KINDS.index(kind))
            self._ids.append(span_id)
            self._days.append(int(days))

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def days(self) -> int:
        """The days of all of them."""
        return sum(self._days)

    def __iter__(self) -> Iterator[DueId]:
        for kind, span_id, days in zip(self._kinds, self._ids, self._days, strict=True):
            yield DueId(_KINDS[kind], span_id, days)


def due_ids(connection: Connection, midnight: datetime) -> DueIds:
    """Spans that ended and are not charged to their end, or are open and not charged to the last midnight.

    Runs and storage of one owner follow each other, so that what is charged together is added up in few sums, and each
    sum is written once.

    They are read by the partial indexes alone, so that a pass with nothing due costs nothing, whatever the history.
    Neither planner can know that nearly every span that ended is charged, so the query says which index to use.
    """
    is_sqlite = connection.dialect.name == "sqlite"
    if not is_sqlite:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
    due_spans = DueIds(connection.execute(_due_by_index(is_sqlite), {"midnight": midnight}))
    if not is_sqlite:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = on")
    return due_spans


def due(connection: Connection, some: Sequence[DueId]) -> list[DueSpan]:
    """These spans, in their order."""
    due_spans: dict[tuple[str, int], DueSpan] = {}
    for kind, read in ((LIFETIME, lifetime_of), (STORAGE, storage_of)):
        for ids in chunks([span.id for span in some if span.kind == kind]):
            for row in connection.execute(*_spans_of(TABLES[kind], ids)):
                whose, kept_by = attribution_of(row), (row.keeper_kind, row.keeper_product)
                due_spans[kind, row.id] = DueSpan(
                    kind, row.id, read(row), whose, row.instance_name, row.charged_to, row.unpriced, kept_by
                )
    return [due_spans[span.kind, span.id] for span in some if (span.kind, span.id) in due_spans]


@prepared
def _spans_of(table: Table, span_ids: list[int]) -> Select[Any]:
    query = select_lifetimes() if table is TABLES[LIFETIME] else select_storage()
    query = query.add_columns(*KEPT_BY).join(instances, instances.c.id == table.c.instance_id)
    return query.where(table.c.id.in_(span_ids))


def make_ready(connection: Connection, entries: Sequence[ChargedSpan]) -> ReadyCharges:
    """Converts the charges of these spans, and adds them up; writes nothing."""
    change = change_of(connection)
    whose: dict[str, Mapping[int, SpanGroup]] = {}
    rows: list[Any] = []
    for kind in TABLES:
        mine = [entry for entry in entries if entry.due.kind == kind]
        whose[kind] = {entry.due.id: _whose(entry.due) for entry in mine}
        rows += _rows(connection, kind, mine, whose[kind], change)
    return ReadyCharges(entries, whose, rows, change)


def store(connection: Connection, ready: ReadyCharges) -> set[date]:
    """Replace the charges of these spans, and bring the daily sums up to date; the days that gained or lost some."""
    lost: set[date] = set()
    for kind, table in TABLES.items():
        mine = [entry for entry in ready.entries if entry.due.kind == kind]
        by_since: dict[datetime | None, list[int]] = defaultdict(list)
        by_outcome: dict[tuple[datetime, str], list[int]] = defaultdict(list)
        for entry in mine:
            by_since[entry.since].append(entry.due.id)
            by_outcome[entry.charged_to, entry.unpriced].append(entry.due.id)
        for since, ids in by_since.items():
            lost |= _remove(connection, kind, ids, since, ready.whose[kind], ready.change)
        for (charged_to, unpriced), ids in by_outcome.items():
            for some in chunks(ids):
                connection.execute(*_are_charged(table, some, charged_to, unpriced))
    with adding(connection, charges, _NAMES, ready.rows):
        sums = ready.sums if ready.sums is not None and not lost else ready.change.sums(connection)
    ready.change.apply(connection, sums)
    return lost | {charge.day for entry in ready.entries for charge in entry.charges}


@prepared
def _are_charged(table: Table, span_ids: list[int], charged_to: datetime, unpriced: str) -> Update:
    return update(table).where(table.c.id.in_(span_ids)).values(charged_to=charged_to, unpriced=unpriced)


def recharge_since(connection: Connection, since: datetime, region: str | None = None) -> int:
    """Have every span of a region (or of all) that is charged past this moment charged again from its day on."""
    day = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    marked = 0
    for table in TABLES.values():
        # The one-minute minimum reaches further. What is archived keeps the price that it was billed at.
        conditions = [table.c.charged_to > since - timedelta(minutes=1), table.c.archive_id.is_(None)]
        if region is not None:
            conditions.append(table.c.zone.startswith(f"{region}-", autoescape=True))
        again = case((table.c.started_at >= day, null()), else_=literal(day, table.c.charged_to.type))
        marked += connection.execute(update(table).where(*conditions).values(charged_to=again)).rowcount
    burn_rates.drop_basis(connection)  # running totals begin where stored charges end
    return marked


def recharge_unpriced(connection: Connection) -> int:
    """Have every span that could not be priced whole charged again from its start."""
    burn_rates.drop_basis(connection)
    return sum(
        connection.execute(update(table).where(text("unpriced <> ''")).values(charged_to=None)).rowcount
        for table in TABLES.values()
    )


@cache
def _due_by_index(is_sqlite: bool) -> TextClause:
    parts = [
        f"SELECT '{kind}' AS kind, id, (coalesce(ended_at, :midnight) - {_SINCE}) / {_DAY_MICROSECONDS} + 1 AS days, "  # noqa: S608
        f"project, owner, preset, job FROM {table.name} {f'INDEXED BY ix_{table.name}_{index}' if is_sqlite else ''} "
        f"WHERE {condition}"
        for kind, table in TABLES.items()
        for index, condition in _WHERE_DUE
    ]  # no part of this text comes from outside
    order = "project, owner, preset, job, kind, id"
    query = f"SELECT kind, id, days FROM ({' UNION ALL '.join(parts)}) AS due ORDER BY {order}"  # noqa: S608
    return text(query).bindparams(bindparam("midnight", type_=Timestamp))


def _whose(due: DueSpan) -> SpanGroup:
    span = due.span
    model = span.provisioning_model if isinstance(span, Lifetime) else ProvisioningModel.STANDARD
    return SpanGroup(span.key.project, due.attribution, model.value)


def _remove(
    connection: Connection,
    kind: str,
    ids: Collection[int],
    since: datetime | None,
    whose: Mapping[int, SpanGroup],
    change: DailyChange,
) -> set[date]:
    """The days of the charges that are gone."""
    touched: set[date] = set()
    for some in chunks(ids):
        for span_id, day, *amount in connection.execute(*_delete(kind, some, since)):
            resource, seconds, millis, price_id, nanos = amount
            touched.add(day)
            change.add(kind, day, whose[span_id], (resource, seconds, millis, price_id, nanos), -1)
    return touched


@prepared
def _delete(kind: str, span_ids: list[int], since: datetime | None) -> ReturningDelete[Any]:
    columns = charges.c
    statement = delete(charges).where(columns.span == kind, columns.span_id.in_(span_ids))
    if since is not None:
        statement = statement.where(columns.started_at >= since)
    return statement.returning(
        columns.span_id,
        columns.day,
        columns.resource,
        columns.seconds,
        columns.quantity_millis,
        columns.price_id,
        columns.amount_nanos,
    )


def _rows(
    connection: Connection,
    kind: str,
    entries: Sequence[ChargedSpan],
    whose: Mapping[int, SpanGroup],
    change: DailyChange,
) -> list[Any]:
    """Returns the rows of new charges, for `adding`, and adds them to the change of the daily sums.

    Spans share what is alike of their charges, down to the same objects: each is looked at once.
    """
    distinct: dict[int, Charge] = {}
    for entry in entries:
        distinct.update(zip(map(id, entry.charges), entry.charges, strict=True))
    converted = stored_rows(connection, charges, _NAMES[2:], map(_columns, distinct.values()))
    lines = dict(zip(distinct, converted, strict=True))
    endings = {charge_id: ending(connection, line) for charge_id, line in lines.items()}
    counts: dict[SpanGroup, Counter[int]] = defaultdict(Counter)
    rows: list[Any] = []
    for entry in entries:
        head, ids = beginning(connection, (kind, entry.due.id)), list(map(id, entry.charges))
        rows += [head + endings[charge_id] for charge_id in ids]
        counts[whose[entry.due.id]].update(ids)
    for mine, times_of in counts.items():
        for charge_id, times in times_of.items():
            resource, *_, seconds, millis, price_id, nanos = lines[charge_id]
            change.add(kind, distinct[charge_id].day, mine, (resource, seconds, millis, price_id, nanos), times)
    return rows


_NAMES = (
    *("span", "span_id", "resource", "started_at", "ended_at", "day"),
    *("seconds", "quantity_millis", "price_id", "amount_nanos"),
)


def _columns(charge: Charge) -> tuple[Any, ...]:
    return (
        charge.resource,
        charge.started_at,
        charge.ended_at,
        charge.day,
        charge.seconds,
        rounded(charge.quantity.numerator * 1000, charge.quantity.denominator),
        charge.price_id,
        charge.amount.nanos,
    )
