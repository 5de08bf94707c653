"""Finds VMs that were launched for jobs: by the attempt's VM id, and until it is known by name and label."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Row, Select, select

from costguard.db.bulk import chunks
from costguard.db.prepared import prepared
from costguard.db.tables import attempts, jobs
from costguard.db.types import storable
from costguard.model.attempt import labelled_attempt
from costguard.model.instance import ProvisioningModel, SeenInstance
from costguard.model.launch import Recipe
from costguard.model.observation import Observation, SeenOperation
from costguard.model.record import InstanceRecord, KnownInstance, LaunchedFor

_RECIPE = TypeAdapter(Recipe)


@dataclass(frozen=True, slots=True)
class _Vm:
    """`attempt` is the name of the attempt that it says it is of; "" for none."""

    gce_id: str
    zone: str
    attempt: str


def launched_by_label(connection: Connection, observations: Sequence[Observation]) -> dict[str, dict[str, LaunchedFor]]:
    """The jobs of the listed VMs that bear an attempt's label rightly: of each project, by the VM's id."""
    labelled = {observation.project: list(_labelled(observation)) for observation in observations}
    return _launched_of(connection, labelled)


def _labelled(observation: Observation) -> Iterator[_Vm]:
    seen = (vm for vm in observation.instances if labelled_attempt(vm.labels, vm.name) is not None)
    yield from (_of_labels(vm.key.gce_id, vm) for vm in seen)
    yield from (_Vm(vm.gce_id, vm.zone, vm.attempt) for vm in observation.unchanged if vm.attempt is not None)


def launched(
    connection: Connection,
    project: str,
    gce_ids: Sequence[str],
    listed: Mapping[str, SeenInstance],
    stored: Mapping[str, KnownInstance],
    operations: Mapping[str, Sequence[SeenOperation]],
) -> dict[str, LaunchedFor]:
    """The jobs of those of these VMs that are listed now, that are in the ledger, or that came and went unseen."""
    return _launched(connection, project, list(_vms(gce_ids, listed, stored, operations)))


def unseen(
    connection: Connection, project: str, operations: Mapping[str, Sequence[SeenOperation]], seen_ids: Container[str]
) -> dict[str, tuple[str, Recipe]]:
    """Zone and recipe of the jobs' VMs that only operations tell of, by the VM's id."""
    zones = {gce_id: done[0].zone for gce_id, done in operations.items() if gce_id not in seen_ids}
    vms = [_Vm(gce_id, zone, operations[gce_id][0].target_name) for gce_id, zone in zones.items()]
    launches = _launched(connection, project, vms)
    recipes: dict[str, Recipe] = {}
    for some in chunks({one.job for one in launches.values()}):
        for row in connection.execute(select(jobs.c.id, jobs.c.recipe).where(jobs.c.id.in_(some))):
            recipes[row.id] = _RECIPE.validate_python(row.recipe)
    return {gce_id: (zones[gce_id], _with_choice(recipes[one.job], one)) for gce_id, one in launches.items()}


def _with_choice(recipe: Recipe, launched_for: LaunchedFor) -> Recipe:
    """The recipe with what was decided about this VM's external address."""
    has_address = launched_for.has_address
    return recipe if has_address is None else replace(recipe, external_address=has_address)


def _vms(
    gce_ids: Iterable[str],
    listed: Mapping[str, SeenInstance],
    stored: Mapping[str, KnownInstance],
    operations: Mapping[str, Sequence[SeenOperation]],
) -> Iterator[_Vm]:
    for gce_id in gce_ids:
        if gce_id in listed:
            yield _of_labels(gce_id, listed[gce_id])
        elif gce_id in stored and stored[gce_id].record.fingerprint:
            yield _of_labels(gce_id, stored[gce_id].record)
        elif done := operations.get(gce_id):
            # Nobody saw its labels; its name is one that no other VM of ours ever has.
            yield _Vm(gce_id, done[0].zone, done[0].target_name)


def _of_labels(gce_id: str, vm: SeenInstance | InstanceRecord) -> _Vm:
    attempt = labelled_attempt(vm.labels, vm.name) or ""
    return _Vm(gce_id, vm.zone, attempt if attempt == vm.name else "")


def _launched(connection: Connection, project: str, vms: Sequence[_Vm]) -> dict[str, LaunchedFor]:
    return _launched_of(connection, {project: vms})[project]


def _launched_of(connection: Connection, vms: Mapping[str, Sequence[_Vm]]) -> dict[str, dict[str, LaunchedFor]]:
    """Looks up the jobs of VMs of several projects, a thousand VMs in a statement."""
    launches: dict[str, dict[str, LaunchedFor]] = {project: {} for project in vms}
    projects = sorted(project for project, some in vms.items() if some)
    if not projects:
        return launches
    every = [vm for some in vms.values() for vm in some]
    named = {str(storable(vm.attempt)) for vm in every if vm.attempt}
    queries = [_attempts(attempts.c.gce_id, projects, some) for some in chunks({vm.gce_id for vm in every})]
    queries += [_attempts(attempts.c.name, projects, some) for some in chunks(named)]
    rows = [row for query in queries for row in connection.execute(*query)]
    by_id = {(row.project, row.gce_id): row for row in rows if row.gce_id}
    by_name = {(row.project, row.name, row.zone): row for row in rows if not row.gce_id}
    for project in projects:
        for vm in vms[project]:
            attempt = by_id.get((project, vm.gce_id)) or by_name.get((project, vm.attempt, vm.zone))
            if attempt is not None:
                launches[project][vm.gce_id] = _launched_for(attempt)
    return launches


def _launched_for(attempt: Row[Any]) -> LaunchedFor:
    model = ProvisioningModel(attempt.provisioning_model)
    has_address = None if attempt.address is None else bool(attempt.address["is_external"])
    ran_from = None if attempt.booted_at is None else attempt.made_at or attempt.booted_at
    return LaunchedFor(attempt.job_id, attempt.owner, model, has_address=has_address, ran_from=ran_from)


@prepared
def _attempts(column: ColumnElement[str], projects: list[str], values: list[str]) -> Select[Any]:
    columns = attempts.c
    attempt = (columns.project, columns.name, columns.zone, columns.gce_id, columns.job_id, columns.provisioning_model)
    query = select(*attempt, columns.address, columns.booted_at, columns.made_at, jobs.c.owner)
    query = query.join_from(attempts, jobs, jobs.c.id == columns.job_id)
    return query.where(columns.project.in_(projects), column.in_(values))
