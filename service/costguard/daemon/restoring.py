"""After a restore, a move or a clone of the database: a new generation, in which nothing pending goes on by itself."""

from __future__ import annotations

from datetime import datetime

import structlog
from sqlalchemy import Connection

from costguard.ledger import generation
from costguard.messages import outbox_rows
from costguard.model.event import new_event
from costguard.model.generation import FIRST, Cause, Generation
from costguard.model.moments import utc_text
from costguard.reminders import request_rows, slack_accounts
from costguard.reminders.answering import refuse
from costguard.trackers import rows as tracker_rows

log = structlog.get_logger(__name__)

KIND = "GenerationBegan"
_WHY = "the database was restored from a backup after this was asked"
_TEXTS = {
    Cause.RESTORED: "The database was restored from a backup",
    Cause.RECOGNISED: (
        "The database is older than what runs, or another guard works with a copy of it: VMs bear this installation's "
        "labels, and the ledger holds no intent to launch them"
    ),
    Cause.OLDER: (
        "The database is older than the one that was here before: a backup was put back, or its last writes were lost"
    ),
    Cause.MOVED: "The database is in another place than before: it was moved, copied or restored",
}
_NEXT = (
    "What was pending in it was withdrawn, everybody is signed out, and people are reminded again before anything is "
    "stopped by a rule. VMs that the ledger does not know are adopted or reported, never deleted: "
    "`costguard db unknown` lists them."
)


def begin(
    connection: Connection,
    cause: Cause,
    now: datetime,
    backup_at: datetime | None = None,
    why: str = "",
    seen: int = FIRST,
) -> Generation:
    """Begins a new generation within a write; VMs that are launched from now on bear it in their labels.

    It is later than that of the database, and than `seen`, the latest one of which anything is known.

    Requests of people are refused, stops that may not have begun are withdrawn, and messages that were to be sent are
    looked for in Slack first, as points are in experiment trackers: all of that may have been done since the backup, or
    hit another run of the VM.
    """
    before = generation.read(connection)
    new = Generation(max(before.number, seen) + 1, now, cause, backup_at)
    taken = f" of {utc_text(backup_at)}" if backup_at is not None else ""
    text = f"{_TEXTS[cause]}{taken}{f' ({why})' if why else ''}. Generation {new.number} begins. {_NEXT}"
    data = {"generation": new.number, "cause": cause.value, "backup_at": backup_at}
    generation.begin(connection, new, new_event(KIND, now, text, new.number, data=data), now)
    for _, request in request_rows.open_requests(connection):
        refuse(connection, request, f"Nothing was done: {_WHY}. Ask again if you still want it.", now)
    generation.withdraw_stops(connection, _WHY, now)
    tracker_rows.mark_all_tried(connection)
    _suspect_messages(connection, now)
    return new


def _suspect_messages(connection: Connection, now: datetime) -> None:
    """Marks messages whose channel in Slack is known as doubtful; for the others it is unknown whether they
    were sent.
    """
    waiting = outbox_rows.intended(connection)
    accounts = slack_accounts.of_addresses(connection, [row.address for row in waiting if "@" in row.address])
    for message in waiting:
        if message.kind == "ephemeral":
            continue
        channel = message.address
        if "@" in channel:
            person = accounts.get(channel.lower())
            channel = person.direct_channel if person is not None else ""
        if not channel:
            continue
        root = outbox_rows.root_of(connection, message.thread, message.address, channel) if message.thread else None
        outbox_rows.suspect(connection, message, channel, root.ts if root is not None else "", now)
