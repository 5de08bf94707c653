"""The whole way of a price: the simulated cloud's catalogue, over HTTP, into the ledger."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.resource_names import guards_key

from costguard.db.transaction import Database
from costguard.gce.prices import CatalogPrices, snapshot_prices
from costguard.ledger import prices
from costguard.ledger.price_book import PriceBook
from costguard.ledger.price_refresh import refresh, seed_snapshot
from costguard.model.instance import ProvisioningModel
from costguard.model.price import PriceKey
from costguard_sandbox.clock import ManualClock
from costguard_sandbox.server import running
from costguard_sandbox.world import World

START = datetime(2026, 3, 1, tzinfo=UTC)


def test_the_served_catalogue_replaces_the_snapshot_and_is_followed(sqlite_database: Database) -> None:
    """After a refresh every price is the catalogue's, none refused; a later change is in force from its moment."""
    world = World(ManualClock(START), begins=START)
    seed_snapshot(sqlite_database, snapshot_prices(), START)
    with running(world) as url:
        source = CatalogPrices(url)
        first = refresh(sqlite_database, source, START)
        again = refresh(sqlite_database, source, START + timedelta(hours=1))
        change = START + timedelta(days=2)
        world.prices.change("gpu:nvidia-tesla-t4", "us-central1", True, 150_000_000, change)
        world.advance_to(change + timedelta(hours=3))
        later = refresh(sqlite_database, source, change + timedelta(hours=3))
    assert first.added > 1000
    assert (first.refused, again.added, again.changed, again.refused) == (0, 0, 0, 0)
    assert (later.changed, later.refused) == (1, 0)
    key = PriceKey("gpu:nvidia-tesla-t4", "us-central1", ProvisioningModel.SPOT)
    with sqlite_database.read() as connection:
        book = PriceBook(prices.load(connection))
        assert prices.refusals(connection) == []
    rates = [price.rate_nanos for moment in (START, change) if (price := book.at(key, moment))]
    assert rates == [140_000_000, 150_000_000]
    for resource, region, is_spot in world.prices.sold():
        in_force = book.at(guards_key(resource, region, is_spot), change)
        assert in_force is not None
        assert in_force.rate_nanos == world.prices.rate(resource, region, is_spot, change)[0]
