"""A custom job of Vertex AI that loses its machines has runs as its looks show them."""

from __future__ import annotations

from tests.builders import PROJECT, at, operation, seen

from costguard.ledger.observe import Belonging, KnownFacts, account
from costguard.ledger.owner import OwnerRules
from costguard.model.instance import InstanceKey, Status
from costguard.model.record import KnownInstance

JOB = InstanceKey(PROJECT, "vertex.customJobs.us-central1.4567")
BELONGING = Belonging((), OwnerRules())
UP, WAITS, CANCELLING, OVER = Status.RUNNING, Status.PROVISIONING, Status.PENDING_STOP, Status.STOPPED


def runs(*looks: tuple[str, Status]) -> list[tuple[str, str | None, bool]]:
    """When each run began and ended, and whether the end is an estimate, after looks at these times."""
    stored: KnownInstance | None = None
    for moment, status in looks:
        ended = {"last_stopped_at": moment} if status is OVER else {}
        listed = seen(status, key=JOB, zone="us-central1", disks=(), **ended)
        stops = [operation("stop", moment, moment, target_id=JOB.gce_id)] if status is OVER else []
        entry = account(JOB, KnownFacts(stored, listed, stops, at(moment), at("08:00")), BELONGING)
        assert entry is not None
        lives = {life.started_at: life for life in (*(stored.lifetimes if stored else ()), *entry.lifetimes)}
        stored = KnownInstance(1, entry.record, tuple(lives.values()), ())
    assert stored is not None
    return [
        (f"{one.started_at:%H:%M}", f"{one.ended_at:%H:%M}" if one.ended_at else None, one.end_is_estimate)
        for one in stored.lifetimes
    ]


def test_each_wait_ends_a_run_and_each_return_begins_one() -> None:
    """The time between is billed for no machine, and the end that Google gives is exact."""
    looks = (("10:01", UP), ("10:30", WAITS), ("10:40", WAITS), ("11:00", UP), ("11:20", WAITS), ("11:30", UP))
    assert runs(*looks, ("12:00", OVER)) == [
        ("10:00", "10:30", True),
        ("11:00", "11:20", True),
        ("11:30", "12:00", False),
    ]


def test_a_job_that_is_cancelled_while_it_waits_begins_no_run() -> None:
    """A job that is cancelled while it runs is billed to its end."""
    waited = (("10:01", UP), ("10:30", WAITS), ("10:40", CANCELLING), ("10:41", CANCELLING), ("10:42", OVER))
    assert runs(*waited) == [("10:00", "10:30", True)]
    assert runs(("10:01", UP), ("10:40", CANCELLING), ("10:42", OVER)) == [("10:00", "10:42", False)]


def test_a_job_that_fails_as_it_waits_has_no_other_run() -> None:
    """Google gives up after six tries; its end is none of the run before."""
    assert runs(("10:01", UP), ("10:30", WAITS), ("11:00", OVER)) == [("10:00", "10:30", True)]
