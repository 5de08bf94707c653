"""The bill may differ without being wrong: recorded figures, discounts, shared disks, SKUs that no ledger holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction

import pytest
from tests.bill.two_sides import DAY, EURO, TwoSides, context, credited, ledger_use, sku_id

from costguard.bill.compare import Context, compare_day
from costguard.bill.lines import BilledThing, BillLine, BillStanding, BillState, LedgerUse, Reason
from costguard.bill.stories import story
from costguard.bill.sums import SoldAs
from costguard.model.billing.bill import BilledKind, BillRow, CostType, Credit


def test_open_day_invents_nothing() -> None:
    """Before a day closes, what is missing is still to come."""
    sides = TwoSides.drawn(1)
    sides.without("train-1")
    lines = sides.compared(BillStanding.OPEN).lines
    assert {(line.state, line.reason) for line in lines} == {(BillState.OPEN, Reason.STILL_TO_COME)}


def test_what_the_ledger_does_not_hold_stands_apart() -> None:
    """Network, licences and tax are outside; unused reservations are burn; neither is a difference."""
    sides = TwoSides.drawn(2)
    a_row = sides.rows[0]
    sides.rows += [
        replace(a_row, sku_id="NET", sku_text="Network egress", unit="bytes", cost_nanos=5_000_000, list_nanos=None),
        replace(a_row, kind=BilledKind.NONE, cost_type=CostType.TAX, sku_text="", sku_id="", cost_nanos=7_000_000),
        replace(a_row, is_unused_reservation=True, reservation_name="gpus", cost_nanos=9_000_000),
    ]
    day = sides.compared()
    assert {line.state for line in day.lines} == {BillState.AGREED}
    assert {key.text: nanos for key, nanos in day.outside.items()} == {"Network egress": 5_000_000, "tax": 7_000_000}
    assert dict(day.unused_reservations) == {(a_row.project_id, "gpus"): 9_000_000}


def test_savings_are_credited_to_the_vm_that_earned_them() -> None:
    """List price less savings is the effective cost, by the kind of the discount."""
    sides = TwoSides.drawn(3)
    sides.change(
        "train-0",
        "n1:core",
        lambda row: replace(
            credited(
                credited(row, "SUSTAINED_USAGE_DISCOUNT", Fraction(1, 5)), "COMMITTED_USAGE_DISCOUNT", Fraction(1, 2)
            ),
            list_nanos=row.cost_nanos,
        ),
    )
    (line,) = (line for line in sides.compared().lines if line.savings.total)
    assert (line.name, line.resource, line.state) == ("train-0", "n1:core", BillState.AGREED)
    assert line.list_nanos is not None
    assert line.effective_nanos is not None
    assert line.savings.sustained == pytest.approx(line.list_nanos * 0.2, abs=100)
    assert line.savings.committed == pytest.approx(line.list_nanos * 0.5, abs=100)
    assert line.savings.total == line.list_nanos - line.effective_nanos


def test_discounted_price_is_no_difference() -> None:
    """A contract's price below list is a saving: the ledger is compared at list price."""
    sides = TwoSides.drawn(4)
    sides.change("train-0", "n1:ram", lambda row: replace(row, cost_nanos=row.cost_nanos * 7 // 10))
    (line,) = (line for line in sides.compared().lines if line.savings.total)
    assert (line.state, line.savings.committed, line.savings.contract) == (BillState.AGREED, 0, line.savings.total)


def test_price_of_a_commitment_is_a_saving_of_the_commitment() -> None:
    """Covered usage has the commitment's price and consumption model since July 2025."""
    sides = TwoSides.drawn(4)
    sides.change(
        "train-0",
        "n1:ram",
        lambda row: replace(row, cost_nanos=row.cost_nanos * 7 // 10, consumption_model="D97B-0795-975B"),
    )
    (line,) = (line for line in sides.compared().lines if line.savings.total)
    assert (line.state, line.savings.contract, line.savings.committed) == (BillState.AGREED, 0, line.savings.total)


def test_gpu_seconds_may_differ_from_the_host_by_half_a_percent() -> None:
    """G-vx: 1057391 GPU seconds against 4221572 / 4 core seconds, 0.19 % less; explained, not hidden."""
    line = _host_and_gpu(core_seconds=4_221_572, gpu_seconds=1_057_391)
    assert (line.state, line.reason) == (BillState.DIFFERS, Reason.GPU_AND_HOST)
    line = _host_and_gpu(core_seconds=3_996_192, gpu_seconds=993_985)  # project2: 0.50 %
    assert line.reason is Reason.LESS  # just above half a percent against the host's 999048 seconds


def _host_and_gpu(core_seconds: int, gpu_seconds: int) -> BillLine:
    """The ledger holds what the cores say, the bill both."""
    sides = TwoSides.drawn(0, vms=0)
    thing = BilledThing(BilledKind.INSTANCE, "train-1", "41")
    seconds = core_seconds // 4
    for resource, quantity, billed in (("n1:core", 4, core_seconds), ("gpu:nvidia-tesla-t4", 1, gpu_seconds)):
        sides.uses.append(ledger_use(DAY, thing, "vx", "41", resource, Fraction(quantity), seconds))
        sides.rows.append(sides.row(thing, "vx", "41", resource, Fraction(billed), 0))
    (line,) = (line for line in sides.compared().lines if line.resource.startswith("gpu:"))
    return line


@pytest.mark.parametrize(
    ("seconds", "recorded"),
    [
        ((517, 3600, 3151, 79), "0.044512"),  # ins2: G-res2-sum-b, to the last digit cut row by row
        ((524, 3600, 3022, 79, 561, 3600, 3086, 79), "0.088158"),  # ins0 and ins1: G-res2-sum-a, 14551 s in all
    ],
)
def test_recorded_sums_of_cut_rows_agree_with_the_exact_price(seconds: tuple[int, ...], recorded: str) -> None:
    """Google's own sums (G-res2) lie within the allowance of the ledger's exact figure."""
    sides = TwoSides.drawn(0, vms=0)
    thing = BilledThing(BilledKind.INSTANCE, "train-1", "42")
    total = sum(seconds)
    sides.uses.append(ledger_use(DAY, thing, "ins", "42", "e2:core", Fraction(1), total))
    row = sides.row(thing, "ins", "42", "e2:core", Fraction(total), 0)
    nanos = int(Decimal(recorded) * 10**9)
    sides.rows.append(replace(row, cost_nanos=nanos, list_nanos=nanos, row_count=len(seconds)))
    (line,) = sides.compared().lines
    assert line.state is BillState.AGREED
    assert line.difference < 0  # in all recorded groups the sum lies below the exact product


def test_recorded_commitment_and_sustained_use_are_attributed() -> None:
    """BU-cud: 184590 core seconds cost 1.620846; a commitment takes 1.296641 off, sustained use 0.129677."""
    resource = "n1:core"
    thing = BilledThing(BilledKind.INSTANCE, "train-1", "43")
    sides = TwoSides.drawn(0, vms=0)
    sides.uses.append(ledger_use(DAY, thing, "cud", "43", resource, Fraction(1), 184_590))
    row = sides.row(thing, "cud", "43", resource, Fraction(184_590), 0)
    credits = (
        Credit("COMMITTED_USAGE_DISCOUNT", "Committed Usage Discount: CPU", "", -1_296_641_000),
        Credit("SUSTAINED_USAGE_DISCOUNT", "Sustained Usage Discount", "", -129_677_000),
    )
    cost = 1_620_846_000
    sides.rows.append(replace(row, credits=credits, cost_nanos=cost, list_nanos=cost, row_count=51))
    (line,) = sides.compared().lines
    assert line.state is BillState.AGREED
    assert (line.savings.committed, line.savings.sustained) == (1_296_641_000, 129_677_000)
    assert line.effective_nanos == 1_620_846_000 - 1_296_641_000 - 129_677_000


def test_disk_of_several_vms_is_explained() -> None:
    """The ledger charges a shared disk to each of its VMs; Google bills it once."""
    sides = TwoSides.drawn(5)
    sides.uses = [
        replace(use, used=use.used * 2, seconds=use.seconds * 2, nanos=use.nanos * 2, holders=2)
        if use.name == "train-1-disk"
        else use
        for use in sides.uses
    ]
    assert sides.findings() == {("train-1-disk", Reason.SHARED_DISK)}


def test_ragged_hours_of_a_disk_are_explained() -> None:
    """V-disk's hour has more GiB-seconds than an hour of any whole number of GiB up to 52."""
    sides = TwoSides.drawn(6)
    quantity = next(use.used / use.seconds for use in sides.uses if use.name == "train-1-disk")
    thing = next(use.thing for use in sides.uses if use.name == "train-1-disk")
    sides.rows.append(sides.row(thing, "train-1-disk", thing.id.removeprefix("77"), "disk:pd-ssd", quantity * 215, 23))
    assert sides.findings() == {("train-1-disk", Reason.DISK_HOURS)}


def test_disk_of_no_watched_vm_is_named_as_such() -> None:
    """An unattached disk bills, and the ledger holds only disks of VMs."""
    sides = TwoSides.drawn(7)
    sides.uses = [use for use in sides.uses if use.name != "train-1-disk"]
    assert sides.findings() == {("train-1-disk", Reason.UNKNOWN_DISK)}
    (line,) = [line for line in sides.compared().lines if line.reason]
    assert "If nobody needs it: gcloud compute disks delete train-1-disk --zone " in story(line)
    for name in ("pvc-0a1b2c3d-4e5f", "gke-train-9f8e7d6c-pvc-0a1b2c3d"):
        assert story(replace(line, name=name)).endswith("a volume of a cluster, which may need it though no VM has it.")


def test_project_that_is_not_watched_raises_no_alarm() -> None:
    """The VMs are named, and explained."""
    sides = TwoSides.drawn(8)
    a_row = next(row for row in sides.rows if row.resource_name == "train-1")
    sides.rows.append(replace(a_row, project_id="web", resource_id="9", resource_name="web-1"))
    assert sides.findings() == {("web-1", Reason.NOT_WATCHED)}


def test_vm_without_a_gpu_is_not_missed_where_the_settings_ignore_such_vms() -> None:
    """`vms_without_gpu = "ignore"` keeps them out of the ledger on purpose."""
    sides = TwoSides.drawn(9, vms=0)
    thing = BilledThing(BilledKind.INSTANCE, "train-1", "44")
    sides.rows.append(sides.row(thing, "small", "44", "n1:core", Fraction(3600), 0))
    gpu_only = replace(context(), gpu_only=True)
    assert [line.reason for line in compare_day(DAY, [], sides.rows, gpu_only).lines] == [Reason.NOT_WATCHED]
    sides.rows.append(sides.row(thing, "small", "44", "gpu:nvidia-tesla-t4", Fraction(3600), 0))
    reasons = {line.reason for line in compare_day(DAY, [], sides.rows, gpu_only).lines}
    assert reasons == {Reason.UNKNOWN_VM}


def test_usage_by_vertex_ai_is_outside() -> None:
    """G-t4: Vertex AI's own VMs are in no list of VMs; the tag gcp-product names them."""
    sides = TwoSides.drawn(10)
    a_row = next(row for row in sides.rows if row.resource_name == "train-1")
    sides.rows.append(replace(a_row, resource_id="9", resource_name="vx", product="vertex_ai"))
    day = sides.compared()
    assert {line.state for line in day.lines} == {BillState.AGREED}
    assert [key.text for key in day.outside] == [f"{a_row.sku_text} (vertex_ai)"]


def test_part_under_another_sku_is_one_difference() -> None:
    """Predefined cores that Google sold as E2's are one line with both sides, not one missing and one unknown."""
    sides = TwoSides.drawn(11)
    sides.change("train-1", "n1:core", lambda row: replace(row, sku_id=sku_id("e2:core")))
    (line,) = (line for line in sides.compared().lines if line.reason)
    assert (line.name, line.resource, line.reason) == ("train-1", "n1:core", Reason.OTHER_SKU)
    assert line.sku_ids == (sku_id("e2:core"),)


def test_part_that_the_ledger_does_not_charge_is_named() -> None:
    """A GPU on the bill of a VM that has none in the ledger."""
    sides = TwoSides.drawn(12)
    thing = next(use.thing for use in sides.uses if use.name == "train-1")
    sides.uses = [use for use in sides.uses if (use.name, use.resource) != ("train-1", "gpu:nvidia-tesla-t4")]
    assert sides.findings() == {("train-1", Reason.UNKNOWN_PART)}
    unpriced = replace(context(), unpriced={thing})
    reasons = {line.reason for line in compare_day(DAY, sides.uses, sides.rows, unpriced).lines}
    assert reasons == {Reason.NONE, Reason.UNPRICED}


def test_correction_of_an_earlier_row_counts() -> None:
    """A row that Google billed wrongly and took back with an adjustment leaves nothing."""
    sides = TwoSides.drawn(13)
    wrong = next(row for row in sides.rows if row.resource_name == "train-1")
    assert wrong.list_nanos is not None
    back = replace(
        wrong,
        amount=-wrong.amount,
        cost_nanos=-wrong.cost_nanos,
        list_nanos=-wrong.list_nanos,
        cost_type=CostType.ADJUSTMENT,
        adjustment="USAGE_CORRECTION",
    )
    sides.rows += [wrong, back]
    assert sides.findings() == set()


def test_row_without_an_id_is_matched_by_a_name_that_is_unique() -> None:
    """Results of queries name VMs by projects/<number>/instances/<name> alone (G-res2)."""
    sides = TwoSides.drawn(14)
    sides.rows = [replace(row, resource_id="") if row.kind is BilledKind.INSTANCE else row for row in sides.rows]
    assert sides.findings() == set()


def test_disk_without_an_id_in_the_ledger_is_matched_by_its_name() -> None:
    """The ledger has the name alone of disks that went before their ids were read."""
    assert TwoSides.drawn(14, has_disk_ids=False).findings() == set()


@pytest.mark.parametrize("has_disk_ids", [True, False])
def test_disk_billed_to_another_project_is_found(has_disk_ids: bool) -> None:
    """The disk is found by its id wherever it is billed; by its name where the ledger has no id."""
    sides = TwoSides.drawn(14, has_disk_ids=has_disk_ids)
    sides.change("train-1-disk", "disk:pd-ssd", lambda row: replace(row, project_id="train-9"))
    assert sides.findings() == {("train-1-disk", Reason.OTHER_PROJECT)}


def test_disks_of_one_name_are_told_apart_by_their_ids() -> None:
    """Two zones of a project have a disk of the same name, and the bill lacks the rows of one."""
    sides = TwoSides.drawn(14, vms=0)
    for gce_id in ("51", "52"):
        thing = BilledThing(BilledKind.DISK, "train-0", f"77{gce_id}")
        sides.add(thing, "data-disk", gce_id, "disk:pd-ssd", Fraction(50), 0, 86_400)
    sides.rows = [row for row in sides.rows if row.resource_id == "7751"]
    findings = {(line.thing.id, line.reason) for line in sides.compared().lines}
    assert findings == {("7751", Reason.NONE), ("7752", Reason.MISSING)}


def test_hour_of_the_clock_change_is_of_its_utc_day() -> None:
    """Pacific time skips an hour on 8 March 2026: the UTC day has its 24 hours, and March 743."""
    day = date(2026, 3, 8)
    sides = TwoSides.drawn(15, EURO)
    moved = TwoSides(sides.rng, rate=EURO, day=day)
    for number in range(3):
        moved._add_vm(str(50 + number), f"train-{number}", "train-0")
    assert moved.findings() == set()
    pacific_days = {row.pacific_day for row in moved.rows}
    assert pacific_days == {date(2026, 3, 7), day}
    assert datetime(2026, 3, 8, 23, tzinfo=UTC) in {row.usage_start for row in moved.rows}


def _unused(sku: str, text: str) -> SoldAs | None:
    return None


def test_sku_that_nobody_can_name_leaves_the_vm_missing() -> None:
    """Nothing is guessed without the SKUs of a price list: the ledger's lines are missing, the rows are outside."""
    sides = TwoSides.drawn(16)
    blind = Context(_unused, lambda _: BillStanding.CLOSED, lambda _: True)
    day = compare_day(DAY, sides.uses, sides.rows, blind)
    assert {line.reason for line in day.lines} == {Reason.MISSING}
    assert sum(day.outside.values()) == sum(row.cost_nanos for row in sides.rows)


def test_names_of_lines_are_of_rows_and_uses() -> None:
    """Both sides of a line carry what people look for: VM, disk, zone, SKU."""
    sides = TwoSides.drawn(17)
    uses: dict[tuple[str, str], LedgerUse] = {(use.name, use.resource): use for use in sides.uses}
    rows: dict[tuple[str, str], BillRow] = {(row.resource_name, row.sku_id): row for row in sides.rows}
    for line in sides.compared().lines:
        assert line.vm_name == uses[line.name, line.resource].vm_name
        assert line.sku_ids == (rows[line.name, sku_id(line.resource)].sku_id,)
