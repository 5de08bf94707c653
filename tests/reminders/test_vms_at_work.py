"""A person's stop of a job's VM leads to the job that is cancelled, on both databases."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import PROJECT, at
from tests.jobs import job_rows
from tests.reminders.execute_setup import ANA, Scene
from tests.reminders.reminder_rows import message

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.jobs.rows import attempts
from costguard.jobs.rows import job_rows as jobs
from costguard.messages import outbox_rows
from costguard.messages.outbox import Composed
from costguard.messages.reminder import ReminderComposer
from costguard.model.action import CancelJob, StopInstance
from costguard.model.attempt import ATTEMPT_LABEL, AttemptState, Outcome
from costguard.model.delivery.message import ReminderContent
from costguard.model.job import CheckpointPlan, Job, JobKind, JobState
from costguard.model.preset import OTHER, Match, Preset
from costguard.model.reminder import Enforcement, ReminderRule, Subject
from costguard.reminders import gather
from costguard.reminders.execute import ShadowExecutor

STOPS = ReminderRule(enforcement=Enforcement.STOP, stop_after=1, grace=timedelta())
RULES = Rules({OTHER: Preset(OTHER, Match(), timedelta(minutes=30), reminders=STOPS)}, channel="#gpu", is_shadow=False)


@dataclass
class Work:
    """A VM that works on Ana's job, long past its limit; it is 12:00."""

    scene: Scene
    subject: Subject
    attempt_id: int

    def job(self) -> Job:
        with self.scene.database.read() as connection:
            result = jobs.read(connection, "j7k2m9q4")
        assert result is not None
        return result

    def look(self) -> tuple[str, list[type]]:
        """The job that it is thought to work on, and what a pass would do."""
        with self.scene.database.read() as connection:
            plan, (vm,) = gather.look_at(connection, RULES, self.scene.clock.now())
        return vm.job, [type(action) for action in plan.actions]

    def carry_out(self) -> list[str]:
        with self.scene.database.read() as connection:
            plan, _ = gather.look_at(connection, RULES, self.scene.clock.now())
        executor = ShadowExecutor(self.scene.database, self.scene.clock, self.scene.executor())
        return [f"{item.result}: {item.text}" for item in executor.carry_out(plan.actions)]


def begun(database: Database, kind: JobKind = JobKind.TRAINING, **given: Any) -> Work:
    scene = Scene(database)
    with database.write() as connection:
        job_rows.added(connection, owner=ANA, project=PROJECT, kind=kind, state=JobState.RUNNING, **given)
        attempt = job_rows.attempt(connection, project=PROJECT, name="vm-1", state=AttemptState.RUNNING, gce_id="1001")
    return Work(scene, scene.run(labels={ATTEMPT_LABEL: "vm-1"}), attempt.id)


@pytest.fixture
def work(database: Database) -> Work:
    return begun(database)


def test_a_stop_by_a_person_cancels_the_job_once(work: Work) -> None:
    """The job is cancelled by anyone who asked, with the request settled and the event recorded; a second one changes
    nothing.
    """
    work.scene.ask(work.subject)
    reported = f"{ANA} stops vm-1, so its job resnet is cancelled; its command gets time to save first."
    assert work.carry_out() == [f"settled: {reported}"]
    job = work.job()
    assert (job.cancel_asked_by, job.cancel_asked_at, job.reason) == (ANA, at("12:00"), reported)
    assert (work.scene.event_texts("CancelAsked"), work.scene.google.calls) == ([reported], [])
    work.scene.ask(work.subject, key="again")
    again = f"Job resnet is being cancelled already, as {ANA} asked."
    assert work.carry_out() == [f"settled: {again}"]
    assert [outcome for _, outcome in work.scene.requests()] == [reported, again]


def test_the_message_says_that_the_job_is_cancelled(work: Work) -> None:
    """Until the VM is gone it shows that, and asks nothing any more."""
    with work.scene.database.write() as connection:
        key = f"reminder/{work.subject}/0/0/owner"
        times = {"accepted_at": at("11:00"), "intended_at": at("11:00")}
        message(
            connection,
            key,
            subject=str(work.subject),
            instance_id=work.subject.instance_id,
            stage=0,
            is_live=True,
            **times,
        )
    work.scene.ask(work.subject)
    work.carry_out()
    with work.scene.database.read() as connection:
        (live,) = outbox_rows.live(connection)
        composed = ReminderComposer(RULES)(connection, live, at("12:01"))
    assert isinstance(composed, Composed)
    assert isinstance(composed.content, ReminderContent)
    assert "so its job resnet is cancelled" in composed.content.state.sentence
    assert composed.content.buttons == ()


@pytest.mark.parametrize("is_given_up", [True, False])
def test_a_stop_says_what_becomes_of_a_disk_that_holds_the_checkpoints(
    sqlite_database: Database, is_given_up: bool
) -> None:
    """The disk is kept, with how it is deleted later, or lost, where that was agreed to."""
    work = begun(sqlite_database, checkpoint=CheckpointPlan("/ckpt", "--from {checkpoint}"))
    if is_given_up:
        with sqlite_database.write() as connection:
            jobs.give_disk_up(connection, "j7k2m9q4", ANA, at("11:00"))
    work.scene.ask(work.subject)
    (text,) = work.carry_out()
    lost = "Its disk is deleted, and everything that it saved there is lost."
    kept = "Its disk is kept, and bills: costguard delete-disk j7k2m9q4 deletes it."
    assert text.endswith(lost if is_given_up else kept)


def test_no_rule_stops_it_while_it_works(sqlite_database: Database) -> None:
    """A VM is like any other once its attempt is over."""
    work = begun(sqlite_database)
    with sqlite_database.write() as connection:
        message(
            connection,
            f"reminder/{work.subject}/0/0/owner",
            subject=str(work.subject),
            stage=0,
            accepted_at=at("11:00"),
        )
    assert work.look() == ("j7k2m9q4", [])
    with sqlite_database.write() as connection:
        attempts.change(connection, work.attempt_id, list(AttemptState), outcome=Outcome.LOST, ended_at=at("11:59"))
    assert work.look() == ("", [StopInstance])


def test_a_vm_for_development_is_stopped_as_any_other(sqlite_database: Database) -> None:
    """The disk holds someone's work, which cancelling would delete."""
    work = begun(sqlite_database, JobKind.DEV)
    work.scene.ask(work.subject)
    job, actions = work.look()
    assert (job, CancelJob in actions, StopInstance in actions) == ("", False, True)
    assert work.carry_out()[0].startswith("asked: ")
    assert work.job().cancel_asked_at is None


def test_a_job_that_ended_meanwhile_is_not_cancelled(sqlite_database: Database) -> None:
    """The person reads that the VM is deleted anyway."""
    work = begun(sqlite_database)
    work.scene.ask(work.subject)
    with sqlite_database.read() as connection:
        plan, _ = gather.look_at(connection, RULES, at("12:00"))
    with sqlite_database.write() as connection:
        jobs.set_state(connection, "j7k2m9q4", JobState.SUCCEEDED, "It is done.", None, at("12:00"))
    work.scene.executor().carry_out(plan.actions)
    assert work.job().state is JobState.SUCCEEDED
    assert work.scene.ephemerals()[0][1] == "The job that vm-1 works on has ended: vm-1 is about to be deleted."
