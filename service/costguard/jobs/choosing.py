"""Which place is asked next: each once in a round, and rounds further and further apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.jobs.backoff import wait
from costguard.jobs.deadline import spot_until
from costguard.jobs.limits import LEAST_RUN, max_run, remaining
from costguard.jobs.placement import Place
from costguard.jobs.runs import NO_ROOM
from costguard.jobs.step import wait_stably
from costguard.jobs.view import Circumstances, JobView
from costguard.jobs.words import an_hour, clock, count, listed, model_word, span
from costguard.model.attempt import Attempt, Outcome
from costguard.model.instance import ProvisioningModel

_QUOTA_AGAIN = timedelta(minutes=2)  # quotas are read before anything is asked: looking again is cheap

Key = tuple[str, ProvisioningModel]


@dataclass(frozen=True, slots=True)
class Chosen:
    place: Place
    max_run: timedelta
    reason: str


@dataclass(frozen=True, slots=True)
class Waits:
    until: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class Hopeless:
    reason: str


def choose(view: JobView, places: Sequence[Place], about: Circumstances) -> Chosen | Waits | Hopeless:
    """The next place, or until when all of them are left in peace."""
    payable = [place for place in places if max_run(view, place.rate) is not None]
    if not payable:
        return _not_payable(view, places)
    spot_ends = spot_until(view, about.now)
    is_late = spot_ends is not None and about.now > spot_ends and view.job.recipe.falls_back_to_on_demand
    if is_late:  # Spot is still better than nothing
        payable.sort(key=lambda place: place.provisioning_model is ProvisioningModel.SPOT)
    open_to_us = [place for place in payable if not place.passed_over]
    if not open_to_us:
        reasons = listed(list(dict.fromkeys(place.passed_over for place in payable)))
        return _until(view, about, about.now + _QUOTA_AGAIN, f"waits: {reasons}")
    rounds = _rounds(view)
    tried = rounds[-1] if rounds else {}
    place = next((each for each in open_to_us if _key(each) not in tried), None)
    if place is None:
        last = list(tried.values())[-1]
        until = (last.ended_at or about.now) + wait(about.terms, view.job.id, last.number, len(rounds))
        if until > about.now:
            return Waits(until, f"{_what_failed(tried)}; asked again at {clock(until, about.now)}")
        place, tried = open_to_us[0], {}
    longest = max_run(view, place.rate)
    assert longest is not None, "only payable places are left"
    return Chosen(place, longest, _why(view, place, tried, is_late, about))


def _until(view: JobView, about: Circumstances, due: datetime, reason: str) -> Waits:
    until = wait_stably(view, due, about.now)
    return Waits(until, f"{reason}; looked at again at {clock(until, about.now)}")


def _rounds(view: JobView) -> list[dict[Key, Attempt]]:
    """The attempts at the end that found no room; a place that comes again begins another round."""
    tail: list[Attempt] = []
    for each in reversed(view.attempts):
        if each.attempt.outcome not in NO_ROOM:
            break
        tail.append(each.attempt)
    rounds: list[dict[Key, Attempt]] = []
    for attempt in reversed(tail):
        key = (attempt.zone, attempt.provisioning_model)
        if not rounds or key in rounds[-1]:
            rounds.append({})
        rounds[-1][key] = attempt
    return rounds


def _key(place: Place) -> Key:
    return place.zone, place.provisioning_model


def _not_payable(view: JobView, places: Sequence[Place]) -> Hopeless:
    left = remaining(view)
    rates = [place.rate for place in places if place.rate is not None]
    if not places:
        return Hopeless("its recipe names no zone")
    if not rates:
        return Hopeless(
            f"no price is known in {_zones(places)}, so its ceiling could not be held; set none, or the price"
        )
    return Hopeless(
        f"its ceiling of {view.job.spec.ceiling} leaves {left}, which pays for less than {span(LEAST_RUN)} "
        f"at {an_hour(min(rates))}; ask for it anew with a higher one"
    )


def _what_failed(tried: dict[Key, Attempt]) -> str:
    """`out of stock in 3 zones (a, b and c)`, told apart from quotas."""
    said: list[str] = []
    for outcome, words in ((Outcome.STOCKOUT, "out of stock"), (Outcome.QUOTA, "no quota left")):
        zones = list(dict.fromkeys(zone for (zone, _), each in tried.items() if each.outcome is outcome))
        if zones:
            said.append(f"{words} in {count(len(zones), 'zone')} ({listed(zones)})")
    return ", ".join(said)


def _why(view: JobView, place: Place, tried: dict[Key, Attempt], is_late: bool, about: Circumstances) -> str:
    reason = f"{place.zone}, {model_word(place.provisioning_model)}: {', '.join(place.reasons)}"
    on_demand = place.provisioning_model is ProvisioningModel.STANDARD
    if is_late and on_demand and view.job.spec.deadline is not None:
        return f"{reason}; Spot could miss the deadline of {clock(view.job.spec.deadline, about.now)}"
    return f"{reason}; {_what_failed(tried)}" if tried else reason


def _zones(places: Sequence[Place]) -> str:
    return listed(list(dict.fromkeys(place.zone for place in places)))
