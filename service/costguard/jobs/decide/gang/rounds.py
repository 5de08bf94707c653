"""Rounds of a gang: when one is over, whose fault that was, and when all members may begin the next.

In a round all VMs run the command together, from one checkpoint. Where one of them is lost or fails, launchers end the
others too; the VMs stay, and stand by for the next round.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from costguard.jobs.decide.actions import EndAttempt, LetRoundBegin, NextRound, Proposal
from costguard.jobs.decide.gang.members import Gang
from costguard.jobs.decide.gang.past_rounds import round_of
from costguard.jobs.decide.gang.widths import may_begin, pays_to_grow, stands_by_until
from costguard.jobs.decide.recovery.ending import how
from costguard.jobs.decide.recovery.log_ends import said_by
from costguard.jobs.decide.recovery.verdict import too_many, would_repeat
from costguard.jobs.decide.view import AttemptView, JobContext, may_any_write, present_run
from costguard.model.attempt import AttemptState, EndedRound, Interruption, Notice, Outcome, Retry
from costguard.model.duration import span_text
from costguard.model.job import JobState
from costguard.model.words import count_text

_WORD_COMES = timedelta(seconds=60)  # until Google or an agent says that a VM was lost, for which others fail as well
_ALIVE = timedelta(seconds=5)  # an agent that is heard that much after others failed was not what they lost
_AT_WORK = frozenset({AttemptState.BOOTING, AttemptState.RUNNING})
REGROUP = "regroup"  # why a command was stopped whose round was over


@dataclass(frozen=True, slots=True)
class _Fallen:
    """A member whose part of the round ended without success."""

    seen: AttemptView
    ended: EndedRound


def round_over(gang: Gang, context: JobContext) -> Proposal | datetime | None:
    """Returns what follows where the round that was begun is over, or when that is looked at again.

    None: it goes on, or has not begun. What follows is the next round, or the job's failure.
    """
    if not gang.has_begun:
        return None
    if not gang.is_whole:
        return _next(gang, "one of its VMs is replaced", context)
    fallen = _fallen(gang)
    if not fallen:
        return None
    running = [seen for seen in gang.in_round if seen.attempt.is_open]
    if any(seen.attempt.agent.noticed_at is not None for seen in running):
        return _next(gang, "one of its VMs is being preempted", context)
    first = min(one.ended.exit.at for one in fallen)
    silent = [seen for seen in running if seen.attempt.agent.at is None or seen.attempt.agent.at < first + _ALIVE]
    if silent:  # perhaps it is lost, and the others fell for that
        return context.now + (_ALIVE if context.now < first + _WORD_COMES else _WORD_COMES)
    own = [one for one in fallen if not one.ended.lost_peer and one.ended.exit.asked != REGROUP]
    is_settled = len(fallen) == len(running) and bool(own)
    if not is_settled and context.now < first + _WORD_COMES:
        return first + _WORD_COMES
    return _failed(gang, min(own or fallen, key=lambda one: (one.ended.exit.at, one.seen.attempt.node)), context)


def begin(gang: Gang, context: JobContext) -> LetRoundBegin | datetime | None:
    """Lets all members begin, once all that are waited for stand by and nothing of the job can write into its
    checkpoints.

    A moment: then the last VM that may still write is powered off, or VMs that are late are waited for no more. None:
    not yet.
    """
    if gang.has_begun or (gang.missing and not gang.suffices):
        return None
    ready = [seen for seen in gang.open if _is_ready(gang, seen)]
    may = may_begin(gang, ready, context.now)
    if may is not True:
        return may or None
    ended = [seen for seen in gang.view.attempts if not seen.attempt.is_open]
    if writes := may_any_write(ended, gang.view.interruptions, context):
        return writes if isinstance(writes, datetime) else None
    ids = tuple(seen.attempt.id for seen in ready)
    return LetRoundBegin(gang.view.job.id, gang.round, ids, f"{count_text(len(ids), 'VM')} of it are ready")


def grow(gang: Gang, context: JobContext) -> Proposal | None:
    """Ends the round of a gang whose further VMs are ready, where that is worth what the others do again."""
    waiting = _waiting(gang)
    if not gang.is_whole or any(not seen.attempt.is_open for seen in gang.in_round):
        return None
    if not waiting or not pays_to_grow(gang, len(waiting), context.now):
        return None
    have = len(gang.in_round)
    return _next(
        gang,
        f"{count_text(len(waiting), 'more VM')} of it {'is' if len(waiting) == 1 else 'are'} ready, "
        f"and {have + len(waiting)} finish sooner than {have}",
        context,
    )


def spare(gang: Gang, context: JobContext) -> tuple[EndAttempt, ...] | datetime | None:
    """Gives VMs back that stood by for the next round in vain; a moment: then the first of them is. None: none stands
    by.
    """
    waiting = _waiting(gang)
    until = {seen.attempt.id: stands_by_until(gang, seen, len(waiting), context.now) for seen in waiting}
    late = [seen for seen in waiting if until[seen.attempt.id] <= context.now]
    if not late:
        return min(until.values(), default=None)
    left = gang.view.rest
    why = (
        "no checkpoint of the round was seen, after which it could have joined"
        if left is not None
        else "how much work is left is not known (--work, or steps in the output, would tell), so no round ends for it"
    )
    return tuple(
        EndAttempt(
            seen.attempt.id,
            Outcome.CANCELLED,
            f"its VM stood by for {span_text(context.now - (seen.attempt.ready_at or context.now))} and is given back: "
            f"{why}; node {seen.attempt.node} is asked for again when the next round begins",
        )
        for seen in late
    )


def _waiting(gang: Gang) -> list[AttemptView]:
    """Lists the members that are ready, while a round without them goes on."""
    if not gang.has_begun:
        return []
    return [seen for seen in gang.open if seen.attempt.round < gang.round and _is_ready(gang, seen)]


def ready_count(gang: Gang) -> int:
    """Counts the members that stand by for the round."""
    return sum(_is_ready(gang, seen) for seen in gang.open)


def _is_ready(gang: Gang, seen: AttemptView) -> bool:
    attempt, agent = seen.attempt, seen.attempt.agent
    is_there = attempt.state in _AT_WORK and attempt.stop_asked_at is None and agent.exit is None
    return is_there and agent.ready_round == gang.round and agent.internal_address != ""


def _fallen(gang: Gang) -> list[_Fallen]:
    return [
        _Fallen(seen, seen.attempt.agent.ended_round)
        for seen in gang.in_round
        if seen.attempt.is_open
        and seen.attempt.agent.ended_round is not None
        and seen.attempt.agent.ended_round.number == gang.round
    ]


def _next(gang: Gang, why: str, context: JobContext, interruption: Interruption | None = None) -> Proposal:
    view = gang.view
    reason = f"round {gang.round} is over, because {why}: its VMs stay, and begin again from one checkpoint"
    interrupted = (*view.interruptions, *([interruption] if interruption is not None else []))
    over = round_of(gang.round, [seen.attempt for seen in view.attempts], interrupted, why)
    if over is not None:
        over = replace(over, ended_at=over.ended_at or context.now)
    return Proposal(JobState.RECOVERING, reason, (NextRound(view.job.id, gang.round + 1, reason, interruption, over),))


def _failed(gang: Gang, first: _Fallen, context: JobContext) -> Proposal:
    """The round failed with all VMs alive: it counts once, as the failure of the member that failed first."""
    attempt, end = first.seen.attempt, first.ended.exit
    node = f"node {attempt.node}"
    lost_peers = first.ended.lost_peer or (bool(first.ended.unreached) and not end.repeats)
    outcome = Outcome.CRASHED
    if end.reason == "not_started":
        outcome, reason = Outcome.NOT_STARTED, f"the command could not be started on {node}: {end.error}"
    elif lost_peers:
        outcome, reason = Outcome.LOST, f"its VMs lost each other, {node} first, and all of them are still there"
    else:
        reason = f"the command failed on {node} with {how(end)}{said_by(attempt.agent.output)}"
    run = present_run(first.seen, gang.view.interruptions).number
    interruption = Interruption(
        attempt.id, gang.view.job.id, run, outcome, end.at, end.at, Notice.EXIT, started_at=attempt.agent.started_at
    )
    agent = replace(attempt.agent, exit=end)
    ended = replace(attempt, outcome=outcome, reason=reason, ended_at=context.now, agent=agent)
    after = gang.with_last(replace(first.seen, attempt=ended))
    end_it = EndAttempt(attempt.id, outcome, reason, interruption)
    if would_repeat(after, ended, context.terms):
        return Proposal(JobState.FAILED, f"{reason}; another try would fail in the same way", (end_it,))
    if (why := too_many(after, context.terms)) != "":
        return Proposal(JobState.FAILED, why, (end_it,))
    if end.retry is Retry.OTHER_VM:
        return Proposal(JobState.RECOVERING, f"{reason}; its VM is replaced", (end_it,))
    return _next(gang, reason, context, interruption)
