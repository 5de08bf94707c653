"""A sample of each kind of message, for `costguard slack samples`: made-up facts, worded and shown as real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from costguard.messages import (
    cards,
    first_report,
    gpu_command,
    job_update,
    notification,
    sweep_update,
    unused_reservations,
)
from costguard.messages.announcing import JobEvent
from costguard.messages.job_update import JobSnapshot
from costguard.model.attempt import Attempt, AttemptState, Interruption, Notice, Outcome
from costguard.model.delivery.interaction import SAMPLE_JOB
from costguard.model.delivery.message import (
    Content,
    DigestContent,
    DigestLine,
    EphemeralContent,
    ListContent,
    NotificationContent,
    ReminderContent,
    ReminderState,
    ReportContent,
    StateKind,
    VmCard,
)
from costguard.model.delivery.person import Person
from costguard.model.event import new_event
from costguard.model.instance import InstanceKey, ProvisioningModel, Shape
from costguard.model.job import CheckpointPlan, Job, JobKind, JobSpec, JobState
from costguard.model.launch import Recipe
from costguard.model.money import Money, Priced
from costguard.model.reminder import SAMPLE_REST, SAMPLE_RUN, SubjectKind, Target
from costguard.model.sweep import Sweep, SweepState
from costguard.model.utilisation import Evidence, GpuUse, IdleState
from costguard.reminders import report_words
from costguard.sweeps.listing import SweepOverview, SweepRow

_PROJECT, _ZONE, _VM = "sample-project", "us-central1-a", "sample-vm"
_T4 = Shape("n1-standard-8", 8, 30 * 1024, "nvidia-tesla-t4", 1)
_RATE = Priced(Money.of("0.73"))  # an hour; made up, as every figure here
_RECIPE = Recipe("n1-standard-8", (_ZONE,), "projects/sample/global/images/family/sample", timedelta(hours=24))


@dataclass(frozen=True, slots=True)
class MessageSample:
    """`kind` as the outbox names it; "list" is the answer to /gpu. A reply goes into the thread of the one before."""

    kind: str
    what: str
    content: Content | ListContent
    is_reply: bool = False


def samples(person: Person, now: datetime, zone: ZoneInfo) -> Sequence[MessageSample]:
    """Returns the samples in the order in which they are sent to this person.

    `clicks` answers their buttons, and does nothing.
    """
    running, stopped = _card(person, now, zone), _stopped(person, now, zone)
    job = _job(person, now)
    return (
        MessageSample("reminder", "a reminder about a running VM", _reminder(running, now, zone)),
        MessageSample("reminder", "a reminder about a stopped VM's disks", _reminder(stopped, now, zone)),
        MessageSample("digest", "a daily digest", _digest(person, now)),
        MessageSample(first_report.KIND, "the report of the first day in shadow mode", _first_report(person)),
        MessageSample(unused_reservations.KIND, "a reminder of reserved VMs that nobody uses", _reserved(person, now)),
        MessageSample(notification.KIND, "a budget's notification", _budget(now)),
        MessageSample(job_update.CARD, "a job's message, which is edited as the job goes on", job_update.card(job, "")),
        MessageSample(notification.KIND, "news in a job's thread", _news(job, now), is_reply=True),
        MessageSample(sweep_update.CARD, "a sweep's message", _sweep(person, now)),
        MessageSample(
            "ephemeral", "an answer that nobody else sees", EphemeralContent(f"A sample. {gpu_command.HELP}")
        ),
        MessageSample("list", "the answer to /gpu", _list((running, stopped), now, zone)),
    )


def introduction(count: int) -> NotificationContent:
    return NotificationContent(
        icon="test",
        title="Samples of Costguard's messages",
        text=f"{count} samples follow, one of each kind. Nothing in them is real, and their buttons change nothing.",
    )


def _card(person: Person, now: datetime, zone: ZoneInfo) -> VmCard:
    monday_at, since = cards.next_monday(now, zone), now - timedelta(hours=12, minutes=5)
    cost = Priced(_RATE.amount.over(now - since))
    return VmCard(
        subject=SAMPLE_RUN,
        key=InstanceKey(_PROJECT, "0"),
        name=_VM,
        zone=_ZONE,
        preset="t4",
        what=cards.what(_T4, ProvisioningModel.STANDARD),
        owner=person.address,
        owner_id=person.user_id,
        owner_how="this is a sample",
        since=since,
        cost=cost,
        rate=_RATE,
        by_monday=cost + Priced(_RATE.amount.over(monday_at - now)),
        monday_at=monday_at,
        limit=timedelta(hours=8),
        idle=Evidence(
            IdleState.IDLE, now - timedelta(hours=3), "GPU 0.4 % on average and 3 % at most in the last 3 h."
        ),
    )


def _stopped(person: Person, now: datetime, zone: ZoneInfo) -> VmCard:
    running, rate = _card(person, now, zone), Priced(Money.of("0.02"))
    since = now - timedelta(days=3)
    cost = Priced(rate.amount.over(now - since))
    by_monday = cost + Priced(rate.amount.over(running.monday_at - now))
    return replace(
        running,
        subject=SAMPLE_REST,
        name="sample-disks",
        since=since,
        cost=cost,
        rate=rate,
        by_monday=by_monday,
        idle=None,
    )


def _reminder(card: VmCard, now: datetime, zone: ZoneInfo) -> ReminderContent:
    is_run = card.subject.kind is SubjectKind.RUN
    why = (
        "It has run for 12 h; the limit of preset t4 is 8 h."
        if is_run
        else "It was stopped 3 d ago, and its disks bill."
    )
    return ReminderContent(
        card=card,
        stage=0,
        target=Target.OWNER,
        reason=f"This is a sample of a reminder: there is no such VM. {why}",
        state=ReminderState(StateKind.OPEN),
        buttons=cards.buttons(card, now, zone),
        due_at=now,
    )


def _digest(person: Person, now: datetime) -> DigestContent:
    yesterday = (now - timedelta(days=1)).date()
    expensive = DigestLine(_VM, "$17.52", f"{person.address}, idle for 9 h")
    return DigestContent(
        weekly=False,
        first=yesterday,
        last=yesterday,
        headline="This is a sample: $412.20 yesterday, $96.00 more than the day before.",
        sections=(("Most expensive", (expensive,)), ("Stopped by Costguard", ()), ("Past their limit", (expensive,))),
    )


def _reserved(person: Person, now: datetime) -> ReportContent:
    name = "sample-h100"
    row = {
        "name": name,
        "what": "2 of 4 reserved a3-highgpu-8g unused",
        "where": f"{_PROJECT}, {_ZONE}",
        "owner": person.address,
        "vms": 2,
        "nanos": 176_980_000_000,
        "ends_at": (now + timedelta(days=9)).isoformat(),
        "command": f"gcloud compute reservations update {name} --vm-count=2 --zone={_ZONE} --project={_PROJECT}",
    }
    return unused_reservations.content([row], "UTC")


def _first_report(person: Person) -> ReportContent:
    remark = f"{person.address}, {_PROJECT}: past the limit of preset t4 (8 h) by 12 h; $0.73 an hour"
    return ReportContent(
        title="Costguard's first day in shadow mode",
        headline="This is a sample: 1 VM would have been stopped, and cost $6.57 after that.",
        sections=(("Would have been stopped, with the cost since", (DigestLine(_VM, "$6.57", remark),)),),
        notes=(report_words.gpu_text(GpuUse(timedelta(hours=48), timedelta(hours=30), timedelta(hours=3))),),
        what_next="To let rules stop VMs, set in costguard.toml:",
        settings=("[presets.t4]", 'when_unanswered = "stop"', "[enforcement]", "shadow = false"),
    )


def _budget(now: datetime) -> NotificationContent:
    data = {
        "budget": "sample",
        "percent": 80,
        "on": "spent",
        "period": "month",
        "limit_nanos": Money.of(5000).nanos,
        "spent_nanos": Money.of("4012.80").nanos,
        "forecast_nanos": Money.of(5310).nanos,
    }
    text = "This is a sample: 80% of the budget is spent, with eight days to go."
    return notification.crossed(new_event("BudgetThresholdCrossed", now, text, "sample", data=data), "")


def _job(person: Person, now: datetime) -> JobSnapshot:
    """It was preempted once, and runs again."""
    spec = JobSpec(
        kind=JobKind.TRAINING,
        preset="t4",
        project=_PROJECT,
        owner=person.address,
        name="sample-job",
        command=("python", "train.py"),
        checkpoint=CheckpointPlan("gs://sample/run"),
        ceiling=Money.of(40),
    )
    reason = "This is a sample: attempt 2 runs"
    job = Job(SAMPLE_JOB, spec, _RECIPE, JobState.RUNNING, reason, now - timedelta(hours=5), "cli")
    attempts = [_attempt(number, now) for number in (1, 2)]
    preempted_at = now - timedelta(hours=2)
    lost = Interruption(
        attempts[0].id,
        job.id,
        1,
        Outcome.PREEMPTED,
        preempted_at,
        preempted_at,
        Notice.NOTICE,
        resumed_at=preempted_at + timedelta(minutes=4),
        lost=timedelta(minutes=12),
        lost_cost=Money.of("0.05"),
    )
    return JobSnapshot(job, attempts, [lost], Priced(Money.of("1.24")))


def _attempt(number: int, now: datetime) -> Attempt:
    return Attempt(
        id=number,
        job_id=SAMPLE_JOB,
        number=number,
        name=f"sample-job-{number}",
        project=_PROJECT,
        zone=_ZONE,
        provisioning_model=ProvisioningModel.SPOT,
        request_uuid="",
        max_run=timedelta(hours=24),
        state=AttemptState.RUNNING,
        intended_at=now - timedelta(hours=5 if number == 1 else 2),
        outcome=Outcome.PREEMPTED if number == 1 else None,
    )


def _news(job: JobSnapshot, now: datetime) -> NotificationContent:
    """The one with buttons."""
    text = "This is a sample: the loss has not been lower than 0.412 for 90 min, at about $0.24 an hour."
    return job_update.news(job, new_event(JobEvent.STANDS_STILL, now, text, "sample", data={"job": SAMPLE_JOB}), "")


def _sweep(person: Person, now: datetime) -> NotificationContent:
    sweep = Sweep(
        "sample",
        "sample-sweep",
        person.address,
        _PROJECT,
        "t4",
        4,
        Money.of(60),
        SweepState.RUNNING,
        "This is a sample: 4 of its members run",
        now - timedelta(hours=5),
        "cli",
    )
    row = SweepRow(
        sweep,
        Priced(Money.of("9.80")),
        members=12,
        waiting=3,
        open=4,
        succeeded=5,
        failed=0,
        cancelled=0,
        reserved=None,
    )
    return sweep_update.content(SweepOverview(row, ("lr",), (), "lower", ""), "")


def _list(vms: Sequence[VmCard], now: datetime, zone: ZoneInfo) -> ListContent:
    rows = tuple((vm, cards.buttons(vm, now, zone), "This is a sample.") for vm in vms)
    return ListContent("Sample of /gpu: your VMs", rows)
