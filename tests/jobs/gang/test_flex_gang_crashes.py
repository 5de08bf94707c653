"""The guard ended between any two calls of a gang's life on flex-start: nothing is made twice, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from tests.jobs.act.test_crash_points import copied_database
from tests.jobs.cloud import never_twice
from tests.jobs.gang.test_flex_gang import FLEX_GANG, NAMES, A, is_clean
from tests.jobs.gang_life import GangAgents
from tests.jobs.world import CrashPoint, Killed, World

from costguard.model.attempt import AttemptState
from costguard.model.instance import Status
from costguard.model.job import JobState


def _played(w: World, fuse: CrashPoint | None = None, seconds: float = 600) -> bool:
    """Lets time go on until the job is over and all is gone; whether the process was ended."""
    agents = GangAgents(w)
    if fuse is not None:
        w.guard(fuse)
    killed = False

    def alive(do: Callable[..., object], *given: object) -> bool:
        try:
            do(*given)
        except Killed:
            w.guard()  # an agent whose word was taken, and its answer lost, says the next one under the next number
            w.outside.seq = {one.name: one.agent.accepted_through for one in w.attempts()}
            return True
        return False

    for _ in range(int(seconds // 10)):
        killed = alive(agents.step) or killed
        running = agents.running().values()
        if len(running) == 4 and all(one.is_running and one.beats > 2 for one in running):
            for member in list(running):
                while alive(agents.finish, member):  # an agent whose word was not taken says it again
                    killed = True
        if w.job().state.is_over and is_clean(w) and all(one.state is AttemptState.OVER for one in w.attempts()):
            break
    return killed


@pytest.mark.parametrize("granted_after", [0, 40], ids=["granted at once", "waits"])
def test_guard_ended_between_any_two_calls_makes_nothing_twice_and_leaves_nothing(
    tmp_path: Path, sqlite_template: Path, granted_after: int
) -> None:
    """A gang's life from its request to its end, with the process ended once at each step of it."""
    point, ended = 0, 0
    while True:
        point += 12 if granted_after else 9
        path = tmp_path / f"costguard-{point}.db"
        with copied_database(path, sqlite_template) as database:
            w = World(database).begin()
            w.cloud.flex_waits = {A: timedelta(seconds=granted_after)}
            w.submit(nodes=4, recipe=FLEX_GANG)
            was_killed = _played(w, CrashPoint(point), 900)
            assert w.job().state is JobState.SUCCEEDED, (point, w.job().reason)
            assert is_clean(w), point
            never_twice(w.cloud)
            assert sorted(vm.name for vm in w.cloud.all) == NAMES, point
            assert all(vm.status is not Status.RUNNING for vm in w.cloud.all)
        path.unlink()
        if not was_killed:
            break
        ended += 1
    assert ended > 12


def test_guard_ended_while_a_cancel_takes_everything_back_leaves_nothing(tmp_path: Path, sqlite_template: Path) -> None:
    """The cancel comes at each moment of the request's making, and the process ends at each step after it."""
    for ticks in (1, 2, 3, 6):
        point = ticks - 9
        while True:
            point += 9
            path = tmp_path / f"costguard-{ticks}-{point}.db"
            with copied_database(path, sqlite_template) as database:
                w = World(database).begin()
                w.cloud.flex_waits = {A: None}
                w.submit(nodes=4, recipe=FLEX_GANG)
                for _ in range(ticks):
                    w.step(3)
                w.cancel()
                was_killed = _played(w, CrashPoint(point), 600)
                assert w.job().state is JobState.CANCELLED, (ticks, point)
                assert is_clean(w), (ticks, point)
                assert {one.state for one in w.attempts()} <= {AttemptState.OVER}
            path.unlink()
            if not was_killed:
                break
