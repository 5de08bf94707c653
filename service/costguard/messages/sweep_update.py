"""Messages about a sweep: one card for all of its members, edited as they progress, and its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Connection

from costguard.ledger.accrual import Accrual, accrual_at
from costguard.ledger.narrate import sentence
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.delivery.message import NotificationContent
from costguard.model.event import Event
from costguard.model.money import priced_text
from costguard.model.sweep import Sweep, SweepState
from costguard.reminders.message_rows import NewMessage
from costguard.sweeps import listing, sweep_rows
from costguard.sweeps.listing import SweepOverview

CARD = "sweep"
NEWS = "notification"
_FEW = 3  # failed members that a card names


class SweepEvent(StrEnum):
    """Kinds of events that become messages."""

    SUBMITTED = "SweepSubmitted"
    SUCCEEDED = "SweepSucceeded"
    FAILED = "SweepFailed"
    CANCELLED = "SweepCancelled"


KINDS = tuple(SweepEvent)
_TITLES = {
    SweepState.RUNNING: ("job", "Sweep {} is running"),
    SweepState.SUCCEEDED: ("done", "Sweep {} has finished"),
    SweepState.FAILED: ("failed", "Sweep {} has failed"),
    SweepState.CANCELLED: ("trouble", "Sweep {} was cancelled"),
}


def thread_of(sweep_id: str) -> str:
    """Returns the thread of a sweep. Its card is the root; news of a single member is a reply."""
    return f"sweep:{sweep_id}"


def messages_of(connection: Connection, events: Sequence[Event]) -> Iterator[NewMessage]:
    """A card for each sweep, and one message about its end, to its owner."""
    sweeps = sweep_rows.of_ids(connection, {sweep_id(event) for event in events})
    for event in events:
        sweep = sweeps.get(sweep_id(event))
        if sweep is None or _is_owners_request(event, sweep):
            continue
        data = {"events": [event.key], "sweep": sweep.id}
        if event.kind == SweepEvent.SUBMITTED:
            yield NewMessage(f"sweep/{sweep.id}/owner", CARD, sweep.owner, data, thread=thread_of(sweep.id))
        else:
            yield NewMessage(f"notice/{event.key}", NEWS, sweep.owner, data)


class SweepCardComposer:
    """`url` is the dashboard's address; "" without one."""

    def __init__(self, url: str = "") -> None:
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        """The sweep as it is now. One that ended before Slack accepted the card needs none."""
        overview = listing.sweep_detail(connection, accrual_at(connection, now), str(message.data["sweep"]))
        if overview is None:
            return Withdrawn("its sweep is not in the ledger")
        sweep = overview.row.sweep
        if sweep.state.is_over and message.status != "accepted":
            return Withdrawn("the sweep is over")
        # A sweep that failed may be resumed, and its card goes on with it.
        is_final = sweep.state is SweepState.SUCCEEDED
        return Composed(
            content(overview, f"{self._url}/sweeps/{sweep.id}" if self._url else ""), _shown(sweep), is_final
        )

    def changed(self, connection: Connection, live: Sequence[StoredMessage], now: datetime) -> list[StoredMessage]:  # noqa: ARG002 one of several
        """Messages that show an outdated state."""
        sweeps = sweep_rows.of_ids(connection, {str(message.data["sweep"]) for message in live})
        now_shown = {sweep.id: _shown(sweep) for sweep in sweeps.values()}
        return [message for message in live if now_shown.get(str(message.data["sweep"])) != message.shown]


def news(connection: Connection, accrual: Accrual, event: Event, url: str) -> Composed | Withdrawn:
    """Announces its end, with the present figures."""
    overview = listing.sweep_detail(connection, accrual, sweep_id(event))
    if overview is None:
        return Withdrawn("its sweep is not in the ledger")
    if not overview.row.sweep.state.is_over:
        return Withdrawn("the sweep was resumed")
    return Composed(content(overview, f"{url}/sweeps/{overview.row.sweep.id}" if url else ""), shown="", is_final=True)


def content(overview: SweepOverview, url: str) -> NotificationContent:
    row, sweep = overview.row, overview.row.sweep
    icon, title = _TITLES[sweep.state]
    is_left = row.succeeded < row.members and sweep.state in (SweepState.FAILED, SweepState.CANCELLED)
    return NotificationContent(
        icon=icon,
        title=title.format(sweep.title),
        text=sentence(sweep.reason),
        figures=_figures(overview),
        what_next=f"Go on with what is left: costguard sweep resume {sweep.id}" if is_left else "",
        url=url,
    )


def _figures(overview: SweepOverview) -> dict[str, str]:
    row, sweep = overview.row, overview.row.sweep
    figures = {"Sweep": f"{sweep.id}, preset {sweep.preset}", "Owner": sweep.owner}
    figures["Members"] = f"{row.succeeded} of {row.members} succeeded, {row.open} open, {row.waiting} waiting"
    failed = [member for member in overview.members if member.state == "failed"]
    if failed:
        named = ", ".join(f"{member.member.number} ({member.job_id})" for member in failed[:_FEW])
        figures["Failed"] = f"{named} and {len(failed) - _FEW} more" if len(failed) > _FEW else named
    best = next((member for member in overview.members if member.is_best), None)
    if best is not None and best.metric is not None and best.metric.best is not None:
        words = " ".join(f"{name}={value}" for name, value in best.member.parameters.items())
        figures["Best"] = f"{best.metric.best.text} with {words}"
    shown = priced_text(row.cost)
    figures["Cost so far"] = shown if sweep.ceiling is None else f"{shown} of at most {sweep.ceiling}"
    return figures


def sweep_id(event: Event) -> str:
    return str(event.data.get("sweep", ""))


def _shown(sweep: Sweep) -> str:
    """The part of a card that an edit is worth: its cost alone changes all the time."""
    return f"{sweep.state.value}|{sweep.reason}"


def _is_owners_request(event: Event, sweep: Sweep) -> bool:
    return event.kind == SweepEvent.CANCELLED and event.actor.lower() == sweep.owner.lower()
