"""The synchronous and the asynchronous client. Each carries out the same steps in its own way."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import wraps
from typing import IO, TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from costguard.errors import CostguardError, Missing
from costguard_client import profile, steps
from costguard_client.api import operations
from costguard_client.calls import Answer, Call, Value, api, request_of
from costguard_client.jobs import AsyncJob, JobHandle
from costguard_client.steps import Flow, Item, Pause, Step
from costguard_client.transport import AsyncTransport, Transport

if TYPE_CHECKING:
    from typing import Unpack

    from costguard_client.api import schemas

THIS_COMPUTER = "http://127.0.0.1:8765"
TIMEOUT_S = 30.0

P = ParamSpec("P")
Result = TypeVar("Result")


def _sync(make: Callable[P, Call[Result]]) -> Callable[Concatenate[Client, P], Result]:
    """A method of Client that makes a call and returns its answer."""

    @wraps(make)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self.call(make(*args, **kwargs))

    return method


def _async(make: Callable[P, Call[Result]]) -> Callable[Concatenate[AsyncClient, P], Awaitable[Result]]:
    """The same of AsyncClient."""

    @wraps(make)
    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[Result]:
        return self.call(make(*args, **kwargs))

    return method


class _Server:
    """A server by its address, and the token for it. The token is sent nowhere else: redirects are not followed.

    What is not given comes from `environ` (COSTGUARD_URL, COSTGUARD_TOKEN), else from the saved profile.
    """

    def __init__(self, url: str, token: str, environ: Mapping[str, str], program: str) -> None:
        given = {**environ, profile.TOKEN: token} if token else environ
        self.url, self._token = profile.address_and_token(url or environ.get("COSTGUARD_URL", ""), given, THIS_COMPUTER)
        self._program = program
        self.owner = environ.get("COSTGUARD_OWNER", "") or None  # where the token names no one

    def _owned(self, job: schemas.JobBody) -> schemas.JobBody:
        return {**job, "owner": self.owner} if self.owner and not job.get("owner") else job


class Client(_Server):
    """A synchronous client. Threads may share it. Its errors are CostguardErrors.

    Calls that are harmless to repeat are tried again where the answer is lost; a launch has a key, so it happens once.
    """

    def __init__(
        self,
        url: str = "",
        token: str = "",
        *,
        environ: Mapping[str, str] = os.environ,
        pause: Callable[[float], object] = threading.Event().wait,
        timeout: float = TIMEOUT_S,
        program: str = "python",
    ) -> None:
        super().__init__(url, token, environ, program)
        self._pause = pause
        self._transport = Transport(self.url, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held open."""

    def call(self, call: Call[Result]) -> Result:
        """The answer to any call of `client.api.operations`."""
        return self.finish(steps.exchange(self.url, call))

    def launch(self, *, key: str = "", **job: Unpack[schemas.JobBody]) -> JobHandle:
        """Launches a job. Repeating it with the same key returns the same job."""
        return JobHandle(self, self.call(operations.launch_job(self._owned(job), key=key or secrets.token_hex(16))))

    def job(self, job_id: str) -> JobHandle:
        return JobHandle(self, self.call(operations.get_job(job_id)))

    jobs = _sync(operations.list_jobs)
    quote = _sync(operations.quote_job)
    fleet = _sync(operations.list_instances)
    instance = _sync(operations.get_instance)
    spend = _sync(operations.get_spend)
    savings = _sync(operations.get_savings)
    bill = _sync(operations.get_bill)
    budgets = _sync(operations.list_budgets)
    forecast = _sync(operations.get_forecast)
    presets = _sync(operations.list_presets)
    places = _sync(operations.list_places)
    me = _sync(operations.get_me)
    sweeps = _sync(operations.list_sweeps)
    sweep = _sync(operations.get_sweep)
    quote_sweep = _sync(operations.quote_sweep)
    cancel_sweep = _sync(operations.cancel_sweep)
    resume_sweep = _sync(operations.resume_sweep)
    schedules = _sync(operations.list_schedules)
    schedule = _sync(operations.get_schedule)
    quote_schedule = _sync(operations.quote_schedule)
    pause_schedule = _sync(operations.pause_schedule)
    resume_schedule = _sync(operations.resume_schedule)
    run_schedule = _sync(operations.run_schedule)
    end_schedule = _sync(operations.end_schedule)

    def launch_sweep(self, *, key: str = "", **sweep: Unpack[schemas.SweepBody]) -> schemas.SweepResponse:
        """Launches a sweep. Repeating it with the same key returns the same sweep."""
        sweep["job"] = self._owned(sweep["job"])
        return self.call(operations.launch_sweep(sweep, key=key or secrets.token_hex(16)))

    def create_schedule(self, *, key: str = "", **schedule: Unpack[schemas.ScheduleBody]) -> schemas.ScheduleResponse:
        """Creates a schedule. Repeating it with the same key returns the same schedule."""
        schedule["job"] = self._owned(schedule["job"])
        return self.call(operations.create_schedule(schedule, key=key or secrets.token_hex(16)))

    def get(self, *path: str, **parameters: Value) -> Any:
        """The answer to GET /api/v1/PATH."""
        return self.call(Call("GET", api(*path), parameters))

    def get_csv(self, *path: str, **parameters: Value) -> str:
        return self.call(Call[str]("GET", api(*path), parameters, accept="text/csv"))

    def get_bytes(self, path: str, accept: str, **parameters: Value) -> bytes:
        """A file of this media type from GET /api/v1/PATH."""
        return self.call(Call[bytes]("GET", api(path), parameters, accept=accept))

    def post(self, *path: str, body: Mapping[str, Any], key: str | None = None) -> Any:
        """The answer to POST /api/v1/PATH. With a `key` it is repeated where the answer is lost, and done once."""
        return self.call(Call("POST", api(*path), body=body, key=key or None))

    def has(self, *path: str) -> bool:
        """Says whether GET /api/v1/PATH finds anything."""
        try:
            self.call(Call("GET", api(*path)))
        except Missing:
            return False
        return True

    def put(self, *path: str, file: IO[bytes], size: int) -> None:
        """PUT /api/v1/PATH with a file as its body. Repeating it changes nothing, so that it is tried again."""
        self.call(Call("PUT", api(*path), body=file, size=size))

    def delete(self, *path: str, **parameters: Value) -> Any:
        """The answer to DELETE /api/v1/PATH."""
        return self.call(Call("DELETE", api(*path), parameters))

    def pages(self, path: str, items: str, limit: int, **parameters: Value) -> dict[str, Any]:
        """The last page with up to `limit` items from as many pages as needed; 0: all items."""
        return self.finish(steps.last_page(self.url, Call("GET", api(path), parameters), items, limit))

    def rows(self, call: Call[Any], items: str) -> Iterator[Any]:
        """Every row of a list, page by page: `client.rows(operations.list_jobs(state=["failed"]), "jobs")`."""
        return self.each(steps.rows(self.url, call, items))

    def finish(self, flow: Flow[Result]) -> Result:
        """Carries out the steps of a flow, and returns its result."""
        try:
            step = next(flow)
            while True:
                step = _advance(flow, self._outcome(step))
        except StopIteration as end:
            result: Result = end.value
            return result

    def each(self, flow: Flow[None]) -> Iterator[Any]:
        """The items of a flow, as they come."""
        try:
            step = next(flow)
            while True:
                if isinstance(step, Item):
                    yield step.value
                step = _advance(flow, self._outcome(step))
        except StopIteration:
            return

    def _outcome(self, step: Step) -> Answer | CostguardError | None:
        if isinstance(step, Pause):
            self._pause(step.seconds)
        elif isinstance(step, Call):
            try:
                return self._transport.send(request_of(step, self._token, self._program))
            except CostguardError as error:
                return error
        return None


class AsyncClient(_Server):
    """The same for asyncio. Use it as `async with AsyncClient() as client`, which closes its connections."""

    def __init__(
        self,
        url: str = "",
        token: str = "",
        *,
        environ: Mapping[str, str] = os.environ,
        pause: Callable[[float], Awaitable[object]] | None = None,
        timeout: float = TIMEOUT_S,
        program: str = "python",
    ) -> None:
        import asyncio  # only here: commands start sooner without it

        super().__init__(url, token, environ, program)
        self._pause = pause or asyncio.sleep
        self._transport = AsyncTransport(self.url, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    def call(self, call: Call[Result]) -> Awaitable[Result]:
        """The answer to any call of `client.api.operations`."""
        return self.finish(steps.exchange(self.url, call))

    async def launch(self, *, key: str = "", **job: Unpack[schemas.JobBody]) -> AsyncJob:
        """Launches a job. Repeating it with the same key returns the same job."""
        owned = self._owned(job)
        return AsyncJob(self, await self.call(operations.launch_job(owned, key=key or secrets.token_hex(16))))

    async def job(self, job_id: str) -> AsyncJob:
        return AsyncJob(self, await self.call(operations.get_job(job_id)))

    jobs = _async(operations.list_jobs)
    quote = _async(operations.quote_job)
    fleet = _async(operations.list_instances)
    instance = _async(operations.get_instance)
    spend = _async(operations.get_spend)
    savings = _async(operations.get_savings)
    bill = _async(operations.get_bill)
    budgets = _async(operations.list_budgets)
    forecast = _async(operations.get_forecast)
    presets = _async(operations.list_presets)
    places = _async(operations.list_places)
    me = _async(operations.get_me)
    sweeps = _async(operations.list_sweeps)
    sweep = _async(operations.get_sweep)
    quote_sweep = _async(operations.quote_sweep)
    cancel_sweep = _async(operations.cancel_sweep)
    resume_sweep = _async(operations.resume_sweep)
    schedules = _async(operations.list_schedules)
    schedule = _async(operations.get_schedule)
    quote_schedule = _async(operations.quote_schedule)
    pause_schedule = _async(operations.pause_schedule)
    resume_schedule = _async(operations.resume_schedule)
    run_schedule = _async(operations.run_schedule)
    end_schedule = _async(operations.end_schedule)

    async def launch_sweep(self, *, key: str = "", **sweep: Unpack[schemas.SweepBody]) -> schemas.SweepResponse:
        """Launches a sweep. Repeating it with the same key returns the same sweep."""
        sweep["job"] = self._owned(sweep["job"])
        return await self.call(operations.launch_sweep(sweep, key=key or secrets.token_hex(16)))

    async def create_schedule(
        self, *, key: str = "", **schedule: Unpack[schemas.ScheduleBody]
    ) -> schemas.ScheduleResponse:
        """Creates a schedule. Repeating it with the same key returns the same schedule."""
        schedule["job"] = self._owned(schedule["job"])
        return await self.call(operations.create_schedule(schedule, key=key or secrets.token_hex(16)))

    def rows(self, call: Call[Any], items: str) -> AsyncIterator[Any]:
        """Every row of a list, page by page."""
        return self.each(steps.rows(self.url, call, items))

    async def finish(self, flow: Flow[Result]) -> Result:
        try:
            step = next(flow)
            while True:
                step = _advance(flow, await self._outcome(step))
        except StopIteration as end:
            result: Result = end.value
            return result

    async def each(self, flow: Flow[None]) -> AsyncIterator[Any]:
        try:
            step = next(flow)
            while True:
                if isinstance(step, Item):
                    yield step.value
                step = _advance(flow, await self._outcome(step))
        except StopIteration:
            return

    async def _outcome(self, step: Step) -> Answer | CostguardError | None:
        if isinstance(step, Pause):
            await self._pause(step.seconds)
        elif isinstance(step, Call):
            try:
                return await self._transport.send(request_of(step, self._token, self._program))
            except CostguardError as error:
                return error
        return None


def _advance(flow: Flow[Any], outcome: Answer | CostguardError | None) -> Step:
    """Gives a flow the outcome of its last step, and returns the next one."""
    return flow.throw(outcome) if isinstance(outcome, CostguardError) else flow.send(outcome)
