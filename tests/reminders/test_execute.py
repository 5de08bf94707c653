"""Stopping a VM: intended first, checked once more, asked once, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import PROJECT, at
from tests.fakes import FakeVm
from tests.reminders.execute_setup import MINUTE, ZONE, Scene
from tests.reminders.last_check_setup import Meanwhile, scene_of

from costguard.db.lease import acquire
from costguard.db.transaction import Database
from costguard.errors import LeaseLost, NotFound
from costguard.model.action import StopOutcome
from costguard.model.instance import Shape, Status
from costguard.reminders import stop_rows
from costguard.reminders.execute import ShadowExecutor
from costguard.reminders.stop_case import StopHold
from costguard.reminders.stop_rows import uuid_of

CPU = Shape("n2-standard-4", 4, 16384)


def test_a_rule_stops_a_vm(database: Database) -> None:
    """The VM is named by its numeric id, with an event that says by which rule, after which reminder and on what
    evidence.
    """
    scene = Scene(database)
    subject = scene.run()
    (outcome,) = scene.executor().carry_out([scene.stop_by_rule(subject)])
    stop = scene.stop(subject)
    assert (outcome.result, stop.outcome) == ("asked", StopOutcome.ASKED)
    assert scene.google.calls == [("stop", "1001", stop.request_uuid)]
    assert stop.operation == "9000"
    assert scene.event_texts("InstanceStopOrdered") == [
        "vm-1 is to be stopped (preset a100: stop after 3 unanswered reminders and 1 h): no answer to 3 reminders."
    ]


def test_the_intent_is_committed_before_google_is_asked(database: Database) -> None:
    """A reader of the ledger while Google is asked finds the stop there already, as one that may have begun."""
    scene = Scene(database)
    subject = scene.run()
    stop_outcomes: list[StopOutcome] = []

    class Watching(type(scene.google)):  # type: ignore[misc]
        def stop(self, project: str, zone: str, instance: str, request_id: str) -> str:
            stop_outcomes.append(scene.stop(subject).outcome)
            return "1"

    google = Watching(scene.google.vms)
    scene.executor(actuator=google).carry_out([scene.stop_by_rule(subject)])
    assert stop_outcomes == [StopOutcome.UNKNOWN]


def test_a_process_that_stood_still_asks_nothing(database: Database) -> None:
    """Another guard may have acted between its last look and its call: what it knew is looked at again."""
    scene = Scene(database)
    subject = scene.run()
    stood_still_s = 0.0

    def stand_still(*_: object) -> None:
        """Right after the last check has begun."""
        nonlocal stood_still_s
        stood_still_s = 60.0

    executor = scene.executor(monotonic=lambda: stood_still_s, still_due=stand_still)
    (outcome,) = executor.carry_out([scene.stop_by_rule(subject)])
    assert outcome.result == "unknown"
    assert scene.google.calls == []
    scene.executor().settle()
    assert scene.google.calls == [("stop", "1001", scene.stop(subject).request_uuid)]


def test_the_same_plan_again_asks_nothing(database: Database) -> None:
    """A rule stops a run once a cycle, and a request once."""
    scene = Scene(database)
    actions = [scene.stop_by_rule(scene.run(1)), scene.stop_by_ana(scene.run(2), 2)]
    executor = scene.executor()
    assert [outcome.result for outcome in executor.carry_out(actions)] == ["asked", "asked"]
    assert [outcome.result for outcome in executor.carry_out(actions)] == ["repeated", "repeated"]
    assert len(scene.google.calls) == 2


def test_one_run_is_not_stopped_by_two_at_once(database: Database) -> None:
    """While one stop of a run is open, a rule or another person adds nothing to it."""
    scene = Scene(database)
    subject = scene.run()
    results = scene.executor().carry_out([scene.stop_by_rule(subject), scene.stop_by_ana(subject)])
    assert [(result.result, result.text) for result in results][1:] == [("repeated", "it is being stopped already")]
    assert len(scene.stops(subject)) == 1


def test_vms_of_equal_row_ids_elsewhere_have_other_request_ids(database: Database) -> None:
    """Google knows a request by its id alone; a new database counts from one again, and a restored one from before."""
    scene = Scene(database)
    subject = scene.run()
    scene.executor().carry_out([scene.stop_by_rule(subject)])
    action = scene.stop_by_rule(subject)
    stop, now = scene.stop(subject), at("12:00")
    assert stop.request_uuid == uuid_of(stop.key, action, stop.intended_at)
    other = replace(action, started_at=at("11:00"))
    assert uuid_of("k", action, now) != uuid_of("k", other, now)
    assert uuid_of("k", action, now) != uuid_of("k", action, at("12:01"))


def _another(scene: Scene) -> None:
    scene.google.vms[PROJECT, ZONE, "vm-1"] = FakeVm("77", started_at=at("10:00"))


def _gone(scene: Scene) -> None:
    del scene.google.vms[PROJECT, ZONE, "vm-1"]


def _stopped(scene: Scene) -> None:
    scene.google.vms[PROJECT, ZONE, "vm-1"].status = Status.STOPPED


def _restarted(scene: Scene) -> None:
    scene.google.vms[PROJECT, ZONE, "vm-1"].started_at = at("11:59")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_another, "another VM has its name now"),
        (_gone, "it is not there any more"),
        (_stopped, "it is stopped already"),
        (_restarted, "it was started again since"),
    ],
)
@pytest.mark.parametrize("by_rule", [True, False])
def test_what_changed_at_google_is_left_alone(
    database: Database, change: Callable[[Scene], None], why: str, by_rule: bool
) -> None:
    """The VM is looked at right before: only the same VM, in the same run, is stopped."""
    scene = Scene(database)
    subject = scene.run()
    action = scene.stop_by_rule(subject) if by_rule else scene.stop_by_ana(subject)
    change(scene)
    (outcome,) = scene.executor().carry_out([action])
    assert (outcome.result, scene.google.calls) == ("not_needed", [])
    assert scene.event_texts("InstanceStopNotNeeded") == [f"vm-1 is left alone: {why}."]
    if not by_rule:
        assert scene.requests() == [("refused", f"vm-1 is left alone: {why}.")]


def test_a_rule_asks_once_more_whether_it_is_due(database: Database) -> None:
    """A VM that is not due any more is left alone; when it is due again in the same cycle, it is stopped after all."""
    scene = Scene(database)
    subject = scene.run()
    action = scene.stop_by_rule(subject)
    busy = scene.executor(still_due=lambda *_: StopHold("it is in use again"))
    assert [outcome.result for outcome in busy.carry_out([action])] == ["not_needed"]
    assert [outcome.result for outcome in scene.executor().carry_out([action])] == ["asked"]
    assert [stop.outcome for stop in scene.stops(subject)] == [StopOutcome.NOT_NEEDED, StopOutcome.ASKED]


def test_who_lost_the_lease_does_nothing(database: Database) -> None:
    """Another daemon acts now: no intent is written, and Google is not asked."""
    scene = Scene(database)
    subject = scene.run()
    ours = acquire(database, "daemon", "one", timedelta(minutes=1), scene.clock.now())
    acquire(database, "daemon", "two", timedelta(minutes=1), scene.clock.now() + timedelta(hours=1))
    with pytest.raises(LeaseLost):
        scene.executor().carry_out([scene.stop_by_rule(subject)], ours)
    assert (scene.stops(subject), scene.google.calls) == ((), [])


@pytest.mark.parametrize("by_rule", [True, False])
def test_who_loses_the_lease_while_the_vm_is_looked_at_asks_nothing(database: Database, by_rule: bool) -> None:
    """The lease is checked once more in the write right before the stop: another daemon may have heard of a keep."""
    scene = scene_of(database)
    subject = scene.run()
    now = scene.clock.now()
    ours = acquire(database, "daemon", "one", timedelta(minutes=1), now)
    action = scene.stop_by_rule(subject) if by_rule else scene.stop_by_ana(subject)
    google = scene.google
    assert isinstance(google, Meanwhile)
    google.happens = lambda: acquire(database, "daemon", "two", timedelta(minutes=1), now + timedelta(hours=1))
    with pytest.raises(LeaseLost):
        scene.executor().carry_out([action], ours)
    assert (scene.stop(subject).outcome, google.calls) == (StopOutcome.INTENDED, [])


def test_one_oddity_does_not_keep_the_others_running(database: Database) -> None:
    """An error that nobody foresaw counts as a try, and the next VM is stopped."""
    scene = Scene(database)
    first, second = scene.run(1), scene.run(2)
    scene.google.looks = [ZeroDivisionError("odd")]  # type: ignore[list-item]
    actions = [scene.stop_by_rule(first, 1), scene.stop_by_rule(second, 2)]
    outcomes = scene.executor().carry_out(actions)
    assert [outcome.result for outcome in outcomes] == ["intended", "asked"]
    assert outcomes[0].text == "ZeroDivisionError: odd. The log holds the trace to report."


def test_shadow(database: Database) -> None:
    """A rule's stop is written down and the VM left running; a person's request is done."""
    scene = Scene(database)
    first, second = scene.run(1), scene.run(2)
    shadow = ShadowExecutor(database, scene.clock, scene.executor())
    actions = [scene.stop_by_rule(first, 1), scene.stop_by_ana(second, 2)]
    assert sorted(outcome.result for outcome in shadow.carry_out(actions)) == ["asked", "shadow"]
    assert [call[1] for call in scene.google.calls] == ["1002"]
    assert scene.stop(first).outcome is StopOutcome.SHADOW
    assert scene.event_texts("InstanceWouldBeStopped") == [
        "vm-1 would be stopped (preset a100: stop after 3 unanswered reminders and 1 h): no answer to 3 reminders."
    ]
    assert [outcome.result for outcome in shadow.carry_out(actions)] == ["repeated", "repeated"]
    with database.read() as connection:
        assert [stop.subject for stop in stop_rows.open_stops(connection)] == [second]


def test_what_was_a_shadow_is_stopped_once_shadow_is_off(database: Database) -> None:
    """The shadow of a stop does not stand in the way of the stop."""
    scene = Scene(database)
    action = scene.stop_by_rule(scene.run())
    ShadowExecutor(database, scene.clock, scene.executor()).carry_out([action])
    assert [outcome.result for outcome in scene.executor().carry_out([action])] == ["asked"]


def test_a_vm_that_is_gone_as_it_is_asked_for(database: Database) -> None:
    """A 404 for its id did nothing; the next look says that it is gone."""
    scene = Scene(database)
    subject = scene.run()
    scene.google.troubles = [NotFound("There is no instance 1001.")]
    executor = scene.executor()
    executor.carry_out([scene.stop_by_rule(subject)])
    assert scene.stop(subject).outcome is StopOutcome.INTENDED
    _gone(scene)
    scene.clock.advance(MINUTE)
    executor.settle()
    assert scene.stop(subject).outcome is StopOutcome.NOT_NEEDED
