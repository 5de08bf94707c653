"""Retention: what is older than the settings say goes to archives, kind by kind, in small steps next to the passes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    String,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    func,
    literal,
    or_,
    select,
    text,
    tuple_,
    update,
)

from costguard.db import archive_file
from costguard.db.bulk import chunks
from costguard.db.health_rows import PRICES_READ
from costguard.db.lease import Lease
from costguard.db.tables import OPEN_JOB, attempts, events, instances, jobs, messages, operations
from costguard.db.transaction import Database
from costguard.ledger.archived.archiving import Archived, archive_charges, finish_open, note
from costguard.ledger.archived.dropping import drop_charges
from costguard.ledger.feed import kept_requests
from costguard.model.ports import Archives, Clock

log = structlog.get_logger(__name__)

REQUESTS_KEPT = timedelta(days=35)  # as long as Google keeps the history of assets
AT_ONCE = 10_000  # rows in one file, which go in one transaction: a few tenths of a second
_TAKEN_OUT = "[This output was archived: "
_SETTLED = ("accepted", "withdrawn", "failed")
# A job's cards are made from their data again.
_SHOWN = ("reminder", "digest", "report", "reservation", "notification", "ephemeral")


@dataclass(frozen=True, slots=True)
class Retention:
    """The time that each kind is kept in the database (None: for ever), and the folder of the archives."""

    folder: Path
    charges: timedelta | None = None
    events: timedelta | None = None
    operations: timedelta | None = None
    messages: timedelta | None = None
    outputs: timedelta | None = None

    @property
    def keeps_all(self) -> bool:
        return not any((self.charges, self.events, self.operations, self.messages, self.outputs))


def archive_old(
    database: Database,
    retention: Retention,
    now: datetime,
    fence: Lease | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    at_once: int = AT_ONCE,
    history: Archives | None = None,
) -> Mapping[str, Archived]:
    """Archive what is older than it is kept; by kind how many files were written and rows went.

    With a history, charges go once its files hold them, and no file is written for them here.
    Raises Invalid, Missing and StoreError; what was not archived by then is archived by a later run.
    """
    archived: dict[str, Archived] = {}
    if retention.charges is not None:
        before = now - retention.charges
        archived["charges"] = _archive_charges(database, retention.folder, history, before, now, fence, is_stopped)
    for kind, kept, rule in (
        ("events", retention.events, _EVENTS),
        ("operations", retention.operations, _OPERATIONS),
        ("messages", retention.messages, _MESSAGES),
        ("outputs", retention.outputs, _OUTPUTS),
    ):
        if kept is not None:
            archived[kind] = _archive(database, retention.folder, rule, now - kept, now, fence, is_stopped, at_once)
    if any(done.rows for done in archived.values()):
        log.info("archived", **{kind: done.rows for kind, done in archived.items()})
        database.give_back_space(fence)
    return archived


def forget_requests(database: Database, before: datetime, fence: Lease | None) -> int:
    """Drops what inserts asked for, heard before this, of VMs that no listing has shown; returns how many."""
    with database.write(fence) as connection:
        return kept_requests.forget_old(connection, before)


def _archive_charges(
    database: Database,
    folder: Path,
    history: Archives | None,
    before: datetime,
    now: datetime,
    fence: Lease | None,
    is_stopped: Callable[[], bool],
) -> Archived:
    if history is None:
        return archive_charges(database, folder, before, now, fence=fence, is_stopped=is_stopped)
    begun = finish_open(database, folder, fence=fence, is_stopped=is_stopped)  # from before there was a history
    return begun.plus(drop_charges(database, history, before, fence=fence, is_stopped=is_stopped))


@dataclass(frozen=True, slots=True)
class _Rule:
    """Rows of one table: which may go, the moment they are of, the order in which they are read, and how they go."""

    kind: str
    table: Table
    moment: ColumnElement[datetime]
    order: Sequence[Column[Any]]  # unique, and an index's: those that must stay are read once
    may_go: Callable[[], ColumnElement[bool]]
    columns: Sequence[str]  # what is written of them; all: ()
    remove: Callable[[Connection, Sequence[Row[Any]], str], int]


def _archive(
    database: Database,
    folder: Path,
    rule: _Rule,
    before: datetime,
    now: datetime,
    fence: Lease | None,
    is_stopped: Callable[[], bool],
    at_once: int,
) -> Archived:
    """Archives one file and one transaction at a time: a file without its row in `archives` changed nothing."""
    done = Archived()
    query = select(rule.table).where(rule.moment < before).order_by(*rule.order).limit(at_once)
    last_read: Row[Any] | None = None
    while not is_stopped():
        with database.read() as connection:
            rows = connection.execute(query.where(rule.may_go(), *_after(rule.order, last_read))).all()
        if not rows:
            break
        last_read = rows[-1]
        moments = [getattr(row, rule.moment.key) for row in rows]  # type: ignore[arg-type]  # a column has one
        first, last = min(moments).date(), max(moments).date()
        file = archive_file.write(folder, rule.kind, first, last, [_line(row, rule.columns) for row in rows])
        with database.write_and_pause(fence) as connection:
            note(connection, rule.kind, file, first, last, max(moments), now, state="done")
            done = done.plus(Archived(1, rule.remove(connection, rows, file.name)))
    return done


def _after(order: Sequence[Column[Any]], row: Row[Any] | None) -> Iterator[ColumnElement[bool]]:
    if row is not None:
        yield tuple_(*order) > tuple_(*(literal(getattr(row, column.name), column.type) for column in order))


def _line(row: Row[Any], columns: Sequence[str]) -> dict[str, Any]:
    names = columns or row._fields
    return {name: _plain(getattr(row, name)) for name in names}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime | date) else value


def _delete(table: Table) -> Callable[[Connection, Sequence[Row[Any]], str], int]:
    keys = list(table.primary_key)
    of_key = delete(table).where(*(column == bindparam(f"of_{column.name}") for column in keys))

    def remove(connection: Connection, rows: Sequence[Row[Any]], _file: str) -> int:
        going = [{f"of_{column.name}": getattr(row, column.name) for column in keys} for row in rows]
        return connection.execute(of_key, going).rowcount

    return remove


def _empty_messages(connection: Connection, rows: Sequence[Row[Any]], _file: str) -> int:
    """The message stays, so that it is never sent again; what it was made from goes."""
    emptied = update(messages).where(_is_settled()).values(data={})
    return sum(
        connection.execute(emptied.where(messages.c.id.in_(some))).rowcount for some in chunks([row.id for row in rows])
    )


def _empty_outputs(connection: Connection, rows: Sequence[Row[Any]], file: str) -> int:
    emptied = update(attempts).values(output=f"{_TAKEN_OUT}costguard db archive --read {file}]")
    return sum(
        connection.execute(emptied.where(attempts.c.id.in_(some))).rowcount for some in chunks([row.id for row in rows])
    )


def _is_settled() -> ColumnElement[bool]:
    return and_(
        messages.c.status.in_(_SETTLED), messages.c.is_live.is_(False), messages.c.kind.in_(_SHOWN),
        cast(messages.c.data, String) != "{}",
    )  # fmt: skip


def _is_of_vm_there(project: ColumnElement[str], gce_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Selects rows of a VM that is there, whose runs may be derived again."""
    there = (instances.c.project == project, instances.c.gce_id == gce_id, instances.c.gone_at.is_(None))
    return select(instances.c.id).where(*there).exists()


def _events_may_go() -> ColumnElement[bool]:
    # The newest event keeps its id from being given out again, and the last prices read are what Health shows.
    newest = select(func.max(events.c.id)).scalar_subquery()
    of_vm_there = and_(events.c.gce_id != "", _is_of_vm_there(events.c.project, events.c.gce_id))
    of_open_job = events.c.data["job"].as_string().in_(select(jobs.c.id).where(text(OPEN_JOB)))
    return and_(
        events.c.id < newest, events.c.kind != PRICES_READ, ~of_vm_there, func.coalesce(of_open_job, False).is_(False)
    )


def _operations_may_go() -> ColumnElement[bool]:
    return ~_is_of_vm_there(operations.c.project, operations.c.target_id)


def _messages_may_go() -> ColumnElement[bool]:
    there = select(instances.c.id).where(instances.c.id == messages.c.instance_id, instances.c.gone_at.is_(None))
    return and_(_is_settled(), or_(messages.c.instance_id.is_(None), ~there.exists()))


def _outputs_may_go() -> ColumnElement[bool]:
    goes_on = select(jobs.c.id).where(text(OPEN_JOB))
    is_text = and_(attempts.c.output != "", ~attempts.c.output.startswith(_TAKEN_OUT, autoescape=True))
    return and_(attempts.c.job_id.not_in(goes_on), is_text)


_EVENTS = _Rule(
    "events", events, events.c.occurred_at, (events.c.occurred_at, events.c.id), _events_may_go, (), _delete(events)
)
_OPERATIONS = _Rule(
    "operations", operations, operations.c.inserted_at, (operations.c.project, operations.c.operation_id),
    _operations_may_go, (), _delete(operations),
)  # fmt: skip
_MESSAGES = _Rule("messages", messages, messages.c.intended_at, (messages.c.id,), _messages_may_go, (), _empty_messages)
_OUTPUTS = _Rule(
    "outputs", attempts, attempts.c.ended_at, (attempts.c.id,), _outputs_may_go,
    ("id", "job_id", "number", "name", "output"), _empty_outputs,
)  # fmt: skip


def turns(
    database: Database, retention: Retention, clock: Clock, history: Archives | None = None
) -> Callable[[Lease, threading.Event], object]:
    """Returns the daemon's occasional work."""

    def turn(fence: Lease, stop: threading.Event) -> object:
        forget_requests(database, clock.now() - REQUESTS_KEPT, fence)
        return archive_old(database, retention, clock.now(), fence, stop.is_set, history=history)

    return turn
