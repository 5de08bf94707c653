"""Google's own client against the simulated cloud, over HTTP."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from tests.sandbox.vms import MINUTE, PROJECT, ZONE, new_world

from costguard_sandbox.server import running
from costguard_sandbox.world import World

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what Google's packages warn of at import is not ours to mend
    from google.cloud import compute_v1

_ANONYMOUS: Any = AnonymousCredentials  # google-auth's functions carry no types


class Client:
    """The recipe for another endpoint: unary methods, and an operations client of one's own."""

    def __init__(self, url: str) -> None:
        options: Any = {"credentials": _ANONYMOUS(), "client_options": {"api_endpoint": url}}
        self.instances = compute_v1.InstancesClient(**options)
        self.operations = compute_v1.ZoneOperationsClient(**options)

    def wait(self, operation: Any) -> Any:
        return self.operations.wait(project=PROJECT, zone=ZONE, operation=operation.name)

    def get(self, name: str) -> Any:
        return self.instances.get(project=PROJECT, zone=ZONE, instance=name)


@pytest.fixture
def world() -> World:
    return new_world(wait_moves_clock=True)


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with running(world) as url:
        client = Client(url)
        yield client
        clients: tuple[Any, ...] = (client.instances, client.operations)
        for one in clients:
            one.transport.close()


def resource(name: str, **more: Any) -> Any:
    boot = compute_v1.AttachedDisk(
        boot=True,
        auto_delete=True,
        initialize_params=compute_v1.AttachedDiskInitializeParams(
            disk_size_gb=50, source_image="projects/debian-cloud/global/images/family/debian-12"
        ),
    )
    return compute_v1.Instance(
        name=name,
        machine_type=f"zones/{ZONE}/machineTypes/n1-standard-4",
        disks=[boot],
        network_interfaces=[compute_v1.NetworkInterface(network="global/networks/default")],
        **more,
    )


def insert(client: Client, name: str, request_id: str = "", **more: Any) -> Any:
    request = compute_v1.InsertInstanceRequest(project=PROJECT, zone=ZONE, instance_resource=resource(name, **more))
    if request_id:
        request.request_id = request_id
    return client.instances.insert_unary(request=request)


def test_the_life_of_a_vm(client: Client) -> None:
    """Insert, label, stop, start and delete, each waited for, as a launcher and a guard do it."""
    inserted = client.wait(insert(client, "vm"))
    assert inserted.status == compute_v1.Operation.Status.DONE
    vm = client.get("vm")
    assert (vm.status, vm.last_start_timestamp) == ("RUNNING", inserted.end_time)
    assert vm.id == inserted.target_id
    labels = compute_v1.InstancesSetLabelsRequest(labels={"owner": "ana"}, label_fingerprint=vm.label_fingerprint)
    where: Any = {"project": PROJECT, "zone": ZONE, "instance": "vm"}
    client.wait(client.instances.set_labels_unary(**where, instances_set_labels_request_resource=labels))
    assert client.get("vm").labels == {"owner": "ana"}
    client.wait(client.instances.stop_unary(**where))
    stopped = client.get("vm")
    assert stopped.status == "TERMINATED"
    client.wait(client.instances.start_unary(**where))
    again = client.get("vm")
    assert (again.status, again.last_stop_timestamp) == ("RUNNING", stopped.last_stop_timestamp)
    # A wait lasts two minutes at the most; deleting a running VM takes longer.
    operation = client.instances.delete_unary(**where)
    while operation.status != compute_v1.Operation.Status.DONE:
        operation = client.wait(operation)
    with pytest.raises(exceptions.NotFound):
        client.get("vm")


def test_suspend_resume_and_reset(client: Client) -> None:
    """The rest of the verbs."""
    client.wait(insert(client, "vm"))
    where: Any = {"project": PROJECT, "zone": ZONE, "instance": "vm"}
    client.wait(client.instances.suspend_unary(**where))
    assert client.get("vm").status == "SUSPENDED"
    client.wait(client.instances.resume_unary(**where))
    assert client.get("vm").status == "RUNNING"
    assert not client.wait(client.instances.reset_unary(**where)).error.errors


def test_errors_are_the_clients_own_exceptions(client: Client, world: World) -> None:
    """Conflict, a failed precondition and a rate limit; a stockout is in the operation alone."""
    client.wait(insert(client, "vm"))
    with pytest.raises(exceptions.Conflict, match="already exists"):
        insert(client, "vm")
    stale = compute_v1.InstancesSetLabelsRequest(labels={}, label_fingerprint="c3RhbGU=")
    with pytest.raises(exceptions.PreconditionFailed):
        client.instances.set_labels_unary(
            project=PROJECT, zone=ZONE, instance="vm", instances_set_labels_request_resource=stale
        )
    world.faults.add("stockout")
    failed = client.wait(insert(client, "none-left"))
    assert failed.error.errors[0].code == "ZONE_RESOURCE_POOL_EXHAUSTED"
    world.faults.add("rate_limit", limit=0)
    with pytest.raises(exceptions.Forbidden, match="Read requests per minute"):
        client.get("vm")


def test_a_retried_insert_with_a_request_id_is_one_vm(client: Client, world: World) -> None:
    """The second call gets the first one's operation."""
    twin = "5f0c8d0e-6d6b-4c1e-9f0a-2d1f6a1b7c01"
    first, second = insert(client, "vm", twin), insert(client, "vm", twin)
    assert first.name == second.name
    assert len(world.instances(PROJECT)) == 1


def test_aggregated_pages_and_a_mask(client: Client) -> None:
    """The pager finds every VM; the mask header leaves names and ids."""
    for number in range(5):
        insert(client, f"vm-{number}")
    request = compute_v1.AggregatedListInstancesRequest(project=PROJECT, max_results=2)
    mask = ("x-goog-fieldmask", "items/*/instances(id,name),nextPageToken,unreachables")
    pages = client.instances.aggregated_list(request=request, metadata=[mask])
    vms = [vm for _, scope in pages for vm in scope.instances]
    assert sorted(vm.name for vm in vms) == [f"vm-{number}" for number in range(5)]
    assert all(vm.id and not vm.machine_type for vm in vms)


def test_a_wait_on_a_manual_clock_returns_unfinished(client: Client, world: World) -> None:
    """`wait` is best effort: unless waiting moves the clock, the operation comes back as it is."""
    world.wait_moves_clock = False
    operation = insert(client, "vm")
    assert client.wait(operation).status == compute_v1.Operation.Status.PENDING
    world.advance(MINUTE)
    assert client.wait(operation).status == compute_v1.Operation.Status.DONE
