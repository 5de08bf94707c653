"""The look of a set-up, before anything is watched: all of a fleet at once, what Vertex AI runs included."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from costguard.main.first_look import first_look
from costguard.model.instance import InstanceKind
from costguard.model.money import Money
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START, USED, UNUSED = datetime(2026, 11, 2, 8, tzinfo=UTC), "acme-training", "acme-research"
L4 = {"machineType": "g2-standard-4"}


def _world() -> World:
    world = World(ManualClock(START), projects=[USED, UNUSED])
    world.vertex.enabled.add(USED)
    world.vertex.runtime(USED, "europe-west4", "notes", "ana@example.com", L4)
    world.vertex.deploy(USED, "us-east4", "chat", "llama", L4)
    world.vertex.persistent_resource(USED, "asia-southeast1", "warm", {"machineSpec": L4, "replicaCount": "1"})
    world.advance(timedelta(hours=1))
    return world


def test_one_look_shows_forgotten_notebooks_and_endpoints_of_all_regions() -> None:
    """Each list of each region is read once, though a guard would read them in turn."""
    world = _world()
    with running(world) as url:
        fleet = first_look([USED, UNUSED], url, world.clock)
    assert {(one.vm.key.kind, one.vm.zone) for one in fleet.vms} == {
        (InstanceKind.COLAB_RUNTIME, "europe-west4"),
        (InstanceKind.DEPLOYED_MODEL, "us-east4"),
        (InstanceKind.PERSISTENT_RESOURCE, "asia-southeast1"),
    }
    assert [look.unread for look in fleet.looks] == [(), ()]
    rates = {one.vm.zone: one.rate for one in fleet.vms}
    # 120 % of Compute Engine's shipped prices of an L4 and its host in europe-west4.
    assert rates["europe-west4"] == Money.of("0.890791") == _share(120, "0.58804", "0.026263655", "0.003076951")
    assert rates["us-east4"] is None  # nothing ships for that region


def _share(percent: int, gpu: str, core: str, ram: str) -> Money:
    """A g2-standard-4: 4 vCPUs and 16 GiB. Each price is rounded to nano-dollars by itself."""
    nanos = [(Money.of(price).nanos * percent + 50) // 100 for price in (gpu, core, ram)]
    return Money(nanos[0] + 4 * nanos[1] + 16 * nanos[2])


def test_a_region_that_fails_is_named() -> None:
    """The look says that the region was not read, and the rest of it stands."""
    world = _world()
    world.vertex.refusing.add("us-east4")
    with running(world) as url:
        fleet = first_look([USED], url, world.clock, wait=lambda _seconds: False)
    assert len(fleet.vms) == 2
    (unread,) = fleet.looks[0].unread
    assert "us-east4" in unread
