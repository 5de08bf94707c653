"""VM cards: what a VM is, what it costs, and its buttons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from urllib.parse import quote
from zoneinfo import ZoneInfo

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.jobs.decide.checkpoints.disk import saves_on_disk
from costguard.jobs.rows import attempts, job_rows, kept_disks
from costguard.ledger import history
from costguard.ledger.accrual import Accrual
from costguard.ledger.fleet_rows import FleetInstance
from costguard.ledger.owner import OwnerSource
from costguard.model import moments
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.delivery.message import Button, VmCard
from costguard.model.delivery.person import AccountLookup
from costguard.model.instance import ProvisioningModel, Shape, gpu_words
from costguard.model.job import Job, JobKind, JobState
from costguard.model.money import Priced
from costguard.model.reminder import RequestKind, Subject, SubjectKind
from costguard.model.utilisation import Evidence, IdleState
from costguard.model.words import count_text, list_text
from costguard.reminders import slack_accounts
from costguard.spend import fleet
from costguard.spend.fleet import InstanceView

_WAITS = frozenset({AttemptState.RESTING, AttemptState.RESTARTING})


@dataclass(frozen=True, slots=True)
class JobNote:
    """`on_stop`: the effect of a stop on the job. `disk_note`: why the stopped VM's disk is kept."""

    on_stop: str = ""
    disk_note: str = ""


def note_of(connection: Connection, vm: FleetInstance, accrual: Accrual) -> JobNote:
    """Empty for a VM that was not launched for a training job."""
    job = job_rows.read(connection, vm.job) if vm.job else None
    if job is None or job.spec.kind is not JobKind.TRAINING:
        return JobNote()
    all_attempts = attempts.of_jobs(connection, [job.id]).get(job.id, [])
    mine = next((attempt for attempt in all_attempts if attempt.gce_id == vm.key.gce_id), None)
    if mine is None:
        return JobNote()
    if not job.state.is_over:
        is_at_work = mine.is_open and job.cancel_asked_at is None
        return JobNote(_on_stop(job, mine) if is_at_work else "", _between_runs(job) if mine.state in _WAITS else "")
    kept = kept_disks.of_job(job, all_attempts, job_rows.checkpoint(connection, [job.id]).get(job.id), accrual)
    if kept is None or kept.attempt.id != mine.id:
        return JobNote()
    ended = "was cancelled" if job.state is JobState.CANCELLED else job.state.value
    return JobNote(
        disk_note=f"Its disk is kept for job {job.title} ({job.id}), which {ended}: it holds {kept.holds}, and costs"
        f" {kept.bills}. Once you no longer need it: costguard delete-disk {job.id}"
    )


def _on_stop(job: Job, attempt: Attempt) -> str:
    begun = f"This cancels job {job.title}, whose command gets time to save first."
    if not saves_on_disk(job):
        return f"{begun} Then {attempt.name} is deleted with its disk."
    if job.disk_given_up_at is not None:
        return f"{begun} Then {attempt.name} is deleted, and everything that the job saved on its disk is lost."
    return (
        f"{begun} Then {attempt.name} is stopped. Its disk is kept, because it holds the only copy of what the job"
        f" saved, and is billed. To delete it: costguard delete-disk {job.id}"
    )


def _between_runs(job: Job) -> str:
    again = f"It is the VM of job {job.title} ({job.id}), which will start it again automatically."
    return f"{again} To prevent that: costguard cancel {job.id}"


MORNING = time(9)
KEEP_HOURS = 4
REST_KEEP_HOURS = 7 * 24
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


def zone_of(lookup: AccountLookup | None, rules: Rules) -> ZoneInfo:
    """The person's time zone, or the one of channels where Slack gives none."""
    return moments.zone_of(lookup.person.time_zone if lookup and lookup.person else "", rules.time_zone)


def card(
    connection: Connection, accrual: Accrual, rules: Rules, subject: Subject, since: datetime, url: str
) -> VmCard | None:
    """The VM as it is now; None where the ledger does not know it."""
    limits = rules.limits
    views = fleet.views(connection, accrual, limits, [subject.instance_id])
    if not views:
        return None
    view = views[0]
    vm = view.instance
    own_stop, never_stopped = vm.own_stop(rules.stop_through), vm.never_stopped(rules.stop_through)
    price_note = accrual.note_of(vm.shape, vm.zone, vm.provisioning_model) or ""
    owner = slack_accounts.of_addresses(connection, {vm.owner.lower()}).get(vm.owner.lower()) if vm.owner else None
    zone = zone_of(owner, rules)
    monday_at = next_monday(accrual.now, zone)
    cost = _cost(connection, accrual, view, subject, since)
    rate = _rate(accrual, view, subject)
    note = note_of(connection, vm, accrual)
    ahead = Priced(rate.amount.over(monday_at - accrual.now), rate.whole)
    return VmCard(
        subject=subject,
        key=vm.key,
        name=vm.name,
        zone=vm.zone,
        preset=vm.preset,
        what=what(vm.shape, vm.provisioning_model),
        owner=vm.owner,
        owner_id=owner.person.user_id if owner and owner.person else "",
        owner_how=_how(view, zone, rules.owner_label, accrual.now),
        since=since,
        cost=cost,
        rate=rate,
        by_monday=cost + ahead,
        monday_at=monday_at,
        limit=limits.get(vm.preset),
        idle=view.idle,
        url=f"{url.rstrip('/')}/vm/{vm.key.project}/{vm.key.gce_id}" if url else "",
        on_stop=note.on_stop or own_stop,
        never_stopped=never_stopped,
        disk_note=note.disk_note,
        price_note=price_note,
    )


def of_pool(
    connection: Connection, accrual: Accrual, rules: Rules, speaker: VmCard, members: Sequence[int], url: str
) -> VmCard:
    """Makes the card of a whole pool from that of the VM that speaks for it: sums over its running VMs.

    The pool counts as idle since the last of its VMs became idle, and is not known to be while one of them is not.
    """
    views = [view for view in fleet.views(connection, accrual, rules.limits, members) if view.started_at is not None]
    if len(views) < 2:
        return speaker
    cost, rate = Priced(), Priced()
    kinds: Counter[str] = Counter()
    for view in views:
        vm = view.instance
        cost += view.lifetime_cost
        rate += Priced.of(accrual.rate(vm.shape, vm.zone, vm.provisioning_model))
        kinds[what(vm.shape, vm.provisioning_model)] += 1
    keeper = views[0].instance.kept
    cluster = quote(keeper.where, safe="/")
    return replace(
        speaker,
        name=f"{count_text(len(views), 'VM')} of {keeper.whose}",
        zone=list_text(sorted({view.instance.zone for view in views})),
        what=", ".join(f"{count} x ({kind})" for kind, count in kinds.most_common()),
        since=min(view.started_at for view in views if view.started_at is not None),
        cost=cost,
        rate=rate,
        by_monday=cost + Priced(rate.amount.over(speaker.monday_at - accrual.now), rate.whole),
        idle=_idle_together(views),
        url=f"{url.rstrip('/')}/?cluster={cluster}" if url else "",
        never_stopped=keeper.pool_refusal(views[0].instance.name, speaker.key.project),
        vms=len(views),
    )


def _idle_together(views: Sequence[InstanceView]) -> Evidence | None:
    idle = [view.idle for view in views if view.idle is not None and view.idle.state is IdleState.IDLE]
    if not idle:
        return None
    last = max(idle, key=lambda evidence: evidence.since)
    if len(idle) < len(views):
        sentence = f"{len(idle)} of {count_text(len(views), 'VM')} are idle; the others are busy, or it is not known."
        return Evidence(IdleState.UNKNOWN, last.since, sentence)
    sentence = f"All {count_text(len(views), 'VM')} are idle. The last that became so: {last.sentence}"
    return Evidence(IdleState.IDLE, last.since, sentence, any(evidence.is_weak for evidence in idle))


def buttons(vm: VmCard, now: datetime, zone: ZoneInfo) -> tuple[Button, ...]:
    """Returns the buttons, with their price where all of it is known. Disks hold data: nothing here deletes them.

    No stop of a VM that a group or a service of Google keeps.
    """
    mine = Button(RequestKind.DISOWN, "Not mine") if vm.owner else Button(RequestKind.CLAIM, "Claim")
    if vm.subject.kind is SubjectKind.REST:
        week = Button(RequestKind.KEEP, f"Ask again in a week{_price(vm, REST_KEEP_HOURS * _HOUR)}", REST_KEEP_HOURS)
        return week, mine
    until = tomorrow_morning(now, zone)
    stop = Button(RequestKind.STOP, "Stop now", is_danger=True, effect=vm.on_stop)
    return (
        Button(RequestKind.KEEP, f"Keep {KEEP_HOURS} h{_price(vm, KEEP_HOURS * _HOUR)}", KEEP_HOURS),
        Button(RequestKind.KEEP, f"Until tomorrow{_price(vm, until - now)}"),
        *(() if vm.never_stopped else (stop,)),
        mine,
    )


def what(shape: Shape, model: ProvisioningModel) -> str:
    """`a2-highgpu-1g, 1 x A100, Spot`."""
    parts = [shape.machine_type]
    if shape.gpu_type:
        parts.append(f"{shape.gpu_count} x {gpu_words(shape.gpu_type)}")
    if model is not ProvisioningModel.STANDARD:
        parts.append(model.in_words)
    return ", ".join(parts)


def next_monday(now: datetime, zone: ZoneInfo) -> datetime:
    """The next Monday's morning; on a Monday, the one in a week."""
    here = now.astimezone(zone)
    return datetime.combine(here.date() + (7 - here.weekday()) * _DAY, MORNING, zone)


def tomorrow_morning(now: datetime, zone: ZoneInfo) -> datetime:
    return datetime.combine(now.astimezone(zone).date() + _DAY, MORNING, zone)


def _price(vm: VmCard, span: timedelta) -> str:
    return f" (+{vm.rate.amount.over(span)})" if vm.rate.whole else ""


def _cost(connection: Connection, accrual: Accrual, view: InstanceView, subject: Subject, since: datetime) -> Priced:
    """Returns the cost of the subject: for a run of that lifetime, for a rest of the storage since it began."""
    if subject.kind is SubjectKind.RUN:
        if view.started_at == since:
            return view.lifetime_cost
        return _of_lifetime(history.runs_of(connection, accrual, subject.instance_id), subject.lifetime_id)
    total = Priced()
    for disk in history.storage_of(connection, accrual, subject.instance_id):
        bill = accrual.bill(disk.stored.span, since)
        total += Priced(bill.amount, not bill.unpriced)
    return total


def _rate(accrual: Accrual, view: InstanceView, subject: Subject) -> Priced:
    """Returns the rate of the cost that `_cost` counts.

    Disks bill whether a VM runs or not: they are no part of what keeping it costs.
    """
    if subject.kind is SubjectKind.REST or view.started_at is None:
        return view.rate
    vm = view.instance
    return Priced.of(accrual.rate(vm.shape, vm.zone, vm.provisioning_model))


def _of_lifetime(views: Sequence[history.LifetimeView], lifetime_id: int) -> Priced:
    return next((view.cost for view in views if view.stored.id == lifetime_id), Priced(whole=False))


def _how(view: InstanceView, zone: ZoneInfo, label: str, now: datetime) -> str:
    vm = view.instance
    match vm.owner_source:
        case OwnerSource.JOB:
            return "launched by their job"
        case OwnerSource.CLAIM:
            return "claimed it"
        case OwnerSource.LABEL:
            return f"label {label}"
        case OwnerSource.CLUSTER:
            return "the settings name the owner of its cluster"
        case OwnerSource.CREATOR:
            return f"created it at {moments.moment_text(vm.created_at, zone, now)}"
        case _:
            return f"made by {vm.created_by}" if vm.created_by else "nothing says whose it is"
