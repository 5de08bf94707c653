"""Sentences for the events of a VM's changes."""

from __future__ import annotations

from collections.abc import Sequence, Set
from datetime import datetime, timedelta

from costguard.model.duration import span_text
from costguard.model.event import Event, new_event
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.moments import utc_text
from costguard.model.observation import Observation, SeenOperation, Unread
from costguard.model.record import InstanceRecord, KnownInstance, RefusedChange

_KEPT = timedelta(days=14)  # how long Google keeps operations

_ENDED = {
    EndReason.STOPPED: "was stopped",
    EndReason.SUSPENDED: "was suspended",
    EndReason.DELETED: "was deleted",
    EndReason.PREEMPTED: "was preempted by Google",
    EndReason.HOST_ERROR: "ended by a host error",
    EndReason.HOST_MAINTENANCE: "was stopped for host maintenance",
    EndReason.RUN_TIME_LIMIT: "reached its run-time limit",
    EndReason.GUEST_SHUTDOWN: "shut itself down",
    EndReason.RECREATED: "was recreated by its managed instance group",
    EndReason.UNKNOWN: "ended for an unknown reason",
}


def ended_text(reason: EndReason) -> str:
    """`was stopped`, `was preempted by Google`: to follow a name."""
    return _ENDED[reason]


def sentence(clause: str) -> str:
    """`Runs in us-central1-a.`: a reason that stands by itself. A name at its beginning stays as it is."""
    first = clause.partition(" ")[0]
    start = f"{clause[:1].upper()}{clause[1:]}" if first.isalpha() else clause
    return start if not clause or clause.endswith((".", "!", "?")) else f"{start}."


def tell(
    stored: KnownInstance | None, record: InstanceRecord, lifetimes: Sequence[Lifetime], read_at: datetime
) -> tuple[Event, ...]:
    """The events between what was known and what is known now, in the order in which they happened."""
    events = [_started(record, life) for life in lifetimes if _is_new(stored, life)]
    events += [_ended(record, life, _was_closed(stored, life)) for life in lifetimes if life.ended_at is not None]
    if stored is None:
        events.append(_seen(record))
    else:
        events += _reassigned(stored.record, record, read_at)
    if record.gone_at is not None and (stored is None or stored.record.gone_at is None):
        events.append(
            _event(record, "InstanceGone", record.gone_at, f"{record.name} is gone.", f"{record.gone_at.isoformat()}")
        )
    return tuple(sorted(events, key=lambda event: event.occurred_at))


def tell_failed(operation: SeenOperation) -> Event | None:
    """The event of an operation that Google accepted and then could not carry out."""
    if operation.error_code is None:
        return None
    by = f" by {operation.user}" if operation.user else ""
    return new_event(
        "OperationFailed",
        operation.ended_at or operation.inserted_at,
        f"{operation.kind} of {operation.target_name}{by} failed: "
        f"{operation.error_code}: {operation.error_message or 'Google gave no words'}",
        *(operation.project, operation.operation_id),
        vm=InstanceKey(operation.project, operation.target_id),
        name=operation.target_name,
        actor=operation.user,
        data={"zone": operation.zone, "code": operation.error_code},
    )


def _is_within(scope: str, unread: Set[str]) -> bool:
    """Says whether nothing is known of this scope, by itself or as a part of what could not be read."""
    whole = {"project"} if scope in {"disks", "operations"} else {"project", "instances"}
    return scope in unread or not whole.isdisjoint(unread)


def tell_unwatched(project: str, last_at: datetime, why: str = "") -> Event:
    """The event that a project is not watched any more, and that its account ends with its last look.

    `why` says what searches and looks showed; "" where the settings leave it out.
    """
    ends = f"{project} is not watched any more: the account of its VMs ends with the last look at it."
    back = "Put it back under [watch] projects to go on from there."
    seen = f"Asset Inventory does not show it any more, and {why}. It is watched again once it is found."
    return new_event(
        "ProjectUnwatched",
        last_at,
        f"{ends} {seen if why else back}",
        *(project, last_at.isoformat()),
        project=project,
    )


def tell_looks(observation: Observation, before: Sequence[Unread]) -> tuple[Event, ...]:
    """Reports the parts of a project that cannot be read any more, and those that can be read again."""
    was = {(part.scope, part.code) for part in before}
    scopes = {part.scope for part in observation.unread}
    lost = [("ReadingFailed", part, part.reason) for part in observation.unread if (part.scope, part.code) not in was]
    back = [
        ("ReadingResumed", part, f"{part.scope} of {observation.project} can be read again.")
        for part in {part.scope: part for part in before}.values()
        if not _is_within(part.scope, scopes)
    ]
    return tuple(
        new_event(
            kind,
            observation.read_at,
            text,
            *(observation.project, part.scope, part.code, observation.read_at.isoformat()),
            project=observation.project,
            data={"scope": part.scope, "code": part.code},
        )
        for kind, part, text in sorted(lost + back, key=lambda item: (item[0], item[1].scope))
    )


def tell_gap(project: str, read_through: datetime, read_at: datetime) -> Event | None:
    """The event that operations went unread until Google had forgotten some of them."""
    forgotten_to = read_at - _KEPT
    if read_through >= forgotten_to:
        return None
    return new_event(
        "OperationsForgotten",
        read_at,
        f"The operations of {project} from {read_through:%Y-%m-%d %H:%M} to {utc_text(forgotten_to)} "
        "were not read in time, and Google keeps them for about two weeks. VMs that came and went in that time are "
        "not in the ledger, nor are runs that began and ended in it; where others ended then is estimated. "
        "Compare those days with Google's bill.",
        *(project, read_through.isoformat()),
        project=project,
        data={"from": read_through.isoformat(), "to": forgotten_to.isoformat()},
    )


def tell_refused(change: RefusedChange, read_at: datetime) -> Event:
    """The event that Google told of a change too late: what is archived stays as it was billed."""
    record, ended_at = change.record, change.ended_at
    what = f"disk {change.disk} of {record.name}" if change.disk else f"run of {record.name}"
    end = f"ended at {utc_text(ended_at)}" if ended_at is not None else "goes on"
    return _event(
        record,
        "LateChangeRefused",
        read_at,
        f"Google now says that the {what} that began at {utc_text(change.started_at)} {end}. Its charges are archived, "
        "so what was billed stays as it is. Compare those days with Google's bill.",
        f"{change.disk}:{change.started_at.isoformat()}:{ended_at.isoformat() if ended_at is not None else ''}",
        disk=change.disk or None,
        started_at=change.started_at.isoformat(),
        ended_at=ended_at.isoformat() if ended_at is not None else None,
    )


def describe(shape: Shape, model: ProvisioningModel) -> str:
    """`a2-highgpu-1g, 1 × nvidia-tesla-a100, Spot`"""
    parts = [shape.machine_type or "a machine type that nobody saw"]
    if shape.gpu_count:
        parts.append(f"{shape.gpu_count} × {shape.gpu_type}")
    if model is not ProvisioningModel.STANDARD:
        parts.append(model.in_words)
    return ", ".join(parts)


def after_text(life: Lifetime) -> str:
    """`after 3 h 12 min`, of a lifetime that is over, or `while it was starting`: to follow how it ended."""
    assert life.ended_at is not None  # the caller asks only about ended ones
    if life.ended_at <= life.started_at:
        return "while it was starting"
    return f"after {span_text(life.ran(life.ended_at))}"


def _is_new(stored: KnownInstance | None, life: Lifetime) -> bool:
    return stored is None or all(old.started_at != life.started_at for old in stored.lifetimes)


def _was_closed(stored: KnownInstance | None, life: Lifetime) -> bool:
    return stored is not None and any(
        old.started_at == life.started_at and old.ended_at is not None for old in stored.lifetimes
    )


def _event(
    record: InstanceRecord, kind: str, at: datetime, text: str, detail: str, actor: str = "", **data: object
) -> Event:
    identity = record.key.project, record.key.gce_id, detail
    named = {"zone": record.zone, **data}
    return new_event(kind, at, text, *identity, vm=record.key, name=record.name, actor=actor, data=named)


def _seen(record: InstanceRecord) -> Event:
    owner = record.attribution.owner or "nobody known"
    made_of = describe(record.shape, record.provisioning_model)
    text = (
        f"{record.name} ({made_of}) was first seen in {record.zone}; preset {record.attribution.preset}, owner {owner}."
    )
    return _event(
        record,
        "InstanceSeen",
        record.first_seen_at,
        text,
        "",
        record.created_by,
        preset=record.attribution.preset,
        owner=record.attribution.owner,
    )


def _started(record: InstanceRecord, life: Lifetime) -> Event:
    text = f"{record.name} ({describe(life.shape, life.provisioning_model)}) started running."
    return _event(record, "LifetimeStarted", life.started_at, text, life.started_at.isoformat())


def _ended(record: InstanceRecord, life: Lifetime, corrected: bool) -> Event:
    assert life.ended_at is not None  # the caller asks only about ended ones
    reason = life.end_reason or EndReason.UNKNOWN
    by = f" by {life.ended_by}" if life.ended_by and life.ended_by != "system" else ""
    text = f"{record.name} {_ENDED[reason]}{by} {after_text(life)}."
    if life.end_is_estimate:
        text += " No operation shows when: this is the latest moment that it can have been."
    if corrected:
        text = f"Corrected: {text}"
    return _event(
        record,
        "LifetimeEndCorrected" if corrected else "LifetimeEnded",
        life.ended_at,
        text,
        f"{life.started_at.isoformat()}:{life.ended_at.isoformat()}:{reason.value}",
        life.ended_by,
        started_at=life.started_at.isoformat(),
        reason=reason.value,
        estimate=life.end_is_estimate,
    )


def _reassigned(old: InstanceRecord, new: InstanceRecord, at: datetime) -> list[Event]:
    before, after = old.attribution, new.attribution
    if before == after:
        return []
    text = (
        f"{new.name} is now counted for {after.owner or 'nobody'} under preset {after.preset}; "
        f"before, for {before.owner or 'nobody'} under {before.preset}."
    )
    return [_event(new, "InstanceReassigned", at, text, f"{new.fingerprint}:{after.owner}:{after.preset}")]
