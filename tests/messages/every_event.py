"""Collects Slack's messages about every kind of event, composed as the product composes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.jobs.job_service import JobSetup, priced
from tests.schedules import schedule_story
from tests.sweeps import sweep_story

from costguard.access.rules import Rules
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.rows import agent_rows
from costguard.jobs.rows.recovery import interruptions
from costguard.ledger.accrual import accrual_at
from costguard.messages import job_update, notification, sweep_update
from costguard.messages.announcing import JobEvent
from costguard.messages.job_update import JobSnapshot
from costguard.messages.notification import NotificationComposer
from costguard.messages.outbox import Composed
from costguard.messages.outbox_rows import StoredMessage
from costguard.messages.sweep_update import SweepEvent
from costguard.model.attempt import AgentState, AttemptState, Interruption, Notice, Outcome
from costguard.model.budget import Budget, Period, Scope
from costguard.model.delivery.message import NotificationContent
from costguard.model.event import Event, new_event
from costguard.model.instance import InstanceKey
from costguard.model.job import JobState
from costguard.model.money import Money
from costguard.model.reported.hang import Hang
from costguard.model.sweep import SweepState
from costguard.sweeps import listing
from costguard.sweeps.listing import SweepOverview

URL = "https://guard.example"
JOB = "j7k2m9q4"
RULES = Rules({}, channel="#gpus", budgets=(Budget("lab", Scope(project="lab"), Money.of(100), Period.MONTH),))
# What the makers of these events store with them; of the others the text alone is shown.
_DATA: Mapping[str, Mapping[str, Any]] = {
    "BudgetThresholdCrossed": {
        "budget": "lab", "percent": 50, "on": "spent", "period": "month",
        "period_starts_at": (NOW.replace(day=1, hour=0) - timedelta(days=30)).isoformat(),
        "limit_nanos": 100 * 10**9, "spent_nanos": 51 * 10**9, "forecast_nanos": 96 * 10**9,
    },
    "OwnerClaimed": {"before": "bob@lab.example"},
    "BurnRateUnusual": {"rate_nanos": 40 * 10**9, "usual_nanos": 5 * 10**9},
    "BillDrifted": {"total_nanos": 8_400_000_000, "worst": ["2026-11-15 train-7: The bill has no row of it."]},
    "GenerationBegan": {"generation": 2},
    "ScheduleRunMissed": {"schedule": schedule_story.ID},
    "ScheduleRunRefused": {"schedule": schedule_story.ID},
}  # fmt: skip
_HANG = Hang(NOW, "still", "training", timedelta(minutes=20), stacks='File "/opt/train.py", line 88 in step')


def contents(database: Database) -> Mapping[str, NotificationContent]:
    """Returns contents by the kind of event; cards of jobs and sweeps by `card-` and their state."""
    job, sweep = _job(database), _sweep(database)
    schedule_story.tell(JobSetup(database))
    composed: dict[str, NotificationContent] = {}
    for kind in notification.KINDS:
        if kind in list(JobEvent):
            composed[kind] = job_update.news(job, _event(kind, {"job": JOB}), URL)
        elif kind not in list(SweepEvent):  # a sweep's are composed of its state alone
            composed[kind] = _noticed(database, _event(kind, _DATA.get(kind, {})))
    for state in JobState:
        now = replace(job, job=replace(job.job, state=state))
        composed[f"card-job-{state.value}"] = job_update.card(now, f"{URL}/jobs/{JOB}")
    for sweep_state in SweepState:
        stands = replace(sweep.row.sweep, state=sweep_state)
        content = sweep_update.content(
            replace(sweep, row=replace(sweep.row, sweep=stands)), f"{URL}/sweeps/{stands.id}"
        )
        composed[f"card-sweep-{sweep_state.value}"] = content
    return composed


def _job(database: Database) -> JobSnapshot:
    """Makes a job whose second attempt runs on a disk that is nearly full, after a preemption that lost work."""
    with priced(database).write() as connection:
        job_rows.added(connection, state=JobState.RUNNING, reason="attempt 2 runs", ceiling=Money.of(40))
        first = job_rows.attempt(connection, state=AttemptState.OVER, outcome=Outcome.PREEMPTED)
        second = job_rows.attempt(connection, number=2, state=AttemptState.RUNNING)
        machine = {"disk_free_bytes": 1 << 30, "disk_total_bytes": 100 << 30, "disk_mount": "/data"}
        output = "step 11999\nstep 12000\n"
        state = AgentState(NOW, 1, step=12_000, machine=machine, output=output, hang=_HANG)
        agent_rows.hear(connection, second.id, state)
        lost = Interruption(
            first.id, JOB, 1, Outcome.PREEMPTED, NOW, NOW, Notice.NOTICE, resumed_at=NOW + timedelta(minutes=4),
            lost=timedelta(minutes=12), lost_cost=Money.of("0.05"),
        )  # fmt: skip
        interruptions.add(connection, lost)
        rows.lifetime(connection, rows.instance(connection, second.name, job=JOB), NOW - timedelta(hours=2), job=JOB)
    with database.read() as connection:
        scene = job_update.read_scene(connection, accrual_at(connection, NOW), JOB)
    assert scene is not None
    return scene


def _sweep(database: Database) -> SweepOverview:
    sweep_story.tell(JobSetup(database))
    with database.read() as connection:
        overview = listing.sweep_detail(connection, accrual_at(connection, NOW), sweep_story.ID)
    assert overview is not None
    return overview


def _event(kind: str, data: Mapping[str, Any]) -> Event:
    text = "What happened, in one sentence."
    vm = InstanceKey("lab", "4711")
    return new_event(kind, NOW, text, "golden", vm=vm, name="trainer", actor="ada@lab.example", data=data)


def _noticed(database: Database, event: Event) -> NotificationContent:
    with database.write() as connection:
        audit_log.append(connection, [event], NOW)
    data = {"events": [event.key]}
    message = StoredMessage(0, f"notice/{event.key}", notification.KIND, "#gpus", data, "intended", NOW, NOW)
    with database.read() as connection:
        made = NotificationComposer(RULES, URL)(connection, message, NOW)
    assert isinstance(made, Composed)
    assert isinstance(made.content, NotificationContent)
    return made.content
