"""The daily sums of all projects together, of days that were charged before there were any."""

from __future__ import annotations

from contextlib import closing

from sqlalchemy import text
from tests.upgrades.placing import upgrade_to

from costguard.db.transaction import Database

_ROW = (
    "INSERT INTO daily_totals (day, project, preset, provisioning_model, machine_nanos, gpu_nanos, storage_nanos, "
    "seconds) VALUES ('{}', '{}', '{}', 'spot', {}, 2, 3, 60)"
)
_SUMS = "SELECT CAST(day AS VARCHAR), preset, provisioning_model, machine_nanos, gpu_nanos, storage_nanos, seconds "


def test_days_of_before_are_added_up_over_projects(empty_database_url: str) -> None:
    """The migration makes them of the sums by project, which stay."""
    upgrade_to(empty_database_url, "0110")
    days = [("2026-01-01", "lab", "t4", 5), ("2026-01-01", "old", "t4", 6), ("2026-01-01", "lab", "l4", 7)]
    most = 2**61
    days += [("2026-01-02", "lab", "t4", most), ("2026-01-02", "old", "t4", most - 1)]
    with closing(Database.open(empty_database_url, migrating=True)) as database, database.write() as connection:
        for day in days:
            connection.execute(text(_ROW.format(*day)))
    upgrade_to(empty_database_url, "0111")
    with closing(Database.open(empty_database_url)) as database, database.read() as connection:
        sums = connection.execute(text(f"{_SUMS} FROM daily_presets ORDER BY day, preset")).all()
        assert connection.execute(text("SELECT count(*) FROM daily_totals")).scalar_one() == len(days)
    assert [tuple(row) for row in sums] == [
        ("2026-01-01", "l4", "spot", 7, 2, 3, 60),
        ("2026-01-01", "t4", "spot", 11, 4, 6, 120),
        ("2026-01-02", "t4", "spot", 2 * most - 1, 4, 6, 120),
    ]
