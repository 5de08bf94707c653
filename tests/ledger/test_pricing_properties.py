"""Every bill has nothing lost, nothing twice, nothing negative."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import MINIMUM, Bill, bill_lifetime, bill_storage, billed_seconds
from costguard.model.instance import LIST_PRICED, InstanceKey, Shape
from costguard.model.lifetime import EndReason, Lifetime, StorageSpan
from costguard.model.price import Price, PriceKey, Unit

T0 = datetime(2026, 2, 27, 22, 30, tzinfo=UTC)
KEY = InstanceKey("p", "1")
RESOURCES = ("n1:core", "n1:ram", "gpu:nvidia-tesla-t4", "local-ssd", "disk:pd-ssd")
UNITS = dict(zip(RESOURCES, (Unit.HOUR, Unit.GIB_HOUR, Unit.HOUR, Unit.GIB_MONTH, Unit.GIB_MONTH), strict=True))

microseconds = st.integers(0, 6 * 86_400_000_000)
moments = microseconds.map(lambda value: T0 + timedelta(microseconds=value))


@st.composite
def books(draw: st.DrawFn) -> PriceBook:
    """Prices of every resource, on-demand and Spot, that change at any moment."""
    return PriceBook(
        Price(PriceKey(resource, "us-central1", model), UNITS[resource], rate, since, "test")
        for resource in RESOURCES
        for model in LIST_PRICED
        for since, rate in draw(st.dictionaries(moments, st.integers(0, 10**11), min_size=1, max_size=4)).items()
    )


@st.composite
def lifetimes(draw: st.DrawFn) -> Lifetime:
    start, end = sorted((draw(moments), draw(moments)))
    is_open = draw(st.booleans())
    shape = Shape("n1-standard-4", draw(st.integers(1, 96)), draw(st.integers(1, 10**6)), "nvidia-tesla-t4", 1, 375)
    return Lifetime(
        KEY,
        start,
        shape,
        draw(st.sampled_from(LIST_PRICED)),
        "us-central1-a",
        None if is_open else end,
        None if is_open else draw(st.sampled_from([EndReason.STOPPED, EndReason.PREEMPTED])),
    )


def seconds(*bills: Bill) -> dict[str, int]:
    sums: dict[str, int] = {}
    for bill in bills:
        for charge in bill.charges:
            sums[charge.resource] = sums.get(charge.resource, 0) + charge.seconds
    return {resource: total for resource, total in sums.items() if total}


@settings(max_examples=60, deadline=None)
@given(lifetimes(), books(), moments, moments)
def test_any_cut_adds_up_to_the_whole(lifetime: Lifetime, book: PriceBook, until: datetime, cut: datetime) -> None:
    """Billing up to a moment and on from it gives the same seconds, and the same dollars to a nano per charge."""
    until += MINIMUM
    whole = bill_lifetime(lifetime, book, until)
    first = bill_lifetime(lifetime, book, min(cut, until))
    second = bill_lifetime(lifetime, book, until, since=cut)
    assert seconds(first, second) == seconds(whole)
    pieces = len(first.charges) + len(second.charges) + len(whole.charges)
    assert abs(first.amount.nanos + second.amount.nanos - whole.amount.nanos) <= pieces


@settings(max_examples=60, deadline=None)
@given(lifetimes(), books(), moments)
def test_charges_tile_the_time(lifetime: Lifetime, book: PriceBook, until: datetime) -> None:
    """The charges of one resource follow each other without gap or overlap, each within one UTC day."""
    bill = bill_lifetime(lifetime, book, until)
    for resource in {charge.resource for charge in bill.charges}:
        mine = [charge for charge in bill.charges if charge.resource == resource]
        assert mine[0].started_at == lifetime.started_at
        assert all(one.ended_at == next_.started_at for one, next_ in pairwise(mine))
        assert mine[-1].ended_at <= until
        for charge in mine:
            assert charge.started_at.date() == charge.day == (charge.ended_at - timedelta(microseconds=1)).date()
            assert charge.seconds == billed_seconds(charge.started_at, charge.ended_at)


@settings(max_examples=60, deadline=None)
@given(lifetimes(), books(), moments)
def test_no_amount_is_negative(lifetime: Lifetime, book: PriceBook, until: datetime) -> None:
    """Time never earns money, whichever moments a bill is asked for."""
    bill = bill_lifetime(lifetime, book, until)
    assert all(charge.amount.nanos >= 0 and charge.seconds >= 0 for charge in bill.charges)
    assert bill.unpriced == ""


@settings(max_examples=60, deadline=None)
@given(moments, moments, st.integers(1, 10**8), books(), moments)
def test_storage_adds_up_too(start: datetime, end: datetime, size: int, book: PriceBook, cut: datetime) -> None:
    """A disk's bill up to a moment and on from it is its bill."""
    start, end = sorted((start, end))
    span = StorageSpan(KEY, "boot", "disk:pd-ssd", size, "us-central1-a", start, end)
    whole = bill_storage(span, book, end)
    parts = bill_storage(span, book, cut), bill_storage(span, book, end, since=cut)
    assert seconds(*parts) == seconds(whole)
    assert sum(seconds(whole).values()) == billed_seconds(start, end)
