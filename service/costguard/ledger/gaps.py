"""Lifetimes and storage that could not be priced whole: counted in groups for sums, and one by one for lists.

Stored charges say of a span that they leave something out. Of what they do not reach yet, the prices say it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    Table,
    case,
    func,
    literal_column,
    null,
    or_,
    select,
)

from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.scoped import within_scope
from costguard.db.tables import instances, lifetimes, storage_spans
from costguard.ledger.accrual import (
    Accrual,
    AccruingSpan,
    accruing_span,
    kind_of,
    select_lifetimes,
    select_storage,
    uncharged_spans,
)
from costguard.ledger.labels.label_history import changes_since, has_changed, label_value
from costguard.ledger.labels.label_values import LabelValues, values_among
from costguard.ledger.roll_up import LIFETIME, STORAGE, TABLES
from costguard.ledger.running import live, running_totals
from costguard.ledger.running.running_total_rows import among_unpriced, is_unpriced, utc_day
from costguard.model.budget import LabelFilter, Scope
from costguard.model.instance import InstanceKey
from costguard.model.lifetime import Attribution, Lifetime
from costguard.model.moments import day_start

_DAY, _MICROSECOND = timedelta(days=1), timedelta(microseconds=1)
_FIRST_DAY = date(1970, 1, 1)
_RECENT = timedelta(days=56)  # what pages ask for by default: this month, the last one, and the days of a forecast


@dataclass(frozen=True, slots=True)
class UnpricedSpan:
    """A lifetime or storage span that could not be priced whole, and why."""

    kind: str  # "lifetime" or "storage"
    id: int
    key: InstanceKey
    name: str  # of the VM
    attribution: Attribution
    provisioning_model: str
    started_at: datetime
    ended_at: datetime | None
    reason: str


class GapGroup(NamedTuple):
    """Spans that could not be priced whole, `number` of them, from one UTC day to another; `last` is None of open ones.

    `value` is that of the requested label.
    """

    value: str | None
    project: str
    preset: str
    owner: str
    job: str
    provisioning_model: str
    first: date
    last: date | None
    number: int

    def days(self, first: date, last: date, now: datetime) -> Iterator[date]:
        """Yields the UTC days of [first, last] that they reach into."""
        day, end = max(first, self.first), min(last, self.last or (now - _MICROSECOND).date())
        while day <= end:
            yield day
            day += _DAY


def gap_groups(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> list[GapGroup]:
    """Counts the spans that ran, or were stored, on the UTC days [first, last] and could not be priced whole."""
    if scope.label is not None:
        return [_group_of(gap) for gap in gaps(connection, accrual, first, last, scope)]
    uncharged = map(_group_of, _ended(connection, accrual, first, last, scope))
    return [*_alike(connection, accrual, first, last, scope, None), *uncharged]


def gaps_by_value(
    connection: Connection, accrual: Accrual, first: date, last: date, label: str, scope: Scope
) -> Counter[str | None]:
    """Counts the same by the value of a label: under each that the VM of a span had meanwhile."""
    counts: Counter[str | None] = Counter()
    for group in _alike(connection, accrual, first, last, scope, label):
        counts[group.value] += group.number
    since = day_start(first)
    alone = list(_ended(connection, accrual, first, last, scope))
    if changes_since(connection, label, since):
        alone += _recorded(connection, first, last, scope, None, label)
        alone += _open(connection, accrual, first, last, scope, None, label)
    ids = ids_of(connection, {gap.key for gap in alone})
    values = values_among(connection, label, since, ids.values())
    for gap in alone:
        counts.update(_values_of(values, ids[gap.key], gap, since, last, accrual.now))
    return counts


def gaps(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, most: int | None = None
) -> tuple[UnpricedSpan, ...]:
    """Lists the same spans, each once, the latest first; `most` of them at most."""
    if scope.label is not None:
        every = gaps(connection, accrual, first, last, replace(scope, label=None))
        return tuple(_with_value(connection, every, scope.label, first, last, accrual.now))[:most]
    listed = [
        *_recorded(connection, first, last, scope, most, None),
        *_open(connection, accrual, first, last, scope, most, None),
        *_ended(connection, accrual, first, last, scope),
    ]
    return tuple(sorted(listed, key=lambda gap: (gap.started_at, gap.kind, gap.id), reverse=True)[:most])


def recorded_gaps(connection: Connection, first: date, last: date) -> list[UnpricedSpan]:
    """Lists those alone of which stored charges say it; the latest first."""
    spans = _recorded(connection, first, last, Scope(), None, None)
    return sorted(spans, key=lambda span: (span.started_at, span.kind, span.id), reverse=True)


def _with_value(
    connection: Connection, gaps: Collection[UnpricedSpan], wanted: LabelFilter, first: date, last: date, now: datetime
) -> Iterator[UnpricedSpan]:
    """Yields the gaps of VMs whose label had the value at any time of these days while their price was not known."""
    ids, since = ids_of(connection, {gap.key for gap in gaps}), day_start(first)
    values = values_among(connection, wanted.label, since, ids.values())
    return (gap for gap in gaps if wanted.value in _values_of(values, ids[gap.key], gap, since, last, now))


def _values_of(
    values: LabelValues, instance_id: int, gap: UnpricedSpan, since: datetime, last: date, now: datetime
) -> set[str | None]:
    """Each value that its VM's label had on these days."""
    start, end = max(gap.started_at, since), min(gap.ended_at or now, now, day_start(last) + _DAY)
    return values.between(instance_id, start, end)


def ids_of(connection: Connection, keys: Collection[InstanceKey]) -> dict[InstanceKey, int]:
    """The rows of these VMs."""
    ids_by_key: dict[InstanceKey, int] = {}
    for some in chunks({key.gce_id for key in keys}):
        query = select(instances.c.id, instances.c.project, instances.c.gce_id).where(instances.c.gce_id.in_(some))
        ids_by_key |= {InstanceKey(row.project, row.gce_id): row.id for row in connection.execute(query)}
    return ids_by_key


def _alike(
    connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope, label: str | None
) -> Iterator[GapGroup]:
    """Counts all but what ended and is not charged yet; with a label without VMs whose label changed since `first`."""
    today = accrual.now.date()
    recent = (today - _RECENT).replace(day=1)
    since = first if label is not None else min(first, recent)  # a page asks for several days, and it is read once
    for group in _recorded_groups(connection, since, label):
        whose = group.project, group.preset, group.owner, group.job
        if group.first <= last and (group.last is None or group.last >= first) and scope.holds(*whose):
            yield group
    start, end = day_start(first), min(day_start(last) + _DAY, accrual.now)
    for spans, began, value in live.unpriced(connection, accrual, scope, label, start):
        if began is not None and max(spans.since, start) < end:
            project, preset, owner, job = spans.owned_by
            model = running_totals.model_of(spans)
            yield GapGroup(value, project, preset, owner, job, model, _day(began), None, spans.count)


@remembers(instances, lifetimes, storage_spans)
def _recorded_groups(connection: Connection, since: date, label: str | None) -> list[GapGroup]:
    """Counts the spans that end after the beginning of a day, or are open, and of which stored charges say it."""
    groups: list[GapGroup] = []
    for spans in TABLES.values():
        rows = connection.execute(_select_groups(spans, since, label))
        for named, project, preset, owner, job, model, begin, end, number in rows:
            ends = None if end is None else _day(end)
            groups.append(GapGroup(named, project, preset, owner, job, model, _day(begin), ends, number))
    return groups


@lru_cache(maxsize=32)
def _select_groups(spans: Table, since: date, label: str | None) -> Select[Any]:
    value: ColumnElement[Any] = null() if label is None else label_value(label)
    begins = utc_day(spans.c.started_at)
    begins = case((begins < _number(since), _number(since)), else_=begins)
    whose = [spans.c[name] for name in ("project", "preset", "owner", "job")]
    days = begins.label("first_day"), utc_day(spans.c.ended_at, before=1).label("last_day")
    keys: list[ColumnElement[Any]] = [value.label("value"), *whose, _model_of(spans), *days]
    query: Select[Any] = select(*keys, func.count()).join_from(spans, instances, instances.c.id == spans.c.instance_id)
    query = query.where(is_unpriced(spans), _ends_after(spans, since))
    if label is not None:
        query = query.where(~has_changed(spans.c.instance_id, label, day_start(since)))
    return query.group_by(*(keys if label is not None else keys[1:]))


@remembers(instances, lifetimes, storage_spans)
def _recorded(
    connection: Connection,
    first: date,
    last: date,
    scope: Scope,
    most: int | None,
    changed: str | None,
) -> list[UnpricedSpan]:
    """Reads the spans of which stored charges say it, the latest `most` of either kind; with a label in `changed` those
    of VMs whose label changed since `first`.
    """
    return [
        UnpricedSpan(
            kind=kind,
            id=row.id,
            key=InstanceKey(row.project, row.gce_id),
            name=row.name,
            attribution=Attribution(row.preset, row.owner, row.job),
            provisioning_model=row.provisioning_model,
            started_at=row.started_at,
            ended_at=row.ended_at,
            reason=row.unpriced,
        )
        for kind, spans in TABLES.items()
        for row in connection.execute(_latest(spans, first, last, scope, changed).limit(most))
    ]


def _latest(spans: Table, first: date, last: date, scope: Scope, changed: str | None) -> Select[Any]:
    names = ("id", "project", "preset", "owner", "job", "started_at", "ended_at", "unpriced")
    columns = [spans.c[name] for name in names]
    query = select(*columns, instances.c.gce_id, instances.c.name, _model_of(spans))
    query = query.join_from(spans, instances, instances.c.id == spans.c.instance_id)
    query = query.where(*_within(spans, first, last, scope)).order_by(spans.c.started_at.desc(), spans.c.id.desc())
    return query if changed is None else query.where(has_changed(spans.c.instance_id, changed, day_start(first)))


def _within(spans: Table, first: date, last: date, scope: Scope) -> tuple[ColumnElement[bool], ...]:
    """The conditions of spans that reach into these days and of which stored charges say it."""
    begins_before = spans.c.started_at < day_start(last) + _DAY
    return is_unpriced(spans), begins_before, _ends_after(spans, first), *within_scope(spans, scope)


def _ends_after(spans: Table, day: date) -> ColumnElement[bool]:
    """The condition that spans are open, or end after the beginning of a day."""
    return or_(spans.c.ended_at.is_(None), spans.c.ended_at > day_start(day))


def _model_of(spans: Table) -> ColumnElement[str]:
    """The provisioning model of the VM."""
    return (spans if spans is lifetimes else instances).c.provisioning_model


def _open(
    connection: Connection,
    accrual: Accrual,
    first: date,
    last: date,
    scope: Scope,
    most: int | None,
    changed: str | None,
) -> Iterator[UnpricedSpan]:
    """Yields open spans that cannot be priced and of which stored charges do not say it, the latest `most` of either
    kind; with a label in `changed` those of VMs whose label changed since `first`.
    """
    names = live.unpriced_names(connection, accrual)
    for spans in TABLES.values():
        query = select_lifetimes() if spans is lifetimes else select_storage()
        query = query.join(instances, instances.c.id == spans.c.instance_id)
        query = query.where(spans.c.ended_at.is_(None), ~is_unpriced(spans), among_unpriced(spans, names))
        query = query.where(*within_scope(spans, scope)).order_by(spans.c.started_at.desc(), spans.c.id.desc())
        if changed is not None:
            query = query.where(has_changed(spans.c.instance_id, changed, day_start(first)))
        if most is not None:  # PostgreSQL would else send them all
            query = query.execution_options(yield_per=2 * most)
        with connection.execute(query) as rows:  # of some the prices say that they have one
            every = (gap for row in rows for gap in _gap(accrual, accruing_span(row), first, last))
            yield from islice(every, most)


def _ended(connection: Connection, accrual: Accrual, first: date, last: date, scope: Scope) -> Iterator[UnpricedSpan]:
    """Yields the spans that ended and are not charged to their end, of which stored charges do not say it."""
    for span in uncharged_spans(connection):
        whose = span.attribution
        if not span.unpriced and scope.holds(span.span.key.project, whose.preset, whose.owner, whose.job):
            yield from _gap(accrual, span, first, last)


def _gap(accrual: Accrual, accruing: AccruingSpan, first: date, last: date) -> Iterator[UnpricedSpan]:
    """Yields the gap of a span that has one on these days after its stored charges."""
    span = accruing.span
    start, end = max(accruing.since, day_start(first)), day_start(last) + _DAY
    reason = accrual.bill(span, start, end).unpriced
    if reason and start < min(end, span.ended_at or accrual.now):
        _, attribution, model = kind_of(accruing)
        yield UnpricedSpan(
            kind=LIFETIME if isinstance(span, Lifetime) else STORAGE,
            id=span.id or 0,
            key=span.key,
            name=accruing.name,
            attribution=attribution,
            provisioning_model=model,
            started_at=span.started_at,
            ended_at=span.ended_at,
            reason=reason,
        )


def _group_of(gap: UnpricedSpan) -> GapGroup:
    whose = gap.attribution
    last = None if gap.ended_at is None else (gap.ended_at - _MICROSECOND).date()
    model = str(gap.provisioning_model)
    return GapGroup(None, gap.key.project, whose.preset, whose.owner, whose.job, model, gap.started_at.date(), last, 1)


def _day(number: int) -> date:
    return _FIRST_DAY + number * _DAY


def _number(day: date) -> ColumnElement[int]:
    """A day as `utc_day` has it, written out: PostgreSQL must see the same in the columns and in the groups."""
    return literal_column(str((day - _FIRST_DAY).days), BigInteger)
