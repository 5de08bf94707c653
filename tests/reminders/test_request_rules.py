"""People's requests have an outcome."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.builders import at
from tests.reminders.reminded import (
    ANA,
    BEN,
    DUE,
    HOUR,
    REST,
    SUBJECT,
    asked,
    decided,
    keep,
    people,
    planned,
    resting,
    rules,
    sent,
    stopping,
    vm,
)

from costguard.model.access import PERMISSIONS, Authority, Role, Via
from costguard.model.action import (
    Action,
    AssignOwner,
    KeepLifetime,
    RefuseRequest,
    SendReminder,
    StopInstance,
    StopOutcome,
)
from costguard.model.instance import Status
from costguard.model.reminder import Claim, Keep, Ownership, Request, RequestKind, Subject, SubjectKind
from costguard.reminders.watched import WatchedVm

NOW = at("12:00")
ROOT = "root@example.com"
OP = "op@example.com"


def outcome(request: Request, one: WatchedVm | None = None, **given: Any) -> Action:
    """The first action about this VM, with the request open."""
    actions = planned(vm(requests=(request,), **given) if one is None else one, NOW).actions
    return actions[0]


def refused(request: Request, one: WatchedVm | None = None, **given: Any) -> str:
    result = outcome(request, one, **given)
    assert isinstance(result, RefuseRequest)
    assert result.request == request
    return result.reason


def test_a_stop() -> None:
    """It is carried out whether due or not, protected or not, and names who asked and how."""
    request = asked(RequestKind.STOP, due_at=DUE, reason="done")
    result = outcome(request, labels={"costguard-protect": "true"})
    assert isinstance(result, StopInstance)
    assert (result.request, result.rule, result.due_at) == (request, "request", DUE)
    assert result.reason == "asked for in Slack by ana@example.com: done"
    early = vm(requests=(asked(RequestKind.STOP, via="api"),), running_since=at("11:00"))
    (result,) = planned(early, NOW).actions
    assert isinstance(result, StopInstance)
    assert result.reason == "asked for over REST by ana@example.com"


@pytest.mark.parametrize("before", [*StopOutcome])
def test_whoever_asks_anew_is_heard_anew(before: StopOutcome) -> None:
    """A person's new request is carried out, whatever became of an earlier stop, in shadow or failed."""
    assert isinstance(outcome(asked(RequestKind.STOP), stop=before), StopInstance)


def test_a_stop_needs_neither_slack_nor_a_limit() -> None:
    """It may come by REST where no channel is set up, about a VM that nobody would ask about."""
    free = vm(preset="free", requests=(asked(RequestKind.STOP),))
    plan = planned(free, NOW, rules(channel=""))
    assert [type(action) for action in plan.actions] == [StopInstance]
    assert plan.decisions[0].reason == "asked for in Slack by ana@example.com"


def test_an_unread_zone_makes_requests_wait() -> None:
    """Nothing is decided and nothing refused until it can be read."""
    waiting = vm(requests=(asked(RequestKind.STOP), asked(RequestKind.KEEP, BEN)))
    assert planned(waiting, NOW, unread=("us-central1-a",)).actions == ()
    assert planned(waiting, NOW, unread=("*",)).actions == ()


def test_a_keep() -> None:
    """It moves the due time, is shown in the person's time zone, and no reminder goes out in the same pass."""
    request = asked(RequestKind.KEEP, due_at=DUE, reason="training")
    one = vm(requests=(request,))
    plan = planned(one, NOW, lookups=people(ana="Europe/Berlin"))
    until = at("2026-11-03T08:00")
    assert plan.actions == (KeepLifetime(request, until, "kept until Tue 09:00 CET by ana@example.com: training"),)
    assert plan.decisions[0].due_at == until


def test_the_fourth_keep_needs_an_admin() -> None:
    """The refusal names an admin."""
    three = tuple(keep(DUE) for _ in range(3))
    reported = refused(asked(RequestKind.KEEP, hours=4), keeps=three)
    assert reported == "It was already kept 3 times; ask an admin: root@example.com."
    assert isinstance(outcome(asked(RequestKind.KEEP, ROOT, hours=4), keeps=three), KeepLifetime)


def test_a_button_from_before_a_keep_does_nothing() -> None:
    """Anyone who pressed it did not know that someone had answered, even when it is due again."""
    for now_kept in (at("16:00"), at("11:00")):
        for what in (RequestKind.STOP, RequestKind.KEEP):
            reported = refused(asked(what, due_at=DUE, hours=4), keeps=(keep(now_kept),))
            assert reported.startswith("ben@example.com kept debug-ana until Mon ")
            assert reported.endswith(f"Type /gpu for buttons to {what.value} it anyway.")


def test_a_button_about_idleness_that_ended_does_nothing() -> None:
    """The VM works again; nobody asks about it until its limit."""
    reported = refused(asked(RequestKind.STOP, due_at=at("05:00")), running_since=at("11:00"))
    assert reported == "debug-ana is no longer due. Type /gpu for buttons to stop it anyway."


def test_a_due_moment_that_only_shifted_is_the_same_question() -> None:
    """Idleness came to be known a little differently, and it is due all the same."""
    assert isinstance(outcome(asked(RequestKind.STOP, due_at=at("09:55"))), StopInstance)


def test_what_is_over_is_told() -> None:
    """Stopped, started again, resting, shutting down, or gone: nothing is done, and the person reads why."""
    stop = asked(RequestKind.STOP)
    stopped = resting(requests=(stop,))
    assert refused(stop, stopped) == "debug-ana is no longer running (stopped): there is nothing left to stop."
    assert refused(stop, lifetime_id=8).startswith("debug-ana was started again since")
    about_rest = asked(RequestKind.STOP, subject=REST)
    assert refused(about_rest, resting(requests=(about_rest,))).startswith("debug-ana is already stopped")
    assert refused(about_rest).startswith("debug-ana was started again")
    assert refused(stop, status=Status.PENDING_STOP) == "debug-ana is already shutting down."
    gone = vm(is_gone=True, requests=(stop, asked(RequestKind.CLAIM, BEN, id=2)))
    plan = planned(gone, NOW, unread=("*",))
    assert [action.reason for action in plan.actions] == [
        "debug-ana no longer exists, so nothing was done.",
        "debug-ana no longer exists, so nothing was done.",
    ]
    assert plan.decisions[0].subject is None


def test_a_keep_of_what_is_being_stopped_comes_too_late() -> None:
    """Google has accepted the stop; before that a keep still prevents it."""
    assert refused(asked(RequestKind.KEEP, hours=4), stop=StopOutcome.ASKED).startswith(
        "debug-ana is already being stopped"
    )
    assert isinstance(outcome(asked(RequestKind.KEEP, hours=4), stop=StopOutcome.INTENDED), KeepLifetime)
    assert refused(asked(RequestKind.KEEP, hours=4), preset="free").startswith("debug-ana has no limit")


def test_a_rest_can_be_kept_for_a_week() -> None:
    """Reminders about storage are so far apart that a keep may last until the next."""
    request = asked(RequestKind.KEEP, hours=7 * 24, subject=REST)
    result = outcome(request, resting(requests=(request,)))
    assert isinstance(result, KeepLifetime)
    assert refused(asked(RequestKind.KEEP, hours=7 * 24)).startswith("It can be kept for at most 3 d")


def test_permission_is_looked_at_again() -> None:
    """It may have been lost since, with the VM's owner."""
    reported = refused(asked(RequestKind.STOP, ANA), owner=BEN)
    assert reported == "Only ben@example.com or an admin can stop debug-ana."


def test_a_role_that_was_granted_on_the_server_is_honoured() -> None:
    """A person whom no list names may what the role lets them that came with their token, an admin's keeps too."""
    guest = "guest@else.example"
    admin, operator = (
        Authority(guest, role, PERMISSIONS[role], Via.LINK, is_granted=True) for role in (Role.ADMIN, Role.OPERATOR)
    )
    assert isinstance(outcome(asked(RequestKind.STOP, guest, via="page", authority=admin)), StopInstance)
    assert "Only" in refused(asked(RequestKind.STOP, guest, authority=operator))
    worn = [keep(at("11:00"), ANA)] * 3
    assert isinstance(
        outcome(asked(RequestKind.KEEP, guest, hours=4, authority=admin), keeps=tuple(worn)), KeepLifetime
    )


def test_what_a_token_may_is_looked_at_again() -> None:
    """An admin's token for operators keeps no oftener than they may, and a demoted admin's stops nobody else's VM."""
    operator = Authority(ROOT, Role.OPERATOR, PERMISSIONS[Role.OPERATOR], Via.TOKEN, token_id="4f0e19a2c7")
    assert (
        refused(asked(RequestKind.STOP, ROOT, authority=operator))
        == "Only ana@example.com or an admin can stop debug-ana."
    )
    worn = tuple([keep(at("11:00"), ROOT)] * 3)
    assert isinstance(outcome(asked(RequestKind.KEEP, ROOT, hours=4), owner=ROOT, keeps=worn), KeepLifetime)
    assert "admin" in refused(asked(RequestKind.KEEP, ROOT, hours=4, authority=operator), owner=ROOT, keeps=worn)
    was_admin = Authority(BEN, Role.ADMIN, PERMISSIONS[Role.ADMIN], Via.OIDC)
    assert "lacks the permission instances" in refused(asked(RequestKind.STOP, BEN, authority=was_admin))


def test_claiming_and_disowning() -> None:
    """The owner changes at once; to claim one's own, or to disown an unowned VM, changes nothing."""
    claim, disown = asked(RequestKind.CLAIM, OP), asked(RequestKind.DISOWN)
    assert outcome(claim, owner="") == AssignOwner(claim, OP, "op@example.com claimed debug-ana")
    assert refused(asked(RequestKind.CLAIM, BEN), owner="") == "Only an operator or an admin can take over debug-ana."
    assert outcome(disown) == AssignOwner(disown, "", "ana@example.com said that debug-ana is not theirs")
    by_root = asked(RequestKind.DISOWN, ROOT)
    assert outcome(by_root) == AssignOwner(by_root, "", "root@example.com said that debug-ana is not ana@example.com's")
    assert refused(asked(RequestKind.CLAIM, ANA)) == "debug-ana is already yours."
    assert refused(by_root, owner="") == "debug-ana is already unowned."


def test_a_claim_outlives_the_run() -> None:
    """The ownership has nothing to do with its being started again."""
    claim = asked(RequestKind.CLAIM, OP, subject=Subject(SubjectKind.RUN, 1, 3))
    assert isinstance(outcome(claim, owner=""), AssignOwner)


def test_a_claim_of_this_moment_stops_nothing() -> None:
    """Until the channel was notified of it, or an hour has passed: the plan asks what a request asks when it comes."""
    stop = asked(RequestKind.STOP, OP)
    claimed = Ownership(claim=Claim(1, OP, OP, NOW - timedelta(minutes=59)))
    assert refused(stop, owner=OP, ownership=claimed).startswith("debug-ana was claimed less than an hour ago.")
    notified = replace(claimed, claim=Claim(1, OP, OP, NOW - timedelta(minutes=59), notified_at=NOW))
    assert isinstance(outcome(stop, owner=OP, ownership=notified), StopInstance)


def test_one_answer_a_pass() -> None:
    """The first that is carried out changes what the others are about; they wait, in the order of asking."""
    stranger = asked(RequestKind.STOP, BEN, id=1)
    first = asked(RequestKind.KEEP, id=2, hours=4, due_at=DUE)
    second = asked(RequestKind.STOP, id=3, due_at=DUE)
    plan = planned(vm(requests=(second, first, stranger)), NOW)
    assert [type(action) for action in plan.actions] == [RefuseRequest, KeepLifetime]
    after = vm(requests=(second,), keeps=(Keep(SUBJECT, NOW + 4 * HOUR, ANA, NOW),))
    assert [type(action) for action in planned(after, NOW).actions] == [RefuseRequest]


def test_a_refusal_changes_nothing_else() -> None:
    """The VM is as due as it was: its reminder goes out in the same pass."""
    plan = planned(vm(requests=(asked(RequestKind.STOP, BEN),)), NOW)
    assert [type(action) for action in plan.actions] == [RefuseRequest, SendReminder]
    assert decided(vm(requests=(asked(RequestKind.STOP, BEN),)), NOW).reason.endswith(
        "reminder 1 goes to ana@example.com"
    )


def test_a_rule_does_not_overtake_a_person() -> None:
    """A VM kept in the very pass in which the grace ended is kept."""
    by = rules(stopping(stop_after=1))
    silent = vm(sent=(sent(0, DUE),))
    assert [type(action) for action in planned(silent, NOW, by).actions] == [StopInstance]
    kept = vm(sent=(sent(0, DUE),), requests=(asked(RequestKind.KEEP, hours=4),))
    assert [type(action) for action in planned(kept, NOW, by).actions] == [KeepLifetime]
