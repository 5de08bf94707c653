"""Jobs with deadlines on the real turns, ledger and agents' events, against adversaries: none is late."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.jobs.deadline_world import ADVERSARIES, MINUTE, Run, is_on_time
from tests.jobs.world import ZONES, world

from costguard.jobs.rows import plan_rows
from costguard.model.job import JobState


@pytest.mark.parametrize(("name", "prints"), [("at the moment of use", False), ("coming and going", True)])
def test_no_adversary_makes_a_job_late(sqlite_url: str, name: str, prints: bool) -> None:
    """Starts of up to 18 minutes, and a preemption that only Google's list tells. One prints its steps."""
    with world(sqlite_url) as w:
        run = Run(
            w,
            50 * MINUTE,
            145 * MINUTE,
            lambda lot: timedelta(minutes=lot.uniform(6, 18)),
            ADVERSARIES[name],
            tells=False,
            prints=prints,
        )
        job = run.to_the_end()
        assert is_on_time(run, job), job.reason
        assert run.spot_hours > 0  # it was tried
        with w.database.read() as connection:
            stored = plan_rows.of_jobs(connection, [job.id])[job.id]
        assert len(stored.decisions) >= 2
        assert stored.plan is not None
        assert stored.plan.work_left is not None
        assert ("pace of its output" in stored.plan.work_left.source) is prints
        assert {choice.policy for choice in stored.shadow} == {"greedy", "uniform_progress", "on_demand", "planner"}
        assert stored.curve[0].work_left == 50 * MINUTE
        assert stored.curve[-1].work_left < 20 * MINUTE


def test_job_that_may_use_spot_alone_gets_its_vm_at_once(sqlite_url: str) -> None:
    """A job with two hours to spare and room in every zone gets a VM at once; its words promise no on-demand VM."""
    with world(sqlite_url) as w:
        run = Run(w, 60 * MINUTE, 180 * MINUTE, falls_back=False)
        job = run.to_the_end()
        assert is_on_time(run, job), job.reason
        (attempt,) = w.attempts()
        assert attempt.intended_at - job.created_at <= MINUTE
        assert run.idle <= MINUTE
        with w.database.read() as connection:
            stored = plan_rows.of_jobs(connection, [job.id])[job.id]
        assert stored.plan is not None
        assert stored.plan.latest_safe_at is None
        assert {step.act for step in stored.decisions} == {"start_spot", "stay"}
        for step in stored.decisions:
            assert "it may use no on-demand VM, so it depends on Spot" in step.reason
            assert "not needed before" not in step.reason


def test_job_that_may_use_spot_alone_idles_no_longer_than_zones_are_out(sqlite_url: str) -> None:
    """Zones come and go: after each loss it is asked for again wherever there may be room."""
    with world(sqlite_url) as w:
        run = Run(w, 100 * MINUTE, 400 * MINUTE, adversary=ADVERSARIES["coming and going"], falls_back=False, seed=2)
        job = run.to_the_end()
        assert is_on_time(run, job), job.reason
        assert len(w.attempts()) > 1
        assert run.idle <= 20 * MINUTE  # a zone that was out is tried again after a while


def test_an_owner_hears_at_once_that_a_promise_is_broken(sqlite_url: str) -> None:
    """On-demand is out of stock everywhere when it is needed: one event names that, and the job goes on, late."""
    with world(sqlite_url) as w:
        run = Run(w, 20 * MINUTE, 44 * MINUTE)
        w.cloud.stockouts |= set(ZONES)
        run.to_the_end(12 * MINUTE)
        (event,) = w.events("JobDeadlineAtRisk")
        assert event.occurred_at <= run.ends_at - 30 * MINUTE
        assert "No on-demand VM is to be had in any of its zones" in event.text
        w.cloud.stockouts.clear()
        assert run.to_the_end().state is JobState.SUCCEEDED
