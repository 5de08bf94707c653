"""Route of the tips of a quarter: how many were followed, and what that saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated
from zoneinfo import ZoneInfo

from fastapi import Query
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import Amount, AmountsAsOf, Moment, Out, beginning, one_of, read_from
from costguard.api.route import routes
from costguard.errors import Invalid
from costguard.jobs.listing.tips import tips_of_quarter
from costguard.ledger.accrual import accrual_at
from costguard.spend.tips.quarter import Quarter
from costguard.spend.tips.rules import METHODS, TipKind, TipOutcome

router = routes("spend")


class TipCountOut(Out):
    kind: Annotated[str, one_of(TipKind)]
    given: int
    followed: int
    not_followed: int
    pending: int = Field(description="The number that may still be followed.")
    unknown: int = Field(description="The number of those of which it is not known whether a user followed them.")
    saved: Amount
    method: str = Field(description="The evidence that counts, and how the saving is measured.")


class TipOut(Out):
    kind: Annotated[str, one_of(TipKind)]
    at: Moment
    subject: str = Field(description="The name of the VM, or the id of the job.")
    owner: str
    outcome: Annotated[str, one_of(TipOutcome)] = read_from("judged.outcome")
    evidence: str = read_from("judged.evidence")
    saved: Amount | None = read_from("judged.saved", description="The saving so far; null: none.")


class TipsResponse(AmountsAsOf):
    quarter: str = Field(examples=["2026-Q4"])
    from_: date = Field(alias="from", description="The first day of the quarter.")
    to: date = Field(description="The last day of the quarter.")
    time_zone: str = Field(description="The time zone whose calendar counts: the one of reminders.")
    given: int
    followed: int
    saved: Amount = Field(description="The saving of all kinds; nothing is counted twice.")
    counts: Sequence[TipCountOut]
    tips: Sequence[TipOut] = Field(description="The tips, the latest first; at most 500.")


_MOST = 500


@router.get("/savings/tips", summary="Account for the tips of a quarter", operation_id="getTips")
def tips(
    deps: Given,
    quarter: Annotated[
        str,
        Query(max_length=10, description="The quarter, such as 2026-Q4; empty: the present one.", examples=["2026-Q4"]),
    ] = "",
) -> TipsResponse:
    """Says how many reminders, hints and diagnoses a quarter had, how many were followed, and what that saved.

    A tip is followed by evidence alone: a user stopped the VM, cancelled the job, or the next run's steps cost less.
    """
    now, zone = deps.clock.now(), ZoneInfo(deps.rules.time_zone)
    try:
        wanted = Quarter.parse(quarter) if quarter else Quarter.at(now, zone)
    except ValueError as wrong:
        raise Invalid(str(wrong), "Give a quarter such as 2026-Q4.", fields=[("quarter", str(wrong))]) from None
    with deps.database.read() as connection:
        answer = tips_of_quarter(connection, accrual_at(connection, now), wanted, zone)
    first, last = wanted.days
    counts: Mapping[str, Sequence[TipCountOut]] = {
        "counts": [TipCountOut.read(one, method=METHODS[one.kind.value]) for one in answer.counts]
    }
    return TipsResponse.read(
        answer,
        as_of=now,
        quarter=str(wanted),
        **beginning(first),
        to=last,
        time_zone=deps.rules.time_zone,
        tips=[TipOut.read(one) for one in answer.tips[:_MOST]],
        **counts,
    )
