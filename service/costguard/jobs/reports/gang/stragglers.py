"""Reads what a gang's VMs measured in the present round, names the one that the others wait for, and notifies once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.events import audit_log
from costguard.jobs.decide.gang.straggler import MemberMinutes, Straggler, straggler_of
from costguard.jobs.decide.view import width_of
from costguard.jobs.rows import agent_fields, attempts, job_events, job_rows
from costguard.jobs.rows.diagnosis import diagnosis_rows
from costguard.model.attempt import Attempt
from costguard.model.job import Job

_FRESH = timedelta(minutes=5)  # an agent reports a minute each minute: older ones say nothing of now


def straggler_now(connection: Connection, job: Job, tried: Sequence[Attempt], now: datetime) -> Straggler | None:
    """Returns the VM that the others of a running gang wait for; None: none does, or it is not known."""
    members = [one for one in tried if _works(job, one)]
    if not job.is_gang or len(members) != width_of(job, tried):
        return None
    started_at = max(one.agent.started_at for one in members if one.agent.started_at is not None)
    minutes = {one.id: diagnosis_rows.minutes_of(connection, one.id) for one in members}
    # Node 0 alone prints steps, and all make the same ones.
    has_steps = any(minute.step is not None for some in minutes.values() for minute in some)
    measured: list[MemberMinutes] = []
    for one in members:
        mine = [minute for minute in minutes[one.id] if minute.run == one.agent.run]
        mine = [replace(minute, step=minute.step or 0) if has_steps else minute for minute in mine]
        warm = [(minute.at, minute.minute) for minute in mine if agent_fields.is_warm(minute, started_at)]
        measured.append(MemberMinutes(one.node, one.name, warm))
    straggler = straggler_of(measured)
    return straggler if straggler is not None and straggler.until >= now - _FRESH else None


def announce(connection: Connection, job_ids: Collection[str], now: datetime) -> None:
    """Records the straggler of each of these gangs, once for each VM of it."""
    jobs = {job_id: job for job_id, job in job_rows.of_ids(connection, job_ids).items() if job.is_gang}
    tried = attempts.of_jobs(connection, list(jobs))
    events = []
    for job in jobs.values():
        straggler = straggler_now(connection, job, tried.get(job.id, ()), now)
        if straggler is not None:
            events.append(job_events.straggles(job, straggler, now))
    audit_log.append(connection, events, now)


def _works(job: Job, one: Attempt) -> bool:
    agent = one.agent
    is_over = agent.exit is not None or agent.ended_round is not None
    return one.is_open and one.round == max(1, job.gang_round) and agent.started_at is not None and not is_over
