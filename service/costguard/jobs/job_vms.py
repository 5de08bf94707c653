"""The VMs of attempts as the ledger has them, and those that bear our labels and may be nobody's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, and_, func, select

from costguard.db.bulk import chunks
from costguard.db.tables import attempts, instances, lifetimes
from costguard.model.instance import InstanceKey, ProvisioningModel, Status
from costguard.model.lifetime import EndReason


@dataclass(frozen=True, slots=True)
class SeenVm:
    """One VM and its last lifetime, if it had any."""

    key: InstanceKey
    name: str
    zone: str
    status: Status
    gone_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: EndReason | None
    ended_by: str


@dataclass(frozen=True, slots=True)
class PresentVm:
    """A VM that is not known to be gone."""

    key: InstanceKey
    name: str
    zone: str
    labels: Mapping[str, str]
    first_seen_at: datetime
    status: Status
    created_at: datetime
    provisioning_model: ProvisioningModel
    gpu_type: str

    @property
    def is_at_rest(self) -> bool:
        return self.status in _AT_REST


def of_keys(connection: Connection, keys: Collection[InstanceKey]) -> dict[InstanceKey, SeenVm]:
    """Those of these VMs that the ledger has seen."""
    by_project: dict[str, set[str]] = defaultdict(set)
    for key in keys:
        by_project[key.project].add(key.gce_id)
    found: dict[InstanceKey, SeenVm] = {}
    for project, gce_ids in by_project.items():
        for some in chunks(gce_ids):
            mine = and_(instances.c.project == project, instances.c.gce_id.in_(some))
            for row in connection.execute(_SEEN.where(mine)):
                key = InstanceKey(row.project, row.gce_id)
                reason = None if row.end_reason is None else EndReason(row.end_reason)
                found[key] = SeenVm(
                    key,
                    row.name,
                    row.zone,
                    Status(row.status),
                    row.gone_at,
                    row.started_at,
                    row.ended_at,
                    reason,
                    row.ended_by or "",
                )
    return found


def present(connection: Connection, prefix: str) -> list[PresentVm]:
    """Every VM that is not gone and whose name begins so."""
    of = instances.c
    named = of.name.startswith(prefix, autoescape=True)
    what = (of.project, of.gce_id, of.name, of.zone, of.labels, of.first_seen_at, of.status)
    query = select(*what, of.created_at, of.provisioning_model, of.gpu_type)
    rows = connection.execute(query.where(of.gone_at.is_(None), named).order_by(of.project, of.gce_id))
    return [
        PresentVm(
            InstanceKey(row.project, row.gce_id),
            row.name,
            row.zone,
            row.labels,
            row.first_seen_at,
            Status(row.status),
            row.created_at,
            ProvisioningModel(row.provisioning_model),
            row.gpu_type or "",
        )
        for row in rows
    ]


def gone_at(connection: Connection, attempt_ids: Collection[int]) -> dict[int, datetime]:
    """When the VM of each of these attempts was seen to be gone, of those that are over."""
    of = attempts.c
    query = select(of.id, of.gone_at).where(of.gone_at.is_not(None))
    rows = (row for some in chunks(set(attempt_ids)) for row in connection.execute(query.where(of.id.in_(some))))
    return {row.id: row.gone_at for row in rows}


_AT_REST = frozenset({Status.STOPPED, Status.SUSPENDED})
_LAST = lifetimes.alias("last")
_SEEN = select(
    instances.c.project,
    instances.c.gce_id,
    instances.c.name,
    instances.c.zone,
    instances.c.status,
    instances.c.gone_at,
    lifetimes.c.started_at,
    lifetimes.c.ended_at,
    lifetimes.c.end_reason,
    lifetimes.c.ended_by,
).join_from(
    instances,
    lifetimes,
    and_(
        lifetimes.c.instance_id == instances.c.id,
        lifetimes.c.started_at
        == select(func.max(_LAST.c.started_at)).where(_LAST.c.instance_id == instances.c.id).scalar_subquery(),
    ),
    isouter=True,
)
