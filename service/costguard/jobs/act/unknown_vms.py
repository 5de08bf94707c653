"""VMs with our labels and no intent in the ledger: found after each look, adopted or reported, never deleted.

They also show that the ledger is older than what runs: then its generation is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

import structlog
from sqlalchemy import Connection

from costguard.events import audit_log
from costguard.jobs.act.attempts.vm_request import FOLLOWS_LABEL, JOB_LABEL
from costguard.jobs.act.attempts.vm_step import request_uuid
from costguard.jobs.act.job_vms import LabelledVm, PresentVm
from costguard.jobs.decide.attempts.adoption import AdoptionCandidate, in_the_way, number_of, why_not_adopted
from costguard.jobs.rows import attempts
from costguard.jobs.rows import job_rows as jobs
from costguard.ledger import generation, operations, unknown_vms
from costguard.ledger.unknown_vms import UnknownVm, UnknownVmVerdict
from costguard.model.attempt import Attempt, AttemptState
from costguard.model.event import Event, new_event
from costguard.model.generation import FIRST, REQUEST_LABEL, AttemptName, Cause, Generation, generation_of
from costguard.model.instance import InstanceKey
from costguard.model.job import Job, JobKind

log = structlog.get_logger(__name__)

FOUND, ADOPTED = "UnknownVmFound", "UnknownVmAdopted"  # kinds of events


@dataclass(frozen=True, slots=True)
class UnknownVmFindings:
    """The findings to write: `why` a generation begins, "" where none does."""

    why: str = ""
    seen: int = FIRST  # the latest generation that any of these VMs is of
    reported: Sequence[UnknownVm] = ()
    adopted: Sequence[tuple[PresentVm, Job, int]] = ()  # with the number of its attempt
    new: frozenset[InstanceKey] = frozenset()
    cleared: Sequence[InstanceKey] = ()

    def __bool__(self) -> bool:
        return bool(self.why or self.reported or self.adopted or self.cleared)


@dataclass(frozen=True, slots=True)
class _Scene:
    jobs: Mapping[str, Job]
    attempts: Mapping[str, Sequence[Attempt]]
    before: Mapping[InstanceKey, UnknownVm] = field(default_factory=dict)


def find(connection: Connection, ours: Sequence[LabelledVm], is_first_look: bool, now: datetime) -> UnknownVmFindings:
    """`ours` bear our labels. At the first look of a process what came and went unseen is looked at as well."""
    strange = [one.vm for one in ours if not one.is_stood_for and one.given_up is None]
    before = {vm.key: vm for vm in unknown_vms.there(connection)}
    if not strange and not before and not is_first_look:
        return UnknownVmFindings()
    named = {vm.labels.get(JOB_LABEL, "") for vm in strange} - {""}
    scene = _Scene(jobs.of_ids(connection, named), attempts.of_jobs(connection, named), before)
    candidates = {vm.key: _candidate(vm, scene) for vm in strange}
    reported: list[UnknownVm] = []
    adopted: list[tuple[PresentVm, Job, int]] = []
    for vm in strange:
        one = candidates[vm.key]
        job, attempts_of_job = scene.jobs.get(one.job_id), scene.attempts.get(one.job_id, ())
        mine = [candidate for candidate in candidates.values() if candidate.job_id == one.job_id]
        reason = why_not_adopted(one, mine, job, attempts_of_job)
        if job is not None and not reason and not any(other is job for _, other, _ in adopted):
            adopted.append((vm, job, number_of(one, attempts_of_job)))
            continue
        report = _unknown(vm, one.job_id, reason or f"another VM of job {one.job_id} was adopted", now)
        known_before = before.get(vm.key)
        if known_before is not None:
            report = replace(
                report,
                found_at=known_before.found_at,
                verdict=known_before.verdict,
                verdict_by=known_before.verdict_by,
            )
        if report != known_before:
            reported.append(report)
    gone = [key for key in before if key not in candidates]
    return UnknownVmFindings(
        _why_raised(connection, strange, is_first_look),
        max((generation_of(vm.labels) for vm in strange), default=FIRST),
        reported,
        adopted,
        frozenset(vm.key for vm in strange if vm.key not in before),
        [*gone, *(vm.key for vm, _, _ in adopted)],
    )


class BeginGeneration(Protocol):
    """Begins a generation of the database, within a write."""

    def __call__(self, connection: Connection, cause: Cause, now: datetime, *, why: str, seen: int) -> Generation: ...


def write(connection: Connection, findings: UnknownVmFindings, begin: BeginGeneration, now: datetime) -> None:
    if findings.why:
        life = begin(connection, Cause.RECOGNISED, now, why=findings.why, seen=findings.seen)
        log.warning("generation_began", generation=life.number, cause=Cause.RECOGNISED.value, why=findings.why)
    unknown_vms.save(connection, findings.reported)
    unknown_vms.clear(connection, findings.cleared, now)
    audit_log.append(connection, [_found(vm) for vm in findings.reported if vm.key in findings.new], now)
    for vm, job, number in findings.adopted:
        _adopt(connection, vm, job, number, now)


def holds(connection: Connection, some: Sequence[Job]) -> dict[str, str]:
    """Explains why nothing may be launched for a job, by job: a VM that is not known may be at work on it."""
    by_job = unknown_vms.of_jobs(connection, [job.id for job in some if not job.state.is_over])
    if not by_job:
        return {}
    why = {
        job.id: in_the_way(job, [(vm.name, vm.zone, vm.status) for vm in by_job[job.id]])
        for job in some
        if job.id in by_job
    }
    return {job_id: words for job_id, words in why.items() if words}


def _why_raised(connection: Connection, strange: Sequence[PresentVm], is_first_look: bool) -> str:
    """A VM, or an operation, of this generation or a later one that the ledger holds no intent for; "" for none."""
    present = generation.read(connection).number
    later = [vm.name for vm in strange if generation_of(vm.labels) >= present]
    if not later and is_first_look:
        unseen = operations.inserted_without_attempt(connection)
        parsed = {name: AttemptName.parse(name) for name in unseen}
        jobs_by_id = jobs.of_ids(connection, {one.job_id for one in parsed.values() if one is not None})
        later = [
            name
            for name, one in parsed.items()
            if one is not None and one.job_id in jobs_by_id and one.generation >= present
        ]
    if not later:
        return ""
    names = ", ".join(sorted(later)[:3])
    return f"{names} and {len(later) - 3} more" if len(later) > 3 else names


def _candidate(vm: PresentVm, scene: _Scene) -> AdoptionCandidate:
    before = scene.before.get(vm.key)
    is_wanted = before is not None and before.verdict is UnknownVmVerdict.ADOPT
    return AdoptionCandidate(vm.key, vm.name, vm.zone, vm.status, vm.labels.get(JOB_LABEL, ""), is_wanted)


def _unknown(vm: PresentVm, job_id: str, reason: str, now: datetime) -> UnknownVm:
    request = vm.labels.get(REQUEST_LABEL, "")
    return UnknownVm(
        vm.key, vm.name, vm.zone, job_id, generation_of(vm.labels), request, vm.status, reason, found_at=now
    )


def _found(vm: UnknownVm) -> Event:
    project, gce_id = vm.key.project, vm.key.gce_id
    text = (
        f"{vm.name} in {vm.zone} of project {project} bears this installation's labels, and the ledger holds no "
        f"intent to launch it: {vm.reason}. It is left running, and billed as any VM. To adopt or delete it: "
        "costguard db unknown"
    )
    data = {"job": vm.job, "generation": vm.generation}
    return new_event(FOUND, vm.found_at, text, project, gce_id, vm=vm.key, name=vm.name, data=data)


def _adopt(connection: Connection, vm: PresentVm, job: Job, number: int, now: datetime) -> None:
    """It becomes the job's present attempt. Whether its command runs, its agent will say."""
    attempt = attempts.intend(
        connection,
        attempts.NewAttempt(
            job_id=job.id,
            number=number,
            name=vm.name,
            project=vm.key.project,
            zone=vm.zone,
            gpu_type=vm.gpu_type,
            provisioning_model=vm.provisioning_model,
            request_uuid=vm.labels.get(REQUEST_LABEL) or request_uuid(vm.key.project, vm.name),
            max_run=job.recipe.max_run,
            intended_at=vm.created_at,
            generation=generation_of(vm.labels),
            resume_why="it was adopted, so what it resumed from is not known",
            follows=int(follows) if (follows := vm.labels.get(FOLLOWS_LABEL, "")).isdecimal() else None,
        ),
    )
    if attempt is None:
        return
    is_up = job.spec.kind is JobKind.DEV
    attempts.change(
        connection,
        attempt.id,
        [AttemptState.INTENDED],
        state=AttemptState.RUNNING if is_up else AttemptState.BOOTING,
        asked_at=vm.created_at,
        gce_id=vm.key.gce_id,
        made_at=now,
    )
    text = (
        f"{vm.name} in {vm.zone}, which bears this installation's labels and was not in the ledger, is adopted as "
        f"attempt {number} of job {job.title}."
    )
    identity = vm.key.project, vm.key.gce_id, "adopted"
    data = {"job": job.id, "attempt": vm.name, "number": number}
    event = new_event(ADOPTED, now, text, *identity, vm=vm.key, name=vm.name, data=data)
    audit_log.append(connection, [event], now)
