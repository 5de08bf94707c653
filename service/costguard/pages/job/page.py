"""The page of one job: its attempts over time, what it cost, lost and printed, what comes next, and cancelling it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from costguard.access import roles as access
from costguard.access.rules import Rules
from costguard.jobs.decide.checkpoints.disk import disk_of, saves_on_disk
from costguard.jobs.decide.checkpoints.work_at_risk import WorkAtRisk
from costguard.jobs.decide.measures.pace import pace
from costguard.jobs.listing.jobs import JobOverview, JobRow, heard_last, job_detail
from costguard.jobs.reports.checkpoints import save_interval
from costguard.jobs.rows.kept_disks import KeptJobDisk, holds
from costguard.jobs.submit import submission
from costguard.jobs.submit.submit import available_service
from costguard.ledger.accrual import Accrual, accrual_at
from costguard.model.access import Permission, Principal
from costguard.model.attempt import Attempt, AttemptState, GangRound, Interruption
from costguard.model.data import DataTransfer
from costguard.model.instance import InstanceKey, gpu_words
from costguard.model.job import BEST, Job, JobKind, JobState, SeenCheckpoint, published
from costguard.model.money import ZERO, Money, Priced
from costguard.model.options.job import JOB_OPTIONS
from costguard.model.options.option import Option
from costguard.model.reported.metric import SeenMetric
from costguard.model.reported.output import output_folder
from costguard.model.words import count_text
from costguard.pages.goodput import goodput_of_job
from costguard.pages.job import timeline
from costguard.pages.job.diagnosis import diagnosis_of_job
from costguard.pages.job.drill_rows import DrillTable, drill_table
from costguard.pages.job.plan import plan_of_job
from costguard.pages.job.progress import progress_of_job
from costguard.pages.job.short_sections import alike_jobs_of, lineage_of_job, standstill_of_job, unrecognised_of_job
from costguard.pages.job.timeline import Timeline
from costguard.pages.page import Form, Given, ShownJob, Source, actor_of, page_router, redirect
from costguard.pages.query import LONGEST, BadAddress
from costguard.pages.show import job_link
from costguard.spend.workflows.executions import names_of_job
from costguard.trackers import rows as trackers
from costguard.web.memo import memo_of
from costguard.web.permissions import Asker

BILLED = frozenset({AttemptState.BOOTING, AttemptState.RUNNING, AttemptState.ENDING})
_LINES = 60  # of the output
_LONGEST_REASON = 500
_STYLING = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")  # colours and cursor moves of a terminal

# Parts of the page under their names in its template.
_SECTIONS: Mapping[str, Callable[[ShownJob], object]] = {
    "alike": alike_jobs_of,
    "diagnosis": diagnosis_of_job,
    "executions": lambda job: names_of_job(job.connection, job.id, job.source.rules.workflow_labels),
    "goodput": goodput_of_job,
    "lineage": lineage_of_job,
    "plan": plan_of_job,
    "progress": progress_of_job,
    "save_interval": lambda job: save_interval.advice_of(job.connection, job.accrual.now, job.id),
    "standstill": standstill_of_job,
    "unrecognised": unrecognised_of_job,
    "trackers": lambda job: trackers.of_job(job.connection, job.id),
}

router = page_router()
acting_router = page_router(Permission.JOBS)


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An attempt with its interruptions; `ran` is None where its command was not seen to run."""

    attempt: Attempt
    key: InstanceKey
    ran: timedelta | None
    interruptions: Sequence[Interruption]


@dataclass(frozen=True, slots=True)
class CancelOffer:
    """`is_open`: there is something to cancel. `refusal` says why this person may not; "" where they may."""

    is_open: bool
    refusal: str

    @property
    def is_given(self) -> bool:
        return self.is_open and not self.refusal


@dataclass(frozen=True, slots=True)
class JobPage:
    job: Job
    cost: Priced
    price_note: str | None  # how old prices are that came with Costguard
    rate: Money
    vm_time: timedelta
    step: int | None
    metric: SeenMetric | None
    per_hour: str
    per_1000_steps: Money | None
    risk: WorkAtRisk | None
    lost_span: timedelta
    lost_cost: Money
    from_zero: int
    preemptions: int
    crashes: int
    checkpoint: SeenCheckpoint | None
    is_checkpoint_deleted: bool
    next: str
    ssh: str  # of a development VM
    notebook: str
    gpu: str
    disk: str  # `disk full: 0 bytes left on /`; "" while there is room
    image_digest: str  # "" where the image's own name holds it, or before it was pulled
    attempts: Sequence[AttemptRow]
    last: Attempt | None
    span: timedelta
    is_late: bool
    timeline: Timeline
    timeline_text: str  # for screen readers
    heard_at: datetime | None
    output: Sequence[str]
    is_output_stored: bool  # the whole of it, or what was printed so far
    kept_disk: KeptJobDisk | None
    rounds: Sequence[GangRound]
    drills: DrillTable
    transfers: Mapping[tuple[str, str, str], DataTransfer]  # of the latest VM, by kind, source and target

    @property
    def result(self) -> str:
        """Returns words about the checkpoint that it publishes as its result; "" where it publishes none."""
        plan, which = self.job.spec.checkpoint, published(self.job.spec)
        if plan is None or not which:
            return ""
        if (sent := self.transfers.get(("result", plan.location, plan.publish_to))) is not None:
            return sent.text
        if self.job.state.is_over:
            return "no checkpoint was published"
        return f"{'the best' if which == BEST else 'the newest'} checkpoint, once it has succeeded"

    @property
    def options(self) -> list[tuple[str, str, bool]]:
        """Returns rows of its details: the term, the value in words, and whether that is code."""
        return detail_rows(self.job.spec)


def detail_rows(spec: object, options: Iterable[Option] = JOB_OPTIONS) -> list[tuple[str, str, bool]]:
    """Returns a row for each set option whose declaration has one."""
    rows = []
    for option in options:
        if option.details is not None and option.is_set_in(spec):
            term, words = option.details
            rows.append((term, words.format(option.value_in(spec)) if words else str(option.value_in(spec)), not words))
    return rows


@router.get("/jobs/{job_id}")
def show_job(request: Request, pages: Given, me: Asker, job_id: str) -> HTMLResponse:
    def gather() -> tuple[datetime, tuple[JobPage, Mapping[str, object]]]:
        now, source = pages.source.clock.now(), pages.source
        with source.database.one_view(), source.database.read() as connection:
            page = job_page(source, job_id, now)
            job = ShownJob(source, connection, accrual_at(connection, now), job_id)
            return now, (page, {name: section(job) for name, section in _SECTIONS.items()})

    as_of, (page, sections) = memo_of(request).once(("job", job_id), gather)
    rules, job = pages.source.rules, page.job
    values = {
        "offer": cancel_offer(rules, me, job),
        "keeps_disk": saves_on_disk(job) and job.disk_given_up_at is None,
        "may_delete_disk": not _refusal(rules, me, job),
    }
    shared = (job_id, *values.values())
    return pages.renderer.shared_page(request, "job.html", as_of, shared, view=page, **sections, **values)


@router.get("/jobs/{job_id}/cancel")
def confirm_cancel(request: Request, pages: Given, me: Asker, job_id: str) -> HTMLResponse:
    now = pages.source.clock.now()
    page = job_page(pages.source, job_id, now)
    return pages.renderer.page(
        request,
        "cancel.html",
        now,
        view=page,
        offer=cancel_offer(pages.source.rules, me, page.job),
        happens=what_happens(page.job),
        loses=holds(page.checkpoint) if saves_on_disk(page.job) else "",
    )


@acting_router.post("/jobs/{job_id}/cancel")
def cancel(request: Request, pages: Given, me: Asker, form: Form, job_id: str) -> Response:
    """Cancels a job. Without JavaScript the job's own page shows that it is being cancelled."""
    by = actor_of(me, form)
    reason, delete_disk = form.get("reason", "").strip()[:_LONGEST_REASON], form.get("delete_disk") == "yes"
    service = available_service(pages.source.jobs)
    if form.get("after_checkpoint") == "yes":
        job, is_new = service.cancel_after_checkpoint(job_id, by.address, by.authority)
        text = f"{job.title} is cancelled once its next checkpoint is saved."
        return pages.after_action(request, text, job_link(job_id))
    job, is_new = service.cancel(job_id, by.address, reason, by.authority, delete_disk=delete_disk)
    text = f"Cancelling {job.title}. This takes a few seconds." if is_new else f"{job.title} was cancelled before."
    return pages.after_action(request, text, job_link(job_id))


@acting_router.post("/jobs/{job_id}/never-mind")
def never_mind(request: Request, pages: Given, me: Asker, form: Form, job_id: str) -> Response:
    by = actor_of(me, form)
    job, _ = available_service(pages.source.jobs).never_mind(job_id, by.address, by.authority)
    text = f"{job.title} goes on. No hint at its standstill is given until a new best value."
    return pages.after_action(request, text, job_link(job_id))


@acting_router.post("/jobs/{job_id}/drill")
def drill(request: Request, pages: Given, me: Asker, form: Form, job_id: str) -> Response:
    by = actor_of(me, form)
    job, _ = available_service(pages.source.jobs).drill(job_id, by.address, by.authority)
    text = f"{job.title} is drilled when little is at stake, right after a checkpoint or its first steps."
    return pages.after_action(request, text, job_link(job_id))


@acting_router.post("/jobs/{job_id}/delete-disk")
def delete_disk(pages: Given, me: Asker, form: Form, job_id: str) -> Response:
    """Raises BadAddress without the explicit agreement."""
    if form.get("agreed") != "yes":
        raise BadAddress(
            "Nothing was deleted: the box that confirms the loss was not ticked.", "Tick the box, and try again."
        )
    by = actor_of(me, form)
    available_service(pages.source.jobs).delete_disk(job_id, by.address, by.authority)
    return redirect(job_link(job_id))


def job_page(source: Source, job_id: str, now: datetime) -> JobPage:
    """Raises BadAddress where there is no such job."""
    detail = None
    if len(job_id) <= LONGEST and "\x00" not in job_id:
        with source.database.read() as connection:
            accrual = accrual_at(connection, now)
            detail = job_detail(connection, accrual, job_id)
    if detail is None:
        raise no_such_job(job_id)
    return _page(detail, accrual, source.rules.jobs.logs)


def no_such_job(job_id: str) -> BadAddress:
    return BadAddress(
        f"There is no job {job_id[:100]}.",
        "Look for it under Jobs, which can show ended jobs too.",
        HTTPStatus.NOT_FOUND,
    )


def _page(detail: JobOverview, accrual: Accrual, logs: str) -> JobPage:
    row, now = detail.row, accrual.now
    job, end = row.job, row.job.settled_at or now
    is_dev = job.spec.kind is JobKind.DEV
    agent = heard_last(row.attempts)
    recipe, deadline = job.recipe, job.spec.deadline
    seen = [(checkpoint.written_at, checkpoint.step) for checkpoint in detail.seen]
    return JobPage(
        job=job,
        cost=row.cost,
        price_note=accrual.price_note,
        rate=rate_now(row.attempts),
        vm_time=detail.vm_time,
        step=row.step,
        metric=row.metric,
        per_hour=steps_per_hour(row),
        per_1000_steps=detail.pace.cost_per_1000,
        risk=detail.risk,
        lost_span=detail.lost.span,
        lost_cost=detail.lost.cost,
        from_zero=detail.lost.from_zero,
        preemptions=row.preemptions,
        crashes=row.crashes,
        checkpoint=detail.checkpoint,
        is_checkpoint_deleted=detail.is_checkpoint_deleted,
        next=detail.next,
        ssh=detail.ssh if is_dev else "",
        notebook=detail.notebook,
        gpu=f"{recipe.gpu_count} × {gpu_words(recipe.gpu_type)}" if recipe.gpu_count else "",
        disk=_disk(row.last),
        image_digest="" if "@" in job.spec.image else row.image_digest,
        attempts=[_attempt_row(attempt, detail.interruptions, now) for attempt in row.attempts],
        last=row.last,
        span=max(timedelta(), end - job.created_at),
        is_late=deadline is not None and deadline < end,
        timeline=timeline.draw(row.attempts, detail.interruptions, seen, job.created_at, end),
        timeline_text=_timeline_text(detail),
        heard_at=agent.agent.at if agent is not None else None,
        output=_last_lines(agent.agent.output) if agent is not None else (),
        is_output_stored=agent is not None and bool(output_folder(job.spec, agent.name, logs)),
        kept_disk=row.kept_disk,
        rounds=detail.rounds,
        drills=drill_table(job, detail.drills, detail.on_notice),
        transfers={(one.kind, one.source, one.target): one for one in (agent.agent.transfers if agent else ())},
    )


def rate_now(attempts: Sequence[Attempt]) -> Money:
    """Returns the present hourly cost of a job's VMs: nothing where none exists."""
    return sum((one.rate for one in attempts if one.state in BILLED and one.rate is not None), ZERO)


def steps_per_hour(row: JobRow) -> str:
    speed = pace(row.attempts, row.cost).per_hour
    return "" if speed is None else f"{round(speed):,}"


def _disk(last: Attempt | None) -> str:
    """Describes the disk of the VM that runs now."""
    disk = disk_of(last.agent.machine) if last is not None and last.is_open else None
    return disk.text if disk is not None else ""


def _attempt_row(attempt: Attempt, interruptions: Sequence[Interruption], now: datetime) -> AttemptRow:
    started = attempt.agent.started_at
    ran = None if started is None else max(timedelta(), _ran_until(attempt, now) - started)
    own = [interruption for interruption in interruptions if interruption.attempt_id == attempt.id]
    return AttemptRow(attempt, InstanceKey(attempt.project, attempt.gce_id), ran, own)


def _ran_until(attempt: Attempt, now: datetime) -> datetime:
    """The end that its agent reported, else the last time it was heard: nothing shows that it ran after that."""
    agent = attempt.agent
    if agent.exit is not None:
        return agent.exit.at
    seen = attempt.ended_at or now
    return seen if agent.at is None else min(seen, agent.at)


def _timeline_text(detail: JobOverview) -> str:
    zones = ", ".join(dict.fromkeys(attempt.zone for attempt in detail.row.attempts))
    return (
        f"{count_text(len(detail.row.attempts), 'attempt')} in {zones}, "
        f"{count_text(len(detail.interruptions), 'interruption')}, "
        f"{count_text(len(detail.seen), 'checkpoint')}. The table of attempts below has the same."
    )


def _last_lines(output: str) -> list[str]:
    """Returns the last lines as a terminal would show them: of a line that was overwritten, the last state."""
    lines = _STYLING.sub("", output).rstrip().split("\n") if output.strip() else []
    return [line.rstrip("\r").rpartition("\r")[2] for line in lines[-_LINES:]]


def cancel_offer(rules: Rules, me: Principal, job: Job) -> CancelOffer:
    is_open = not job.state.is_over and job.cancel_asked_at is None
    return CancelOffer(is_open, _refusal(rules, me, job) if is_open else "")


def what_happens(job: Job) -> list[str]:
    """Lists the effects of cancelling it, one sentence each."""
    if job.spec.kind is JobKind.DEV:
        return [
            "Its VM is deleted together with its disk. Anything that is stored nowhere else is lost.",
            "It stops billing.",
        ]
    if saves_on_disk(job):
        return [
            "The command is notified first and gets time to save; then the VM is stopped.",
            "The VM's disk holds the only copy of what the job saved. It is kept, and bills, until you delete it.",
            "The job cannot be resumed.",
        ]
    if job.state is not JobState.RUNNING:
        return ["No more VMs are launched for it.", "It cannot be resumed, but you can launch another job like it."]
    return [
        "The command is notified first and gets time to save; then the VM is deleted and stops billing.",
        "The job cannot be resumed, but you can launch another like it, which continues from what was saved.",
    ]


def _refusal(rules: Rules, me: Principal, job: Job) -> str:
    if not me.may(Permission.JOBS):
        return f"{me.address or 'This token'} can view jobs but not cancel them. Admins assign roles under [access]."
    if not me.address:
        return ""  # the form asks whom the master token acts for, and their role decides
    by = access.actor(me)
    return submission.cancel_refusal(by.address, job.spec.owner, job.spec.project, rules, by.authority) or ""
