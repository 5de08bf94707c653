"""Decides what comes next for a job: each turn starts from what the ledger shows, whatever happened before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.jobs.disk import holds_only_copy
from costguard.jobs.limits import (
    LEAST_RUN,
    after_failures,
    ceiling_text,
    is_held_by_sweep,
    max_run,
    remaining,
    spot_until,
    verdict,
    wait,
)
from costguard.jobs.live_attempt import live_run
from costguard.jobs.placement import LaunchPlace
from costguard.jobs.view import (
    HOLD_AGAIN,
    NO_ROOM,
    AskAgain,
    DeleteVm,
    EndAttempt,
    JobAction,
    JobContext,
    JobDecision,
    JobView,
    LaunchAttempt,
    Proposal,
    StopVm,
    an_hour,
    earliest,
    is_due,
    may_write,
    place_of,
    wait_stably,
    without_vm,
)
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.duration import span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobState
from costguard.model.moments import clock_text
from costguard.model.words import count_text, list_text

_QUOTA_AGAIN = timedelta(minutes=2)  # quotas are read before anything is asked: looking again is cheap

_SHARES_AGAIN = timedelta(minutes=2)  # a member that ends leaves what it had reserved

Key = tuple[str, ProvisioningModel]


@dataclass(frozen=True, slots=True)
class Chosen:
    place: LaunchPlace
    max_run: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class WaitForPlace:
    until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class Hopeless:
    reason: str


def choose(view: JobView, places: Sequence[LaunchPlace], context: JobContext) -> Chosen | WaitForPlace | Hopeless:
    """The next place, or until when all of them are left in peace."""
    payable = [place for place in places if max_run(view, place.rate) is not None]
    if not payable:
        return _not_payable(view, places, context)
    spot_ends = spot_until(view, context.now)
    is_late = spot_ends is not None and context.now > spot_ends and view.job.recipe.falls_back_to_on_demand
    if is_late:  # Spot is still better than nothing
        payable.sort(key=lambda place: place.provisioning_model is ProvisioningModel.SPOT)
    open_to_us = [place for place in payable if not place.passed_over]
    if not open_to_us:
        reasons = list_text(list(dict.fromkeys(place.passed_over for place in payable)))
        return _until(view, context, context.now + _QUOTA_AGAIN, f"waits: {reasons}")
    rounds = _rounds(view)
    tried = rounds[-1] if rounds else {}
    place = next((place for place in open_to_us if _key(place) not in tried), None)
    if place is None:
        last = list(tried.values())[-1]
        until = (last.ended_at or context.now) + wait(context.terms, view.job.id, last.number, len(rounds))
        if until > context.now:
            return WaitForPlace(until, f"{_what_failed(tried)}; asked again at {clock_text(until, context.now)}")
        place, tried = open_to_us[0], {}
    longest = max_run(view, place.rate)
    assert longest is not None, "only payable places are left"
    return Chosen(place, longest, _why(view, place, tried, is_late, context))


def _until(view: JobView, context: JobContext, due: datetime, reason: str) -> WaitForPlace:
    until = wait_stably(view, due, context.now)
    return WaitForPlace(until, f"{reason}; looked at again at {clock_text(until, context.now)}")


def _rounds(view: JobView) -> list[dict[Key, Attempt]]:
    """The attempts at the end that found no room; a place that comes again begins another round."""
    tail: list[Attempt] = []
    for seen in reversed(view.attempts):
        if seen.attempt.outcome not in NO_ROOM:
            break
        tail.append(seen.attempt)
    rounds: list[dict[Key, Attempt]] = []
    for attempt in reversed(tail):
        key = (attempt.zone, attempt.provisioning_model)
        if not rounds or key in rounds[-1]:
            rounds.append({})
        rounds[-1][key] = attempt
    return rounds


def _key(place: LaunchPlace) -> Key:
    return place.zone, place.provisioning_model


def _not_payable(view: JobView, places: Sequence[LaunchPlace], context: JobContext) -> WaitForPlace | Hopeless:
    left = remaining(view)
    rates = [place.rate for place in places if place.rate is not None]
    if not places:
        return Hopeless("its recipe names no zone")
    if not rates:
        return Hopeless(
            f"no price is known in {_zones(places)}, so its ceiling could not be held; set none, or the price"
        )
    reason = (
        f"{ceiling_text(view)} leaves {left}, which pays for less than {span_text(LEAST_RUN)} at {an_hour(min(rates))}"
    )
    if not is_held_by_sweep(view):
        return Hopeless(f"{reason}; submit it again with a higher one")
    if view.common is not None and view.common.may_grow:
        return _until(view, context, context.now + _SHARES_AGAIN, f"waits for other members of its sweep: {reason}")
    return Hopeless(f"{reason}; resume its sweep with a higher one")


def _what_failed(tried: dict[Key, Attempt]) -> str:
    """`out of stock in 3 zones (a, b and c)`, told apart from quotas."""
    said: list[str] = []
    for outcome, words in ((Outcome.STOCKOUT, "out of stock"), (Outcome.QUOTA, "no quota left")):
        zones = list(dict.fromkeys(zone for (zone, _), attempt in tried.items() if attempt.outcome is outcome))
        if zones:
            said.append(f"{words} in {count_text(len(zones), 'zone')} ({list_text(zones)})")
    return ", ".join(said)


def _why(view: JobView, place: LaunchPlace, tried: dict[Key, Attempt], is_late: bool, context: JobContext) -> str:
    reason = f"{place.zone}, {place.provisioning_model.in_words}: {', '.join(place.reasons)}"
    on_demand = place.provisioning_model is ProvisioningModel.STANDARD
    if is_late and on_demand and view.job.spec.deadline is not None:
        return f"{reason}; Spot could miss the deadline of {clock_text(view.job.spec.deadline, context.now)}"
    return f"{reason}; {_what_failed(tried)}" if tried else reason


def _zones(places: Sequence[LaunchPlace]) -> str:
    return list_text(list(dict.fromkeys(place.zone for place in places)))


def next_vm(view: JobView, places: Sequence[LaunchPlace], context: JobContext) -> Proposal:
    """Launch it as soon as nothing of the one before can write into the same checkpoints."""
    if view.last is not None and holds_only_copy(view, view.last):
        return Proposal(
            without_vm(view), f"{_ended(view)}; its VM is being checked, because its disk holds what it saved"
        )
    stopped = view.unknown or view.hold or view.pause
    if stopped:
        until = wait_stably(view, context.now + HOLD_AGAIN, context.now)
        return Proposal(without_vm(view), f"waits: {stopped}", next_at=until)
    writers = [may_write(attempt, view.interruptions, context) for attempt in view.attempts]
    if any(writers):
        moments = [until for until in writers if isinstance(until, datetime)]
        is_known = len(moments) == sum(bool(writer) for writer in writers)
        return Proposal(
            without_vm(view), f"{_ended(view)}; {_WAITS_FOR_WRITER}", next_at=max(moments) if is_known else None
        )
    after = after_failures(view, context.terms)
    if after is not None and after > context.now:
        return Proposal(
            without_vm(view), f"{_ended(view)}; tried again at {clock_text(after, context.now)}", next_at=after
        )
    chosen = choose(view, places, context)
    if isinstance(chosen, Hopeless):
        return Proposal(JobState.FAILED, chosen.reason)
    if not isinstance(chosen, Chosen):
        return Proposal(without_vm(view), chosen.reason, next_at=chosen.until)
    place, number = chosen.place, view.last.attempt.number + 1 if view.last is not None else 1
    launch = LaunchAttempt(
        view.job.id, number, place.zone, place.provisioning_model, chosen.max_run, chosen.reason, place.rate
    )
    asks = f"requesting a VM in {place.zone} ({place.provisioning_model.in_words}, {an_hour(place.rate)})"
    before = _ended(view)
    return Proposal(JobState.PROVISIONING, f"{before}; {asks}" if before else asks, (launch,))


def _ended(view: JobView) -> str:
    return view.last.attempt.reason if view.last is not None else ""


_WAITS_FOR_WRITER = "the next VM is requested once nothing on this one can write any more"


_UNKNOWN = frozenset({AttemptState.INTENDED, AttemptState.ASKED})


def decide(view: JobView, places: Sequence[LaunchPlace], context: JobContext) -> JobDecision:
    """The job's state and reason, and what is done for it now. The same view gives the same decision.

    An end is written down first, and judged by the next decision, so that a crash in between loses nothing: right
    after an `EndAttempt` or `RestAttempt` was carried out it is worth deciding again. `places` are only looked at
    where no attempt is open.
    """
    last = view.last
    if view.job.state.is_over:
        step = Proposal(view.job.state, view.job.reason, _loose_end(view, context))
    elif last is not None and last.attempt.is_open:
        step = live_run(view, last, context)
    elif (final := verdict(view, context)) is not None:
        step = Proposal(*final)
    else:
        step = next_vm(view, places, context)
    deletes, delete_at = _deletes(view, context)
    actions = (*step.actions, *deletes)
    return JobDecision(
        view.job.id, step.state, step.reason, actions, context.now if actions else earliest(step.next_at, delete_at)
    )


def _loose_end(view: JobView, context: JobContext) -> tuple[JobAction, ...]:
    """A job that is over leaves no attempt open: its VM would bill for nobody."""
    if view.last is None or not view.last.attempt.is_open:
        return ()
    attempt = view.last.attempt
    if attempt.state not in _UNKNOWN:
        return (EndAttempt(attempt.id, Outcome.CANCELLED, f"its job is over: {view.job.reason}"),)
    return (AskAgain(attempt.id, "its job is over"),) if is_due(attempt.try_after, context.now) else ()


def _deletes(view: JobView, context: JobContext) -> tuple[tuple[JobAction, ...], datetime | None]:
    """For every attempt that ended and whose VM may still be there; and when one is tried again.

    A VM whose disk holds the only copy of what was saved is stopped and kept instead.
    """
    due: list[JobAction] = []
    later: list[datetime | None] = []
    for seen in view.attempts:
        attempt, keeps = seen.attempt, holds_only_copy(view, seen)
        if attempt.state is not AttemptState.ENDING and (keeps or attempt.state is not AttemptState.KEPT):
            continue
        if not is_due(attempt.try_after, context.now):
            later.append(attempt.try_after)
        elif keeps:
            due.append(StopVm(attempt.id, f"its disk in {attempt.zone} holds the only copy of what it saved"))
        else:
            due.append(DeleteVm(attempt.id, f"its attempt in {place_of(attempt)} has ended: {attempt.reason}"))
    return tuple(due), earliest(*later)
