"""All tables, indexes and triggers, made at once: the baseline that later migrations begin at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from costguard.db.change_triggers import count_changes, create_counter

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None

_COUNTED = (
    *("charges", "daily_owners", "daily_spend", "daily_totals", "instances", "interruptions", "lifetimes", "people"),
    *("projects", "requests", "storage_spans", "utilisation", "daily_spot", "daily_spot_totals", "daily_labels"),
    *("daily_label_values", "label_days"),
)
# What every report of an agent changes is no change of its attempt that pages are made again for.
_REPORTED = frozenset(
    ("heard_at", "step", "step_at", "machine", "output", "phase", "transfers", "accepted_through", "metric", "progress")
)


def upgrade() -> None:
    for create in (
        *(_spend, _ledger, _labels, _people, _jobs, _activity, _sweeps, _trackers, _access, _installation),
        *(_bill, _bill_comparison, _archives),
    ):
        create()
    create_counter(op.get_bind())
    count_changes(op.get_bind(), "attempts", without=_REPORTED)
    for table in _COUNTED:
        count_changes(op.get_bind(), table)


def _table(
    name: str,
    *parts: sa.Column[Any] | sa.Constraint,
    key: str,
    refers: Mapping[str, str] | None = None,
    unique: Sequence[str] = (),
    **options: Any,
) -> None:
    """Creates a table with its keys, which are named after it and their columns. Names are divided by spaces."""
    op.create_table(
        name,
        *parts,
        sa.PrimaryKeyConstraint(*key.split(), name=op.f(f"pk_{name}")),
        *(
            sa.ForeignKeyConstraint(columns.split(), targets.split(), name=op.f(_named("fk", name, columns)))
            for columns, targets in (refers or {}).items()
        ),
        *(sa.UniqueConstraint(*columns.split(), name=op.f(_named("uq", name, columns))) for columns in unique),
        **options,
    )


def _index(name: str, table: str, columns: str, where: str | None = None) -> None:
    condition = None if where is None else sa.text(where)
    op.create_index(op.f(name), table, columns.split(), sqlite_where=condition, postgresql_where=condition)


def _named(kind: str, table: str, columns: str) -> str:
    return "_".join((kind, table, *columns.split()))


def _columns(type_: sa.types.TypeEngine[Any], names: str, null: bool, default: str | None) -> list[sa.Column[Any]]:
    """Columns of one type, in this order; `default` is SQL, as the database gives it to a row that names none."""
    value = None if default is None else sa.text(default)
    return [sa.Column(name, type_, nullable=null, server_default=value, autoincrement=False) for name in names.split()]


_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite gives rowids only to a column of type INTEGER


def _serial() -> sa.Column[Any]:
    return sa.Column("id", _ID, autoincrement=True, nullable=False)


def _ids(names: str, null: bool = False) -> list[sa.Column[Any]]:
    return _columns(_ID, names, null, None)


def _strings(names: str, null: bool = False, default: str | None = None) -> list[sa.Column[Any]]:
    return _columns(sa.String(), names, null, default)


def _texts(names: str, null: bool = False, default: str | None = None) -> list[sa.Column[Any]]:
    return _columns(sa.Text(), names, null, default)


def _integers(names: str, null: bool = False, default: str | None = None) -> list[sa.Column[Any]]:
    return _columns(sa.Integer(), names, null, default)


def _bigints(names: str, null: bool = False, default: str | None = None) -> list[sa.Column[Any]]:
    return _columns(sa.BigInteger(), names, null, default)


def _doubles(names: str, null: bool = False) -> list[sa.Column[Any]]:
    return _columns(sa.Double(), names, null, None)


def _booleans(names: str, default: str | None = None) -> list[sa.Column[Any]]:
    return _columns(sa.Boolean(), names, False, default)


def _dates(names: str) -> list[sa.Column[Any]]:
    return _columns(sa.Date(), names, False, None)


def _jsons(names: str, null: bool = False, default: str | None = None) -> list[sa.Column[Any]]:
    return _columns(sa.JSON().with_variant(JSONB(), "postgresql"), names, null, default)


def _spend() -> None:
    _table("changes", *_strings("table_name"), *_bigints("number"), key="table_name")
    _table(
        "daily_owners",
        *_dates("day"),
        *_strings("project owner"),
        *_bigints("machine_nanos gpu_nanos storage_nanos seconds"),
        key="day project owner",
    )
    _index("ix_daily_owners_owner", "daily_owners", "owner day")
    _table(
        "daily_spend",
        *_dates("day"),
        *_strings("project preset owner job provisioning_model"),
        *_bigints("machine_nanos gpu_nanos storage_nanos seconds"),
        key="day project preset owner job provisioning_model",
    )
    _table(
        "daily_spot",
        *_dates("day"),
        *_strings("project preset owner"),
        *_ids("price_id"),
        *_bigints("used_millis amount_nanos"),
        key="day project preset owner price_id",
    )
    _index("ix_daily_spot_owner", "daily_spot", "owner day")
    _table(
        "daily_spot_totals",
        *_dates("day"),
        *_strings("project preset"),
        *_ids("price_id"),
        *_bigints("used_millis amount_nanos"),
        key="day project preset price_id",
    )
    _table(
        "daily_totals",
        *_dates("day"),
        *_strings("project preset provisioning_model"),
        *_bigints("machine_nanos gpu_nanos storage_nanos seconds"),
        key="day project preset provisioning_model",
    )
    _table(
        "price_refusals",
        _serial(),
        *_strings("resource region provisioning_model unit"),
        *_bigints("rate_nanos in_force_from"),
        *_strings("source"),
        *_strings("sku_id", default="''"),
        *_texts("reason"),
        *_bigints("refused_at"),
        key="id",
        unique=["resource region provisioning_model rate_nanos"],
    )
    _table(
        "prices",
        _serial(),
        *_strings("resource region provisioning_model unit"),
        *_bigints("rate_nanos in_force_from"),
        *_strings("source"),
        *_strings("sku_id", default="''"),
        *_bigints("recorded_at"),
        key="id",
        unique=["resource region provisioning_model in_force_from"],
    )
    _table(
        "running_totals",
        *_strings("project preset owner job provisioning_model"),
        *_dates("day"),
        *_bigints("machine_rate gpu_rate storage_rate running machine_nanos gpu_nanos storage_nanos seconds"),
        key="project preset owner job provisioning_model day",
    )


def _ledger() -> None:
    _table("burn_rates", *_integers("id"), *_strings("prices"), *_bigints("good_from good_until", null=True), key="id")
    _table(
        "events",
        _serial(),
        *_strings("key kind"),
        *_bigints("occurred_at recorded_at"),
        *_strings("project gce_id name actor", default="''"),
        *_texts("text"),
        *_jsons("data"),
        key="id",
        unique=["key"],
    )
    _index("ix_events_instance", "events", "gce_id occurred_at")
    _index("ix_events_kind", "events", "kind occurred_at")
    _index("ix_events_occurred_at", "events", "occurred_at id")
    _table(
        "instances",
        _serial(),
        *_strings("project gce_id name zone status"),
        *_bigints("created_at"),
        *_bigints("last_started_at last_stopped_at termination_at", null=True),
        *_strings("machine_type"),
        *_integers("vcpus memory_mib"),
        *_strings("gpu_type", null=True),
        *_integers("gpu_count local_ssd_gib"),
        *_strings("provisioning_model"),
        *_jsons("labels"),
        *_strings("preset owner owner_source job created_by fingerprint"),
        *_bigints("first_seen_at"),
        *_bigints("gone_at running_since rate_nanos rate_rank", null=True),
        *_jsons("origin", default="'{}'"),
        key="id",
        unique=["project gce_id"],
    )
    _index(
        "ix_instances_present",
        "instances",
        "project preset status provisioning_model owner gpu_type gpu_count termination_at rate_rank rate_nanos "
        "running_since name id",
        where="gone_at IS NULL",
    )
    _index("ix_instances_rate", "instances", "rate_rank name id rate_nanos running_since", where="gone_at IS NULL")
    _table("leases", *_strings("name holder"), *_bigints("epoch expires_at"), key="name")
    _table(
        "operations",
        *_strings("project operation_id target_id target_name zone kind user status"),
        *_bigints("inserted_at"),
        *_bigints("started_at ended_at", null=True),
        *_strings("error_code", null=True),
        *_texts("error_message status_message", null=True),
        key="project operation_id",
    )
    _index("ix_operations_target", "operations", "project target_id")
    _table(
        "projects",
        *_strings("project"),
        *_bigints("first_seen_at last_tried_at"),
        *_bigints("last_complete_at operations_through_at", null=True),
        *_jsons("unread"),
        *_integers("instance_count", default="0"),
        key="project",
    )
    _table(
        "charges",
        *_strings("span"),
        *_ids("span_id"),
        *_strings("resource"),
        *_bigints("started_at ended_at"),
        *_dates("day"),
        *_bigints("seconds quantity_millis"),
        *_ids("price_id"),
        *_bigints("amount_nanos"),
        key="span span_id resource started_at",
        refers={"price_id": "prices.id"},
    )
    _index("ix_charges_day", "charges", "day")
    _table(
        "lifetimes",
        _serial(),
        *_ids("instance_id"),
        *_bigints("started_at"),
        *_bigints("ended_at", null=True),
        *_strings("end_reason", null=True),
        *_strings("ended_by", default="''"),
        *_booleans("end_is_estimate", default="(false)"),
        *_strings("zone machine_type"),
        *_integers("vcpus memory_mib"),
        *_strings("gpu_type", null=True),
        *_integers("gpu_count local_ssd_gib"),
        *_strings("provisioning_model preset owner job"),
        *_bigints("charged_to", null=True),
        *_strings("unpriced project", default="''"),
        *_integers("archive_id", null=True),
        *_bigints("age_from", null=True),
        key="id",
        refers={"instance_id": "instances.id"},
        unique=["instance_id started_at"],
    )
    _index("ix_lifetimes_ended_at", "lifetimes", "ended_at", where="ended_at IS NOT NULL")
    _index("ix_lifetimes_job", "lifetimes", "job", where="job <> ''")
    _index("ix_lifetimes_open", "lifetimes", "instance_id", where="ended_at IS NULL")
    _index("ix_lifetimes_open_charged_to", "lifetimes", "charged_to started_at", where="ended_at IS NULL")
    _index(
        "ix_lifetimes_uncharged",
        "lifetimes",
        "charged_to",
        where="ended_at IS NOT NULL AND (charged_to IS NULL OR charged_to <> ended_at)",
    )
    _index("ix_lifetimes_unpriced", "lifetimes", "started_at", where="unpriced <> ''")
    _table(
        "storage_spans",
        _serial(),
        *_ids("instance_id"),
        *_strings("name"),
        *_strings("resource", null=True),
        *_integers("size_mib"),
        *_strings("zone"),
        *_bigints("started_at"),
        *_bigints("ended_at", null=True),
        *_strings("preset owner job"),
        *_bigints("charged_to", null=True),
        *_strings("unpriced project", default="''"),
        *_integers("archive_id", null=True),
        *_strings("disk_id", null=True),
        key="id",
        refers={"instance_id": "instances.id"},
        unique=["instance_id name started_at"],
    )
    _index("ix_storage_spans_ended_at", "storage_spans", "ended_at", where="ended_at IS NOT NULL")
    _index("ix_storage_spans_job", "storage_spans", "job", where="job <> ''")
    _index("ix_storage_spans_open", "storage_spans", "instance_id", where="ended_at IS NULL")
    _index("ix_storage_spans_open_charged_to", "storage_spans", "charged_to started_at", where="ended_at IS NULL")
    _index(
        "ix_storage_spans_uncharged",
        "storage_spans",
        "charged_to",
        where="ended_at IS NOT NULL AND (charged_to IS NULL OR charged_to <> ended_at)",
    )
    _index("ix_storage_spans_unpriced", "storage_spans", "started_at", where="unpriced <> ''")
    _table(
        "utilisation",
        *_ids("instance_id"),
        *_bigints("run_started_at measured_at good_until"),
        *_strings("state"),
        *_bigints("since"),
        *_texts("sentence"),
        *_booleans("is_weak"),
        *_integers("gpu_mean_bp gpu_max_bp cpu_max_bp", null=True),
        *_strings("announced"),
        *_integers("sm_mean_bp sm_max_bp", null=True),
        key="instance_id",
        refers={"instance_id": "instances.id"},
    )


def _labels() -> None:
    _table(
        "daily_label_values",
        *_strings("label"),
        *_dates("day"),
        *_booleans("is_labelled"),
        *_strings("value project"),
        *_bigints("machine_nanos gpu_nanos storage_nanos seconds"),
        key="label day is_labelled value project",
        sqlite_with_rowid=False,
    )
    _table(
        "daily_labels",
        *_strings("label"),
        *_booleans("is_labelled"),
        *_strings("value"),
        *_dates("day"),
        *_strings("project preset owner job provisioning_model"),
        *_bigints("machine_nanos gpu_nanos storage_nanos seconds"),
        key="label is_labelled value day project preset owner job provisioning_model",
        sqlite_with_rowid=False,
    )
    _table("label_days", *_dates("day"), *_strings("label"), key="day label", sqlite_with_rowid=False)
    _table(
        "label_changes",
        *_ids("instance_id"),
        *_strings("label"),
        *_bigints("changed_at"),
        *_strings("old_value", null=True),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_label_changes_instance_id_instances")),
        key="instance_id label changed_at",
    )
    _index("ix_label_changes_label", "label_changes", "label changed_at")


def _people() -> None:
    _table(
        "people",
        *_strings("address user_id name time_zone"),
        *_strings("direct_channel", default="''"),
        *_bigints("looked_up_at"),
        *_strings("team_id", default="''"),
        key="address",
    )
    _index("ix_people_user_id", "people", "user_id")
    _table(
        "messages",
        _serial(),
        *_strings("key kind"),
        *_strings("subject", default="''"),
        *_ids("instance_id", null=True),
        *_integers("cycle stage", default="0"),
        *_strings("target", default="''"),
        *_strings("address"),
        *_jsons("data"),
        *_strings("status"),
        *_bigints("intended_at"),
        *_integers("attempts", default="0"),
        *_bigints("try_after"),
        *_bigints("sending_at accepted_at", null=True),
        *_strings("channel ts thread_ts shown", default="''"),
        *_booleans("is_live", default="false"),
        *_texts("error", default="''"),
        key="id",
        refers={"instance_id": "instances.id"},
        unique=["key"],
    )
    _index("ix_messages_live", "messages", "id", where="is_live")
    _index("ix_messages_subject", "messages", "subject")
    _index("ix_messages_waiting", "messages", "try_after", where="status IN ('intended', 'sending')")
    _table(
        "requests",
        _serial(),
        *_strings("key kind subject"),
        *_ids("instance_id"),
        *_strings("by user_id via"),
        *_bigints("at"),
        *_integers("hours", null=True),
        *_texts("reason"),
        *_bigints("due_at", null=True),
        *_strings("status", default="'open'"),
        *_texts("outcome", default="''"),
        *_bigints("settled_at", null=True),
        *_strings("role known_by asked_by token_id", default="''"),
        *_booleans("is_granted", default="false"),
        *_jsons("permissions", null=True),
        key="id",
        refers={"instance_id": "instances.id"},
        unique=["key"],
    )
    _index("ix_requests_open", "requests", "id", where="status = 'open'")
    _index("ix_requests_subject", "requests", "subject")
    _table(
        "claims",
        _serial(),
        *_ids("instance_id"),
        *_strings("owner by"),
        *_bigints("at"),
        *_ids("request_id"),
        key="id",
        refers={"instance_id": "instances.id", "request_id": "requests.id"},
        unique=["request_id"],
    )
    _index("ix_claims_instance", "claims", "instance_id")
    _table(
        "keeps",
        _serial(),
        *_strings("subject"),
        *_ids("instance_id"),
        *_bigints("until"),
        *_strings("by"),
        *_bigints("at"),
        *_texts("reason"),
        *_ids("request_id"),
        key="id",
        refers={"instance_id": "instances.id", "request_id": "requests.id"},
        unique=["request_id"],
    )
    _index("ix_keeps_subject", "keeps", "subject")
    _table(
        "stops",
        _serial(),
        *_strings("key subject"),
        *_ids("instance_id"),
        *_strings("rule"),
        *_texts("reason"),
        *_jsons("evidence"),
        *_strings("reminder"),
        *_ids("request_id", null=True),
        *_strings("request_uuid outcome"),
        *_strings("operation", default="''"),
        *_bigints("intended_at"),
        *_bigints("settled_at", null=True),
        *_integers("tries", default="0"),
        *_bigints("try_after"),
        *_texts("error", default="''"),
        *_bigints("rate_nanos", null=True),
        key="id",
        refers={"instance_id": "instances.id", "request_id": "requests.id"},
        unique=["key"],
    )
    _index("ix_stops_intended_at", "stops", "intended_at")
    _index("ix_stops_subject", "stops", "subject")


def _jobs() -> None:
    _table(
        "jobs",
        *_strings("id"),
        *_strings("idempotency_key", null=True),
        *_strings("request_digest", default="''"),
        *_strings("kind name owner preset project"),
        *_jsons("spec recipe"),
        *_strings("state"),
        *_texts("reason"),
        *_strings("via"),
        *_bigints("created_at"),
        *_bigints("settled_at cancel_asked_at", null=True),
        *_strings("cancel_asked_by", default="''"),
        *_bigints("next_at looked_at", null=True),
        *_texts("look_error", default="''"),
        *_jsons("look_torn", default="'[]'"),
        *_strings("look_resume_from", default="''"),
        *_bigints("look_step look_written_at advanced_at look_files disk_given_up_at", null=True),
        *_strings("disk_given_up_by", default="''"),
        *_bigints("look_seen_at cancel_after_at", null=True),
        *_strings("cancel_after_by", default="''"),
        *_bigints("never_mind_at", null=True),
        *_strings("never_mind_by", default="''"),
        key="id",
        unique=["idempotency_key"],
    )
    _index("ix_jobs_created_at", "jobs", "created_at id")
    _index("ix_jobs_open", "jobs", "id", where="state IN ('queued', 'provisioning', 'running', 'recovering')")
    _index("ix_jobs_owner", "jobs", "owner created_at")
    _table("signing_keys", *_strings("name value"), *_bigints("made_at"), key="name")
    _table(
        "attempts",
        _serial(),
        *_strings("job_id"),
        *_integers("number"),
        *_strings("name project zone gpu_type provisioning_model request_uuid"),
        *_bigints("max_run_s"),
        *_bigints("rate_nanos", null=True),
        *_strings("resume_from", default="''"),
        *_bigints("resume_step", null=True),
        *_strings("state"),
        *_strings("outcome", null=True),
        *_texts("reason", default="''"),
        *_bigints("intended_at"),
        *_bigints("asked_at", null=True),
        *_strings("operation gce_id", default="''"),
        *_bigints("made_at stop_asked_at", null=True),
        *_strings("stop_why", default="''"),
        *_bigints("ended_at delete_asked_at gone_at", null=True),
        *_integers("restarts tries", default="0"),
        *_bigints("try_after", null=True),
        *_texts("error", default="''"),
        *_bigints("heard_at", null=True),
        *_integers("run", default="0"),
        *_bigints("booted_at started_at noticed_at maintenance_at step step_at", null=True),
        *_jsons("machine", default="'{}'"),
        *_texts("output", default="''"),
        *_jsons("exit", null=True),
        *_bigints("accepted_through", default="0"),
        *_texts("resume_why", default="''"),
        *_strings("image image_digest", default="''"),
        *_bigints("rested_at", null=True),
        *_integers("generation", default="1"),
        *_jsons("metric", null=True),
        *_strings("phase", default="''"),
        *_jsons("transfers", default="'[]'"),
        *_bigints("setup_s", null=True),
        *_jsons("hang progress", null=True),
        *_integers("follows", null=True),
        *_bigints("ready_at released_at", null=True),
        *_jsons("zones_available", default="'[]'"),
        key="id",
        refers={"job_id": "jobs.id"},
        unique=["job_id number", "name project"],
    )
    _index("ix_attempts_ended_at", "attempts", "ended_at")
    _index("ix_attempts_instance", "attempts", "project gce_id")
    _index("ix_attempts_live", "attempts", "job_id", where="state <> 'over'")
    _table(
        "job_plans",
        *_strings("job_id"),
        *_bigints("updated_at"),
        *_jsons("plan"),
        key="job_id",
        refers={"job_id": "jobs.id"},
    )
    _table(
        "seen_checkpoints",
        *_strings("job_id resume_from"),
        *_bigints("written_at"),
        *_bigints("step", null=True),
        *_bigints("first_seen_at"),
        key="job_id resume_from written_at",
        refers={"job_id": "jobs.id"},
    )
    _table(
        "drills",
        *_strings("job_id"),
        *_integers("number"),
        *_bigints("requested_at"),
        *_strings("requested_by state"),
        *_strings("result", null=True),
        *_ids("attempt_id", null=True),
        *_bigints("began_at ended_at grace_ms saved_ms uploaded_ms resumed_ms", null=True),
        *_strings("goes_on checkpoint", default="''"),
        *_bigints("step step_before", null=True),
        *_texts("why", default="''"),
        *_booleans("was_killed", default="false"),
        key="job_id number",
        refers={"attempt_id": "attempts.id", "job_id": "jobs.id"},
    )
    _table(
        "interruptions",
        *_ids("attempt_id"),
        *_integers("run"),
        *_strings("job_id outcome"),
        *_bigints("happened_at noticed_at"),
        *_strings("noticed_by"),
        *_bigints("requested_at resumed_at lost_s lost_nanos", null=True),
        *_booleans("from_zero", default="false"),
        *_bigints("started_at", null=True),
        key="attempt_id run",
        refers={"attempt_id": "attempts.id", "job_id": "jobs.id"},
    )
    _index("ix_interruptions_happened_at", "interruptions", "happened_at")
    _index("ix_interruptions_job", "interruptions", "job_id")
    _table(
        "progress_points",
        _serial(),
        *_strings("job_id"),
        *_ids("attempt_id"),
        *_integers("run"),
        *_strings("series"),
        *_bigints("at"),
        *_strings("unit", null=True),
        *_doubles("done value", null=True),
        key="id",
        refers={"attempt_id": "attempts.id", "job_id": "jobs.id"},
    )
    _index("ix_progress_points_series", "progress_points", "job_id series id")


def _activity() -> None:
    _table(
        "activity_minutes",
        *_ids("attempt_id"),
        *_bigints("at"),
        *_integers("run"),
        *_jsons("minute"),
        *_bigints("step step_at", null=True),
        *_booleans("is_judged", default="false"),
        key="attempt_id at",
        refers={"attempt_id": "attempts.id"},
    )
    _table(
        "job_bounds",
        _serial(),
        *_strings("job_id"),
        *_ids("attempt_id"),
        *_integers("run"),
        *_strings("bound"),
        *_strings("cause", null=True),
        *_bigints("since until"),
        *_integers("windows"),
        *_bigints("share_ppm", null=True),
        *_jsons("numbers"),
        *_texts("why advice"),
        *_bigints("steps step_ms", null=True),
        key="id",
        refers={"attempt_id": "attempts.id", "job_id": "jobs.id"},
    )
    _index("ix_job_bounds_job", "job_bounds", "job_id id")


def _sweeps() -> None:
    _table(
        "sweeps",
        *_strings("id"),
        *_strings("idempotency_key", null=True),
        *_strings("request_digest", default="''"),
        *_strings("name owner project preset"),
        *_integers("at_once"),
        *_bigints("ceiling_nanos", null=True),
        *_strings("state"),
        *_texts("reason"),
        *_strings("via"),
        *_jsons("code", null=True),
        *_integers("round", default="1"),
        *_bigints("created_at"),
        *_bigints("settled_at cancel_asked_at", null=True),
        *_strings("cancel_asked_by", default="''"),
        key="id",
        unique=["idempotency_key"],
    )
    _index("ix_sweeps_created_at", "sweeps", "created_at id")
    _index("ix_sweeps_open", "sweeps", "id", where="state = 'running'")
    _table(
        "sweep_members",
        *_strings("sweep_id"),
        *_integers("number"),
        *_jsons("parameters spec recipe"),
        *_integers("tries", default="1"),
        key="sweep_id number",
        refers={"sweep_id": "sweeps.id"},
    )
    _table(
        "sweep_jobs",
        *_strings("job_id sweep_id"),
        *_integers("number try"),
        key="job_id",
        refers={"job_id": "jobs.id", "sweep_id number": "sweep_members.sweep_id sweep_members.number"},
        unique=["sweep_id number try"],
    )


def _trackers() -> None:
    _table(
        "tracked_runs",
        _serial(),
        *_strings("job_id tracker run"),
        *_bigints("point_at step ended_at", null=True),
        *_integers("waiting", default="0"),
        *_bigints("logged_at", null=True),
        *_integers("tries", default="0"),
        *_bigints("try_after", null=True),
        *_texts("error", default="''"),
        *_bigints("refused_at", null=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_tracked_runs_job_id_jobs")),
        key="id",
    )
    _index("ix_tracked_runs_job", "tracked_runs", "job_id")
    _index("ix_tracked_runs_open", "tracked_runs", "id", where="ended_at IS NULL")
    _index("ix_tracked_runs_waiting", "tracked_runs", "tracker id", where="waiting > 0")
    _table(
        "tracker_points",
        *_ids("run_id"),
        *_bigints("at"),
        *_bigints("step cost_nanos per_1000_nanos", null=True),
        *_integers("preemptions"),
        *_bigints("lost_s lost_nanos"),
        *_booleans("is_tried", default="false"),
        sa.ForeignKeyConstraint(["run_id"], ["tracked_runs.id"], name=op.f("fk_tracker_points_run_id_tracked_runs")),
        key="run_id at",
    )


def _access() -> None:
    _table(
        "api_tokens",
        *_strings("id digest name owner role"),
        *_booleans("is_granted"),
        *_jsons("permissions"),
        *_strings("idempotency_key", null=True),
        *_bigints("made_at"),
        *_strings("made_by"),
        *_bigints("expires_at revoked_at", null=True),
        *_strings("revoked_by", default="''"),
        *_bigints("last_used_at provisional_until", null=True),
        *_strings("session_id", default="''"),
        *_bigints("confirmed_at", null=True),
        *_strings("confirmed_by", default="''"),
        key="id",
        unique=["digest", "idempotency_key"],
    )
    _index("ix_api_tokens_owner", "api_tokens", "owner")
    _index("ix_api_tokens_session_id", "api_tokens", "session_id")
    _table(
        "sessions",
        *_strings("id digest address via role client"),
        *_bigints("began_at expires_at"),
        *_bigints("last_used_at", null=True),
        key="id",
        unique=["digest"],
    )
    _index("ix_sessions_address", "sessions", "address")
    _index("ix_sessions_expires_at", "sessions", "expires_at")
    _table(
        "sign_in_links",
        *_strings("digest address role"),
        *_bigints("made_at expires_at"),
        *_bigints("used_at", null=True),
        key="digest",
    )
    _table(
        "webhooks",
        *_strings("name"),
        *_bigints("event_id"),
        *_integers("tries", default="0"),
        *_bigints("try_after accepted_at", null=True),
        *_texts("error", default="''"),
        key="name",
    )


def _installation() -> None:
    _table(
        "installation",
        *_integers("id generation"),
        *_bigints("began_at", null=True),
        *_strings("cause", default="''"),
        *_bigints("backup_at", null=True),
        *_strings("home", default="''"),
        *_bigints("mark", default="'0'"),
        *_bigints("written_by timeline", null=True),
        key="id",
    )
    _table(
        "unknown_vms",
        *_strings("project gce_id name zone job"),
        *_integers("generation"),
        *_strings("request_uuid status"),
        *_texts("reason"),
        *_bigints("found_at"),
        *_bigints("cleared_at", null=True),
        *_strings("verdict verdict_by", default="''"),
        *_bigints("verdict_at", null=True),
        key="project gce_id",
    )
    _index("ix_unknown_vms_there", "unknown_vms", "job", where="cleared_at IS NULL")


def _bill() -> None:
    _table(
        "bill_partitions",
        _serial(),
        *_strings("source"),
        *_dates("day"),
        *_bigints("row_count"),
        *_jsons("batches"),
        *_bigints("read_at"),
        *_texts("origin"),
        key="id",
        unique=["source day"],
    )
    _table(
        "bill_resources",
        _serial(),
        *_strings("project_number kind resource_id resource_name project_id zone"),
        key="id",
        unique=["project_number kind resource_id resource_name project_id zone"],
    )
    _index("ix_bill_resources_resource_id", "bill_resources", "resource_id")
    _table(
        "bill_terms",
        _serial(),
        *_strings("digest service_id sku_id"),
        *_texts("sku_text"),
        *_strings("unit currency rate cost_type invoice_month consumption_model reservation_name"),
        *_booleans("is_unused_reservation"),
        *_strings("product adjustment"),
        key="id",
        unique=["digest"],
    )
    _table(
        "bill_usage",
        *_ids("partition_id"),
        *_dates("pacific_day utc_day"),
        *_ids("resource terms"),
        *_bigints("usage_start usage_end"),
        *_bigints("export_time", null=True),
        *_strings("amount"),
        *_bigints("list_nanos", null=True),
        *_bigints("cost_nanos"),
        *_jsons("credits", null=True),
        *_integers("row_count"),
        *_integers("repeated_count", default="0"),
        *_bigints("default_nanos", null=True),
        key="partition_id pacific_day utc_day resource terms",
        refers={"partition_id": "bill_partitions.id", "resource": "bill_resources.id", "terms": "bill_terms.id"},
    )
    _index("ix_bill_usage_pacific_day", "bill_usage", "pacific_day")


def _bill_comparison() -> None:
    _table(
        "bill_costs",
        *_dates("day"),
        *_strings("project gce_id name preset owner job provisioning_model"),
        *_bigints("machine_nanos gpu_nanos storage_nanos seconds ledger_nanos list_nanos sustained_nanos"),
        *_bigints("committed_nanos contract_nanos other_savings_nanos"),
        key="day project gce_id name preset owner job provisioning_model",
    )
    _table(
        "bill_days",
        *_dates("day"),
        *_strings("project standing"),
        *_bigints("ledger_nanos list_nanos effective_nanos sustained_nanos committed_nanos contract_nanos"),
        *_bigints("other_savings_nanos explained_nanos unexplained_nanos absolute_nanos outside_nanos"),
        *_bigints("reservation_nanos"),
        *_integers("lines differing"),
        *_bigints("compared_at"),
        key="day project",
    )
    _table(
        "bill_differences",
        *_dates("day"),
        *_integers("rank"),
        *_strings("project kind thing_id name gce_id vm_name zone resource reason bill_project billed_model"),
        *_strings("ledger_used billed_used"),
        *_jsons("sku_ids"),
        *_bigints("seconds"),
        *_bigints("ledger_nanos list_nanos effective_nanos expected_nanos", null=True),
        *_bigints("difference_nanos"),
        key="day rank",
    )
    _table(
        "bill_others",
        *_dates("day"),
        *_strings("project kind sku_id name"),
        *_bigints("nanos"),
        key="day project kind sku_id name",
    )


def _archives() -> None:
    _table(
        "archives",
        _serial(),
        *_strings("kind file state"),
        *_bigints("made_at"),
        *_dates("first_day last_day"),
        *_bigints("through_at row_count byte_count"),
        *_strings("sha256"),
        key="id",
        unique=["file"],
    )
    _table(
        "charge_days",
        *_booleans("is_storage"),
        *_ids("span_id"),
        *_integers("day"),
        *_ids("price_id"),
        *_bigints("quantity_millis seconds amount_nanos"),
        key="is_storage span_id day price_id quantity_millis",
        refers={"price_id": "prices.id"},
        sqlite_with_rowid=False,
    )
    _index("ix_charge_days_day", "charge_days", "day")
