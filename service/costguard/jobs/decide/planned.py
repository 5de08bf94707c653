"""The plan of a job with a deadline: where it runs next and why, whether its promise holds, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from costguard.deadlines.situation import Act
from costguard.model.instance import ProvisioningModel

_DECISIONS = 60  # that are kept of a plan
_POINTS = 240  # of its curve


@dataclass(frozen=True, slots=True)
class WorkLeft:
    """The time that the job still takes on a VM that is ready; decisions use `most`."""

    likely: timedelta
    most: timedelta
    source: str  # in a few words, such as "30,000 steps at 1,500 an hour"


@dataclass(frozen=True, slots=True)
class Overhead:
    """The cost of a start in time. `loss` is the most work that a preemption can undo."""

    start: timedelta  # the 99th percentile, from the loss of one VM to work on the next
    loss: timedelta

    @property
    def whole(self) -> timedelta:
        return self.start + self.loss


class Risk(StrEnum):
    """The reason why a deadline cannot be promised any more."""

    WORK = "work"  # it takes longer than there is time
    STOCK = "stock"  # no on-demand VM is to be had
    NO_ON_DEMAND = "no_on_demand"  # the job may not use any
    CEILING = "ceiling"
    VM_HOURS = "vm_hours"  # its VMs may not run for as long as its work takes
    FAILURES = "failures"
    HELD = "held"  # a budget holds it up, or what runs for it is not known
    UNSAVED = "unsaved"


@dataclass(frozen=True, slots=True)
class AtRisk:
    risk: Risk
    text: str  # one or two sentences: why, when it is expected to finish, and what would help


@dataclass(frozen=True, slots=True)
class JobPlan:
    """The present choice of the policy. `zone` is where Spot is started; "" otherwise.

    `is_urgent`: the guard acts, so nothing is waited for. `behind` is how far the work is behind the straight line to
    the deadline; None: nobody knows. `latest_safe_at` is when the guard would act if nothing were gained before; None:
    no on-demand VM is available, so it cannot act.
    """

    act: Act
    reason: str
    zone: str = ""
    is_urgent: bool = False
    work_left: WorkLeft | None = None
    overhead: Overhead | None = None
    latest_safe_at: datetime | None = None
    finishes_at: datetime | None = None
    behind: timedelta | None = None
    at_risk: AtRisk | None = None

    @property
    def wants(self) -> ProvisioningModel | None:
        """Returns the provisioning model that it wants started; None: nothing."""
        if self.act is Act.START_SPOT:
            return ProvisioningModel.SPOT
        if self.act is Act.START_FLEX:
            return ProvisioningModel.FLEX_START
        return ProvisioningModel.STANDARD if self.act is Act.START_ON_DEMAND else None

    @property
    def drops_flex(self) -> bool:
        """Says whether a request of flex-start that waits is not wanted any more."""
        return self.act in (Act.DROP_FLEX, Act.START_SPOT, Act.START_ON_DEMAND)


@dataclass(frozen=True, slots=True)
class ShadowChoice:
    """The present choice of another policy."""

    policy: str
    act: str
    zone: str
    reason: str


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A decision, which holds from `at` until the next one."""

    at: datetime
    act: str
    zone: str
    reason: str
    latest_safe_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ProgressPoint:
    """The work left at a moment, as it was estimated then."""

    at: datetime
    work_left: timedelta
    latest_safe_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """`plan` is None for a job without a deadline, of which only the shadow is known; it is drawn for `as_if`."""

    job_id: str
    updated_at: datetime
    plan: JobPlan | None = None
    decisions: tuple[PlannedStep, ...] = ()
    curve: tuple[ProgressPoint, ...] = ()
    shadow: tuple[ShadowChoice, ...] = ()
    as_if: datetime | None = None

    def after(
        self, plan: JobPlan | None, shadow: tuple[ShadowChoice, ...], as_if: datetime | None, now: datetime
    ) -> StoredPlan:
        """Adds this plan from now on; decisions are added where they changed, and the curve is thinned evenly."""
        decisions, curve = self.decisions, self.curve
        if plan is not None:
            last = decisions[-1] if decisions else None
            if last is None or (last.act, last.zone) != (plan.act.value, plan.zone):
                new = PlannedStep(now, plan.act.value, plan.zone, plan.reason, plan.latest_safe_at)
                decisions = (*decisions, new)[-_DECISIONS:]
            if plan.work_left is not None:
                curve = thinned((*curve, ProgressPoint(now, plan.work_left.likely, plan.latest_safe_at)))
        return replace(
            self, updated_at=now, plan=plan, decisions=decisions, curve=curve, shadow=shadow or self.shadow, as_if=as_if
        )


def thinned(curve: tuple[ProgressPoint, ...]) -> tuple[ProgressPoint, ...]:
    """Every second of the older points is left out once there are too many; the newest stays."""
    return curve if len(curve) <= _POINTS else (*curve[:-1:2], curve[-1])
