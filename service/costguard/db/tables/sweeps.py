"""The tables of sweeps: what was asked for, its members, and the jobs that each of them has had."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
    text,
)

from costguard.db.tables.base import Json, JsonOrNull, only_where, table
from costguard.db.types import Timestamp

# Queries say this in the very same words, so that both databases use the small index.
OPEN_SWEEP = "state = 'running'"

sweeps = table(
    "sweeps",
    Column("id", String, primary_key=True),
    Column("idempotency_key", String, unique=True),
    Column("request_digest", String, nullable=False, server_default=""),  # of the body that came with that key
    Column("name", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("project", String, nullable=False),
    Column("preset", String, nullable=False),
    Column("at_once", Integer, nullable=False),
    Column("ceiling_nanos", BigInteger),
    Column("state", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("via", String, nullable=False),
    Column("code", Json),  # of all members; NULL: none
    Column("round", Integer, nullable=False, server_default=text("1")),
    Column("created_at", Timestamp, nullable=False),
    Column("settled_at", Timestamp),
    Column("cancel_asked_at", Timestamp),
    Column("cancel_asked_by", String, nullable=False, server_default=""),
    Column("halving", JsonOrNull),  # NULL: no member is stopped as a loser
    Column("halving_ended_at", Timestamp),
    Column("halving_ended_by", String, nullable=False, server_default=""),
)
Index("ix_sweeps_created_at", sweeps.c.created_at, sweeps.c.id)
Index("ix_sweeps_open", sweeps.c.id, **only_where(OPEN_SWEEP))

sweep_members = table(
    "sweep_members",
    Column("sweep_id", String, ForeignKey("sweeps.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("parameters", Json, nullable=False),  # pairs: an object would lose their order
    Column("spec", Json, nullable=False),
    Column("recipe", Json, nullable=False),
    Column("tries", Integer, nullable=False, server_default=text("1")),
    Column("kept_at", Timestamp),  # since when halving does not stop it
    Column("kept_by", String, nullable=False, server_default=""),
)

sweep_jobs = table(
    "sweep_jobs",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("sweep_id", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("try", Integer, nullable=False),
    ForeignKeyConstraint(["sweep_id", "number"], ["sweep_members.sweep_id", "sweep_members.number"]),
    UniqueConstraint("sweep_id", "number", "try"),  # a try is launched once
)

# The members that halving has stopped, with what is expected to be saved by it.
sweep_stops = table(
    "sweep_stops",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("sweep_id", String, nullable=False),
    Column("number", Integer, nullable=False),
    Column("stopped_at", Timestamp, nullable=False),
    Column("step", Double, nullable=False),  # at which it was compared
    Column("unit", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("rest_s", BigInteger),  # what it would have run for still; NULL: its pace is not known
    Column("gpus", Integer, nullable=False),  # of all its VMs
    Column("saved_nanos", BigInteger),  # NULL: its pace or its rate is not known
    ForeignKeyConstraint(["sweep_id", "number"], ["sweep_members.sweep_id", "sweep_members.number"]),
)
