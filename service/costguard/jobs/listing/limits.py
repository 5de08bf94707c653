"""Lists limits on what is in use at once: their use, who uses them, and who waits for them in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.jobs.decide.limits.expected_starts import ExpectedStart, expected_starts
from costguard.jobs.decide.limits.in_use import NOTHING, Bucket, InUse, PresentUse, counted, limits_on
from costguard.jobs.decide.limits.queue import Turn
from costguard.jobs.decide.limits.queue_words import why_it_waits
from costguard.jobs.reports.limits.limit_state import QueueReader
from costguard.model.budget import FleetLimit


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job that waits for a limit. `place` is its place in line, from 1; 0: it exceeds the limit also alone.

    `why` is one sentence: the limit, its place, and when it is expected to start.
    """

    job: str
    title: str
    owner: str
    priority: int
    since: datetime
    place: int
    needs: InUse
    start: ExpectedStart
    why: str


@dataclass(frozen=True, slots=True)
class LimitUse:
    """A limit as it stands, or its part for one owner, team, project or preset: `value`.

    `users` are jobs and, without a job, VMs that none launched; those that use the most come first.
    """

    limit: FleetLimit
    value: str
    used: InUse
    users: Sequence[PresentUse]
    waiting: Sequence[QueuedJob]


def limit_uses(connection: Connection, rules: Rules, now: datetime) -> list[LimitUse]:
    """Returns each limit in the order of the settings; of one that is kept by value, each value that uses or waits."""
    limits = rules.fleet_limits
    if not limits:
        return []
    state = QueueReader(limits, rules.teams).read(connection, now)
    turns = state.line_up(limits, {}, now)
    starts = expected_starts(limits, state.uses, turns, now, state.past)
    titles = {turn.wanted.job: turn.wanted.title for turn in turns}
    used, users = counted(limits, state.uses), _users(limits, state.uses)
    waiting: dict[Bucket, list[QueuedJob]] = {}
    for turn in turns:
        if turn.bucket is not None and not turn.count and turn.wanted.job in state.stored:
            waiting.setdefault(turn.bucket, []).append(_queued(turn, starts, titles, now))
    listed: list[LimitUse] = []
    for limit in limits:
        buckets = {bucket for bucket in (*used, *waiting) if bucket.limit == limit.name}
        if limit.for_each is None:
            buckets.add(Bucket(limit.name))
        listed += [
            LimitUse(limit, bucket.value, used.get(bucket, NOTHING), users.get(bucket, ()), waiting.get(bucket, ()))
            for bucket in sorted(buckets)
        ]
    return listed


def _users(limits: Sequence[FleetLimit], uses: Sequence[PresentUse]) -> dict[Bucket, list[PresentUse]]:
    users: dict[Bucket, list[PresentUse]] = {}
    for use in sorted(uses, key=lambda use: (-use.amount.gpus, -use.amount.vms, use.job)):
        for limit, bucket in limits_on(limits, use.by):
            if use.job or limit.counts_others:
                users.setdefault(bucket, []).append(use)
    return users


def _queued(turn: Turn, starts: dict[str, ExpectedStart], titles: dict[str, str], now: datetime) -> QueuedJob:
    wanted = turn.wanted
    start = starts.get(wanted.job, ExpectedStart(None))
    return QueuedJob(
        job=wanted.job,
        title=wanted.title,
        owner=wanted.by.owner,
        priority=wanted.priority,
        since=wanted.since,
        place=0 if turn.never else len(turn.ahead) + 1,
        needs=wanted.one.times(wanted.least),
        start=start,
        why=f"It waits for {why_it_waits(turn, start, titles, now)}.",
    )
