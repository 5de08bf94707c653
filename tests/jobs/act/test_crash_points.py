"""The guard ended before and after every commit and every call, and another on the same database and cloud.

The points are found, not listed: each tick of a story is played with a process that ends one step later each time,
until it outlives the tick.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from tests.jobs.lives import MOST_TICKS, Life, Machine, check
from tests.jobs.world import BUCKET, CrashPoint, FragileDatabase, World

from costguard.model.attempt import AttemptState
from costguard.model.job import CheckpointPlan, JobState


def _preempted_once(life: Life, machine: Machine) -> None:
    life.once("notice", lambda: life.notice(machine))


def _preempted_and_cancelled(life: Life, machine: Machine) -> None:
    _preempted_once(life, machine)
    if machine.vm.name.endswith("-2"):
        life.once("cancel", life.world.cancel)


def _crashed_once(life: Life, machine: Machine) -> None:
    if machine.run == 1:
        life.crash(machine)


def _crashes_always(life: Life, machine: Machine) -> None:
    life.crash(machine)


def _agrees(life: Life) -> None:
    """The owner of a job that has failed lets its disk go."""
    kept = [one for one in life.world.attempts() if one.state is AttemptState.KEPT]
    if kept:
        assert [vm.name for vm in life.world.cloud.there()] == [one.name for one in kept]
        life.once("agreed", life.world.agree)


@contextmanager
def copied_database(path: Path, template: Path) -> Iterator[FragileDatabase]:
    shutil.copy(template, path)
    with closing(FragileDatabase.open(f"sqlite:///{path}")) as database:
        assert isinstance(database, FragileDatabase)
        yield database


def points_of(life: Life, path: Path, state: JobState, begin: int = 1, every: int = 1) -> int:
    """Ends a process at each point from here on. How many there were.

    Where two of them leave the same behind, in the database and outside, the story is played on from there once.
    """
    database, saved = life.world.database, path.with_suffix(".saved")
    points = 0
    while not life.is_over():
        database.close()
        shutil.copy(path, saved)
        stored: set[tuple[bytes, str]] = set()
        for point in range(begin, 1000, every):
            fuse = CrashPoint(point)
            other = life.copied()
            other.world.guard(fuse)
            other.tick()
            if not fuse.is_blown:
                break
            points += 1
            database.close()
            left = (sha256(path.read_bytes()).digest(), other.mark())
            if left not in stored:
                stored.add(left)
                other.world.guard()
                other.play()
                check(other.world, state)
                database.close()
            shutil.copy(saved, path)
        life = other
    check(life.world, state)
    return points


@dataclass(frozen=True)
class Story:
    """`begins_with` has happened before the points that are tried: what comes before that is another story's.

    Of the points one in `every` is tried, where most of them stand in another story as well.
    """

    happens: Callable[[Life, Machine], None]
    state: JobState
    begins_with: str = ""
    location: str = BUCKET
    people: Callable[[Life], None] = lambda _: None
    needs: int = 3
    every: int = 1


STORIES = {
    "launched, preempted, recovered, finished": Story(_preempted_once, JobState.SUCCEEDED),
    "cancelled": Story(_preempted_and_cancelled, JobState.CANCELLED, "cancel", every=2),
    "crashed, and started again with its disk": Story(
        _crashed_once, JobState.SUCCEEDED, "cg-j1-1/1 crashed", "/ckpt", every=3
    ),
    "failed, its disk kept and then given up": Story(
        _crashes_always, JobState.FAILED, "cg-j1-1/3 crashed", "/ckpt", _agrees, 99
    ),
    "started again with its disk": Story(_preempted_once, JobState.SUCCEEDED, "cg-j1-1 preempted", "/ckpt", every=2),
}


@pytest.mark.parametrize("story", STORIES)
def test_at_every_point(tmp_path: Path, sqlite_template: Path, story: str) -> None:
    """A crash at any point leaves exactly one VM for each attempt ever, no orphan, no lost job, nothing that bills."""
    reported = STORIES[story]
    path = tmp_path / "costguard.db"
    with copied_database(path, sqlite_template) as database:
        life = Life(World(database).begin(), reported.happens, reported.needs, people=reported.people)
        life.world.submit(checkpoint=CheckpointPlan(reported.location, "--from {checkpoint}"))
        while reported.begins_with and reported.begins_with not in life.seen:
            assert life.ticks < MOST_TICKS
            life.tick()
        points = points_of(life, path, reported.state, every=reported.every)
    assert points > 20 // reported.every
