"""A job's curves, from the points that its agent reports, notify its owner."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.jobs.world import World, world

from costguard.jobs.reports.progress.curve_news import Standstill, hint_of
from costguard.jobs.rows import job_rows
from costguard.jobs.rows.checkpoints import checkpoint_rows
from costguard.model.job import CheckpointPlan, EarlyEnd, JobMetric, JobState


def at_work(w: World, **given: Any) -> None:
    w.submit(**given)
    w.until_up("cg-j1-1")
    w.start()
    w.step()


def points(w: World, *values: tuple[int, dict[str, Any]]) -> None:
    """Reports one event; a minute passes before each point."""
    reported = []
    for step, fields in values:
        w.clock.advance(timedelta(minutes=1))
        reported.append({"unit": "step", "done": step, "at": w.clock.now().isoformat(), **fields})
    w.say("cg-j1-1", ("progress", {"points": reported}))


def losses(w: World, first: int, *values: float | str) -> None:
    points(w, *((first + place, {"phase": "train", "loss": value}) for place, value in enumerate(values)))


def evaluations(w: World, first: int, *values: float, name: str = "eval_loss") -> None:
    points(
        w,
        *((10 * (first + place), {"phase": "eval", "metrics": {name: value}}) for place, value in enumerate(values)),
    )


def falling(place: int) -> float:
    return 1 + 9 / (1 + place) + 0.004 * (place % 3)


def test_a_loss_that_is_no_number_is_reported_once(sqlite_url: str) -> None:
    """The report has the step, the value before, and the cost of an hour; it is repeated only after the loss
    went well.
    """
    with world(sqlite_url) as w:
        at_work(w)
        losses(w, 1, *[0.4] * 10)
        assert w.events("JobLossWrong") == []
        losses(w, 11, 0.4, "nan", "nan")
        losses(w, 14, "nan")
        (event,) = w.events("JobLossWrong")
        assert (
            "The loss of job bert is not a finite number at step 12; it was 0.4 before. It costs about $" in event.text
        )
        losses(w, 15, 0.4, 0.5)
        losses(w, 17, 6.1)
        assert len(w.events("JobLossWrong")) == 2


def test_a_metric_that_stands_still_is_a_hint_once(sqlite_url: str) -> None:
    """The hint has its gain, the time and its cost, the best, and the checkpoint next to it; a new best makes another
    one.
    """
    with world(sqlite_url) as w:
        at_work(w)
        with w.database.write() as connection:
            checkpoint_rows.add_checkpoint(connection, "j1", "gs://b/checkpoint-300", w.clock.now(), 300, w.clock.now())
        for begin in range(0, 30, 10):
            evaluations(w, begin, *map(falling, range(begin, begin + 10)))
        assert w.events("JobStandsStill") == []
        for begin in range(30, 90, 10):
            evaluations(w, begin, *(1.3 + 0.004 * (place % 3) for place in range(begin, begin + 10)))
        (event,) = w.events("JobStandsStill")
        assert event.text.startswith("The metric eval_loss of job bert seems to stand still: it gained 0.0% of all its")
        assert "its best is 1.3" in event.text
        assert "the nearest checkpoint is gs://b/checkpoint-300 (step 300)" in event.text


def standing(w: World) -> None:
    for begin in range(0, 30, 10):
        evaluations(w, begin, *map(falling, range(begin, begin + 10)))
    for begin in range(30, 90, 10):
        evaluations(w, begin, *(1.3 + 0.004 * (place % 3) for place in range(begin, begin + 10)))


def hint(w: World) -> Standstill | None:
    with w.database.read() as connection:
        return hint_of(connection, w.job())


def never_mind(w: World) -> None:
    with w.database.write() as connection:
        assert job_rows.never_mind(connection, "j1", "ana@example.com", w.clock.now())


def test_a_silenced_hint_comes_back_with_a_new_best_value(sqlite_url: str) -> None:
    """Until then neither the page nor the thread has it, however long the metric stands still."""
    with world(sqlite_url) as w:
        at_work(w)
        standing(w)
        shown = hint(w)
        assert shown is not None
        assert (shown.name, round(shown.best, 3)) == ("eval_loss", 1.3)
        never_mind(w)
        evaluations(w, 90, *[1.304] * 10)
        assert hint(w) is None
        evaluations(w, 100, 1.29, *[1.304] * 20)
        again = hint(w)
        assert again is not None
        assert again.best == 1.29
        assert len(w.events("JobStandsStill")) == 2


def test_a_silenced_standstill_is_no_news(sqlite_url: str) -> None:
    """Silenced before the thread had it, it is not posted later."""
    with world(sqlite_url) as w:
        at_work(w)
        for begin in range(0, 30, 10):
            evaluations(w, begin, *map(falling, range(begin, begin + 10)))
        evaluations(w, 30, 1.3)
        never_mind(w)
        for begin in range(31, 91, 10):
            evaluations(w, begin, *[1.304] * 10)
        assert w.events("JobStandsStill") == []


def test_no_hint_once_somebody_has_decided(sqlite_url: str) -> None:
    """It is to be cancelled after its next checkpoint; never mind brings it no hint of the same best."""
    with world(sqlite_url) as w:
        at_work(w)
        standing(w)
        with w.database.write() as connection:
            assert job_rows.ask_cancel_after(connection, "j1", "ana@example.com", w.clock.now())
        assert hint(w) is None
        never_mind(w)
        assert w.job().cancel_after_at is None
        assert hint(w) is None


def test_a_metric_of_the_jobs_own_comes_first(sqlite_url: str) -> None:
    """Where the job names one, no other is judged, whichever way that is better."""
    with world(sqlite_url) as w:
        at_work(w, metric=JobMetric("score (.*)", "higher"))
        for begin in range(0, 60, 10):
            evaluations(w, begin, *[2.0] * 10)
        assert w.events("JobStandsStill") == []


def test_an_evaluation_of_which_nobody_knows_the_better_way_gives_no_hint(sqlite_url: str) -> None:
    """A name says whether high or low is better; where it does not, nothing is claimed."""
    with world(sqlite_url) as w:
        at_work(w)
        for begin in range(0, 60, 10):
            evaluations(w, begin, *[2.0] * 10, name="eval_temperature")
        assert w.events("JobStandsStill") == []


FLAT = {"checkpoint": CheckpointPlan("gs://runs/train", "--resume {checkpoint}"), "stop_when_flat": True}


def test_a_job_that_is_to_stop_when_flat_is_finished_early(sqlite_url: str) -> None:
    """It has succeeded, with the reason: its command may save, and its owner gets the end in place of a hint."""
    with world(sqlite_url) as w:
        at_work(w, **FLAT)
        standing(w)
        assert w.events("JobStandsStill") == []
        (event,) = w.events("JobStoppedWhenFlat")
        assert event.text.startswith("Job bert is stopped when flat, as it was to be: its eval_loss gained 0.0% of all")
        assert w.job().early is EarlyEnd.FLAT
        answer = w.answer("cg-j1-1", ("heartbeat", {"is_running": True, "step": 60}))
        assert (answer.cancel, answer.why) == (True, "flat")
        w.exit("cg-j1-1", code=143, stop_request="flat")
        w.settle()
        assert w.job().state is JobState.SUCCEEDED
        assert w.job().reason.startswith(
            "stopped when flat, as it was to be: its eval_loss gained 0.0% of all its gain"
        )
        assert len(w.attempts()) == 1
        assert len(w.events("JobSucceeded")) == 1


def test_flat_job_whose_result_was_not_published_says_so(sqlite_url: str) -> None:
    """It has succeeded all the same, and no other VM is launched for that."""
    with world(sqlite_url) as w:
        at_work(w, **FLAT)
        standing(w)
        w.beat("cg-j1-1")
        ended = {"run": 1, "reason": "not_published", "code": 0, "asked": "flat", "error": "no permission"}
        w.say("cg-j1-1", ("exit", ended))
        w.settle()
        assert w.job().state is JobState.SUCCEEDED
        assert "could not be published: no permission" in w.job().reason
        assert len(w.attempts()) == 1


def test_a_flat_job_whose_vm_is_lost_is_not_launched_again(sqlite_url: str) -> None:
    """It was to end, and its last checkpoint is what it leaves."""
    with world(sqlite_url) as w:
        at_work(w, **FLAT)
        standing(w)
        w.cloud.preempt(w.vm())
        w.settle()
        assert w.job().state is JobState.SUCCEEDED
        assert len(w.attempts()) == 1


def test_a_job_whose_curve_is_noise_goes_on(sqlite_url: str) -> None:
    """Noise that hides the curve is no standstill."""
    with world(sqlite_url) as w:
        at_work(w, **FLAT)
        for begin in range(0, 60, 10):
            evaluations(w, begin, *(5 + (place * 7 % 11) / 10 for place in range(begin, begin + 10)))
        assert w.job().early is None
        assert not w.beat("cg-j1-1")


def test_a_standstill_that_a_user_silenced_ends_nothing(sqlite_url: str) -> None:
    """The job goes on until it has a new best value."""
    with world(sqlite_url) as w:
        at_work(w, **FLAT)
        for begin in range(0, 30, 10):
            evaluations(w, begin, *map(falling, range(begin, begin + 10)))
        evaluations(w, 30, 1.3)
        never_mind(w)
        for begin in range(31, 91, 10):
            evaluations(w, begin, *[1.304] * 10)
        assert w.job().early is None
        assert not w.beat("cg-j1-1")


def test_a_cancel_of_a_user_stays_one(sqlite_url: str) -> None:
    """Where it stands still while it is being cancelled, it is cancelled."""
    with world(sqlite_url) as w:
        at_work(w, **FLAT)
        with w.database.write() as connection:
            assert job_rows.ask_cancel(connection, "j1", "ana@example.com", "why", w.clock.now())
        standing(w)
        assert w.job().early is None
        assert w.events("JobStoppedWhenFlat") == []
