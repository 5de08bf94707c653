"""What upgrades change on purpose, by revision. Every other recorded value must be found unchanged after an upgrade."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

Rows = dict[str, list[dict[str, Any]]]


def expected_after_upgrade(revision: str, recorded: Rows) -> Rows:
    """The recorded rows as they should stand at the last revision; columns that came later are not in them."""
    rows = {table: [dict(row) for row in of_table] for table, of_table in recorded.items()}
    for later in sorted(_CHANGES):
        if later > revision:
            _CHANGES[later](rows)
    rows.pop("changes", None)  # counts changes of other tables
    return rows


def _sessions_as_rows(rows: Rows) -> None:
    rows.pop("ended_sessions", None)


def _calendar_months(rows: Rows) -> None:
    """Storage that was charged by 730 hours a month is charged once more."""
    for row in rows.get("storage_spans", []):
        row["charged_to"] = None
    for row in rows.get("lifetimes", []):
        if row["local_ssd_gib"]:
            row["charged_to"] = None


def _people_looked_up_again(rows: Rows) -> None:
    for row in rows.get("people", []):
        row["looked_up_at"] = 0


def _sessions_end(rows: Rows) -> None:
    rows.pop("sessions", None)


def _no_suspends(rows: Rows) -> None:
    for row in rows.get("requests", []):
        if row["asked"] == "suspend":
            row["asked"] = "stop"
            if row["status"] == "open":
                row["status"] = "refused"
                del row["outcome"], row["settled_at"]
    for row in rows.get("stops", []):
        if row.pop("verb") == "suspend" and row["outcome"] in ("intended", "unknown") and row["settled_at"] is None:
            row["outcome"] = "not_needed"
            del row["error"], row["settled_at"]


def _kinds_of_messages(rows: Rows) -> None:
    for row in rows.get("messages", []):
        if row["kind"] == "whisper":
            row["key"] = row["key"].replace("whisper", "ephemeral", 1)
        row["kind"] = {"notice": "notification", "whisper": "ephemeral"}.get(row["kind"], row["kind"])


def _rates_start_over(rows: Rows) -> None:
    rows.pop("burn_rates", None)


def _facts_are_events(rows: Rows) -> None:
    rows["events"] = rows.pop("facts", [])
    for row in rows.get("webhooks", []):
        row["event_id"] = row.pop("fact_id")
    for row in rows.get("messages", []):
        row["data"] = json.dumps(_renamed(json.loads(row["data"]), "facts", "events"))


def _columns_dropped_and_renamed(rows: Rows) -> None:
    for row in rows.get("instances", []):
        row.pop("machine_rate_nanos", None)
    for table, before, after in (("requests", "asked", "kind"), ("utilisation", "told", "announced")):
        for row in rows.get(table, []):
            row[after] = row.pop(before)


def _work_of_jobs(rows: Rows) -> None:
    for table in ("jobs", "sweep_members"):
        for row in rows.get(table, []):
            spec = json.loads(row["spec"])
            if "expected" in spec:
                spec["work"] = spec.pop("expected")
            row["spec"] = json.dumps(spec)


def _renamed(value: Any, before: str, after: str) -> Any:
    if isinstance(value, dict):
        return {after if key == before else key: _renamed(of_key, before, after) for key, of_key in value.items()}
    return [_renamed(item, before, after) for item in value] if isinstance(value, list) else value


_CHANGES: dict[str, Callable[[Rows], None]] = {
    "0007": _sessions_as_rows,
    "0010": _calendar_months,
    "0014": _people_looked_up_again,
    "0017": _sessions_end,
    "0018": _no_suspends,
    "0019": _kinds_of_messages,
    "0020": _rates_start_over,
    "0021": _facts_are_events,
    "0025": _columns_dropped_and_renamed,
    "0027": _work_of_jobs,
}
