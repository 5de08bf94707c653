"""Tables of what passes between the guard and Google: the subscription's state, and counts by the hour."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, String, Text, true

from costguard.db.tables.base import table
from costguard.db.types import Timestamp

# One row a subscription. Every column but the key is NULL until it is known.
feed_wire = table(
    "feed_wire",
    Column("subscription", String, primary_key=True),
    Column("sent_at", Timestamp),  # when the last heartbeat was sent
    Column("heard_at", Timestamp),  # when the newest heartbeat that came back was sent
    Column("pulled_at", Timestamp),  # the last pull that Google answered
    Column("message_at", Timestamp),  # when the newest message that came was published
    Column("can_publish", Boolean, nullable=False, server_default=true()),
    Column("unread", BigInteger),  # messages that Google holds for it
    Column("oldest_unread_at", Timestamp),
    Column("measured_at", Timestamp),  # when the two before it were
    Column("error", Text, nullable=False, server_default=""),  # of the last pull; empty where it was answered
)

# Counts of the guard's own work in an hour, kept for forty days: listings, requests, messages, bytes.
hourly_counts = table(
    "hourly_counts",
    Column("hour", Timestamp, primary_key=True),  # its beginning
    Column("what", String, primary_key=True),
    Column("number", BigInteger, nullable=False),
)
