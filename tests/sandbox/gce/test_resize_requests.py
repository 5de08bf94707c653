"""Templates, groups and resize requests of the simulated cloud, by Google's own client and its discovery document."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import requests
from google.api_core.exceptions import BadRequest, Conflict, NotFound
from google.auth.credentials import AnonymousCredentials
from tests.sandbox.gce.conformance.discovery import problems
from tests.sandbox.gce.test_flex_start import flex
from tests.sandbox.vms import HOUR, MINUTE, PROJECT, ZONE, new_world

from costguard_sandbox.gce.meter.usage import spans
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.server import running
from costguard_sandbox.world import World

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.cloud import compute_v1

NAMES = ("node-0", "node-1", "node-2")
GROUP = {"project": PROJECT, "zone": ZONE, "instance_group_manager": "gang"}


@dataclass
class Google:
    """Google's clients at the simulated cloud."""

    world: World
    url: str
    number: int = 0

    def client(self, name: str) -> Any:
        credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
        return getattr(compute_v1, f"{name}Client")(credentials=credentials, client_options={"api_endpoint": self.url})

    def raw(self, path: str) -> Any:
        return requests.get(f"{self.url}/compute/v1/projects/{PROJECT}/{path}", timeout=30).json()

    def template(self, **properties: Any) -> None:
        body = flex(None, None)
        made = {**body, "machineType": "a2-highgpu-1g", **properties}
        made["disks"][0]["initializeParams"]["diskType"] = "pd-balanced"
        made.pop("name")
        self._post("global/instanceTemplates", {"name": "gang", "properties": made})

    def group(self, action: str = "DO_NOTHING") -> None:
        body = {
            "name": "gang",
            "instanceTemplate": f"projects/{PROJECT}/global/instanceTemplates/gang",
            "targetSize": 0,
            "instanceLifecyclePolicy": {"defaultActionOnFailure": action},
        }
        self._post(f"zones/{ZONE}/instanceGroupManagers", body)

    def ask(self, name: str = "first", names: tuple[str, ...] = NAMES, seconds: int = 7200, **more: Any) -> Any:
        resource = {
            "name": name,
            "instances": [{"name": one} for one in names],
            "requested_run_duration": {"seconds": seconds},
            **more,
        }
        request = {**GROUP, "instance_group_manager_resize_request_resource": resource}
        return self.client("InstanceGroupManagerResizeRequests").insert_unary(request=request)

    def state(self, name: str = "first") -> str:
        read = self.client("InstanceGroupManagerResizeRequests").get(request={**GROUP, "resize_request": name})
        return str(read.state)

    def cancel(self, name: str = "first") -> Any:
        client = self.client("InstanceGroupManagerResizeRequests")
        return client.cancel_unary(request={**GROUP, "resize_request": name})

    def vms(self) -> list[VM]:
        return self.world.instances(PROJECT)

    def _post(self, path: str, body: Any) -> None:
        self.number += 1
        url = f"{self.url}/compute/v1/projects/{PROJECT}/{path}?requestId={UUID(int=self.number)}"
        answer = requests.post(url, json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        self.world.advance(timedelta(seconds=10))


@pytest.fixture
def google() -> Iterator[Google]:
    world = new_world()
    with running(world) as url:
        yield Google(world, url)


@pytest.fixture
def ready(google: Google) -> Google:
    google.template()
    google.group()
    return google


def test_all_vms_come_at_once_for_the_time_that_was_requested(ready: Google) -> None:
    """Nothing bills while the request waits; then all run, under their names, and end together."""
    ready.world.faults.add("flex_start", seconds=600)
    operation = ready.ask()
    assert operation.operation_type == "compute.instanceGroupManagerResizeRequests.insert"
    ready.world.advance(9 * MINUTE)
    assert (ready.state(), ready.vms()) == ("ACCEPTED", [])
    ready.world.advance(70 * timedelta(seconds=1))
    assert ready.state() == "CREATING"
    ready.world.advance(2 * MINUTE)
    assert ready.state() == "SUCCEEDED"
    assert [(vm.name, vm.status) for vm in ready.vms()] == [(name, Status.RUNNING) for name in NAMES]
    assert len({vm.created_at for vm in ready.vms()}) == 1
    assert all(spans(vm, ready.world.now) for vm in ready.vms())
    assert ready.client("InstanceGroupManagers").get(request=GROUP).target_size == 3
    items = {item["key"]: item["value"] for item in ready.vms()[0].given["metadata"]["items"]}
    assert items["created-by"].endswith(f"/zones/{ZONE}/instanceGroupManagers/gang")
    ready.world.advance(3 * HOUR)
    assert ready.vms() == []


def test_what_the_api_shows_is_as_its_discovery_document_says(ready: Google) -> None:
    """A template, a group, a request and the operations that made them have the fields of the document alone."""
    ready.ask()
    ready.world.advance(HOUR)
    request = ready.raw(f"zones/{ZONE}/instanceGroupManagers/gang/resizeRequests/first")
    assert problems(request, "InstanceGroupManagerResizeRequest") == []
    assert problems(ready.raw("global/instanceTemplates/gang"), "InstanceTemplate") == []
    assert problems(ready.raw(f"zones/{ZONE}/instanceGroupManagers/gang"), "InstanceGroupManager") == []
    listed = ready.raw(f"zones/{ZONE}/instanceGroupManagers/gang/resizeRequests")
    assert [one["name"] for one in listed["items"]] == ["first"]
    for operation in ready.world.operations.of(PROJECT):
        assert problems(operation.resource(), "Operation") == []


def test_all_or_none_by_stock_and_quota(ready: Google) -> None:
    """A quota for two is not enough for three: the request waits on, and is granted once there is more."""
    ready.world.faults.add("flex_start", seconds=1)
    quota = ready.world.faults.add("quota", metric="PREEMPTIBLE_NVIDIA_A100_GPUS", limit=2, region="us-central1")
    other = ready.world.faults.add("quota", metric="NVIDIA_A100_GPUS", limit=2, region="us-central1")
    ready.ask()
    ready.world.advance(HOUR)
    assert (ready.state(), ready.vms()) == ("ACCEPTED", [])
    ready.world.faults.remove(quota.id)
    ready.world.faults.remove(other.id)
    ready.world.advance(5 * MINUTE)
    assert (ready.state(), len(ready.vms())) == ("SUCCEEDED", 3)


def test_a_request_that_fails_says_why(ready: Google) -> None:
    """Google's words of a stock-out are in its status, and the group is as small as before."""
    ready.world.faults.add("flex_start", seconds=30, fails=True)
    ready.ask()
    ready.world.advance(MINUTE)
    read = ready.client("InstanceGroupManagerResizeRequests").get(request={**GROUP, "resize_request": "first"})
    assert read.state == "FAILED"
    assert read.status.error.errors[0].code == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert ready.client("InstanceGroupManagers").get(request=GROUP).target_size == 0


def test_only_a_request_that_waits_can_be_cancelled(ready: Google) -> None:
    """It leaves the queue at once; one that was granted is left as it is."""
    ready.world.faults.add("flex_start", never=True)
    ready.ask()
    ready.world.advance(HOUR)
    ready.cancel()
    assert ready.state() == "CANCELLED"
    ready.world.faults.clear()
    ready.world.faults.add("flex_start", seconds=1)
    ready.ask("second")
    ready.world.advance(5 * MINUTE)
    with pytest.raises(BadRequest, match="only ACCEPTED ones"):
        ready.cancel("second")
    assert len(ready.vms()) == 3


def test_a_group_that_is_deleted_takes_vms_and_requests_along(ready: Google) -> None:
    """The group waits for VMs that are being made; then it goes, and its template may go."""
    ready.world.faults.add("flex_start", seconds=30)
    ready.ask()
    ready.world.advance(timedelta(seconds=35))
    assert ready.state() == "CREATING"
    ready.client("InstanceGroupManagers").delete_unary(request=GROUP)
    ready.world.advance(timedelta(seconds=2))
    assert len(ready.vms()) == 3
    with pytest.raises(BadRequest, match="already being used"):
        ready.client("InstanceTemplates").delete_unary(project=PROJECT, instance_template="gang")
    ready.world.advance(10 * MINUTE)
    assert ready.vms() == []
    with pytest.raises(NotFound):
        ready.state()
    ready.client("InstanceTemplates").delete_unary(project=PROJECT, instance_template="gang")
    ready.world.advance(MINUTE)
    assert ready.raw("global/instanceTemplates/gang")["error"]["code"] == 404


def test_a_vm_that_its_group_deletes_leaves_the_others(ready: Google) -> None:
    """The group is smaller by it, repairs nothing, and takes another request."""
    ready.world.faults.add("flex_start", seconds=1)
    ready.ask()
    ready.world.advance(5 * MINUTE)
    resource = {"instances": [f"zones/{ZONE}/instances/node-1"]}
    body = "instance_group_managers_delete_instances_request_resource"
    ready.client("InstanceGroupManagers").delete_instances_unary(request={**GROUP, body: resource})
    ready.world.trigger("host-error", PROJECT, "node-2")
    ready.world.advance(20 * MINUTE)
    assert "node-1" not in [vm.name for vm in ready.vms()]
    assert ready.world.groups.repairs == 0
    ready.ask("second", ("node-3",))
    ready.world.advance(5 * MINUTE)
    assert "node-3" in [vm.name for vm in ready.vms()]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"seconds": 599}, "between 10 minutes and 7 days"),
        ({"seconds": 7 * 86_400 + 1}, "between 10 minutes and 7 days"),
        ({"resize_by": 3}, "not be set together"),
        ({"names": ()}, "Required"),
        ({"names": ("Node",)}, "match of regex"),
    ],
)
def test_a_request_that_google_does_not_take(ready: Google, given: Any, why: str) -> None:
    """The bounds are those of the API's description."""
    with pytest.raises(BadRequest, match=why):
        ready.ask(**given)


def test_a_name_is_taken_once(ready: Google) -> None:
    """Google refuses a second request or VM of a name."""
    ready.world.faults.add("flex_start", seconds=1)
    ready.ask()
    with pytest.raises(Conflict):
        ready.ask()
    ready.world.advance(5 * MINUTE)
    with pytest.raises(Conflict):
        ready.ask("second", ("node-0",))


def test_a_group_that_repairs_takes_no_request(google: Google) -> None:
    """This is a limit of "About resize requests in a MIG"."""
    google.template()
    google.group("REPAIR")
    with pytest.raises(BadRequest, match="DO_NOTHING"):
        google.ask()


def test_a_template_that_may_use_reservations_takes_no_request(google: Google) -> None:
    """Another one."""
    google.template(reservationAffinity={"consumeReservationType": "ANY_RESERVATION"})
    google.group()
    with pytest.raises(BadRequest, match="NO_RESERVATION"):
        google.ask()
