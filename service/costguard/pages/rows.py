"""VMs as the pages show them: each with its money, its age, what happens next to it, and what may be asked of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.access import roles
from costguard.access.rules import Rules
from costguard.model.access import Permission, Principal
from costguard.model.duration import elapsed
from costguard.model.reminder import Ownership, Request, RequestKind
from costguard.reminders import claims
from costguard.reminders.gather import look_at
from costguard.reminders.request_rules import pointless
from costguard.reminders.watched import Decision
from costguard.spend.fleet import InstanceView


@dataclass(frozen=True, slots=True)
class Bar:
    """A run's age against its limit, in thousandths of the bar's width."""

    age: timedelta
    limit: timedelta | None
    filled: int
    mark: int  # where the limit stands
    is_over: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that it would make sense to ask for; `refusal` says why this person may not, "" where they may."""

    asked: RequestKind
    refusal: str


@dataclass(frozen=True, slots=True)
class Row:
    view: InstanceView
    bar: Bar | None  # None: it does not run
    decision: Decision | None  # None: it is gone
    waiting: tuple[Request, ...] = ()  # what people asked for, and no pass has carried out yet
    offers: tuple[Offer, ...] = ()  # what who looks could ask for


def rows_of(
    connection: Connection, views: Sequence[InstanceView], rules: Rules, now: datetime, me: Principal | None = None
) -> list[Row]:
    """Each VM with what happens next to it, or the guard's own reason to leave it alone, as a pass decides it.

    Without `me` nothing is offered; `offered` adds what somebody may ask for.
    """
    present = tuple(view.instance.id for view in views if view.instance.gone_at is None)
    plan, watched = look_at(connection, rules, now, present)
    decisions = {decision.key: decision for decision in plan.decisions}
    waiting = {vm.key: vm.requests for vm in watched}
    rows = []
    for view in views:
        key = view.instance.key
        decision = decisions.get(key)
        rows.append(Row(view, _bar(view, rules.limits, now), decision, waiting.get(key, ())))
    return rows if me is None else offered(rows, rules, me, now)


def offered(rows: Sequence[Row], rules: Rules, me: Principal, now: datetime) -> list[Row]:
    """The same rows, with what this person could ask for and nobody has asked yet."""
    found = []
    for row in rows:
        offers = _offers(rules, me, row.view, row.decision, now) if row.decision is not None else ()
        asked = {request.asked for request in row.waiting}
        found.append(replace(row, offers=tuple(offer for offer in offers if offer.asked not in asked)))
    return found


def _offers(rules: Rules, me: Principal, view: InstanceView, decision: Decision, now: datetime) -> tuple[Offer, ...]:
    """Nothing for who may ask for nothing at all: that is said once, and not beside each VM."""
    if not me.address or not me.may(Permission.INSTANCES):
        return ()
    actor, vm = roles.actor(me), view.instance
    is_mine = actor.address == vm.owner.lower()
    runs = view.started_at is not None
    wishes = [] if pointless(RequestKind.STOP, actor.address, vm, runs) else [RequestKind.STOP]
    wishes += [RequestKind.KEEP] if decision.due_at is not None else []
    wishes.append(RequestKind.DISOWN if is_mine else RequestKind.CLAIM)
    owned = Ownership(vm.created_by)

    def refusal(wish: RequestKind) -> str:
        return claims.refusal(wish, actor.address, vm, owned, rules, actor.authority, now) or ""

    return tuple(Offer(wish, refusal(wish)) for wish in wishes)


def _bar(view: InstanceView, limits: Mapping[str, timedelta | None], now: datetime) -> Bar | None:
    if view.started_at is None:
        return None
    age = elapsed(view.started_at, now)
    limit = limits.get(view.instance.preset)
    if not limit:
        return Bar(age, None, 0, 0, is_over=False)
    whole = max(age, limit)
    return Bar(age, limit, 1000 * age // whole, 1000 * limit // whole, is_over=age > limit)
