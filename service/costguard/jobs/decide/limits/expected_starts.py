"""Works out when jobs that wait for a limit are expected to start: the queue is played on, end by end. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from costguard.jobs.decide.limits.in_use import Bucket, PresentUse, limits_on
from costguard.jobs.decide.limits.queue import PastUse, Turn, Wanted, line_up
from costguard.model.budget import FleetLimit

_MOST_JOBS = 100  # of the queue's beginning; where there are more, their start is not worked out
_MOST_ENDS = 60


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """When a job is expected to start, once the job `after` ends; with `at` None, `why_unknown` says why not."""

    at: datetime | None
    after: str = ""
    why_unknown: str = ""


def expected_starts(
    limits: Sequence[FleetLimit],
    uses: Sequence[PresentUse],
    turns: Sequence[Turn],
    now: datetime,
    past: Sequence[PastUse] = (),
) -> dict[str, ExpectedStart]:
    """Returns the expected start of each job that waits. An end that is past is late, and counts as unknown."""
    waiting = [turn.wanted for turn in turns if turn.count == 0 and not turn.never and not turn.wanted.is_extra]
    ahead = [_as_used(turn.wanted, turn.count, now) for turn in turns if turn.count]
    buckets = {turn.wanted.job: turn.bucket for turn in turns}
    left, present = waiting[:_MOST_JOBS], [*uses, *ahead]
    starts: dict[str, ExpectedStart] = {}
    for _ in range(_MOST_ENDS):
        ends = [use for use in present if use.ends_at is not None and use.ends_at > now]
        if not left or not ends:
            break
        first = min(ends, key=lambda use: (use.ends_at or now, use.job))
        present.remove(first)
        at = first.ends_at or now
        begun = [turn for turn in line_up(limits, present, left, at, past) if turn.count]
        for turn in begun:
            starts[turn.wanted.job] = ExpectedStart(at, first.title or first.job)
            present.append(_as_used(turn.wanted, turn.count, at))
        left = [one for one in left if one.job not in starts]
    blocking = _blocking(limits, present, now)
    for one in waiting:
        if one.job not in starts:
            starts[one.job] = ExpectedStart(None, why_unknown=_why(blocking.get(buckets[one.job] or Bucket("")), one))
    return starts


def _as_used(wanted: Wanted, count: int, at: datetime) -> PresentUse:
    ends_at = None if wanted.takes is None else at + wanted.takes
    return PresentUse(wanted.by, wanted.one.times(count), wanted.job, wanted.title, ends_at)


def _blocking(
    limits: Sequence[FleetLimit], present: Sequence[PresentUse], now: datetime
) -> Mapping[Bucket, PresentUse]:
    """Returns in each bucket a use whose end is not known, a job's rather than another VM's."""
    blocking: dict[Bucket, PresentUse] = {}
    for use in sorted(present, key=lambda use: not use.job):
        if use.ends_at is None or use.ends_at <= now:
            for limit, bucket in limits_on(limits, use.by):
                if use.job or limit.counts_others:
                    blocking.setdefault(bucket, use)
    return blocking


def _why(use: PresentUse | None, wanted: Wanted) -> str:
    if use is None:
        return "too much is ahead of it"
    if not use.job:
        return "other VMs than jobs' are in use, and when they end is not known"
    return f"when job {use.title or use.job} ends is not known" if use.job != wanted.job else "its own VM ends first"
