"""The actions of both connectors over REST: create a job, look at it, cancel it.

Flyte's own types are added by each.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from costguard.errors import Conflict, Invalid, Missing, ServerUnreachable, Unavailable
from costguard_client import AsyncClient
from costguard_client.api import operations

if TYPE_CHECKING:
    from costguard_client.api import schemas
    from costguard_client.flyte.job import JobRequest

# Names of flyteidl's TaskExecution.Phase. A failed job has been tried as often as its own limits allow, so that Flyte's
# own retries are for a person to choose: they start a new job, from the checkpoints that lie at its location.
PhaseName = Literal["QUEUED", "INITIALIZING", "RUNNING", "SUCCEEDED", "FAILED", "ABORTED"]
_PHASES: dict[str, PhaseName] = {
    "queued": "QUEUED",
    "provisioning": "INITIALIZING",
    "running": "RUNNING",
    "recovering": "RUNNING",
    "succeeded": "SUCCEEDED",
    "failed": "FAILED",
    "cancelled": "ABORTED",
}


@dataclass(frozen=True)
class JobStatus:
    phase: PhaseName
    message: str
    page: str  # the address of the job's page


async def create(request: JobRequest, *identity: str) -> str:
    """The job's id. `identity` names this execution of the task: repeating it launches nothing twice."""
    key = hashlib.sha256("\n".join(identity).encode()).hexdigest()
    async with AsyncClient(program="flyte") as client:
        try:
            job = await client.launch(key=f"flyte-{key}", **request.body)
        except Invalid as error:  # Flyte shows the message alone
            wrong = [f"{where.removeprefix('body.')}: {text}" for where, text in error.fields]
            raise Invalid(" ".join(wrong) or error.message, error.what_next, fields=error.fields) from None
    return job.id


async def look(job_id: str) -> JobStatus:
    """A server that does not answer says nothing about the job: it is running until the server says otherwise."""
    async with AsyncClient(program="flyte") as client:
        page = f"{client.url}/jobs/{job_id}"
        try:
            detail = await client.call(operations.get_job(job_id))
        except (ServerUnreachable, Unavailable) as error:
            return JobStatus("RUNNING", f"{error.message} The job goes on, and the server is asked again.", page)
    return JobStatus(_PHASES.get(detail["job"]["state"], "RUNNING"), message(detail), page)


def message(detail: schemas.JobResponse) -> str:
    """Explains its state, with the step, the preemptions so far and the cost, where it is known."""
    job = detail["job"]
    reason = f"{job['reason'][:1].upper()}{job['reason'][1:]}"
    parts = [reason if reason.endswith(".") else f"{reason}."]
    if job["step"] is not None:
        parts.append(f"Step {job['step']:,}.")
    if job["preemptions"]:
        parts.append(f"Preempted {'once' if job['preemptions'] == 1 else str(job['preemptions']) + ' times'}.")
    if job["cost"]["complete"] and job["cost"]["amount"] is not None:
        parts.append(f"${Decimal(job['cost']['amount']):,.2f} so far.")
    return " ".join(parts)


async def cancel(job_id: str, owner: str) -> None:
    """Cancels in the name of `owner`, where the token speaks for no one.

    A job that has ended or is not known needs nothing.
    """
    body: schemas.CancelBody = {"reason": "Flyte ended the task."}
    if owner:
        body["by"] = owner
    async with AsyncClient(program="flyte") as client:
        with contextlib.suppress(Conflict, Missing):
            await client.call(operations.cancel_job(job_id, body))


async def last_lines(job_id: str) -> Sequence[str]:
    async with AsyncClient(program="flyte") as client:
        return (await client.call(operations.get_output(job_id)))["output"].splitlines()
