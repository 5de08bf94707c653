"""Executions of workflows: which jobs and VMs are of one, what they cost, and how it stands."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.api import rows
from tests.api.rows import NOW
from tests.jobs import job_rows
from tests.within import charge_due

from costguard.access.rules import WORKFLOW_LABELS
from costguard.db.transaction import Database
from costguard.ledger.accrual import accrual_at
from costguard.model.job import JobState
from costguard.model.money import Money, Priced
from costguard.spend.workflows.executions import (
    Execution,
    ExecutionJob,
    ExecutionName,
    ExecutionState,
    ExecutionVm,
    executions,
    names_of_job,
)

HOUR = timedelta(hours=1)
FLYTE = "flyte-execution"


def launched(connection: Connection, job_id: str, hours: float, value: str, **given: Any) -> None:
    labels = {FLYTE: value, "flyte-workflow": "train"}
    job_rows.added(connection, job_id, labels=labels, created_at=NOW - hours * HOUR, **given)


def ran(connection: Connection, name: str, hours: int, job: str = "", **labels: str) -> int:
    """A VM whose T4 ran for so many hours until an hour ago, at 0.18 + 0.35 an hour, and is gone."""
    given = {key.replace("_", "-"): value for key, value in labels.items()}
    gone_at = NOW - HOUR
    vm = rows.instance(
        connection, name, job=job, labels=given, gone_at=gone_at, created_at=gone_at - hours * HOUR, status="stopped"
    )
    rows.lifetime(connection, vm, gone_at - hours * HOUR, ended_at=gone_at, job=job)
    return vm


def read(database: Database, limit: int = 10, only: ExecutionName | None = None) -> list[Execution]:
    with database.read() as connection:
        return executions(connection, accrual_at(connection, NOW), WORKFLOW_LABELS, limit, only)[0]


def cost(hours: int) -> Priced:
    return Priced(Money.of("0.53").times(hours))


def test_each_vm_counts_once(database: Database) -> None:
    """A job's VM has the label too; a VM of no job counts by itself, and one of another execution not at all."""
    with database.write() as connection:
        rows.prices(connection)
        launched(connection, "j1", 9, "f1")
        launched(connection, "j2", 5, "f2")
        ran(connection, "cg-j1-1", 3, "j1", flyte_execution="f1")
        ran(connection, "notebook", 2, flyte_execution="f1")
        ran(connection, "cg-j2-1", 4, "j2", flyte_execution="f2")
        ran(connection, "unlabelled", 8)
        charge_due(connection, NOW)
    newest, oldest = read(database)
    assert (newest.name, newest.cost, len(newest.vms)) == (ExecutionName(FLYTE, "f2"), cost(4), 1)
    assert (oldest.name, oldest.cost, len(oldest.vms)) == (ExecutionName(FLYTE, "f1"), cost(5), 2)
    assert [job.id for job in oldest.jobs] == ["j1"]
    assert oldest.labels == {"flyte-workflow": "train"}
    assert oldest.first_at == NOW - 9 * HOUR
    assert read(database, only=ExecutionName(FLYTE, "f1")) == [oldest]
    assert read(database, limit=1) == [newest]


def test_what_accrues_and_what_has_no_price_is_in_the_cost(database: Database) -> None:
    """A VM that runs costs more each second; one without a price makes the cost partly unknown."""
    with database.write() as connection:
        rows.prices(connection)
        vm = rows.instance(connection, "up", labels={"argo-workflow": "w1"}, running_since=NOW - 2 * HOUR)
        rows.lifetime(connection, vm, NOW - 2 * HOUR)
        dark = rows.instance(connection, "dark", labels={"argo-workflow": "w2"}, running_since=NOW - HOUR)
        rows.lifetime(connection, dark, NOW - HOUR, gpu_type="nvidia-unpriced")
    by_value = {one.name.value: one for one in read(database)}
    assert by_value["w1"].cost == cost(2)
    assert by_value["w1"].state is ExecutionState.RUNNING
    assert not by_value["w2"].cost.whole


def test_a_job_names_its_executions(sqlite_database: Database) -> None:
    """The labels that it was given name them, in the settings' order."""
    with sqlite_database.write() as connection:
        launched(connection, "j1", 1, "f1")
        job_rows.added(connection, "j2")
        assert names_of_job(connection, "j1", WORKFLOW_LABELS) == [ExecutionName(FLYTE, "f1")]
        assert names_of_job(connection, "j2", WORKFLOW_LABELS) == []


OVER, UP = ExecutionVm(1, NOW, NOW, False, ""), ExecutionVm(2, NOW, None, True, "")


@pytest.mark.parametrize(
    ("states", "vms", "state"),
    [
        (("succeeded", "succeeded"), (OVER,), "succeeded"),
        (("succeeded", "failed", "cancelled"), (), "failed"),
        (("succeeded", "cancelled"), (), "cancelled"),
        (("succeeded", "queued"), (), "running"),
        (("succeeded",), (UP,), "running"),
        (("failed", "recovering"), (), "running"),
        ((), (OVER,), "ended"),
        ((), (OVER, UP), "running"),
    ],
)
def test_the_state_is_that_of_all_jobs_and_vms(
    states: tuple[str, ...], vms: tuple[ExecutionVm, ...], state: str
) -> None:
    """An execution that has VMs alone has ended in a way that nobody knows."""
    jobs = tuple(ExecutionJob(str(number), JobState(one), NOW, NOW) for number, one in enumerate(states))
    made = Execution(ExecutionName(FLYTE, "f1"), jobs, vms)
    assert made.state is ExecutionState(state)
    assert (made.last_at is None) == (state == "running")
