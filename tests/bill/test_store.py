"""The stored bill: repeated, late, partial and changed reads of an export."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.bill.exports import EXPORTED, HOUR, NOON, row, summed

from costguard.bill import stored
from costguard.bill.store import BillRead, store
from costguard.db.transaction import Database
from costguard.errors import Conflict
from costguard.model.billing.bill import BilledKind, BillRow, Credit

LATER = EXPORTED + timedelta(hours=3)
READ_AT = EXPORTED + timedelta(days=2)


def read(database: Database, rows: Iterable[dict[str, Any]], *, is_whole: bool = False) -> BillRead:
    return store(database, summed(*rows).partitions(), "export.jsonl", READ_AT, is_whole=is_whole)


def bill(database: Database) -> list[BillRow]:
    with database.read() as connection:
        return list(stored.rows_of(connection, date(2026, 11, 1), date(2026, 11, 30)))


def test_the_pieces_of_an_hour_are_added_up(database: Database) -> None:
    """G-res2: 3022 s and 79 s of one VM and hour are 3101 s; the sum says how many rows it is of."""
    credit = {"type": "SUSTAINED_USAGE_DISCOUNT", "name": "SUD", "id": "s", "amount": "-0.001"}
    read(database, [row(seconds="3022", cost="0.018309", credits=[credit]), row(seconds="79", cost="0.000478")])
    (one,) = bill(database)
    assert (one.amount, one.cost_nanos, one.list_nanos, one.row_count) == (Decimal(3101), 18_787_000, 18_787_000, 2)
    assert (one.kind, one.resource_id, one.project_number) == (BilledKind.INSTANCE, "1", "700")
    assert one.credits == (Credit("SUSTAINED_USAGE_DISCOUNT", "SUD", "s", -1_000_000),)
    assert one.repeated_count == 0


def test_reading_the_same_rows_again_changes_nothing(database: Database) -> None:
    """The same appends in another order are the same export day."""
    rows = [row(vm) for vm in range(5)]
    assert read(database, rows) == BillRead(5, 1, 1)
    before = bill(database)
    assert read(database, reversed(rows)) == BillRead(5, 1, 0)
    assert bill(database) == before


def test_rows_that_come_late_are_added_to_their_usage_day(database: Database) -> None:
    """Usage of one day in two export days: both stand, with the newest export time of each."""
    read(database, [row(seconds="600")])
    read(database, [row(seconds="3000", exported=EXPORTED + timedelta(days=1))])
    assert sum(one.amount for one in bill(database)) == 3600


def test_a_later_read_of_a_day_replaces_what_it_contains(database: Database) -> None:
    """An export day that was read before its end is read again with more appends."""
    read(database, [row(1)])
    assert read(database, [row(1), row(2, exported=LATER)]) == BillRead(2, 1, 1)
    assert [one.resource_id for one in bill(database)] == ["1", "2"]


def test_other_appends_of_a_day_are_added(database: Database) -> None:
    """Two files with different appends of one export day are that day together, also of one VM."""
    read(database, [row(1, seconds="600", cost="0.000001")])
    read(database, [row(1, seconds="3000", cost="0.000002", exported=LATER), row(2, exported=LATER)])
    assert [(one.resource_id, one.amount, one.cost_nanos) for one in bill(database)] == [
        ("1", Decimal(3600), 3000),
        ("2", Decimal(3600), 21_811_000),
    ]
    again = read(database, [row(1, seconds="600", cost="0.000001")])
    assert again.days_changed == 0  # every append of it is stored


def test_a_piece_of_an_append_is_refused(database: Database) -> None:
    """Half of an append that is stored whole would take rows away: nothing changes, and it says what to do."""
    read(database, [row(1), row(2)])
    before = bill(database)
    with pytest.raises(Conflict, match="other rows of the export day 2026-11-10") as refused:
        read(database, [row(1)])
    assert "in one command" in refused.value.what_next
    assert bill(database) == before


def test_a_partition_of_the_table_replaces_what_is_stored(database: Database) -> None:
    """The table's present rows of an export day count, also where rows were changed or went."""
    read(database, [row(1), row(2)])
    read(database, [row(1, cost="0.5")], is_whole=True)
    (one,) = bill(database)
    assert (one.resource_id, one.cost_nanos) == ("1", 500_000_000)


def test_a_row_that_google_wrote_twice_counts_twice_and_is_marked(database: Database) -> None:
    """The invoice sums the table's rows, so a duplicate is billed; it is counted, so that it can be explained."""
    read(database, [row(1), row(1), row(1, hour=NOON + HOUR)])
    (one,) = bill(database)
    assert (one.amount, one.row_count, one.repeated_count) == (Decimal(3 * 3600), 3, 1)


def test_an_unknown_list_cost_makes_the_sum_unknown(database: Database) -> None:
    """A sum of what is known alone would be too low."""
    read(database, [row(1), row(1, hour=NOON + HOUR, cost_at_list=None)])
    (one,) = bill(database)
    assert one.list_nanos is None
    assert one.cost_nanos == 2 * 21_811_000


def test_the_detailed_export_counts_before_the_focus_table(database: Database) -> None:
    """Both bill the same usage of an account: only one is counted, and FOCUS alone is as good."""
    focus = {
        "BillingAccountId": "000000-000000-000001",
        "ChargePeriodStart": f"{NOON:%Y-%m-%d %H:%M:%S}",
        "ContractedCost": "9",
        "x_ExportTime": f"{EXPORTED:%Y-%m-%d %H:%M:%S}",
    }
    read(database, [focus])
    assert [one.source for one in bill(database)] == ["focus:000000-000000-000001"]
    read(database, [row(1)])
    assert [one.source for one in bill(database)] == ["detailed:000000-000000-000001"]


def test_days_are_asked_for_in_pacific_time(database: Database) -> None:
    """Usage at 04:00 UTC on the 11th belongs to the 10th."""
    read(database, [row(1, hour=NOON + 16 * HOUR)])
    with database.read() as connection:
        assert len(list(stored.rows_of(connection, date(2026, 11, 10), date(2026, 11, 10)))) == 1
        assert not list(stored.rows_of(connection, date(2026, 11, 11), date(2026, 11, 11)))


def test_what_was_read_is_listed(database: Database) -> None:
    """Each export day with its rows and the newest append: by it a day is known to be complete."""
    read(database, [row(1), row(2, exported=LATER)])
    with database.read() as connection:
        (partition,) = stored.partitions(connection)
    assert (partition.day, partition.row_count, partition.last_export_at) == (EXPORTED.date(), 2, LATER)


DRAWN = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 30), st.integers(0, 2), st.integers(1, 3600)), min_size=1, max_size=40
)


@given(drawn=DRAWN)
def test_sums_do_not_depend_on_memory_or_order(drawn: list[tuple[int, int, int, int]]) -> None:
    """Rows added up through the temporary file are those added up in memory, and none is lost."""
    rows = [
        row(vm, NOON + hour * HOUR, EXPORTED + day * timedelta(days=1), str(seconds), f"0.{seconds:06}")
        for vm, hour, day, seconds in drawn
    ]
    in_memory = {(one.source, one.day): one for one in summed(*rows).partitions()}
    spilled = {(one.source, one.day): one for one in summed(*reversed(rows), most_sums=2).partitions()}
    assert in_memory.keys() == spilled.keys()
    for place, partition in in_memory.items():
        other = spilled[place]
        assert partition.batches == other.batches
        assert {key: _figures(usage) for key, usage in partition.usage.items()} == {
            key: _figures(usage) for key, usage in other.usage.items()
        }
    total = sum(usage.amount for partition in in_memory.values() for usage in partition.usage.values())
    assert Decimal(total) / 10**9 == sum(seconds for *_, seconds in drawn)


def _figures(usage: Any) -> tuple[Any, ...]:
    return (
        *(usage.start, usage.end, usage.export, usage.amount, usage.list_nanos, usage.cost_nanos),
        *(usage.row_count, usage.repeated_count, sorted((usage.credits or {}).items())),
    )
