"""`/gpu`: somebody's VMs, or all that they may act on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection

from costguard.access import roles
from costguard.access.roles import Actor
from costguard.access.rules import Rules
from costguard.model.access import Role
from costguard.model.message import Button, ListContent, VmCard, WhisperContent
from costguard.model.reminder import Asked, Ownership, Subject
from costguard.reminders import watched_rows
from costguard.reminders.requests import refusal, subject_of
from costguard.reminders.watched_rows import WatchedRow

Cards = Callable[[Connection, Sequence[Subject], datetime], list[tuple[VmCard, tuple[Button, ...], str]]]

_SHOWN = 15  # each is composed while Slack waits, and one message holds no more
_OVERSEERS = frozenset({Role.OPERATOR, Role.ADMIN})
HELP = (
    "/gpu lists your VMs, with buttons to stop or keep them.\n"
    "/gpu all lists every VM that you may act on, as an operator or an admin.\n"
    "/gpu help says this."
)


def answer_at_once(text: str) -> WhisperContent | None:
    """What can be said without knowing who asks; None when a list is wanted."""
    words = text.lower().split()
    if words in ([], ["mine"], ["all"]):
        return None
    return WhisperContent(HELP if words == ["help"] else f"There is no /gpu {text}.\n{HELP}")


def listing(
    connection: Connection, rules: Rules, cards: Cards, address: str, text: str, now: datetime
) -> ListContent | WhisperContent:
    """Those that run first, the longest first. Without any, a sentence."""
    there = watched_rows.read(connection)
    found = [row for row in there if row.owner.lower() == address]
    title = "Your VMs"
    if text.lower().split() == ["all"]:
        own, title = len(found), "All VMs that you may act on"
        found = [row for row in there if refusal(rules, Asked.STOP, Actor(address), row, Ownership(), now) is None]
        if len(found) == own and roles.role_of(address, rules.access) not in _OVERSEERS:
            return WhisperContent("/gpu all is for operators and admins; /gpu lists your own VMs.")
    title = f"{title}: {_counted(found)}"
    if not found:
        return WhisperContent(f"{title}. Costguard knows you as {address}.")
    shown = sorted(found, key=_longest_running_first)[:_SHOWN]
    made = cards(connection, [subject_of(row) for row in shown], now)
    return ListContent(title, tuple(made), more=len(found) - len(shown))


def _counted(rows: Sequence[WatchedRow]) -> str:
    """`2 run, 1 is at rest`."""
    running = sum(row.started_at is not None for row in rows)
    resting = len(rows) - running
    parts = [f"{running} run{'s' if running == 1 else ''}"] if running else []
    parts += [f"{resting} {'is' if resting == 1 else 'are'} at rest"] if resting else []
    return ", ".join(parts) or "none is there"


def _longest_running_first(row: WatchedRow) -> tuple[bool, datetime]:
    return row.started_at is None, row.started_at or row.rests_since or datetime.max.replace(tzinfo=UTC)
