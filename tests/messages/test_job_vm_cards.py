"""Messages about the VM of a job say what its job means for it: what a stop does, and why its disk bills."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.jobs.rows import attempts
from costguard.jobs.rows import job_rows as jobs
from costguard.ledger.accrual import accrual_at
from costguard.messages import cards, job_update
from costguard.model.attempt import AttemptState
from costguard.model.delivery.message import VmCard
from costguard.model.event import Event
from costguard.model.job import CheckpointPlan, JobState
from costguard.model.reminder import RequestKind, Subject, SubjectKind

PRICES = {("disk:pd-balanced", "standard", "GiBy.mo"): 100_000_000}
DAY = timedelta(days=1)
ON_DISK = CheckpointPlan("/ckpt", "--from {checkpoint}")


def card(database: Database, subject_kind: SubjectKind, name: str, job: str = "") -> VmCard:
    """Makes a card of a VM with the id 4799, stopped where the message is about its storage. `job` is as recorded."""
    is_of_storage = subject_kind is SubjectKind.REST
    with database.write() as connection:
        rows.prices(connection, PRICES)
        status = "stopped" if is_of_storage else "running"
        vm = rows.instance(connection, name, gce_id="4799", status=status, job=job)
        life = rows.lifetime(connection, vm, NOW - DAY, **({"ended_at": NOW} if is_of_storage else {}))
        rows.storage(connection, vm, NOW - DAY)
    with database.read() as connection:
        accrual = accrual_at(connection, NOW)
        result = cards.card(connection, accrual, Rules({}), Subject(subject_kind, vm, life), NOW, "")
    assert result is not None
    return result


def running(database: Database, **given: Any) -> None:
    with database.write() as connection:
        job_rows.added(connection, "jrun", **given)
        job_rows.attempt(connection, "jrun", state=AttemptState.RUNNING, gce_id="4799")
        jobs.set_state(connection, "jrun", JobState.RUNNING, "It runs.", None, NOW)


def stop_of(card: VmCard) -> str:
    (stop,) = (
        button for button in cards.buttons(card, NOW, cards.zone_of(None, Rules({}))) if button.kind is RequestKind.STOP
    )
    return stop.effect


def test_a_storage_reminder_names_the_job_whose_disk_is_kept(sqlite_database: Database) -> None:
    """The reminder has the disk's contents, its monthly cost, and the command that deletes it."""
    with sqlite_database.write() as connection:
        job_rows.failed_on_disk(connection, "jkept")
    said = card(sqlite_database, SubjectKind.REST, "cg-jkept-1", "jkept").disk_note
    assert "Its disk is kept for job resnet (jkept), which failed" in said
    assert "up to the checkpoint of step 40 in /ckpt/step-40, and costs about $10.00 a month" in said
    assert said.endswith("costguard delete-disk jkept")


def test_a_vm_between_two_runs_says_that_its_job_starts_it_again(sqlite_database: Database) -> None:
    """Nothing is to be deleted there."""
    running(sqlite_database, checkpoint=ON_DISK)
    with sqlite_database.write() as connection:
        attempts.change(connection, 1, list(AttemptState), state=AttemptState.RESTING)
    said = card(sqlite_database, SubjectKind.REST, "cg-jrun-1", "jrun").disk_note
    assert "It is the VM of job resnet (jrun), which will start it again automatically." in said


def test_other_vms_at_rest_have_no_job_to_name(sqlite_database: Database) -> None:
    """Their reminder reads as it always did."""
    assert card(sqlite_database, SubjectKind.REST, "notebook").disk_note == ""


@pytest.mark.parametrize(
    ("checkpoint", "is_given_up", "words"),
    [
        (
            ON_DISK,
            False,
            "is stopped. Its disk is kept, because it holds the only copy of what the job saved, and is billed.",
        ),
        (ON_DISK, True, "is deleted, and everything that the job saved on its disk is lost"),
        (CheckpointPlan("gs://lab/run"), False, "is deleted with its disk"),
    ],
)
def test_stop_now_says_what_becomes_of_the_job_and_its_disk(
    sqlite_database: Database, checkpoint: CheckpointPlan, is_given_up: bool, words: str
) -> None:
    """A stop of a VM at work cancels its job: it is not simply shut down and started again at any time."""
    running(sqlite_database, checkpoint=checkpoint)
    if is_given_up:
        with sqlite_database.write() as connection:
            jobs.give_disk_up(connection, "jrun", "ada@lab.example", NOW)
    said = stop_of(card(sqlite_database, SubjectKind.RUN, "cg-jrun-1", "jrun"))
    assert said.startswith("This cancels job resnet, whose command gets time to save first.")
    assert words in said
    assert len(said) <= 300


def test_stop_now_of_any_other_vm_is_what_it_always_was(sqlite_database: Database) -> None:
    """It is shut down, and its disks stay."""
    assert stop_of(card(sqlite_database, SubjectKind.RUN, "trainer-7")) == ""


@pytest.mark.parametrize("kind", ["JobFailed", "JobCancelled"])
@pytest.mark.parametrize("is_kept", [True, False])
def test_the_news_of_an_end_say_that_a_disk_is_kept(sqlite_database: Database, kind: str, is_kept: bool) -> None:
    """The disk is kept only where there is one: the VM of a job that was cancelled before it began leaves nothing."""
    with sqlite_database.write() as connection:
        job_rows.failed_on_disk(connection, "jkept")
        if not is_kept:
            attempts.change(connection, 1, list(AttemptState), state=AttemptState.OVER, gone_at=NOW)
        scene = job_update.read_scene(connection, accrual_at(connection, NOW), "jkept")
    assert scene is not None
    reported = job_update.news(scene, Event(key="end", kind=kind, occurred_at=NOW, text="It is over."), "")
    assert ("Once you no longer need it: costguard delete-disk jkept" in reported.what_next) is is_kept
