"""Events of jobs, their VMs and sweeps, made by the functions that make them in the product."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.jobs.job_service import JobSetup, asked, priced
from tests.schedules import schedule_story
from tests.sweeps import sweep_story

from costguard.daemon import restoring
from costguard.db.transaction import Database
from costguard.events import audit_log
from costguard.jobs.act import unknown_vms as found_vms
from costguard.jobs.act.job_vms import PresentVm
from costguard.jobs.act.unknown_vms import UnknownVmFindings
from costguard.jobs.decide.checkpoints.disk import DiskReading, DiskState
from costguard.jobs.decide.checkpoints.work_at_risk import WorkAtRisk
from costguard.jobs.decide.gang.straggler import Straggler
from costguard.jobs.decide.planned import AtRisk, Risk
from costguard.jobs.rows import job_events
from costguard.jobs.rows.agent_fields import BoundStretch
from costguard.jobs.submit import submit
from costguard.ledger.unknown_vms import UnknownVm
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.delivery.tracker import TrackedRun, Tracker
from costguard.model.event import Event
from costguard.model.instance import InstanceKey, ProvisioningModel, Status
from costguard.model.job import Job, JobState, SeenCheckpoint
from costguard.model.money import Money, Priced
from costguard.model.reported.drill import Drill, DrillResult, DrillState
from costguard.model.reported.hang import Hang
from costguard.model.reported.progress import SeriesPoint
from costguard.model.sweep import MemberStop, Sweep, SweepMember, SweepState
from costguard.schedules import schedule_events
from costguard.schedules.schedule import RunOutcome, Schedule, ScheduleRun, ScheduleState
from costguard.stages import stage_events
from costguard.stages.stage import DataStage
from costguard.sweeps import sweep_events
from costguard.trackers import tracker_events
from costguard_vm.diagnosis.kinds import BoundVerdict, Number

ADA = "ada@lab.example"
_MINUTE = timedelta(minutes=1)
_HANG = Hang(NOW, "still", "training", 20 * _MINUTE, step=400)
_KEY = InstanceKey("lab", "4711")


def record(database: Database) -> None:
    with priced(database).write() as connection:
        job = job_rows.added(connection)
        attempt = job_rows.attempt(
            connection, state=AttemptState.RUNNING, resume_from="gs://lab/run/checkpoint-500", resume_step=500,
            gce_id="4711",
        )  # fmt: skip
        made = [
            *_of_attempts(job, attempt),
            *_of_runs(job, attempt),
            *_of_checkpoints(job, attempt),
            *_of_jobs(job),
            *_of_stages(),
        ]
        audit_log.append(connection, made, NOW)
    office = JobSetup(database)
    office.it.submit(asked(name="resnet"), None, "cli")
    sweep = sweep_story.tell(office)
    with database.write() as connection:
        audit_log.append(connection, _of_sweeps(sweep), NOW)
    schedule = schedule_story.tell(office)
    with database.write() as connection:
        audit_log.append(connection, _of_schedules(schedule), NOW)
    _unknown(database, job)


def _of_attempts(job: Job, attempt: Attempt) -> list[Event]:
    follows = replace(attempt, number=2, follows=1)
    return [
        job_events.launched(job, attempt, NOW),
        job_events.takes_over(job, follows, NOW),
        job_events.round_began(replace(job, spec=replace(job.spec, nodes=4)), attempt, 2, 4, NOW),
        job_events.round_over(job, 1, "round 1 is over, because one of its VMs is replaced", NOW),
        job_events.policy_made(job, "cg-j1", "us-central1", NOW),
        job_events.policy_deleted(job, "cg-j1", "us-central1", NOW),
        job_events.restarted(job, attempt, NOW),
        job_events.ended(job, attempt, Outcome.PREEMPTED, "Google preempted it", NOW),
        job_events.rested(job, attempt, 1, "Google preempted it", NOW),
        job_events.started(job, attempt, 1, NOW),
        job_events.resumed(job, attempt, 2, 4 * _MINUTE, NOW),
        job_events.from_zero(job, attempt, WorkAtRisk(12 * _MINUTE, Money.of("0.05")), NOW, has_saved=False),
        job_events.disk_kept(job, attempt, "step 40", "about $9.60 a month", NOW),
        job_events.orphan_deleted("lab", "us-central1-a", "stray", "4712", "its job is over", NOW),
        job_events.orphan_kept("lab", "us-central1-a", "stray", "4713", "its job is over", NOW),
    ]


def _of_runs(job: Job, attempt: Attempt) -> list[Event]:
    disk = DiskReading(DiskState.LOW, "/data", 1 << 30, 100 << 30, "1.0 GiB of 100.0 GiB is free on /data")
    point = SeriesPoint(1, "loss", NOW, "step", 400, None)
    verdict = BoundVerdict("input", "workers", 0.6, (Number("GPU waits", 0.6, "share"),), "")
    stretch = BoundStretch(
        job.id, attempt.id, 1, NOW, NOW + 10 * _MINUTE, 2, verdict, "use more workers.", 100, 10 * _MINUTE
    )
    return [
        job_events.disk_low(job, attempt, 1, disk, NOW),
        job_events.hangs(job, attempt, 1, _HANG, NOW + 25 * _MINUTE),
        job_events.goes_on(job, attempt, 1, _HANG, NOW + 40 * _MINUTE),
        job_events.loss_wrong(job, attempt, point, None, 0.25, NOW),
        job_events.bounded(job, attempt, stretch, None, NOW),
        job_events.straggles(job, Straggler(2, "cg-gpt-3", None, NOW - 6 * _MINUTE, NOW, stretch.verdict), NOW),
    ]


def _of_checkpoints(job: Job, attempt: Attempt) -> list[Event]:
    seen = SeenCheckpoint(NOW, "gs://lab/run/checkpoint-500", 500, NOW)
    return [
        job_events.flushed(job, attempt, 1, ["checkpoint-600"], ["checkpoint-700"], NOW),
        job_events.unrecognised(job, attempt, 1, "model.bin is no checkpoint.", NOW),
        job_events.not_uploaded(job, attempt, 1, "The bucket refuses it.", NOW),
        job_events.torn(job, "checkpoint-600: optimizer.pt is missing", NOW),
        job_events.passed_over(job, attempt, "checkpoint-600", NOW),
        job_events.stalled(job, attempt, seen, WorkAtRisk(_MINUTE, Money.of("0.05")), NOW),
    ]


def _of_jobs(job: Job) -> list[Event]:
    ended = [(JobState.SUCCEEDED, "j0000001"), (JobState.FAILED, "j0000002"), (JobState.CANCELLED, "j0000003")]
    drill = Drill(job.id, 1, NOW, ADA)
    over = replace(drill, state=DrillState.OVER, result=DrillResult.NEVER, ended_at=NOW)
    run = TrackedRun(1, job.id, Tracker.MLFLOW, "run-1")
    return [
        job_events.stands_still(job, "loss", "has been 0.25 for 40 min", "1", NOW),
        job_events.stopped_when_flat(job, "loss", "stopped when flat, as it was to be: its loss is 0.25", NOW),
        submit.cancel_asked(job, ADA, "wrong data", NOW),
        job_events.cancel_is_due(replace(job, id="j0000004"), ADA, "a checkpoint was written.", NOW),
        job_events.cancel_after(job, ADA, NOW),
        job_events.never_mind(job, ADA, NOW),
        job_events.disk_given_up(job, ADA, "step 40", NOW),
        job_events.drill_requested(job, drill, NOW),
        job_events.drilled(job, over, NOW),
        job_events.late(job, NOW),
        job_events.deadline_at_risk(job, AtRisk(Risk.STOCK, "No on-demand VM is available."), NOW),
        job_events.waits(job, 1, "no zone has stock", NOW),
        *(
            job_events.over(replace(job, id=job_id, cancel_asked_by=ADA), state, "the command ended", "$3.20", NOW)
            for state, job_id in ended
        ),
        tracker_events.refused(job, run, "the run was deleted.", NOW),
        tracker_events.given_up(job, run, 12, NOW, NOW),
    ]


def _of_sweeps(sweep: Sweep) -> list[Event]:
    """Makes the events after the submission, which the story records."""
    ended = [SweepState.SUCCEEDED, SweepState.FAILED, SweepState.CANCELLED]
    why = "stopped at step 3,000 by halving: its val_loss of 2.31 is 7th of 9, and the best 3 go on"
    stop = MemberStop("sm2", NOW, 3000, "step", why, 90 * _MINUTE, 1, Money.of("1.20"))
    member = SweepMember(2, {"lr": "1e-4", "seed": "2"}, jobs=("sm2",))
    return [
        sweep_events.cancel_asked(sweep, ADA, "wrong data", NOW),
        sweep_events.resumed(sweep, ADA, [2], None, NOW),
        sweep_events.stopped(sweep, member, stop, NOW),
        sweep_events.kept(sweep, ADA, [3], NOW),
        *(
            sweep_events.over(replace(sweep, round=number), state, "all members ended", Priced(Money.of(3)), NOW)
            for number, state in enumerate(ended, 1)
        ),
    ]


def _of_stages() -> list[Event]:
    stage = DataStage("4f0e19a2c7" + "0" * 54, "gs://acme-stage/costguard/stage", "s3://acme/v7", 9, 1, NOW, NOW)
    stage = replace(stage, size=107_374_182_400, files=900, staged=107_374_182_400)
    return [
        stage_events.deletion_asked(stage, ADA, NOW),
        stage_events.deleted(stage, 901, "No job had used it for 14 d.", NOW),
    ]


def _of_schedules(schedule: Schedule) -> list[Event]:
    """Makes the events that the story does not record."""
    refused = ScheduleRun(schedule.id, NOW, RunOutcome.REFUSED, "The job is refused: ada may not launch.")
    return [
        *(schedule_events.changed(schedule, state, ADA, NOW) for state in ScheduleState),
        schedule_events.refused(schedule, refused, NOW),
    ]


def _unknown(database: Database, job: Job) -> None:
    """A VM that bears this installation's labels is found, and another one adopted, in a new generation."""
    report = UnknownVm(
        _KEY, "stray", "us-central1-a", job.id, 1, "", Status.RUNNING, "its job has an attempt", found_at=NOW
    )
    vm = PresentVm(
        InstanceKey("lab", "4714"), "j0000009-1", "us-central1-a", {}, {}, NOW, Status.RUNNING, NOW,
        ProvisioningModel.SPOT, "nvidia-tesla-t4",
    )  # fmt: skip
    with database.write() as connection:
        adopting = job_rows.added(connection, "j0000009")
        findings = UnknownVmFindings("a VM of generation 2 runs", 2, [report], [(vm, adopting, 1)], frozenset({_KEY}))
        found_vms.write(connection, findings, restoring.begin, NOW)
