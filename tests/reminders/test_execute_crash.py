"""The guard ended at any step of a stop, and another on the same database: one stop, or none, and all of it told."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.crashing import CrashPoint, Killed, fragile_database, steps_of
from tests.fakes import FakeVm
from tests.reminders.execute_setup import ANA, FragileActuator, Scene
from tests.reminders.last_check_setup import Judged

from costguard.db.transaction import Database
from costguard.errors import CloudUnavailable
from costguard.ledger import answers
from costguard.model.action import StopInstance, StopOutcome
from costguard.model.instance import Shape, Status
from costguard.model.reminder import Keep, RequestKind, Subject
from costguard.reminders import request_rows
from costguard.reminders.stop_case import ByTheRules

CPU = Shape("n2-standard-4", 4, 16384)
LATER = timedelta(minutes=5)
MOST_STEPS = 16  # of one stop; a run that is longer would leave steps untried, and fails


def _killed(scene: Scene, url: str, action: StopInstance, step: int) -> bool:
    """Says whether the n-th step of carrying it out was reached, and the process ended there."""
    fuse = CrashPoint(step)
    with fragile_database(url, fuse) as fragile:
        try:
            scene.executor(database=fragile, actuator=FragileActuator(scene.google, fuse)).carry_out([action])
        except Killed:
            return True
    return False


def _all_steps(scene: Scene, url: str, number_of: int = MOST_STEPS) -> None:
    """Nothing is longer than the steps that are tried."""
    subject = scene.run(99)
    assert not _killed(scene, url, scene.stop_by_rule(subject, 99), number_of + 1)


@pytest.mark.parametrize("by_rule", [True, False], ids=["by rule", "by Ana"])
def test_ended_at_every_step(database: Database, database_url: str, by_rule: bool) -> None:
    """The next guard brings it to one stop of this VM, under one request id, whatever the step."""
    scene = Scene(database)
    _all_steps(scene, database_url)
    reached = 0
    steps = steps_of(database_url, MOST_STEPS)
    for tried, step in enumerate(steps, 1):
        scene.google.calls.clear()
        scene.google.effects.clear()
        subject = scene.run(step, shape=CPU)
        make = scene.stop_by_rule if by_rule else scene.stop_by_ana
        action = make(subject, step)
        reached += _killed(scene, database_url, action, step)
        executor = scene.executor()
        for _ in range(3):
            scene.clock.advance(LATER)
            executor.settle()
            executor.carry_out([action])  # decided again, as long as nothing says that it is under way
        assert scene.google.effects == [("stop", str(1000 + step))], step
        assert len({call[2] for call in scene.google.calls}) == 1, step
        scene.come_to_rest(step, operation_id=f"op-{step}")
        executor.settle()
        assert [stop.outcome for stop in scene.stops(subject)] == [StopOutcome.DONE], step
        assert len(scene.event_texts("InstanceStopOrdered")) == tried + 1, step
    assert reached > len(steps) // 2


def test_ended_at_every_step_and_kept_before_the_next_guard_came(database: Database, database_url: str) -> None:
    """A stop that had not been asked of Google by then is never asked; the keep counts."""
    scene = Scene(database)
    for step in steps_of(database_url, MOST_STEPS):
        scene.google.calls.clear()
        subject = scene.run(step)
        judged = Judged(scene, subject, name=f"vm-{step}")
        judged.warn("10:30", "11:00")
        action = judged.decided()
        _killed(scene, database_url, action, step)
        calls_before = len(scene.google.calls)
        _keep(scene, subject)
        executor = scene.executor(still_due=ByTheRules(judged.rules))
        for _ in range(3):
            scene.clock.advance(LATER)
            executor.settle()
            executor.carry_out([action])
        assert len(scene.google.calls) == calls_before, step


def test_ended_at_every_step_and_made_anew_under_the_same_name(sqlite_database: Database, sqlite_url: str) -> None:
    """A VM that took the name in between is never stopped in place of the one that had it."""
    scene = Scene(sqlite_database)
    for step in range(1, MOST_STEPS + 1):
        subject = scene.run(step)
        action = scene.stop_by_rule(subject, step)
        _killed(scene, sqlite_url, action, step)
        namesake = FakeVm(f"5{step}", started_at=scene.clock.now())
        scene.google.vms[action.key.project, action.zone, action.name] = namesake
        executor = scene.executor()
        for _ in range(3):
            scene.clock.advance(LATER)
            executor.settle()
            executor.carry_out([action])
        assert namesake.status is Status.RUNNING, step
        assert (f"5{step}") not in {gce_id for _, gce_id in scene.google.effects}, step


@pytest.mark.parametrize("lost", [True, False])
def test_ended_at_every_step_while_google_is_in_trouble(sqlite_database: Database, sqlite_url: str, lost: bool) -> None:
    """An answer that was lost, or a 5xx that did nothing, and a crash at the same time: still one stop."""
    scene = Scene(sqlite_database)
    for step in range(1, MOST_STEPS + 1):
        scene.google.effects.clear()
        trouble = [CloudUnavailable("no answer")]
        scene.google.lost, scene.google.troubles = (list(trouble), []) if lost else ([], list(trouble))
        subject = scene.run(step)
        action = scene.stop_by_rule(subject, step)
        _killed(scene, sqlite_url, action, step)
        executor = scene.executor()
        for _ in range(4):
            scene.clock.advance(LATER)
            executor.settle()
            executor.carry_out([action])
        assert scene.google.effects == [("stop", str(1000 + step))], step
        assert len(scene.stops(subject)) == 1


def _keep(scene: Scene, subject: Subject) -> None:
    request = scene.ask(subject, RequestKind.KEEP)
    assert request.id is not None
    with scene.database.write() as connection:
        keep = Keep(subject, scene.clock.now() + timedelta(hours=4), ANA, scene.clock.now())
        answers.add_keep(connection, keep, request.id)
        request_rows.settle(connection, request.id, "done", "kept", scene.clock.now())
