"""Sweeps: a job for each set of parameters, launched, listed, viewed, cancelled and resumed together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Response
from fastapi import Query as Parameter
from pydantic import Field, StrictBool, StrictFloat, StrictInt

from costguard.api import cursors
from costguard.api.deps import Deps, Given
from costguard.api.fields import (
    CURRENCY,
    Address,
    Body,
    Moment,
    Out,
    Query,
    Seconds,
    Text,
    Usd,
    read_from,
)
from costguard.api.job.bodies import JobBody
from costguard.api.job.jobs import owner_of
from costguard.api.job.options import Dollars, Hours, Name, whole_hours
from costguard.api.job.quotes import OfferOut, QuotedBudgetOut, QuotedVmOut, RefusalOut, quoted_vm
from costguard.api.job.sweep_schemas import (
    HalvingBody,
    HalvingOut,
    SweepMemberOut,
    SweepOut,
    SweepResponse,
    SweepResultOut,
    SweepsResponse,
)
from costguard.api.route import CHECKED, NOT_FOUND, WRITTEN, Client, Key, acting, problem, routes, via_of
from costguard.db.named import RowFilters
from costguard.errors import Missing
from costguard.ledger.accrual import accrual_at
from costguard.model.access import Permission
from costguard.model.money import Money
from costguard.model.sweep import MOST_MEMBERS, Halving, SweepState
from costguard.sweeps import listing, sweep_rows
from costguard.sweeps.members import SweepOrder
from costguard.sweeps.quote import SweepQuote
from costguard.sweeps.submit import available_sweeps
from costguard.web.permissions import Asker
from costguard.web.questions import WhileWanted

router = routes("sweeps")
acting_router = routes("sweeps", Permission.JOBS)


def _named(
    deps: Given, sweep_id: Annotated[Text, Path(description="The sweep's id, such as s7k2m9q4, or its name.")]
) -> str:
    with deps.database.read() as connection:
        return sweep_rows.id_of(connection, sweep_id)


SweepId = Annotated[str, Depends(_named)]
Value = StrictBool | StrictInt | StrictFloat | Text
AtOnce = Annotated[StrictInt, Field(description="The number of members that may be open at a time.")]
Ceiling = Annotated[Dollars, Field(description="The most that all members together may cost.")]


class SweepBody(Body):
    """Every combination of the grid's values, or each set in the list, or each set with each combination."""

    name: Name = Field("", description="A name for people.")
    grid: dict[Text, Annotated[list[Value], Field(max_length=MOST_MEMBERS)]] = Field(
        default_factory=dict, max_length=50, examples=[{"lr": ["1e-4", "3e-4"], "seed": [1, 2]}]
    )
    list_: Annotated[list[dict[Text, Value]], Field(max_length=MOST_MEMBERS)] = Field(
        default_factory=list, alias="list", examples=[[{"layers": 12, "heads": 8}, {"layers": 24, "heads": 16}]]
    )
    seeds: StrictInt = Field(
        0,
        ge=0,
        le=MOST_MEMBERS,
        description=(
            "Launches each set of parameters so many times: {seed} is 1 to this number, and the variable SEED where no "
            "text has it. Places that all seeds would write to get a folder for each. 0: no seeds."
        ),
    )
    at_once: AtOnce = 4
    ceiling: Ceiling | None = None
    halving: HalvingBody | None = Field(None, description="The rule that stops losers; null: none are stopped.")
    job: JobBody = Field(
        description=(
            "The job that each member launches. {name} in its texts stands for a parameter; {sweep} and "
            "{member} for the sweep's id and the member's number. Its own ceiling is each member's."
        )
    )

    def order(self, owner: str) -> SweepOrder:
        return SweepOrder(
            template=self.job.submission(owner),
            grid={name: tuple(map(_text, values)) for name, values in self.grid.items()},
            listed=tuple({name: _text(value) for name, value in one.items()} for one in self.list_),
            name=self.name,
            at_once=self.at_once,
            seeds=self.seeds,
            halving=None if (one := self.halving) is None else Halving(one.eta, one.metric, one.better),
        )

    @property
    def limit(self) -> Money | None:
        return None if self.ceiling is None else Money.of(self.ceiling)


class SweepQuoteBody(SweepBody):
    hours: Hours = Field(1.0, description="The running time of each member to quote for.")


class CancelSweepBody(Body):
    by: Address | None = Field(
        None, description="The address of the person who cancels; default: the caller. Only admins name another."
    )
    reason: Text = ""


class ResumeSweepBody(Body):
    by: Address | None = Field(
        None, description="The address of the person who resumes; default: the caller. Only admins name another."
    )
    members: Annotated[list[StrictInt], Field(max_length=MOST_MEMBERS)] = Field(
        default_factory=list, description="The members' numbers. Empty: all that failed or were never launched."
    )
    ceiling: Ceiling | None = Field(None, description="The new ceiling; null: unchanged.")
    at_once: AtOnce | None = Field(
        None, description="The number of members that may be open at a time; null: unchanged."
    )


class KeepMembersBody(Body):
    by: Address | None = Field(
        None, description="The address of the person who keeps them; default: the caller. Only admins name another."
    )
    members: Annotated[list[StrictInt], Field(max_length=MOST_MEMBERS)] = Field(
        default_factory=list, description="The members' numbers. Empty: all of them, which ends halving."
    )


class SweepQuery(Query):
    state: list[SweepState] = Field(default_factory=list)
    owner: list[Text] = Field(default_factory=list, max_length=100)
    limit: int = Field(100, ge=1, le=500)
    cursor: Text | None = None


class QuotedMemberOut(Out):
    number: int = read_from("plan.number")
    parameters: Mapping[str, str] = read_from("plan.parameters")
    first: OfferOut | None = Field(description="The place in which it would start now; null: none.")


class SweepQuoteOut(Out):
    as_of: Moment
    currency: str = CURRENCY
    hours: str
    span_seconds: Seconds = read_from(
        "span", description="The seconds from the first member's start to the last one's end."
    )
    machine: QuotedVmOut | None = Field(description="The VM of the first member.")
    members: Sequence[QuotedMemberOut]
    total: Usd | None = Field(description="The cost of all members, where each would start now; null: not known.")
    ceiling: Usd | None
    budgets: Sequence[QuotedBudgetOut]
    warnings: Sequence[str]
    refusals: Sequence[RefusalOut] = Field(description="The reasons why POST /api/v1/sweeps would refuse this.")


@acting_router.post(
    "/sweeps",
    summary="Launch a sweep",
    operation_id="launchSweep",
    status_code=HTTPStatus.CREATED,
    dependencies=[CHECKED],
    responses={
        200: {"description": "A repeat of an earlier request: the sweep that it created.", "model": SweepResponse},
        409: problem("This key was used with another body before."),
        **WRITTEN,
    },
)
def submit(
    deps: Given,
    asker: Asker,
    body: SweepBody,
    response: Response,
    go_on: WhileWanted,
    key: Key = None,
    client: Client = "",
) -> SweepResponse:
    """Accepts the sweep, or lists everything that is wrong with any member. The daemon launches them in turn."""
    owner = owner_of(asker, body.job)
    made, is_new = available_sweeps(deps.sweeps).submit(
        body.order(owner.address), body.limit, asker.own(key), via_of(client), owner.authority, go_on
    )
    if not is_new:
        response.status_code = HTTPStatus.OK
    response.headers["Location"] = f"/api/v1/sweeps/{made.id}"
    return _detail(deps, made.id)


@acting_router.post(
    "/sweep-quotes",
    summary="Quote a sweep",
    operation_id="quoteSweep",
    dependencies=[CHECKED],
    responses=WRITTEN,
)
def quote(deps: Given, asker: Asker, body: SweepQuoteBody, go_on: WhileWanted) -> SweepQuoteOut:
    """Quotes the cost of each member and of all, and the reasons to refuse the sweep. Nothing is stored."""
    owner = owner_of(asker, body.job)
    span = whole_hours(body.hours)
    order = body.order(owner.address)
    quoted = available_sweeps(deps.sweeps).quote(order, body.limit, span, owner.authority, go_on)
    return _quote_out(quoted, body.hours)


@router.get("/sweeps", summary="List sweeps", operation_id="listSweeps")
def sweeps(deps: Given, query: Annotated[SweepQuery, Parameter()]) -> SweepsResponse:
    """Lists sweeps, the newest first, with the state of each, the reason for it, its cost, and its members by state."""
    filters = RowFilters(tuple(query.state), tuple(owner.lower() for owner in query.owner))
    after = cursors.decode_place(query.cursor, "sweeps")
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        rows = listing.sweeps_page(connection, accrual, filters, after, query.limit + 1)
    page, more = rows[: query.limit], None
    if len(rows) > query.limit:
        more = cursors.encode_place("sweeps", page[-1].sweep.created_at, page[-1].sweep.id)
    return SweepsResponse(as_of=accrual.now, sweeps=[SweepOut.read(row) for row in page], next_cursor=more)


@router.get(
    "/sweeps/{sweep_id}", summary="Get a sweep with all its members", operation_id="getSweep", responses=NOT_FOUND
)
def sweep(deps: Given, sweep_id: SweepId) -> SweepResponse:
    """Gets each member with its parameters, its job, its metric and its cost."""
    return _detail(deps, sweep_id)


@acting_router.post(
    "/sweeps/{sweep_id}/cancel",
    summary="Cancel a sweep",
    operation_id="cancelSweep",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses={
        200: {"description": "It was cancelled before.", "model": SweepResponse},
        409: problem("It has already ended."),
        **NOT_FOUND,
        **WRITTEN,
    },
)
def cancel(deps: Given, asker: Asker, sweep_id: SweepId, body: CancelSweepBody, response: Response) -> SweepResponse:
    """Cancels every open member, whose command may save first, and launches no others."""
    by = acting(asker, body.by, "by")
    _, is_new = available_sweeps(deps.sweeps).cancel(sweep_id, by.address, body.reason, by.authority)
    if not is_new:
        response.status_code = HTTPStatus.OK
    return _detail(deps, sweep_id)


@acting_router.post(
    "/sweeps/{sweep_id}/resume",
    summary="Resume a sweep",
    operation_id="resumeSweep",
    status_code=HTTPStatus.ACCEPTED,
    dependencies=[CHECKED],
    responses={
        409: problem("No member failed or was left over, or it is being cancelled."),
        **NOT_FOUND,
        **WRITTEN,
    },
)
def resume(deps: Given, asker: Asker, sweep_id: SweepId, body: ResumeSweepBody) -> SweepResponse:
    """Launches another job for each member that failed, which resumes from the member's checkpoints."""
    by = acting(asker, body.by, "by")
    ceiling = None if body.ceiling is None else Money.of(body.ceiling)
    available_sweeps(deps.sweeps).resume(sweep_id, by.address, body.members, ceiling, body.at_once, by.authority)
    return _detail(deps, sweep_id)


@acting_router.post(
    "/sweeps/{sweep_id}/keep",
    summary="Keep members of a sweep from halving",
    operation_id="keepSweepMembers",
    dependencies=[CHECKED],
    responses={409: problem("It has no halving, is over, or has stopped the member."), **NOT_FOUND, **WRITTEN},
)
def keep(deps: Given, asker: Asker, sweep_id: SweepId, body: KeepMembersBody) -> SweepResponse:
    """Keeps members from being stopped as losers; with none named ends halving for the whole sweep."""
    by = acting(asker, body.by, "by")
    available_sweeps(deps.sweeps).keep(sweep_id, by.address, body.members, by.authority)
    return _detail(deps, sweep_id)


def _text(value: bool | int | float | str) -> str:
    """Formats a value for a command: true and false as in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _detail(deps: Deps, sweep_id: str) -> SweepResponse:
    with deps.database.read() as connection:
        accrual = accrual_at(connection, deps.clock.now())
        detail = listing.sweep_detail(connection, accrual, sweep_id)
    if detail is None:
        raise Missing(f"There is no sweep {sweep_id!r}.", "GET /api/v1/sweeps lists all sweeps.")
    return SweepResponse(
        as_of=accrual.now,
        sweep=SweepOut.read(detail.row),
        parameters=detail.parameters,
        metric=detail.metric_pattern,
        better=detail.better,
        halving=None if detail.halving is None else HalvingOut.read(detail.halving),
        result=None if detail.result is None else SweepResultOut.read(detail.result),
        members=[SweepMemberOut.read(member) for member in detail.members],
    )


def _quote_out(quoted: SweepQuote, hours: float) -> SweepQuoteOut:
    machine = quoted_vm(quoted.first) if quoted.first is not None else None
    return SweepQuoteOut.read(quoted, hours=f"{hours:g}", machine=machine)
