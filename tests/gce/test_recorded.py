"""Recorded answers of the real Compute Engine, 2013 to 2026: every one is read without an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.gce.bodies import cloud_of
from tests.gce.conftest import Connect
from tests.gce.server import json_answer

from costguard.gce.convert import Shapes, instance_from
from costguard.gce.machine_types import MachineShape, by_rule
from costguard.gce.operations import operation_from
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.launch import OperationAnswer

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "gce-recorded"
if not RECORDED.is_dir():
    pytest.skip(f"the recorded answers are not here ({RECORDED})", allow_module_level=True)


def _rule(_zone: str, name: str) -> MachineShape | None:
    return by_rule(name)


def _answers() -> Iterator[tuple[str, Any]]:
    for path in sorted(RECORDED.glob("*/*.json")):
        answer = orjson.loads(path.read_bytes())
        yield path.name, answer.get("body", answer)


def _of_kind(value: Any, kind: str) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if value.get("kind") == kind:
            yield value
        for part in value.values():
            yield from _of_kind(part, kind)
    elif isinstance(value, list):
        for part in value:
            yield from _of_kind(part, kind)


def test_every_instance() -> None:
    """All 52 VMs convert; statuses, Spot and ids are as recorded."""
    seen = [
        (raw, instance_from("p", raw["zone"].rsplit("/", 1)[-1], raw, {}, Shapes(_rule))[0])
        for _, answer in _answers()
        for raw in _of_kind(answer, "compute#instance")
    ]
    assert len(seen) == 52
    for raw, vm in seen:
        assert vm.key.gce_id == raw["id"]
        assert vm.status is (Status.STOPPED if raw["status"] == "TERMINATED" else Status[raw["status"]])
        assert (vm.last_started_at is None) == ("lastStartTimestamp" not in raw)
        assert len(vm.disks) == len(raw.get("disks", ()))
        # A redacted machine type is for machineTypes.get to tell.
        assert vm.shape.is_known or vm.shape.machine_type == "projects"


def test_the_spot_vm_that_was_being_preempted() -> None:
    """The G4 Spot VM shows its GPU, its run-time limit, and the moment when that would have fired."""
    (raw,) = _of_kind(dict(_answers())["instance_g4_spot_stopping_under_preemption.json"], "compute#instance")
    vm = instance_from("p", "us-central1-b", raw, {}, Shapes(_rule))[0]
    assert vm.status is Status.STOPPING
    assert vm.provisioning_model is ProvisioningModel.SPOT
    assert (vm.shape.gpu_type, vm.shape.gpu_count) == ("nvidia-rtx-pro-6000", 1)
    assert by_rule("g4-standard-48") == (48, 180 * 1024, "nvidia-rtx-pro-6000", 1, 0)
    assert vm.max_run_duration is not None
    assert vm.max_run_duration.total_seconds() == 3600
    assert vm.termination_at is not None
    assert vm.last_stopped_at is not None
    assert vm.last_started_at is not None
    assert vm.last_stopped_at < vm.last_started_at


def test_every_operation() -> None:
    """Every operation on an instance converts, failed ones with their error."""
    seen = [operation_from("p", raw) for _, answer in _answers() for raw in _of_kind(answer, "compute#operation")]
    on_instances = [op for op in seen if op is not None]
    assert len(on_instances) == 40
    assert {op.kind for op in on_instances} >= {"insert", "delete", "start", "stop", "suspend", "resume", "setLabels"}
    assert {op.error_code for op in on_instances} >= {"ZONE_RESOURCE_POOL_EXHAUSTED"}


def test_every_list_through_the_client(connect: Connect) -> None:
    """Every recorded aggregated list, old and new, is a whole look at a project."""
    read = 0
    for name, answer in _answers():
        if answer.get("kind") != "compute#instanceAggregatedList" or "nextPageToken" in answer:
            continue
        expected = list(_of_kind(answer, "compute#instance"))
        lookups = [raw for raw in expected if by_rule(raw["machineType"].rsplit("/", 1)[-1]) is None]
        if lookups:
            continue
        look = connect(cloud_of(instances=json_answer(answer))).cloud.observe("p", None)
        assert (look.unread, look.instances_complete) == ((), True), name
        assert {vm.key.gce_id for vm in look.instances} == {raw["id"] for raw in expected}
        read += 1
    assert read >= 16


def test_machine_types_agree_with_the_rules() -> None:
    """The machine types that were recorded are what the rules say of them."""
    compared = 0
    for _, answer in _answers():
        for raw in _of_kind(answer, "compute#machineType") if answer.get("kind") == "compute#machineType" else ():
            shape = by_rule(raw["name"])
            assert shape is not None
            assert (shape.vcpus, shape.memory_mib) == (raw["guestCpus"], raw["memoryMb"])
            compared += 1
        for raw in answer.get("items", ()) if answer.get("kind") == "compute#machineTypeList" else ():
            if (shape := by_rule(raw["name"])) is not None:
                assert (shape.vcpus, shape.memory_mib) == (raw["guestCpus"], raw["memoryMb"])
                gpus = raw.get("accelerators", [{}])[0]
                assert (shape.gpu_type, shape.gpu_count) == (
                    gpus.get("guestAcceleratorType"),
                    gpus.get("guestAcceleratorCount", 0),
                )
                compared += 1
    assert compared >= 2


def _quoted() -> Iterator[dict[str, Any]]:
    """The errors of operations that people quoted, without details that were cut short."""
    issues = orjson.loads((RECORDED / "issues" / "capacity_and_quota_errors.json").read_bytes())
    for entry in issues["entries"]:
        payload = entry["payload"] if isinstance(entry["payload"], dict) else {}
        for error in payload.get("error", {}).get("errors", [payload]):
            if str(error.get("code", "")).isupper():
                details = [
                    detail
                    for detail in error.get("errorDetails", ())
                    if isinstance(detail.get("localizedMessage", {}), dict)
                ]
                yield {**error, "errorDetails": details}


def _failed(error: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "compute#operation", "id": "7", "status": "DONE", "error": {"errors": [error]}}


def test_every_quoted_failure_of_an_insert_is_read(connect: Connect) -> None:
    """Stockouts and quotas keep Google's code, and its words for people where it gave some."""
    errors = list(_quoted())
    setup = connect(lambda _: json_answer(_failed(errors[len(read)])))
    read: list[OperationAnswer] = []
    for _ in errors:
        answer = setup.cloud.launcher.operation("p", "us-central1-b", "7")
        assert answer is not None
        read.append(answer)
    assert all(answer_read.is_done for answer_read in read)
    stockout = "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert [answer_read.error_code for answer_read in read] == [
        stockout,
        f"{stockout}_WITH_DETAILS",
        f"{stockout}_WITH_DETAILS",
        "QUOTA_EXCEEDED",
        stockout,
    ]
    assert "in the us-central1-a, us-central1-f zone(s)" in read[1].error_message
    assert [answer_read.zones_available for answer_read in read] == [
        (),
        ("us-central1-a", "us-central1-f"),
        (),
        (),
        (),
    ]
    assert read[3].error_message == "Quota 'CPUS_ALL_REGIONS' exceeded."


@pytest.mark.parametrize(
    ("name", "addresses", "kept"),
    [
        ("instance_g4_spot_stopping_under_preemption.json", 1, 0),
        # Off, and listed without their numbers: these were released.
        ("instance-start__get-aggregated-instances_1.json", 1, 0),
        ("instance-pause-resume__get-aggregated-instances_2.json", 1, 0),
        # Off, with the number: it is kept.
        ("zones_us_central1_a_instances_stopped_node.json", 1, 1),
    ],
)
def test_external_addresses_are_counted_as_google_lists_them(name: str, addresses: int, kept: int) -> None:
    """An interface without an access configuration has none."""
    raw = next(_of_kind(dict(_answers())[name], "compute#instance"))
    vm = instance_from("p", "us-central1-b", raw, {}, Shapes(_rule))[0]
    assert (vm.external_addresses, vm.kept_addresses) == (addresses, kept)
