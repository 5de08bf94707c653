"""Jobs are taken in once, come back as they were given, and are settled once."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import update
from tests.api.rows import NOW
from tests.jobs import job_rows

from costguard.access import signing
from costguard.db import tables
from costguard.db.transaction import Database
from costguard.jobs.rows import attempts
from costguard.jobs.rows import job_rows as jobs
from costguard.jobs.rows.checkpoints.checkpoint_rows import checkpoints_of
from costguard.jobs.rows.job_rows import JobFilters
from costguard.model.attempt import AttemptState, Outcome
from costguard.model.job import CheckpointPlan, JobKind, JobSpec, JobState, SeenCheckpoint


def test_a_job_comes_back_as_it_was_given(database: Database) -> None:
    """Amounts and spans to the last digit; a key that comes again gives the job that is there, whatever it asks for."""
    given = job_rows.job(name="two\0words")
    with database.write() as connection:
        stored, is_new = jobs.add(connection, given, "key", "digest")
        again = jobs.add(connection, job_rows.job("other"), "key", "another digest")
        assert jobs.read(connection, given.id) == stored
        assert jobs.of_ids(connection, [given.id, "unknown"]) == {given.id: stored}
        assert (jobs.digest_of(connection, "key"), jobs.digest_of(connection, "none")) == ("digest", None)
    assert stored == replace(given, spec=replace(given.spec, name="two\N{REPLACEMENT CHARACTER}words"))
    assert (is_new, again) == (True, (stored, False))


def test_jobs_of_other_versions_are_read(database: Database) -> None:
    """Keys that nobody knows are passed over; fields that were not written have their defaults."""
    with database.write() as connection:
        job_rows.added(connection)
        spec = {"kind": "dev", "preset": "t4", "project": "lab", "owner": "ada@lab.example", "mood": ["good"]}
        connection.execute(update(tables.jobs).values(spec=spec))
        read = jobs.read(connection, "j7k2m9q4")
    assert read is not None
    assert read.spec == JobSpec(JobKind.DEV, "t4", "lab", "ada@lab.example")


def test_pages_go_on_where_they_ended(database: Database) -> None:
    """The newest first, jobs of one moment included; every filter holds."""
    with database.write() as connection:
        for number, name in enumerate(("a", "b", "c", "d")):
            job_rows.added(connection, name, created_at=NOW + timedelta(seconds=number // 2), preset=f"p{number % 2}")
        jobs.set_state(connection, "d", JobState.FAILED, "It failed.", None, NOW)
        everything, result = JobFilters(), []
        before = None
        while some := jobs.page(connection, everything, before, 3):
            result += [job.id for job in some]
            before = some[-1].created_at, some[-1].id
        assert result == ["d", "c", "b", "a"]
        for filters, expected in (
            (JobFilters(preset=("p1",)), ["d", "b"]),
            (JobFilters(preset=("p1",), open=True), ["b"]),
            (JobFilters(open=False), ["d"]),
            (JobFilters(state=(JobState.FAILED, JobState.QUEUED), owner=("ada@lab.example",)), ["d", "c", "b", "a"]),
            (JobFilters(kind=(JobKind.DEV,)), []),
            (JobFilters(project=("other",)), []),
        ):
            assert [job.id for job in jobs.page(connection, filters, None, 9)] == expected
        assert [job.id for job in jobs.open_jobs(connection)] == ["a", "b", "c"]


def test_jobs_whose_disk_is_kept_are_found_among_those_that_are_over(database: Database) -> None:
    """Open ones and those; what saves elsewhere, was given up, succeeded, or has no VM any more is not among them."""
    ending: dict[str, Any] = {"state": AttemptState.ENDING, "outcome": Outcome.CRASHED, "ended_at": NOW}
    on_disk = CheckpointPlan("/ckpt", "--from {checkpoint}")
    with database.write() as connection:
        job_rows.added(connection, "open")
        for name in ("kept", "given", "gone"):
            job_rows.failed_on_disk(connection, name)
        jobs.give_disk_up(connection, "given", "ada@lab.example", NOW)
        (one,) = attempts.of_jobs(connection, ["gone"])["gone"]
        attempts.change(connection, one.id, list(AttemptState), state=AttemptState.OVER, gone_at=NOW)
        for name, plan, state in (
            ("stopping", on_disk, JobState.CANCELLED),
            ("bucket", CheckpointPlan("gs://lab/run"), JobState.FAILED),
            ("none", None, JobState.FAILED),
            ("done", on_disk, JobState.SUCCEEDED),
        ):
            job_rows.added(connection, name, checkpoint=plan)
            job_rows.attempt(connection, name, **ending)
            jobs.set_state(connection, name, state, "It is over.", None, NOW)
        result = jobs.page(connection, JobFilters(open=True, or_disk_kept=True), None, 9)
        assert {job.id for job in result} == {"open", "kept", "stopping"}
        assert [job.id for job in jobs.page(connection, JobFilters(open=True), None, 9)] == ["open"]
        assert [job.id for job in jobs.disk_kept(connection)] == ["kept", "stopping"]


def test_a_job_that_is_over_stays_so(database: Database) -> None:
    """Neither a state nor a cancellation reaches it; it is cancelled by who asked first."""
    later = NOW + timedelta(hours=1)
    with database.write() as connection:
        job_rows.added(connection)
        assert jobs.set_state(connection, "j7k2m9q4", JobState.RUNNING, "It runs.", later, NOW)
        assert jobs.ask_cancel(connection, "j7k2m9q4", "bob", "bob cancelled it.", NOW)
        assert not jobs.ask_cancel(connection, "j7k2m9q4", "eve", "eve cancelled it.", later)
        row = jobs.read(connection, "j7k2m9q4")
        assert row is not None
        assert (row.cancel_asked_by, row.cancel_asked_at, row.reason) == ("bob", NOW, "bob cancelled it.")
        assert row.next_at is None
        assert jobs.set_state(connection, "j7k2m9q4", JobState.CANCELLED, "Cancelled.", None, later)
        assert not jobs.set_state(connection, "j7k2m9q4", JobState.RUNNING, "It runs.", None, later)
        over = jobs.read(connection, "j7k2m9q4")
        assert over is not None
        assert (over.state, over.settled_at) == (JobState.CANCELLED, later)
        assert not jobs.ask_cancel(connection, "j7k2m9q4", "eve", "", later)


def test_a_look_is_kept_and_advances_with_newer_checkpoints_alone(database: Database) -> None:
    """A failed look keeps what was seen; an older checkpoint after a newer one was deleted is no advance."""
    first = SeenCheckpoint(NOW, "gs://lab/run/checkpoint-10", 10, NOW - timedelta(minutes=9), torn=("cut off",))
    minute = timedelta(minutes=1)
    with database.write() as connection:
        job_rows.added(connection)
        assert jobs.checkpoint(connection, ["j7k2m9q4"]) == {}

        def save(seen: SeenCheckpoint) -> SeenCheckpoint:
            stored = jobs.save_look(connection, "j7k2m9q4", seen)
            assert jobs.checkpoint(connection, ["j7k2m9q4"]) == {"j7k2m9q4": stored}
            return stored

        assert save(SeenCheckpoint(NOW)).advanced_at is None
        assert save(first) == replace(first, advanced_at=NOW, seen_at=NOW)
        failed = save(SeenCheckpoint(NOW + minute, error="no permission"))
        existing = replace(first, advanced_at=NOW, seen_at=NOW)
        assert failed == replace(existing, looked_at=NOW + minute, error="no permission")
        assert save(replace(first, looked_at=NOW + 2 * minute, torn=())).advanced_at == NOW
        newer = replace(first, looked_at=NOW + 3 * minute, resume_from="checkpoint-20", step=20, written_at=NOW)
        assert save(newer).advanced_at == NOW + 3 * minute
        assert save(replace(first, looked_at=NOW + 4 * minute)).advanced_at == NOW + 3 * minute
        kept = checkpoints_of(connection, "j7k2m9q4")
    assert [(item.step, item.first_seen_at) for item in kept] == [(20, NOW + 3 * minute), (10, NOW)]


def test_a_signing_key_is_made_once(database: Database) -> None:
    """It is long, and other names have others."""
    with database.write() as connection:
        made = signing.key(connection, "attempts", NOW)
        assert signing.key(connection, "guard", NOW) != made
    with database.read() as connection:
        assert signing.key(connection, "attempts", NOW + timedelta(days=1)) == made
    assert len(made) == 32
