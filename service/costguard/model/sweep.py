"""Sweeps: one job for each set of parameters, with a common ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
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

    @property
    def job_id(self) -> str:
        """The present job's; "" while it is to be launched yet."""
        return self.jobs[-1] if len(self.jobs) >= self.tries else ""
