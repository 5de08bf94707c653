"""Reads what an agent reports of a drill. Pure; whatever an agent sends is bounded and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite

from costguard.model.drill import DrillResult, DrillState

_MOST_NUMBER = 2**31 - 1
_MOST_SECONDS = 1e7
_MOST_TEXT = 300
_RESULTS = {one.value: one for one in (*DrillResult,) if one not in (DrillResult.NOT_RESUMED, DrillResult.NOT_HELD)}
_GOES_ON = frozenset({"yes", "no", "unknown"})


@dataclass(frozen=True, slots=True)
class DrillReport:
    """The state of a drill, by its agent."""

    number: int
    state: DrillState
    result: DrillResult | None
    began_at: datetime | None
    grace: timedelta | None
    saved: timedelta | None
    uploaded: timedelta | None
    resumed: timedelta | None
    goes_on: str
    checkpoint: str
    step: int | None
    step_before: int | None
    why: str
    was_killed: bool


def drill_report(fields: Mapping[str, object], moment: Callable[[object], datetime]) -> DrillReport | None:
    """Reads a report of a drill; None where it is not understood. `moment` reads a time by the guard's clock."""
    number, phase = _number(fields.get("number")), fields.get("phase")
    if not number or number > _MOST_NUMBER or phase not in {state.value for state in DrillState}:
        return None
    state, goes_on = DrillState(str(phase)), fields.get("resumed")
    result = _RESULTS.get(_text(fields.get("result"))) if state is DrillState.OVER else None
    if state is DrillState.OVER and result is None:
        return None
    if result is DrillResult.SAVED and goes_on == "no":
        result = DrillResult.NOT_RESUMED
    return DrillReport(
        number=number,
        state=state,
        result=result,
        began_at=moment(fields["began_at"]) if isinstance(fields.get("began_at"), str) else None,
        grace=_span(fields.get("grace_s")),
        saved=_span(fields.get("saved_s")),
        uploaded=_span(fields.get("uploaded_s")),
        resumed=_span(fields.get("resumed_s")),
        goes_on=str(goes_on) if goes_on in _GOES_ON else "",
        checkpoint=_text(fields.get("name")),
        step=_number(fields.get("saved_step")),
        step_before=_number(fields.get("step_before")),
        why=_text(fields.get("why")),
        was_killed=fields.get("was_killed") is True,
    )


def _number(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 2**63 else None


def _span(value: object) -> timedelta | None:
    if type(value) not in (int, float) or not isinstance(value, int | float) or not isfinite(value):
        return None
    return timedelta(milliseconds=round(value * 1000)) if 0 <= value < _MOST_SECONDS else None


def _text(value: object) -> str:
    return value[:_MOST_TEXT] if isinstance(value, str) else ""
