"""What was stopped or would have been, and what that saved."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated, Any

from fastapi import Query as Parameter
from pydantic import Field

from costguard.api.days import DaysQuery, beginning
from costguard.api.deps import Given
from costguard.api.fields import CURRENCY, Amount, Moment, Out, one_of
from costguard.api.route import routes
from costguard.ledger.accrual import book_of
from costguard.model.action import StopOutcome
from costguard.spend import enforcements
from costguard.spend.enforced import StopRow
from costguard.spend.savings import SHADOW_METHOD, STOP_METHOD, Bound, Saving
from costguard.spend.spend_rows import day_start

router = routes("reminders")


class Saved(Out):
    amount: Amount
    since: Moment
    until: Moment
    bound: Annotated[str, one_of(Bound)] = Field(description="What ended the time that counts.")


class Decided(Out):
    id: int
    project: str
    gce_id: str
    name: str
    zone: str
    preset: str
    owner: str
    decided_at: Moment
    rule: str
    reason: str
    asked_by: str = Field(description="Who asked for it; empty: a rule did.")
    reminder: str = Field(description="The key of the message whose grace had passed; empty where somebody asked.")
    reminders: int = Field(description="Reminders that Slack had accepted before it.")
    evidence: dict[str, Any]


class Stop(Decided):
    outcome: Annotated[str, one_of(StopOutcome)]
    error: str
    rate_per_hour: Amount | None = Field(description="What the stop took off; null: it has not stopped.")
    saved: Saved | None = Field(description="An estimate; null: it has not stopped.")


class Shadow(Decided):
    would_have_saved: Saved | None = Field(description="null: its run is not in the ledger.")
    cost: Amount | None = Field(description="What it cost from then until it ended, or until now, however long.")


class Enforcement(Out):
    as_of: Moment
    currency: str = CURRENCY
    from_: date = Field(alias="from", description="The first UTC day.")
    to: date = Field(description="The last UTC day.")
    is_shadow: bool = Field(description="Now: rules stop nothing, and it is recorded what they would have stopped.")
    stops: list[Stop]
    saved: Amount
    method: str = Field(default=STOP_METHOD, description="How the estimate is made.")
    shadow_stops: list[Shadow]
    would_have_saved: Amount
    shadow_cost: Amount
    shadow_method: str = SHADOW_METHOD


@router.get(
    "/enforcement", summary="What was stopped or would have been, and what that saved", operation_id="getEnforcement"
)
def enforcement(deps: Given, query: Annotated[DaysQuery, Parameter()]) -> Enforcement:
    """Stops by when they were decided, the latest first, each with its rule, reminder and evidence."""
    now = deps.clock.now()
    first, last = query.days(now.date())
    since, until = day_start(first), day_start(last) + timedelta(days=1)
    with deps.database.read() as connection:
        found = enforcements.enforcements(connection, book_of(connection), now, since, until)
    return Enforcement(
        as_of=now,
        **beginning(first),
        to=last,
        is_shadow=deps.rules.is_shadow,
        stops=[_stop(each) for each in found.stops],
        saved=Amount.of(found.saved),
        shadow_stops=[_shadow(each) for each in found.shadows],
        would_have_saved=Amount.of(found.would_have_saved),
        shadow_cost=Amount.of(found.shadow_cost),
    )


def _stop(of: enforcements.StopReport) -> Stop:
    return Stop(
        **_decided(of.stop),
        outcome=of.stop.outcome.value,
        error=of.stop.error,
        rate_per_hour=None if of.rate is None else Amount.of(of.rate),
        saved=_saved(of.saving),
    )


def _shadow(of: enforcements.ShadowReport) -> Shadow:
    whole = None if of.saving is None else of.saving.in_all
    return Shadow(
        **_decided(of.stop), would_have_saved=_saved(of.saving), cost=None if whole is None else Amount.of(whole)
    )


def _decided(of: StopRow) -> dict[str, Any]:
    return {
        "id": of.id,
        "project": of.key.project,
        "gce_id": of.key.gce_id,
        "name": of.name,
        "zone": of.zone,
        "preset": of.preset,
        "owner": of.owner,
        "decided_at": of.intended_at,
        "rule": of.rule,
        "reason": of.reason,
        "asked_by": of.asked_by,
        "reminder": of.reminder,
        "reminders": of.reminders,
        "evidence": dict(of.evidence),
    }


def _saved(of: Saving | None) -> Saved | None:
    if of is None:
        return None
    return Saved(amount=Amount.of(of.amount), since=of.since, until=of.until, bound=of.bound.value)
