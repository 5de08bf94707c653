"""How many machines and disks of which kind billed at past moments: what the burn rate was is made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    String,
    Table,
    case,
    cast,
    func,
    literal_column,
    select,
    type_coerce,
)

from costguard.db.remembered import remembers
from costguard.db.tables import lifetimes, storage_spans
from costguard.db.types import EPOCH
from costguard.ledger.accruing import SHAPE, within_scope
from costguard.model.budget import Scope

_MICROSECOND = timedelta(microseconds=1)

Kind: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Spell:
    """So many spans of one kind that bill at the marks from `begins` on up to, without it, `ends` (None: still).

    Marks are counted from the moment that was asked for, in steps; what began before it begins at mark 0.
    """

    kind: Kind
    begins: int
    ends: int | None
    count: int


@remembers(lifetimes)
def machines(connection: Connection, since: datetime, step: timedelta, scope: Scope) -> list[Spell]:
    """Kinds are the columns of a shape, the provisioning model and the zone."""
    return _spells(connection, lifetimes, SHAPE, since, step, scope)


@remembers(storage_spans)
def stored(connection: Connection, since: datetime, step: timedelta, scope: Scope) -> list[Spell]:
    """Kinds are resource, MiB and zone."""
    return _spells(connection, storage_spans, ("resource", "size_mib"), since, step, scope)


def _spells(
    connection: Connection, spans: Table, same: Sequence[str], since: datetime, step: timedelta, scope: Scope
) -> list[Spell]:
    kind = [spans.c[name] for name in (*same, "zone")]
    begins, ends = (_mark(spans.c[name], since, step) for name in ("started_at", "ended_at"))
    mine = within_scope(spans, scope)
    # In the order of the index on what is alike, so nothing is sorted; each later mark of a kind in one text.
    is_late = spans.c.started_at > since
    marks = func.aggregate_strings(case((is_late, cast(begins, String))), ",")
    still = select(*kind, func.count(case((is_late, None), else_=1)), marks).where(spans.c.ended_at.is_(None), *mine)
    over = select(*kind, begins, ends, func.count()).where(spans.c.ended_at > since, *mine)
    ended = map(tuple, connection.execute(over.group_by(*kind, begins, ends)))
    found = [Spell(row[:-3], *row[-3:]) for row in ended]
    for *of_kind, before, late in map(tuple, connection.execute(still.group_by(*kind))):
        begun = Counter(map(int, late.split(","))) if late else {}
        counts = {0: before, **begun} if before else begun
        found += [Spell(tuple(of_kind), mark, None, count) for mark, count in counts.items()]
    return found


def _mark(column: ColumnElement[Any], since: datetime, step: timedelta) -> ColumnElement[int]:
    """The first that is not before the moment in the column."""
    start, length = (since - EPOCH) // _MICROSECOND, step // _MICROSECOND
    after = type_coerce(column, BigInteger) - literal_column(str(start), BigInteger)
    # Written out, so that PostgreSQL sees the same in the columns and in what it groups by.
    mark = (after + literal_column(str(length - 1), BigInteger)) // literal_column(str(length), BigInteger)
    return type_coerce(case((after <= literal_column("0"), literal_column("0")), else_=mark), BigInteger)
