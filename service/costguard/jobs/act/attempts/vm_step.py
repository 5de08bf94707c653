"""Parts that notes about a job share, and steps on its VM: the attempt, request ids, backoff, ownership checks."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection

from costguard.actions.execute import CallKind, StepDefaults
from costguard.errors import CloudError
from costguard.events import audit_log
from costguard.jobs.act.attempts.vm_request import VmMaker
from costguard.jobs.act.pacing import PacedLauncher, Paused
from costguard.jobs.decide.view import JobView
from costguard.jobs.rows import attempts, job_events
from costguard.jobs.rows.recovery import drills
from costguard.keepers.reading import keeper_of
from costguard.model.attempt import Attempt, AttemptState, Outcome
from costguard.model.backoff import Backoff
from costguard.model.job import Job
from costguard.model.observation import Sighting

_NAMESPACE = uuid.UUID("6f1d7c5a-62c5-5d0a-9b0e-6e0a3a7b1f52")  # means nothing, and must never change

OPEN = frozenset(
    {
        AttemptState.INTENDED,
        AttemptState.ASKED,
        AttemptState.WAITING,
        AttemptState.BOOTING,
        AttemptState.RUNNING,
        AttemptState.RESTING,
        AttemptState.RESTARTING,
    }
)

_BACKOFF = Backoff(timedelta(seconds=4), timedelta(minutes=1))


_REFUSED_FOR = timedelta(hours=6)


class RefusedNotices:
    """Holds the zones and machine types whose notice of a preemption Google lately refused. Safe for several threads.

    It only saves a request: without it, the notice is asked for and refused again.
    """

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], datetime] = {}

    def note(self, zone: str, machine_type: str, now: datetime) -> None:
        self._until[zone, machine_type] = now + _REFUSED_FOR

    def hold(self, zone: str, machine_type: str, now: datetime) -> bool:
        until = self._until.get((zone, machine_type))
        return until is not None and now < until


@dataclass(frozen=True, slots=True)
class LaunchContext:
    """The parts that every step needs."""

    launcher: PacedLauncher
    maker: VmMaker
    refused_notices: RefusedNotices = field(default_factory=RefusedNotices)


@dataclass(frozen=True, slots=True)
class JobNote:
    """A note about a job."""

    job: Job

    @property
    def subject(self) -> str:
        return self.job.id


@dataclass(slots=True)
class AttemptStep(StepDefaults):
    """A step on the VM of an attempt."""

    means: LaunchContext
    job: Job
    attempt: Attempt

    @property
    def subject(self) -> str:
        return self.job.id

    @property
    def project(self) -> str:
        return self.attempt.project


@dataclass(slots=True)
class LaunchStep(StepDefaults):
    """A step that requests new VMs for a job."""

    means: LaunchContext
    view: JobView

    @property
    def subject(self) -> str:
        return self.view.job.id

    @property
    def project(self) -> str:
        return self.view.job.spec.project

    @property
    def begins_with(self) -> CallKind:
        return CallKind.WRITE


def request_uuid(project: str, name: str, what: str = "insert") -> str:
    """The same for the same call, from any process and however often."""
    return str(uuid.uuid5(_NAMESPACE, f"{project}/{name}/{what}"))


def retry_at(tries: int, now: datetime) -> datetime:
    """When what was tried so often, or is under way, is asked about again: later each time."""
    return now + _BACKOFF.after(tries + 1)


def retry_changes(attempt: Attempt, error: CloudError, now: datetime) -> attempts.Changes:
    """Returns what to record after a call with an unknown or failed outcome.

    Reaching Google's limit counts as no try.
    """
    if isinstance(error, Paused):
        return {"try_after": error.until, "error": str(error)}
    tries = attempt.tries + 1
    return {"tries": tries, "try_after": retry_at(tries, now), "error": str(error)}


def is_of(sighting: Sighting, attempt: Attempt, maker: VmMaker) -> bool:
    """Says whether this is the attempt's VM: by its numeric id once that is known, by its labels before.

    A group whose template was made from a job's VM gives its own VMs the same labels.
    """
    if attempt.gce_id:
        return sighting.gce_id == attempt.gce_id
    return maker.is_ours(sighting.labels, attempt) and keeper_of(sighting.labels, sighting.origin) is None


def end(
    connection: Connection,
    job: Job,
    attempt: Attempt,
    outcome: Outcome,
    reason: str,
    now: datetime,
    error: str = "",
    zones_available: Sequence[str] = (),
) -> bool:
    """Ends the attempt: from here on its VM is to be deleted, or stopped for its disk.

    False: its outcome was known before.
    """
    changed = attempts.change(
        connection,
        attempt.id,
        OPEN,
        state=AttemptState.ENDING,
        outcome=outcome,
        reason=reason,
        ended_at=now,
        zones_available=list(zones_available),
        tries=0,
        try_after=None,
        error=error,
    )
    if changed:
        drills.interrupt(connection, job.id, attempt.id, now)
        audit_log.append(connection, [job_events.ended(job, attempt, outcome, reason, now)], now)
    return changed
