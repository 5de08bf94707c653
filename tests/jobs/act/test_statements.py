"""A turn over jobs of which nothing is new asks the database as often for many of them as for few."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.jobs.world import World, world
from tests.sent_statements import counted

from costguard.jobs.decide.limits.holds import BudgetHold
from costguard.jobs.reports.checkpoints.checkpoint_watch import CheckpointWatch
from costguard.model.job import CheckpointPlan, JobState

_KINDS = ("run", "due", "wait", "lost")  # runs; runs with a deadline; waits for its first VM, and for its next one
_FEW, _MANY = 2, 13  # of each kind
_HELD = BudgetHold(hold="the budget of the team is spent")


def test_statements_of_a_turn_do_not_grow_with_unchanged_jobs(database_url: str) -> None:
    """Each turn and each look at checkpoints sends as many for 52 jobs as for 8, also where it writes rows of all of
    them; a statement that is sent once with many rows counts once.
    """
    with world(database_url) as w:
        few = _counts(w, range(_FEW))
        many = _counts(w, range(_FEW, _MANY))
    assert many == few


def _counts(w: World, new: range) -> dict[str, int]:
    """Adds jobs of each kind with these numbers, and counts statements once nothing is new any more."""
    _fill(w, new)
    jobs = len(_KINDS) * new.stop
    watch = CheckpointWatch(w.database, w.clock, w.shelf, w.terms)
    counts: dict[str, int] = {}
    w.step(61)
    with counted(w.database) as sent:
        report = w.step(5)
    assert (report.open, report.decided, report.calls) == (jobs, 0, 0)
    counts["no job is due"] = len(sent)
    # Plans are written again after five minutes, and compared with other policies after fifteen.
    for number in range(16):
        with counted(w.database) as sent:
            report = w.step(61)
        assert (report.decided, report.calls) == (jobs, 0)
        counts[f"every job is decided on, {number}"] = len(sent)
    watch.run()
    for kind in _KINDS:
        for number in range(new.stop):
            w.shelf.save(2 + new.stop, f"gs://runs/{kind}{number}")
    w.clock.advance(timedelta(minutes=20))
    with counted(w.database) as sent:
        assert watch.run().looked == jobs // 2
    counts["every location has another checkpoint"] = len(sent)
    return counts


def _fill(w: World, new: range) -> None:
    for kind in _KINDS:
        for number in new:
            job_id = f"{kind}{number}"
            given: dict[str, Any] = {}
            if kind == "due":
                given = {"deadline": w.clock.now() + timedelta(days=9), "work": timedelta(hours=20)}
            elif kind == "wait":
                w.held[job_id] = _HELD
            w.submit(job_id, name=job_id, checkpoint=CheckpointPlan(f"gs://runs/{job_id}", ""), **given)
            w.shelf.save(1, f"gs://runs/{job_id}")
    w.settle(2)
    for vm in w.cloud.running():
        w.start(vm.name)
    w.settle(2)
    w.held |= {f"lost{number}": _HELD for number in new}
    w.cloud.preempt(*(vm for vm in w.cloud.running() if "lost" in vm.name))
    w.settle(4)
    states = [w.job(f"{kind}{new.start}").state for kind in _KINDS]
    assert states == [JobState.RUNNING, JobState.RUNNING, JobState.QUEUED, JobState.RECOVERING]
