"""External addresses in use belong to a VM's cost from the look that first recorded them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.builders import KEY, at, operation, seen

from costguard.gce.prices import snapshot_prices
from costguard.ledger.accrual import figures_of
from costguard.ledger.billed.addresses import IN_USE, IN_USE_ON_SPOT
from costguard.ledger.observe import Belonging, KnownFacts, account
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_book import PriceBook
from costguard.ledger.pricing import bill_storage, storage_rate_per_hour
from costguard.model.instance import ProvisioningModel, SeenInstance, Status
from costguard.model.lifetime import ADDRESS, ONE_ADDRESS, StorageSpan
from costguard.model.money import Money
from costguard.model.observation import SeenOperation
from costguard.model.record import KnownInstance

BELONGING = Belonging((), OwnerRules())
SHIPPED = PriceBook(replace(price, id=n) for n, price in enumerate(snapshot_prices(), 1))
Spans = list[tuple[str, str | None]]


class _Books:
    """The ledger of one VM, look after look."""

    def __init__(self) -> None:
        self.stored: KnownInstance | None = None
        self.operations: list[SeenOperation] = []

    def look(self, read: str, listed: SeenInstance | None, *news: SeenOperation, absent: bool = False) -> None:
        self.operations += news
        facts = KnownFacts(self.stored, listed, self.operations, at(read), at("09:00"), absent)
        entry = account(KEY, facts, BELONGING)
        assert entry is not None
        lives = {life.started_at: life for life in (self.stored.lifetimes if self.stored else ())}
        spans = {(span.name, span.started_at): span for span in (self.stored.storage if self.stored else ())}
        lives |= {life.started_at: replace(life, id=1) for life in entry.lifetimes}
        spans |= {(span.name, span.started_at): replace(span, id=1) for span in entry.storage}
        self.stored = KnownInstance(1, entry.record, tuple(lives.values()), tuple(spans.values()))
        again = account(KEY, replace(facts, stored=self.stored), BELONGING)
        assert again is not None
        assert again.storage == (), "the same look, once more, changes something"

    @property
    def spans(self) -> list[StorageSpan]:
        held = self.stored.storage if self.stored else ()
        return sorted((span for span in held if span.name == ADDRESS), key=lambda span: span.started_at)

    @property
    def times(self) -> Spans:
        return [(f"{s.started_at:%H:%M}", f"{s.ended_at:%H:%M}" if s.ended_at else None) for s in self.spans]


def _running(count: int = 1, started: str = "10:00", **given: Any) -> SeenInstance:
    return seen(started=started, external_addresses=count, **given)


def _stopped(count: int = 0) -> SeenInstance:
    return seen(Status.STOPPED, last_stopped_at="12:00", external_addresses=1, kept_addresses=count)


def test_ephemeral_address_bills_while_its_vm_runs() -> None:
    """It is released with the stop."""
    books = _Books()
    books.look("10:05", _running(), operation("insert", "09:59", "10:00"))
    assert books.times == [("10:00", None)]
    books.look("12:05", _stopped(), operation("stop", "12:00", "12:01"))
    assert books.times == [("10:00", "12:00")]
    books.look("14:05", _running(started="14:00"), operation("start", "13:59", "14:00"))
    assert books.times == [("10:00", "12:00"), ("14:00", None)]


def test_static_address_bills_on_while_its_vm_is_stopped() -> None:
    """Google's price page: in use "whether the instance is running or stopped"."""
    books = _Books()
    books.look("10:05", _running(), operation("insert", "09:59", "10:00"))
    books.look("12:05", _stopped(1), operation("stop", "12:00", "12:01"))
    assert books.times == [("10:00", "12:00"), ("12:00", None)]
    books.look("14:05", _running(started="14:00"), operation("start", "13:59", "14:00"))
    assert books.times == [("10:00", "12:00"), ("12:00", "14:00"), ("14:00", None)]
    books.look("15:05", None, operation("delete", "15:00", "15:01"))
    assert books.times[-1] == ("14:00", "15:00")


def test_address_is_not_billed_before_the_look_that_first_recorded_it() -> None:
    """Nothing says since when a run that was known before has had it."""
    books = _Books()
    books.look("10:05", _running(0), operation("insert", "09:59", "10:00"))
    books.look("11:00", _running(1))
    assert books.times == [("11:00", None)]


def test_address_that_is_added_and_taken_away_bills_in_between() -> None:
    """Operations say when each came and went."""
    books = _Books()
    books.look("10:05", _running(0), operation("insert", "09:59", "10:00"))
    books.look("11:05", _running(1), operation("addAccessConfig", "11:01", "11:02"))
    books.look("12:05", _running(0), operation("deleteAccessConfig", "12:01", "12:02"))
    assert books.times == [("11:02", "12:02")]


def test_second_address_begins_a_span_of_two() -> None:
    """The span of one ends there."""
    books = _Books()
    books.look("10:05", _running(1), operation("insert", "09:59", "10:00"))
    books.look("11:05", _running(2))
    assert [span.addresses for span in books.spans] == [1, 2]
    assert books.times == [("10:00", "11:05"), ("11:05", None)]


def test_run_that_came_and_went_between_looks_had_the_address_of_before() -> None:
    """No look saw the run, and its configuration is that of the run before."""
    books = _Books()
    books.look("10:05", _running(), operation("insert", "09:59", "10:00"))
    news = [operation("stop", "11:00", "11:01"), operation("start", "11:10", "11:11")]
    books.look("12:05", _stopped(), *news, operation("stop", "12:00", "12:01"))
    assert books.times == [("10:00", "11:00"), ("11:11", "12:00")]


def test_static_address_that_is_given_back_ends_with_the_look_that_missed_it() -> None:
    """No operation on the VM tells of it."""
    books = _Books()
    books.look("10:05", _running(), operation("insert", "09:59", "10:00"))
    books.look("12:05", _stopped(1), operation("stop", "12:00", "12:01"))
    books.look("13:05", _stopped(0))
    assert books.times == [("10:00", "12:00"), ("12:00", "13:05")]


def test_vm_first_seen_off_had_its_address_while_it_ran() -> None:
    """A listing says of a VM that is off that it has an address while it runs, and leaves out the number."""
    books = _Books()
    books.look("12:05", _stopped(), operation("insert", "09:59", "10:00"), operation("stop", "12:00", "12:01"))
    assert books.times == [("10:00", "12:00")]


def test_run_whose_end_is_corrected_takes_its_address_along() -> None:
    """Both end at the same moment."""
    books = _Books()
    books.look("10:05", _running(), operation("insert", "09:59", "10:00"))
    books.look("12:05", _stopped())
    assert books.times == [("10:00", "12:00")]
    books.look("12:10", _stopped(), operation("stop", "11:58", "12:00"))
    assert books.times == [("10:00", "11:58")]


def test_vm_without_an_address_has_no_span_of_one() -> None:
    """It runs and stops as any other."""
    books = _Books()
    books.look("10:05", _running(0), operation("insert", "09:59", "10:00"))
    books.look("12:05", seen(Status.STOPPED, last_stopped_at="12:00"), operation("stop", "12:00", "12:01"))
    assert books.spans == []


@pytest.mark.parametrize(
    ("model", "resource", "an_hour"),
    [
        (ProvisioningModel.STANDARD, IN_USE, "0.005"),
        (ProvisioningModel.FLEX_START, IN_USE, "0.005"),
        (ProvisioningModel.SPOT, IN_USE_ON_SPOT, "0.0025"),
    ],
)
def test_address_costs_googles_price_and_spot_half(model: ProvisioningModel, resource: str, an_hour: str) -> None:
    """Google's price page and catalogue: SKUs C054-7F72-A02E and 4AF8-7C1F-39C4."""
    books = _Books()
    books.look("10:05", _running(provisioning_model=model), operation("insert", "09:59", "10:00"))
    (span,) = books.spans
    assert span.resource == resource
    rate = storage_rate_per_hour(
        span.resource, span.size_mib, "europe-west4", SHIPPED, datetime(2026, 11, 1, tzinfo=UTC)
    )
    assert rate == Money.of(an_hour)


def test_addresses_are_billed_by_the_second_as_a_part_of_the_vm() -> None:
    """Two addresses for nine seconds cost 25,000 nano-dollars, and no day holds them as storage."""
    started_at = datetime(2026, 11, 1, 10, tzinfo=UTC)
    span = StorageSpan(KEY, ADDRESS, IN_USE, 2 * ONE_ADDRESS, "us-central1-a", started_at, started_at.replace(second=9))
    bill = bill_storage(span, SHIPPED, started_at.replace(hour=12))
    assert bill.unpriced == ""
    assert bill.amount.nanos == round(2 * 9 * 5_000_000 / 3600)
    assert [figures for _, figures in figures_of(bill)] == [(bill.amount.nanos, 0, 0, 0)]
