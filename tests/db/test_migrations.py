"""Migrations: up, compared with the tables, down; and databases that are not of this version."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import insert, inspect, select, text, update
from tests.accrued import assert_totals_hold
from tests.api import rows
from tests.api.rows import NOW
from tests.reminders import reminder_rows
from tests.rolled_up import roll_up_days
from tests.within import charge_due, keep_rates

from costguard.access import requests
from costguard.db import migrate, tables
from costguard.db.tables import (
    changes,
    charges,
    daily_owners,
    daily_spend,
    daily_spot,
    daily_spot_totals,
    daily_totals,
    lifetimes,
    metadata,
    prices,
    storage_spans,
)
from costguard.db.transaction import Database
from costguard.errors import DatabaseUnreachable, StoreError
from costguard.ledger.accrual import accrual_at
from costguard.model.reminder import RequestKind
from costguard.reminders import message_rows, stop_rows
from costguard.reminders.message_rows import NewMessage
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping


def test_the_migrations_make_what_the_tables_say(database: Database) -> None:
    """After upgrade to head, Alembic finds no difference from tables.py on either database."""
    # Alembic takes SQLite's default '' for a difference from ''; the migration is the same for both.
    options = {"compare_type": True, "compare_server_default": database.dialect == "postgresql"}
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, metadata) == []


def test_partial_indexes_are_partial_on_both_databases(database: Database) -> None:
    """The indexes of what is open or present hold only those rows; Alembic's comparison does not look at this."""
    expected = {
        index.name
        for table in metadata.tables.values()
        for index in table.indexes
        if index.dialect_options["sqlite"]["where"] is not None
    }
    assert "ix_lifetimes_open" in expected
    with database.read() as connection:
        inspector = inspect(connection)
        partial = {
            index["name"]
            for table in metadata.tables
            for index in inspector.get_indexes(table)
            if index.get("dialect_options", {}).get(f"{database.dialect}_where") is not None
        }
    assert partial == expected


def test_down_takes_everything_away_again(empty_database_url: str) -> None:
    """Up, down to nothing and up once more leaves a database of this version."""
    assert migrate.upgrade(empty_database_url)
    assert migrate.downgrade(empty_database_url, "base") == ""
    with closing(Database.open(empty_database_url)) as database:
        with database.read() as connection:
            assert inspect(connection).get_table_names() == ["alembic_version"]
        migrate.upgrade(empty_database_url)
        migrate.check(database)


def test_what_was_charged_before_an_upgrade_is_rolled_up_by_it(empty_database_url: str) -> None:
    """Spot's roll-up is what passes would have made of the same charges, and its changes are counted from then on."""
    migrate.upgrade(empty_database_url)
    with closing(Database.open(empty_database_url)) as database:
        with database.write() as connection:
            rows.prices(connection)
            for number, (model, owner) in enumerate((("spot", "ada"), ("spot", "ben"), ("standard", "ben"))):
                vm = rows.instance(connection, f"vm-{number}")
                start = rows.NOW - timedelta(days=9, hours=number)
                for at in (start, start + timedelta(days=3)):
                    end = at + timedelta(hours=30)
                    rows.lifetime(connection, vm, at, ended_at=end, provisioning_model=model, owner=owner)
                rows.storage(connection, vm, start)
            charge_due(connection, rows.NOW)
        made = _spot_rows(database)
        assert [len(rows_of_one) for rows_of_one in made] == [24, 12]
        migrate.downgrade(empty_database_url, "0007")
        migrate.upgrade(empty_database_url)
        assert _spot_rows(database) == made
        with database.read() as connection:
            counted = set(connection.execute(select(changes.c.table_name)).scalars())
        assert {name for name in metadata.tables if name.startswith("daily_")} <= counted


def test_storage_charged_before_an_upgrade_is_charged_by_the_calendar_month(empty_database_url: str) -> None:
    """Disks and runs with local SSD are charged once more, whatever they were charged; other runs are left alone."""
    migrate.upgrade(empty_database_url)
    with closing(Database.open(empty_database_url)) as database:
        with database.write() as connection:
            rows.prices(connection, {**rows.RATES, ("local-ssd", "standard", "GiBy.mo"): 80_000_000})
            start = rows.NOW - timedelta(days=40)
            for name, local_ssd in (("plain", 0), ("scratch", 375)):
                vm = rows.instance(connection, name)
                rows.lifetime(connection, vm, start, local_ssd_gib=local_ssd, ended_at=start + timedelta(hours=30))
                rows.storage(connection, vm, start, ended_at=rows.NOW if local_ssd else None)
            charge_due(connection, rows.NOW)
        right = _money(database)
        migrate.downgrade(empty_database_url, "0009")
        with database.write() as connection:  # as a version that divided by 730 hours had charged it
            by_month = charges.c.price_id.in_(select(prices.c.id).where(prices.c.unit == "GiBy.mo"))
            connection.execute(update(charges).where(by_month).values(amount_nanos=charges.c.amount_nanos * 721 // 730))
            for table in (lifetimes, storage_spans):
                connection.execute(update(table).values(charged_to=rows.NOW.replace(hour=0)))
                connection.execute(
                    update(table).where(table.c.ended_at.is_not(None)).values(charged_to=table.c.ended_at)
                )
            roll_up_days(connection, set(connection.execute(select(charges.c.day)).scalars()))
        assert _money(database) != right
        migrate.upgrade(empty_database_url)
        with database.write() as connection:
            assert charge_due(connection, rows.NOW).lifetimes == 1
        assert _money(database) == right


def test_figures_of_a_database_of_before_stay_what_they_are(empty_database_url: str) -> None:
    """Upgraded to running totals: the same to the cent at once, after the rates' basis of then, and after a pass."""
    now, older = rows.NOW, tables.burn_rates
    migrate.upgrade(empty_database_url)
    with closing(Database.open(empty_database_url)) as database:
        with database.write() as connection:
            rows.prices(connection)
            for number, (model, owner, hours) in enumerate(
                (("spot", "ada", 30), ("standard", "ben", 300), ("standard", "ada", 2), ("standard", "", 700))
            ):
                vm = rows.instance(connection, f"vm-{number}", provisioning_model=model, owner=owner)
                start = now - timedelta(hours=hours, seconds=number * 7)
                rows.lifetime(connection, vm, start, provisioning_model=model, owner=owner)
                rows.lifetime(connection, vm, start - timedelta(days=2), ended_at=start - timedelta(days=1))
                rows.storage(connection, vm, start, owner=owner)
            charge_due(connection, now)
            keep_rates(connection, now)
        right = _spent(database)
        assert len(right) == 4
        migrate.downgrade(empty_database_url, "0017")
        with database.write() as connection:  # as that version leaves it after each pass
            digest = accrual_at(connection, now).book.digest
            connection.execute(insert(older).values(id=1, prices=f"2.{digest}", good_from=None, good_until=None))
        migrate.upgrade(empty_database_url)
        assert _spent(database) == right
        with database.write() as connection:
            keep_rates(connection, now)
            assert connection.execute(select(tables.running_totals)).all()
            assert_totals_hold(connection, now)
        assert _spent(database) == right


def _spent(database: Database) -> dict[tuple[str, ...], str]:
    """By owner, to the cent, until a moment after the last pass."""
    now = rows.NOW + timedelta(minutes=7)
    with database.read() as connection:
        breakdown = spend(connection, accrual_at(connection, now), rows.EARLIER.date(), now.date(), [Grouping.OWNER])
    return {row.group: f"{row.amounts.total} {row.unpriced}" for row in breakdown.rows}


def _money(database: Database) -> list[list[tuple[Any, ...]]]:
    """All charges and all daily sums."""
    tables = (charges, daily_spend, daily_totals, daily_owners)
    with database.read() as connection:
        return [sorted(map(tuple, connection.execute(select(table)))) for table in tables]


def _spot_rows(database: Database) -> list[list[tuple[Any, ...]]]:
    with database.read() as connection:
        return [sorted(map(tuple, connection.execute(select(totals)))) for totals in (daily_spot, daily_spot_totals)]


def test_upgrade_renames_the_kinds_of_messages(empty_database_url: str) -> None:
    """A notification keeps its key, by which it is sent once; an ephemeral message's key follows its kind."""
    migrate.upgrade(empty_database_url)
    with closing(Database.open(empty_database_url)) as database, database.write() as connection:
        for key, kind in (("notice/a", "notification"), ("ephemeral/7", "ephemeral"), ("digest/d", "digest")):
            message_rows.intend(connection, NewMessage(key, kind, "#gpus"), NOW)
    migrate.downgrade(empty_database_url, "0018")
    with closing(Database.open(empty_database_url)) as database, database.read() as connection:
        before = {tuple(row) for row in connection.execute(text("SELECT key, kind FROM messages"))}
    migrate.upgrade(empty_database_url)
    with closing(Database.open(empty_database_url)) as database, database.read() as connection:
        after = {tuple(row) for row in connection.execute(text("SELECT key, kind FROM messages"))}
    assert before == {("notice/a", "notice"), ("whisper/7", "whisper"), ("digest/d", "digest")}
    assert after == {("notice/a", "notification"), ("ephemeral/7", "ephemeral"), ("digest/d", "digest")}


def test_an_upgrade_closes_what_was_to_be_suspended(empty_database_url: str) -> None:
    """Requests to suspend are stops from then on, open ones refused; a stop that Google did not accept is over."""
    migrate.upgrade(empty_database_url)
    with closing(Database.open(empty_database_url)) as database, database.write() as connection:
        vm = rows.instance(connection, "trainer")
        run = rows.lifetime(connection, vm, NOW - timedelta(hours=3))
        for outcome in ("intended", "unknown", "asked", "done"):
            reminder_rows.stop(connection, vm, run, NOW, key=outcome, outcome=outcome)
        for status in ("open", "done"):
            reminder_rows.request(connection, vm, f"run:{vm}:{run}", key=status, status=status, outcome=status)
    migrate.downgrade(empty_database_url, "0017")
    with closing(Database.open(empty_database_url)) as database, database.write() as connection:
        connection.execute(text("UPDATE requests SET asked = 'suspend'"))
        connection.execute(text("UPDATE stops SET verb = 'suspend'"))
    migrate.upgrade(empty_database_url)
    with closing(Database.open(empty_database_url)) as database, database.read() as connection:
        still_open = {stop.key for stop in stop_rows.open_stops(connection)}
        migrated = {stored.request.key: stored for stored in requests.page(connection, None, vm, None, 9)}
        over = connection.execute(text("SELECT settled_at FROM stops WHERE outcome = 'not_needed'")).all()
    assert still_open == {"asked"}, "what Google accepted is settled by the ledger"
    assert len(over) == 2
    assert all(row.settled_at is not None for row in over)
    assert {stored.request.kind for stored in migrated.values()} == {RequestKind.STOP}
    assert {key: stored.status for key, stored in migrated.items()} == {"open": "refused", "done": "done"}
    assert "no longer suspends" in migrated["open"].outcome
    assert migrated["open"].settled_at is not None


def test_a_second_upgrade_changes_nothing(database_url: str, database: Database) -> None:
    """Upgrading a database of this version is harmless, and what it holds stays."""
    with database.write() as connection:
        connection.execute(text("INSERT INTO leases VALUES ('daemon', 'a', 1, 2)"))
    assert migrate.upgrade(database_url) == migrate.upgrade(database_url)
    with database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM leases")).scalar_one() == 1


def test_two_processes_may_upgrade_at_once(empty_database_url: str) -> None:
    """Both end well, and the database is whole."""
    processes = multiprocessing.get_context("spawn")
    barrier = processes.Barrier(2)
    both = [processes.Process(target=_upgrade_together, args=(empty_database_url, barrier)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    with closing(Database.open(empty_database_url)) as database:
        migrate.check(database)


def _upgrade_together(url: str, barrier: multiprocessing.synchronize.Barrier) -> None:
    barrier.wait(timeout=60)
    migrate.upgrade(url)


def test_a_newer_database_is_refused_and_left_alone(database_url: str, database: Database) -> None:
    """A revision that this version does not know: neither used nor upgraded, and the error says what to install."""
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match=r"later version .*9999.* Install that version"):
        migrate.check(database)
    with pytest.raises(StoreError):
        migrate.upgrade(database_url)


def test_an_older_database_names_the_command(empty_database_url: str) -> None:
    """Before its migrations a database is refused with the command that runs them."""
    migrate.upgrade(empty_database_url)
    migrate.downgrade(empty_database_url, "base")
    with closing(Database.open(empty_database_url)) as database:
        with pytest.raises(StoreError, match="costguard db upgrade"):
            migrate.check(database)
        with pytest.raises(StoreError, match="costguard db upgrade"), database.read() as connection:
            connection.execute(text("SELECT * FROM events"))


def test_a_missing_file_is_not_made_by_looking_at_it(tmp_path: Path) -> None:
    """A mistyped path is an error with the command to run, not a new, empty database."""
    path = tmp_path / "typo.db"
    with (
        closing(Database.open(f"sqlite:///{path}")) as database,
        pytest.raises(DatabaseUnreachable, match="costguard db upgrade"),
    ):
        migrate.check(database)
    assert not path.exists()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """The folder of a new SQLite database must be there; the error names it."""
    with pytest.raises(DatabaseUnreachable, match=f"no folder {tmp_path / 'absent'}"):
        migrate.upgrade(f"sqlite:///{tmp_path / 'absent' / 'costguard.db'}")


def test_what_cannot_be_opened_as_a_file_is_unreachable(tmp_path: Path) -> None:
    """A folder in the file's place gives an error that speaks of folder and rights."""
    with pytest.raises(DatabaseUnreachable, match="may write there"):
        migrate.upgrade(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_not_touched(tmp_path: Path) -> None:
    """Any other file in the database's place is refused, and keeps its content."""
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but someone's notes\n" * 100)
    with pytest.raises(DatabaseUnreachable, match="no SQLite database"):
        migrate.upgrade(f"sqlite:///{path}")
    assert path.read_text().startswith("not a database")


def test_odd_paths_work(tmp_path: Path) -> None:
    """Blanks, percent signs, question marks and number signs in a path are part of the path."""
    folder = tmp_path / "50% of #1?"
    folder.mkdir()
    # In a URL a question mark would begin the options; escaping is the URL's business.
    path = str(folder).replace("%", "%25").replace("?", "%3F")
    assert migrate.upgrade(f"sqlite:///{path}/ledger.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_says_what_to_allow(tmp_path: Path) -> None:
    """A database in a folder where we may not write is an error about rights, when it is there and when it is not."""
    folder = tmp_path / "locked"
    folder.mkdir()
    migrate.upgrade(f"sqlite:///{folder}/ledger.db")
    (folder / "ledger.db").chmod(0o444)
    folder.chmod(0o555)
    with pytest.raises(DatabaseUnreachable, match="is read-only"):
        migrate.upgrade(f"sqlite:///{folder}/ledger.db")
    with pytest.raises(DatabaseUnreachable, match="may write there"):
        migrate.upgrade(f"sqlite:///{folder}/new.db")
    folder.chmod(0o755)
