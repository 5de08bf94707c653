"""A job that a client has launched or looked up: wait for it, read its output, cancel it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, Self, overload

from costguard.errors import CostguardError, ServerUnreachable
from costguard_client import steps
from costguard_client.api import operations

if TYPE_CHECKING:
    from costguard_client.api import schemas
    from costguard_client.clients import AsyncClient, Client

Trouble = Callable[[ServerUnreachable], object]  # hears of a server that does not answer; it is asked again


class JobNotSucceeded(CostguardError):
    """A job ended otherwise; `detail` is what the API says of it."""

    def __init__(self, detail: schemas.JobResponse) -> None:
        job = detail["job"]
        super().__init__(
            f"Job {job['id']} is {job['state']}: {job['reason']}",
            "`detail` says more, and job.output() what it printed.",
        )
        self.detail = detail


class _JobState:
    """A job as it was at the last look; `detail` is all that the API says of it."""

    def __init__(self, detail: schemas.JobResponse) -> None:
        self.detail = detail

    @property
    def id(self) -> str:
        return self.detail["job"]["id"]

    @property
    def state(self) -> str:
        return self.detail["job"]["state"]

    @property
    def reason(self) -> str:
        """Returns the reason for its state, and the next step."""
        return self.detail["job"]["reason"]

    @property
    def step(self) -> int | None:
        return self.detail["job"]["step"]

    @property
    def cost(self) -> Decimal | None:
        """Dollars so far, of all its VMs; None where part of it has no price: then it is not known."""
        cost = self.detail["job"]["cost"]
        return Decimal(cost["amount"]) if cost["complete"] and cost["amount"] is not None else None

    @property
    def is_settled(self) -> bool:
        """Says whether it has ended, or its development VM can be worked on."""
        return steps.is_settled(self.detail)

    def _checked(self, check: bool) -> Self:
        if check and self.state not in {"succeeded", "running"}:
            raise JobNotSucceeded(self.detail)
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.state}>"


class JobHandle(_JobState):
    """A job, and the client that it came from."""

    def __init__(self, client: Client, detail: schemas.JobResponse) -> None:
        super().__init__(detail)
        self._client = client

    def refresh(self) -> Self:
        self.detail = self._client.call(operations.get_job(self.id))
        return self

    def changes(
        self, every: float = steps.POLL_S, timeout: float | None = None, on_trouble: Trouble = lambda _: None
    ) -> Iterator[Self]:
        """Itself now, and again after each change of its state or reason, until it has ended or is a VM to work on.

        A server that restarts is waited for, and `on_trouble` is called once. Raises TimeoutError.
        """
        look = operations.get_job(self.id)
        for detail in self._client.each(steps.changes(self._client.url, self.detail, look, every, timeout, on_trouble)):
            self.detail = detail
            yield self

    def wait(self, timeout: float | None = None, *, check: bool = False, every: float = steps.POLL_S) -> Self:
        """Until it has ended, or its development VM can be worked on. Raises TimeoutError.

        `check`: raises JobNotSucceeded where it failed or was cancelled.
        """
        for _ in self.changes(every, timeout):
            pass
        return self._checked(check)

    @overload
    def output(self, *, follow: Literal[False] = False, attempt: int | None = None) -> str: ...
    @overload
    def output(self, *, follow: Literal[True], attempt: int | None = None) -> Iterator[str]: ...
    def output(self, *, follow: bool = False, attempt: int | None = None) -> str | Iterator[str]:
        """Returns its command's output; with `follow`, piece by piece until the job has ended."""
        if follow:
            return self._client.each(steps.output(self._client.url, self.id, attempt))
        return self._client.call(operations.get_output(self.id, attempt=attempt))["output"]

    def cancel(
        self, reason: str = "", *, delete_disk: bool = False, after_checkpoint: bool = False, by: str | None = None
    ) -> Self:
        """Cancels it: its command may save, then its VM is deleted; a disk with the only copy of its work is kept by
        default.

        `by` names the person, where the token speaks for no one; default: COSTGUARD_OWNER.
        """
        body: schemas.CancelBody = {
            "reason": reason,
            "delete_disk": delete_disk,
            "after_checkpoint": after_checkpoint,
            "by": by or self._client.owner,
        }
        self.detail = self._client.call(operations.cancel_job(self.id, body))
        return self

    def never_mind(self, *, by: str | None = None) -> Self:
        """No hint at its standstill until a new best value; a cancel after its next checkpoint is taken back."""
        self.detail = self._client.call(operations.never_mind(self.id, {"by": by or self._client.owner}))
        return self

    def drill(self, *, by: str | None = None) -> Self:
        """Gives its command the notice of a preemption once little is at stake; `detail["drills"]` has the result."""
        self.detail = self._client.call(operations.drill_job(self.id, {"by": by or self._client.owner}))
        return self

    def delete_disk(self, *, by: str | None = None) -> Self:
        """Deletes the kept disk of a job that has ended: everything saved on it is lost."""
        self.detail = self._client.call(operations.delete_disk(self.id, {"by": by or self._client.owner}))
        return self


class AsyncJob(_JobState):
    """A job, and the client that it came from, for asyncio: like JobHandle."""

    def __init__(self, client: AsyncClient, detail: schemas.JobResponse) -> None:
        super().__init__(detail)
        self._client = client

    async def refresh(self) -> Self:
        self.detail = await self._client.call(operations.get_job(self.id))
        return self

    async def changes(
        self, every: float = steps.POLL_S, timeout: float | None = None, on_trouble: Trouble = lambda _: None
    ) -> AsyncIterator[Self]:
        look = operations.get_job(self.id)
        flow = steps.changes(self._client.url, self.detail, look, every, timeout, on_trouble)
        async for detail in self._client.each(flow):
            self.detail = detail
            yield self

    async def wait(self, timeout: float | None = None, *, check: bool = False, every: float = steps.POLL_S) -> Self:
        async for _ in self.changes(every, timeout):
            pass
        return self._checked(check)

    async def output(self, *, attempt: int | None = None) -> str:
        return (await self._client.call(operations.get_output(self.id, attempt=attempt)))["output"]

    def follow_output(self, *, attempt: int | None = None) -> AsyncIterator[str]:
        return self._client.each(steps.output(self._client.url, self.id, attempt))

    async def cancel(
        self, reason: str = "", *, delete_disk: bool = False, after_checkpoint: bool = False, by: str | None = None
    ) -> Self:
        body: schemas.CancelBody = {
            "reason": reason,
            "delete_disk": delete_disk,
            "after_checkpoint": after_checkpoint,
            "by": by or self._client.owner,
        }
        self.detail = await self._client.call(operations.cancel_job(self.id, body))
        return self

    async def never_mind(self, *, by: str | None = None) -> Self:
        self.detail = await self._client.call(operations.never_mind(self.id, {"by": by or self._client.owner}))
        return self

    async def drill(self, *, by: str | None = None) -> Self:
        self.detail = await self._client.call(operations.drill_job(self.id, {"by": by or self._client.owner}))
        return self

    async def delete_disk(self, *, by: str | None = None) -> Self:
        self.detail = await self._client.call(operations.delete_disk(self.id, {"by": by or self._client.owner}))
        return self
