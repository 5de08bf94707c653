"""Trouble with Slack, as health and as events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from costguard.db.transaction import Database
from costguard.errors import (
    SlackError,
)
from costguard.messages import outbox_rows
from costguard.model.event import Event, new_event


def troubled(scope: str, error: SlackError, now: datetime) -> Event:
    """Makes an event of Slack's refusal, once a day and reason."""
    where = "to Slack" if scope == "workspace" else f"to {scope}"
    return new_event(
        "SlackTrouble",
        now,
        f"Nothing can be sent {where}: {error}",
        *(scope, error.code or type(error).__name__, f"{now:%Y-%m-%d}"),
        data={"scope": scope, "code": error.code},
    )


def people_unknown(error: SlackError, now: datetime) -> Event:
    """Makes an event of a refused lookup of people, once a day and reason."""
    return new_event(
        "SlackTrouble",
        now,
        f"Slack refuses to look up people, so new owners cannot be reminded: {error}",
        *("people", error.code or type(error).__name__, f"{now:%Y-%m-%d}"),
        data={"scope": "people", "code": error.code},
    )


def resumed(scope: str, now: datetime) -> Event:
    where = "to Slack" if scope == "workspace" else f"to {scope}"
    return new_event(
        "SlackResumed",
        now,
        f"Messages {where} are accepted again.",
        *(scope, now.isoformat()),
        data={"scope": scope},
    )


@dataclass(frozen=True, slots=True)
class SlackHealth:
    """`reasons` are sentences that say what to do. Waiting messages are never lost."""

    reasons: tuple[str, ...] = ()
    waiting: int = 0
    waiting_since: datetime | None = None
    is_late: bool = False  # a message waits for longer than it should

    @property
    def is_well(self) -> bool:
        return not self.reasons and not self.is_late


def slack_health(outbox: OutboxTrouble | None, socket: str, now: datetime, patience: timedelta) -> SlackHealth:
    """`outbox` is None where Slack is not set up; `socket` says why nothing can come in over Socket Mode."""
    if outbox is None:
        return SlackHealth()
    troubles = [outbox.workspace, *(f"{channel}: {why}" for channel, why in outbox.channels.items()), socket]
    since = outbox.waiting_since
    return SlackHealth(
        reasons=tuple(filter(None, troubles)),
        waiting=outbox.waiting,
        waiting_since=since,
        is_late=since is not None and now - since > patience,
    )


@dataclass(frozen=True, slots=True)
class OutboxTrouble:
    """The trouble that keeps messages from being sent; empty when there is none."""

    workspace: str = ""
    channels: Mapping[str, str] = field(default_factory=dict)
    waiting: int = 0
    waiting_since: datetime | None = None


def trouble_of(database: Database, workspace: str, channels: Mapping[str, str]) -> OutboxTrouble:
    """Adds the backlog, as any process can read it."""
    with database.read() as connection:
        backlog = outbox_rows.backlog(connection)
    return OutboxTrouble(workspace, channels, backlog.count, backlog.since)
