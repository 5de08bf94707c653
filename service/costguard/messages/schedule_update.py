"""Messages about a schedule: runs that were missed, skipped or refused, to its owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

from sqlalchemy import Connection

from costguard.messages.outbox import Composed, Withdrawn
from costguard.model.delivery.message import NotificationContent
from costguard.model.event import Event
from costguard.model.moments import utc_text
from costguard.reminders.message_rows import NewMessage
from costguard.schedules import schedule_rows
from costguard.schedules.recurrence import in_words
from costguard.schedules.schedule import Schedule

NEWS = "notification"


class ScheduleEvent(StrEnum):
    """Kinds of events that become messages."""

    MISSED = "ScheduleRunMissed"
    REFUSED = "ScheduleRunRefused"


KINDS = tuple(ScheduleEvent)


def messages_of(connection: Connection, events: Sequence[Event]) -> Iterator[NewMessage]:
    """Yields a message to the owner of its schedule for each event."""
    schedules = schedule_rows.of_ids(connection, {_schedule_id(event) for event in events})
    for event in events:
        schedule = schedules.get(_schedule_id(event))
        if schedule is not None:
            yield NewMessage(f"notice/{event.key}", NEWS, schedule.owner, {"events": [event.key]})


def news(connection: Connection, event: Event, url: str) -> Composed | Withdrawn:
    """Announces the run, with the schedule as it is now."""
    schedule = schedule_rows.read(connection, _schedule_id(event))
    if schedule is None:
        return Withdrawn("its schedule is not in the ledger")
    return Composed(content(schedule, event, f"{url}/schedules/{schedule.id}" if url else ""), shown="", is_final=True)


def content(schedule: Schedule, event: Event, url: str) -> NotificationContent:
    is_refused = event.kind == ScheduleEvent.REFUSED
    figures = {"Schedule": f"{schedule.id}, {in_words(schedule.recurrence)}", "Owner": schedule.owner}
    if schedule.next_due is not None:
        figures["Next run"] = utc_text(schedule.next_due)
    return NotificationContent(
        icon="failed" if is_refused else "trouble",
        title=f"A run of {schedule.title} was {'refused' if is_refused else 'not launched'}",
        text=event.text,
        figures=figures,
        what_next=f"Launch it now: costguard schedule run {schedule.id}" if not schedule.state.is_over else "",
        url=url,
    )


def _schedule_id(event: Event) -> str:
    return str(event.data.get("schedule", ""))
