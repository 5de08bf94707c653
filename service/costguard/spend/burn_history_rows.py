"""Lifetimes and storage that began or ended lately: what bills now and these together tell what billed before."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, case, func, literal_column, null, select, type_coerce

from costguard.db.remembered import remembers
from costguard.db.tables import lifetimes, storage_spans
from costguard.db.types import EPOCH
from costguard.ledger.accruing import within_scope
from costguard.ledger.running_total_rows import KINDS, Kind
from costguard.model.budget import Scope

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Spell:
    """So many spans of one kind that bill at the marks from `begins` on up to, without it, `ends` (None: still).

    Marks are counted from the moment that was asked for, in steps; what began before it begins at mark 0.
    """

    kind: Kind
    begins: int
    ends: int | None
    count: int


@remembers(lifetimes, storage_spans)
def spells(connection: Connection, since: datetime, step: timedelta, scope: Scope) -> list[Spell]:
    """Of lifetimes and storage that ended since then, and of those open ones that began since then."""
    found: list[Spell] = []
    for table, names in KINDS:
        kind, mine = [table.c[name] for name in names], within_scope(table, scope)
        begins, ends = (_mark(table.c[name], since, step) for name in ("started_at", "ended_at"))
        over = select(*kind, begins, ends, func.count()).where(table.c.ended_at > since, *mine)
        still = select(*kind, begins, null(), func.count()).where(
            table.c.ended_at.is_(None), table.c.started_at > since, *mine
        )
        for query in (over.group_by(*kind, begins, ends), still.group_by(*kind, begins)):
            for *of_kind, first, last, count in connection.execute(query):
                found.append(Spell(tuple(of_kind), first, last, count))
    return found


def _mark(column: ColumnElement[Any], since: datetime, step: timedelta) -> ColumnElement[int]:
    """The first that is not before the moment in the column."""
    start, length = (since - EPOCH) // _MICROSECOND, step // _MICROSECOND
    after = type_coerce(column, BigInteger) - literal_column(str(start), BigInteger)
    # Written out, so that PostgreSQL sees the same in the columns and in what it groups by.
    mark = (after + literal_column(str(length - 1), BigInteger)) // literal_column(str(length), BigInteger)
    return type_coerce(case((after <= literal_column("0"), literal_column("0")), else_=mark), BigInteger)
