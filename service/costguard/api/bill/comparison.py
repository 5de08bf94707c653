"""Google's bill next to the ledger: a line a day, what differs most, savings, and what the ledger does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import AmountsAsOf, DaysQuery, Out, Text, Usd, beginning, one_of, usd
from costguard.api.route import routes
from costguard.api.spend import check_length
from costguard.bill import report as reports
from costguard.bill.lines import BillState, Reason, Savings
from costguard.model.money import Money

router = routes("spend")


class BillSavingsOut(Out):
    """The part of the list price that was not paid, by what reduced it."""

    sustained_use: Usd
    committed_use: Usd
    contract: Usd = Field(description="A price below list without a commitment.")
    other: Usd = Field(description="Promotions, free tiers and other credits.")


class BillDayOut(Out):
    day: date
    state: Annotated[str, one_of(BillState)] = Field(
        description=(
            "`open`: the bill is still to come, or the day cannot be compared. A day closes 72 h after its end."
        )
    )
    why_open: str
    ledger: Usd
    list_price: Usd = Field(description="The bill at list price, before discounts, of what the ledger holds.")
    difference: Usd = Field(description="The list price on the bill less the ledger's amount.")
    explained: Usd = Field(description="The part of the difference that is rounding, or has a known reason.")
    unexplained: Usd
    effective: Usd = Field(description="The amount paid, after discounts and credits.")
    savings: BillSavingsOut
    outside: Usd = Field(
        description="The amount billed for SKUs that the ledger does not hold, such as network and licences."
    )
    unused_reservations: Usd
    differing: int = Field(description="Lines that differ without an explanation.")


class WorstVmOut(Out):
    project: str
    gce_id: str = Field(description="The id in the ledger; empty: a disk that is attached to nothing in the ledger.")
    title: str
    difference: Usd
    is_explained: bool
    reasons: Sequence[Annotated[str, one_of(Reason)]]
    stories: Sequence[str]


class SavingVmOut(Out):
    project: str
    gce_id: str
    name: str
    owner: str
    list_price: Usd
    sustained: Usd
    committed: Usd


class NotHeldOut(Out):
    project: str
    name: str
    cost: Usd


class CommitmentFeeOut(NotHeldOut):
    used: Usd | None = Field(description="The part that usage took up; null: the fee does not show it.")
    unused: Usd | None = Field(
        description="The part that was paid for nothing: an hour's fee that its usage did not take up is lost."
    )
    used_percent: int | None = Field(description="The used part in whole percents; null: not known.")


class CommitmentsOut(Out):
    fees: Sequence[CommitmentFeeOut] = Field(description="The ten largest fees, before the part that usage offset.")
    paid: Usd = Field(
        description="All fees less the part that usage offset. The `outside` amounts of the days include them."
    )
    saved: Usd = Field(
        description="The amount that commitments took off Compute Engine's usage, by price and by credit."
    )
    net: Usd = Field(description="The amount saved less the amount paid.")
    unused: Usd | None = Field(
        description=(
            "The part of the fees that no usage offset. Only fees of spend-based commitments since 2025 show "
            "it; null: none does."
        )
    )


class AccuracyOut(Out):
    permille: int = Field(
        description="The sum of the absolute differences of all lines, per mille of the list price, rounded up."
    )
    through: date = Field(description="The last closed UTC day.")
    text: str


class BillResponse(AmountsAsOf):
    from_: date = Field(alias="from", description="The first UTC day.")
    to: date = Field(description="The last UTC day.")
    accuracy: AccuracyOut | None = Field(
        description="The accuracy over the latest 30 closed days; null: no day is closed."
    )
    total: BillDayOut | None = Field(description="The sum over the closed days in the range.")
    days: Sequence[BillDayOut] = Field(
        description="The days in the range, the latest first; a day that was never compared is left out."
    )
    worst: Sequence[WorstVmOut] = Field(description="The ten resources with the largest differences.")
    savings: Sequence[SavingVmOut] = Field(description="The ten resources with the largest discounts and credits.")
    commitments: CommitmentsOut
    reservations: Sequence[NotHeldOut] = Field(description="Reservations that cost money while nothing runs in them.")
    outside: Sequence[NotHeldOut] = Field(description="The ten dearest SKUs that the ledger does not hold.")


class BillQuery(DaysQuery):
    project: Text | None = None


@router.get("/bill", summary="Compare the ledger with Google's bill", operation_id="getBill")
def bill(deps: Given, query: Annotated[BillQuery, Parameter()]) -> BillResponse:
    """Compares the ledger with Google's bill. Days are UTC, and amounts dollars at the rate of the bill's own rows.

    Nothing is corrected in the ledger.
    """
    now = deps.clock.now()
    first, last = query.days(now.date())
    check_length(first, last)
    with deps.database.read() as connection:
        report = reports.bill_report(connection, first, last, query.project)
    return BillResponse(
        as_of=now,
        **beginning(first),
        to=last,
        accuracy=AccuracyOut.read(report.accuracy) if report.accuracy is not None else None,
        total=_day(report.total) if report.total is not None else None,
        days=[_day(day) for day in report.days],
        worst=[WorstVmOut.read(vm) for vm in report.worst],
        savings=[SavingVmOut.read(vm) for vm in report.savings],
        commitments=CommitmentsOut.read(report.commitments),
        reservations=[NotHeldOut.read(one) for one in report.reservations],
        outside=[NotHeldOut.read(one) for one in report.outside],
    )


def _day(day: reports.BillDay) -> BillDayOut:
    return BillDayOut.read(day, savings=_savings(day.savings))


def _savings(savings: Savings) -> BillSavingsOut:
    return BillSavingsOut(
        sustained_use=usd(Money(savings.sustained)),
        committed_use=usd(Money(savings.committed)),
        contract=usd(Money(savings.contract)),
        other=usd(Money(savings.other)),
    )
