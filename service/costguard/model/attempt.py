"""Attempts: one VM trying to do a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from costguard.model.data import DataTransfer
from costguard.model.generation import FIRST, AttemptName
from costguard.model.instance import ProvisioningModel
from costguard.model.launch import NO_NOTICE, AddressChoice
from costguard.model.money import Money
from costguard.model.reported.hang import Hang
from costguard.model.reported.metric import SeenMetric
from costguard.model.reported.progress import SeenProgress

PUBLISHING = "publishing"
SAVING = "saving"
STANDING_BY = "standing_by"
VM_HOURS = "vm_hours"  # why a command is stopped whose VMs have run for as long as they may
HUNG = "hang"  # why a command is stopped that makes no progress and is to run again
SETUP_FAILED = "setup_failed"  # the reason of an exit: the command never started
FINAL_STOPS = frozenset({"ceiling", VM_HOURS, "deadline"})  # a limit of the job itself, after which none is launched
# What an agent does for the command before and after it runs; see `phase` in agent/PROTOCOL.md.
PHASES = {
    "downloading": "downloading its data",
    "setup": "running its setup",
    SAVING: "saving its checkpoints",
    PUBLISHING: "publishing its outputs",
    STANDING_BY: "ready, and waits for the VM before it to stop",
}

ATTEMPT_LABEL = "costguard-attempt"  # on a VM: the name of the attempt that it was made for
# On a VM that a managed instance group of ours made: the group's name. All VMs of a group have the same labels, so that
# the VM's own name is its attempt's.
GROUP_LABEL = "costguard-group"
_GROUP_NAME = re.compile(r"(cg-[a-z0-9-]+)-[0-9a-f]{8}")


def labelled_attempt(labels: Mapping[str, str], name: str) -> str | None:
    """Returns the attempt that a VM of this name says it was made for; None where its labels name none."""
    return name if GROUP_LABEL in labels else labels.get(ATTEMPT_LABEL)


def group_name(first: str, request_uuid: str) -> str:
    """Returns the name of the group that is made for this intent of an attempt, the first of a gang's formation."""
    return f"{first}-{request_uuid[:8]}"


def is_group_name(name: str) -> bool:
    """Says whether a group of ours may have this name."""
    match = _GROUP_NAME.fullmatch(name)
    return match is not None and AttemptName.parse(match[1]) is not None


def attempt_name(job_id: str, number: int, generation: int = FIRST) -> str:
    """Returns the name of an attempt and of its VM: legal for both, and never used twice, nor again after an older
    database was restored.
    """
    return str(AttemptName(job_id, number, generation))


class AttemptState(StrEnum):
    INTENDED = "intended"  # committed; Google may or may not have been asked
    ASKED = "asked"  # Google accepted the insert, and its operation is not done
    WAITING = "waiting"  # there is a VM that Google lists as PENDING: a request for flex-start, which does not bill
    BOOTING = "booting"  # there is a VM, and no word yet that the command runs
    RUNNING = "running"  # the command runs
    RESTING = "resting"  # stopped, or about to be, to be started again: its disk holds the checkpoints
    RESTARTING = "restarting"  # its start was committed; Google may or may not have been asked
    ENDING = "ending"  # its outcome is known; whether its VM is gone is not
    KEPT = "kept"  # its outcome is known, and its VM is stopped: the disk holds the only copy of what it saved
    OVER = "over"  # its outcome is known, and there is no VM of it (any more)


class Outcome(StrEnum):
    """The way in which an attempt, or one run of it, ended."""

    SUCCEEDED = "succeeded"
    CRASHED = "crashed"  # the command ended by itself, with a code or signal other than success
    NOT_PUBLISHED = "not_published"  # the command succeeded, and its outputs could not be published
    NOT_STARTED = "not_started"  # the agent could not start the command, or did not come up
    PREEMPTED = "preempted"
    HOST_ERROR = "host_error"  # host errors and maintenance
    LOST = "lost"  # silent, or gone, and nothing says why
    REMOVED = "removed"  # a person stopped or deleted the VM
    TIME_LIMIT = "time_limit"  # maxRunDuration
    STOCKOUT = "stockout"
    QUOTA = "quota"
    REFUSED = "refused"  # Google refused the request for what it says
    CANCELLED = "cancelled"
    PAUSED = "paused"  # a budget is spent
    MOVED = "moved"  # stopped to go on elsewhere, as planned


class Notice(StrEnum):
    """The first source that reported a preemption or the end of a run."""

    NOTICE = "notice"  # the VM's metadata server, through the agent
    EXIT = "exit"  # the agent told the end
    OPERATION = "operation"  # Google's system event
    STATUS = "status"  # the VM's status in a list
    SILENCE = "silence"  # the agent was not heard any more


class Retry(StrEnum):
    """The VM on which another attempt may do better."""

    NO = "no"  # nowhere: it would fail in the same way
    OTHER_VM = "other_vm"
    SAME = "same"  # also on the same VM: what was missing may be back


@dataclass(frozen=True, slots=True)
class Exit:
    """The agent's last word about a run; see `exit` in agent/PROTOCOL.md."""

    reason: str  # "exited", "not_published", "setup_failed", "not_started" or "cut_off"
    at: datetime
    code: int | None = None
    signal: int | None = None
    error: str = ""
    asked: str = ""  # why the command had to stop; "" where it ended by itself
    repeats: bool = False  # the same would happen on every VM, as the agent saw it
    disk_free: int | None = None  # bytes; None: not known
    disk_mount: str = ""
    last_line: str = ""  # of the output; "" where there is none, or of an end that was stored without
    retry: Retry | None = None  # where another try may do better, by the output; None: it does not say

    @property
    def is_success(self) -> bool:
        """Code 0 that was asked for is none: many trainers save and leave with 0."""
        return self.reason == "exited" and self.code == 0 and not self.asked


@dataclass(frozen=True, slots=True)
class EndedRound:
    """Holds how a round of a gang, a job of several VMs, ended on one of them, whose VM stays.

    `lost_peer`: by its output, the command ended because another VM went away. `unreached` are the nodes that it could
    not reach before the command.
    """

    number: int
    exit: Exit
    lost_peer: bool = False
    unreached: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentState:
    """The agent's last report of the present run. All of it is None or empty before its first report."""

    at: datetime | None = None  # when the guard heard it last
    run: int = 0
    booted_at: datetime | None = None
    started_at: datetime | None = None
    noticed_at: datetime | None = None  # of a preemption
    maintenance_at: datetime | None = None
    step: int | None = None
    step_at: datetime | None = None
    metric: SeenMetric | None = None  # of all its runs
    progress: SeenProgress | None = None
    machine: Mapping[str, object] = field(default_factory=dict)
    output: str = ""  # the last part
    image_digest: str = ""  # sha256:..., of the image that was pulled; "" before that, or where no registry knows it
    setup: timedelta | None = None  # how long the setup before the command took; None: it did not run in this run
    phase: str = ""  # what it does for the command, such as "downloading"; "" while the command runs
    transfers: tuple[DataTransfer, ...] = ()
    hang: Hang | None = None  # while the command makes no progress
    exit: Exit | None = None
    accepted_through: int = 0
    # Of a gang's VM: its internal address, the round that it is ready for, and how its last round ended.
    internal_address: str = ""
    ready_round: int = 0
    ended_round: EndedRound | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A VM for a job. `name` and `request_uuid` are committed before Google is asked, and never change."""

    id: int
    job_id: str
    number: int  # 1 is the first
    name: str
    project: str
    zone: str
    provisioning_model: ProvisioningModel
    request_uuid: str
    max_run: timedelta
    state: AttemptState
    intended_at: datetime
    generation: int = FIRST  # of the database that held its intent
    rate: Money | None = None  # an hour, machine, disk and address, as estimated then
    resume_from: str = ""  # "" starts from the beginning
    resume_step: int | None = None
    resume_why: str = ""  # why it is not simply the newest complete checkpoint; "" where it is
    image: str = ""  # the container image that its VM is given, with its digest once that is known
    outcome: Outcome | None = None
    reason: str = ""  # one sentence about the outcome
    asked_at: datetime | None = None
    operation: str = ""  # of the insert, or of the last start
    gce_id: str = ""
    made_at: datetime | None = None  # when its VM was known to be there
    stop_asked_at: datetime | None = None  # since when its agent has to give the command its notice
    stop_why: str = ""  # "cancel", "pause", "ceiling", "vm_hours", "deadline", "limit", "move" or "hang"
    ended_at: datetime | None = None  # when its outcome was known
    zones_available: tuple[str, ...] = ()  # of a stockout: where Google said then that there was room
    delete_asked_at: datetime | None = None
    gone_at: datetime | None = None
    rested_at: datetime | None = None  # when its VM was seen stopped, to be started again
    restarts: int = 0  # starts of the same VM
    tries: int = 0  # of the present call to Google
    try_after: datetime | None = None
    error: str = ""  # of the last call
    address: AddressChoice | None = None  # None: as its job's recipe says, or it was adopted
    follows: int | None = None  # the number of the attempt that ran while this one's VM was made ready
    ready_at: datetime | None = None  # when its agent first said that nothing but the guard's word was missing
    released_at: datetime | None = None  # when that word was given
    # Of a preemption, as its VM was asked for; None: not known, of a VM that was adopted.
    notice: timedelta | None = NO_NOTICE
    # Of a gang: its place in it, from 0; the number of the first attempt that was requested in the same place together
    # with it, 0 in a job of one VM; and the last round that its command was let begin in.
    node: int = 0
    formation: int = 0
    round: int = 0
    # Of a gang on flex-start: the managed instance group that makes its VM, whose template has the same name; the
    # group's resize request that it is part of; and the digest of the secret of the agent that was given its token.
    vm_group: str = ""
    resize_request: str = ""
    claimed_by: str = ""
    agent: AgentState = field(default_factory=AgentState)

    @property
    def is_open(self) -> bool:
        """Says whether its outcome is not known yet."""
        return self.outcome is None

    @property
    def took_over(self) -> bool:
        """Says whether its command may run: it follows no other attempt, or the one before it has ended."""
        return self.follows is None or self.released_at is not None or self.agent.started_at is not None

    @property
    def stands_by(self) -> bool:
        """Says whether its VM is prepared, or ready, while another one runs the job's command."""
        return self.is_open and not self.took_over


@dataclass(frozen=True, slots=True)
class Interruption:
    """A run that ended before the work was done, counted once whatever reported it: key (attempt, run).

    `run` is the agent's count; 0, and -1 and on after restarts, where no agent spoke before the end. `happened_at` is
    Google's moment where it is known. `lost` is the work since the checkpoint that was resumed from, `lost_cost` what
    it had cost; None: not known. `from_zero`: there was no checkpoint, so all of it was lost.
    """

    attempt_id: int
    job_id: str
    run: int
    outcome: Outcome
    happened_at: datetime
    noticed_at: datetime
    noticed_by: Notice
    requested_at: datetime | None = None  # the next VM, or its start, was asked of Google
    resumed_at: datetime | None = None  # the command runs again
    lost: timedelta | None = None
    lost_cost: Money | None = None
    from_zero: bool = False
    started_at: datetime | None = None  # when its command had begun; None: it had not, or nobody knows


@dataclass(frozen=True, slots=True)
class GangRound:
    """A round of a gang: what all its VMs did together, from one checkpoint.

    `started_at` is when the last of its commands began, since none gets further without it; None: not all did.
    `ended_at` is when the first of them ended without success; None: it goes on. `outcome` is of the VM that ended it.
    `lost` is the work of this and earlier rounds since the checkpoint that the next one resumed from; None: not known.
    """

    number: int
    started_at: datetime | None
    ended_at: datetime | None
    released_at: datetime | None = None  # when its VMs were let begin
    outcome: Outcome | None = None
    reason: str = ""  # one sentence about its end
    resume_from: str = ""  # "" started from the beginning
    resume_step: int | None = None
    step: int | None = None  # the last that node 0 reported in it
    rate: Money | None = None  # an hour of all its VMs; None: that of one is not known
    vms: int | None = None  # how many ran it; None: it was recorded before that was
    lost: timedelta | None = None
    lost_cost: Money | None = None
    from_zero: bool = False


class MemberRun(NamedTuple):
    """The run of one VM in a round, as far as it is known."""

    started_at: datetime | None
    ended_at: datetime | None
    is_success: bool = False


def run_in_round(
    member: MemberRun,
    number: int,
    run: int,
    cuts: Iterable[Interruption],
    exit_at: datetime | None,
    fallen: tuple[int, datetime] | None,
) -> MemberRun:
    """Returns the present run of one VM, in this round: it ended where it was cut, where it exited, or with the round
    (`fallen`, with its time) that its agent last reported as ended. Without any of these it ended as its attempt did.

    `run` is the agent's count, and `cuts` are all interruptions of the attempt.
    """
    moments = [cut.happened_at for cut in cuts if cut.run == run]
    if exit_at is not None:
        moments.append(exit_at)
    if fallen is not None and fallen[0] == number:
        moments.append(fallen[1])
    return member._replace(ended_at=min(moments, default=member.ended_at))


def span_of_round(members: Sequence[MemberRun], has_steps: bool) -> tuple[datetime | None, datetime | None]:
    """Returns since when and until when the VMs of a round worked together; see `GangRound`.

    Steps prove that all of them had begun, also where the start of one was never reported.
    """
    starts = [one.started_at for one in members if one.started_at is not None]
    began = max(starts) if starts and (has_steps or len(starts) == len(members)) else None
    ends = [one.ended_at for one in members if one.ended_at is not None and not one.is_success]
    if not ends and members and all(one.is_success for one in members):
        return began, max((one.ended_at for one in members if one.ended_at is not None), default=None)
    ended = min(ends, default=None)
    return (None if began is not None and ended is not None and ended <= began else began), ended
