"""Routes of executions of workflows, by the labels of their jobs and VMs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import Query
from pydantic import BeforeValidator, Field

from costguard.api.deps import Given
from costguard.api.fields import Amount, AmountsAsOf, Moment, Out, PriceNote, one_of, read_from
from costguard.api.route import routes
from costguard.ledger.accrual import accrual_at
from costguard.model.job import JobState
from costguard.spend.workflows.executions import ExecutionName, ExecutionState, executions

router = routes("spend")


class ExecutionJobOut(Out):
    id: str
    state: Annotated[str, one_of(JobState)]
    created_at: Moment
    settled_at: Moment | None = Field(description="The time at which it ended; null: it has not.")


class ExecutionOut(Out):
    """An execution of a workflow: the jobs and VMs whose label has the same value."""

    label: str = read_from("name.label")
    value: str = read_from("name.value", description="The id of the execution, as its label has it.")
    state: Annotated[str, one_of(ExecutionState)] = Field(
        description="The state of its jobs and VMs: `running` while a job is open or a VM runs; "
        "`ended`: it has VMs alone, and how it ended is not known."
    )
    labels: Mapping[str, str] = Field(description="The other labels of its first job, such as the workflow's.")
    cost: Amount = Field(description="The cost of its jobs, and of VMs with its label that belong to none of them.")
    jobs: Sequence[ExecutionJobOut] = Field(description="The jobs of the execution, the oldest first.")
    vms: Annotated[int, BeforeValidator(len)] = Field(description="The number of VMs that had its label.")
    running_vms: int
    first_at: Moment = Field(description="The time at which its first job was submitted, or its first VM created.")
    last_at: Moment | None = Field(
        description="The time at which its last job or VM ended; null: one runs, or the time is not known."
    )


class ExecutionsResponse(AmountsAsOf):
    price_note: PriceNote
    labels: Sequence[str] = Field(description="The labels that name executions: [spend] workflow_labels.")
    count: int = Field(description="The number of executions that are known.")
    executions: Sequence[ExecutionOut] = Field(description="The executions that began last, the newest first.")


@router.get("/executions", summary="Add up executions of workflows", operation_id="listExecutions")
def list_executions(
    deps: Given,
    label: Annotated[
        str, Query(max_length=63, description="The label that names the executions; empty: all workflow labels.")
    ] = "",
    value: Annotated[str, Query(max_length=63, description="The one execution to show; it takes a label too.")] = "",
    limit: Annotated[int, Query(ge=1, le=500, description="The most executions in the answer.")] = 100,
) -> ExecutionsResponse:
    """Lists executions of workflows, such as Flyte's, with the cost of all of their jobs and VMs.

    An execution is known by the value of a label on jobs or VMs; the settings name the labels. The cost is of all time.
    """
    labels = (label,) if label else deps.rules.workflow_labels
    only = ExecutionName(label, value) if label and value else None
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        shown, count = executions(connection, accrual, labels, limit, only)
    return ExecutionsResponse(
        as_of=accrual.now,
        price_note=accrual.price_note,
        labels=labels,
        count=count,
        executions=[ExecutionOut.read(one) for one in shown],
    )
