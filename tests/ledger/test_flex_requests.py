"""A flex-start VM that waits is in the ledger and does not bill, whenever Google says that its insert is done."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from tests.builders import at, observation, operation, seen
from tests.fakes import FakeCloud

from costguard.db.tables import lifetimes
from costguard.db.transaction import Database
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import record
from costguard.model.instance import ProvisioningModel, SeenInstance, Status
from costguard.model.observation import Observation

NOT_UP = [Status.PENDING, Status.PROVISIONING, Status.STAGING]


def vm(status: Status, started: str | None = None) -> SeenInstance:
    return seen(
        status, started, provisioning_model=ProvisioningModel.FLEX_START, created_at=at("10:00"),
        fingerprint=f"{status}/{started}",
    )  # fmt: skip


def insert(ended: str = "10:00:08", **given: Any) -> Any:
    return operation("insert", "10:00", ended, **given)


def looked(database: Database, *looks: Observation) -> list[tuple[Any, Any]]:
    """Returns its lifetimes after these looks."""
    for look in looks:
        record(database, FakeCloud(), look, Belonging((), OwnerRules()), None)
    with database.read() as connection:
        columns = lifetimes.c
        rows = connection.execute(select(columns.started_at, columns.ended_at).order_by(columns.started_at))
        return [tuple(row) for row in rows]


@pytest.mark.parametrize("status", NOT_UP)
def test_a_request_that_waits_has_no_lifetime(database: Database, status: Status) -> None:
    """An insert that is done at once made the request, and started nothing."""
    assert looked(database, observation(vm(status), read="10:30", operations=(insert(),))) == []


def test_once_granted_it_bills_from_its_start_stamp(database: Database) -> None:
    """The end of its insert, 40 minutes before, starts nothing; each later look says the same."""
    waits = [
        observation(vm(status), read=f"10:3{place}", operations=(insert(),)) for place, status in enumerate(NOT_UP)
    ]
    runs = [
        observation(vm(Status.RUNNING, "10:40:20"), read=read, operations=(insert(),)) for read in ("10:41", "10:42")
    ]
    assert looked(database, *waits, *runs) == [(at("10:40:20"), None)]
    deleted = (insert(), operation("delete", "12:00", "12:00:30"))
    assert looked(database, observation(read="12:01", operations=deleted)) == [(at("10:40:20"), at("12:00"))]


def test_an_insert_that_ends_with_the_grant_says_the_same(database: Database) -> None:
    """Should Google keep the operation open for as long as the request waits."""
    waits = observation(vm(Status.PENDING), read="10:30", operations=(operation("insert", "10:00"),))
    runs = observation(vm(Status.RUNNING, "10:40:20"), read="10:41", operations=(insert("10:40:22"),))
    assert looked(database, waits, runs) == [(at("10:40:20"), None)]


def test_a_request_that_was_never_granted_cost_nothing(database: Database) -> None:
    """It is gone without a run, with a delete operation or without one."""
    waits = observation(vm(Status.PENDING), read="10:30", operations=(insert(),))
    assert looked(database, waits, observation(read="12:01", operations=(insert(),))) == []
    deleted = (insert(), operation("delete", "12:00", "12:00:30", user="system"))
    assert looked(database, observation(read="12:02", operations=deleted)) == []


def test_other_vms_start_with_their_insert_as_before(database: Database) -> None:
    """A VM on demand that is listed as staging, with its insert done, has begun."""
    staging = seen(Status.RUNNING, "10:00:07", created_at=at("10:00"))
    assert looked(database, observation(staging, read="10:01", operations=(insert(),))) == [(at("10:00:07"), None)]


def test_a_run_before_a_later_start_is_kept(database: Database) -> None:
    """A VM that was granted at once, stopped and started again before anybody looked: both runs bill."""
    operations = (
        insert(),
        operation("stop", "10:30", "10:31"),
        operation("start", "11:00", "11:00:20"),
    )
    runs = observation(vm(Status.RUNNING, "11:00:18"), read="11:05", operations=operations)
    (first, second) = looked(database, runs)
    assert first == (at("10:00:08"), at("10:30"))
    assert (second[0], second[1]) == (at("11:00:18"), None)


def test_a_run_between_two_looks_is_not_missed(database: Database) -> None:
    """The insert that was still open as the VM waited ended with the grant; its delete ended the run."""
    waits = observation(vm(Status.PENDING), read="10:30", operations=(operation("insert", "10:00"),))
    done = (insert("10:40:22"), operation("delete", "10:44", "10:45"))
    gone = observation(read="10:46", operations=done)
    assert looked(database, waits, gone, observation(read="10:50", operations=done)) == [(at("10:40:22"), at("10:44"))]


def test_an_open_insert_that_failed_as_its_request_was_cancelled_ran_nothing(database: Database) -> None:
    """The operation of a request that is deleted ends with an error."""
    waits = observation(vm(Status.PENDING), read="10:30", operations=(operation("insert", "10:00"),))
    done = (insert("10:40", error_code="RESOURCE_NOT_FOUND"), operation("delete", "10:39", "10:40"))
    assert looked(database, waits, observation(read="10:46", operations=done)) == []
