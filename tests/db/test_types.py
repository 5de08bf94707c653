"""Moments are kept to the microsecond, and naive ones are refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import insert, select
from sqlalchemy.exc import StatementError

from costguard.db.tables import leases
from costguard.db.transaction import Database


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 3, 1, 12, 0, 0, 123457, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2026, 3, 1, 12, tzinfo=timezone(-timedelta(hours=7))),
    ],
)
def test_a_moment_comes_back_exactly_in_utc(database: Database, moment: datetime) -> None:
    """Nothing is rounded, whatever its zone was."""
    with database.write() as connection:
        connection.execute(insert(leases).values(name="x", holder="a", epoch=1, expires_at=moment))
        back = connection.execute(select(leases.c.expires_at)).scalar_one()
    assert back == moment
    assert back.tzinfo is UTC


def test_a_naive_moment_is_refused(database: Database) -> None:
    """A time without a zone would be a guess about money."""
    naive = datetime(2026, 3, 1, 12)  # noqa: DTZ001 it is what must be refused
    with pytest.raises(StatementError, match="has no time zone"), database.write() as connection:
        connection.execute(insert(leases).values(name="x", holder="a", epoch=1, expires_at=naive))
