"""The history of assets over HTTP from the simulated cloud, which answers as Google's discovery document says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
import requests
from tests.sandbox.gce.conformance.discovery import problems
from tests.sandbox.vms import MINUTE, PROJECT, ZONE, new_world, up

from costguard.errors import PermissionDenied, RateLimited
from costguard.gce.client import ComputeCloud
from costguard.ledger.feed.asset_request import name_of
from costguard.model.observation import AssetAnswer
from costguard_sandbox.server import running
from costguard_sandbox.world import World


class _Clock:
    def __init__(self, world: World) -> None:
        self._world = world

    def now(self):  # type: ignore[no-untyped-def]
        return self._world.now


@pytest.fixture
def world() -> World:
    made = new_world()
    for number in range(3):
        up(made, f"vm-{number}")
    made.request("delete", PROJECT, ZONE, "vm-0")
    made.advance(10 * MINUTE)
    return made


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with running(world) as address:
        yield address


def place(world: World) -> str:
    return f"organizations/{world.assets.organization}"


def history(world: World, url: str, *names: str, calls: int = 20, parent: str = "") -> AssetAnswer:
    with closing(ComputeCloud(url, _Clock(world), wait=lambda _: True)) as cloud:
        full = [name_of(PROJECT, ZONE, name) for name in names]
        return cloud.history(parent or place(world), full, calls)


@pytest.mark.parametrize("parent", ["", f"projects/{PROJECT}"])
def test_a_vm_that_is_gone_has_its_resource_and_its_end(world: World, url: str, parent: str) -> None:
    """It is asked for in an organisation, or in a project where only folders are watched."""
    answer = history(world, url, "vm-0", "vm-1", parent=parent)
    assert answer.answered == {name_of(PROJECT, ZONE, name) for name in ("vm-0", "vm-1")}
    assert answer.calls_left == 19
    assert [(one.name.rpartition("/")[2], one.deleted) for one in answer.states] == [
        ("vm-0", False), ("vm-0", True), ("vm-1", False),
    ]  # fmt: skip
    first = answer.states[0].resource
    assert (first["name"], first["machineType"].rpartition("/")[2]) == ("vm-0", "n1-standard-4")


def test_one_unknown_name_costs_some_calls_and_not_the_others(world: World, url: str) -> None:
    """Google refuses all of a call for one name that it does not know: halves are asked for again."""
    names = [f"vm-{number}" for number in range(3)] + ["never-was"]
    answer = history(world, url, *names)
    assert len(answer.answered) == 4
    assert {one.name.rpartition("/")[2] for one in answer.states} == set(names[:3])
    assert answer.calls_left == 20 - 5


def test_no_more_calls_are_made_than_are_allowed(world: World, url: str) -> None:
    """The names that are left are not answered, and are asked for in a later turn."""
    answer = history(world, url, "never-was", "vm-1", calls=1)
    assert (answer.answered, answer.states, answer.calls_left) == (frozenset(), (), 0)


def test_an_asset_appears_minutes_late(world: World, url: str) -> None:
    """A name is unknown until then."""
    world.assets.lag = timedelta(hours=1)
    assert history(world, url, "vm-1").states == ()


def test_refusals_are_told_apart(world: World, url: str) -> None:
    """A missing right is one error, and too many calls another."""
    world.rights.withhold(place(world), "cloudasset.assets.exportResource")
    with pytest.raises(PermissionDenied, match="cloudasset"):
        history(world, url, "vm-1")
    world.rights.restore()
    world.faults.add("too_many_requests", seconds=30)
    with pytest.raises(RateLimited):
        history(world, url, "vm-1")


def test_answers_are_of_the_form_of_the_discovery_document(world: World, url: str) -> None:
    """`BatchGetAssetsHistoryResponse` of cloudasset v1, and its rules: names, content type and window."""
    path = f"{url}/v1/{place(world)}:batchGetAssetsHistory"
    since = (world.now - timedelta(days=30)).isoformat().replace("+00:00", "Z")
    good = {
        "assetNames": [name_of(PROJECT, ZONE, "vm-0")],
        "contentType": "RESOURCE",
        "readTimeWindow.startTime": since,
    }
    answer = requests.get(path, good, timeout=30)
    assert answer.status_code == 200
    assert problems(answer.json(), "BatchGetAssetsHistoryResponse", "cloudasset") == []
    old = (world.now - timedelta(days=36)).isoformat().replace("+00:00", "Z")
    for wrong in ({"readTimeWindow.startTime": old}, {"assetNames": ["x"] * 101}, {"contentType": "IAM_POLICY"}):
        refused = requests.get(path, {**good, **wrong}, timeout=30)
        assert (refused.status_code, refused.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
