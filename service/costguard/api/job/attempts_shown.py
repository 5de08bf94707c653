"""Attempts, the VMs that try a job, and their interruptions, as the API shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field

from costguard.api.fields import Moment, Out, Provisioning, Seconds, Usd, one_of, read_from
from costguard.api.vm_parts import AddressOut
from costguard.jobs.decide.checkpoints.disk import DiskState, disk_of
from costguard.model.attempt import SETUP_FAILED, Attempt, AttemptState, Notice, Outcome
from costguard.model.data import TransferState
from costguard.model.reported.hang import KINDS, PHASES


class ExitOut(Out):
    """The agent's final report of a run."""

    reason: Annotated[str, one_of(("exited", "not_published", SETUP_FAILED, "not_started", "cut_off"))]
    code: int | None
    signal: int | None
    error: str
    repeats: bool = Field(description="True: the error would happen on every VM, so it is not tried again.")
    asked: str = Field(description="The reason why the command was notified to stop; empty where it ended by itself.")
    at: Moment


class DiskOut(Out):
    """The VM's filesystem that holds the command's output, unless that is mounted from elsewhere."""

    state: Annotated[str, one_of(DiskState)]
    mount: str = Field(examples=["/"])
    free_bytes: int = read_from("free")
    total_bytes: int | None = read_from("total")
    text: str = Field(description="`disk full: 0 bytes left on /`; empty while there is room.")


class TransferOut(Out):
    """A download or upload of a VM, by its agent's last report."""

    kind: str = Field(description="input, output, or result: a checkpoint that is published.")
    source: str
    target: str
    state: Annotated[str, one_of(TransferState)] = Field(description="`skipped`: all of it was there already.")
    bytes_done: int | None = Field(description="The bytes moved; null in this and the other figures: not known.")
    bytes_total: int | None
    files_done: int | None
    files_total: int | None
    bytes_per_s: int | None
    seconds: int | None
    error: str = Field(description="The reason why it is tried again, while it is running.")
    note: str = Field(
        description="Says which checkpoint a result is; empty for inputs and outputs.",
        examples=["step 20, the best: its metric is 1.0"],
    )
    from_source: int | None = Field(
        description="The bytes of a staged input that came from its source, which charges for them; null: not staged."
    )
    text: str = Field(examples=["downloading: 1.2 GiB of 4.0 GiB, 300 of 1,000 files, 110.0 MiB a second"])


class HangOut(Out):
    """A command that no longer makes progress."""

    since: Moment = Field(description="The time of its last step.")
    kind: Annotated[str, one_of(KINDS)] = Field(
        description=(
            "`still`: nothing moves; computing: nothing is printed or written; printing: it prints, but makes no steps."
        )
    )
    phase: Annotated[str, one_of(PHASES)]
    bound_seconds: Seconds = read_from("bound", description="The silence after which it counts as a hang.")
    step: int | None
    text: str = Field(description="The evidence, and the pace of its steps before.")
    where: str = Field(
        description="The stacks of its threads where reading them was permitted, else the calls that they wait in."
    )


class AttemptOut(Out):
    """A VM of a job, with the reports of its agent's latest run."""

    number: int
    name: str
    project: str
    zone: str
    provisioning_model: Provisioning
    state: Annotated[str, one_of(AttemptState)]
    outcome: Annotated[str, one_of(Outcome)] | None = Field(
        description="The outcome of the attempt; null: not known yet."
    )
    reason: str
    rate_per_hour: Usd | None = read_from("rate")
    max_run_seconds: Seconds = read_from("max_run")
    address: AddressOut | None = Field(
        description="The decision on its external address; null: it was launched before there was one, or adopted."
    )
    resume_from: str = Field(description="The checkpoint that it resumed from; empty: it starts from the beginning.")
    resume_step: int | None
    resume_why: str = Field(
        description="The reason why it did not resume from the newest complete checkpoint; empty where it did."
    )
    image: str = Field(description="The image that its VM is given, with a digest where one was known; empty: none.")
    image_digest: str = read_from("agent.image_digest", description="The digest that its VM pulled; empty before that.")
    notice_seconds: Seconds | None = read_from("notice", description="The notice its VM was asked for; null: unknown.")
    intended_at: Moment
    asked_at: Moment | None
    made_at: Moment | None = Field(description="The time at which its VM was known to exist.")
    started_at: Moment | None = read_from("agent.started_at", description="The time at which the command started.")
    ended_at: Moment | None
    gone_at: Moment | None = Field(description="The time at which its VM was known to be deleted.")
    gce_id: str
    restarts: int = Field(description="The number of times the same VM was started again.")
    run: int = read_from("agent.run")
    heard_at: Moment | None = read_from("agent.at")
    step: int | None = read_from("agent.step")
    step_at: Moment | None = read_from("agent.step_at")
    noticed_at: Moment | None = read_from("agent.noticed_at", description="The time of its notice of preemption.")
    stop_asked_at: Moment | None
    stop_why: str
    exit: ExitOut | None = read_from("agent.exit")
    hang: HangOut | None = read_from(
        "agent.hang", description="The hang of its command; null: it makes progress, as far as is known."
    )
    disk: DiskOut | None = Field(description="The VM's disk by the last report; null: not known.")
    machine: Mapping[str, Any] = read_from("agent.machine", description="The agent's measurements in its last report.")
    setup_seconds: Seconds | None = read_from(
        "agent.setup",
        description=(
            "The duration of the setup before the command, in seconds; null: it did not run, or not to its end."
        ),
    )
    phase: str = read_from(
        "agent.phase", description="The agent's work before or after the command; empty while the command runs."
    )
    transfers: Sequence[TransferOut] = read_from(
        "agent.transfers",
        description="The downloads and uploads of the latest attempt that reported; empty for the others.",
    )
    node: int = Field(description="The place of its VM among those of its job, from 0; 0 in a job of one VM.")
    round: int = Field(description="The last round that its command was let begin in; 0 in a job of one VM.")
    internal_address: str = read_from(
        "agent.internal_address",
        description="The address by which the other VMs of its job reach it; empty in a job of one VM.",
    )
    error: str = Field(description="The error of the last call to Google.")
    try_after: Moment | None


class InterruptionOut(Out):
    """A run that ended before the work was done, counted once even if several sources reported it."""

    attempt: int
    run: int
    outcome: Annotated[str, one_of(Outcome)]
    happened_at: Moment
    noticed_at: Moment
    noticed_by: Annotated[str, one_of(Notice)] = Field(description="The source that reported it first.")
    requested_at: Moment | None = Field(description="The time at which the next VM was requested from Google.")
    resumed_at: Moment | None = Field(description="The time at which the command was running again.")
    lost_seconds: Seconds | None = read_from(
        "lost", description="The work since the checkpoint that was resumed from, in seconds."
    )
    lost_cost: Usd | None
    from_zero: bool = Field(description="True: there was no checkpoint, and all of the work was lost.")


def attempt_out(attempt: Attempt) -> AttemptOut:
    return AttemptOut.read(attempt, disk=disk_of(attempt.agent.machine))
