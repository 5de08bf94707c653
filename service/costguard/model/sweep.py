"""Sweeps: one job for each set of parameters, with a common ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from costguard.model.job import JobState
from costguard.model.money import Money

MOST_MEMBERS = 200


class SweepState(StrEnum):
    RUNNING = "running"  # some of its members are to be launched yet, or run
    SUCCEEDED = "succeeded"  # none failed
    FAILED = "failed"  # at least one failed, or could not be launched any more
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self is not SweepState.RUNNING


@dataclass(frozen=True, slots=True)
class Halving:
    """Says how losers are stopped: at each stage one part in `eta` of the members is sure to go on.

    `metric` is an evaluation as the output calls it, or "loss"; "" is the job's own metric.
    """

    eta: int
    metric: str
    better: str  # "lower" or "higher"

    @property
    def metric_text(self) -> str:
        return self.metric or "metric"


@dataclass(frozen=True, slots=True)
class MemberStop:
    """The stop of a member by halving. `rest` is an estimate of how long it would have run still; None: not known."""

    job_id: str
    stopped_at: datetime
    step: float
    unit: str
    reason: str
    rest: timedelta | None
    gpus: int  # of all its VMs
    saved: Money | None  # `rest` at its rate, an estimate; None: not known

    @property
    def gpu_time(self) -> timedelta | None:
        return None if self.rest is None else self.rest * self.gpus


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep as it stands. `reason` is one sentence: why it is in its state, and what comes next."""

    id: str  # such as s7k2m9q4
    name: str
    owner: str
    project: str
    preset: str
    at_once: int  # how many of its members may be open at a time
    ceiling: Money | None  # of all members together
    state: SweepState
    reason: str
    created_at: datetime
    via: str  # "api", "cli" or "page"
    round: int = 1  # one more each time that it is resumed
    settled_at: datetime | None = None
    cancel_asked_at: datetime | None = None
    cancel_asked_by: str = ""
    halving: Halving | None = None
    halving_ended_at: datetime | None = None
    halving_ended_by: str = ""

    @property
    def halves(self) -> bool:
        """Says whether halving may stop a member of it now."""
        is_open = self.state is SweepState.RUNNING and self.cancel_asked_at is None
        return is_open and self.halving is not None and self.halving_ended_at is None

    @property
    def title(self) -> str:
        return self.name or self.id


@dataclass(frozen=True, slots=True)
class MemberJob:
    """The state of a member's present job."""

    id: str
    state: JobState
    reason: str
    is_being_cancelled: bool = False


@dataclass(frozen=True, slots=True)
class SweepMember:
    """A set of parameters, and the job that follows from it.

    `tries` is the number of jobs that it is to have had: one more each time that it is resumed. `jobs` are those that
    it has had, the oldest first; while they are fewer than `tries`, the next is to be launched.
    """

    number: int  # 1 is the first
    parameters: Mapping[str, str]  # in the order of the file
    tries: int = 1
    jobs: tuple[str, ...] = ()
    kept_by: str = ""  # who keeps it from being stopped by halving; "": no one does
    stop: MemberStop | None = None  # of its last job, by halving

    @property
    def job_id(self) -> str:
        """The present job's; "" while it is to be launched yet."""
        return self.jobs[-1] if len(self.jobs) >= self.tries else ""
