"""The history of VMs' labels with the moments of their changes, and the days whose sums by label it leaves good.

A day without its mark is read from charges, so that a lost mark costs time and never a wrong figure.

The keeper of a VM is among them under names of the ledger's own: spend, budgets and filters take it as they do labels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, exists, func, literal_column, select
from sqlalchemy.dialects import postgresql, sqlite

from costguard.db.bulk import chunks
from costguard.db.tables import instances, label_changes, label_days
from costguard.db.types import storable
from costguard.ledger.archived.history_days import outdate_since
from costguard.model.keeper import CLUSTER_LABEL, KEEPER_LABEL, KIND_LABEL, POOL_LABEL, Keeper
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
    _spoil_changed(connection, ((change.instance_id, change.label, change.changed_at) for change in changes))
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


def has_changed(instance_id: ColumnElement[int], label: str, since: datetime) -> ColumnElement[bool]:
    """The condition that the label of a VM changed after a moment."""
    table = label_changes.c
    # EXISTS, not NOT IN: PostgreSQL assumes that NOT IN excludes half of all VMs (decision 324).
    return exists().where(table.instance_id == instance_id, table.label == label, table.changed_at > since)


def changes_since(connection: Connection, label: str, since: datetime) -> dict[int, list[LabelChange]]:
    """All changes of one label after a moment by the VM's row, the earliest first."""
    table = label_changes.c
    query = select(table.instance_id, table.changed_at, table.old_value)
    query = query.where(table.label == label, table.changed_at > since).order_by(table.changed_at)
    by_instance: dict[int, list[LabelChange]] = {}
    for instance_id, changed_at, old_value in connection.execute(query):
        by_instance.setdefault(instance_id, []).append(LabelChange(instance_id, label, changed_at, old_value))
    return by_instance


def spoil_days(connection: Connection, days: Collection[date]) -> None:
    """Charges of these UTC days came, went, or changed hands: by no label are their sums good."""
    for some in chunks(days):
        connection.execute(delete(label_days).where(label_days.c.day.in_(some)))


def _spoil_changed(connection: Connection, changes: Iterable[tuple[int, str, datetime]]) -> None:
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
    if first_by_label:
        outdate_since(connection, min(first_by_label.values()).astimezone(UTC).date())


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


_PARTS = {KEEPER_LABEL: "keeper", CLUSTER_LABEL: "cluster", POOL_LABEL: "cluster_pool", KIND_LABEL: "product"}
KEEPER_COLUMNS: Mapping[str, str] = {KEEPER_LABEL: "keeper_kind", KIND_LABEL: "keeper_product"}
"""The parts of a keeper that instances and running totals have as columns."""
# Written out rather than bound: PostgreSQL must see the same in the columns and in the groups.
KEPT_BY = [func.coalesce(instances.c[name], literal_column("''")).label(name) for name in KEEPER_COLUMNS.values()]
"""The kind and product of a VM's keeper, as running totals have them."""


def keeper_columns(keeper: Keeper | None) -> dict[str, Any]:
    """The columns of an instance that hold its keeper; None: not read yet."""
    stored = keeper.stored() if keeper is not None else {}
    return {"keeper": stored} | {column: stored.get(_PARTS[label]) for label, column in KEEPER_COLUMNS.items()}


def label_value(label: str) -> ColumnElement[str]:
    """The present value of an instance's label, or of its keeper's; NULL where it has none."""
    if label in KEEPER_COLUMNS:
        return instances.c[KEEPER_COLUMNS[label]]
    part = _PARTS.get(label)
    value: ColumnElement[str] = (instances.c.keeper[part] if part else instances.c.labels[label]).as_string()
    return value


def with_keeper(labels: Mapping[str, str], keeper: Mapping[str, Any]) -> dict[str, str]:
    """A VM's labels, and its stored keeper as labels. What the ledger calls so is not taken from a user's labels."""
    named = {label: keeper[part] for label, part in _PARTS.items() if keeper.get(part)}
    return {label: value for label, value in labels.items() if label not in _PARTS} | named
