"""Reminders of reserved VMs that nobody uses: once a day and owner, with the command that gives them back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction

import pytest
from tests.api.rows import NOW
from tests.fakes import HandClock
from tests.messages.test_digest import stored
from tests.reminders.test_report import RULES

from costguard.db.transaction import Database
from costguard.ledger.owner import OwnerRules
from costguard.ledger.price_book import PriceBook
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.messages.unused_reservations import ReservationComposer, ReservationWatch
from costguard.model.delivery.message import ReportContent
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.observation import LooseKind, LooseListing, LooseThing
from costguard.model.price import Price, PriceKey, Unit
from costguard.slack.render import render
from costguard.spend.loose.memory import LooseAnswer
from costguard.spend.loose.report import LooseReport, report_of

DAY = timedelta(days=1)
NINE = NOW.replace(hour=9, minute=0)
A4 = Shape("a4-highgpu-8g", 224, 3968 * 1024, "nvidia-b200", 8)
BOOK = PriceBook(
    Price(PriceKey("gpu:nvidia-b200:whole", "us-central1", model), Unit.HOUR, nanos, NOW - 300 * DAY, "catalog")
    for model, nanos in (
        (ProvisioningModel.STANDARD, 16_110_000_000),
        (ProvisioningModel.RESERVATION_BOUND, 11_277_000_000),
    )
)


def reservation(name: str, **more: object) -> LooseThing:
    thing = LooseThing(
        LooseKind.RESERVATION,
        "lab",
        "zones/us-central1-b",
        name,
        "2 of 4 reserved a4-highgpu-8g unused",
        NINE - 3 * DAY,
        labels={"owner": "ana"},
        region="us-central1",
        quantity=Fraction(2),
        shape=A4,
        used=2,
    )
    return replace(thing, **more)  # type: ignore[arg-type]


class Google:
    """Counts how often it is asked."""

    def __init__(self, *things: LooseThing) -> None:
        self.things, self.asked = things, 0

    def __call__(self) -> LooseReport:
        self.asked += 1
        disk = LooseThing(LooseKind.DISK, "lab", "zones/us-central1-b", "old", "pd-ssd disk, 10 GiB", NINE - 9 * DAY)
        answer = LooseAnswer("lab", NOW, LooseListing("lab", (*self.things, disk)), NOW)
        return report_of(["lab"], [answer], OwnerRules(domain="lab.example"), BOOK, NOW)


def composed(message: StoredMessage, now: datetime, database: Database) -> Composed | Withdrawn:
    with database.read() as connection:
        return ReservationComposer(RULES, "https://guard.example/")(connection, message, now)


def test_each_owner_is_reminded_once_a_day(database: Database) -> None:
    """The first pass after nine in the morning stores one message an owner; the channel gets what has no owner."""
    google = Google(reservation("big"), reservation("small"), reservation("nobodys", labels={}))
    clock = HandClock(NINE - timedelta(seconds=1))
    watch = ReservationWatch(database, clock, RULES, google)
    assert watch.intend() == 0
    clock.advance(timedelta(seconds=1))
    assert [watch.intend(), watch.intend()] == [2, 0]
    assert google.asked == 1
    assert ReservationWatch(database, clock, RULES, google).intend() == 0  # another process, the same day
    assert sorted((one.kind, one.address) for one in stored(database)) == [
        ("reservation", "#gpus"),
        ("reservation", "ana@lab.example"),
    ]
    clock.advance(timedelta(hours=15))
    assert watch.intend() == 0  # midnight is no time to be reminded
    clock.advance(timedelta(hours=9))
    assert watch.intend() == 2


@pytest.mark.parametrize(
    ("rules", "created_at"),
    [(replace(RULES, channel=""), NINE - 3 * DAY), (RULES, NINE - DAY + timedelta(seconds=1))],
    ids=["no Slack", "younger than a day"],
)
def test_nobody_is_reminded(database: Database, rules: object, created_at: datetime) -> None:
    """There is no message without Slack, nor about a reservation of its first day, which is still being filled."""
    google = Google(reservation("new", created_at=created_at))
    assert ReservationWatch(database, HandClock(NINE), rules, google).intend() == 0  # type: ignore[arg-type]
    assert stored(database) == []


def test_it_says_the_cost_an_hour_and_the_command(database: Database) -> None:
    """Calendar mode shows its own price and its end, and no command; a missing price is never zero."""
    google = Google(
        reservation("big"),
        reservation("fixed", model=ProvisioningModel.RESERVATION_BOUND, ends_at=NINE + 5 * DAY),
        reservation("unlisted", shape=replace(A4, gpu_type="nvidia-gb300")),
    )
    ReservationWatch(database, HandClock(NINE), RULES, google).intend()
    (message,) = stored(database)
    result = composed(message, NINE, database)
    assert isinstance(result, Composed)
    content = result.content
    assert isinstance(content, ReportContent)
    hourly = 2 * 8 * (16.11 + 11.277)
    assert content.headline == (f"6 reserved VMs that nobody uses cost ${hourly:.2f} an hour, plus what has no price.")
    ((_, lines),) = content.sections
    assert {line.label: line.amount for line in lines} == {
        "big": "$257.76 an hour",
        "fixed": "$180.43 an hour",
        "unlisted": "no price known",
    }
    remarks = {line.label: line.remark for line in lines}
    assert remarks["big"] == "ana@lab.example, lab, us-central1-b: 2 of 4 reserved a4-highgpu-8g unused"
    assert remarks["fixed"].endswith(f"; ends {NINE + 5 * DAY:%d %b, %H:%M}")
    where = "--vm-count=2 --zone=us-central1-b --project=lab"
    assert set(content.settings) == {
        f"gcloud compute reservations update {name} {where}" for name in ("big", "unlisted")
    }
    assert content.url == "https://guard.example/loose"
    assert "gcloud compute reservations update big" in str(render(content).blocks)


def test_it_is_withdrawn_when_its_day_is_over(database: Database) -> None:
    """The next day has figures of its own."""
    ReservationWatch(database, HandClock(NINE), RULES, Google(reservation("big"))).intend()
    (message,) = stored(database)
    assert isinstance(composed(message, NINE + timedelta(hours=11, minutes=59), database), Composed)
    assert isinstance(composed(message, NINE + timedelta(hours=12), database), Withdrawn)
