"""What a job's curves say to its owner, from the points that its agent reports."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.jobs.world import World, world

from costguard.jobs import job_rows
from costguard.model.job import JobMetric


def at_work(w: World, **given: Any) -> None:
    w.submit(**given)
    w.until_up("cg-j1-1")
    w.start()
    w.step()


def points(w: World, *values: tuple[int, dict[str, Any]]) -> None:
    """One event; a minute passes before each point."""
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
    """With the step, what it was before, and the cost of an hour; again only after it went well."""
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
    """With its gain, the time and its cost, the best, and the checkpoint next to it; a new best makes another one."""
    with world(sqlite_url) as w:
        at_work(w)
        with w.database.write() as connection:
            job_rows.add_checkpoint(connection, "j1", "gs://b/checkpoint-300", w.clock.now(), 300, w.clock.now())
        for begin in range(0, 30, 10):
            evaluations(w, begin, *map(falling, range(begin, begin + 10)))
        assert w.events("JobStandsStill") == []
        for begin in range(30, 90, 10):
            evaluations(w, begin, *(1.3 + 0.004 * (place % 3) for place in range(begin, begin + 10)))
        (event,) = w.events("JobStandsStill")
        assert event.text.startswith("The metric eval_loss of job bert seems to stand still: it gained 0.0% of all its")
        assert "its best is 1.3" in event.text
        assert "the nearest checkpoint is gs://b/checkpoint-300 (step 300)" in event.text


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
