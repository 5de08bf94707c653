"""Interactions from Slack, verified and parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from costguard.model.reminder import SAMPLE_REST, SAMPLE_RUN, RequestKind, Subject


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

    @property
    def is_of_sample(self) -> bool:
        return self.subject in (SAMPLE_RUN, SAMPLE_REST)


class JobChoice(StrEnum):
    """The choices that a hint about a job offers."""

    STOP_AFTER = "stop_after"  # its next checkpoint
    NEVER_MIND = "never_mind"


SAMPLE_JOB = "sample"  # of `costguard slack samples`: ids of jobs are longer


@dataclass(frozen=True, slots=True)
class JobClick:
    """A clicked button about a job. `key` is natural, as a ButtonClick's."""

    key: str
    user_id: str
    channel: str
    message_ts: str
    thread_ts: str
    job: str
    choice: JobChoice
    team_id: str = ""

    @property
    def is_of_sample(self) -> bool:
        return self.job == SAMPLE_JOB


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
