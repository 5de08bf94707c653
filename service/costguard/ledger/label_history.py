"""Reads the history of VMs' labels, with the moments of their changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, select
from sqlalchemy.dialects import postgresql, sqlite

from costguard.db.tables import label_changes
from costguard.db.types import storable
from costguard.ledger.label_marks import spoil_changed
from costguard.model.observation import SeenOperation

_SETS_LABELS = frozenset({"setLabels", "update"})
_GOOGLES_OWN = "goog-"  # labels that Google's services set and change by themselves


@dataclass(frozen=True, slots=True)
class LabelChange:
    """The label was `old_value` until this moment; None: the VM had no such label."""

    instance_id: int
    label: str
    changed_at: datetime
    old_value: str | None


def changes_of(
    instance_id: int, before: Mapping[str, str], after: Mapping[str, str], changed_at: datetime
) -> Iterator[LabelChange]:
    """Each label that differs, with what it was. Labels that Google sets itself are left out."""
    for label in sorted({*before, *after}):
        if before.get(label) != after.get(label) and not label.startswith(_GOOGLES_OWN):
            yield LabelChange(instance_id, label, changed_at, before.get(label))


def moment_of_change(news: Iterable[SeenOperation], read_at: datetime) -> datetime:
    """Returns when the labels that this look sees changed: as Google's operation says, else now.

    Of several operations between two looks the last one counts. The labels in between are in no listing.
    """
    moments = (op.inserted_at for op in news if op.kind in _SETS_LABELS and op.error_code is None)
    return min(read_at, max(moments, default=read_at))


def store(connection: Connection, changes: Sequence[LabelChange]) -> None:
    """A change that is stored already is left as it is. Daily sums by these labels are good no more."""
    if not changes:
        return
    spoil_changed(connection, ((change.instance_id, change.label, change.changed_at) for change in changes))
    # The two dialects' inserts have the same methods, but no common type that has them.
    insert: Any = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    rows = [
        {
            "instance_id": change.instance_id,
            "label": storable(change.label),
            "changed_at": change.changed_at,
            "old_value": storable(change.old_value),
        }
        for change in changes
    ]
    connection.execute(insert(label_changes).on_conflict_do_nothing(), rows)


def labels_at(present: Mapping[str, str], changes: Sequence[LabelChange], moment: datetime) -> dict[str, str]:
    """A VM's labels as they were then, from those of now and all its changes, the earliest first."""
    labels = dict(present)
    for change in reversed(changes):
        if change.changed_at <= moment:
            break
        if change.old_value is None:
            labels.pop(change.label, None)
        else:
            labels[change.label] = change.old_value
    return labels


def changes_of_vms(connection: Connection, instance_ids: Sequence[int]) -> dict[int, list[LabelChange]]:
    """All changes of all labels of these VMs by their rows, the earliest first. As many as fit into one statement."""
    table = label_changes.c
    query = select(table.instance_id, table.label, table.changed_at, table.old_value)
    query = query.where(table.instance_id.in_(instance_ids)).order_by(table.changed_at)
    by_instance: dict[int, list[LabelChange]] = {}
    for row in connection.execute(query):
        by_instance.setdefault(row.instance_id, []).append(LabelChange(*row))
    return by_instance


def changed_since(label: str, since: datetime) -> Select[tuple[int]]:
    """The rows of VMs whose label changed after a moment."""
    table = label_changes.c
    return select(table.instance_id).where(table.label == label, table.changed_at > since)


def changes_since(connection: Connection, label: str, since: datetime) -> dict[int, list[LabelChange]]:
    """All changes of one label after a moment by the VM's row, the earliest first."""
    table = label_changes.c
    query = select(table.instance_id, table.changed_at, table.old_value)
    query = query.where(table.label == label, table.changed_at > since).order_by(table.changed_at)
    by_instance: dict[int, list[LabelChange]] = {}
    for instance_id, changed_at, old_value in connection.execute(query):
        by_instance.setdefault(instance_id, []).append(LabelChange(instance_id, label, changed_at, old_value))
    return by_instance
