"""Gangs with all that can happen to them, in any order: the guard is ended at any step, VMs are lost, commands fail.

COSTGUARD_GANG_LIVES=200 plays more of them.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from random import Random

import pytest
from tests.jobs.gang_life import GangAgents, Member
from tests.jobs.world import CrashPoint, Killed, World, world

from costguard.model.job import JobState

LIVES = int(os.environ.get("COSTGUARD_GANG_LIVES", "4"))
_TICKS = 60
PEER = "torch.distributed.DistNetworkError: Connection closed by peer [10.0.0.3]:29400"


class AnyGang:
    """Plays a life that a seed draws, and checks at every moment what must always hold."""

    def __init__(self, jobs: World, seed: int, least: int | None = None) -> None:
        self.jobs, self.random, self.nodes = jobs, Random(seed), 2 + seed % 3
        self.least = self.nodes if least is None else least
        self.widths: set[int] = set()
        work = timedelta(hours=20) if seed % 2 else None  # so that some grow while they run
        jobs.submit(nodes=self.nodes, least_nodes=least, max_crashes=1000, max_preemptions=1000, work=work)
        self.agents = GangAgents(jobs)
        self.saved = 0

    def play(self) -> None:
        for _ in range(_TICKS):
            self._disturb()
            self._tick()
        self.jobs.cloud.stockouts.clear()
        self.jobs.cloud.room.clear()
        self.agents.silent.clear()
        self.jobs.guard()
        for member in self.agents.until_all_of_round(turns=400):
            self.check()
            self.agents.finish(member)
        for _ in range(60):
            self._tick(is_killed=False)
            if self.jobs.job().state.is_over and not self.jobs.cloud.there():
                break
        assert self.jobs.job().state is JobState.SUCCEEDED, self.jobs.job().reason
        assert self.jobs.cloud.there() == []

    def check(self) -> None:
        """Checks that one gang lives at a time, from one checkpoint, and that no node has two VMs."""
        running = [one for one in self.agents.members.values() if one.is_running and self.jobs.is_up(one.name)]
        assert len({one.round for one in running}) <= 1
        assert len({one.began[-1][1] for one in running}) <= 1
        assert len({one.began[-1][3] for one in running}) <= 1
        ranks = {one.rank for one in running}
        assert len(ranks) == len(running), "two VMs have the same place"
        for one in running:
            addresses = one.began[-1][2]
            assert self.least <= len(addresses) <= self.nodes
            assert ranks <= set(range(len(addresses)))
            assert addresses[one.rank] == one.address
            self.widths.add(len(addresses))
        nodes = [one.node for one in self.jobs.attempts() if one.is_open]
        assert len(nodes) == len(set(nodes)) <= self.nodes
        assert len({one.zone for one in self.jobs.attempts() if one.is_open}) <= 1

    def _tick(self, is_killed: bool = True) -> None:
        if is_killed and self.random.random() < 0.2:
            self.jobs.guard(CrashPoint(self.random.randrange(1, 25)))
            with suppress(Killed):
                self.agents.step()
            self.jobs.guard()
        self.agents.step()
        self.check()

    def _disturb(self) -> None:
        running = list(self.agents.running().values())
        if not running:
            return
        one, drawn = self.random.choice(running), self.random.random()
        if drawn < 0.06:
            self.jobs.cloud.preempt(self.jobs.vm(one.name))
        elif drawn < 0.09:
            self.agents.notice(one)
            self.jobs.cloud.preempt(self.jobs.vm(one.name))
        elif drawn < 0.12 and one.is_running and one.beats:  # else it would fail in the same way again
            self._fail(one)
        elif drawn < 0.14:
            self.agents.silent.add(one.name)
        elif drawn < 0.18:
            zone = self.jobs.vm(one.name).zone
            self.jobs.cloud.stockouts ^= {zone}
        elif drawn < 0.2:
            self.jobs.cloud.room[self.jobs.vm(one.name).zone] = self.random.randrange(self.nodes + 1)
        elif drawn < 0.3 and all(member.is_running for member in running):
            self.saved += 100
            self.jobs.shelf.save(self.saved)

    def _fail(self, one: Member) -> None:
        """Ends its launcher, so that the others lose it."""
        others = [member for member in self.agents.running().values() if member.is_running and member is not one]
        self.agents.fail(one, output=f"step {self.saved}")
        for member in others:
            self.agents.fail(member, output=PEER)


@pytest.mark.parametrize("seed", range(LIVES))
def test_any_life_of_a_gang(seed: int, sqlite_url: str) -> None:
    """It succeeds in the end, and no VM is left."""
    with world(sqlite_url) as jobs:
        AnyGang(jobs, seed).play()


@pytest.mark.parametrize("seed", range(LIVES))
def test_any_life_of_a_gang_that_takes_what_can_be_had(seed: int, sqlite_url: str) -> None:
    """It runs with any number of VMs from the least to the most, and succeeds in the end; no VM is left."""
    with world(sqlite_url) as jobs:
        life = AnyGang(jobs, seed, least=1 + seed % 2)
        life.play()
        assert life.widths
