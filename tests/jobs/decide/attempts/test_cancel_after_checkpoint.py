"""A cancel that waits for the next checkpoint: nothing of the work is lost, and no VM is left."""

from __future__ import annotations

from datetime import timedelta

from tests.jobs.world import World, world

from costguard.jobs.reports.checkpoints.checkpoint_watch import CheckpointWatch
from costguard.jobs.rows import job_rows
from costguard.model.job import JobState

ANA = "ana@example.com"


def ask(w: World) -> bool:
    with w.database.write() as connection:
        return job_rows.ask_cancel_after(connection, "j1", ANA, w.clock.now())


def at_work(w: World) -> None:
    w.submit()
    w.until_up("cg-j1-1")
    w.start()
    w.shelf.save(100)
    w.step()


def look(w: World, minutes: int = 5) -> None:
    """Looks at checkpoints, with a heartbeat every minute before."""
    for _ in range(minutes):
        w.clock.advance(timedelta(minutes=1))
        w.beat()
        w.step()
    CheckpointWatch(w.database, w.clock, w.shelf, w.terms).run()
    w.step()


def test_it_waits_for_the_next_checkpoint(sqlite_url: str) -> None:
    """The one that is there already does not count; the command then gets its notice, and its VM goes."""
    with world(sqlite_url) as w:
        at_work(w)
        assert ask(w)
        assert not ask(w)
        look(w)
        assert w.job().cancel_asked_at is None
        w.clock.advance(timedelta(seconds=1))
        w.shelf.save(200)
        look(w)
        assert w.job().cancel_asked_by == ANA
        assert w.beat(), "the agent hears that the command has to stop"
        (event,) = w.events("CancelAsked")
        assert "after its next checkpoint, and step 200 is saved." in event.text
        w.exit(stop_request="cancel")
        w.settle(minutes=2)
        assert w.job().state is JobState.CANCELLED
        assert w.cloud.running() == []


def test_never_mind_takes_it_back(sqlite_url: str) -> None:
    """ "Never mind" undoes also a cancel that is due already but not yet stored; it can be requested again."""
    with world(sqlite_url) as w:
        at_work(w)
        ask(w)
        stale = w.job()
        w.clock.advance(timedelta(seconds=1))
        with w.database.write() as connection:
            assert job_rows.never_mind(connection, "j1", ANA, w.clock.now())
            assert not job_rows.take_cancel_due(connection, stale, ANA, "due", w.clock.now())
        w.shelf.save(200)
        look(w)
        assert (w.job().cancel_after_at, w.job().cancel_asked_at) == (None, None)
        assert ask(w)
        w.clock.advance(timedelta(seconds=1))
        w.shelf.save(300)
        look(w)
        assert w.job().cancel_asked_by == ANA
        with w.database.write() as connection:
            assert not job_rows.never_mind(connection, "j1", ANA, w.clock.now())


def test_without_a_vm_it_is_cancelled_at_once(sqlite_url: str) -> None:
    """Nothing of it runs that could save, so that another VM would only repeat work."""
    with world(sqlite_url) as w:
        at_work(w)
        ask(w)
        w.exit(code=1)
        w.settle(minutes=2)
        assert w.job().state is JobState.CANCELLED
        assert len(w.attempts()) == 1


def test_a_command_that_finishes_before_has_succeeded(sqlite_url: str) -> None:
    """The wish is for less work, not for another end."""
    with world(sqlite_url) as w:
        at_work(w)
        ask(w)
        w.exit(code=0)
        w.settle(minutes=2)
        assert w.job().state is JobState.SUCCEEDED
