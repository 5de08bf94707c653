"""Jobs with something of everything: one that was preempted twice, one that waits, one that failed, a dev VM."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.pages import profile_story

from costguard.db.transaction import Database
from costguard.deadlines.situation import Act
from costguard.jobs.decide.planned import (
    AtRisk,
    JobPlan,
    Overhead,
    PlannedStep,
    ProgressPoint,
    Risk,
    ShadowChoice,
    StoredPlan,
    WorkLeft,
)
from costguard.jobs.rows import agent_rows, plan_rows
from costguard.jobs.rows import job_rows as jobs
from costguard.jobs.rows.agent_fields import JudgedWindow
from costguard.jobs.rows.diagnosis import diagnosis_rows
from costguard.jobs.rows.diagnosis.diagnosis_rows import NewWindow
from costguard.jobs.rows.progress import progress_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.model.attempt import AgentState, AttemptState, Exit, Interruption, Notice, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.job import Job, JobKind, JobState, SeenCheckpoint
from costguard.model.money import Money
from costguard.model.reported.metric import BestCheckpoint, MetricValue, SeenMetric
from costguard.model.reported.progress import EVALUATION, LOSS, POSITION, SeenProgress, SeriesPoint
from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.kinds import BoundVerdict, Number

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
RATE = Money.of("0.25")
OUTPUT = "\n".join(
    [f"step {step} loss {4 - step / 20_000:.3f}" for step in range(29_700, 30_500, 100)]
    + ["\x1b[32mepoch 3\x1b[0m   1%\r 50%\r100%", "saved checkpoint-30000 <done>"]
)

KEPT = BestCheckpoint("gs://lab/run/checkpoint-30000", 30_000, "2.31")
METRIC = SeenMetric("lower", MetricValue("2.475", 30_600, NOW), MetricValue("2.31", 30_000, NOW), KEPT)


def tell(database: Database) -> dict[str, str]:
    """The addresses of their pages, by name."""
    with database.write() as connection:
        rows.prices(connection)
        rows.project(connection)
        _preempted_twice(connection)
        _waits(connection)
        _failed(connection)
        _dev(connection)
    ids = {"resnet": "j7k2m9q4", "bert": "b3waits7", "gan": "g5failed", "": "d4devvm2"}
    return {name: f"/jobs/{job_id}" for name, job_id in ids.items()}


def _preempted_twice(connection: Connection) -> None:
    """Ten hours in three zones; the first time it lost 40 minutes, the second time all there was."""
    job = job_rows.added(
        connection, state=JobState.RUNNING, reason="Attempt 3 runs in us-central1-a.", created_at=NOW - 10 * HOUR
    )
    lives = (
        ("us-central1-a", NOW - 10 * HOUR, 5, NOW - 7 * HOUR, None),
        ("us-central1-b", NOW - 7 * HOUR + MINUTE, 12, NOW - 3 * HOUR, 12_000),
        ("us-central1-a", NOW - 3 * HOUR + 2 * MINUTE, 9, None, None),
    )
    for number, (zone, intended_at, boots, ended, step) in enumerate(lives, 1):
        is_open = ended is None
        over: dict[str, Any] = {"outcome": Outcome.PREEMPTED, "ended_at": ended, "reason": "Google took it back."}
        made = job_rows.attempt(
            connection,
            number=number,
            zone=zone,
            intended_at=intended_at,
            rate=RATE,
            resume_from=f"gs://lab/run/checkpoint-{step}" if step else "",
            resume_step=step,
            resume_why="attempt 1 failed at once" if step else "",
            state=AttemptState.RUNNING if is_open else AttemptState.OVER,
            gce_id=str(9100 + number),
            **({} if is_open else over),
        )
        started = intended_at + boots * MINUTE
        agent_rows.hear(connection, made.id, _reported(number, intended_at, started, ended or NOW))
        points = _curves(number, started, ended or NOW)
        progress_rows.add(connection, [progress_rows.NewPoints(job.id, made.id, points)])
        vm = rows.instance(
            connection, made.name, gce_id=str(9100 + number), job=job.id, provisioning_model="spot",
            **({} if is_open else {"gone_at": ended}),
        )  # fmt: skip
        rows.lifetime(
            connection,
            vm,
            intended_at,
            job=job.id,
            provisioning_model="spot",
            **({} if is_open else {"ended_at": ended}),
        )
        if ended is not None:
            lost = 40 * MINUTE if number == 1 else ended - started
            cut = Interruption(
                made.id, job.id, 1, Outcome.PREEMPTED, ended, ended + timedelta(seconds=number), Notice.NOTICE,
                requested_at=ended + MINUTE, resumed_at=ended + (13 if number == 1 else 11) * MINUTE,
                lost=lost, lost_cost=RATE.over(lost), from_zero=number == 2,
            )  # fmt: skip
            interruptions.add(connection, cut)
    _planned(connection, job)
    _bounded(connection, job.id, made.id)
    for hours, step in ((-9, 4_000), (-8, 12_000), (-1, 30_000)):
        at = NOW + hours * HOUR
        torn = ("checkpoint-30500: trainer_state.json is missing",) if step == 30_000 else ()
        seen = SeenCheckpoint(at + MINUTE, f"gs://lab/run/checkpoint-{step}", step, at, torn=torn)
        jobs.save_look(connection, job.id, seen)


def _planned(connection: Connection, job: Job) -> None:
    """Two days of time for a day of work: Spot so far, now on demand because no Spot zone lasts."""
    deadline = job.spec.deadline
    assert deadline is not None
    begin = NOW - 10 * HOUR
    left = WorkLeft(26 * HOUR, 28 * HOUR, "269,400 steps at 10,200 an hour")
    plan = JobPlan(
        Act.STAY,
        "stays on Spot in us-central1-a: 1.2 h behind, and on demand is not needed before 18:00 UTC",
        work_left=left,
        overhead=Overhead(20 * MINUTE, 25 * MINUTE),
        latest_safe_at=NOW + 6 * HOUR,
        finishes_at=NOW + 26 * HOUR,
        behind=72 * MINUTE,
        at_risk=AtRisk(Risk.WORK, "28 h of work are left. A faster machine type or less work would help."),
    )
    points = [(0.0, 30.0), (3.0, 28.0), (7.0, 27.5), (10.0, 26.0)]
    plan_rows.save(
        connection,
        [
            StoredPlan(
                job.id,
                NOW,
                plan,
                (
                    PlannedStep(
                        begin, Act.START_SPOT, "us-central1-a", "Spot in us-central1-a: it costs the least that way"
                    ),
                    PlannedStep(NOW - 3 * HOUR, Act.STAY, "", plan.reason, NOW + 6 * HOUR),
                ),
                tuple(ProgressPoint(begin + after * HOUR, hours * HOUR, NOW + 6 * HOUR) for after, hours in points),
                (
                    ShadowChoice("greedy", Act.STAY, "", "stays on Spot in us-central1-a: 1.2 h behind"),
                    ShadowChoice("on_demand", Act.START_ON_DEMAND, "", "on demand: it costs the least that way"),
                ),
            )
        ],
    )


def _bounded(connection: Connection, job_id: str, attempt_id: int) -> None:
    """Unknown at first, then its input twice: four vCPUs prepare less than its GPU takes."""
    waits = Number("without a kernel", 0.42, "share")
    held = BoundVerdict(
        kinds.INPUT,
        kinds.PROCESSORS,
        0.42,
        (waits, Number("main thread at the data", 0.81, "share"), Number("vCPUs used", 3.9, "cores")),
        "all vCPUs are in use",
    )
    unsure = BoundVerdict(kinds.UNKNOWN, None, 0.15, (waits._replace(value=0.15),), "the GPU waits too little")
    advice = "prepare the data once and store it, or take a VM with more vCPUs: 3.9 of 4 vCPUs are used"
    for number, verdict in enumerate((unsure, held, held)):
        since = NOW - (20 - 5 * number) * MINUTE
        said = advice if verdict is held else ""
        window = JudgedWindow(since, since + 5 * MINUTE, verdict, said, 300, 5 * MINUTE)
        diagnosis_rows.add_windows(connection, [NewWindow(job_id, attempt_id, 1, window)])
    profile_story.tell(connection, job_id, attempt_id, profile_story.slow(), NOW, windows=3)


def _reported(number: int, booted_at: datetime, started_at: datetime, at: datetime) -> AgentState:
    step = 10_200 * number
    progress = SeenProgress(at, "train", "step", step, 51_000.0, 2.8, loss="2.475", metrics={"eval_loss": "2.51"})
    return AgentState(
        at, 1, booted_at, started_at, step=step, step_at=at, output=OUTPUT, metric=METRIC, progress=progress
    )


def _curves(number: int, started: datetime, ended: datetime) -> list[SeriesPoint]:
    """A point every ten minutes and an evaluation an hour, even in pace, to the step that its attempt reached."""
    points, begins = [], {1: 0, 2: 9_000, 3: 12_000}[number]
    count = (ended - started) // (10 * MINUTE)
    for place in range(count + 1):
        at = started + place * (ended - started) / count
        done = begins + (10_200.0 * number - begins) * place / count
        values = {POSITION: None, LOSS: 1 + 4_000 / (done + 1_500)}
        values |= {f"{EVALUATION}eval_loss": 1.1 + 4_000 / (done + 1_500)} if place % 6 == 0 else {}
        points += [SeriesPoint(1, series, at, "step", done, value) for series, value in values.items()]
    return points


def _waits(connection: Connection) -> None:
    reason = "Every zone of preset t4 is out of Spot stock: it asks again at 12:04."
    job = job_rows.added(
        connection, "b3waits7", name="bert", owner="bob@lab.example", state=JobState.RECOVERING, reason=reason,
        created_at=NOW - HOUR, deadline=NOW - MINUTE,
    )  # fmt: skip
    for number, zone in enumerate(("us-central1-a", "us-central1-b"), 1):
        job_rows.attempt(
            connection, job.id, number, zone=zone, intended_at=NOW - 5 * MINUTE, state=AttemptState.OVER,
            outcome=Outcome.STOCKOUT, ended_at=NOW - 4 * MINUTE, reason="Google has none left there.",
            error="ZONE_RESOURCE_POOL_EXHAUSTED",
        )  # fmt: skip


def _failed(connection: Connection) -> None:
    reason = "The command ended with code 1 three times within 10 minutes."
    job = job_rows.added(
        connection, "g5failed", name="gan", state=JobState.FAILED, reason=reason, created_at=NOW - 30 * HOUR,
        settled_at=NOW - 29 * HOUR, image="us-docker.pkg.dev/lab/train/gan:7",
        secrets={"KEY": "projects/lab/secrets/k"}, work=None, deadline=None,
    )  # fmt: skip
    made = job_rows.attempt(
        connection, job.id, intended_at=NOW - 30 * HOUR, state=AttemptState.OVER, outcome=Outcome.CRASHED,
        ended_at=NOW - 29 * HOUR, provisioning_model=ProvisioningModel.STANDARD,
    )  # fmt: skip
    profile_story.tell(connection, job.id, made.id, profile_story.fast(), NOW - 29 * HOUR)
    gone = Exit("exited", NOW - 29 * HOUR, 1)
    agent_rows.hear(
        connection, made.id, AgentState(NOW - 29 * HOUR, 1, started_at=NOW - 29.5 * HOUR, exit=gone, output="no")
    )


def _dev(connection: Connection) -> None:
    job = job_rows.added(
        connection, "d4devvm2", kind=JobKind.DEV, name="", command=(), checkpoint=None, ceiling=None, deadline=None,
        state=JobState.RUNNING, reason="It is up.", created_at=NOW - HOUR, environment={},
    )  # fmt: skip
    job_rows.attempt(connection, job.id, state=AttemptState.RUNNING, intended_at=NOW - HOUR, gce_id="9200")
