"""The possible outcomes of a decision about one job: its next state, and the actions for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from costguard.model.attempt import GangRound, Interruption, Outcome
from costguard.model.instance import ProvisioningModel
from costguard.model.job import JobState
from costguard.model.launch import AddressChoice
from costguard.model.money import Money


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
    follows: int | None = None  # the attempt that runs on while this one's VM is made ready
    address: AddressChoice | None = None
    # Of a gang: its place in it, and the number of the first attempt that was requested there; 0 in a job of one VM.
    node: int = 0
    formation: int = 0


@dataclass(frozen=True, slots=True)
class MakePlacementPolicy:
    """Make the job's compact placement policy in a region, or look whether Google has made it."""

    job_id: str
    region: str


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

    `interruption` is recorded with it where work was interrupted.
    """

    attempt_id: int
    outcome: Outcome
    reason: str
    interruption: Interruption | None = None


@dataclass(frozen=True, slots=True)
class RestAttempt:
    """Restarts a VM that was stopped, or is stopped now, with its disk."""

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
    """Ask the command to stop: the agent gets this in the answer to its next report."""

    attempt_id: int
    why: str  # "cancel", "pause", "ceiling", "vm_hours", "deadline", "limit", "move" or "hang"
    reason: str


@dataclass(frozen=True, slots=True)
class LetBegin:
    """Let the command of an attempt that stands by begin: nothing of the attempt before it can write any more."""

    attempt_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class LetRoundBegin:
    """Let all members of a gang begin a round, from one checkpoint: all stand by, and nothing else can write."""

    job_id: str
    round: int
    attempt_ids: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class NextRound:
    """End the round of a gang: its members stop their commands and stand by for this one.

    `interruption` is recorded with it where the command failed by itself, with all VMs alive, and `over` is what the
    round that it ends did.
    """

    job_id: str
    round: int
    reason: str
    interruption: Interruption | None = None
    over: GangRound | None = None


@dataclass(frozen=True, slots=True)
class CancelAfterCheckpoint:
    """Ask for its cancel, in the name of the person who wanted it after a checkpoint."""

    job_id: str
    by: str
    reason: str


JobAction = (
    LaunchAttempt
    | MakePlacementPolicy
    | AskAgain
    | EndAttempt
    | RestAttempt
    | RestartVm
    | StopVm
    | DeleteVm
    | DeleteOrphan
    | TellCommandToStop
    | LetBegin
    | LetRoundBegin
    | NextRound
    | CancelAfterCheckpoint
)


@dataclass(frozen=True, slots=True)
class Proposal:
    state: JobState
    reason: str
    actions: tuple[JobAction, ...] = ()
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobDecision:
    """The state of the job from now on, and the actions for it. `state` is final once `job.state.is_over`."""

    job_id: str
    state: JobState
    reason: str
    actions: tuple[JobAction, ...] = ()
    next_at: datetime | None = None  # nothing changes by itself before; None: only news changes it
