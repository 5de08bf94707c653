"""The reader on the simulated export: late, in pieces, read as it grows, again, and whole."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from tests.sandbox.gce.test_billing_export import export_of, world_of

from costguard.bill import stored
from costguard.bill.export_file import rows_of_file
from costguard.bill.export_row import read_row
from costguard.bill.export_sums import ExportSums
from costguard.bill.store import store
from costguard.db.transaction import Database
from costguard.model.billing.bill import BilledKind
from costguard_sandbox.gce.billing import ExportOptions
from costguard_sandbox.gce.billing.credits import CreditType
from costguard_sandbox.gce.meter import bills, disk_bills

OPTIONS = ExportOptions(
    currency="EUR",
    rate=Decimal("0.93364999999987552"),
    credits=frozenset({CreditType.COMMITTED, CreditType.SUSTAINED, CreditType.PROMOTION}),
    promotion=Decimal(3),
)


def test_an_export_read_as_it_grows_is_the_meter(database: Database, tmp_path: Path) -> None:
    """Partitions read every 31 hours, each from the day before on, some twice: seconds exact, costs as cut."""
    world = world_of()
    export = export_of(world, OPTIONS)
    now = export.export_times[0]
    while now < export.export_times[-1] + timedelta(hours=31):
        for day in {now.date() - timedelta(days=number) for number in range(3)}:
            file = tmp_path / f"{day}.jsonl"
            file.write_text("".join(json.dumps(row) + "\n" for row in export.partition(day, now)), "utf-8")
            for _ in range(2):
                sums = ExportSums()
                sums.add(rows_of_file(file))
                store(database, sums.partitions(), file.name, now, is_whole=True)
        now += timedelta(hours=31)
    with database.read() as connection:
        rows = list(stored.rows_of(connection, date(2026, 3, 1), date(2026, 3, 31)))
    assert sum(row.row_count for row in rows) == len(export.rows)
    vms, until = world.every_vm(), world.timeline.now
    seconds: dict[str, int] = defaultdict(int)
    for bill in bills(vms, world.prices, until):
        seconds[str(bill.vm.id)] = sum(
            one.seconds for resource, one in bill.resources.items() if resource.startswith("gpu:")
        )
    for vm, expected in seconds.items():
        gpu = [row for row in rows if row.resource_id == vm and "GPU" in row.sku_text]
        assert sum((row.amount for row in gpu), Decimal(0)) == expected
    exact = sum(
        one.nanos
        for one in (*bills(vms, world.prices, until), *disk_bills(world.storage.ever, vms, world.prices, until))
    )
    dollars = sum(Decimal(row.cost_nanos) / row.rate for row in rows)
    assert -2000 * len(export.rows) <= dollars - exact <= 1000 * len(export.rows)
    assert {row.kind for row in rows} == {BilledKind.INSTANCE, BilledKind.DISK}
    assert sum(credit.nanos for row in rows for credit in row.credits if credit.type == "PROMOTION") == -3 * 10**9


def test_every_simulated_row_is_read() -> None:
    """Each row's amount, cost and credits, one by one, are those in the row."""
    for fields in export_of(world_of(), OPTIONS).rows[:500]:
        row = read_row(fields)
        assert Decimal(row.amount).scaleb(-9) == Decimal(fields["usage"]["amount"])
        assert Decimal(row.cost_nanos).scaleb(-9) == Decimal(fields["cost"])
        assert len(row.credits) == len(fields["credits"])
        assert row.resource.resource_id == fields["resource"]["global_name"].rsplit("/", 1)[1]


@pytest.mark.parametrize("seed", [1, 2])
def test_no_day_is_missing_72_hours_after_its_end(seed: int) -> None:
    """The rows of a Pacific day are all appended by then: a day may be closed."""
    for fields in export_of(world_of(), ExportOptions(seed=seed)).rows:
        row = read_row(fields)
        assert row.export is not None
        assert row.export.at - row.end.at <= timedelta(hours=72)
