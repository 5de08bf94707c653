"""Marks the days whose sums by label are valid. A change of a day's charges by label takes its mark away.

A day without its mark is read from charges, so that a lost mark costs time and never a wrong figure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime

from sqlalchemy import Connection, delete, select

from costguard.db.bulk import chunks
from costguard.db.tables import label_changes, label_days


def spoil_days(connection: Connection, days: Collection[date]) -> None:
    """Charges of these UTC days came, went, or changed hands: by no label are their sums good."""
    for some in chunks(days):
        connection.execute(delete(label_days).where(label_days.c.day.in_(some)))


def spoil_changed(connection: Connection, changes: Iterable[tuple[int, str, datetime]]) -> None:
    """Labels of VMs (by row) changed at these moments. Before they are stored.

    What a VM cost before the moment stays under the old value, unless a later change is known already: then the old
    value is not what the label was called then, and no day of this label is good.
    """
    first_by_label: dict[str, datetime] = {}
    changed: dict[tuple[int, str], datetime] = {}
    for instance_id, label, changed_at in changes:
        first_by_label[label] = min(changed_at, first_by_label.get(label, changed_at))
        changed[instance_id, label] = min(changed_at, changed.get((instance_id, label), changed_at))
    for label in _with_later_changes(connection, changed):
        connection.execute(delete(label_days).where(label_days.c.label == label))
    for label, changed_at in first_by_label.items():
        since = label_days.c.day >= changed_at.astimezone(UTC).date()
        connection.execute(delete(label_days).where(label_days.c.label == label, since))


def _with_later_changes(connection: Connection, changed: dict[tuple[int, str], datetime]) -> set[str]:
    table = label_changes.c
    return {
        row.label
        for some in chunks({instance_id for instance_id, _ in changed})
        for row in connection.execute(
            select(table.instance_id, table.label, table.changed_at).where(table.instance_id.in_(some))
        )
        if row.changed_at > changed.get((row.instance_id, row.label), row.changed_at)
    }
