"""Checks that a database is sound: by the database's own check, and by rules that always hold in a ledger."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, text

_SHOWN = 3

_OVERLAPS = """
SELECT instance_id, started_at FROM (
  SELECT instance_id, started_at,
         lag(started_at) OVER of_vm AS before_at,
         lag(coalesce(ended_at, 9223372036854775807)) OVER of_vm AS before_ended_at
  FROM lifetimes WINDOW of_vm AS (PARTITION BY instance_id ORDER BY started_at)
) AS runs WHERE before_at IS NOT NULL AND before_ended_at > started_at ORDER BY instance_id, started_at
"""
_BACKWARDS = "SELECT id FROM lifetimes WHERE ended_at < started_at ORDER BY id"
_CHARGED_OUTSIDE = """
SELECT charges.span_id, charges.started_at FROM charges JOIN lifetimes ON lifetimes.id = charges.span_id
WHERE charges.span = 'lifetime'
  AND (charges.ended_at < charges.started_at OR charges.started_at < lifetimes.started_at)
ORDER BY charges.span_id, charges.started_at
"""
_CHARGED_TO_NOTHING = """
SELECT span, span_id FROM charges
WHERE (span = 'lifetime' AND NOT EXISTS (SELECT 1 FROM lifetimes WHERE lifetimes.id = span_id))
   OR (span = 'storage' AND NOT EXISTS (SELECT 1 FROM storage_spans WHERE storage_spans.id = span_id))
ORDER BY span, span_id
"""
_TOTALS = """
SELECT day, sum(charged) AS charged, sum(rolled_up) AS rolled_up FROM (
  SELECT day, amount_nanos AS charged, 0 AS rolled_up FROM charges
  UNION ALL
  SELECT {day}, sum(amount_nanos), 0 FROM charge_days GROUP BY day
  UNION ALL
  SELECT day, 0, machine_nanos + gpu_nanos + storage_nanos FROM daily_totals
) AS both_of_them GROUP BY day HAVING sum(charged) <> sum(rolled_up) ORDER BY day
"""
_DAY = {"sqlite": "date(day * 86400, 'unixepoch')", "postgresql": "DATE '1970-01-01' + day"}
_ARCHIVED_NOWHERE = """
SELECT kind, id FROM (
  SELECT 'lifetime' AS kind, id, archive_id FROM lifetimes WHERE archive_id IS NOT NULL
  UNION ALL
  SELECT 'storage', id, archive_id FROM storage_spans WHERE archive_id IS NOT NULL
) AS spans WHERE NOT EXISTS (SELECT 1 FROM archives WHERE archives.id = archive_id) ORDER BY kind, id
"""
_TWICE = """
SELECT charges.span, charges.span_id FROM charges
WHERE (span = 'lifetime' AND EXISTS (SELECT 1 FROM lifetimes WHERE id = span_id AND archive_id IS NOT NULL))
   OR (span = 'storage' AND EXISTS (SELECT 1 FROM storage_spans WHERE id = span_id AND archive_id IS NOT NULL))
ORDER BY span, span_id
"""
_BY_LABEL = """
SELECT label, day, sum(by_label) AS by_label, sum(whole) AS whole FROM (
  SELECT sums.label, sums.day, machine_nanos + gpu_nanos + storage_nanos AS by_label, 0 AS whole
  FROM {sums} AS sums JOIN label_days ON label_days.label = sums.label AND label_days.day = sums.day
  UNION ALL
  SELECT label, label_days.day, 0, machine_nanos + gpu_nanos + storage_nanos
  FROM label_days JOIN daily_totals ON daily_totals.day = label_days.day
) AS both_of_them GROUP BY label, day HAVING sum(by_label) <> sum(whole) ORDER BY label, day
"""
# While there is a basis. The machine of a VM that cannot be priced whole (the lowest rank) may have a price or none.
_RUNNING = """
SELECT project, preset, owner, job, sum(counted) AS counted, sum(open) AS open FROM (
  SELECT project, preset, owner, job, running AS counted, 0 AS open, 0 AS sure FROM running_totals
  UNION ALL
  SELECT runs.project, runs.preset, runs.owner, runs.job, 0, 1,
         CASE WHEN instances.rate_rank > -4611686018427387904 THEN 1 ELSE 0 END
  FROM lifetimes AS runs JOIN instances ON instances.id = runs.instance_id WHERE runs.ended_at IS NULL
) AS both_of_them WHERE EXISTS (SELECT 1 FROM burn_rates) GROUP BY project, preset, owner, job
HAVING sum(counted) > sum(open) OR sum(counted) < sum(sure) ORDER BY project, preset, owner, job
"""
# In a move, one more stands by.
_TWO_OPEN = """
SELECT job_id FROM attempts WHERE outcome IS NULL
GROUP BY job_id, CASE WHEN follows IS NOT NULL AND released_at IS NULL AND started_at IS NULL THEN 1 ELSE 0 END
HAVING count(*) > 1 ORDER BY job_id
"""
_SAME_REQUEST = "SELECT request_uuid FROM attempts GROUP BY request_uuid HAVING count(*) > 1 ORDER BY request_uuid"

_RULES: Sequence[tuple[str, str]] = (
    ("no two lifetimes of a VM overlap", _OVERLAPS),
    ("no lifetime ends before it starts", _BACKWARDS),
    ("every charge belongs to a lifetime or storage", _CHARGED_TO_NOTHING),
    ("no charge is from before its lifetime", _CHARGED_OUTSIDE),
    ("charges of each day are its daily total", _TOTALS),
    ("sums by label of each day are its daily total", _BY_LABEL.replace("{sums}", "daily_labels")),
    ("sums by a label's values are its daily total", _BY_LABEL.replace("{sums}", "daily_label_values")),
    ("every archived span names its archive", _ARCHIVED_NOWHERE),
    ("no archived span has charges as rows", _TWICE),
    ("running totals count every open lifetime that has a price", _RUNNING),
    ("no job has two open attempts but in a move", _TWO_OPEN),
    ("no two attempts share a request to Google", _SAME_REQUEST),
)


@dataclass(frozen=True, slots=True)
class Check:
    """A rule, and the rows that break it, in words; "" where it holds."""

    rule: str
    wrong: str = ""

    @property
    def holds(self) -> bool:
        return not self.wrong


def checks(connection: Connection) -> list[Check]:
    """All of them, of a database at this version."""
    of_database: Callable[[Connection], list[Check]] = _sqlite if connection.dialect.name == "sqlite" else _postgresql
    return [*of_database(connection), *(_check(connection, rule, query) for rule, query in _RULES)]


def _check(connection: Connection, rule: str, query: str) -> Check:
    rows = connection.execute(text(query.replace("{day}", _DAY[connection.dialect.name]))).all()
    if not rows:
        return Check(rule)
    shown = "; ".join(", ".join(str(value) for value in row) for row in rows[:_SHOWN])
    return Check(rule, f"{len(rows)} of them break it: {shown}")


def _sqlite(connection: Connection) -> list[Check]:
    said = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check")]
    loose = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    refers = f"{len(loose)} rows do not, the first in {loose[0][0]}" if loose else ""
    return [
        Check("the file is whole", "" if said == ["ok"] else "; ".join(said[:_SHOWN])),
        Check("rows refer to rows that are there", refers),
    ]


def _postgresql(connection: Connection) -> list[Check]:
    """The server enforces what refers to what, but for constraints that were left unchecked."""
    query = "SELECT conname FROM pg_constraint WHERE contype = 'f' AND NOT convalidated ORDER BY conname"
    names = list(connection.scalars(text(query)))
    return [Check("rows refer to rows that are there", f"not checked: {', '.join(names[:_SHOWN])}" if names else "")]
