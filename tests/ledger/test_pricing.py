"""Lifetimes and storage have a cost."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction

import pytest

from costguard.ledger.billed.machine_parts import parts_of_shape
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import (
    amount_of,
    bill_lifetime,
    bill_storage,
    billed_seconds,
    rate_per_hour,
    storage_rate_per_hour,
)
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import EndReason, Lifetime, StorageSpan
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit

KEY = InstanceKey("p", "1")
T0 = datetime(2026, 3, 10, 9, 0, tzinfo=UTC)
EARLY = datetime(2026, 1, 1, tzinfo=UTC)
STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
T4_HOST = Shape("n1-standard-4", 4, 15 * 1024, "nvidia-tesla-t4", 1)


def price(
    resource: str,
    nanos: int,
    since: datetime = EARLY,
    model: ProvisioningModel = STANDARD,
    unit: Unit = Unit.HOUR,
    id_: int = 1,
) -> Price:
    return Price(PriceKey(resource, "us-central1", model), unit, nanos, since, "test", id=id_)


BOOK_PRICES = (
    price("n1:core", 31_611_000),
    price("n1:ram", 4_237_000, unit=Unit.GIB_HOUR),
    price("gpu:nvidia-tesla-t4", 350_000_000),
    price("n1:core", 8_000_000, model=SPOT),
    price("n1:ram", 1_070_000, model=SPOT, unit=Unit.GIB_HOUR),
    price("gpu:nvidia-tesla-t4", 140_000_000, model=SPOT),
    price("disk:pd-balanced", 100_000_000, unit=Unit.GIB_MONTH),
    price("suspended-memory", 200_000, unit=Unit.GIB_HOUR),
)
BOOK = PriceBook(BOOK_PRICES)


def run(
    seconds: float | None,
    model: ProvisioningModel = STANDARD,
    reason: EndReason | None = EndReason.STOPPED,
    shape: Shape = T4_HOST,
    start: datetime = T0,
) -> Lifetime:
    ended = None if seconds is None else start + timedelta(seconds=seconds)
    return Lifetime(KEY, start, shape, model, "us-central1-a", ended, reason if ended else None)


def test_an_hour_of_a_t4_costs_the_sum_of_google_s_figures() -> None:
    """A VM costs its vCPUs, its memory and its GPU, at the list price of each."""
    bill = bill_lifetime(run(3600), BOOK, T0 + timedelta(days=1))
    assert bill.amount == Money.of("0.539999")
    assert bill.unpriced == ""
    assert {charge.resource: charge.amount for charge in bill.charges} == {
        "n1:core": Money.of("0.126444"),
        "n1:ram": Money.of("0.063555"),
        "gpu:nvidia-tesla-t4": Money.of("0.35"),
    }


def test_a_short_run_is_billed_a_minute() -> None:
    """A run under a minute bills as a minute, from the start of the run on."""
    bill = bill_lifetime(run(5), BOOK, T0 + timedelta(days=1))
    assert {charge.seconds for charge in bill.charges} == {60}
    assert {charge.ended_at for charge in bill.charges} == {T0 + timedelta(seconds=60)}


def test_local_ssd_has_no_minimum() -> None:
    """Google charges "all vCPUs, GPUs, and GB of memory" for a minute at least, and disks by the second."""
    host = Shape("n1-standard-4", 4, 15 * 1024, None, 0, local_ssd_gib=375)
    book = PriceBook([*BOOK_PRICES, price("local-ssd", 80_000_000, unit=Unit.GIB_MONTH)])
    bill = bill_lifetime(run(5, shape=host), book, T0 + timedelta(days=1))
    assert {charge.resource: charge.seconds for charge in bill.charges} == {"n1:core": 60, "n1:ram": 60, "local-ssd": 5}


def test_the_minimum_is_cut_at_midnight_like_everything_else() -> None:
    """A run of five seconds that starts a moment before midnight bills its minute on two days."""
    bill = bill_lifetime(run(5, start=datetime(2026, 3, 10, 23, 59, 50, tzinfo=UTC)), BOOK, T0 + timedelta(days=5))
    seconds = {charge.day: charge.seconds for charge in bill.charges}
    assert seconds == {date(2026, 3, 10): 10, date(2026, 3, 11): 50}


@pytest.mark.parametrize(
    ("seconds", "model", "reason", "billed"),
    [
        (59.9, SPOT, EndReason.PREEMPTED, 0),
        (60, SPOT, EndReason.PREEMPTED, 60),
        (30, SPOT, EndReason.STOPPED, 60),
        (30, STANDARD, EndReason.PREEMPTED, 60),
        (30, SPOT, EndReason.HOST_ERROR, 60),
    ],
)
def test_only_a_preempted_spot_vm_has_a_free_first_minute(
    seconds: float, model: ProvisioningModel, reason: EndReason, billed: int
) -> None:
    """A Spot VM that Google takes back within a minute of its start costs nothing; any other end bills a minute."""
    bill = bill_lifetime(run(seconds, model, reason), BOOK, T0 + timedelta(days=1))
    assert sum(charge.seconds for charge in bill.charges if charge.resource == "n1:core") == billed


def test_an_open_run_is_billed_up_to_the_asked_moment() -> None:
    """Nothing is assumed of a run's future, its minimum included."""
    bill = bill_lifetime(run(None), BOOK, T0 + timedelta(seconds=20))
    assert {charge.seconds for charge in bill.charges} == {20}


def test_a_new_price_cuts_the_charge() -> None:
    """Each second costs what it cost at that second."""
    change = T0 + timedelta(minutes=30)
    book = PriceBook([price("n1:core", 100, id_=1), price("n1:core", 200, change, id_=2), price("n1:ram", 0)])
    bill = bill_lifetime(run(3600, shape=Shape("n1-standard-1", 1, 1024)), book, T0 + timedelta(hours=2))
    cores = [(c.price_id, c.seconds, c.amount.nanos) for c in bill.charges if c.resource == "n1:core"]
    assert cores == [(1, 1800, 50), (2, 1800, 100)]


def test_before_the_first_price_the_first_one_holds() -> None:
    """A VM older than the oldest known price is priced at that one, not at nothing."""
    book = PriceBook([price("disk:pd-ssd", 743 * 3600, T0, unit=Unit.GIB_MONTH)])
    span = StorageSpan(KEY, "d", "disk:pd-ssd", 1024, "us-central1-a", T0 - timedelta(days=1), T0)
    assert sum(c.amount.nanos for c in bill_storage(span, book, T0).charges) == 86400


def test_disks_bill_by_the_calendar_month_and_never_at_spot_prices() -> None:
    """100 GiB at $0.10 cost ten dollars in the 743 hours of a March."""
    march = datetime(2026, 3, 1, 8, tzinfo=UTC)
    span = StorageSpan(KEY, "boot", "disk:pd-balanced", 100 * 1024, "us-central1-a", march)
    bill = bill_storage(span, BOOK, march + timedelta(hours=743))
    assert abs(bill.amount.nanos - 10_000_000_000) <= len(bill.charges)


def test_what_has_no_price_is_named_and_the_rest_is_charged() -> None:
    """An unpriced GPU is loud, and the host is charged all the same."""
    shape = Shape("n1-standard-4", 4, 15 * 1024, "nvidia-tesla-p4", 1)
    bill = bill_lifetime(run(3600, shape=shape), BOOK, T0 + timedelta(days=1))
    assert bill.unpriced == (
        "No price is known for gpu:nvidia-tesla-p4 (on-demand) in us-central1: it is priced once Google's catalogue "
        "was read and lists it. Leave `enabled` under [prices] on, and enable the Cloud Billing API "
        "(cloudbilling.googleapis.com)."
    )
    assert {charge.resource for charge in bill.charges} == {"n1:core", "n1:ram"}
    assert rate_per_hour(shape, "us-central1", STANDARD, BOOK, T0) is None


def test_a_missing_spot_price_is_never_replaced_by_the_on_demand_one() -> None:
    """Spot and on-demand prices do not stand in for each other."""
    book = PriceBook([price("n1:core", 1), price("n1:ram", 1)])
    bill = bill_lifetime(run(3600, SPOT, shape=Shape("n1-standard-1", 1, 1024)), book, T0 + timedelta(days=1))
    assert bill.charges == ()
    assert "n1:core (Spot) in us-central1, n1:ram (Spot) in us-central1" in bill.unpriced


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (ProvisioningModel.FLEX_START, "n1:core (flex-start) in us-central1, n1:ram (flex-start)"),
        (ProvisioningModel.RESERVATION_BOUND, "n1:core (reservation-bound) in us-central1, n1:ram (reservation-bound)"),
    ],
)
def test_what_is_sold_at_other_prices_is_unpriced(model: ProvisioningModel, said: str) -> None:
    """Flex-start costs up to 53 % less than on demand: at the list price, a VM would seem twice as dear as it is."""
    bill = bill_lifetime(run(3600, model), BOOK, T0 + timedelta(days=1))
    assert bill.charges == ()
    assert bill.unpriced.startswith(f"No price is known for {said}")
    assert rate_per_hour(T4_HOST, "us-central1", model, BOOK, T0) is None
    advice = "what others cost is in their contract" if model is ProvisioningModel.RESERVATION_BOUND else "[prices]"
    assert advice in bill.unpriced


def test_a_flex_start_vm_is_billed_at_its_own_prices() -> None:
    """An hour at half of each price, and the minute that any VM pays at least."""
    flex = ProvisioningModel.FLEX_START
    halves = [
        replace(
            one, key=replace(one.key, provisioning_model=flex), rate_nanos=one.rate_nanos // 2, id=(one.id or 0) + 50
        )
        for one in BOOK_PRICES
        if one.key.provisioning_model is STANDARD
    ]
    book = PriceBook((*BOOK_PRICES, *halves))
    usual = bill_lifetime(run(3600), book, T0 + timedelta(days=1))
    bill = bill_lifetime(run(3600, flex), book, T0 + timedelta(days=1))
    assert bill.unpriced == ""
    assert bill.amount.nanos == pytest.approx(usual.amount.nanos / 2, abs=5)
    assert {charge.price_id for charge in bill.charges}.isdisjoint({charge.price_id for charge in usual.charges})
    brief = bill_lifetime(replace(run(30, flex), end_reason=EndReason.PREEMPTED), book, T0 + timedelta(days=1))
    assert {charge.seconds for charge in brief.charges} == {60}


def test_an_unknown_machine_type_or_disk_type_says_what_to_do() -> None:
    """An unread type is not priced at zero; the sentence names the permission that is missing."""
    lifetime = run(3600, shape=Shape("z9-secret-4", 0, 0))
    assert "compute.machineTypes.get" in bill_lifetime(lifetime, BOOK, T0 + timedelta(days=1)).unpriced
    span = StorageSpan(KEY, "boot", None, 10, "us-central1-a", T0)
    assert "compute.disks.list" in bill_storage(span, BOOK, T0 + timedelta(days=1)).unpriced


def test_shared_core_machines_bill_a_share_of_a_core() -> None:
    """An e2-medium shows two vCPUs and bills one."""
    cores = {name: parts_of_shape(Shape(name, 2, 1024))[0].quantity for name in ("e2-micro", "e2-small", "e2-medium")}
    assert cores == {"e2-micro": Fraction(1, 4), "e2-small": Fraction(1, 2), "e2-medium": Fraction(1)}


def test_parts_of_a_large_vm() -> None:
    """vCPUs, memory in GiB, GPUs and local SSD are billed apart."""
    shape = Shape("a2-ultragpu-1g", 12, 170 * 1024, "nvidia-a100-80gb", 1, 375)
    assert [(part.resource, int(part.quantity)) for part in parts_of_shape(shape)] == [
        ("a2:core", 12),
        ("a2:ram", 170),
        ("gpu:nvidia-a100-80gb", 1),
        ("local-ssd", 375),
    ]


def test_rates_per_hour() -> None:
    """The rate of a VM is the sum of its parts; that of a disk is its price divided by the hours of the month."""
    assert rate_per_hour(T4_HOST, "us-central1", STANDARD, BOOK, T0) == Money.of("0.539999")
    assert storage_rate_per_hour("disk:pd-balanced", 743 * 1024, "us-central1", BOOK, T0) == Money.of("0.1")
    assert storage_rate_per_hour(None, 10, "us-central1", BOOK, T0) is None


def test_billed_seconds_count_boundaries_of_the_clock() -> None:
    """0.9 s over a second's turn is one second, 0.9 s within a second is none, so that cuts add up."""
    at = datetime(2026, 3, 10, 9, 0, 0, 500_000, tzinfo=UTC)
    assert billed_seconds(at, at + timedelta(seconds=0.9)) == 1
    assert billed_seconds(at - timedelta(seconds=0.5), at + timedelta(seconds=0.4)) == 0


@pytest.mark.parametrize(
    ("nanos", "seconds", "charged"), [(3600, 1, 1), (5400, 1, 2), (1800, 1, 0), (9000, 1, 2), (2000, 1, 1)]
)
def test_a_charge_is_rounded_to_the_nearest_nano_dollar(nanos: int, seconds: int, charged: int) -> None:
    """A half goes to the even one, so that many charges are neither too high nor too low in sum."""
    assert amount_of(price("n1:core", nanos), Fraction(1), seconds, T0) == Money(charged)


def test_a_disk_is_billed_until_it_is_deleted() -> None:
    """The disk costs no more at a later moment."""
    span = StorageSpan(KEY, "d", "disk:pd-balanced", 100 * 1024, "us-central1-a", T0, T0 + timedelta(hours=1))
    deleted = bill_storage(span, BOOK, T0 + timedelta(hours=1))
    assert deleted.amount > Money()
    assert bill_storage(span, BOOK, T0 + timedelta(days=9)) == deleted


def test_a_rate_is_that_of_its_moment() -> None:
    """An hour costs the price in force then: the first from before it, the later from the moment on that it begins."""
    later = T0 + timedelta(days=1)
    doubled = [price(one.key.resource, one.rate_nanos * 2, later, unit=one.unit) for one in BOOK_PRICES[:3]]
    book = PriceBook((*BOOK_PRICES, *doubled))
    rates = [
        rate_per_hour(T4_HOST, "us-central1", STANDARD, book, at) for at in (T0, later - timedelta(seconds=1), later)
    ]
    assert rates == [Money.of("0.539999"), Money.of("0.539999"), Money.of("1.079998")]
