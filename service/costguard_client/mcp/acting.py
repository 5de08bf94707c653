"""The two tools that ask for something, and the confirmation that both need from a person."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context, Elicit, Resolve
from pydantic import BaseModel, Field

from costguard_client.mcp.confirming import Intent, intent_of, send
from costguard_client.mcp.marking import Words
from costguard_client.mcp.server import GceId, ProjectId, guard_of

Asked = Context[Any, Any]
Reason = Annotated[str, Field(min_length=1, max_length=200, description="In the user's words; it is recorded.")]
Hours = Annotated[int | None, Field(ge=1, le=720, description="Hours from when it is due; null: until tomorrow.")]


class Confirmation(BaseModel):
    """The confirmation that the client asks its user for."""

    confirm: bool = Field(description="Whether Costguard should do this.")


def _stop_meant(context: Asked, project: ProjectId, gce_id: GceId, reason: str) -> Intent:
    return intent_of(guard_of(context).guard, "stop", project, gce_id, reason)


def _keep_meant(context: Asked, project: ProjectId, gce_id: GceId, reason: str, hours: int | None = None) -> Intent:
    return intent_of(guard_of(context).guard, "keep", project, gce_id, reason, hours)


Stop = Annotated[Intent, Resolve(_stop_meant)]
Keep = Annotated[Intent, Resolve(_keep_meant)]


def _stop_confirmed(context: Asked, intent: Stop) -> Confirmation | Elicit[Confirmation]:
    return _ask(context, intent)


def _keep_confirmed(context: Asked, intent: Keep) -> Confirmation | Elicit[Confirmation]:
    return _ask(context, intent)


def stop_vm(
    context: Asked,
    project: ProjectId,
    gce_id: GceId,
    reason: Reason,
    intent: Stop,
    outcome: Annotated[ElicitationResult[Confirmation], Resolve(_stop_confirmed)],
) -> Any:
    """Ask to stop a VM or resource of Vertex AI; a job on it is cancelled, disks stay. A person confirms it first."""
    return _settle(context, intent, outcome, Words.ASK_STOP)


def keep_vm(
    context: Asked,
    project: ProjectId,
    gce_id: GceId,
    reason: Reason,
    intent: Keep,
    outcome: Annotated[ElicitationResult[Confirmation], Resolve(_keep_confirmed)],
    hours: Hours = None,
) -> Any:
    """Ask to keep a VM or other resource: no reminders, and no rule stops it meanwhile. A person confirms it first."""
    return _settle(context, intent, outcome, Words.ASK_KEEP)


def confirm(context: Asked, confirmation: str) -> Any:
    """Carry out what stop_vm or keep_vm answered, once a person has agreed to exactly that."""
    server = guard_of(context)
    intent = server.pending.take(confirmation)
    if intent is None:
        return {"done": False, "answer": Words.NO_CONFIRMATION}
    return {"done": True, "answer": Words.STORED, "request": send(server.guard, intent, confirmation)}


ACTING = (stop_vm, keep_vm, confirm)


def _ask(context: Asked, intent: Intent) -> Confirmation | Elicit[Confirmation]:
    return Elicit(intent.question, Confirmation) if _can_ask(context) else Confirmation(confirm=False)


def _settle(context: Asked, intent: Intent, outcome: ElicitationResult[Confirmation], ask: Words) -> Any:
    server = guard_of(context)
    if not _can_ask(context):
        return {"done": False, "answer": ask, "meant": intent.shown, "confirmation": server.pending.add(intent)}
    if not (isinstance(outcome, AcceptedElicitation) and outcome.data.confirm):
        return {"done": False, "answer": Words.DECLINED}
    return {"done": True, "answer": Words.STORED, "request": send(server.guard, intent, secrets.token_hex(16))}


def _can_ask(context: Asked) -> bool:
    capabilities = context.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None
