"""Reads from the ledger of a run what each VM cost, and how much has not come to its end."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import Row, func, or_, select, text
from tests.shards.sides import Part, Side, in_words

from costguard.db.tables import UNCHARGED, charges, instances, lifetimes, messages, requests, storage_spans
from costguard.db.transaction import Database


def open_entries(database: Database) -> int:
    """Counts lifetimes, storage, requests and messages that have not come to their end.

    Lifetimes and storage come to theirs with their charges. The replica that saw one end may not be the one that
    charges: under load that was seen to take up to a minute, in which the sum of charges lies below the bill.
    """
    with database.read() as connection:
        count = 0
        for table in (lifetimes, storage_spans):
            is_open = or_(table.c.ended_at.is_(None), text(UNCHARGED))
            count += connection.execute(select(func.count()).select_from(table).where(is_open)).scalar_one()
        count += connection.execute(select(func.count()).where(requests.c.status == "open")).scalar_one()
        waiting = messages.c.status.in_(("intended", "sending"))
        return int(count + connection.execute(select(func.count()).where(waiting)).scalar_one())


def spent_by_vm(database: Database) -> dict[str, int]:
    """Nano-dollars of the charges in the ledger, by the VM's number; a VM without any charge is left out."""
    return {gce_id: side.nanos for gce_id, side in held_by_vm(database).items() if side.parts}


def held_by_vm(database: Database) -> dict[str, Side]:
    """Returns what the ledger holds of each VM, by its number: charges by span and resource, and its spans' ends."""
    parts, notes = defaultdict[str, list[Part]](list), defaultdict[str, list[str]](list)
    names: dict[str, str] = {}
    with database.read() as connection:
        for kind, spans in (("lifetime", lifetimes), ("storage", storage_spans)):
            places = select(instances.c.gce_id, instances.c.name.label("vm"), spans)
            for span in connection.execute(places.join(instances, spans.c.instance_id == instances.c.id)):
                names[span.gce_id] = span.vm
                of_it = (charges.c.span == kind) & (charges.c.span_id == span.id)
                charged = (func.sum(charges.c.seconds), func.sum(charges.c.amount_nanos))
                query = select(charges.c.resource, *charged).where(of_it).group_by(charges.c.resource)
                lasted = in_words(span.started_at, span.ended_at)
                for resource, seconds, nanos in connection.execute(query):
                    parts[span.gce_id].append(Part(resource, int(seconds), int(nanos), lasted))
                notes[span.gce_id].append(f"{kind} {lasted}, {_end(span)}")
    return {gce_id: Side(name, tuple(parts[gce_id]), tuple(notes[gce_id])) for gce_id, name in names.items()}


def _end(span: Row[Any]) -> str:
    """Says how a span ended; storage has no reason of its own."""
    if "end_reason" not in span._fields:
        return str(span.name)
    estimated = ", estimated" if span.end_is_estimate else ""
    return f"{span.end_reason or 'runs'} by {span.ended_by or 'nobody known'}{estimated}"
