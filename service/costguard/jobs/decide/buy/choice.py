"""Chooses the place of a job's next VM, or until when it waits for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.deadlines.situation import Act
from costguard.jobs.decide.buy.placement import LaunchPlace
from costguard.jobs.decide.buy.rounds import Key, Round, rounds_of, waited_for
from costguard.jobs.decide.limits.ceiling import (
    LEAST_RUN,
    ceiling_text,
    is_held_by_sweep,
    is_short_of_vm_time,
    max_run,
    remaining,
    vm_hours_text,
    vm_time_left,
)
from costguard.jobs.decide.limits.on_reservation import is_over, over_text, within
from costguard.jobs.decide.planned import JobPlan
from costguard.jobs.decide.recovery.ended_runs import wait
from costguard.jobs.decide.view import JobContext, JobView, an_hour, wait_stably
from costguard.model.attempt import Outcome
from costguard.model.buying import RESERVED, longest_run
from costguard.model.duration import span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.moments import clock_text
from costguard.model.words import count_text, list_text

_QUOTA_AGAIN = timedelta(minutes=2)  # quotas are read before anything is asked: looking again is cheap
_SHARES_AGAIN = timedelta(minutes=2)  # a member that ends leaves what it had reserved
_PLAN_AGAIN = timedelta(minutes=5)
_URGENT = timedelta(minutes=1)  # between two rounds for a job that needs an on-demand VM
_SOON = timedelta(seconds=5)


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
    """The next place, or until when all of them are left in peace. What a plan wants comes before prices."""
    recipe = view.job.recipe
    there = [one for one in places if one.provisioning_model is not RESERVED or not is_over(recipe, context.now)]
    if places and not there:
        return Hopeless(over_text(recipe, context.now))
    payable = [place for place in there if max_run(view, place.rate) is not None]
    if not payable:
        return _not_payable(view, there, context)
    plan = view.plan
    if plan is not None and plan.act in (Act.WAIT, Act.STAY, Act.DROP_FLEX):
        return _until(view, context, _planned_at(view, plan, context), f"waits as planned, {plan.reason}")
    wanted = _as_planned(payable, plan)
    open_to_us = [place for place in wanted if not place.passed_over]
    if not open_to_us:
        reasons = list_text(list(dict.fromkeys(place.passed_over for place in payable)))
        return _until(view, context, context.now + _QUOTA_AGAIN, f"waits: {reasons}")
    rounds = rounds_of(view)
    tried = rounds[-1] if rounds else {}
    untried = [place for place in open_to_us if _key(place) not in tried]
    named = _with_room(tried)
    place = next((place for place in untried if _key(place) in named), untried[0] if untried else None)
    if place is None:
        last = list(tried.values())[-1]
        pause = wait(context.terms, view.job.id, last.number, len(rounds))
        until = (last.ended_at or context.now) + (min(pause, _URGENT) if plan is not None else pause)
        if until > context.now:
            return WaitForPlace(until, f"{_what_failed(tried)}; asked again at {clock_text(until, context.now)}")
        place, tried = open_to_us[0], {}
    longest = max_run(view, place.rate)
    assert longest is not None, "only payable places are left"
    longest = min(longest, longest_run(recipe, place.provisioning_model))
    longest = within(recipe, place.provisioning_model, longest, context.now)
    return Chosen(place, longest, _why(place, tried, plan))


def _as_planned(payable: Sequence[LaunchPlace], plan: JobPlan | None) -> list[LaunchPlace]:
    """Returns the places of the planned kind and zone; of a job that needs on-demand now, Spot after it: better than
    nothing.
    """
    if plan is None or plan.wants is None:
        return list(payable)
    if plan.wants is ProvisioningModel.SPOT:
        return [place for place in payable if (place.zone, place.provisioning_model) == (plan.zone, plan.wants)]
    if plan.wants is ProvisioningModel.FLEX_START:
        return [place for place in payable if place.provisioning_model is plan.wants]
    return sorted(payable, key=lambda place: place.provisioning_model is not ProvisioningModel.STANDARD)


def _planned_at(view: JobView, plan: JobPlan, context: JobContext) -> datetime:
    """Returns when it is planned again: when a place may be tried again, or the guard acts, and soon in any case."""
    due = waited_for(view, context.terms, context.now)
    moments = [context.now + _PLAN_AGAIN, *due.values()]
    moments += [plan.latest_safe_at] if plan.latest_safe_at is not None else []
    return max(min(moments), context.now + _SOON)


def _until(view: JobView, context: JobContext, due: datetime, reason: str) -> WaitForPlace:
    until = wait_stably(view, due, context.now)
    return WaitForPlace(until, f"{reason}; looked at again at {clock_text(until, context.now)}")


def _key(place: LaunchPlace) -> Key:
    return place.zone, place.provisioning_model


def _not_payable(view: JobView, places: Sequence[LaunchPlace], context: JobContext) -> WaitForPlace | Hopeless:
    left = remaining(view)
    rates = [place.rate for place in places if place.rate is not None]
    if not places:
        return Hopeless("its recipe names no zone")
    if is_short_of_vm_time(view):
        return Hopeless(_out_of_vm_time(view))
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


def _out_of_vm_time(view: JobView) -> str:
    nodes, left = view.job.spec.nodes, vm_time_left(view) or timedelta()
    share = f" for each of its {count_text(nodes, 'VM')}" if nodes > 1 else ""
    return (
        f"{vm_hours_text(view)} leaves {span_text(left)}, which is less than {span_text(LEAST_RUN)}{share}; submit it "
        "again with a higher one"
    )


def _what_failed(tried: Round) -> str:
    """`out of stock in 3 zones (a, b and c)`, told apart from quotas."""
    said: list[str] = []
    for outcome, is_reserved, words in (
        (Outcome.STOCKOUT, True, "no room on its reservation"),
        (Outcome.STOCKOUT, False, "out of stock"),
        (Outcome.QUOTA, True, "no quota left"),
        (Outcome.QUOTA, False, "no quota left"),
    ):
        zones = [
            zone
            for (zone, model), attempt in tried.items()
            if attempt.outcome is outcome and (model is RESERVED) is is_reserved
        ]
        zones = list(dict.fromkeys(zones))
        if zones:
            said.append(f"{words} in {count_text(len(zones), 'zone')} ({list_text(zones)})")
    return ", ".join(said)


def _with_room(tried: Round) -> set[Key]:
    """Where the last stockout says that there is room for the same request, whatever the place costs."""
    out = [attempt for attempt in tried.values() if attempt.outcome is Outcome.STOCKOUT]
    last = max(out, key=lambda attempt: attempt.number, default=None)
    return {(zone, last.provisioning_model) for zone in last.zones_available} if last is not None else set()


def _why(place: LaunchPlace, tried: Round, plan: JobPlan | None) -> str:
    reason = f"{place.zone}, {place.provisioning_model.in_words}: {', '.join(place.reasons)}"
    if tried:
        reason = f"{reason}; {_what_failed(tried)}"
    if _key(place) in _with_room(tried):
        reason = f"{reason}; Google says that {place.zone} has room"
    return f"{reason}; as planned, {plan.reason}" if plan is not None else reason


def _zones(places: Sequence[LaunchPlace]) -> str:
    return list_text(list(dict.fromkeys(place.zone for place in places)))
