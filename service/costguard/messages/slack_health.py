"""How it stands with Slack, for whoever runs the guard."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.messages.outbox import OutboxTrouble


@dataclass(frozen=True, slots=True)
class SlackHealth:
    """`reasons` are sentences that say what to do; none, and not late: all is well. Nothing that waits is lost."""

    reasons: tuple[str, ...] = ()
    waiting: int = 0
    waiting_since: datetime | None = None
    is_late: bool = False  # something waits for longer than it should

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
