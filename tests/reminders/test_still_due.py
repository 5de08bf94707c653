"""Right before a VM is stopped, the decision of a pass is asked once more, with all that is known by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update
from tests.builders import PROJECT, at, seen
from tests.fakes import FakeCloud
from tests.jobs import job_rows
from tests.reminders.execute_setup import ANA
from tests.reminders.last_check_setup import FREE, LATER_LIMIT, PRESET, ROOT, RULES, Judged, judged_at
from tests.reminders.reminder_rows import stop

from costguard.access.rules import Access, Protection, Rules
from costguard.daemon.reconcile import PassActs, Reconciler
from costguard.db.lease import acquire
from costguard.db.tables import instances, projects
from costguard.db.transaction import Database
from costguard.ledger import answers
from costguard.ledger.observe import Belonging
from costguard.ledger.owner import OwnerRules
from costguard.model.action import StopOutcome
from costguard.model.attempt import ATTEMPT_LABEL, AttemptState
from costguard.model.instance import InstanceKey
from costguard.model.job import JobState
from costguard.model.preset import OTHER, Preset
from costguard.model.reminder import Claim, Keep, ReminderRule, Request, RequestKind, Subject
from costguard.model.utilisation import IdleState
from costguard.reminders import gather, request_rows
from costguard.reminders.stop_case import ByTheRules

BEN = "ben@example.com"


@pytest.fixture
def judged(sqlite_database: Database) -> Judged:
    return judged_at(sqlite_database)


def keep(judged: Judged) -> None:
    request = judged.scene.ask(judged.subject, RequestKind.KEEP, by=ROOT)
    with judged.scene.database.write() as connection:
        assert request.id is not None
        answers.add_keep(connection, Keep(judged.subject, at("16:00"), ROOT, at("12:00")), request.id)
        request_rows.settle(connection, request.id, "done", "kept", at("12:00"))


def keep_that_ended(judged: Judged) -> None:
    request = judged.scene.ask(judged.subject, RequestKind.KEEP, by=ROOT)
    with judged.scene.database.write() as connection:
        assert request.id is not None
        answers.add_keep(connection, Keep(judged.subject, at("11:30"), ROOT, at("11:01")), request.id)
        request_rows.settle(connection, request.id, "done", "kept", at("12:00"))


def claim(judged: Judged) -> None:
    request = judged.scene.ask(judged.subject, RequestKind.CLAIM)
    with judged.scene.database.write() as connection:
        assert request.id is not None
        answers.add_claim(connection, Claim(judged.subject.instance_id, ANA, ANA, at("12:00")), request.id)
        request_rows.settle(connection, request.id, "done", "claimed", at("12:00"))


def press_keep(judged: Judged) -> None:
    judged.scene.ask(judged.subject, RequestKind.KEEP, by=ROOT, hours=4)


def ask_for_a_stop(judged: Judged) -> None:
    judged.scene.ask(judged.subject, RequestKind.STOP, by=ROOT)


def attach_to_a_job(judged: Judged) -> None:
    with judged.scene.database.write() as connection:
        job_rows.added(connection, owner=ANA, project=PROJECT, state=JobState.RUNNING)
        job_rows.attempt(connection, project=PROJECT, name="vm-1", state=AttemptState.RUNNING, gce_id="1001")
        connection.execute(update(instances).values(job="j7k2m9q4", labels={ATTEMPT_LABEL: "vm-1"}))


def start_again(judged: Judged) -> None:
    """Starts it again in the ledger; what Google shows of the start differs by seconds alone."""
    judged.scene.come_to_rest()
    vm = seen(key=InstanceKey(PROJECT, "1001"), name="vm-1", started="12:01", fingerprint="again")
    judged.scene.look(vm, read="12:02")
    judged.google.vms[PROJECT, "us-central1-a", "vm-1"].started_at = at("12:01")


def come_to_rest(judged: Judged) -> None:
    judged.scene.come_to_rest()


def protect(judged: Judged) -> None:
    judged.at_google(costguard_protect="paper")


def move_to_a_preset_without_a_limit(judged: Judged) -> None:
    judged.at_google(free="yes")


def earlier_stop_failed(judged: Judged) -> None:
    with judged.scene.database.write() as connection:
        subject = judged.subject
        stop(
            connection, subject.instance_id, subject.lifetime_id, at("11:59"), outcome="failed", settled_at=at("11:59")
        )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (keep, f"kept until Mon 16:00 UTC by {ROOT}"),
        (keep_that_ended, "quiet hours until"),
        (claim, "quiet hours until"),
        (press_keep, f"kept until Mon 16:00 UTC by {ROOT}"),
        (ask_for_a_stop, f"asked for in Slack by {ROOT}"),
        (attach_to_a_job, "job j7k2m9q4, which it works on, has its own limits"),
        (come_to_rest, "vm-1 was stopped on Mon 2 Nov 12:00 UTC"),
        (start_again, "vm-1 was stopped on Mon 2 Nov 12:00 UTC"),
        (protect, "protected by label costguard-protect: paper"),
        (move_to_a_preset_without_a_limit, "preset free sets no limit"),
        (earlier_stop_failed, "it could not be stopped"),
    ],
)
def test_what_happens_after_the_decision_undoes_it(judged: Judged, change: Callable[[Judged], None], why: str) -> None:
    """An answer, a request, a job, another run, a label: the VM is left alone, for the reason that a pass gives."""
    outcome = judged.carry_out(judged.decided(), lambda: change(judged))
    assert (outcome.result, judged.google.calls) == ("not_needed", [])
    assert why in outcome.text


def test_as_due_as_it_was(judged: Judged) -> None:
    """Warned twice, nobody answered, and the grace is over: it is stopped, in quiet hours too."""
    outcome = judged.carry_out(judged.decided())
    assert (outcome.result, [call[:2] for call in judged.google.calls]) == ("asked", [("stop", "1001")])


def test_a_gap_after_the_decision_gives_people_time(judged: Judged) -> None:
    """The guard's machine slept between the decision and the stop: the grace begins again."""
    outcome = judged.carry_out(judged.decided(), answers_since=at("11:59"))
    assert judged.google.calls == []
    assert "is stopped" in outcome.text


@pytest.mark.parametrize(("unheld", "stops"), [(timedelta(seconds=20), 1), (timedelta(minutes=50), 0)])
def test_no_pass_stops_a_vm_right_after_nobody_watched(judged: Judged, unheld: timedelta, stops: int) -> None:
    """The grace begins again if nobody could answer for most of it. A short restart changes nothing."""
    scene, now = judged.scene, judged.scene.clock.now()
    ttl = timedelta(seconds=9)
    acquire(scene.database, "daemon", "before", ttl, now - unheld - ttl)
    lease = acquire(scene.database, "daemon", "after", ttl, now)
    executor = scene.executor(still_due=ByTheRules(judged.rules))
    reconciler = Reconciler(
        scene.database,
        FakeCloud({}),
        scene.clock,
        list,
        judged.rules,
        Belonging((), OwnerRules()),
        acts=PassActs(executor=executor),
    )
    reconciler.act(lease)
    assert len(judged.google.calls) == stops


def test_a_request_that_is_refused_holds_nothing_up(judged: Judged) -> None:
    """Ben may not keep an unowned VM: what a pass would refuse is no answer."""
    outcome = judged.carry_out(judged.decided(), lambda: judged.scene.ask(judged.subject, RequestKind.KEEP, by=BEN))
    assert outcome.result == "asked"


def _preset(**given: object) -> Callable[[Rules], Rules]:
    def changed(rules: Rules) -> Rules:
        preset: Preset = replace(PRESET, **given)  # type: ignore[arg-type]
        return replace(rules, presets={OTHER: preset, "free": FREE})

    return changed


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda rules: replace(rules, is_shadow=True), "would be stopped now, were it not for shadow mode"),
        (lambda rules: replace(rules, protection=Protection(names=("vm-*",))), "protected by name vm-*"),
        (lambda rules: replace(rules, channel=""), "no reminder is sent: Slack is not set up"),
        (_preset(limit=None), "preset other sets no limit"),
        (_preset(limit=timedelta(hours=9)), "running for 2 h (limit of preset other: 9 h)"),
        (_preset(reminders=ReminderRule()), "past the limit of preset other"),
        (_preset(reminders=replace(PRESET.reminders, stop_after=3)), "reminder 3 "),
        (_preset(reminders=replace(PRESET.reminders, grace=timedelta(hours=2))), "is stopped Mon 13:00 UTC"),
        (_preset(reminders=replace(PRESET.reminders, grace=timedelta())), "what that rested on has changed"),
        (_preset(reminders=replace(PRESET.reminders, stop_after=1)), "what that rested on has changed"),
    ],
)
def test_settings_that_changed(judged: Judged, change: Callable[[Rules], Rules], why: str) -> None:
    """A stop that was intended before a restart is not carried out under settings that do not ask for it."""
    outcome = judged.carry_out(judged.decided(), rules=change(RULES))
    assert (outcome.result, judged.google.calls) == ("not_needed", [])
    assert why in outcome.text


def test_what_changed_is_decided_again(judged: Judged) -> None:
    """The next pass stops it under a rule with a shorter grace, and writes down that rule."""
    shorter = _preset(reminders=replace(PRESET.reminders, grace=timedelta(minutes=10)))(RULES)
    assert judged.carry_out(judged.decided(), rules=shorter).result == "not_needed"
    judged.rules = shorter
    assert judged.carry_out(judged.decided()).result == "asked"
    assert [stop.outcome for stop in judged.scene.stops(judged.subject)] == [StopOutcome.NOT_NEEDED, StopOutcome.ASKED]


@pytest.fixture
def idle(sqlite_database: Database) -> Judged:
    """Due for its idleness since 10:10; its limit passes at 19:00."""
    judged = judged_at(sqlite_database, rules=LATER_LIMIT)
    judged.measured(IdleState.IDLE)
    return judged


@pytest.mark.parametrize(
    "change",
    [
        lambda idle: idle.measured(IdleState.BUSY, since="11:59"),
        lambda idle: idle.measured(IdleState.UNKNOWN, since="11:59"),
        lambda idle: idle.measured(IdleState.IDLE, since="11:55"),
        lambda idle: idle.measured(IdleState.IDLE, is_weak=True),
        lambda idle: idle.measured(IdleState.IDLE, good_until="11:59"),
    ],
)
def test_idleness_that_is_not_what_it_was(idle: Judged, change: Callable[[Judged], None]) -> None:
    """Busy, unknown, idle for too short a time, weak, or measured too long ago: nobody was warned of that."""
    outcome = idle.carry_out(idle.decided(), lambda: change(idle))
    assert (outcome.result, idle.google.calls) == ("not_needed", [])


def test_idleness_that_lasts(idle: Judged) -> None:
    """Measured once more and still idle: it is stopped."""
    outcome = idle.carry_out(idle.decided(), lambda: idle.measured(IdleState.IDLE, good_until="14:00"))
    assert outcome.result == "asked"


def unread(judged: Judged, scopes: list[str]) -> None:
    parts = [{"scope": scope, "reason": "it did not answer", "code": "unavailable"} for scope in scopes]
    with judged.scene.database.write() as connection:
        connection.execute(update(projects).where(projects.c.project == PROJECT).values(unread=parts))


@pytest.mark.parametrize("by_rule", [True, False])
def test_a_zone_that_could_not_be_read_is_waited_for(judged: Judged, by_rule: bool) -> None:
    """Nothing is decided about it, as in a pass: the stop stays open, and goes on when the zone is read again."""
    action = judged.decided() if by_rule else judged.scene.stop_by_ana(judged.subject, request=asked(judged))
    outcome = judged.carry_out(action, lambda: unread(judged, ["us-central1-a"]))
    assert (outcome.result, judged.google.calls) == ("intended", [])
    assert "us-central1-a could not be read" in outcome.text
    unread(judged, [])
    judged.scene.clock.advance(timedelta(minutes=1))
    judged.settle()
    assert [call[:2] for call in judged.google.calls] == [("stop", "1001")]


def asked(judged: Judged) -> Request:
    return judged.scene.ask(judged.subject, by=ROOT, key="by root", at=at("11:59"))


def refuse(judged: Judged) -> None:
    with judged.scene.database.write() as connection:
        for _, request in request_rows.open_requests(connection):
            assert request.id is not None
            request_rows.settle(connection, request.id, "refused", "You may not.", at("12:00"))


@pytest.mark.parametrize(
    ("change", "result", "why"),
    [
        (keep, "not_needed", f"{ROOT} kept vm-1 until Mon 16:00 UTC after your request"),
        (keep_that_ended, "asked", "Google accepted it"),
        (refuse, "not_needed", "the request for it was settled meanwhile"),
        (attach_to_a_job, "intended", "so job j7k2m9q4 is cancelled"),
        (come_to_rest, "not_needed", "vm-1 was stopped on Mon 2 Nov 12:00 UTC"),
        (protect, "asked", "Google accepted it"),
    ],
)
def test_a_stop_that_a_person_asked_for(
    judged: Judged, change: Callable[[Judged], None], result: str, why: str
) -> None:
    """The stop is judged by what a pass would answer them now: rules that protect VMs bind no people, a later keep
    does.
    """
    action = judged.scene.stop_by_ana(judged.subject, request=asked(judged))
    outcome = judged.carry_out(action, lambda: change(judged))
    assert outcome.result == result
    assert why in outcome.text


def test_a_person_who_lost_the_right(judged: Judged) -> None:
    """Root is no admin any more when the VM is about to be stopped: the request is refused, and they are notified."""
    action = judged.scene.stop_by_ana(judged.subject, request=asked(judged))
    outcome = judged.carry_out(action, rules=replace(RULES, access=Access()))
    assert (outcome.result, judged.google.calls) == ("not_needed", [])
    assert "Only an operator or an admin can stop vm-1" in outcome.text
    assert ("refused", outcome.text) in judged.scene.requests()


def test_without_an_answer_no_subject_is_mistaken(judged: Judged) -> None:
    """A stop that names another lifetime of the VM is not carried out, however due the present one is."""
    action = judged.decided()
    other = Subject(action.subject.kind, action.subject.instance_id, action.subject.lifetime_id + 1)
    assert judged.carry_out(replace(action, subject=other)).result in ("not_needed", "broken")
    assert judged.google.calls == []


def test_stop_that_failed_stays_failed_after_another_was_not_needed(judged: Judged) -> None:
    """A person's stop that came to nothing does not make the rule's due again: people go on being reminded."""
    earlier_stop_failed(judged)
    with judged.scene.database.write() as connection:
        ids = judged.subject.instance_id, judged.subject.lifetime_id
        given: dict[str, Any] = {"outcome": "not_needed", "rule": "request", "reminder": "", "settled_at": at("11:59")}
        stop(connection, *ids, at("11:58"), **given)
        (decision,) = gather.look_at(connection, RULES, at("12:00"))[0].decisions
    assert "it could not be stopped" in decision.reason
