"""An attempt that fails at once after it resumed: the next one tries the checkpoint before it."""

from __future__ import annotations

from datetime import timedelta

from tests.jobs.world import World, world

from costguard.model.job import JobState


def _running(w: World, name: str = "cg-j1-1") -> None:
    w.until_up(name)
    w.start(name)
    w.step()
    assert w.job().state is JobState.RUNNING, w.job().reason


def _preempted(w: World, name: str = "cg-j1-1") -> None:
    w.notice(name)
    w.cloud.preempt(w.vm(name))
    w.exit(name, stop_request="preemption")


def _crashed(w: World, name: str) -> None:
    """A minute after its start, as a command does that cannot load its checkpoint."""
    _running(w, name)
    w.clock.advance(timedelta(minutes=1))
    w.exit(name, code=1)
    w.step()


def test_a_checkpoint_that_fails_an_attempt_at_once_is_passed_over(sqlite_url: str) -> None:
    """The next one tries the checkpoint before it, and says so; with no other left the newest is tried once more."""
    with world(sqlite_url) as w:
        w.submit(max_crashes=5)
        _running(w)
        for step in (100, 200):
            w.shelf.save(step)
            w.clock.advance(timedelta(minutes=20))
        _preempted(w)
        w.settle(1)
        _crashed(w, "cg-j1-2")
        w.settle(1)
        (_, second, third) = w.attempts()
        assert (second.resume_step, second.resume_why) == (200, "")
        assert third.resume_step == 100
        assert "attempt 2 failed at once after it resumed from step 200" in third.resume_why
        (event,) = w.events("CheckpointPassedOver")
        assert "resumes from step 100, gs://runs/train/checkpoint-100, because attempt 2 failed at once" in event.text
        assert "gs://runs/train/checkpoint-200 is left where it is" in event.text
        _crashed(w, "cg-j1-3")
        w.settle(5)
        fourth = w.attempts()[3]
        assert (fourth.resume_step, "no other is complete" in fourth.resume_why) == (200, True)
        assert w.events("JobRestartedFromZero") == []


def test_a_newer_checkpoint_ends_the_suspicion(sqlite_url: str) -> None:
    """Later checkpoints of the attempt from the older one are resumed from, as ever."""
    with world(sqlite_url) as w:
        w.submit()
        _running(w)
        w.shelf.save(100)
        w.clock.advance(timedelta(minutes=5))
        w.shelf.save(200)
        w.clock.advance(timedelta(minutes=5))
        _preempted(w)
        w.settle(1)
        _crashed(w, "cg-j1-2")
        w.settle(1)
        _running(w, "cg-j1-3")
        w.clock.advance(timedelta(minutes=30))
        w.shelf.save(300)
        _preempted(w, "cg-j1-3")
        w.settle(1)
        assert [(one.resume_step, one.resume_why) for one in w.attempts()[3:]] == [(300, "")]
