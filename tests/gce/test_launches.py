"""Making, starting and deleting the VMs of jobs, through the official client and over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.gce.conftest import Connect, Waits
from tests.gce.server import Answer, Asked, google_error, json_answer
from tests.sandbox.gce.conformance.discovery import problems

from costguard.errors import (
    AlreadyExists,
    BadAnswer,
    CloudError,
    CloudUnavailable,
    NotFound,
    PermissionDenied,
    RateLimited,
    RequestRefused,
)
from costguard.gce.client import ComputeCloud
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.launch import OperationAnswer, Quota, Recipe, VmRequest
from costguard.model.ports import Launcher
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.errors import Refused
from costguard_sandbox.gce.insertion import read_insert
from costguard_sandbox.server import running
from costguard_sandbox.world import World

ZONE = "us-central1-a"
ONE, OTHER = str(UUID(int=1)), str(UUID(int=2))
T4 = Recipe(
    machine_type="n1-standard-8",
    zones=(ZONE,),
    image="projects/deeplearning-platform-release/global/images/family/common-cu124",
    max_run=timedelta(days=1),
    gpu_type="nvidia-tesla-t4",
    gpu_count=1,
    attaches_gpus=True,
    service_account="trainer@demo.iam.gserviceaccount.com",
    labels={"team": "vision"},
)
A100 = replace(T4, machine_type="a2-highgpu-1g", gpu_type="nvidia-tesla-a100", attaches_gpus=False)
SPOT = VmRequest(
    name="cg-j7k2m9q4-1",
    recipe=T4,
    provisioning_model=ProvisioningModel.SPOT,
    max_run=timedelta(hours=8),
    keeps_disk=False,
    labels={"costguard-job": "j7k2m9q4"},
    metadata={"costguard-attempt": "{}", "startup-script": "#!/bin/sh\n"},
)


@dataclass
class Sandbox:
    world: World
    launcher: Launcher

    def status(self) -> Status | None:
        sighting = self.launcher.look("demo", ZONE, SPOT.name)
        return sighting.status if sighting is not None else None

    def after(self, minutes: int, operation: str) -> OperationAnswer | None:
        self.world.advance(timedelta(minutes=minutes))
        return self.launcher.operation("demo", ZONE, operation)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    clock = ManualClock(datetime(2026, 11, 2, 8, tzinfo=UTC))
    world = World(clock)
    with running(world) as url:
        cloud = ComputeCloud(url, clock, wait=Waits())
        yield Sandbox(world, cloud.launcher)
        cloud.close()


def test_a_vm_is_made_once_under_one_request_id(sandbox: Sandbox) -> None:
    """A repeat gives the operation that the first gave; it is followed until the VM is there, with its numeric id."""
    first = sandbox.launcher.insert("demo", ZONE, SPOT, ONE)
    assert sandbox.launcher.operation("demo", ZONE, first) is not None
    assert sandbox.launcher.insert("demo", ZONE, SPOT, ONE) == first
    answer = sandbox.after(5, first)
    sighting = sandbox.launcher.look("demo", ZONE, SPOT.name)
    assert sighting is not None
    assert answer == OperationAnswer(is_done=True, target_id=sighting.gce_id)
    assert (sighting.status, dict(sighting.labels)) == (Status.RUNNING, {"team": "vision", "costguard-job": "j7k2m9q4"})
    with pytest.raises(AlreadyExists, match=SPOT.name):
        sandbox.launcher.insert("demo", ZONE, SPOT, OTHER)
    assert len(sandbox.world.instances("demo")) == 1


def test_an_operation_that_is_not_done(sandbox: Sandbox) -> None:
    """An insert is accepted at once, and takes its time."""
    operation = sandbox.launcher.insert("demo", ZONE, SPOT, ONE)
    answer = sandbox.launcher.operation("demo", ZONE, operation)
    assert answer is not None
    assert (answer.is_done, answer.error_code) == (False, "")
    assert sandbox.launcher.operation("demo", ZONE, "7") is None


def test_google_ends_each_vm_by_itself(sandbox: Sandbox) -> None:
    """The run-time limit stands on the VM: past it the VM is gone, and no guard was needed."""
    sandbox.launcher.insert("demo", ZONE, SPOT, ONE)
    sandbox.world.advance(timedelta(hours=7))
    assert sandbox.status() is Status.RUNNING
    sandbox.world.advance(timedelta(hours=1, minutes=10))
    assert sandbox.status() is None
    assert [one for one in sandbox.world.disks("demo") if one.users] == []


def test_a_vm_that_keeps_its_disk_is_started_again(sandbox: Sandbox) -> None:
    """Google stops it where it would delete another, and the same VM comes back."""
    sandbox.launcher.insert("demo", ZONE, replace(SPOT, keeps_disk=True), ONE)
    sandbox.world.advance(timedelta(minutes=5))
    sighting = sandbox.launcher.look("demo", ZONE, SPOT.name)
    assert sighting is not None
    sandbox.world.preempt("demo", SPOT.name)
    sandbox.world.advance(timedelta(minutes=5))
    assert sandbox.status() is Status.STOPPED
    started = sandbox.launcher.start("demo", ZONE, sighting.gce_id, OTHER)
    assert sandbox.launcher.start("demo", ZONE, sighting.gce_id, OTHER) == started
    assert sandbox.after(5, started) == OperationAnswer(is_done=True, target_id=sighting.gce_id)
    assert sandbox.status() is Status.RUNNING


def test_a_delete_by_id(sandbox: Sandbox) -> None:
    """The VM of this id is deleted; a later one under the same name is not."""
    sandbox.launcher.insert("demo", ZONE, SPOT, ONE)
    sandbox.world.advance(timedelta(minutes=5))
    sighting = sandbox.launcher.look("demo", ZONE, SPOT.name)
    assert sighting is not None
    operation = sandbox.launcher.delete("demo", ZONE, sighting.gce_id, OTHER)
    assert sandbox.after(5, operation) == OperationAnswer(is_done=True, target_id=sighting.gce_id)
    assert sandbox.status() is None
    sandbox.launcher.insert("demo", ZONE, SPOT, str(UUID(int=3)))
    sandbox.world.advance(timedelta(minutes=5))
    with pytest.raises(NotFound):
        sandbox.launcher.delete("demo", ZONE, sighting.gce_id, str(UUID(int=4)))
    assert sandbox.status() is Status.RUNNING


def test_a_stockout_comes_with_the_operation(sandbox: Sandbox) -> None:
    """The request is accepted, its operation fails in Google's words for people, and the name is free."""
    sandbox.world.faults.add("stockout", zone=ZONE)
    answer = sandbox.after(5, sandbox.launcher.insert("demo", ZONE, SPOT, ONE))
    assert answer is not None
    assert (answer.is_done, answer.error_code[:28]) == (True, "ZONE_RESOURCE_POOL_EXHAUSTED")
    assert "is currently unavailable in the us-central1-a zone" in answer.error_message
    assert sandbox.status() is None


def test_quotas(sandbox: Sandbox) -> None:
    """They are read by metric, with what is used; one that is exceeded comes with the operation."""
    sandbox.world.faults.add("quota", metric="PREEMPTIBLE_NVIDIA_T4_GPUS", limit=1, region="us-central1")
    sandbox.launcher.insert("demo", ZONE, SPOT, ONE)
    sandbox.world.advance(timedelta(minutes=5))
    quotas = sandbox.launcher.quotas("demo", "us-central1")
    metric = "PREEMPTIBLE_NVIDIA_T4_GPUS"
    assert quotas[metric] == Quota(metric, limit=1.0, usage=1.0)
    answer = sandbox.after(5, sandbox.launcher.insert("demo", ZONE, replace(SPOT, name="second"), OTHER))
    assert answer is not None
    assert (answer.error_code, metric in answer.error_message) == ("QUOTA_EXCEEDED", True)


@pytest.mark.parametrize(
    ("kind", "values", "error"),
    [
        ("forbidden", {"project": "demo"}, PermissionDenied),
        ("project_gone", {"project": "demo"}, RequestRefused),
        ("server_error", {"code": 503, "count": 1}, CloudUnavailable),
        ("garbage", {}, CloudUnavailable),  # it came with a 200
        ("garbage", {"what": "other"}, CloudUnavailable),  # and was the answer to another request
    ],
)
def test_troubles_of_an_insert(sandbox: Sandbox, kind: str, values: dict[str, Any], error: type[CloudError]) -> None:
    """A call that may have begun is distinguished from one that has not, and each is made once."""
    sandbox.world.faults.add(kind, **values)
    with pytest.raises(error):
        sandbox.launcher.insert("demo", ZONE, SPOT, ONE)


def test_a_machine_that_cannot_be(sandbox: Sandbox) -> None:
    """Google's words say what does not go together."""
    wrong = replace(SPOT, recipe=replace(T4, gpu_type="nvidia-tesla-a100"))
    with pytest.raises(RequestRefused, match="features are not compatible for creating instance"):
        sandbox.launcher.insert("demo", ZONE, wrong, ONE)


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (google_error(403, "rateLimitExceeded"), RateLimited, "quota"),
        (google_error(403, "forbidden"), PermissionDenied, "Grant the role of deploy/iam-role-launch.yaml"),
        (google_error(400, "resourceNotReady", "It is not ready"), BadAnswer, "It is not ready"),
        (google_error(404, "notFound", "The resource 'family/x' was not found"), RequestRefused, "'family/x'"),
        (google_error(409, "alreadyExists"), AlreadyExists, "409"),
        (json_answer({}), CloudUnavailable, "may have begun"),
        (Answer(b'{"id": "7"', promised=40), CloudUnavailable, "no answer"),
    ],
)
def test_answers(connect: Connect, answer: Answer, error: type[CloudError], said: str) -> None:
    """A refusal is reported only where Google will refuse again; no call is repeated."""
    setup = connect(lambda _: answer)
    with pytest.raises(error, match=said):
        setup.cloud.launcher.insert("p", ZONE, SPOT, ONE)
    assert [one.query["requestId"] for one in setup.server.requests] == [ONE]


def test_many_at_once(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    """A storm of inserts keeps its connections: none is thrown away to be made again for the next call."""
    together = threading.Barrier(16)

    def answer(_: object) -> Answer:
        together.wait(30)
        return json_answer({"kind": "compute#operation", "id": "7"})

    setup = connect(answer)
    with ThreadPoolExecutor(16) as pool:
        calls = [pool.submit(setup.cloud.launcher.insert, "p", ZONE, SPOT, str(UUID(int=i + 1))) for i in range(16)]
        assert [call.result() for call in calls] == ["7"] * 16
    assert [record.getMessage() for record in caplog.records] == []


def test_a_failure_without_a_code(connect: Connect) -> None:
    """An operation that failed with an HTTP status alone has failed all the same."""
    failed = {"status": "DONE", "httpErrorStatusCode": 503, "httpErrorMessage": "SERVICE UNAVAILABLE"}
    failed |= {"kind": "compute#operation", "id": "7"}
    setup = connect(lambda _: json_answer(failed))
    assert setup.cloud.launcher.operation("p", ZONE, "7") == OperationAnswer(
        is_done=True, error_code="503", error_message="SERVICE UNAVAILABLE"
    )


@pytest.mark.parametrize(
    "vm",
    [
        SPOT,
        replace(SPOT, keeps_disk=True, provisioning_model=ProvisioningModel.STANDARD),
        replace(
            SPOT, keeps_disk=True, recipe=replace(A100, machine_type="a2-ultragpu-1g", gpu_type="nvidia-a100-80gb")
        ),
        replace(SPOT, recipe=replace(A100, subnetwork="train", external_address=False, service_account="")),
    ],
)
def test_the_request_is_what_google_describes(connect: Connect, vm: VmRequest) -> None:
    """Every body has only fields, kinds and values that Google's description of its API has."""
    setup = connect(lambda _: json_answer({"kind": "compute#operation", "id": "7"}))
    setup.cloud.launcher.insert("p", ZONE, vm, ONE)
    (request,) = setup.server.requests
    assert problems(request.body, "Instance") == []
    scheduling = request.body["scheduling"]
    scheduling.pop("onInstanceStopAction", None)
    assert scheduling == {
        "provisioningModel": vm.provisioning_model.name,
        "instanceTerminationAction": "STOP" if vm.keeps_disk else "DELETE",
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "maxRunDuration": {"seconds": "28800"},
    }


@pytest.mark.parametrize(
    ("machine_type", "keeps_disk", "discards"),
    [
        ("a2-ultragpu-1g", True, True),
        ("a3-highgpu-8g", True, True),
        ("x9-new-8-lssd", True, True),
        ("a2-ultragpu-1g", False, False),
        ("a2-highgpu-1g", True, False),
        ("a3-edgegpu-8g-nolssd", True, False),
        ("x9-new-8", True, False),
    ],
)
def test_google_may_stop_a_vm_with_local_ssds_at_its_end(
    connect: Connect, machine_type: str, keeps_disk: bool, discards: bool
) -> None:
    """Set exactly where Google demands and allows it; of a type that is not known here, Google is asked.

    `gcloud compute instances create --help` of --discard-local-ssds-at-termination-timestamp: "Required to be set to
    `true` and only allowed for VMs that have one or more local SSDs, use --instance-termination-action=STOP, and use
    either --max-run-duration or --termination-time." The field is the discovery document's.
    """

    def google(request: Asked) -> Answer:
        if "/machineTypes/" not in request.path:
            return json_answer({"kind": "compute#operation", "id": "7"})
        ssds = {"bundledLocalSsds": {"partitionCount": 2}} if machine_type.endswith("-lssd") else {}
        machine = {"kind": "compute#machineType", "name": machine_type, "guestCpus": 8, "memoryMb": 32768}
        return json_answer({**machine, **ssds})

    setup = connect(google)
    vm = replace(SPOT, keeps_disk=keeps_disk, recipe=replace(A100, machine_type=machine_type))
    setup.cloud.launcher.insert("p", ZONE, vm, ONE)
    body = setup.server.requests[-1].body
    assert problems(body, "Instance") == []
    assert body["scheduling"].get("onInstanceStopAction") == ({"discardLocalSsd": True} if discards else None)


def test_the_simulated_google_demands_that_local_ssds_are_discarded(sandbox: Sandbox) -> None:
    """A VM with built-in local SSDs to be stopped at its end is made; without the field it is refused."""
    ultra = replace(SPOT, keeps_disk=True, recipe=replace(A100, machine_type="a2-ultragpu-1g"))
    sandbox.launcher.insert("demo", ZONE, ultra, ONE)
    body: dict[str, Any] = {
        "name": "by-hand",
        "machineType": f"zones/{ZONE}/machineTypes/a2-ultragpu-1g",
        "networkInterfaces": [{"network": "global/networks/default"}],
        "disks": [{"boot": True, "initializeParams": {"sourceImage": T4.image}}],
        "scheduling": {
            "onHostMaintenance": "TERMINATE",
            "instanceTerminationAction": "STOP",
            "maxRunDuration": {"seconds": "3600"},
        },
    }
    with pytest.raises(Refused, match="onInstanceStopAction"):
        read_insert(ZONE, body)
    body["scheduling"] |= {"onInstanceStopAction": {"discardLocalSsd": True}}
    read_insert(ZONE, body)
    with pytest.raises(Refused, match="onInstanceStopAction"):
        read_insert(ZONE, {**body, "machineType": f"zones/{ZONE}/machineTypes/a2-highgpu-1g"})


def test_a_request_in_full(connect: Connect) -> None:
    """The request to Google is what a recipe says."""
    setup = connect(lambda _: json_answer({"kind": "compute#operation", "id": "7"}))
    setup.cloud.launcher.insert("p", ZONE, SPOT, ONE)
    body = setup.server.requests[0].body
    del body["scheduling"]
    assert body == {
        "name": "cg-j7k2m9q4-1",
        "machineType": "zones/us-central1-a/machineTypes/n1-standard-8",
        "disks": [
            {
                "boot": True,
                "autoDelete": True,
                "initializeParams": {
                    "sourceImage": T4.image,
                    "diskSizeGb": "100",
                    "diskType": "zones/us-central1-a/diskTypes/pd-balanced",
                },
            }
        ],
        "guestAccelerators": [
            {"acceleratorType": "zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4", "acceleratorCount": 1}
        ],
        "networkInterfaces": [
            {
                "network": "global/networks/default",
                "accessConfigs": [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}],
            }
        ],
        "labels": {"team": "vision", "costguard-job": "j7k2m9q4"},
        "metadata": {"items": [{"key": key, "value": value} for key, value in SPOT.metadata.items()]},
        "serviceAccounts": [{"email": T4.service_account, "scopes": list(T4.scopes)}],
    }


def test_a_request_without_the_outside(connect: Connect) -> None:
    """A subnetwork by its name is the one in the VM's region; built-in GPUs are not attached; no account is none."""
    setup = connect(lambda _: json_answer({"kind": "compute#operation", "id": "7"}))
    bare = replace(A100, subnetwork="train", external_address=False, service_account="")
    setup.cloud.launcher.insert("p", "europe-west4-a", replace(SPOT, recipe=bare), ONE)
    body = setup.server.requests[0].body
    assert body["networkInterfaces"] == [{"subnetwork": "regions/europe-west4/subnetworks/train"}]
    assert "guestAccelerators" not in body
    assert "serviceAccounts" not in body
