"""Looks at the limits on what is in use at once for a job that is submitted or quoted: fits never, now, or waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from costguard.access.rules import Rules
from costguard.jobs.decide.limits.expected_starts import expected_starts
from costguard.jobs.decide.limits.in_use import limits_on, of_vm
from costguard.jobs.decide.limits.queue import Turn, Wanted
from costguard.jobs.decide.limits.queue_words import amount_text, limit_name, most_text, why_it_waits
from costguard.jobs.reports.limits.limit_state import QueueReader
from costguard.jobs.rows.limits.limit_rows import LimitAttribution
from costguard.jobs.submit.submission import JobRefusal
from costguard.model.job import JobSpec
from costguard.model.launch import Recipe
from costguard.model.money import Money

_NEW = ""  # the id of a job that is not stored


@dataclass(frozen=True, slots=True)
class LimitLook:
    refusals: Sequence[JobRefusal] = ()
    warnings: Sequence[str] = ()


def look_at_limits(
    connection: Connection, rules: Rules, spec: JobSpec, made: Recipe, rates: Iterable[Money | None], now: datetime
) -> LimitLook:
    """Says whether the job would wait, or is refused: it exceeds a limit also alone, or its owner wants no wait.

    `rates` are those of all its VMs together, by place; the least counts, for a job may start where it is cheapest.
    """
    reader = QueueReader(rules.fleet_limits, rules.teams)
    by = LimitAttribution(rules.teams).by(spec.project, spec.preset, spec.owner)
    if not limits_on(rules.fleet_limits, by):
        return LimitLook()
    priced = [rate.nanos // spec.nodes for rate in rates if rate is not None]
    one = of_vm(made.gpu_count, Money(min(priced)) if priced else None)
    wanted = Wanted(_NEW, "", by, one, spec.nodes, spec.fewest, now, now, spec.priority, takes=spec.work)
    state = reader.read(connection, now)
    turns = state.line_up(rules.fleet_limits, {_NEW: wanted}, now)
    mine = next(turn for turn in turns if turn.wanted.job == _NEW)
    if mine.never:
        return LimitLook((JobRefusal("limit", _never(mine)),))
    if mine.count:
        return LimitLook()
    start = expected_starts(rules.fleet_limits, state.uses, turns, now, state.past)[_NEW]
    titles = {turn.wanted.job: turn.wanted.title for turn in turns}
    why = f"It would wait for {why_it_waits(mine, start, titles, now)}."
    if spec.queue is False:
        return LimitLook((JobRefusal("queue", why),))
    return LimitLook(warnings=(why,))


def _never(turn: Turn) -> str:
    limit, bucket, wanted = turn.limit, turn.bucket, turn.wanted
    if limit is None or bucket is None:
        return ""
    needs = amount_text(wanted.one.times(wanted.least), turn.short)
    return (
        f"It needs {needs}, and limit {limit_name(bucket)} allows at most {most_text(limit, turn.short)} at once: use "
        "fewer or smaller VMs, or have the limit raised."
    )
