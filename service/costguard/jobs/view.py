"""What a decision about one job rests on, and what was decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from costguard.model.attempt import Attempt, Interruption, Notice, Outcome
from costguard.model.generation import Generation
from costguard.model.instance import ProvisioningModel, Status
from costguard.model.job import Job, JobState, SeenCheckpoint, Terms
from costguard.model.lifetime import EndReason
from costguard.model.money import Money, Priced


@dataclass(frozen=True, slots=True)
class VmStanding:
    """An attempt's VM as the ledger shows it. `is_known` is false where its zone could not be read."""

    status: Status
    is_known: bool = True
    gone_at: datetime | None = None
    ended_at: datetime | None = None  # of its last lifetime; None while it runs, or before it ever ran
    end_reason: EndReason | None = None
    ended_by: str = ""
    started_at: datetime | None = None  # of its last lifetime


@dataclass(frozen=True, slots=True)
class AttemptView:
    attempt: Attempt
    vm: VmStanding | None = None  # None: the ledger has not seen it


@dataclass(frozen=True, slots=True)
class JobView:
    """Everything about one job. `attempts` are all of it, the oldest first; at most the last one is open.

    `cost` is what all attempts came to so far. `hold` is why no VM may be launched for it now ("" lets it), such as a
    budget that is spent; `pause` why a running Spot VM of it is to be stopped once it has saved.
    """

    job: Job
    attempts: tuple[AttemptView, ...] = ()
    interruptions: tuple[Interruption, ...] = ()
    cost: Priced = field(default_factory=Priced)
    checkpoint: SeenCheckpoint | None = None
    hold: str = ""
    pause: str = ""
    pause_at: datetime | None = None  # None: since nobody knows when, so nothing is waited for
    unknown: str = (
        ""  # why nothing may be launched at all: another VM may be at work on it, or none could be looked for
    )

    @property
    def last(self) -> AttemptView | None:
        return self.attempts[-1] if self.attempts else None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What holds for all jobs at one moment.

    `listening_since` is when this guard began to hear agents: silence before that was its own. `all_silent`: of
    several agents none is heard, so that the guard's own door is suspected, and silence proves nothing.
    """

    terms: Terms
    now: datetime
    listening_since: datetime
    all_silent: bool = False
    generation: Generation = field(default_factory=Generation)


@dataclass(frozen=True, slots=True)
class LaunchAttempt:
    """Commit the next attempt in this place, and ask Google for its VM."""

    job_id: str
    number: int
    zone: str
    provisioning_model: ProvisioningModel
    max_run: timedelta
    reason: str  # why here
    rate: Money | None = None


@dataclass(frozen=True, slots=True)
class AskAgain:
    """An insert, start or delete whose answer is not known, or whose operation is not done: ask or look again.

    `only_looks`: an insert is not repeated, for another VM may be at work on the job.
    """

    attempt_id: int
    reason: str
    only_looks: bool = False


@dataclass(frozen=True, slots=True)
class EndAttempt:
    """Write down how it ended. Its VM is deleted after that, or stopped and kept, or was never there.

    `interruption` is written beside it where work was interrupted.
    """

    attempt_id: int
    outcome: Outcome
    reason: str
    interruption: Interruption | None = None


@dataclass(frozen=True, slots=True)
class RestAttempt:
    """Its VM was stopped, or is stopped now, and will be started again with its disk."""

    attempt_id: int
    reason: str
    interruption: Interruption


@dataclass(frozen=True, slots=True)
class RestartVm:
    """Start the same VM again."""

    attempt_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class StopVm:
    """Stop the VM of an attempt whose run has ended, and see whether it is there: its disk holds what was saved."""

    attempt_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteVm:
    """Delete the VM of an attempt that is ending, or see whether it is gone."""

    attempt_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class DeleteOrphan:
    """Delete a VM whose intent the ledger gave up, or that an admin wants deleted; `keeps_disk`: stop it, and no more.

    `request_uuid` is that of its label; "" where it has none.
    """

    project: str
    zone: str
    name: str
    gce_id: str
    reason: str
    keeps_disk: bool = False
    request_uuid: str = ""


@dataclass(frozen=True, slots=True)
class TellCommandToStop:
    """The agent is told to give the command its notice, at its next word."""

    attempt_id: int
    why: str  # "cancel", "pause" or "ceiling"
    reason: str


JobAction = (
    LaunchAttempt
    | AskAgain
    | EndAttempt
    | RestAttempt
    | RestartVm
    | StopVm
    | DeleteVm
    | DeleteOrphan
    | TellCommandToStop
)


@dataclass(frozen=True, slots=True)
class JobDecision:
    """How the job stands from now on, and what is done for it. `state` is final once `job.state.is_over`."""

    job_id: str
    state: JobState
    reason: str
    actions: tuple[JobAction, ...] = ()
    next_at: datetime | None = None  # nothing changes by itself before; None: only news changes it


__all__ = [
    "AskAgain",
    "AttemptView",
    "Circumstances",
    "DeleteOrphan",
    "DeleteVm",
    "EndAttempt",
    "JobAction",
    "JobDecision",
    "JobView",
    "LaunchAttempt",
    "Notice",
    "RestAttempt",
    "RestartVm",
    "StopVm",
    "TellCommandToStop",
    "VmStanding",
]
