"""Reads what this computer and the database show of a set-up. Changes nothing."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, func, select

from costguard.db import connect, database_file, health_rows
from costguard.db.backup import archive
from costguard.db.tables import attempts, messages
from costguard.db.transaction import Database
from costguard.db.version import HEAD, revision_in
from costguard.doctor.finding import NotAnswered
from costguard.doctor.questions import attempt
from costguard.doctor.server_checks import DatabaseState, ServerAnswers
from costguard.errors import Invalid, StoreError
from costguard.ledger.discovery.rules import WatchScope
from costguard.ledger.discovery.watch import WatchList


def database_state(url: str, scope: WatchScope) -> DatabaseState | NotAnswered:
    """Reads the database. One that is not there is not made."""
    try:
        file = connect.file_of(connect.parse(url))
        if file is not None and not file.exists():
            return DatabaseState(None)  # to open it would make it
        with closing(Database.open(url)) as database:
            with database.read() as connection:
                revision = revision_in(connection)
                if revision != HEAD:
                    return DatabaseState(revision)
                state = _state(connection)
            return replace(state, watched=tuple(WatchList(database, scope)()) if scope.places else None)
    except StoreError as error:
        return NotAnswered(str(error))


def _state(connection: Connection) -> DatabaseState:
    report = connection.execute(
        select(attempts.c.heard_at, attempts.c.name).order_by(attempts.c.heard_at.desc().nulls_last()).limit(1)
    ).first()
    return DatabaseState(
        HEAD,
        health_rows.catalogue_read_at(connection),
        connection.scalar(select(func.max(messages.c.accepted_at))),
        report.heard_at if report is not None else None,
        report.name if report is not None else "",
    )


def server_answers(url: str, state: DatabaseState | NotAnswered, backups: str | None) -> ServerAnswers:
    """Reads what this computer shows. `backups`: the folder of backups; None: it is not known."""
    parsed = connect.parse(url)
    file = connect.file_of(parsed)
    folder = str(file.resolve().parent) if file is not None else ""
    return ServerAnswers(
        name=connect.describe(parsed),
        head=HEAD,
        state=state,
        file=str(file) if file is not None else "",
        is_there=file is None or file.exists(),
        wide=_wide(file, connect.widest_mode_of(parsed)) if file is not None else None,
        folder=folder,
        free_bytes=attempt(lambda: shutil.disk_usage(folder).free) if folder else None,
        backups=backups or "",
        backup_at=_newest_backup(backups),
    )


def _wide(file: Path, widest: int) -> tuple[str, str] | None:
    try:
        database_file.check(file, widest)
    except StoreError as error:
        return error.message, error.what_next
    return None


def _newest_backup(folder: str | None) -> datetime | NotAnswered | None:
    if folder is None:
        return None
    try:
        files = list(Path(folder).glob("*.zip"))
        if not Path(folder).is_dir():
            return NotAnswered(f"There is no folder {folder}.")
    except OSError as error:
        return NotAnswered(f"{folder} cannot be read: {error.strerror}.")
    made = [at for file in files if (at := _made_at(file)) is not None]
    return max(made, default=None)


def _made_at(file: Path) -> datetime | None:
    try:
        with archive.reading(file) as backup:
            return backup.manifest.made_at
    except (Invalid, OSError):
        return None  # it is no backup
