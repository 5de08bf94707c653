"""Messages that were sent or are to be, and what would be sent now."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api import cursors
from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Amount, Moment, Out, Provisioning, Query, Text, one_of
from costguard.api.route import routes
from costguard.messages import message_log
from costguard.messages.message_log import MessageFilters, MessageRow
from costguard.messages.preview import Other, PreviewedSend, preview
from costguard.model.action import AssignOwner, CancelJob, KeepLifetime, StopInstance
from costguard.model.reminder import Target
from costguard.reminders.watched import Decision

router = routes("reminders")

_Status = Literal["intended", "sending", "accepted", "withdrawn", "failed"]
_Kind = Literal["reminder", "digest", "notification", "job", "ephemeral"]
_STATUSES, _KINDS = get_args(_Status), get_args(_Kind)


class Message(Out):
    id: int
    key: str = Field(description="Natural: there is never another message with it.")
    kind: Annotated[str, one_of(_KINDS)]
    status: Annotated[str, one_of(_STATUSES)] = Field(description="accepted: by Slack; failed: for good.")
    subject: str = Field(description="What a reminder is about: run or rest, and two numbers; else empty.")
    project: str
    gce_id: str
    name: str
    cycle: int = Field(description="How many times somebody had answered: an answer starts the stages anew.")
    stage: int = Field(description="0 is the first of its cycle.")
    target: Annotated[str, one_of((*Target, ""))] = Field(description="Of a reminder; else empty.")
    address: str = Field(description="Whom it is for: an address, a channel, or Slack's id.")
    intended_at: Moment
    try_after: Moment | None = Field(description="When it is tried next; null: it waits no more.")
    attempts: int
    accepted_at: Moment | None
    error: str = Field(description="Why it was not sent at the last attempt, or why it is not sent any more.")


class Messages(Out):
    as_of: Moment
    reminders: list[Message]
    next_cursor: str | None


class MessageQuery(Query):
    subject: Text | None = None
    gce_id: Text | None = None
    status: _Status | None = None
    kind: _Kind | None = None
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class To(Out):
    target: Annotated[str, one_of(Target)]
    address: str


class Due(Out):
    project: str
    gce_id: str
    name: str
    zone: str
    owner: str
    preset: str
    machine_type: str
    gpu_type: str | None
    gpu_count: int
    provisioning_model: Provisioning
    subject: str
    cycle: int
    stage: int
    to: list[To]
    reason: str
    started_at: Moment | None = Field(description="null: it does not run; its storage is billed.")
    rate_per_hour: Amount
    cost: Amount = Field(description="Of the lifetime that is open; of a VM at rest, of all it ever did.")
    evidence: str = Field(description="Of idleness; empty where nothing is known.")


class OtherAction(Out):
    action: Annotated[str, one_of(("stop", "keep", "assign", "cancel_job", "refuse"))]
    subject: str
    name: str
    reason: str


class LeftAlone(Out):
    project: str
    gce_id: str
    name: str
    reason: str
    overdue: bool = Field(description="The preset's limit has passed.")
    due_at: Moment | None
    next_at: Moment | None = Field(description="When the next reminder is sent, if nobody answers.")
    stop_at: Moment | None = Field(description="When a rule stops it, if nobody answers.")


class Preview(Out):
    as_of: Moment
    currency: str = CURRENCY
    is_shadow: bool = Field(description="Rules stop nothing: it is recorded what they would have stopped.")
    channel: str = Field(description="Where reminders go that no team's channel takes; empty: Slack is not set up.")
    messages: list[Due]
    actions: list[OtherAction]
    left_alone: list[LeftAlone]


@router.get("/reminders", summary="Messages, those intended last first", operation_id="listReminders")
def reminders(deps: Given, query: Annotated[MessageQuery, Parameter()]) -> Messages:
    """Reminders, digests and notices: to whom, and whether Slack accepted them."""
    before = None if query.cursor is None else int(cursors.decode(query.cursor, "reminders", (int,))[0])
    filters = MessageFilters(query.subject, query.gce_id, query.status, query.kind)
    with deps.database.read() as connection:
        found = message_log.messages_page(connection, filters, before, query.limit + 1)
    page = found[: query.limit]
    return Messages(
        as_of=deps.clock.now(),
        reminders=[_message(each) for each in page],
        next_cursor=cursors.encode("reminders", page[-1].id) if len(found) > query.limit else None,
    )


@router.get("/reminders/preview", summary="What would be sent now, and why", operation_id="previewReminders")
def preview_now(deps: Given) -> Preview:
    """The next pass, if it were now and saw the fleet as the ledger knows it. Nothing is sent."""
    now = deps.clock.now()
    with deps.database.read() as connection:
        found = preview(connection, deps.rules, now)
    return Preview(
        as_of=now,
        is_shadow=deps.rules.is_shadow,
        channel=deps.rules.channel,
        messages=[_due(each) for each in found.sends],
        actions=[_action(name, each) for name, each in found.others],
        left_alone=[_left_alone(each) for each in found.left_alone],
    )


def _message(of: MessageRow) -> Message:
    return Message(
        id=of.id,
        key=of.key,
        kind=of.kind,
        status=of.status,
        subject=of.subject,
        project=of.project,
        gce_id=of.gce_id,
        name=of.name,
        cycle=of.cycle,
        stage=of.stage,
        target=of.target,
        address=of.address,
        intended_at=of.intended_at,
        try_after=of.try_after if of.status in {"intended", "sending"} else None,
        attempts=of.attempts,
        accepted_at=of.accepted_at,
        error=of.error,
    )


def _due(of: PreviewedSend) -> Due:
    view, vm, send = of.view, of.view.instance, of.send
    return Due(
        project=vm.key.project,
        gce_id=vm.key.gce_id,
        name=vm.name,
        zone=vm.zone,
        owner=vm.owner,
        preset=vm.preset,
        machine_type=vm.shape.machine_type,
        gpu_type=vm.shape.gpu_type,
        gpu_count=vm.shape.gpu_count,
        provisioning_model=vm.provisioning_model.value,
        subject=str(send.subject),
        cycle=send.cycle,
        stage=send.stage,
        to=[To(target=target.value, address=address) for target, address in of.addresses],
        reason=send.reason,
        started_at=view.started_at,
        rate_per_hour=Amount.of(view.rate),
        cost=Amount.of(view.total_cost if view.started_at is None else view.lifetime_cost),
        evidence=view.idle.sentence if view.idle is not None else "",
    )


def _action(name: str, of: Other) -> OtherAction:
    if isinstance(of, StopInstance):
        return OtherAction(action="stop", subject=str(of.subject), name=name, reason=of.reason)
    word = {KeepLifetime: "keep", AssignOwner: "assign", CancelJob: "cancel_job"}.get(type(of), "refuse")
    return OtherAction(action=word, subject=str(of.request.subject), name=name, reason=of.reason)


def _left_alone(of: Decision) -> LeftAlone:
    return LeftAlone(
        project=of.key.project,
        gce_id=of.key.gce_id,
        name=of.name,
        reason=of.reason,
        overdue=of.overdue,
        due_at=of.due_at,
        next_at=of.next_at,
        stop_at=of.stop_at,
    )
