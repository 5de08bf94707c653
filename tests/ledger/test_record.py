"""An observation goes into the ledger, on both databases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select, update
from tests.builders import KEY, PROJECT, at, observation, operation, seen
from tests.fakes import FakeCloud
from tests.within import charge_due

from costguard.db.tables import instances, lifetimes, storage_spans
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.ledger import lifetimes as ledger
from costguard.ledger import prices
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import Recorded, record
from costguard.model.instance import InstanceKey, ProvisioningModel, SeenInstance, Shape, Status
from costguard.model.money import Money
from costguard.model.observation import Observation, SeenOperation, Unread
from costguard.model.price import Price, PriceKey, Unit

BELONGING = Belonging((), OwnerRules(domain="example.com"))
INSERT = operation("insert", "09:59", "10:00")


def _record(
    database: Database, look: Observation, cloud: FakeCloud | None = None, belonging: Belonging = BELONGING
) -> Recorded:
    return record(database, cloud or FakeCloud(), look, belonging, None)


def _vm(number: int, **given: Any) -> SeenInstance:
    return seen(key=InstanceKey(PROJECT, str(number)), name=f"vm-{number}", **given)


def _kinds(database: Database) -> list[str]:
    with database.read() as connection:
        return sorted(stored.event.kind for stored in audit_log.read(connection))


def _count(database: Database, table: Any) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def test_a_first_look_records_everything(database: Database) -> None:
    """Instances, lifetimes, storage and the events of them, in one transaction."""
    result = _record(database, observation(_vm(1), _vm(2, status=Status.STAGING, started=None)))
    assert (result.seen, result.running, result.new_or_changed, result.lifetimes) == (2, 1, 2, 1)
    assert _kinds(database) == ["InstanceSeen", "InstanceSeen", "LifetimeStarted"]
    assert _count(database, storage_spans) == 2


def test_the_same_look_again_writes_one_row(database: Database) -> None:
    """Nothing new: only the project's row says that someone looked."""
    look = observation(_vm(1), _vm(2), operations=(INSERT,))
    _record(database, look)
    before = {table: _rows(database, table) for table in (instances, lifetimes, storage_spans)}
    result = _record(database, replace(look, read_at=at("12:01")))
    assert (result.new_or_changed, result.lifetimes, result.events) == (0, 0, ())
    assert {table: _rows(database, table) for table in before} == before


def _rows(database: Database, table: Any) -> list[Any]:
    with database.read() as connection:
        return [tuple(row) for row in connection.execute(select(table).order_by(table.c.id))]


def test_an_operation_alone_changes_a_vm(database: Database) -> None:
    """The listing is as it was, and an operation that was read late tells who made the VM."""
    _record(database, observation(seen()))
    result = _record(database, observation(seen(), operations=(INSERT,)))
    assert result.new_or_changed == 1
    with database.read() as connection:
        stored = ledger.load(connection, PROJECT, [KEY.gce_id])[KEY.gce_id]
    assert stored.record.created_by == "ana@example.com"


def test_a_vm_in_an_unread_zone_is_not_gone(database: Database) -> None:
    """It is missing, it goes on billing, and nobody even asks for it."""
    cloud = FakeCloud()
    _record(database, observation(_vm(1)))
    unread = Unread("us-central1-a", "us-central1-a is unreachable", "unreachable")
    look = observation(unread_zones=frozenset({"us-central1-a"}), unread=(unread,))
    result = _record(database, look, cloud)
    assert (result.absent, result.missing, cloud.asked) == (0, 1, [])
    assert _kinds(database) == ["InstanceSeen", "LifetimeStarted", "ReadingFailed"]


def test_an_incomplete_listing_makes_nothing_gone(database: Database) -> None:
    """A page that failed may have held any VM."""
    _record(database, observation(_vm(1)))
    result = _record(database, observation(instances_complete=False))
    assert (result.absent, result.missing) == (0, 1)


@pytest.mark.parametrize(("answer", "absent"), [("gone", 1), ("unreachable", 0), ("there", 0)])
def test_a_vm_that_is_not_listed_is_asked_for(database: Database, answer: str, absent: int) -> None:
    """A 404 alone makes it gone; a failing answer leaves it as it was."""
    cloud = FakeCloud()
    _record(database, observation(_vm(1)))
    {"gone": cloud.gone, "unreachable": cloud.unreachable, "there": set[str]()}[answer].add("1")
    result = _record(database, observation(), cloud)
    assert (result.absent, result.missing) == (absent, 1 - absent)
    with database.read() as connection:
        stored = ledger.load(connection, PROJECT, ["1"])["1"]
    assert (stored.record.gone_at is not None) == bool(absent)
    assert (stored.lifetimes[0].ended_at is not None) == bool(absent)


def test_where_nothing_is_answered_not_every_vm_is_asked_for(sqlite_database: Database) -> None:
    """A region that vanished while the limit on calls is used up: the rest of it waits for the next pass."""
    everyone = [_vm(number) for number in range(100)]
    ids = {vm.key.gce_id for vm in everyone}
    _record(sqlite_database, observation(*everyone))
    cloud = FakeCloud()
    cloud.unreachable = ids
    recorded = _record(sqlite_database, observation(), cloud)
    assert (recorded.absent, recorded.missing) == (0, 100)
    assert len(cloud.asked) < 50
    cloud = FakeCloud()
    cloud.gone = ids
    recorded = _record(sqlite_database, observation(), cloud)
    assert (recorded.absent, recorded.missing) == (100, 0)


def test_a_delete_operation_needs_no_asking(database: Database) -> None:
    """Google said that it is done."""
    cloud = FakeCloud()
    _record(database, observation(seen(), operations=(INSERT,)))
    look = observation(operations=(operation("delete", "11:00", "11:02"),))
    assert (_record(database, look, cloud).absent, cloud.asked) == (1, [])


def test_reading_fails_and_resumes_once(database: Database) -> None:
    """Events are of changes: a zone that stays unread makes one event, and one when it is back."""
    unread = Unread("us-central1-a", "us-central1-a is unreachable", "unreachable")
    look = observation(unread_zones=frozenset({"us-central1-a"}), unread=(unread,))
    _record(database, look)
    _record(database, replace(look, read_at=at("12:01")))
    _record(database, observation(read="12:02"))
    assert _kinds(database) == ["ReadingFailed", "ReadingResumed"]


def test_a_stockout_is_a_event(database: Database) -> None:
    """An operation that failed is recorded with Google's words, and makes no VM."""
    insert = operation(
        "insert", "09:59", "10:00", error_code="ZONE_RESOURCE_POOL_EXHAUSTED", error_message="no GPUs left"
    )
    _record(database, observation(operations=(insert,)))
    with database.read() as connection:
        texts = [stored.event.text for stored in audit_log.read(connection)]
    assert texts == ["insert of vm by ana@example.com failed: ZONE_RESOURCE_POOL_EXHAUSTED: no GPUs left"]
    assert _count(database, instances) == 0


def test_new_settings_sort_every_vm_anew(database: Database) -> None:
    """Another rule of ownership reaches VMs that did not change, and their open lifetimes."""
    _record(database, observation(_vm(1, labels={"owner": "ana"})))
    _record(
        database, observation(_vm(1, labels={"owner": "ana"})), belonging=Belonging((), OwnerRules(domain="acme.io"))
    )
    with database.read() as connection:
        owners = connection.execute(select(lifetimes.c.owner)).scalars().all()
    assert owners == ["ana@acme.io"]


def test_vms_without_a_gpu_can_be_passed_over(database: Database) -> None:
    """They and their operations leave no trace; a VM that is in the ledger already stays there."""
    cpu = Shape("n2-standard-4", 4, 16384)
    gpu_only = replace(BELONGING, gpu_only=True)
    listed = (_vm(1, shape=cpu), _vm(2))
    operations = (
        operation("insert", "09:59", "10:00", target_id="1"),
        operation("delete", "10:30", "10:31", target_id="3"),
    )
    assert _record(database, observation(*listed, operations=operations), belonging=gpu_only).seen == 1
    assert _count(database, instances) == 1
    _record(database, observation(*listed))
    assert _record(database, observation(*listed), belonging=gpu_only).seen == 2


def test_names_from_the_cloud_cannot_break_the_ledger(database: Database) -> None:
    """NUL, half of a surrogate pair and a megabyte are stored or replaced, never a failed transaction."""
    vm = _vm(1, labels={"a\0b": "\ud800", "long": "x" * 1_000_000})
    assert _record(database, observation(vm)).new_or_changed == 1


def test_one_vm_that_cannot_be_accounted_for_does_not_stop_the_others(database: Database) -> None:
    """It is reported as unread, and tried again at the next pass."""
    broken = _vm(1, last_stopped_at=at("11:00").replace(tzinfo=None), status=Status.STOPPED)
    result = _record(database, observation(broken, _vm(2)))
    assert [part.code for part in result.unread] == ["not_recorded"]
    assert _count(database, instances) == 1


def test_a_thousand_vms_change_in_a_few_statements(database: Database) -> None:
    """The first look at a large fleet, and a stop of all of it, are recorded whole."""
    fleet = [_vm(number) for number in range(1000)]
    assert _record(database, observation(*fleet)).new_or_changed == 1000
    stops: list[SeenOperation] = [
        operation("stop", "11:00", "11:01", target_id=vm.key.gce_id, target_name=vm.name) for vm in fleet
    ]
    stopped = [replace(vm, status=Status.STOPPED, last_stopped_at=at("11:01"), fingerprint="stopped") for vm in fleet]
    assert _record(database, observation(*stopped, operations=tuple(stops))).lifetimes == 1000
    with database.read() as connection:
        ended = connection.execute(select(func.count()).where(lifetimes.c.ended_at == at("11:00"))).scalar_one()
    assert ended == 1000


def test_operations_that_google_has_forgotten_are_told(database: Database) -> None:
    """After an outage of weeks the ledger says for which days it cannot know everything, once."""
    _record(database, observation(_vm(1)))
    _record(database, observation(_vm(1), read="2026-11-15T12:00:00"))
    assert "OperationsForgotten" not in _kinds(database)
    _record(database, observation(_vm(1), read="2026-11-29T13:00:00", operations_through_at=None))
    assert "OperationsForgotten" not in _kinds(database)
    _record(database, observation(_vm(1), read="2026-11-29T13:01:00"))
    _record(database, observation(_vm(1), read="2026-11-29T13:02:00"))
    assert _kinds(database).count("OperationsForgotten") == 1


def test_a_type_that_becomes_known_is_charged_from_the_start_at_once(sqlite_database: Database) -> None:
    """The charge does not wait for the next midnight: until then the spend would lack it."""
    unknown = Shape("a2-highgpu-1g", 0, 0)
    with sqlite_database.write() as connection:
        rate = Money.of(1).nanos
        for resource, unit in (("a2:core", Unit.HOUR), ("a2:ram", Unit.GIB_HOUR), ("gpu:nvidia-tesla-a100", Unit.HOUR)):
            key = PriceKey(resource, "us-central1", ProvisioningModel.STANDARD)
            prices.add(connection, [Price(key, unit, rate, at("00:00"), "test")], at("00:00"))
    _record(sqlite_database, observation(_vm(1, shape=unknown, disks=())))
    morning = at("2026-11-03T08:00:00")
    with sqlite_database.write() as connection:
        charge_due(connection, morning)
    _record(sqlite_database, observation(_vm(1, disks=(), fingerprint="known"), read="2026-11-03T08:01:00"))
    with sqlite_database.write() as connection:
        assert charge_due(connection, morning).charges == 3


def test_late_change_of_an_archived_run_is_refused_and_said(database: Database) -> None:
    """The run stays as it was billed; one event says what Google told, in place of one that tells of a correction."""
    _record(database, observation(seen()))
    stopped = seen(Status.STOPPED, last_stopped_at="11:30", fingerprint="g")
    _record(database, observation(stopped))
    with database.write() as connection:
        connection.execute(update(lifetimes).values(archive_id=1))
    late = observation(stopped, read="12:30", operations=(operation("stop", "10:40", "10:45"),))
    _record(database, late)
    _record(database, replace(late, read_at=at("12:31")))
    with database.read() as connection:
        assert connection.scalar(select(lifetimes.c.ended_at)) == at("11:30")
        recorded = [stored.event for stored in audit_log.read(connection)]
    (refused,) = [event for event in recorded if event.kind == "LateChangeRefused"]
    assert "run of vm that began at 2026-11-02 10:00 UTC ended at 2026-11-02 10:40 UTC" in refused.text
    assert "LifetimeEndCorrected" not in {event.kind for event in recorded}
