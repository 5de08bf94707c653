"""The ledger of the year with ten thousand VMs that run now, a thousand jobs and a million events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, insert, text
from tests.benchmarks import year
from tests.benchmarks.year import NOW
from tests.jobs.job_rows import RECIPE, SPEC
from tests.within import keep_rates

from costguard.access.rules import Rules, by_name
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.jobs.rows import job_rows
from costguard.model.attempt import attempt_name
from costguard.model.budget import Budget, Period, Scope
from costguard.model.job import Job, JobState
from costguard.model.money import Money
from costguard.model.preset import Match, Preset

VMS = 10_000
JOBS = 1_000
_RUNNING = 900  # of the jobs; the others are between two VMs
_SAVED = 20  # checkpoints that were seen of each
_OUTPUT = "epoch 3 step 1200 loss 0.0123 lr 0.0001 samples/s 812\n" * 150
_PRESETS = [f"preset-{number}" for number in range(year.PRESETS)]
RULES = Rules(
    by_name(Preset(name, Match(), timedelta(hours=8), launch=RECIPE) for name in _PRESETS),
    budgets=(
        Budget("all", Scope(), Money.of("5000000"), Period.MONTH),
        Budget("project", Scope(project="acme"), Money.of("2000000"), Period.MONTH),
        *(Budget(name, Scope(preset=name), Money.of("900000"), Period.MONTH) for name in _PRESETS),
        *(
            Budget(f"owner {number}", Scope(owner=f"owner-{number}@example.com"), Money.of("20000"), Period.WEEK)
            for number in range(10)
        ),
    ),
)

# Three kinds of VM in six zones, so that no two rates of neighbours are the same.
_KINDS = """
UPDATE {table} SET
  machine_type = CASE id % 3 WHEN 0 THEN 'n1-standard-4' WHEN 1 THEN 'a2-highgpu-1g' ELSE 'a2-highgpu-8g' END,
  vcpus = CASE id % 3 WHEN 0 THEN 4 WHEN 1 THEN 12 ELSE 96 END,
  memory_mib = CASE id % 3 WHEN 0 THEN 15360 WHEN 1 THEN 87040 ELSE 696320 END,
  gpu_type = CASE id % 3 WHEN 0 THEN 'nvidia-tesla-t4' ELSE 'nvidia-tesla-a100' END,
  gpu_count = CASE id % 3 WHEN 2 THEN 8 ELSE 1 END,
  zone = CASE id % 4 WHEN 0 THEN 'us-central1-a' WHEN 1 THEN 'us-central1-c' WHEN 2 THEN 'us-east1-c'
    ELSE 'us-west1-b' END
WHERE {present}
"""
_STATUS = "UPDATE instances SET status = 'running', labels = '{labels}' WHERE gone_at IS NULL"
_LABELS = '{"team": "vision", "owner": "ada", "experiment": "resnet-50-large-batch", "cost-center": "c-1234"}'
# A fifth of them were started today, each at another moment.
_TODAY = """
UPDATE lifetimes SET started_at = {midnight} + id % 40000 * 1000000, charged_to = NULL
WHERE ended_at IS NULL AND id % 5 = 0
"""
# The others were charged at each midnight since their start.
_CHARGES = """
INSERT INTO charges (span, span_id, resource, started_at, ended_at, day, seconds, quantity_millis, price_id,
  amount_nanos)
WITH RECURSIVE days(back) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT back + 1 FROM days WHERE back < 22),
  billed(resource, millis, rate) AS (VALUES ('gpu:nvidia-tesla-t4', 1000, 97000), ('n1:core', 4000, 35000),
    ('n1:ram', 15000, 18000))
SELECT 'lifetime', id, resource, {midnight} - back * 86400000000, {midnight} - (back - 1) * 86400000000, {day}, 86400,
  millis, (SELECT MIN(id) FROM prices), CAST(86400 AS BIGINT) * rate
FROM lifetimes CROSS JOIN billed CROSS JOIN days
WHERE ended_at IS NULL AND started_at <= {midnight} - back * 86400000000
"""
_DAY = {
    "sqlite": "date({midnight} / 1000000 - back * 86400, 'unixepoch')",
    "postgresql": "CAST(to_timestamp({midnight} / 1000000 - back * 86400) AS date)",
}
_EVENTS = """
INSERT INTO events (key, kind, occurred_at, recorded_at, project, gce_id, name, actor, text, data)
SELECT 'ended/' || l.id, CASE l.id % 10 WHEN 0 THEN 'InstancePreempted' ELSE 'InstanceStopped' END, l.ended_at,
  l.ended_at, i.project, i.gce_id, i.name, l.owner, i.name || ' stopped after some hours, asked by ' || l.owner, '{{}}'
FROM lifetimes l JOIN instances i ON i.id = l.instance_id WHERE l.ended_at IS NOT NULL
"""
_MEASURED = """
INSERT INTO utilisation (instance_id, run_started_at, measured_at, good_until, state, since, sentence, is_weak,
  gpu_mean_bp, gpu_max_bp, announced)
SELECT instance_id, started_at, {now}, {now} + 3600000000, CASE id % 5 WHEN 0 THEN 'idle' ELSE 'busy' END, {now},
  'GPU under 5 % for 2 h (max 3 %)', {false}, 300, 500, 'busy'
FROM lifetimes WHERE ended_at IS NULL
"""
_OF_JOBS = """
UPDATE {table} SET job = 'j' || CAST({number} % {jobs} AS VARCHAR) WHERE {which}
"""


def fill(database: Database, years: int = 1, lifetimes: int = year.LIFETIMES) -> None:
    """Fills an empty database, by its own rates and totals where they are computed anyway."""
    year.fill(database, VMS, years, lifetimes)
    with database.write() as connection:
        _fill(connection, years * lifetimes)
    if database.dialect == "postgresql":
        with database.write() as connection:
            connection.exec_driver_sql("ANALYZE")


def _fill(connection: Connection, ended: int) -> None:
    dialect, now = connection.dialect.name, int(NOW.timestamp()) * 1_000_000
    midnight = now - now % 86_400_000_000
    for table, present in (("instances", "gone_at IS NULL"), ("lifetimes", "ended_at IS NULL")):
        _run(connection, _KINDS, table=table, present=present)
    _run(connection, _STATUS, labels=_LABELS)
    _run(connection, _TODAY, midnight=midnight)
    _run(connection, _CHARGES, midnight=midnight, day=_DAY[dialect].format(midnight=midnight))
    _run(connection, _EVENTS)
    _run(connection, _MEASURED, now=now, false="0" if dialect == "sqlite" else "false")
    first = year.VMS + 1
    of_vms = f"{{id}} BETWEEN {first} AND {first + _RUNNING - 1}"
    for table, column, also in (
        ("instances", "id", ""),
        ("lifetimes", "instance_id", " AND ended_at IS NULL"),
        ("storage_spans", "instance_id", ""),
    ):
        which = of_vms.format(id=column) + also
        _run(connection, _OF_JOBS, table=table, number=f"({column} - {first})", jobs=JOBS, which=which)
    # Two of each job's attempts are over: their lifetimes are among the last.
    last = ended - 2 * JOBS
    which = f"id > {last} AND id <= {ended}"
    _run(connection, _OF_JOBS, table="lifetimes", number="id", jobs=JOBS, which=which)
    for number in range(JOBS):
        job_rows.add(connection, _job(number), None, "")
    connection.execute(insert(tables.attempts), [row for number in range(JOBS) for row in _attempts(number)])
    connection.execute(insert(tables.interruptions), [row for number in range(JOBS) for row in _interruptions(number)])
    connection.execute(insert(tables.seen_checkpoints), [row for number in range(JOBS) for row in _saved(number)])
    row = {"project": "acme", "first_seen_at": NOW - timedelta(days=400), "last_tried_at": NOW, "last_complete_at": NOW}
    connection.execute(
        insert(tables.projects), row | {"operations_through_at": NOW, "unread": [], "instance_count": VMS}
    )
    keep_rates(connection, NOW)


def _job(number: int) -> Job:
    owner, preset = f"owner-{number % year.OWNERS}@example.com", f"preset-{number % year.PRESETS}"
    spec = replace(SPEC, owner=owner, preset=preset, project="acme", name=f"resnet-{number}")
    state = JobState.RUNNING if number < _RUNNING else JobState.RECOVERING
    created_at = NOW - timedelta(days=3, minutes=number)
    return Job(f"j{number}", spec, RECIPE, state, "Its command runs.", created_at, "api")


def _attempts(number: int) -> Iterator[dict[str, Any]]:
    for place in range(3):
        is_over = place < 2 or number >= _RUNNING
        begun = NOW - timedelta(days=3 - place, minutes=number)
        ended = begun + timedelta(hours=20)
        yield {
            "id": number * 3 + place + 1,
            "job_id": f"j{number}",
            "number": place + 1,
            "name": attempt_name(f"j{number}", place + 1),
            "project": "acme",
            "zone": ("us-central1-a", "us-central1-c", "us-east1-c")[(number + place) % 3],
            "gpu_type": "nvidia-tesla-t4",
            "provisioning_model": "spot",
            "request_uuid": f"{number}-{place}",
            "max_run_s": 86400,
            "rate_nanos": Money.of("0.25").nanos,
            "state": "over" if is_over else "running",
            "outcome": "preempted" if is_over else None,
            "reason": "Spot capacity was reclaimed." if is_over else "",
            "intended_at": begun,
            "made_at": begun,
            "gce_id": str(1_000_000 + year.VMS + number) if place == 2 else f"{number}{place}",
            "ended_at": ended if is_over else None,
            "gone_at": ended if is_over else None,
            "heard_at": ended if is_over else NOW,
            "run": 1,
            "booted_at": begun,
            "started_at": begun + timedelta(minutes=3),
            "step": 1000 * (place + 1),
            "step_at": ended if is_over else NOW,
            "output": _OUTPUT,
        }


def _interruptions(number: int) -> Iterator[dict[str, Any]]:
    for place in range(2):
        happened = NOW - timedelta(days=3 - place, minutes=number) + timedelta(hours=20)
        yield {
            "attempt_id": number * 3 + place + 1,
            "run": 1,
            "job_id": f"j{number}",
            "outcome": "preempted",
            "happened_at": happened,
            "noticed_at": happened + timedelta(seconds=number % 60),
            "noticed_by": "exit" if number % 2 else "status",
            "requested_at": happened + timedelta(seconds=60),
            "resumed_at": happened + timedelta(minutes=4),
            "lost_s": 600,
            "lost_nanos": 40_000_000,
        }


def _saved(number: int) -> Iterator[dict[str, Any]]:
    for step in range(_SAVED):
        at = NOW - timedelta(hours=3 * (_SAVED - step))
        location = f"gs://lab/run-{number}/checkpoint-{step * 100}"
        yield {
            "job_id": f"j{number}", "resume_from": location, "written_at": at, "step": step * 100, "first_seen_at": at
        }  # fmt: skip


def _run(connection: Connection, statement: str, **parts: object) -> None:
    connection.execute(text(statement.format(**parts).replace(":", r"\:")))
