"""Figures that people rely on: added up from recorded rows by hand, and as this version reads them."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

from sqlalchemy import Connection

from costguard.access import token_rows
from costguard.jobs.rows import attempts, job_rows
from costguard.ledger.charged import vm_charges
from costguard.model.budget import Scope
from costguard.reminders import message_rows, request_rows
from costguard.spend.spend_rows import Grouping, rolled_up

_FIRST, _LAST = date(1970, 1, 1), date(9999, 12, 31)
_BY = (Grouping.DAY, Grouping.PROJECT, Grouping.PRESET, Grouping.OWNER, Grouping.JOB)
_NANOS = ("machine_nanos", "gpu_nanos", "storage_nanos")
Rows = dict[str, list[dict[str, Any]]]


def recorded(rows: Rows, expected: Rows) -> dict[str, object]:
    """Reads the rows of the revision's own tables. Charges of spans that the upgrade has charged again do not count."""
    figures: dict[str, object] = {}
    for grouping in _BY:
        spent: Counter[str] = Counter()
        for row in rows["daily_spend"]:
            spent[str(row[grouping.value])] += sum(row[name] for name in _NANOS)
        figures[f"spend by {grouping}"] = dict(spent)
    spans = {
        kind: {row["id"]: row["instance_id"] for row in expected[table] if row["charged_to"] is not None}
        for kind, table in (("lifetime", "lifetimes"), ("storage", "storage_spans"))
    }
    by_vm: Counter[int] = Counter()
    for charge in rows["charges"]:
        if charge["span_id"] in spans[charge["span"]]:
            by_vm[spans[charge["span"]][charge["span_id"]]] += charge["amount_nanos"]
    figures["spend by VM"] = dict(by_vm)
    figures["jobs"] = {row["id"]: (row["name"], row["state"]) for row in rows.get("jobs", [])}
    figures["attempts"] = sorted((row["job_id"], row["number"], row["state"]) for row in rows.get("attempts", []))
    figures["open requests"] = sorted(row["key"] for row in rows.get("requests", []) if row["status"] == "open")
    figures["tokens"] = {row["id"]: row["owner"] for row in rows.get("api_tokens", [])}
    figures["messages"] = {row["key"] for row in rows.get("messages", [])}
    return figures


def shown(connection: Connection, rows: Rows) -> dict[str, object]:
    """The same by the readers of this version, of the jobs, tokens and messages that were recorded."""
    figures: dict[str, object] = {}
    for grouping in _BY:
        groups = rolled_up(connection, _FIRST, _LAST, (grouping,), Scope())
        figures[f"spend by {grouping}"] = {group[0]: amounts.total.nanos for group, amounts in groups}
    by_vm: Counter[int] = Counter()
    for charged in vm_charges.charged(connection, _FIRST, _LAST, Scope(), by_day=False):
        by_vm[charged.instance_id] += sum(charged.figures[:3])
    figures["spend by VM"] = dict(by_vm)
    job_ids = [row["id"] for row in rows.get("jobs", [])]
    figures["jobs"] = {
        key: (job.spec.name, job.state.value) for key, job in job_rows.of_ids(connection, job_ids).items()
    }
    of_jobs = [attempt for some in attempts.of_jobs(connection, job_ids).values() for attempt in some]
    figures["attempts"] = sorted((attempt.job_id, attempt.number, attempt.state.value) for attempt in of_jobs)
    figures["open requests"] = sorted(request.key for _, request in request_rows.open_requests(connection))
    tokens = [token_rows.read(connection, row["id"]) for row in rows.get("api_tokens", [])]
    figures["tokens"] = {token.id: token.owner for token in tokens if token is not None}
    keys = [row["key"] for row in rows.get("messages", [])]
    figures["messages"] = message_rows.known(connection, keys)
    return figures
