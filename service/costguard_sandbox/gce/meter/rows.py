"""The bill as Cloud Billing exports it to BigQuery: one row per resource and hour, quantities whole, costs cut.

Sources: Google, "Structure of Detailed data export", and the recorded rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction

from costguard_sandbox.gce.catalogue.price_table import unit_of
from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.meter.months import seconds_of_month
from costguard_sandbox.gce.meter.rate import segments
from costguard_sandbox.gce.meter.usage import Span, spans, whole_seconds
from costguard_sandbox.gce.vm import VM

_HOUR = timedelta(hours=1)
_GIB = 2**30
# V-disk 0.071217891, K-kms 0.008805256: nine decimals of the price's unit, the rest cut off.
_QUANTITY_DECIMALS = Decimal("0.000000001")
# G-res2: sums agree to the last digit when each row's cost is cut, not rounded, at a millionth.
_COST_DECIMALS = Decimal("0.000001")
# usageUnit of the catalogue -> (usage.unit, usage.pricing_unit) of the export, as in V-disk and G-vx.
_EXPORT_UNITS = {
    "h": ("seconds", "hour"),
    "GiBy.h": ("byte-seconds", "gibibyte hour"),
    "GiBy.mo": ("byte-seconds", "gibibyte month"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """As exported: `amount` in base units, `in_pricing_units` with nine decimals, `cost` with six."""

    resource: str
    usage_start: datetime
    usage_end: datetime
    amount: Decimal
    unit: str
    in_pricing_units: Decimal
    pricing_unit: str
    price: Decimal
    cost: Decimal


def rows(vm: VM, prices: PriceList, until: datetime) -> Iterator[Row]:
    """The VM's rows, hour by hour of UTC; a new price within an hour makes a row of its own. Raises NoRate."""
    for span in spans(vm, until):
        yield from _of_span(span, vm.region, prices)


def _of_span(span: Span, region: str, prices: PriceList) -> Iterator[Row]:
    unit = unit_of(span.resource)
    for start, end, _ in segments(prices, span.resource, region, span.spot, span.began, span.ended):
        price = Decimal(prices.rate(span.resource, region, span.spot, start)[0]).scaleb(-9)
        began = start
        while began < end:
            hour = began.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            ended = min(hour + _HOUR, end)
            if seconds := whole_seconds(began, ended):
                yield made_row(span.resource, unit, span.quantity * seconds, price, hour)
            began = ended


def made_row(resource: str, unit: str, quantity_seconds: Fraction, price: Decimal, hour: datetime) -> Row:
    """One row from what was used in an hour, in units of quantity times seconds."""
    amount = quantity_seconds * (1 if unit == "h" else _GIB)
    used = amount / _base_units(unit, hour)
    name, pricing_name = _EXPORT_UNITS[unit]
    return Row(
        resource,
        hour,
        hour + _HOUR,
        cut(amount, _QUANTITY_DECIMALS).normalize(),
        name,
        cut(used, _QUANTITY_DECIMALS),
        pricing_name,
        price,
        cut(used * Fraction(price), _COST_DECIMALS),
    )


def _base_units(unit: str, hour: datetime) -> int:
    """How many base units (s or By.s) an hour, a GiB-hour, or a GiB-month of that month has."""
    seconds = seconds_of_month(hour) if unit == "GiBy.mo" else 3600
    return seconds if unit == "h" else _GIB * seconds


def cut(amount: Fraction, decimals: Decimal) -> Decimal:
    """What is beyond the last decimal is left off, never rounded."""
    with localcontext() as context:
        context.prec = 60
        return Decimal(int(amount / Fraction(decimals))) * decimals
