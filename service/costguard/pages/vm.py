"""The page of one VM: its lifetimes, charges, events and messages, and the actions that people may ask for."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus

from fastapi import Request
from sqlalchemy import Connection
from starlette.responses import HTMLResponse, Response

from costguard.events import audit_log
from costguard.ledger import fleet_rows as stored_fleet
from costguard.ledger import history, prices
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.ledger.history import LifetimeView, StorageView
from costguard.messages import message_log
from costguard.messages.message_log import LogEntry
from costguard.model.access import Permission, Principal
from costguard.model.instance import InstanceKey
from costguard.model.lifetime import Lifetime
from costguard.model.money import Priced
from costguard.model.price import Price, is_address
from costguard.model.reminder import ReminderRule, RequestKind
from costguard.pages.folding import Folded, folded
from costguard.pages.page import Form, Given, Source, page_router
from costguard.pages.query import BadAddress, instance_key, never_seen
from costguard.pages.rows import Row, rows_of, with_offers
from costguard.pages.show import vm_link
from costguard.reminders import gather
from costguard.reminders.not_stopped import StopDiagnosis
from costguard.reminders.requests import RequestReceipt, RequestWish, ask
from costguard.reminders.watched import Decision
from costguard.spend import fleet
from costguard.web.memo import memo_of
from costguard.web.permissions import Asker

_EVENTS = 100
_MESSAGES = 60
_RUNS = 60  # a VM that is started every morning has hundreds
_STRIP = timedelta(days=30)
_LEAST = 3  # thousandths: the narrowest run that can be seen
_HOUR = timedelta(hours=1)
_MOST_HOURS = 24 * 365
_AGAIN = "Reload the page and try again."

router = page_router()
acting_router = page_router(Permission.INSTANCES)


@dataclass(frozen=True, slots=True)
class RunMark:
    """A run on a bar of a thousand parts; `how` it ended, or "open". Rounded for drawing alone."""

    x: int
    width: int
    how: str
    started_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunStrip:
    """When it ran, from `since` until now; a month at most."""

    since: datetime
    runs: Sequence[RunMark]


@dataclass(frozen=True, slots=True)
class VmPage:
    row: Row
    price_note: str | None  # how old prices of it are that came with Costguard
    not_stopped: StopDiagnosis
    lifetimes: Sequence[LifetimeView]  # the latest
    runs: int  # in all
    strip: RunStrip | None  # None: it has not run within a month
    storage: Sequence[StorageView]
    addresses_from: datetime | None  # from when on an external address is recorded, of a VM that ran before
    prices: Mapping[int, Price]
    events: Sequence[Folded]
    messages: Sequence[LogEntry]
    first_reminder_at: datetime | None  # since it has been due; None: none was sent
    events_shown: int = _EVENTS
    messages_shown: int = _MESSAGES


@dataclass(frozen=True, slots=True)
class VmQuestion:
    """`key` names this form, so that sending it twice asks once. `refusal` says why the action is not possible."""

    kind: RequestKind
    row: Row
    refusal: str
    key: str
    own_stop: str  # what a stop by its keeper does; "" where Costguard asks Compute Engine for it
    storage_rate: Priced  # what its disks go on costing an hour
    longest_keep: timedelta
    due_at: datetime | None  # passed and seen: asking for something answers the reminder

    @property
    def longest_hours(self) -> int:
        return self.longest_keep // _HOUR


@router.get("/vm/{project}/{gce_id}")
def show_vm(request: Request, pages: Given, me: Asker, project: str, gce_id: str) -> HTMLResponse:
    key, source = instance_key(project, gce_id), pages.source

    def gather() -> tuple[datetime, VmPage]:
        now = source.clock.now()
        return now, vm_page(source, key, now)

    as_of, page = memo_of(request).once(("vm", key), gather)
    (row,) = with_offers([page.row], source.rules, me, as_of)
    return pages.renderer.shared_page(request, "vm.html", as_of, (key, row.offers), vm=replace(page, row=row))


@router.get("/vm/{project}/{gce_id}/{action}")
def confirm_action(request: Request, pages: Given, me: Asker, project: str, gce_id: str, action: str) -> HTMLResponse:
    now, form = pages.source.clock.now(), secrets.token_urlsafe(12)
    page = question(pages.source, me, instance_key(project, gce_id), action, now, form)
    return pages.renderer.page(request, "vm_action.html", now, question=page)


@acting_router.post("/vm/{project}/{gce_id}/{action}")
def ask_for(request: Request, pages: Given, me: Asker, form: Form, project: str, gce_id: str, action: str) -> Response:
    """Requests an action. Without JavaScript the VM's own page shows the pending request."""
    key = instance_key(project, gce_id)
    outcome = answer(pages.source, me, key, action, form)
    return pages.after_action(request, outcome.text, vm_link(key))


def vm_page(source: Source, key: InstanceKey, now: datetime, me: Principal | None = None) -> VmPage:
    """Everything that the page shows, read in one transaction. Raises BadAddress where no such VM was ever seen."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        instance_id, row = _row(connection, accrual, source, key, me)
        lifetimes = history.lifetimes_of(connection, accrual, instance_id)
        storage = history.storage_of(connection, accrual, instance_id)
        return VmPage(
            row=row,
            price_note=_price_note(accrual, row),
            not_stopped=gather.why_not_stopped(connection, source.rules, instance_id, row.view.idle, now),
            lifetimes=lifetimes[:_RUNS],
            runs=len(lifetimes),
            strip=_strip([run.stored.span for run in lifetimes], now),
            storage=storage,
            addresses_from=_addresses_from(lifetimes, storage),
            prices=prices.by_id(connection),
            events=folded(audit_log.read(connection, project=key.project, gce_id=key.gce_id, limit=_EVENTS)),
            messages=message_log.of_vm(connection, instance_id, [run.stored.id for run in lifetimes], _MESSAGES),
            first_reminder_at=_first_reminder(connection, row.decision),
        )


def _first_reminder(connection: Connection, decision: Decision | None) -> datetime | None:
    if decision is None or decision.subject is None or decision.due_at is None:
        return None
    return message_log.first_reminder_at(connection, decision.subject, decision.due_at)


def _row(
    connection: Connection, accrual: Accrual, source: Source, key: InstanceKey, me: Principal | None
) -> tuple[int, Row]:
    """Raises BadAddress where no such VM was ever seen."""
    instance_id = stored_fleet.instance_id(connection, key)
    if instance_id is None:
        raise never_seen(key)
    views = fleet.views(connection, accrual, source.rules.limits, [instance_id])
    (row,) = rows_of(connection, views, source.rules, accrual.now, me)
    return instance_id, row


def _price_note(accrual: Accrual, row: Row) -> str | None:
    vm = row.view.instance
    return accrual.note_of(vm.shape, vm.zone, vm.provisioning_model)


def _addresses_from(runs: Sequence[LifetimeView], storage: Sequence[StorageView]) -> datetime | None:
    """Returns the moment before which nothing tells whether it had an address; None where there is no such time."""
    recorded = [one.stored.span.started_at for one in storage if one.stored.span.addresses]
    began = [run.stored.span.started_at for run in runs]
    return min(recorded) if recorded and began and min(began) < min(recorded) else None


def _strip(lifetimes: Sequence[Lifetime], now: datetime) -> RunStrip | None:
    shown = [run for run in lifetimes if (run.ended_at or now) > now - _STRIP]
    if not shown:
        return None
    since = max(now - _STRIP, min(run.started_at for run in shown))
    length = max(now - since, timedelta(seconds=1))

    def place(moment: datetime) -> int:
        return 1000 * (min(now, max(since, moment)) - since) // length

    marks = []
    for run in shown:
        x = min(place(run.started_at), 1000 - _LEAST)
        how = "open" if run.ended_at is None else run.end_reason.value if run.end_reason is not None else "unknown"
        width = max(_LEAST, place(run.ended_at or now) - x)
        marks.append(RunMark(x, width, how, run.started_at, run.ended_at))
    return RunStrip(since, marks)


def question(
    source: Source, me: Principal | None, key: InstanceKey, action: str, now: datetime, form: str
) -> VmQuestion:
    """Raises BadAddress where pages have no such action, or no such VM was ever seen."""
    wanted = _action(action)
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        instance_id, row = _row(connection, accrual, source, key, me)
        storage_rate = Priced()
        for _, resource, size_mib, zone in stored_fleet.open_storage(connection, [instance_id]):
            if resource is not None and is_address(resource):
                continue  # one in use is mostly released with the stop
            storage_rate += Priced.of(accrual.storage_rate(resource, size_mib, zone))
    vm, decision = row.view.instance, row.decision
    offer = next((offer for offer in row.offers if offer.kind is wanted), None)
    preset = source.rules.presets.get(vm.preset)
    due_at = decision.due_at if decision is not None else None
    return VmQuestion(
        kind=wanted,
        row=row,
        refusal=f"You cannot {wanted.value} {vm.name} now." if offer is None else offer.refusal,
        key=form,
        own_stop=vm.own_stop(source.rules.stop_through),
        storage_rate=storage_rate,
        longest_keep=(preset.reminders if preset is not None else ReminderRule()).longest_keep,
        due_at=due_at if due_at is not None and due_at <= now else None,
    )


def answer(source: Source, me: Principal, key: InstanceKey, action: str, form: Mapping[str, str]) -> RequestReceipt:
    """Raises BadAddress for a form that none of our pages sends, and what `ask` raises."""
    wanted = _action(action)
    return ask(
        source.database,
        source.clock,
        source.rules,
        me,
        key,
        RequestWish(
            wanted,
            hours=_hours(form) if wanted is RequestKind.KEEP else None,
            reason=form.get("reason", ""),
            idempotency_key=form.get("key") or None,
            started_at=_moment(form, "started_at"),
            due_at=_moment(form, "due_at"),
        ),
        via="page",
        wake=source.wake,
    )


def _action(name: str) -> RequestKind:
    if name not in list(RequestKind):
        raise BadAddress("There is no such page.", "Look for the VM in the fleet.", HTTPStatus.NOT_FOUND)
    return RequestKind(name)


def _hours(form: Mapping[str, str]) -> int | None:
    """Reads the hours of a keep; None: until tomorrow morning."""
    until = form.get("until", "")
    text = form.get("hours", "") if until == "hours" else until
    if until == "morning":
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_HOURS))
    if not is_number or not 1 <= int(text) <= _MOST_HOURS:
        raise BadAddress("The form does not say how long to keep it.", f"Enter whole hours, from 1 to {_MOST_HOURS}.")
    return int(text)


def _moment(form: Mapping[str, str], name: str) -> datetime | None:
    text = form.get(name, "")
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadAddress(f"The form's {name} is not a time.", _AGAIN) from error
    if moment.tzinfo is None:
        raise BadAddress(f"The form's {name} has no time zone.", _AGAIN)
    return moment
