"""Job VMs as the ledger shows them, and orphans: VMs with our labels that no attempt accounts for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, and_, func, select

from costguard.db import tables
from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.remembered import remembers
from costguard.db.tables import instances, lifetimes
from costguard.jobs.act.attempts.delete import gave_up, stands_for
from costguard.jobs.act.attempts.vm_request import DISK_LABEL, GUARD_LABEL
from costguard.jobs.decide.actions import DeleteOrphan
from costguard.jobs.decide.checkpoints.disk import saves_on_disk
from costguard.jobs.rows import attempts, job_rows
from costguard.jobs.rows.attempts import JobVm
from costguard.keepers.reading import keeper_of, keeper_of_own
from costguard.ledger import unknown_vms
from costguard.ledger.unknown_vms import UnknownVmVerdict
from costguard.model.attempt import labelled_attempt
from costguard.model.generation import REQUEST_LABEL
from costguard.model.instance import InstanceKey, ProvisioningModel, Status
from costguard.model.job import Job, JobState
from costguard.model.keeper import Keeper
from costguard.model.lifetime import EndReason

_PREFIX = "cg-"


@dataclass(frozen=True, slots=True)
class LabelledVm:
    """A VM that bears our labels. `given_up` is the attempt whose intent for it the ledger gave up."""

    vm: PresentVm
    is_stood_for: bool
    given_up: JobVm | None


def labelled(connection: Connection, guard_id: str) -> list[LabelledVm]:
    """Lists our VMs that are there; VMs that another installation made are none of ours, nor are those of a group."""
    ours = [
        vm
        for vm in present(connection, _PREFIX)
        if vm.labels.get(GUARD_LABEL) == guard_id and labelled_attempt(vm.labels, vm.name) == vm.name
    ]
    names: dict[str, set[str]] = defaultdict(set)
    for vm in ours:
        names[vm.key.project].add(vm.name)
    by_name = {
        (project, one.name): one
        for project, some in names.items()
        for one in attempts.of_instances(connection, project, names=some)
    }
    attempted = [(vm, by_name.get((vm.key.project, vm.name))) for vm in ours]
    return [_labelled(vm, one) for vm, one in attempted if _keeper(vm, one) is None]


def _keeper(vm: PresentVm, attempt: JobVm | None) -> Keeper | None:
    """Finds who else keeps a VM. One with an attempt's id is that attempt's, whatever labels were given to it since."""
    is_proven = attempt is not None and attempt.gce_id == vm.key.gce_id
    return (keeper_of_own if is_proven else keeper_of)(vm.labels, vm.origin)


def find_orphans(connection: Connection, ours: list[LabelledVm], grace: timedelta, now: datetime) -> list[DeleteOrphan]:
    """Orphans for longer than the grace period, and VMs that an admin wants deleted.

    A VM whose disk may hold the only copy of what a job saved is to be stopped, and never deleted by a rule.
    """
    alone = [(one.vm, one.given_up) for one in ours if one.given_up is not None]
    # What an attempt had is no orphan for as long as the ledger may not have seen it go.
    left = gone_at(connection, [attempt.attempt_id for _, attempt in alone])
    jobs_of = job_rows.of_ids(connection, {attempt.job_id for _, attempt in alone})
    orphans = [
        _orphan(vm, f"job {attempt.job_id} is done with the attempt that it was made for", keeps)
        for vm, attempt in alone
        if not ((keeps := _keeps(vm, jobs_of.get(attempt.job_id))) and vm.is_stopped)
        and now - max(vm.first_seen_at, left.get(attempt.attempt_id, vm.first_seen_at)) >= grace
    ]
    unwanted = {one.key: one for one in unknown_vms.there(connection) if one.verdict is UnknownVmVerdict.DELETE}
    return orphans + [
        _orphan(one.vm, f"{unwanted[one.vm.key].verdict_by} wants it deleted", False)
        for one in ours
        if one.vm.key in unwanted and not one.is_stood_for and one.given_up is None
    ]


def _labelled(vm: PresentVm, attempt: JobVm | None) -> LabelledVm:
    if attempt is None:
        return LabelledVm(vm, False, None)
    gce_id, request = vm.key.gce_id, vm.labels.get(REQUEST_LABEL, "")
    is_of_request = not request or request == attempt.request_uuid
    stands = stands_for(attempt, gce_id) and (attempt.gce_id == gce_id or is_of_request)
    return LabelledVm(vm, stands, attempt if gave_up(attempt, gce_id, request) else None)


def _orphan(vm: PresentVm, reason: str, keeps_disk: bool) -> DeleteOrphan:
    request = vm.labels.get(REQUEST_LABEL, "")
    return DeleteOrphan(vm.key.project, vm.zone, vm.name, vm.key.gce_id, reason, keeps_disk, request)


def _keeps(vm: PresentVm, job: Job | None) -> bool:
    """Says whether its disk may hold the only copy: so it was made, or its job says so, and nobody agreed that
    it goes.
    """
    if job is None:
        return DISK_LABEL in vm.labels
    return saves_on_disk(job) and job.state is not JobState.SUCCEEDED and job.disk_given_up_at is None


@dataclass(frozen=True, slots=True)
class SeenVm:
    """A VM and its last lifetime, if it had any."""

    key: InstanceKey
    name: str
    zone: str
    status: Status
    gone_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    end_reason: EndReason | None
    ended_by: str


@dataclass(frozen=True, slots=True)
class PresentVm:
    """A VM that is not known to be gone."""

    key: InstanceKey
    name: str
    zone: str
    labels: Mapping[str, str]
    origin: Mapping[str, str]  # metadata that says who keeps it
    first_seen_at: datetime
    status: Status
    created_at: datetime
    provisioning_model: ProvisioningModel
    gpu_type: str

    @property
    def is_stopped(self) -> bool:
        return self.status in _NOT_RUNNING


def of_keys(connection: Connection, keys: Collection[InstanceKey]) -> dict[InstanceKey, SeenVm]:
    """Returns those of these VMs that the ledger has seen."""
    by_project: dict[str, set[str]] = defaultdict(set)
    for key in keys:
        by_project[key.project].add(key.gce_id)
    seen_vms: dict[InstanceKey, SeenVm] = {}
    for project, gce_ids in by_project.items():
        for some in chunks(gce_ids):
            for row in connection.execute(*_seen(project, some)):
                key = InstanceKey(row.project, row.gce_id)
                reason = None if row.end_reason is None else EndReason(row.end_reason)
                seen_vms[key] = SeenVm(
                    key,
                    row.name,
                    row.zone,
                    Status(row.status),
                    row.gone_at,
                    row.started_at,
                    row.ended_at,
                    reason,
                    row.ended_by or "",
                )
    return seen_vms


@prepared
def _seen(project: str, gce_ids: list[str]) -> Select[Any]:
    return _SEEN.where(instances.c.project == project, instances.c.gce_id.in_(gce_ids))


@remembers(instances)
def present(connection: Connection, prefix: str) -> list[PresentVm]:
    """Every VM that is not gone and whose name begins so."""
    rows = connection.execute(_present(prefix))
    return [
        PresentVm(
            InstanceKey(row.project, row.gce_id),
            row.name,
            row.zone,
            row.labels,
            row.origin,
            row.first_seen_at,
            Status(row.status),
            row.created_at,
            ProvisioningModel(row.provisioning_model),
            row.gpu_type or "",
        )
        for row in rows
    ]


@lru_cache(maxsize=8)  # the prefix is escaped as it is built
def _present(prefix: str) -> Select[Any]:
    columns = instances.c
    named = columns.name.startswith(prefix, autoescape=True)
    what = (
        columns.project,
        columns.gce_id,
        columns.name,
        columns.zone,
        columns.labels,
        columns.origin,
        columns.first_seen_at,
        columns.status,
    )
    query = select(*what, columns.created_at, columns.provisioning_model, columns.gpu_type)
    return query.where(columns.gone_at.is_(None), named).order_by(columns.project, columns.gce_id)


def gone_at(connection: Connection, attempt_ids: Collection[int]) -> dict[int, datetime]:
    """When the VM of each of these attempts was seen to be gone, of those that are over."""
    columns = tables.attempts.c
    query = select(columns.id, columns.gone_at).where(columns.gone_at.is_not(None))
    rows = (row for some in chunks(set(attempt_ids)) for row in connection.execute(query.where(columns.id.in_(some))))
    return {row.id: row.gone_at for row in rows}


_NOT_RUNNING = frozenset({Status.STOPPED, Status.SUSPENDED})
_LAST = lifetimes.alias("last")
_SEEN = select(
    instances.c.project,
    instances.c.gce_id,
    instances.c.name,
    instances.c.zone,
    instances.c.status,
    instances.c.gone_at,
    lifetimes.c.started_at,
    lifetimes.c.ended_at,
    lifetimes.c.end_reason,
    lifetimes.c.ended_by,
).join_from(
    instances,
    lifetimes,
    and_(
        lifetimes.c.instance_id == instances.c.id,
        lifetimes.c.started_at
        == select(func.max(_LAST.c.started_at)).where(_LAST.c.instance_id == instances.c.id).scalar_subquery(),
    ),
    isouter=True,
)
