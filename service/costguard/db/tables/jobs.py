"""Tables of jobs, their attempts, interruptions and checkpoints, of what bounds them, and of runs in trackers."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
    text,
)

from costguard.db.tables.base import Id, Json, JsonOrNull, only_where, table
from costguard.db.types import Timestamp

# Queries say these in the very same words, so that both databases use the small indexes.
OPEN_JOB = "state IN ('queued', 'provisioning', 'running', 'recovering')"
LIVE_ATTEMPT = "state <> 'over'"

# Keys for signing what comes back to us, made once.
signing_keys = table(
    "signing_keys",
    Column("name", String, primary_key=True),
    Column("value", String, nullable=False),  # hexadecimal
    Column("made_at", Timestamp, nullable=False),
)

jobs = table(
    "jobs",
    Column("id", String, primary_key=True),
    Column("idempotency_key", String, unique=True),
    Column("request_digest", String, nullable=False, server_default=""),  # of the body that came with that key
    Column("kind", String, nullable=False),
    Column("name", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("preset", String, nullable=False),
    Column("project", String, nullable=False),
    Column("spec", Json, nullable=False),
    Column("recipe", Json, nullable=False),
    Column("state", String, nullable=False),
    Column("reason", Text, nullable=False),
    Column("via", String, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("settled_at", Timestamp),
    Column("cancel_asked_at", Timestamp),
    Column("cancel_asked_by", String, nullable=False, server_default=""),
    Column("early_why", Text, nullable=False, server_default=""),  # why Costguard ended it early; "": it did not
    Column("early_reason", Text, nullable=False, server_default=""),
    Column("next_at", Timestamp),
    # It is to be cancelled once a checkpoint was written after this.
    Column("cancel_after_at", Timestamp),
    Column("cancel_after_by", String, nullable=False, server_default=""),
    # A standstill whose best value was reached before this is not hinted at.
    Column("never_mind_at", Timestamp),
    Column("never_mind_by", String, nullable=False, server_default=""),
    # What was seen at the location of its checkpoints. NULL: nobody has looked.
    Column("looked_at", Timestamp),
    Column("look_error", Text, nullable=False, server_default=""),
    Column("look_torn", Json, nullable=False, server_default=text("'[]'")),
    Column("look_resume_from", String, nullable=False, server_default=""),
    Column("look_step", BigInteger),
    Column("look_written_at", Timestamp),
    Column("look_files", BigInteger),
    Column("look_seen_at", Timestamp),  # when a look last found it; a later one failed
    Column("advanced_at", Timestamp),
    # Its owner agreed that the disk which holds its checkpoints goes.
    Column("disk_given_up_at", Timestamp),
    Column("disk_given_up_by", String, nullable=False, server_default=""),
    Column("gang_round", Integer, nullable=False, server_default=text("0")),
)
Index("ix_jobs_created_at", jobs.c.created_at, jobs.c.id)
Index("ix_jobs_open", jobs.c.id, **only_where(OPEN_JOB))
Index("ix_jobs_owner", jobs.c.owner, jobs.c.created_at)

attempts = table(
    "attempts",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", String, ForeignKey("jobs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("generation", Integer, nullable=False, server_default=text("1")),  # of the database, when it was intended
    Column("name", String, nullable=False),
    Column("project", String, nullable=False),
    Column("zone", String, nullable=False),
    Column("gpu_type", String, nullable=False),
    Column("provisioning_model", String, nullable=False),
    Column("request_uuid", String, nullable=False),
    Column("max_run_s", BigInteger, nullable=False),
    Column("rate_nanos", BigInteger),
    Column("resume_from", String, nullable=False, server_default=""),
    Column("resume_step", BigInteger),
    Column("resume_why", Text, nullable=False, server_default=""),
    Column("image", String, nullable=False, server_default=""),
    Column("state", String, nullable=False),
    Column("outcome", String),
    Column("reason", Text, nullable=False, server_default=""),
    Column("intended_at", Timestamp, nullable=False),
    Column("asked_at", Timestamp),
    Column("operation", String, nullable=False, server_default=""),
    Column("gce_id", String, nullable=False, server_default=""),
    Column("made_at", Timestamp),
    Column("stop_asked_at", Timestamp),
    Column("stop_why", String, nullable=False, server_default=""),
    Column("ended_at", Timestamp),
    Column("zones_available", Json, nullable=False, server_default=text("'[]'")),
    Column("delete_asked_at", Timestamp),
    Column("gone_at", Timestamp),
    Column("rested_at", Timestamp),
    Column("restarts", Integer, nullable=False, server_default=text("0")),
    Column("tries", Integer, nullable=False, server_default=text("0")),
    Column("try_after", Timestamp),
    Column("error", Text, nullable=False, server_default=""),
    # Of an attempt whose VM was made ready while the attempt of that number ran.
    Column("follows", Integer),
    Column("ready_at", Timestamp),
    Column("released_at", Timestamp),
    # What its agent told last; NULL: nothing yet.
    Column("heard_at", Timestamp),
    Column("run", Integer, nullable=False, server_default=text("0")),
    Column("booted_at", Timestamp),
    Column("started_at", Timestamp),
    Column("noticed_at", Timestamp),
    Column("maintenance_at", Timestamp),
    Column("step", BigInteger),
    Column("step_at", Timestamp),
    Column("machine", Json, nullable=False, server_default=text("'{}'")),
    Column("output", Text, nullable=False, server_default=""),
    Column("image_digest", String, nullable=False, server_default=""),
    Column("setup_s", BigInteger),
    Column("phase", String, nullable=False, server_default=""),
    Column("transfers", Json, nullable=False, server_default=text("'[]'")),
    Column("exit", Json),
    Column("accepted_through", BigInteger, nullable=False, server_default=text("0")),
    Column("metric", Json),  # NULL: none was printed yet
    Column("progress", Json),  # NULL: nothing was read of it yet
    # Whether its VM gets an external address, and why; NULL: as its job's recipe says.
    Column("address", JsonOrNull),
    Column("hang", JsonOrNull),  # NULL: its command makes progress, as far as is known
    # The notice of a preemption that its VM was asked for; NULL: not known, of a VM that was adopted.
    Column("notice_s", Integer, server_default=text("0")),
    # Of a gang: see the fields of the same names of `Attempt` and `AgentState`.
    Column("node", Integer, nullable=False, server_default=text("0")),
    Column("formation", Integer, nullable=False, server_default=text("0")),
    Column("round", Integer, nullable=False, server_default=text("0")),
    Column("internal_address", String, nullable=False, server_default=""),
    Column("ready_round", Integer, nullable=False, server_default=text("0")),
    Column("ended_round", JsonOrNull),  # NULL: no round has ended on it in the present run
    # Of a gang on flex-start: see the fields of the same names of `Attempt`.
    Column("vm_group", String, nullable=False, server_default=""),
    Column("resize_request", String, nullable=False, server_default=""),
    Column("claimed_by", String, nullable=False, server_default=""),
    UniqueConstraint("job_id", "number"),
    UniqueConstraint("name", "project"),  # in this order an agent, which knows its name alone, is found by it too
)
# What every report of an agent changes. The triggers that count changes leave these columns out: a page shows them as
# they were some seconds ago at most, and 10,000 agents do not have each page made again for each request.
REPORTED = frozenset(
    ("heard_at", "step", "step_at", "machine", "output", "phase", "transfers", "accepted_through", "metric", "progress")
)
Index("ix_attempts_live", attempts.c.job_id, **only_where(LIVE_ATTEMPT))
Index("ix_attempts_ended_at", attempts.c.ended_at)
Index("ix_attempts_instance", attempts.c.project, attempts.c.gce_id)

# One row a run that was interrupted, whatever told of it and however often.
interruptions = table(
    "interruptions",
    Column("attempt_id", Id, ForeignKey("attempts.id"), primary_key=True, autoincrement=False),
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("job_id", String, ForeignKey("jobs.id"), nullable=False),
    Column("outcome", String, nullable=False),
    Column("started_at", Timestamp),
    Column("happened_at", Timestamp, nullable=False),
    Column("noticed_at", Timestamp, nullable=False),
    Column("noticed_by", String, nullable=False),
    Column("requested_at", Timestamp),
    Column("resumed_at", Timestamp),
    Column("lost_s", BigInteger),
    Column("lost_nanos", BigInteger),
    Column("from_zero", Boolean, nullable=False, server_default=text("false")),
)
Index("ix_interruptions_job", interruptions.c.job_id)
Index("ix_interruptions_happened_at", interruptions.c.happened_at)

# Rounds of gangs that are over. One that goes on, or was the last, is in the rows of its attempts.
gang_rounds = table(
    "gang_rounds",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("released_at", Timestamp),
    Column("started_at", Timestamp),  # NULL: not all of its commands began
    Column("ended_at", Timestamp, nullable=False),
    Column("outcome", String),  # of the VM that ended it; NULL: not known
    Column("reason", Text, nullable=False),
    Column("resume_from", String, nullable=False),
    Column("resume_step", BigInteger),
    Column("step", BigInteger),  # NULL: none was reported in it
    Column("rate_nanos", BigInteger),  # an hour of all its VMs; NULL: that of one is not known
    Column("lost_s", BigInteger),  # NULL: not known yet
    Column("lost_nanos", BigInteger),
    Column("from_zero", Boolean, nullable=False, server_default=text("false")),
    Column("vms", Integer),  # NULL: recorded before this was
)

# Placement policies that were made for jobs, until they are deleted; see `PlacementPolicy`.
placement_policies = table(
    "placement_policies",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("region", String, primary_key=True),
    Column("project", String, nullable=False),
    Column("wanted_at", Timestamp, nullable=False),
    Column("ready_at", Timestamp),
    Column("refused", Text, nullable=False, server_default=""),
    Column("tries", Integer, nullable=False, server_default=text("0")),
    Column("try_after", Timestamp),
    Column("error", Text, nullable=False, server_default=""),
    Column("gone_at", Timestamp),
)
OPEN_POLICY = "gone_at IS NULL"
Index(
    "ix_placement_policies_open",
    placement_policies.c.job_id,
    **only_where(OPEN_POLICY),
)

# Jobs whose next VMs a fleet limit held back when they were last decided on; see `Wanted`.
limit_waits = table(
    "limit_waits",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("since", Timestamp, nullable=False),
    Column("most", Integer, nullable=False),  # VMs
    Column("least", Integer, nullable=False),
    Column("rate_nanos", BigInteger),  # an hour of one VM; NULL: not known
    Column("takes_s", BigInteger),  # how long it is expected to run; NULL: not known
)

# Complete checkpoints that were seen, for the job's timeline.
seen_checkpoints = table(
    "seen_checkpoints",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("resume_from", String, primary_key=True),
    Column("written_at", Timestamp, primary_key=True),  # a name such as last.ckpt is written again and again
    Column("step", BigInteger),
    Column("first_seen_at", Timestamp, nullable=False),
)

# What is planned for a job with a deadline, its last decisions, and what other policies would do. One row a job.
job_plans = table(
    "job_plans",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("updated_at", Timestamp, nullable=False),
    Column("plan", Json, nullable=False),
)

# Points of a job's curves; at most a few hundred of each series are kept.
progress_points = table(
    "progress_points",
    Column("id", Id, primary_key=True, autoincrement=True),
    Column("job_id", String, ForeignKey("jobs.id"), nullable=False),
    Column("attempt_id", Id, ForeignKey("attempts.id"), nullable=False),
    Column("run", Integer, nullable=False),
    Column("series", String, nullable=False),
    Column("at", Timestamp, nullable=False),
    Column("unit", String),  # of `done`; NULL: the training had counted nothing
    Column("done", Double),
    Column("value", Double),  # NULL: not a finite number, or the position alone
)
Index("ix_progress_points_series", progress_points.c.job_id, progress_points.c.series, progress_points.c.id)

# Notices of a preemption on purpose; spans are milliseconds.
drills = table(
    "drills",
    Column("job_id", String, ForeignKey("jobs.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("requested_at", Timestamp, nullable=False),
    Column("requested_by", String, nullable=False),
    Column("state", String, nullable=False),
    Column("result", String),
    Column("attempt_id", Id, ForeignKey("attempts.id")),
    Column("began_at", Timestamp),
    Column("ended_at", Timestamp),
    Column("grace_ms", BigInteger),
    Column("saved_ms", BigInteger),
    Column("uploaded_ms", BigInteger),
    Column("resumed_ms", BigInteger),
    Column("goes_on", String, nullable=False, server_default=""),
    Column("checkpoint", String, nullable=False, server_default=""),
    Column("step", BigInteger),
    Column("step_before", BigInteger),
    Column("why", Text, nullable=False, server_default=""),
    Column("was_killed", Boolean, nullable=False, server_default=text("false")),
)

# Queries say this in the very same words, so that both databases use the small index.
OPEN_RUN = "ended_at IS NULL"

tracked_runs = table(
    "tracked_runs",
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
Index("ix_tracked_runs_open", tracked_runs.c.id, **only_where(OPEN_RUN))
Index(
    "ix_tracked_runs_waiting",
    tracked_runs.c.tracker,
    tracked_runs.c.id,
    **only_where("waiting > 0"),
)

# A job's figures at one heartbeat, until its tracker has them.
tracker_points = table(
    "tracker_points",
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

# At most an hour of each attempt.
activity_minutes = table(
    "activity_minutes",
    Column("attempt_id", Id, ForeignKey("attempts.id"), primary_key=True, autoincrement=False),
    Column("at", Timestamp, primary_key=True),  # its end
    Column("run", Integer, nullable=False),
    Column("minute", Json, nullable=False),
    Column("step", BigInteger),
    Column("step_at", Timestamp),
    Column("is_judged", Boolean, nullable=False, server_default=text("false")),
)

# One row for consecutive windows of a run with the same verdict.
job_bounds = table(
    "job_bounds",
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
