"""Ends and starts that lie close together, that were asked for in vain, or that are reported in the wrong order."""

from __future__ import annotations

from datetime import datetime

from tests.builders import at, event, lifetime, operation, seen

from costguard.ledger.timeline import created_by, runs_of
from costguard.model.instance import SeenInstance, Status
from costguard.model.lifetime import EndReason, Lifetime
from costguard.model.observation import SeenOperation

READ = at("12:00")
INSERT = operation("insert", "09:59:50", "10:00:00")


def _spans(
    operations: list[SeenOperation],
    listing: SeenInstance | None = None,
    lifetimes: tuple[Lifetime, ...] = (),
    read_at: datetime = READ,
) -> list[tuple[str, str | None]]:
    runs = runs_of(lifetimes, operations, listing, read_at)
    return [(f"{run.started_at:%H:%M:%S}", f"{run.ended_at:%H:%M:%S}" if run.ended_at else None) for run in runs]


def test_two_starts_within_ten_seconds_are_two_lifetimes() -> None:
    """A VM that shuts itself down at once and is started again runs, and bills, whatever came just before."""
    operations = [INSERT, event("guestTerminate", "10:00:01"), operation("start", "10:00:03", "10:00:08")]
    running = seen(started="10:00:08")
    expected = [("10:00:00", "10:00:01"), ("10:00:08", None)]
    assert _spans(operations, running) == expected
    assert _spans(operations, running, (lifetime("10:00:00", "10:00:01", EndReason.GUEST_SHUTDOWN),)) == expected


def test_starting_a_vm_that_runs_does_not_end_its_lifetime() -> None:
    """Google answers such a start as done, without an error, in less than a second."""
    start = operation("start", "10:30:00", "10:30:00.600")
    assert _spans([INSERT, start], seen()) == [("10:00:00", None)]
    assert _spans([INSERT, start, operation("stop", "11:00", "11:01")]) == [("10:00:00", "11:00:00")]


def test_starting_a_vm_that_a_host_error_restarted_shows_that_it_ran() -> None:
    """Nobody looked between the restart and its end; the start that found it running tells that it had come up."""
    operations = [
        INSERT,
        event("hostError", "10:20"),
        event("automaticRestart", "10:22"),
        operation("start", "10:30:00", "10:30:00.600"),
        event("deferredStop", "10:40"),
    ]
    assert _spans(operations) == [("10:00:00", "10:20:00"), ("10:22:00", "10:40:00")]


def test_a_start_after_the_listing_is_not_ended_by_it() -> None:
    """Operations are read a moment later than the listing that still shows the VM coming up."""
    staging = seen(status=Status.STAGING, started=None)
    assert _spans([INSERT], staging, read_at=at("09:59:58")) == [("10:00:00", None)]


def test_the_end_of_a_graceful_stop_outlives_its_listing() -> None:
    """The ledger tells how long its grace was, and nothing else does once the VM is gone."""
    stop = operation("stop", "11:00", "11:09")
    life = lifetime("10:00", "11:08", EndReason.STOPPED, end_is_estimate=True)
    assert _spans([INSERT, stop, operation("delete", "11:30", "11:31")], None, (life,)) == [("10:00:00", "11:08:00")]


def test_an_estimated_end_is_taken_back_where_the_vm_runs_on() -> None:
    """Taken for gone at 11:00, listed at 12:00 as running since 10:00: it has billed all along."""
    life = lifetime("10:00", "11:00", EndReason.UNKNOWN, end_is_estimate=True)
    assert _spans([INSERT], seen(), (life,)) == [("10:00:00", None)]
    assert _spans([INSERT], None, (life,)) == [("10:00:00", "11:00:00")]


def test_the_stamp_of_a_later_stop_does_not_end_a_graceful_one() -> None:
    """Nobody looked between two stops, and the VM tells of the second alone: the first ended with its operation."""
    operations = [
        INSERT,
        operation("stop", "10:10", "10:11"),
        operation("start", "10:20:00", "10:20:10"),
        event("deferredStop", "10:50"),
    ]
    listing = seen(Status.STOPPED, started="10:20:10", last_stopped_at=at("10:50:20"), graceful_stop=True)
    assert _spans(operations, listing) == [("10:00:00", "10:11:00"), ("10:20:10", "10:50:00")]


def test_whoever_made_a_vm_that_was_preempted_while_it_came_up_is_known() -> None:
    """The insert failed, and the VM is there."""
    assert created_by([operation("insert", "09:59", "10:00", error_code="UNSUPPORTED_OPERATION")]) == "ana@example.com"
