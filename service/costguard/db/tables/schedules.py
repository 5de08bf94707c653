"""The tables of schedules: what is launched when, and what became of each due time."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, String, Text

from costguard.db.tables.base import Json, only_where, table
from costguard.db.types import Timestamp

# Queries say these in the very same words, so that both databases use the small indexes.
LIVE_SCHEDULE = "state <> 'ended'"
PENDING_RUN = "outcome = 'launching'"

schedules = table(
    "schedules",
    Column("id", String, primary_key=True),
    Column("idempotency_key", String, unique=True),
    Column("request_digest", String, nullable=False, server_default=""),  # of the body that came with that key
    Column("name", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("project", String, nullable=False),
    Column("preset", String, nullable=False),
    Column("cron", String, nullable=False),
    Column("time_zone", String, nullable=False),
    Column("overlaps", Boolean, nullable=False),
    Column("late_s", BigInteger),  # NULL: half of the time to the next
    Column("template", Json, nullable=False),  # the submission, with its {names}
    Column("authority", Json),  # what it was asked with; NULL: the settings' lists alone
    Column("state", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("next_due", Timestamp),  # NULL while it is paused, and once it has ended
    Column("via", String, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("changed_by", String, nullable=False, server_default=""),
)
Index("ix_schedules_created_at", schedules.c.created_at, schedules.c.id)
Index("ix_schedules_live", schedules.c.id, **only_where(LIVE_SCHEDULE))

schedule_runs = table(
    "schedule_runs",
    Column("schedule_id", String, ForeignKey("schedules.id"), primary_key=True),
    Column("due_at", Timestamp, primary_key=True),
    Column("outcome", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("job_id", String, ForeignKey("jobs.id")),  # NULL: none was launched
    Column("tried_at", Timestamp),
    Column("asked_by", String, nullable=False, server_default=""),
    Column("idempotency_key", String, unique=True),  # of the request for it; NULL: it was due, or came without one
)
Index("ix_schedule_runs_job", schedule_runs.c.job_id)
Index(
    "ix_schedule_runs_pending",
    schedule_runs.c.schedule_id,
    **only_where(PENDING_RUN),
)
