"""Whether a job can meet its deadline and stay within its ceiling, by the time that its owner expects it to take.

What is certain is refused before anything is launched; what is likely is a warning. A job that resumes may have done a
part of its work already, so that nothing about it is certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from costguard.jobs.asked import Refusal
from costguard.jobs.deadline import START
from costguard.jobs.quote import Offer, Rates, cheapest
from costguard.jobs.words import an_hour, model_word, span
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobKind, JobSpec
from costguard.model.money import Money


class Chance(StrEnum):
    YES = "yes"
    AT_RISK = "at_risk"
    NO = "no"
    UNKNOWN = "unknown"  # there is no limit, or nobody says how long it takes


@dataclass(frozen=True, slots=True)
class Outlook:
    """`ends_at` is when it would end if its VM started within twenty minutes and nothing interrupted it.

    `least` and `most` are what that costs in the cheapest and in the dearest place that it may use.
    """

    ends_at: datetime | None = None
    meets_deadline: Chance = Chance.UNKNOWN
    least: Offer | None = None
    most: Offer | None = None
    within_ceiling: Chance = Chance.UNKNOWN
    refusals: tuple[Refusal, ...] = ()
    warnings: tuple[str, ...] = ()


def outlook(
    spec: JobSpec, rates: Rates, models: Sequence[ProvisioningModel], is_resumed: bool, now: datetime
) -> Outlook:
    if spec.expected is None or spec.kind is not JobKind.TRAINING or spec.expected.total_seconds() <= 0:
        return Outlook()
    least, most = cheapest(rates, models, spec.expected), _dearest(rates, models, spec)
    meets, within = _deadline(spec, models, now), _ceiling(spec.ceiling, least, most)
    certain = [*_late(spec, now)] if meets is Chance.NO else []
    certain += [*_short(spec, least)] if within is Chance.NO else []
    likely = [*_perhaps_late(spec, models, now)] if meets is Chance.AT_RISK else []
    likely += [*_perhaps_short(spec, most)] if within is Chance.AT_RISK else []
    if is_resumed:
        likely, certain = [*(f"{each.message} Unless it resumes beyond that." for each in certain), *likely], []
    return Outlook(now + START + spec.expected, meets, least, most, within, tuple(certain), tuple(likely))


def _deadline(spec: JobSpec, models: Sequence[ProvisioningModel], now: datetime) -> Chance:
    if spec.deadline is None or spec.expected is None or spec.deadline <= now:
        return Chance.UNKNOWN  # one that has passed is refused for that
    if now + spec.expected > spec.deadline:
        return Chance.NO
    starts = 1 if ProvisioningModel.STANDARD in models else 2  # Spot needs room for a preemption
    return Chance.AT_RISK if now + spec.expected + starts * START > spec.deadline else Chance.YES


def _ceiling(ceiling: Money | None, least: Offer | None, most: Offer | None) -> Chance:
    if ceiling is None or ceiling.nanos <= 0 or least is None or least.cost is None:
        return Chance.UNKNOWN
    if least.cost > ceiling:
        return Chance.NO
    return Chance.AT_RISK if most is not None and most.cost is not None and most.cost > ceiling else Chance.YES


def _dearest(rates: Rates, models: Sequence[ProvisioningModel], spec: JobSpec) -> Offer | None:
    priced = [(rate.total, zone, model) for (zone, model), rate in rates.items() if model in models]
    known = [(total, zone, model) for total, zone, model in priced if total is not None]
    if not known or spec.expected is None:
        return None
    total, zone, model = max(known, key=lambda each: each[0])
    return Offer.at(zone, model, total, spec.expected)


def _late(spec: JobSpec, now: datetime) -> Iterator[Refusal]:
    if spec.expected is not None and spec.deadline is not None:
        ends = _moment(now + spec.expected)
        message = (
            f"It takes {span(spec.expected)}: begun this minute, on-demand, it would end {ends}, after its deadline"
        )
        yield Refusal("deadline", f"{message} of {_moment(spec.deadline)}. Give a later one, or none.")


def _perhaps_late(spec: JobSpec, models: Sequence[ProvisioningModel], now: datetime) -> Iterator[str]:
    if spec.expected is None or spec.deadline is None:
        return
    left = span(spec.deadline - now - spec.expected)
    what = f"Its deadline of {_moment(spec.deadline)} leaves {left} beyond the {span(spec.expected)} that it takes"
    if ProvisioningModel.STANDARD in models:
        yield f"{what}, and a start takes about {span(START)}."
    else:
        yield f"{what}: one preemption would miss it, and on-demand is not allowed. Allow the fallback to on-demand."


def _short(spec: JobSpec, least: Offer | None) -> Iterator[Refusal]:
    if least is not None and least.cost is not None and spec.expected is not None:
        message = f"{spec.ceiling} is less than the {least.cost} that {_what(spec, least)} cost"
        yield Refusal("ceiling", f"{message}, the cheapest. Give more than that, or none.")


def _perhaps_short(spec: JobSpec, most: Offer | None) -> Iterator[str]:
    if most is not None and spec.expected is not None:
        yield f"Its ceiling of {spec.ceiling} does not pay for {_what(spec, most)}, which cost {most.cost}."


def _what(spec: JobSpec, offer: Offer) -> str:
    length = span(spec.expected) if spec.expected is not None else ""
    return f"{length} in {offer.zone} ({model_word(offer.provisioning_model)}, {an_hour(offer.rate)})"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
