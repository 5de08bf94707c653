"""Compute Engine refuses changes of a VM that is there, in its own words where they are known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from tests.sandbox.vms import MINUTE, PROJECT, T4, ZONE, body, new_world, up

from costguard_sandbox.gce import changes
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.meter import bill
from costguard_sandbox.gce.render import EMPTY_FINGERPRINT, instance_resource
from costguard_sandbox.gce.vm import VM
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PLACE = f"projects/{PROJECT}/zones/{ZONE}"
SCRATCH = {"type": "SCRATCH", "interface": "NVME", "autoDelete": True}
TERMINATE: dict[str, Any] = {"scheduling": {"onHostMaintenance": "TERMINATE"}}


@pytest.fixture
def world() -> World:
    return new_world()


@pytest.fixture
def cloud(world: World) -> Iterator[httpx2.Client]:
    with running(world) as url, httpx2.Client(base_url=f"{url}/compute/v1/{PLACE}", trust_env=False) as client:
        yield client


def changed(world: World, kind: str, change: changes.Change, name: str = "vm") -> dict[str, Any]:
    operation = world.change(kind, PROJECT, ZONE, name, change)
    world.advance(MINUTE)
    return operation.resource()


def stopped(world: World, **more: Any) -> VM:
    vm = up(world, **more)
    world.stop(PROJECT, vm.name)
    world.advance(3 * MINUTE)
    return vm


@pytest.mark.parametrize(
    ("machine", "more", "message"),
    [
        ("n1-standard-4", T4, "You cannot suspend an instance that has GPUs attached."),
        ("a2-highgpu-1g", TERMINATE, "You cannot suspend an instance that has GPUs attached."),
        ("n2-highmem-32", {}, "You cannot suspend an instance that has more than 208 GB of memory."),
        (
            "n2d-standard-2",
            {"confidentialInstanceConfig": {"enableConfidentialCompute": True}},
            "You cannot suspend a Confidential VM instance.",
        ),
    ],
)
def test_a_vm_that_cannot_be_suspended_keeps_running(world: World, machine: str, more: Any, message: str) -> None:
    """Google, "Suspend or resume a Compute Engine instance", "Limitations": the operation fails, the VM still runs."""
    vm = up(world, machine=machine, **more)
    operation = world.suspend(PROJECT, "vm")
    world.advance(3 * MINUTE)
    assert operation.failure is not None
    assert (operation.failure.code, operation.failure.message) == ("UNSUPPORTED_OPERATION", message)
    assert (vm.status, len(vm.runs), vm.saved_memory) == ("RUNNING", 1, [])


def test_suspend_in_another_state_has_googles_words(world: World) -> None:
    """Google, "Troubleshooting suspend and resume", "Invalid instance state"."""
    stopped(world)
    up(world, "asleep")
    world.suspend(PROJECT, "asleep")
    world.advance(3 * MINUTE)
    said = []
    for name in ("vm", "asleep"):
        operation = world.suspend(PROJECT, name)
        world.advance(MINUTE)
        assert operation.failure is not None
        said.append(operation.failure.message)
    assert said == [
        "You cannot suspend an instance that is stopped or terminated.",
        "You cannot suspend an already suspended instance.",
    ]


@pytest.mark.parametrize("verb", ["stop", "suspend"])
def test_local_ssd_needs_a_choice(world: World, cloud: httpx2.Client, verb: str) -> None:
    """`discardLocalSsd` is required then; words and reason as in skypilot-org/skypilot issue 2586."""
    vm = up(world, disks=[*body()["disks"], SCRATCH])
    refused = cloud.post(f"/instances/vm/{verb}")
    (error,) = refused.json()["error"]["errors"]
    assert (refused.status_code, error["reason"]) == (400, "badRequest")
    assert error["message"] == (
        "VM has a Local SSD attached but an undefined value for `discard-local-ssd`. If using gcloud, please add"
        " `--discard-local-ssd=false` or `--discard-local-ssd=true` to your command."
    )
    assert cloud.post(f"/instances/vm/{verb}?discardLocalSsd=true").status_code == 200
    world.advance(3 * MINUTE)
    assert vm.status == {"stop": "TERMINATED", "suspend": "SUSPENDED"}[verb]


def test_machine_type_of_a_stopped_vm_is_changed(world: World) -> None:
    """The time before is billed as before; the next run has the new machine's quota and bill."""
    vm = stopped(world)
    before = bill(vm, world.prices, world.now).resources
    operation = changed(
        world, "setMachineType", changes.machine_type({"machineType": f"zones/{ZONE}/machineTypes/e2-standard-8"})
    )
    assert "error" not in operation
    assert instance_resource(world.links, vm)["machineType"].endswith("/e2-standard-8")
    after = bill(vm, world.prices, world.now).resources
    assert {name for name in after if not name.startswith("disk")} == {
        name for name in before if not name.startswith("disk")
    }
    world.start(PROJECT, "vm")
    world.advance(MINUTE)
    assert world.usage.of(PROJECT, "us-central1")["CPUS"] == 8
    assert {"n1:core", "e2:core"} <= set(bill(vm, world.prices, world.now).resources)


def test_machine_type_of_a_running_vm_fails_in_its_operation(world: World) -> None:
    """The request is accepted, then RESOURCE_NOT_READY with 400 is in the operation, as libcloud recorded in 2016."""
    vm = up(world)
    operation = changed(world, "setMachineType", changes.machine_type({"machineType": "e2-standard-8"}))
    (error,) = operation["error"]["errors"]
    assert error == {"code": "RESOURCE_NOT_READY", "message": f"The resource '{PLACE}/instances/vm' is not ready"}
    assert (operation["httpErrorStatusCode"], operation["httpErrorMessage"]) == (400, "BAD REQUEST")
    assert vm.shape.machine_type == "n1-standard-4"


def test_machine_type_that_does_not_fit_is_refused(world: World) -> None:
    """A T4 goes with N1 alone, and a machine type must exist."""
    stopped(world, **T4)
    for machine, words in (("e2-standard-8", "features are not compatible"), ("e2-none", "does not exist")):
        with pytest.raises(Refused, match=words):
            changed(world, "setMachineType", changes.machine_type({"machineType": machine}))


def test_built_in_gpus_go_with_their_machine_type(world: World) -> None:
    """No GPU is left behind from one A100 to two, and on to a machine without any."""
    vm = stopped(world, machine="a2-highgpu-1g", **TERMINATE)
    shown = []
    for machine in ("a2-highgpu-2g", "n2-standard-4"):
        assert "error" not in changed(world, "setMachineType", changes.machine_type({"machineType": machine}))
        shown.append(
            [one["acceleratorCount"] for one in instance_resource(world.links, vm).get("guestAccelerators", ())]
        )
    assert shown == [[2], []]


def test_tags_change_under_their_fingerprint(world: World) -> None:
    """All of them are replaced, and a stale fingerprint is a 412."""
    vm = up(world)
    wanted = {"items": ["gpu", "ssh"], "fingerprint": EMPTY_FINGERPRINT}
    changed(world, "setTags", changes.tags(wanted))
    assert instance_resource(world.links, vm)["tags"]["items"] == ["gpu", "ssh"]
    with pytest.raises(Refused) as refused:
        changed(world, "setTags", changes.tags(wanted))
    assert (refused.value.code, refused.value.reason) == (412, "conditionNotMet")
    fingerprint = instance_resource(world.links, vm)["tags"]["fingerprint"]
    with pytest.raises(Refused, match="regex"):
        changed(world, "setTags", changes.tags({"items": ["No Tag"], "fingerprint": fingerprint}))


def test_protected_vm_refuses_to_be_deleted(world: World, cloud: httpx2.Client) -> None:
    """Protection is on by default of the method's own parameter; it stops no stop, and off it deletes."""
    vm = up(world)
    assert cloud.post("/instances/vm/setDeletionProtection").json()["operationType"] == "setDeletionProtection"
    refused = cloud.delete("/instances/vm")
    (error,) = refused.json()["error"]["errors"]
    assert (refused.status_code, error["reason"]) == (400, "invalidResourceUsage")
    assert error["message"].startswith(
        "Invalid resource usage: 'Resource cannot be deleted if it's protected against deletion. "
    )
    assert cloud.post("/instances/vm/stop").status_code == 200
    world.advance(3 * MINUTE)
    assert vm.status == "TERMINATED"
    assert cloud.post("/instances/vm/setDeletionProtection?deletionProtection=false").status_code == 200
    assert cloud.delete("/instances/vm").status_code == 200


def test_insert_without_a_network_interface_is_refused(world: World) -> None:
    """Nothing is made."""
    with pytest.raises(Refused) as refused:
        world.insert(PROJECT, ZONE, body(networkInterfaces=[]))
    assert refused.value.message == (
        "Invalid value for field 'resource.networkInterfaces': ''. At least one network interface is required."
    )
    assert world.instances(PROJECT) == []


@pytest.mark.parametrize(
    ("machine", "config", "accepted"),
    [
        ("n2d-standard-2", {"enableConfidentialCompute": True}, True),
        ("n2d-standard-2", {"confidentialInstanceType": "SEV_SNP"}, True),
        ("c3-standard-4", {"confidentialInstanceType": "TDX"}, True),
        ("n1-standard-4", {"enableConfidentialCompute": True}, False),
        ("e2-standard-4", {"confidentialInstanceType": "SEV"}, False),
        ("n2d-standard-2", {"confidentialInstanceType": "TDX"}, False),
        ("a2-highgpu-1g", {"enableConfidentialCompute": True}, False),
        ("n1-standard-4", {"enableConfidentialCompute": False}, True),
    ],
)
def test_confidential_vms_are_of_certain_machine_series(
    world: World, machine: str, config: Any, accepted: bool
) -> None:
    """Google, Confidential VM, "Supported configurations": SEV on N2D, C2D, C3D and C4D, SEV-SNP on N2D, TDX on C3."""
    wanted = body(machine=machine, confidentialInstanceConfig=config, **TERMINATE)
    if accepted:
        assert world.insert(PROJECT, ZONE, wanted).kind == "insert"
    else:
        with pytest.raises(Refused, match=r"Invalid value for field 'resource\.confidentialInstanceConfig'"):
            world.insert(PROJECT, ZONE, wanted)


@pytest.mark.parametrize("source", ["sourceMachineImage", "sourceInstanceTemplate"])
def test_machine_images_and_templates_are_refused_clearly(cloud: httpx2.Client, source: str) -> None:
    """The simulated cloud has none: the answer says so, and what to send."""
    answer = cloud.post(f"/instances?{source}=global/things/thing", json={"name": "vm"})
    message = answer.json()["error"]["message"]
    assert answer.status_code == 400
    assert "global/things/thing" in message
    assert f"without {source}" in message


def test_string_as_a_body_is_ignored_where_none_is_taken(world: World, cloud: httpx2.Client) -> None:
    """libcloud's reboot_node, ex_start_node and ex_stop_node send the JSON string "ignored"."""
    up(world)
    for verb in ("reset", "stop"):
        answer = cloud.post(f"/instances/vm/{verb}", content='"ignored"', headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["operationType"]) == (200, verb)


@pytest.mark.parametrize("sent", ['"ignored"', "[]", "7", "null"])
def test_body_that_is_no_object_is_refused_where_one_is_needed(cloud: httpx2.Client, sent: str) -> None:
    """The words are those of Google's JSON reader (google-wallet/rest-samples issue 22)."""
    answer = cloud.post("/instances", content=sent, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == (
        'Invalid JSON payload received. Unknown name "": Root element must be a message.'
    )


def test_simulated_maintenance_follows_the_policy(world: World, cloud: httpx2.Client) -> None:
    """gcloud's simulate-maintenance-event: one VM migrates, one with a GPU is stopped and comes back."""
    moves, stops = up(world, "moves"), up(world, "stops", **T4)
    for name in ("moves", "stops"):
        answer = cloud.post(f"/instances/{name}/simulateMaintenanceEvent")
        assert answer.json()["operationType"] == "simulateMaintenanceEvent"
    world.advance(10 * MINUTE)
    kinds = {one.kind for one in world.operations.of(PROJECT)}
    assert {"compute.instances.migrateOnHostMaintenance", "compute.instances.terminateOnHostMaintenance"} <= kinds
    assert ([len(vm.runs) for vm in (moves, stops)], stops.status) == ([1, 2], "RUNNING")
