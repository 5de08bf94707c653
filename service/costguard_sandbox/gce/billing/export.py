"""The export: rows with costs, credits and times of their appends."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_DOWN, Decimal, localcontext
from fractions import Fraction
from typing import Any

from costguard_sandbox.gce.billing.credits import Credits, CreditType
from costguard_sandbox.gce.billing.planted import BillError, Planted, is_at, plan, with_wrong_usage
from costguard_sandbox.gce.billing.usage import Billed, HourOfUse, hours_of_use
from costguard_sandbox.gce.catalogue.prices import PriceList, unit_of
from costguard_sandbox.gce.catalogue.skus import SERVICE, sku_names
from costguard_sandbox.gce.meter.bill import cut, seconds_of_month
from costguard_sandbox.gce.vm import VM, Disk

_HOUR = timedelta(hours=1)
_GIB = 2**30
_MILLIONTH = Decimal("0.000001")
_BILLIONTH = Decimal("0.000000001")
# usageUnit of the catalogue -> (usage.unit, usage.pricing_unit), as in V-disk and G-vx.
_UNITS = {
    "h": ("seconds", "hour"),
    "GiBy.h": ("byte-seconds", "gibibyte hour"),
    "GiBy.mo": ("byte-seconds", "gibibyte month"),
}
_APPEND_EVERY = timedelta(hours=4)
# G-res2: one VM's hour comes as 3022 s and 79 s. How often Google cuts an hour is not known.
_CUT_SHARE = 0.3
_RAGGED_S = 240  # G-pd, V-disk: disk seconds of an hour are ragged; a day's are whole
_CARRIED_SHARE = 0.1  # G-res2-sum-a, G-pd-3: remainders seem to be carried now and then
_DEFAULT_MODEL = {"id": "7754-699E-0EBF", "description": "Default"}


@dataclass(frozen=True, slots=True)
class UnusedReservation:
    """Capacity that is paid for and not used, each hour from `since`: so many vCPUs of a resource such as `n1:core`."""

    billed: Billed
    resource: str
    quantity: int
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """`rate` is the currency's for a dollar. Rows come `least_late` to `most_late` after the end of their hour."""

    seed: int = 1
    account: str = "0189FA-E139FD-136A58"
    currency: str = "USD"
    rate: Decimal = Decimal(1)
    least_late: timedelta = timedelta(hours=1)
    most_late: timedelta = timedelta(hours=72)
    in_pieces: bool = True
    credits: frozenset[CreditType] = frozenset()
    committed_share: Fraction = Fraction(4, 5)
    promotion: Decimal = Decimal(0)
    errors: tuple[BillError, ...] = ()
    error_days: tuple[date, ...] = ()  # Pacific; none given: any day that has usage
    unused: tuple[UnusedReservation, ...] = ()


@dataclass(frozen=True, slots=True)
class BillingExport:
    """`rows` by export time, as BigQuery's JSON has them; every number is a text, so that no digit is lost."""

    rows: tuple[Mapping[str, Any], ...]
    planted: tuple[Planted, ...]
    export_times: tuple[datetime, ...] = field(repr=False)

    def until(self, moment: datetime) -> list[Mapping[str, Any]]:
        """Returns the rows that had been appended by then."""
        return [row for row, at in zip(self.rows, self.export_times, strict=True) if at <= moment]

    def partition(self, day: date, until: datetime | None = None) -> list[Mapping[str, Any]]:
        """Returns the rows that were appended on a UTC day."""
        return [
            row
            for row, at in zip(self.rows, self.export_times, strict=True)
            if at.date() == day and (until is None or at <= until)
        ]


def billing_export(
    vms: Iterable[VM],
    disks: Iterable[Disk],
    prices: PriceList,
    since: datetime,
    until: datetime,
    options: ExportOptions | None = None,
) -> BillingExport:
    """All rows of usage in hours from `since` to `until`. The same arguments give the same rows."""
    options = options or ExportOptions()
    draw = random.Random(f"{options.seed}/export")
    right = [*hours_of_use(vms, disks, prices, since, until), *_unused(options.unused, prices)]
    days = options.error_days or tuple(sorted({use.pacific_day for use in right}))
    planted = plan(options.errors, right, days, draw)
    usages = sorted(with_wrong_usage(right, planted), key=_order)
    maker = _Maker(options, planted, {(use.billed.id, use.sku_id, use.pacific_day): use for use in usages})
    made = [(at, row) for use in usages for at, row in maker.rows_of(use)]
    made += maker.repeated()
    made.sort(key=lambda one: one[0])
    return BillingExport(tuple(row for _, row in made), tuple(planted), tuple(at for at, _ in made))


def _order(use: HourOfUse) -> tuple[Any, ...]:
    return use.hour, use.billed.path, use.billed.id, use.resource, use.seconds


def _unused(reservations: Sequence[UnusedReservation], prices: PriceList) -> Iterator[HourOfUse]:
    for one in reservations:
        names = sku_names(prices, one.until)
        sku_id, sku_text = names[one.resource, one.billed.region, False]
        hour = one.since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        while hour < one.until:
            price = Decimal(prices.rate(one.resource, one.billed.region, False, hour)[0]).scaleb(-9)
            yield HourOfUse(
                one.billed, one.resource, False, hour, Fraction(one.quantity), 3600, price, sku_id, sku_text
            )
            hour += _HOUR


class _Maker:
    def __init__(
        self,
        options: ExportOptions,
        planted: Sequence[Planted],
        last_of_day: Mapping[tuple[str, str, date], HourOfUse],
    ) -> None:
        self._options = options
        self._last_of_day = last_of_day
        self._planted = planted
        self._credits = Credits(options.credits, options.committed_share, options.promotion)
        self._carried: dict[tuple[str, str], Fraction] = {}
        self._ragged: dict[tuple[str, str, date], int] = {}
        self._to_repeat: dict[Planted, tuple[Decimal, datetime, Mapping[str, Any]]] = {}

    def rows_of(self, use: HourOfUse) -> Iterator[tuple[datetime, Mapping[str, Any]]]:
        draw = random.Random(f"{self._options.seed}/{use.billed.id}/{use.resource}/{use.hour}/{use.seconds}")
        for seconds in self._pieces(use, draw):
            at = _appended(use.hour + _HOUR, self._options, draw)
            yield at, self._row(use, seconds, at, draw)

    def repeated(self) -> list[tuple[datetime, Mapping[str, Any]]]:
        """The dearest row of each place where one is to stand twice."""
        return [(at, row) for _, at, row in self._to_repeat.values()]

    def _pieces(self, use: HourOfUse, draw: random.Random) -> list[int]:
        seconds = use.seconds
        if use.billed.path == "disk" and self._options.in_pieces:
            seconds = self._ragged_seconds(use, draw)
        if not self._options.in_pieces or seconds < 2 or draw.random() > _CUT_SHARE:
            return [seconds] if seconds else []
        first = draw.randrange(1, seconds)
        return [first, seconds - first]

    def _ragged_seconds(self, use: HourOfUse, draw: random.Random) -> int:
        """Some seconds of a full hour come with the next; a day's sum is right."""
        key = use.billed.id, use.sku_id, use.pacific_day
        held = self._ragged.pop(key, 0)
        if use.seconds < 3600 or self._last_of_day[key] is use:
            return use.seconds + held
        keep = draw.randrange(_RAGGED_S)
        self._ragged[key] = keep
        return use.seconds + held - keep

    def _row(self, use: HourOfUse, seconds: int, at: datetime, draw: random.Random) -> Mapping[str, Any]:
        options, unit = self._options, unit_of(use.resource)
        name, pricing_unit = _UNITS[unit]
        amount = use.quantity * seconds * (1 if unit == "h" else _GIB)
        base = (seconds_of_month(use.hour) if unit == "GiBy.mo" else 3600) * (1 if unit == "h" else _GIB)
        used = amount / base
        price = Fraction(use.price) * Fraction(options.rate)
        cost = self._cost(use, used * price, draw)
        credits = [one.shown() for one in self._credits.of(use, seconds, cost)]
        row = {
            "billing_account_id": options.account,
            "service": {"id": SERVICE, "description": "Compute Engine"},
            "sku": {"id": use.sku_id, "description": use.sku_text},
            "usage_start_time": _time(use.hour),
            "usage_end_time": _time(use.hour + _HOUR),
            "project": _project(use.billed.project, use.billed.number),
            "labels": [{"key": key, "value": value} for key, value in sorted(use.billed.labels.items())],
            "system_labels": [{"key": key, "value": value} for key, value in sorted(use.billed.system_labels.items())],
            "location": {
                "location": use.billed.region,
                "country": None,
                "region": use.billed.region,
                "zone": use.billed.zone,
            },
            "resource": use.billed.resource(),
            "tags": [],
            "price": _price(price, pricing_unit, options.currency),
            "transaction_type": "GOOGLE",
            "export_time": _time(at),
            "cost": f"{cost:f}",
            "currency": options.currency,
            "currency_conversion_rate": f"{options.rate:f}",
            "usage": {
                "amount": _text(amount),
                "unit": name,
                "amount_in_pricing_units": f"{cut(used, _BILLIONTH):f}",
                "pricing_unit": pricing_unit,
            },
            "credits": credits,
            "invoice": {"month": f"{use.pacific_day:%Y%m}", "publisher_type": "GOOGLE"},
            "cost_type": "regular",
            "adjustment_info": {"id": None, "description": None, "mode": None, "type": None},
            "cost_at_list": f"{cost:f}",
            "consumption_model": _DEFAULT_MODEL,
        }
        return self._with_errors(use, row, cost, at)

    def _cost(self, use: HourOfUse, exact: Fraction, draw: random.Random) -> Decimal:
        """Cut at six decimals; now and then what was cut before is on a later row (G-res2-sum-a, G-pd-3)."""
        key = use.billed.id, use.sku_id
        carried = self._carried.get(key, Fraction(0)) if draw.random() < _CARRIED_SHARE else Fraction(0)
        cost = cut(exact + carried, _MILLIONTH)
        self._carried[key] = exact - Fraction(cut(exact, _MILLIONTH))
        return cost

    def _with_errors(self, use: HourOfUse, row: dict[str, Any], cost: Decimal, at: datetime) -> Mapping[str, Any]:
        for one in self._planted:
            if not is_at(use, one):
                continue
            if one.error is BillError.WRONG_PROJECT:
                number = str(int(use.billed.number) + 1)
                row["project"] = _project(f"not-{use.billed.project}", number)
                row["resource"] = {
                    name: text.replace(use.billed.number, number) for name, text in row["resource"].items()
                }
            elif one.error is BillError.WRONG_RATE:
                row["currency_conversion_rate"] = f"{self._options.rate * Decimal('1.03'):f}"
            elif one.error is BillError.REPEATED_CREDIT and use.is_uptime:
                promotion = {
                    "id": "Gift",
                    "name": "Gift",
                    "full_name": None,
                    "type": "PROMOTION",
                    "amount": f"{-cost:f}",
                }
                row["credits"] = [promotion, promotion]
            elif one.error is BillError.REPEATED_ROW and use.is_uptime:
                dearest = self._to_repeat.get(one)
                if dearest is None or cost > dearest[0]:
                    self._to_repeat[one] = cost, at, row
        return row


def _appended(end: datetime, options: ExportOptions, draw: random.Random) -> datetime:
    """Returns one of the few appends of a day, at a time with microseconds of its own, as V-disk's 01:49:02.981774."""
    span = options.most_late - options.least_late - _APPEND_EVERY
    late = options.least_late + max(span, timedelta(0)) * draw.random()
    number = -((datetime(1970, 1, 1, tzinfo=UTC) - (end + late)) // _APPEND_EVERY)
    at = datetime(1970, 1, 1, tzinfo=UTC) + number * _APPEND_EVERY
    jitter = random.Random(f"{options.seed}/append/{at}").randrange(60_000_000)
    return min(at + timedelta(microseconds=jitter), end + options.most_late)


def _price(price: Fraction, pricing_unit: str, currency: str) -> dict[str, Any]:
    """V-disk: in euros it is cut at six decimals; in dollars it is the list's own."""
    shown = cut(price, _MILLIONTH if currency != "USD" else _BILLIONTH).normalize()
    return {
        "effective_price": f"{shown:f}",
        "tier_start_amount": "0",
        "unit": pricing_unit,
        "pricing_unit_quantity": "1",
        "list_price": f"{shown:f}",
    }


def _project(project: str, number: str) -> dict[str, Any]:
    return {"id": project, "number": number, "name": project, "labels": [], "ancestry_numbers": None, "ancestors": []}


def _text(amount: Fraction) -> str:
    with localcontext() as context:
        context.prec = 60
        exact = Decimal(amount.numerator) / Decimal(amount.denominator)
        return f"{exact.quantize(_BILLIONTH, ROUND_DOWN).normalize():f}"


def _time(moment: datetime) -> str:
    text = f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"
    return f"{text.removesuffix('.000000')} UTC"
