"""Entries of the audit log go into the ledger: once, in any order, and corrected by the next listing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Table, func, select
from tests.builders import PROJECT, at, observation, operation, seen
from tests.fakes import FakeCloud
from tests.ledger.heard_entries import SPOT, Call, request, system_event
from tests.ledger.ledger_rows import rows_of_project

from costguard.daemon import feed_state
from costguard.db.tables import charges, feed_requests, feed_wire, instances, lifetimes, operations, storage_spans
from costguard.db.transaction import Database
from costguard.db.upsert import upsert
from costguard.ledger import prices
from costguard.ledger.charged.charging import charge_due
from costguard.ledger.feed import heard_projects
from costguard.ledger.feed.entry import FeedEntry
from costguard.ledger.feed.record import FeedRecorded, record_entries
from costguard.ledger.looks.record_unchanged import record_unchanged
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.ledger.record import record
from costguard.model.instance import AttachedDisk, InstanceKey, ProvisioningModel, SeenInstance, Shape, Status
from costguard.model.money import Money
from costguard.model.observation import Observation, OperationStatus, SeenOperation
from costguard.model.price import Price, PriceKey, Unit

BELONGING = Belonging((), OwnerRules(domain="example.com"))
N1 = Shape("n1-standard-8", 8, 30720)
INSERT = Call("insert", at("11:00"))
DELETE = Call("delete", at("11:01:40"))
LIFE = (
    INSERT.first(request()),
    INSERT.last(at("11:00:10")),
    DELETE.first(),
    DELETE.last(at("11:02:10")),
)


def hear(database: Database, *entries: FeedEntry, cloud: FakeCloud | None = None, at_: str = "11:03") -> FeedRecorded:
    return record_entries(database, cloud or FakeCloud(), entries, BELONGING, None, at(at_))


def look(database: Database, shown: Observation, cloud: FakeCloud | None = None) -> None:
    record(database, cloud or FakeCloud(), shown, BELONGING, None)


@pytest.fixture
def watched(sqlite_database: Database) -> Database:
    look(sqlite_database, observation(read="10:00"))
    return sqlite_database


def rows(database: Database, table: Table) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(select(table)))


def listed(**given: Any) -> SeenInstance:
    """The VM of INSERT as a listing shows it: its start stamp is 0.3 s after the operation's end."""
    values = {
        "key": InstanceKey(PROJECT, "71"),
        "name": "vm-71",
        "shape": N1,
        "created_at": at("11:00:00.500"),
        "started": "11:00:09.700",
        "external_addresses": 1,
        "labels": {"owner": "eve"},
        "disks": (AttachedDisk("vm-71", 100, "pd-balanced", at("11:00:00.900"), True, True, "d1"),),
    }
    return seen(**{**values, **given})


def listed_operation(call: Call, ended: str | None) -> SeenOperation:
    """The operation of a call as the list of operations shows it."""
    return operation(
        call.method,
        "11:00",
        None,
        operation_id=call.number,
        name=call.operation,
        target_id=call.gce_id,
        target_name=call.name,
        project=call.project,
        user=call.principal,
        inserted_at=call.inserted,
        started_at=call.inserted,
        ended_at=at(ended) if ended else None,
        status=OperationStatus.DONE if ended else OperationStatus.RUNNING,
    )


def test_a_vm_is_in_the_ledger_from_its_first_entry_on(database: Database) -> None:
    """The request tells its machine type, labels and owner before any listing; nothing is billed before it runs."""
    look(database, observation(read="10:00"))
    assert hear(database, INSERT.first(request(scheduling=SPOT))).new_vms == 1
    [vm] = rows(database, instances)
    assert (vm.name, vm.status, vm.machine_type, vm.vcpus) == ("vm-71", "provisioning", "n1-standard-8", 8)
    assert (vm.provisioning_model, vm.labels, vm.owner) == ("spot", {"owner": "eve"}, "eve@example.com")
    assert (vm.created_by, vm.created_at) == ("ana@example.com", at("11:00:00.500"))
    assert rows(database, lifetimes) == []
    assert rows(database, storage_spans) == []


def test_a_vm_of_90_seconds_that_no_listing_saw_is_priced_to_the_second(database: Database) -> None:
    """It ran for 90 s: eight cores and 30 GiB for that time, its disk from its creation, its address as it ran."""
    with database.write() as connection:
        for resource, unit, rate in (
            ("n1:core", Unit.HOUR, "0.04"),
            ("n1:ram", Unit.GIB_HOUR, "0.004"),
            ("disk:pd-balanced", Unit.GIB_MONTH, "0.10"),
            ("external-ip", Unit.HOUR, "0.005"),
        ):
            region = "global" if resource == "external-ip" else "us-central1"
            key = PriceKey(resource, region, ProvisioningModel.STANDARD)
            prices.add(connection, [Price(key, unit, Money.of(rate).nanos, at("00:00"), "test")], at("00:00"))
    look(database, observation(read="10:00"))
    for entry in LIFE:
        hear(database, entry)
    charge_due(database, at("12:00"))
    [life] = rows(database, lifetimes)
    assert (life.started_at, life.ended_at, life.end_reason) == (at("11:00:10"), at("11:01:40.500"), "deleted")
    assert life.ended_by == "ana@example.com"
    with database.read() as connection:
        sums = select(charges.c.resource, func.sum(charges.c.amount_nanos)).group_by(charges.c.resource)
        charged = {resource: Money(int(nanos)) for resource, nanos in connection.execute(sums)}
    assert charged["n1:core"] == Money.of("0.008")  # 8 x 90 s
    assert charged["n1:ram"] == Money.of("0.003")  # 30 GiB x 90 s
    assert charged["external-ip"] == Money.of("0.000125")
    assert Money.of("0.0004") < charged["disk:pd-balanced"] < Money.of("0.00055")  # 130 s of 100 GiB
    [vm] = rows(database, instances)
    assert vm.gone_at == at("11:02:10")


@pytest.mark.parametrize("reversed_", [False, True])
def test_a_failed_insert_leaves_no_bill(watched: Database, reversed_: bool) -> None:
    """The zone had none left, as the last entry says: the VM never was, whichever entry came first."""
    failed = INSERT.last(at("11:00:05"), code=8, message="ZONE_RESOURCE_POOL_EXHAUSTED: no capacity")
    for entry in (failed, INSERT.first(request())) if reversed_ else (INSERT.first(request()), failed):
        hear(watched, entry)
    assert rows(watched, lifetimes) == []
    assert rows(watched, storage_spans) == []
    assert [vm.gone_at for vm in rows(watched, instances)] in ([], [at("11:00:00.500")])
    [op] = rows(watched, operations)
    assert op.error_code == "ZONE_RESOURCE_POOL_EXHAUSTED"


def test_a_refused_insert_is_no_vm(watched: Database) -> None:
    """It has no operation, so that nothing is recorded."""
    refused = replace(INSERT.last(at("11:00:01"), code=7, message="Permission denied"), operation=None, gce_id=None)
    assert hear(watched, refused).noise == 1
    assert rows(watched, instances) == []


def test_a_batch_without_a_time_was_heard_when_its_newest_entry_was_written(watched: Database) -> None:
    """An entry without any time tells nothing."""
    record_entries(watched, FakeCloud(), LIFE, BELONGING, None)
    with watched.read() as connection:
        assert [project.heard_at for project in heard_projects.read_all(connection)] == [at("11:02:10")]
    timeless = replace(INSERT.first(), written_at=None, at=None)
    assert record_entries(watched, FakeCloud(), [timeless], BELONGING, None).noise == 1


def test_entries_of_projects_that_are_not_watched_are_counted(watched: Database) -> None:
    """Nothing of them is stored."""
    entry = Call("insert", at("11:00"), project="other-project").first(request())
    done = hear(watched, entry, *LIFE[:1])
    assert (done.unwatched, done.new_vms, done.projects) == (1, 1, frozenset({PROJECT}))


def test_a_machine_type_that_cannot_be_read_is_unknown_until_it_can(watched: Database) -> None:
    """The VM is there without a price; what was asked for is kept, and read again with its next operation."""
    strange = request("x9-odd-8")
    hear(watched, INSERT.first(strange), INSERT.last(at("11:00:10")))
    [life] = rows(watched, lifetimes)
    assert (life.machine_type, life.vcpus) == ("x9-odd-8", 0)

    class Better(FakeCloud):
        def shape(self, project: str, zone: str, machine_type: str) -> Shape | None:
            return Shape(machine_type, 8, 8192)

    hear(watched, *LIFE[2:], cloud=Better())
    [life] = rows(watched, lifetimes)
    assert (life.vcpus, life.end_reason) == (8, "deleted")


def test_a_listing_forgets_what_was_asked_for(watched: Database) -> None:
    """It says more than the request."""
    hear(watched, *LIFE[:2])
    assert len(rows(watched, feed_requests)) == 1
    look(watched, observation(listed(), read="11:10"))
    assert rows(watched, feed_requests) == []


def test_after_a_listing_the_ledger_is_as_if_the_feed_had_never_been(sqlite_database: Database) -> None:
    """Start stamp, disks, addresses: each is the listing's, to the microsecond, in the rows that the feed made."""
    shown = observation(listed(), operations=(listed_operation(INSERT, "11:00:09.400"),), read="11:10")
    look(sqlite_database, observation(read="10:00"))
    hear(sqlite_database, *LIFE[:2])
    look(sqlite_database, shown)
    from_feed = rows_of_project(sqlite_database, PROJECT)
    other = replace(shown, project="second-project")
    other = replace(
        other,
        instances=tuple(replace(vm, key=InstanceKey("second-project", "71")) for vm in other.instances),
        operations=tuple(
            replace(op, project="second-project", name=op.name.replace(PROJECT, "second-project"))
            for op in other.operations
        ),
    )
    look(sqlite_database, replace(observation(read="10:00"), project="second-project"))
    look(sqlite_database, other)
    assert from_feed == rows_of_project(sqlite_database, "second-project")
    [life] = [row for row in from_feed["lifetimes"] if "started_at" in row]
    assert f"'started_at': {at('11:00:09.700')!r}" in life


def test_a_start_that_the_feed_told_is_charged_again_from_the_better_moment(database: Database) -> None:
    """The charges from the entry's moment on begin at the VM's own stamp once a listing shows it."""
    with database.write() as connection:
        for resource, unit in (("n1:core", Unit.HOUR), ("n1:ram", Unit.GIB_HOUR)):
            key = PriceKey(resource, "us-central1", ProvisioningModel.STANDARD)
            prices.add(connection, [Price(key, unit, Money.of("3.60").nanos, at("00:00"), "test")], at("00:00"))
    look(database, observation(read="10:00"))
    hear(database, INSERT.first(request()), INSERT.last(at("11:00:14")))
    charge_due(database, at("2026-11-03T01:00"))
    with database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(charges))  # up to midnight
    started = listed_operation(INSERT, "11:00:09.400")
    look(database, observation(listed(), operations=(started,), read="2026-11-03T01:10"))
    off = listed(status=Status.STOPPED, last_stopped_at="2026-11-03T11:00:09.700", fingerprint="off")
    look(database, observation(off, read="2026-11-03T12:00"))
    charge_due(database, at("2026-11-03T13:00"))
    with database.read() as connection:
        cores = connection.scalar(select(func.sum(charges.c.amount_nanos)).where(charges.c.resource == "n1:core"))
    assert Money(int(cores or 0)) == Money.of("691.20")  # 8 cores for a day


def test_a_vm_whose_first_entry_was_lost_is_there_without_a_price(watched: Database) -> None:
    """A last entry says that it exists since then; its machine is unknown until a listing shows it."""
    hear(watched, INSERT.last(at("11:00:10")))
    [vm] = rows(watched, instances)
    assert (vm.name, vm.machine_type, vm.status) == ("vm-71", "", "running")
    look(watched, observation(listed(), operations=(listed_operation(INSERT, "11:00:09.400"),), read="11:10"))
    [life] = rows(watched, lifetimes)
    assert (life.machine_type, life.started_at) == ("n1-standard-8", at("11:00:09.700"))
    [op] = rows(watched, operations)
    assert (op.operation_id, op.end_from_entry) == (INSERT.number, False)


def test_an_operation_that_ended_by_the_feed_goes_on_from_there(watched: Database) -> None:
    """A listing that was read before the last entry came does not take the end back."""
    hear(watched, *LIFE[:2])
    look(watched, observation(operations=(listed_operation(INSERT, None),), read="11:00:05"))
    [op] = rows(watched, operations)
    assert (op.status, op.ended_at) == ("done", at("11:00:10"))


def test_a_preemption_ends_the_run_of_a_listed_vm_at_once(watched: Database) -> None:
    """The run ends at the millisecond of the event, 17 s before its entry was written."""
    look(watched, observation(listed(), read="11:10"))
    hear(watched, system_event("preempted", at("11:20:00.250")), at_="11:21")
    [life] = rows(watched, lifetimes)
    assert (life.ended_at, life.end_reason) == (at("11:20:00.250"), "preempted")
    assert [vm.status for vm in rows(watched, instances)] == ["stopped"]


def test_the_listing_is_believed_where_an_event_was_wrong(watched: Database) -> None:
    """A false event ends the run until the next listing, which shows the VM exactly as before."""
    look(watched, observation(listed(), read="11:10"))
    hear(watched, system_event("preempted", at("11:20")), at_="11:21")
    look(watched, observation(listed(), read="11:30"))
    [life] = rows(watched, lifetimes)
    assert (life.ended_at, [vm.status for vm in rows(watched, instances)]) == (None, ["running"])


def test_a_flex_start_vm_that_waits_is_not_billed(watched: Database) -> None:
    """Such an insert is done as its request is made: only a listing tells that it runs."""
    hear(watched, INSERT.first(request(scheduling={"provisioningModel": "FLEX_START"})), INSERT.last(at("11:00:10")))
    assert rows(watched, lifetimes) == []
    assert [vm.status for vm in rows(watched, instances)] == ["provisioning"]


def test_with_gpus_only_a_vm_without_one_is_passed_over(watched: Database) -> None:
    """The rule is that of a listing; a VM whose machine type cannot be read may have GPUs built in."""
    only = replace(BELONGING, gpu_only=True)
    gpu = {"acceleratorType": "x/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}
    entries = [
        Call("insert", at("11:00"), "71").first(request()),
        Call("insert", at("11:00"), "72").first(request(guestAccelerators=[gpu])),
        Call("insert", at("11:00"), "73").first(request("a9-unknown-1g")),
    ]
    record_entries(watched, FakeCloud(), entries, only, None, at("11:03"))
    assert [vm.gce_id for vm in rows(watched, instances)] == ["72", "73"]


def test_what_was_heard_and_missed_is_counted(watched: Database) -> None:
    """Entries and those that came twice by project; an operation that only a list told of, once its entry is due."""
    hear(watched, *LIFE, *LIFE[:2])
    late, soon, change = (
        Call("insert", at("11:10"), "72"),
        Call("insert", at("11:19"), "73"),
        Call("setTags", at("11:10")),
    )
    shown = tuple(
        listed_operation(call, ended) for call, ended in ((late, "11:10:30"), (soon, "11:19:30"), (change, "11:10:20"))
    )
    look(watched, observation(operations=shown, read="11:20"))
    look(watched, observation(operations=shown, read="11:30"))
    with watched.read() as connection:
        [project] = heard_projects.read_all(connection)
    assert (project.entries, project.doubled) == (6, 2)
    assert (project.missed, project.missed_at) == (1, at("11:20"))


def beat(database: Database, sent: str) -> None:
    """A heartbeat that was sent then has come back."""
    with database.write() as connection:
        row = {"subscription": "projects/p/subscriptions/s", "heard_at": at(sent), "can_publish": True, "error": ""}
        upsert(connection, feed_wire, [row], ("subscription",))


def _looked(database: Database, shown: Observation) -> None:
    """Records a look as a pass does: with those that showed nothing new, where it did not."""
    if not record_unchanged(database, [shown], BELONGING, {shown.project: None}):
        look(database, shown)


QUIET = "second-project"


@pytest.mark.parametrize("first_shown", ["11:10:40", "11:20"])
@pytest.mark.parametrize("is_heard", [False, True], ids=["left out", "heard"])
def test_a_project_whose_entries_never_come_is_found_by_its_operations(
    watched: Database, first_shown: str, is_heard: bool
) -> None:
    """Entries of another project come. The operation may be shown before its entry is due, and is no news then."""
    look(watched, replace(observation(read="10:00"), project=QUIET))
    hear(watched, *LIFE)
    call = Call("insert", at("11:10"), "72", QUIET)
    if is_heard:
        hear(watched, call.first(request()), at_="11:10:20")
    shown = replace(observation(operations=(listed_operation(call, "11:10:30"),)), project=QUIET)
    counts = []
    for moment in (first_shown, "11:21", "11:22"):
        beat(watched, moment)
        _looked(watched, replace(shown, read_at=at(moment), operations_through_at=at(moment)))
        with watched.read() as connection:
            of_project = {one.project: one for one in heard_projects.read_all(connection)}
        counts.append(of_project[QUIET].missed if QUIET in of_project else 0)
    assert counts == ([0, 0, 0] if is_heard else [int(first_shown == "11:20"), 1, 1])
    assert of_project[PROJECT].missed == 0
    with watched.read() as connection:
        feeds = feed_state.project_feeds(connection)
    assert (feeds[QUIET].heard_at is None) is not is_heard


def test_nothing_is_missed_while_the_subscription_is_behind(watched: Database) -> None:
    """Entries wait in Pub/Sub after a pause: no heartbeat that was sent after the operation has come back."""
    look(watched, replace(observation(read="10:00"), project=QUIET))
    hear(watched, *LIFE)
    call = Call("insert", at("11:10"), "72", QUIET)
    shown = replace(observation(operations=(listed_operation(call, "11:10:30"),), read="11:30"), project=QUIET)
    beat(watched, "11:12")
    _looked(watched, shown)
    with watched.read() as connection:
        assert [one.project for one in heard_projects.read_all(connection)] == [PROJECT]


def test_an_operation_of_before_a_project_was_watched_is_not_missed(watched: Database) -> None:
    """A project that a search found: its entries of before were of a project that nobody watched."""
    hear(watched, *LIFE)
    call = Call("insert", at("11:10"), "72", QUIET)
    shown = replace(observation(operations=(listed_operation(call, "11:10:30"),)), project=QUIET)
    for moment in ("11:20", "11:21"):
        beat(watched, moment)
        _looked(watched, replace(shown, read_at=at(moment), operations_through_at=at(moment)))
    with watched.read() as connection:
        assert [one.project for one in heard_projects.read_all(connection)] == [PROJECT]


def test_nothing_is_missed_before_the_feed_was_heard(watched: Database) -> None:
    """Where there is no feed, a list of operations is the only source."""
    shown = listed_operation(Call("insert", at("10:10"), "72"), "10:10:30")
    look(watched, observation(operations=(shown,), read="10:30"))
    hear(watched, *LIFE)
    older = listed_operation(Call("insert", at("10:50"), "73"), "10:50:30")
    look(watched, observation(operations=(shown, older), read="11:30"))
    with watched.read() as connection:
        assert [project.missed for project in heard_projects.read_all(connection)] == [0]
