"""The facts of sending: what reached whom, and what kept it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection

from costguard.errors import SlackError
from costguard.ledger import fleet_rows
from costguard.model.fact import Fact
from costguard.reminders.message_rows import Message


def sent(connection: Connection, message: Message, now: datetime) -> list[Fact]:
    """Of reminders alone: what else is sent tells of facts that stand already."""
    if message.kind != "reminder" or message.instance_id is None:
        return []
    vm = next(iter(fleet_rows.known(connection, [message.instance_id])), None)
    if vm is None:
        return []
    reason = message.data.get("reason")
    return [
        Fact(
            key=f"ReminderSent:{message.key}",
            kind="ReminderSent",
            occurred_at=now,
            text=f"Reminder {message.stage + 1} about {vm.name} was sent to {message.address}: {reason}.",
            project=vm.key.project,
            gce_id=vm.key.gce_id,
            name=vm.name,
            data={"message": message.key, "stage": message.stage, "target": message.target, "to": message.address},
        )
    ]


def troubled(scope: str, error: SlackError, now: datetime) -> Fact:
    """Once a day and reason: what goes on for a week is told seven times."""
    where = "to Slack" if scope == "workspace" else f"to {scope}"
    return Fact(
        key=f"SlackTrouble:{scope}:{error.code or type(error).__name__}:{now:%Y-%m-%d}",
        kind="SlackTrouble",
        occurred_at=now,
        text=f"Nothing can be sent {where}: {error}",
        data={"scope": scope, "code": error.code},
    )


def people_unknown(error: SlackError, now: datetime) -> Fact:
    """Once a day and reason, like the others."""
    return Fact(
        key=f"SlackTrouble:people:{error.code or type(error).__name__}:{now:%Y-%m-%d}",
        kind="SlackTrouble",
        occurred_at=now,
        text=f"Slack does not say who people are, so whoever is new cannot be reminded: {error}",
        data={"scope": "people", "code": error.code},
    )


def resumed(scope: str, now: datetime) -> Fact:
    where = "to Slack" if scope == "workspace" else f"to {scope}"
    return Fact(
        key=f"SlackResumed:{scope}:{now.isoformat()}",
        kind="SlackResumed",
        occurred_at=now,
        text=f"Messages {where} are accepted again.",
        data={"scope": scope},
    )
