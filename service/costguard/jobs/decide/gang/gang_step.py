"""Decides what comes next for a gang: see the package."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from costguard.jobs.decide.actions import (
    EndAttempt,
    LaunchAttempt,
    LetRoundBegin,
    Proposal,
    TellCommandToStop,
)
from costguard.jobs.decide.attempts.live_attempt import live_run
from costguard.jobs.decide.buy.choice import Chosen, Hopeless, choose
from costguard.jobs.decide.buy.placement import LaunchPlace
from costguard.jobs.decide.gang.close_together import with_policy
from costguard.jobs.decide.gang.members import Gang, count_of, gang_of, is_spare, place_of_gang
from costguard.jobs.decide.gang.rounds import begin, grow, ready_count, round_over, spare
from costguard.jobs.decide.gang.widths import PATIENCE, is_nearly_done
from costguard.jobs.decide.limits.ceiling import is_stopped_by_deadline
from costguard.jobs.decide.recovery.ended_runs import after_failures
from costguard.jobs.decide.recovery.verdict import Verdict, verdict
from costguard.jobs.decide.view import (
    HOLD_AGAIN,
    NO_ROOM,
    UNSETTLED,
    AttemptView,
    JobContext,
    JobView,
    an_hour,
    earliest,
    wait_stably,
    without_vm,
)
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobState
from costguard.model.launch import Placement
from costguard.model.moments import clock_text
from costguard.model.money import Money
from costguard.model.words import count_text, list_text

_HELD = timedelta(minutes=15)  # of VMs that are all ready, for what holds up their job


def gang_step(view: JobView, places: Sequence[LaunchPlace], context: JobContext) -> Proposal:
    """The next step of a job of several VMs that is not over.

    `places`, at the price of all its VMs, are looked at where a node has none.
    """
    return with_policy(view, _step(gang_of(view), places, context), context)


def _step(gang: Gang, places: Sequence[LaunchPlace], context: JobContext) -> Proposal:
    if (final := _verdict(gang, context)) is not None:
        return Proposal(*final)
    if not gang.open:
        return _formed(gang, places, context)
    alone = [live_run(gang.seen_alone(seen), seen, context) for seen in gang.open]
    actions = tuple(action for step in alone for action in step.actions)
    next_at = earliest(*(step.next_at for step in alone))
    ends = [(seen, step) for seen, step in zip(gang.open, alone, strict=True) if _ends(step)]
    if ends:
        _, first = ends[0]
        # A VM that has not joined the round yet changes nothing about it.
        goes_on = gang.is_elastic and gang.has_begun and all(seen.attempt.round < gang.round for seen, _ in ends)
        return Proposal(_state(gang) if goes_on else first.state, first.reason, actions, next_at)
    step = _together(gang, alone, places, context)
    return replace(step, actions=(*actions, *step.actions), next_at=earliest(step.next_at, next_at))


def _ends(step: Proposal) -> bool:
    return any(isinstance(one, EndAttempt | TellCommandToStop) for one in step.actions)


def _verdict(gang: Gang, context: JobContext) -> Verdict | None:
    """The job's final state, by the ends of its members. What was asked to stop is waited for."""
    view = gang.view
    if not view.attempts:
        return verdict(view, context)
    if gang.has_succeeded:
        return verdict(gang.with_last(gang.in_round[0]), context)
    if (view.job.cancel_asked_at is not None or is_stopped_by_deadline(view.job, context.now)) and gang.open:
        return None
    ended = [seen for seen in gang.ended if seen.attempt.outcome is not Outcome.SUCCEEDED]
    if view.job.cancel_asked_at is None:
        ended = [seen for seen in ended if not is_spare(seen.attempt)]
    if gang.suffices:  # Google refuses only what would have been more
        ended = [seen for seen in ended if seen.attempt.outcome is not Outcome.REFUSED or seen.attempt.round]
    finals = (verdict(gang.with_last(seen), context) for seen in sorted(ended, key=_ended_at, reverse=True))
    return next((final for final in finals if final is not None), None)


def _ended_at(seen: AttemptView) -> tuple[bool, datetime, int]:
    attempt = seen.attempt
    return attempt.ended_at is None, attempt.ended_at or attempt.intended_at, attempt.number


def _together(gang: Gang, alone: Sequence[Proposal], places: Sequence[LaunchPlace], context: JobContext) -> Proposal:
    """The step of all members, none of which has to be ended or stopped by itself."""
    stopping = next((step for seen, step in zip(gang.open, alone, strict=True) if seen.attempt.stop_asked_at), None)
    if stopping is not None:
        return Proposal(gang.view.job.state, stopping.reason)
    if why := _why_given_back(gang, context):
        settled = [seen for seen in gang.open if seen.attempt.state not in UNSETTLED]
        ends = tuple(EndAttempt(seen.attempt.id, _given_back(seen), why) for seen in settled)
        return Proposal(without_vm(gang.view), why, ends)
    over = round_over(gang, context)
    wanted = _replaced(gang, places, context) if gang.wanted and not is_nearly_done(gang) else None
    if isinstance(over, Proposal) and (over.state is JobState.FAILED or wanted is None):
        return over
    if wanted is not None and (isinstance(over, Proposal) or not gang.suffices):
        return replace(wanted, actions=(*(over.actions if isinstance(over, Proposal) else ()), *wanted.actions))
    assert not isinstance(over, Proposal), "what ended the round was answered above"
    step = _onward(gang, over, alone, context)
    if wanted is None:
        return step
    return replace(step, actions=(*step.actions, *wanted.actions), next_at=earliest(step.next_at, wanted.next_at))


def _given_back(seen: AttemptView) -> Outcome:
    """A request of flex-start that still waits was not granted where the others could not wait any longer."""
    return Outcome.STOCKOUT if seen.attempt.state is AttemptState.WAITING else Outcome.MOVED


def _onward(gang: Gang, over: datetime | None, alone: Sequence[Proposal], context: JobContext) -> Proposal:
    """The step of enough VMs. `over` is when the end of the present round is looked at again."""
    if over is None and (grown := grow(gang, context)) is not None:
        return grown
    started = begin(gang, context)
    if isinstance(started, LetRoundBegin):
        return _begun(gang, started, context)
    given_back = spare(gang, context) if over is None else None
    ends = given_back if isinstance(given_back, tuple) else ()
    looks_at = [moment for moment in (over, started, given_back) if isinstance(moment, datetime)]
    due = gang.incomplete_since
    again = earliest(*looks_at, due + PATIENCE if due is not None else None)
    if all(seen.attempt.state is AttemptState.WAITING for seen in gang.open):
        return Proposal(without_vm(gang.view), alone[0].reason)
    if isinstance(over, datetime):
        nodes = list_text([f"node {seen.attempt.node}" for seen in gang.open if seen.attempt.agent.ended_round])
        why = f"the command has ended on {nodes}; waiting to know whether a VM was lost"
        return Proposal(_state(gang), why, next_at=again)
    why = "; ".join([_how_it_stands(gang, alone, context), *(one.reason for one in ends)])
    return Proposal(_state(gang), why, ends, next_at=again)


def _begun(gang: Gang, action: LetRoundBegin, context: JobContext) -> Proposal:
    """All stand by. What holds up their job is waited for, though not for long: all VMs of it bill."""
    view = gang.view
    held = view.no_work
    if not held:
        return Proposal(_state(gang), action.reason, (action,))
    members = [seen.attempt for seen in gang.open if seen.attempt.id in action.attempt_ids]
    ready = max(one.ready_at or context.now for one in members)
    if context.now < ready + _HELD:
        return Proposal(_state(gang), f"its VMs are ready, and it waits: {held}", next_at=ready + _HELD)
    why = f"its VMs were ready for {_HELD // timedelta(minutes=1)} minutes and are given back, since it waits: {held}"
    return Proposal(without_vm(view), why, tuple(EndAttempt(one.id, Outcome.MOVED, why) for one in members))


def _why_given_back(gang: Gang, context: JobContext) -> str:
    """Explains why the VMs that are there are given back, and all are requested elsewhere together; "" where not."""
    ended = gang.ended
    leaving = next((seen.attempt.reason for seen in ended if seen.attempt.outcome is Outcome.MOVED), "")
    if leaving:
        return leaving
    place, vms = place_of_gang(gang.open), count_of(gang.view)
    short = [seen.attempt for seen in ended if seen.attempt.outcome in NO_ROOM]
    if short and not gang.was_formed and not gang.suffices:
        there = sum(seen.attempt.made_at is not None for seen in gang.open)
        nodes = list_text([f"node {attempt.node}" for attempt in short])
        return (
            f"{place} has room for {there} of its {vms}, and not for {nodes}: what is there is given back "
            f"({short[0].reason})"
        )
    since = gang.incomplete_since
    if since is not None and context.now >= since + PATIENCE:
        minutes = PATIENCE // timedelta(minutes=1)
        few = f"fewer than {gang.least}" if gang.is_elastic else "not all"
        return f"within {minutes} minutes {few} of its {vms} could be had in {place}: it moves"
    return ""


def _replaced(gang: Gang, places: Sequence[LaunchPlace], context: JobContext) -> Proposal:
    """Requests the VMs that are missing where the others are, and bought in the same way."""
    view, state = gang.view, _state(gang)
    nodes = list_text([f"node {node}" for node in gang.wanted])
    since = gang.incomplete_since
    patience = since + PATIENCE if since is not None else None
    held = view.held_up
    if held:
        again = wait_stably(view, context.now + HOLD_AGAIN, context.now)
        return Proposal(state, f"{nodes} has no VM, and it waits: {held}", next_at=earliest(again, patience))
    lead = gang.open[0].attempt
    here = [one for one in places if (one.zone, one.provisioning_model) == (lead.zone, lead.provisioning_model)]
    launches: list[LaunchAttempt] = []
    waits: list[datetime | None] = []
    said = ""
    for node in gang.wanted:
        # Where and how it is bought is settled: a plan is of the job's next VMs, and of none that joins others.
        alone = replace(view, attempts=tuple(gang.of_node(node)), plan=None)
        after = after_failures(alone, context.terms)
        if after is not None and after > context.now:
            waits.append(after)
            continue
        chosen = choose(alone, here, context)
        if isinstance(chosen, Chosen):
            number = view.next_number + len(launches)
            launches.append(_launch(view, chosen, number, node, gang.formation))
        else:
            said = chosen.reason
            waits.append(None if isinstance(chosen, Hopeless) else chosen.until)
    place = place_of_gang(gang.open)
    reason = f"the other VMs in {place} stay; the VM of {nodes} is requested there again{f': {said}' if said else ''}"
    return Proposal(state, reason, tuple(launches), next_at=earliest(*waits, patience))


def _works(seen: AttemptView) -> bool:
    return seen.attempt.state is AttemptState.RUNNING


def _formed(gang: Gang, places: Sequence[LaunchPlace], context: JobContext) -> Proposal:
    """Requests all VMs together, in one place."""
    view = gang.view
    tried = replace(view, attempts=tuple(_one_of_each_formation(view)))
    before = max(view.attempts, key=_ended_at).attempt.reason if view.attempts else ""
    lead = f"{before}; " if before else ""
    held = view.held_up
    if held:
        until = wait_stably(view, context.now + HOLD_AGAIN, context.now)
        return Proposal(without_vm(view), f"waits: {held}", next_at=until)
    after = after_failures(tried, context.terms)
    if after is not None and after > context.now:
        again = f"{lead}tried again at {clock_text(after, context.now)}"
        return Proposal(without_vm(view), again, next_at=after)
    may_flex = view.job.comes_by_group
    sold = [place for place in places if may_flex or place.provisioning_model is not ProvisioningModel.FLEX_START]
    chosen = choose(tried, sold, context)
    if isinstance(chosen, Hopeless):
        return Proposal(JobState.FAILED, chosen.reason)
    if not isinstance(chosen, Chosen):
        return Proposal(without_vm(view), chosen.reason, next_at=chosen.until)
    first, count, place = view.next_number, view.job.spec.nodes, chosen.place
    launches = tuple(_launch(view, chosen, first + node, node, first) for node in range(count))
    near = ", close together" if view.job.spec.placement is Placement.COMPACT else ""
    how = f"{place.provisioning_model.in_words}, {an_hour(place.rate)} together{near}"
    least = f", at least {view.job.spec.fewest} of them" if view.job.spec.is_elastic else ""
    return Proposal(
        JobState.PROVISIONING, f"{lead}requesting {count_text(count, 'VM')} in {place.zone} ({how}){least}", launches
    )


def _one_of_each_formation(view: JobView) -> list[AttemptView]:
    """Returns the attempt by which each formation is judged when the next place is chosen: one without room, if any."""
    chosen: dict[int, AttemptView] = {}
    for seen in sorted(view.attempts, key=lambda seen: (seen.attempt.formation, _ended_at(seen))):
        before = chosen.get(seen.attempt.formation)
        if before is None or before.attempt.outcome not in NO_ROOM:
            chosen[seen.attempt.formation] = seen
    return list(chosen.values())


def _launch(view: JobView, chosen: Chosen, number: int, node: int, formation: int) -> LaunchAttempt:
    """The place's rate is that of all VMs, and an attempt's that of its own."""
    place, count = chosen.place, view.job.spec.nodes
    return LaunchAttempt(
        view.job.id,
        number,
        place.zone,
        place.provisioning_model,
        chosen.max_run,
        chosen.reason,
        None if place.rate is None else Money(place.rate.nanos // count),
        address=place.address,
        node=node,
        formation=formation,
    )


def _state(gang: Gang) -> JobState:
    if gang.has_begun and any(seen.attempt.agent.started_at is not None for seen in gang.in_round):
        return JobState.RUNNING
    return JobState.RECOVERING if gang.round > 1 else JobState.PROVISIONING


def _how_it_stands(gang: Gang, alone: Sequence[Proposal], context: JobContext) -> str:
    place, running = place_of_gang(gang.open), [seen for seen in gang.in_round if seen.attempt.is_open]
    count = len(gang.in_round)
    vms = f"{count} of {count_of(gang.view)}" if gang.is_elastic else count_text(count, "VM")
    started = [seen.attempt.agent.started_at for seen in running]
    since = [moment for moment in started if moment is not None]
    if gang.has_begun and since:
        lead = running[0].attempt
        step = f", resumed from step {lead.resume_step}" if lead.resume_step is not None else ""
        done = f"; {count - len(running)} of them have finished" if len(running) < count else ""
        back = gang.given_back
        later = f"; {list_text([f'node {node}' for node in back])} again at the next round" if back else ""
        return f"runs on {vms} in {place} since {clock_text(max(since), context.now)}{step}{done}{later}"
    if gang.has_begun:
        return f"its {count_text(count, 'VM')} in {place} begin"
    slowest = next(
        (
            f": node {seen.attempt.node}: {'its command is stopped first' if _works(seen) else step.reason}"
            for seen, step in zip(gang.open, alone, strict=True)
            if seen.attempt.agent.ready_round != gang.round
        ),
        "",
    )
    return f"{ready_count(gang)} of its {count_of(gang.view)} in {place} are ready{slowest}"
