"""The command `/gpu`: a person's VMs, or all that they may act on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from sqlalchemy import Connection

from costguard.access import roles
from costguard.access.rules import Rules
from costguard.model.access import Role
from costguard.model.delivery.message import Button, EphemeralContent, ListContent, VmCard
from costguard.model.instance import noun_of
from costguard.model.reminder import Ownership, RequestKind, Subject
from costguard.reminders import watched_rows
from costguard.reminders.request_rules import refusal
from costguard.reminders.requests import subject_of
from costguard.reminders.watched_rows import WatchedRow

Cards = Callable[[Connection, Sequence[Subject], datetime], list[tuple[VmCard, tuple[Button, ...], str]]]

_SHOWN = 15  # each is composed while Slack waits, and one message holds no more
_OVERSEERS = frozenset({Role.OPERATOR, Role.ADMIN})
HELP = (
    "/gpu lists your VMs and other resources, with buttons to stop or keep them.\n"
    "/gpu all lists every VM and other resource that you may act on, as an operator or an admin.\n"
    "/gpu help shows this text."
)


def fixed_answer(text: str) -> EphemeralContent | None:
    """The help text, or that there is no such command; None where a list is wanted."""
    words = text.lower().split()
    if words in ([], ["mine"], ["all"]):
        return None
    return EphemeralContent(HELP if words == ["help"] else f"There is no command /gpu {text}.\n{HELP}")


def vm_list(
    connection: Connection, rules: Rules, cards: Cards, address: str, text: str, now: datetime
) -> ListContent | EphemeralContent:
    """The VMs of this person, or all that they may keep: running ones first, the longest running first."""
    fleet = watched_rows.read(connection)
    rows = [row for row in fleet if row.owner.lower() == address]
    title = f"Your {_noun(rows)}s"
    if text.lower().split() == ["all"]:
        own = len(rows)
        rows = [row for row in fleet if refusal(RequestKind.KEEP, address, row, Ownership(), rules, None, now) is None]
        title = f"All {_noun(rows)}s that you may act on"
        if len(rows) == own and roles.role_of(address, rules.access) not in _OVERSEERS:
            return EphemeralContent("/gpu all is for operators and admins. /gpu lists your own.")
    title = f"{title}: {_counted(rows)}"
    if not rows:
        return EphemeralContent(f"{title}. Costguard knows you as {address}.")
    shown = sorted(rows, key=_longest_running_first)[:_SHOWN]
    contents = cards(connection, [subject_of(row) for row in shown], now)
    return ListContent(title, tuple(contents), more=len(rows) - len(shown))


def _noun(rows: Sequence[WatchedRow]) -> str:
    return noun_of(row.key.kind for row in rows)


def _counted(rows: Sequence[WatchedRow]) -> str:
    """`2 running, 1 not running`"""
    running = sum(row.started_at is not None for row in rows)
    counts = {"running": running, "not running": len(rows) - running}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none"


def _longest_running_first(row: WatchedRow) -> tuple[bool, datetime]:
    return row.started_at is None, row.started_at or row.rests_since or datetime.max.replace(tzinfo=UTC)
