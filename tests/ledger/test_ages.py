"""A VM's age counts from when a person last started it, through host errors and restarts by Google."""

from __future__ import annotations

from tests.builders import PROJECT, at, event, lifetime, operation, seen
from tests.reminders.execute_setup import Scene
from tests.reminders.last_check_setup import RULES
from tests.reminders.reminded import DUE, HOUR, keep, planned, rules, stopping, vm

from costguard.db.transaction import Database
from costguard.ledger import answers
from costguard.ledger.timeline import Run, ages_of, runs_of
from costguard.model.instance import InstanceKey
from costguard.model.lifetime import EndReason
from costguard.model.observation import SeenOperation
from costguard.model.reminder import Keep, RequestKind, Subject, SubjectKind
from costguard.reminders import gather, watched_rows

FAILED = Run(at("10:00"), at("11:00"), EndReason.HOST_ERROR, "system")
AGAIN = Run(at("11:02"))
RESTART = event("automaticRestart", "11:01:58")


def age(*operations: SeenOperation, before: Run = FAILED) -> object:
    return ages_of([before, AGAIN], operations)[AGAIN.started_at]


def test_run_that_google_began_again_is_as_old_as_the_one_before() -> None:
    """After a host error, maintenance or a repair."""
    assert age(RESTART) == at("10:00")
    for reason in (EndReason.HOST_MAINTENANCE, EndReason.RECREATED):
        assert age(before=Run(at("10:00"), at("11:00"), reason)) == at("10:00")
    agent = operation("insert", "11:01", "11:02", user="7@cloudservices.gserviceaccount.com")
    assert age(agent, before=Run(at("10:00"), at("11:00"), EndReason.RECREATED)) == at("10:00")


def test_run_that_a_user_began_is_new() -> None:
    """A person, or a program; what a stop, a preemption or a shutdown ended came back because a user wanted it."""
    assert age(operation("start", "11:01", "11:02")) is None
    assert age(operation("start", "11:01", "11:02", user="ci@acme.iam.gserviceaccount.com")) is None
    for reason in (EndReason.STOPPED, EndReason.PREEMPTED, EndReason.GUEST_SHUTDOWN, EndReason.UNKNOWN):
        assert age(RESTART, before=Run(at("10:00"), at("11:00"), reason)) is None


def test_failures_in_a_row_are_one_age() -> None:
    """The age lasts until a user starts it."""
    runs = [FAILED, Run(AGAIN.started_at, at("12:00"), EndReason.HOST_ERROR), Run(at("12:02"))]
    assert list(ages_of(runs, []).values()) == [None, at("10:00"), at("10:00")]
    restarted = ages_of(runs, [operation("start", "12:01", "12:02")])
    assert restarted[at("12:02")] is None


def test_runs_of_a_listing_have_their_ages() -> None:
    """The ages come from operations, through the timeline."""
    done = [operation("insert", "09:59", "10:00"), event("hostError", "11:00"), RESTART]
    runs = runs_of([lifetime("10:00")], done, seen(started="11:02"), at("12:00"))
    assert [run.started_at for run in runs] == [at("10:00"), at("11:02")]
    assert ages_of(runs, done)[at("11:02")] == at("10:00")


def test_forgotten_vm_gets_no_new_hours_from_a_host_error() -> None:
    """Started at 02:00 with a limit of 8 h, and begun again by Google at 09:50: due at 10:00, not at 17:50."""
    running = vm(running_since=at("09:50"), age_from=at("02:00"))
    (decision,) = planned(running, DUE + HOUR, rules(stopping())).decisions
    assert decision.due_at == DUE
    assert decision.overdue
    assert "past the limit of preset t4 (8 h) by 1 h" in decision.reason
    assert planned(vm(running_since=at("09:50")), DUE + HOUR).decisions[0].due_at == DUE + 8 * HOUR - HOUR / 6


def test_keep_still_holds() -> None:
    """A host error does not undo a person's answer."""
    running = vm(running_since=at("09:50"), age_from=at("02:00"), keeps=(keep(DUE + 4 * HOUR),))
    assert planned(running, DUE + HOUR).decisions[0].due_at == DUE + 4 * HOUR


def test_ledger_keeps_the_age_and_the_keep_of_the_run_before(sqlite_database: Database) -> None:
    """A VM kept until 16:00 by a person, with a host error at 12:30, is due at 16:00, as if nothing had happened."""
    scene = Scene(sqlite_database)
    subject = scene.run()
    request = scene.ask(subject, RequestKind.KEEP)
    with scene.database.write() as connection:
        assert request.id is not None
        answers.add_keep(connection, Keep(subject, at("16:00"), "ana@example.com", at("12:00")), request.id)
    key = InstanceKey(PROJECT, "1001")
    failed = event("hostError", "12:30", target_id="1001")
    again = event("automaticRestart", "12:31", target_id="1001")
    listed = seen(key=key, name="vm-1", started="12:32", fingerprint="again")
    scene.look(listed, operations=(failed, again), read="12:40")
    with scene.database.read() as connection:
        (row,) = watched_rows.read(connection, {subject.instance_id})
        (watched,) = gather.gather(connection, RULES, at("12:40"), [subject.instance_id])
    assert (row.started_at, row.age_from) == (at("12:32"), at("10:00"))
    assert Subject(SubjectKind.RUN, row.instance_id, row.lifetime_id) != subject
    assert [one.until for one in watched.keeps] == [at("16:00")]
    (decision,) = planned(watched, at("12:40"), RULES).decisions
    assert decision.due_at == at("16:00")
