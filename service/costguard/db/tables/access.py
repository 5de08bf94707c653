"""Tables of tokens, sessions, sign-in links, and webhook receivers."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, String, Text, text

from costguard.db.tables.base import Json, table
from costguard.db.types import Timestamp

# Tokens for programs. What they say is shown once and never stored: a digest is.
api_tokens = table(
    "api_tokens",
    Column("id", String, primary_key=True),
    Column("digest", String, nullable=False, unique=True),  # SHA-256, hexadecimal
    Column("name", String, nullable=False),
    Column("owner", String, nullable=False),  # whom it speaks for: an address in lower case
    Column("role", String, nullable=False),  # at most; where it is not granted, the settings' lists decide too
    Column("is_granted", Boolean, nullable=False),  # made on the server, so that no list need name its owner
    Column("permissions", Json, nullable=False),
    Column("idempotency_key", String, unique=True),
    Column("made_at", Timestamp, nullable=False),
    Column("made_by", String, nullable=False),
    Column("expires_at", Timestamp),  # NULL: never
    # Made in a session of a one-time link: it ends then at the latest, unless an admin confirms it. NULL: it does not.
    Column("provisional_until", Timestamp),
    Column("session_id", String, nullable=False, server_default=""),  # the session that it ends with
    Column("confirmed_at", Timestamp),
    Column("confirmed_by", String, nullable=False, server_default=""),
    Column("revoked_at", Timestamp),
    Column("revoked_by", String, nullable=False, server_default=""),
    Column("last_used_at", Timestamp),
)
Index("ix_api_tokens_owner", api_tokens.c.owner)
Index("ix_api_tokens_session_id", api_tokens.c.session_id)

# One-time sign-in links.
sign_in_links = table(
    "sign_in_links",
    Column("digest", String, primary_key=True),
    Column("address", String, nullable=False),
    Column("role", String, nullable=False),
    Column("made_at", Timestamp, nullable=False),
    Column("expires_at", Timestamp, nullable=False),
    Column("used_at", Timestamp),
)

# People who are signed in: the digest is of the secret in their browser's cookie, and the id is what people see. To
# end a session takes its row away.
sessions = table(
    "sessions",
    Column("id", String, primary_key=True),
    Column("digest", String, nullable=False, unique=True),  # SHA-256, hexadecimal
    Column("address", String, nullable=False),  # whose it is, in lower case
    Column("via", String, nullable=False),
    Column("role", String, nullable=False),  # that came with a link; "": the settings' lists say it each time
    Column("client", String, nullable=False),  # the address that they signed in from
    Column("began_at", Timestamp, nullable=False),
    Column("expires_at", Timestamp, nullable=False),
    Column("last_used_at", Timestamp),
)
Index("ix_sessions_address", sessions.c.address)
Index("ix_sessions_expires_at", sessions.c.expires_at)

# How far each receiver of events has come. `event_id` is the last event that it accepted.
webhooks = table(
    "webhooks",
    Column("name", String, primary_key=True),
    Column("event_id", BigInteger, nullable=False),
    Column("tries", Integer, nullable=False, server_default=text("0")),  # of the next one
    Column("try_after", Timestamp),
    Column("accepted_at", Timestamp),
    Column("error", Text, nullable=False, server_default=""),
)
