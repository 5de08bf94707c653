"""A stop is done once the ledger shows it, reported when it failed, asked again when nobody knows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import PROJECT, at, event, operation, seen
from tests.fakes import FakeActuator
from tests.reminders.execute_setup import MINUTE, ZONE, Scene

from costguard.db.transaction import Database
from costguard.errors import BadAnswer, CloudUnavailable, CredentialsRefused, PermissionDenied, RateLimited
from costguard.model.action import StopOutcome
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape, Status
from costguard.reminders.execute import LiveExecutor

CPU = Shape("n2-standard-4", 4, 16384)
LOST = CloudUnavailable("no answer")


def settle_later(scene: Scene, executor: LiveExecutor, after: timedelta = timedelta(hours=1)) -> None:
    scene.clock.advance(after)
    executor.settle()


def test_done_when_the_ledger_shows_it(database: Database) -> None:
    """The stop is not done when Google accepts it: only a run that has ended is stopped."""
    scene = Scene(database)
    subject = scene.run()
    executor = scene.executor()
    executor.carry_out([scene.stop_by_ana(subject)])
    settle_later(scene, executor, MINUTE)
    assert (scene.stop(subject).outcome, scene.requests()[0][0]) == (StopOutcome.ASKED, "open")
    scene.come_to_rest()
    settle_later(scene, executor, MINUTE)
    assert scene.stop(subject).outcome is StopOutcome.DONE
    assert scene.requests() == [
        ("done", "Stopped vm-1 on Mon 2 Nov 12:01 UTC after 2 h 1 min; that run cost an amount that is not known.")
    ]


def test_an_end_of_another_kind_is_not_our_doing(database: Database) -> None:
    """A VM that was preempted before it was asked for was not stopped by us, and nothing was saved by us."""
    scene = Scene(database)
    subject = scene.run(provisioning_model=ProvisioningModel.SPOT)
    executor = scene.executor()
    scene.google.troubles = [RateLimited("too many")]
    executor.carry_out([scene.stop_by_ana(subject)])
    gone = seen(Status.STOPPED, key=InstanceKey(PROJECT, "1001"), name="vm-1", fingerprint="preempted")
    scene.look(gone, operations=(event("preempted", "12:00:10", target_id="1001"),), read="12:02")
    settle_later(scene, executor)
    assert scene.stop(subject).outcome is StopOutcome.NOT_NEEDED
    assert scene.requests() == [("done", "vm-1 was preempted by Google on Mon 2 Nov 12:00 UTC.")]


def test_a_lost_answer_is_asked_for_again_under_the_same_id(database: Database) -> None:
    """Google did it, the answer was lost: the repeat changes nothing and gives the operation."""
    scene = Scene(database)
    subject = scene.run()
    executor = scene.executor()
    scene.google.lost = [LOST]
    executor.carry_out([scene.stop_by_rule(subject)])
    assert scene.stop(subject).outcome is StopOutcome.UNKNOWN
    scene.google.vms[PROJECT, ZONE, "vm-1"].status = Status.RUNNING  # its operation has not begun yet
    executor.settle()
    assert len(scene.google.calls) == 1
    settle_later(scene, executor, MINUTE)
    assert scene.stop(subject).outcome is StopOutcome.ASKED
    assert len(set(scene.google.calls)) == 1
    assert scene.google.effects == [("stop", "1001")]


def test_a_lost_answer_that_a_look_explains(database: Database) -> None:
    """The VM is stopping when it is looked at: it is not asked again, and the ledger tells the rest."""
    scene = Scene(database)
    subject = scene.run()
    executor = scene.executor()
    scene.google.lost = [LOST]
    executor.carry_out([scene.stop_by_rule(subject)])
    settle_later(scene, executor, MINUTE)
    assert (scene.stop(subject).outcome, len(scene.google.calls)) == (StopOutcome.UNKNOWN, 1)
    scene.come_to_rest()
    settle_later(scene, executor, MINUTE)
    assert scene.stop(subject).outcome is StopOutcome.DONE


@pytest.mark.parametrize("trouble", [LOST, RateLimited("too many"), CredentialsRefused("expired")])
def test_giving_up_is_told_and_never_called_done(database: Database, trouble: Exception) -> None:
    """After six tries, each later than the one before, the person is notified and the VM counts as running."""
    scene = Scene(database)
    subject = scene.run()
    executor = scene.executor()
    scene.google.troubles = [trouble] * 20  # type: ignore[list-item]
    executor.carry_out([scene.stop_by_ana(subject)])
    waits = []
    while scene.stop(subject).settled_at is None:
        stop = scene.stop(subject)
        waits.append(stop.try_after - scene.clock.now())
        scene.clock.moment = stop.try_after
        executor.settle()
    assert len(scene.google.calls) == 6
    assert waits == sorted(waits)
    assert waits[0] == timedelta(seconds=30)
    assert scene.stop(subject).outcome is StopOutcome.FAILED
    ((status, outcome),) = scene.requests()
    assert status == "refused"
    assert outcome.startswith(f"vm-1 could not be stopped: {trouble}")
    assert scene.event_texts("InstanceStopFailed") == [outcome]
    assert scene.ephemerals() == [("UANA", outcome)]
    settle_later(scene, executor)
    assert len(scene.google.calls) == 6


@pytest.mark.parametrize("when_looking", [True, False])
def test_without_permission_it_fails_at_once(database: Database, when_looking: bool) -> None:
    """Asking again would change nothing; the words say what to grant."""
    scene = Scene(database)
    subject = scene.run()
    denied = PermissionDenied("403.", "Grant the role of deploy/iam-role-stop.yaml.")
    if when_looking:
        scene.google.looks = [denied]
    else:
        scene.google.troubles = [denied]
    (outcome,) = scene.executor().carry_out([scene.stop_by_rule(subject)])
    assert outcome.result == "failed"
    assert scene.stop(subject).error == "403. Grant the role of deploy/iam-role-stop.yaml."


def test_a_refusal_by_google_is_told_in_its_words(database: Database) -> None:
    """A request that Google calls wrong is not repeated."""
    scene = Scene(database)
    subject = scene.run()
    scene.google.troubles = [BadAnswer("400: deletion is under way.", "Look at it.")]
    (outcome,) = scene.executor().carry_out([scene.stop_by_rule(subject)])
    assert (outcome.result, outcome.text) == ("failed", "400: deletion is under way. Look at it.")


def test_what_google_did_not_do_is_certainly_not_begun(database: Database) -> None:
    """A used-up quota leaves the intent as it was, to be asked again."""
    scene = Scene(database)
    subject = scene.run()
    executor = scene.executor()
    scene.google.troubles = [RateLimited("too many")]
    executor.carry_out([scene.stop_by_rule(subject)])
    assert scene.stop(subject).outcome is StopOutcome.INTENDED
    settle_later(scene, executor)
    assert scene.stop(subject).outcome is StopOutcome.ASKED


def test_an_operation_that_failed(database: Database) -> None:
    """Google accepted it and then did not do it: its words are passed on."""
    scene = Scene(database)
    subject = scene.run()
    executor = scene.executor()
    executor.carry_out([scene.stop_by_rule(subject)])
    words = "The resource is not ready"
    failed = operation(
        "stop", "12:00:05", "12:00:06", operation_id="9000", target_id="1001", error_code="X", error_message=words
    )
    scene.look(seen(key=InstanceKey(PROJECT, "1001"), name="vm-1"), operations=(failed,), read="12:02")
    settle_later(scene, executor, MINUTE)
    assert (scene.stop(subject).outcome, scene.stop(subject).error) == (StopOutcome.FAILED, words)


def test_accepted_and_never_done(database: Database) -> None:
    """A VM that still runs hours after Google accepted its stop is reported, not waited for without end."""
    scene = Scene(database)
    subject = scene.run()
    executor = scene.executor()
    executor.carry_out([scene.stop_by_rule(subject)])
    settle_later(scene, executor, timedelta(hours=3))
    assert scene.stop(subject).outcome is StopOutcome.ASKED
    settle_later(scene, executor, MINUTE)
    assert scene.stop(subject).outcome is StopOutcome.FAILED


def test_a_vm_that_cannot_be_looked_at(database: Database) -> None:
    """A VM that cannot be checked is not stopped; it is tried again, and given up in the end."""
    scene = Scene(database)
    subject = scene.run()
    executor = scene.executor()
    scene.google.looks = [LOST] * 20
    executor.carry_out([scene.stop_by_rule(subject)])
    for _ in range(6):
        settle_later(scene, executor)
    assert (scene.stop(subject).outcome, scene.google.calls) == (StopOutcome.FAILED, [])


def test_a_started_vm_of_the_same_name_does_not_close_the_stop_of_the_other(database: Database) -> None:
    """Each stop is about one run: the end of that very run closes it."""
    scene = Scene(database, google=FakeActuator())
    first, second = scene.run(1), scene.run(2)
    executor = scene.executor()
    executor.carry_out([scene.stop_by_rule(first, 1), scene.stop_by_rule(second, 2)])
    scene.come_to_rest(2)
    settle_later(scene, executor, MINUTE)
    assert scene.stop(first).outcome is StopOutcome.ASKED
    assert scene.stop(second).outcome is StopOutcome.DONE
    assert scene.stop(second).settled_at == scene.clock.now()
    assert scene.stop(second).intended_at == at("12:00")
