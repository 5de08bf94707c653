"""Launches under limits on what is in use at once: jobs wait in line, and none is exceeded by VMs of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.jobs.world import ANA, RECIPE, ZONES, CrashPoint, Killed, World, world

from costguard.jobs.rows.limits import limit_rows
from costguard.jobs.rows.limits.limit_rows import LimitAttribution
from costguard.model.attempt import AttemptState
from costguard.model.budget import FleetLimit, LimitPart, Scope
from costguard.model.buying import bought
from costguard.model.job import JobState
from costguard.model.money import Money
from costguard.model.options.node_count import NodeRange

BEN = "ben@example.com"
TWO_GPUS = FleetLimit("gpus", Scope(), gpus=2)


@contextmanager
def limited(url: str, *limits: FleetLimit) -> Iterator[World]:
    with world(url, limits=limits) as w:
        yield w


def up(w: World) -> list[str]:
    return sorted(vm.name for vm in w.cloud.running())


def end(w: World, name: str) -> None:
    w.start(name)
    w.step()
    w.exit(name)
    w.settle(2)


def test_a_third_job_waits_and_says_why_until_one_ends(sqlite_url: str) -> None:
    """It waits in one sentence: the limit, its place, and that nobody knows when it starts; then it starts at once."""
    with limited(sqlite_url, TWO_GPUS) as w:
        for number in (1, 2, 3):
            w.submit(f"j{number}", name=f"job{number}")
            w.step()
        w.settle(3)
        assert up(w) == ["cg-j1-1", "cg-j2-1"]
        third = w.job("j3")
        assert third.state is JobState.QUEUED
        assert third.reason == (
            "waits: limit gpus: 2 of 2 GPUs in use, and it needs 1 GPU; first in line; its start is unknown, since "
            "when job job1 ends is not known"
        )
        assert [event.data["job"] for event in w.events("JobWaits")] == ["j3"]
        end(w, "cg-j1-1")
        assert up(w) == ["cg-j2-1", "cg-j3-1"]
        with w.database.read() as connection:
            assert limit_rows.waiting(connection, LimitAttribution(())) == {}


def test_jobs_of_one_turn_are_counted_together(sqlite_url: str) -> None:
    """The second of two that are decided on together knows of the first."""
    with limited(sqlite_url, TWO_GPUS) as w:
        for number in range(5):
            w.submit(f"j{number}")
        w.step()
        assert len(w.cloud.there()) == 2
        w.settle(5)
        assert len(w.cloud.there()) == 2


def test_the_expected_start_is_the_end_of_the_job_before(sqlite_url: str) -> None:
    """The next job starts when its owner expects the one before to end."""
    with limited(sqlite_url, replace(TWO_GPUS, gpus=1)) as w:
        w.submit("j1", name="first", work=timedelta(hours=2))
        w.until_up("cg-j1-1")
        w.submit("j2", name="second", work=timedelta(hours=1))
        w.submit("j3", name="third")
        w.settle(2)
        assert "expected to start around 14:00 UTC, when job first is expected to end" in w.job("j2").reason
        assert "second in line, behind job second; expected to start around 15:00 UTC" in w.job("j3").reason


def test_a_gang_has_all_its_vms_or_none_and_is_not_passed(sqlite_url: str) -> None:
    """A job of one VM that comes later does not take what the gang waits for."""
    with limited(sqlite_url, FleetLimit("vms", Scope(), vms=3)) as w:
        w.submit("j1")
        w.until_up("cg-j1-1")
        w.submit("j2", nodes=3, name="gang")
        w.step(60)
        w.submit("j3")
        w.settle(3)
        assert up(w) == ["cg-j1-1"]
        assert "behind job gang" in w.job("j3").reason
        end(w, "cg-j1-1")
        w.settle(2)
        assert len(up(w)) == 3
        assert all(name.startswith("cg-j2-") for name in up(w))


def test_a_range_takes_what_fits(sqlite_url: str) -> None:
    """A job of 2 to 8 VMs has the three that there is room for."""
    with limited(sqlite_url, FleetLimit("vms", Scope(), vms=3)) as w:
        w.submit("j1", nodes=8, least_nodes=2, name="range")
        w.settle(3)
        assert len(w.cloud.there()) == 3
        assert NodeRange(2, 8) == w.job("j1").spec.vm_count


def test_a_preempted_job_keeps_its_place(sqlite_url: str) -> None:
    """While nothing can be launched for it yet, nobody else takes its GPU."""
    with limited(sqlite_url, replace(TWO_GPUS, gpus=1)) as w:
        w.submit("j1")
        w.until_up("cg-j1-1")
        w.start()
        w.submit("j2")
        w.settle(1)
        w.cloud.preempt(w.vm())
        w.settle(4)
        assert up(w) == ["cg-j1-2"]


def test_a_job_that_is_tried_again_soon_keeps_its_place(sqlite_url: str) -> None:
    """A command that failed after progress runs again after a pause, in which its GPU is free and kept."""
    with limited(sqlite_url, replace(TWO_GPUS, gpus=1)) as w:
        w.submit("j1")
        w.until_up("cg-j1-1")
        w.start()
        w.beat(step=100)
        w.shelf.save(100)
        w.submit("j2")
        w.settle(1)
        w.exit(code=1)
        w.settle(4)
        assert w.attempts("j2") == []
        assert up(w) == ["cg-j1-2"]


def test_the_higher_priority_goes_first_and_stops_nothing(sqlite_url: str) -> None:
    """It waits for the end of what runs, and goes ahead of who waited before it."""
    with limited(sqlite_url, replace(TWO_GPUS, gpus=1)) as w:
        w.submit("j1")
        w.until_up("cg-j1-1")
        w.submit("j2", name="early")
        w.settle(1)
        w.submit("j3", name="urgent", priority=5)
        w.settle(2)
        assert up(w) == ["cg-j1-1"]
        assert "behind job urgent" in w.job("j2").reason
        end(w, "cg-j1-1")
        assert up(w) == ["cg-j3-1"]


def test_a_limit_that_is_lowered_stops_nothing(sqlite_url: str) -> None:
    """A job that can never fit any more says so, and keeps no other from going on."""
    with limited(sqlite_url, FleetLimit("vms", Scope(), vms=4)) as w:
        w.submit("j1")
        w.submit("j2")
        w.until_up("cg-j2-1")
        w.submit("j3", nodes=3)
        w.settle(1)
        w.limits = (FleetLimit("vms", Scope(), vms=2),)
        w.guard()
        w.submit("j4")
        w.settle(3)
        assert up(w) == ["cg-j1-1", "cg-j2-1"]
        assert "allows at most 2 VMs, and it needs 3 VMs: have the limit raised, or cancel it" in w.job("j3").reason
        end(w, "cg-j1-1")
        assert up(w) == ["cg-j2-1", "cg-j4-1"]


def test_each_owner_has_a_limit_and_holds_up_nobody_else(sqlite_url: str) -> None:
    """Ana has one VM and waits for her own limit; Ben goes ahead."""
    own = FleetLimit("each", Scope(), for_each=LimitPart.OWNER, vms=1)
    with limited(sqlite_url, own, FleetLimit("all", Scope(), vms=3)) as w:
        for number in range(6):
            w.submit(f"a{number}", owner=ANA)
        w.submit("b1", owner=BEN)
        w.settle(2)
        assert up(w) == ["cg-a0-1", "cg-b1-1"]
        assert "limit each of ana@example.com: 1 of 1 VM in use" in w.job("a1").reason


def test_dollars_an_hour(sqlite_url: str) -> None:
    """Two T4 VMs on Spot fit under what two cost, and no third."""
    with limited(sqlite_url, FleetLimit("money", Scope(), dollars_per_hour=Money.of("0.40"))) as w:
        w.submit("j0")
        w.until_up("cg-j0-1")
        (first,) = w.attempts("j0")
        assert first.rate is not None
        fits = Money.of("0.40").nanos // first.rate.nanos
        for number in range(1, 6):
            w.submit(f"j{number}")
        w.settle(3)
        assert len(up(w)) == fits
        assert "of $0.400 an hour in use, and it needs" in w.job("j5").reason


@pytest.mark.parametrize(("counts_others", "expected"), [(True, 1), (False, 2)], ids=["all", "jobs alone"])
def test_vms_that_no_job_launched_count_unless_left_out(sqlite_url: str, counts_others: bool, expected: int) -> None:
    """A VM that a person made takes one of two GPUs, where the limit counts all."""
    with limited(sqlite_url, replace(TWO_GPUS, counts_others=counts_others)) as w:
        w.submit("j0")
        w.until_up("cg-j0-1")
        vm = w.vm("cg-j0-1")
        by_hand = replace(vm.request, name="by-hand", labels={}, metadata={})
        w.cloud.insert(vm.project, vm.zone, by_hand, "by-hand")
        w.settle(1)
        w.submit("j1")
        w.settle(2)
        assert len([name for name in up(w) if name != "by-hand"]) == expected


def test_a_vm_that_is_only_intended_counts(sqlite_url: str) -> None:
    """The guard ends right after it intended a VM and before Google was asked; the next one counts it."""
    with limited(sqlite_url, replace(TWO_GPUS, gpus=1)) as w:
        w.submit("j1")
        for steps in range(1, 40):
            w.guard(CrashPoint(steps))
            with suppress(Killed):
                w.step()
            if w.attempts("j1"):
                break
        assert (w.attempts("j1")[0].state, w.cloud.all) == (AttemptState.INTENDED, [])
        w.shelf.fuse = CrashPoint()
        w.guard()
        w.submit("j2", priority=9)
        w.step(1)
        assert w.attempts("j2") == []
        w.settle(3)
        assert up(w) == ["cg-j1-1"]


@pytest.mark.parametrize(("vms", "expected"), [(1, 1), (2, 2)], ids=["no room", "room"])
def test_a_second_vm_to_move_a_job_has_to_fit(sqlite_url: str, vms: int, expected: int) -> None:
    """The next flex-start VM is requested before Google ends the first; without room the job stays where it is."""
    recipe = replace(bought(RECIPE, "flex"), zones=ZONES[:1], max_run=timedelta(hours=4))
    with limited(sqlite_url, FleetLimit("vms", Scope(), vms=vms)) as w:
        w.cloud.flex_waits = {ZONES[0]: timedelta(minutes=20)}
        w.submit(recipe=recipe)
        w.settle(minutes=22, every=30)
        w.start()
        for _ in range(11):
            w.beat()
            w.settle(minutes=8, every=60)
        tried = sorted(w.attempts(), key=lambda one: one.number)
        assert len(tried) == expected
        assert tried[0].state is AttemptState.RUNNING
        assert w.job().state is JobState.RUNNING
        assert w.job().reason.startswith("runs in us-central1-a")
