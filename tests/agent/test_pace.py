"""An agent in a simulated cloud whose clock runs faster than its VM: its moments and speeds are by that clock."""

from __future__ import annotations

from datetime import datetime

import pytest
from tests.agent.fake_guard import FakeGuard
from tests.agent.planted_hangs import planted
from tests.agent.vm import Vm

from costguard_vm.agent.files import own_time, utc, utc_of
from costguard_vm.agent.settings import AttemptSettings, at_pace
from costguard_vm.diagnosis.signals import read_minute

A_MOMENT = 1_795_000_000.25
STEPS = """
import time
for step in range(1, 41):
    print(f"step: {step} loss: {1 / step}", flush=True)
    time.sleep(0.1)
"""


@pytest.mark.parametrize("pace", [1.0, 0.5, 60.0, 100.0])
def test_moments_keep_their_distances_by_the_faster_clock(pace: float) -> None:
    """Moments come back as the VM's own, which files on its disk bear."""
    first, later = utc_of(A_MOMENT, pace), utc_of(A_MOMENT + 2, pace)
    apart = datetime.fromisoformat(later) - datetime.fromisoformat(first)
    assert apart.total_seconds() == pytest.approx(2 * pace)
    assert own_time(first, pace) == pytest.approx(A_MOMENT, abs=0.01)


def test_without_a_pace_moments_are_the_vms() -> None:
    """Both clocks are one on a real cloud."""
    assert utc_of(A_MOMENT) == "2026-11-18T11:06:40.250+00:00"
    assert utc() <= utc()


def test_looks_and_drills_come_as_often_by_the_faster_clock() -> None:
    """The time that processes take, and how often the guard wants to hear, stays as it is."""
    usual, fast = AttemptSettings(), at_pace(AttemptSettings(), 60.0)
    assert (fast.look_s, fast.activity_s, fast.drill_settle_s, fast.drill_stake_s) == (1.0, 1.0, 1.0, 5.0)
    assert fast.hang_least_s == 4 * usual.heartbeat_s * 60, "an hour of the fleet holds four looks"
    assert at_pace(AttemptSettings(heartbeat_s=0.1), 60.0).hang_least_s == usual.hang_least_s
    assert fast.activity_look_s == pytest.approx(0.1)
    assert (fast.heartbeat_s, fast.notice_grace_s) == (usual.heartbeat_s, usual.notice_grace_s)
    assert at_pace(usual, 1.0) is usual


def test_four_seconds_of_training_are_four_minutes_at_sixty_times_the_pace(vm: Vm, guard: FakeGuard) -> None:
    """The curve has its first step and points after that; its activity is reported, its speed is by that clock."""
    vm.pace = "60"
    vm.train(STEPS)
    vm.boot()
    vm.finished()
    points = [point for event in guard.events if event["kind"] == "progress" for point in event["points"]]
    assert points[0]["done"] == 1
    assert points[-1]["done"] == 40
    assert len(points) >= 4
    began, ended = (datetime.fromisoformat(points[place]["at"]) for place in (0, -1))
    assert (ended - began).total_seconds() >= 200  # a step is read a heartbeat late at most
    [start] = [event for event in guard.events if event["kind"] == "start"][:1]
    assert datetime.fromisoformat(start["started_at"]) <= began  # the report of it may come after a first step
    minutes = [read_minute(event["minute"]) for event in guard.events if event["kind"] == "activity"]
    assert minutes
    assert all(minute is not None and (minute.seconds or 0) >= 60 for minute in minutes)
    speeds = [event["progress"]["steps_per_s"] for event in guard.events if "steps_per_s" in event.get("progress", {})]
    assert speeds
    assert speeds[-1] <= 0.25  # ten a second of its own, less what waiting for a processor takes


@pytest.mark.parametrize("kind", ["fifo", "loop"])
def test_hang_counts_the_minutes_of_the_faster_clock(vm: Vm, guard: FakeGuard, kind: str) -> None:
    """Ninety of the fleet's seconds are 1.5 of the VM's; processors at work are still counted by the VM's own."""
    vm.pace = "60"
    vm.train(planted(kind, steps=8), hang_least_s=90.0)
    vm.boot()
    reported = guard.wait_for("heartbeat", lambda event: "hang" in event)
    hang = reported["hang"]
    assert hang["kind"] == ("computing" if kind == "loop" else "still")
    assert 90 <= hang["bound_s"] <= hang["quiet_s"] <= 2 * hang["bound_s"] + 120
    assert (hang["cores"] or 0) <= 2, "by the VM's own second"
    since = datetime.fromisoformat(reported["at"]) - datetime.fromisoformat(hang["since"])
    assert since.total_seconds() == pytest.approx(hang["silent_s"], abs=60), "by the fleet's clock, as its length is"
    guard.is_to_cancel = True
    guard.wait_for("exit")


def test_busy_computer_is_no_hang_at_a_faster_pace(vm: Vm, guard: FakeGuard) -> None:
    """Steps 0.4 s apart are 24 of the fleet's, and no clock of the hang runs out."""
    vm.pace = "60"
    vm.train(STEPS.replace("0.1", "0.4").replace("41", "16"), hang_least_s=60.0)
    vm.boot()
    vm.finished()
    assert not [event for event in guard.events if "hang" in event]
