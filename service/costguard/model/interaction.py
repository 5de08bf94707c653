"""Interactions from Slack, verified and parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from costguard.model.reminder import RequestKind, Subject


@dataclass(frozen=True, slots=True)
class ButtonClick:
    """A clicked button. `key` is natural: Slack may deliver one click more than once."""

    key: str
    user_id: str
    channel: str
    message_ts: str
    thread_ts: str
    kind: RequestKind
    subject: Subject
    hours: int | None = None
    due_at: datetime | None = None  # the due moment that the message showed
    team_id: str = ""  # the clicker's workspace; "" where Slack does not say


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """`/gpu`, with what was typed after it."""

    key: str
    user_id: str
    channel: str
    text: str = ""
    team_id: str = ""  # the workspace that it was typed in


@dataclass(frozen=True, slots=True)
class InteractionReply:
    """The reply to a request of Slack's. `body` None: an empty one."""

    status: int
    body: Mapping[str, object] | None = None
