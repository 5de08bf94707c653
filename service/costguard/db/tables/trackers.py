"""Tables of experiment trackers: the runs that jobs name, and the points that wait to be logged."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, ForeignKey, Index, Integer, String, Table, Text, text

from costguard.db.tables.base import Id, metadata
from costguard.db.types import Timestamp

# Queries say this in the very same words, so that both databases use the small index.
OPEN_RUN = "ended_at IS NULL"

tracked_runs = Table(
    "tracked_runs",
    metadata,
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", String, ForeignKey("jobs.id"), nullable=False),
    Column("tracker", String, nullable=False),
    Column("run", String, nullable=False),  # as its tracker names it
    Column("point_at", Timestamp),  # of the newest point: the next is later; NULL: none was made yet
    Column("step", BigInteger),  # the furthest so far; NULL: none was reported
    Column("ended_at", Timestamp),  # no point is made any more
    # What becomes of the points.
    Column("waiting", Integer, nullable=False, server_default=text("0")),  # how many points wait
    Column("logged_at", Timestamp),  # when the tracker accepted something last
    Column("tries", Integer, nullable=False, server_default=text("0")),  # failed ones in a row
    Column("try_after", Timestamp),
    Column("error", Text, nullable=False, server_default=""),  # of the last try
    Column("refused_at", Timestamp),  # when its owner was notified that the tracker does not take the run
)
Index("ix_tracked_runs_job", tracked_runs.c.job_id)
Index("ix_tracked_runs_open", tracked_runs.c.id, sqlite_where=text(OPEN_RUN), postgresql_where=text(OPEN_RUN))
Index(
    "ix_tracked_runs_waiting",
    tracked_runs.c.tracker,
    tracked_runs.c.id,
    sqlite_where=text("waiting > 0"),
    postgresql_where=text("waiting > 0"),
)

# A job's figures at one heartbeat, until its tracker has them.
tracker_points = Table(
    "tracker_points",
    metadata,
    Column("run_id", Id, ForeignKey("tracked_runs.id"), primary_key=True, autoincrement=False),
    Column("at", Timestamp, primary_key=True),  # whole milliseconds: trackers keep no finer ones
    Column("step", BigInteger),
    Column("cost_nanos", BigInteger),  # NULL: not all of it has a price
    Column("per_1000_nanos", BigInteger),  # NULL: not known
    Column("preemptions", Integer, nullable=False),
    Column("lost_s", BigInteger, nullable=False),
    Column("lost_nanos", BigInteger, nullable=False),
    Column("is_tried", Boolean, nullable=False, server_default=text("false")),  # the tracker may have it
)
