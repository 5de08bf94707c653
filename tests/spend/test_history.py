"""Closed days in Parquet: whole, as the ledger is, and enough for retention to drop the rows."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import IO

import pytest
from pyarrow import parquet
from sqlalchemy import Connection, func, select, update
from tests.crashing import CrashPoint, Killed, fragile_database, steps_of
from tests.ledger.test_archiving import FIRST, LAST, NOW, START, figures, live
from tests.ledger.test_charging import Ledger
from tests.within import charge_due

from costguard.checkpoints.archives import StoredArchives
from costguard.checkpoints.buckets import StoreAccess
from costguard.daemon.retention import Retention, archive_old
from costguard.db.backup import verify
from costguard.db.tables import archives, charge_days, charges, daily_totals, instances, lifetimes
from costguard.db.transaction import Database
from costguard.errors import CheckpointLocationRefused, Invalid, Missing
from costguard.ledger.archived.dropping import drop_charges
from costguard.ledger.archived.history_days import history_days, name_of
from costguard.ledger.charged.charges_of import ArchivePlaces, SpanCharge, charges_of
from costguard.ledger.roll_up import following
from costguard.spend.focus_rows import FocusExport
from costguard.spend.history.closed_days import History, HistoryWritten, write_closed

AFTER = timedelta(days=70)  # each day is a file, and a month of them is enough
CLOSED = (NOW - AFTER).date()  # the first day that is not
BEFORE = datetime(2026, 1, 26, tzinfo=UTC)  # of what ended by then, rows may be dropped


class Place(StoredArchives):
    """A folder, which ends the process at a chosen step or changes what is put."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder.as_uri(), StoreAccess())
        self.folder = folder
        self.fuse = CrashPoint()
        self.puts: list[str] = []

    def put(self, name: str, file: IO[bytes]) -> None:
        self.fuse.step()
        super().put(name, file)
        self.puts.append(name)
        self.fuse.step()


def history_in(folder: Path) -> History:
    return History(Place(folder), AFTER)


def write(database: Database, history: History, folder: Path) -> HistoryWritten:
    return write_closed(database, history, folder / "archive", NOW)


def single(database: Database, history: History, folder: Path) -> list[SpanCharge]:
    with database.read() as connection:
        archived = ArchivePlaces(folder / "archive", history.store)
        parts = charges_of(connection, FIRST, LAST, archived)
        return sorted(parts, key=lambda one: (one.kind, one.span_id, one.resource, one.started_at))


def exported(database: Database, history: History, folder: Path) -> list[str]:
    archived = ArchivePlaces(folder / "archive", history.store)
    return sorted(map(repr, FocusExport(database, NOW, FIRST, LAST, None, archived)))


def costs(folder: Path) -> dict[date, tuple[int, int]]:
    """Rows and nano-dollars of each file, by what its name says."""
    of_day = {}
    for file in sorted(folder.glob("day=*/*.parquet")):
        column = parquet.ParquetFile(file).read(["BilledCost"]).column(0).to_pylist()
        of_day[date.fromisoformat(file.parent.name[4:])] = (len(column), int(sum(column, Decimal()).scaleb(9)))
    return of_day


def totals(database: Database) -> dict[date, int]:
    amount = daily_totals.c.machine_nanos + daily_totals.c.gpu_nanos + daily_totals.c.storage_nanos
    with database.read() as connection:
        rows = connection.execute(select(daily_totals.c.day, func.sum(amount)).group_by(daily_totals.c.day))
        return {day: int(nanos) for day, nanos in rows}


def late_run(connection: Connection, start: datetime) -> None:
    """Two hours of a VM that was there, which nobody had seen."""
    vm = connection.scalar(select(func.min(instances.c.id)))
    Ledger(connection).run(start, start + timedelta(hours=2), vm)


def test_every_closed_day_has_a_file_of_its_daily_total(database: Database, tmp_path: Path) -> None:
    """Each file's costs come to the day's total to the nano-dollar; days that are not over have none."""
    live(database, 0)
    history = history_in(tmp_path / "history")
    done = write(database, history, tmp_path)
    expected = {day: nanos for day, nanos in totals(database).items() if day < CLOSED}
    files = costs(tmp_path / "history")
    assert {day: nanos for day, (_, nanos) in files.items()} == expected
    assert done == HistoryWritten(len(expected), sum(rows for rows, _ in files.values()))
    assert write(database, history, tmp_path) == HistoryWritten()  # nothing is due


def test_money_is_exact_and_projects_follow_each_other(sqlite_database: Database, tmp_path: Path) -> None:
    """No column is a float, and each file is in the order of its projects."""
    live(sqlite_database, 1)
    write(sqlite_database, history_in(tmp_path), tmp_path)
    for file in tmp_path.glob("day=*/*.parquet"):
        read = parquet.ParquetFile(file).read()
        assert not [field.name for field in read.schema if str(field.type) in ("float", "double")]
        assert str(read.schema.field("BilledCost").type) == "decimal128(18, 9)"
        projects = read.column("SubAccountId").to_pylist()
        assert projects == sorted(projects)


@pytest.mark.parametrize("seed", range(2))
def test_dropping_what_is_in_the_history_changes_no_figure(database: Database, tmp_path: Path, seed: int) -> None:
    """Totals, parts and single charges are those of before, and so is the FOCUS export, which reads the files."""
    live(database, seed)
    history = history_in(tmp_path / "history")
    with database.read() as connection:
        before = figures(connection)
    single_before, exported_before = single(database, history, tmp_path), exported(database, history, tmp_path)
    write(database, history, tmp_path)
    done = drop_charges(database, history.store, BEFORE, at_once=3)
    assert done.rows > 0
    with database.read() as connection:
        assert figures(connection) == before
        assert [check.wrong for check in verify.checks(connection) if not check.holds] == []
        assert connection.scalar(select(func.count()).select_from(charge_days))
    assert single(database, history, tmp_path) == single_before
    assert exported(database, history, tmp_path) == exported_before


def test_nothing_is_dropped_that_is_not_in_the_history(sqlite_database: Database, tmp_path: Path) -> None:
    """A span's charges stay rows without its days' files, or with a stale or damaged one."""
    live(sqlite_database, 2)
    history = history_in(tmp_path / "history")
    assert drop_charges(sqlite_database, history.store, BEFORE).rows == 0
    write(sqlite_database, history, tmp_path)
    with sqlite_database.write() as connection:
        connection.execute(update(archives).values(state="stale"))
    assert drop_charges(sqlite_database, history.store, BEFORE).rows == 0
    write(sqlite_database, history, tmp_path)
    for file in (tmp_path / "history").glob("day=*/*.parquet"):
        whole = file.read_bytes()
        file.write_bytes(whole[:300] + bytes([whole[300] ^ 1]) + whole[301:])
    assert drop_charges(sqlite_database, history.store, BEFORE).rows == 0
    write(sqlite_database, history, tmp_path)  # what was damaged is written again
    assert drop_charges(sqlite_database, history.store, BEFORE).rows > 0


def test_late_correction_has_the_day_written_again(sqlite_database: Database, tmp_path: Path) -> None:
    """A run that becomes known late, or changes hands, is in the file after the next run; other days stay."""
    live(sqlite_database, 3)
    history = history_in(tmp_path / "history")
    write(sqlite_database, history, tmp_path)
    drop_charges(sqlite_database, history.store, BEFORE)
    late = START + timedelta(days=5, hours=3)
    with sqlite_database.write() as connection:
        late_run(connection, late)
        charge_due(connection, NOW)
    place = history.store
    assert isinstance(place, Place)
    place.puts.clear()
    assert write(sqlite_database, history, tmp_path).days == 1
    assert place.puts == [name_of(late.date())]
    assert costs(tmp_path / "history")[late.date()][1] == totals(sqlite_database)[late.date()]
    with sqlite_database.write() as connection:
        run = connection.scalars(select(lifetimes.c.id).where(lifetimes.c.started_at == late)).one()
        with following(connection, lifetimes, [run]):
            connection.execute(update(lifetimes).where(lifetimes.c.id == run).values(owner="cleo"))
    assert write(sqlite_database, history, tmp_path).days == 1
    owners = parquet.ParquetFile(tmp_path / "history" / name_of(late.date())).read(["x_Owner"]).column(0).to_pylist()
    assert "cleo" in owners


@pytest.mark.parametrize("seed", [1])
def test_killed_at_any_step_the_next_run_goes_on(
    database_url: str, database: Database, tmp_path: Path, seed: int
) -> None:
    """Before, within or after any transaction and each put, no figure changes, and another run does the rest."""
    live(database, seed)
    history = history_in(tmp_path / "history")
    single_before = single(database, history, tmp_path)
    place = history.store
    assert isinstance(place, Place)
    for step in steps_of(database_url, 12):
        with fragile_database(database_url, CrashPoint(step)) as fragile, suppress(Killed):
            place.fuse = fragile.fuse
            write(fragile, history, tmp_path)
            drop_charges(fragile, place, BEFORE, at_once=2)
        with database.write() as connection:
            connection.execute(update(archives).where(archives.c.first_day == FIRST).values(state="stale"))
        with database.read() as connection:
            assert [check.wrong for check in verify.checks(connection) if not check.holds] == []
        assert single(database, history, tmp_path) == single_before
    place.fuse = CrashPoint()
    write(database, history, tmp_path)
    drop_charges(database, place, BEFORE)
    assert single(database, history, tmp_path) == single_before
    with database.read() as connection:
        assert all(day.is_current for day in history_days(connection).values())


def test_change_while_a_day_is_written_is_not_lost(database: Database, tmp_path: Path) -> None:
    """The file then holds what was before: it counts as stale, and is written again."""
    live(database, 4)
    late = START + timedelta(days=5, hours=3)

    class Slow(Place):
        def put(self, name: str, file: IO[bytes]) -> None:
            super().put(name, file)
            if name == name_of(late.date()) and self.puts.count(name) == 1:
                with database.write() as connection:
                    late_run(connection, late)
                    charge_due(connection, NOW)

    history = History(Slow(tmp_path / "history"), AFTER)
    write(database, history, tmp_path)
    with database.read() as connection:
        assert not history_days(connection)[late.date()].is_current
    assert write(database, history, tmp_path).days == 1
    assert costs(tmp_path / "history")[late.date()][1] == totals(database)[late.date()]


def test_lost_or_foreign_file_is_named(sqlite_database: Database, tmp_path: Path) -> None:
    """Where the history alone has a charge, a sum is never short without a word."""
    live(sqlite_database, 5)
    history = history_in(tmp_path / "history")
    write(sqlite_database, history, tmp_path)
    drop_charges(sqlite_database, history.store, BEFORE)
    with sqlite_database.read() as connection:
        day = connection.scalar(select(func.min(charge_days.c.day)))
    assert day is not None
    file = tmp_path / "history" / name_of(day)
    kept = file.read_bytes()
    file.unlink()
    with pytest.raises(Missing, match=f"no file of {day}"):
        single(sqlite_database, history, tmp_path)
    other = next(one for one in (tmp_path / "history").glob("day=*/*.parquet") if one != file)
    file.write_bytes(other.read_bytes())
    with pytest.raises(Invalid, match="is not what was written: its charges come to"):
        single(sqlite_database, history, tmp_path)
    file.write_bytes(kept)
    assert single(sqlite_database, history, tmp_path)


def test_day_whose_charges_are_not_its_total_is_not_written(sqlite_database: Database, tmp_path: Path) -> None:
    """Nothing is put in its place; the other days are written, and the error names the day."""
    live(sqlite_database, 0)
    history = history_in(tmp_path / "history")
    with sqlite_database.write() as connection:
        day = connection.scalar(select(func.min(charges.c.day)))
        connection.execute(update(daily_totals).where(daily_totals.c.day == day).values(gpu_nanos=1))
    with pytest.raises(Invalid, match=f"{day} cannot go into the history yet"):
        write(sqlite_database, history, tmp_path)
    files = costs(tmp_path / "history")
    assert day not in files
    assert files


def test_place_that_cannot_be_used_is_tried_once(sqlite_database: Database, tmp_path: Path) -> None:
    """A bucket that refuses the first day is not asked for each of a year; the next run writes them all."""
    live(sqlite_database, 0)

    class Refusing(Place):
        def put(self, name: str, file: IO[bytes]) -> None:
            self.puts.append(name)
            raise CheckpointLocationRefused("gs://b may not be written.", "Let the server write there.")

    refusing = Refusing(tmp_path / "history")
    with pytest.raises(CheckpointLocationRefused):
        write(sqlite_database, History(refusing, AFTER), tmp_path)
    assert len(refusing.puts) == 1
    assert write(sqlite_database, history_in(tmp_path / "history"), tmp_path).days > 1


def test_retention_writes_no_archive_of_charges_next_to_the_history(sqlite_database: Database, tmp_path: Path) -> None:
    """There is one archive of charges, not two."""
    live(sqlite_database, 1)
    history = history_in(tmp_path / "history")
    write(sqlite_database, history, tmp_path)
    kept = Retention(tmp_path / "archive", charges=NOW - BEFORE)
    assert archive_old(sqlite_database, kept, NOW, history=history.store)["charges"].rows > 0
    assert not (tmp_path / "archive").exists()
