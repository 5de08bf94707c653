"""Groups, node pools and Workbench in the simulated cloud, through Google's own client and the product's adapter."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import requests
from google.api_core.exceptions import BadRequest, NotFound
from google.auth.credentials import AnonymousCredentials
from tests.gce.conftest import Waits
from tests.sandbox.gce.conformance.discovery import problems
from tests.sandbox.vms import HOUR, MINUTE, PROJECT, ZONE, body, new_world, up

from costguard.errors import CloudUnavailable, KeptByAnother
from costguard.gce.client import ComputeCloud
from costguard.keepers.reading import keeper_of
from costguard.model.keeper import Keeper, KeeperKind
from costguard_sandbox.gce.groups import Group, service_agent
from costguard_sandbox.gce.pools import make_group, make_pool
from costguard_sandbox.gce.vm import VM, Load, Status
from costguard_sandbox.gce.workbench import notebooks_agent
from costguard_sandbox.server import running
from costguard_sandbox.world import World

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from google.cloud import compute_v1

ONE = str(UUID(int=1))
REGION = "us-central1"
BOOK: dict[str, Any] = {"labels": {"notebooks-product": "workbench-instances", "resource-name": "ana-book"}}


@dataclass
class Served:
    world: World
    url: str
    cloud: ComputeCloud

    def client(self, group: Group) -> tuple[Any, dict[str, str]]:
        kind, _, place = group.scope.partition("/")
        name = "InstanceGroupManagersClient" if kind == "zones" else "RegionInstanceGroupManagersClient"
        client = getattr(compute_v1, name)(
            credentials=AnonymousCredentials(),  # type: ignore[no-untyped-call]
            client_options={"api_endpoint": self.url},
        )
        return client, {"project": PROJECT, kind.removesuffix("s"): place, "instance_group_manager": group.name}

    def group(self, scope: str = f"zones/{ZONE}", size: int = 2, **options: Any) -> Group:
        group = make_group(self.world, PROJECT, scope, "trainers", body("template"), size, **options)
        self.world.advance(2 * MINUTE)
        return group

    def stop(self, vm: VM, request_id: str = ONE) -> str:
        """Stops it by its keeper's own API, as the guard would."""
        return self.cloud.stop_kept(self.keeper(vm), (PROJECT, vm.zone, vm.name), str(vm.id), request_id)

    def ended(self, vm: VM, operation: str) -> str | None:
        """Returns the error of an operation of its keeper, "" without one; None while it is under way."""
        answer = self.cloud.kept_operation(self.keeper(vm), (PROJECT, vm.zone, vm.name), operation)
        if answer is None:
            return "forgotten"
        return answer.error_message if answer.is_done else None

    def keeper(self, vm: VM) -> Keeper:
        sighting = self.cloud.look(PROJECT, vm.zone, vm.name)
        assert sighting is not None
        keeper = keeper_of(sighting.labels, sighting.origin, vm.zone)
        assert keeper is not None
        return keeper


@pytest.fixture
def served() -> Iterator[Served]:
    world = new_world()
    with running(world) as url:
        cloud = ComputeCloud(url, world.clock, wait=Waits())
        yield Served(world, url, cloud)
        cloud.close()


def boot_disks(vms: list[VM]) -> list[int]:
    return [vm.boot_disk.id for vm in vms if vm.boot_disk is not None]


of_both_scopes = pytest.mark.parametrize("scope", [f"zones/{ZONE}", f"regions/{REGION}"])


@of_both_scopes
def test_googles_client_stops_and_starts_a_vm_by_its_group(served: Served, scope: str) -> None:
    """It stays in the group on its disk, the group's target follows, and nothing repairs it."""
    group = served.group(scope)
    client, names = served.client(group)
    first, second = group.vms
    disks = boot_disks(group.vms)
    kind = "" if scope.startswith("zones/") else "region_"
    request = {
        **names,
        f"{kind}instance_group_managers_stop_instances_request_resource": {
            "instances": [f"zones/{first.zone}/instances/{first.name}"]
        },
    }
    operation = client.stop_instances_unary(request=request)
    assert (operation.operation_type, operation.target_id) == ("compute.instanceGroupManagers.stopInstances", group.id)
    served.world.advance(HOUR)
    assert (first.status, second.status) == (Status.TERMINATED, Status.RUNNING)
    assert (served.world.groups.repairs, boot_disks(group.vms)) == (0, disks)
    shown = client.get(**names)
    assert (shown.target_size, shown.target_stopped_size, shown.status.is_stable) == (1, 1, True)
    members = {one.name: one for one in client.list_managed_instances(**names)}
    assert (members[first.name].instance_status, members[first.name].target_status) == ("STOPPED", "STOPPED")
    assert (members[second.name].instance_status, members[second.name].current_action) == ("RUNNING", "NONE")
    assert int(members[first.name].id) == first.id
    start = {
        **names,
        f"{kind}instance_group_managers_start_instances_request_resource": {
            "instances": [members[first.name].instance]
        },
    }
    client.start_instances_unary(request=start)
    served.world.advance(5 * MINUTE)
    assert (first.status, client.get(**names).target_size) == (Status.RUNNING, 2)


@of_both_scopes
def test_googles_client_resizes_a_group(served: Served, scope: str) -> None:
    """New VMs come from the template, and those that go are not made again."""
    group = served.group(scope, size=1)
    client, names = served.client(group)
    client.resize_unary(**names, size=3)
    served.world.advance(5 * MINUTE)
    assert [vm.status for vm in group.vms] == [Status.RUNNING] * 3
    assert len({vm.name for vm in group.vms}) == 3
    client.resize_unary(**names, size=0)
    served.world.advance(HOUR)
    assert (group.vms, served.world.instances(PROJECT), served.world.groups.repairs) == ([], [], 0)
    with pytest.raises(NotFound):
        client.get(**{**names, "instance_group_manager": "none"})


def test_a_group_refuses_to_stop_what_is_not_its_own_or_does_not_run(served: Served) -> None:
    """ "You can only specify instances that are running in this request"."""
    group = served.group()
    up(served.world, "mine")
    client, names = served.client(group)
    for wrong in (f"zones/{ZONE}/instances/mine", f"zones/{ZONE}/instances/none"):
        given = {**names, "instance_group_managers_stop_instances_request_resource": {"instances": [wrong]}}
        with pytest.raises(BadRequest):
            client.stop_instances_unary(request=given)
    served.world.request("stop", PROJECT, ZONE, group.vms[0].name, service_agent(PROJECT))
    served.world.advance(5 * MINUTE)
    stopped = {"instances": [f"zones/{ZONE}/instances/{group.vms[0].name}"]}
    with pytest.raises(BadRequest, match="TERMINATED, not RUNNING"):
        client.stop_instances_unary(
            request={**names, "instance_group_managers_stop_instances_request_resource": stopped}
        )


def test_groups_look_as_googles_description_says(served: Served) -> None:
    """The discovery document of compute v1; groups of VMs that nobody declared are there too."""
    served.group()
    up(
        served.world,
        "t4-x",
        metadata={"items": [{"key": "created-by", "value": f"projects/1/zones/{ZONE}/instanceGroupManagers/t4"}]},
    )
    seen = requests.get(
        f"{served.url}/compute/v1/projects/{PROJECT}/aggregated/instanceGroupManagers", timeout=30
    ).json()
    groups = seen["items"][f"zones/{ZONE}"]["instanceGroupManagers"]
    assert [one["name"] for one in groups] == ["t4", "trainers"]
    assert problems(seen, "InstanceGroupManagerAggregatedList") == []


@pytest.mark.parametrize("verb", ["stop", "delete"])
def test_a_group_repairs_a_vm_60_to_120_s_after_others_ended_it(verb: str) -> None:
    """The VM is down in between, whatever the seed; a group that does nothing on failure leaves it so."""
    for seed in range(5):
        world = new_world(seed=seed)
        group = make_group(world, PROJECT, f"zones/{ZONE}", "trainers", body("template"), 1)
        world.advance(5 * MINUTE)
        (vm,) = group.vms
        world.request(verb, PROJECT, ZONE, vm.name)
        while world.groups.repairs == 0:
            went = vm.last_stop or vm.deleted_at or world.now
            began = vm.runs[-1].ended
            world.advance(timedelta(seconds=1))
        since = world.now - ((vm.deleted_at if verb == "delete" else began) or went)
        assert timedelta(seconds=60) <= since <= timedelta(seconds=121)
    world = new_world()
    group = make_group(world, PROJECT, f"zones/{ZONE}", "trainers", body("template"), 1, repairs=False)
    world.advance(5 * MINUTE)
    world.request(verb, PROJECT, ZONE, group.vms[0].name)
    world.advance(HOUR)
    assert world.groups.repairs == 0


def test_a_pools_autoscaler_removes_idle_nodes_through_its_group() -> None:
    """Down to its smallest size, ten minutes after they became idle; nodes are known by labels, metadata and group."""
    world = new_world()
    pool = make_pool(world, PROJECT, ZONE, "train", "t4", body("template"), 3, smallest=1)
    world.advance(5 * MINUTE)
    assert [vm.status for vm in pool.vms] == [Status.RUNNING] * 3
    node = pool.vms[0]
    assert node.name.startswith("gke-train-t4-")
    items = {item["key"]: item["value"] for item in node.given["metadata"]["items"]}
    read = keeper_of(node.given["labels"], items, ZONE)
    assert read is not None
    assert (read.kind, read.where, read.group) == (KeeperKind.GKE, "train/t4", pool.path)
    for vm in pool.vms:
        world.set_load(PROJECT, vm.name, Load.IDLE)
    world.advance(9 * MINUTE)
    assert len(pool.vms) == 3
    world.advance(HOUR)
    assert (len(pool.vms), pool.target_size, world.groups.repairs) == (1, 1, 0)
    (removed,) = {one.user for one in world.operations.of(PROJECT) if one.kind.endswith("deleteInstances")}
    assert removed.endswith("@container-engine-robot.iam.gserviceaccount.com")


@of_both_scopes
def test_the_guard_stops_a_groups_vm_that_stays_stopped_on_its_disk(served: Served, scope: str) -> None:
    """A repeat under its request id is the same operation; behind the group's back the disk would be lost."""
    group = served.group(scope)
    vm, other = group.vms
    disk = boot_disks([vm])
    operation = served.stop(vm)
    assert served.stop(vm) == operation
    served.world.advance(HOUR)
    assert (vm.status, other.status, group.target_size) == (Status.TERMINATED, Status.RUNNING, 1)
    assert (boot_disks([vm]), served.world.groups.repairs) == (disk, 0)
    (stop,) = [one for one in served.world.operations.of(PROJECT) if one.kind == "stop"]
    assert (stop.target_id, stop.user) == (vm.id, service_agent(PROJECT))
    served.world.request("stop", PROJECT, other.zone, other.name)
    served.world.advance(HOUR)
    assert (other.status, served.world.groups.repairs) == (Status.RUNNING, 1)


def test_the_guard_does_not_stop_a_vm_that_its_group_made_again(served: Served) -> None:
    """The name is the same, and the id is not."""
    group = served.group(size=1)
    (gone,) = group.vms
    served.world.request("delete", PROJECT, ZONE, gone.name)
    served.world.advance(HOUR)
    (vm,) = group.vms
    assert (vm.name, vm.id == gone.id) == (gone.name, False)
    keeper = Keeper(KeeperKind.GROUP, "trainers", ZONE, group=group.path)
    with pytest.raises(KeptByAnother, match="does not have this very VM now"):
        served.cloud.stop_kept(keeper, (PROJECT, ZONE, vm.name), str(gone.id), ONE)
    served.world.advance(HOUR)
    assert vm.status is Status.RUNNING


def test_the_guard_stops_a_workbench_instance_whose_state_follows(served: Served) -> None:
    """A stop behind its back leaves an orphan: ACTIVE and unhealthy, with a VM that is down."""
    vm = up(served.world, "vm-17", metadata={"items": [{"key": "notebooks-api", "value": "PROD"}]}, **BOOK)
    notebook = served.world.workbench.find(PROJECT, ZONE, "ana-book")
    assert notebook.state == "ACTIVE"
    assert served.stop(vm).startswith("operation-")
    assert notebook.state == "STOPPING"
    with pytest.raises(CloudUnavailable, match="is STOPPING"):
        served.stop(vm)
    served.world.advance(5 * MINUTE)
    assert (vm.status, notebook.state, served.world.workbench.orphaned) == (Status.TERMINATED, "STOPPED", set())
    (stop,) = [one for one in served.world.operations.of(PROJECT) if one.kind == "stop"]
    assert stop.user == notebooks_agent(PROJECT)
    served.world.workbench.ask("start", notebook)
    served.world.advance(5 * MINUTE)
    served.world.stop(PROJECT, "vm-17")
    served.world.advance(5 * MINUTE)
    assert (vm.status, notebook.state) == (Status.TERMINATED, "ACTIVE")
    assert served.world.workbench.is_orphan(notebook)
    assert len(served.world.workbench.orphaned) == 1


DESK: dict[str, str] = {
    "goog-workstations": "",
    "workstation_id": "ana",
    "workstation_config_id": "gpu",
    "workstation_cluster_id": "dev",
    "workstation_location": "us-central1",
}


def test_the_guard_stops_a_workstation_whose_state_follows(served: Served) -> None:
    """The service stops its VM in its own name; the operation is done once the VM is down."""
    vm = up(served.world, "workstations-1", labels=DESK)
    (desk,) = served.world.workstations.of(PROJECT)
    assert desk.state == "STATE_RUNNING"
    operation = served.stop(vm)
    assert served.ended(vm, operation) is None
    with pytest.raises(CloudUnavailable, match="is STATE_STOPPING"):
        served.stop(vm)
    served.world.advance(5 * MINUTE)
    assert (vm.status, desk.state, served.world.workstations.orphaned) == (Status.TERMINATED, "STATE_STOPPED", set())
    assert served.ended(vm, operation) == ""


@pytest.mark.parametrize("labels", [BOOK["labels"], DESK], ids=["Workbench", "Cloud Workstations"])
def test_an_operation_of_a_service_may_be_accepted_and_fail(served: Served, labels: dict[str, str]) -> None:
    """The VM runs on, and the operation has the error."""
    vm = up(served.world, "vm-17", labels=labels)
    served.world.faults.add("operation_error", project=PROJECT, count=1)
    operation = served.stop(vm)
    served.world.advance(5 * MINUTE)
    assert vm.runs[-1].ended is None
    assert served.ended(vm, operation) == "An internal error has occurred."
    assert served.ended(vm, "operation-1") == "forgotten"
    served.stop(vm)
    served.world.advance(5 * MINUTE)
    assert vm.status is Status.TERMINATED


@of_both_scopes
def test_the_operation_of_a_group_is_read_in_its_zone_or_region(served: Served, scope: str) -> None:
    """A group's operation is done when the request is taken."""
    vm, _ = served.group(scope).vms
    operation = served.stop(vm)
    served.world.advance(MINUTE)
    assert served.ended(vm, operation) == ""
