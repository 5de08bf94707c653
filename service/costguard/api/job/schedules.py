"""Schedules: jobs at times in a time zone, created, quoted, listed, viewed, paused, resumed, run and ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Response
from fastapi import Query as Parameter
from pydantic import Field, StrictBool, StrictInt

from costguard.access.roles import Actor
from costguard.api import cursors
from costguard.api.deps import Deps, Given
from costguard.api.fields import (
    CURRENCY,
    Address,
    Amount,
    Body,
    Moment,
    Out,
    Query,
    Seconds,
    Text,
    Usd,
    one_of,
    read_from,
)
from costguard.api.job.bodies import JobBody
from costguard.api.job.jobs import owner_of
from costguard.api.job.options import Hours, Name, whole_hours
from costguard.api.job.quotes import QuoteOut, RefusalOut, quote_out
from costguard.api.route import CHECKED, NOT_FOUND, WRITTEN, Client, Key, acting, problem, routes, via_of
from costguard.db.named import RowFilters
from costguard.errors import Missing
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Permission
from costguard.model.job import JobState
from costguard.schedules import listing, schedule_rows
from costguard.schedules.recurrence import in_words
from costguard.schedules.runs import ScheduleOrder
from costguard.schedules.schedule import RunOutcome, Schedule, ScheduleState
from costguard.schedules.submit import ScheduleService, available_schedules
from costguard.web.permissions import Asker

router = routes("schedules")
acting_router = routes("schedules", Permission.JOBS)


def _named(
    deps: Given, schedule_id: Annotated[Text, Path(description="The schedule's id, such as c7k2m9q4, or its name.")]
) -> str:
    with deps.database.read() as connection:
        return schedule_rows.id_of(connection, schedule_id)


ScheduleId = Annotated[str, Depends(_named)]


class ScheduleBody(Body):
    """A job and the times of its runs: either every and at, or the five fields of cron."""

    name: Name = Field("", description="A name for people.")
    every: Text = Field(
        "",
        max_length=200,
        description="`day`, `weekday`, `month`, `hour`, a number of hours such as `6h`, or days: `monday,friday`.",
        examples=["day"],
    )
    at: Text = Field("", max_length=10, description="The time of the day as HH:MM; empty: 00:00.", examples=["02:00"])
    cron: Text = Field(
        "",
        max_length=200,
        description="The five fields of cron, in their place.",
        examples=["0 2 * * 1-5"],
    )
    time_zone: Text = Field(
        "UTC", max_length=100, description="The time zone of these times.", examples=["Europe/Berlin"]
    )
    overlap: StrictBool = Field(False, description="True: a run is launched also while an earlier one is open.")
    late_minutes: Annotated[StrictInt, Field(ge=0, le=1_000_000)] | None = Field(
        None,
        description="The most that a run may be late; null: half of the time to the next.",
    )
    job: JobBody = Field(
        description=(
            "The job that each run launches. {date} and {time} in its texts stand for the due time in its time zone, "
            "as 2026-03-09 and 0200, and {schedule} for the schedule's id. A deadline counts from the due time."
        )
    )

    def order(self, owner: str) -> ScheduleOrder:
        return ScheduleOrder(
            template=self.job.submission(owner),
            every=self.every,
            at=self.at,
            cron=self.cron,
            time_zone=self.time_zone,
            name=self.name,
            overlaps=self.overlap,
            late=None if self.late_minutes is None else timedelta(minutes=self.late_minutes),
        )


class ScheduleQuoteBody(ScheduleBody):
    hours: Hours = Field(1.0, description="The running time of each run to quote for.")


class ScheduleActBody(Body):
    by: Address | None = Field(
        None, description="The requester's address; default: the caller. Only admins name another."
    )


class ScheduleQuery(Query):
    state: list[ScheduleState] = Field(default_factory=list)
    owner: list[Text] = Field(default_factory=list, max_length=100)
    limit: int = Field(100, ge=1, le=500)
    cursor: Text | None = None


class ScheduleRunOut(Out):
    due_at: Moment = read_from("run.due_at")
    outcome: Annotated[str, one_of(RunOutcome)] = read_from("run.outcome")
    reason: str = read_from("run.reason", description="The reason for the outcome.")
    asked_by: str = read_from("run.asked_by", description="The person who asked for it by hand; empty: it was due.")
    job: str | None = Field(description="The job that it launched; null: none.")
    state: Annotated[str, one_of(JobState)] | None = Field(description="The state of that job; null: none.")
    cost: Amount = Field(description="The cost of that job, so far.")


class ScheduleOut(Out):
    id: str = read_from("schedule.id")
    name: str = read_from("schedule.name")
    title: str = read_from("schedule.title", description="The name, or the id where it has none.")
    state: Annotated[str, one_of(ScheduleState)] = read_from("schedule.state")
    reason: str = read_from("schedule.reason", description="The reason for its state, and the next step.")
    owner: str = read_from("schedule.owner")
    project: str = read_from("schedule.project")
    preset: str = read_from("schedule.preset")
    cron: str = read_from("schedule.recurrence.cron", description="The times, as five fields of cron.")
    time_zone: str = read_from("schedule.recurrence.time_zone")
    times: str = Field(description="The times in words.", examples=["at 02:00 every day (Europe/Berlin)"])
    overlap: bool = read_from("schedule.overlaps")
    late_seconds: Seconds | None = read_from(
        "schedule.late",
        description="The most that a run may be late; null: half of the time to the next.",
    )
    next_due: Moment | None = read_from("schedule.next_due", description="The next due time; null: none.")
    via: Annotated[str, one_of(("api", "cli"))] = read_from("schedule.via")
    created_at: Moment = read_from("schedule.created_at")
    changed_by: str = read_from(
        "schedule.changed_by", description="The person who paused, resumed or ended it last; empty: nobody."
    )
    launched: int = Field(description="The number of runs that were launched.")
    not_launched: int = Field(description="The number of runs that were refused, skipped or missed.")
    last: ScheduleRunOut | None = Field(description="The last run; null: none yet.")


class SchedulesResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    schedules: list[ScheduleOut]
    next_cursor: str | None


class ScheduleResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    schedule: ScheduleOut
    runs: Sequence[ScheduleRunOut] = Field(description="The last runs, at most 50, the newest first.")
    cost: Amount = Field(description="The cost of these runs' jobs, so far.")


class ScheduleQuoteOut(Out):
    as_of: Moment
    currency: str = CURRENCY
    cron: str
    time_zone: str
    times: str = Field(description="The times in words; empty where they cannot be read.")
    next_due: Sequence[Moment] = Field(description="The next five due times.")
    runs_a_month: int = Field(description="The number of due times in the next 30 days.")
    cost_a_month: Usd | None = Field(description="The cost of those runs at the cheapest offer; null: not known.")
    job: QuoteOut = Field(description="The quote of one run, as it would start now.")
    warnings: Sequence[str]
    refusals: Sequence[RefusalOut] = Field(description="The reasons why POST /api/v1/schedules would refuse this.")


@acting_router.post(
    "/schedules",
    summary="Create a schedule",
    operation_id="createSchedule",
    status_code=HTTPStatus.CREATED,
    dependencies=[CHECKED],
    responses={
        200: {
            "description": "A repeat of an earlier request: the schedule that it created.",
            "model": ScheduleResponse,
        },
        409: problem("This key was used with another body before, or its owner has too many schedules."),
        **WRITTEN,
    },
)
def create(
    deps: Given, asker: Asker, body: ScheduleBody, response: Response, key: Key = None, client: Client = ""
) -> ScheduleResponse:
    """Accepts the schedule, or lists everything that is wrong with its times or its job."""
    owner = owner_of(asker, body.job)
    made, is_new = available_schedules(deps.schedules).create(
        body.order(owner.address), asker.own(key), via_of(client), owner.authority
    )
    if not is_new:
        response.status_code = HTTPStatus.OK
    response.headers["Location"] = f"/api/v1/schedules/{made.id}"
    return _detail(deps, made.id)


@acting_router.post(
    "/schedule-quotes",
    summary="Quote a schedule",
    operation_id="quoteSchedule",
    dependencies=[CHECKED],
    responses=WRITTEN,
)
def quote(deps: Given, asker: Asker, body: ScheduleQuoteBody) -> ScheduleQuoteOut:
    """Quotes one run and a month of them, with the next due times. Nothing is stored."""
    owner = owner_of(asker, body.job)
    quoted = available_schedules(deps.schedules).quote(
        body.order(owner.address), whole_hours(body.hours), owner.authority
    )
    of_one = quote_out(quoted.job, body.hours)
    recurrence = quoted.recurrence
    of_job = [RefusalOut(where=f"job.{one.where}", message=one.message) for one in of_one.refusals]
    return ScheduleQuoteOut.read(
        quoted,
        as_of=of_one.as_of,
        cron=recurrence.cron if recurrence is not None else "",
        time_zone=recurrence.time_zone if recurrence is not None else "",
        times=in_words(recurrence) if recurrence is not None else "",
        job=of_one,
        refusals=[*(RefusalOut.read(refusal) for refusal in quoted.refusals), *of_job],
    )


@router.get("/schedules", summary="List schedules", operation_id="listSchedules")
def schedules(deps: Given, query: Annotated[ScheduleQuery, Parameter()]) -> SchedulesResponse:
    """Lists schedules, the newest first, with the state of each, its next due time and its last run."""
    filters = RowFilters(tuple(query.state), tuple(owner.lower() for owner in query.owner))
    after = cursors.decode_place(query.cursor, "schedules")
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        rows = listing.schedules_page(connection, accrual, filters, after, query.limit + 1)
    page, more = rows[: query.limit], None
    if len(rows) > query.limit:
        more = cursors.encode_place("schedules", page[-1].schedule.created_at, page[-1].schedule.id)
    return SchedulesResponse(as_of=accrual.now, schedules=[ScheduleOut.read(row) for row in page], next_cursor=more)


@router.get(
    "/schedules/{schedule_id}",
    summary="Get a schedule with its last runs",
    operation_id="getSchedule",
    responses=NOT_FOUND,
)
def schedule(deps: Given, schedule_id: ScheduleId) -> ScheduleResponse:
    """Gets each of the last runs with its outcome, its job and its cost."""
    return _detail(deps, schedule_id)


_CHANGED = {
    200: {"description": "It was in this state before.", "model": ScheduleResponse},
    409: problem("It has ended for good."),
    **NOT_FOUND,
    **WRITTEN,
}


@acting_router.post(
    "/schedules/{schedule_id}/pause",
    summary="Pause a schedule",
    operation_id="pauseSchedule",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses=_CHANGED,
)
def pause(
    deps: Given, asker: Asker, schedule_id: ScheduleId, body: ScheduleActBody, response: Response
) -> ScheduleResponse:
    """Launches no runs until it is resumed. Runs that were launched go on."""
    return _changed(deps, asker, body, response, schedule_id, ScheduleService.pause)


@acting_router.post(
    "/schedules/{schedule_id}/resume",
    summary="Resume a schedule",
    operation_id="resumeSchedule",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses=_CHANGED,
)
def resume(
    deps: Given, asker: Asker, schedule_id: ScheduleId, body: ScheduleActBody, response: Response
) -> ScheduleResponse:
    """Goes on with the next due time. Those in between do not count as missed."""
    return _changed(deps, asker, body, response, schedule_id, ScheduleService.resume)


@acting_router.post(
    "/schedules/{schedule_id}/end",
    summary="End a schedule",
    operation_id="endSchedule",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses=_CHANGED,
)
def end(
    deps: Given, asker: Asker, schedule_id: ScheduleId, body: ScheduleActBody, response: Response
) -> ScheduleResponse:
    """Ends it for good. Runs that were launched go on."""
    return _changed(deps, asker, body, response, schedule_id, ScheduleService.end)


@acting_router.post(
    "/schedules/{schedule_id}/run",
    summary="Run a schedule now",
    operation_id="runSchedule",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses={
        409: problem("It has ended, an earlier run is open, or this key was used for another schedule."),
        **NOT_FOUND,
        **WRITTEN,
    },
)
def run(deps: Given, asker: Asker, schedule_id: ScheduleId, body: ScheduleActBody, key: Key = None) -> ScheduleResponse:
    """Launches a run within seconds, in addition to those at its times; also while it is paused."""
    available_schedules(deps.schedules).run_now(schedule_id, acting(asker, body.by, "by"), asker.own(key))
    return _detail(deps, schedule_id)


def _changed(
    deps: Deps,
    asker: Asker,
    body: ScheduleActBody,
    response: Response,
    schedule_id: str,
    change: Callable[[ScheduleService, str, Actor], tuple[Schedule, bool]],
) -> ScheduleResponse:
    _, is_new = change(available_schedules(deps.schedules), schedule_id, acting(asker, body.by, "by"))
    if not is_new:
        response.status_code = HTTPStatus.OK
    return _detail(deps, schedule_id)


def _detail(deps: Deps, schedule_id: str) -> ScheduleResponse:
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        detail = listing.schedule_detail(connection, accrual, schedule_id)
    if detail is None:
        raise Missing(f"There is no schedule {schedule_id!r}.", "GET /api/v1/schedules lists all schedules.")
    return ScheduleResponse(
        as_of=accrual.now,
        schedule=ScheduleOut.read(detail.row),
        runs=[ScheduleRunOut.read(row) for row in detail.runs],
        cost=Amount.model_validate(detail.cost),
    )
