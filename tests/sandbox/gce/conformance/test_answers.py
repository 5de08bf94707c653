"""Everything that the simulated cloud answers, held against Google's own description of the API."""

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from starlette.routing import Route
from tests.sandbox.gce.conformance.discovery import problems, problems_of
from tests.sandbox.gce.conformance.fleet import PROJECT, ZONE, body, every_operation, make_world, spot_t4
from tests.sandbox.gce.test_flex_start import flex
from tests.sandbox.gce.test_reservations import calendar

from costguard_sandbox.gce.pools import make_group
from costguard_sandbox.server import create_app, running
from costguard_sandbox.world import World

ROOT = f"/compute/v1/projects/{PROJECT}"
INSTANCES = f"{ROOT}/zones/{ZONE}/instances"


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def cloud(world: World) -> Iterator[httpx2.Client]:
    with running(world) as url, httpx2.Client(base_url=url, trust_env=False) as client:
        yield client


def readable_paths(world: World) -> list[str]:
    """Every address of the Compute API that can be read, with names of this fleet filled in."""
    names = {
        "instances": [vm.name for vm in world.instances(PROJECT)],
        "disks": ["t4"],
        "diskTypes": ["pd-balanced", "local-ssd", "hyperdisk-throughput"],
        "instanceGroupManagers": ["trainers"],
        "images": ["debian-12-bookworm-v20261110"],
        "networks": ["default"],
        "subnetworks": ["default"],
        "machineTypes": ["n1-standard-4", "a2-ultragpu-1g", "custom-4-5120"],
        "acceleratorTypes": ["nvidia-tesla-t4"],
        "reservations": ["train"],
        "resourcePolicies": ["close"],
        "instanceTemplates": [],  # tests/sandbox/gce/test_resize_requests.py has one, and requests of a group
    }
    given = {
        "project": PROJECT,
        "zone": ZONE,
        "region": "us-central1",
        "publisher": "debian-cloud",
        "family": "debian-12",
    }
    paths = []
    for route in create_app(world).routes:
        if isinstance(route, Route) and route.path.startswith("/compute/") and "GET" in (route.methods or ()):
            path = re.sub(r"{(\w+)}", lambda match: given.get(match[1], match[0]), route.path)
            if "{request}" in path:
                continue
            above, _, _ = path.partition("/{name}")
            scope, _, collection = above.rpartition("/")
            if collection == "operations":
                paths += [
                    path.replace("{name}", one.name) for one in every_operation(world) if scope.endswith(one.scope)
                ]
            else:
                paths += [path.replace("{name}", name) for name in names[collection]] if "{name}" in path else [path]
    return paths


def wrong_with(path: str, answer: dict[str, Any]) -> list[str]:
    problems_found = problems(answer, "ImageFamilyView") if "imageFamilyViews" in path else problems_of(answer)
    return [f"{path}: {problem}" for problem in problems_found]


def test_every_readable_resource_conforms(world: World, cloud: httpx2.Client) -> None:
    """Google's schema holds for every route, and for every state of a VM or operation."""
    for scope in (f"zones/{ZONE}", "regions/us-central1"):
        make_group(world, PROJECT, scope, "trainers", body("template"), 1)
    calendar(world, world.now + timedelta(hours=3))
    world.faults.add("flex_start", never=True)
    world.insert(PROJECT, ZONE, {**flex(), "name": "queued"})
    policies = f"/compute/v1/projects/{PROJECT}/regions/us-central1/resourcePolicies"
    made = cloud.post(policies, json={"name": "close", "groupPlacementPolicy": {"collocation": "COLLOCATED"}})
    assert problems_of(made.json()) == []
    paths = readable_paths(world)
    assert len(paths) > 40
    statuses, kinds, wrong = set(), set(), []
    for path in paths:
        answer = cloud.get(path)
        assert answer.status_code == 200, (path, answer.text)
        shown = answer.json()
        kinds.add(shown.get("kind"))
        if shown.get("kind") == "compute#instance":
            statuses.add(shown["status"])
        wrong += wrong_with(path, shown)
    assert wrong == []
    assert {"PENDING", "RUNNING", "TERMINATED", "SUSPENDED", "STOPPING", "PROVISIONING", "REPAIRING"} <= statuses
    assert {"compute#reservation", "compute#futureReservationsAggregatedListResponse"} <= kinds
    assert {"compute#instanceAggregatedList", "compute#operationList", "compute#region", "compute#image"} <= kinds


@pytest.mark.parametrize(
    ("verb", "name", "sent"),
    [
        ("", "", spot_t4("fresh")),
        ("", "", body("shown", "g2-standard-4", scheduling={"onHostMaintenance": "TERMINATE"})),
        ("", "", body("own", "n2-custom-4-8192", labels={"a": ""}, hostname="own.example.com", canIpForward=True)),
        ("stop", "t4", None),
        ("start", "stopped", None),
        ("suspend", "plain", None),
        ("attachDisk", "t4", {"source": f"zones/{ZONE}/disks/data", "mode": "READ_ONLY", "deviceName": "data"}),
        ("setMachineType", "stopped", {"machineType": f"zones/{ZONE}/machineTypes/e2-highmem-2"}),
        ("setTags", "stopped", {"items": ["gpu", "ssh"], "fingerprint": "42WmSpB8rSM="}),
        ("setDeletionProtection", "t4", None),
        ("setDiskAutoDelete?deviceName=persistent-disk-0&autoDelete=false", "t4", None),
        ("detachDisk?deviceName=persistent-disk-0", "stopped", None),
        ("simulateMaintenanceEvent", "t4", None),
        ("resume", "asleep", None),
        ("reset", "t4", None),
        ("setScheduling", "stopped", {"automaticRestart": False, "preemptible": False}),
        ("delete", "labelled", None),
    ],
)
def test_every_change_and_its_operation_conform(
    world: World, cloud: httpx2.Client, verb: str, name: str, sent: dict[str, Any] | None
) -> None:
    """The operation conforms as accepted, as waited for and when it is done, and so does the VM at every step."""
    path = "/".join(filter(None, [INSTANCES, name, "" if verb == "delete" else verb]))
    answer = cloud.request("DELETE" if verb == "delete" else "POST", path, json=sent)
    assert answer.status_code == 200, answer.text
    operation = answer.json()
    vm = f"{INSTANCES}/{name or (sent or {})['name']}"
    for _ in range(40):
        assert problems_of(operation) == []
        shown = cloud.get(vm)
        if shown.status_code == 200:
            assert problems_of(shown.json()) == []
        if operation["status"] == "DONE":
            break
        world.advance(timedelta(seconds=5))
        operation = cloud.post(f"{ROOT}/zones/{ZONE}/operations/{operation['name']}/wait").json()
    assert operation["status"] == "DONE"
    assert "error" not in operation
    assert operation["operationType"] == (verb.partition("?")[0] or "insert")


@pytest.mark.parametrize(
    ("zone", "machine", "gpu"),
    [("us-central1-b", "g4-standard-48", "nvidia-rtx-pro-6000"), (ZONE, "c4-standard-8", "")],
)
def test_hyperdisk_only_types_run(world: World, cloud: httpx2.Client, zone: str, machine: str, gpu: str) -> None:
    """G4 and C4 are launched with a Hyperdisk, as Google wants them, come up and conform."""
    disk = {"diskType": f"zones/{zone}/diskTypes/hyperdisk-balanced", "diskSizeGb": "50"}
    wanted = {
        **body("new", scheduling={"onHostMaintenance": "TERMINATE"}),
        "machineType": f"zones/{zone}/machineTypes/{machine}",
        "disks": [{"boot": True, "autoDelete": True, "initializeParams": disk}],
    }
    answer = cloud.post(f"{ROOT}/zones/{zone}/instances", json=wanted)
    assert answer.status_code == 200, answer.text
    world.advance(timedelta(minutes=2))
    shown = cloud.get(f"{ROOT}/zones/{zone}/instances/new").json()
    assert (problems_of(shown), shown["status"]) == ([], "RUNNING")
    kinds = [one["acceleratorType"].rpartition("/")[2] for one in shown.get("guestAccelerators", ())]
    assert kinds == ([gpu] if gpu else [])


@pytest.mark.parametrize(("verb", "key"), [("setLabels", "labelFingerprint"), ("setMetadata", "fingerprint")])
def test_changes_under_a_fingerprint_conform(cloud: httpx2.Client, verb: str, key: str) -> None:
    """Labels and metadata change with the fingerprint that was read, and are refused with a stale one."""
    read = cloud.get(f"{INSTANCES}/labelled").json()
    seen = read[key] if verb == "setLabels" else read["metadata"][key]
    change = {"labels": {"team": "vision"}} if verb == "setLabels" else {"items": [{"key": "k", "value": "v"}]}
    first = cloud.post(f"{INSTANCES}/labelled/{verb}", json={**change, key: seen})
    again = cloud.post(f"{INSTANCES}/labelled/{verb}", json={**change, key: seen})
    assert problems_of(first.json()) == []
    assert problems_of(cloud.get(f"{INSTANCES}/labelled").json()) == []
    assert (first.status_code, again.status_code) == (200, 412)
    assert again.json()["error"]["errors"][0]["reason"] == "conditionNotMet"


def test_masked_filtered_and_paged_answers_conform(cloud: httpx2.Client) -> None:
    """A part of an answer is still a part of a right answer, by query and by header, over all pages."""
    mask = "kind,items/*/instances(id,name,status,zone,scheduling/provisioningModel),nextPageToken,unreachables"
    seen, token = [], ""
    while True:
        query = {"maxResults": "3", "pageToken": token, "filter": "status != STOPPING", "returnPartialSuccess": "true"}
        answer = cloud.get(f"{ROOT}/aggregated/instances", params=query, headers={"x-goog-fieldmask": mask}).json()
        assert answer == cloud.get(f"{ROOT}/aggregated/instances", params={**query, "fields": mask}).json()
        assert problems_of(answer) == []
        assert len(answer["items"]) == 127
        seen += [vm["name"] for scope in answer["items"].values() for vm in scope.get("instances", ())]
        token = answer.get("nextPageToken", "")
        if not token:
            break
    assert sorted(seen) == ["a100", "asleep", "coming", "labelled", "plain", "repaired", "stopped", "t4"]


def test_a_half_readable_fleet_conforms(world: World, cloud: httpx2.Client) -> None:
    """A zone that cannot be reached is named, shows no rows, and the list around it stays well formed."""
    world.faults.add("unreachable_zone", zone=ZONE)
    for collection in ("instances", "operations"):
        answer = cloud.get(f"{ROOT}/aggregated/{collection}").json()
        assert problems_of(answer) == []
        assert any(ZONE in scope for scope in answer["unreachables"])
        assert collection not in answer["items"][f"zones/{ZONE}"]


def test_operations_that_failed_say_why(cloud: httpx2.Client) -> None:
    """A stockout ends in an operation with an error, a 503 and details; the request itself was accepted."""
    query = {"filter": 'operationType = insert AND targetLink eq ".*/stocked-out"'}
    (failed,) = cloud.get(f"{ROOT}/zones/{ZONE}/operations", params=query).json()["items"]
    assert problems_of(failed) == []
    assert failed["error"]["errors"][0]["code"].startswith("ZONE_RESOURCE_POOL_EXHAUSTED")
    assert failed["httpErrorStatusCode"] == 503
    assert cloud.get(f"{INSTANCES}/stocked-out").status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "sent", "code", "reason"),
    [
        ("GET", f"{INSTANCES}/nobody", None, 404, "notFound"),
        ("GET", "/compute/v1/projects/other/aggregated/instances", None, 404, "notFound"),
        ("POST", INSTANCES, body("t4"), 409, "alreadyExists"),
        ("POST", INSTANCES, body("Bad_Name"), 400, "invalid"),
        ("POST", INSTANCES, body("x", "n1-standard-3"), 400, "invalid"),
        (
            "POST",
            INSTANCES,
            body("x", guestAccelerators=[{"acceleratorType": "nvidia-tesla-a100", "acceleratorCount": 1}],
                 scheduling={"onHostMaintenance": "TERMINATE"}),
            400,
            "badRequest",
        ),
        ("POST", f"{INSTANCES}/t4/setLabels", {"labels": {}, "labelFingerprint": "b2xk"}, 412, "conditionNotMet"),
        ("GET", f"{ROOT}/aggregated/instances?filter=status", None, 400, "invalid"),
        ("GET", f"{ROOT}/aggregated/instances?pageToken=rubbish", None, 400, "invalid"),
        ("GET", f"{ROOT}/aggregated/instances?fields=items(", None, 400, "invalid"),
        ("GET", f"{ROOT}/global/firewalls", None, 404, "notFound"),
    ],
)  # fmt: skip
def test_refusals_have_googles_shape(
    cloud: httpx2.Client, method: str, path: str, sent: dict[str, Any] | None, code: int, reason: str
) -> None:
    """The body repeats the status, and says what happened in a message, a domain and a reason."""
    answer = cloud.request(method, path, json=sent)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (code, code)
    assert set(error) <= {"code", "message", "errors", "status", "details"}
    (detail,) = error["errors"]
    assert set(detail) == {"message", "domain", "reason"}
    assert (detail["reason"], detail["message"]) == (reason, error["message"])
    assert answer.headers["content-type"].startswith("application/json")


def test_the_price_catalogue_conforms(cloud: httpx2.Client) -> None:
    """The catalogue passes the Cloud Billing API's own schema, on every page."""
    token, pages = "", 0
    while True:
        query = {"pageSize": "900", "pageToken": token, "currencyCode": "USD"}
        page = cloud.get("/v1/services/6F81-5844-456A/skus", params=query).json()
        assert problems(page, "ListSkusResponse", "cloudbilling") == []
        pages, token = pages + 1, page["nextPageToken"]
        if not token:
            break
    assert pages > 2
