"""Days of a stored ledger and a stored bill, compared and kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, select, update
from tests.api import rows
from tests.api.rows import EARLIER

from costguard.bill.basis import spend_by_bill
from costguard.bill.comparing import BillComparer
from costguard.bill.export_row import read_row
from costguard.bill.export_sums import ExportSums
from costguard.bill.ledger_uses import LedgerDay
from costguard.bill.store import store
from costguard.bill.sums import SoldAs
from costguard.db.tables import (
    bill_costs,
    bill_days,
    bill_differences,
    bill_others,
    bill_terms,
    charges,
    events,
    instances,
    projects,
)
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.ledger.archived.archiving import archive_charges
from costguard.ledger.charged.charging import charge_due
from costguard.model.billing.billing_month import seconds_of_month
from costguard.model.budget import Scope
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping

DAYS = [date(2026, 11, 9) + timedelta(days=number) for number in range(3)]
BEGAN = datetime(2026, 11, 9, tzinfo=UTC)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
_GIB = 2**30
# What rows.RATES has, as Google would name it: resource, words, dollars, units of an n1-standard-4 with a T4.
SOLD = {
    "n1:core": ("N1 Predefined Instance Core running in Americas", "0.03", 4),
    "n1:ram": ("N1 Predefined Instance Ram running in Americas", "0.004", 15),
    "gpu:nvidia-tesla-t4": ("Nvidia Tesla T4 GPU running in Americas", "0.35", 1),
}
DISK = ("Storage PD Capacity", "0.0412", 70)


def watch(connection: Connection) -> None:
    """The project was looked at until now."""
    connection.execute(
        insert(projects).values(
            project="lab", first_seen_at=EARLIER, last_tried_at=NOW, last_complete_at=NOW, unread=[]
        )
    )


def words(text: str) -> SoldAs | None:
    """Reads SKUs as the price list's reader knows them."""
    by_words = {sold[0]: resource for resource, sold in SOLD.items()} | {DISK[0]: "disk:pd-standard"}
    return SoldAs(by_words[text], "standard") if text in by_words else None


def export_row(
    kind: str, name: str, identity: str, sold: tuple[str, str, int], hour: datetime, late: timedelta, **more: Any
) -> dict[str, Any]:
    """Makes one hour of one component, cut as recorded rows are."""
    text, price, quantity = sold
    is_bytes = kind == "disk" or text.endswith("Ram running in Americas")
    unit = seconds_of_month(hour) if kind == "disk" else 3600
    cost = Fraction(int(Fraction(price) * quantity * 3600 / unit * 10**6), 10**6)
    exported = hour + late
    return {
        "billing_account_id": "A",
        "service": {"id": "6F81-5844-456A", "description": "Compute Engine"},
        "sku": {"id": f"SKU {text}", "description": text},
        "usage_start_time": f"{hour:%Y-%m-%d %H:%M:%S} UTC",
        "usage_end_time": f"{hour + HOUR:%Y-%m-%d %H:%M:%S} UTC",
        "project": {"id": "lab", "number": "700"},
        "location": {"location": "us-central1", "zone": "us-central1-a"},
        "resource": {
            "name": name if kind == "disk" else f"projects/700/instances/{name}",
            "global_name": f"//compute.googleapis.com/projects/700/zones/us-central1-a/{kind}/{identity}",
        },
        "usage": {
            "amount": str(quantity * 3600 * (_GIB if is_bytes else 1)),
            "unit": "byte-seconds" if is_bytes else "seconds",
        },
        "currency": "USD",
        "currency_conversion_rate": "1",
        "cost": str(Decimal(cost.numerator) / cost.denominator),
        "cost_at_list": str(Decimal(cost.numerator) / cost.denominator),
        "credits": [],
        "invoice": {"month": "202611"},
        "cost_type": "regular",
        "export_time": f"{exported:%Y-%m-%d %H:%M:%S} UTC",
        **more,
    }


def hours(first: date, last: date) -> Iterator[datetime]:
    at = datetime(first.year, first.month, first.day, tzinfo=UTC)
    while at.date() <= last:
        yield at
        at += HOUR


def rows_of_vm(name: str, gce_id: str, first: date, last: date, late: timedelta = 5 * HOUR) -> list[dict[str, Any]]:
    return [
        *(
            export_row("instances", name, gce_id, sold, hour, late)
            for hour in hours(first, last)
            for sold in SOLD.values()
        ),
        *(export_row("disk", "boot", f"9{gce_id}", DISK, hour, late) for hour in hours(first, last)),
    ]


def filled(database: Database) -> Database:
    """A T4 with its disk that ran from the first day on, charged to the last midnight."""
    with database.write() as connection:
        rows.prices(connection)
        watch(connection)
        vm = rows.instance(connection, "trainer", created_at=BEGAN)
        rows.lifetime(connection, vm, BEGAN)
        rows.storage(connection, vm, BEGAN)
    charge_due(database, NOW)
    return database


@pytest.fixture
def ledger(database: Database) -> Database:
    return filled(database)


def read(database: Database, exported: Sequence[dict[str, Any]], now: datetime = NOW) -> None:
    sums = ExportSums()
    sums.add(map(read_row, exported))
    store(database, sums.partitions(), "test", now)


def gce_id(connection: Connection) -> str:
    return str(connection.scalar(select(instances.c.gce_id)))


def exported_days(database: Database, last: date = date(2026, 11, 19)) -> list[dict[str, Any]]:
    with database.read() as connection:
        return rows_of_vm("trainer", gce_id(connection), DAYS[0], last)


def compare(database: Database, now: datetime = NOW) -> None:
    BillComparer(database, words).run(now)


def days(database: Database) -> dict[date, Any]:
    with database.read() as connection:
        return {row.day: row for row in connection.execute(select(bill_days))}


def test_closed_days_agree_to_the_cent(ledger: Database) -> None:
    """A T4 with its disk agrees on every closed day; the last three days are open."""
    read(ledger, exported_days(ledger))
    compare(ledger)
    by_day = days(ledger)
    closed = [day for day, row in by_day.items() if row.standing == "closed"]
    assert max(closed) == date(2026, 11, 16)  # the newest row was exported at 04:00 on 20 November
    assert {row.standing for day, row in by_day.items() if day not in closed} == {"open"}
    for day in closed:
        row = by_day[day]
        assert (row.differing, row.unexplained_nanos, row.lines) == (0, 0, 4)
        # 24 h of 0.53 $ and of 70 GiB at 0.0412 $ a month of 721 h; rows of memory and of the disk are cut
        assert row.ledger_nanos == 12_720_000_000 + round(Fraction(70 * 41_200_000 * 24, 721))
        assert 0 >= row.list_nanos - row.ledger_nanos > -100_000


def test_running_it_again_writes_nothing(ledger: Database) -> None:
    """A day is compared once, until its bill or its ledger changes."""
    read(ledger, exported_days(ledger), NOW - HOUR)
    assert BillComparer(ledger, words).run(NOW).days == 11
    assert BillComparer(ledger, words).run(NOW + HOUR).days == 0


def test_late_row_of_a_closed_day_is_compared(ledger: Database) -> None:
    """A row that Google sends after 72 hours changes the day's result."""
    read(ledger, exported_days(ledger))
    compare(ledger)
    with ledger.read() as connection:
        a_late_one = export_row(
            "instances",
            "trainer",
            gce_id(connection),
            SOLD["n1:core"],
            datetime(2026, 11, 10, 3, tzinfo=UTC),
            262 * HOUR,
        )
    read(ledger, [a_late_one], NOW + 2 * HOUR)
    assert BillComparer(ledger, words).run(NOW + 3 * HOUR).days >= 1
    row = days(ledger)[date(2026, 11, 10)]
    assert (row.differing, row.unexplained_nanos) == (1, 120_000_000)


def test_missing_vm_raises_one_alarm_that_explains_its_worst_rows(ledger: Database) -> None:
    """Drift is named once, however many days it lasts; the ledger stays as it is."""
    with ledger.write() as connection:
        began = datetime(2026, 11, 9, tzinfo=UTC)
        rows.lifetime(connection, rows.instance(connection, "unbilled", created_at=began), began)
    charge_due(ledger, NOW)
    with ledger.read() as connection:
        trainer = str(connection.scalar(select(instances.c.gce_id).where(instances.c.name == "trainer")))
    exported = rows_of_vm("trainer", trainer, DAYS[0], date(2026, 11, 18))
    read(ledger, exported)
    compare(ledger)
    read(ledger, rows_of_vm("trainer", trainer, date(2026, 11, 19), date(2026, 11, 25)), NOW + 160 * HOUR)
    compare(ledger, NOW + 161 * HOUR)
    with ledger.read() as connection:
        (event,) = connection.execute(select(events).where(events.c.kind == "BillDrifted"))
        differing = {row.vm_name: row.reason for row in connection.execute(select(bill_differences))}
    assert differing == {"unbilled": "missing_from_bill"}
    assert event.data["names"] == ["SKU gpu:nvidia-tesla-t4", "SKU n1:core", "SKU n1:ram", "project lab"]
    assert len(event.data["worst"]) == 10
    assert event.data["worst"][0].startswith("2026-11-09 unbilled: The ledger charges $8.40 for T4 GPU")


def test_costs_of_a_day_add_up_to_what_was_paid(ledger: Database) -> None:
    """Effective cost by owner and preset, after a sustained-use credit, to the nano-dollar."""
    exported = exported_days(ledger)
    for row in exported:
        if row["sku"]["description"].endswith("Core running in Americas"):
            row["credits"] = [{"type": "SUSTAINED_USAGE_DISCOUNT", "name": "SUD", "id": "", "amount": "-0.024"}]
    read(ledger, exported)
    compare(ledger)
    day = date(2026, 11, 10)
    of_day = days(ledger)[day]
    with ledger.read() as connection:
        (cost,) = connection.execute(
            select(bill_costs).where(bill_costs.c.day == day, bill_costs.c.provisioning_model == "standard")
        )
        open_costs = connection.scalar(select(func.count()).where(bill_costs.c.day > date(2026, 11, 16)))
    assert (cost.owner, cost.preset, cost.name, cost.seconds) == ("ada@lab.example", "t4", "trainer", 86_400)
    assert cost.sustained_nanos == 24 * 24_000_000 == of_day.sustained_nanos
    assert cost.gpu_nanos == 24 * 350_000_000
    paid = cost.machine_nanos + cost.gpu_nanos + cost.storage_nanos
    assert paid == of_day.effective_nanos == of_day.list_nanos - of_day.sustained_nanos
    assert open_costs == 0


def test_network_and_unused_reservations_stand_apart(ledger: Database) -> None:
    """Neither is a difference; both are kept by name."""
    exported = exported_days(ledger)
    hour = datetime(2026, 11, 10, 3, tzinfo=UTC)
    exported += [
        {
            **export_row("instances", "trainer", "1", ("Network Internet Egress", "0.12", 1), hour, 9 * HOUR),
            "usage": {"amount": "1073741824", "unit": "bytes"},
        },
        {
            **export_row("allocation", "spare", "5", SOLD["n1:core"], hour, 9 * HOUR),
            "system_labels": [{"key": "compute.googleapis.com/is_unused_reservation", "value": "true"}],
        },
    ]
    read(ledger, exported)
    compare(ledger)
    with ledger.read() as connection:
        others = {(row.kind, row.name): row.nanos for row in connection.execute(select(bill_others))}
    assert others == {("outside", "Network Internet Egress"): 120_000_000, ("reservation", "spare"): 120_000_000}
    assert days(ledger)[hour.date()].differing == 0


def test_bill_of_archived_days_agrees(database: Database, tmp_path: Path) -> None:
    """A bill that is first read when a run's charges were archived finds all of them: no VM is unknown."""
    ended = datetime(2026, 11, 12, tzinfo=UTC)
    with database.write() as connection:
        rows.prices(connection)
        watch(connection)
        vm = rows.instance(connection, "trainer", created_at=BEGAN, gone_at=ended)
        rows.lifetime(connection, vm, BEGAN, ended_at=ended, end_reason="deleted")
        identity = gce_id(connection)
        rows.storage(connection, vm, BEGAN, ended_at=ended, disk_id=f"9{identity}")
    charge_due(database, NOW)
    with database.read() as connection:
        before = [sorted(LedgerDay(connection, day).uses(), key=str) for day in DAYS]
    assert archive_charges(database, tmp_path, NOW, NOW).rows > 0
    with database.read() as connection:
        assert not connection.scalar(select(func.count()).select_from(charges))
        assert [sorted(LedgerDay(connection, day).uses(), key=str) for day in DAYS] == before
    read(database, [*rows_of_vm("trainer", identity, DAYS[0], DAYS[2]), *later_row()])
    compare(database)
    assert [(days(database)[day].standing, days(database)[day].differing) for day in DAYS] == [("closed", 0)] * 3


def later_row() -> list[dict[str, Any]]:
    """Makes a row of another project, so that the export was read to the end."""
    row = export_row("instances", "other", "1", SOLD["n1:core"], NOW - 2 * HOUR, HOUR)
    return [{**row, "project": {"id": "other", "number": "701"}}]


def test_days_before_the_export_began_are_not_compared(ledger: Database) -> None:
    """Rows of the first export day may be the late part of an earlier day: that day is not judged."""
    with ledger.read() as connection:
        exported = [
            row
            for row in rows_of_vm("trainer", gce_id(connection), DAYS[0], date(2026, 11, 18))
            if row["export_time"] >= "2026-11-10"
        ]
    read(ledger, exported)
    compare(ledger)
    by_day = days(ledger)
    assert (by_day[DAYS[0]].standing, by_day[DAYS[0]].differing) == ("before_export", 0)
    assert (by_day[DAYS[1]].standing, by_day[DAYS[1]].differing) == ("closed", 0)


def test_days_before_the_guard_watched_are_not_compared(ledger: Database) -> None:
    """A VM that was deleted before the first look is no VM that the ledger missed."""
    with ledger.write() as connection:
        connection.execute(projects.update().values(first_seen_at=datetime(2026, 11, 11, 8, tzinfo=UTC)))
    with ledger.read() as connection:
        mine = gce_id(connection)
    exported = rows_of_vm("trainer", mine, DAYS[0], date(2026, 11, 18))
    exported += [export_row("instances", "gone", "5", SOLD["n1:core"], hour, HOUR) for hour in hours(DAYS[0], DAYS[2])]
    read(ledger, exported)
    compare(ledger)
    standings = {day: row.standing for day, row in days(ledger).items()}
    assert [standings[day] for day in DAYS] == ["before_watch"] * 3
    assert standings[date(2026, 11, 12)] == "closed"
    with ledger.read() as connection:
        assert connection.scalar(select(func.count()).select_from(bill_differences)) == 0


def test_spend_by_the_bill_is_what_was_paid_on_closed_days(ledger: Database) -> None:
    """Closed days after credits, open ones at the ledger's price; every grouping adds up to the same."""
    exported = exported_days(ledger)
    for row in exported:
        if row["sku"]["description"].endswith("Core running in Americas"):
            row["credits"] = [{"type": "SUSTAINED_USAGE_DISCOUNT", "name": "SUD", "id": "", "amount": "-0.024"}]
    read(ledger, exported)
    compare(ledger)
    first, last = DAYS[0], date(2026, 11, 19)
    paid = sum(row.effective_nanos for row in days(ledger).values() if row.standing == "closed")
    still_open = sum(row.ledger_nanos for row in days(ledger).values() if row.standing == "open")
    with ledger.read() as connection:
        accrual = accrual_at(connection, NOW)
        by_ledger = spend(connection, accrual, first, last, [], Scope())
        for group_by in ([], [Grouping.DAY], [Grouping.OWNER, Grouping.PRESET], [Grouping.PROVISIONING_MODEL]):
            spent = spend_by_bill(connection, accrual, first, last, group_by)
            assert spent.total.total.nanos == paid + still_open, group_by
            assert sum(row.amounts.total.nanos for row in spent.rows) == paid + still_open, group_by
        nobody = spend_by_bill(connection, accrual, first, last, [], Scope(owner="nobody@lab.example"))
    assert by_ledger.total.total.nanos - paid - still_open >= 8 * 24 * 24_000_000
    assert by_ledger.total.seconds == spent.total.seconds
    assert nobody.total.total.nanos == 0


def test_a_rate_of_zero_from_an_earlier_release_ends_nothing(ledger: Database) -> None:
    """Rows with one were stored once. They are left out, and the others are compared."""
    read(ledger, exported_days(ledger))
    with ledger.write() as connection:
        connection.execute(update(bill_terms).where(bill_terms.c.sku_text == DISK[0]).values(rate="0"))
    done = BillComparer(ledger, words).run(NOW)
    assert done.troubles == ()
    assert {days(ledger)[day].differing for day in DAYS} == {1}  # its disk is missing


def test_a_day_that_cannot_be_compared_keeps_no_other_from_it(ledger: Database) -> None:
    """The error is reported, and the other days are compared."""
    exported = exported_days(ledger)
    odd = next(one for one in exported if one["usage_start_time"].startswith(f"{DAYS[1]}"))
    read(ledger, [*exported, {**odd, "sku": {"id": "ODD", "description": "odd"}}])

    def failing(text: str) -> SoldAs | None:
        if text == "odd":
            raise ArithmeticError(text)
        return words(text)

    done = BillComparer(ledger, failing).run(NOW)
    assert len(done.troubles) == 1
    assert done.troubles[0] == f"The bill of {DAYS[1]} could not be compared (ArithmeticError: odd)."
    assert set(DAYS) & days(ledger).keys() == {DAYS[0], DAYS[2]}


def test_a_day_is_open_while_one_of_two_accounts_is_unread(ledger: Database) -> None:
    """Both paid for the project on that day, and of the second its first hours were read alone."""
    both = exported_days(ledger)
    early = [{**row, "billing_account_id": "B"} for row in both if row["usage_start_time"] < f"{DAYS[0]} 02"]
    read(ledger, [*both, *early])
    compare(ledger)
    assert days(ledger)[DAYS[0]].standing == "open"
    assert days(ledger)[DAYS[1]].standing == "closed"
