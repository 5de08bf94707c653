"""The hourly rate: now, at a moment in the past, and its history over the last day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    case,
    func,
    literal_column,
    null,
    select,
    type_coerce,
)

from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.scoped import within_scope
from costguard.db.tables import charges, events, instances, lifetimes, storage_spans
from costguard.db.types import EPOCH
from costguard.ledger import projects
from costguard.ledger.accrual import Accrual, accruing_spans
from costguard.ledger.labels.label_values import has_value
from costguard.ledger.rows import shape_of
from costguard.ledger.running import running_totals
from costguard.ledger.running.running_total_rows import KINDS, Kind
from costguard.ledger.running.running_totals import rates_by_kind
from costguard.model.budget import LabelFilter, Scope
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime
from costguard.model.money import Money

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Spell:
    """Spans of one kind, `count` of them, that bill at the marks from `begins` on up to, without it, `ends` (None:
    still).

    Marks count steps from the requested moment; spans that began before it begin at mark 0.
    """

    kind: Kind
    begins: int
    ends: int | None
    count: int


@remembers(lifetimes, storage_spans)
def spells(connection: Connection, since: datetime, step: timedelta, scope: Scope) -> list[Spell]:
    """Reads lifetimes and storage that ended since then, and open ones that began since then."""
    spells: list[Spell] = []
    for table, names in KINDS:
        kind, mine = [table.c[name] for name in names], within_scope(table, scope)
        begins, ends = (_mark(table.c[name], since, step) for name in ("started_at", "ended_at"))
        over = select(*kind, begins, ends, func.count()).where(table.c.ended_at > since, *mine)
        still = select(*kind, begins, null(), func.count()).where(
            table.c.ended_at.is_(None), table.c.started_at > since, *mine
        )
        for query in (over.group_by(*kind, begins, ends), still.group_by(*kind, begins)):
            for *of_kind, first, last, count in connection.execute(query):
                spells.append(Spell(tuple(of_kind), first, last, count))
    return spells


def _mark(column: ColumnElement[Any], since: datetime, step: timedelta) -> ColumnElement[int]:
    """The first that is not before the moment in the column."""
    start, length = (since - EPOCH) // _MICROSECOND, step // _MICROSECOND
    after = type_coerce(column, BigInteger) - literal_column(str(start), BigInteger)
    # Written out, so that PostgreSQL sees the same in the columns and in what it groups by.
    mark = (after + literal_column(str(length - 1), BigInteger)) // literal_column(str(length), BigInteger)
    return type_coerce(case((after <= literal_column("0"), literal_column("0")), else_=mark), BigInteger)


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
        place = max(range(len(self.rates)), key=lambda index: (self.rates[index].nanos, -index))
        return self.since + place * STEP, self.rates[place]


def burned(connection: Connection, accrual: Accrual, scope: Scope) -> BurnHistory:
    """Returns past rates at today's prices, so that the line moves with the fleet alone; without resources that have no
    price.

    It begins when the first project came to be watched: spans that ended before are unknown.
    """
    last = accrual.now - (accrual.now - _EPOCH) % STEP  # by the clock, so that the same is asked until the next
    since, count = last - _LENGTH, _LENGTH // STEP + 1
    rows = running_totals.read(connection, accrual, scope, by=())
    now = sum(figures.machine_rate + figures.gpu_rate + figures.storage_rate for _, _, figures in rows)
    changes, rate_of = [now] + [0] * count, rates_by_kind(accrual)
    for spell in spells(connection, since, STEP, scope):
        nanos = (rate_of(spell.kind) or 0) * spell.count
        changes[min(spell.begins, count)] += nanos
        # What is open bills now, and did not at the first mark.
        changes[0 if spell.ends is None else min(spell.ends, count)] -= nanos
    nanos, rates = 0, []
    for change in changes[:count]:
        nanos += change
        rates.append(Money(nanos))
    watched = projects.first_watched_at(connection) or accrual.now
    unknown = min(count, max(0, -(-(watched - since) // STEP)))
    rated = tuple(rates[unknown:])
    return BurnHistory(since + unknown * STEP, rated if len(rated) > 1 else ())


@dataclass(frozen=True, slots=True)
class Whose:
    project: str
    preset: str
    owner: str = ""
    job: str = ""


@dataclass(frozen=True, slots=True)
class OpenRun:
    """An open lifetime. `until` is when Google's own run-time limit ends it."""

    whose: Whose
    shape: Shape
    zone: str
    provisioning_model: ProvisioningModel
    until: datetime | None


@remembers(instances, lifetimes)
def limited(connection: Connection, label: LabelFilter | None = None) -> list[OpenRun]:
    """Lists runs that a run-time limit will end; of a label those whose VMs have it now."""
    mine = () if label is None else (has_value(label),)
    return _open_runs(connection, instances.c.gone_at.is_(None), instances.c.termination_at.is_not(None), *mine)


def labelled(connection: Connection, accrual: Accrual, label: LabelFilter) -> Iterator[tuple[Whose, int]]:
    """Nano-dollars an hour of everything that bills now and whose VM has the label now; without what has no price."""
    ids = connection.scalars(select(instances.c.id).where(has_value(label)))
    for accruing in accruing_spans(connection, list(ids)):
        span, whose = accruing.span, accruing.attribution
        if span.ended_at is not None:
            continue
        if isinstance(span, Lifetime):
            rate = accrual.rate(span.shape, span.zone, span.provisioning_model)
        else:
            rate = accrual.storage_rate(span.resource, span.size_mib, span.zone)
        if rate is not None:
            yield Whose(span.key.project, whose.preset, whose.owner, whose.job), rate.nanos


def with_gpus(connection: Connection, project: str) -> list[OpenRun]:
    return _open_runs(connection, lifetimes.c.project == project, lifetimes.c.gpu_type.is_not(None))


def _open_runs(connection: Connection, *conditions: ColumnElement[bool]) -> list[OpenRun]:
    query = (
        select(lifetimes, instances.c.termination_at)
        .join_from(lifetimes, instances, instances.c.id == lifetimes.c.instance_id)
        .where(lifetimes.c.ended_at.is_(None), *conditions)
    )
    return [
        OpenRun(
            Whose(row.project, row.preset, row.owner, row.job),
            shape_of(row),
            row.zone,
            ProvisioningModel(row.provisioning_model),
            row.termination_at,
        )
        for row in connection.execute(query)
    ]


def machine_rate_at(connection: Connection, moment: datetime) -> dict[str, int]:
    """Returns the hourly cost of each project's machines at that moment, in nano-dollars, by their stored charges."""
    columns = charges.c
    query = (
        select(instances.c.project, func.sum(columns.amount_nanos * 3600 // columns.seconds).label("rate"))
        .join_from(charges, lifetimes, lifetimes.c.id == columns.span_id)
        .join(instances, instances.c.id == lifetimes.c.instance_id)
        .where(
            columns.span == "lifetime",
            columns.day == moment.date(),
            columns.started_at <= moment,
            columns.ended_at > moment,
            columns.seconds > 0,
        )
        .group_by(instances.c.project)
    )
    return {row.project: int(row.rate) for row in connection.execute(query)}


def sudden_gpus(connection: Connection, project: str, without: timedelta) -> datetime | None:
    """Since when GPUs run in the project, if there were none for that long before; else None."""
    columns = lifetimes.c
    mine = (
        select(columns.started_at)
        .join_from(lifetimes, instances, instances.c.id == columns.instance_id)
        .where(instances.c.project == project, columns.gpu_count > 0)
    )
    since = connection.execute(
        mine.where(columns.ended_at.is_(None)).order_by(columns.started_at).limit(1)
    ).scalar_one_or_none()
    if since is None:
        return None
    earlier = mine.where(columns.started_at < since, columns.ended_at > since - without).limit(1)
    return since if connection.execute(earlier).first() is None else None


def recorded_at(connection: Connection, keys: Sequence[str]) -> dict[str, datetime]:
    """When those of these events happened that are recorded, by key."""
    return {row.key: row.occurred_at for row in connection.execute(*_occurred(list(keys)))}


@prepared
def _occurred(keys: list[str]) -> Select[Any]:
    return select(events.c.key, events.c.occurred_at).where(events.c.key.in_(keys))
