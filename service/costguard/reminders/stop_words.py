"""The words of stops: their natural keys, events and sentences."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID, uuid5

from costguard.ledger.narrate import after_text, ended_text
from costguard.model.action import StopInstance
from costguard.model.event import Event
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.moments import moment_text
from costguard.model.money import Priced, priced_text
from costguard.model.record import KnownInstance

_OURS = UUID("6f3f0f0a-5f0e-4e8a-9a53-0c6f1f1f7a11")


def key_of(action: StopInstance, prefix: str = "stop") -> str:
    """A person's request, or a rule in one cycle of reminding, stops a run once."""
    if action.request is not None:
        return f"{prefix}/{action.subject}/{action.request.id}"
    parts = action.reminder.split("/")
    return f"{prefix}/{action.subject}/{f'c{parts[2]}' if len(parts) > 2 else action.rule}"


def uuid_of(key: str, action: StopInstance, now: datetime) -> str:
    """Of this very intent: row ids recur in another database, and keys once an older one was restored."""
    parts = (key, action.key.project, action.key.gce_id, action.started_at.isoformat(), now.isoformat())
    return str(uuid5(_OURS, "|".join(parts)))


def ordered(vm: KnownInstance, key: str, action: StopInstance, now: datetime) -> Event:
    by = action.request.by if action.request is not None else ""
    text = f"{vm.record.name} is to be stopped ({action.rule}): {action.reason.rstrip('.')}."
    return event(vm, f"InstanceStopOrdered:{key}", text, now, evidence_of(action), by)


def shadowed(vm: KnownInstance, key: str, action: StopInstance, now: datetime) -> Event:
    text = f"{vm.record.name} would be stopped ({action.rule}): {action.reason.rstrip('.')}."
    return event(vm, f"InstanceWouldBeStopped:{key}", text, now, evidence_of(action))


def event(vm: KnownInstance, key: str, text: str, now: datetime, data: Mapping[str, object], actor: str = "") -> Event:
    """Its kind is what the key begins with."""
    return Event(
        key=key,
        kind=key.split(":", 1)[0],
        occurred_at=now,
        text=text,
        project=vm.record.key.project,
        gce_id=vm.record.key.gce_id,
        name=vm.record.name,
        actor=actor,
        data={"zone": vm.record.zone, **data},
    )


def evidence_of(action: StopInstance) -> dict[str, object]:
    """All that the decision rested on."""
    return {
        "subject": str(action.subject),
        "rule": action.rule,
        "reminder": action.reminder,
        "request": action.request.key if action.request is not None else "",
        "due_at": action.due_at.isoformat() if action.due_at is not None else None,
        "evidence": dict(action.evidence),
    }


def done(vm: KnownInstance, life: Lifetime, cost: Priced) -> str:
    """`Stopped at 14:02 UTC on 2 Nov after 12 h; that run cost $41.20.`"""
    assert life.ended_at is not None  # it is over
    word = "Suspended" if life.end_reason is EndReason.SUSPENDED else "Stopped"
    amount = priced_text(cost, nothing="an amount that is not known")
    return f"{word} {vm.record.name} on {moment_text(life.ended_at)} {after_text(life)}; that run cost {amount}."


def ended_otherwise(vm: KnownInstance, life: Lifetime) -> str:
    assert life.ended_at is not None  # it is over
    return f"{vm.record.name} {ended_text(life.end_reason or EndReason.UNKNOWN)} on {moment_text(life.ended_at)}."
