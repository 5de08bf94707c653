"""Decides which launches go ahead under limits on what is in use at once, and in which order the others wait. Pure.

Order: priority; of equals jobs whose VM was lost; of these the owner who used the least share of the limit in the last
day; of one owner the oldest. Share is the dominant one of VMs, GPUs and dollars ("Dominant Resource Fairness", Ghodsi
et al., NSDI 2011) over a day, as Slurm's fair-share factor counts past use; what runs, and what goes ahead in this
order, counts for an hour more. A job that does not fit keeps all that it needs of the limit where it waits: what comes
later takes none of it, so that small jobs starve no gang. There is no backfill past it: EASY backfill (Lifka, "The
ANL/IBM SP Scheduling System", 1995; Slurm's sched/backfill) needs a bound on the time of small jobs, and the end of a
training is an estimate. A later job passes only where it needs nothing of what the first one lacks.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from fractions import Fraction

from costguard.jobs.decide.limits.in_use import (
    NOTHING,
    Bucket,
    InUse,
    LimitedBy,
    PresentUse,
    counted,
    fits_never,
    limits_on,
    most_that_fit,
    short_of,
)
from costguard.model.budget import FleetLimit

# For this time at most an owner without any VM under the limits waits behind jobs of a higher priority.
AGED = timedelta(days=1)
PAST = timedelta(days=1)  # for which past use counts
_AHEAD_S = 3600  # for which what is in use counts ahead: of several free places each owner gets some


@dataclass(frozen=True, slots=True)
class Wanted:
    """VMs that a job wants now: `most` like `one`, and at least `least` of them or none.

    `is_extra`: the job runs without them, such as the second VM of a move. They come last and keep nothing.
    """

    job: str
    title: str
    by: LimitedBy
    one: InUse
    most: int
    least: int
    created_at: datetime
    since: datetime  # when it began to wait, or now
    priority: int = 0
    is_recovering: bool = False
    is_extra: bool = False
    takes: timedelta | None = None  # how long it is expected to run; None: not known


@dataclass(frozen=True, slots=True)
class Turn:
    """The answer for one job: `count` VMs may be launched; with 0 it waits, for `limit`.

    `ahead` are the jobs that wait for the same bucket before it, and `used` what is in use there. `never`: it exceeds
    the limit also alone, and keeps no other job from anything.
    """

    wanted: Wanted
    count: int
    limit: FleetLimit | None = None
    bucket: Bucket | None = None
    ahead: tuple[str, ...] = ()
    used: InUse = NOTHING
    short: str = ""
    never: bool = False


@dataclass(frozen=True, slots=True)
class PastUse:
    """The past use of jobs of these parts: amounts times the seconds for which they were in use."""

    by: LimitedBy
    amount_seconds: InUse


@dataclass(slots=True)
class _Counts:
    """The amounts that are in use and kept, by bucket, and by owner in each."""

    limits: Sequence[FleetLimit]
    present: Mapping[Bucket, InUse]
    kept: dict[Bucket, InUse] = field(default_factory=dict)
    of_owner: dict[tuple[Bucket, str], InUse] = field(default_factory=dict)
    past: dict[tuple[Bucket, str], InUse] = field(default_factory=dict)  # times seconds
    waiting: dict[Bucket, list[str]] = field(default_factory=lambda: defaultdict(list))
    applying: dict[LimitedBy, list[tuple[FleetLimit, Bucket]]] = field(default_factory=dict)

    def on(self, by: LimitedBy) -> list[tuple[FleetLimit, Bucket]]:
        if by not in self.applying:
            self.applying[by] = limits_on(self.limits, by)
        return self.applying[by]

    def keep(self, bucket: Bucket, owner: str, amount: InUse) -> None:
        self.kept[bucket] = self.kept.get(bucket, NOTHING) + amount
        self.of_owner[bucket, owner] = self.of_owner.get((bucket, owner), NOTHING) + amount

    def used(self, bucket: Bucket) -> InUse:
        return self.present.get(bucket, NOTHING) + self.kept.get(bucket, NOTHING)

    def share(self, wanted: Wanted) -> Fraction:
        """The owner's dominant share, times seconds: the most of any resource of any limit that applies."""
        shares = [Fraction(0)]
        for limit, bucket in self.on(wanted.by):
            key = bucket, wanted.by.owner
            mine = self.past.get(key, NOTHING) + self.of_owner.get(key, NOTHING).times(_AHEAD_S)
            dollars = limit.dollars_per_hour
            parts = ((mine.vms, limit.vms), (mine.gpus, limit.gpus), (mine.rate.nanos, dollars and dollars.nanos))
            shares += [Fraction(used, amount) for used, amount in parts if amount]
        return max(shares)

    def has_none(self, wanted: Wanted) -> bool:
        return all(not self.of_owner.get((bucket, wanted.by.owner), NOTHING).vms for _, bucket in self.on(wanted.by))


def line_up(
    limits: Sequence[FleetLimit],
    uses: Sequence[PresentUse],
    wanted: Iterable[Wanted],
    now: datetime,
    past: Iterable[PastUse] = (),
) -> list[Turn]:
    """Returns the turn of each job, in the order in which they go ahead. `past` is what jobs used within `PAST`.

    Where a job waits it keeps what it needs of that limit and of the narrower ones, never of wider ones: limits are
    taken in one order, as locks are, so that no job waits for another in a circle and a person's own limit holds up
    nobody else.
    """
    counts = _Counts(limits, counted(limits, uses))
    for use in uses:
        for limit, bucket in counts.on(use.by):
            if use.job or limit.counts_others:
                mine = counts.of_owner.get((bucket, use.by.owner), NOTHING)
                counts.of_owner[bucket, use.by.owner] = mine + use.amount
    for one in past:
        for _, bucket in counts.on(one.by):
            key = bucket, one.by.owner
            counts.past[key] = counts.past.get(key, NOTHING) + one.amount_seconds
    return [_turn(counts, job) for job in _ordered(counts, list(wanted), now)]


def _ordered(counts: _Counts, wanted: Sequence[Wanted], now: datetime) -> Iterable[Wanted]:
    """Yields jobs in their order. It is lazy, since the shares change with each job that is given its turn."""
    aged = _aged(counts, wanted, now)
    yield from aged
    first = {one.job for one in aged}
    classes: dict[tuple[bool, int, bool], list[Wanted]] = defaultdict(list)
    for one in wanted:
        if one.job not in first:
            classes[one.is_extra, -one.priority, not one.is_recovering].append(one)
    for _, some in sorted(classes.items()):
        yield from _shared(counts, some)


def _shared(counts: _Counts, wanted: Sequence[Wanted]) -> Iterable[Wanted]:
    """Yields jobs of one class: each time the oldest of the owner who has the least."""
    of_owners: dict[str, deque[Wanted]] = defaultdict(deque)
    for one in sorted(wanted, key=lambda one: (one.created_at, one.job)):
        of_owners[one.by.owner].append(one)

    def entry(owner: str) -> tuple[Fraction, datetime, str, str]:
        head = of_owners[owner][0]
        return counts.share(head), head.created_at, head.job, owner

    heap = [entry(owner) for owner in of_owners]
    heapq.heapify(heap)
    while heap:
        owner = heapq.heappop(heap)[-1]
        yield of_owners[owner].popleft()
        if of_owners[owner]:
            heapq.heappush(heap, entry(owner))


def _aged(counts: _Counts, wanted: Sequence[Wanted], now: datetime) -> list[Wanted]:
    """Returns the oldest job of each owner who has waited a day with nothing in use: priorities starve nobody."""
    waited = [one for one in wanted if now - one.since >= AGED and not one.is_extra and counts.has_none(one)]
    oldest: dict[str, Wanted] = {}
    for one in sorted(waited, key=lambda one: (one.since, one.job)):
        oldest.setdefault(one.by.owner, one)
    return list(oldest.values())


def _turn(counts: _Counts, one: Wanted) -> Turn:
    applying, owner = counts.on(one.by), one.by.owner
    for limit, bucket in applying:
        if fits_never(limit, one.one, one.least):
            used, short = counts.present.get(bucket, NOTHING), short_of(limit, NOTHING, one.one, one.least)
            return Turn(one, 0, limit, bucket, used=used, short=short, never=True)
    count = one.most
    passed: list[tuple[FleetLimit, Bucket]] = []
    for limit, bucket in applying:
        used = counts.used(bucket)
        room = most_that_fit(limit, used, one.one, count)
        if room < one.least:
            turn = Turn(
                one,
                0,
                limit,
                bucket,
                tuple(counts.waiting[bucket]),
                counts.present.get(bucket, NOTHING),
                short_of(limit, used, one.one, one.least),
            )
            if not one.is_extra:
                for kept_of, taken in (*passed, (limit, bucket)):
                    counts.keep(taken, owner, _kept(kept_of, one))
                counts.waiting[bucket].append(one.job)
            return turn
        count = room
        passed.append((limit, bucket))
    for _, bucket in passed:
        counts.keep(bucket, owner, one.one.times(count))
    return Turn(one, count)


def _kept(limit: FleetLimit, one: Wanted) -> InUse:
    """Returns what is kept for a job that waits: all the money under a limit of dollars where its cost is unknown."""
    kept = one.one.times(one.least)
    return replace(kept, rate=limit.dollars_per_hour) if one.one.unpriced and limit.dollars_per_hour else kept
