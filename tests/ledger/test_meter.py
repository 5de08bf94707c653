"""Meters: what they say of many VMs is what bills of each say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ledger.test_pricing_properties import KEY, books, lifetimes, moments

from costguard.ledger.meter import Begun, day_of, meter_of_shape, meter_of_storage, second_of
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import bill_lifetime, bill_storage
from costguard.model.instance import Shape
from costguard.model.lifetime import Lifetime, StorageSpan


@settings(max_examples=60)
@given(books(), lifetimes(), moments, st.lists(st.integers(0, 86_400_000_000), min_size=1, max_size=5))
def test_a_meter_says_what_bills_add_up_to(
    book: PriceBook, run: Lifetime, until: datetime, microseconds: list[int]
) -> None:
    """Of machines and of storage, whenever on that day each began, and whatever prices change meanwhile."""
    day = day_of(until)
    began = [min(until, day + (until - day) * (each / 86_400_000_000)) for each in microseconds]
    since = Begun(Counter(map(second_of, began)))
    run = replace(run, ended_at=None, end_reason=None)
    bills = [bill_lifetime(replace(run, started_at=each), book, until) for each in began]
    charges = [charge for bill in bills for charge in bill.charges]
    gpu = sum(charge.amount.nanos for charge in charges if charge.resource.startswith("gpu:"))
    seconds = sum(charge.seconds for charge in charges if charge.resource.endswith(":core"))
    meter = meter_of_shape(run.shape, "us-central1", run.provisioning_model, book, until)
    assert meter is not None
    assert meter.run_up(since) == (sum(bill.amount.nanos for bill in bills) - gpu, gpu, seconds)
    spans = [StorageSpan(KEY, "boot", "disk:pd-ssd", 1023, run.zone, each) for each in began]
    stored = meter_of_storage("disk:pd-ssd", 1023, "us-central1", book, until)
    assert stored is not None
    assert stored.run_up(since)[0] == sum(bill_storage(span, book, until).amount.nanos for span in spans)


@settings(max_examples=5)
@given(books(), moments)
def test_there_is_no_meter_without_a_price(book: PriceBook, until: datetime) -> None:
    """What lacks a price in any part, or is not known, is never metered as free."""
    for shape in (Shape("a3-highgpu-8g", 208, 1, "nvidia-h100-80gb", 8), Shape("n1-standard-4", 0, 0)):
        assert meter_of_shape(shape, "us-central1", next(iter(book.keys())).provisioning_model, book, until) is None
    for resource in ("disk:unheard-of", None):
        assert meter_of_storage(resource, 1024, "us-central1", book, until) is None
