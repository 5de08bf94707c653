"""Checkpoints are passed over because an attempt that resumed from one failed at once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.jobs.jobbed import NOW, TERMS, attempt, exited

from costguard.jobs.decide.recovery.failures import resumed_run
from costguard.model.attempt import AgentState, Attempt, AttemptState, Outcome
from costguard_vm.model.checkpoint import Checkpoint, CheckpointLook, CheckpointState, Framework, Listing
from costguard_vm.model.suspects import suspected_by, suspects, trusted

MINUTE = timedelta(minutes=1)
LATER = timedelta(hours=3)


def tried(
    number: int = 2,
    step: int | None = None,
    after: timedelta = MINUTE,
    outcome: Outcome = Outcome.CRASHED,
    resume_from: str = "gs://r/300",
    resume_step: int | None = 300,
) -> Attempt:
    """An attempt that resumed and ended meanwhile after its start, at this step."""
    agent = AgentState(at=NOW, run=1, started_at=NOW - after, step=step, exit=exited(1, moment=NOW))
    return replace(
        attempt(AttemptState.OVER, number, outcome=outcome, intended_at=NOW - after - MINUTE, agent=agent),
        resume_from=resume_from,
        resume_step=resume_step,
    )


def checkpoint(resume_from: str = "gs://r/300", written: timedelta = -LATER) -> Checkpoint:
    return Checkpoint(
        Framework.FILES, "300", resume_from, 300, CheckpointState.COMPLETE, (), NOW + written, size=1, files=1
    )


@pytest.mark.parametrize(
    ("one", "is_at_once"),
    [
        (tried(), True),
        (tried(after=20 * MINUTE), False),
        (tried(step=300, after=20 * MINUTE), True),
        (tried(step=12, after=20 * MINUTE), True),
        (tried(step=301), False),
        (tried(step=12, after=LATER), False),
        (tried(resume_step=None, step=7), True),
        (tried(outcome=Outcome.PREEMPTED), False),
        (tried(outcome=Outcome.NOT_STARTED), False),
        (tried(resume_from="", resume_step=None), False),
    ],
    ids=[
        "a crash soon after the start",
        "a late one without steps",
        "no step past the resumed one, though loading took a while",
        "a step below it",
        "a step past it",
        "hours of work, whose steps are counted in another way",
        "a checkpoint without a step",
        "a preemption",
        "a command that never started",
        "a start from the beginning",
    ],
)
def test_what_failing_at_once_is(one: Attempt, is_at_once: bool) -> None:
    """A crash before the first step past the one resumed from, or soon after the start where no step is reported."""
    assert resumed_run(one).failed_at_once(TERMS.quick_crash) is is_at_once


def test_a_checkpoint_that_served_later_is_trusted_again() -> None:
    """It was tried once more and came further: something else had failed."""

    def failed(*attempts: Attempt) -> list[int]:
        return [one.number for one in suspects(map(resumed_run, attempts), TERMS.quick_crash)]

    assert failed(tried(2), tried(3, step=305)) == []
    assert failed(tried(2), tried(3, resume_from="gs://r/200")) == [2, 3]


def test_a_checkpoint_written_again_is_another_one() -> None:
    """The same path, as of `last.ckpt`, is suspected only as it was when the attempt began."""
    failed = [resumed_run(tried())]
    assert suspected_by(checkpoint(), failed) is not None
    assert suspected_by(checkpoint(written=timedelta()), failed) is None
    assert suspected_by(checkpoint("gs://r/200"), failed) is None


def test_the_reasons_name_attempt_and_checkpoint() -> None:
    """A reader sees which attempt failed, from what, and what is done now."""
    both = (checkpoint(), checkpoint("gs://r/200"))

    def why(attempt: Attempt, *complete: Checkpoint) -> str:
        look = CheckpointLook("gs://r", Listing("gs://r", {}), complete, complete[0], ())
        return trusted(lambda _: look, [resumed_run(attempt)])[2]

    assert why(tried(), *both) == (
        "attempt 2 failed at once after it resumed from step 300, gs://r/300: "
        "the complete checkpoint before it is tried"
    )
    again = why(tried(resume_step=None), checkpoint())
    assert again.endswith("gs://r/300, and no other is complete: it is tried once more")
