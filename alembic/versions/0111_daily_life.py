"""What the team's daily life needs of the tables: each piece of it adds its own function here."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from costguard.db.change_triggers import count_changes

revision = "0111"
down_revision = "0110"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Calls each piece's own function."""
    _limit_waits()
    _job_profiles()
    _data_stages()
    _early_ends()
    _lineages()
    _daily_presets()
    _keepers()
    _more_counted()


def _limit_waits() -> None:
    """Adds the jobs that wait for a limit on what is in use at once."""
    op.create_table(
        "limit_waits",
        sa.Column("job_id", sa.String, sa.ForeignKey("jobs.id"), primary_key=True),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("most", sa.Integer, nullable=False),
        sa.Column("least", sa.Integer, nullable=False),
        sa.Column("rate_nanos", sa.BigInteger),
        sa.Column("takes_s", sa.BigInteger),
    )


def _job_profiles() -> None:
    as_json = sa.JSON().with_variant(JSONB(), "postgresql")
    op.create_table(
        "job_profiles",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("run", sa.Integer(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("windows", sa.Integer(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("rereads", as_json, nullable=False),
        sa.Column("profile", as_json, nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_profiles_job_id_jobs")),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_job_profiles_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_job_profiles")),
    )
    count_changes(op.get_bind(), "job_profiles")


def _data_stages() -> None:
    """Adds the tables of data that is staged near the VMs."""
    op.create_table(
        "data_stages",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("staged", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("note", sa.String(), server_default="", nullable=False),
        sa.Column("holder", sa.String(), server_default="", nullable=False),
        sa.Column("renewed_at", sa.BigInteger(), nullable=True),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.Column("whole_at", sa.BigInteger(), nullable=True),
        sa.Column("deleted_at", sa.BigInteger(), nullable=True),
        sa.Column("delete_asked_by", sa.String(), server_default="", nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_data_stages")),
    )
    is_stored = sa.text("state <> 'deleted'")
    op.create_index("ix_data_stages_source", "data_stages", ["source"])
    op.create_index(
        "ix_data_stages_stored", "data_stages", ["digest"], sqlite_where=is_stored, postgresql_where=is_stored
    )
    op.create_table(
        "stage_uses",
        sa.Column("attempt", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("from_source", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("attempt", "digest", name=op.f("pk_stage_uses")),
    )
    op.create_index("ix_stage_uses_job_id", "stage_uses", ["job_id"])
    op.create_index("ix_stage_uses_digest", "stage_uses", ["digest"])
    for table in ("data_stages", "stage_uses"):
        count_changes(op.get_bind(), table)


def _early_ends() -> None:
    """Adds why jobs were ended early, and which members of sweeps were stopped by halving, or are kept from it."""
    as_json = sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")
    moment = sa.BigInteger()
    for name in ("early_why", "early_reason"):
        op.add_column("jobs", sa.Column(name, sa.Text(), server_default="", nullable=False))
    op.add_column("sweeps", sa.Column("halving", as_json, nullable=True))
    op.add_column("sweeps", sa.Column("halving_ended_at", moment, nullable=True))
    op.add_column("sweeps", sa.Column("halving_ended_by", sa.String(), server_default="", nullable=False))
    op.add_column("sweep_members", sa.Column("kept_at", moment, nullable=True))
    op.add_column("sweep_members", sa.Column("kept_by", sa.String(), server_default="", nullable=False))
    op.create_table(
        "sweep_stops",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("sweep_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("stopped_at", moment, nullable=False),
        sa.Column("step", sa.Double(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("rest_s", sa.BigInteger(), nullable=True),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("saved_nanos", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_sweep_stops")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_sweep_stops_job_id")),
        sa.ForeignKeyConstraint(
            ["sweep_id", "number"],
            ["sweep_members.sweep_id", "sweep_members.number"],
            name=op.f("fk_sweep_stops_sweep_id_number"),
        ),
    )


def _lineages() -> None:
    """Where jobs store, from what they start and their labels; the first two also of jobs that are there."""
    op.create_table(
        "job_places",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("place_key", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_places_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "place_key", name=op.f("pk_job_places")),
    )
    op.create_index("ix_job_places_key", "job_places", ["place_key"])
    op.create_table(
        "job_origins",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("address_key", sa.String(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("uses", sa.String(), nullable=False),
        sa.Column("parent_id", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_origins_job_id_jobs")),
        sa.ForeignKeyConstraint(["parent_id"], ["jobs.id"], name=op.f("fk_job_origins_parent_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "address_key", name=op.f("pk_job_origins")),
    )
    op.create_index("ix_job_origins_parent", "job_origins", ["parent_id"])
    connection = op.get_bind()
    op.create_table(
        "job_labels",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("label", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_labels_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "label", name=op.f("pk_job_labels")),
    )
    op.create_index("ix_job_labels_value", "job_labels", ["label", "value"])
    count_changes(connection, "job_labels")
    count_changes(connection, "job_places")
    count_changes(connection, "job_origins")
    first = {row.job_id: row.resume_from for row in connection.execute(sa.text(_FIRST_VMS))}
    newest: dict[str, str] = {}
    for row in connection.execute(sa.text("SELECT id, spec FROM jobs ORDER BY created_at, id")).all():
        spec = json.loads(row.spec) if isinstance(row.spec, str) else row.spec
        own, origins = _own_places(spec), _origins_of(spec, first.get(row.id, ""))
        rows = []
        for address, uses in origins.items():
            parent = next((newest[folder] for folder in _folders(address) if folder in newest), None)
            if parent is not None or uses == "checkpoint":
                rows.append((row.id, _key(address), address, uses, parent))
        _insert(connection, "job_origins", ("job_id", "address_key", "address", "uses", "parent_id"), rows)
        _insert(connection, "job_places", ("job_id", "place_key"), [(row.id, _key(place)) for place in own])
        newest |= dict.fromkeys(own, row.id)


def _daily_presets() -> None:
    """Adds the daily sums of all projects together, by preset and provisioning model."""
    keys, amounts = ("preset", "provisioning_model"), ("machine_nanos", "gpu_nanos", "storage_nanos", "seconds")
    op.create_table(
        "daily_presets",
        sa.Column("day", sa.Date(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in keys),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in amounts),
        sa.PrimaryKeyConstraint("day", *keys, name=op.f("pk_daily_presets")),
    )
    columns = ", ".join(("day", *keys, *amounts))
    sums = ", ".join(f"CAST(sum({name}) AS BIGINT)" for name in amounts)
    op.execute(
        f"INSERT INTO daily_presets ({columns}) SELECT day, {', '.join(keys)}, {sums} FROM daily_totals "  # noqa: S608
        f"GROUP BY day, {', '.join(keys)}"
    )
    count_changes(op.get_bind(), "daily_presets")


def _more_counted() -> None:
    """Counts the changes of tables that each pass and each message read, and that seldom change.

    Of the installation those columns count that a new generation writes: its mark moves every three seconds.
    """
    for table in ("burn_rates", "claims", "keeps", "prices", "stops", "unknown_vms"):
        count_changes(op.get_bind(), table)
    count_changes(op.get_bind(), "installation", without=("mark", "timeline", "home", "written_by"))


def _keepers() -> None:
    """Adds the keeper's kind and product as columns of instances, filled from the JSON, and of the running totals,
    which the first pass makes again.
    """
    parts = {"keeper_kind": "keeper", "keeper_product": "product"}
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for column in parts:
        op.add_column("instances", sa.Column(column, sa.String(), nullable=True))
    read = "json_extract(keeper, '$.{}')" if is_sqlite else "keeper ->> '{}'"
    values = ", ".join(f"{column} = {read.format(part)}" for column, part in parts.items())
    op.execute(f"UPDATE instances SET {values} WHERE {read.format('keeper')} IS NOT NULL")  # noqa: S608
    of_fleet = "project preset status provisioning_model owner gpu_type gpu_count termination_at keeper_kind rate_rank"
    is_present = sa.text("gone_at IS NULL")
    op.drop_index("ix_instances_present", "instances")
    op.create_index(
        "ix_instances_present",
        "instances",
        [*of_fleet.split(), "rate_nanos", "running_since", "name", "id"],
        sqlite_where=is_present,
        postgresql_where=is_present,
    )
    has_product = sa.text("keeper_product IS NOT NULL")
    op.create_index(
        "ix_instances_keeper_product",
        "instances",
        ["keeper_product", "gone_at"],
        sqlite_where=has_product,
        postgresql_where=has_product,
    )
    for column in parts:
        op.add_column("running_totals", sa.Column(column, sa.String(), server_default="", nullable=False))
    with op.batch_alter_table("running_totals") as table:
        for column in parts:
            table.alter_column(column, server_default=None)
        table.drop_constraint("pk_running_totals", type_="primary")
        keys = ["project", "preset", "owner", "job", "provisioning_model", *parts, "day"]
        table.create_primary_key("pk_running_totals", keys)


_FIRST_VMS = "SELECT job_id, resume_from FROM attempts WHERE number = 1 AND resume_from <> ''"
_ADDRESS = re.compile(r"(?:gs|s3|file)://[^\s'\"`,;|<>(){}\\]+")


def _key(address: str) -> str:
    return hashlib.sha256(address.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _folders(address: str) -> list[str]:
    scheme, sign, path = address.rstrip("/").partition("://")
    parts = path.split("/")
    return [f"{scheme}{sign}{'/'.join(parts[:count])}" for count in range(len(parts), 1, -1)] if sign else []


def _own_places(spec: dict[str, Any]) -> list[str]:
    places = [(spec.get("checkpoint") or {}).get("location", "")]
    places += [one["destination"] for one in spec.get("outputs") or ()]
    return list(dict.fromkeys(place.rstrip("/") for place in places if _folders(place)))


def _origins_of(spec: dict[str, Any], resume_from: str) -> dict[str, str]:
    own, origins = set(_own_places(spec)), {}
    if _folders(resume_from):
        origins[resume_from.rstrip("/")] = "checkpoint"
    named = [(one["source"], "input") for one in spec.get("inputs") or ()]
    texts = [*(spec.get("command") or ()), spec.get("setup") or "", *(spec.get("environment") or {}).values()]
    named += [(match.rstrip(".:]"), "command") for text in texts for match in _ADDRESS.findall(text)]
    for address, uses in named:
        folders = _folders(address)
        if folders and own.isdisjoint(folders):
            origins.setdefault(folders[0], uses)
    return dict(list(origins.items())[:100])


def _insert(connection: sa.Connection, table: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    if rows:
        made = sa.table(table, *(sa.column(name) for name in columns))
        connection.execute(sa.insert(made), [dict(zip(columns, row, strict=True)) for row in rows])
