"""The metric of a job: what its agents report is kept by attempt, and read as the last and the best of all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.jobs.reports.test_agent_report import agent, event

from costguard.db.transaction import Database
from costguard.jobs.decide.measures.pace import metric_of
from costguard.jobs.rows import agent_rows, attempts
from costguard.model.attempt import AgentState
from costguard.model.reported.metric import BestCheckpoint, MetricValue, SeenMetric

MINUTE = timedelta(minutes=1)


def value(text: str, step: int | None = None) -> MetricValue:
    return MetricValue(text, step, NOW)


def reported(last: str, best: str | None = None, better: str = "lower") -> dict[str, Any]:
    one = {"value": last, "step": 7, "at": NOW.isoformat()}
    return {"better": better, "last": one, "best": best and {**one, "value": best}}


def test_the_best_stays_when_an_agent_begins_to_count_afresh() -> None:
    """A new agent, or a new run, knows only what it has read itself."""
    first = agent(event(1, "heartbeat", metric=reported("0.5", "0.3"))).agent
    assert first.metric is not None
    second = agent(event(2, "boot", run=2), event(3, "heartbeat", run=2, metric=reported("0.4", "0.4")), before=first)
    assert second.agent.metric is not None
    assert second.agent.metric.last.text == "0.4"
    assert second.agent.metric.best is not None
    assert second.agent.metric.best.text == "0.3"


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        {},
        {"better": "more", "last": {"value": "1"}},
        {"better": "lower", "last": {"value": 1}},
        {"better": "lower", "last": {"value": "one"}},
        {"better": "lower", "last": None, "best": {"value": "1"}},
        {"better": "lower", "last": {"value": "9" * 1000}},
    ],
)
def test_what_is_no_metric_is_left_out(odd: object) -> None:
    """Malformed values are left out, and known ones stay.

    The number with too many digits is cut, so that it is finite.
    """
    before = agent(event(1, "heartbeat", metric=reported("0.5", "0.3"))).agent
    metric = agent(event(2, "heartbeat", metric=odd), before=before).agent.metric
    assert metric is not None
    assert metric.best is not None
    assert metric.best.text == "0.3"


def test_nan_is_a_last_value_and_never_the_best() -> None:
    """NaN is never the best, also where an agent says otherwise."""
    metric = agent(event(1, "heartbeat", metric=reported("nan", "nan"))).agent.metric
    assert metric is not None
    assert (metric.last.text, metric.last.value, metric.best) == ("nan", None, None)


@pytest.mark.parametrize(("better", "best"), [("lower", "0.2"), ("higher", "0.9")])
def test_a_jobs_metric_is_of_all_its_attempts(database: Database, better: str, best: str) -> None:
    """A job's metric is stored as the last of the latest attempt that has one, and the best of all."""
    printed = [("0.9", "0.9"), ("0.2", "0.2"), ("0.5", "0.5")]
    with database.write() as connection:
        job = job_rows.added(connection)
        for number, (last, its_best) in enumerate(printed, 1):
            attempt = job_rows.attempt(connection, number=number)
            seen = SeenMetric(better, value(last, number), value(its_best, number))
            agent_rows.hear(connection, attempt.id, AgentState(at=NOW, metric=seen))
            agent_rows.hear(connection, attempt.id, AgentState(at=NOW + MINUTE))
        job_rows.attempt(connection, number=4)
        metric = metric_of(attempts.of_jobs(connection, [job.id])[job.id])
    assert metric is not None
    assert (metric.last.text, metric.last.step) == ("0.5", 3)
    assert metric.best is not None
    assert metric.best.text == best


def test_a_job_without_a_value_has_no_metric(database: Database) -> None:
    """Unknown is not zero."""
    with database.write() as connection:
        job = job_rows.added(connection)
        job_rows.attempt(connection)
        assert metric_of(attempts.of_jobs(connection, [job.id])[job.id]) is None


def test_of_equal_values_the_first_is_the_best() -> None:
    """The step is the one where the model became that good."""
    first, second = (SeenMetric("lower", value("1.0", step), value("1.0", step)) for step in (1, 2))
    best = first.then(second).best
    assert best is not None
    assert best.step == 1


def test_best_checkpoint_stays_with_the_metric() -> None:
    """It is the one that was reported last, whatever values come after it, also of a later attempt."""
    first = agent(event(1, "heartbeat", metric=reported("0.5", "0.3")))
    kept: dict[str, Any] = {"place": "s3://lab/run/step-20", "of_step": 20, "value": "0.3"}
    after = agent(event(2, "best", **kept), event(3, "heartbeat", metric=reported("0.4")), before=first.agent)
    assert after.agent.metric is not None
    assert after.agent.metric.kept == BestCheckpoint("s3://lab/run/step-20", 20, "0.3")
    later = SeenMetric("lower", value("0.6"))
    assert after.agent.metric.then(later).kept == after.agent.metric.kept
    for changed in ({"place": ""}, {"of_step": "20"}, {"value": "nan"}, {"value": "x"}):
        again = agent(event(4, "best", **{**kept, **changed}), before=first.agent)
        assert again.agent.metric is not None
        assert again.agent.metric.kept is None, changed
