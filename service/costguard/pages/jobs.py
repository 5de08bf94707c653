"""The page Jobs: the state of each and why, how recoveries went, and how zones did lately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fastapi import Request
from starlette.responses import HTMLResponse

from costguard.access.rules import Rules
from costguard.jobs.decide.buy.placement import PREEMPTION_HALF_LIFE, STOCKOUT_HALF_LIFE, PlaceEvent
from costguard.jobs.listing import jobs as listing
from costguard.jobs.listing.jobs import JobCount, JobRow, jobs_page
from costguard.jobs.rows import job_rows, kept_disks
from costguard.jobs.rows.job_rows import JobFilters
from costguard.jobs.rows.kept_disks import KeptJobDisk, KeptJobDisks
from costguard.jobs.rows.recovery.interruptions import RecoveryReport, recoveries
from costguard.jobs.submit.where.places import PlaceScore, place_scores
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Permission, Principal
from costguard.model.duration import span_text
from costguard.model.instance import ProvisioningModel, gpu_words
from costguard.model.job import Job, JobState
from costguard.model.money import Money, Priced
from costguard.pages import charts, query
from costguard.pages.charts import Bars
from costguard.pages.job.page import BILLED, CancelOffer, cancel_offer, rate_now, steps_per_hour
from costguard.pages.page import Given, Source, page_router
from costguard.pages.query import BadAddress, place_before
from costguard.pages.show import link
from costguard.web.memo import memo_of
from costguard.web.permissions import Asker

_PAGE_SIZE = 50
_DAYS = 30
_ENDED = timedelta(days=1)  # jobs that ended within it stand among the open ones
_NO_OFFER = CancelOffer(is_open=False, refusal="")
_EXAMPLE = """costguard quote t4 --hours 10
costguard launch t4 --checkpoint gs://BUCKET/run --local /data/out --resume '--from {checkpoint}' -- python train.py"""

router = page_router()


@dataclass(frozen=True, slots=True)
class JobsQuery:
    """The page's address."""

    all: bool = False
    state: str | None = None
    owner: str | None = None
    preset: str | None = None
    before: tuple[datetime, str] | None = None

    @property
    def filters(self) -> JobFilters:
        return JobFilters(
            state=(JobState(self.state),) if self.state else (),
            owner=(self.owner,) if self.owner else (),
            preset=(self.preset,) if self.preset else (),
            open=None if self.all or self.state else True,
            or_disk_kept=True,
        )

    @property
    def is_filtered(self) -> bool:
        return any((self.state, self.owner, self.preset))

    def address(self, **changed: str | None) -> str:
        """This page with other filters, from its first row on."""
        given = {"state": self.state, "owner": self.owner, "preset": self.preset, "all": "yes" if self.all else None}
        return link("/jobs", **{**given, **changed})


@dataclass(frozen=True, slots=True)
class JobLine:
    """`rate` is what an hour of it costs now: nothing where no VM of it exists."""

    job: Job
    vms: str
    cost: Priced
    rate: Money
    step: int | None
    per_hour: str
    attempts: int
    preemptions: int
    crashes: int
    zone: str
    model: ProvisioningModel | None  # of its last VM; None: it had none
    is_late: bool
    kept_disk: KeptJobDisk | None
    offer: CancelOffer = _NO_OFFER


@dataclass(frozen=True, slots=True)
class RecoverySummary:
    days: int
    total: int
    median: str
    lost_cost: Money
    from_zero: int
    charts: tuple[Bars, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class ZoneRow:
    zone: str
    model: ProvisioningModel
    gpu: str
    stockouts: float
    preemptions: float
    presets: tuple[str, ...]
    last: PlaceEvent | None


@dataclass(frozen=True, slots=True)
class JobsPage:
    lines: Sequence[JobLine]
    next_address: str
    is_any: bool  # job at all, whether open or not
    running: int
    starting: int
    recovering: int
    rate: Priced  # an hour, of all VMs of jobs
    kept: KeptJobDisks
    states: Sequence[str]
    owners: Sequence[str]
    presets: Sequence[str]
    launchable: Sequence[str]
    can_launch: bool
    recoveries: RecoverySummary
    places: Sequence[ZoneRow]  # those where something went wrong first
    quiet: int  # of them, where nothing did
    stockout_half: timedelta = STOCKOUT_HALF_LIFE
    preemption_half: timedelta = PREEMPTION_HALF_LIFE
    example: str = _EXAMPLE


@router.get("/jobs")
def show_jobs(request: Request, pages: Given, me: Asker) -> HTMLResponse:
    wanted, source = jobs_query(request.query_params), pages.source

    def gather() -> tuple[datetime, JobsPage]:
        now = source.clock.now()
        return now, _gathered(source, wanted, now)

    as_of, gathered = memo_of(request).once(("jobs", wanted), gather)
    page = _with_offers(gathered, source.rules, me)
    depends_on = (wanted, tuple(line.offer for line in page.lines))
    return pages.renderer.shared_page(request, "jobs.html", as_of, depends_on, query=wanted, jobs=page)


def jobs_query(address: Mapping[str, str]) -> JobsQuery:
    """Raises BadAddress. Parameters that are not known are left alone."""
    text = query.texts(address, "/jobs")
    state = text.get("state")
    if state is not None and state not in list(JobState):
        raise BadAddress(f"There is no state {state[:40]}.", f"Choose one of {', '.join(JobState)}.")
    before = place_before(text.get("before", ""), "jobs", "/jobs")
    return JobsQuery("all" in text, state, text.get("owner"), text.get("preset"), before)


def _gathered(source: Source, wanted: JobsQuery, now: datetime) -> JobsPage:
    """Everything that the page shows to everybody, read in one transaction; see `_with_offers`."""
    filters = replace(wanted.filters, or_ended_since=now - _ENDED)
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        rows = jobs_page(connection, accrual, filters, wanted.before, _PAGE_SIZE + 1)
        opened = listing.open_job_counts(connection)
        rate = listing.hourly_rate(connection, BILLED)
        kept = kept_disks.in_all(connection, accrual)
        is_any = bool(rows or opened or job_rows.page(connection, JobFilters(), None, 1))
        recovered = recoveries(connection, now - timedelta(days=_DAYS), shown=0)
        scores = place_scores(connection, source.rules, now)
    shown = rows[:_PAGE_SIZE]
    return JobsPage(
        lines=[_line(row, now) for row in shown],
        next_address=_next_address(wanted, shown[-1].job) if len(rows) > _PAGE_SIZE else "",
        is_any=is_any,
        running=_count(opened, JobState.RUNNING),
        starting=_count(opened, JobState.QUEUED, JobState.PROVISIONING),
        recovering=_count(opened, JobState.RECOVERING),
        rate=rate,
        kept=kept,
        states=[state.value for state in JobState],
        owners=sorted({count.owner for count in opened} | {row.job.spec.owner for row in shown}),
        presets=sorted({count.preset for count in opened} | {row.job.spec.preset for row in shown}),
        launchable=[name for name, preset in source.rules.presets.items() if preset.launch is not None],
        can_launch=source.jobs is not None,
        recoveries=_recovery_summary(recovered),
        places=sorted(map(_zone_row, scores), key=lambda place: place.last is None),
        quiet=sum(not score.events for score in scores),
    )


def _with_offers(page: JobsPage, rules: Rules, me: Principal) -> JobsPage:
    """The same page with what this viewer may do."""
    lines = [replace(line, offer=cancel_offer(rules, me, line.job)) for line in page.lines]
    return replace(page, lines=lines, can_launch=page.can_launch and me.may(Permission.JOBS))


def _recovery_summary(recovered: RecoveryReport) -> RecoverySummary:
    outcomes = ", ".join(
        f"{count} {outcome.value.replace('_', ' ')}" for outcome, count in recovered.by_outcome.items()
    )
    sources = ", ".join(f"{source.value} {count}" for source, count in recovered.noticed_first.items())
    lost = span_text(recovered.lost.span) if recovered.lost.span else "none"
    drawn = (
        charts.histogram("Until Costguard noticed", recovered.noticed),
        charts.histogram("Until the next VM was requested", recovered.requested),
        charts.histogram("Until the command was running again", recovered.resumed),
    )
    return RecoverySummary(
        days=_DAYS,
        total=recovered.total,
        median=drawn[2].median if recovered.resumed.count else "",
        lost_cost=recovered.lost.cost,
        from_zero=recovered.lost.from_zero,
        charts=drawn,
        sentence=f"Causes: {outcomes}. First reported by: {sources}. Work lost: {lost}.",
    )


def _line(row: JobRow, now: datetime) -> JobLine:
    last, deadline = row.last, row.job.spec.deadline
    return JobLine(
        job=row.job,
        vms=row.vms,
        cost=row.cost,
        rate=rate_now(row.attempts),
        step=row.step,
        per_hour=steps_per_hour(row),
        attempts=len(row.attempts),
        preemptions=row.preemptions,
        crashes=row.crashes,
        zone=last.zone if last is not None else "",
        model=last.provisioning_model if last is not None else None,
        is_late=deadline is not None and not row.job.state.is_over and deadline < now,
        kept_disk=row.kept_disk,
    )


def _count(opened: Sequence[JobCount], *states: JobState) -> int:
    return sum(count.count for count in opened if count.state in states)


def _zone_row(place: PlaceScore) -> ZoneRow:
    zone, gpu_type, model = place.where
    last = place.events[0] if place.events else None
    return ZoneRow(
        zone, model, gpu_words(gpu_type), place.score.stockouts, place.score.preemptions, place.presets, last
    )


def _next_address(wanted: JobsQuery, last: Job) -> str:
    return wanted.address(before=f"{last.created_at.isoformat()} {last.id}")
