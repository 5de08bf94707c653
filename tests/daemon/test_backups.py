"""Backups of either database: written while it is in use, restored whole, refused when something is wrong."""

from __future__ import annotations

import json
import sqlite3
import stat
import threading
import zipfile
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select, text
from tests.api import rows
from tests.builders import at
from tests.upgrades.placing import put_back
from tests.within import charge_due

from costguard.daemon import backups
from costguard.daemon.lease_keeper import LEASE
from costguard.db import lease, migrate
from costguard.db.before_baseline import LAST_BEFORE
from costguard.db.tables import metadata
from costguard.db.transaction import Database
from costguard.errors import Conflict, Invalid, StoreError
from costguard.ledger import generation

NOW = at("12:00")
_OWN = {
    "installation",
    "events",
    "sessions",
    "sign_in_links",
    "leases",
    "project_leases",
    "replicas",
    "changes",
}  # what a restore writes itself


@pytest.fixture
def url(database_url: str) -> str:
    """A database with a little of everything that the API shows."""
    with closing(Database.open(database_url)) as database:
        _fill(database)
    return database_url


def test_a_backup_restores_every_row(url: str, tmp_path: Path) -> None:
    """The changes since are undone: each table is as it was, but for what says that it was restored."""
    file = tmp_path / "backup.zip"
    before = _everything(url)
    made = backups.backup(url, file, NOW)
    assert made.generation == 1
    assert {name: made.tables[name].rows for name in before} == {
        name: len(stored_rows) for name, stored_rows in before.items()
    }
    with closing(Database.open(url)) as database, database.write() as connection:
        connection.execute(text("DELETE FROM charges"))
        connection.execute(text("UPDATE instances SET owner = 'mallory@example.com'"))
    done = backups.restore(url, file, NOW, replace=True)
    assert done.generation.number == 2
    after = _everything(url)
    assert {name: after[name] for name in after if name not in _OWN} == {
        name: before[name] for name in before if name not in _OWN
    }
    assert backups.verify_database(url).is_sound
    with closing(Database.open(url)) as database:
        migrate.check(database)


def test_a_restored_database_gives_out_ids_and_events_after_those_of_the_lost_time(url: str, tmp_path: Path) -> None:
    """Receivers of webhooks know events by their ids, so none comes twice; writing goes on on both databases."""
    file = tmp_path / "backup.zip"
    backups.backup(url, file, NOW)
    with closing(Database.open(url)) as database, database.read() as connection:
        last = connection.execute(text("SELECT coalesce(max(id), 0) FROM events")).scalar_one()
    backups.restore(url, file, NOW, replace=True)
    with closing(Database.open(url)) as database:
        with database.read() as connection:
            event = connection.execute(text("SELECT id, kind FROM events ORDER BY id DESC LIMIT 1")).one()
        assert event.kind == "GenerationBegan"
        assert event.id >= last + generation.ID_GAP
        with database.write() as connection:
            made = text(
                "INSERT INTO events (key, kind, occurred_at, recorded_at, text, data) "
                "VALUES ('k', 'PriceChanged', 0, 0, '', '{}') RETURNING id"
            )
            assert connection.execute(made).scalar_one() > event.id


def test_the_same_backup_restored_twice_is_two_generations(url: str, tmp_path: Path) -> None:
    """The second must not take what the first restore launched for its own."""
    file = tmp_path / "backup.zip"
    backups.backup(url, file, NOW)
    assert backups.restore(url, file, NOW, replace=True).generation.number == 2
    assert backups.restore(url, file, NOW, replace=True).generation.number == 3


def test_a_backup_is_for_its_owner_alone_and_replaces_nothing(url: str, tmp_path: Path) -> None:
    """The mode is 0600 whatever the umask, nothing else is left behind, and a file of that name stays as it is."""
    file = tmp_path / "backups" / "backup.zip"
    file.parent.mkdir()
    backups.backup(url, file, NOW)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [left.name for left in file.parent.iterdir()] == ["backup.zip"]
    before = file.read_bytes()
    with pytest.raises(Conflict, match="nothing was written"):
        backups.backup(url, file, NOW)
    assert file.read_bytes() == before


def test_a_restore_is_refused_while_a_guard_acts(url: str, tmp_path: Path) -> None:
    """Two guards would work with one database; the lease says so by the database's own clock."""
    file = tmp_path / "backup.zip"
    backups.backup(url, file, NOW)
    with closing(Database.open(url)) as database:
        held = lease.acquire(database, LEASE, "host:1", timedelta(minutes=5))
        assert held is not None
        with pytest.raises(Conflict, match="host:1"):
            backups.restore(url, file, NOW, replace=True)
        lease.release(database, held)
    assert backups.restore(url, file, NOW, replace=True).generation.number == 2


def test_a_later_schema_is_refused_and_an_earlier_one_is_migrated(url: str, tmp_path: Path) -> None:
    """A backup that was made before an upgrade is brought to this version on its way."""
    before = _everything(url)
    with closing(Database.open(url)) as database, database.write() as connection:
        put_back(connection)
    file = tmp_path / "old.zip"
    assert backups.backup(url, file, NOW).revision == LAST_BEFORE
    assert backups.verify_backup(file).is_sound
    assert backups.restore(url, file, NOW, replace=True).revision == migrate.head()
    after = _everything(url)
    assert {name: after[name] for name in after.keys() - _OWN} == {name: before[name] for name in before.keys() - _OWN}
    before_baseline = _changed(file, tmp_path / "older.zip", revision="0046")
    for refuse in (backups.verify_backup, lambda source: backups.restore(url, source, NOW, replace=True)):
        with pytest.raises(StoreError, match=r"earlier version .*0046.*costguard db restore"):
            refuse(before_baseline)
    assert _everything(url) == after
    newer = _changed(file, tmp_path / "newer.zip", revision="9999")
    with pytest.raises(StoreError, match="later version"):
        backups.restore(url, newer, NOW, replace=True)


def test_a_damaged_backup_is_refused_and_changes_nothing(url: str, tmp_path: Path) -> None:
    """A part that is not what the manifest says, a half file, and what is no backup at all."""
    file = tmp_path / "backup.zip"
    backups.backup(url, file, NOW)
    before = _everything(url)
    half = tmp_path / "half.zip"
    half.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    text_file = tmp_path / "notes.txt"
    text_file.write_text("nothing of ours")
    swapped = _changed(file, tmp_path / "swapped.zip", flip=True)
    for wrong in (half, text_file, swapped, tmp_path / "absent.zip"):
        with pytest.raises(Invalid):
            backups.restore(url, wrong, NOW, replace=True)
        with pytest.raises(Invalid):
            backups.verify_backup(wrong)
    assert _everything(url) == before


def test_a_sound_backup_is_verified_without_a_database(url: str, tmp_path: Path) -> None:
    """Every byte is read; of SQLite the ledger's rules are tried as well."""
    file = tmp_path / "backup.zip"
    backups.backup(url, file, NOW)
    verdict = backups.verify_backup(file)
    assert verdict.is_sound
    assert verdict.manifest is not None
    assert verdict.manifest.made_at == NOW
    assert len(verdict.checks) > (5 if url.startswith("sqlite") else 0)


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        ("UPDATE lifetimes SET ended_at = started_at - 1 WHERE id = (SELECT min(id) FROM lifetimes)", "ends before"),
        ("UPDATE charges SET amount_nanos = amount_nanos + 1", "daily total"),
        ("UPDATE charges SET span_id = span_id + 100000", "belongs to"),
    ],
)
def test_a_ledger_that_breaks_a_rule_is_not_sound(url: str, damage: str, rule: str) -> None:
    """Each is named with the rows that break it."""
    with closing(Database.open(url)) as database, database.write() as connection:
        connection.execute(text(damage))
    broken = [check.rule for check in backups.verify_database(url).checks if not check.holds]
    assert any(rule in finding for finding in broken), broken


def test_overlapping_lifetimes_are_found(url: str) -> None:
    """A VM bills once at a time."""
    with closing(Database.open(url)) as database, database.write() as connection:
        table = metadata.tables["lifetimes"]
        row = connection.execute(select(table).limit(1)).one()._asdict()
        row.pop("id")
        connection.execute(table.insert().values({**row, "started_at": row["started_at"] + timedelta(microseconds=1)}))
    broken = [check.rule for check in backups.verify_database(url).checks if not check.holds]
    assert "no two lifetimes of a VM overlap" in broken


def test_postgresql_is_restored_over_something_only_where_that_was_said(postgres_url: str, tmp_path: Path) -> None:
    """All of it happens in one transaction, so that a failure in the middle leaves what was there."""
    file = tmp_path / "backup.zip"
    with closing(Database.open(postgres_url)) as database:
        _fill(database)
    backups.backup(postgres_url, file, NOW)
    before = _everything(postgres_url)
    with pytest.raises(Conflict, match="--replace"):
        backups.restore(postgres_url, file, NOW)
    swapped = _changed(file, tmp_path / "swapped.zip", flip=True)
    with pytest.raises(Invalid):
        backups.restore(postgres_url, swapped, NOW, replace=True)
    assert _everything(postgres_url) == before


def test_postgresql_plans_by_what_was_restored(postgres_url: str, tmp_path: Path) -> None:
    """It would take tables for empty until autovacuum comes, and read all of a large one where an index serves."""
    with closing(Database.open(postgres_url)) as database:
        _fill(database)
    backups.backup(postgres_url, tmp_path / "backup.zip", NOW)
    backups.restore(postgres_url, tmp_path / "backup.zip", NOW, replace=True)
    query = text("SELECT relname, reltuples FROM pg_class WHERE relname IN ('instances', 'lifetimes', 'charges')")
    with closing(Database.open(postgres_url)) as database, database.read() as connection:
        for name, planned in connection.execute(query):
            assert planned == connection.scalar(text(f"SELECT count(*) FROM {name}"))


def test_sqlite_keeps_what_it_replaces(sqlite_url: str, tmp_path: Path) -> None:
    """The old file is whole under its new name, the new one private, and no log of the old one is left."""
    path, file = Path(sqlite_url.removeprefix("sqlite:///")), tmp_path / "backup.zip"
    with closing(Database.open(sqlite_url)) as database:
        _fill(database)
    backups.backup(sqlite_url, file, NOW)
    with closing(Database.open(sqlite_url)) as database, database.write() as connection:
        connection.execute(text("UPDATE instances SET owner = 'late@example.com'"))
    done = backups.restore(sqlite_url, file, NOW)
    assert done.kept is not None
    assert done.kept.name == f"{path.name}.replaced-{NOW:%Y%m%dT%H%M%SZ}"
    with closing(Database.open(f"sqlite:///{done.kept}")) as database, database.read() as connection:
        owners = set(connection.execute(text("SELECT owner FROM instances")).scalars())
    assert owners == {"late@example.com"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.with_name(path.name + "-wal").exists()


def test_sqlite_is_not_replaced_under_a_process_that_has_it_open(sqlite_url: str, tmp_path: Path) -> None:
    """A reader would go on with a file that nobody else sees."""
    file = tmp_path / "backup.zip"
    backups.backup(sqlite_url, file, NOW)
    with closing(Database.open(sqlite_url)) as database, database.read() as connection:
        connection.execute(text("SELECT count(*) FROM events")).scalar_one()
        with pytest.raises(StoreError, match="open in another process"):
            backups.restore(sqlite_url, file, NOW)


def test_a_broken_sqlite_file_is_replaced_by_its_backup(sqlite_url: str, tmp_path: Path) -> None:
    """Backups are for that; the broken file is kept."""
    path, file = Path(sqlite_url.removeprefix("sqlite:///")), tmp_path / "backup.zip"
    backups.backup(sqlite_url, file, NOW)
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 4096)
    done = backups.restore(sqlite_url, file, NOW)
    assert done.kept is not None
    assert backups.verify_database(sqlite_url).is_sound


def test_a_backup_of_another_kind_of_database_is_refused(sqlite_url: str, postgres_url: str, tmp_path: Path) -> None:
    """It says where it belongs."""
    file = tmp_path / "backup.zip"
    backups.backup(sqlite_url, file, NOW)
    with pytest.raises(Invalid, match="backup of SQLite"):
        backups.restore(postgres_url, file, NOW, replace=True)


def test_a_backup_is_one_view_while_the_database_is_written(url: str, tmp_path: Path) -> None:
    """Two tables that change together are together in it, however many writes come in between."""
    with closing(Database.open(url)) as database, database.write() as connection:
        connection.execute(text("DELETE FROM signing_keys"))
    done, wrote = threading.Event(), threading.Event()

    def write() -> None:
        with closing(Database.open(url)) as database:
            number = 0
            while not done.is_set():
                with database.write() as connection:
                    for table, columns in (("signing_keys", "name, value, made_at"), ("leases", "name, holder, epoch")):
                        more = ", expires_at" if table == "leases" else ""
                        end = ", 0" if table == "leases" else ""
                        values = f"'pair-{number}', 'x', 0{end}"
                        connection.execute(text(f"INSERT INTO {table} ({columns}{more}) VALUES ({values})"))
                number += 1
                wrote.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert wrote.wait(30)
        made = [backups.backup(url, tmp_path / f"{number}.zip", NOW) for number in range(5)]
    finally:
        done.set()
        writer.join()
    for manifest in made:
        pairs = manifest.tables["signing_keys"].rows
        assert pairs > 0
        assert manifest.tables["leases"].rows == pairs


def test_any_sqlite_shell_reads_the_archive(sqlite_url: str, tmp_path: Path) -> None:
    """The format is unzip and SQLite's own file: nothing of ours is needed to get at the ledger."""
    file = tmp_path / "backup.zip"
    backups.backup(sqlite_url, file, NOW)
    with zipfile.ZipFile(file) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        archive.extract("ledger.sqlite", tmp_path)
    assert manifest["format"] == 1
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def _fill(database: Database) -> None:
    """Two VMs of two days each, charged; an event, a project, and names that formats stumble over."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        for name in ("vm-1", "vm-2"):
            vm = rows.instance(connection, name, owner="tab\tnewline\nback\\slash \N{SNOWMAN}")
            rows.lifetime(connection, vm, at("2026-11-18T12:00"), ended_at=at("2026-11-19T12:00"))
            rows.lifetime(connection, vm, at("2026-11-20T00:00"))
            rows.storage(connection, vm, at("2026-11-18T12:00"))
        rows.event(connection, "one", at("2026-11-20T00:00"))
        charge_due(connection, at("2026-11-21T12:00"))


def _everything(url: str) -> dict[str, list[tuple[object, ...]]]:
    with closing(Database.open(url)) as database, database.read() as connection:
        return {
            name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for name, table in metadata.tables.items()
        }


def _changed(file: Path, to: Path, revision: str = "", flip: bool = False) -> Path:
    """The same archive with another manifest, or with one byte of a part changed."""
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(to, "w") as changed:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "manifest.json" and revision:
                content = json.dumps({**json.loads(content), "revision": revision}).encode()
            if flip and content and name in ("ledger.sqlite", "tables/instances.copy"):
                content = bytes([content[0] ^ 1]) + content[1:]
            changed.writestr(name, content)
    return to
