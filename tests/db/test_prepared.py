"""Statements that are built once for all values."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from sqlalchemy import Column, Date, Integer, MetaData, Select, String, Table, create_engine, insert, select
from sqlalchemy.pool import StaticPool

from costguard.db.prepared import prepared
from costguard.db.types import Timestamp

_TABLE = Table(
    "vms",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("owner", String),
    Column("day", Date),
    Column("seen_at", Timestamp),
)
_DAY, _NOON = date(2026, 11, 2), datetime(2026, 11, 2, 12, tzinfo=UTC)
_built: list[tuple[object, ...]] = []


@prepared
def _ids(owner: str | None, ids: list[int], day: date, seen_at: datetime, names: tuple[str, ...], limit: int) -> Select:  # type: ignore[type-arg]  # of any columns
    _built.append((owner, names))
    columns = [_TABLE.c[name] for name in names]
    owned = _TABLE.c.owner.is_(None) if owner is None else _TABLE.c.owner == owner
    query = select(*columns).where(owned, _TABLE.c.id.in_(ids), _TABLE.c.day == day, _TABLE.c.seen_at <= seen_at)
    return query.order_by(_TABLE.c.id).limit(limit)


@pytest.fixture(autouse=True)
def nothing_built() -> None:
    _built.clear()


def test_each_call_has_its_own_values() -> None:
    """Texts, lists of any length, days and moments, as their columns store them; and how many at most."""
    engine = create_engine("sqlite://", poolclass=StaticPool)
    with engine.begin() as connection:
        _TABLE.create(connection)
        rows = [
            {"id": number, "owner": owner, "day": _DAY, "seen_at": _NOON}
            for number, owner in enumerate(("ada", "bob", "ada", None, "ada"))
        ]
        connection.execute(insert(_TABLE), rows)

        def ids(owner: str | None, wanted: list[int], limit: int = 9) -> list[int]:
            return list(connection.scalars(*_ids(owner, wanted, _DAY, _NOON, ("id",), limit)))

        assert ids("ada", [0, 1, 2, 3, 4]) == [0, 2, 4]
        assert ids("bob", [0, 1]) == [1]
        assert ids("ada", []) == []
        assert ids("ada", [0, 2, 4], 2) == [0, 2]
        assert ids(None, [0, 1, 2, 3]) == [3]
        assert list(connection.scalars(*_ids("ada", [0], date(2026, 11, 3), _NOON, ("id",), 9))) == []


def test_statement_is_built_once_for_all_values() -> None:
    """The statement is built once more for what is no value: a column that is not there, an owner that is None."""
    first, _ = _ids("carol", [1], _DAY, _NOON, ("owner",), 1)
    second, values = _ids("dan", [2, 3], _DAY, _NOON, ("owner",), 2)
    assert first is second
    assert {"dan", 2} <= {value for value in values.values() if not isinstance(value, list)}
    assert _ids(None, [1], _DAY, _NOON, ("owner",), 1)[0] is not first
    assert _ids("carol", [1], _DAY, _NOON, ("owner", "id"), 1)[0] is not first
    assert len(_built) == 3
