"""A preview of the next pass: what it would send and do, and why. Nothing is written or sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.ledger.accrual import accrual_at
from costguard.model.action import AssignOwner, CancelJob, KeepLifetime, RefuseRequest, SendReminder, StopInstance
from costguard.model.reminder import Subject
from costguard.reminders import gather
from costguard.reminders.watched import Decision
from costguard.spend import fleet
from costguard.spend.fleet import InstanceView

Other = StopInstance | KeepLifetime | AssignOwner | CancelJob | RefuseRequest


@dataclass(frozen=True, slots=True)
class PreviewedSend:
    """A stage with its recipients, and the VM with its money."""

    send: SendReminder
    view: InstanceView


@dataclass(frozen=True, slots=True)
class ReminderPreview:
    """`others` come with their VM's name; `left_alone` is decided of all VMs that nothing would be sent about."""

    sends: tuple[PreviewedSend, ...]
    others: tuple[tuple[str, Other], ...]
    left_alone: tuple[Decision, ...]


def preview(connection: Connection, rules: Rules, now: datetime) -> ReminderPreview:
    """Previews the decisions of a pass at this moment about the fleet as the ledger knows it."""
    plan, fleet_vms = gather.look_at(connection, rules, now)
    sends = [action for action in plan.actions if isinstance(action, SendReminder)]
    ids = sorted({send.subject.instance_id for send in sends})
    accrual = accrual_at(connection, now)
    views = {view.instance.id: view for view in fleet.views(connection, accrual, rules.limits, ids)}
    names = {vm.instance_id: vm.name for vm in fleet_vms}
    reminded = {send.key for send in sends}
    return ReminderPreview(
        sends=tuple(PreviewedSend(send, views[send.subject.instance_id]) for send in sends),
        others=tuple(
            (names.get(_subject(action).instance_id, ""), action)
            for action in plan.actions
            if not isinstance(action, SendReminder)
        ),
        left_alone=tuple(decision for decision in plan.decisions if decision.key not in reminded),
    )


def _subject(action: Other) -> Subject:
    return action.subject if isinstance(action, StopInstance) else action.request.subject
