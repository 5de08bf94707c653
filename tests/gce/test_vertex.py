"""Resources of Vertex AI become things of the ledger, read as Google describes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.gce.vertex import (
    CPU,
    DISCOVERED,
    H100,
    OTHER,
    PROJECT,
    REGION,
    T4,
    Watched,
    job,
    raw_job,
    read,
    seen_of,
    watched,
)

from costguard.gce.vertex.resources import LISTS, VertexList
from costguard.keepers.reading import keeper_of
from costguard.model.instance import InstanceKey, InstanceKind, ProvisioningModel, Status, is_id
from costguard.model.keeper import KeeperKind

__all__ = ["watched"]


def test_a_job_is_one_thing_for_each_kind_of_machine() -> None:
    """Two GPU pools of one kind are one; parameter servers without a GPU are another; an empty pool is none."""
    spec = job((H100, 1), ({}, 0), (H100, 3), (CPU, 2), scheduling={"strategy": "SPOT"})
    first, second = read("customJobs", raw_job(spec))
    assert first.key == InstanceKey(PROJECT, "vertex.customJobs.us-central1.4567")
    assert second.key.gce_id == "vertex.customJobs.us-central1.4567.1"
    assert (first.key.kind, is_id(first.key.gce_id), is_id(second.key.gce_id)) == (InstanceKind.CUSTOM_JOB, True, True)
    assert (first.name, first.zone, first.region) == ("fine-tune-l-we-3", REGION, REGION)
    assert first.shape.machine_type == "4 x a3-highgpu-8g (Vertex training with fee, 100 GiB pd-ssd)"
    assert (first.shape.gpu_type, first.shape.gpu_count, first.shape.vcpus) == ("nvidia-h100-80gb", 32, 832)
    assert (second.shape.gpu_type, second.shape.vcpus, second.shape.family) == (None, 16, "n1")
    assert (first.provisioning_model, first.status) == (ProvisioningModel.SPOT, Status.RUNNING)
    assert first.last_started_at == datetime(2026, 11, 20, 11, 4, tzinfo=UTC)
    assert first.labels == {"owner": "ana"}


@pytest.mark.parametrize("state", DISCOVERED["schemas"]["CustomJob"]["state"])
def test_each_state_of_a_job_is_read(state: str) -> None:
    """Every word of Google's own list; what it does not list stays unknown."""
    raw = raw_job(job((T4, 1)), state, endTime="2026-11-20T11:30:00Z")
    (one,) = read("customJobs", raw)
    bills = state in ("JOB_STATE_RUNNING", "JOB_STATE_UPDATING", "JOB_STATE_CANCELLING")
    assert one.status.bills_machine is bills
    assert (one.status is Status.UNKNOWN) == (state == "JOB_STATE_UNSPECIFIED")


def test_a_job_on_a_persistent_resource_and_one_that_never_ran_bill_nothing() -> None:
    """The machines of the first are the resource's; the second was cancelled while it waited."""
    assert read("customJobs", raw_job(job((T4, 1), persistentResourceId="pool"))) == []
    raw = raw_job(job((T4, 1)), "JOB_STATE_CANCELLED")
    del raw["startTime"]
    assert read("customJobs", raw) == []
    raw["state"] = "JOB_STATE_CANCELLING"
    assert [one.status.bills_machine for one in read("customJobs", raw)] == [False]


def test_a_reservation_that_is_named_pays_compute_engine_and_a_fee() -> None:
    """A job that may use any reservation is taken for bought on demand."""
    named = {**H100, "reservationAffinity": {"reservationAffinityType": "SPECIFIC_RESERVATION", "values": ["r"]}}
    either = {**H100, "reservationAffinity": {"reservationAffinityType": "ANY_RESERVATION"}}
    (one,) = read("customJobs", raw_job(job((named, 1))))
    (other,) = read("customJobs", raw_job(job((either, 1))))
    assert one.shape.machine_type == "a3-highgpu-8g (Vertex training with fee, 100 GiB pd-ssd)"
    assert other.shape.machine_type == "a3-highgpu-8g (Vertex training, 100 GiB pd-ssd)"


def test_machines_that_google_chooses_are_of_an_unknown_type() -> None:
    """A model on automatic resources bills, at a price that nothing tells."""
    raw = {
        "name": f"projects/1/locations/{REGION}/endpoints/12",
        "displayName": "chat",
        "createTime": "2026-11-20T11:00:00Z",
        "deployedModels": [
            {"id": "34", "createTime": "2026-11-20T11:10:00Z", "automaticResources": {"minReplicaCount": 1}},
            {"id": "35", "createTime": "2026-11-20T11:10:00Z", "sharedResources": "projects/1/x"},
        ],
    }
    (one,) = read("endpoints", raw)
    assert (one.shape.machine_type, one.shape.is_known) == ("unknown (Vertex prediction)", False)
    assert one.key.gce_id == "vertex.endpoints.us-central1.12.34"


def test_every_kind_is_in_the_ledger_with_its_owner_and_its_way_out(watched: Watched) -> None:
    """A job, a tuning job's trials, a persistent resource, a deployed model and a runtime, each with its command."""
    vertex = watched.world.vertex
    vertex.custom_job(PROJECT, REGION, "Train", job((T4, 1)), owner="ana")
    vertex.tuning_job(PROJECT, OTHER, "tune", job((T4, 1)), trials=2)
    vertex.persistent_resource(PROJECT, REGION, "warm-pool", {"machineSpec": H100, "replicaCount": "2"})
    vertex.deploy(PROJECT, REGION, "chat", "llama", H100, 3)
    vertex.runtime(PROJECT, REGION, "Notes", "ben@example.com", T4)
    watched.world.advance(timedelta(minutes=30))
    observation = watched.all_lists()
    seen = seen_of(observation)
    assert observation.unread == ()
    assert seen.keys() == {"train", "tune-1", "tune-2", "warm-pool", "llama", "notes"}
    assert {one.status for one in seen.values()} == {Status.RUNNING}
    assert seen["llama"].shape.machine_type == "3 x a3-highgpu-8g (Vertex prediction)"
    assert seen["warm-pool"].shape.gpu_count == 16
    assert seen["notes"].shape.machine_type == "n1-standard-8 (Colab Enterprise)"
    assert [(one.kind, one.user) for one in observation.operations] == [("insert", "ben@example.com")]
    commands = {}
    for name, one in seen.items():
        keeper = keeper_of(one.labels, one.origin, one.zone)
        assert keeper is not None
        assert keeper.kind is KeeperKind.VERTEX
        commands[name] = keeper.instead(name, PROJECT)
        assert keeper.has_own_stop == (name != "warm-pool")
    ids = {name: one.key.gce_id.split(".")[3:] for name, one in seen.items()}
    assert commands["train"] == f"gcloud ai custom-jobs cancel {ids['train'][0]} --region {REGION} --project {PROJECT}"
    assert commands["notes"] == f"gcloud colab runtimes stop {ids['notes'][0]} --region {REGION} --project {PROJECT}"
    assert commands["llama"] == (
        f"gcloud ai endpoints undeploy-model {ids['llama'][0]} --deployed-model-id {ids['llama'][1]} "
        f"--region {REGION} --project {PROJECT}"
    )
    assert commands["warm-pool"].startswith("gcloud ai persistent-resources delete warm-pool")


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        ({"diskSizeGb": "250", "diskType": "pd-balanced"}, (250, "colab-enterprise-pd-balanced")),
        ({}, (100, "colab-enterprise-pd-standard")),
        (None, (100, "colab-enterprise-pd-standard")),
    ],
    ids=["given", "defaults", "left-out"],
)
@pytest.mark.parametrize("state", ["RUNNING", "STOPPED"])
def test_a_runtime_has_a_boot_disk_and_a_data_disk_also_while_it_is_stopped(
    spec: dict[str, str] | None, data: tuple[int, str], state: str
) -> None:
    """The boot disk is 100 GiB of SSD and cannot be chosen (Google, "Runtimes and runtime templates")."""
    raw = {
        "name": f"projects/1/locations/{REGION}/notebookRuntimes/12",
        "runtimeState": state,
        "createTime": "2026-11-20T11:00:00Z",
        "machineSpec": CPU,
        **({} if spec is None else {"dataPersistentDiskSpec": spec}),
    }
    (one,) = read("notebookRuntimes", raw)
    boot, disk = one.disks
    assert (boot.name, boot.size_gib, boot.disk_type, boot.boot) == ("boot disk", 100, "colab-enterprise-pd-ssd", True)
    assert (disk.name, disk.size_gib, disk.disk_type) == ("data disk", *data)
    assert disk.created_at == datetime(2026, 11, 20, 11, tzinfo=UTC)


def test_what_is_asked_for_and_read_is_what_google_describes() -> None:
    """Each list, request and field stands in Google's own description of the API."""
    for one in LISTS:
        method = DISCOVERED["methods"][f"{one.collection}.list"]
        assert method["path"] == f"v1/{{+parent}}/{one.collection}"
        assert ("filter" in method["parameters"]) or not one.filtered
        schema = {"CustomJob": "customJobs", "NotebookRuntime": "notebookRuntimes", "Endpoint": "endpoints"}
        schema |= {"PersistentResource": "persistentResources", "HyperparameterTuningJob": "hyperparameterTuningJobs"}
        schema |= {"DeploymentResourcePool": "deploymentResourcePools"}
        name = next(name for name, collection in schema.items() if collection == one.collection)
        _check_fields(one, name)
    for method in ("customJobs.cancel", "notebookRuntimes.stop", "endpoints.undeployModel"):
        assert DISCOVERED["methods"][method]["httpMethod"] == "POST"
    assert "deployedModelId" in DISCOVERED["schemas"]["UndeployModelRequest"]


def _check_fields(one: VertexList, schema: str) -> None:
    """Walks a field mask such as `name,jobSpec(scheduling/strategy,workerPoolSpecs(machineSpec))`."""

    def walk(mask: str, at: str) -> None:
        depth, start = 0, 0
        parts = []
        for place, letter in enumerate(f"{mask},"):
            depth += (letter == "(") - (letter == ")")
            if letter == "," and depth == 0:
                parts.append(mask[start:place])
                start = place + 1
        for part in parts:
            field, _, inner = part.partition("(")
            names = field.split("/")
            here = at
            for name in names:
                assert name in DISCOVERED["schemas"][here], (one.collection, here, name)
                kind = DISCOVERED["schemas"][here][name]
                here = kind if isinstance(kind, str) else here
            if inner:
                walk(inner.removesuffix(")"), here)

    walk(one.fields, schema)
