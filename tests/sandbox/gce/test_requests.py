"""Requests are refused at once, fail later, or are done only once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sandbox.vms import MINUTE, PROJECT, SPOT, T4, ZONE, body, new_world, up

from costguard_sandbox.gce import changes
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.render import EMPTY_FINGERPRINT, instance_resource
from costguard_sandbox.gce.vm import Status

_ONE = "5f0c8d0e-6d6b-4c1e-9f0a-2d1f6a1b7c01"
_TWO = "5f0c8d0e-6d6b-4c1e-9f0a-2d1f6a1b7c02"


def test_a_repeated_request_id_gives_the_earlier_operation() -> None:
    """The retry of a create that worked is a 409 without it."""
    world = new_world()
    first = world.insert(PROJECT, ZONE, body(), request_id=_ONE)
    assert world.insert(PROJECT, ZONE, body(), request_id=_ONE) is first
    assert first.resource()["clientOperationId"] == _ONE
    assert len(world.instances(PROJECT)) == 1
    with pytest.raises(Refused, match="already exists") as refused:
        world.insert(PROJECT, ZONE, body(), request_id=_TWO)
    assert (refused.value.code, refused.value.reason) == (409, "alreadyExists")


def test_a_repeated_stop_does_not_stop_the_next_run() -> None:
    """The same request id stops once, even after the VM was started again."""
    world = new_world()
    vm = up(world)
    world.request("stop", PROJECT, ZONE, "vm", request_id=_ONE)
    world.advance(3 * MINUTE)
    world.start(PROJECT, "vm")
    world.advance(MINUTE)
    world.request("stop", PROJECT, ZONE, "vm", request_id=_ONE)
    world.advance(3 * MINUTE)
    assert vm.status is Status.RUNNING


@pytest.mark.parametrize("request_id", ["once", "00000000-0000-0000-0000-000000000000"])
def test_a_request_id_is_a_uuid(request_id: str) -> None:
    """Anything else, and the zero UUID, is refused."""
    with pytest.raises(Refused, match="requestId"):
        new_world().insert(PROJECT, ZONE, body(), request_id=request_id)


_DEEP_LEARNING = "projects/deeplearning-platform-release/global/images/family"


def _gpu(kind: str, count: object = 1) -> dict[str, Any]:
    return {
        "guestAccelerators": [{"acceleratorType": f"zones/{ZONE}/acceleratorTypes/{kind}", "acceleratorCount": count}],
        "scheduling": {"onHostMaintenance": "TERMINATE"},
    }


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (
            body(machine="n1-highmem-8", **_gpu("nvidia-tesla-a100")),
            "[nvidia-tesla-a100, n1-highmem-8] features are not compatible for creating instance.",
        ),
        (body(**{**T4, "scheduling": {}}), "Instances with guest accelerators do not support live migration."),
        (body(machine="a2-highgpu-1g"), "Instances with guest accelerators do not support live migration."),
        (
            body(scheduling={"provisioningModel": "SPOT", "automaticRestart": True}),
            "Scheduling must have preemptible be false when AutomaticRestart is true.",
        ),
        (body(machine="n1-gigantic-1"), "The referenced resource does not exist."),
        (body("Not_A_Name"), "Must be a match of regex"),
        (body(labels={"owner": "ana@example.com"}), "lowercase characters, and numbers are allowed"),
        (body(scheduling={"maxRunDuration": {"seconds": "10"}}), "between 30 seconds and 120 days"),
        (body(disks=[]), "At least one disk is required"),
        (body(zone="us-east1-c"), "The machine type must be one of zone us-central1-a"),
        (body(labels={f"key-{number}": "" for number in range(65)}), "At most 64 labels"),
        (body(metadata={"items": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]}), "duplicate keys"),
        (body(metadata={"items": "startup-script"}), "Invalid JSON payload"),
        (body(serviceAccounts=[{"email": "default"}]), "At least one scope is required"),
        (body(scheduling={"provisioningModel": "CHEAP"}), "Must be one of STANDARD, SPOT"),
        (body(scheduling={"instanceTerminationAction": "EXPLODE"}), "Must be one of STOP, DELETE"),
        (body(**_gpu("nvidia-tesla-t4", "3")), "Must be one of 1, 2, 4, 8, 16"),
        (body(**_gpu("nvidia-tesla-t4", "many")), "Invalid JSON payload"),
        (body(disk={"diskType": "pd-quick"}), "The referenced diskType resource cannot be found"),
        (
            body(disk={"sourceImage": "projects/debian-cloud/global/images/debian-1"}),
            "The referenced image resource cannot be found",
        ),
        (
            body(disk={"sourceImage": f"{_DEEP_LEARNING}/common-cu124", "diskSizeGb": "20"}),
            "Requested disk size cannot be smaller than the image size (50 GB)",
        ),
    ],
)
def test_a_bad_insert_is_a_400_and_makes_nothing(wanted: Any, message: str) -> None:
    """Google's own words where they are known; nothing exists afterwards, not even an operation."""
    world = new_world()
    with pytest.raises(Refused) as refused:
        world.insert(PROJECT, ZONE, wanted)
    assert refused.value.code == 400
    assert message in refused.value.message
    assert (world.instances(PROJECT), world.disks(PROJECT), list(world.operations.of(PROJECT))) == ([], [], [])


@pytest.mark.parametrize(
    ("zone", "wanted", "missing"),
    [
        ("asia-southeast2-b", {**T4}, "zones/asia-southeast2-b/acceleratorTypes/nvidia-tesla-t4"),
        (ZONE, {"disk": {"sourceImage": f"{_DEEP_LEARNING}/common-cu1"}}, f"{_DEEP_LEARNING}/common-cu1"),
    ],
)
def test_what_a_zone_lacks_is_not_found(zone: str, wanted: dict[str, Any], missing: str) -> None:
    """A kind of GPU in a zone, and a family of images of a publisher who is known."""
    with pytest.raises(Refused, match=missing) as refused:
        new_world().insert(PROJECT, zone, body(zone=zone, **wanted))
    assert refused.value.code == 404


def test_metadata_have_their_limits() -> None:
    """A value of 256 KiB, and half a MiB in all."""
    world = new_world()
    for sizes in ((300_000,), (200_000, 200_000, 200_000)):
        items = [{"key": f"key-{index}", "value": "x" * size} for index, size in enumerate(sizes)]
        with pytest.raises(Refused, match="is too large") as refused:
            world.insert(PROJECT, ZONE, body(metadata={"items": items}))
        assert (refused.value.code, refused.value.reason) == (413, "fieldSizeTooLarge")


def test_a_disk_is_as_large_as_its_image_at_least() -> None:
    """The size is the image's where nothing is said of it."""
    world = new_world()
    disks = [{"boot": True, "initializeParams": {"sourceImage": f"{_DEEP_LEARNING}/common-cu124"}}]
    world.insert(PROJECT, ZONE, body(disks=disks))
    assert [disk.size_gib for disk in world.disks(PROJECT)] == [50]


def test_a_stockout_comes_with_the_operation_not_with_the_answer() -> None:
    """The insert is accepted; its operation fails with Google's details, and the name answers 404."""
    world = new_world()
    world.faults.add("stockout", zone=ZONE, gpu="nvidia-tesla-t4")
    operation = world.insert(PROJECT, ZONE, body(**T4))
    assert (operation.status, operation.failure) == ("PENDING", None)
    world.advance(MINUTE)
    shown = operation.resource()
    (error,) = shown["error"]["errors"]
    assert error["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS"
    assert shown["httpErrorStatusCode"] == 503
    details = error["errorDetails"]
    assert set(details[0]) == {"help"}
    assert "with 1 nvidia-tesla-t4 accelerator(s) is currently unavailable" in details[1]["localizedMessage"]["message"]
    assert details[2]["errorInfo"]["metadatas"]["attachment"] == "nvidia-tesla-t4:1"
    with pytest.raises(Refused, match="was not found"):
        world.instance(PROJECT, "vm", ZONE)
    world.insert(PROJECT, ZONE, body("no-gpu"))
    assert [vm.name for vm in world.instances(PROJECT)] == ["no-gpu"]


def test_a_stopped_vm_can_fail_to_start_without_capacity() -> None:
    """It stays TERMINATED, and no lifetime begins."""
    world = new_world()
    vm = up(world, **SPOT)
    world.stop(PROJECT, "vm")
    world.advance(3 * MINUTE)
    world.faults.add("stockout", spot=True)
    operation = world.start(PROJECT, "vm")
    world.advance(MINUTE)
    assert operation.failure is not None
    assert operation.failure.code.startswith("ZONE_RESOURCE_POOL_EXHAUSTED")
    assert (vm.status, len(vm.runs)) == (Status.TERMINATED, 1)


def test_a_quota_fails_in_the_operation_too() -> None:
    """GPU quota counts what is up, in the region and everywhere; a stopped VM frees its share."""
    world = new_world()
    world.faults.add("quota", metric="GPUS_ALL_REGIONS", limit=1)
    up(world, "first", **T4)
    second = world.insert(PROJECT, ZONE, body("second", **T4))
    world.advance(MINUTE)
    assert second.failure is not None
    assert (second.failure.code, second.failure.http) == ("QUOTA_EXCEEDED", 403)
    assert second.failure.message == "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 1.0 globally."
    world.stop(PROJECT, "first")
    world.advance(3 * MINUTE)
    third = world.insert(PROJECT, ZONE, body("third", **T4))
    world.advance(MINUTE)
    assert third.failure is None


def test_labels_are_replaced_whole_and_only_with_the_present_fingerprint() -> None:
    """A second writer with the fingerprint of before gets 412, and changes nothing."""
    world = new_world()
    vm = up(world)
    assert instance_resource(world.links, vm)["labelFingerprint"] == EMPTY_FINGERPRINT
    world.change("setLabels", PROJECT, ZONE, "vm", changes.labels({"owner": "ana"}, EMPTY_FINGERPRINT))
    with pytest.raises(Refused, match="Labels fingerprint either invalid") as refused:
        world.change("setLabels", PROJECT, ZONE, "vm", changes.labels({"owner": "ben"}, EMPTY_FINGERPRINT))
    assert (refused.value.code, refused.value.reason) == (412, "conditionNotMet")
    seen = instance_resource(world.links, vm)["labelFingerprint"]
    world.change("setLabels", PROJECT, ZONE, "vm", changes.labels({"team": "vision"}, seen))
    assert instance_resource(world.links, vm)["labels"] == {"team": "vision"}


def test_metadata_has_a_fingerprint_of_its_own() -> None:
    """setMetadata with a stale one is 412."""
    world = new_world()
    vm = up(world)
    items = [{"key": "a", "value": "1"}]
    world.change(
        "setMetadata", PROJECT, ZONE, "vm", changes.metadata({"fingerprint": EMPTY_FINGERPRINT, "items": items})
    )
    assert instance_resource(world.links, vm)["metadata"]["items"] == items
    with pytest.raises(Refused) as refused:
        world.change(
            "setMetadata", PROJECT, ZONE, "vm", changes.metadata({"fingerprint": EMPTY_FINGERPRINT, "items": []})
        )
    assert refused.value.code == 412


def test_a_run_time_limit_can_only_be_changed_while_stopped() -> None:
    """Other scheduling changes are taken at any time."""
    world = new_world()
    vm = up(world)
    world.change("setScheduling", PROJECT, ZONE, "vm", changes.scheduling({"automaticRestart": False}))
    with pytest.raises(Refused, match="must be stopped"):
        world.change("setScheduling", PROJECT, ZONE, "vm", changes.scheduling({"maxRunDuration": {"seconds": "600"}}))
    world.stop(PROJECT, "vm")
    world.advance(3 * MINUTE)
    world.change("setScheduling", PROJECT, ZONE, "vm", changes.scheduling({"maxRunDuration": {"seconds": "600"}}))
    assert vm.scheduling["automaticRestart"] is False
    assert vm.scheduling["maxRunDuration"] == {"seconds": "600", "nanos": 0}


def test_a_protected_vm_is_not_deleted() -> None:
    """deletionProtection is refused at once."""
    world = new_world()
    up(world, deletionProtection=True)
    with pytest.raises(Refused, match="deletionProtection on vm is true"):
        world.delete(PROJECT, "vm")


def test_the_requested_configuration_is_returned_in_googles_form() -> None:
    """Full URLs, filled defaults, and the body of the caller left as it was."""
    world = new_world()
    wanted = body(
        hostname="vm.example.com",
        serviceAccounts=[{"email": "default", "scopes": ["cloud-platform"]}],
        tags={"items": ["gpu"]},
        **T4,
    )
    world.insert(PROJECT, ZONE, wanted)
    assert wanted["serviceAccounts"][0]["email"] == "default"
    shown = instance_resource(world.links, world.instance(PROJECT, "vm"))
    zone = f"https://www.googleapis.com/compute/v1/projects/{PROJECT}/zones/{ZONE}"
    assert shown["machineType"] == f"{zone}/machineTypes/n1-standard-4"
    assert shown["guestAccelerators"] == [
        {"acceleratorType": f"{zone}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}
    ]
    assert shown["disks"][0]["source"] == f"{zone}/disks/vm"
    assert shown["disks"][0]["diskSizeGb"] == "50"
    assert shown["serviceAccounts"][0]["email"].endswith("-compute@developer.gserviceaccount.com")
    assert (shown["hostname"], shown["tags"]["items"]) == ("vm.example.com", ["gpu"])
    assert shown["networkInterfaces"][0]["networkIP"]


@pytest.mark.parametrize(
    ("scheduling", "why"),
    [
        ({"preemptionNoticeDuration": {"seconds": "120"}}, "provisioningModel is SPOT"),
        ({"provisioningModel": "SPOT", "preemptionNoticeDuration": {"seconds": "60"}}, "Must be 0 or 120"),
        ({"provisioningModel": "SPOT", "preemptionNoticeDuration": {"seconds": 120, "nanos": 1}}, "Must be 0 or 120"),
    ],
)
def test_notice_of_a_preemption_is_for_spot_vms_and_of_two_lengths(scheduling: dict[str, Any], why: str) -> None:
    """Google's "Spot VMs", "Preemption process", and `gcloud compute instances create --help`."""
    with pytest.raises(Refused, match=why):
        new_world().insert(PROJECT, ZONE, body(scheduling=scheduling))


@pytest.mark.parametrize("seconds", [0, 120, "120"])
def test_notice_of_a_preemption_is_shown_as_it_was_asked_for(seconds: object) -> None:
    """The seconds are a text: a Duration (discovery, compute v1, Scheduling.preemptionNoticeDuration)."""
    world = new_world()
    scheduling = {"provisioningModel": "SPOT", "preemptionNoticeDuration": {"seconds": seconds}}
    world.insert(PROJECT, ZONE, body(scheduling=scheduling))
    world.advance(MINUTE)
    shown = instance_resource(world.links, world.instance(PROJECT, "vm"))["scheduling"]
    assert shown["preemptionNoticeDuration"] == {"seconds": str(seconds), "nanos": 0}


def test_zone_may_not_know_the_notice_of_a_preemption() -> None:
    """It refuses the field by its name, and makes the VM without it."""
    world = new_world()
    world.faults.add("no_notice", zone=ZONE)
    scheduling = {"provisioningModel": "SPOT", "preemptionNoticeDuration": {"seconds": 120}}
    with pytest.raises(Refused, match='Unknown name "preemptionNoticeDuration"'):
        world.insert(PROJECT, ZONE, body(scheduling=scheduling))
    world.insert(PROJECT, ZONE, body())
