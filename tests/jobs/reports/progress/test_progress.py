"""Agents' reports of progress are bounded, kept by job, and read as curves, hours and dollars."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection
from tests.api.rows import NOW
from tests.jobs import job_rows, jobbed
from tests.jobs.reports.test_agent_report import agent, event

from costguard.db.transaction import Database
from costguard.jobs.reports.progress.progress import SharedBill, job_progress, progress_of, total_of
from costguard.jobs.rows import agent_fields, agent_rows, attempts
from costguard.jobs.rows.progress import progress_rows
from costguard.ledger.accrual import accrual_at
from costguard.model.attempt import AgentState, Attempt, Interruption, Notice, Outcome
from costguard.model.money import Money, Priced
from costguard.model.reported.progress import EVALUATION, LOSS, NAMED, POSITION, SeenProgress, SeriesPoint
from costguard.spend.goodput import BilledVM
from costguard_vm.progress.series import MOST

MINUTE = timedelta(minutes=1)
NO_BILL = SharedBill((), Priced(), NOW)
BEAT = {
    "phase": "train", "read_at": NOW.isoformat(), "unit": "step", "done": 120, "of": 9000, "steps_per_s": 2.5,
    "step": 120, "total": 9000, "loss": 0.31, "metrics": {"lr": 1e-05, "eval_loss": "nan"},
}  # fmt: skip


def point(done: float | None, series: str = LOSS, run: int = 1, minute: float = 0, **more: Any) -> SeriesPoint:
    values = {"unit": "step", "value": 0.5, "attempt_id": 1, **more}
    return SeriesPoint(run=run, series=series, at=NOW + minute * MINUTE, done=done, **values)


def test_a_heartbeat_tells_where_the_training_stands() -> None:
    """Numbers that are not finite come as words, since JSON has none for them."""
    seen = agent(event(1, "heartbeat", progress=BEAT)).agent.progress
    assert seen is not None
    assert (seen.unit, seen.done, seen.end, seen.per_second, seen.loss) == ("step", 120, 9000, 2.5, "0.31")
    assert seen.metrics == {"lr": "1e-05", "eval_loss": "nan"}


def test_progress_is_known_until_the_next_run_tells_its_own() -> None:
    """A new VM boots, and the page still shows how far the job is."""
    first = agent(event(1, "heartbeat", progress=BEAT)).agent
    second = agent(event(2, "boot", run=2), before=first).agent
    assert second.progress == first.progress


def test_points_become_series() -> None:
    """The training's position and loss, evaluations by their name, and the metric that the job names."""
    points = [
        {"at": NOW.isoformat(), "phase": "train", "unit": "step", "done": 10, "loss": 0.5},
        {"at": NOW.isoformat(), "phase": "eval", "unit": "step", "done": 10, "metrics": {"eval_acc": 0.9}},
        {"at": NOW.isoformat(), "phase": "named", "unit": "step", "done": 10, "metrics": {"metric": "nan"}},
    ]
    series = [(one.series, one.done, one.value) for one in agent(event(1, "progress", points=points)).points]
    assert series == [
        (POSITION, 10, None),
        (LOSS, 10, 0.5),
        (f"{EVALUATION}eval_acc", 10, 0.9),
        (NAMED, 10, None),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(
        st.sampled_from(["at", "phase", "unit", "done", "loss", "metrics", "of", "read_at", "epoch", "step"])
        | st.text(max_size=120),
        inner,
        max_size=6,
    ),
    max_leaves=30,
)  # fmt: skip


@given(JSON, st.lists(JSON, max_size=100))
def test_whatever_a_vm_reports_is_bounded(progress: object, points: list[object]) -> None:
    """A report is bounded because its command can print anything, and a VM can send anything."""
    update = agent(event(1, "heartbeat", progress=progress), event(2, "progress", points=points))
    assert len(update.points) <= agent_fields.MOST_POINTS * (agent_fields.MOST_METRICS + 2)
    assert all(len(one.series) <= 110 for one in update.points)
    stored = agent_fields.progress_column(update.agent.progress)
    assert agent_fields.progress_of_column(stored) == update.agent.progress


def made_attempt(connection: Connection) -> Attempt:
    job_rows.added(connection)
    return job_rows.attempt(connection)


def test_a_series_keeps_a_few_hundred_points(database: Database) -> None:
    """Two days of a point a minute; what a later start did again goes first."""
    with database.write() as connection:
        made = made_attempt(connection)
        for minute in range(0, 2880, 40):
            batch = [point(n * 10.0, minute=n) for n in range(minute, minute + 40)]
            progress_rows.add(connection, [progress_rows.NewPoints(made.job_id, made.id, batch)])
    with database.read() as connection:
        kept = progress_rows.of_job(connection, made.job_id)[LOSS]
    assert MOST / 2 <= len(kept) <= MOST
    assert kept[-1].done == 28790
    assert kept[0].done == 0


def test_a_job_has_a_limited_number_of_evaluations(database: Database) -> None:
    """A command that prints a new name each time fills no database."""
    with database.write() as connection:
        made = made_attempt(connection)
        points = [point(1.0, f"{EVALUATION}m{number}") for number in range(200)]
        progress_rows.add(connection, [progress_rows.NewPoints(made.job_id, made.id, points)])
        assert len(progress_rows.of_job(connection, made.job_id)) == progress_rows.MOST_EVALUATIONS


def test_an_attempts_progress_is_stored_and_read(database: Database) -> None:
    """Exactly, with numbers that are not finite."""
    seen = SeenProgress(NOW, "eval", "step", 7.0, 100.0, 2.5, 0.5, 3, 7, 10, "nan", {"eval_loss": "inf"})
    with database.write() as connection:
        made = made_attempt(connection)
        state = agent(event(1, "heartbeat", progress=BEAT)).agent
        agent_rows.hear(connection, made.id, state)
        assert (attempts.of_jobs(connection, [made.job_id])[made.job_id][0].agent.progress) == state.progress
        shown = job_progress(connection, accrual_at(connection, NOW), made.job_id)
    assert shown is not None
    assert (shown.done, shown.total) == (120, 9000)
    assert agent_fields.progress_of_column(agent_fields.progress_column(seen)) == seen


def positions(until: int, attempt_id: int = 1, begin: float = 0, first: int = 0) -> list[SeriesPoint]:
    """A step a second, a point a minute."""
    return [
        point(60.0 * n, POSITION, minute=begin + n - first, value=None, attempt_id=attempt_id)
        for n in range(first, until + 1)
    ]


def seen_at(done: float, end: float | None = 7200.0) -> SeenProgress:
    return SeenProgress(NOW, "train", "step", done, end, 1.0)


def running_with(seen: SeenProgress) -> Attempt:
    return jobbed.attempt(agent=AgentState(run=1, progress=seen), rate=Money.of("0.50"))


def test_hours_and_dollars_are_left() -> None:
    """An hour of steps at 50 cents an hour."""
    shown = progress_of(jobbed.job(), [running_with(seen_at(3600))], (), {POSITION: positions(60)}, NO_BILL)
    assert shown.left is not None
    assert shown.left.likely == timedelta(hours=1)
    assert shown.left.cost_likely == Money.of("0.50")
    assert shown.left.low < shown.left.likely < shown.left.high


def test_the_owners_number_of_steps_wins() -> None:
    """The total that a program prints may be that of a stage."""
    spec = jobbed.job(total_steps=9000)
    assert total_of(spec, seen_at(3600)) == 9000
    assert total_of(jobbed.job(), seen_at(3600)) == 7200


def test_a_total_that_was_passed_was_none() -> None:
    """It trains on: how long is not known, and nothing is said of the hours left."""
    shown = progress_of(jobbed.job(), [running_with(seen_at(7201))], (), {POSITION: positions(120)}, NO_BILL)
    assert (shown.total, shown.left) == (None, None)


def test_speed_has_no_points_across_a_preemption() -> None:
    """The hour without a VM is no slow step."""
    series = {POSITION: [*positions(10), *positions(20, 2, begin=70, first=8)]}
    shown = progress_of(jobbed.job(), [running_with(seen_at(1200))], (), series, NO_BILL)
    [speed] = [curve for curve in shown.curves if curve.kind == "speed"]
    assert {one.value for one in speed.points} == {1.0}
    assert len(speed.points) == 22


def test_preemptions_are_marked() -> None:
    """The mark is at Google's moment."""
    cut = Interruption(1, "j1", 1, Outcome.PREEMPTED, NOW, NOW, Notice.OPERATION)
    assert progress_of(jobbed.job(), (), [cut], {}, NO_BILL).interrupted_at == (NOW,)


def billed(minutes: int, rate: str | None = "0.50", first: int = 0, ended: bool = True) -> BilledVM:
    began = NOW + first * MINUTE
    return BilledVM(began, began + minutes * MINUTE if ended else None, 1, Money.of(rate) if rate else None)


@pytest.mark.parametrize(("minutes", "cost"), [(0, "0"), (30, "0.20"), (75, "0.40"), (120, "0.60"), (500, "0.80")])
def test_a_point_knows_what_the_job_had_cost(minutes: int, cost: str) -> None:
    """The bill, by the time of its VMs: the last point is never above the cost that its page shows."""
    vms = (billed(60), billed(60, first=90))
    bill = SharedBill(vms, Priced(Money.of("0.80")), NOW + 600 * MINUTE)
    assert bill.by(NOW + minutes * MINUTE) == Money.of(cost)
    open_vm = SharedBill((billed(0, ended=False),), Priced(Money.of("0.80")), NOW + 80 * MINUTE)
    assert open_vm.by(NOW + 40 * MINUTE) == Money.of("0.40")


def test_cost_without_a_rate_or_with_a_part_unpriced_is_unknown() -> None:
    """The cost is unknown and not zero; it is unknown too before the ledger has seen a VM."""
    for vms, cost in (
        ((billed(60, rate=None),), Priced(Money.of(1))),
        ((billed(60),), Priced(Money.of(1), whole=False)),
        ((), Priced()),
    ):
        assert SharedBill(vms, cost, NOW + 60 * MINUTE).by(NOW + MINUTE) is None
