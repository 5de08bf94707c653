"""Plans hold whatever happens: Slack away, people answering, idleness coming and going, time jumping."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reminders.reminded import ANA, BEN, DAY, DUE, HOUR, STARTED, SUBJECT, asked, idle, people, planned, rules, vm
from tests.reminders.reminded import stopping as stopping_preset

from costguard.access.rules import Rules
from costguard.model.action import (
    Action,
    AssignOwner,
    KeepLifetime,
    RefuseRequest,
    SendReminder,
    StopInstance,
    StopOutcome,
)
from costguard.model.delivery.person import AccountLookup
from costguard.model.reminder import Claim, Keep, QuietRule, RequestKind, Sent
from costguard.model.utilisation import Evidence, IdleState
from costguard.reminders.context import quiet_until
from costguard.reminders.decide import decide
from costguard.reminders.watched import FleetPlan, WatchedVm

PRESET = stopping_preset(stop_after=3, grace=2 * HOUR)
MINUTE = timedelta(minutes=1)
ZONE = "Europe/Berlin"
PEOPLE = people(ana=ZONE, ben=ZONE)

spans = st.sampled_from([MINUTE, 20 * MINUTE, HOUR, 4 * HOUR, 9 * HOUR, DAY, 5 * DAY])
waits = st.tuples(st.just("wait"), spans)
acceptances = st.tuples(st.just("accept"), st.integers(0, 2))
events = st.one_of(
    waits,
    waits,
    acceptances,
    acceptances,
    st.tuples(st.just("fail"), st.integers(0, 2)),
    st.tuples(st.just("ask"), st.sampled_from(RequestKind)),
    st.tuples(st.just("idle"), st.sampled_from([*IdleState, None])),
    st.tuples(st.just("unread"), st.booleans()),
    st.tuples(st.just("pass"), st.none()),
)


class Life:
    """A VM past its limit and all that happens to it, with the rules asserted at every pass."""

    def __init__(self, by: Rules) -> None:
        self.by = by
        self.now = DUE - 3 * HOUR
        self.vm = vm()
        self.unread: tuple[str, ...] = ()
        self.asked = 0

    def happen(self, kind: str, value: Any) -> None:
        waiting = [item for item in self.vm.sent if item.accepted_at is None and not item.is_failed]
        match kind:
            case "wait":
                self.now += value
            case "accept" | "fail" if waiting:
                which = waiting[value % len(waiting)]
                done = replace(which, accepted_at=self.now) if kind == "accept" else replace(which, is_failed=True)
                self.vm = replace(self.vm, sent=tuple(done if item is which else item for item in self.vm.sent))
            case "ask":
                self.asked += 1
                request = asked(value, BEN if value is RequestKind.CLAIM else ANA, at=self.now, id=self.asked, hours=4)
                self.vm = replace(self.vm, requests=(*self.vm.requests, request))
            case "idle":
                self.vm = replace(self.vm, idle=self.evidence(value))
            case "unread":
                self.unread = ("us-central1-a",) if value else ()
            case _:
                self.run()

    def evidence(self, state: IdleState | None) -> Evidence | None:
        return replace(idle(self.now - HOUR, weak=self.now.minute % 2 == 1), state=state) if state else None

    def plan(self) -> FleetPlan:
        return planned(self.vm, self.now, self.by, PEOPLE, self.unread)

    def run(self) -> None:
        """Decide, see that the rules hold, and carry it out; an answer may lead to one thing more."""
        first = self.plan()
        self.assert_rules(first)
        self.vm = carried_out(self.vm, first.actions, self.now)
        second = self.plan()
        if not any(isinstance(action, (AssignOwner, KeepLifetime, StopInstance)) for action in first.actions):
            assert second.actions == ()
        assert not set(map(repr, first.actions)) & set(map(repr, second.actions))

    def assert_rules(self, plan: FleetPlan) -> None:
        sends = [action for action in plan.actions if isinstance(action, SendReminder)]
        stops = [action for action in plan.actions if isinstance(action, StopInstance)]
        if self.unread:
            assert plan.actions == ()
        assert len(sends) + len(stops) <= 1
        for send in sends:
            self.assert_reminder(send, plan)
        for stop in stops:
            if stop.request is None:
                refused = [action.request for action in plan.actions if isinstance(action, RefuseRequest)]
                assert set(map(repr, self.vm.requests)) == set(map(repr, refused))  # only who may not answer has asked
                self.assert_warned(stop)

    def assert_reminder(self, send: SendReminder, plan: FleetPlan) -> None:
        due_at = plan.decisions[0].due_at
        mine = [item for item in self.vm.sent if item.cycle == self.vm.cycle]
        accepted = {item.stage for item in mine if item.accepted_at is not None}
        assert due_at is not None
        assert due_at <= self.now
        assert all(one.until <= self.now for one in self.vm.keeps)
        assert send.cycle == self.vm.cycle
        assert accepted == set(range(send.stage))
        assert not {(send.stage, target) for target in send.recipients} & {(item.stage, item.target) for item in mine}
        waiting = {item.target for item in mine if item.accepted_at is None and not item.is_failed}
        assert all(send.recipients.values())
        assert send.recipients
        assert not waiting & set(send.recipients)
        zone = ZONE if self.vm.owner else "UTC"
        assert quiet_until(self.by.quiet, zone, self.vm.rate, self.now) is None

    def assert_warned(self, stop: StopInstance) -> None:
        rule = PRESET.reminders
        firsts: dict[int, datetime] = {}
        for item in self.vm.sent:
            if item.cycle == self.vm.cycle and item.accepted_at is not None:
                firsts[item.stage] = min(item.accepted_at, firsts.get(item.stage, item.accepted_at))
        good = [at for at in firsts.values() if stop.due_at is not None and stop.due_at <= at <= self.now - rule.grace]
        assert len(good) >= rule.stop_after
        weak = self.vm.idle is not None and self.vm.idle.is_weak
        assert self.now >= DUE or not weak


def carried_out(one: WatchedVm, actions: Iterable[Action], now: datetime) -> WatchedVm:
    """The VM as the ledger knows it once a plan was carried out; Slack has accepted nothing yet."""
    for action in actions:
        match action:
            case SendReminder():
                new = [
                    Sent(
                        f"reminder/{SUBJECT}/{action.cycle}/{action.stage}/{target}",
                        action.cycle,
                        action.stage,
                        target,
                        None,
                    )
                    for target in action.recipients
                ]
                one = replace(one, sent=(*one.sent, *new))
            case StopInstance():
                one = replace(without(one, action.request), stop=StopOutcome.FAILED)
            case KeepLifetime():
                done = Keep(SUBJECT, action.until, action.request.by, now)
                one = replace(without(one, action.request), keeps=(*one.keeps, done), stop=None)
            case AssignOwner():
                claim = Claim(1, action.owner, action.request.by, now)
                one = replace(without(one, action.request), claims=(*one.claims, claim), owner=action.owner, stop=None)
            case RefuseRequest():
                one = without(one, action.request)
    return one


def without(one: WatchedVm, request: object) -> WatchedVm:
    return replace(one, requests=tuple(item for item in one.requests if item != request))


@settings(max_examples=100, deadline=None)
@given(st.lists(events, min_size=20, max_size=60), st.booleans())
def test_whatever_happens_to_a_vm(story: list[tuple[str, Any]], is_quiet: bool) -> None:
    """A reminder comes one at a time, the next stage or none, never early, never at night; no stop without its
    warnings.
    """
    life = Life(rules(PRESET, quiet=QuietRule()) if is_quiet else rules(PRESET))
    for kind, value in story:
        life.happen(kind, value)
        life.run()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 7 * 24), st.integers(0, 24), st.sampled_from(["2026-03-27", "2026-10-23"]))
def test_nothing_is_lost_or_doubled_where_clocks_change(late: int, outage: int, day: str) -> None:
    """Each stage goes out once through a week in which the clock changes, and the next is never forgotten."""
    start = datetime.fromisoformat(f"{day}T02:00+00:00")
    by = rules(quiet=QuietRule())
    one, now = vm(running_since=start), start
    accepted: list[int] = []
    while now < start + 7 * DAY:
        is_away = late * HOUR <= now - start < (late + outage) * HOUR
        actions = planned(one, now, by, PEOPLE).actions
        one = carried_out(one, actions, now)
        if not is_away:
            accepted += sorted({item.stage for item in one.sent if item.accepted_at is None})
            one = replace(one, sent=tuple(replace(item, accepted_at=item.accepted_at or now) for item in one.sent))
        now += 30 * MINUTE
    assert accepted == list(range(len(accepted)))
    assert len(accepted) >= 3


@given(st.sampled_from([IdleState.BUSY, IdleState.UNKNOWN, None]), st.integers(0, 8 * 60 - 1), st.booleans())
def test_what_is_not_measured_makes_nothing_due(state: IdleState | None, minutes: int, weak: bool) -> None:
    """A VM within its limit whose idleness is not known is left alone."""
    evidence = replace(idle(STARTED - DAY, weak), state=state) if state else None
    plan = planned(vm(idle=evidence), STARTED + minutes * MINUTE)
    assert plan.actions == ()
    assert plan.decisions[0].due_at == DUE


@given(st.lists(st.integers(0, 30), max_size=8), st.sampled_from([PEOPLE, {}]))
def test_one_decision_for_each_in_order(ages: list[int], lookups: dict[str, AccountLookup]) -> None:
    """The decisions come back in the given order, with a reason."""
    fleet = [vm(name=f"vm-{number}", running_since=DUE - age * HOUR) for number, age in enumerate(ages)]
    decisions = decide(fleet, rules(), {}, lookups, DUE).decisions
    assert [decision.name for decision in decisions] == [item.name for item in fleet]
    assert all(decision.reason for decision in decisions)
