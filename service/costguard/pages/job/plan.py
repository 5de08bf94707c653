"""The plan of a job with a deadline, as its page draws it: progress over time, and the latest safe moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.jobs.decide.planned import JobPlan, PlannedStep, ShadowChoice, StoredPlan
from costguard.jobs.rows import job_rows, plan_rows
from costguard.model.duration import span_text
from costguard.pages.page import ShownJob

_WIDTH, _HEIGHT = 1000, 160
_SHOWN = 12
_NAMES = {
    "on_demand": "All on demand",
    "greedy": "Spot until the last moment",
    "uniform_progress": "Uniform Progress",
    "planner": "Least expected cost",
}


@dataclass(frozen=True, slots=True)
class ProgressCurve:
    """The curve of a plan. Across, thousandths of the time from launch to deadline; down, pixels of the work that is
    left.

    `line` is the work left over time, `even` the straight line to the deadline; `safe_x` the latest safe moment, when
    on-demand must start if nothing is gained before.
    """

    line: str
    even: str
    safe_x: int | None
    now_x: int
    most: str
    words: str
    height: int = _HEIGHT
    width: int = _WIDTH


@dataclass(frozen=True, slots=True)
class ShownPlan:
    stored: StoredPlan
    plan: JobPlan | None
    curve: ProgressCurve | None
    decisions: Sequence[PlannedStep]  # the newest first
    shadow: Sequence[tuple[str, ShadowChoice]]
    behind: str


def plan_of_job(shown: ShownJob) -> ShownPlan | None:
    """Returns the plan of a job; None where nothing was planned for it."""
    stored = plan_rows.of_jobs(shown.connection, [shown.id]).get(shown.id)
    job = job_rows.read(shown.connection, shown.id) if stored is not None else None
    if stored is None or job is None:
        return None
    plan = stored.plan
    deadline = job.spec.deadline
    return ShownPlan(
        stored,
        plan,
        None if deadline is None else _curve(stored, job.created_at, deadline, job.settled_at or shown.accrual.now),
        tuple(reversed(stored.decisions))[:_SHOWN],
        [(_NAMES.get(choice.policy, choice.policy), choice) for choice in stored.shadow],
        _behind(plan.behind) if plan is not None else "",
    )


def _curve(stored: StoredPlan, begin: datetime, deadline: datetime, now: datetime) -> ProgressCurve | None:
    """Draws the curve of a plan; None before there are two points."""
    whole = max(deadline, now) - begin
    if len(stored.curve) < 2 or whole <= timedelta():
        return None
    most = max(point.work_left for point in stored.curve)
    if most <= timedelta():
        return None

    def x(moment: datetime) -> int:
        return min(max(round(_WIDTH * ((moment - begin) / whole)), 0), _WIDTH)

    def y(left: timedelta) -> int:
        return round(_HEIGHT * (1 - left / most))

    points = [(x(point.at), y(point.work_left)) for point in stored.curve]
    last = stored.curve[-1]
    safe = last.latest_safe_at
    return ProgressCurve(
        line=" ".join(f"{across},{down}" for across, down in points),
        even=f"0,{y(stored.curve[0].work_left)} {x(deadline)},{_HEIGHT}",
        safe_x=x(safe) if safe is not None and safe > now else None,
        now_x=x(now),
        most=span_text(most),
        words=f"{span_text(last.work_left)} of work were left at the last look, and {span_text(most)} at most.",
    )


def _behind(behind: timedelta | None) -> str:
    if behind is None:
        return ""
    return f"{span_text(behind)} behind an even pace" if behind > timedelta() else f"{span_text(-behind)} ahead of it"
