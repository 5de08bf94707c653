"""Enforcement: the stops that were made or recorded in shadow mode, and what each saved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Annotated, Any

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.deps import Given
from costguard.api.fields import Amount, AmountsAsOf, DaysQuery, Moment, Out, beginning, one_of, read_from
from costguard.api.route import routes
from costguard.ledger.accrual import book_of
from costguard.model.action import StopOutcome
from costguard.model.moments import day_start
from costguard.spend import enforcements
from costguard.spend.enforcements import ShadowReport
from costguard.spend.savings import SHADOW_METHOD, STOP_METHOD, Bound

router = routes("reminders")


class StopSavingOut(Out):
    amount: Amount
    since: Moment
    until: Moment
    bound: Annotated[str, one_of(Bound)] = Field(description="The event that ended the time that counts.")


class DecidedStopOut(Out):
    id: int = read_from("stop.id")
    project: str = read_from("stop.key.project")
    gce_id: str = read_from("stop.key.gce_id")
    name: str = read_from("stop.name")
    zone: str = read_from("stop.zone")
    preset: str = read_from("stop.preset")
    owner: str = read_from("stop.owner")
    decided_at: Moment = read_from("stop.intended_at")
    rule: str = read_from("stop.rule")
    reason: str = read_from("stop.reason")
    asked_by: str = read_from("stop.asked_by", description="The requester; empty: a rule decided.")
    reminder: str = read_from(
        "stop.reminder", description="The key of the reminder whose grace had passed; empty for a requested stop."
    )
    reminders: int = read_from("stop.reminders", description="Reminders that Slack had accepted before it.")
    evidence: Mapping[str, Any] = read_from("stop.evidence")


class StopOut(DecidedStopOut):
    outcome: Annotated[str, one_of(StopOutcome)] = read_from("stop.outcome")
    error: str = read_from("stop.error")
    rate_per_hour: Amount | None = read_from("rate", description="The hourly cost that ended; null: not stopped.")
    saved: StopSavingOut | None = read_from("saving", description="The estimated saving; null: it has not stopped.")


class ShadowStopOut(DecidedStopOut):
    would_have_saved: StopSavingOut | None = read_from(
        "saving", description="The amount that the stop would have saved; null: its lifetime is not in the ledger."
    )
    cost: Amount | None = Field(description="The VM's cost from then until it ended, or until now.")


class EnforcementResponse(AmountsAsOf):
    from_: date = Field(alias="from", description="The first UTC day.")
    to: date = Field(description="The last UTC day.")
    is_shadow: bool = Field(
        description="True: rules stop nothing at present; the stops that they would have made are recorded."
    )
    stops: list[StopOut]
    saved: Amount
    method: str = Field(default=STOP_METHOD, description="The method of the estimate, in sentences.")
    shadow_stops: list[ShadowStopOut]
    would_have_saved: Amount
    shadow_cost: Amount
    shadow_method: str = SHADOW_METHOD


@router.get("/enforcement", summary="List stops and what they saved", operation_id="getEnforcement")
def enforcement(deps: Given, query: Annotated[DaysQuery, Parameter()]) -> EnforcementResponse:
    """Lists stops by when they were decided, the latest first, each with its rule, reminder and evidence."""
    now = deps.clock.now()
    first, last = query.days(now.date())
    since, until = day_start(first), day_start(last) + timedelta(days=1)
    with deps.database.read() as connection:
        history = enforcements.enforcements(connection, book_of(connection), now, since, until)
    return EnforcementResponse.model_validate(
        {
            "as_of": now,
            **beginning(first),
            "to": last,
            "is_shadow": deps.rules.is_shadow,
            "stops": [StopOut.read(report) for report in history.stops],
            "saved": history.saved,
            "shadow_stops": [_shadow(report) for report in history.shadows],
            "would_have_saved": history.would_have_saved,
            "shadow_cost": history.shadow_cost,
        }
    )


def _shadow(report: ShadowReport) -> ShadowStopOut:
    return ShadowStopOut.read(report, cost=None if report.saving is None else report.saving.in_all)
