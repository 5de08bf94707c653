"""A ledger of some years: a million lifetimes a year, their charges and roll-up, and some VMs that run."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from sqlalchemy import Connection, text
from tests.benchmarks.look import NOW
from tests.rolled_up import total_days

from costguard.db.transaction import Database
from costguard.gce.prices import snapshot_prices
from costguard.ledger import price_refresh

__all__ = ["DAYS", "LAST", "LIFETIMES", "NOW", "OWNERS", "PRESETS", "VMS", "fill", "spread"]

LIFETIMES = 1_000_000
DAYS = 365
LAST: date = NOW.date()
PRESETS = 4
OWNERS = 60
VMS = 20_000  # that are gone
_OPEN = 400
_MIDNIGHT = int(datetime.combine(LAST, time(), UTC).timestamp())
_DATE = {"sqlite": "date({seconds}, 'unixepoch')", "postgresql": "CAST(to_timestamp({seconds}) AS date)"}

_NUMBERS = "WITH RECURSIVE numbers(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < {count})"
# Sixty owners, four presets and both provisioning models, all of them on every day.
_WHOSE = "'preset-' || (({vm}) / 60 % 4), 'owner-' || (({vm}) % 60) || '@example.com', ''"
_MODEL = "CASE ({vm}) / 240 % 2 WHEN 0 THEN 'spot' ELSE 'standard' END"
_SHAPE = "'n1-standard-4', 4, 15360, 'nvidia-tesla-t4', 1, 0"
_INSTANCES = """
INSERT INTO instances (id, project, gce_id, name, zone, status, created_at, last_started_at, machine_type, vcpus,
  memory_mib, gpu_type, gpu_count, local_ssd_gib, preset, owner, job, provisioning_model, labels, owner_source,
  created_by, fingerprint, first_seen_at, gone_at)
{numbers} SELECT i + 1, 'acme', CAST(1000000 + i AS VARCHAR), 'vm-' || i, 'us-central1-a', 'stopped', {first}, {first},
  {shape}, {whose}, {model}, '{{}}', 'label', '', '', {first}, CASE WHEN i < {vms} THEN {first} ELSE NULL END
FROM numbers
"""
# In the order of time, as passes write them. A VM's runs are a week apart, so no two overlap, and none goes past
# its midnight.
_LIFETIMES = """
INSERT INTO lifetimes (id, instance_id, project, zone, machine_type, vcpus, memory_mib, gpu_type, gpu_count,
  local_ssd_gib, preset, owner, job, provisioning_model, end_reason, started_at, ended_at, charged_to, unpriced)
{numbers}, runs AS (
  SELECT i, i % {vms} AS vm,
    CAST({seconds} + CAST(i AS BIGINT) * {days} / {lifetimes} * 86400 + i * 19 % 54000 AS BIGINT) AS began,
    600 + i * 31 % 25000 AS lasted FROM numbers)
SELECT i + 1, vm + 1, 'acme', 'us-central1-a', {shape}, {whose}, {model}, 'stopped', began * 1000000,
  (began + lasted) * 1000000, (began + lasted) * 1000000, CASE i % 50000 WHEN 49 THEN 'no price' ELSE '' END
FROM runs
"""
_BILLED = """
WITH parts(resource, millis, rate) AS (VALUES ('gpu:nvidia-tesla-t4', 1000, 97000), ('n1:core', 4000, 35000),
  ('n1:ram', 15000, 18000)),
billed(resource, millis, rate, model, price_id) AS (
  SELECT parts.resource, millis, rate, provisioning_model, id FROM parts
  JOIN prices ON prices.resource = parts.resource AND prices.region = 'us-central1')
"""
_CHARGES = """
INSERT INTO charges (span, span_id, resource, started_at, ended_at, day, seconds, quantity_millis, price_id,
  amount_nanos)
{billed}
SELECT 'lifetime', id, resource, started_at, ended_at, {day}, (ended_at - started_at) / 1000000, millis, price_id,
  (ended_at - started_at) / 1000000 * rate
FROM lifetimes JOIN billed ON billed.model = lifetimes.provisioning_model WHERE ended_at IS NOT NULL
"""
# What rolling the charges up gives, in a twentieth of the time: no run goes past a midnight.
_ROLL_UP = """
INSERT INTO daily_spend (day, project, preset, owner, job, provisioning_model, machine_nanos, gpu_nanos,
  storage_nanos, seconds)
SELECT {day} AS day, 'acme', preset, owner, job, provisioning_model, SUM((ended_at - started_at) / 1000000) * 53000,
  SUM((ended_at - started_at) / 1000000) * 97000, 0, SUM((ended_at - started_at) / 1000000)
FROM lifetimes WHERE ended_at IS NOT NULL GROUP BY 1, preset, owner, job, provisioning_model
"""
_SPOT = """
INSERT INTO daily_spot (day, project, preset, owner, price_id, used_millis, amount_nanos)
{billed}
SELECT day, project, preset, owner, price_id, SUM(seconds * millis), SUM(seconds * rate)
FROM daily_spend JOIN billed ON billed.model = daily_spend.provisioning_model WHERE billed.model = 'spot'
GROUP BY day, project, preset, owner, price_id
"""
_OPEN_RUNS = """
INSERT INTO lifetimes (id, instance_id, project, zone, machine_type, vcpus, memory_mib, gpu_type, gpu_count,
  local_ssd_gib, preset, owner, job, provisioning_model, started_at, charged_to)
SELECT {ended} + id, id, project, zone, machine_type, vcpus, memory_mib, gpu_type, gpu_count, local_ssd_gib, preset,
  owner, job, provisioning_model, {midnight} - id * 60000000, {midnight}
FROM instances WHERE gone_at IS NULL
"""
_DISKS = """
INSERT INTO storage_spans (instance_id, project, name, resource, size_mib, zone, started_at, ended_at, preset, owner,
  job, charged_to)
SELECT id, project, name, 'disk:pd-balanced', 102400, zone, created_at, gone_at, preset, owner, job,
  COALESCE(gone_at, {midnight})
FROM instances
"""

_SPREAD = """
INSERT INTO daily_totals (day, project, preset, provisioning_model, machine_nanos, gpu_nanos, storage_nanos, seconds)
{numbers} SELECT day, 'acme-' || i, preset, provisioning_model, machine_nanos, gpu_nanos, storage_nanos, seconds
FROM daily_totals, numbers WHERE project = 'acme'
"""
_ALL_PROJECTS = """
UPDATE daily_presets SET machine_nanos = machine_nanos * {projects}, gpu_nanos = gpu_nanos * {projects},
  storage_nanos = storage_nanos * {projects}, seconds = seconds * {projects} WHERE day BETWEEN :first AND :last
"""


def fill(database: Database, there: int = _OPEN, years: int = 1, lifetimes: int = LIFETIMES) -> None:
    """Fills an empty database with what years of passes would have written. So many VMs run, each for some days.

    `lifetimes` end in each year.
    """
    price_refresh.seed_snapshot(database, snapshot_prices(), NOW)
    with database.write() as connection:
        _fill(connection, there, years, lifetimes)
        total_days(connection, [LAST - timedelta(days=back) for back in range(years * DAYS)])
    if database.dialect == "postgresql":
        # As autovacuum does a minute after so many rows; SQLite has no such thing.
        with database.write() as connection:
            connection.exec_driver_sql("ANALYZE")


def spread(database: Database, projects: int) -> None:
    """Gives so many projects in all the daily sums that the only one has, those of all projects together included."""
    days = [LAST - timedelta(days=back) for back in range(DAYS)]
    with database.write() as connection:
        numbers = _NUMBERS.format(count=projects - 1)
        connection.execute(text(_SPREAD.format(numbers=numbers)))
        connection.execute(text(_ALL_PROJECTS.format(projects=projects)), {"first": days[-1], "last": days[0]})
    if database.dialect == "postgresql":
        with database.write() as connection:
            connection.exec_driver_sql("ANALYZE")


def _fill(connection: Connection, there: int, years: int, a_year: int) -> None:
    began, lifetimes = _MIDNIGHT - (years * DAYS - 1) * 86_400, years * a_year
    first = began * 1_000_000
    everyone = _NUMBERS.format(count=VMS + there)
    whose, model = _WHOSE.format(vm="i"), _MODEL.format(vm="i")
    _run(connection, _INSTANCES, numbers=everyone, first=first, whose=whose, model=model, vms=VMS)
    runs = _NUMBERS.format(count=lifetimes)
    whose, model = _WHOSE.format(vm="vm"), _MODEL.format(vm="vm")
    days = {"days": DAYS, "lifetimes": a_year}
    _run(connection, _LIFETIMES, numbers=runs, vms=VMS, seconds=began, whose=whose, model=model, **days)
    day = _DATE[connection.dialect.name].format(seconds="started_at / 1000000")
    _run(connection, _CHARGES, billed=_BILLED, day=day)
    _run(connection, _ROLL_UP, day=day)
    _run(connection, _SPOT, billed=_BILLED)
    _run(connection, _OPEN_RUNS, ended=lifetimes, midnight=_MIDNIGHT * 1_000_000)
    _run(connection, _DISKS, midnight=_MIDNIGHT * 1_000_000)


def _run(connection: Connection, statement: str, **parts: object) -> None:
    filled = statement.format(shape=_SHAPE, **parts)
    # A colon within quotes is no parameter.
    connection.execute(text(filled.replace(":", r"\:")))
