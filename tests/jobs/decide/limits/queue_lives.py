"""Whole lives of queues under limits: jobs of several owners arrive, run, are preempted, move and end.

Two replicas take turns on the same rows; the one that acts is killed at random between a decision, the intents that
follow from it and the calls, and the other goes on from the rows alone. What is judged is the list of spans for which
VMs were there, by a recount that knows nothing of the rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

from costguard.jobs.decide.limits.in_use import NOTHING, InUse, LimitedBy, PresentUse, of_vm
from costguard.jobs.decide.limits.queue import PastUse, Turn, Wanted, line_up
from costguard.model.budget import FleetLimit, LimitPart, Scope
from costguard.model.money import Money

BEGIN = datetime(2026, 11, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
PRICE_A_GPU = Money.of("0.25")
LONGEST = 120  # minutes of a job


@dataclass
class LivingJob:
    """A job of the simulation; times are whole minutes. `ready` is since when it wants VMs."""

    id: str
    by: LimitedBy
    nodes: int
    least: int
    gpus: int
    left: int
    arrives: int
    priority: int = 0
    ready: int | None = None
    running: int = 0  # VMs
    retry: int = 0  # no sooner than this: there was no room for it at Google
    lost: bool = False
    waits: list[tuple[int, int]] = field(default_factory=list)  # from when it was ready to its start
    over: int | None = None

    @property
    def one(self) -> InUse:
        return of_vm(self.gpus, PRICE_A_GPU.times(self.gpus + 1))


@dataclass(frozen=True)
class Span:
    """VMs that were there from one minute up to another."""

    job: LivingJob
    vms: int
    begin: int
    end: int


@dataclass
class QueueLife:
    """`rows` are what survives a killed replica: the jobs and the spans of their VMs. `fair`: all of one priority."""

    seed: int
    fair: bool = False
    kills: int = 0
    starts: int = 0
    minute: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        pick = self.random
        self.owners = [f"o{number}@example.com" for number in range(pick.randint(2, 5))]
        self.limits = self._limits()
        self.jobs = list(self._jobs())
        self.never = {job.id for job in self.jobs if self._exceeds_alone(job)}
        self.open: dict[str, tuple[int, int]] = {}  # VMs and since when, by job
        self.extra: dict[str, tuple[int, int]] = {}  # the second VM of a move
        self.spans: list[Span] = []
        self.known: set[str] | None = None  # jobs that the present replica has decided on; None: it just began

    def _limits(self) -> list[FleetLimit]:
        pick = self.random
        gpus = pick.choice([4, 8, 16])
        common = FleetLimit("gpus", Scope(), gpus=gpus)
        if self.fair:
            return [common]
        more = [
            FleetLimit("each", Scope(), for_each=LimitPart.OWNER, vms=pick.randint(2, 6)),
            FleetLimit("dollars", Scope(), dollars_per_hour=PRICE_A_GPU.times(pick.randint(8, 20))),
            FleetLimit("preset", Scope(preset="a"), vms=pick.randint(2, 6)),
            FleetLimit("owner", Scope(owner="O0@example.com"), gpus=pick.randint(2, 4)),
            FleetLimit("presets", Scope(), for_each=LimitPart.PRESET, gpus=pick.randint(4, 8)),
        ]
        return [common, *pick.sample(more, pick.randint(0, 3))]

    def _jobs(self) -> Iterator[LivingJob]:
        pick = self.random
        busy = pick.randint(1, 6)
        for number in range(pick.randint(8, 30)):
            owner = pick.choice(self.owners[:1] * busy + self.owners)
            nodes = pick.choice([1, 1, 1, 2, 4])
            yield LivingJob(
                f"j{number:02}",
                LimitedBy("p", pick.choice(["a", "b"]), owner),
                nodes,
                nodes if pick.random() < 0.7 else 1,
                pick.choice([1, 1, 2, 4] if self.fair else [0, 1, 1, 2, 4]),
                pick.randint(5, LONGEST),
                pick.randint(0, pick.choice([10, 400])),
                0 if self.fair else pick.choice([0, 0, 0, 5, -5]),
            )

    def run(self, minutes: int = 60 * 24 * 40) -> QueueLife:
        """Lives until every job that may ever run is over; a life that does not come to its end is a starvation."""
        while self.minute < minutes and any(self._is_left(job) for job in self.jobs):
            if self._world():
                self._turn()
            self.minute += 1
        for job in self.jobs:
            self._end(job)
        return self

    def _is_left(self, job: LivingJob) -> bool:
        return job.over is None and job.id not in self.never

    def _exceeds_alone(self, job: LivingJob) -> bool:
        """Says whether it exceeds a limit alone, by arithmetic of its own."""
        return any(used > most for used, most in self._sums([(job, job.least)]))

    def _world(self) -> bool:
        """Plays what happens outside in a minute: arrivals, ends, preemptions. Says whether a replica has news."""
        pick = self.random
        is_new = False
        for job in self.jobs:
            if job.over is not None:
                continue
            if job.arrives == self.minute:
                job.ready = self.minute
            is_new |= job.arrives == self.minute or (job.retry == self.minute and job.ready is not None)
            if job.id not in self.open:
                continue
            job.left -= 1
            if job.left <= 0:
                self._end(job)
                job.over = self.minute
                is_new = True
            elif not self.fair and pick.random() < 0.01:
                self._end(job)
                job.ready, job.lost = self.minute, True
                is_new = True
            elif job.id in self.extra and pick.random() < 0.2:
                vms, begin = self.extra.pop(job.id)
                self.spans.append(Span(job, vms, begin, self.minute))
                is_new = True
        return is_new

    def _end(self, job: LivingJob) -> None:
        for spans in (self.open, self.extra):
            if job.id in spans:
                vms, begin = spans.pop(job.id)
                self.spans.append(Span(job, vms, begin, self.minute))

    def _turn(self) -> None:
        """A replica's turn: it reads the rows, decides, and writes each intent before its call."""
        pick = self.random
        for turn in self._decided():
            if pick.random() < 0.02:
                self.kills += 1  # between the decision and an intent: the rest of it is forgotten
                return self._turn()
            if not turn.count:
                continue
            job = next(job for job in self.jobs if job.id == turn.wanted.job)
            if turn.wanted.is_extra:
                self.extra[job.id] = (turn.count, self.minute)
                continue
            if not self.fair and pick.random() < 0.05:
                job.retry = self.minute + pick.randint(1, 10)  # out of stock
                continue
            self.open[job.id] = (turn.count, self.minute)
            assert job.ready is not None
            job.waits.append((job.ready, self.minute))
            job.ready, job.lost = None, False
            self.starts += 1
            if pick.random() < 0.02:
                self.kills += 1  # between the intent and the call: the row is there, and counts
                return self._turn()
        return None

    def _decided(self) -> list[Turn]:
        wanted = [self._wanted(job) for job in self.jobs if job.ready is not None and job.retry <= self.minute]
        if not self.fair:
            movers = [job for job in self.jobs if job.id in self.open and job.id not in self.extra]
            moving = [job for job in movers if self.random.random() < 0.1]
            wanted += [replace(self._wanted(job), most=1, least=1, is_extra=True) for job in moving]
        self.random.shuffle(wanted)
        now = self._at(self.minute)
        past = {job.by: NOTHING for job in self.jobs}
        for span in self._spans():
            begin = max(span.begin, self.minute - 24 * 60)
            if span.end > begin:
                past[span.job.by] += span.job.one.times(span.vms * (span.end - begin) * 60)
        uses = [
            PresentUse(job.by, job.one.times(vms), job.id)
            for spans in (self.open, self.extra)
            for job in self.jobs
            if job.id in spans
            for vms in [spans[job.id][0]]
        ]
        return line_up(self.limits, uses, wanted, now, [PastUse(by, amount) for by, amount in past.items()])

    def _spans(self) -> list[Span]:
        alive = [Span(job, *self.open[job.id], self.minute) for job in self.jobs if job.id in self.open]
        return [*self.spans, *alive]

    def _wanted(self, job: LivingJob) -> Wanted:
        since = self._at(job.ready if job.ready is not None else self.minute)
        created = self._at(job.arrives)
        return Wanted(job.id, job.id, job.by, job.one, job.nodes, job.least, created, since, job.priority, job.lost)

    def _at(self, minute: int) -> datetime:
        return BEGIN + minute * MINUTE

    # The judge: a recount from the spans, written without the rule's code.

    def exceeded(self) -> list[str]:
        """Lists the minutes at which more was there than a limit allows."""
        wrong = []
        for minute in sorted({span.begin for span in self.spans}):
            there = [(span.job, span.vms) for span in self.spans if span.begin <= minute < span.end]
            wrong += [f"minute {minute}: {used} of {most}" for used, most in self._sums(there) if used > most]
        return wrong

    def _sums(self, there: Sequence[tuple[LivingJob, int]]) -> Iterator[tuple[int, int]]:
        """Yields what is used of each limit, with its most, for each value that it is kept by."""
        for limit in self.limits:
            groups: dict[str, list[tuple[LivingJob, int]]] = {}
            for job, vms in there:
                scope = limit.scope
                if scope.preset not in (None, job.by.preset):
                    continue
                if scope.owner is not None and scope.owner.lower() != job.by.owner:
                    continue
                part = {None: "", LimitPart.OWNER: job.by.owner, LimitPart.PRESET: job.by.preset}[limit.for_each]
                groups.setdefault(part, []).append((job, vms))
            for some in groups.values():
                if limit.vms is not None:
                    yield sum(vms for _, vms in some), limit.vms
                if limit.gpus is not None:
                    yield sum(vms * job.gpus for job, vms in some), limit.gpus
                if limit.dollars_per_hour is not None:
                    cents = sum(vms * 25 * (job.gpus + 1) for job, vms in some)
                    yield cents * 10_000_000, limit.dollars_per_hour.nanos

    def starved(self) -> list[str]:
        return [job.id for job in self.jobs if self._is_left(job)]

    def least_share(self) -> tuple[float, str]:
        """Returns the least share that an owner was given while a job of it waited, and that job. 1.0: all of its part.

        Its part is the limit divided by the owners with work at that time, after one round: the longest job of each of
        them, for what runs is not stopped. What it used within the day before counts. Of a life with one limit of GPUs.
        """
        (limit,) = self.limits
        most = limit.gpus or 0
        least, which = 1.0, ""
        for job in self.jobs:
            for ready, start in job.waits:
                owners = self._with_work(ready, start)
                wait = start - ready - owners * LONGEST
                if wait <= 0:
                    continue
                given = sum(
                    span.vms * span.job.gpus * max(0, min(span.end, start) - max(span.begin, ready - 24 * 60))
                    for span in self.spans
                    if span.job.by.owner == job.by.owner
                )
                share = given * owners / (most * wait)
                if share < least:
                    least, which = share, job.id
        return least, which

    def _with_work(self, ready: int, start: int) -> int:
        """Counts the owners who had a job that waited or ran in this time."""
        jobs = [job for job in self.jobs if job.arrives < start and (job.over is None or job.over > ready)]
        return len({job.by.owner for job in jobs})
