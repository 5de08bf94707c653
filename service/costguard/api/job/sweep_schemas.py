"""The answers about sweeps, and what a request says of halving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, StrictInt

from costguard.api.fields import Amount, AmountsAsOf, Body, Moment, Out, Seconds, Text, Usd, one_of, read_from
from costguard.api.job.schemas import BestCheckpointOut, SeenMetricOut
from costguard.model.job import JobState
from costguard.model.reported.progress import UNITS
from costguard.model.sweep import SweepState


class HalvingBody(Body):
    """Stops the members that are clearly behind at equal steps, so that GPUs go to the better ones."""

    eta: StrictInt = Field(description="The divisor of the members: at least one in so many goes on; 3: a third.")
    metric: Text = Field(
        "", description="An evaluation as the output calls it, such as val_loss. Empty: the job's own metric."
    )
    better: Literal["", "lower", "higher"] = Field(
        "", description="The better direction. Empty: that of the job's own metric, or of a name that says it."
    )


class SweepOut(Out):
    id: str = read_from("sweep.id")
    name: str = read_from("sweep.name")
    title: str = read_from("sweep.title", description="The name, or the id where it has none.")
    state: Annotated[str, one_of(SweepState)] = read_from("sweep.state")
    reason: str = read_from("sweep.reason", description="The reason for its state, and the next step.")
    owner: str = read_from("sweep.owner")
    project: str = read_from("sweep.project")
    preset: str = read_from("sweep.preset")
    via: Annotated[str, one_of(("api", "cli", "page"))] = read_from("sweep.via")
    created_at: Moment = read_from("sweep.created_at")
    settled_at: Moment | None = read_from(
        "sweep.settled_at", description="The time at which it ended; null: it has not."
    )
    cancel_asked_at: Moment | None = read_from("sweep.cancel_asked_at")
    cancel_asked_by: str = read_from("sweep.cancel_asked_by")
    round: int = read_from("sweep.round", description="The round: 1, and one more each time that it was resumed.")
    at_once: int = read_from("sweep.at_once")
    ceiling: Usd | None = read_from("sweep.ceiling", description="The most that all members together may cost.")
    cost: Amount = Field(description="The cost of all VMs of all members with their disks, so far.")
    reserved: Usd | None = Field(
        description="The amount that running VMs may still cost; null: unknown, or there is no ceiling."
    )
    members: int
    waiting: int = Field(description="The number of members still to be launched.")
    open: int
    succeeded: int
    failed: int
    cancelled: int


class HalvingOut(Out):
    """Shows the halving of a sweep. What its stops save is an estimate: the rest of each at its last pace and rate."""

    eta: int = read_from("halving.eta")
    metric: str = read_from("halving.metric", description="The evaluation by its name; empty: the job's own metric.")
    better: Annotated[str, one_of(("lower", "higher"))] = read_from("halving.better")
    ended_at: Moment | None = Field(description="The time at which a person ended it; null: no one has.")
    ended_by: str
    stopped: int = Field(description="The number of members that it has stopped.")
    unknown: int = Field(description="The number of those whose saving is not known.")
    gpu_time: Seconds | None = Field(description="The seconds of GPUs expected to be saved; null: unknown.")
    saved: Usd | None = Field(description="The cost expected to be saved; null: unknown.")
    waits: str = Field(description="The reason why no member can be compared yet; empty: there is none.")


class MemberStopOut(Out):
    stopped_at: Moment
    step: float = Field(description="The step at which it was compared.")
    unit: Annotated[str, one_of(UNITS)]
    reason: str
    rest: Seconds | None = Field(
        description="The seconds that it would still have run, by its last pace; null: unknown."
    )
    saved: Usd | None = Field(description="The cost expected to be saved; null: unknown.")


class SweepMemberOut(Out):
    number: int = read_from("member.number")
    parameters: Mapping[str, str] = read_from("member.parameters")
    state: Annotated[str, one_of(("waiting", *JobState))]
    job: str | None = read_from("job_id", description="The last of its jobs; null: none has been launched yet.")
    jobs: Sequence[str] = read_from("member.jobs", description="All its jobs, the oldest first.")
    reason: str = Field(description="The reason for its job's state; empty before the first.")
    step: int | None
    attempts: int
    preemptions: int
    crashes: int
    cost: Amount = Field(description="The cost of all of its jobs, so far.")
    metric: SeenMetricOut | None = Field(
        description="The latest value of its metric; null: no value was printed yet, or it names no metric."
    )
    is_best: bool = Field(description="Whether its metric is the best of all members.")
    kept_by: str = read_from("member.kept_by", description="The person who keeps it from halving; empty: no one.")
    stop: MemberStopOut | None = read_from(
        "member.stop", description="The stop of its last job by halving; null: halving has not stopped it."
    )


class SweepResultOut(Out):
    """The best checkpoint of the member with the best value of all."""

    member: int = Field(description="The number of the member.")
    job: str = read_from("job_id")
    value: str = Field(description="The best value of its metric.", examples=["0.3417"])
    checkpoint: BestCheckpointOut | None = Field(description="The best checkpoint of the member; null: none is known.")
    published_to: str = Field(description="The folder to which it was copied as the result; empty: it was not.")
    note: str = Field(description="The job's note on the copied checkpoint; empty: none was copied.")
    is_final: bool = Field(description="Whether all members are over, so that none may become better.")
    text: str = Field(description="All of this in a sentence, with the reason where nothing is published.")


class SweepsResponse(AmountsAsOf):
    sweeps: list[SweepOut]
    next_cursor: str | None


class SweepResponse(AmountsAsOf):
    sweep: SweepOut
    parameters: Sequence[str] = Field(description="The parameters' names, in order.")
    metric: str = Field(description="The regular expression that finds it; empty: none.")
    better: str = Field(
        description="The better direction of the metric, lower or higher; empty where there is no metric."
    )
    halving: HalvingOut | None = Field(description="The rule that stops losers; null: none are stopped.")
    result: SweepResultOut | None = Field(
        description="The best checkpoint of the best member; null: no value of the metric is known."
    )
    members: Sequence[SweepMemberOut] = Field(description="The members; those with the best values come first.")
