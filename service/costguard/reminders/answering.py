"""Settles answers and requests: each in one transaction, and each once."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from costguard.events import audit_log
from costguard.jobs.decide.checkpoints.disk import disk_fate
from costguard.jobs.rows import job_events, job_rows
from costguard.ledger import answers, lifetimes
from costguard.model.action import AssignOwner, CancelJob, KeepLifetime, RefuseRequest
from costguard.model.event import Event, new_event
from costguard.model.moments import moment_text
from costguard.model.record import KnownInstance
from costguard.model.reminder import Claim, Keep, Request
from costguard.reminders import message_rows, request_rows
from costguard.reminders.message_rows import NewMessage


def settle(
    connection: Connection, action: KeepLifetime | AssignOwner | CancelJob | RefuseRequest, now: datetime
) -> str:
    """Settles a request, and returns its outcome in a sentence; "" where it had been settled before."""
    request = action.request
    if request.id is None or not is_open(connection, request):
        return ""
    vm = lifetimes.known(connection, request.subject.instance_id)
    if isinstance(action, RefuseRequest) or vm is None:
        reason = action.reason if isinstance(action, RefuseRequest) else "The VM is not in the ledger."
        refuse(connection, request, reason, now)
        return reason
    if isinstance(action, CancelJob):
        return _cancel(connection, vm, action, now)
    if isinstance(action, KeepLifetime):
        keep = Keep(request.subject, action.until, request.by, now, request.reason)
        answers.add_keep(connection, keep, request.id)
        event = _kept(vm, action, now)
    else:
        answers.add_claim(connection, Claim(request.subject.instance_id, action.owner, request.by, now), request.id)
        lifetimes.account_again(connection, request.subject.instance_id)
        event = _assigned(vm, action, now)
    audit_log.append(connection, [event], now)
    request_rows.settle(connection, request.id, "done", event.text, now)
    return event.text


def _cancel(connection: Connection, vm: KnownInstance, action: CancelJob, now: datetime) -> str:
    """The turn of jobs does the rest: the command's notice first, and then its VM is deleted."""
    request, job = action.request, job_rows.read(connection, action.job)
    name = vm.record.name
    if job is None or job.state.is_over:
        refuse(connection, request, f"The job that {name} works on has ended: {name} is about to be deleted.", now)
        return f"job {action.job} is over"
    why = f": {request.reason}" if request.reason else ""
    text = f"{request.by} stops {name}, so its job {job.title} is cancelled; its command gets time to save first{why}."
    text = f"{text}{disk_fate(job)}"
    if job_rows.ask_cancel(connection, job.id, request.by, text, now):
        event = job_events.of_job(
            "CancelAsked", job, now, text, "cancel_asked", actor=request.by, reason=request.reason, via=request.via
        )
        audit_log.append(connection, [event], now)
    else:
        text = f"Job {job.title} is being cancelled already, as {job.cancel_asked_by} asked."
    request_rows.settle(connection, request.id, "done", text, now)
    return text


def is_open(connection: Connection, request: Request) -> bool:
    return any(one.id == request.id for _, one in request_rows.open_requests(connection))


def refuse(connection: Connection, request: Request, reason: str, now: datetime) -> None:
    """Refuses the request, with an ephemeral reply where it came from Slack."""
    assert request.id is not None  # only stored requests are carried out
    request_rows.settle(connection, request.id, "refused", reason, now)
    if request.user_id:
        reply = NewMessage(
            key=f"ephemeral/{request.id}",
            kind="ephemeral",
            address=request.user_id,
            data={"text": reason, "channel": ""},
            subject=request.subject,
            instance_id=request.subject.instance_id,
        )
        message_rows.intend(connection, reply, now)


def _kept(vm: KnownInstance, action: KeepLifetime, now: datetime) -> Event:
    request = action.request
    why = f": {request.reason}" if request.reason else ""
    return new_event(
        "LifetimeKept",
        now,
        f"{request.by} keeps {vm.record.name} until {moment_text(action.until)}{why}.",
        request.id,
        vm=vm.record.key,
        name=vm.record.name,
        actor=request.by,
        data={
            "subject": str(request.subject),
            "until": action.until.isoformat(),
            "reason": request.reason,
            "rule": action.reason,
            "via": request.via,
        },
    )


def _assigned(vm: KnownInstance, action: AssignOwner, now: datetime) -> Event:
    request, name = action.request, vm.record.name
    before = vm.record.attribution.owner
    kind, text = "OwnerClaimed" if action.owner else "OwnerDisowned", action.reason.rstrip(".")
    return new_event(
        kind,
        now,
        f"{text}; before, it was {before}'s." if before and action.owner else f"{text}.",
        request.id,
        vm=vm.record.key,
        name=name,
        actor=request.by,
        data={
            "subject": str(request.subject),
            "owner": action.owner,
            "before": before,
            "via": request.via,
        },
    )
