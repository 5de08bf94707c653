"""A job from its submission to its end, through the guard's turns."""

from __future__ import annotations

from tests.engine.jobs.cloud import never_twice
from tests.engine.jobs.world import world

from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import JobState


def test_a_job_runs_and_succeeds(sqlite_url: str) -> None:
    """One attempt, one VM, made where it costs least, and deleted when the command is done."""
    with world(sqlite_url) as w:
        w.submit()
        w.until_up("cg-j1-1")
        w.start()
        w.step()
        assert w.job().state is JobState.RUNNING, w.job().reason
        w.exit()
        w.settle()
        (attempt,) = w.attempts()
        assert (attempt.state, attempt.outcome) == (AttemptState.OVER, Outcome.SUCCEEDED)
        assert w.job().state is JobState.SUCCEEDED
        assert w.cloud.there() == []
        never_twice(w.cloud)
