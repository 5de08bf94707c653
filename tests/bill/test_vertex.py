"""Vertex AI on the bill: compared by day, project and SKU, and never a difference that is wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from fractions import Fraction

from sqlalchemy import Connection, select
from tests.bill.two_sides import DAY, TwoSides, context, ledger_use

from costguard.bill import vertex
from costguard.bill.compare import compare_day
from costguard.bill.compared_rows import store_day
from costguard.bill.comparing import drifting
from costguard.bill.lines import BilledThing, BillLine, BillStanding, BillState, DayComparison, Reason
from costguard.bill.stories import story, title
from costguard.db.tables import bill_costs, bill_days
from costguard.db.transaction import Database
from costguard.model.billing.bill import BilledKind, BillRow

PROJECT, T4 = "train-0", "gpu:nvidia-tesla-t4"
HOUR = 3600


def _sides(*, hours: int = 24) -> TwoSides:
    """Two jobs with a GPU each; `hours` of their rows are on the bill, which names no job."""
    sides = TwoSides.drawn(3, vms=1)
    sides.uses, sides.rows = [], []
    for number in (1, 2):
        gce_id = f"vertex.customJobs.us-central1.{number}"
        thing = BilledThing(BilledKind.INSTANCE, PROJECT, gce_id)
        sides.uses.append(ledger_use(DAY, thing, f"job-{number}", gce_id, T4, Fraction(1), 24 * HOUR))
        for hour in range(hours):
            sides.rows.append(_of_vertex(sides.row(thing, "", "", T4, Fraction(HOUR), hour)))
    return sides


def _of_vertex(row: BillRow) -> BillRow:
    return replace(row, kind=BilledKind.NONE, resource_id="", resource_name="", service_id=vertex.VERTEX_AI)


def _line(sides: TwoSides) -> BillLine:
    (line,) = sides.compared().lines
    return line


def test_sums_of_a_day_agree_by_project_and_sku() -> None:
    """Two jobs are one line, which names no VM."""
    line = _line(_sides())
    assert (line.state, title(line), line.gce_id) == (BillState.AGREED, "Vertex AI", "")
    assert line.ledger_used == line.billed_used == 48 * HOUR
    assert sum(share.nanos for share in line.shares) == line.ledger_nanos


def test_rows_of_compute_engine_with_the_tag_count_as_well() -> None:
    """Spot machines of Vertex AI are billed by Compute Engine, of VMs that no list shows."""
    sides = _sides()
    sides.rows = [
        replace(row, kind=BilledKind.INSTANCE, resource_id="9", service_id="6F81-5844-456A", product="vertex_ai")
        for row in sides.rows
    ]
    assert _line(sides).state is BillState.AGREED


def test_another_sum_is_explained_and_raises_no_alarm() -> None:
    """Batch predictions have the same SKUs, and are not in the ledger."""
    line = _line(_sides(hours=20))
    assert (line.state, line.reason, line.is_explained) == (BillState.DIFFERS, Reason.VERTEX, True)
    assert "Google billed" in story(line)
    assert drifting([line]) == {}


def test_charges_without_rows_are_not_missing() -> None:
    """Nothing of them can be compared, which is no error of either side."""
    sides = _sides(hours=0)
    line = _line(sides)
    assert (line.reason, line.list_nanos, line.is_explained) == (Reason.VERTEX, None, True)
    assert "no row that can be compared" in story(line)
    assert drifting([line]) == {}


def test_rows_of_what_the_ledger_does_not_charge_are_outside() -> None:
    """They are listed by SKU, and are no difference."""
    sides = _sides()
    sides.uses = []
    day = sides.compared()
    assert day.lines == ()
    assert sum(day.outside.values()) == sum(row.cost_nanos for row in sides.rows)


def test_untagged_rows_of_vms_are_not_taken_for_vertex_ai() -> None:
    """Network of Compute Engine without a resource stays outside, though its SKU is charged for a job."""
    sides = _sides(hours=0)
    thing = BilledThing(BilledKind.NONE, PROJECT, "")
    sides.rows = [sides.row(thing, "", "", T4, Fraction(HOUR), 3)]
    day = sides.compared()
    assert [line.list_nanos for line in day.lines] == [None]
    assert len(day.outside) == 1


def _stored(connection: Connection, comparison: DayComparison) -> tuple[int, int, int]:
    """Returns by the stored day its ledger's total, its absolute difference, and what its costs add up to."""
    store_day(connection, comparison, {PROJECT: BillStanding.CLOSED}, datetime.fromisoformat("2026-11-20T00:00Z"))
    day = connection.execute(select(bill_days)).one()
    costs = connection.execute(select(bill_costs)).all()
    return day.ledger_nanos, day.absolute_nanos, sum(row.gpu_nanos for row in costs)


def test_what_cannot_be_compared_is_in_no_total_and_still_costs(sqlite_database: Database) -> None:
    """The ledger's amount stands in by the bill's basis: it was not free."""
    sides = _sides(hours=0)
    charged = sum(use.nanos for use in sides.uses)
    comparison = compare_day(DAY, sides.uses, [], context())
    with sqlite_database.write() as connection:
        assert _stored(connection, comparison) == (0, 0, charged)
