"""Fleet and its API show what unused reservations burn; Loose shows their ends, and future ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from fastapi.testclient import TestClient
from tests.api.rows import NOW
from tests.loose import answered
from tests.pages.conftest import pages
from tests.pages.html import Page, tidy

from costguard.api.deps import Deps
from costguard.db.transaction import Database
from costguard.ledger import prices
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.observation import LooseKind, LooseListing, LooseThing, PlannedReservation, UnreadList
from costguard.model.price import Price, PriceKey, Unit

DAY = timedelta(days=1)
A4 = Shape("a4-highgpu-8g", 224, 3968 * 1024, "nvidia-b200", 8)
KEY = PriceKey("gpu:nvidia-b200:whole", "us-central1", ProvisioningModel.STANDARD)
UNUSED = LooseThing(
    LooseKind.RESERVATION,
    "lab",
    "zones/us-central1-b",
    "held",
    "2 of 4 reserved a4-highgpu-8g unused, calendar mode",
    NOW - 3 * DAY,
    labels={"owner": "ana"},
    region="us-central1",
    quantity=Fraction(2),
    shape=A4,
    used=2,
    ends_at=NOW + 9 * DAY,
    model=ProvisioningModel.RESERVATION_BOUND,
)
PLANNED = PlannedReservation(
    "lab",
    "zones/us-central1-b",
    "december",
    "4 a4-highgpu-8g",
    is_calendar=True,
    state="approved",
    starts_at=NOW + 10 * DAY,
    ends_at=NOW + 40 * DAY,
    reservation_ends_at=None,
    count=4,
    region="us-central1",
    shape=A4,
)
DENIED = UnreadList("lab", LooseKind.RESERVATION, "It answered 403.", "compute.reservations.list")


@pytest.fixture
def database(sqlite_database: Database) -> Database:
    with sqlite_database.write() as connection:
        reserved = replace(KEY, provisioning_model=ProvisioningModel.RESERVATION_BOUND)
        price = Price(reserved, Unit.HOUR, 11_277_000_000, NOW - DAY, "catalog")
        prices.add(connection, [price], NOW - DAY)
    return sqlite_database


def client_of(deps: Deps, *listings: LooseListing) -> TestClient:
    by_project = {listing.project: listing for listing in listings}
    things = answered(deps.clock, lambda project: by_project[project], [*by_project])
    return pages(replace(deps, loose=things))


def read(client: TestClient, address: str) -> str:
    page = Page(client.get(address).text)
    assert page.mistakes == []
    return tidy(page.text)


def test_the_fleet_shows_their_burn_apart_from_its_vms(deps: Deps) -> None:
    """It is in no total of VMs, follows the filter by project, and goes where the page shows something else."""
    client = client_of(deps, LooseListing("lab", (UNUSED,), planned=(PLANNED,)), LooseListing("other"))
    assert "Reserved, unused $180.43 an hour, 2 VMs" in read(client, "/")
    assert "Reserved, unused $180.43 an hour, 2 VMs" in read(client, "/?project=lab")
    for address in ("/?project=other", "/?owner=ana@lab.example"):
        assert "Reserved, unused" not in read(client, address)
    answer = client.get("/api/v1/instances").json()
    assert answer["totals"]["rate_per_hour"] == "0.00"
    assert answer["unused_reservations"]["vms"] == 2
    assert answer["unused_reservations"]["rate_per_hour"] == {"amount": "180.432", "currency": "USD", "complete": True}


def test_what_is_not_known_is_not_zero(deps: Deps) -> None:
    """A reservation without a price is unpriced, and a list that Google refuses is not read."""
    unlisted = replace(UNUSED, shape=replace(A4, gpu_type="nvidia-gb300"))
    assert "Reserved, unused unpriced an hour, 2 VMs" in read(client_of(deps, LooseListing("lab", (unlisted,))), "/")
    denied = client_of(deps, LooseListing("lab", unread=(DENIED,)))
    assert "Reserved, unused not read" in read(denied, "/")
    rate = denied.get("/api/v1/instances").json()["unused_reservations"]["rate_per_hour"]
    assert (rate["amount"], rate["complete"]) == (None, False)
    assert "Reserved, unused" not in read(client_of(deps, LooseListing("lab")), "/")
    assert pages(deps).get("/api/v1/instances").json()["unused_reservations"] is None


def test_loose_shows_ends_and_future_reservations(deps: Deps) -> None:
    """Calendar mode has an end in the place of a command, and a future reservation says from when to when it bills."""
    client = client_of(deps, LooseListing("lab", (UNUSED,), planned=(PLANNED,)))
    text = read(client, "/loose")
    assert "$180.43 an hour" in text
    assert "Calendar mode sells a whole period: it ends by itself, and no command shortens it." in text
    assert "december4 a4-highgpu-8g, calendar mode lab, us-central1-b approved 30 Nov, 12:00 30 Dec, 12:00" in text
    answer = client.get("/api/v1/loose").json()
    (thing,) = answer["things"]
    assert (thing["hourly"], thing["command"], thing["owner"]) == ("180.432", "", "ana@lab.example")
    assert thing["ends_at"] is not None
    (plan,) = answer["planned"]
    assert (plan["name"], plan["procurement"], plan["reservation_ends_at"]) == ("december", "approved", None)
    assert answer["unused_reservations"]["amount"] == "180.432"
