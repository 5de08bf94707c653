"""Goodput: what the time and the cost of jobs went into, by month, project, preset, owner and job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import BeforeValidator, Field

from costguard.api.deps import Given
from costguard.api.fields import (
    Amount,
    AmountsAsOf,
    DaysQuery,
    Out,
    Seconds,
    Text,
    Usd,
    beginning,
    one_of,
    read_from,
)
from costguard.api.job_id import named_job
from costguard.api.route import routes
from costguard.api.spend import check_length, split_names
from costguard.ledger.accrual import accrual_at
from costguard.model.budget import Scope
from costguard.spend.goodput import METHOD, TimeUse
from costguard.spend.goodput_rows import GoodputGrouping, goodput_between

router = routes("spend")

_LONGEST = timedelta(days=366)
_Percent = Annotated[str, Field(pattern=r"^\d+\.\d{2}$", examples=["83.42"])]


def _percent(share: object) -> object:
    return f"{share // 100}.{share % 100:02d}" if isinstance(share, int) else share


def _percents(shares: object) -> object:
    return {use: _percent(share) for use, share in shares.items()} if isinstance(shares, Mapping) else shares


Uses = Annotated[str, one_of(TimeUse)]


class GoodputOut(Out):
    seconds: Mapping[Uses, Seconds] = read_from(
        "spans",
        description=(
            "Seconds by use. kept: the command ran, and its work stands; lost: the work was repeated or led "
            "to nothing; unsaved: the work since the newest checkpoint; starting, ending: a VM before and "
            "after its command; waiting: no VM."
        ),
    )
    percent: Annotated[Mapping[Uses, _Percent], BeforeValidator(_percents)] = read_from(
        "shares", description="The share of each use in all the time, in percent; together 100."
    )
    cost_by_use: Mapping[Uses, Usd] = read_from("costs", description="The cost by use; the parts add up to `cost`.")
    cost: Amount = Field(description="The cost of VMs and disks.")
    kept_percent_of_paid: Annotated[_Percent | None, BeforeValidator(_percent)] = read_from(
        "kept_share_of_paid", description="The kept time in percent of the time that VMs billed; null where none did."
    )
    useful_gpu_seconds: Seconds = read_from(
        "useful_gpu_time", description="The kept time multiplied by the number of GPUs, in seconds."
    )
    cost_per_useful_gpu_hour: Usd | None = Field(
        description="The whole cost divided by the useful GPU-hours; null: there were none, or part has no price."
    )


class GoodputRowOut(GoodputOut):
    group: dict[str, str] = Field(description="The value of each grouping.")
    jobs: int


class GoodputResponse(AmountsAsOf):
    from_: date = Field(alias="from", description="The first UTC day.")
    to: date = Field(description="The last UTC day; today counts up to now.")
    group_by: list[Annotated[str, one_of(GoodputGrouping)]]
    rows: list[GoodputRowOut]
    total: GoodputRowOut
    method: str = METHOD


class GoodputQuery(DaysQuery):
    group_by: Annotated[list[GoodputGrouping], BeforeValidator(split_names)] = Field(
        [], max_length=100, description="The groupings, repeated or separated by commas; default: preset."
    )
    project: Text | None = None
    preset: Text | None = None
    owner: Text | None = None
    job: Text | None = Field(None, description="A job, by its id or name.")


@router.get("/goodput", summary="Get what jobs' time and cost went into", operation_id="getGoodput")
def goodput(deps: Given, query: Annotated[GoodputQuery, Parameter()]) -> GoodputResponse:
    """Divides the time and cost of training jobs by use, over UTC days including both ends.

    Development VMs are not counted.
    """
    now = deps.clock.now()
    first, last = query.days(now.date())
    check_length(first, last, _LONGEST)
    group_by = list(dict.fromkeys(query.group_by)) or [GoodputGrouping.PRESET]
    with deps.database.read() as connection:
        scope = Scope(query.project, query.preset, query.owner, job=named_job(connection, query.job))
        report = goodput_between(connection, accrual_at(connection, now), first, last, group_by, scope)
    names = [grouping.value for grouping in group_by]
    return GoodputResponse(
        as_of=now,
        **beginning(first),
        to=last,
        group_by=names,
        rows=[GoodputRowOut.read(row.goodput, group=dict(zip(names, row.group, strict=True))) for row in report.rows],
        total=GoodputRowOut.read(report.total, group={}),
    )
