"""Two replicas take turns under a limit, each killed at random steps: what the cloud has never exceeds the limit."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from tests.jobs.world import ANA, CrashPoint, Killed, World, world

from costguard.model.budget import FleetLimit, LimitPart, Scope
from costguard.model.instance import Status

BEN = "ben@example.com"
GPUS, VMS_EACH = 3, 2
LIMITS = (FleetLimit("gpus", Scope(), gpus=GPUS), FleetLimit("each", Scope(), for_each=LimitPart.OWNER, vms=VMS_EACH))
_UP = frozenset({Status.PENDING, Status.PROVISIONING, Status.STAGING, Status.RUNNING})


def recount(w: World, owner_of: dict[str, str]) -> None:
    """Counts the cloud's own VMs, whatever the rows say."""
    there = [vm for vm in w.cloud.there() if vm.status in _UP]
    assert len(there) <= GPUS, [vm.name for vm in there]
    for owner in (ANA, BEN):
        mine = [vm.name for vm in there if owner_of[vm.name.split("-")[1]] == owner]
        assert len(mine) <= VMS_EACH, mine


@pytest.mark.parametrize("seed", range(4))
def test_kills_at_random_steps_exceed_no_limit(sqlite_url: str, seed: int) -> None:
    """Wherever a replica ends, the next one counts its intents."""
    pick, owner_of, kills = Random(seed), {}, 0
    with world(sqlite_url, limits=LIMITS) as w:
        for number in range(6):
            nodes = 2 if number == 3 else 1
            owner_of[f"j{number}"] = owner = pick.choice([ANA, BEN])
            w.submit(f"j{number}", owner=owner, nodes=nodes, priority=pick.choice([0, 0, 3]))
        for _ in range(90):
            w.guard(CrashPoint(pick.randint(1, 30)) if pick.random() < 0.6 else None)
            for _ in range(pick.randint(1, 3)):
                try:
                    w.step(20, passing=pick.random() < 0.4)
                except Killed:
                    kills += 1
                    break
            w.shelf.fuse = CrashPoint()
            recount(w, owner_of)
            running = sorted(w.cloud.running(), key=lambda vm: vm.name)
            if running and pick.random() < 0.3:
                with suppress(Killed):
                    act_on(w, pick.choice(running).name, pick)
        assert kills > 5
        w.guard()
        w.settle(20, every=30)
        recount(w, owner_of)
        begun = {one.job_id for job in owner_of for one in w.attempts(job) if one.made_at is not None}
        assert begun >= {job for job in owner_of if w.job(job).spec.nodes == 1} - set(waiting(w, owner_of))


def waiting(w: World, owner_of: dict[str, str]) -> list[str]:
    return [job for job in owner_of if "in line" in w.job(job).reason]


def act_on(w: World, name: str, pick: Random) -> None:
    """The VM is preempted, or its command ends: a job of one VM is done then."""
    if pick.random() < 0.4:
        w.cloud.preempt(w.vm(name))
    elif w.job(name.split("-")[1]).spec.nodes == 1:
        w.guard()
        w.start(name)
        w.exit(name)
