"""What somebody may ask of a VM on a page, and what is put to them before it is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus

from costguard.ledger import fleet_rows as stored_fleet
from costguard.ledger.accrual import accrual_at
from costguard.ledger.burn_rates import priced
from costguard.model.access import Principal
from costguard.model.instance import InstanceKey
from costguard.model.money import Priced
from costguard.model.reminder import ReminderRule, RequestKind
from costguard.pages.asked import BadAddress, never_seen
from costguard.pages.rows import Row, rows_of
from costguard.pages.source import Source
from costguard.reminders.requests import RequestReceipt, ask
from costguard.spend import fleet

_HOUR = timedelta(hours=1)
_MOST_HOURS = 24 * 365
_AGAIN = "Load the page again, and repeat it there."


@dataclass(frozen=True, slots=True)
class Question:
    """`key` names this form, so that sending it twice asks once. `refusal` says why there is nothing to ask."""

    asked: RequestKind
    row: Row
    refusal: str
    key: str
    rests_at: Priced  # what its disks go on costing an hour
    longest_keep: timedelta
    due_at: datetime | None  # seen, and passed: who asks answers that

    @property
    def longest_hours(self) -> int:
        return self.longest_keep // _HOUR


def question(source: Source, me: Principal | None, key: InstanceKey, asked: str, now: datetime, form: str) -> Question:
    """Raises BadAddress where nothing like it is asked on pages, or no such VM was ever seen."""
    wish = wish_of(asked)
    with source.database.read() as connection:
        found = stored_fleet.instance_id(connection, key)
        if found is None:
            raise never_seen(key)
        accrual = accrual_at(connection, now)
        views = fleet.views(connection, accrual, source.rules.limits, [found])
        (row,) = rows_of(connection, views, source.rules, now, me)
        rests_at = Priced()
        for _, resource, size_mib, zone in stored_fleet.open_storage(connection, [found]):
            rests_at += priced(accrual.storage_rate(resource, size_mib, zone))
    offer = next((each for each in row.offers if each.asked is wish), None)
    decision, preset = row.decision, source.rules.presets.get(row.view.instance.preset)
    due_at = decision.due_at if decision is not None else None
    return Question(
        asked=wish,
        row=row,
        refusal=offer.refusal
        if offer is not None
        else f"There is nothing of {row.view.instance.name} to {wish.value} now.",
        key=form,
        rests_at=rests_at,
        longest_keep=(preset.reminders if preset is not None else ReminderRule()).longest_keep,
        due_at=due_at if due_at is not None and due_at <= now else None,
    )


def answer(source: Source, me: Principal, key: InstanceKey, asked: str, form: Mapping[str, str]) -> RequestReceipt:
    """Raises BadAddress for a form that no page of ours sends, and what `ask` raises."""
    wish = wish_of(asked)
    return ask(
        source.database,
        source.clock,
        source.rules,
        me,
        key,
        wish,
        hours=_hours(form) if wish is RequestKind.KEEP else None,
        reason=form.get("reason", ""),
        idempotency_key=form.get("key") or None,
        via="page",
        wake=source.wake,
        started_at=_moment(form, "started_at"),
        due_at=_moment(form, "due_at"),
    )


def wish_of(asked: str) -> RequestKind:
    if asked not in list(RequestKind):
        raise BadAddress("There is no such page.", "Look for the VM in the fleet.", HTTPStatus.NOT_FOUND)
    return RequestKind(asked)


def _hours(form: Mapping[str, str]) -> int | None:
    """None: until tomorrow morning."""
    until = form.get("until", "")
    text = form.get("hours", "") if until == "hours" else until
    if until == "morning":
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST_HOURS))
    if not is_number or not 1 <= int(text) <= _MOST_HOURS:
        raise BadAddress(
            "It is not said for how long to keep it.", f"Give a whole number of hours, 1 to {_MOST_HOURS}."
        )
    return int(text)


def _moment(form: Mapping[str, str], name: str) -> datetime | None:
    text = form.get(name, "")
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadAddress(f"The form's {name} is no moment.", _AGAIN) from error
    if found.tzinfo is None:
        raise BadAddress(f"The form's {name} is in no time zone.", _AGAIN)
    return found
