"""An older database is put back while VMs work that it does not know: nothing that runs is lost, nor doubled."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.scenario.restored import PROJECT, Restorable, restorable

from costguard.daemon import backups
from costguard.db.transaction import Database
from costguard.ledger import generation, unknown_vms
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.generation import GENERATION_LABEL, REQUEST_LABEL
from costguard.model.job import CheckpointPlan, JobKind, JobState


@pytest.fixture
def guard(sqlite_url: str) -> Iterator[Restorable]:
    with restorable(sqlite_url) as made:
        yield made


def test_a_vm_of_a_job_that_the_backup_lacks_goes_on(guard: Restorable) -> None:
    """The labels name this installation and no job that is known: it is reported, billed and left running."""
    backup = guard.copy()
    guard.submit("j1")
    guard.go_on(3)
    guard.works("cg-j1-1")
    guard.go_on(2)
    guard.restore(backup)
    guard.go_on(20, every=60)
    assert guard.up() == ["cg-j1-1"]
    assert guard.events("OrphanDeleted") == []
    (event,) = guard.events("UnknownVmFound")
    assert "job j1 is not in this database" in event.text
    with guard.database.read() as connection:
        (one,) = unknown_vms.there(connection)
        assert one.name == "cg-j1-1"
        assert generation.read(connection).number == 2
    guard.world.delete(PROJECT, "cg-j1-1")
    guard.go_on(3)
    with guard.database.read() as connection:
        assert unknown_vms.there(connection) == []


def test_a_newer_attempt_of_a_known_job_is_adopted(guard: Restorable) -> None:
    """The second VM of the job goes on as its second attempt, and never is there another one next to it."""
    guard.submit("j1")
    guard.go_on(3)
    guard.works("cg-j1-1")
    guard.shelf.save(40)
    guard.go_on(1)
    backup = guard.copy()
    guard.preempt("cg-j1-1")
    guard.go_on(6)
    guard.works("cg-j1-2")
    guard.go_on(1)
    guard.restore(backup)
    for _ in range(40):
        guard.go_on(0.5)
        assert guard.up() == ["cg-j1-2"]
    first, second = guard.attempts("j1")
    assert first.outcome is Outcome.PREEMPTED
    assert second.state is AttemptState.RUNNING
    assert second.number == 2
    assert guard.job("j1").state is JobState.RUNNING
    assert len(guard.events("UnknownVmAdopted")) == 1
    guard.say("cg-j1-2", "exit")
    guard.speaking.pop("cg-j1-2")
    guard.go_on(6)
    assert guard.job("j1").state is JobState.SUCCEEDED
    assert guard.world.instances(PROJECT) == []


def test_the_commands_restore_either_database_as_safely(database_url: str, tmp_path: Path) -> None:
    """`db backup` and `db restore`, with a newer attempt at work: it is adopted, and no VM is next to it."""
    file = tmp_path / "backup.zip"
    with restorable(database_url) as guard:
        guard.submit("j1")
        guard.go_on(3)
        guard.works("cg-j1-1")
        guard.shelf.save(40)
        backups.backup(database_url, file, guard.clock.now())
        guard.preempt("cg-j1-1")
        guard.go_on(6)
        guard.works("cg-j1-2")
        guard.database.close()
        backups.restore(database_url, file, guard.clock.now(), replace=True)
        guard.start()
        for _ in range(16):
            guard.go_on(0.5)
            assert guard.up() == ["cg-j1-2"]
        assert [one.outcome for one in guard.attempts("j1")] == [Outcome.PREEMPTED, None]
        with guard.database.read() as connection:
            assert generation.read(connection).number == 2
    assert backups.verify_database(database_url).is_sound


def test_the_first_vm_of_a_queued_job_is_adopted(guard: Restorable) -> None:
    """The backup has the job and no attempt of it: its VM is not launched a second time."""
    guard.submit("j1")
    backup = guard.copy()
    guard.go_on(3)
    guard.works("cg-j1-1")
    guard.restore(backup)
    guard.go_on(15)
    assert guard.up() == ["cg-j1-1"]
    assert [one.number for one in guard.attempts("j1")] == [1]
    assert guard.job("j1").state is JobState.RUNNING


def test_an_adopted_vm_of_which_nothing_is_heard_is_left_running(guard: Restorable) -> None:
    """The agent may report to another guard, which works with a copy of this database."""
    guard.submit("j1")
    backup = guard.copy()
    guard.go_on(3)
    guard.works("cg-j1-1")
    guard.speaking.clear()
    guard.restore(backup)
    guard.go_on(60, every=120)
    assert guard.up() == ["cg-j1-1"]
    assert "has not reported since" in guard.job("j1").reason


def test_a_copy_of_the_database_elsewhere_deletes_nothing(guard: Restorable) -> None:
    """A guard on a clone, which no agent speaks to, leaves VMs alone that the first guard launched before and since."""
    guard.submit("j1")
    guard.go_on(3)
    guard.works("cg-j1-1")
    guard.go_on(1)
    clone = guard.copy("clone.db")
    guard.submit("j2")
    guard.go_on(3)
    guard.works("cg-j2-1")
    guard.speaking.clear()
    guard.database.close()
    guard.url = f"sqlite:///{clone}"
    guard.start()
    guard.go_on(45, every=120)
    assert guard.up() == ["cg-j1-1", "cg-j2-1"]


def test_an_attempt_that_was_only_intended_is_not_made_twice(guard: Restorable) -> None:
    """The insert was not requested in the backup; since then its VM was preempted, and the next one works."""
    guard.submit("j1")
    guard.world.advance(timedelta(seconds=30))
    guard.look()
    guard.turn.run()
    with guard.database.write() as connection:
        connection.exec_driver_sql("UPDATE attempts SET state = 'intended', asked_at = NULL, operation = ''")
    backup = guard.copy()
    guard.go_on(3)
    guard.works("cg-j1-1")
    guard.shelf.save(40)
    guard.preempt("cg-j1-1")
    guard.go_on(6)
    guard.works("cg-j1-2")
    guard.restore(backup)
    for _ in range(30):
        guard.go_on(0.5)
        assert guard.up() == ["cg-j1-2"]
    assert [one.state for one in guard.attempts("j1")] == [AttemptState.OVER, AttemptState.RUNNING]


def test_an_attempt_that_was_launching_is_found_running(guard: Restorable) -> None:
    """The insert was under way in the backup; the agent's lost reports are made up for by its next heartbeat."""
    guard.submit("j1")
    guard.world.advance(timedelta(seconds=30))
    guard.look()
    guard.turn.run()
    backup = guard.copy()
    guard.go_on(3)
    guard.works("cg-j1-1")
    guard.go_on(2)
    guard.restore(backup)
    guard.go_on(10)
    assert guard.up() == ["cg-j1-1"]
    (one,) = guard.attempts("j1")
    assert one.state is AttemptState.RUNNING
    assert guard.job("j1").state is JobState.RUNNING


def test_names_and_request_ids_are_not_given_out_again(guard: Restorable) -> None:
    """The lost attempt is gone when its database comes back: the next one has another name and another request."""
    guard.submit("j1")
    guard.go_on(3)
    guard.works("cg-j1-1")
    backup = guard.copy()
    guard.preempt("cg-j1-1")
    guard.go_on(6)
    (lost,) = [vm for vm in guard.world.instances(PROJECT) if vm.name == "cg-j1-2"]
    request = lost.given["labels"][REQUEST_LABEL]
    guard.preempt("cg-j1-2")
    guard.world.advance(timedelta(minutes=2))
    guard.restore(backup)
    guard.go_on(8)
    (made,) = guard.world.instances(PROJECT)
    assert made.name == "cg-j1-2-g2"
    assert made.given["labels"][REQUEST_LABEL] != request
    assert made.given["labels"][GENERATION_LABEL] == "2"


def test_two_vms_that_nobody_knows_are_reported_and_hold_their_job(guard: Restorable) -> None:
    """A person says which of them works; until then nothing is launched. An admin may adopt one."""
    guard.submit("j1")
    backup = guard.copy()
    guard.go_on(3)
    guard.works("cg-j1-1")
    guard.launch_unseen("j1", 2, "us-east1-c")
    guard.restore(backup)
    guard.go_on(10)
    assert guard.up() == ["cg-j1-1", "cg-j1-2"]
    assert guard.attempts("j1") == []
    assert "that are not in this database, may be running" in guard.job("j1").reason
    with guard.database.write() as connection:
        first, _ = unknown_vms.there(connection)
        assert unknown_vms.decide(
            connection, first.key, unknown_vms.UnknownVmVerdict.ADOPT, "root@server", guard.clock.now()
        )
    guard.go_on(3)
    assert [one.name for one in guard.attempts("j1")] == ["cg-j1-1"]
    with guard.database.write() as connection:
        (second,) = unknown_vms.there(connection)
        assert unknown_vms.decide(
            connection, second.key, unknown_vms.UnknownVmVerdict.DELETE, "root@server", guard.clock.now()
        )
    guard.go_on(4)
    assert guard.up() == ["cg-j1-1"]
    (deleted,) = guard.events("OrphanDeleted")
    assert "root@server wants it deleted" in deleted.text


def test_a_vm_for_development_is_adopted(guard: Restorable) -> None:
    """It has no agent: its labels and its job are enough."""
    guard.submit("d1", kind=JobKind.DEV, command=(), checkpoint=None)
    backup = guard.copy()
    guard.go_on(3)
    guard.restore(backup)
    guard.go_on(45, every=120)
    assert guard.up() == ["cg-d1-1"]
    assert guard.job("d1").state is JobState.RUNNING


def test_a_vm_whose_disk_holds_the_only_copy_goes_on(guard: Restorable) -> None:
    """It was stopped and started again since the backup; it is neither stopped, nor started twice, nor replaced."""
    guard.submit("j1", checkpoint=CheckpointPlan("/var/checkpoints", "--from {location}"))
    guard.go_on(3)
    guard.works("cg-j1-1")
    backup = guard.copy()
    guard.preempt("cg-j1-1")
    guard.go_on(6)
    assert guard.up() == ["cg-j1-1"]
    guard.restore(backup)
    guard.speaking["cg-j1-1"] = 10
    for _ in range(30):
        guard.go_on(0.5)
        assert guard.up() == ["cg-j1-1"]


def test_a_restore_loses_no_money(guard: Restorable) -> None:
    """Runs since the backup are in the ledger again, to the second that operations tell, as the meter has them."""
    guard.submit("j1")
    guard.go_on(3)
    guard.works("cg-j1-1")
    backup = guard.copy()
    guard.go_on(20)
    guard.preempt("cg-j1-1")
    guard.go_on(6)
    guard.works("cg-j1-2")
    guard.go_on(10)
    before = _lifetimes(guard.database)
    guard.restore(backup)
    guard.go_on(3)
    after = _lifetimes(guard.database)
    assert {row[:3] for row in before} <= {row[:3] for row in after}
    assert all(not is_estimate for *_, is_estimate in after)
    assert {job for _, _, _, job, _ in after} == {"j1"}


def test_what_google_has_forgotten_ends_as_an_estimate(guard: Restorable) -> None:
    """A backup of three weeks ago: the VM's end is not known to the second, and its lifetime says so."""
    guard.submit("j1", max_preemptions=0)
    guard.go_on(3)
    guard.works("cg-j1-1")
    backup = guard.copy()
    guard.preempt("cg-j1-1")
    guard.go_on(3)
    guard.world.advance(timedelta(days=21))
    guard.restore(backup)
    guard.go_on(3)
    ((*_, job, is_estimate),) = _lifetimes(guard.database)
    assert job == "j1"
    assert is_estimate
    assert guard.world.instances(PROJECT) == []


def _lifetimes(database: Database) -> list[tuple[str, str, str, str, bool]]:
    with database.read() as connection:
        rows = connection.exec_driver_sql(
            "SELECT gce_id, lifetimes.started_at, coalesce(lifetimes.ended_at, 0), lifetimes.job, "
            "lifetimes.end_is_estimate FROM lifetimes JOIN instances ON instances.id = instance_id"
        )
        return [tuple(row) for row in rows]
