"""Lists over HTTP: pages, scopes, filters, masks, and answers that are kept only while they are true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from tests.sandbox.vms import MINUTE, PROJECT, SPOT, ZONE, body, new_world, up

from costguard_sandbox.gce import changes
from costguard_sandbox.gce.catalogue.regions import OPERATION_SCOPES, ZONE_SCOPES
from costguard_sandbox.server import running
from costguard_sandbox.world import World

_BASE = f"/compute/v1/projects/{PROJECT}"


@pytest.fixture
def world() -> World:
    world = new_world()
    for number in range(5):
        zone = (ZONE, "us-east1-c")[number % 2]
        world.insert(PROJECT, zone, body(f"vm-{number}", zone=zone))
    world.advance(MINUTE)
    return world


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with running(world) as url:
        yield url + _BASE


def get(url: str, path: str, mask: str = "", **query: Any) -> Any:
    answer = requests.get(url + path, params=query, headers={"x-goog-fieldmask": mask} if mask else {}, timeout=30)
    answer.raise_for_status()
    return answer.json()


def names(listed: Any) -> list[str]:
    return [vm["name"] for scope in listed["items"].values() for vm in scope.get("instances", ())]


def test_pages_hold_every_vm_once_and_every_zone_each_time(url: str, world: World) -> None:
    """A zone's VMs may span pages; a zone without any says NO_RESULTS_ON_PAGE; unreachable ones are on each page."""
    world.faults.add("unreachable_zone", zone="europe-west4-a")
    seen: list[str] = []
    token: str | None = ""
    while token is not None:
        page = get(url, "/aggregated/instances", maxResults=2, **({"pageToken": token} if token else {}))
        assert set(page["items"]) == set(ZONE_SCOPES)
        assert page["unreachables"] == ["zones/europe-west4-a"]
        empty = page["items"]["zones/asia-east1-a"]["warning"]
        assert (empty["code"], empty["data"][0]["value"]) == ("NO_RESULTS_ON_PAGE", "zones/asia-east1-a")
        seen += names(page)
        token = page.get("nextPageToken")
    assert sorted(seen) == [f"vm-{number}" for number in range(5)]


def test_filters_choose_before_pages_are_cut(url: str, world: World) -> None:
    """A filtered list has pages of its own."""
    world.stop(PROJECT, "vm-3")
    world.advance(5 * MINUTE)
    assert names(get(url, "/aggregated/instances", filter="status = TERMINATED", maxResults=1)) == ["vm-3"]
    assert names(get(url, "/aggregated/instances", filter='name eq "vm-[01]"')) == ["vm-0", "vm-1"]
    assert get(url, f"/zones/{ZONE}/instances", filter="name=vm-9")["items"] == []


@pytest.mark.parametrize("as_header", [True, False])
def test_a_mask_leaves_only_what_it_names(url: str, as_header: bool) -> None:
    """The mask is a header or `fields`; a mask that omits nextPageToken hides it."""
    mask = "items/*/instances(id,name),unreachables"
    where: dict[str, Any] = {"mask": mask} if as_header else {"fields": mask}
    page = get(url, "/aggregated/instances", maxResults=1, **where)
    assert set(page) == {"items"}
    (shown,) = [vm for scope in page["items"].values() for vm in scope.get("instances", ())]
    assert set(shown) == {"id", "name"}


def test_a_cached_answer_is_never_stale(url: str, world: World) -> None:
    """Any change of a VM, by time, by request or by a fault, is in the next answer."""
    path = f"/zones/{ZONE}/instances"

    def statuses() -> set[str]:
        return {vm["status"] for vm in get(url, path)["items"]}

    assert statuses() == statuses() == {"RUNNING"}
    world.stop(PROJECT, "vm-0")
    world.advance(MINUTE / 6)
    assert statuses() == {"RUNNING", "STOPPING"}
    world.advance(5 * MINUTE)
    assert statuses() == {"RUNNING", "TERMINATED"}
    world.change("setLabels", PROJECT, ZONE, "vm-0", changes.labels({"owner": "ana"}, "42WmSpB8rSM="))
    assert {"owner": "ana"} in [vm.get("labels") for vm in get(url, path)["items"]]


def test_operations_can_be_filtered_by_type_time_and_target(url: str, world: World) -> None:
    """The filters that gcloud and a guard send; newest first where that is asked for."""
    up(world, "spot", **SPOT)
    world.preempt(PROJECT, "spot")

    def kinds(**query: Any) -> list[str]:
        listed = get(url, "/aggregated/operations", **query)
        assert set(listed["items"]) == set(OPERATION_SCOPES)
        return [one["operationType"] for scope in listed["items"].values() for one in scope.get("operations", ())]

    assert kinds(filter=r'operationType eq ".*\bcompute\.instances\.preempted\b.*"') == ["compute.instances.preempted"]
    assert len(kinds()) == 7
    spot = world.instance(PROJECT, "spot")
    assert kinds(filter=f"targetId={spot.id}") == ["insert", "compute.instances.preempted"]
    assert kinds(filter='insertTime > "2026-11-20T01:00:30.000-08:00"') == ["insert", "compute.instances.preempted"]
    zonal = get(url, f"/zones/{ZONE}/operations", orderBy="creationTimestamp desc", maxResults=1)
    assert zonal["items"][0]["operationType"] == "compute.instances.preempted"


def test_disks_show_what_they_bill(url: str) -> None:
    """Type, size, age and user, in the aggregated list, the zone's and by name."""
    listed = get(url, "/aggregated/disks")["items"][f"zones/{ZONE}"]["disks"]
    assert len(listed) == 3
    disk = get(url, f"/zones/{ZONE}/disks/vm-0")
    assert disk in listed
    assert disk in get(url, f"/zones/{ZONE}/disks")["items"]
    assert (disk["sizeGb"], disk["type"].rsplit("/", 1)[1]) == ("50", "pd-balanced")
    assert disk["creationTimestamp"] == "2026-11-20T01:00:00.000-08:00"
    assert disk["users"][0].endswith(f"zones/{ZONE}/instances/vm-0")


def test_answers_are_indented_by_default(url: str) -> None:
    """Google's answers are indented too: a tenth of a listing is spaces."""
    indented = requests.get(f"{url}/zones", timeout=30).text
    compact = requests.get(f"{url}/zones", params={"prettyPrint": "false"}, timeout=30).text
    assert "\n" in indented
    assert "\n" not in compact
