"""The actions of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from costguard.model.instance import InstanceKey
from costguard.model.reminder import Request, Subject, Target


@dataclass(frozen=True, slots=True)
class SendReminder:
    """Sends one stage of reminders to the address of each of its targets. The natural key of each: subject, cycle,
    stage, target.

    `cycle` counts the answers so far (keeps and claims): an answer starts the stages again.
    """

    subject: Subject
    key: InstanceKey
    cycle: int
    stage: int
    recipients: Mapping[Target, str]
    reason: str


@dataclass(frozen=True, slots=True)
class StopInstance:
    """Stop one VM, if it still is the same and as due as it was.

    `request` is the person's, where one asked; else `reminder` is the message whose grace has passed.
    """

    subject: Subject
    key: InstanceKey
    name: str
    zone: str
    rule: str
    reason: str
    due_at: datetime | None
    started_at: datetime
    reminder: str = ""
    request: Request | None = None
    evidence: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KeepLifetime:
    request: Request
    until: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class AssignOwner:
    """`owner` is "" where the person said that it is not theirs."""

    request: Request
    owner: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Cancels the job that a VM runs in place of a stop: after a stop alone the job would start another VM."""

    request: Request
    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class RefuseRequest:
    """The request cannot be carried out (any more); the person receives the reason."""

    request: Request
    reason: str


class StopOutcome(StrEnum):
    """The progress of a stop. What is `unknown` is settled by looking, and asked again under the same request id."""

    INTENDED = "intended"
    ASKED = "asked"  # Google accepted the operation
    DONE = "done"  # the VM was seen stopped
    NOT_NEEDED = "not_needed"  # right before acting, it was not due any more
    FAILED = "failed"
    UNKNOWN = "unknown"
    SHADOW = "shadow"  # would have been done


Action = SendReminder | StopInstance | KeepLifetime | AssignOwner | CancelJob | RefuseRequest
