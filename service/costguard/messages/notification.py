"""Notifications: events that Slack is sent once each, to a channel, a budget's contact, or a job's owner."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, select

from costguard.access import teams
from costguard.access.rules import Rules
from costguard.db.lease import Lease
from costguard.db.prepared import prepared
from costguard.db.tables import events
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.messages import hint, job_update, schedule_update, sweep_update
from costguard.messages.outbox import Composed, Withdrawn
from costguard.messages.outbox_rows import StoredMessage
from costguard.model.budget import Budget
from costguard.model.delivery.message import NotificationContent
from costguard.model.event import Event
from costguard.model.instance import accelerator_words
from costguard.model.money import ZERO, Money, about_text
from costguard.model.ports import Clock
from costguard.model.reminder import Team
from costguard.reminders import message_rows
from costguard.reminders.message_rows import NewMessage
from costguard.spend import budgets, burning
from costguard.spend.budget import On
from costguard.spend.spend import spend
from costguard.spend.spend_rows import Grouping

KIND = "notification"
# Kinds of events.
_BUDGET, _GPUS, _BURN, _CLAIM = "BudgetThresholdCrossed", "GpusAppeared", "BurnRateUnusual", "OwnerClaimed"
_GENERATION, _UNKNOWN_VM, _PRICE, _BILL = "GenerationBegan", "UnknownVmFound", "PriceRefused", "BillDrifted"
KINDS = (  # that become messages
    _CLAIM,
    _BUDGET,
    _GPUS,
    _BURN,
    _PRICE,
    _GENERATION,
    _UNKNOWN_VM,
    _BILL,
    *job_update.KINDS,
    *sweep_update.KINDS,
    *schedule_update.KINDS,
)
_SHOWN = 3  # of the owners who spent the most, and of refused prices
_NEWS_FOR = timedelta(days=1)  # older events are no news: Slack may be set up on a ledger of years
_GOOD_FOR = timedelta(days=3)
_LATE = timedelta(days=2)  # between an event and its recording
_AT_ONCE = 500  # written in one transaction


def _budget_of(event: Event, rules: Rules) -> Budget | None:
    return next((budget for budget in rules.budgets if budget.name == event.data.get("budget")), None)


def _crossing(connection: Connection, accrual: Accrual, event: Event, rules: Rules, url: str) -> NotificationContent:
    """The budget as it is now; once its period is over, as it was then."""
    content = crossed(event, url)
    budget = _budget_of(event, rules)
    if budget is None:
        return content
    (standing,) = budgets.standings(connection, accrual, [budget], rules.teams)
    outlook = standing.outlook
    if outlook.starts_at.isoformat() != event.data["period_starts_at"]:
        return content
    figures = {
        "Spent": f"{outlook.spent} ({standing.percent}%)",
        "Limit": f"{budget.limit} a {budget.period.value}",
        "Forecast": standing.forecast_text,
        "Now": f"{outlook.rate} an hour",
        **_most(connection, accrual, budget, outlook.starts_at),
    }
    return replace(content, figures=figures)


def crossed(event: Event, url: str) -> NotificationContent:
    """A budget as it was when it crossed a threshold."""
    data = event.data
    limit, spent, expected = (_money(event, name) for name in ("limit", "spent", "forecast"))
    figures = {"Spent": str(spent), "Limit": f"{limit} a {data['period']}", "Forecast": about_text(str(expected))}
    what = "spent" if data["on"] == On.SPENT.value else "forecast to be spent"
    return NotificationContent(
        icon="budget",
        title=f"Budget {data['budget']}: {data['percent']}% {what}",
        text=event.text,
        figures=figures,
        what_next="List what is running, the most expensive first: costguard ps",
        url=url,
    )


def _most(connection: Connection, accrual: Accrual, budget: Budget, since: datetime) -> dict[str, str]:
    """The owners who spent the most; not for the budget of a team, an owner or a job."""
    if any(part is not None for part in (budget.scope.team, budget.scope.owner, budget.scope.job)):
        return {}
    spending = spend(connection, accrual, since.date(), accrual.now.date(), [Grouping.OWNER], budget.scope)
    rows = [row for row in spending.rows if row.amounts.total][:_SHOWN]
    text = ", ".join(f"{row.group[0] or 'unclaimed'} {row.amounts.total}" for row in rows)
    return {"Most spent by": text} if text else {}


def _gpus_appeared(connection: Connection, accrual: Accrual, event: Event, url: str) -> NotificationContent:
    kinds: Counter[str] = Counter()
    rate, is_whole = ZERO, True
    runs = burning.with_gpus(connection, event.project)
    for run in runs:
        kinds[str(run.shape.gpu_type)] += run.shape.gpu_count
        hourly = accrual.rate(run.shape, run.zone, run.provisioning_model)
        is_whole = is_whole and hourly is not None
        rate += hourly or ZERO
    shown = ", ".join(f"{number} x {kind}" for kind, number in kinds.most_common()) or "none now"
    words = accelerator_words(run.shape for run in runs)
    return NotificationContent(
        icon="anomaly",
        title=f"{words} appeared in {event.project}",
        text=event.text,
        figures={f"{words} now": shown, "Now": f"{rate} an hour{'' if is_whole else ' plus what has no price'}"},
        what_next=f"List their owners: costguard ps --project {event.project}",
        url=url,
    )


def _claimed(event: Event, url: str) -> NotificationContent:
    """A claim gives the right to stop the VM, so its team is notified first."""
    return NotificationContent(
        icon="owner",
        title=f"{event.actor} claimed {event.name}",
        text=event.text,
        figures={"Previous owner": str(event.data["before"] or "") or "none", "Project": event.project},
        what_next=f"If that is wrong, an admin or a team operator can take it back: costguard claim {event.name}",
        url=url,
    )


def _unusual_rate(event: Event, url: str) -> NotificationContent:
    return NotificationContent(
        icon="anomaly",
        title=f"{event.project} costs far more an hour than usual",
        text=event.text,
        figures={"Then": f"{_money(event, 'rate')} an hour", "Usual": f"{_money(event, 'usual')} an hour"},
        what_next=f"List what is running, the most expensive first: costguard ps --project {event.project}",
        url=url,
    )


def _bill_drifted(event: Event, url: str) -> NotificationContent:
    worst = event.data["worst"]
    assert isinstance(worst, list)  # as the event was written
    return NotificationContent(
        icon="anomaly",
        title="Google's bill differs from the ledger",
        text="\n".join([event.text, *(f"• {row}" for row in worst)]),
        figures={"Unexplained": str(_money(event, "total"))},
        what_next="See each day and the worst VMs: costguard bill",
        url=url,
    )


def _restored(event: Event, url: str) -> NotificationContent:
    return NotificationContent(
        icon="anomaly",
        title="Costguard is running on a restored or different database",
        text=event.text,
        figures={"Generation": str(event.data["generation"])},
        what_next="List the VMs that it does not know: costguard db unknown",
        url=url,
    )


def _many(events: Sequence[Event], many: int, title: str, figure: str, what_next: str, url: str) -> NotificationContent:
    """Events that are recorded in great numbers at once: the first of them, and how many there are."""
    more = f"\nand {many - _SHOWN} more" if many > _SHOWN else ""
    return NotificationContent(
        icon="anomaly",
        title=title,
        text="\n".join(event.text for event in events[:_SHOWN]) + more,
        figures={figure: str(many)},
        what_next=what_next,
        url=url,
    )


def _money(event: Event, name: str) -> Money:
    nanos = event.data[f"{name}_nanos"]
    assert isinstance(nanos, int)  # as the event was written
    return Money(nanos)


class NotificationWatch:
    """Stores a notification for each event that deserves one. `channel` is for events of no team."""

    def __init__(self, database: Database, clock: Clock, rules: Rules, channel: str) -> None:
        self._database = database
        self._clock = clock
        self._rules = rules
        self._channel = channel

    def intend(self, fence: Lease | None = None) -> list[str]:
        """The keys of those that are new. Writes nothing else."""
        now = self._clock.now()
        with self._database.read() as connection:
            events = recorded_since(connection, KINDS, now - _NEWS_FOR)
            of_jobs = [event for _, event in events if event.kind in job_update.KINDS]
            of_sweeps = [event for _, event in events if event.kind in sweep_update.KINDS]
            of_schedules = [event for _, event in events if event.kind in schedule_update.KINDS]
            of_updates = {*job_update.KINDS, *sweep_update.KINDS, *schedule_update.KINDS}
            others = [(at, event) for at, event in events if event.kind not in of_updates]
            messages = [
                *_messages(others, self._rules, self._channel),
                *job_update.messages_of(connection, of_jobs, self._rules, now),
                *sweep_update.messages_of(connection, of_sweeps),
                *schedule_update.messages_of(connection, of_schedules),
            ]
            stored = message_rows.known(connection, [message.key for message in messages])
        new = [message for message in messages if message.key not in stored]
        for start in range(0, len(new), _AT_ONCE):
            with self._database.write(fence) as connection:
                for message in new[start : start + _AT_ONCE]:
                    message_rows.intend(connection, message, now)
        return [message.key for message in new]


class NotificationComposer:
    """`url` is the dashboard's address; "" without one."""

    def __init__(self, rules: Rules, url: str = "") -> None:
        self._rules = rules
        self._url = url.rstrip("/")

    def __call__(self, connection: Connection, message: StoredMessage, now: datetime) -> Composed | Withdrawn:
        """The event, with figures as they are now."""
        keys = message.data["events"]
        events = events_by_key(connection, [str(key) for key in keys] if isinstance(keys, list) else [])
        if not events:
            return Withdrawn("its event is not in the ledger")
        if message.status != "accepted" and now - message.intended_at >= _GOOD_FOR:
            return Withdrawn("it could not be sent for three days and is no longer news")
        accrual = accrual_at(connection, now)
        if events[0].kind in job_update.KINDS:
            return self._job_update(connection, accrual, events[0], message)
        if events[0].kind in sweep_update.KINDS:
            return sweep_update.news(connection, accrual, events[0], self._url)
        if events[0].kind in schedule_update.KINDS:
            return schedule_update.news(connection, events[0], self._url)
        return Composed(self._content(connection, accrual, events, message), shown="", is_final=True)

    def _job_update(
        self, connection: Connection, accrual: Accrual, event: Event, message: StoredMessage
    ) -> Composed | Withdrawn:
        scene = job_update.read_scene(connection, accrual, job_update.job_id(event))
        if scene is None:
            return Withdrawn("its job is not in the ledger")
        is_hint = hint.is_hint(event)
        is_shown = is_hint and message.status == "accepted"  # its buttons have to go
        if (why := job_update.outdated(scene.job, event)) and not is_shown:
            return Withdrawn(why)
        content = job_update.news(scene, event, self._page(f"/jobs/{scene.job.id}"))
        if is_hint:
            return Composed(content, shown=hint.shown(scene.job), is_final=not content.buttons)
        return Composed(content, shown="", is_final=True)

    def _content(
        self, connection: Connection, accrual: Accrual, events: Sequence[Event], message: StoredMessage
    ) -> NotificationContent:
        event, many = events[0], int(str(message.data.get("count", 1)))
        if event.kind == _BUDGET:
            return _crossing(connection, accrual, event, self._rules, self._page("/budgets"))
        if event.kind == _GPUS:
            return _gpus_appeared(connection, accrual, event, self._page("/"))
        if event.kind == _CLAIM:
            return _claimed(event, self._page(f"/vm/{event.project}/{event.gce_id}"))
        if event.kind == _BURN:
            return _unusual_rate(event, self._page("/"))
        if event.kind == _BILL:
            return _bill_drifted(event, self._page("/bill"))
        if event.kind == _GENERATION:
            return _restored(event, self._page("/health"))
        if event.kind == _UNKNOWN_VM:
            title = "A VM that the ledger does not know" if many == 1 else f"{many} VMs that the ledger does not know"
            what_next = "Adopt or delete each: costguard db unknown"
            return _many(events, many, title, "Found", what_next, self._page("/health"))
        title = "A price was refused" if many == 1 else f"{many} prices were refused"
        what_next = "The last good prices stay in force. Compare Google's price list with: costguard prices"
        return _many(events, many, title, "Refused", what_next, "")

    def _page(self, path: str) -> str:
        return f"{self._url}{path}" if self._url else ""


def recorded_since(connection: Connection, kinds: Collection[str], since: datetime) -> list[tuple[datetime, Event]]:
    """Events of these kinds with when they were recorded, the oldest first."""
    stored = [audit_log.stored(row) for row in connection.execute(*_recorded(list(kinds), since - _LATE, since))]
    return [(event.recorded_at, event.event) for event in stored]


@prepared
def _recorded(kinds: list[str], occurred_since: datetime, recorded_since: datetime) -> Select[Any]:
    at = events.c
    query = select(events).where(at.kind.in_(kinds), at.occurred_at >= occurred_since, at.recorded_at >= recorded_since)
    return query.order_by(at.id)


def events_by_key(connection: Connection, keys: Collection[str]) -> list[Event]:
    """Reads events in the order in which they were recorded."""
    query = select(events).where(events.c.key.in_(list(keys))).order_by(events.c.id)
    return [audit_log.stored(row).event for row in connection.execute(query)]


def _messages(events: Sequence[tuple[datetime, Event]], rules: Rules, channel: str) -> Iterator[NewMessage]:
    # One reading of the catalogue can refuse hundreds of prices for the same reason, and one look after a restore
    # can find many VMs: what was recorded at once is one message.
    grouped: dict[tuple[str, datetime], list[Event]] = defaultdict(list)
    for recorded_at, event in events:
        key = f"notice/{event.key}"
        if event.kind in _GROUPED:
            grouped[_GROUPED[event.kind], recorded_at].append(event)
        elif event.kind == _GENERATION:
            yield from _new(key, channel, [event])
        elif event.kind == _BUDGET:
            yield from _of_budget(event, rules, channel)
        elif event.kind == _CLAIM:
            team = teams.team_of(event.project, str(event.data["before"] or ""), rules.teams)
            yield from _new(key, teams.channel_of(team, rules), [event])
        else:
            team = teams.team_of(event.project, "", rules.teams)
            yield from _new(key, _channel_of(team, channel), [event])
    for (name, recorded_at), group in grouped.items():
        yield from _new(f"notice/{name}/{recorded_at.isoformat()}", channel, group)


_GROUPED = {_UNKNOWN_VM: "unknown", _PRICE: "prices-refused"}


def _of_budget(event: Event, rules: Rules, channel: str) -> Iterator[NewMessage]:
    budget = _budget_of(event, rules)
    if budget is None:
        return
    team = next((team for team in rules.teams if team.name == budget.scope.team), None)
    yield from _new(f"notice/{event.key}", _channel_of(team, channel), [event])
    yield from _new(f"notice/{event.key}/contact", budget.contact, [event])


def _new(key: str, address: str, events: Sequence[Event]) -> Iterator[NewMessage]:
    if address:
        data = {"events": [event.key for event in events[:_SHOWN]], "count": len(events)}
        yield NewMessage(key=key, kind=KIND, address=address, data=data)


def _channel_of(team: Team | None, otherwise: str) -> str:
    return team.channel if team is not None and team.channel else otherwise
