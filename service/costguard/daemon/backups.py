"""Backups, restores, archives and checks of the database, with or without a server.

They never print the password in its URL.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, select

from costguard import __version__
from costguard.daemon import restoring
from costguard.daemon.lease_keeper import LEASE
from costguard.daemon.retention import Retention, archive_old
from costguard.db import archive_file, connect, health_rows, migrate
from costguard.db.backup import archive, postgresql, sqlite, verify
from costguard.db.backup.archive import FORMAT, Manifest, Reader, Rows
from costguard.db.backup.verify import Check
from costguard.db.limits import MIGRATING
from costguard.db.mark_file import MarkFile
from costguard.db.tables import archives
from costguard.db.transaction import Database
from costguard.errors import Conflict, Invalid, Missing
from costguard.ledger import generation, unknown_vms
from costguard.ledger.archived.archiving import Archived
from costguard.ledger.archived.history_days import DAYS
from costguard.ledger.unknown_vms import UnknownVm, UnknownVmVerdict
from costguard.model.generation import FIRST, Cause, Generation
from costguard.model.ports import Archives


def unknown_vms_in(url: str) -> list[UnknownVm]:
    with closing(Database.open(url)) as database:
        migrate.check(database)
        with database.read() as connection:
            return unknown_vms.there(connection)


def decide_unknown_vm(url: str, name: str, verdict: str, by: str, now: datetime) -> UnknownVm:
    """Raises Missing unless `PROJECT/NAME` is one of them, and the only one."""
    with closing(Database.open(url)) as database:
        migrate.check(database)
        with database.write() as connection:
            matches = [vm for vm in unknown_vms.there(connection) if f"{vm.key.project}/{vm.name}" == name]
            matches = matches or [
                vm for vm in unknown_vms.there(connection) if f"{vm.key.project}/{vm.key.gce_id}" == name
            ]
            if len(matches) != 1:
                what = "are several unknown VMs" if matches else "is no unknown VM"
                raise Missing(f"There {what} {name}.", "Name one that `costguard db unknown` lists.")
            unknown_vms.decide(connection, matches[0].key, UnknownVmVerdict(verdict), by, now)
            return matches[0]


_WHO_IS_IT = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


@dataclass(frozen=True, slots=True)
class Restored:
    """`kept` is where the replaced SQLite database is now; None where there was none, or none that is kept."""

    manifest: Manifest
    generation: Generation
    revision: str
    kept: Path | None


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of a verification: the database or backup, its manifest where it is a backup, and each check."""

    name: str
    revision: str
    manifest: Manifest | None
    checks: tuple[Check, ...]

    @property
    def is_sound(self) -> bool:
        return all(check.holds for check in self.checks)


def backup(url: str, to: Path, now: datetime) -> Manifest:
    """Write the archive, and read it once more before it is called made. Raises Conflict and StoreError."""
    parsed = connect.parse(url)
    kind = parsed.get_backend_name()
    with archive.writing(to) as writer:
        if kind == "sqlite":
            with tempfile.TemporaryDirectory(prefix=".costguard-backup-", dir=to.absolute().parent) as scratch:
                sqlite.write(Path(str(parsed.database)), writer, Path(scratch), _describing(kind, now))
        else:
            with _opened(url) as database, database.read() as connection:
                postgresql.write(connection, writer, _describing(kind, now))
    with archive.reading(to) as reader:
        _read_through(reader)
        return reader.manifest


def restore(url: str, source: Path, now: datetime, *, replace: bool = False) -> Restored:
    """Put a backup in the place of the database, at this version and in a new generation.

    Raises Conflict while a guard acts, StoreError, Conflict, Invalid; then nothing was changed.
    """
    parsed = connect.parse(url)
    with archive.reading(source) as reader:
        kind = reader.manifest.kind
        if kind != parsed.get_backend_name():
            raise Invalid(
                f"{source} is a backup of {_WHO_IS_IT.get(kind, kind)}, and the settings name another database.",
                "Restore it where it came from, or change database.url.",
            )
        migrate.check_known(reader.manifest.revision, str(source))
        if kind == "sqlite":
            return _restore_sqlite(url, Path(str(parsed.database)).absolute(), reader, now)
        return _restore_postgresql(url, reader, now, replace=replace)


def verify_database(url: str) -> Verified:
    """The live database, in one unmoving view of it."""
    with _opened(url) as database:
        migrate.check(database)
        with database.read() as connection:
            if database.dialect == "postgresql":
                postgresql.unhurried(connection)
            return Verified(database.name, migrate.head(), None, tuple(verify.checks(connection)))


def verify_backup(source: Path) -> Verified:
    """Every byte of the archive; of SQLite also what it holds, brought to this version in a copy."""
    with archive.reading(source) as reader:
        manifest = reader.manifest
        migrate.check_known(manifest.revision, str(source))
        if manifest.kind != "sqlite":
            _read_through(reader)
            return Verified(str(source), manifest.revision, manifest, (Check("every part is what was written"),))
        with (
            tempfile.TemporaryDirectory(prefix="costguard-verify-") as scratch,
            sqlite.unpacked(reader, Path(scratch)) as path,
        ):
            migrate.upgrade(f"sqlite:///{path}")
            verified = verify_database(f"sqlite:///{path}")
        whole = Check("every part is what was written")
        return Verified(str(source), manifest.revision, manifest, (whole, *verified.checks))


def _restore_sqlite(url: str, path: Path, reader: Reader, now: datetime) -> Restored:
    replaced = _refuse_while_acting(url) if path.exists() else FIRST
    if (mark := MarkFile(path).read()) is not None:
        replaced = max(replaced, mark.generation)
    with sqlite.unpacked(reader, path.parent) as new:
        revision = migrate.upgrade(f"sqlite:///{new}")
        with _opened(f"sqlite:///{new}") as database, database.write() as connection:
            life = _begin(connection, reader.manifest, now, replaced)
        kept = sqlite.put_in_place(new, path, now)
    return Restored(reader.manifest, life, revision, kept)


def _restore_postgresql(url: str, reader: Reader, now: datetime, *, replace: bool) -> Restored:
    with _opened(url) as database, database.write() as connection:
        postgresql.unhurried(connection)
        replaced = _refuse_holder(connection)
        postgresql.check_may_fill(connection, replace)
        postgresql.clear(connection)
        migrate.upgrade_within(connection, reader.manifest.revision)
        postgresql.fill(connection, reader)
        revision = migrate.upgrade_within(connection)
        life = _begin(connection, reader.manifest, now, replaced)
    return Restored(reader.manifest, life, revision, None)


def _begin(connection: Connection, manifest: Manifest, now: datetime, replaced: int) -> Generation:
    """`replaced` is the generation of the database that goes: an older backup must not begin it a second time."""
    generation.leave_home(connection)  # it is settled where the next guard opens it
    generation.free_leases(connection, now)
    return restoring.begin(connection, Cause.RESTORED, now, manifest.made_at, seen=replaced)


def _refuse_while_acting(url: str) -> int:
    """The generation of the database. One that cannot be read may be replaced: that is what backups are for."""
    with _opened(url) as database:
        try:
            with database.read() as connection:
                return _refuse_holder(connection)
        except Conflict:
            raise
        except Exception:  # broken, of an older version, or not Costguard's: no guard can act on it
            return FIRST


def _refuse_holder(connection: Connection) -> int:
    """The generation. Raises Conflict while a guard acts."""
    for holder in health_rows.holders_if_any(connection):
        if holder.is_held and holder.lease.name == LEASE:
            raise Conflict(
                f"A Costguard daemon ({holder.lease.holder}) acts on this database, and nothing was changed.",
                "Stop it. If it was killed, its lease runs out within half a minute: then try again.",
            )
    return generation.read_if_any(connection).number


def _read_through(reader: Reader) -> None:
    for name in reader.manifest.parts:
        for _ in reader.read(name):
            pass


def _describing(kind: str, now: datetime) -> Callable[[str, int, dict[str, Rows]], Manifest]:
    def made(revision: str, number: int, tables: dict[str, Rows]) -> Manifest:
        return Manifest(
            format=FORMAT,
            kind=kind,
            made_at=now,
            costguard=__version__,
            revision=revision,
            generation=number,
            tables=tables,
        )

    return made


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    # Copying a table, or checking one, may take minutes.
    with closing(Database.open(url, limits=MIGRATING)) as database:
        yield database


def archive_now(
    url: str, retention: Retention, now: datetime, history: Archives | None = None
) -> Mapping[str, Archived]:
    """Archive what the settings say, also while a server runs. Raises Invalid where they keep everything."""
    if retention.keeps_all:
        text = "The settings keep everything in the database, and nothing was archived."
        raise Invalid(text, 'Say in [retention] what to archive, such as charges = "400d".')
    with closing(Database.open(url)) as database:
        migrate.check(database)
        return archive_old(database, retention, now, history=history)


def archives_in(url: str) -> Sequence[Row[Any]]:
    """All archives of this database but the days of its history, the oldest first."""
    with closing(Database.open(url)) as database:
        migrate.check(database)
        with database.read() as connection:
            return connection.execute(select(archives).where(archives.c.kind != DAYS).order_by(archives.c.id)).all()


def archived_rows(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of one archive, by its name in the folder or its path. Raises Missing and Invalid."""
    path = Path(name)
    return archive_file.read(path if path.name != name else archive_file.named(folder, name))


def compact(url: str) -> tuple[int, int]:
    """The bytes before and after. Raises Conflict while a guard acts, and Invalid for PostgreSQL."""
    file = connect.file_of(connect.parse(url))
    if file is None:
        raise Invalid("Only an SQLite database is compacted.", "PostgreSQL's autovacuum reuses the space by itself.")
    _refuse_while_acting(url)
    before = file.stat().st_size
    with closing(sqlite3.connect(file.absolute().as_uri() + "?mode=rw", uri=True, isolation_level=None)) as database:
        database.execute("PRAGMA auto_vacuum = INCREMENTAL")
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return before, file.stat().st_size
