"""Times that cannot be make no run, no end and no disk: one garbled stamp would bill centuries."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from tests.builders import at, observation, operation, seen
from tests.fakes import FakeCloud

from costguard.db.tables import lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import record
from costguard.model.instance import SeenInstance, Status
from costguard.model.observation import SeenOperation

BELONGING = Belonging((), OwnerRules(domain="example.com"))
FAR, BEFORE_ALL = datetime(2999, 12, 31, tzinfo=UTC), datetime(2008, 1, 1, tzinfo=UTC)
INSERT, STOP = operation("insert", "09:59", "10:00"), operation("stop", "10:59", "11:00")


def _spans(database: Database, vm: SeenInstance, *operations: SeenOperation) -> tuple[list[Any], list[Any]]:
    """Returns the runs and the disks' spans that the ledger makes of two looks at this VM."""
    for read in ("12:00", "12:01"):
        shown = observation(replace(vm, fingerprint=read), read=read, operations=operations)
        record(database, FakeCloud(), shown, BELONGING, None)
    with database.read() as connection:
        return tuple(
            [tuple(row) for row in connection.execute(select(table.c.started_at, table.c.ended_at))]
            for table in (lifetimes, storage_spans)
        )  # type: ignore[return-value]  # two of them


@pytest.mark.parametrize("status", [Status.RUNNING, Status.STOPPED])
@pytest.mark.parametrize("moment", [FAR, BEFORE_ALL], ids=["far", "before_all"])
@pytest.mark.parametrize("stamp", ["created_at", "last_started_at", "last_stopped_at", "last_suspended_at", "disk"])
def test_stamp_that_cannot_be_changes_no_span(
    sqlite_database: Database, stamp: str, moment: datetime, status: Status
) -> None:
    """The operations say when the VM ran, and its disk counts from the look that showed it, at the latest."""
    operations = (INSERT,) if status is Status.RUNNING else (INSERT, STOP)
    vm = seen(status)
    if stamp == "disk":
        vm = replace(vm, disks=(replace(vm.disks[0], created_at=moment),))
    else:
        vm = replace(vm, **{stamp: moment})
    runs, disks = _spans(sqlite_database, vm, *operations)
    assert runs == [(at("10:00"), None if status is Status.RUNNING else at("10:59"))]
    ((since, until),) = disks
    assert at("09:59") <= since <= at("12:00")
    assert until is None


@pytest.mark.parametrize("field", ["inserted_at", "started_at", "ended_at"])
@pytest.mark.parametrize("moment", [FAR, BEFORE_ALL], ids=["far", "before_all"])
def test_operation_that_cannot_be_begins_no_run(sqlite_database: Database, moment: datetime, field: str) -> None:
    """The stamp says when the VM started."""
    runs, _ = _spans(sqlite_database, seen(), replace(INSERT, **{field: moment}))
    assert runs == [(at("10:00"), None)]


def test_clocks_may_differ_by_some_hours(sqlite_database: Database) -> None:
    """A machine whose clock is behind Google's reads what Google stamps as it stands."""
    started = at("12:00") + timedelta(hours=5)
    runs, _ = _spans(sqlite_database, seen(created_at=started, last_started_at=started))
    assert runs == [(started, None)]
