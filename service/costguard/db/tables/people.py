"""Tables of people, messages, requests and stops."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    text,
)

from costguard.db.tables.base import Id, Json, only_where, table
from costguard.db.tables.ledger import instances  # noqa: F401 foreign keys need it to be known
from costguard.db.types import Timestamp

# A message that was not accepted yet, and may have to be sent.
WAITING = "status IN ('intended', 'sending')"

# Members of the workspace, by address. An empty user_id: no member has this address.
people = table(
    "people",
    Column("address", String, primary_key=True),
    Column("user_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("time_zone", String, nullable=False),
    Column("direct_channel", String, nullable=False, server_default=""),
    Column("team_id", String, nullable=False, server_default=""),
    Column("looked_up_at", Timestamp, nullable=False),
)
Index("ix_people_user_id", people.c.user_id)

# What people asked for. A pass settles each once: status is "open", then "done" or "refused".
requests = table(
    "requests",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("key", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("instance_id", Id, ForeignKey("instances.id"), nullable=False),
    Column("by", String, nullable=False),
    Column("user_id", String, nullable=False),
    Column("via", String, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("hours", Integer),
    Column("reason", Text, nullable=False),
    Column("due_at", Timestamp),
    Column("status", String, nullable=False, server_default="open"),
    Column("outcome", Text, nullable=False, server_default=""),
    Column("settled_at", Timestamp),
    # What it was asked with, and the most that it counts for. `known_by` is "" in Slack: the settings' lists say it.
    Column("role", String, nullable=False, server_default=""),
    Column("known_by", String, nullable=False, server_default=""),
    Column("asked_by", String, nullable=False, server_default=""),  # who named `by`; "" the master token
    Column("is_granted", Boolean, nullable=False, server_default=text("false")),
    Column("permissions", Json),  # NULL: all of the role
    Column("token_id", String, nullable=False, server_default=""),
)
Index(
    "ix_requests_open",
    requests.c.id,
    **only_where("status = 'open'"),
)
Index("ix_requests_subject", requests.c.subject)

# A due moment that a person moved. One row per request, so that a request moves it once.
keeps = table(
    "keeps",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("subject", String, nullable=False),
    Column("instance_id", Id, ForeignKey("instances.id"), nullable=False),
    Column("until", Timestamp, nullable=False),
    Column("by", String, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("reason", Text, nullable=False),
    Column("request_id", Id, ForeignKey("requests.id"), nullable=False, unique=True),
)
Index("ix_keeps_subject", keeps.c.subject)

# Whose a VM is, as a person claimed. The latest row of a VM holds.
claims = table(
    "claims",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("instance_id", Id, ForeignKey("instances.id"), nullable=False),
    Column("owner", String, nullable=False),
    Column("by", String, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("request_id", Id, ForeignKey("requests.id"), nullable=False, unique=True),
)
Index("ix_claims_instance", claims.c.instance_id)

# Every message that was ever meant to be sent. It is intended in a transaction, claimed by "sending" in another
# right before the call, and "accepted" in a third: what is left in "sending" may have been sent, and Slack tells.
messages = table(
    "messages",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("key", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),  # "reminder", "digest", "report", "reservation", ...
    Column("subject", String, nullable=False, server_default=""),  # its thread: a reminder's subject, "job:ID"
    Column("instance_id", Id, ForeignKey("instances.id")),
    Column("cycle", Integer, nullable=False, server_default=text("0")),
    Column("stage", Integer, nullable=False, server_default=text("0")),
    Column("target", String, nullable=False, server_default=""),
    Column("address", String, nullable=False),  # a person's e-mail address, a "#channel", or a Slack id
    Column("data", Json, nullable=False),  # what is not read from the ledger when it is sent
    Column("status", String, nullable=False),  # "intended", "sending", "accepted", "withdrawn" or "failed"
    Column("intended_at", Timestamp, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("try_after", Timestamp, nullable=False),
    Column("sending_at", Timestamp),
    Column("accepted_at", Timestamp),
    Column("channel", String, nullable=False, server_default=""),  # where it went: Slack's id
    Column("ts", String, nullable=False, server_default=""),
    Column("thread_ts", String, nullable=False, server_default=""),
    Column("shown", String, nullable=False, server_default=""),  # what state it shows: see engine/outbox.py
    Column("is_live", Boolean, nullable=False, server_default=text("false")),  # it may have to be edited yet
    Column("error", Text, nullable=False, server_default=""),
)
Index(
    "ix_messages_waiting",
    messages.c.try_after,
    **only_where(WAITING),
)
Index("ix_messages_subject", messages.c.subject)
Index(
    "ix_messages_live",
    messages.c.id,
    **only_where("is_live"),
)

# Every stop that was begun, or would have been. request_uuid makes a repeat harmless to Google.
stops = table(
    "stops",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("key", String, nullable=False, unique=True),
    Column("subject", String, nullable=False),
    Column("instance_id", Id, ForeignKey("instances.id"), nullable=False),
    Column("rule", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("evidence", Json, nullable=False),
    Column("reminder", String, nullable=False),  # the key of the message whose grace had passed; "" where asked
    Column("request_id", Id, ForeignKey("requests.id")),
    Column("request_uuid", String, nullable=False),
    Column("outcome", String, nullable=False),
    Column("operation", String, nullable=False, server_default=""),
    Column("intended_at", Timestamp, nullable=False),
    Column("settled_at", Timestamp),
    Column("tries", Integer, nullable=False, server_default=text("0")),
    Column("try_after", Timestamp, nullable=False),
    Column("error", Text, nullable=False, server_default=""),
    Column("rate_nanos", BigInteger),  # what the VM cost an hour then; NULL: not priced whole
)
Index("ix_stops_subject", stops.c.subject)
Index("ix_stops_intended_at", stops.c.intended_at)
