"""Compute Engine's JSON as our own values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.gce.bodies import ROOT, ZONE, disk, instance, operation

from costguard.gce.convert import Shapes, instance_from, with_disks
from costguard.gce.disks import DiskDetails, disk_details, disk_key
from costguard.gce.fields import Garbled
from costguard.gce.machine_types import MachineShape, by_rule
from costguard.gce.operations import operation_from
from costguard.model.instance import ProvisioningModel, SeenInstance, Status
from costguard.model.observation import OperationStatus

DISKS = {f"zones/{ZONE}/disks/trainer": disk_details(disk())}


def rule(_zone: str, name: str) -> MachineShape | None:
    return by_rule(name)


def seen(**changes: Any) -> SeenInstance:
    return instance_from("p", ZONE, instance(**changes), DISKS, Shapes(rule))[0]


def test_an_ordinary_vm() -> None:
    """Everything that the ledger needs is taken from one listed VM and its disk."""
    vm = seen()
    assert (vm.key.project, vm.key.gce_id, vm.name, vm.zone, vm.region) == ("p", "101", "trainer", ZONE, "us-central1")
    assert vm.status is Status.RUNNING
    assert vm.created_at == datetime(2026, 11, 1, 9, 0, 0, 123000, UTC)
    assert vm.last_started_at == datetime(2026, 11, 1, 9, 0, 12, 500000, UTC)
    assert (vm.last_stopped_at, vm.last_suspended_at, vm.termination_at) == (None, None, None)
    assert (vm.shape.machine_type, vm.shape.vcpus, vm.shape.memory_mib) == ("n1-standard-4", 4, 15360)
    assert vm.labels == {"owner": "ada"}
    only = vm.disks[0]
    assert (only.name, only.size_gib, only.disk_type, only.boot, only.auto_delete) == (
        "trainer",
        50,
        "pd-balanced",
        True,
        True,
    )
    assert only.created_at == datetime(2026, 11, 1, 8, 59, 58, tzinfo=UTC)


def test_times_are_utc() -> None:
    """Google writes Pacific time; what leaves the adapter says UTC."""
    assert seen().created_at.tzinfo is UTC


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("PROVISIONING", Status.PROVISIONING),
        ("STAGING", Status.STAGING),
        ("RUNNING", Status.RUNNING),
        ("PENDING_STOP", Status.PENDING_STOP),
        ("STOPPING", Status.STOPPING),
        ("TERMINATED", Status.STOPPED),
        ("STOPPED", Status.STOPPED),
        ("SUSPENDING", Status.SUSPENDING),
        ("SUSPENDED", Status.SUSPENDED),
        ("REPAIRING", Status.REPAIRING),
        ("PENDING", Status.PENDING),
        ("DEPROVISIONING", Status.DEPROVISIONING),
        ("A_WORD_OF_NEXT_YEAR", Status.UNKNOWN),
    ],
)
def test_statuses(word: str, status: Status) -> None:
    """TERMINATED means stopped, and a word that we do not know is unknown, not an error."""
    assert seen(status=word).status is status


@pytest.mark.parametrize(
    ("scheduling", "model"),
    [
        ({"provisioningModel": "SPOT", "preemptible": True}, ProvisioningModel.SPOT),
        ({"provisioningModel": "SPOT"}, ProvisioningModel.SPOT),
        ({"preemptible": True}, ProvisioningModel.SPOT),
        ({"preemptible": False}, ProvisioningModel.STANDARD),
        ({"provisioningModel": "STANDARD"}, ProvisioningModel.STANDARD),
        ({"provisioningModel": "FLEX_START", "preemptible": False}, ProvisioningModel.FLEX_START),
        ({"provisioningModel": "RESERVATION_BOUND"}, ProvisioningModel.RESERVATION_BOUND),
        (None, ProvisioningModel.STANDARD),
    ],
)
def test_provisioning_models(scheduling: dict[str, Any] | None, model: ProvisioningModel) -> None:
    """Google's four models; old preemptible VMs are priced as Spot, and a VM without scheduling is standard."""
    assert seen(scheduling=scheduling).provisioning_model is model


def test_accelerators_of_two_types_have_the_price_of_neither() -> None:
    """Their number is known, and no price list has their type."""
    gpus = [
        {"acceleratorType": f"zones/z/acceleratorTypes/{name}", "acceleratorCount": count}
        for name, count in (("nvidia-tesla-t4", 1), ("nvidia-l4", 2), ("nvidia-tesla-t4", 1))
    ]
    shape = seen(guestAccelerators=gpus).shape
    assert (shape.gpu_type, shape.gpu_count) == ("nvidia-tesla-t4+nvidia-l4", 4)


def test_attached_gpus_win_over_built_in_ones() -> None:
    """guestAccelerators says what is there; the machine type's own GPUs are the fallback."""
    gpus = [{"acceleratorType": f"{ROOT}/zones/{ZONE}/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 2}]
    attached = seen(guestAccelerators=gpus).shape
    assert (attached.gpu_type, attached.gpu_count) == ("nvidia-tesla-t4", 2)
    built_in = seen(machineType="zones/z/machineTypes/a2-highgpu-2g").shape
    assert (built_in.gpu_type, built_in.gpu_count) == ("nvidia-tesla-a100", 2)


@pytest.mark.parametrize(
    ("google", "ours"),
    [("ct6e", "v6e"), ("tpu-v5p", "v5p"), ("tpu-v6e-slice", "v6e"), ("ct5lp", "v5e"), ("tpu7x", "tpu7x")],
)
def test_tpus_are_named_by_their_generation(google: str, ours: str) -> None:
    """Compute Engine's older shapes, its newer ones and GKE name the same chip in three ways."""
    link = f"{ROOT}/zones/{ZONE}/acceleratorTypes/{google}"
    chips = [{"acceleratorType": link, "acceleratorCount": 4}]
    shape = seen(machineType="zones/z/machineTypes/ct6e-standard-4t", guestAccelerators=chips).shape
    assert (shape.gpu_type, shape.gpu_count, shape.has_tpus) == (ours, 4, True)


def test_local_ssds() -> None:
    """Scratch disks are local SSDs of 375 GiB unless they say otherwise, and are not persistent disks."""
    scratch = [{"type": "SCRATCH"}, {"type": "SCRATCH", "diskSizeGb": "375"}]
    vm = seen(disks=scratch)
    assert (vm.shape.local_ssd_gib, vm.disks) == (750, ())


def test_built_in_local_ssds_count_once() -> None:
    """Local SSDs that come with the machine type are the same whether the VM lists them or not."""
    of_type = {"machineType": "zones/z/machineTypes/a2-ultragpu-1g"}
    assert seen(**of_type).shape.local_ssd_gib == 375
    assert seen(**of_type, disks=[{"type": "SCRATCH", "diskSizeGb": "375"}]).shape.local_ssd_gib == 375


def test_run_time_limit() -> None:
    """The limit's length and the moment when it fires are both kept."""
    vm = seen(
        scheduling={"maxRunDuration": {"seconds": "3600", "nanos": 500_000_000}},
        resourceStatus={"scheduling": {"terminationTimestamp": "2026-09-23T03:43:19.734339Z"}},
    )
    assert vm.max_run_duration == timedelta(hours=1, milliseconds=500)
    assert vm.termination_at == datetime(2026, 9, 23, 3, 43, 19, 734339, UTC)


def test_fixed_termination_time() -> None:
    """A termination time that the user gave stands while Google tells none of its own."""
    vm = seen(scheduling={"terminationTime": "2026-12-01T00:00:00-08:00"})
    assert vm.termination_at == datetime(2026, 12, 1, 8, tzinfo=UTC)


def test_graceful_stop() -> None:
    """Graceful shutdown is known beforehand: such a VM bills on after its stop was asked for."""
    assert seen(scheduling={"gracefulShutdown": {"enabled": True}}).graceful_stop is True
    assert seen().graceful_stop is False


def test_unknown_machine_type() -> None:
    """A machine type that nobody knows leaves the shape unknown; the VM is there nevertheless."""
    vm = seen(machineType="zones/z/machineTypes/x9-quantum-1")
    assert not vm.shape.is_known
    assert vm.shape.machine_type == "x9-quantum-1"


def test_a_disk_that_no_list_holds() -> None:
    """The type is unknown without the list of disks, and the size is the one that the VM tells."""
    vm = instance_from("p", ZONE, instance(), {}, Shapes(rule))[0]
    assert (vm.disks[0].disk_type, vm.disks[0].created_at, vm.disks[0].size_gib) == (None, None, 50)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "not-a-number"}, "not a number"),
        ({"id": None}, "'id' is missing"),
        ({"name": 5}, "5 stands where a word belongs"),
        ({"status": ["RUNNING"]}, "stands where a word belongs"),
        ({"creationTimestamp": "yesterday"}, "'yesterday' is not a time"),
        ({"creationTimestamp": "2026-11-01T02:00:00"}, "not a time with an offset"),
        ({"lastStartTimestamp": 12}, "12 is not a time"),
        ({"machineType": None}, "'machineType' is missing"),
        ({"machineType": "zones/z/"}, "not a resource's name"),
        ({"disks": "none"}, "instance 'trainer'"),
        ({"disks": [{"type": "PERSISTENT", "source": "d", "diskSizeGb": "big"}]}, "big"),
        ({"labels": ["a"]}, "instance 'trainer'"),
        ({"scheduling": "SPOT"}, "instance 'trainer'"),
        ({"scheduling": {"maxRunDuration": {"seconds": "1e99"}}}, "instance 'trainer'"),
        ({"guestAccelerators": [{}]}, "'acceleratorType' is missing"),
    ],
)
def test_garbage_is_named(changes: dict[str, Any], said: str) -> None:
    """A garbled VM raises one error that says which VM and what was wrong."""
    with pytest.raises(Garbled, match=said):
        seen(**changes)


@pytest.mark.parametrize("raw", [None, 5, "x", [], [[]]])
def test_garbage_instead_of_a_vm(raw: Any) -> None:
    """The error is Garbled and nothing else, whatever stands in a VM's place."""
    with pytest.raises(Garbled):
        instance_from("p", ZONE, raw, {}, Shapes(rule))


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "STOPPING"},
        {"labels": {"owner": "grace"}},
        {"lastStartTimestamp": "2026-11-02T02:00:12.500-07:00"},
        {"machineType": "zones/z/machineTypes/n1-standard-8"},
        {"scheduling": {"preemptible": True}},
        {"disks": []},
    ],
)
def test_fingerprint_tells_change(changes: dict[str, Any]) -> None:
    """The fingerprint changes with every change that the ledger records."""
    assert seen(**changes).fingerprint != seen().fingerprint


def test_fingerprint_is_of_the_value() -> None:
    """Another notation of the same VM, or a field that is not recorded, leaves the fingerprint as it was."""
    other = seen(
        creationTimestamp="2026-11-01T09:00:00.123Z", cpuPlatform="Intel Haswell", tags={"fingerprint": "abc="}
    )
    assert other.fingerprint == seen().fingerprint
    assert len(other.fingerprint) == 24


def test_disk_keys_of_zones_and_regions() -> None:
    """A disk is found by the end of its URL, whatever host the URL names; regional disks as well."""
    assert disk_key(f"{ROOT}/zones/z/disks/d") == disk_key("http://127.0.0.1:8/compute/v1/projects/p/zones/z/disks/d")
    assert disk_key(f"{ROOT}/regions/r/disks/d") == "regions/r/disks/d"


def test_new_facts_of_a_disk_change_the_vm() -> None:
    """A disk that became known changes the VM and its fingerprint to what a fresh reading gives."""
    unknown, keys = instance_from("p", ZONE, instance(), {}, Shapes(rule))
    assert with_disks(unknown, keys, DISKS) == seen()
    assert with_disks(seen(), keys, {}) == seen()


def test_disk_facts() -> None:
    """Type, size, creation and id; garbage names the disk."""
    assert disk_details(disk()) == DiskDetails(
        "pd-balanced", 50, datetime(2026, 11, 1, 8, 59, 58, tzinfo=UTC), disk()["id"]
    )
    assert disk_details(disk(id="x")).gce_id is None
    with pytest.raises(Garbled, match="trainer"):
        disk_details(disk(sizeGb="huge"))


def test_an_operation() -> None:
    """The operation says who did what to which incarnation, and when."""
    op = operation_from("p", operation(7, "2026-11-05T10:00:00.250-08:00"))
    assert op is not None
    assert (op.operation_id, op.kind, op.target_id, op.target_name, op.zone) == ("7", "stop", "101", "trainer", ZONE)
    assert (op.user, op.status) == ("ada@example.com", OperationStatus.DONE)
    assert op.inserted_at == op.ended_at == datetime(2026, 11, 5, 18, 0, 0, 250000, UTC)


def test_a_failed_operation() -> None:
    """The first of Google's errors is kept; the HTTP status stands in where there is none."""
    stockout = {"errors": [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "No T4 left."}]}
    failed = operation_from("p", operation(1, "2026-11-05T10:00:00Z", error=stockout, httpErrorStatusCode=503))
    assert failed is not None
    assert (failed.error_code, failed.error_message) == ("ZONE_RESOURCE_POOL_EXHAUSTED", "No T4 left.")
    bare = operation_from("p", operation(1, "2026-11-05T10:00:00Z", httpErrorStatusCode=403, httpErrorMessage="NO"))
    assert bare is not None
    assert (bare.error_code, bare.error_message) == ("403", "NO")


def test_a_preemption() -> None:
    """A system event has a user `system` and says what happened."""
    raw = operation(
        3, "2026-11-05T10:00:00Z", operationType="compute.instances.preempted", user="system",
        statusMessage="Instance was preempted.",
    )  # fmt: skip
    op = operation_from("p", raw)
    assert op is not None
    assert (op.kind, op.user, op.status_message) == (
        "compute.instances.preempted",
        "system",
        "Instance was preempted.",
    )


@pytest.mark.parametrize(
    "link", ["zones/z/disks/d", "global/networks/n", "zones/z/instances/n/networkInterfaces", None]
)
def test_operations_on_other_things(link: str | None) -> None:
    """The ledger is concerned by an operation whose target is an instance alone."""
    assert operation_from("p", operation(1, "2026-11-05T10:00:00Z", targetLink=link)) is None


@pytest.mark.parametrize(
    "changes", [{"status": "BROKEN"}, {"insertTime": None}, {"error": "x"}, {"error": {"errors": [5]}}]
)
def test_a_garbled_operation(changes: dict[str, Any]) -> None:
    """A garbled operation is named by its name."""
    with pytest.raises(Garbled, match="operation-1"):
        operation_from("p", operation(1, "2026-11-05T10:00:00Z", **changes))
