"""What a job would cost, and where it would start, before anything is launched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from operator import itemgetter

from costguard.jobs.asked import Refusal
from costguard.jobs.recipe import SHORTEST_RUN
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money


@dataclass(frozen=True, slots=True)
class Rate:
    """Dollars an hour by part; None where a part has no price. Without GPUs theirs is nothing."""

    machine: Money | None = None  # vCPUs, memory, local SSD
    gpu: Money | None = None
    disk: Money | None = None

    @property
    def total(self) -> Money | None:
        if self.machine is None or self.gpu is None or self.disk is None:
            return None
        return self.machine + self.gpu + self.disk

    @property
    def unpriced(self) -> str:
        """What has no price, in words; "" where all has."""
        parts = (("the machine", self.machine), ("its GPUs", self.gpu), ("the disk", self.disk))
        return ", ".join(name for name, amount in parts if amount is None)


Rates = Mapping[tuple[str, ProvisioningModel], Rate]


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to run it."""

    zone: str
    provisioning_model: ProvisioningModel
    rate: Money | None
    cost: Money | None  # of the hours asked about

    @classmethod
    def at(cls, zone: str, model: ProvisioningModel, rate: Money | None, span: timedelta) -> Offer:
        return cls(zone, model, rate, None if rate is None else rate.over(span))


def cheapest(rates: Rates, models: Iterable[ProvisioningModel], span: timedelta) -> Offer | None:
    """Of the models that may be used; of equals the first zone. None where nothing has a price."""
    allowed = set(models)
    priced = [
        (total, zone, model)
        for (zone, model), rate in rates.items()
        if model in allowed and (total := rate.total) is not None
    ]
    if not priced:
        return None
    total, zone, model = min(priced, key=itemgetter(0))
    return Offer.at(zone, model, total, span)


def saving_percent(rates: Rates, zone: str) -> int | None:
    """How much less Spot costs there than on-demand, in whole percents, cut off; None where that is not known."""
    spot, usual = (
        rate.total if (rate := rates.get((zone, model))) is not None else None
        for model in (ProvisioningModel.SPOT, ProvisioningModel.STANDARD)
    )
    if spot is None or usual is None or usual.nanos <= 0:
        return None
    return 100 * (usual.nanos - spot.nanos) // usual.nanos


def problems(
    rates: Rates, models: Iterable[ProvisioningModel], chosen: Iterable[str], ceiling: Money | None
) -> list[Refusal]:
    """What the prices forbid. `chosen` are the zones that the job itself names: those must have a price.

    A ceiling cannot be kept where nothing has a price, nor where it pays for less than the shortest run.
    """
    models = tuple(models)
    found = [
        Refusal("overrides.zones", f"No price is known for this machine in {zone}: name a zone that has it.")
        for zone in chosen
        if all((rate := rates.get((zone, model))) is None or rate.total is None for model in models)
    ]
    if ceiling is None or ceiling.nanos <= 0:
        return found
    best = cheapest(rates, models, SHORTEST_RUN)
    if best is None or best.cost is None:
        message = "It could not be kept, since no price is known for this machine: leave it out, or choose another one."
        return [*found, Refusal("ceiling", message)]
    if best.cost > ceiling:
        message = f"{ceiling} is less than 10 minutes cost in {best.zone}, the cheapest at {best.rate} an hour"
        return [*found, Refusal("ceiling", f"{message}: give more than {best.cost}.")]
    return found
