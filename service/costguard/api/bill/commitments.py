"""Answers what to commit to, from the ledger's own hours. Costguard buys nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import BeforeValidator, Field

from costguard.api.deps import Given
from costguard.api.fields import AmountsAsOf, Moment, Out, Query, Usd, one_of
from costguard.api.route import routes
from costguard.bill.commit_cover import METHOD as COVER_METHOD
from costguard.bill.commit_cover import CommitmentHours, commitment_hours
from costguard.bill.commit_report import METHOD, MOST_DAYS, commitment_report
from costguard.bill.commit_words import PartKind
from costguard.model.money import Money
from costguard.spend.commit_advice import LEAST_DAYS, CommitmentKind

router = routes("spend")
_MOST_HOURLY_DAYS = 92


def decimal_text(value: Fraction) -> str:
    """Three places, rounded: levels are whole cents, vCPUs, GiB or GPUs."""
    thousandths = round(value * 1000)
    return f"{thousandths // 1000}.{thousandths % 1000:03d}".rstrip("0").rstrip(".")


def _share_text(value: Fraction | None) -> str | None:
    """Four places, cut off: all of it is 1, and less never is."""
    if value is None:
        return None
    tenthousandths = int(value * 10_000)
    return f"{tenthousandths // 10_000}.{tenthousandths % 10_000:04d}".rstrip("0").rstrip(".")


_OptionalShare = Annotated[str | None, BeforeValidator(_share_text)]
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
    covered: _OptionalShare = Field(
        description="The part of such use that commitments cover already, by the bill; null: the bill has none of it."
    )


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


class CoveredOut(Out):
    """On-demand use by the bill, the part that commitments cover, and their fees."""

    eligible: Usd = Field(
        description="On-demand use of vCPUs, memory, GPUs, TPU chips and local SSD, at the account's price without a "
        "commitment."
    )
    covered: Usd = Field(description="The part of it that commitments cover.")
    share: _OptionalShare = Field(description="The covered part of the eligible use; null: nothing was used.")
    saved: Usd = Field(description="The amount that commitments took off it, by price and by credit.")
    fee: Usd = Field(description="The fees, before what use took off them.")
    offset: Usd = Field(description="The amount that use took off the fees.")
    wasted: Usd | None = Field(
        description="The part of the fees that no use of their hour took off. Only fees of spend-based commitments "
        "since 2025 show it; null: no fee does."
    )
    net: Usd = Field(description="The saving less what the fees cost besides; below zero: a loss.")


class CoveredHourOut(Out):
    hour: Moment
    use: CoveredOut


class HourOfDayOut(Out):
    hour: int = Field(description="The hour of the day in UTC, 0 to 23.")
    use: CoveredOut


class CoveredPlaceOut(Out):
    kind: Annotated[str, one_of(PartKind)] = Field(
        description="`host`: vCPUs and memory; `gpu`: GPUs and TPU chips; `ssd`: local SSD."
    )
    family: str = Field(description="The machine family; empty: of local SSD, whose SKU names none.")
    region: str
    use: CoveredOut


class FeeByHourOut(Out):
    sku_id: str
    name: str = Field(description="The words of the fee's SKU.")
    family: str = Field(description="The machine family; empty: a commitment to spend, or its words name none.")
    region: str
    use: CoveredOut


class CommitmentCoverOut(Out):
    """Use that commitments covered on the closed days of the bill, and fees that were wasted, added up from hours."""

    since: Moment | None = Field(description="The beginning of the first hour; null: no day of a bill is closed.")
    total: CoveredOut | None
    by_hour_of_day: Sequence[HourOfDayOut] = Field(description="The sums of all days, by the hour of the day in UTC.")
    places: Sequence[CoveredPlaceOut] = Field(description="Use by part, machine family and region, the most first.")
    fees: Sequence[FeeByHourOut] = Field(description="The fees, by region, the dearest first.")
    days_without: Sequence[date] = Field(
        description="Days whose bill was read, in part at least, by a version that kept no hours: they are not in it, "
        "or not whole, until their export is read again."
    )
    method: str = COVER_METHOD

    @classmethod
    def of(cls, cover: CommitmentHours) -> CommitmentCoverOut:
        return cls.read(
            cover,
            by_hour_of_day=[HourOfDayOut(hour=hour, use=CoveredOut.read(use)) for hour, use in cover.by_hour_of_day],
        )


class CommitmentsResponse(AmountsAsOf):
    since: Moment = Field(description="The beginning of the first hour that counts.")
    hours: int
    too_short: str = Field(description="The reason why nothing is advised yet; empty: enough days are known.")
    advice: Sequence[CommitmentAdviceOut] = Field(
        description="The commitments that would have saved, the largest saving first."
    )
    bought: BoughtOut
    unsure: Sequence[str] = Field(
        description="Machine families in use of which public texts disagree whether flexible commitments cover them: "
        "the advice counts them, and Google can tell."
    )
    uncovered: Sequence[UseOut] = Field(
        description="Use that no flexible commitment covers, and of whose commitments no price is known."
    )
    unpriced: Sequence[UseOut] = Field(description="Use without a list price, which is in no amount.")
    cover: CommitmentCoverOut = Field(
        description="Use that is covered already, and fees that were wasted, by the bill."
    )
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
        unsure=list(report.unsure),
        uncovered=[UseOut.read(one) for one in report.uncovered],
        unpriced=[UseOut.read(one) for one in report.unpriced],
        cover=CommitmentCoverOut.of(report.cover),
        unknown_runs=report.unknown_runs,
    )


class CommitmentHoursResponse(AmountsAsOf):
    hours: Sequence[CoveredHourOut] = Field(description="Each hour of the closed days, the earliest first.")
    days_without: Sequence[date] = Field(
        description="Days whose bill was read, in part at least, by a version that kept no hours."
    )
    method: str = COVER_METHOD


class CommitmentHoursQuery(Query):
    days: Annotated[
        int, Field(ge=1, le=_MOST_HOURLY_DAYS, description="The number of last closed days of the bill.")
    ] = 7


@router.get(
    "/commitments/hours", summary="Read what commitments covered by the hour", operation_id="readCommitmentHours"
)
def commitment_hours_of(deps: Given, query: Annotated[CommitmentHoursQuery, Parameter()]) -> CommitmentHoursResponse:
    """Reads, for each hour of the last closed days of Google's bill, what commitments covered and what they wasted."""
    with deps.database.read() as connection:
        cover = commitment_hours(connection, query.days)
    return CommitmentHoursResponse(
        as_of=deps.clock.now(),
        hours=[CoveredHourOut(hour=hour, use=CoveredOut.read(use)) for hour, use in cover.hours],
        days_without=list(cover.days_without),
    )
