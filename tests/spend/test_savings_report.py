"""Savings of stops are read from the ledger."""

from __future__ import annotations

from datetime import timedelta

from tests.api import rows
from tests.api.rows import NOW
from tests.reminders import reminder_rows

from costguard.db.transaction import Database
from costguard.ledger import prices
from costguard.ledger.price_book import PriceBook
from costguard.model.money import Money, Priced
from costguard.spend.enforcements import Enforcements, enforcements
from costguard.spend.savings import Bound

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
RATE = Money.of("0.53")  # an hour of an n1-standard-4 with a T4


def report(database: Database, since: timedelta = DAY) -> Enforcements:
    with database.read() as connection:
        return enforcements(connection, PriceBook(prices.load(connection)), NOW, NOW - since, NOW)


def test_a_stop_saved_its_machine_until_it_ran_again(database: Database) -> None:
    """The disks go on billing, so they are not in it; a person's request says by whom."""
    with database.write() as connection:
        rows.prices(connection)
        one, two = rows.instance(connection, "one"), rows.instance(connection, "two")
        first = rows.lifetime(connection, one, NOW - 9 * HOUR, ended_at=NOW - 5 * HOUR)
        rows.lifetime(connection, one, NOW - 2 * HOUR)
        rows.storage(connection, one, NOW - 9 * HOUR)
        other = rows.lifetime(connection, two, NOW - 9 * HOUR, ended_at=NOW - 6 * HOUR)
        subject = f"run:{two}:{other}"
        request_id = reminder_rows.request(connection, two, subject)
        reminder_rows.stop(connection, one, first, NOW - 5 * HOUR)
        reminder_rows.stop(connection, two, other, NOW - 6 * HOUR, request_id=request_id, reminder="")
    savings = report(database)
    by_rule, by_bob = savings.stops
    assert (by_rule.stop.name, by_rule.stop.asked_by, by_rule.rate) == ("one", "", Priced(RATE))
    assert by_rule.saving is not None
    assert (by_rule.saving.amount, by_rule.saving.bound) == (Priced(RATE.over(3 * HOUR)), Bound.RAN_AGAIN)
    assert by_bob.saving is not None
    assert (by_bob.stop.asked_by, by_bob.saving.bound) == ("bob@lab.example", Bound.NOW)
    assert savings.saved == Priced(RATE.over(9 * HOUR))
    assert savings.shadows == ()


def test_a_suspended_vm_saves_less_by_its_memory(database: Database) -> None:
    """Where the price of saved memory is not known, nor is the saving."""
    with database.write() as connection:
        rows.prices(connection, {**rows.RATES, ("suspended-memory", "standard", "GiBy.h"): 1_000_000})
        vm = rows.instance(connection, "one")
        run = rows.lifetime(connection, vm, NOW - 9 * HOUR, ended_at=NOW - 4 * HOUR, end_reason="suspended")
        reminder_rows.stop(connection, vm, run, NOW - 4 * HOUR)
    (stop,) = report(database).stops
    assert stop.saving is not None
    assert stop.saving.amount == Priced((RATE - Money.of("0.015")).over(4 * HOUR))
    with database.write() as connection:
        connection.exec_driver_sql("DELETE FROM prices WHERE resource = 'suspended-memory'")
    (stop,) = report(database).stops
    assert stop.saving is not None
    assert stop.saving.amount == Priced(whole=False)


def test_what_was_not_carried_out_saved_nothing(database: Database) -> None:
    """A stop that failed, or whose outcome is not known, has no figure at all."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "one")
        run = rows.lifetime(connection, vm, NOW - 9 * HOUR)
        reminder_rows.stop(connection, vm, run, NOW - 2 * HOUR, outcome="failed", error="no permission")
        reminder_rows.stop(connection, vm, run, NOW - HOUR, outcome="unknown")
    savings = report(database)
    assert [(stop.saving, stop.stop.error) for stop in savings.stops] == [(None, ""), (None, "no permission")]
    assert savings.saved == Priced()


def test_a_shadow_stop_tells_what_the_run_went_on_to_cost(database: Database) -> None:
    """The report has the reminders that were accepted before it, the evidence, and both figures."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "one")
        run = rows.lifetime(connection, vm, NOW - 60 * HOUR)
        subject = f"run:{vm}:{run}"
        for stage, ago in enumerate((50, 46, 42, 38)):
            accepted = {"subject": subject, "stage": stage, "accepted_at": NOW - ago * HOUR}
            reminder_rows.message(connection, f"reminder/{subject}/0/{stage}/owner", **accepted)
            reminder_rows.message(connection, f"reminder/{subject}/0/{stage}/channel", **accepted, target="channel")
        reminder_rows.stop(connection, vm, run, NOW - 41 * HOUR, outcome="shadow")
        reminder_rows.stop(connection, vm, run, NOW - 5 * HOUR, outcome="shadow")
    savings = report(database, 3 * DAY)
    later, earlier = savings.shadows
    assert earlier.stop.reminders == 3
    assert earlier.stop.evidence == {"idle": "GPU under 5 % for 2 h (max 3 %)"}
    assert earlier.saving is not None
    assert earlier.saving.amount == Priced(RATE.over(24 * HOUR))
    assert earlier.saving.in_all == Priced(RATE.over(36 * HOUR))
    assert later.saving is not None
    assert later.saving.amount == later.saving.in_all == Priced(RATE.over(5 * HOUR))
    assert savings.would_have_saved == Priced(RATE.over(29 * HOUR))
    assert savings.shadow_cost == Priced(RATE.over(41 * HOUR))
    assert savings.saved == Priced()


def test_a_report_is_of_its_period(database: Database) -> None:
    """A stop counts where it was decided; the end of the period is not in it."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "one")
        run = rows.lifetime(connection, vm, NOW - 60 * HOUR)
        for ago in (0, 24, 25):
            reminder_rows.stop(connection, vm, run, NOW - ago * HOUR, outcome="shadow")
    assert [shadow.stop.intended_at for shadow in report(database).shadows] == [NOW - DAY]
