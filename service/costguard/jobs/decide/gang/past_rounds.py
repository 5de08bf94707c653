"""Sums up what the VMs of a gang did together in a round, by what their agents reported."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from costguard.jobs.decide.recovery.failures import resumed_round, resumed_run
from costguard.jobs.decide.view import of_attempt, rate_of
from costguard.model.attempt import Attempt, GangRound, Interruption, MemberRun, Outcome, run_in_round, span_of_round
from costguard.model.job import Job
from costguard_vm.model.suspects import ResumedRun


def round_of(
    number: int, attempts: Sequence[Attempt], interruptions: Sequence[Interruption], reason: str = ""
) -> GangRound | None:
    """Returns this round of a gang, before its agents begin the next; None: no VM was let begin it.

    `reason` is why it ended, where no VM of it was lost.
    """
    members = [one for one in attempts if one.round == number]
    if not members:
        return None
    step = next((one.agent.step for one in members if one.node == 0 and one.agent.started_at is not None), None)
    runs = [_run_of(one, interruptions) for one in members]
    started_at, ended_at = span_of_round(runs, has_steps=step is not None)
    outcome, of_vm = _end_of(members, runs, interruptions, ended_at)
    released = [one.released_at for one in members if one.released_at is not None]
    return GangRound(
        number,
        started_at,
        ended_at,
        max(released, default=None),
        outcome,
        of_vm or reason,
        members[0].resume_from,
        members[0].resume_step,
        step,
        rate_of(members),
        len(members),
    )


def with_present(
    rounds: Sequence[GangRound], attempts: Sequence[Attempt], interruptions: Sequence[Interruption]
) -> list[GangRound]:
    """Returns the rounds that are over, with the one that goes on or was the last, the oldest first."""
    number = max((one.round for one in attempts), default=0)
    if number == 0 or number in {one.number for one in rounds}:
        return list(rounds)
    present = round_of(number, attempts, interruptions)
    return [*rounds, present] if present is not None else list(rounds)


def resumed_runs(
    job: Job, attempts: Sequence[Attempt], over: Sequence[GangRound], interruptions: Sequence[Interruption]
) -> list[ResumedRun]:
    """Returns the runs that may speak against their checkpoints: of a gang its rounds, since all VMs resume from one.

    `over` are the rounds that are over. The one that goes on counts too: a checkpoint that it has passed is cleared.
    """
    if not job.is_gang:
        return [resumed_run(one) for one in attempts]
    rounds = with_present(over, attempts, interruptions)
    return [resumed_round(one, one.released_at) for one in rounds if one.released_at is not None]


def _run_of(attempt: Attempt, interruptions: Sequence[Interruption]) -> MemberRun:
    agent, fallen = attempt.agent, attempt.agent.ended_round
    return run_in_round(
        MemberRun(agent.started_at, attempt.ended_at, attempt.outcome is Outcome.SUCCEEDED),
        attempt.round,
        agent.run,
        of_attempt(attempt, interruptions),
        None if agent.exit is None else agent.exit.at,
        None if fallen is None else (fallen.number, fallen.exit.at),
    )


def _end_of(
    members: Sequence[Attempt],
    runs: Sequence[MemberRun],
    interruptions: Sequence[Interruption],
    ended_at: datetime | None,
) -> tuple[Outcome | None, str]:
    """Returns how and why the VM ended that ended the round; None where the round goes on, or nobody knows which."""
    if ended_at is None:
        return None, ""
    if all(run.is_success for run in runs):
        return Outcome.SUCCEEDED, ""
    ends: list[tuple[datetime, int, Outcome, str]] = []
    for one in members:
        own = [cut for cut in of_attempt(one, interruptions) if cut.run == one.agent.run]
        ends += [(cut.happened_at, one.node, cut.outcome, one.reason) for cut in own]
        if not own and one.outcome not in (None, Outcome.SUCCEEDED) and one.outcome and one.ended_at is not None:
            ends.append((one.ended_at, one.node, one.outcome, one.reason))
    return min(ends)[2:] if ends else (None, "")
