"""VMs of bulk inserts are priced by what was asked for all of them: recorded entries, in any order, torn ones."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select
from tests.builders import observation, operation
from tests.fakes import FakeCloud, HandClock
from tests.ledger.ledger_rows import rows_of_project
from tests.ledger.test_feed_record import BELONGING, hear, look, rows

from costguard.db.tables import feed_requests, instances, lifetimes
from costguard.db.transaction import Database
from costguard.ledger.feed.bulk import BulkRequest, request_of
from costguard.ledger.feed.entry import FeedEntry, read_entry
from costguard.ledger.feed.late_answers import LateAnswers
from costguard.ledger.feed.record import record_entries
from costguard.ledger.record import record
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.observation import SeenOperation

RECORDED: dict[str, Any] = {
    one["id"]: one["entry"]
    for one in json.loads(Path(__file__).with_name("recorded_entries.json").read_text("utf-8"))["entries"]
    if one["id"].startswith("bulkInsert")
}
MADE_AT = datetime(2023, 5, 8, 3, 24, 16, 483_000, tzinfo=UTC)  # by the number in the recorded operation's name
_NUMBERS = count(1)


def entry(name: str, project: str = "project-1", **more: Any) -> FeedEntry:
    """Reads a recorded entry, in another project, with other fields of its payload."""
    text = json.dumps(copy.deepcopy(RECORDED[name])).replace("project-1", project)
    raw = json.loads(text)
    raw["protoPayload"] |= more
    said = read_entry(raw)
    assert said is not None
    return said


def parent(**more: Any) -> BulkRequest:
    bulk = entry("bulkInsert-first", **more).bulk
    assert bulk is not None
    return bulk


def asked(**more: Any) -> dict[str, Any]:
    """Makes the recorded request with other fields."""
    return {**RECORDED["bulkInsert-first"]["protoPayload"]["request"], **more}


def child(**more: Any) -> SeenOperation:
    """Makes the recorded VM's insert."""
    values: dict[str, Any] = {
        "operation_id": "operation-1683516259402-5fb262c9d8409-aac872ad-92d014db",
        "target_id": "8693801480000000000",
        "target_name": "inst-0003",
        "project": "project-1",
        "zone": "asia-southeast1-b",
        "user": "",
        "inserted_at": MADE_AT + timedelta(seconds=2.919),
        "started_at": MADE_AT + timedelta(seconds=2.919),
    }
    return replace(operation("insert", "11:00", "11:01"), **{**values, **more})


class _Cloud(FakeCloud):
    def shape(self, project: str, zone: str, machine_type: str) -> Shape | None:
        return Shape(machine_type, 2, 8192) if machine_type == "e2-standard-2" else None


def watch(database: Database, project: str) -> None:
    look(database, replace(observation(read="10:00"), project=project, read_at=MADE_AT - timedelta(hours=1)))


def hear_bulk(database: Database, *entries: FeedEntry) -> None:
    record_entries(database, _Cloud(), entries, BELONGING, None, MADE_AT + timedelta(minutes=1))


def later(database: Database) -> int:
    return LateAnswers(database, _Cloud(), HandClock(MADE_AT + timedelta(minutes=2)), BELONGING).run(None)


def test_the_recorded_request_is_of_all_its_vms() -> None:
    """It names no VM: the place, the pattern of the names, and what each VM is."""
    bulk = parent()
    assert (bulk.place, bulk.pattern, bulk.names, bulk.at) == ("zones/asia-southeast1-b", "inst-####", (), MADE_AT)
    assert (bulk.request.machine_type, bulk.request.provisioning) == ("e2-standard-2", ProvisioningModel.SPOT)
    assert entry("bulkInsert-vm").bulk is None
    assert entry("bulkInsert-first", status={"code": 7, "message": "denied"}).bulk is None  # nothing was made


@pytest.mark.parametrize(
    ("more", "is_its"),
    [
        ({}, True),
        ({"target_name": "inst-12345"}, True),  # more VMs than the pattern has places
        ({"target_name": "inst-003"}, False),
        ({"target_name": "inst-000x"}, False),
        ({"target_name": "other-0003"}, False),
        ({"zone": "asia-southeast1-a"}, False),
        ({"user": "eve@example.com"}, True),  # the recorded entry does not say whose call it was
        ({"inserted_at": MADE_AT - timedelta(seconds=6)}, False),
        ({"inserted_at": MADE_AT + timedelta(minutes=11)}, False),
    ],
)
def test_an_insert_is_of_the_bulk_insert_that_its_name_place_and_time_fit(more: dict[str, Any], is_its: bool) -> None:
    """Nothing in the recorded entry of a VM names its bulk insert."""
    assert (request_of(child(**more), [parent()]) is not None) is is_its


def test_names_may_be_given_one_by_one_as_a_map_or_as_the_log_shows_maps() -> None:
    """The log has maps as lists of key and value, as recorded labels."""
    for given_ in (
        {"anna": {}, "bert": {"name": "bert2"}},
        [{"key": "anna"}, {"key": "bert", "value": {"name": "bert2"}}],
    ):
        bulk = parent(request=asked(namePattern=None, perInstanceProperties=given_))
        assert bulk.names == ("anna", "bert2")
        assert request_of(child(target_name="anna"), [bulk]) is not None
        assert request_of(child(target_name="bert"), [bulk]) is None


def test_a_bulk_insert_of_a_region_is_of_all_its_zones() -> None:
    """The method is of `regionInstances`; the address has the region."""
    bulk = parent(
        methodName="v1.compute.regionInstances.bulkInsert",
        resourceName="projects/project-1/regions/asia-southeast1/instances",
    )
    assert bulk.place == "regions/asia-southeast1"
    assert request_of(child(zone="asia-southeast1-c"), [bulk]) is not None
    assert request_of(child(zone="asia-southeast2-a"), [bulk]) is None


def test_what_several_bulk_inserts_differ_in_is_unknown() -> None:
    """The same names within minutes: where both asked for the same, it is known; else nothing is guessed."""
    same, other = parent(), parent(request=asked(instanceProperties={"machineType": "n1-standard-8"}))
    assert request_of(child(), [same, replace(same, at=MADE_AT + timedelta(seconds=1))]) == request_of(child(), [same])
    assert request_of(child(), [same, other]) is None


def test_another_callers_bulk_insert_made_none_of_it() -> None:
    """Groups and GKE insert in the name of a service account of Google, people in theirs."""
    gke = parent(authenticationInfo={"principalEmail": "503076212345@cloudservices.gserviceaccount.com"})
    assert request_of(child(user="ana@example.com"), [gke]) is None
    assert request_of(child(user=gke.user), [gke]) is not None


def test_a_machine_type_that_google_chose_is_unknown() -> None:
    """`instanceFlexibilityPolicy` has several: which one a VM got, only a listing or its asset says."""
    bulk = parent(request=asked(instanceFlexibilityPolicy={"instanceSelections": {"a": {"machineTypes": ["n2-a"]}}}))
    request = request_of(child(), [bulk])
    assert request is not None
    assert request.machine_type is None


def test_a_second_disk_is_named_after_its_vm() -> None:
    """Google names a disk without a name after the VM, with a number."""
    disks = [{"boot": True, "initializeParams": {"diskSizeGb": "10"}}, {"initializeParams": {"diskSizeGb": "50"}}]
    bulk = parent(request=asked(instanceProperties={"machineType": "n1-standard-8", "disks": disks}))
    request = request_of(child(), [bulk])
    assert request is not None
    assert [disk.name for disk in request.disks] == ["", "inst-0003-1"]


@pytest.mark.parametrize("order", ["first its request", "first its VM", "in one batch", "in one batch, turned round"])
def test_a_recorded_vm_of_a_bulk_insert_is_known_in_any_order(database: Database, order: str) -> None:
    """The entry of the VM has no request: machine type, Spot and disk are from that of the bulk insert."""
    watch(database, "project-1")
    both = [entry("bulkInsert-first"), entry("bulkInsert-vm")]
    both = both[::-1] if order in ("first its VM", "in one batch, turned round") else both
    for batch in [both] if "batch" in order else [both[:1], both[1:]]:
        hear_bulk(database, *batch)
    assert later(database) == (1 if order == "first its VM" else 0)
    [vm], [life] = rows(database, instances), rows(database, lifetimes)
    assert (vm.name, vm.gce_id, vm.machine_type) == ("inst-0003", "8693801480000000000", "e2-standard-2")
    assert (life.machine_type, life.provisioning_model, life.vcpus) == ("e2-standard-2", "spot", 2)
    assert life.started_at == datetime(2023, 5, 8, 3, 24, 24, 732_468, tzinfo=UTC)
    assert later(database) == 0  # nothing is left


def test_an_insert_that_only_the_list_of_operations_showed_is_known_too(sqlite_database: Database) -> None:
    """The VM's own entry was lost, and the VM is gone before the listing: the operation has its name and its times."""
    watch(sqlite_database, "project-1")
    hear_bulk(sqlite_database, entry("bulkInsert-first"))
    ops = (child(ended_at=MADE_AT + timedelta(seconds=8)),)
    shown = replace(observation(), project="project-1", operations=ops, read_at=MADE_AT + timedelta(minutes=5))
    record(sqlite_database, _Cloud(), shown, BELONGING, None)
    [vm] = rows(sqlite_database, instances)
    assert (vm.machine_type, vm.provisioning_model) == ("e2-standard-2", "spot")


def test_without_its_request_the_vm_is_counted_and_remembered(sqlite_database: Database) -> None:
    """The entry of the bulk insert was lost: the machine is unknown, and no price is made up."""
    watch(sqlite_database, "project-1")
    hear_bulk(sqlite_database, entry("bulkInsert-vm"))
    assert later(sqlite_database) == 0
    [life] = rows(sqlite_database, lifetimes)
    assert (life.machine_type, life.vcpus) == ("", 0)
    with sqlite_database.read() as connection:
        assert list(connection.scalars(select(feed_requests.c.gce_id))) == ["8693801480000000000"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(data=st.data())
def test_order_and_doubles_of_bulk_entries_change_nothing_in_the_end(
    sqlite_database: Database, data: st.DataObject
) -> None:
    """Five VMs and their bulk insert come in any order and batches, some twice: the ledger is the same."""
    ordered, mixed = (f"project-{next(_NUMBERS):06d}" for _ in range(2))
    for project in (ordered, mixed):
        watch(sqlite_database, project)

    def stream(project: str) -> list[FeedEntry]:
        vms = []
        for number in range(5):
            raw = json.loads(json.dumps(RECORDED["bulkInsert-vm"]).replace("project-1", project))
            raw["resource"]["labels"]["instance_id"] = str(8693801480000000000 + number)
            raw["operation"]["id"] = f"operation-168351625940{number}-{project}"
            raw["protoPayload"]["resourceName"] = raw["protoPayload"]["resourceName"].replace("0003", f"000{number}")
            vms.append(read_entry(raw))
        return [entry("bulkInsert-first", project), *(one for one in vms if one is not None)]

    hear_bulk(sqlite_database, *stream(ordered))
    entries = stream(mixed)
    twice = data.draw(st.lists(st.sampled_from(range(len(entries))), max_size=3))
    entries = [entries[place] for place in data.draw(st.permutations([*range(len(entries)), *twice]))]
    while entries:
        size = data.draw(st.integers(1, len(entries)))
        hear_bulk(sqlite_database, *entries[:size])
        entries = entries[size:]
    later(sqlite_database)
    assert rows_of_project(sqlite_database, mixed) == rows_of_project(sqlite_database, ordered)
    machines = {(life.project, life.machine_type) for life in rows(sqlite_database, lifetimes)}
    assert {machine for project, machine in machines if project in (ordered, mixed)} == {"e2-standard-2"}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["key", "value", "name", "zones", "instanceProperties"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200, deadline=None)
@given(
    name=st.sampled_from(sorted(RECORDED)),
    place=st.sampled_from(["request", "response", "resourceName", "authenticationInfo", "methodName"]),
    field=st.sampled_from(["", "namePattern", "perInstanceProperties", "instanceProperties", "count", "zone"]),
    value=_JSON,
)
def test_torn_bulk_entries_harm_nothing(
    sqlite_database: Database, name: str, place: str, field: str, value: Any
) -> None:
    """Any part of a bulk entry may be replaced by anything: it is read without an error, recorded or passed over."""
    watch(sqlite_database, "project-1")
    given_ = value
    if field and isinstance(RECORDED[name]["protoPayload"].get(place), dict):
        given_ = {**RECORDED[name]["protoPayload"][place], field: value}
    hear_bulk(sqlite_database, entry(name, **{place: given_}))
    later(sqlite_database)
    assert hear(sqlite_database, at_="11:03").entries == 0


def test_a_vm_that_a_group_makes_by_a_bulk_insert_is_unowned(sqlite_database: Database) -> None:
    """Such VMs are made in the name of Google's service agent, behind which any person may stand."""
    watch(sqlite_database, "project-1")
    agent = {"principalEmail": "503076212345@cloudservices.gserviceaccount.com"}
    hear_bulk(
        sqlite_database,
        entry("bulkInsert-first", authenticationInfo=agent),
        entry("bulkInsert-vm", authenticationInfo=agent),
    )
    [vm] = rows(sqlite_database, instances)
    assert (vm.machine_type, vm.owner) == ("e2-standard-2", "")
