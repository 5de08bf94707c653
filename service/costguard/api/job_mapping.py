"""From jobs to answers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from costguard.api import job_schemas as schemas
from costguard.api.fields import Amount, usd
from costguard.jobs import listing
from costguard.jobs.disk import DiskReading, disk_of
from costguard.jobs.figures import TrainingPace, WorkAtRisk
from costguard.jobs.kept_disks import KeptDisk, KeptDisks
from costguard.model import attempt as model
from costguard.model.job import JobSpec, SeenCheckpoint
from costguard.model.launch import Recipe
from costguard.model.money import Money

_SECOND = timedelta(seconds=1)


def job(row: listing.JobRow) -> schemas.Job:
    of, spec = row.job, row.job.spec
    return schemas.Job(
        id=of.id,
        name=spec.name,
        title=of.title,
        kind=spec.kind.value,
        state=of.state.value,
        reason=of.reason,
        owner=spec.owner,
        preset=spec.preset,
        project=spec.project,
        image=spec.image,
        image_digest=row.image_digest,
        command=list(spec.command),
        via=of.via,
        created_at=of.created_at,
        settled_at=of.settled_at,
        next_at=of.next_at,
        cancel_asked_at=of.cancel_asked_at,
        cancel_asked_by=of.cancel_asked_by,
        deadline=spec.deadline,
        ceiling=money(spec.ceiling),
        cost=Amount.of(row.cost),
        attempts=len(row.attempts),
        preemptions=row.preemptions,
        crashes=row.crashes,
        step=row.step,
        place=None if row.last is None else place(row.last),
        kept_disk=None if row.kept_disk is None else _kept(row.kept_disk),
    )


def detail(of: listing.JobDetail, now: datetime) -> schemas.JobDetail:
    row = of.row
    numbers = {each.id: each.number for each in row.attempts}
    return schemas.JobDetail(
        as_of=now,
        job=job(row),
        spec=spec_of(row.job.spec),
        recipe=recipe(row.job.recipe),
        attempts=attempts(row.attempts),
        interruptions=[interruption(each, numbers[each.attempt_id]) for each in of.interruptions],
        checkpoint=None if of.checkpoint is None else _checkpoint(of.checkpoint, of.is_checkpoint_deleted),
        checkpoints=[
            schemas.SeenCheckpoint(
                resume_from=each.resume_from,
                step=each.step,
                written_at=each.written_at,
                first_seen_at=each.first_seen_at,
            )
            for each in of.seen
        ],
        pace=_pace(of.pace),
        work_at_risk=None if of.risk is None else _at_risk(of.risk, now),
        lost=schemas.Lost(seconds=of.lost.span // _SECOND, cost=usd(of.lost.cost), from_zero=of.lost.from_zero),
        kept_disk=None if row.kept_disk is None else _kept(row.kept_disk),
        next=of.next,
        ssh_command=of.ssh or None,
        notebook_command=of.notebook or None,
    )


def kept_in_all(of: KeptDisks) -> schemas.KeptDisks:
    return schemas.KeptDisks(count=of.count, monthly=Amount.of(of.monthly))


def _kept(of: KeptDisk) -> schemas.KeptDisk:
    return schemas.KeptDisk(
        vm=of.attempt.name, zone=of.attempt.zone, gib=of.gib, holds=of.holds, monthly=money(of.monthly)
    )


def place(of: model.Attempt) -> schemas.VmPlace:
    return schemas.VmPlace(
        attempt=of.number,
        name=of.name,
        zone=of.zone,
        provisioning_model=of.provisioning_model.value,
        gce_id=of.gce_id,
        state=of.state.value,
        rate_per_hour=money(of.rate),
    )


def spec_of(of: JobSpec) -> schemas.Spec:
    plan = of.checkpoint
    return schemas.Spec(
        environment=dict(of.environment),
        secrets=dict(of.secrets),
        workdir=of.workdir,
        mounts=list(of.mounts),
        checkpoint=None
        if plan is None
        else schemas.Plan(
            location=plan.location,
            resume=plan.resume,
            framework=None if plan.look_for.framework is None else plan.look_for.framework.value,
            pattern=plan.look_for.pattern,
            marker=plan.look_for.marker,
        ),
        step_pattern=of.step_pattern,
        pull=of.pull,
        expected_seconds=None if of.expected is None else of.expected // _SECOND,
        max_preemptions=of.max_preemptions,
        max_crashes=of.max_crashes,
    )


def recipe(of: Recipe) -> schemas.Recipe:
    return schemas.Recipe(
        machine_type=of.machine_type,
        gpu_type=of.gpu_type,
        gpu_count=of.gpu_count,
        zones=list(of.zones),
        image=of.image,
        provisioning_model=of.provisioning_model.value,
        falls_back_to_on_demand=of.falls_back_to_on_demand,
        max_run_seconds=of.max_run // _SECOND,
        disk_gib=of.disk_gib,
        disk_type=of.disk_type,
        service_account=of.service_account,
        network=of.network,
        subnetwork=of.subnetwork,
        external_address=of.external_address,
        labels=dict(of.labels),
    )


def attempts(of: Iterable[model.Attempt]) -> list[schemas.Attempt]:
    return [_attempt(each) for each in of]


def _attempt(of: model.Attempt) -> schemas.Attempt:
    heard = of.agent
    return schemas.Attempt(
        number=of.number,
        name=of.name,
        project=of.project,
        zone=of.zone,
        provisioning_model=of.provisioning_model.value,
        state=of.state.value,
        outcome=None if of.outcome is None else of.outcome.value,
        reason=of.reason,
        rate_per_hour=money(of.rate),
        max_run_seconds=of.max_run // _SECOND,
        resume_from=of.resume_from,
        resume_step=of.resume_step,
        resume_why=of.resume_why,
        image=of.image,
        image_digest=heard.image_digest,
        intended_at=of.intended_at,
        asked_at=of.asked_at,
        made_at=of.made_at,
        started_at=heard.started_at,
        ended_at=of.ended_at,
        gone_at=of.gone_at,
        gce_id=of.gce_id,
        restarts=of.restarts,
        run=heard.run,
        heard_at=heard.at,
        step=heard.step,
        step_at=heard.step_at,
        noticed_at=heard.noticed_at,
        stop_asked_at=of.stop_asked_at,
        stop_why=of.stop_why,
        exit=None if heard.exit is None else _exit(heard.exit),
        disk=_disk(disk_of(heard.machine)),
        machine=dict(heard.machine),
        error=of.error,
        try_after=of.try_after,
    )


def _disk(of: DiskReading | None) -> schemas.Disk | None:
    if of is None:
        return None
    return schemas.Disk(state=of.state.value, mount=of.mount, free_bytes=of.free, total_bytes=of.total, text=of.text)


def interruption(of: model.Interruption, number: int) -> schemas.Interruption:
    return schemas.Interruption(
        attempt=number,
        run=of.run,
        outcome=of.outcome.value,
        happened_at=of.happened_at,
        noticed_at=of.noticed_at,
        noticed_by=of.noticed_by.value,
        requested_at=of.requested_at,
        resumed_at=of.resumed_at,
        lost_seconds=None if of.lost is None else of.lost // _SECOND,
        lost_cost=money(of.lost_cost),
        from_zero=of.from_zero,
    )


def money(amount: Money | None) -> str | None:
    return None if amount is None else usd(amount)


def decimal(value: Fraction | float, places: int) -> str:
    exact = Decimal(value.numerator) / value.denominator if isinstance(value, Fraction) else Decimal(value)
    return f"{exact:.{places}f}"


def _exit(of: model.Exit) -> schemas.Exit:
    return schemas.Exit(
        reason=of.reason, code=of.code, signal=of.signal, error=of.error, repeats=of.repeats, asked=of.asked, at=of.at
    )


def _checkpoint(of: SeenCheckpoint, is_deleted: bool) -> schemas.Checkpoint:
    return schemas.Checkpoint(
        looked_at=of.looked_at,
        resume_from=of.resume_from,
        seen_at=of.seen_at,
        is_deleted=is_deleted,
        step=of.step,
        written_at=of.written_at,
        advanced_at=of.advanced_at,
        torn=list(of.torn),
        error=of.error,
    )


def _pace(of: TrainingPace) -> schemas.Pace:
    return schemas.Pace(
        steps=of.steps,
        per_hour=None if of.per_hour is None else decimal(of.per_hour, 1),
        cost_per_1000_steps=money(of.cost_per_1000),
    )


def _at_risk(of: WorkAtRisk, now: datetime) -> schemas.AtRisk:
    return schemas.AtRisk(seconds=of.span // _SECOND, cost=money(of.cost), since=now - of.span)
