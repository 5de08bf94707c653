"""The cloud that jobs are tested on keeps to what the real client shows of Compute Engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

import pytest
from tests.builders import at
from tests.fakes import HandClock
from tests.gce.conftest import Waits
from tests.jobs.cloud import CloudOfVms
from tests.jobs.world import RECIPE, ZONES

from costguard.errors import AlreadyExists, NotFound
from costguard.gce.client import ComputeCloud
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.launch import VmRequest
from costguard.model.ports import Launcher
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

PROJECT, ZONE = "demo", ZONES[0]
VM = VmRequest(
    "cg-j1-1",
    replace(RECIPE, image="projects/deeplearning-platform-release/global/images/family/common-cu124"),
    ProvisioningModel.SPOT,
    timedelta(hours=8),
    keeps_disk=False,
    labels={"costguard-attempt": "cg-j1-1"},
)


@dataclass
class LaunchSetup:
    launcher: Launcher
    wait: Callable[[timedelta], object]
    preempt: Callable[[str], object]
    sell_out: Callable[[str], object]

    def ids(self) -> Iterator[str]:
        return (str(UUID(int=number)) for number in range(1, 100))

    def status(self) -> Status | None:
        seen = self.launcher.look(PROJECT, ZONE, VM.name)
        return seen.status if seen is not None else None


@pytest.fixture(params=["in memory", "served"])
def ground(request: pytest.FixtureRequest) -> Iterator[LaunchSetup]:
    if request.param == "in memory":
        clock = HandClock(at("08:00"))
        cloud = CloudOfVms(clock)
        yield LaunchSetup(
            cloud,
            clock.advance,
            lambda name: cloud.preempt(*(vm for vm in cloud.there() if vm.name == name)),
            cloud.stockouts.add,
        )
        return
    manual = ManualClock(at("08:00"))
    world = World(manual)
    with running(world) as url, closing(ComputeCloud(url, manual, wait=Waits())) as served:
        yield LaunchSetup(
            served.launcher,
            world.advance,
            lambda name: world.preempt(PROJECT, name),
            lambda zone: world.faults.add("stockout", zone=zone),
        )


def test_names_and_request_ids(ground: LaunchSetup) -> None:
    """A repeat under one request id is one VM; another under the same name is refused."""
    one, other, *_ = ground.ids()
    first = ground.launcher.insert(PROJECT, ZONE, VM, one)
    begun = ground.launcher.operation(PROJECT, ZONE, first)
    assert begun is not None
    assert not begun.is_done
    assert ground.launcher.insert(PROJECT, ZONE, VM, one) == first
    with pytest.raises(AlreadyExists):
        ground.launcher.insert(PROJECT, ZONE, VM, other)
    ground.wait(timedelta(minutes=5))
    done = ground.launcher.operation(PROJECT, ZONE, first)
    seen = ground.launcher.look(PROJECT, ZONE, VM.name)
    assert done is not None
    assert seen is not None
    assert (done.is_done, done.target_id, done.error_code) == (True, seen.gce_id, "")
    assert (seen.status, seen.labels["costguard-attempt"]) == (Status.RUNNING, VM.name)
    assert ground.launcher.operation(PROJECT, ZONE, "nobody-knows") is None


def test_out_of_stock(ground: LaunchSetup) -> None:
    """The insert is accepted; its operation fails, and nothing has the name."""
    ground.sell_out(ZONE)
    operation = ground.launcher.insert(PROJECT, ZONE, VM, next(ground.ids()))
    ground.wait(timedelta(minutes=5))
    answer = ground.launcher.operation(PROJECT, ZONE, operation)
    assert answer is not None
    assert answer.is_done
    assert answer.error_code.startswith("ZONE_RESOURCE_POOL_EXHAUSTED")
    assert ground.status() is None


def test_a_delete_takes_its_time(ground: LaunchSetup) -> None:
    """The VM is stopping for a while, then gone; after that there is nothing to delete."""
    one, other, third, *_ = ground.ids()
    ground.launcher.insert(PROJECT, ZONE, VM, one)
    ground.wait(timedelta(minutes=5))
    seen = ground.launcher.look(PROJECT, ZONE, VM.name)
    assert seen is not None
    operation = ground.launcher.delete(PROJECT, ZONE, seen.gce_id, other)
    assert ground.launcher.delete(PROJECT, ZONE, seen.gce_id, other) == operation
    ground.wait(timedelta(seconds=5))
    assert ground.status() is Status.STOPPING
    ground.wait(timedelta(minutes=10))
    assert ground.status() is None
    with pytest.raises(NotFound):
        ground.launcher.delete(PROJECT, ZONE, seen.gce_id, third)


@pytest.mark.parametrize("keeps_disk", [False, True])
def test_a_preemption(ground: LaunchSetup, keeps_disk: bool) -> None:
    """The VM goes, or rests and can be started again as it was."""
    one, other, *_ = ground.ids()
    ground.launcher.insert(PROJECT, ZONE, replace(VM, keeps_disk=keeps_disk), one)
    ground.wait(timedelta(minutes=5))
    seen = ground.launcher.look(PROJECT, ZONE, VM.name)
    assert seen is not None
    ground.preempt(VM.name)
    ground.wait(timedelta(minutes=5))
    assert ground.status() is (Status.STOPPED if keeps_disk else None)
    if keeps_disk:
        operation = ground.launcher.start(PROJECT, ZONE, seen.gce_id, other)
        ground.wait(timedelta(minutes=5))
        answer = ground.launcher.operation(PROJECT, ZONE, operation)
        assert answer is not None
        assert (answer.is_done, answer.error_code) == (True, "")
        assert ground.status() is Status.RUNNING
