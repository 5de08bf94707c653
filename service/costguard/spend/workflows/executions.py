"""Executions of workflows: the jobs and VMs that have the same value of a label, with what all of them cost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, literal_column, or_, select

from costguard.db.bulk import chunks
from costguard.db.remembered import remembers
from costguard.db.tables import instances, job_labels, jobs, lifetimes, storage_spans
from costguard.ledger import job_costs
from costguard.ledger.accrual import Accrual, accruing_spans
from costguard.ledger.charged.spans import charged_sums
from costguard.ledger.labels.label_history import label_value
from costguard.model.job import JobState
from costguard.model.money import Money, Priced

_COLUMNS = ("id", "created_at", "gone_at", "running_since", "job")


class ExecutionState(StrEnum):
    """The state of an execution by the jobs and VMs that are known of it; its workflow may do more elsewhere."""

    RUNNING = "running"  # a job is open, or a VM runs
    SUCCEEDED = "succeeded"  # all of its jobs have
    FAILED = "failed"  # a job of it has
    CANCELLED = "cancelled"  # no job failed, and one was cancelled
    ENDED = "ended"  # it has VMs alone, which do not run any more: how it ended is not known


class ExecutionName(NamedTuple):
    label: str
    value: str


@dataclass(frozen=True, slots=True)
class ExecutionJob:
    id: str
    state: JobState
    created_at: datetime
    settled_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExecutionVm:
    id: int
    created_at: datetime
    gone_at: datetime | None
    runs: bool
    job: str  # "" of none


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution. `vms` are all VMs with its label, also those of its jobs; `last_at` is None while it runs.

    `labels` are further labels that its first job was given, such as the workflow's and the project's.
    """

    name: ExecutionName
    jobs: tuple[ExecutionJob, ...]
    vms: tuple[ExecutionVm, ...]
    cost: Priced = field(default_factory=Priced)
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> ExecutionState:
        states = {job.state for job in self.jobs}
        if any(vm.runs for vm in self.vms) or not all(state.is_over for state in states):
            return ExecutionState.RUNNING
        if JobState.FAILED in states:
            return ExecutionState.FAILED
        if JobState.CANCELLED in states:
            return ExecutionState.CANCELLED
        return ExecutionState.SUCCEEDED if states else ExecutionState.ENDED

    @property
    def first_at(self) -> datetime:
        return min([job.created_at for job in self.jobs] + [vm.created_at for vm in self.vms])

    @property
    def last_at(self) -> datetime | None:
        """Returns when the last of it ended, as far as that is known; None while it runs."""
        if self.state is ExecutionState.RUNNING:
            return None
        ends = [job.settled_at for job in self.jobs] + [vm.gone_at for vm in self.vms]
        return max((end for end in ends if end is not None), default=None)

    @property
    def running_vms(self) -> int:
        return sum(vm.runs for vm in self.vms)


def executions(
    connection: Connection, accrual: Accrual, labels: Sequence[str], limit: int, only: ExecutionName | None = None
) -> tuple[list[Execution], int]:
    """Returns the executions that began last, the newest first, and how many there are in all.

    `only` is the one that is wanted. Each VM counts once: with its job, or by itself. A VM belongs to the execution
    that its label names now.
    """
    wanted = tuple(labels) if only is None else (only.label,)
    alone, began = _vms_alone(connection, wanted), _began(connection, wanted)
    for name, vms in alone.items():
        began[name] = min([vm.created_at for vm in vms] + ([began[name]] if name in began else []))
    names = [name for name in began if only is None or name == only]
    names.sort(key=lambda name: (began[name], name), reverse=True)
    return _with_costs(connection, accrual, _read(connection, names[:limit], alone)), len(names)


def _began(connection: Connection, labels: Sequence[str]) -> dict[ExecutionName, datetime]:
    """Returns when the first job of each execution was submitted."""
    columns = job_labels.c
    query = select(columns.label, columns.value, func.min(jobs.c.created_at).label("first_at"))
    query = query.join_from(job_labels, jobs, jobs.c.id == columns.job_id).where(columns.label.in_(labels))
    rows = connection.execute(query.group_by(columns.label, columns.value))
    return {ExecutionName(row.label, row.value): row.first_at for row in rows}


def _read(
    connection: Connection, names: Sequence[ExecutionName], alone: Mapping[ExecutionName, list[ExecutionVm]]
) -> list[Execution]:
    """Reads these executions, in the same order, still without their cost."""
    of_jobs = _jobs(connection, names)
    of_vms = _vms_of_jobs(connection, {job.id for some in of_jobs.values() for job in some})
    every = []
    for name in names:
        mine = of_jobs.get(name, [])
        vms = [vm for job in mine for vm in of_vms.get(job.id, ())]
        every.append(Execution(name, tuple(mine), (*vms, *alone.get(name, ()))))
    return every


def _with_costs(connection: Connection, accrual: Accrual, shown: Sequence[Execution]) -> list[Execution]:
    job_ids = {job.id for one in shown for job in one.jobs}
    of_job = job_costs.costs(connection, accrual, job_ids)
    alone = {vm.id for one in shown for vm in one.vms if vm.job not in {job.id for job in one.jobs}}
    of_vm = _costs_of_vms(connection, accrual, alone)
    given = _labels_of(connection, [min(one.jobs, key=lambda job: job.created_at).id for one in shown if one.jobs])
    priced = []
    for one in shown:
        cost = sum((of_job[job.id] for job in one.jobs), start=Priced())
        cost = sum((of_vm[vm.id] for vm in one.vms if vm.id in of_vm), start=cost)
        first = min(one.jobs, key=lambda job: job.created_at).id if one.jobs else ""
        others = {label: value for label, value in given.get(first, {}).items() if label != one.name.label}
        priced.append(Execution(one.name, one.jobs, one.vms, cost, others))
    return priced


def names_of_job(connection: Connection, job_id: str, labels: Collection[str]) -> list[ExecutionName]:
    """Returns the executions that a job is a part of, by the labels that it was given."""
    given = _labels_of(connection, [job_id]).get(job_id, {})
    return [ExecutionName(label, given[label]) for label in labels if label in given]


def _jobs(connection: Connection, names: Sequence[ExecutionName]) -> dict[ExecutionName, list[ExecutionJob]]:
    columns, job = job_labels.c, jobs.c
    query = select(columns.label, columns.value, job.id, job.state, job.created_at, job.settled_at)
    query = query.join_from(job_labels, jobs, job.id == columns.job_id)
    values: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        values[name.label].append(name.value)
    of_execution: defaultdict[ExecutionName, list[ExecutionJob]] = defaultdict(list)
    for label, those in values.items():
        for some in chunks(those):
            for row in connection.execute(query.where(columns.label == label, columns.value.in_(some))):
                one = ExecutionJob(row.id, JobState(row.state), row.created_at, row.settled_at)
                of_execution[ExecutionName(row.label, row.value)].append(one)
    for jobs_of_it in of_execution.values():
        jobs_of_it.sort(key=lambda one: (one.created_at, one.id))
    return of_execution


def _vms_of_jobs(connection: Connection, job_ids: Collection[str]) -> dict[str, list[ExecutionVm]]:
    """Returns the VMs that ran for each job, by the index of their runs."""
    vms: defaultdict[str, list[ExecutionVm]] = defaultdict(list)
    runs = lifetimes.c
    query = select(runs.job, *(instances.c[name] for name in _COLUMNS if name != "job")).distinct()
    query = query.join_from(lifetimes, instances, instances.c.id == runs.instance_id)
    for some in chunks(job_ids):
        for row in connection.execute(query.where(runs.job != literal_column("''"), runs.job.in_(some))):
            vms[row.job].append(ExecutionVm(row.id, row.created_at, row.gone_at, _runs(row), row.job))
    return vms


@remembers(instances, job_labels)
def _vms_alone(connection: Connection, labels: tuple[str, ...]) -> Mapping[ExecutionName, list[ExecutionVm]]:
    """Returns VMs with one of these labels that are of no job that has any: few, so that few labels are read."""
    values = [label_value(label).label(f"label_{number}") for number, label in enumerate(labels)]
    of_labelled_job = instances.c.job.in_(select(job_labels.c.job_id).where(job_labels.c.label.in_(labels)))
    query = select(*(instances.c[name] for name in _COLUMNS), *values).where(~of_labelled_job)
    grouped: defaultdict[ExecutionName, list[ExecutionVm]] = defaultdict(list)
    for row in connection.execute(query.where(or_(*(label_value(label).is_not(None) for label in labels)))):
        vm = ExecutionVm(row.id, row.created_at, row.gone_at, _runs(row), row.job)
        for number, label in enumerate(labels):
            if (value := getattr(row, f"label_{number}")) is not None:
                grouped[ExecutionName(label, value)].append(vm)
    return dict(grouped)


def _runs(row: Row[Any]) -> bool:
    return row.gone_at is None and row.running_since is not None


def _labels_of(connection: Connection, job_ids: Iterable[str]) -> dict[str, dict[str, str]]:
    columns = job_labels.c
    query = select(columns.job_id, columns.label, columns.value)
    given: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for some in chunks(list(job_ids)):
        for row in connection.execute(query.where(columns.job_id.in_(some)).order_by(columns.label)):
            given[row.job_id][row.label] = row.value
    return given


def _costs_of_vms(connection: Connection, accrual: Accrual, ids: Collection[int]) -> dict[int, Priced]:
    """Returns what each VM cost with its disks: stored charges, and what has accrued since."""
    costs = dict.fromkeys(ids, Priced())
    for some in chunks(ids):
        for table in (lifetimes, storage_spans):
            columns = table.c
            rows = connection.execute(
                select(columns.id, columns.instance_id, columns.unpriced).where(columns.instance_id.in_(some))
            ).all()
            sums = charged_sums(connection, table, [row.id for row in rows])
            for row in rows:
                costs[row.instance_id] += Priced(sums.get(row.id, Money()), not row.unpriced)
        for span in accruing_spans(connection, list(some)):
            since_stored = accrual.cost(span.span, span.charged_to)
            costs[span.instance_id] += Priced(since_stored.amount, not since_stored.unpriced)
    return costs
