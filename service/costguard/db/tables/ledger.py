"""Tables of the ledger: instances, lifetimes, storage, charges and events."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
    text,
)

from costguard.db.tables.base import Id, Json, attribution_columns, only_where, shape_columns, table
from costguard.db.types import Timestamp

# A span that ended and whose charges are not stored up to its end. Queries say it in these very words, so that
# both databases find the few such spans by an index that holds nothing else.
UNCHARGED = "ended_at IS NOT NULL AND (charged_to IS NULL OR charged_to <> ended_at)"

# What was spent on a job, found among years of what was not.
OF_JOB = "job <> ''"

# Before every rate, as people look first at what nobody knows the price of.
UNPRICED_RANK = -(2**62)

# One row a watched project: what its last looks gave.
projects = table(
    "projects",
    Column("project", String, primary_key=True),
    Column("first_seen_at", Timestamp, nullable=False),
    Column("last_tried_at", Timestamp, nullable=False),
    Column("last_complete_at", Timestamp),  # the last look that read every zone
    Column("operations_through_at", Timestamp),
    Column("unread", Json, nullable=False),  # [{"scope", "code", "reason"}] of the last look
    Column("instance_count", Integer, nullable=False, server_default=text("0")),
    Column("wanted_at", Timestamp),  # when the replica that decides last asked for a look
)

# One row a project that a search found, that is missed by searches, or that has refused to be read.
watched_projects = table(
    "watched_projects",
    Column("project", String, primary_key=True),
    Column("number", String),  # Google's number of it; NULL: no search has shown it
    Column("found_at", Timestamp),
    Column("last_found_at", Timestamp),
    Column("missed", Integer, nullable=False, server_default=text("0")),  # complete searches since it was last found
    Column("missing_since", Timestamp),
    Column("gone_at", Timestamp),  # not watched from then on, unless it is listed
    Column("gone_because", Text, nullable=False, server_default=""),
    Column("refused_since", Timestamp),  # NULL: it answers
    Column("refusal_code", String, nullable=False, server_default=""),
    Column("refusal", Text, nullable=False, server_default=""),
)

# One row a place that is searched for projects: `organizations/N` or `folders/N`.
searched_places = table(
    "searched_places",
    Column("place", String, primary_key=True),
    Column("tried_at", Timestamp, nullable=False),
    Column("searched_at", Timestamp),  # the last search that came to its end
    Column("project_count", Integer, nullable=False, server_default=text("0")),  # that it showed
    Column("failed_since", Timestamp),  # NULL: the last search came to its end
    Column("failure_code", String, nullable=False, server_default=""),
    Column("failure", Text, nullable=False, server_default=""),
)

instances = table(
    "instances",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("project", String, nullable=False),
    Column("gce_id", String, nullable=False),  # uint64: does not fit BIGINT
    Column("name", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("status", String, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("last_started_at", Timestamp),
    Column("last_stopped_at", Timestamp),
    Column("termination_at", Timestamp),
    *shape_columns(),
    Column("labels", Json, nullable=False),
    # Metadata that says who keeps it: see managed/origin.py.
    Column("origin", Json, nullable=False, server_default=text("'{}'")),
    # Who keeps it, with its evidence, as model/keeper.py stores it; {}: not read yet.
    Column("keeper", Json, nullable=False, server_default=text("'{}'")),
    # Two parts of it, so that the fleet is filtered and added up without reading the JSON of every row.
    Column("keeper_kind", String),  # NULL: not read yet
    Column("keeper_product", String),  # NULL: it has none, as of a plain VM
    Column("preset", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("owner_source", String, nullable=False),  # "job", "claim", "label", "cluster", "creator" or ""
    Column("job", String, nullable=False),
    Column("created_by", String, nullable=False),  # the insert operation's user; "" when unknown
    Column("fingerprint", String, nullable=False),
    Column("first_seen_at", Timestamp, nullable=False),
    Column("gone_at", Timestamp),  # deleted, or found absent
    # What it costs an hour, worked out whenever it, or a price, changes: lists and sums of the fleet need nothing else.
    Column("running_since", Timestamp),  # the start of the open lifetime
    Column("rate_nanos", BigInteger),  # of what can be priced
    Column("rate_rank", BigInteger),  # -rate_nanos, or UNPRICED_RANK; NULL: not worked out yet
    UniqueConstraint("project", "gce_id"),
)
# It holds all that the fleet is filtered, counted and added up by, so that the wide rows need not be read.
Index(
    "ix_instances_present",
    instances.c.project,
    instances.c.preset,
    instances.c.status,
    instances.c.provisioning_model,
    instances.c.owner,
    instances.c.gpu_type,
    instances.c.gpu_count,
    instances.c.termination_at,
    instances.c.keeper_kind,
    instances.c.rate_rank,
    instances.c.rate_nanos,
    instances.c.running_since,
    instances.c.name,
    instances.c.id,
    **only_where(instances.c.gone_at.is_(None)),
)
Index(
    "ix_instances_rate",
    instances.c.rate_rank,
    instances.c.name,
    instances.c.id,
    instances.c.rate_nanos,
    instances.c.running_since,
    **only_where(instances.c.gone_at.is_(None)),
)
# Lists of keepers' products step through it from value to value, however many VMs of the past it has.
Index(
    "ix_instances_keeper_product",
    instances.c.keeper_product,
    instances.c.gone_at,
    **only_where(instances.c.keeper_product.is_not(None)),
)

# One row: by which prices the rates of all instances that are there were worked out, and within which time they hold.
burn_rates = table(
    "burn_rates",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("prices", String, nullable=False),
    Column("good_from", Timestamp),
    Column("good_until", Timestamp),
)

lifetimes = table(
    "lifetimes",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("instance_id", Id, ForeignKey("instances.id"), nullable=False),
    Column(
        "project", String, nullable=False, server_default=""
    ),  # the instance's, for sums that need nothing else of it
    Column("started_at", Timestamp, nullable=False),
    Column("ended_at", Timestamp),
    Column("end_reason", String),
    Column("ended_by", String, nullable=False, server_default=""),
    Column("end_is_estimate", Boolean, nullable=False, server_default=text("false")),
    Column("zone", String, nullable=False),
    Column("age_from", Timestamp),  # when a person last started it, where Google alone began it again since
    *shape_columns(),
    *attribution_columns(),
    # Charges are stored up to here; NULL: from the start again. Set to NULL to have it charged again.
    Column("charged_to", Timestamp),
    Column("unpriced", String, nullable=False, server_default=""),  # why it could not be priced whole
    Column("archive_id", Integer),  # in which archive its charges are; NULL: they are rows
    UniqueConstraint("instance_id", "started_at"),
)
Index(
    "ix_lifetimes_open",
    lifetimes.c.instance_id,
    **only_where(lifetimes.c.ended_at.is_(None)),
)
Index(
    "ix_lifetimes_ended_at",
    lifetimes.c.ended_at,
    **only_where(lifetimes.c.ended_at.is_not(None)),
)
Index("ix_lifetimes_job", lifetimes.c.job, **only_where(OF_JOB))
Index(
    "ix_lifetimes_open_charged_to",
    lifetimes.c.charged_to,
    lifetimes.c.started_at,
    **only_where(lifetimes.c.ended_at.is_(None)),
)
Index("ix_lifetimes_uncharged", lifetimes.c.charged_to, **only_where(UNCHARGED))
Index(
    "ix_lifetimes_unpriced",
    lifetimes.c.started_at,
    **only_where("unpriced <> ''"),
)

# The latest evidence of idleness, one row a running VM. It is of the lifetime that began at run_started_at.
utilisation = table(
    "utilisation",
    Column("instance_id", Id, ForeignKey("instances.id"), primary_key=True, autoincrement=False),
    Column("run_started_at", Timestamp, nullable=False),
    Column("measured_at", Timestamp, nullable=False),
    Column("good_until", Timestamp, nullable=False),  # older evidence says nothing any more
    Column("state", String, nullable=False),  # "busy", "idle" or "unknown"
    Column("since", Timestamp, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("is_weak", Boolean, nullable=False),
    Column("gpu_mean_bp", Integer),  # basis points; NULL: not measured
    Column("gpu_max_bp", Integer),
    Column("cpu_max_bp", Integer),
    Column("announced", String, nullable=False),  # the state of the last event; "" before the first
    Column("sm_mean_bp", Integer),
    Column("sm_max_bp", Integer),
    Column("counted_to", Timestamp),  # up to when its samples are in `gpu_use`; NULL: none is
)

# The time of a project's GPUs with a measured utilisation on a UTC day, and that times the utilisation: microseconds.
gpu_use = table(
    "gpu_use",
    Column("project", String, primary_key=True),
    Column("day", Date, primary_key=True),
    Column("known_us", BigInteger, nullable=False),
    Column("used_us", BigInteger, nullable=False),
)

storage_spans = table(
    "storage_spans",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("instance_id", Id, ForeignKey("instances.id"), nullable=False),
    Column("project", String, nullable=False, server_default=""),
    Column("name", String, nullable=False),
    Column("resource", String),  # NULL: the disk's type is not known
    Column("size_mib", Integer, nullable=False),
    Column("zone", String, nullable=False),
    Column("started_at", Timestamp, nullable=False),
    Column("ended_at", Timestamp),
    *attribution_columns(),
    Column("charged_to", Timestamp),
    Column("unpriced", String, nullable=False, server_default=""),
    Column("archive_id", Integer),
    Column("disk_id", String),  # Google's numeric id; NULL: saved memory, or no list of disks said it
    UniqueConstraint("instance_id", "name", "started_at"),
)
Index(
    "ix_storage_spans_open",
    storage_spans.c.instance_id,
    **only_where(storage_spans.c.ended_at.is_(None)),
)
Index(
    "ix_storage_spans_ended_at",
    storage_spans.c.ended_at,
    **only_where(storage_spans.c.ended_at.is_not(None)),
)
Index("ix_storage_spans_job", storage_spans.c.job, **only_where(OF_JOB))
Index(
    "ix_storage_spans_open_charged_to",
    storage_spans.c.charged_to,
    storage_spans.c.started_at,
    **only_where(storage_spans.c.ended_at.is_(None)),
)
Index(
    "ix_storage_spans_uncharged",
    storage_spans.c.charged_to,
    **only_where(UNCHARGED),
)
Index(
    "ix_storage_spans_unpriced",
    storage_spans.c.started_at,
    **only_where("unpriced <> ''"),
)

# `span` is "lifetime" or "storage"; `span_id` is the id in that table.
charges = table(
    "charges",
    Column("span", String, primary_key=True),
    Column("span_id", Id, primary_key=True, autoincrement=False),
    Column("resource", String, primary_key=True),
    Column("started_at", Timestamp, primary_key=True),
    Column("ended_at", Timestamp, nullable=False),
    Column("day", Date, nullable=False),
    Column("seconds", BigInteger, nullable=False),
    Column("quantity_millis", BigInteger, nullable=False),  # thousandths of a unit
    Column("price_id", Id, ForeignKey("prices.id"), nullable=False),
    Column("amount_nanos", BigInteger, nullable=False),
)
Index("ix_charges_day", charges.c.day)

# Google forgets operations after about two weeks; the ledger does not.
operations = table(
    "operations",
    Column("project", String, primary_key=True),
    Column("operation_id", String, primary_key=True),
    Column("target_id", String, nullable=False),
    Column("target_name", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("user", String, nullable=False),
    Column("status", String, nullable=False),
    Column("inserted_at", Timestamp, nullable=False),
    Column("started_at", Timestamp),
    Column("ended_at", Timestamp),
    Column("error_code", String),
    Column("error_message", Text),
    Column("status_message", Text),
    Column("name", String, nullable=False, server_default=""),
    Column("end_from_entry", Boolean, nullable=False, server_default=text("false")),
)
Index("ix_operations_target", operations.c.project, operations.c.target_id)

events = table(
    "events",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("key", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("occurred_at", Timestamp, nullable=False),
    Column("recorded_at", Timestamp, nullable=False),
    Column("project", String, nullable=False, server_default=""),
    Column("gce_id", String, nullable=False, server_default=""),
    Column("name", String, nullable=False, server_default=""),
    Column("actor", String, nullable=False, server_default=""),
    Column("text", Text, nullable=False),
    Column("data", Json, nullable=False),
)
# Events are read newest first, by when they happened; those recorded later may have happened earlier.
Index("ix_events_occurred_at", events.c.occurred_at, events.c.id)
Index("ix_events_instance", events.c.gce_id, events.c.occurred_at)
Index("ix_events_kind", events.c.kind, events.c.occurred_at)  # what people ask for is often what is rare

# One daemon acts at a time. `epoch` grows with every change of holder; writes carry it.
leases = table(
    "leases",
    Column("name", String, primary_key=True),
    Column("holder", String, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", Timestamp, nullable=False),
)

# Which replica watches each project, and since when; an expired one is free. Rows stay, as `epoch` must only grow.
project_leases = table(
    "project_leases",
    Column("project", String, primary_key=True),
    Column("holder", String, nullable=False),  # "": it was handed over, and nobody has claimed it yet
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", Timestamp, nullable=False),
    Column("since", Timestamp, nullable=False),
)

# The replicas that share the projects, until they expire.
replicas = table(
    "replicas",
    Column("holder", String, primary_key=True),
    Column("expires_at", Timestamp, nullable=False),
)
