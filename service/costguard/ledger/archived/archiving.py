"""Archives the charges of spans that ended long ago: first to a file, then out of the rows, a few at a time.

What goes is first in a file that is whole and on the disk, then noted in `archives`, then rolled up by day and price
and removed, in small transactions, of which each leaves the same sums. Killed at any step, the next run goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    Table,
    and_,
    func,
    insert,
    or_,
    select,
    text,
    type_coerce,
    update,
)

from costguard.db import archive_file
from costguard.db.archive_file import ArchiveFile
from costguard.db.bulk import chunks
from costguard.db.lease import Lease
from costguard.db.tables import (
    OPEN_JOB,
    archives,
    charges,
    instances,
    jobs,
    label_changes,
    label_days,
)
from costguard.db.transaction import Database
from costguard.db.types import EPOCH
from costguard.ledger.archived.taking_out import may_go, take_out
from costguard.ledger.charged.charges_of import ChargeLine, span_line
from costguard.ledger.pricing import MINIMUM
from costguard.ledger.roll_up import LIFETIME, STORAGE, TABLES

CHARGES = "charges"
_WHOSE = ("id", "project", "zone", "preset", "owner", "job", "ended_at")
_OF_SPANS = {LIFETIME: (*_WHOSE, "provisioning_model"), STORAGE: (*_WHOSE, "name")}
_INSTANCE_NAME = instances.c.name.label("instance_name")
_FILES = {LIFETIME: "runs", STORAGE: "storage"}  # how the names of files begin
MOST_SPANS = 20_000  # of one kind in one file: some 80,000 charges
AT_ONCE = 500  # spans in one transaction: some 2,000 charges, a few hundredths of a second
# A span that could not be archived when its like was (it had no price, or its job went on) is looked for again.
_LOOKED_BACK = timedelta(days=60)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Archived:
    """The number of files written, and of rows removed."""

    files: int = 0
    rows: int = 0

    def plus(self, other: Archived) -> Archived:
        return Archived(self.files + other.files, self.rows + other.rows)


def archive_charges(
    database: Database,
    folder: Path,
    before: datetime,
    now: datetime,
    *,
    fence: Lease | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    most_spans: int = MOST_SPANS,
    at_once: int = AT_ONCE,
) -> Archived:
    """Archive the charges of all spans that ended before this moment and whose charges are final.

    Kept are those of open spans, of jobs that are not over, and of spans that are not charged to their end, lack a
    price or saw a label change by which spend is rolled up. Raises Invalid, Missing and StoreError; then nothing is
    lost, and the next run goes on.
    """
    done = finish_open(database, folder, fence=fence, is_stopped=is_stopped, at_once=at_once)
    for kind in TABLES:
        since = _looked_through(database, kind)
        while not is_stopped():
            with database.read() as connection:
                spans = ended_spans(connection, kind, since, before, most_spans)
                if not spans:
                    break
                lines = _lines(connection, kind, spans)
            days = [charge[3] for line in lines for charge in line["charges"]]
            ended = max(span.ended_at for span in spans)
            first = date.fromisoformat(min(days)) if days else ended.date()
            last = date.fromisoformat(max(days)) if days else ended.date()
            file = archive_file.write(folder, _FILES[kind], first, last, lines)
            with database.write_and_pause(fence) as connection:
                note(connection, CHARGES, file, first, last, ended, now)
            done = done.plus(Archived(1))
            done = done.plus(finish_open(database, folder, fence=fence, is_stopped=is_stopped, at_once=at_once))
            if len(spans) < most_spans:
                break
            # Others may have ended in the same microsecond; some of these may have stayed, and are not looked at twice.
            since = max(ended - _MICROSECOND, since + _MICROSECOND)
    return done


def note(
    connection: Connection,
    kind: str,
    file: ArchiveFile,
    first: date,
    last: date,
    through_at: datetime,
    now: datetime,
    state: str = "open",
) -> None:
    """A whole file. While it is open, not all that is in it has gone from the rows yet."""
    values = {
        "kind": kind,
        "file": file.name,
        "state": state,
        "made_at": now,
        "first_day": first,
        "last_day": last,
        "through_at": through_at,
        "row_count": file.row_count,
        "byte_count": file.byte_count,
        "sha256": file.sha256,
    }
    if not connection.execute(update(archives).where(archives.c.file == file.name).values(**values)).rowcount:
        connection.execute(insert(archives).values(**values))


def finish_open(
    database: Database,
    folder: Path,
    *,
    fence: Lease | None = None,
    is_stopped: Callable[[], bool] = lambda: False,
    at_once: int = AT_ONCE,
) -> Archived:
    """Remove from the rows what is in archives of charges whose removal was begun or noted."""
    with database.read() as connection:
        query = select(archives).where(archives.c.state == "open", archives.c.kind == CHARGES)
        files = connection.execute(query.order_by(archives.c.id)).all()
    rows = 0
    for file in files:
        lines = archive_file.read(archive_file.named(folder, file.file), file.sha256)
        for kind, some in _in_portions(lines, at_once):
            if is_stopped():
                return Archived(0, rows)
            with database.write_and_pause(fence) as connection:
                rows += _roll_up(connection, kind, some, file.id)
        with database.write_and_pause(fence) as connection:
            connection.execute(update(archives).where(archives.c.id == file.id).values(state="done"))
    return Archived(0, rows)


def _looked_through(database: Database, kind: str) -> datetime:
    """Spans that ended later may not be archived yet; those before are, but for what had to be kept."""
    is_mine = and_(archives.c.kind == CHARGES, archives.c.file.startswith(f"{_FILES[kind]}-"))
    with database.read() as connection:
        latest: datetime | None = connection.scalar(select(func.max(archives.c.through_at)).where(is_mine))
    return EPOCH if latest is None else latest - _LOOKED_BACK


def ended_spans(connection: Connection, kind: str, since: datetime, before: datetime, most: int) -> Sequence[Row[Any]]:
    table = TABLES[kind]
    query: Select[Any] = select(*(table.c[name] for name in _OF_SPANS[kind]), instances.c.gce_id, _INSTANCE_NAME)
    goes_on = select(jobs.c.id).where(text(OPEN_JOB))
    return connection.execute(
        query.join(instances, instances.c.id == table.c.instance_id)
        .where(table.c.ended_at > since, table.c.ended_at < before)
        .where(table.c.archive_id.is_(None), table.c.charged_to == table.c.ended_at, table.c.unpriced == "")
        .where(or_(table.c.job == "", table.c.job.not_in(goes_on)))
        .where(~_is_split_by_label(table))
        .order_by(table.c.ended_at)
        .limit(most)
    ).all()


def _is_split_by_label(table: Table) -> ColumnElement[bool]:
    """A label that is rolled up changed meanwhile: only single charges say how much fell before the change."""
    changed_at, started_at = (
        type_coerce(column, BigInteger) for column in (label_changes.c.changed_at, table.c.started_at)
    )
    billed_to = or_(label_changes.c.changed_at < table.c.ended_at, changed_at < started_at + MINIMUM // _MICROSECOND)
    is_rolled_up = label_changes.c.label.in_(select(label_days.c.label))
    return (
        select(label_changes.c.label)
        .where(label_changes.c.instance_id == table.c.instance_id, is_rolled_up, changed_at > started_at, billed_to)
        .exists()
    )


def _lines(connection: Connection, kind: str, spans: Sequence[Row[Any]]) -> list[dict[str, Any]]:
    charged = _charges(connection, kind, [span.id for span in spans])
    return [span_line(span, kind, charged.get(span.id, [])) for span in spans]


def _charges(connection: Connection, kind: str, span_ids: Sequence[int]) -> dict[int, list[ChargeLine]]:
    """Returns the charges of each span, in the order of their starts.

    Moments stay numbers here: converting millions takes minutes.
    """
    moments, figures = _Moments(), charges.c
    columns = (
        *(figures.span_id, figures.resource),
        *(type_coerce(moment, BigInteger) for moment in (figures.started_at, figures.ended_at)),
        type_coerce(figures.day, String),
        *(figures.seconds, figures.quantity_millis, figures.price_id, figures.amount_nanos),
    )
    query = select(*columns).order_by(figures.span_id, figures.started_at, figures.resource)
    charged: defaultdict[int, list[ChargeLine]] = defaultdict(list)
    for ids in chunks(span_ids):
        rows = connection.execute(query.where(figures.span == kind, figures.span_id.in_(ids)))
        for span_id, resource, started_at, ended_at, day, *numbers in rows:
            charged[span_id].append([resource, moments[started_at], moments[ended_at], str(day), *numbers])
    return charged


class _Moments(dict[int, str]):
    """Stored moments in ISO 8601; a span's charges share theirs."""

    def __missing__(self, stored: int) -> str:
        self[stored] = text = (EPOCH + timedelta(microseconds=stored)).isoformat()
        return text


def _in_portions(lines: Iterator[dict[str, Any]], at_once: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    some: list[dict[str, Any]] = []
    for line in lines:
        if some and (len(some) == at_once or some[-1]["span"] != line["span"]):
            yield some[0]["span"], some
            some = []
        some.append(line)
    if some:
        yield some[0]["span"], some


def _roll_up(connection: Connection, kind: str, lines: Sequence[dict[str, Any]], archive_id: int) -> int:
    """Rolls up charges, and returns how many went.

    A span that is not as the file says is left as it is: a later file will hold it.
    """
    in_file = {line["id"]: (len(line["charges"]), sum(charge[7] for charge in line["charges"])) for line in lines}
    gone = 0
    for ids in chunks(list(in_file)):
        mine = and_(charges.c.span == kind, charges.c.span_id.in_(ids))
        sums = select(charges.c.span_id, func.count().label("n"), func.sum(charges.c.amount_nanos).label("nanos"))
        in_rows = {
            row.span_id: (row.n, int(row.nanos)) for row in connection.execute(sums.where(mine).group_by("span_id"))
        }
        going = [one for one in may_go(connection, kind, ids) if in_rows.get(one, (0, 0)) == in_file[one]]
        if going:
            gone += take_out(connection, kind, dict.fromkeys(going, archive_id))
    return gone
