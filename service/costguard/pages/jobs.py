"""What the page of jobs shows: how each stands and why, how recoveries went, and how zones did lately."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from costguard.access.rules import Rules
from costguard.jobs import job_rows, kept_disks, listing
from costguard.jobs.figures import pace
from costguard.jobs.interruptions import recoveries
from costguard.jobs.job_rows import JobFilters
from costguard.jobs.kept_disks import KeptDisk, KeptDisks
from costguard.jobs.listing import JobCount, JobRow, jobs_page
from costguard.jobs.placement import PREEMPTION_HALF_LIFE, STOCKOUT_HALF_LIFE, PlaceEvent
from costguard.jobs.places import PlaceScore, place_scores
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Permission, Principal
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.duration import span_text
from costguard.model.instance import ProvisioningModel
from costguard.model.job import Job, JobState
from costguard.model.money import ZERO, Money, Priced
from costguard.pages import cancelling, histogram
from costguard.pages.asked import LONGEST, BadAddress, place_before
from costguard.pages.cancelling import Offer
from costguard.pages.histogram import Bars
from costguard.pages.show import gpu_words, link
from costguard.pages.source import Source

PAGE = 50
_DAYS = 30
_BILLED = frozenset({AttemptState.BOOTING, AttemptState.RUNNING, AttemptState.ENDING})
_NO_OFFER = Offer(is_open=False, refusal="")
_EXAMPLE = """costguard quote t4 --hours 10
costguard launch t4 --checkpoint gs://BUCKET/run-1 --resume '--from_checkpoint {checkpoint}' -- python train.py"""


@dataclass(frozen=True, slots=True)
class JobsAsked:
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
        """This page's address with other filters, from its first row on."""
        given = {"state": self.state, "owner": self.owner, "preset": self.preset, "all": "yes" if self.all else None}
        return link("/jobs", **{**given, **changed})


@dataclass(frozen=True, slots=True)
class Line:
    """`rate` is what an hour of it costs now, nothing where no VM of it is there."""

    job: Job
    cost: Priced
    rate: Money
    step: int | None
    per_hour: str
    attempts: int
    preemptions: int
    crashes: int
    zone: str
    is_spot: bool
    is_late: bool
    kept_disk: KeptDisk | None
    offer: Offer = _NO_OFFER


@dataclass(frozen=True, slots=True)
class Recoveries:
    days: int
    total: int
    median: str
    lost_cost: Money
    from_zero: int
    charts: tuple[Bars, ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class Place:
    zone: str
    is_spot: bool
    gpu: str
    stockouts: float
    preemptions: float
    presets: tuple[str, ...]
    last: PlaceEvent | None


@dataclass(frozen=True, slots=True)
class Jobs:
    lines: Sequence[Line]
    next_address: str
    is_any: bool  # job at all, whether open or not
    running: int
    starting: int
    recovering: int
    rate: Priced  # an hour, of all VMs of jobs
    kept: KeptDisks
    states: Sequence[str]
    owners: Sequence[str]
    presets: Sequence[str]
    launchable: Sequence[str]
    can_launch: bool
    recoveries: Recoveries
    places: Sequence[Place]  # those where something went wrong first
    quiet: int  # of them, where nothing did
    stockout_half: timedelta = STOCKOUT_HALF_LIFE
    preemption_half: timedelta = PREEMPTION_HALF_LIFE
    example: str = _EXAMPLE


def jobs_asked(query: Mapping[str, str]) -> JobsAsked:
    """Raises BadAddress. Parameters that are not known are left alone."""
    text = {name: value for name, value in query.items() if value}
    for name, value in text.items():
        if len(value) > LONGEST or "\x00" in value:
            raise BadAddress(f"The address's {name} is nothing that a job can have.", "Start again from /jobs.")
    state = text.get("state")
    if state is not None and state not in list(JobState):
        raise BadAddress(f"state={state[:40]} is none of {', '.join(JobState)}.", "Start again from /jobs.")
    return JobsAsked(
        "all" in text,
        state,
        text.get("owner"),
        text.get("preset"),
        place_before(text.get("before", ""), "the jobs", "/jobs"),
    )


def jobs_page_of(source: Source, asked: JobsAsked, now: datetime) -> Jobs:
    """Everything that the page shows to all, read in one transaction; see `offered`."""
    with source.database.read() as connection:
        accrual = accrual_at(connection, now)
        rows = jobs_page(connection, accrual, asked.filters, asked.before, PAGE + 1)
        opened = listing.open_job_counts(connection)
        rate = listing.hourly_rate(connection, _BILLED)
        kept = kept_disks.in_all(connection, accrual)
        is_any = bool(rows or opened or job_rows.page(connection, JobFilters(), None, 1))
        found = recoveries(connection, now - timedelta(days=_DAYS), shown=0)
        scores = place_scores(connection, source.rules, now)
    shown = rows[:PAGE]
    ways = ", ".join(f"{number} {outcome.value.replace('_', ' ')}" for outcome, number in found.by_outcome.items())
    firsts = ", ".join(f"{notice.value} {number}" for notice, number in found.noticed_first.items())
    charts = (
        histogram.draw("From the preemption until it was noticed", found.noticed),
        histogram.draw("Until the next VM was asked for", found.requested),
        histogram.draw("Until the command ran again", found.resumed),
    )
    told = Recoveries(
        days=_DAYS,
        total=found.total,
        median=charts[2].median if found.resumed.count else "",
        lost_cost=found.lost.cost,
        from_zero=found.lost.from_zero,
        charts=charts,
        sentence=f"How: {ways}. What told of it first: {firsts}. Work lost: {_lost(found.lost.span)}.",
    )
    return Jobs(
        lines=[_line(row, now) for row in shown],
        next_address=_next_address(asked, shown[-1].job) if len(rows) > PAGE else "",
        is_any=is_any,
        running=_count(opened, JobState.RUNNING),
        starting=_count(opened, JobState.QUEUED, JobState.PROVISIONING),
        recovering=_count(opened, JobState.RECOVERING),
        rate=rate,
        kept=kept,
        states=[state.value for state in JobState],
        owners=sorted({each.owner for each in opened} | {row.job.spec.owner for row in shown}),
        presets=sorted({each.preset for each in opened} | {row.job.spec.preset for row in shown}),
        launchable=[name for name, preset in source.rules.presets.items() if preset.launch is not None],
        can_launch=source.jobs is not None,
        recoveries=told,
        places=sorted(map(_place, scores), key=lambda place: place.last is None),
        quiet=sum(not score.events for score in scores),
    )


def offered(shown: Jobs, rules: Rules, me: Principal) -> Jobs:
    """The same page, with what this person may do."""
    lines = [replace(line, offer=cancelling.offer(rules, me, line.job)) for line in shown.lines]
    return replace(shown, lines=lines, can_launch=shown.can_launch and me.may(Permission.JOBS))


def _line(row: JobRow, now: datetime) -> Line:
    last, deadline = row.last, row.job.spec.deadline
    return Line(
        job=row.job,
        cost=row.cost,
        rate=rate_now(last),
        step=row.step,
        per_hour=steps_per_hour(row),
        attempts=len(row.attempts),
        preemptions=row.preemptions,
        crashes=row.crashes,
        zone=last.zone if last is not None else "",
        is_spot=last is not None and last.provisioning_model is ProvisioningModel.SPOT,
        is_late=deadline is not None and not row.job.state.is_over and deadline < now,
        kept_disk=row.kept_disk,
    )


def rate_now(last: Attempt | None) -> Money:
    return last.rate if last is not None and last.state in _BILLED and last.rate is not None else ZERO


def steps_per_hour(row: JobRow) -> str:
    found = pace(row.attempts, row.cost).per_hour
    return "" if found is None else f"{round(found):,}"


def _lost(span: timedelta) -> str:
    return span_text(span) if span else "none"


def _count(opened: Sequence[JobCount], *states: JobState) -> int:
    return sum(each.count for each in opened if each.state in states)


def _place(of: PlaceScore) -> Place:
    zone, gpu_type, model = of.where
    last = of.events[0] if of.events else None
    is_spot = model is ProvisioningModel.SPOT
    return Place(zone, is_spot, gpu_words(gpu_type), of.score.stockouts, of.score.preemptions, of.presets, last)


def _next_address(asked: JobsAsked, last: Job) -> str:
    return asked.address(before=f"{last.created_at.isoformat()} {last.id}")
