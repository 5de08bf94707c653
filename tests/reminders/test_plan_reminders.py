"""When a plan reminds whom, and in which words it does not."""

from __future__ import annotations

from typing import Any

from tests.builders import at
from tests.reminders.reminded import (
    ANA,
    BEN,
    CARA,
    DUE,
    HOUR,
    STARTED,
    SUBJECT,
    asked,
    decided,
    idle,
    keep,
    nobody,
    people,
    planned,
    preset,
    resting,
    rules,
    sent,
    vm,
)

from costguard.model.action import SendReminder
from costguard.model.instance import Status
from costguard.model.money import Money
from costguard.model.reminder import QuietRule, RequestKind, Sent, Subject, SubjectKind, Target, Team
from costguard.reminders.decide import addresses_needed
from costguard.reminders.watched import subject_of

LATE = "past the limit of preset t4 (8 h) by "
NOW = at("12:00")


def reason(now: Any = NOW, by: Any = None, lookups: Any = None, **given: Any) -> str:
    return decided(vm(**given), now, by, lookups=lookups).reason


def test_the_first_reminder() -> None:
    """The first reminder comes at the due moment, to its owner, with what it is about."""
    assert planned(vm(), DUE - HOUR / 3600).actions == ()
    plan = planned(vm(), DUE)
    why = f"{LATE}0 s"
    assert plan.actions == (SendReminder(SUBJECT, vm().key, 0, 0, {Target.OWNER: "ana@example.com"}, why),)
    (decision,) = plan.decisions
    assert decision.reason == f"{why}; reminder 1 goes to ana@example.com"
    assert (decision.subject, decision.due_at, decision.next_at) == (SUBJECT, DUE, DUE)


def test_what_people_read() -> None:
    """Each reason to send nothing now, in words."""
    assert reason(sent=(sent(0),)) == f"{LATE}2 h; waits until Slack accepts reminder 1"
    assert reason(at("13:20"), sent=(sent(0, DUE),)) == f"{LATE}3 h 20 min; reminder 2 to ana@example.com in 40 min"
    three = tuple(sent(stage, at(f"{10 + 4 * stage}:00")) for stage in range(3))
    assert reason(at("21:00"), sent=three).endswith("; reminder 4 to ana@example.com, #gpu and cara@example.com in 1 h")
    assert reason(keeps=(keep(at("2026-11-03T09:00")),)) == "left alone: kept until Tue 09:00 UTC by ben@example.com"
    assert reason(lookups={}) == f"{LATE}2 h; Slack was not asked yet who ana@example.com is"
    assert reason(by=rules(channel="")) == f"{LATE}2 h; no reminder is sent: Slack is not set up"
    assert reason(status=Status.PENDING_STOP) == f"{LATE}2 h; it is shutting down"
    failed = tuple(sent(0, None, item, failed=True) for item in Target)
    assert reason(sent=failed) == f"{LATE}2 h; Slack refused reminder 1 for good wherever it could go"
    assert reason(preset="free") == "running for 10 h (preset free sets no limit)"


def test_an_unread_zone_sends_nothing() -> None:
    """The due moment is known all the same, for what was intended before."""
    decision = decided(vm(), NOW, unread=("us-central1-a",))
    assert decision.reason == "not known: us-central1-a could not be read, so nothing is decided about it"
    assert (planned(vm(), NOW, unread=("us-central1-a",)).actions, decision.due_at) == ((), DUE)
    assert not decision.overdue


def test_quiet_hours_are_the_owners() -> None:
    """Nobody is sent anything at night where they are, unless the VM costs more than that is worth."""
    by = rules(quiet=QuietRule(unless_above=Money.of(30)))
    lookups = people(ana="Asia/Tokyo")
    decision = decided(vm(), NOW, by, lookups=lookups)
    assert decision.reason == f"{LATE}2 h; quiet hours of ana@example.com until Tue 08:00"
    assert decision.next_at == at("23:00")
    assert planned(vm(), at("23:00"), by, lookups=lookups).actions
    assert planned(vm(rate=Money.of(31)), NOW, by, lookups=lookups).actions
    soon = decided(vm(sent=(sent(0, at("09:59")),)), NOW, by, lookups=lookups)
    assert soon.reason.endswith("; reminder 2 to ana@example.com in 11 h, when the quiet hours are over")
    waiting = decided(vm(sent=(sent(0),)), NOW, by, lookups=lookups)
    assert waiting.next_at == at("23:00")


def test_the_channels_quiet_hours() -> None:
    """An unowned VM keeps to the settings' time zone."""
    by = rules(quiet=QuietRule(), time_zone="Asia/Tokyo")
    assert reason(by=by, owner="") == f"{LATE}2 h; quiet hours until Tue 08:00 JST"


def test_whom_nobody_knows() -> None:
    """Unclaimed, or without an account in Slack: the channel of the team is asked."""
    team = Team("vision", projects=frozenset({vm().key.project}), channel="#vision")
    by = rules(teams=(team,))
    assert reason(by=by, owner="").endswith("; reminder 1 goes to #vision")
    assert reason(by=by, lookups=nobody(ANA)).endswith("; reminder 1 goes to #vision")


def test_the_contact() -> None:
    """Waited for while not looked up, left out where Slack knows nobody, and never asked twice."""
    three = tuple(sent(stage, DUE) for stage in range(3))
    later = at("14:00")
    lookups = people()
    ana = {ANA: lookups[ANA]}
    assert reason(later, lookups=ana, sent=three).endswith("Slack was not asked yet who cara@example.com is")
    assert reason(later, lookups=ana | nobody(CARA), sent=three).endswith("goes to ana@example.com and #gpu")
    assert reason(later, by=rules(contact=ANA), sent=three).endswith("goes to ana@example.com and #gpu")
    assert reason(later, by=rules(contact=""), sent=three).endswith("goes to ana@example.com and #gpu")


def test_idleness_reminds_sooner() -> None:
    """It is due, though not past its limit."""
    decision = decided(vm(idle=idle(at("03:00"))), at("05:00"))
    assert decision.reason == (
        "running for 3 h (limit of preset t4: 8 h), idle for 2 h; reminder 1 goes to ana@example.com"
    )
    assert not decision.overdue
    assert decided(vm(), NOW).overdue


def test_a_claim_starts_the_stages_anew() -> None:
    """The budget's contact is reminded from the start."""
    later = at("18:00")
    plan = planned(vm(owner=BEN, sent=(sent(0, DUE),), keeps=(keep(later),)), later)
    (send,) = plan.actions
    assert isinstance(send, SendReminder)
    assert (send.cycle, send.stage, send.recipients) == (1, 0, {Target.OWNER: BEN})


def test_a_rest_has_a_ladder_of_its_own() -> None:
    """After three days, then weekly."""
    one = resting()
    rest = Subject(SubjectKind.REST, 1, 7)
    assert subject_of(one) == rest
    assert decided(one, at("2026-11-04T00:00")).reason == "stopped: only what it stores is billed"
    plan = planned(one, at("2026-11-05T02:00"))
    why = "stopped for 3 d, and its storage is billed"
    assert plan.actions == (SendReminder(rest, one.key, 0, 0, {Target.OWNER: "ana@example.com"}, why),)
    assert not plan.decisions[0].overdue
    again = resting(sent=(Sent("k", 0, 0, Target.OWNER, at("2026-11-05T02:00")),))
    assert decided(again, at("2026-11-06T02:00")).reason.endswith("; reminder 2 to ana@example.com in 6 d")
    assert subject_of(resting(rest_since=None)) is None
    assert decided(resting(rest_since=None, status=Status.STOPPING), NOW).reason.startswith("stopping: only what")


def test_who_must_be_looked_up() -> None:
    """Owners of what is due within the hour, contacts of what comes to them, people whose morning is asked for."""
    by = rules(preset())

    def needed(*given: Any, now: Any = NOW) -> set[str]:
        return addresses_needed(given, by, now)

    assert needed(vm(), resting()) == {ANA}
    assert needed(vm(owner="Ana@Example.com"), now=at("09:00")) == {ANA}
    assert needed(vm(), now=at("08:59")) == set()
    assert needed(vm(owner="")) == set()
    assert needed(vm(sent=(sent(0, DUE), sent(1, DUE)))) == {ANA, CARA}
    assert needed(vm(requests=(asked(RequestKind.KEEP, BEN),)), now=STARTED) == {BEN}
    assert addresses_needed([vm()], rules(channel=""), NOW) == set()
