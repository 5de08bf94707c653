"""The cost of a job in each place, and whether it can meet its deadline and ceiling there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from operator import itemgetter

from costguard.jobs.decide.measures.work_left import ENDS, START
from costguard.jobs.decide.view import an_hour
from costguard.jobs.submit.submission import SHORTEST_RUN, JobRefusal
from costguard.model.duration import hours_text, span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobKind, JobSpec
from costguard.model.moments import moment_text
from costguard.model.money import Money
from costguard.model.words import count_text


class Chance(StrEnum):
    YES = "yes"
    AT_RISK = "at_risk"
    NO = "no"
    UNKNOWN = "unknown"  # there is no limit, or nobody says how long it takes


_CERTAIN = frozenset({ProvisioningModel.STANDARD, ProvisioningModel.RESERVATION_BOUND})


@dataclass(frozen=True, slots=True)
class Feasibility:
    """`ends_at` is when it ends for certain if it runs on demand: after the longest start, and without interruptions.

    `least` and `most` are what that costs in the cheapest and in the dearest place that it may use.
    """

    ends_at: datetime | None = None
    meets_deadline: Chance = Chance.UNKNOWN
    least: PlaceOffer | None = None
    most: PlaceOffer | None = None
    within_ceiling: Chance = Chance.UNKNOWN
    within_vm_hours: Chance = Chance.UNKNOWN
    refusals: tuple[JobRefusal, ...] = ()
    warnings: tuple[str, ...] = ()


def feasibility(
    spec: JobSpec,
    rates: HourlyRates,
    models: Sequence[ProvisioningModel],
    is_resumed: bool,
    now: datetime,
    start: timedelta = START,
) -> Feasibility:
    if spec.work is None or spec.kind is not JobKind.TRAINING or spec.work.total_seconds() <= 0:
        return Feasibility()
    least, most = cheapest(rates, models, spec.work), _dearest(rates, models, spec)
    meets, within = _deadline(spec, models, start, now), _ceiling(spec.ceiling, least, most)
    certain = [*_late(spec, start, now)] if meets is Chance.NO else []
    certain += [*_short(spec, least)] if within is Chance.NO else []
    likely = [*_perhaps_late(spec, start, now)] if meets is Chance.AT_RISK else []
    likely += [*_perhaps_short(spec, most)] if within is Chance.AT_RISK else []
    hours = vm_hours_chance(spec, start)
    certain += [*_short_of_hours(spec)] if hours is Chance.NO else []
    likely += [*_barely_enough_hours(spec, start)] if hours is Chance.AT_RISK else []
    if is_resumed:
        likely, certain = [*(f"{refusal.message} Unless it resumes beyond that." for refusal in certain), *likely], []
    return Feasibility(now + start + spec.work, meets, least, most, within, hours, tuple(certain), tuple(likely))


def vm_hours_chance(spec: JobSpec, start: timedelta) -> Chance:
    """Says whether its VMs may run for as long as its work takes, and for one start besides."""
    if spec.max_vm_time is None or spec.work is None or spec.max_vm_time <= timedelta():
        return Chance.UNKNOWN
    if spec.work * spec.nodes > spec.max_vm_time:
        return Chance.NO
    return Chance.AT_RISK if (spec.work + start) * spec.nodes > spec.max_vm_time else Chance.YES


def _short_of_hours(spec: JobSpec) -> Iterator[JobRefusal]:
    if spec.work is not None and spec.max_vm_time is not None:
        message = (
            f"{hours_text(spec.max_vm_time)} are less than the {hours_text(spec.work * spec.nodes)} that "
            f"{_work_on_vms(spec)} takes"
        )
        yield JobRefusal("max_vm_hours", f"{message}. Give more than that, or none.")


def _barely_enough_hours(spec: JobSpec, start: timedelta) -> Iterator[str]:
    if spec.work is not None and spec.max_vm_time is not None:
        spare = span_text(spec.max_vm_time - spec.work * spec.nodes)
        where = " on each of its VMs" if spec.nodes > 1 else ""
        yield (
            f"Its limit of {hours_text(spec.max_vm_time)} leaves {spare} beyond {_work_on_vms(spec)}, and a start "
            f"takes up to {span_text(start)}{where}: one preemption may end it before its work is done."
        )


def _work_on_vms(spec: JobSpec) -> str:
    vms = f" on {count_text(spec.nodes, 'VM')}" if spec.nodes > 1 else ""
    return f"{span_text(spec.work or timedelta())} of work{vms}"


def _deadline(spec: JobSpec, models: Sequence[ProvisioningModel], start: timedelta, now: datetime) -> Chance:
    """After `start`, a VM on demand or on a reservation is at work for certain. Spot alone promises nothing."""
    if spec.deadline is None or spec.work is None or spec.deadline <= now:
        return Chance.UNKNOWN  # one that has passed is refused for that
    if now + start + spec.work + ENDS > spec.deadline:
        return Chance.NO
    return Chance.AT_RISK if _CERTAIN.isdisjoint(models) else Chance.YES


def _ceiling(ceiling: Money | None, least: PlaceOffer | None, most: PlaceOffer | None) -> Chance:
    if ceiling is None or ceiling.nanos <= 0 or least is None or least.cost is None:
        return Chance.UNKNOWN
    if least.cost > ceiling:
        return Chance.NO
    return Chance.AT_RISK if most is not None and most.cost is not None and most.cost > ceiling else Chance.YES


def _dearest(rates: HourlyRates, models: Sequence[ProvisioningModel], spec: JobSpec) -> PlaceOffer | None:
    priced = [(rate.total, zone, model) for (zone, model), rate in rates.items() if model in models]
    with_price = [(total, zone, model) for total, zone, model in priced if total is not None]
    if not with_price or spec.work is None:
        return None
    total, zone, model = max(with_price, key=lambda offer: offer[0])
    return PlaceOffer.at(zone, model, total, spec.work)


def _late(spec: JobSpec, start: timedelta, now: datetime) -> Iterator[JobRefusal]:
    if spec.work is not None and spec.deadline is not None:
        earliest = _up_to_minute(now + start + spec.work + ENDS)
        message = (
            f"It takes {span_text(spec.work)}, and a start up to {span_text(start)}: begun on demand now, it is "
            f"certain to end by {moment_text(earliest)}, after its deadline of {moment_text(spec.deadline)}"
        )
        yield JobRefusal("deadline", f"{message}. Give {moment_text(earliest)} or a later one, or none.")


def _up_to_minute(moment: datetime) -> datetime:
    return moment if moment == (whole := moment.replace(second=0, microsecond=0)) else whole + timedelta(minutes=1)


def _perhaps_late(spec: JobSpec, start: timedelta, now: datetime) -> Iterator[str]:
    if spec.work is None or spec.deadline is None:
        return
    left = span_text(spec.deadline - now - start - spec.work)
    yield (
        f"Its deadline of {moment_text(spec.deadline)} leaves {left} to wait for Spot, and nothing is certain without "
        "on-demand VMs. Allow the fallback to on-demand."
    )


def _short(spec: JobSpec, least: PlaceOffer | None) -> Iterator[JobRefusal]:
    if least is not None and least.cost is not None and spec.work is not None:
        message = f"{spec.ceiling} is less than the {least.cost} that {_what(spec, least)} cost"
        yield JobRefusal("ceiling", f"{message}, the cheapest. Give more than that, or none.")


def _perhaps_short(spec: JobSpec, most: PlaceOffer | None) -> Iterator[str]:
    if most is not None and spec.work is not None:
        yield f"Its ceiling of {spec.ceiling} does not pay for {_what(spec, most)}, which cost {most.cost}."


def _what(spec: JobSpec, offer: PlaceOffer) -> str:
    length = span_text(spec.work) if spec.work is not None else ""
    return f"{length} in {offer.zone} ({offer.provisioning_model.in_words}, {an_hour(offer.rate)})"


@dataclass(frozen=True, slots=True)
class HourlyRate:
    """Dollars an hour by part; None where a part has no price. What a VM does not have costs nothing."""

    machine: Money | None = None  # vCPUs, memory, local SSD
    gpu: Money | None = None
    disk: Money | None = None
    address: Money | None = None  # external, IPv4

    @property
    def total(self) -> Money | None:
        if self.machine is None or self.gpu is None or self.disk is None or self.address is None:
            return None
        return self.machine + self.gpu + self.disk + self.address

    def times(self, count: int) -> HourlyRate:
        """Returns the rate of so many VMs together."""
        parts = (self.machine, self.gpu, self.disk, self.address)
        return HourlyRate(*(None if part is None else part.times(count) for part in parts))

    @property
    def unpriced(self) -> str:
        """Names the parts without a price, in words; "" where all have one."""
        parts = (
            ("the machine", self.machine),
            ("its GPUs", self.gpu),
            ("the disk", self.disk),
            ("its external address", self.address),
        )
        return ", ".join(name for name, amount in parts if amount is None)


HourlyRates = Mapping[tuple[str, ProvisioningModel], HourlyRate]


@dataclass(frozen=True, slots=True)
class PlaceOffer:
    """A zone and provisioning model to run it, with the rate and the cost."""

    zone: str
    provisioning_model: ProvisioningModel
    rate: Money | None
    cost: Money | None  # of the hours asked about

    @classmethod
    def at(cls, zone: str, model: ProvisioningModel, rate: Money | None, span: timedelta) -> PlaceOffer:
        return cls(zone, model, rate, None if rate is None else rate.over(span))


def cheapest(rates: HourlyRates, models: Iterable[ProvisioningModel], span: timedelta) -> PlaceOffer | None:
    """Returns the cheapest of the models that may be used; of equals the first zone. None where nothing has a price."""
    allowed = set(models)
    priced = [
        (total, zone, model)
        for (zone, model), rate in rates.items()
        if model in allowed and (total := rate.total) is not None
    ]
    if not priced:
        return None
    total, zone, model = min(priced, key=itemgetter(0))
    return PlaceOffer.at(zone, model, total, span)


def saving_percent(rates: HourlyRates, zone: str) -> int | None:
    """Returns the saving of Spot there against on-demand, in whole percents, cut off; None where that is not known."""
    spot, usual = (
        rate.total if (rate := rates.get((zone, model))) is not None else None
        for model in (ProvisioningModel.SPOT, ProvisioningModel.STANDARD)
    )
    if spot is None or usual is None or usual.nanos <= 0:
        return None
    return 100 * (usual.nanos - spot.nanos) // usual.nanos


def price_problems(
    rates: HourlyRates, models: Iterable[ProvisioningModel], chosen: Iterable[str], ceiling: Money | None
) -> list[JobRefusal]:
    """Lists the problems with prices. `chosen` are the zones that the job itself names: those must have a price.

    A ceiling cannot be kept where nothing has a price, nor where it pays for less than the shortest run.
    """
    models = tuple(models)
    problems = [
        JobRefusal("overrides.zones", f"No price is known for this machine in {zone}: name a zone that has it.")
        for zone in chosen
        if all((rate := rates.get((zone, model))) is None or rate.total is None for model in models)
    ]
    if ceiling is None or ceiling.nanos <= 0:
        return problems
    best = cheapest(rates, models, SHORTEST_RUN)
    if best is None or best.cost is None:
        message = "It could not be kept, since no price is known for this machine: leave it out, or choose another one."
        return [*problems, JobRefusal("ceiling", message)]
    if best.cost > ceiling:
        message = f"{ceiling} is less than 10 minutes cost in {best.zone}, the cheapest at {best.rate} an hour"
        return [*problems, JobRefusal("ceiling", f"{message}: give more than {best.cost}.")]
    return problems
