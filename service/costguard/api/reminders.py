"""Messages that were sent or are waiting, and a preview of the next reminders and stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from fastapi import Query as Parameter
from pydantic import BeforeValidator, Field

from costguard.api import cursors
from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Amount, Moment, Out, Provisioning, Query, Text, one_of, read_from
from costguard.api.route import routes
from costguard.messages import message_log
from costguard.messages.message_log import MessageFilters, MessageRow
from costguard.messages.preview import Other, PreviewedSend, preview
from costguard.model.action import AssignOwner, CancelJob, KeepLifetime, StopInstance
from costguard.model.reminder import Target

router = routes("reminders")

_Status = Literal["intended", "sending", "accepted", "withdrawn", "failed"]
_Kind = Literal["reminder", "digest", "report", "reservation", "notification", "job", "ephemeral"]
_STATUSES, _KINDS = get_args(_Status), get_args(_Kind)
_WAITING = frozenset({"intended", "sending"})


class MessageOut(Out):
    id: int
    key: str = Field(description="The message's natural key: no two messages have the same.")
    kind: Annotated[str, one_of(_KINDS)]
    status: Annotated[str, one_of(_STATUSES)] = Field(
        description="accepted: Slack accepted it; failed: it will not be sent."
    )
    subject: str = Field(description="The subject of a reminder: `run` or `rest`, and two numbers; empty for others.")
    project: str
    gce_id: str
    name: str
    cycle: int = Field(description="The number of answers before it: each answer starts a new cycle of stages.")
    stage: int = Field(description="The position in its cycle; 0 is the first.")
    target: Annotated[str, one_of((*Target, ""))] = Field(description="The VM or disk of a reminder; empty for others.")
    address: str = Field(description="The recipient: an address, a channel, or a Slack id.")
    intended_at: Moment
    try_after: Moment | None = Field(
        description="The time at which it is sent or tried again; null: it is not waiting."
    )
    attempts: int
    accepted_at: Moment | None
    error: str = Field(description="The reason why the last attempt failed, or why it is not sent any more.")


class MessagesResponse(Out):
    as_of: Moment
    reminders: list[MessageOut]
    next_cursor: str | None


class MessageQuery(Query):
    subject: Text | None = None
    gce_id: Text | None = None
    status: _Status | None = None
    kind: _Kind | None = None
    limit: int = Field(100, ge=1, le=1000)
    cursor: Text | None = None


class RecipientOut(Out):
    target: Annotated[str, one_of(Target)]
    address: str


class DueReminderOut(Out):
    project: str = read_from("view.instance.key.project")
    gce_id: str = read_from("view.instance.key.gce_id")
    name: str = read_from("view.instance.name")
    zone: str = read_from("view.instance.zone")
    owner: str = read_from("view.instance.owner")
    preset: str = read_from("view.instance.preset")
    machine_type: str = read_from("view.instance.shape.machine_type")
    gpu_type: str | None = read_from("view.instance.shape.gpu_type")
    gpu_count: int = read_from("view.instance.shape.gpu_count")
    provisioning_model: Provisioning = read_from("view.instance.provisioning_model")
    subject: Annotated[str, BeforeValidator(str)] = read_from("send.subject")
    cycle: int = read_from("send.cycle")
    stage: int = read_from("send.stage")
    to: list[RecipientOut]
    reason: str = read_from("send.reason")
    started_at: Moment | None = read_from(
        "view.started_at", description="The start of the open lifetime; null: not running, but its storage bills."
    )
    rate_per_hour: Amount = read_from("view.rate")
    cost: Amount = Field(
        description="The cost of the open lifetime; for a stopped VM, of all its lifetimes and storage."
    )
    evidence: str = Field(description="The evidence that the VM is idle; empty where nothing is known.")


class OtherActionOut(Out):
    action: Annotated[str, one_of(("stop", "keep", "assign", "cancel_job", "refuse"))]
    subject: str
    name: str
    reason: str


class LeftAloneOut(Out):
    project: str = read_from("key.project")
    gce_id: str = read_from("key.gce_id")
    name: str
    reason: str
    overdue: bool = Field(description="True: it is past the preset's limit.")
    due_at: Moment | None
    next_at: Moment | None = Field(description="The time of the next reminder unless a user answers.")
    stop_at: Moment | None = Field(description="The time at which a rule stops it unless a user answers.")


class PreviewResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    is_shadow: bool = Field(description="True: rules stop nothing; the stops that they would have made are recorded.")
    channel: str = Field(description="The channel for reminders without a team's channel; empty: Slack is not set up.")
    messages: list[DueReminderOut]
    actions: list[OtherActionOut]
    left_alone: Sequence[LeftAloneOut]


@router.get("/reminders", summary="List messages, the latest first", operation_id="listReminders")
def reminders(deps: Given, query: Annotated[MessageQuery, Parameter()]) -> MessagesResponse:
    """Lists reminders, digests and notifications, with their recipients and whether Slack accepted them."""
    before = cursors.decode_id(query.cursor, "reminders")
    filters = MessageFilters(query.subject, query.gce_id, query.status, query.kind)
    with deps.database.read() as connection:
        messages = message_log.messages_page(connection, filters, before, query.limit + 1)
    page = messages[: query.limit]
    return MessagesResponse(
        as_of=deps.clock.now(),
        reminders=[_message(message) for message in page],
        next_cursor=cursors.encode("reminders", page[-1].id) if len(messages) > query.limit else None,
    )


@router.get("/reminders/preview", summary="Preview reminders and stops", operation_id="previewReminders")
def preview_now(deps: Given) -> PreviewResponse:
    """Previews the reminders and stops of a pass at this moment, as far as the ledger knows the fleet.

    Nothing is sent.
    """
    now = deps.clock.now()
    with deps.database.read() as connection:
        previewed = preview(connection, deps.rules, now)
    return PreviewResponse(
        as_of=now,
        is_shadow=deps.rules.is_shadow,
        channel=deps.rules.channel,
        messages=[_due(send) for send in previewed.sends],
        actions=[_action(name, action) for name, action in previewed.others],
        left_alone=[LeftAloneOut.read(decision) for decision in previewed.left_alone],
    )


def _message(message: MessageRow) -> MessageOut:
    return MessageOut.read(message, try_after=message.try_after if message.status in _WAITING else None)


def _due(due: PreviewedSend) -> DueReminderOut:
    view = due.view
    return DueReminderOut.read(
        due,
        to=[RecipientOut(target=target.value, address=address) for target, address in due.send.recipients.items()],
        cost=view.total_cost if view.started_at is None else view.lifetime_cost,
        evidence=view.idle.sentence if view.idle is not None else "",
    )


def _action(name: str, action: Other) -> OtherActionOut:
    if isinstance(action, StopInstance):
        return OtherActionOut(action="stop", subject=str(action.subject), name=name, reason=action.reason)
    word = {KeepLifetime: "keep", AssignOwner: "assign", CancelJob: "cancel_job"}.get(type(action), "refuse")
    return OtherActionOut(action=word, subject=str(action.request.subject), name=name, reason=action.reason)
