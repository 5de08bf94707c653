"""A VM past its limit, the rules it is under and the people around it, for tests to change one thing of."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.builders import KEY, at

from costguard.access.rules import Access, Rules
from costguard.model.delivery.person import AccountLookup, Person
from costguard.model.instance import Status
from costguard.model.preset import Match, Preset
from costguard.model.reminder import (
    Enforcement,
    Keep,
    QuietRule,
    ReminderRule,
    Request,
    RequestKind,
    Sent,
    Subject,
    SubjectKind,
    Target,
)
from costguard.model.utilisation import Evidence, IdleRule, IdleState
from costguard.reminders.decide import decide
from costguard.reminders.watched import Decision, FleetPlan, WatchedVm

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
STARTED = at("02:00")  # a Monday
DUE = at("10:00")
SUBJECT = Subject(SubjectKind.RUN, 1, 7)
REST = Subject(SubjectKind.REST, 1, 7)
ANA, BEN, CARA = "ana@example.com", "ben@example.com", "cara@example.com"
NEVER_QUIET = QuietRule(days=frozenset(), ends=QuietRule().starts)


def preset(**given: Any) -> Preset:
    return Preset("t4", Match(), 8 * HOUR, idle=IdleRule(500, 500, HOUR), reminders=ReminderRule(**given))


def stopping(**given: Any) -> Preset:
    return preset(**{"enforcement": Enforcement.STOP, **given})


def rules(one: Preset | None = None, **given: Any) -> Rules:
    values: dict[str, Any] = {
        "presets": {"t4": one or preset(), "free": Preset("free", Match(), None)},
        "quiet": NEVER_QUIET,
        "channel": "#gpu",
        "contact": CARA,
        "access": Access(operators=frozenset({"op@example.com"}), admins=frozenset({"root@example.com"})),
        "is_shadow": False,
    }
    return Rules(**{**values, **given})


def people(**zones: str) -> dict[str, AccountLookup]:
    """Ana, Ben and Cara have accounts; `ana="Europe/Berlin"` says where."""
    result = {}
    for name in ("ana", "ben", "cara"):
        address = f"{name}@example.com"
        result[address] = AccountLookup(address, Person(f"U{name}", address, name, zones.get(name, "UTC")), STARTED)
    return result


def nobody(address: str) -> dict[str, AccountLookup]:
    return {address: AccountLookup(address, None, STARTED)}


def vm(**given: Any) -> WatchedVm:
    """It runs since 02:00 and is due at 10:00."""
    values: dict[str, Any] = {
        "key": KEY,
        "name": "debug-ana",
        "zone": "us-central1-a",
        "status": Status.RUNNING,
        "preset": "t4",
        "running_since": STARTED,
        "instance_id": 1,
        "lifetime_id": 7,
        "owner": ANA,
    }
    return WatchedVm(**{**values, **given})


def resting(**given: Any) -> WatchedVm:
    return vm(**{"status": Status.STOPPED, "running_since": None, "rest_since": STARTED, **given})


def idle(since: datetime, weak: bool = False) -> Evidence:
    return Evidence(IdleState.IDLE, since, "GPU under 5 % for 3 h", is_weak=weak)


def sent(
    stage: int, accepted: datetime | None = None, target: Target = Target.OWNER, cycle: int = 0, failed: bool = False
) -> Sent:
    return Sent(f"reminder/{SUBJECT}/{cycle}/{stage}/{target.value}", cycle, stage, target, accepted, failed)


def keep(until: datetime, by: str = BEN) -> Keep:
    return Keep(SUBJECT, until, by, DUE)


def asked(what: RequestKind, by: str = ANA, **given: Any) -> Request:
    values: dict[str, Any] = {"subject": SUBJECT, "user_id": "U", "via": "slack", "at": DUE, "id": 1}
    return Request(f"{what.value}/{by}/{given.get('id', 1)}", what, by=by, **{**values, **given})


def planned(
    one: WatchedVm,
    now: datetime,
    by: Rules | None = None,
    lookups: dict[str, AccountLookup] | None = None,
    unread: tuple[str, ...] = (),
) -> FleetPlan:
    lookups = people() if lookups is None else lookups
    return decide([replace(one, unread=frozenset(unread))], by or rules(), lookups, now)


def decided(one: WatchedVm, now: datetime, by: Rules | None = None, **given: Any) -> Decision:
    return planned(one, now, by, **given).decisions[0]
