"""The meter against what Google really billed: rows and sums of its export, copied into data/bill_rows.json."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.vms import T4, ZONE, new_world, up

from costguard_sandbox.gce.catalogue.prices import PriceList
from costguard_sandbox.gce.meter import Row, bill, rows
from costguard_sandbox.gce.meter.bill import made_row, month_of, seconds_of_month
from costguard_sandbox.gce.vm import VM, Run

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "bill_rows.json").read_text("utf-8"))
# A row's cost lies below the exact product by up to a millionth, and remainders are carried now and then.
BELOW, ABOVE = Decimal("0.000002"), Decimal("0.000001")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def ran(began: datetime, ended: datetime, machine: str, **more: Any) -> tuple[VM, PriceList]:
    """A VM that was up between two moments."""
    world = new_world(began - timedelta(hours=1))
    vm = up(world, machine=machine, **more)
    vm.runs = [Run(began, ended)]
    return vm, world.prices


def machine_rows(vm: VM, prices: PriceList) -> list[Row]:
    until = vm.runs[-1].ended
    assert until is not None
    return [row for row in rows(vm, prices, until) if not row.resource.startswith("disk:")]


@pytest.mark.parametrize("row", RECORDED["storage"], ids=lambda row: str(row["id"]))
def test_storage_row_is_divided_by_the_seconds_of_its_month(row: dict[str, Any]) -> None:
    """Bytes and GiB-months to the last digit; the cost within what single rows differ by."""
    made = made_row("disk", "GiBy.mo", Fraction(row["gib_seconds"]), Decimal(row["price"]), moment(row["hour"]))
    assert made.amount == Decimal(row["amount"])
    assert made.in_pricing_units == Decimal(row["in_pricing_units"])
    assert -BELOW <= made.cost - Decimal(row["cost"]) <= ABOVE
    assert (made.unit, made.pricing_unit) == ("byte-seconds", "gibibyte month")


def test_whole_recorded_disk_row_has_the_recorded_cost() -> None:
    """V-disk: 0.071217891 GiB-months at 0.174592 give 0.012434, the rest cut off."""
    (row,) = (row for row in RECORDED["storage"] if row["id"] == "V-disk")
    made = made_row("disk", "GiBy.mo", Fraction(row["gib_seconds"]), Decimal(row["price"]), moment(row["hour"]))
    assert made.cost == Decimal(row["cost"])


@pytest.mark.parametrize("row", RECORDED["months"], ids=lambda row: str(row["id"]))
def test_other_service_is_divided_by_the_same_month(row: dict[str, Any]) -> None:
    """Cloud KMS bills per key version and month: the same 31 days of August, cut after nine decimals."""
    exact = Fraction(row["seconds"], seconds_of_month(moment(row["hour"])))
    assert Decimal(int(exact * 10**9)).scaleb(-9) == Decimal(row["in_pricing_units"])


def test_t4_vm_has_the_recorded_amounts() -> None:
    """Cores, memory and GPU of a VM that ran for an hour and 21 minutes, in every digit that Google printed."""
    sample = RECORDED["t4_vm"]
    vm, prices = ran(moment(sample["began"]), moment(sample["ended"]), "n1-standard-4", **T4)
    amounts: dict[datetime, dict[str, Decimal]] = defaultdict(dict)
    for row in machine_rows(vm, prices):
        amounts[row.usage_start][row.resource] = row.amount
    recorded = {
        moment(hour): {name: Decimal(n) for name, n in recorded_amounts.items()}
        for hour, recorded_amounts in sample["amounts"].items()
    }
    assert amounts == recorded


def test_e2_medium_has_the_recorded_seconds_of_a_single_core() -> None:
    """Each hour of ins0, ins1 and ins2: whole hours have 3,600 core-seconds though the guest sees two vCPUs."""
    for name, hours in reserved_hours().items():
        vm, prices = reserved_vm(name)
        metered = {row.usage_start: row.amount for row in machine_rows(vm, prices) if row.resource == "e2:core"}
        assert metered == hours


def test_costs_are_cut_row_by_row() -> None:
    """ins2 to the last digit: 0.044512, where the exact product is 0.04451382 and rounded rows give 0.044514."""
    sums = RECORDED["reserved_e2"]["sums"]
    costs = {tuple(one["vms"]): sum(core_costs(one["vms"]), Decimal(0)) for one in sums}
    recorded = {tuple(one["vms"]): Decimal(one["cost"]) for one in sums}
    assert costs["ins2",] == recorded["ins2",]
    # Google has eight rows where the meter has six, and carried one millionth.
    assert abs(costs["ins0", "ins1"] - recorded["ins0", "ins1"]) <= 8 * ABOVE


def test_recorded_day_of_n1_cores_costs_what_the_meter_says() -> None:
    """184,590 core-seconds at 0.031611: recorded 1.620846, below the exact product by less than a millionth a row."""
    sample = RECORDED["n1_core_day"]
    began = datetime(2019, 7, 23, 7, tzinfo=UTC)
    vm, prices = ran(began, began + timedelta(seconds=float(sample["seconds"])), "n1-standard-1")
    cost = Decimal(bill(vm, prices, began + timedelta(days=3)).resources["n1:core"].nanos).scaleb(-9)
    assert Decimal(0) <= cost - Decimal(sample["cost"]) < Decimal("0.000024")


def test_month_of_compute_costs_by_its_days() -> None:
    """Recorded: February 2019 cost 28/31 of January. A disk costs the same in both."""
    recorded = RECORDED["month_costs"]
    january, february = (month_of(datetime(2019, month, 15, tzinfo=UTC)) for month in (1, 2))
    vm, prices = ran(january[0], february[1], "n1-standard-1")
    vm.created_at = january[0]
    parts = [bill(vm, prices, ended, began).resources for began, ended in (january, february)]
    assert parts[1]["n1:core"].exact / parts[0]["n1:core"].exact == Fraction(28, 31)
    ratio = Decimal(recorded["2019-02"]) / Decimal(recorded["2019-01"])
    assert abs(ratio - Decimal(28) / Decimal(31)) < Decimal("0.0001")
    assert parts[1]["disk:pd-balanced"].exact == parts[0]["disk:pd-balanced"].exact


@pytest.mark.parametrize(
    ("month", "seconds"),
    [("2023-03", 2_674_800), ("2026-11", 2_595_600), ("2027-02", 2_419_200), ("2028-02", 2_505_600)],
)
def test_daylight_saving_makes_months_longer_and_shorter(month: str, seconds: int) -> None:
    """A March loses an hour (recorded in G-pd: 743 hours), a November gains one, a February has its days."""
    assert seconds_of_month(moment(f"{month}-15T12:00:00Z")) == seconds


def test_month_ends_at_pacific_midnight() -> None:
    """Seven or eight hours after UTC's."""
    assert month_of(datetime(2026, 8, 1, 6, 59, tzinfo=UTC))[1] == datetime(2026, 8, 1, 7, tzinfo=UTC)
    assert month_of(datetime(2026, 12, 1, 8, tzinfo=UTC))[0] == datetime(2026, 12, 1, 8, tzinfo=UTC)


def test_year_of_a_disk_is_twelve_monthly_prices() -> None:
    """500 GiB at 0.10 dollars: 600 dollars to the nano-dollar, whatever the months' lengths."""
    began, ended = month_of(datetime(2026, 1, 15, tzinfo=UTC))[0], month_of(datetime(2027, 1, 15, tzinfo=UTC))[0]
    world = new_world(began)
    vm = up(world, disk={"diskSizeGb": "500", "diskType": f"zones/{ZONE}/diskTypes/pd-balanced"})
    world.advance_to(ended)
    assert bill(vm, world.prices, ended, began).resources["disk:pd-balanced"].nanos == 600 * 10**9


def test_rows_add_up_to_the_bill_but_for_what_is_cut() -> None:
    """Two days over a month's end: no row is above its part of the exact bill, none more than a millionth below."""
    began = datetime(2026, 10, 31, 20, 30, 15, tzinfo=UTC)
    vm, prices = ran(began, began + timedelta(hours=40), "n1-standard-4")
    until = began + timedelta(hours=48)
    made = list(rows(vm, prices, until))
    exact = Decimal(bill(vm, prices, until).nanos).scaleb(-9)
    assert Decimal(0) <= exact - sum(row.cost for row in made) < ABOVE * len(made)


def reserved_hours() -> dict[str, dict[datetime, int]]:
    """Seconds by VM and hour; an hour that came in several rows is summed."""
    hours: dict[str, dict[datetime, int]] = defaultdict(lambda: defaultdict(int))
    for row in RECORDED["reserved_e2"]["rows"]:
        hours[row["vm"]][moment(row["hour"])] += row["seconds"]
    return hours


def reserved_vm(name: str) -> tuple[VM, PriceList]:
    """An e2-medium that was up for the recorded seconds of three hours on end."""
    (first, seconds), *_, (last, more) = sorted(reserved_hours()[name].items())
    began = first + timedelta(hours=1) - timedelta(seconds=seconds)
    return ran(began, last + timedelta(seconds=more), "e2-medium")


def core_costs(names: list[str]) -> list[Decimal]:
    vms = [reserved_vm(name) for name in names]
    return [row.cost for vm, prices in vms for row in machine_rows(vm, prices) if row.resource == "e2:core"]
