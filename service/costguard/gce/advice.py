"""Reads Google's own record and estimate of capacity: `advice.capacityHistory` and `advice.capacity`.

https://docs.cloud.google.com/compute/docs/reference/rest/v1/advice: POSTs to the region. The history has daily records
of the last 30 days: each the VMs that were preempted among those that stopped running, and the Spot list price. Both
know no N1 with attached GPUs, no custom types and no TPUs: see `is_advised`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any

from costguard.errors import BadAnswer
from costguard.gce.fields import Garbled, last_part, moment
from costguard.gce.official import Official
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import CapacityAdvice, SpotListPrice
from costguard.model.money import NANOS_PER_DOLLAR, Money

_SECONDS = re.compile(r"(\d+)(?:\.\d+)?s")  # google-duration: `3600s`
_BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)


def preemption_rate(official: Official, project: str, zone: str, machine_type: str) -> float | None:
    """Returns the rate from 0 to 1, the mean of the recorded days; None where Google has none. Raises CloudError."""
    answer = official.capacity_history(project, f"zones/{zone}", machine_type, "PREEMPTION")
    rates = [
        record.preemption_rate
        for record in answer.preemption_history
        if "preemption_rate" in record and 0 <= record.preemption_rate <= 1
    ]
    return fmean(rates) if rates else None


def capacity_advice(
    official: Official, project: str, region: str, machine_type: str, model: ProvisioningModel
) -> CapacityAdvice | None:
    """Returns the first recommendation, the one that Google prefers; None where it has none. Raises CloudError."""
    answer = official.capacity_advice(project, region, machine_type, model.name)
    what = f"The capacity advice on {machine_type} in {region}"
    for recommendation in answer.recommendations:
        scores = recommendation.scores
        if "obtainability" not in scores or not recommendation.shards:
            continue
        if not 0 <= scores.obtainability <= 1:
            raise BadAnswer(f"{what}: its obtainability is {scores.obtainability}, and not from 0 to 1.")
        try:
            zone = last_part(recommendation.shards[0].zone)
        except Garbled as error:
            raise BadAnswer(f"{what}: {error}.") from None
        return CapacityAdvice(scores.obtainability, zone, _uptime(scores.estimated_uptime))
    return None


def _uptime(text: str) -> timedelta | None:
    seconds = _SECONDS.fullmatch(text or "")
    return timedelta(seconds=int(seconds[1])) if seconds else None


def spot_prices(official: Official, project: str, region: str, machine_type: str) -> Sequence[SpotListPrice]:
    """Returns the prices in US dollars an hour, oldest first; empty where Google has none. Raises CloudError."""
    answer = official.capacity_history(project, f"regions/{region}", machine_type, "PRICE")
    try:
        read = [_price(record) for record in answer.price_history if record.list_price.currency_code == "USD"]
    except Garbled as error:
        raise BadAnswer(f"The price history of {machine_type} in {region}: {error}.") from None
    return sorted(read, key=lambda one: one.since)


def _price(record: Any) -> SpotListPrice:
    """Reads a record. Without a start it holds since before all others, without an end it is the price of now."""
    money, interval = record.list_price, record.interval
    nanos = int(money.units) * NANOS_PER_DOLLAR + int(money.nanos)
    if nanos < 0:
        raise Garbled(f"a price is {nanos} nano-dollars")
    since = moment(interval.start_time) if interval.start_time else _BEFORE_ALL
    return SpotListPrice(since, moment(interval.end_time) if interval.end_time else None, Money(nanos))
