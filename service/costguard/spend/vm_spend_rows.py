"""What was spent on each VM: its stored charges, and which VMs have some that are not stored yet."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, Table, cast, func, select

from costguard.db.bulk import chunks
from costguard.db.tables import charges, instances, lifetimes, storage_spans
from costguard.ledger.accruing import stand, uncharged_instances, within_scope
from costguard.ledger.roll_up import parts_of_charges
from costguard.model.budget import Scope
from costguard.model.instance import InstanceKey, ProvisioningModel
from costguard.model.lifetime import Attribution
from costguard.spend.spend_rows import Amounts, amounts_of


@dataclass(frozen=True, slots=True)
class VmCharges:
    """Of one VM, of one owner, preset and job; of one day where rows are by day."""

    instance_id: int
    attribution: Attribution
    provisioning_model: str
    day: date | None
    amounts: Amounts


def charged(connection: Connection, first: date, last: date, scope: Scope, by_day: bool) -> list[VmCharges]:
    """The stored charges of the days [first, last], as the roll-up has them: storage counts as standard."""
    charged_vms = []
    for spans in (lifetimes, storage_spans):
        query = _sums(spans).where(charges.c.day.between(first, last), *within_scope(spans, scope))
        if by_day:
            query = query.add_columns(charges.c.day).group_by(charges.c.day)
        for row in connection.execute(query):
            model = row.provisioning_model if spans is lifetimes else ProvisioningModel.STANDARD.value
            whose = Attribution(row.preset, row.owner, row.job)
            amounts = amounts_of((row.machine_nanos, row.gpu_nanos, row.storage_nanos, row.seconds))
            charged_vms.append(VmCharges(row.instance_id, whose, model, row.day if by_day else None, amounts))
    return charged_vms


def _sums(spans: Table) -> Select[Any]:
    names = ("instance_id", "preset", "owner", "job", "provisioning_model")
    kinds = [spans.c[name] for name in names if name in spans.c]
    sums = [cast(func.sum(part), BigInteger).label(name) for name, part in parts_of_charges(spans).items()]
    joined = select(*kinds, *sums).join_from(charges, spans, charges.c.span_id == spans.c.id)
    return joined.where(*stand(spans)).group_by(*kinds)


def accruing_ids(connection: Connection) -> list[int]:
    """VMs with spans that are open, or ended and not charged to their end."""
    instance_ids = uncharged_instances(connection)
    for spans in (lifetimes, storage_spans):
        instance_ids.update(connection.scalars(select(spans.c.instance_id).where(spans.c.ended_at.is_(None))))
    return sorted(instance_ids)


def ids_of(connection: Connection, keys: Collection[InstanceKey]) -> dict[InstanceKey, int]:
    """The rows of these VMs."""
    ids_by_key: dict[InstanceKey, int] = {}
    for some in chunks({key.gce_id for key in keys}):
        query = select(instances.c.id, instances.c.project, instances.c.gce_id).where(instances.c.gce_id.in_(some))
        ids_by_key |= {InstanceKey(row.project, row.gce_id): row.id for row in connection.execute(query)}
    return ids_by_key
