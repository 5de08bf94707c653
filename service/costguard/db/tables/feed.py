"""Tables of the feed: what entries of the audit log said before a listing did."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, String

from costguard.db.tables.base import Json, table
from costguard.db.types import Timestamp

# What the first entry of an insert asked for, of a VM that no listing has shown yet.
feed_requests = table(
    "feed_requests",
    Column("project", String, primary_key=True),
    Column("gce_id", String, primary_key=True),
    Column("heard_at", Timestamp, nullable=False, index=True),
    Column("zone", String, nullable=False),
    Column("request", Json, nullable=False),
)

# What was heard of each project by the feed of its audit log.
feed_projects = table(
    "feed_projects",
    Column("project", String, primary_key=True),
    Column("first_heard_at", Timestamp, nullable=False),
    Column("heard_at", Timestamp, nullable=False),
    Column("entries", BigInteger, nullable=False),  # with those that came twice
    Column("doubled", BigInteger, nullable=False),
    Column("missed", BigInteger, nullable=False),  # operations that a list showed, and no entry told of
    Column("missed_at", Timestamp),
)
