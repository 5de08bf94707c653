"""Events explain every change: what the ledger holds, and what the guard asked of Google, has its event."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select
from tests.simulation.job_vms import Restore, asked_by_the_guard

from costguard.db import tables
from costguard.model.job import JobState
from costguard_sandbox.world import World

_OVER = {
    JobState.SUCCEEDED.value: "JobSucceeded",
    JobState.FAILED.value: "JobFailed",
    JobState.CANCELLED.value: "JobCancelled",
}
# What may explain each call, by the name of its VM.
_OF_CALLS = {
    "insert": frozenset({"AttemptLaunched", "UnknownVmAdopted", "AttemptEnded"}),
    "start": frozenset({"AttemptRestarted", "AttemptInterrupted"}),
    "stop": frozenset({"InstanceStopOrdered", "AttemptInterrupted", "AttemptEnded", "DiskKept", "OrphanKept"}),
    "delete": frozenset({"AttemptEnded", "OrphanDeleted"}),
}


@dataclass(frozen=True, slots=True)
class AuditedEvents:
    """The events of a ledger, by what they can be looked up by."""

    moments: frozenset[tuple[str, str, datetime]]  # kind, VM's id, when
    of_names: dict[str, frozenset[str]]  # kinds by VM's name
    of_jobs: dict[str, frozenset[str]]  # kinds by job
    keys: frozenset[str]
    closed: dict[str, set[datetime]]  # by project: where its account ended, since it was watched no more


def audited(connection: Connection) -> AuditedEvents:
    events = tables.events
    columns = (events.c.key, events.c.kind, events.c.project, events.c.gce_id, events.c.name, events.c.occurred_at)
    rows = connection.execute(select(*columns, events.c.data)).all()
    of_names, of_jobs = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    closed = defaultdict[str, set[datetime]](set)
    for row in rows:
        if row.kind == "ProjectUnwatched":
            closed[row.project].add(row.occurred_at)
        of_names[row.name].add(row.kind)
        of_jobs[str(row.data.get("job", ""))].add(row.kind)
    return AuditedEvents(
        frozenset((row.kind, row.gce_id, row.occurred_at) for row in rows),
        {name: frozenset(kinds) for name, kinds in of_names.items()},
        {job: frozenset(kinds) for job, kinds in of_jobs.items()},
        frozenset(row.key for row in rows),
        closed,
    )


def unexplained(world: World, connection: Connection, restores: Sequence[Restore]) -> Iterator[str]:
    events = audited(connection)
    yield from _runs(connection, events)
    yield from _jobs(connection, events)
    yield from _answers(connection, events)
    for operation in asked_by_the_guard(world, *_OF_CALLS):
        if any(one.lost(operation.insert_time) for one in restores):
            continue
        name = operation.target_link.rpartition("/")[2]
        if not _OF_CALLS[operation.kind] & events.of_names.get(name, frozenset()):
            yield f"no event explains the {operation.kind} of {name} at {operation.insert_time}"


def _runs(connection: Connection, events: AuditedEvents) -> Iterator[str]:
    lives, vms = tables.lifetimes, tables.instances
    columns = (vms.c.project, vms.c.gce_id, vms.c.name, vms.c.gone_at, lives.c.started_at, lives.c.ended_at)
    for row in connection.execute(select(*columns).join(vms, vms.c.id == lives.c.instance_id)):
        if ("LifetimeStarted", row.gce_id, row.started_at) not in events.moments:
            yield f"no event tells that {row.name} started at {row.started_at}"
        ends = ("LifetimeEnded", "LifetimeEndCorrected")
        closed = events.closed.get(row.project, set())  # one event tells of the ends of all its VMs
        if (
            row.ended_at is not None
            and row.ended_at not in closed
            and not any((kind, row.gce_id, row.ended_at) in events.moments for kind in ends)
        ):
            yield f"no event tells that {row.name} ended at {row.ended_at}"
        if row.gone_at is not None and not closed and "InstanceGone" not in events.of_names.get(row.name, frozenset()):
            yield f"no event tells that {row.name} is gone"


def _jobs(connection: Connection, events: AuditedEvents) -> Iterator[str]:
    jobs, attempts = tables.jobs, tables.attempts
    columns = (jobs.c.id, jobs.c.state, jobs.c.cancel_asked_at, jobs.c.disk_given_up_at)
    for row in connection.execute(select(*columns)):
        kinds = events.of_jobs.get(row.id, frozenset())
        expected = {"JobSubmitted", _OVER.get(row.state, "JobSubmitted")}
        expected |= {"CancelAsked"} if row.cancel_asked_at is not None else set()
        expected |= {"DiskGivenUp"} if row.disk_given_up_at is not None else set()
        yield from (f"job {row.id} is {row.state} without the event {kind}" for kind in sorted(expected - kinds))
    for attempt in connection.execute(
        select(attempts.c.name, attempts.c.asked_at, attempts.c.ended_at, attempts.c.restarts, attempts.c.state)
    ):
        kinds = events.of_names.get(attempt.name, frozenset())
        if attempt.asked_at is not None and not kinds & {"AttemptLaunched", "UnknownVmAdopted"}:
            yield f"attempt {attempt.name} was launched without an event"
        if attempt.ended_at is not None and "AttemptEnded" not in kinds:
            yield f"attempt {attempt.name} ended without an event"


def _answers(connection: Connection, events: AuditedEvents) -> Iterator[str]:
    """Yields what people asked for and what came of it, and the stops of rules."""
    for row in connection.execute(select(tables.requests.c.key, tables.requests.c.kind)):
        if f"RequestMade/{row.key}" not in events.keys:
            yield f"no event tells of the request {row.key} to {row.kind}"
    for table, kinds in ((tables.keeps, ("LifetimeKept",)), (tables.claims, ("OwnerClaimed", "OwnerDisowned"))):
        for row in connection.execute(select(table.c.request_id)):
            if not any(f"{kind}:{row.request_id}" in events.keys for kind in kinds):
                yield f"no event tells what came of request {row.request_id}"
    stops = tables.stops
    for row in connection.execute(select(stops.c.key, stops.c.outcome)):
        kinds = ("InstanceStopOrdered", "InstanceWouldBeStopped")
        if not any(f"{kind}:{row.key}" in events.keys for kind in kinds):
            yield f"no event tells of the stop {row.key} ({row.outcome})"
    sent = select(tables.messages.c.key).where(
        tables.messages.c.kind == "reminder", tables.messages.c.status == "accepted"
    )
    for key in connection.execute(sent).scalars():
        if f"ReminderSent:{key}" not in events.keys:
            yield f"no event tells that {key} was sent"
