"""The table of profiles: where the time of a training's code went."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Integer, String

from costguard.db.tables.base import Id, Json, table
from costguard.db.types import Timestamp

# One row for each job whose stacks were read: all windows of all its attempts, added up.
job_profiles = table(
    "job_profiles",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("attempt_id", Id, ForeignKey("attempts.id"), nullable=False),  # of the last window, as are run and number
    Column("run", Integer, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("windows", Integer, nullable=False),
    Column("since", Timestamp),  # NULL: no window has held a stack
    Column("until", Timestamp),
    Column("rereads", Json, nullable=False),
    Column("profile", Json, nullable=False),
)
