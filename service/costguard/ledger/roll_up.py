"""Daily sums of charges, updated with every charge, so that a year is read as fast as a day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from operator import itemgetter
from typing import Any, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    and_,
    case,
    func,
    literal,
    or_,
    select,
)

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.table_sums import TableSums
from costguard.db.tables import (
    charge_days,
    charges,
    daily_owners,
    daily_presets,
    daily_spend,
    daily_spot,
    daily_spot_totals,
    daily_totals,
    lifetimes,
    prices,
    storage_spans,
)
from costguard.ledger.archived.history_days import outdate
from costguard.ledger.labels.label_history import spoil_days
from costguard.model.instance import ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.model.price import OF_A_RUN

LIFETIME = "lifetime"
STORAGE = "storage"
TABLES = {LIFETIME: lifetimes, STORAGE: storage_spans}
Amount: TypeAlias = tuple[str, int, int, int, int]
"""The fields of one charge: resource, seconds, thousandths of units, the price's id, nano-dollars."""
_Key: TypeAlias = tuple[Any, ...]
_Sums: TypeAlias = defaultdict[_Key, list[int]]


@dataclass(frozen=True, slots=True)
class SpanGroup:
    """The key by which a span's charges are added up, but for their days."""

    project: str
    attribution: Attribution
    provisioning_model: str  # storage counts as standard, whatever the VM


def _spend_sums() -> _Sums:
    return defaultdict(lambda: [0, 0, 0, 0])


def _spot_sums() -> _Sums:
    return defaultdict(lambda: [0, 0])


@dataclass(slots=True)
class DailyChange:
    """The change of the daily sums by added or removed charges. Apply it in the transaction that changes the charges.

    The sums then are at every commit what the charges add up to, by the spans' attribution.
    """

    spot_prices: frozenset[int]  # ids of prices of Spot machines
    days: set[date] = field(default_factory=set)  # whose charges changed, or changed hands
    _spend: _Sums = field(default_factory=_spend_sums)
    _spot: _Sums = field(default_factory=_spot_sums)

    def add(self, kind: str, day: date, whose: SpanGroup, amount: Amount, times: int = 1) -> None:
        """`times` such charges; a negative number takes them away."""
        resource, seconds, millis, price_id, nanos = amount
        self.days.add(day)
        attribution = whose.attribution
        sums = self._spend[
            day, whose.project, attribution.preset, attribution.owner, attribution.job, whose.provisioning_model
        ]
        if kind == STORAGE:
            sums[2] += nanos * times
            return
        sums[1 if resource.startswith("gpu:") else 0] += nanos * times
        if resource.endswith(OF_A_RUN):
            sums[3] += seconds * times
        if price_id in self.spot_prices:
            spot = self._spot[day, whose.project, attribution.preset, attribution.owner, price_id]
            spot[0] += seconds * millis * times
            spot[1] += nanos * times

    def add_stored(self, connection: Connection, kind: str, span_ids: Collection[int], times: int) -> None:
        """All stored charges of these spans, by whose the spans are at this moment."""
        for some in chunks(span_ids):
            _add_rows(self._spend, connection.execute(*_stored(TABLES[kind], some)), 6, times)
            if kind == LIFETIME:
                _add_rows(self._spot, connection.execute(*_stored_spot(some)), 5, times)

    def sums(self, connection: Connection) -> list[TableSums]:
        """Returns what is to be added to each table; sends nothing over the connection."""
        totals = coarser(self._spend, (0, 1, 2, 5))
        sums: tuple[tuple[Table, Mapping[_Key, Sequence[int]]], ...] = (
            (daily_spend, {key: figures for key, figures in self._spend.items() if any(figures)}),
            (daily_totals, totals),
            (daily_presets, coarser(totals, (0, 2, 3))),
            (daily_owners, coarser(self._spend, (0, 1, 3))),
            (daily_spot, {key: figures for key, figures in self._spot.items() if any(figures)}),
            (daily_spot_totals, coarser(self._spot, (0, 1, 2, 4))),
        )
        return [TableSums.of(connection, table, of_table) for table, of_table in sums]

    def apply(self, connection: Connection, sums: Sequence[TableSums] | None = None) -> None:
        """Writes the change; `sums` are those of all that was added, where they are worked out already."""
        for one in self.sums(connection) if sums is None else sums:
            one.add(connection)
        spoil_days(connection, self.days)
        outdate(connection, self.days)


@prepared
def _stored(spans: Table, span_ids: list[int]) -> Select[Any]:
    """Sums of charges by day and whose the spans are."""
    keys = (charges.c.day, spans.c.project, spans.c.preset, spans.c.owner, spans.c.job, _model_of(spans))
    figures = (func.sum(part) for part in parts_of_charges(spans).values())
    query = select(*keys, *figures).join_from(charges, spans, spans.c.id == charges.c.span_id).group_by(*keys)
    kind = LIFETIME if spans is lifetimes else STORAGE
    return query.where(charges.c.span == kind, charges.c.span_id.in_(span_ids))


@prepared
def _stored_spot(span_ids: list[int]) -> Select[Any]:
    """Use and cost of Spot machines by day, whose the lifetimes are, and price."""
    columns = lifetimes.c
    keys = (charges.c.day, columns.project, columns.preset, columns.owner, charges.c.price_id)
    use = func.sum(charges.c.seconds * charges.c.quantity_millis), func.sum(charges.c.amount_nanos)
    query = select(*keys, *use).join_from(charges, lifetimes, columns.id == charges.c.span_id)
    query = query.join(prices, prices.c.id == charges.c.price_id)
    return query.where(charges.c.span == LIFETIME, charges.c.span_id.in_(span_ids), _IS_SPOT).group_by(*keys)


@contextmanager
def following(
    connection: Connection, spans: Table, span_ids: Collection[int], become: Mapping[int, SpanGroup] | None = None
) -> Iterator[None]:
    """Updates the daily sums where the block changes the attribution of these spans.

    `become`: their attribution after the block, where it is known; charges of spans that keep theirs are not read.
    """
    kind = LIFETIME if spans is lifetimes else STORAGE
    before = _whose(connection, spans, span_ids)
    expected = become or {}
    moving = [span_id for span_id, whose in before.items() if expected.get(span_id) != whose]
    if not moving:
        yield
        return
    change = DailyChange(frozenset())
    change.add_stored(connection, kind, moving, -1)
    yield
    change.add_stored(connection, kind, moving, 1)
    after = _whose(connection, spans, moving)
    moved = [span_id for span_id in moving if after[span_id] != before[span_id]]
    for some in chunks(moved):
        mine = and_(charges.c.span == kind, charges.c.span_id.in_(some))
        change.days.update(connection.scalars(select(charges.c.day).where(mine).distinct()))
    change.apply(connection)


def _whose(connection: Connection, spans: Table, span_ids: Collection[int]) -> dict[int, SpanGroup]:
    """Returns whose each span is.

    Two that change places leave every sum as it was, and yet each has other labels.
    """
    return {
        span_id: SpanGroup(project, Attribution(preset, owner, job), model)
        for some in chunks(span_ids)
        for span_id, project, preset, owner, job, model in connection.execute(*_owned(spans, some))
    }


@prepared
def _owned(spans: Table, span_ids: list[int]) -> Select[Any]:
    columns = [spans.c[name] for name in ("project", "preset", "owner", "job")]
    return select(spans.c.id, *columns, _model_of(spans)).where(spans.c.id.in_(span_ids))


def _model_of(spans: Table) -> ColumnElement[str]:
    return spans.c.provisioning_model if spans is lifetimes else literal(ProvisioningModel.STANDARD.value)


def change_of(connection: Connection) -> DailyChange:
    """Nothing yet."""
    return DailyChange(frozenset(connection.scalars(_SPOT_PRICES)))


def parts_of_charges(spans: Table) -> dict[str, ColumnElement[int]]:
    """Returns the parts of a charge of these spans that count as machine, GPU and storage, and as seconds run."""
    return _parts(spans, charges.c.resource, charges.c.amount_nanos, charges.c.seconds)


def parts_of_archived(spans: Table) -> dict[str, ColumnElement[int]]:
    """The same of `charge_days`, joined with the prices, which name their resources."""
    return _parts(spans, prices.c.resource, charge_days.c.amount_nanos, charge_days.c.seconds)


def _parts(
    spans: Table, resource: ColumnElement[str], amount: ColumnElement[int], seconds: ColumnElement[int]
) -> dict[str, ColumnElement[int]]:
    none = literal(0)
    if spans is storage_spans:
        # An address is a part of the VM, although it has spans of its own.
        of_vm = resource.startswith("external-ip")
        machine, storage = case((of_vm, amount), else_=0), case((of_vm, 0), else_=amount)
        return {"machine_nanos": machine, "gpu_nanos": none, "storage_nanos": storage, "seconds": none}
    is_gpu = resource.startswith("gpu:")
    # Each run has one of these: its seconds are the run's.
    is_of_a_run = or_(*(resource.endswith(ending) for ending in OF_A_RUN))
    return {
        "machine_nanos": case((is_gpu, 0), else_=amount),
        "gpu_nanos": case((is_gpu, amount), else_=0),
        "storage_nanos": none,
        "seconds": case((is_of_a_run, seconds), else_=0),
    }


_IS_SPOT = prices.c.provisioning_model == ProvisioningModel.SPOT.value
_SPOT_PRICES = select(prices.c.id).where(_IS_SPOT)


def _add_rows(sums: _Sums, rows: Iterable[Sequence[Any]], width: int, times: int) -> None:
    for row in rows:
        of_key = sums[tuple(row[:width])]
        for place, figure in enumerate(row[width:]):
            of_key[place] += int(figure) * times


def coarser(sums: Mapping[_Key, Sequence[int]], columns: Sequence[int]) -> dict[_Key, list[int]]:
    """Adds sums up by these places of their keys; sums that come to nothing are left out."""
    coarse_sums: dict[_Key, list[int]] = {}
    coarse_key = itemgetter(*columns)
    for key, figures in sums.items():
        coarse = coarse_key(key)
        before = coarse_sums.get(coarse)
        coarse_sums[coarse] = (
            list(figures) if before is None else [had + new for had, new in zip(before, figures, strict=True)]
        )
    return {key: figures for key, figures in coarse_sums.items() if any(figures)}
