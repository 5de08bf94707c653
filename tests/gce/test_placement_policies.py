"""Placement policies through the official client, against the simulated cloud, whose answers follow Google's discovery
document.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import httpx
import pytest
from tests.gce.test_launches import A100, ONE, OTHER, SPOT, T4
from tests.sandbox.gce.conformance.discovery import problems

from costguard.errors import AlreadyExists, CloudError, NotFound, PermissionDenied, RequestRefused
from costguard.gce.client import ComputeCloud
from costguard.model.launch import COMPACT_SERIES, PolicyAnswer, takes_compact_placement
from costguard.model.ports import Launcher
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.gce.routes import resource_policies
from costguard_sandbox.server import running
from costguard_sandbox.world import World

REGION, ZONE, NAME = "us-central1", "us-central1-a", "cg-j7k2m9q4"
THIRD = str(UUID(int=3))
CLOSE = replace(SPOT, recipe=replace(A100, image=T4.image), placement_policy=NAME)


class Region:
    def __init__(self, world: World, launcher: Launcher, url: str) -> None:
        self.world, self.launcher, self.url = world, launcher, url

    def make(self, request_id: str = ONE) -> None:
        self.launcher.make_placement_policy("demo", REGION, NAME, "of a test", request_id)
        self.world.advance(timedelta(seconds=5))

    def read(self) -> PolicyAnswer | None:
        return self.launcher.placement_policy("demo", REGION, NAME)

    def delete(self, request_id: str = OTHER) -> None:
        self.launcher.delete_placement_policy("demo", REGION, NAME, request_id)
        self.world.advance(timedelta(seconds=5))


@pytest.fixture
def region() -> Iterator[Region]:
    clock = ManualClock(datetime(2026, 11, 2, 8, tzinfo=UTC))
    world = World(clock)
    with running(world) as url:
        cloud = ComputeCloud(url, clock)
        yield Region(world, cloud.launcher, url)
        cloud.close()


def test_a_policy_is_made_read_and_deleted(region: Region) -> None:
    """It is there from the insert on, and ready when its operation is done."""
    assert region.read() is None
    region.launcher.make_placement_policy("demo", REGION, NAME, "of a test", ONE)
    assert region.read() == PolicyAnswer("CREATING", "of a test", is_compact=True)
    region.world.advance(timedelta(seconds=5))
    assert region.read() == PolicyAnswer("READY", "of a test", is_compact=True)
    region.delete()
    assert region.read() is None


def test_a_policy_looks_as_the_discovery_document_says(region: Region) -> None:
    """The resource and its list follow Google's own description."""
    region.make()
    path = f"{region.url}/compute/v1/projects/demo/regions/{REGION}/resourcePolicies"
    assert problems(httpx.get(f"{path}/{NAME}").json(), "ResourcePolicy") == []
    assert problems(httpx.get(path).json(), "ResourcePolicyList") == []


def test_a_repeated_insert_makes_no_second_policy(region: Region) -> None:
    """The first operation is the answer to the same request id; under another one the name is taken."""
    region.make()
    region.make()
    with pytest.raises(AlreadyExists):
        region.make(THIRD)


def test_a_policy_in_use_cannot_be_deleted(region: Region) -> None:
    """Google names the VM; once that is gone, the policy goes too."""
    region.make()
    region.launcher.insert("demo", ZONE, CLOSE, THIRD)
    region.world.advance(timedelta(minutes=1))
    (vm,) = region.world.instances("demo")
    assert vm.given["resourcePolicies"] == [f"projects/demo/regions/{REGION}/resourcePolicies/{NAME}"]
    with pytest.raises(RequestRefused, match=f"is already being used by '.*{CLOSE.name}'"):
        region.delete()
    region.launcher.delete("demo", ZONE, CLOSE.name, str(UUID(int=4)))
    region.world.advance(timedelta(minutes=5))
    region.delete(str(UUID(int=5)))
    assert region.read() is None


def test_a_vm_of_another_series_is_refused(region: Region) -> None:
    """Google's words name the machine type."""
    region.make()
    with pytest.raises(RequestRefused, match="not applicable to machine type n1-standard-8"):
        region.launcher.insert("demo", ZONE, replace(SPOT, placement_policy=NAME), THIRD)


def test_a_vm_that_names_no_policy_that_is_there_is_refused(region: Region) -> None:
    """The refusal names the policy; one that is still made is refused as well."""
    with pytest.raises(RequestRefused, match=f"resourcePolicies/{NAME}' was not found"):
        region.launcher.insert("demo", ZONE, CLOSE, OTHER)
    region.launcher.make_placement_policy("demo", REGION, NAME, "of a test", ONE)
    with pytest.raises(CloudError, match="not ready"):
        region.launcher.insert("demo", ZONE, CLOSE, THIRD)


def test_a_policy_that_is_gone_cannot_be_deleted(region: Region) -> None:
    """Google says that it is not there."""
    with pytest.raises(NotFound):
        region.delete()


def test_a_project_without_the_permission_names_it(region: Region) -> None:
    """The role of jobs has it since placements are there; an older one has not."""
    region.world.rights.begin("demo")
    with pytest.raises(PermissionDenied, match=r"compute\.resourcePolicies\.get"):
        region.read()


def test_both_sides_know_the_same_series() -> None:
    """Both were read in Google's pages, and neither in the other."""
    assert set(COMPACT_SERIES) == resource_policies._COMPACT
    for machine_type in ("n1-standard-8", "ct5lp-hightpu-4t", "a4x-highgpu-4g", "e2-standard-4", "t2d-standard-4"):
        assert not takes_compact_placement(machine_type)
    assert takes_compact_placement("a3-megagpu-8g")
