"""The audit log of the simulated cloud: its entries next to recorded ones, and what becomes of them on their way."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import requests
from tests.sandbox.vms import MINUTE, PROJECT, SPOT, START, ZONE, body, new_world, up

from costguard_sandbox.clock import pacific
from costguard_sandbox.gce.groups import service_agent
from costguard_sandbox.server import running
from costguard_sandbox.world import World

TOPIC, SUBSCRIPTION = "projects/acme-events/topics/costguard", "projects/acme-events/subscriptions/costguard"
RECORDED = Path(__file__).parents[3] / "shared/outside/audit-log/entries"
HOUR = timedelta(hours=1)
Entry = Mapping[str, Any]


@pytest.fixture
def world() -> World:
    world = new_world()
    world.pubsub.add_topic(TOPIC)
    world.pubsub.add_subscription(SUBSCRIPTION, TOPIC, 600)
    world.audit.send_to(TOPIC)
    return world


def arrived(world: World) -> list[Entry]:
    """Every message until now, in the order in which they came, acknowledged."""
    entries: list[Entry] = []
    while received := world.pubsub.pull(SUBSCRIPTION, 100):
        world.pubsub.acknowledge(SUBSCRIPTION, [one["ackId"] for one in received])
        entries += [orjson.loads(base64.b64decode(one["message"]["data"])) for one in received]
    return entries


def of(entries: list[Entry], method: str, mark: str = "") -> list[Entry]:
    return [
        one
        for one in entries
        if one["protoPayload"]["methodName"].endswith(method) and (not mark or mark in one.get("operation", {}))
    ]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def recorded(name: str) -> Entry:
    if not RECORDED.exists():
        pytest.skip("../shared/outside/audit-log is not there: entries are not compared with recorded ones")
    (file,) = RECORDED.glob(f"{name}_*.json")
    entry: Entry = json.loads(file.read_text())
    return entry


def paths(value: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """Each path of keys with the type of its value; elements of lists have one path. The request is the caller's."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{above}{key}", type(inner).__name__
            if above + key != "protoPayload.request":
                yield from paths(inner, f"{above}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from paths(inner, f"{above}[].")


# Recorded entries of one and the same kind have these or not.
SOMETIMES = {
    "protoPayload.authenticationInfo.principalSubject",
    "protoPayload.requestMetadata.callerIp",
    "protoPayload.requestMetadata.destinationAttributes",
    "protoPayload.requestMetadata.requestAttributes",
    "protoPayload.requestMetadata.requestAttributes.auth",
    "protoPayload.requestMetadata.requestAttributes.reason",
    "protoPayload.requestMetadata.requestAttributes.time",
    "protoPayload.response.clientOperationId",
    "protoPayload.serviceData",
}


@pytest.mark.parametrize(
    ("name", "method", "mark"),
    [
        ("042", "instances.insert", "first"),
        ("044", "instances.insert", "first"),
        ("043", "instances.insert", "last"),
        ("065", "instances.insert", "last"),
        ("046", "instances.reset", "first"),
        ("015", "instances.migrateOnHostMaintenance", "first"),
    ],
)
def test_entries_have_the_keys_and_forms_of_recorded_ones(world: World, name: str, method: str, mark: str) -> None:
    """Key by key, with the type of each value: no more and no less than a recorded entry of the same kind."""
    example = recorded(name)
    if "cloudservices" in example["protoPayload"]["authenticationInfo"]["principalEmail"]:
        world.insert(PROJECT, ZONE, body("vm"), service_agent(PROJECT))
    else:
        world.insert(PROJECT, ZONE, body("vm"))
    world.advance(MINUTE)
    world.request("reset", PROJECT, ZONE, "vm")
    world.trigger("migrate", PROJECT, "vm")
    world.advance(HOUR)
    (entry,) = of(arrived(world), method, mark)
    ours = {(path, kind) for path, kind in paths(entry) if path not in SOMETIMES}
    theirs = {(path, kind) for path, kind in paths(example) if path not in SOMETIMES}
    assert ours == theirs
    for key in ("severity", "logName"):
        assert entry[key].rpartition("/")[2] == example[key].rpartition("/")[2]
    assert entry["resource"]["type"] == example["resource"]["type"]
    assert entry["operation"]["producer"] == example["operation"]["producer"].replace("type.goog", "compute.goog")


def test_a_first_entrys_request_has_the_forms_of_recorded_requests(world: World) -> None:
    """Labels are a list of key and value; scheduling is what the caller sent; sizes are texts; no metadata is shown."""
    example = recorded("044")["protoPayload"]["request"]
    metadata: dict[str, Any] = {"metadata": {"items": [{"key": "startup-script", "value": "secret"}]}}
    world.insert(PROJECT, ZONE, body("vm", labels={"team": "speech"}, **SPOT, **metadata))
    world.advance(MINUTE)
    (entry,) = of(arrived(world), "instances.insert", "first")
    request = entry["protoPayload"]["request"]
    assert request["labels"] == [{"key": "team", "value": "speech"}]
    assert request["@type"] == example["@type"]
    assert request["scheduling"] == SPOT["scheduling"]
    assert isinstance(request["disks"][0]["initializeParams"]["diskSizeGb"], str)
    assert "metadata" not in request
    assert {*request} <= {*example, "metadata", "deletionProtection", "canIpForward"}


def test_an_insert_has_two_entries_of_one_operation(world: World) -> None:
    """The first with request and response, the last with neither; both name the VM by its number and its caller."""
    operation = world.insert(PROJECT, ZONE, body("vm"), "ben@example.com")
    world.advance(MINUTE)
    first, last = arrived(world)
    vm = world.instance(PROJECT, "vm")
    assert first["operation"] == {"first": True, "id": operation.name, "producer": "compute.googleapis.com"}
    assert last["operation"] == {"last": True, "id": operation.name, "producer": "compute.googleapis.com"}
    assert first["insertId"] != last["insertId"]
    assert first["protoPayload"]["response"]["targetId"] == str(vm.id)
    assert first["protoPayload"]["response"]["insertTime"] == pacific(operation.insert_time)
    for entry in (first, last):
        assert entry["resource"]["labels"] == {"instance_id": str(vm.id), "project_id": PROJECT, "zone": ZONE}
        assert entry["protoPayload"]["authenticationInfo"]["principalEmail"] == "ben@example.com"
        assert entry["protoPayload"]["resourceName"] == f"projects/{PROJECT}/zones/{ZONE}/instances/vm"
    assert set(last["protoPayload"]["request"]) == {"@type"}
    assert operation.end_time is not None
    assert moment(last["timestamp"]) >= operation.end_time


def test_stamps_lie_where_recorded_ones_do(world: World) -> None:
    """A first entry within -.09 and .25 s of its operation's millisecond; each received within 2.9 s of its stamp."""
    for number in range(40):
        world.insert(PROJECT, ZONE, body(f"vm-{number}"))
        world.advance(MINUTE)
    entries = arrived(world)
    for entry in of(entries, "insert", "first"):
        at = datetime.fromtimestamp(int(entry["operation"]["id"].split("-")[1]) / 1000, UTC)
        assert -0.091 <= (moment(entry["timestamp"]) - at).total_seconds() <= 0.251
    for entry in entries:
        assert 0.3 <= (moment(entry["receiveTimestamp"]) - moment(entry["timestamp"])).total_seconds() <= 2.91


@pytest.mark.parametrize(
    ("event", "method"),
    [
        ("preempt", "compute.instances.preempted"),
        ("host-error", "compute.instances.hostError"),
        ("guest-shutdown", "compute.instances.guestTerminate"),
    ],
)
def test_a_system_event_is_earlier_than_its_entry(world: World, event: str, method: str) -> None:
    """The millisecond of the event is in its operation's id; the entry's own stamp lags by up to 101 s."""
    up(world, **SPOT)
    arrived(world)
    operation = world.trigger(event, PROJECT, "vm")
    world.advance(HOUR)
    (entry,) = of(arrived(world), method)
    assert entry["operation"] == {"first": True, "last": True, "id": operation.name, "producer": method}
    assert entry["logName"].endswith("cloudaudit.googleapis.com%2Fsystem_event")
    at = datetime.fromtimestamp(int(operation.name.split("-")[1]) / 1000, UTC)
    assert at == operation.insert_time
    assert timedelta(milliseconds=150) <= moment(entry["timestamp"]) - at <= timedelta(seconds=101)
    assert entry["protoPayload"]["authenticationInfo"] == {"principalEmail": "system@google.com"}
    assert entry["protoPayload"]["status"] == {"message": operation.status_message}


def test_a_run_limit_and_a_restart_write_their_own_system_events(world: World) -> None:
    """A VM that reached its maxRunDuration, and one that Google restarts after a host error."""
    limit: dict[str, Any] = {"scheduling": {"maxRunDuration": {"seconds": "600"}, "instanceTerminationAction": "STOP"}}
    up(world, "limited", **limit)
    up(world, "restarted")
    world.trigger("host-error", PROJECT, "restarted")
    world.advance(HOUR)
    methods = {one["protoPayload"]["methodName"] for one in arrived(world)}
    assert {"compute.instances.deferredStop", "compute.instances.automaticRestart"} <= methods


def test_a_refused_call_has_one_entry_without_an_operation(world: World) -> None:
    """Severity ERROR, the code of google.rpc, and the form of a recorded refusal."""
    with running(world) as url:
        place = f"{url}/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances"
        assert requests.delete(f"{place}/nothing", timeout=30).status_code == 404
        assert requests.post(place, json=body("vm", machine="z9-none"), timeout=30).status_code == 400
        assert requests.get(f"{place}/nothing", timeout=30).status_code == 404
    world.advance(MINUTE)
    unknown, invalid = sorted(arrived(world), key=lambda one: str(one["protoPayload"]["methodName"]))
    assert "operation" not in unknown
    assert (unknown["severity"], unknown["protoPayload"]["status"]["code"]) == ("ERROR", 5)
    assert unknown["protoPayload"]["methodName"] == "v1.compute.instances.delete"
    assert unknown["protoPayload"]["response"]["@type"] == "type.googleapis.com/error"
    assert unknown["resource"]["labels"]["instance_id"] == ""
    assert (invalid["severity"], invalid["protoPayload"]["status"]["code"]) == ("ERROR", 3)
    assert invalid["protoPayload"]["request"]["name"] == "vm"


def test_an_insert_that_fails_says_so_in_its_last_entry(world: World) -> None:
    """It was accepted, so it has a first entry; the last one is an error and no VM is there."""
    world.faults.add("stockout")
    world.insert(PROJECT, ZONE, body("vm"))
    world.advance(MINUTE)
    first, last = arrived(world)
    assert first["severity"] == "NOTICE"
    assert (last["severity"], last["protoPayload"]["status"]["code"]) == ("ERROR", 8)


BULK_RECORDED = Path(__file__).parents[1] / "ledger" / "recorded_entries.json"


@pytest.mark.parametrize(("name", "number"), [("bulkInsert-first", 0), ("bulkInsert-vm", 1)])
def test_entries_of_a_bulk_insert_have_the_forms_of_recorded_ones(world: World, name: str, number: int) -> None:
    """The first entry is of an audited resource and has the request; each VM has one, first and last at once."""
    given = {key: value for key, value in body().items() if key != "name"} | {"machineType": "n1-standard-4"}
    world.bulk_insert(PROJECT, f"zones/{ZONE}", {"count": "2", "namePattern": "w-##", "instanceProperties": given})
    world.advance(5 * MINUTE)
    entries = of(arrived(world), "instances.bulkInsert")
    own = [one for one in entries if one["resource"]["type"] == "audited_resource"]
    of_vms = [one for one in entries if one["resource"]["type"] == "gce_instance"]
    assert [sorted(one["operation"].keys() & {"first", "last"}) for one in own] == [["first"], ["last"]]
    assert len(of_vms) == 2
    assert of(entries, "instances.insert") == []
    recorded_ones = json.loads(BULK_RECORDED.read_text("utf-8"))["entries"]
    (wanted,) = [one["entry"] for one in recorded_ones if one["id"] == name]
    made = [own[0], of_vms[0]][number]
    left_out = {"receiveTimestamp", "protoPayload.authenticationInfo", "protoPayload.requestMetadata"}  # cut there
    missing = {path for path, _ in paths(wanted)} - {path for path, _ in paths(made)} - left_out
    assert missing == set()
    assert made["operation"].keys() == wanted["operation"].keys()
    assert made["resource"]["labels"].keys() == wanted["resource"]["labels"].keys()
    if number == 0:
        assert made["protoPayload"]["response"]["operationGroupId"]
        assert made["protoPayload"]["request"]["instanceProperties"]["machineType"] == "n1-standard-4"
    else:
        assert list(made["protoPayload"]["request"]) == ["@type"]


def test_without_a_sink_nothing_is_written() -> None:
    """A simulation without a feed has the same history as before."""
    world = new_world()
    up(world)
    assert len(world.audit.written) == 0


def fill(world: World, number: int) -> list[Entry]:
    for at in range(number):
        world.insert(PROJECT, ZONE, body(f"vm-{at}"))
    world.advance(HOUR)
    return arrived(world)


def test_dropped_and_doubled_shares_are_what_was_set(world: World) -> None:
    """A tenth of 400 entries is lost, about, and a twentieth comes twice."""
    world.audit.faults.add("drop", share=0.1)
    world.audit.faults.add("double", share=0.05)
    entries = fill(world, 200)
    assert len(entries) == 400 - len(world.audit.lost) + world.audit.doubled
    assert 20 <= len(world.audit.lost) <= 60
    assert 8 <= world.audit.doubled <= 35


def test_disorder_moves_entries_by_up_to_the_given_time(world: World) -> None:
    """The same entries come, none earlier, in another order, the last of them within the time."""
    world.audit.faults.add("disorder", seconds=1200)
    for at in range(50):
        world.insert(PROJECT, ZONE, body(f"vm-{at}"))
    world.advance(timedelta(seconds=1300))
    entries = arrived(world)
    assert len(entries) == 100
    stamps = [moment(one["timestamp"]) for one in entries]
    assert stamps != sorted(stamps)


def test_faults_of_one_part_leave_the_others_alone(world: World) -> None:
    """First entries are lost, last ones come."""
    world.audit.faults.add("drop", share=1, part="first")
    entries = fill(world, 5)
    assert len(of(entries, "insert", "last")) == 5
    assert len(of(entries, "insert", "first")) == 0


def test_torn_and_foreign_messages_come_next_to_the_others(world: World) -> None:
    """A message holds half of an entry's bytes, and another an entry of another service."""
    world.audit.faults.add("torn", share=1, part="first")
    world.audit.faults.add("foreign", share=1, part="last")
    world.insert(PROJECT, ZONE, body("vm"))
    world.advance(HOUR)
    received = world.pubsub.pull(SUBSCRIPTION, 100)
    texts = [base64.b64decode(one["message"]["data"]) for one in received]
    assert len(texts) == 3
    broken = [text for text in texts if not text.endswith(b"}")]
    assert len(broken) == 1
    assert sum(b"storage.googleapis.com" in text for text in texts) == 1


def test_the_same_seed_gives_the_same_messages() -> None:
    """Everything that happens to entries is drawn from the seed and the entry alone."""

    def messages(seed: int) -> list[Any]:
        world = new_world(seed=seed)
        world.pubsub.add_topic(TOPIC)
        world.pubsub.add_subscription(SUBSCRIPTION, TOPIC, 600)
        world.audit.send_to(TOPIC)
        for kind, key, value in (("drop", "share", 0.2), ("double", "share", 0.2), ("disorder", "seconds", 600)):
            world.audit.faults.add(kind, **{key: value})
        return fill(world, 20)

    assert messages(1) == messages(1)
    assert messages(1) != messages(2)


def test_sink_and_faults_are_set_over_http(world: World) -> None:
    """The control API makes the sink, adds and clears faults, and says what is wrong with a fault."""
    with running(world) as url:
        assert requests.post(f"{url}/sandbox/audit", json={"topic": ""}, timeout=30).json()["topic"] == ""
        assert requests.post(f"{url}/sandbox/audit", json={"topic": TOPIC}, timeout=30).json()["topic"] == TOPIC
        fault = {"kind": "drop", "share": 0.5, "part": "first"}
        assert requests.post(f"{url}/sandbox/audit/faults", json=fault, timeout=30).json() == {"id": 1, **fault}
        wrong = requests.post(f"{url}/sandbox/audit/faults", json={"kind": "drop", "share": 2}, timeout=30)
        assert "'share' must be a number from 0 to 1, not 2" in wrong.json()["error"]["message"]
        assert requests.delete(f"{url}/sandbox/audit/faults", timeout=30).json() == {"cleared": 1}
        world.insert(PROJECT, ZONE, body("vm"))
        world.advance(MINUTE)
        shown = requests.get(f"{url}/sandbox/audit", timeout=30).json()
    assert shown["written"] == 2
    assert moment(shown["entries"][0]["timestamp"]) >= START - timedelta(seconds=1)
