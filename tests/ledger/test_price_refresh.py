"""Refreshing prices: what is stored, refused, told and charged again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import insert, select, update

from costguard.db.tables import instances, lifetimes
from costguard.db.transaction import Database
from costguard.errors import PriceSourceError
from costguard.events import audit_log
from costguard.ledger import prices
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_refresh import RefreshResult, refresh, seed_snapshot
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money
from costguard.model.price import Price, PriceKey, Unit

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
DAY = timedelta(days=1)
STANDARD, SPOT = ProvisioningModel.STANDARD, ProvisioningModel.SPOT
T4 = PriceKey("gpu:nvidia-tesla-t4", "us-central1", STANDARD)
SPOT_T4 = replace(T4, provisioning_model=SPOT)


def price(dollars: str, key: PriceKey = T4, since: datetime = NOW - DAY, source: str = "catalog") -> Price:
    return Price(key, Unit.HOUR, Money.of(dollars).nanos, since, source, "SKU-1" if source == "catalog" else "")


SNAPSHOT = [
    price("0.35", since=NOW - 30 * DAY, source="snapshot 2026-10-20"),
    price("0.14", SPOT_T4, NOW - 30 * DAY, "snapshot 2026-10-20"),
]


@dataclass(frozen=True)
class Catalogue:
    """A price source that says what it is given."""

    says: Sequence[Price]

    def fetch(self) -> Sequence[Price]:
        if not self.says:
            raise PriceSourceError("The catalogue is closed.")
        return self.says


@pytest.fixture
def seeded(database: Database) -> Database:
    assert seed_snapshot(database, SNAPSHOT, NOW - 20 * DAY) == 2
    return database


def in_force(database: Database, moment: datetime, key: PriceKey = T4) -> str:
    with database.read() as connection:
        price = PriceBook(prices.load(connection)).at(key, moment)
    assert price is not None
    return f"{price.source} {Money(price.rate_nanos).dollars.normalize():f}"


def recorded_events(database: Database) -> list[tuple[str, str]]:
    with database.read() as connection:
        events = [(one.event.kind, one.event.text) for one in audit_log.read(connection)]
    return [(kind, text) for kind, text in events if kind != "PricesRead"]


def test_the_snapshot_fills_an_empty_ledger_alone(seeded: Database) -> None:
    """A start with prices in the ledger leaves them as they are."""
    assert seed_snapshot(seeded, [price("9")], NOW) == 0
    assert in_force(seeded, NOW) == "snapshot 2026-10-20 0.35"


def test_the_same_rate_is_no_news(seeded: Database) -> None:
    """Google renews effective times without changing prices: nothing is stored and nothing is recorded."""
    same = [price("0.35"), price("0.14", SPOT_T4)]
    assert refresh(seeded, Catalogue(same), NOW) == RefreshResult(fetched=2)
    assert recorded_events(seeded) == []


def test_a_new_rate_is_in_force_from_its_time_on(seeded: Database) -> None:
    """Before its effective time the old price holds, after it the new one.

    A change is recorded, but not that a shipped price gave way to the catalogue's.
    """
    assert refresh(seeded, Catalogue([price("0.4")]), NOW) == RefreshResult(fetched=1, changed=1)
    assert in_force(seeded, NOW - 2 * DAY) == "snapshot 2026-10-20 0.35"
    assert in_force(seeded, NOW) == "catalog 0.4"
    assert recorded_events(seeded) == []
    later = price("0.5", since=NOW + DAY)
    refresh(seeded, Catalogue([later]), NOW + DAY)
    assert recorded_events(seeded) == [
        (
            "PriceChanged",
            f"gpu:nvidia-tesla-t4 (on-demand) in us-central1 costs $0.5 per h from {NOW + DAY:%Y-%m-%d %H:%M} UTC on, "
            "where $0.4 per h was known.",
        )
    ]


def test_an_older_catalogue_price_puts_the_snapshot_right(seeded: Database) -> None:
    """When Google says that a price held before the snapshot was made, the snapshot never was right."""
    refresh(seeded, Catalogue([price("0.4", since=NOW - 400 * DAY)]), NOW)
    assert {in_force(seeded, moment) for moment in (NOW - 500 * DAY, NOW - 10 * DAY, NOW)} == {"catalog 0.4"}


def test_a_catalogue_price_that_claims_to_be_older_counts_from_now(seeded: Database) -> None:
    """A catalogue that contradicts its own past does not rewrite what was charged."""
    refresh(seeded, Catalogue([price("0.4", since=NOW - DAY)]), NOW)
    refresh(seeded, Catalogue([price("0.45", since=NOW - 2 * DAY)]), NOW + DAY)
    assert in_force(seeded, NOW) == "catalog 0.4"
    assert in_force(seeded, NOW + DAY) == "catalog 0.45"


def test_a_refused_price_is_shown_once_and_the_last_good_one_stays(seeded: Database) -> None:
    """The gate keeps it out, the ledger keeps it, and one event says why, however often it comes again."""
    source = Catalogue([price("0"), price("0.36", SPOT_T4)])
    assert refresh(seeded, source, NOW) == RefreshResult(fetched=2, refused=2)
    assert refresh(seeded, source, NOW + DAY) == RefreshResult(fetched=2)
    assert in_force(seeded, NOW) == "snapshot 2026-10-20 0.35"
    with seeded.read() as connection:
        reasons = sorted(one.refused.reason for one in prices.refusals(connection))
    assert reasons == [
        "A price must be above zero.",
        "The Spot price $0.36 per h is not below the on-demand price $0.35 per h.",
    ]
    assert [kind for kind, _ in recorded_events(seeded)] == ["PriceRefused", "PriceRefused"]


def test_spot_is_compared_with_the_on_demand_price_that_came_with_it(seeded: Database) -> None:
    """When both rise together, the Spot price is not refused for being above yesterday's on-demand price."""
    both = [price("0.38", SPOT_T4), price("0.9")]
    assert refresh(seeded, Catalogue(both), NOW).changed == 2


def test_half_of_what_other_regions_charge_is_refused(seeded: Database) -> None:
    """A GPU price in a region that is new is compared with the same fetch's other regions."""
    elsewhere = [price(dollars, replace(T4, region=region)) for region, dollars in (("a", "0.38"), ("b", "0.19"))]
    assert refresh(seeded, Catalogue([price("0.35"), *elsewhere]), NOW) == RefreshResult(fetched=3, added=1, refused=1)


def test_a_price_cut_everywhere_is_believed(seeded: Database) -> None:
    """When Google halves a price in all regions at once, no region stands out."""
    with seeded.write() as connection:
        prices.add(connection, [price("0.36", replace(T4, region=region)) for region in ("a", "b")], NOW - DAY)
    cut = [price("0.17", replace(T4, region=region), NOW) for region in ("us-central1", "a", "b")]
    assert refresh(seeded, Catalogue(cut), NOW) == RefreshResult(fetched=3, changed=3)


def test_a_closed_catalogue_changes_nothing(seeded: Database) -> None:
    """The error reaches the caller; every stored price stays."""
    with pytest.raises(PriceSourceError, match="closed"):
        refresh(seeded, Catalogue([]), NOW)
    assert in_force(seeded, NOW) == "snapshot 2026-10-20 0.35"


def test_spans_past_the_change_are_charged_again(seeded: Database) -> None:
    """Charges at the old price after the new one came into force are marked, and so is the unpriced."""
    with seeded.write() as connection:
        vm = connection.execute(
            insert(instances)
            .values(
                project="p", gce_id="1", name="vm", zone="us-central1-a", status="stopped", created_at=NOW,
                machine_type="n1-standard-1", vcpus=1, memory_mib=1024, gpu_count=0, local_ssd_gib=0,
                provisioning_model="standard", labels={}, preset="t4", owner="", owner_source="", job="",
                created_by="", fingerprint="", first_seen_at=NOW,
            )
            .returning(instances.c.id)
        ).scalar_one()  # fmt: skip
        for days in (10, 3):
            connection.execute(
                insert(lifetimes).values(
                    instance_id=vm, started_at=NOW - days * DAY, ended_at=NOW - (days - 2.5) * DAY,
                    charged_to=NOW - (days - 2.5) * DAY, zone="us-central1-a", machine_type="n1-standard-1",
                    vcpus=1, memory_mib=1024, gpu_count=0, local_ssd_gib=0, provisioning_model="standard",
                    preset="t4", owner="", job="",
                )
            )  # fmt: skip
    assert refresh(seeded, Catalogue([price("0.4")]), NOW).recharged == 1
    with seeded.write() as connection:
        (old, late) = connection.execute(select(lifetimes.c.charged_to).order_by(lifetimes.c.id)).scalars()
        assert (old, late) == (NOW - 7.5 * DAY, datetime(2026, 11, 19, tzinfo=UTC))
        connection.execute(update(lifetimes).where(lifetimes.c.charged_to == old).values(unpriced="no price"))
    new_key = replace(T4, resource="gpu:nvidia-tesla-p4")
    assert refresh(seeded, Catalogue([price("0.6", new_key)]), NOW).recharged == 1
