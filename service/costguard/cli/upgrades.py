"""Prints the plan of `costguard db upgrade --check`: steps, tables, locks, the expected time, the backup to
make first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from costguard.cli.tables import clean
from costguard.model.duration import span_text
from costguard.model.words import count_text

if TYPE_CHECKING:
    from costguard.db.upgrade_plan import UpgradePlan, UpgradeStep

_LOCKS = {
    "sqlite": "SQLite: the daemon waits for the whole upgrade, readers see the database as it was, and the file's "
    "folder needs about as much free space again.",
    "postgresql": "PostgreSQL: one transaction. A table that it alters is locked for readers and writers from then to "
    "its end, and a table that it rewrites takes its space once more.",
}
_BACKUP = "Make a backup first: costguard db backup FILE. An upgrade that fails leaves the database as it is."


def as_json(plan: UpgradePlan) -> dict[str, Any]:
    return {
        "current": plan.current,
        "target": plan.target,
        "steps": [
            {
                "revision": step.revision,
                "subject": step.subject,
                "changes": [
                    {"change": change.kind.value, "table": change.table, "rows": change.rows} for change in step.changes
                ],
            }
            for step in plan.steps
        ],
        "estimated_s": round(plan.lasts.total_seconds(), 1),
        "locks": _LOCKS[plan.dialect],
        "advice": _BACKUP,
    }


def lines(plan: UpgradePlan) -> Iterator[str]:
    if not plan.steps:
        yield clean(f"{plan.name} is at revision {plan.current}, the last one: an upgrade changes nothing.")
        return
    state = "has no tables yet" if plan.current is None else f"is at revision {plan.current}"
    yield clean(
        f"{plan.name} {state}. An upgrade runs {count_text(len(plan.steps), 'step')}, to revision {plan.target}:"
    )
    for step in plan.steps:
        yield clean(f"  {step.revision}  {step.subject}")
        yield from (f"        {line}" for line in _changes(step))
    yield f"Estimated: {span_text(plan.lasts, tenths=True)}, on a computer like the one that it was measured on."
    yield _LOCKS[plan.dialect]
    if plan.current is not None:
        yield _BACKUP


def _changes(step: UpgradeStep) -> Iterator[str]:
    """Each kind of change of a table once: rows are the most that it may concern."""
    counts = Counter(step.changes)
    for change, times in counts.items():
        rows = f", up to {count_text(change.rows, 'row')}" if change.rows else ""
        yield clean(f"{change.kind.value} {change.table}{rows}{f', {times} times' if times > 1 else ''}")
