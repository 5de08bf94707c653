"""Checkpoints on a VM's own disk: whatever ends a run, the disk stays as long as it holds the only copy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from tests.jobs.world import World, world

from costguard.jobs.act.attempts.vm_request import DISK_LABEL
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.instance import Status
from costguard.model.job import CheckpointPlan, JobState

ON_DISK = CheckpointPlan("/ckpt", "--from {checkpoint}")
ROBOT = "robot@acme.iam.gserviceaccount.com"


def _running(w: World, **given: Any) -> None:
    w.submit(checkpoint=ON_DISK, **given)
    w.until_up("cg-j1-1")
    w.start()
    w.look()
    w.step(60)
    assert w.job().state is JobState.RUNNING


def _saved(step: int, **more: object) -> dict[str, object]:
    """Returns the agent's report of its disk."""
    return {"resume_from": f"/ckpt/step-{step}", "step": step, "written_at": None, "files": 4, "torn": [], **more}


def _crash(w: World, run: int = 1, step: int = 40, code: int = 3) -> None:
    w.say("cg-j1-1", ("exit", {"run": run, "reason": "exited", "code": code, "checkpoint": _saved(step)}))


def _until(w: World, holds: Callable[[], bool], minutes: float = 30) -> None:
    for _ in range(round(minutes * 6)):
        if holds():
            return
        w.step(10, passing=True)
    raise AssertionError((w.job(), w.attempts()))


def _starts_again(w: World, run: int) -> None:
    _until(w, lambda: w.attempts()[0].restarts >= run - 1 and w.is_up("cg-j1-1"))
    w.say("cg-j1-1", ("boot", {"run": run}), ("start", {"run": run, "checkpoint": _saved(40)}))
    w.step()


def test_a_failed_command_is_run_again_on_the_same_vm(sqlite_url: str) -> None:
    """Exit code 3: the VM is stopped and started again, and neither it nor its disk was ever deleted."""
    with world(sqlite_url) as w:
        _running(w)
        _crash(w)
        _starts_again(w, 2)
        assert w.job().state is JobState.RUNNING
        assert len(w.cloud.all) == 1
        assert w.cloud.calls["delete"] == 0
        (attempt,) = w.attempts()
        assert (attempt.resume_from, attempt.resume_step) == ("/ckpt/step-40", 40)


def test_a_vm_waits_for_its_next_try_without_billing_for_its_gpu(sqlite_url: str) -> None:
    """A failed command is not tried again at once; its VM is stopped for as long."""
    with world(sqlite_url) as w:
        _running(w)
        _crash(w)
        _until(w, lambda: w.vm().status is Status.STOPPED, 2)
        assert w.attempts()[0].state is AttemptState.RESTING


@pytest.mark.parametrize("quick", [True, False])
def test_a_job_that_failed_for_good_keeps_its_disk(sqlite_url: str, quick: bool) -> None:
    """Crashes over all runs of the one VM count as those of several would; then the VM stays, stopped."""
    with world(sqlite_url) as w:
        _running(w, max_crashes=3)
        for run in range(1, 4 if quick else 5):
            if run > 1:
                _starts_again(w, run)
            if not quick:
                for _ in range(12):
                    w.clock.advance(timedelta(minutes=1))
                    w.beat(run=run)
                    w.step(1)
            _crash(w, run)
            w.step()
        _until(w, lambda: w.attempts()[0].state is AttemptState.KEPT)
        w.settle(30)
        assert w.job().state is JobState.FAILED
        assert ("crash loop" in w.job().reason) is quick
        assert [vm.status for vm in w.cloud.there()] == [Status.STOPPED]
        assert w.cloud.calls["delete"] == 0
        (reported,) = w.events("DiskKept")
        assert "up to the checkpoint of step 40 in /ckpt/step-40" in reported.text
        assert "about $10.00 a month" in reported.text
        assert "costguard delete-disk j1" in reported.text


def test_a_kept_disk_goes_once_its_owner_agreed(sqlite_url: str) -> None:
    """The disk does not go a turn before."""
    with world(sqlite_url) as w:
        _running(w, max_crashes=0)
        _crash(w)
        _until(w, lambda: w.attempts()[0].state is AttemptState.KEPT)
        w.agree()
        w.settle(5)
        assert w.cloud.there() == []
        assert w.attempts()[0].state is AttemptState.OVER


def test_a_success_deletes_the_vm(sqlite_url: str) -> None:
    """The result is where the command put it; nobody is asked about the disk."""
    with world(sqlite_url) as w:
        _running(w)
        _crash(w, code=0)
        w.settle(5)
        assert (w.job().state, w.cloud.there()) == (JobState.SUCCEEDED, [])


def test_a_disk_on_which_nothing_was_saved_is_not_kept(sqlite_url: str) -> None:
    """The agent reports that there is not one file in the folder."""
    with world(sqlite_url) as w:
        _running(w, max_crashes=0)
        seen = {"resume_from": "", "files": 0, "torn": [], "error": ""}
        w.say("cg-j1-1", ("exit", {"run": 1, "reason": "exited", "code": 3, "checkpoint": seen}))
        w.settle(5)
        assert (w.job().state, w.cloud.there()) == (JobState.FAILED, [])


def test_a_disk_that_could_not_be_read_is_kept(sqlite_url: str) -> None:
    """Unknown is not empty."""
    with world(sqlite_url) as w:
        _running(w, max_crashes=0)
        seen: dict[str, object] = {"resume_from": "", "files": None, "torn": [], "error": "Input/output error"}
        w.say("cg-j1-1", ("exit", {"run": 1, "reason": "exited", "code": 3, "checkpoint": seen}))
        _until(w, lambda: w.attempts()[0].state is AttemptState.KEPT)
        assert "which has not been listed" in w.events("DiskKept")[0].text


def test_a_cancelled_job_keeps_its_disk(sqlite_url: str) -> None:
    """The disk is kept unless anyone who cancels it says that the disk may go."""
    with world(sqlite_url) as w:
        _running(w)
        w.cancel()
        w.step()
        assert w.beat()
        w.exit(stop_request="cancel")
        _until(w, lambda: w.attempts()[0].state is AttemptState.KEPT)
        assert w.job().state is JobState.CANCELLED
        w.settle(30)
        assert [vm.status for vm in w.cloud.there()] == [Status.STOPPED]


def test_a_cancelled_job_whose_disk_was_given_up_leaves_nothing(sqlite_url: str) -> None:
    """The VM is deleted like any other after the agreement."""
    with world(sqlite_url) as w:
        _running(w)
        w.agree()
        w.cancel()
        w.step()
        w.exit(stop_request="cancel")
        w.settle(5)
        assert w.cloud.there() == []


def test_a_silent_agent_costs_no_checkpoint(sqlite_url: str) -> None:
    """The VM is stopped and started again; three times in a row in vain, and the job fails with its disk kept."""
    with world(sqlite_url) as w:
        _running(w)
        _until(w, lambda: w.attempts()[0].state is AttemptState.RESTING, 60)
        _until(w, lambda: w.job().state.is_over, 240)
        _until(w, lambda: w.attempts()[0].state is AttemptState.KEPT)
        assert w.job().state is JobState.FAILED
        assert "3 times in a row its VM ended before it saved anything new" in w.job().reason
        assert w.cloud.calls["delete"] == 0


def test_a_vm_that_somebody_deleted_is_lost_and_said_to_be(sqlite_url: str) -> None:
    """The disk went with the VM: the next one starts from the beginning, and all that was worked counts as lost."""
    with world(sqlite_url) as w:
        _running(w)
        w.say("cg-j1-1", ("heartbeat", {"run": 1, "is_running": True, "step": 40, "checkpoint": _saved(40)}))
        w.clock.advance(timedelta(hours=2))
        w.beat()
        w.cloud.remove(w.vm(), ROBOT)
        _until(w, lambda: len(w.attempts()) == 2)
        (first, second) = w.attempts()
        assert (first.outcome, second.resume_from) == (Outcome.LOST, "")
        (reported,) = w.events("JobRestartedFromZero")
        assert "2 h" in reported.text


def test_work_lost_is_counted_over_all_runs_of_the_one_vm(sqlite_url: str) -> None:
    """Two runs of an hour each on a disk that is then deleted: two hours are lost, not the last one alone."""
    with world(sqlite_url) as w:
        _running(w)
        for run in (1, 2):
            if run == 2:
                _starts_again(w, 2)
            for _ in range(60):
                w.clock.advance(timedelta(minutes=1))
                w.beat(run=run)
            w.step(1, passing=True)
            if run == 1:
                _crash(w)
        w.cloud.remove(w.vm(), ROBOT)
        _until(w, lambda: len(w.attempts()) == 2)
        lost = sum((one.lost for one in w.interruptions()), timedelta())
        assert timedelta(hours=2) <= lost < timedelta(hours=2, minutes=15)
        assert w.interruptions()[-1].from_zero


def test_a_run_that_passed_over_a_checkpoint_says_why(sqlite_url: str) -> None:
    """The agent judged it on the VM; the attempt keeps its words, and forgets them with the next run."""
    why = (
        "run 2 failed at once after it resumed from step 40, /ckpt/step-40: the complete checkpoint before it is tried"
    )
    with world(sqlite_url) as w:
        _running(w)
        _crash(w)
        _starts_again(w, 2)
        assert w.attempts()[0].resume_why == ""
        _crash(w, 2)
        _until(w, lambda: w.attempts()[0].restarts >= 2 and w.is_up("cg-j1-1"))
        w.say("cg-j1-1", ("boot", {"run": 3}), ("start", {"run": 3, "checkpoint": _saved(30, why=why)}))
        w.step()
        (attempt,) = w.attempts()
        assert (attempt.resume_from, attempt.resume_why) == ("/ckpt/step-30", why)


def test_a_run_from_an_older_checkpoint_counts_what_lies_between(sqlite_url: str) -> None:
    """The agent says what it resumed from and when that was written."""
    with world(sqlite_url) as w:
        _running(w)
        saved_at = w.clock.now()
        for _ in range(30):
            w.clock.advance(timedelta(minutes=1))
            w.beat()
        _crash(w)
        _until(w, lambda: w.attempts()[0].restarts == 1 and w.is_up("cg-j1-1"))
        outcome_found = _saved(40, written_at=saved_at.isoformat())
        w.say("cg-j1-1", ("boot", {"run": 2}), ("start", {"run": 2, "checkpoint": outcome_found}))
        (one,) = w.interruptions()
        assert one.lost is not None
        assert timedelta(minutes=30) <= one.lost < timedelta(minutes=31)
        assert not one.from_zero


def test_orphans_that_may_hold_an_only_copy_are_stopped(sqlite_url: str) -> None:
    """The ledger gave its attempt up, and nobody agreed that its disk goes."""
    with world(sqlite_url) as w:
        _running(w)
        assert DISK_LABEL in w.vm().labels
        with w.database.write() as connection:
            over = "state = 'over', outcome = 'lost', gone_at = intended_at"
            connection.execute(text(f"UPDATE attempts SET {over}"))
            connection.execute(text("UPDATE jobs SET state = 'failed'"))
        w.look()
        w.settle(60)
        assert [vm.status for vm in w.cloud.there()] == [Status.STOPPED]
        assert w.cloud.calls["delete"] == 0
        assert len(w.events("OrphanKept")) == 1
        assert w.events("OrphanDeleted") == []


def test_a_vm_that_no_row_speaks_of_is_left_running(sqlite_url: str) -> None:
    """The database may be older than the VM: nothing proves that anybody gave it up."""
    with world(sqlite_url) as w:
        _running(w)
        with w.database.write() as connection:
            for table in ("interruptions", "attempts", "seen_checkpoints", "jobs"):
                connection.execute(text(f"DELETE FROM {table}"))
        w.look()
        w.settle(60)
        assert [vm.status for vm in w.cloud.there()] == [Status.RUNNING]
        assert len(w.events("UnknownVmFound")) == 1


def test_a_vm_that_was_thought_to_be_gone_is_no_orphan_to_delete(sqlite_url: str) -> None:
    """A proxy's 404 closed the attempt of a failed job; its VM, found later, is kept."""
    with world(sqlite_url) as w:
        _running(w, max_crashes=0)
        _crash(w)
        _until(w, lambda: w.attempts()[0].state is AttemptState.KEPT)
        with w.database.write() as connection:
            connection.execute(text("UPDATE attempts SET state = 'over', gone_at = ended_at"))
        w.settle(60)
        assert [vm.status for vm in w.cloud.there()] == [Status.STOPPED]
        assert w.cloud.calls["delete"] == 0


def test_a_person_who_stops_the_vm_cancels_the_job_and_keeps_the_disk(sqlite_url: str) -> None:
    """They wanted it stopped, not emptied."""
    with world(sqlite_url) as w:
        _running(w)
        w.cloud.stop_by_hand(w.vm(), "ana@example.com")
        _until(w, lambda: w.attempts()[0].state is AttemptState.KEPT)
        assert w.job().state is JobState.CANCELLED


def test_a_vm_that_is_started_for_its_files_trains_nothing(sqlite_url: str) -> None:
    """The guard answers its agent that the job is over, and how it ended stays written down."""
    with world(sqlite_url) as w:
        _running(w, max_crashes=0)
        _crash(w)
        _until(w, lambda: w.attempts()[0].state is AttemptState.KEPT)
        before = w.attempts()[0].agent
        assert w.say("cg-j1-1", ("boot", {"run": 2}), ("exit", {"run": 2, "reason": "not_started", "asked": "cancel"}))
        after = w.attempts()[0].agent
        assert (after.run, after.exit, after.step) == (before.run, before.exit, before.step)
