"""Checks the VMs that the guard makes for jobs, judged by Google's VMs and the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from costguard.db.tables import attempts, jobs
from costguard.db.transaction import Database
from costguard.jobs.act.attempts.vm_request import DISK_LABEL, GUARD_LABEL, JOB_LABEL
from costguard.ledger import unknown_vms
from costguard.model.attempt import ATTEMPT_LABEL, AttemptState
from costguard.model.generation import REQUEST_LABEL
from costguard.model.job import JobState
from costguard_sandbox.gce.operations import Operation
from costguard_sandbox.gce.vm import VM, Status
from costguard_sandbox.world import World

GUARD = "costguard@acme-operations.iam.gserviceaccount.com"
_BILLS = frozenset(Status) - {Status.TERMINATED, Status.DELETED, Status.SUSPENDED, Status.STOPPING}


@dataclass(frozen=True, slots=True)
class Restore:
    """A database of `backup_at` was put back at `put_back_at`: what it held of the time between is lost."""

    backup_at: datetime
    put_back_at: datetime

    def lost(self, at: datetime) -> bool:
        return self.backup_at <= at <= self.put_back_at


def label(vm: VM, name: str) -> str:
    return str((vm.given.get("labels") or {}).get(name, ""))


def made_by_the_guard(world: World) -> list[VM]:
    """All that there ever were."""
    return [vm for vm in world.every_vm() if label(vm, GUARD_LABEL) and label(vm, ATTEMPT_LABEL)]


def of_attempts(database: Database) -> set[int]:
    """VMs of the attempts in this database."""
    with database.read() as connection:
        return {int(gce_id) for gce_id in connection.scalars(select(attempts.c.gce_id)) if gce_id}


def requests_in(database: Database) -> set[str]:
    """Returns the request ids by which the attempts in this database asked, or may have asked, for their VMs."""
    with database.read() as connection:
        return set(connection.scalars(select(attempts.c.request_uuid))) - {""}


def unknown_to(database: Database, world: World) -> set[int]:
    """VMs of jobs that are there, and that no attempt in this database stands for by its id or its request."""
    with database.read() as connection:
        rows = connection.execute(select(attempts.c.name, attempts.c.gce_id, attempts.c.request_uuid)).all()
    stood_for = {row.gce_id for row in rows} | {row.request_uuid for row in rows}
    return {
        vm.id
        for vm in made_by_the_guard(world)
        if vm.status is not Status.DELETED and not {str(vm.id), label(vm, REQUEST_LABEL)} & stood_for
    }


@dataclass
class Alone:
    """VMs that bill without a live attempt, and since when the guard could have known it and acted.

    `grace` is what the guard allows itself, and the time that a pass, a look and a delete take.
    """

    grace: timedelta
    since: dict[int, datetime] = field(default_factory=dict)
    reported: set[int] = field(default_factory=set)

    def look(self, world: World, connection: Connection, *, is_good: bool) -> Iterator[str]:
        """Yields what is wrong; called after every pass.

        `is_good`: nothing kept the guard from acting since the last one.
        """
        now, alone = world.now, set[int]()
        if not is_good:
            self.since = dict.fromkeys(self.since, now)
        for vm in self._alone(world, connection):
            alone.add(vm.id)
            since = self.since.setdefault(vm.id, now)
            if now - since > self.grace and vm.id not in self.reported:
                self.reported.add(vm.id)
                yield f"{vm.name} ({vm.id}) bills in {vm.zone} at {now} without a live attempt since {since}"
        self.since = {vm_id: at for vm_id, at in self.since.items() if vm_id in alone}

    def _alone(self, world: World, connection: Connection) -> Iterator[VM]:
        there = [
            vm
            for project in world.projects
            for vm in world.instances(project)
            if label(vm, ATTEMPT_LABEL) and vm.status in _BILLS
        ]
        if not there:
            return
        names = {label(vm, ATTEMPT_LABEL) for vm in there}
        states = {
            (row.project, row.name): row
            for row in connection.execute(
                select(attempts.c.project, attempts.c.name, attempts.c.gce_id, attempts.c.state).where(
                    attempts.c.name.in_(names)
                )
            )
        }
        # What a restored ledger does not know it reports, and leaves alone until a person says more.
        reported = {int(one.key.gce_id) for one in unknown_vms.there(connection)}
        for vm in there:
            row = states.get((vm.project, label(vm, ATTEMPT_LABEL)))
            is_live = row is not None and row.state != AttemptState.OVER and row.gce_id in ("", str(vm.id))
            if not is_live and vm.id not in reported:
                yield vm


def asked_by_the_guard(world: World, *kinds: str) -> list[Operation]:
    return [
        operation
        for project in world.projects
        for operation in world.operations.of(project)
        if operation.user == GUARD and operation.kind in kinds
    ]


def only_copies_deleted(
    world: World, connection: Connection, saved: Collection[int], restores: Sequence[Restore]
) -> Iterator[str]:
    """A VM on whose disk its job `saved` is deleted once the job has succeeded, or its owner lets it go."""
    vms = {vm.id: vm for vm in made_by_the_guard(world) if label(vm, DISK_LABEL) and vm.id in saved}
    states = {row.id: row for row in connection.execute(select(jobs.c.id, jobs.c.state, jobs.c.disk_given_up_at))}
    for operation in asked_by_the_guard(world, "delete"):
        vm = vms.get(operation.target_id)
        if vm is None or any(one.lost(operation.insert_time) for one in restores):
            continue
        job = states.get(label(vm, JOB_LABEL))
        if job is None:
            yield f"{vm.name} was deleted at {operation.insert_time}, its job {label(vm, JOB_LABEL)} is not known"
        elif job.state != JobState.SUCCEEDED and job.disk_given_up_at is None:
            yield f"{vm.name} was deleted at {operation.insert_time} with the only copy of job {job.id} ({job.state})"


def asked_for_before(world: World, requests: Mapping[str, datetime], adopted: Collection[int]) -> dict[int, datetime]:
    """VMs that Google made, perhaps much later, for requests that a restored ledger lacks; since when it does."""
    lost_since = {
        vm.id: requests.get(label(vm, REQUEST_LABEL)) for vm in made_by_the_guard(world) if vm.id not in adopted
    }
    return {vm_id: since for vm_id, since in lost_since.items() if since is not None}


def unknown_vms_ended(world: World, unknown: Mapping[int, datetime]) -> Iterator[str]:
    """VMs that a restored ledger did not know when it came back are neither stopped nor deleted by a rule since."""
    for operation in asked_by_the_guard(world, "stop", "delete"):
        since = unknown.get(operation.target_id)
        if since is not None and operation.insert_time >= since:
            yield f"{operation.kind} of {operation.target_id} at {operation.insert_time}: the restored ledger lacked it"
