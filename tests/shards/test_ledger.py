"""The ledger is read for the judgement once all is charged, and then with every second and nano-dollar of a VM."""

from __future__ import annotations

from datetime import timedelta

from tests.ledger.test_charging import NOON, PRICES, Ledger
from tests.shards.ledger import held_by_vm, open_entries, spent_by_vm

from costguard.db.transaction import Database
from costguard.ledger import prices
from costguard.ledger.charged.charging import charge_due


def test_what_ended_is_open_until_it_is_charged(database: Database) -> None:
    """The replica that records ends may not charge: in between the sum of charges is below the bill."""
    with database.write() as connection:
        prices.add(connection, PRICES, NOON)
        books = Ledger(connection)
        vm = books.vm()
        run = books.run(NOON, None, vm)
        books.disk(NOON, NOON + timedelta(minutes=3), vm)
    assert open_entries(database) == 2
    with database.write() as connection:
        Ledger(connection).end(run, NOON + timedelta(seconds=90))
    assert open_entries(database) == 2
    assert held_by_vm(database)["1"].nanos == 0
    charge_due(database, NOON + timedelta(minutes=4))
    assert open_entries(database) == 0
    assert held_by_vm(database)["1"].nanos > 0


def test_side_of_the_ledger_has_runs_and_storage_with_their_charges(database: Database) -> None:
    """A part for each span and resource, and for each span how it ended."""
    with database.write() as connection:
        prices.add(connection, PRICES, NOON)
        books = Ledger(connection)
        vm = books.vm()
        books.run(NOON, NOON + timedelta(seconds=90), vm, ended_by="ana@example.com", end_is_estimate=True)
        books.disk(NOON, NOON + timedelta(minutes=3), vm)
        books.run(NOON, None)
    charge_due(database, NOON + timedelta(minutes=4))
    held = held_by_vm(database)
    lasted, stayed = "12:00:00.000 to 12:01:30.000", "12:00:00.000 to 12:03:00.000"
    assert sorted((one.resource, one.seconds, one.nanos, one.spans) for one in held["1"].parts) == [
        ("disk:pd-ssd", 180, 50_000_000, stayed),
        ("n1:core", 90, 250_000_000, lasted),
        ("n1:ram", 90, 25_000_000, lasted),
    ]
    assert held["1"].notes == (
        f"lifetime {lasted}, stopped by ana@example.com, estimated",
        f"storage {stayed}, boot",
    )
    assert spent_by_vm(database) == {"1": 325_000_000}  # what has no charge is not in it: the judge names that
    assert (held["2"].parts, held["2"].notes) == ((), ("lifetime 12:00:00.000 to ?, runs by nobody known",))
