"""The simulated export: what it adds up to, how late and in what pieces it comes, and the errors planted in it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.sandbox.vms import SPOT, T4, new_world, up

from costguard_sandbox.gce.billing import BillError, BillingExport, ExportOptions, billing_export
from costguard_sandbox.gce.billing.credits import CreditType
from costguard_sandbox.gce.billing.export import UnusedReservation
from costguard_sandbox.gce.billing.usage import Billed
from costguard_sandbox.gce.meter import bills, disk_bills
from costguard_sandbox.world import World

RECORDED = json.loads((Path(__file__).parents[2] / "bill" / "recorded_rows.json").read_text("utf-8"))["rows"]
V_DISK = next(row["fields"] for row in RECORDED if row["id"] == "V-disk")
K_KMS = next(row["fields"] for row in RECORDED if row["id"] == "K-kms")
PACIFIC = ZoneInfo("America/Los_Angeles")
# A March of 31 days and 743 hours: daylight saving begins on the 8th.
BEGAN = datetime(2026, 3, 7, 15, 20, 11, tzinfo=UTC)
DAYS = 3


@cache
def world_of(vms: int = 9, began: datetime = BEGAN, days: int = DAYS) -> World:
    """VMs with and without T4s, some Spot; each runs for the whole time. No test changes it."""
    world = new_world(began)
    for number in range(vms):
        machine, more = (("n1-standard-4", T4), ("e2-standard-4", {}), ("n1-standard-2", {}))[number % 3]
        up(world, f"vm-{number}", machine, **{**more, **(SPOT if number % 4 == 3 else {})})
    world.advance(timedelta(days=days))
    return world


@cache
def export_of(world: World, options: ExportOptions | None = None) -> BillingExport:
    since = world.timeline.now - timedelta(days=30)
    return billing_export(world.every_vm(), world.storage.ever, world.prices, since, world.timeline.now, options)


def amounts(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], Decimal]:
    """Base units by resource, SKU and Pacific day."""
    sums: dict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    for row in rows:
        started = datetime.fromisoformat(row["usage_start_time"].removesuffix(" UTC")).replace(tzinfo=UTC)
        day = f"{started.astimezone(PACIFIC).date()}"
        sums[row["resource"]["global_name"].rsplit("/", 1)[1], row["sku"]["id"], day] += Decimal(row["usage"]["amount"])
    return dict(sums)


def dollars(rows: Iterable[Mapping[str, Any]]) -> Decimal:
    return sum((Decimal(row["cost"]) / Decimal(row["currency_conversion_rate"]) for row in rows), Decimal(0))


def test_a_row_is_laid_out_as_the_recorded_ones() -> None:
    """Every field of the simulated rows stands in a recorded row, or in Google's schema of the export."""
    documented = {"invoice.publisher_type", "consumption_model.id", "consumption_model.description"}
    documented |= {*_paths(V_DISK), *_paths(K_KMS)}
    rows = export_of(world_of(3)).rows
    assert {path for row in rows for path in _paths(row)} <= documented


def _paths(fields: Mapping[str, Any], before: str = "") -> set[str]:
    paths = set()
    for name, value in fields.items():
        paths |= _paths(value, f"{before}{name}.") if isinstance(value, dict) and value else {f"{before}{name}"}
    return paths


def test_the_export_is_the_meter_cut_at_six_decimals() -> None:
    """All rows together lie below the meter's exact sum by at most two millionths a row (G-res2, G-pd, BU-cud)."""
    world = world_of()
    vms, until = world.every_vm(), world.timeline.now
    exact = sum(
        one.nanos
        for one in (*bills(vms, world.prices, until), *disk_bills(world.storage.ever, vms, world.prices, until))
    )
    rows = export_of(world).rows
    difference = dollars(rows) - Decimal(exact).scaleb(-9)
    assert -2 * len(rows) <= difference * 1_000_000 <= len(rows) / 10


def test_pieces_of_an_hour_add_up() -> None:
    """The seconds of a day stay the same where an hour is cut into several rows, also of ragged disks."""
    world = world_of()
    whole = export_of(world, ExportOptions(in_pieces=False)).rows
    pieces = export_of(world).rows
    assert len(pieces) > len(whole) * 1.2
    assert amounts(pieces) == amounts(whole)


def test_rows_come_from_one_to_72_hours_late_in_a_few_appends() -> None:
    """Each lateness between the bounds; rows of one append share its time; the order is that of the appends."""
    export = export_of(world_of())
    late = []
    for row, at in zip(export.rows, export.export_times, strict=True):
        ended = datetime.fromisoformat(row["usage_end_time"].removesuffix(" UTC")).replace(tzinfo=UTC)
        late.append(at - ended)
    assert timedelta(hours=1) <= min(late) < timedelta(hours=8)
    assert timedelta(hours=60) < max(late) <= timedelta(hours=72)
    assert list(export.export_times) == sorted(export.export_times)
    assert len(set(export.export_times)) < len(export.rows) / 20


def test_what_had_been_appended_grows_and_a_partition_is_its_day() -> None:
    """Partitions of all days are the export; nothing is in it before it was appended."""
    export = export_of(world_of(3))
    days = sorted({at.date() for at in export.export_times})
    assert [row for day in days for row in export.partition(day)] == list(export.rows)
    middle = export.export_times[len(export.rows) // 2]
    assert export.until(middle) == list(export.rows[: len(export.until(middle))])
    assert not export.until(export.export_times[0] - timedelta(seconds=1))


def test_days_and_months_are_pacific() -> None:
    """The day on which daylight saving begins has 23 hours: 82,800 s of a VM that ran all day."""
    world = world_of(2)
    seconds = {
        day: amount for (_, sku, day), amount in amounts(export_of(world).rows).items() if sku == _gpu_sku(world)
    }
    assert seconds["2026-03-08"] == 23 * 3600
    assert seconds["2026-03-09"] == 24 * 3600


def _gpu_sku(world: World) -> str:
    return next(str(row["sku"]["id"]) for row in export_of(world).rows if "T4" in row["sku"]["description"])


def test_another_currency_multiplies_costs_by_its_rate() -> None:
    """V-disk: in euros cost and list cost alike, price cut at six decimals, at the row's own rate."""
    world = world_of(3)
    euros = export_of(world, ExportOptions(currency="EUR", rate=Decimal("0.93364999999987552"))).rows
    assert {row["currency"] for row in euros} == {"EUR"}
    assert abs(dollars(euros) - dollars(export_of(world).rows)) < Decimal("0.000003") * len(euros)
    assert all(row["cost_at_list"] == row["cost"] for row in euros)


def test_a_commitment_covers_first_and_sustained_use_the_rest() -> None:
    """BU-cud: of 1.620846, 1.296641 is covered; the sustained-use credit is on the rest. E2 and Spot have none."""
    credits = frozenset({CreditType.COMMITTED, CreditType.SUSTAINED})
    rows = export_of(world_of(4, BEGAN - timedelta(days=6), 12), ExportOptions(credits=credits)).rows
    with_credits = [row for row in rows if row["credits"]]
    assert with_credits
    assert all(row["sku"]["description"].startswith("N1 ") for row in with_credits)
    assert all(Decimal(one["amount"]) < 0 for row in with_credits for one in row["credits"])
    for row in with_credits:
        by_type = {one["type"]: -Decimal(one["amount"]) for one in row["credits"]}
        rest = Decimal(row["cost"]) - by_type["COMMITTED_USAGE_DISCOUNT"]
        assert by_type.get("SUSTAINED_USAGE_DISCOUNT", 0) <= rest * Decimal("0.6")


def test_a_promotion_pays_until_it_is_used_up() -> None:
    """KO-late: the credit is the negative of the cost; together they are no more than the promotion."""
    options = ExportOptions(credits=frozenset({CreditType.PROMOTION}), promotion=Decimal(2))
    credits = [Decimal(one["amount"]) for row in export_of(world_of(6), options).rows for one in row["credits"]]
    assert sum(credits) == -2


def test_unused_capacity_is_of_its_allocation() -> None:
    """Google's query text: a global name with allocation/ instead of instances/, and the label."""
    world = world_of(1)
    labels = {"compute.googleapis.com/is_unused_reservation": "true"}
    billed = Billed(world.projects[0], "allocation", "77", "reserved", "us-central1-a", system_labels=labels)
    now = world.timeline.now
    unused = UnusedReservation(billed, "n1:core", 4, now - timedelta(hours=5), now)
    rows = [
        row
        for row in export_of(world, ExportOptions(unused=(unused,))).rows
        if "allocation/77" in row["resource"]["global_name"]
    ]
    assert sum(Decimal(row["usage"]["amount"]) for row in rows) >= 4 * 5 * 3600
    assert rows[0]["system_labels"] == [{"key": "compute.googleapis.com/is_unused_reservation", "value": "true"}]


def test_the_same_seed_gives_the_same_rows() -> None:
    """Another seed gives other appends of the same usage."""
    world = world_of(3)
    assert export_of(world).rows == export_of(world).rows
    other = export_of(world, ExportOptions(seed=2))
    assert other.rows != export_of(world).rows
    assert amounts(other.rows) == amounts(export_of(world).rows)


ALL = tuple(BillError)


@pytest.mark.parametrize("seed", range(2))
def test_all_eight_errors_fit_in_one_export(seed: int) -> None:
    """Each on a VM of its own; what is not planted is as it was."""
    world = world_of()
    export = export_of(world, ExportOptions(seed=seed, errors=ALL))
    assert {one.error for one in export.planted} == set(BillError)
    vms = [one.resource_id for one in export.planted if one.resource_id]
    assert len(vms) == len(set(vms)) == len(BillError) - 1


@pytest.mark.parametrize("error", BillError)
def test_each_planted_error_changes_its_own_rows_alone(error: BillError) -> None:
    """The changed rows are those of its VM, or of its SKU, on its day, against the export without it."""
    world = world_of()
    right, wrong = export_of(world), export_of(world, ExportOptions(errors=(error,)))
    (planted,) = wrong.planted
    changed = _by_place(right) ^ _by_place(wrong)
    assert changed
    for vm, sku, day, *_ in changed:
        assert day == f"{planted.pacific_day}"
        assert sku == planted.sku_id if error is BillError.WRONG_PRICE else vm == planted.resource_id


def _by_place(export: BillingExport) -> set[tuple[Any, ...]]:
    """Returns the sum of each VM's day, whatever appends brought it; a cost within what is carried is the same."""
    sums: dict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [0, Decimal(0), Decimal(0)])
    for row in export.rows:
        started = datetime.fromisoformat(row["usage_start_time"].removesuffix(" UTC")).replace(tzinfo=UTC)
        vm = row["resource"]["global_name"].rsplit("/", 1)[1]
        who = row["project"]["number"], row["currency_conversion_rate"]
        place = vm, row["sku"]["id"], f"{started.astimezone(PACIFIC).date()}", *who
        sums[place][0] += Decimal(row["usage"]["amount"])
        sums[place][1] += Decimal(row["cost"])
        sums[place][2] += sum(Decimal(one["amount"]) for one in row["credits"])
    return {(*place, amount, round(cost, 3), round(credit, 3)) for place, (amount, cost, credit) in sums.items()}


def test_wrong_seconds_are_ten_minutes() -> None:
    """The wrong seconds are on every SKU of the VM's uptime, never on its disks."""
    world = world_of()
    right, wrong = export_of(world), export_of(world, ExportOptions(errors=(BillError.WRONG_SECONDS,)))
    (planted,) = wrong.planted
    before, after = amounts(right.rows), amounts(wrong.rows)
    shifts = {place: Fraction(after[place] - before[place]) for place in before if before[place] != after[place]}
    assert {vm for vm, _, _ in shifts} == {planted.resource_id}
    assert {day for _, _, day in shifts} == {f"{planted.pacific_day}"}
    assert abs(planted.seconds) == 600
    assert all(shift % 600 == 0 and (shift > 0) == (planted.seconds > 0) for shift in shifts.values())


def test_an_error_without_a_vm_for_it_is_refused() -> None:
    """A single VM cannot hold eight errors that each need one."""
    with pytest.raises(ValueError, match="too few VMs"):
        export_of(world_of(1, days=1), ExportOptions(errors=ALL))


def test_error_days_bound_where_errors_are() -> None:
    """Errors only on the days that are given."""
    day = date(2026, 3, 9)
    export = export_of(world_of(), ExportOptions(errors=ALL, error_days=(day,)))
    assert {one.pacific_day for one in export.planted} == {day}
