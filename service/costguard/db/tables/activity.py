"""Tables of what bounds runs: the last minutes of signals of each attempt, and the verdicts on jobs."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text, text

from costguard.db.tables.base import Id, Json, metadata
from costguard.db.types import Timestamp

# At most an hour of each attempt.
activity_minutes = Table(
    "activity_minutes",
    metadata,
    Column("attempt_id", Id, ForeignKey("attempts.id"), primary_key=True, autoincrement=False),
    Column("at", Timestamp, primary_key=True),  # its end
    Column("run", Integer, nullable=False),
    Column("minute", Json, nullable=False),
    Column("step", BigInteger),
    Column("step_at", Timestamp),
    Column("is_judged", Boolean, nullable=False, server_default=text("false")),
)

# One row for consecutive windows of a run with the same verdict.
job_bounds = Table(
    "job_bounds",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", String, ForeignKey("jobs.id"), nullable=False),
    Column("attempt_id", Id, ForeignKey("attempts.id"), nullable=False),
    Column("run", Integer, nullable=False),
    Column("bound", String, nullable=False),
    Column("cause", String),  # NULL: the bound alone is known
    Column("since", Timestamp, nullable=False),
    Column("until", Timestamp, nullable=False),
    Column("windows", Integer, nullable=False),
    Column("share_ppm", BigInteger),  # mean over the windows, in millionths of the time; NULL: not known
    Column("numbers", Json, nullable=False),  # of the last window
    Column("why", Text, nullable=False),
    Column("advice", Text, nullable=False),
    Column("steps", BigInteger),  # made in step_ms; NULL: not known
    Column("step_ms", BigInteger),
)
Index("ix_job_bounds_job", job_bounds.c.job_id, job_bounds.c.id)
