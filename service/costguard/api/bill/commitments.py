"""Answers what to commit to, from the ledger's own hours. Costguard buys nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import BeforeValidator, Field

from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Moment, Out, Query, Usd, one_of
from costguard.api.route import routes
from costguard.bill.commit_report import METHOD, MOST_DAYS, commitment_report
from costguard.model.money import Money
from costguard.spend.commit_advice import LEAST_DAYS, CommitmentKind

router = routes("spend")


def decimal_text(value: Fraction) -> str:
    """Three places, rounded: levels are whole cents, vCPUs, GiB or GPUs."""
    thousandths = round(value * 1000)
    return f"{thousandths // 1000}.{thousandths % 1000:03d}".rstrip("0").rstrip(".")


_Number = Annotated[str, BeforeValidator(decimal_text)]


class CommitmentAdviceOut(Out):
    kind: Annotated[str, one_of(CommitmentKind)] = Field(
        description="`flexible`: to spend so much an hour; `resources`: to vCPUs, GiB of memory or GPUs of one region."
    )
    what: str = Field(description="The commitment in words.", examples=["flexible, N2"])
    years: int
    family: str = Field(description="The machine family; `all`: one flexible commitment for all that it covers.")
    region: str
    resource: str = Field(description="The billed resource; empty: a flexible commitment.", examples=["a2:core"])
    discount: _Number = Field(description="The part of the list price that it takes off.", examples=["0.28"])
    level: _Number = Field(
        description="The amount to commit to, in addition to what is bought: in `unit`s.", examples=["12.5"]
    )
    unit: str
    level_text: str = Field(description="The level with its unit.", examples=["24 vCPUs"])
    fee: Usd = Field(description="The fee of an hour, used or not.")
    use: Usd = Field(description="The use of a month at list price, of all that the commitment could cover.")
    saved: Usd = Field(description="The saving of a month, had it been bought before.")
    after_fall: Usd = Field(
        description="The saving of a month if use falls by 20 %; below zero: what the commitment then loses."
    )
    after_fall_text: str = Field(description="The same as a sentence.")
    exceeded: _Number = Field(description="The part of the hours whose use is above the level.")


class UseOut(Out):
    what: str = Field(description="The resource and its region, in words.")
    family: str
    region: str
    resource: str


class BoughtOut(Out):
    """Commitments on the bill, which are subtracted from the advice."""

    day: date | None = Field(description="The closed day that they are read from; null: no bill is compared.")
    flexible: Usd = Field(description="The use at list price that flexible commitments cover in an hour.")
    unnamed: Sequence[str] = Field(
        description="Fees whose family or region is not known. They are not subtracted from the advice."
    )


class CommitmentsResponse(Out):
    as_of: Moment
    currency: str = CURRENCY
    since: Moment = Field(description="The beginning of the first hour that counts.")
    hours: int
    too_short: str = Field(description="The reason why nothing is advised yet; empty: enough days are known.")
    advice: Sequence[CommitmentAdviceOut] = Field(
        description="The commitments that would have saved, the largest saving first."
    )
    bought: BoughtOut
    uncovered: Sequence[UseOut] = Field(
        description="Use that no flexible commitment covers, and of whose commitments no price is known."
    )
    unpriced: Sequence[UseOut] = Field(description="Use without a list price, which is in no amount.")
    unknown_runs: int = Field(description="Runs of VMs whose parts are not known, which are in no amount.")
    method: str = METHOD


class CommitmentsQuery(Query):
    days: Annotated[int, Field(ge=LEAST_DAYS, le=MOST_DAYS, description="The number of last days that count.")] = 90


@router.get("/commitments", summary="Advise what to commit to", operation_id="adviseCommitments")
def commitments(deps: Given, query: Annotated[CommitmentsQuery, Parameter()]) -> CommitmentsResponse:
    """Advises the level of each commitment that would have cost least over the last days, its saving and its risk.

    Whole billing accounts buy commitments: use that the ledger does not watch is not in it.
    """
    now = deps.clock.now()
    with deps.database.read() as connection:
        report = commitment_report(connection, now, query.days)
    return CommitmentsResponse(
        as_of=now,
        since=report.since,
        hours=report.hours,
        too_short=report.too_short,
        advice=[CommitmentAdviceOut.read(one) for one in report.advice],
        bought=BoughtOut.read(report.bought, flexible=Money(report.bought.flexible_nanos)),
        uncovered=[UseOut.read(one) for one in report.uncovered],
        unpriced=[UseOut.read(one) for one in report.unpriced],
        unknown_runs=report.unknown_runs,
    )
