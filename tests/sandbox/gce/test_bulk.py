"""bulkInsert: how many VMs come, where, under which names, and what becomes of too few."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sandbox.gce.conformance.discovery import problems_of, schemas
from tests.sandbox.vms import MINUTE, PROJECT, T4, ZONE, body, new_world, up

from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.world import World

REGION = "regions/us-central1"
ZONES = ("us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f")


@pytest.fixture
def world() -> World:
    return new_world()


def properties(machine: str = "n1-standard-4", **more: Any) -> dict[str, Any]:
    """Returns properties as `instanceProperties` has them: no name, and a machine type without its zone."""
    given = body(machine=machine, **more)
    disk = {**given["disks"][0], "initializeParams": {"diskSizeGb": "50", "diskType": "pd-balanced"}}
    return {key: value for key, value in {**given, "machineType": machine, "disks": [disk]}.items() if key != "name"}


def asked(count: int = 3, **more: Any) -> dict[str, Any]:
    return {"count": str(count), "namePattern": "w-##", "instanceProperties": properties(), **more}


def done(world: World, operation: Operation) -> dict[str, Any]:
    """The operation when it is over; it conforms at every moment until then."""
    for _ in range(120):
        assert problems_of(operation.resource()) == []
        if operation.is_done:
            return operation.resource()
        world.advance(MINUTE / 6)
    raise AssertionError("the bulk insert does not end")


def places(shown: dict[str, Any]) -> dict[str, Any]:
    status: dict[str, Any] = shown["instancesBulkInsertOperationMetadata"]["perLocationStatus"]
    return status


def where(world: World) -> list[tuple[str, str]]:
    return sorted((vm.name, vm.zone) for vm in world.instances(PROJECT))


def test_vms_come_in_one_zone_of_the_region(world: World) -> None:
    """ANY_SINGLE_ZONE is the default shape; the group's id is on the operation and on each insert."""
    operation = world.bulk_insert(PROJECT, REGION, asked())
    first = operation.resource()
    assert (first["operationType"], first["status"]) == ("bulkInsert", "PENDING")
    assert first["region"].endswith("/regions/us-central1")
    assert places(first)["zones/us-central1-a"] == {"targetVmCount": 3, "createdVmCount": 0, "status": "CREATING"}
    shown = done(world, operation)
    assert "error" not in shown
    assert places(shown) == {"zones/us-central1-a": {"targetVmCount": 3, "createdVmCount": 3, "status": "DONE"}}
    assert where(world) == [(f"w-0{number}", "us-central1-a") for number in (1, 2, 3)]
    group = [one for one in world.operations.of(PROJECT) if one.group == shown["operationGroupId"]]
    assert sorted(one.kind for one in group) == ["bulkInsert", "insert", "insert", "insert"]


def test_numbering_continues_after_the_highest(world: World) -> None:
    """The API's own example: after inst-0050 comes inst-0051."""
    up(world, "inst-0050")
    done(world, world.bulk_insert(PROJECT, f"zones/{ZONE}", asked(2, namePattern="inst-####")))
    assert [name for name, _ in where(world)] == ["inst-0050", "inst-0051", "inst-0052"]


def test_names_may_be_given_one_by_one(world: World) -> None:
    """The keys of `perInstanceProperties` are the names."""
    wanted = {"count": "2", "perInstanceProperties": {"anna": {}, "bert": {}}, "instanceProperties": properties()}
    done(world, world.bulk_insert(PROJECT, f"zones/{ZONE}", wanted))
    assert [name for name, _ in where(world)] == ["anna", "bert"]


def test_only_the_hostname_can_differ_between_the_vms(world: World) -> None:
    """The discovery document's BulkInsertInstanceResourcePerInstanceProperties has no other field to be set."""
    own = {"anna": {"hostname": "anna.example.com"}, "bert": {}}
    wanted = {"count": "2", "perInstanceProperties": own, "instanceProperties": properties()}
    done(world, world.bulk_insert(PROJECT, f"zones/{ZONE}", wanted))
    assert [vm.given.get("hostname") for vm in world.instances(PROJECT)] == ["anna.example.com", None]
    schema = schemas()["BulkInsertInstanceResourcePerInstanceProperties"]
    assert set(schema["properties"]) == {"hostname", "name"}
    for key in ("metadata", "labels", "zone"):
        with pytest.raises(Refused, match=f'Unknown name "{key}"'):
            world.bulk_insert(
                PROJECT,
                f"zones/{ZONE}",
                {"count": "1", "perInstanceProperties": {"carl": {key: {}}}, "instanceProperties": properties()},
            )


def test_zone_without_capacity_is_skipped(world: World) -> None:
    """A stockout in the first zone sends all VMs to the next, and the failed insert is there to be read."""
    world.faults.add("stockout", zone="us-central1-a")
    shown = done(world, world.bulk_insert(PROJECT, REGION, asked()))
    assert {zone for _, zone in where(world)} == {"us-central1-b"}
    assert places(shown)["zones/us-central1-a"] == {
        "targetVmCount": 1,
        "createdVmCount": 0,
        "failedToCreateVmCount": 1,
        "status": "DONE",
    }
    (failed,) = [one for one in world.operations.of(PROJECT) if one.failure is not None]
    assert failed.failure is not None
    assert (failed.kind, failed.failure.code) == ("insert", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS")


def test_shapes_spread_vms_as_they_say(world: World) -> None:
    """ANY fills one zone after the other, BALANCED takes turns."""
    world.faults.add("stockout", zone="us-central1-b")
    done(world, world.bulk_insert(PROJECT, REGION, asked(4, locationPolicy={"targetShape": "BALANCED"})))
    zones = [zone for _, zone in where(world)]
    assert {zone: zones.count(zone) for zone in zones} == {"us-central1-a": 2, "us-central1-c": 1, "us-central1-f": 1}


def test_denied_zone_is_left_out(world: World) -> None:
    """`locationPolicy.locations` with preference DENY."""
    locations = {f"zones/{zone}": {"preference": "DENY"} for zone in ZONES[:3]}
    done(world, world.bulk_insert(PROJECT, REGION, asked(1, locationPolicy={"locations": locations})))
    assert where(world) == [("w-01", "us-central1-f")]


def test_fewer_than_the_minimum_are_rolled_back(world: World) -> None:
    """VM_MIN_COUNT_NOT_REACHED with 503, as googleapis/google-cloud-go issue 5168 has it, and the cause behind it."""
    world.faults.add("quota", metric="CPUS", limit=8, region="us-central1")
    shown = done(world, world.bulk_insert(PROJECT, f"zones/{ZONE}", asked(3)))
    codes = [error["code"] for error in shown["error"]["errors"]]
    assert codes == ["VM_MIN_COUNT_NOT_REACHED", "QUOTA_EXCEEDED"]
    assert shown["error"]["errors"][0]["message"] == "Requested minimum count of 3 VMs could not be created."
    assert (shown["httpErrorStatusCode"], where(world)) == (503, [])
    assert places(shown)["zones/us-central1-a"]["deletedVmCount"] == 2


@pytest.mark.parametrize(("least", "kept"), [(None, 0), ("4", 0), ("3", 3)])
def test_partial_grant_is_kept_or_given_back_whole(world: World, least: str | None, kept: int) -> None:
    """Three of four: without a minCount it is the count ("then count is used as the default value")."""
    world.faults.add("stockout", zone=ZONE, after=3)
    more = {} if least is None else {"minCount": least}
    shown = done(world, world.bulk_insert(PROJECT, f"zones/{ZONE}", asked(4, **more)))
    errors = [error["code"] for error in shown.get("error", {}).get("errors", ())]
    assert errors == ([] if kept else ["VM_MIN_COUNT_NOT_REACHED", "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"])
    place = places(shown)[f"zones/{ZONE}"]
    assert (place["targetVmCount"], place["createdVmCount"], place["failedToCreateVmCount"]) == (4, 3, 1)
    assert (place.get("deletedVmCount", 0), len(where(world))) == (3 - kept, kept)


def test_minimum_is_enough(world: World) -> None:
    """The VMs that there is room for are made and kept, with a minCount below the count."""
    world.faults.add("quota", metric="CPUS", limit=8, region="us-central1")
    shown = done(world, world.bulk_insert(PROJECT, f"zones/{ZONE}", asked(3, minCount="2")))
    assert "error" not in shown
    assert len(where(world)) == 2


def test_zones_that_do_not_sell_the_gpu_are_left_out(world: World) -> None:
    """The VMs come where the accelerator is sold."""
    gpus = {**T4, "guestAccelerators": [{"acceleratorType": "nvidia-tesla-t4", "acceleratorCount": 1}]}
    done(world, world.bulk_insert(PROJECT, REGION, asked(1, instanceProperties=properties(**gpus))))
    assert len(where(world)) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"count": "0"}, "resource.count"),
        ({"minCount": "4"}, "Must not be more than the count, 3."),
        ({"namePattern": "w"}, "hash characters"),
        ({"namePattern": "w-#-#"}, "hash characters"),
        ({"instanceProperties": None}, "instanceProperties"),
        ({"instanceProperties": properties("n1-none-4")}, "does not exist"),
        ({"instanceProperties": properties(networkInterfaces=[])}, "At least one network interface"),
        ({"locationPolicy": {"targetShape": "SPREAD"}}, "targetShape"),
        ({"locationPolicy": {"locations": {"zones/europe-west1-b": {"preference": "DENY"}}}}, "Must be a zone of"),
    ],
)
def test_impossible_requests_are_refused_at_once(world: World, more: Any, words: str) -> None:
    """Nothing is made, and no operation begins."""
    with pytest.raises(Refused, match=words):
        world.bulk_insert(
            PROJECT, REGION, asked(**{"count": 3, **more}) if "count" not in more else {**asked(), **more}
        )
    assert (world.instances(PROJECT), list(world.operations.of(PROJECT))) == ([], [])


def test_repeated_request_id_makes_nothing_more(world: World) -> None:
    """A bulk insert is made once under one id."""
    key = "5f0c8d0e-6d6b-4c1e-9f0a-2d1f6a1b7c01"
    first = world.bulk_insert(PROJECT, REGION, asked(), request_id=key)
    assert world.bulk_insert(PROJECT, REGION, asked(), request_id=key) is first
    assert len(where(world)) == 3
