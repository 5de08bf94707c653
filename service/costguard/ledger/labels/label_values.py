"""The present and the former values of a label of VMs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, select

from costguard.db.bulk import chunks
from costguard.db.tables import instances
from costguard.ledger.labels.label_history import LabelChange, changes_since, label_value
from costguard.model.budget import LabelFilter


@dataclass(frozen=True, slots=True)
class LabelValues:
    """The present and the former values of one label of VMs."""

    present: Mapping[int, str | None]
    changes: Mapping[int, Sequence[LabelChange]]

    def at(self, instance_id: int, moment: datetime) -> str | None:
        later = (change.old_value for change in self.changes.get(instance_id, ()) if change.changed_at > moment)
        return next(later, self.present.get(instance_id))

    def between(self, instance_id: int, start: datetime, end: datetime) -> set[str | None]:
        """Each value that it had in [start, end)."""
        cuts = [c.changed_at for c in self.changes.get(instance_id, ()) if start < c.changed_at < end]
        return {self.at(instance_id, moment) for moment in (start, *cuts)}


def values_among(connection: Connection, label: str, since: datetime, instance_ids: Collection[int]) -> LabelValues:
    """Returns the values of these VMs since that moment."""
    return LabelValues(present_values(connection, label, instance_ids), changes_since(connection, label, since))


def present_values(connection: Connection, label: str, instance_ids: Collection[int]) -> dict[int, str | None]:
    query = select(instances.c.id, label_value(label))
    return {
        instance_id: value
        for some in chunks(instance_ids)
        for instance_id, value in connection.execute(query.where(instances.c.id.in_(some)))
    }


def has_value(wanted: LabelFilter) -> ColumnElement[bool]:
    """The label of an instance is this now."""
    value = label_value(wanted.label)
    return value.is_(None) if wanted.value is None else value == wanted.value
