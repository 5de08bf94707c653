"""Requests of Apache libcloud and Cloud Custodian, carried over exactly, and the shape of Google's recorded answers.

The requests are what apache-libcloud 3.9.1 (GCENodeDriver) and c7n-gcp 0.4.52 sent when they were run against the
simulated cloud; only fingerprints, which they had just read, are read again here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from tests.sandbox.gce.conformance.discovery import problems_of
from tests.sandbox.gce.conformance.fleet import PROJECT, START, ZONE, body

from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

ROOT = f"/compute/v1/projects/{PROJECT}"
GOOGLE = f"https://www.googleapis.com{ROOT}"
VM = f"/zones/{ZONE}/instances/lc-a"
CUSTODIAN_VM = f"/zones/{ZONE}/instances/c7"
SEEN = "as just read"
WHILE = timedelta(minutes=5)
CREATE = {
    "disks": [
        {
            "autoDelete": True,
            "boot": True,
            "type": "PERSISTENT",
            "mode": "READ_WRITE",
            "deviceName": "lc-a",
            "initializeParams": {
                "diskName": "lc-a",
                "diskSizeGb": None,
                "diskType": f"{GOOGLE}/zones/{ZONE}/diskTypes/pd-standard",
                "sourceImage": "https://www.googleapis.com/compute/v1/projects/debian-cloud/global/images/"
                "debian-12-bookworm-v20261110",
            },
        }
    ],
    "networkInterfaces": [
        {
            "kind": "compute#instanceNetworkInterface",
            "network": f"{GOOGLE}/global/networks/default",
            "accessConfigs": [{"name": "External NAT", "type": "ONE_TO_ONE_NAT"}],
        }
    ],
    "serviceAccounts": [{"email": "default", "scopes": ["https://www.googleapis.com/auth/devstorage.read_only"]}],
    "tags": {"items": ["x"]},
    "metadata": {"fingerprint": "na", "items": [{"key": "a", "value": "b"}]},
    "labels": {"owner": "ana"},
    "machineType": f"{GOOGLE}/zones/{ZONE}/machineTypes/n1-standard-1",
    "name": "lc-a",
}
DISK = {"name": "lc-vol", "sizeGb": "20", "type": f"{GOOGLE}/zones/{ZONE}/diskTypes/pd-ssd"}
ATTACH = {"source": f"{GOOGLE}/zones/{ZONE}/disks/lc-vol", "mode": "READ_WRITE", "deviceName": "lc-vol", "boot": False}
# (method, path and query, body, operation type)
LIBCLOUD: tuple[tuple[str, str, Any, str], ...] = (
    ("POST", f"/zones/{ZONE}/instances", CREATE, "insert"),
    ("POST", f"/zones/{ZONE}/disks", DISK, "insert"),
    ("POST", f"{VM}/attachDisk", ATTACH, "attachDisk"),
    ("POST", f"{VM}/setDiskAutoDelete?deviceName=lc-vol&autoDelete=False", None, "setDiskAutoDelete"),
    ("POST", f"{VM}/detachDisk?deviceName=lc-vol", "ignored", "detachDisk"),
    ("DELETE", f"/zones/{ZONE}/disks/lc-vol", None, "delete"),
    ("POST", f"{VM}/setTags", {"items": ["y"], "fingerprint": SEEN}, "setTags"),
    ("POST", f"{VM}/setLabels", {"labels": {"owner": "ben"}, "labelFingerprint": SEEN}, "setLabels"),
    ("POST", f"{VM}/setMetadata", {"fingerprint": SEEN, "items": [{"key": "k", "value": "v"}]}, "setMetadata"),
    ("POST", f"{VM}/reset", "ignored", "reset"),
    ("POST", f"{VM}/stop", None, "stop"),
    ("POST", f"{VM}/setMachineType", {"machineType": f"/zones/{ZONE}/machineTypes/n1-standard-2"}, "setMachineType"),
    ("POST", f"{VM}/start", None, "start"),
    ("DELETE", VM, None, "delete"),
)
CUSTODIAN: tuple[tuple[str, str, Any, str], ...] = (
    ("POST", f"{CUSTODIAN_VM}/setLabels?alt=json", {"labels": {"a": "b"}, "labelFingerprint": SEEN}, "setLabels"),
    (
        "POST",
        f"{CUSTODIAN_VM}/setMetadata?alt=json",
        {"fingerprint": SEEN, "items": [{"key": "key", "value": "value"}]},
        "setMetadata",
    ),
    ("POST", f"{CUSTODIAN_VM}/suspend?alt=json", None, "suspend"),
    ("POST", f"{CUSTODIAN_VM}/resume?alt=json", None, "resume"),
    ("POST", f"{CUSTODIAN_VM}/stop?discardLocalSsd=false&alt=json", None, "stop"),
    ("POST", f"{CUSTODIAN_VM}/detachDisk?deviceName=persistent-disk-0&alt=json", None, "detachDisk"),
    ("DELETE", f"/zones/{ZONE}/disks/c7?alt=json", None, "delete"),
    ("DELETE", f"{CUSTODIAN_VM}?alt=json", None, "delete"),
)
# Keys of operations as Google answered them: cloud-custodian's flights instance-stop (PENDING), instance-detach-disks
# (RUNNING) of 2020, libcloud's volume_auto_delete (DONE, 2014) and setMachineType_notstopped (failed, 2016).
PENDING = set(
    "id insertTime kind name operationType progress selfLink status targetId targetLink user zone".split()  # noqa: SIM905
)
RUNNING = PENDING | {"startTime"}
DONE = RUNNING | {"endTime"}
FAILED = DONE | {"error", "httpErrorMessage", "httpErrorStatusCode"}
# Of the instances of cloud-custodian's flights instance-get (2018) and instance-detach-disks (2020).
INSTANCE = set(
    "canIpForward cpuPlatform creationTimestamp deletionProtection disks id kind labelFingerprint machineType metadata"  # noqa: SIM905
    " name networkInterfaces scheduling selfLink serviceAccounts startRestricted status tags zone".split()
)
DATA_DISK = set("autoDelete boot deviceName diskSizeGb index interface kind mode source type".split())  # noqa: SIM905
BOOT_DISK = DATA_DISK | {"guestOsFeatures", "licenses"}
READS = (
    *("/zones", "/regions", "/global/images", "/global/networks", "/aggregated/subnetworks", "/aggregated/instances"),
    *("/aggregated/disks", "/aggregated/diskTypes", f"/zones/{ZONE}/diskTypes", f"/zones/{ZONE}/machineTypes"),
    *("/global/operations", "/regions/us-central1/operations", "/global/networks/default"),
)


@pytest.fixture
def world() -> World:
    return World(ManualClock(START), projects=[PROJECT])


@pytest.fixture
def cloud(world: World) -> Iterator[httpx2.Client]:
    with running(world) as url, httpx2.Client(base_url=f"{url}{ROOT}", trust_env=False) as client:
        yield client


def made(world: World, name: str, **more: Any) -> None:
    world.insert(PROJECT, ZONE, body(name, "e2-standard-4", **more))
    world.advance(WHILE)


def perform(world: World, cloud: httpx2.Client, step: tuple[str, str, Any, str]) -> dict[str, Any]:
    """The operation of one step when it is done."""
    method, path, sent, _ = step
    if isinstance(sent, dict):
        sent = {key: _seen(cloud, path) if value == SEEN else value for key, value in sent.items()}
    answer = cloud.request(method, path, json=sent) if sent is not None else cloud.request(method, path)
    assert answer.status_code == 200, (path, answer.text)
    begun = answer.json()
    assert set(begun) == PENDING
    world.advance(WHILE)
    shown: dict[str, Any] = cloud.get(f"/zones/{ZONE}/operations/{begun['name']}").json()
    return shown


def _seen(cloud: httpx2.Client, path: str) -> str:
    instance, _, verb = path.partition("?")[0].rpartition("/")
    shown = cloud.get(instance).json()
    ids = {
        "setLabels": shown["labelFingerprint"],
        "setTags": shown["tags"]["fingerprint"],
        "setMetadata": shown["metadata"]["fingerprint"],
    }
    return str(ids[verb])


def test_libclouds_requests_do_what_they_do_at_google(world: World, cloud: httpx2.Client) -> None:
    """Each operation ends as Google's do, from create_node to destroy_node, with a volume that comes and goes."""
    for step in LIBCLOUD:
        shown = perform(world, cloud, step)
        assert (shown["operationType"], set(shown), problems_of(shown)) == (step[3], DONE, []), step
    assert (world.instances(PROJECT), world.disks(PROJECT)) == ([], [])


def test_custodians_requests_do_what_they_do_at_google(world: World, cloud: httpx2.Client) -> None:
    """set-labels, set-metadata, suspend, resume, stop, detach-disks, and delete of the disk and the instance."""
    made(world, "c7")
    for step in CUSTODIAN:
        shown = perform(world, cloud, step)
        assert (shown["operationType"], set(shown), problems_of(shown)) == (step[3], DONE, []), step
    assert (world.instances(PROJECT), world.disks(PROJECT)) == ([], [])


def test_every_list_that_the_tools_read_conforms(world: World, cloud: httpx2.Client) -> None:
    """Every list that the two tools read on the way conforms."""
    made(world, "c7")
    for path in READS:
        answer = cloud.get(path)
        assert (answer.status_code, problems_of(answer.json())) == (200, []), path


def test_operation_that_fails_has_the_recorded_keys(world: World, cloud: httpx2.Client) -> None:
    """A machine type of a VM that runs: libcloud's recording of 2016, key by key."""
    made(world, "lc-a")
    step = ("POST", f"{VM}/setMachineType", {"machineType": f"/zones/{ZONE}/machineTypes/n1-standard-2"}, "")
    assert set(perform(world, cloud, step)) == FAILED


def test_instance_has_the_recorded_keys(world: World, cloud: httpx2.Client) -> None:
    """Keys that Google showed of an instance and of its disks are shown; newer fields come on top."""
    made(world, "lc-a", serviceAccounts=[{"email": "default", "scopes": ["https://www.googleapis.com/auth/compute"]}])
    for step in LIBCLOUD[1:3]:
        perform(world, cloud, step)
    shown = cloud.get(VM).json()
    boot, data = shown["disks"]
    assert INSTANCE - set(shown) == set()
    assert BOOT_DISK - set(boot) == set()
    assert DATA_DISK - set(data) == set()


def test_machine_images_say_that_there_are_none(cloud: httpx2.Client) -> None:
    """Custodian's create-machine-image goes to the beta API, which is not simulated: the answer says both."""
    beta = str(cloud.base_url).replace("/compute/v1/", "/compute/beta/")
    answer = cloud.post(f"{beta}global/machineImages?sourceInstance=x", content=json.dumps({"name": "image"}))
    message = answer.json()["error"]["message"]
    assert answer.status_code == 404
    assert "machine images" in message
    assert "v1" in message
