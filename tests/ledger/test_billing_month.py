"""The month that Google bills by, and what storage costs in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import bill_lifetime, bill_storage, billed_seconds, storage_rate_per_hour
from costguard.model.billing.billing_month import billing_month, cut_by_month, seconds_of_month
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import Lifetime, StorageSpan
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, SpotUse, Unit
from costguard.spend.spot import spot_saving

KEY = InstanceKey("p", "1")
DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
# The rules of daylight saving time (15 U.S.C. 260a): from the second Sunday of March to the first of November.
HOURS = {
    2023: (744, 672, 743, 720, 744, 720, 744, 744, 720, 744, 721, 744),
    2024: (744, 696, 743, 720, 744, 720, 744, 744, 720, 744, 721, 744),
}
STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
GIB_PRICES = {("disk:pd-ssd", STANDARD): 170, ("local-ssd", STANDARD): 80, ("local-ssd", SPOT): 32}
EARLY = datetime(2020, 1, 1, tzinfo=UTC)
PRICES = [
    Price(PriceKey(resource, "us-central1", model), Unit.GIB_MONTH, mills * 1_000_000, EARLY, "test", id=number)
    for number, ((resource, model), mills) in enumerate(GIB_PRICES.items(), 1)
] + [
    Price(PriceKey(f"z1:{part}", "us-central1", model), unit, 1, EARLY, "test", id=9)
    for part, unit in (("core", Unit.HOUR), ("ram", Unit.GIB_HOUR))
    for model in (STANDARD, SPOT)
]
BOOK = PriceBook(PRICES)
MOMENTS = st.integers(0, 11 * 365 * 86_400).map(lambda second: datetime(2019, 1, 1, tzinfo=UTC) + second * SECOND)
# Around the end of October in Pacific time, which is 07:00 on 1 November in UTC.
END = datetime(2026, 11, 1, 7, tzinfo=UTC)


@pytest.mark.parametrize("year", HOURS)
def test_months_have_the_hours_of_pacific_time(year: int) -> None:
    """A March has an hour less than its days, a November one more, and a February follows the leap year."""
    mid_months = [datetime(year, month, 15, tzinfo=UTC) for month in range(1, 13)]
    assert tuple(seconds_of_month(month) // 3600 for month in mid_months) == HOURS[year]
    starts = [billing_month(month)[0] for month in mid_months]
    assert {start.hour for start in starts[:3]} == {8}
    assert {start.hour for start in starts[3:11]} == {7}
    assert starts[11].hour == 8


@given(MOMENTS)
def test_a_moment_lies_in_its_month(moment: datetime) -> None:
    """Months follow each other without a gap, and each instant belongs to one."""
    start, end = billing_month(moment)
    assert start <= moment < end
    assert billing_month(end)[0] == end
    assert billing_month(start - timedelta(microseconds=1))[1] == start


@given(MOMENTS, st.timedeltas(-DAY, 400 * DAY))
def test_cuts_at_months_tile_the_time(start: datetime, span: timedelta) -> None:
    """Pieces join up, none reaches over a month's end, and nothing is cut of nothing."""
    pieces = list(cut_by_month(start, start + span))
    assert sum((end - begin for begin, end in pieces), timedelta()) == max(span, timedelta())
    assert all(one[1] == other[0] for one, other in pairwise(pieces))
    assert all(end <= billing_month(begin)[1] for begin, end in pieces)


@pytest.mark.parametrize("year", HOURS)
def test_every_month_costs_its_monthly_price(year: int) -> None:
    """500 GiB from the first of a month to the next cost 500 times the price, in a leap year and in a common one."""
    monthly, total = 500 * 170_000_000, 0
    for month in range(1, 13):
        start, end = billing_month(datetime(year, month, 15, tzinfo=UTC))
        bill = bill_storage(StorageSpan(KEY, "d", "disk:pd-ssd", 500 * 1024, "us-central1-a", start, end), BOOK, end)
        assert abs(bill.amount.nanos - monthly) <= len(bill.charges), month
        total += bill.amount.nanos
    assert abs(total - 12 * monthly) < Money.of("0.01").nanos // 2


def test_a_day_is_cut_where_the_pacific_month_ends() -> None:
    """The first of November holds seven hours of an October of 744 hours and seventeen of a November of 721."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    span = StorageSpan(KEY, "d", "disk:pd-ssd", 1024, "us-central1-a", start, start + DAY)
    charges = bill_storage(span, BOOK, start + DAY).charges
    assert [(charge.started_at, charge.ended_at, charge.day) for charge in charges] == [
        (start, END, start.date()),
        (END, start + DAY, start.date()),
    ]
    assert [charge.amount.nanos for charge in charges] == [
        round(Fraction(170_000_000 * 7, 744)),
        round(Fraction(170_000_000 * 17, 721)),
    ]


def test_what_is_priced_by_the_hour_is_not_cut_there() -> None:
    """A month's end means nothing to vCPUs and memory; local SSD is priced by the month."""
    run = Lifetime(KEY, END - HOUR, Shape("z1-ssd", 1, 1024, None, 0, 375), STANDARD, "us-central1-a")
    charges = bill_lifetime(run, BOOK, END + HOUR).charges
    seconds = {
        part: [charge.seconds for charge in charges if charge.resource == part] for part in ("z1:core", "local-ssd")
    }
    assert seconds == {"z1:core": [7200], "local-ssd": [3600, 3600]}
    october, november = [charge.amount.nanos for charge in charges if charge.resource == "local-ssd"]
    assert (october, november) == (round(Fraction(375 * 80_000_000, 744)), round(Fraction(375 * 80_000_000, 721)))


def test_the_rate_an_hour_follows_the_month() -> None:
    """The figure per hour is that of an hour of this month; a stopped VM's disk costs more in February."""
    rates = {
        at.month: storage_rate_per_hour("disk:pd-ssd", 1024, "us-central1", BOOK, at)
        for at in (datetime(2026, 2, 10, tzinfo=UTC), datetime(2026, 5, 10, tzinfo=UTC))
    }
    assert rates == {2: Money(round(Fraction(170_000_000, 672))), 5: Money(round(Fraction(170_000_000, 744)))}


@given(MOMENTS, st.timedeltas(HOUR, 40 * DAY))
def test_rates_and_bills_agree(start: datetime, span: timedelta) -> None:
    """An hour within a month bills what the rate said, whatever the month."""
    at = start.replace(minute=0, second=0, microsecond=0)
    disk = StorageSpan(KEY, "d", "disk:pd-ssd", 1024, "us-central1-a", at, at + HOUR)
    rate = storage_rate_per_hour("disk:pd-ssd", 1024, "us-central1", BOOK, at)
    assert rate == bill_storage(disk, BOOK, at + HOUR).amount
    assert billed_seconds(at, at + span) >= 3600


def test_rates_that_are_kept_hold_until_the_month_ends() -> None:
    """The rates are not unchanged beyond the month with a monthly price; without one they are, for ever."""
    assert BOOK.unchanged_around(END - HOUR) == (datetime(2026, 10, 1, 7, tzinfo=UTC), END)
    assert BOOK.unchanged_around(END) == (END, datetime(2026, 12, 1, 8, tzinfo=UTC))
    hourly = Price(PriceKey("z1:core", "us-central1", STANDARD), Unit.HOUR, 1, END, "test")
    assert PriceBook([hourly]).unchanged_around(END + HOUR) == (END, None)


def test_what_spot_local_ssd_saved_over_a_month_s_end_is_exact() -> None:
    """Added up over days of two months, it is held against what the same run costs on demand."""
    shape = Shape("z1-ssd", 1, 1024, None, 0, 375)
    bills = {
        model: bill_lifetime(Lifetime(KEY, END - 2 * DAY, shape, model, "us-central1-a"), BOOK, END + 3 * DAY)
        for model in (STANDARD, SPOT)
    }
    paid = [charge for charge in bills[SPOT].charges if charge.resource == "local-ssd"]
    prices = {price.id: price for price in PRICES if price.id is not None}
    amount = sum((one.quantity * one.seconds for one in paid), Fraction(0))
    cost = Money(sum(one.amount.nanos for one in paid))
    saving = spot_saving([SpotUse((END - 2 * DAY).date(), paid[0].price_id, amount, cost)], prices, BOOK)
    on_demand = sum(charge.amount.nanos for charge in bills[STANDARD].charges if charge.resource == "local-ssd")
    assert abs(saving.on_demand.nanos - on_demand) <= 3 * len(paid)
