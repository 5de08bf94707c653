"""A VM's row on a page: its money, its age, what happens next, and the viewer's actions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.access import roles
from costguard.access.rules import Rules
from costguard.model.access import Permission, Principal
from costguard.model.duration import elapsed
from costguard.model.reminder import Ownership, Request, RequestKind
from costguard.reminders import request_rules
from costguard.reminders.gather import look_at
from costguard.reminders.request_rules import pointless
from costguard.reminders.watched import Decision
from costguard.spend.fleet import InstanceView


@dataclass(frozen=True, slots=True)
class AgeBar:
    """A run's age against its limit, in thousandths of the bar's width."""

    age: timedelta
    limit: timedelta | None
    filled: int
    mark: int  # where the limit lies
    is_over: bool


@dataclass(frozen=True, slots=True)
class VmOffer:
    """An action that would make sense now; `refusal` says why the viewer may not ask for it, "" where they may."""

    kind: RequestKind
    refusal: str


@dataclass(frozen=True, slots=True)
class Row:
    view: InstanceView
    bar: AgeBar | None  # None: it is not running
    decision: Decision | None  # None: it was deleted
    pending: tuple[Request, ...] = ()  # requests that no pass has carried out yet
    offers: tuple[VmOffer, ...] = ()


def rows_of(
    connection: Connection, views: Sequence[InstanceView], rules: Rules, now: datetime, me: Principal | None = None
) -> list[Row]:
    """Each VM with what happens next to it, or the reason to leave it alone, as a pass decides it.

    Without `me` nothing is offered; see `with_offers`.
    """
    present = tuple(view.instance.id for view in views if view.instance.gone_at is None)
    plan, watched = look_at(connection, rules, now, present)
    decisions = {decision.key: decision for decision in plan.decisions}
    pending = {vm.key: vm.requests for vm in watched}
    rows = [
        Row(
            view,
            _age_bar(view, now),
            decisions.get(view.instance.key),
            pending.get(view.instance.key, ()),
        )
        for view in views
    ]
    return rows if me is None else with_offers(rows, rules, me, now)


def with_offers(rows: Sequence[Row], rules: Rules, me: Principal, now: datetime) -> list[Row]:
    """The same rows with what this viewer could ask for, apart from what is already pending."""
    offered = []
    for row in rows:
        offers = _offers(rules, me, row.view, row.decision, now) if row.decision is not None else ()
        pending = {request.kind for request in row.pending}
        offered.append(replace(row, offers=tuple(offer for offer in offers if offer.kind not in pending)))
    return offered


def _offers(rules: Rules, me: Principal, view: InstanceView, decision: Decision, now: datetime) -> tuple[VmOffer, ...]:
    """Nothing for viewers who may not act at all: the page says so once, instead of next to each VM."""
    if not me.address or not me.may(Permission.INSTANCES):
        return ()
    actor, vm = roles.actor(me), view.instance
    is_mine = actor.address == vm.owner.lower()
    is_running = view.started_at is not None
    actions = [] if pointless(RequestKind.STOP, actor.address, vm, is_running) else [RequestKind.STOP]
    actions += [RequestKind.KEEP] if decision.due_at is not None else []
    actions += [RequestKind.DISOWN] if is_mine else [RequestKind.CLAIM] if not vm.owner else []
    owned = Ownership(vm.created_by)

    def refusal(action: RequestKind) -> str:
        return request_rules.refusal(action, actor.address, vm, owned, rules, actor.authority, now) or ""

    return tuple(VmOffer(action, refusal(action)) for action in actions)


def _age_bar(view: InstanceView, now: datetime) -> AgeBar | None:
    if view.counts_from is None:
        return None
    age = elapsed(view.counts_from, now)
    limit = view.limit
    if not limit:
        return AgeBar(age, None, 0, 0, is_over=False)
    longest = max(age, limit)
    return AgeBar(age, limit, 1000 * age // longest, 1000 * limit // longest, is_over=age > limit)
