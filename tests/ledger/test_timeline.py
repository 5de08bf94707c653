"""Operations and listings become runs."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.builders import at, event, lifetime, operation, seen

from costguard.ledger.timeline import Run, runs_of
from costguard.model.instance import SeenInstance, Status
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.observation import OperationStatus, SeenOperation


def _runs(
    *operations: SeenOperation,
    listed: SeenInstance | None = None,
    lifetimes: tuple[Lifetime, ...] = (),
    read: str = "12:00",
    **given: Any,
) -> list[tuple[str, str | None, str | None, bool]]:
    runs = runs_of(lifetimes, operations, listed, at(read), **given)
    return [
        (
            f"{run.started_at:%H:%M:%S}",
            f"{run.ended_at:%H:%M:%S}" if run.ended_at else None,
            run.reason.value if run.reason else None,
            run.end_is_estimate,
        )
        for run in runs
    ]


def test_a_running_vm_runs_since_its_last_start() -> None:
    """The VM's own start stamp wins over the insert operation's end, which is written a moment later."""
    insert = operation("insert", "09:59", "10:00:02")
    assert _runs(insert, listed=seen()) == [("10:00:00", None, None, False)]


def test_billing_ends_when_a_stop_begins() -> None:
    """A stop takes most of a minute, and none of it is billed: lastStopTimestamp comes too late."""
    stop = operation("stop", "11:00", "11:00:49")
    listed = seen(Status.STOPPED, last_stopped_at="11:00:48")
    assert _runs(stop, listed=listed) == [("10:00:00", "11:00:00", "stopped", False)]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("preempted", "preempted"),
        ("hostError", "host_error"),
        ("guestTerminate", "guest_shutdown"),
        ("terminateOnHostMaintenance", "host_maintenance"),
        ("deferredStop", "run_time_limit"),
        ("deferredDelete", "run_time_limit"),
    ],
)
def test_system_events_tell_why_a_vm_ended(kind: str, reason: str) -> None:
    """Google's acts on a VM are distinguished from people's."""
    listed = seen(Status.STOPPED, last_stopped_at="11:00:30")
    assert _runs(event(kind, "11:00"), listed=listed) == [("10:00:00", "11:00:00", reason, False)]


def test_a_stale_stop_stamp_does_not_end_a_running_vm() -> None:
    """A VM that was restarted shows its previous stop while it runs."""
    assert _runs(listed=seen(last_stopped_at="08:00")) == [("10:00:00", None, None, False)]


def test_a_preempted_vm_that_still_shows_an_older_stop() -> None:
    """The stop stamp is older than its start while it is STOPPING; the operation tells the end."""
    listed = seen(Status.STOPPING, last_stopped_at="08:00")
    assert _runs(event("preempted", "11:00"), listed=listed) == [("10:00:00", "11:00:00", "preempted", False)]


def test_restarts_while_nobody_looked_are_reconstructed() -> None:
    """Three runs, all told by operations that were read after an outage."""
    operations = [
        operation("insert", "07:59", "08:00"),
        operation("stop", "08:30", "08:31"),
        operation("start", "09:00", "09:00:20"),
        event("preempted", "09:30"),
        operation("start", "09:59", "10:00"),
    ]
    assert _runs(*operations, listed=seen(created_at="07:59", last_stopped_at="09:31")) == [
        ("08:00:00", "08:30:00", "stopped", False),
        ("09:00:20", "09:30:00", "preempted", False),
        ("10:00:00", None, None, False),
    ]


def test_a_restart_that_no_operation_tells() -> None:
    """The start stamp moved, so the known run ended: at the stop stamp at the latest."""
    listed = seen(started="11:00", last_stopped_at="10:30")
    assert _runs(listed=listed, lifetimes=(lifetime("10:00"),)) == [
        ("10:00:00", "10:30:00", "unknown", True),
        ("11:00:00", None, None, False),
    ]


def test_an_operation_read_late_corrects_an_estimate() -> None:
    """The estimate was the latest possible moment; the operation tells the true one."""
    life = lifetime("10:00", "11:00:48", EndReason.UNKNOWN, end_is_estimate=True)
    stop = operation("stop", "11:00", "11:00:49")
    listed = seen(Status.STOPPED, last_stopped_at="11:00:48")
    assert _runs(stop, listed=listed, lifetimes=(life,)) == [("10:00:00", "11:00:00", "stopped", False)]


def test_an_end_is_taken_back_when_its_operation_fails() -> None:
    """A stop that was under way and then failed left the VM running all along."""
    life = lifetime("10:00", "11:00", EndReason.STOPPED)
    failed = operation("stop", "11:00", "11:01", error_code="RESOURCE_NOT_READY")
    assert _runs(failed, listed=seen(), lifetimes=(life,)) == [("10:00:00", None, None, False)]


def test_a_stop_that_did_nothing_ends_nothing() -> None:
    """Done before the listing, which shows the VM running on with no later start."""
    stop = operation("stop", "11:00", "11:01")
    assert _runs(stop, listed=seen()) == [("10:00:00", None, None, False)]


def test_a_listing_older_than_a_stop_does_not_undo_it() -> None:
    """Operations are read after the listing, so the listing may not show the newest of them."""
    stop = operation("stop", "12:00:01", "12:00:50")
    assert _runs(stop, listed=seen(), read="12:00") == [("10:00:00", "12:00:01", "stopped", False)]


def test_a_stopped_vm_that_is_starting_is_not_taken_for_running_on() -> None:
    """RUNNING can be listed before the new start stamp is written; the start operation explains it."""
    operations = [operation("stop", "11:00", "11:01"), operation("start", "11:59")]
    assert _runs(*operations, listed=seen()) == [("10:00:00", "11:00:00", "stopped", False)]


def test_a_failed_creation_is_no_run() -> None:
    """A stockout answers in the operation, and there never was a VM."""
    insert = operation("insert", "09:59", "10:00", error_code="ZONE_RESOURCE_POOL_EXHAUSTED")
    assert _runs(insert) == []


def test_a_vm_that_came_and_went_unseen_is_told_by_operations() -> None:
    """The insert and delete operations are all that is left of it."""
    operations = [operation("insert", "10:00", "10:00:20"), operation("delete", "10:30", "10:32")]
    assert _runs(*operations) == [("10:00:20", "10:30:00", "deleted", False)]


def test_a_vm_that_is_gone_without_an_operation_ended_by_now() -> None:
    """The moment at which it was found gone is the latest that it can have run to."""
    assert _runs(lifetimes=(lifetime("10:00"),), absent=True) == [("10:00:00", "12:00:00", "unknown", True)]


def test_an_unlisted_vm_goes_on_billing() -> None:
    """A VM that is not listed is not gone."""
    assert _runs(lifetimes=(lifetime("10:00"),)) == [("10:00:00", None, None, False)]


def test_a_graceful_stop_bills_until_the_guest_has_ended() -> None:
    """PENDING_STOP bills as running, and only the stop stamp tells when that was over."""
    stopping = operation("stop", "11:00")
    assert _runs(stopping, listed=seen(Status.PENDING_STOP, graceful_stop=True)) == [("10:00:00", None, None, False)]
    stopped = operation("stop", "11:00", "11:10")
    listed = seen(Status.STOPPED, graceful_stop=True, last_stopped_at="11:09:50")
    assert _runs(stopped, listed=listed) == [("10:00:00", "11:09:50", "stopped", True)]


def test_a_host_error_and_its_automatic_restart() -> None:
    """The restart event comes before the VM runs again; its start stamp tells when it did."""
    operations = [event("hostError", "10:30"), event("automaticRestart", "10:31")]
    assert _runs(*operations, listed=seen(started="10:31:40"), lifetimes=(lifetime("10:00"),)) == [
        ("10:00:00", "10:30:00", "host_error", False),
        ("10:31:40", None, None, False),
    ]


def test_an_automatic_restart_without_a_new_start_stamp() -> None:
    """Never miss a VM that bills: listed as running after a restart event, it runs since that event."""
    operations = [event("hostError", "10:30"), event("automaticRestart", "10:31")]
    assert _runs(*operations, listed=seen()) == [
        ("10:00:00", "10:30:00", "host_error", False),
        ("10:31:00", None, None, False),
    ]


def test_a_suspended_vm_resumed() -> None:
    """Suspending ends a lifetime, resuming begins one."""
    operations = [operation("suspend", "10:30", "10:31"), operation("resume", "10:59", "11:00")]
    listed = seen(started="11:00", last_suspended_at="10:31")
    assert _runs(*operations, listed=listed, lifetimes=(lifetime("10:00"),)) == [
        ("10:00:00", "10:30:00", "suspended", False),
        ("11:00:00", None, None, False),
    ]


def test_a_vm_from_before_start_stamps_runs_since_it_was_made() -> None:
    """Answers of 2013 have no lastStartTimestamp."""
    assert _runs(listed=seen(started=None)) == [("09:59:00", None, None, False)]


def test_a_vm_first_seen_stopped() -> None:
    """The stamps tell its last run, with an end that is an estimate; without a stop stamp nothing is guessed."""
    assert _runs(listed=seen(Status.STOPPED, last_stopped_at="11:00")) == [("10:00:00", "11:00:00", "unknown", True)]
    assert _runs(listed=seen(Status.STOPPED)) == []


def test_a_vm_that_is_being_made_has_no_run_yet() -> None:
    """Provisioning and staging are not billed."""
    assert _runs(operation("insert", "11:59"), listed=seen(Status.STAGING, started=None)) == []


def test_a_status_that_nobody_knows_ends_nothing() -> None:
    """A word that Google adds later must not end a lifetime."""
    assert _runs(listed=seen(Status.UNKNOWN), lifetimes=(lifetime("10:00"),)) == [("10:00:00", None, None, False)]


@pytest.mark.parametrize("chance", [random.Random(seed) for seed in range(20)], ids=range(20))
def test_the_order_and_repetition_of_evidence_do_not_matter(chance: random.Random) -> None:
    """Looking after every event, or once at the end, gives the same runs; so does recording twice."""
    moments = sorted(chance.sample(range(1, 100), 10))
    operations, running = [], False
    for minute in moments:
        moment = f"{10 + minute // 60:02d}:{minute % 60:02d}:00"
        later = f"{10 + minute // 60:02d}:{minute % 60:02d}:30"
        if running:
            kind = chance.choice(["stop", "preempted", "guestTerminate"])
            operations.append(operation("stop", moment, later) if kind == "stop" else event(kind, moment))
        else:
            operations.append(operation("start", moment, later))
        running = not running
    at_once = runs_of((), operations, None, at("13:00"))
    lifetimes: list[Lifetime] = []
    for count in range(1, len(operations) + 1):
        shuffled = chance.sample(operations[:count], count)
        in_order = sorted(shuffled, key=lambda op: op.inserted_at)
        lifetimes = [_as_known(run) for run in runs_of(lifetimes, in_order, None, at("13:00"))]
    assert runs_of(lifetimes, operations, None, at("13:00")) == at_once
    assert all(run.ended_at is None or run.ended_at > run.started_at for run in at_once)


def _as_known(run: Run) -> Lifetime:
    return lifetime(
        run.started_at.isoformat()[:19],
        run.ended_at.isoformat()[:19] if run.ended_at else None,
        run.reason,
        end_is_estimate=run.end_is_estimate,
    )


def test_a_pending_operation_has_not_begun() -> None:
    """A stop that Google has accepted and not begun leaves the VM running and billing."""
    waiting = operation("stop", "11:00", status=OperationStatus.PENDING, started_at=None)
    assert _runs(waiting, listed=seen()) == [("10:00:00", None, None, False)]
