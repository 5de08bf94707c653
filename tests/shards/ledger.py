"""Reads from the ledger of a run what each VM cost, and how much has not come to its end."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import func, select

from costguard.db.tables import charges, instances, lifetimes, messages, requests, storage_spans
from costguard.db.transaction import Database


def open_entries(database: Database) -> int:
    """Counts lifetimes, storage, requests and messages that have not come to their end."""
    with database.read() as connection:
        count = 0
        for table in (lifetimes, storage_spans):
            count += connection.execute(select(func.count()).where(table.c.ended_at.is_(None))).scalar_one()
        count += connection.execute(select(func.count()).where(requests.c.status == "open")).scalar_one()
        waiting = messages.c.status.in_(("intended", "sending"))
        return int(count + connection.execute(select(func.count()).where(waiting)).scalar_one())


def spent_by_vm(database: Database) -> dict[str, int]:
    """Nano-dollars in the ledger, by the VM's number."""
    spent: Counter[str] = Counter()
    with database.read() as connection:
        for kind, spans in (("lifetime", lifetimes), ("storage", storage_spans)):
            rows = connection.execute(
                select(instances.c.gce_id, func.sum(charges.c.amount_nanos))
                .select_from(charges)
                .join(spans, (charges.c.span == kind) & (charges.c.span_id == spans.c.id))
                .join(instances, spans.c.instance_id == instances.c.id)
                .group_by(instances.c.gce_id)
            )
            spent.update({gce_id: int(nanos) for gce_id, nanos in rows})
    return dict(spent)
