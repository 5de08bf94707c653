"""What the API takes and answers. Generated from its document by `python -m tests.golden api`: do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict


class AccuracyOut(TypedDict):
    permille: int
    """The sum of the absolute differences of all lines, per mille of the list price, rounded up."""
    text: str
    through: str
    """The last closed UTC day."""


class AchievedSavingOut(TypedDict):
    """The cost of a step next to an earlier job's, as if a step did as much work in both jobs."""

    bound: str
    """The bound of the earlier job."""
    faster: float
    """Steps per second of this job, divided by those of the earlier one."""
    job: str
    """The earlier job with the same owner, preset and script."""
    promised: float | None
    share: float
    """The share by which a step costs less now; negative if it costs more."""


class AddressOut(TypedDict):
    """The external IPv4 address of a VM."""

    is_external: bool
    """Whether the VM gets an external address."""
    why: str
    """The reason, such as the Cloud NAT of its subnetwork."""


class AlikeJobOut(TypedDict):
    """A run of the script."""

    cost: Amount
    created_at: str
    id: str
    is_same_command: bool
    """False: its command line has other options."""
    owner: str
    state: Literal["queued", "provisioning", "running", "recovering", "succeeded", "failed", "cancelled"]
    steps: int | None
    """The number of steps, without repeated work; null: not known."""
    title: str


class AlikeResponse(TypedDict):
    as_of: str
    currency: str
    job: str
    machines: list[MachineCostOut]
    """The machines, the cheapest first."""
    metric: ComparedMetricOut | None
    """The metric by which the machines are compared; null: the job has printed none."""
    target: float | None
    """The best value of the metric that a run on every machine reached; null: fewer than two machines have
    values of it.
    """
    text: str
    """The cheapest machine in a sentence; empty: nothing compares."""


class AliveResponse(TypedDict):
    status: Literal["alive"]


class Amount(TypedDict):
    """An amount that is incomplete when part of it has no price. It is never zero because a price is missing."""

    amount: str | None
    """The part that has a price; null when nothing has."""
    complete: bool
    """False: part of it has no price, so the amount is too low."""
    currency: str
    """ISO 4217."""


class ArchiveOut(TypedDict):
    """An archive that a job may name."""

    sha256: str
    size: int
    """The size of the packed archive in bytes."""
    uploaded_at: str


class AtRiskOfDeadlineOut(TypedDict):
    risk: Literal["work", "stock", "no_on_demand", "ceiling", "vm_hours", "failures", "held", "unsaved"]
    text: str
    """Explains why, when the job is expected to finish, and what would help."""


class AtRiskOut(TypedDict):
    """The work that would be repeated if the VM were lost now."""

    cost: str | None
    seconds: int
    since: str


class AttemptOut(TypedDict):
    """A VM of a job, with the reports of its agent's latest run."""

    address: AddressOut | None
    """The decision on its external address; null: it was launched before there was one, or adopted."""
    asked_at: str | None
    disk: DiskOut | None
    """The VM's disk by the last report; null: not known."""
    ended_at: str | None
    error: str
    """The error of the last call to Google."""
    exit: ExitOut | None
    gce_id: str
    gone_at: str | None
    """The time at which its VM was known to be deleted."""
    hang: HangOut | None
    """The hang of its command; null: it makes progress, as far as is known."""
    heard_at: str | None
    image: str
    """The image that its VM is given, with a digest where one was known; empty: none."""
    image_digest: str
    """The digest that its VM pulled; empty before that."""
    intended_at: str
    internal_address: str
    """The address by which the other VMs of its job reach it; empty in a job of one VM."""
    machine: dict[str, Any]
    """The agent's measurements in its last report."""
    made_at: str | None
    """The time at which its VM was known to exist."""
    max_run_seconds: int
    name: str
    node: int
    """The place of its VM among those of its job, from 0; 0 in a job of one VM."""
    notice_seconds: int | None
    """The notice its VM was asked for; null: unknown."""
    noticed_at: str | None
    """The time of its notice of preemption."""
    number: int
    outcome: (
        Literal[
            "succeeded",
            "crashed",
            "not_published",
            "not_started",
            "preempted",
            "host_error",
            "lost",
            "removed",
            "time_limit",
            "stockout",
            "quota",
            "refused",
            "cancelled",
            "paused",
            "moved",
        ]
        | None
    )
    """The outcome of the attempt; null: not known yet."""
    phase: str
    """The agent's work before or after the command; empty while the command runs."""
    project: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    rate_per_hour: str | None
    reason: str
    restarts: int
    """The number of times the same VM was started again."""
    resume_from: str
    """The checkpoint that it resumed from; empty: it starts from the beginning."""
    resume_step: int | None
    resume_why: str
    """The reason why it did not resume from the newest complete checkpoint; empty where it did."""
    round: int
    """The last round that its command was let begin in; 0 in a job of one VM."""
    run: int
    setup_seconds: int | None
    """The duration of the setup before the command, in seconds; null: it did not run, or not to its end."""
    started_at: str | None
    """The time at which the command started."""
    state: Literal[
        "intended", "asked", "waiting", "booting", "running", "resting", "restarting", "ending", "kept", "over"
    ]
    step: int | None
    step_at: str | None
    stop_asked_at: str | None
    stop_why: str
    transfers: list[TransferOut]
    """The downloads and uploads of the latest attempt that reported; empty for the others."""
    try_after: str | None
    zone: str


class AttemptsResponse(TypedDict):
    as_of: str
    attempts: list[AttemptOut]
    job: str


class BestCheckpointOut(TypedDict):
    """The checkpoint with the best value of the metric, which is kept next to the newest ones."""

    place: str
    """The address of the checkpoint."""
    step: int
    text: str
    """The value of the last evaluation at or before its step."""


class BillDayOut(TypedDict):
    day: str
    difference: str
    """The list price on the bill less the ledger's amount."""
    differing: int
    """Lines that differ without an explanation."""
    effective: str
    """The amount paid, after discounts and credits."""
    explained: str
    """The part of the difference that is rounding, or has a known reason."""
    ledger: str
    """Exact decimal dollars, to the nano-dollar."""
    list_price: str
    """The bill at list price, before discounts, of what the ledger holds."""
    outside: str
    """The amount billed for SKUs that the ledger does not hold, such as network and licences."""
    savings: BillSavingsOut
    state: Literal["open", "agreed", "differs"]
    """`open`: the bill is still to come, or the day cannot be compared. A day closes 72 h after its end."""
    unexplained: str
    """Exact decimal dollars, to the nano-dollar."""
    unused_reservations: str
    """Exact decimal dollars, to the nano-dollar."""
    why_open: str


BillResponse = TypedDict(
    "BillResponse",
    {
        "accuracy": "AccuracyOut | None",
        "as_of": "str",
        "commitments": "CommitmentsOut",
        "currency": "str",
        "days": "list[BillDayOut]",
        "from": "str",
        "outside": "list[NotHeldOut]",
        "reservations": "list[NotHeldOut]",
        "savings": "list[SavingVmOut]",
        "to": "str",
        "total": "BillDayOut | None",
        "worst": "list[WorstVmOut]",
    },
)


class BillSavingsOut(TypedDict):
    """The part of the list price that was not paid, by what reduced it."""

    committed_use: str
    """Exact decimal dollars, to the nano-dollar."""
    contract: str
    """A price below list without a commitment."""
    other: str
    """Promotions, free tiers and other credits."""
    sustained_use: str
    """Exact decimal dollars, to the nano-dollar."""


class BoughtOut(TypedDict):
    """Commitments on the bill, which are subtracted from the advice."""

    day: str | None
    """The closed day that they are read from; null: no bill is compared."""
    flexible: str
    """The use at list price that flexible commitments cover in an hour."""
    unnamed: list[str]
    """Fees whose family or region is not known. They are not subtracted from the advice."""


class BoundNumberOut(TypedDict):
    name: str
    text: str
    unit: Literal["share", "cores", "count", "bytes_per_s", "looks"]
    value: float


class BoundStretchOut(TypedDict):
    """Consecutive windows of five minutes with the same verdict."""

    advice: str
    """A line of advice; empty: none."""
    bound: Literal[
        "input",
        "host",
        "input or host",
        "communication",
        "checkpoint",
        "evaluation",
        "memory capacity",
        "memory bandwidth",
        "throttled",
        "compute",
        "gpu",
        "not computing",
        "unknown",
    ]
    cause: str | None
    """The cause of the bound; null: only the bound is known."""
    numbers: list[BoundNumberOut]
    """The measurements of the last window that the verdict rests on."""
    share: float | None
    """The mean share of time that the bound costs, or in which it held; null: not known."""
    since: str
    steps_per_s: float | None
    """Steps per second; null: its steps are not known."""
    text: str
    """The bound in words that follow "bound by"."""
    until: str
    why: str
    windows: int
    """The number of windows. The verdict holds from two on."""


class BucketOut(TypedDict):
    count: int
    up_to_seconds: int | None
    """The bucket's upper bound; it begins at the bound of the bucket before. null: there is no upper bound."""


class BudgetOut(TypedDict):
    at_limit: Literal["tell", "refuse", "stop-spot"]
    """The action once the limit is spent: `tell` notifies people, `refuse` launches no VMs for jobs, and `stop-
    spot` also stops their Spot VMs.
    """
    contact: str
    """The address of the person responsible; empty: none."""
    downloads: str
    """The part of the spend that jobs' VMs paid for their inputs, at list prices, on another cloud's bill."""
    ends_at: str
    forecast: ForecastOut
    forecast_percent: int
    job: str | None
    label: str | None
    """The label with its value, such as `experiment=a`."""
    limit: str
    """Exact decimal dollars, to the nano-dollar."""
    name: str
    owner: str | None
    period: Literal["day", "week", "month"]
    """A day, a week from Monday, or a month, in UTC."""
    preset: str | None
    project: str | None
    rate_per_hour: str
    """The present hourly cost of everything that has a price."""
    spent: str
    """Exact decimal dollars, to the nano-dollar."""
    spent_percent: int
    """The spend in percent of the limit, rounded down."""
    starts_at: str
    team: str | None
    thresholds: list[ThresholdOut]
    unpriced: int
    """The number of lifetimes and disks without a price: the amounts are too low by their cost."""


class BudgetsResponse(TypedDict):
    as_of: str
    budgets: list[BudgetOut]
    currency: str


class BuyingWayOut(TypedDict):
    """A way to buy a job's VMs, and what it is expected to cost to its end.  The range holds nine of ten cases.
    A way without a cost would never end the job.
    """

    expected: str | None
    high: str | None
    lasts_seconds: int | None
    """The time until its end, including its waits."""
    low: str | None
    preemptions: float
    """The preemptions to expect."""
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    text: str


class CancelBody(TypedDict):
    after_checkpoint: NotRequired[bool]
    """True: cancels once a checkpoint was written after this request, or at once where none of its VMs runs."""
    by: NotRequired[str | None]
    """The address of the person who cancels; default: the caller. Only admins name another."""
    delete_disk: NotRequired[bool]
    """Delete also the disk that holds the only copy of what the job saved. By default it is kept, and bills."""
    reason: NotRequired[str]


class CancelSweepBody(TypedDict):
    by: NotRequired[str | None]
    """The address of the person who cancels; default: the caller. Only admins name another."""
    reason: NotRequired[str]


class ChargeOut(TypedDict):
    """All charges of one billed resource at one price."""

    amount: str
    """Exact decimal dollars, to the nano-dollar."""
    ended_at: str
    price_source: str | None
    quantity: str
    """The number of vCPUs, GiB, GPUs or TPU chips."""
    rate: str | None
    """Dollars per unit; null: the price is no longer known."""
    resource: str
    seconds: int
    started_at: str
    unit: Literal["h", "GiBy.h", "GBy.h", "GiBy.mo"] | None
    """`h`, `GiBy.h` or `GiBy.mo` (the calendar month in US Pacific time)."""


CheckState = Literal["ok", "needs", "unknown"]


class CheckpointBody(TypedDict):
    """Where the command saves, how that is recognised, and how it resumes."""

    framework: NotRequired[Framework | None]
    """The framework that writes the checkpoints; null: detected by file names."""
    keep: NotRequired[int]
    """The number of complete checkpoints that stay at the location, with `local`; 0: all."""
    local: NotRequired[str]
    """The folder or file on the VM where the command saves. Complete checkpoints in it are uploaded to the
    location, and the newest is downloaded before the command resumes.
    """
    location: str
    """gs://bucket/path, s3://bucket/path, or a path on the VM's own disk: a folder, or one file that is
    overwritten.
    """
    marker: NotRequired[str]
    """The name of the file that is written last."""
    pattern: NotRequired[str]
    """The path of plain files, with {step} in it."""
    publish: NotRequired[Literal["best", "latest"] | None]
    """The checkpoint that is published: the `best` by the job's metric, or the `latest`; null: the best where
    the job names a metric, else the latest.
    """
    publish_to: NotRequired[str]
    """The folder, with the provider of the location, to which one complete checkpoint is copied as the job's
    result once it has succeeded.
    """
    resume: NotRequired[str]
    """The arguments added to the command to resume. {checkpoint}, {location} and {step} in it are replaced."""
    save_every: NotRequired[str]
    """The interval at which the agent asks the running command for a save: auto, chosen by what a save takes
    and how often VMs like it are preempted, or a span such as 20min. It needs `save_on`.
    """
    save_on: NotRequired[Literal["file", "SIGUSR1", "SIGUSR2"] | None]
    """The way in which the agent asks the running command for a save: the file that COSTGUARD_SAVE_REQUEST
    names, or a signal that the command has a handler for; null: it does not ask.
    """
    uploads_itself: NotRequired[bool]
    """True: the command itself writes to the location."""


class CheckpointOut(TypedDict):
    """The checkpoints found by the last look at the location."""

    advanced_at: str | None
    """The time at which a newer checkpoint than before was first seen."""
    error: str
    """The reason why the look failed; the present contents are then unknown."""
    is_deleted: bool
    """True: the checkpoint was on the disk of a VM that has been deleted."""
    looked_at: str
    resume_from: str
    """The newest complete checkpoint that was seen; empty: there is none."""
    seen_at: str | None
    """The last time at which it was seen complete, if later looks failed."""
    step: int | None
    torn: list[str]
    """Newer checkpoints that were skipped, each with the reason."""
    written_at: str | None


class CheckpointPlanOut(TypedDict):
    """Where the command saves, how that is recognised, and how it resumes."""

    framework: (
        Literal[
            "hugging-face",
            "lightning",
            "megatron",
            "deepspeed",
            "torch-dcp",
            "orbax",
            "keras",
            "tensorflow",
            "marker",
            "files",
        ]
        | None
    )
    """The framework that writes the checkpoints; null: detected by file names."""
    keep: int
    """The number of complete checkpoints that stay at the location, with `local`; 0: all."""
    local: str
    """The folder or file on the VM whose checkpoints are uploaded; empty: none is."""
    location: str
    """gs://bucket/path, s3://bucket/path, or a path on the VM's own disk: a folder, or one file that is
    overwritten.
    """
    marker: str
    """The name of the file that is written last."""
    pattern: str
    """The path of plain files, with {step} in it."""
    publish: Literal["best", "latest"] | None
    """The checkpoint that is published: the `best` by the job's metric, or the `latest`; null: the best where
    the job names a metric, else the latest.
    """
    publish_to: str
    """The folder to which one checkpoint is copied as the job's result; empty: none is."""
    resume: str
    """The arguments added to the command to resume. {checkpoint}, {location} and {step} in it are replaced."""
    save_every: str
    """The interval at which the agent asks the command for a save; empty: it does not."""
    save_on: Literal["file", "SIGUSR1", "SIGUSR2"] | None
    """The way in which the agent asks the command for a save; null: it does not."""
    uploads_itself: bool
    """True: the command itself writes to the location."""


class CodeBody(TypedDict):
    """The archive of a work directory, uploaded before under its SHA-256."""

    branch: NotRequired[str]
    commit: NotRequired[str]
    diff: NotRequired[str]
    """The uncommitted changes, cut where they are long."""
    files: int
    sha256: str
    size: int
    """The size of the packed archive in bytes."""


class CodeOut(TypedDict):
    """The archive of a work directory, and the state of its repository when it was packed."""

    branch: str
    commit: str
    """The commit's id; empty outside of a repository."""
    diff: str
    """The uncommitted changes, cut where they are long."""
    files: int
    sha256: str
    size: int
    """The size of the packed archive in bytes."""


class CommitmentAdviceOut(TypedDict):
    after_fall: str
    """The saving of a month if use falls by 20 %; below zero: what the commitment then loses."""
    after_fall_text: str
    """The same as a sentence."""
    covered: str | None
    """The part of such use that commitments cover already, by the bill; null: the bill has none of it."""
    discount: str
    """The part of the list price that it takes off."""
    exceeded: str
    """The part of the hours whose use is above the level."""
    family: str
    """The machine family; `all`: one flexible commitment for all that it covers."""
    fee: str
    """The fee of an hour, used or not."""
    kind: Literal["flexible", "resources"]
    """`flexible`: to spend so much an hour; `resources`: to vCPUs, GiB of memory or GPUs of one region."""
    level: str
    """The amount to commit to, in addition to what is bought: in `unit`s."""
    level_text: str
    """The level with its unit."""
    region: str
    resource: str
    """The billed resource; empty: a flexible commitment."""
    saved: str
    """The saving of a month, had it been bought before."""
    unit: str
    use: str
    """The use of a month at list price, of all that the commitment could cover."""
    what: str
    """The commitment in words."""
    years: int


class CommitmentCoverOut(TypedDict):
    """Use that commitments covered on the closed days of the bill, and fees that were wasted, added up from
    hours.
    """

    by_hour_of_day: list[HourOfDayOut]
    """The sums of all days, by the hour of the day in UTC."""
    days_without: list[str]
    """Days whose bill was read, in part at least, by a version that kept no hours: they are not in it, or not
    whole, until their export is read again.
    """
    fees: list[FeeByHourOut]
    """The fees, by region, the dearest first."""
    method: str
    places: list[CoveredPlaceOut]
    """Use by part, machine family and region, the most first."""
    since: str | None
    """The beginning of the first hour; null: no day of a bill is closed."""
    total: CoveredOut | None


class CommitmentFeeOut(TypedDict):
    cost: str
    """Exact decimal dollars, to the nano-dollar."""
    name: str
    project: str
    unused: str | None
    """The part that was paid for nothing: an hour's fee that its usage did not take up is lost."""
    used: str | None
    """The part that usage took up; null: the fee does not show it."""
    used_percent: int | None
    """The used part in whole percents; null: not known."""


class CommitmentHoursResponse(TypedDict):
    as_of: str
    currency: str
    days_without: list[str]
    """Days whose bill was read, in part at least, by a version that kept no hours."""
    hours: list[CoveredHourOut]
    """Each hour of the closed days, the earliest first."""
    method: str


class CommitmentsOut(TypedDict):
    fees: list[CommitmentFeeOut]
    """The ten largest fees, before the part that usage offset."""
    net: str
    """The amount saved less the amount paid."""
    paid: str
    """All fees less the part that usage offset. The `outside` amounts of the days include them."""
    saved: str
    """The amount that commitments took off Compute Engine's usage, by price and by credit."""
    unused: str | None
    """The part of the fees that no usage offset. Only fees of spend-based commitments since 2025 show it; null:
    none does.
    """


class CommitmentsResponse(TypedDict):
    advice: list[CommitmentAdviceOut]
    """The commitments that would have saved, the largest saving first."""
    as_of: str
    bought: BoughtOut
    cover: CommitmentCoverOut
    """Use that is covered already, and fees that were wasted, by the bill."""
    currency: str
    hours: int
    method: str
    since: str
    """The beginning of the first hour that counts."""
    too_short: str
    """The reason why nothing is advised yet; empty: enough days are known."""
    uncovered: list[UseOut]
    """Use that no flexible commitment covers, and of whose commitments no price is known."""
    unknown_runs: int
    """Runs of VMs whose parts are not known, which are in no amount."""
    unpriced: list[UseOut]
    """Use without a list price, which is in no amount."""
    unsure: list[str]
    """Machine families in use of which public texts disagree whether flexible commitments cover them: the
    advice counts them, and Google can tell.
    """


class ComparedMetricOut(TypedDict):
    better: Literal["lower", "higher"]
    name: str


class CoveredHourOut(TypedDict):
    hour: str
    use: CoveredOut


class CoveredOut(TypedDict):
    """On-demand use by the bill, the part that commitments cover, and their fees."""

    covered: str
    """The part of it that commitments cover."""
    eligible: str
    """On-demand use of vCPUs, memory, GPUs, TPU chips and local SSD, at the account's price without a
    commitment.
    """
    fee: str
    """The fees, before what use took off them."""
    net: str
    """The saving less what the fees cost besides; below zero: a loss."""
    offset: str
    """The amount that use took off the fees."""
    saved: str
    """The amount that commitments took off it, by price and by credit."""
    share: str | None
    """The covered part of the eligible use; null: nothing was used."""
    wasted: str | None
    """The part of the fees that no use of their hour took off. Only fees of spend-based commitments since 2025
    show it; null: no fee does.
    """


class CoveredPlaceOut(TypedDict):
    family: str
    """The machine family; empty: of local SSD, whose SKU names none."""
    kind: Literal["host", "gpu", "ssd", "fee"]
    """`host`: vCPUs and memory; `gpu`: GPUs and TPU chips; `ssd`: local SSD."""
    region: str
    use: CoveredOut


class CureOut(TypedDict):
    """A known pattern of slow data, and what to do about it."""

    file: str
    function: str
    is_in_workers: bool
    line: int
    pattern: Literal["rows", "once", "validation", "reads"]
    share: float
    """The share of the training's time that it takes."""
    text: str


class CurveOut(TypedDict):
    kind: Literal["loss", "metric", "evaluation", "speed"]
    name: str
    points: list[CurvePointOut]
    """The points, at most 500, thinned evenly. Steps repeated after a preemption count for the speed alone."""


class CurvePointOut(TypedDict):
    at: str
    cost: str | None
    """The cost of the job's VMs by then, as estimated at their launch."""
    done: float | None
    """The position of the training, in the unit."""
    unit: Literal["epoch", "batch", "step"] | None
    value: float | None
    """The value at this point; null: not a finite number."""


class DataMoveOut(TypedDict):
    """An input or an output. Each VM of a job downloads its inputs again."""

    cost: str | None
    """The cost at the provider's list prices, without its free allowance; null: it is not known."""
    note: str
    size: StoredSizeOut | None
    """The amount of data; null: it is not known."""
    source: str
    target: str
    where: str
    """The path of this input or output in the request's body."""


class DeleteDiskBody(TypedDict):
    by: NotRequired[str | None]
    """The address of the person who confirms it; default: the caller. Only admins name another."""


class DeleteStageBody(TypedDict):
    by: NotRequired[str | None]
    """The requester's address; default: the caller. Only admins name another."""


class DiagnosisResponse(TypedDict):
    achieved: AchievedSavingOut | None
    """The saving over an earlier job; null: no earlier job compares."""
    achieved_text: str
    advice: str
    """Advice, with the larger VM or the machine to try next that it names."""
    as_of: str
    checkpoints: str
    """Advice on the checkpoint interval where another saves more than 2% of the cost; empty: none."""
    currency: str
    held: BoundStretchOut | None
    """The latest verdict that held for two windows; null: none has."""
    is_current: bool
    """True: the command runs, and the last window has the same verdict."""
    job: str
    larger_vm: LargerVmOut | None
    minutes: int
    """The minutes that were measured in the last hour of its latest VM."""
    next_machine: NextMachineOut | None
    """The machine to try next; null: the bound names none, or none is priced."""
    saving: PromisedSavingOut | None
    """The expected saving of a remedy; null: not known."""
    saving_text: str
    straggler: StragglerOut | None
    """The VM for which the others of a job of several VMs wait now; null: none, or it is not known."""
    stretches: list[BoundStretchOut]
    """The stretches of windows, the newest first."""
    why_none: str
    """The reason why no verdict has held yet."""


class DiskOut(TypedDict):
    """The VM's filesystem that holds the command's output, unless that is mounted from elsewhere."""

    free_bytes: int
    mount: str
    state: Literal["ok", "low", "full"]
    text: str
    """`disk full: 0 bytes left on /`; empty while there is room."""
    total_bytes: int | None


class DrillBody(TypedDict):
    by: NotRequired[str | None]
    """The requester's address; default: the caller. Only admins name another."""


class DrillOut(TypedDict):
    """A preemption drill: the command gets a notice on purpose.  Seconds count from the notice;
    `resumed_seconds` from the start after it.
    """

    began_at: str | None
    checkpoint: str
    ended_at: str | None
    goes_on: str
    """Whether the command continued from that checkpoint: yes, no, unknown, or empty."""
    grace_seconds: float | None
    """The time that a preemption leaves the command, in seconds."""
    number: int
    requested_at: str
    requested_by: str
    result: Literal["saved", "too_late", "torn", "never", "old", "not_resumed", "interrupted", "not_held"] | None
    """The outcome of the attempt; null: not known yet."""
    resumed_seconds: float | None
    """The time until the command continued, in seconds."""
    saved_seconds: float | None
    """The time until a checkpoint was complete, in seconds."""
    state: Literal["waiting", "stopping", "resuming", "over"]
    step: int | None
    """The step of that checkpoint."""
    step_before: int | None
    """The step of the newest checkpoint before the notice."""
    text: str
    """The result in words."""
    uploaded_seconds: float | None
    """The time until that checkpoint was at the location, where it is uploaded, in seconds."""
    was_killed: bool
    """True: the command did not end by itself."""


class DueReminderOut(TypedDict):
    cost: Amount
    """The cost of the open lifetime; for a stopped VM, of all its lifetimes and storage."""
    cycle: int
    evidence: str
    """The evidence that the VM is idle; empty where nothing is known."""
    gce_id: str
    gpu_count: int
    gpu_type: str | None
    machine_type: str
    name: str
    owner: str
    preset: str
    project: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    rate_per_hour: Amount
    reason: str
    stage: int
    started_at: str | None
    """The start of the open lifetime; null: not running, but its storage bills."""
    subject: str
    to: list[RecipientOut]
    zone: str


EndReason = Literal[
    "stopped",
    "suspended",
    "deleted",
    "preempted",
    "host_error",
    "host_maintenance",
    "run_time_limit",
    "guest_shutdown",
    "recreated",
    "unknown",
]


class EndedSessionsResponse(TypedDict):
    as_of: str
    sessions: list[SessionOut]
    """The sessions that were ended."""


EnforcementResponse = TypedDict(
    "EnforcementResponse",
    {
        "as_of": "str",
        "currency": "str",
        "from": "str",
        "is_shadow": "bool",
        "method": "str",
        "saved": "Amount",
        "shadow_cost": "Amount",
        "shadow_method": "str",
        "shadow_stops": "list[ShadowStopOut]",
        "stops": "list[StopOut]",
        "to": "str",
        "would_have_saved": "Amount",
    },
)


class EventOut(TypedDict):
    actor: str
    """The actor's address; empty or `system` where it was no person."""
    data: dict[str, Any]
    """Details for programs. Their fields depend on the kind."""
    gce_id: str
    id: int
    """The event's id, which grows in the order of recording."""
    kind: str
    name: str
    occurred_at: str
    project: str
    recorded_at: str
    text: str
    """A sentence for people."""


class EventsResponse(TypedDict):
    as_of: str
    events: list[EventOut]
    next_cursor: str | None
    """The `cursor` of the next page; null: this was the last page."""
    searched_to: str | None
    """The time back to which a search with few matches got; `next_cursor` continues it. null: the page is full,
    or this is the end.
    """


class ExecutionJobOut(TypedDict):
    created_at: str
    id: str
    settled_at: str | None
    """The time at which it ended; null: it has not."""
    state: Literal["queued", "provisioning", "running", "recovering", "succeeded", "failed", "cancelled"]


class ExecutionOut(TypedDict):
    """An execution of a workflow: the jobs and VMs whose label has the same value."""

    cost: Amount
    """The cost of its jobs, and of VMs with its label that belong to none of them."""
    first_at: str
    """The time at which its first job was submitted, or its first VM created."""
    jobs: list[ExecutionJobOut]
    """The jobs of the execution, the oldest first."""
    label: str
    labels: dict[str, str]
    """The other labels of its first job, such as the workflow's."""
    last_at: str | None
    """The time at which its last job or VM ended; null: one runs, or the time is not known."""
    running_vms: int
    state: Literal["running", "succeeded", "failed", "cancelled", "ended"]
    """The state of its jobs and VMs: `running` while a job is open or a VM runs; `ended`: it has VMs alone, and
    how it ended is not known.
    """
    value: str
    """The id of the execution, as its label has it."""
    vms: int
    """The number of VMs that had its label."""


class ExecutionsResponse(TypedDict):
    as_of: str
    count: int
    """The number of executions that are known."""
    currency: str
    executions: list[ExecutionOut]
    """The executions that began last, the newest first."""
    labels: list[str]
    """The labels that name executions: [spend] workflow_labels."""
    price_note: str | None
    """The age of the prices behind these figures, where they came with Costguard: after 60 days they are an
    estimate. null: they were read from Google's catalogue.
    """


class ExitOut(TypedDict):
    """The agent's final report of a run."""

    asked: str
    """The reason why the command was notified to stop; empty where it ended by itself."""
    at: str
    code: int | None
    error: str
    reason: Literal["exited", "not_published", "setup_failed", "not_started", "cut_off"]
    repeats: bool
    """True: the error would happen on every VM, so it is not tried again."""
    signal: int | None


class ExpectedCostOut(TypedDict):
    """The cost of a job with a deadline over replayed plans, by the frequency of preemptions."""

    high: str
    """Exact decimal dollars, to the nano-dollar."""
    low: str
    """Nine of ten runs lie between this and `high`."""
    mean: str
    """Exact decimal dollars, to the nano-dollar."""
    on_demand_percent: int
    """The percentage of the runs that needed an on-demand VM."""
    preemptions: float
    """The mean number of preemptions of a run."""
    runs: int


class FeeByHourOut(TypedDict):
    family: str
    """The machine family; empty: a commitment to spend, or its words name none."""
    name: str
    """The words of the fee's SKU."""
    region: str
    sku_id: str
    use: CoveredOut


class FeedOut(TypedDict):
    """The subscription that events come through."""

    doubled: int
    """Audit entries that arrived more than once."""
    entries: int
    """All audit entries that arrived, including repeats."""
    error: str
    """The answer of Pub/Sub to the last pull, if it failed."""
    events: int
    """Events that were recorded in the last whole hour."""
    heartbeat_age_seconds: int | None
    """The time since the newest heartbeat that came back was sent."""
    is_alive: bool
    """Whether messages published to its topic arrive soon."""
    last_message_at: str | None
    late_half_seconds: int | None
    """Half of these events were in the ledger within so many seconds; null: later than 15 minutes."""
    late_most_seconds: int | None
    """The same for 95 of 100."""
    messages_unread: int | None
    """Messages that Pub/Sub holds; null where that is not known."""
    missed: int
    """Operations that a listing showed and whose entry had not come."""
    month_cost: str | None
    """Pub/Sub's price of a month at the last day's volume, beyond what is free."""
    oldest_unread_seconds: int | None
    subscription: str


class FindingOut(TypedDict):
    command: str
    """The command or advice that mends it or finds it out; empty: nothing is to be done."""
    name: str
    """The stable name, such as `compute.disks.list`."""
    sentence: str
    state: CheckState
    topic: Topic
    where: str
    """The project, bucket or channel; empty: it concerns all."""


class FleetResponse(TypedDict):
    as_of: str
    currency: str
    instances: list[InstanceOut]
    next_cursor: str | None
    """Pass it as `cursor` for the next page; null: this was the last."""
    price_note: str | None
    """The age of the prices behind these figures, where they came with Costguard: after 60 days they are an
    estimate. null: they were read from Google's catalogue.
    """
    totals: FleetTotalsOut
    unread: list[UnreadOut]
    unused_reservations: UnusedReservationsOut | None
    """The sum over all watched projects, which `GET /loose` lists; null: Google was not asked yet."""


class FleetTotalsOut(TypedDict):
    """The totals of all instances that match the filters, not just this page, without deleted ones."""

    instances: int
    rate_per_hour: str
    """The hourly cost of everything that has a price."""
    running: int
    unpriced: int
    """Instances with a part that has no price: the rate is too low by those parts."""


class ForecastOut(TypedDict):
    """An estimate of the spend at the end of the period, never below what is already spent."""

    days_known: int
    """The number of full days that it is based on, at most 28."""
    expected: str
    """Exact decimal dollars, to the nano-dollar."""
    high: str
    """Exact decimal dollars, to the nano-dollar."""
    is_grounded: bool
    """False: it is too early to forecast. Pages and commands then show no figure, and it crosses no threshold."""
    low: str
    """Exact decimal dollars, to the nano-dollar."""
    method: str
    """The method of the forecast, in sentences."""


class ForecastResponse(TypedDict):
    as_of: str
    currency: str
    ends_at: str
    forecast: ForecastOut
    job: str | None
    label: str | None
    """The label with its value, such as `experiment=a`."""
    owner: str | None
    period: Literal["day", "week", "month"]
    """A day, a week from Monday, or a month, in UTC."""
    preset: str | None
    project: str | None
    rate_per_hour: str
    """The present hourly cost of everything that has a price."""
    spent: str
    """Exact decimal dollars, to the nano-dollar."""
    starts_at: str
    team: str | None
    unpriced: int
    """The number of lifetimes and disks without a price: the amounts are too low by their cost."""


Framework = Literal[
    "hugging-face", "lightning", "megatron", "deepspeed", "torch-dcp", "orbax", "keras", "tensorflow", "marker", "files"
]

GoodputGrouping = Literal["month", "project", "preset", "owner", "job"]


class GoodputOut(TypedDict):
    cost: Amount
    """The cost of VMs and disks."""
    cost_by_use: dict[str, str]
    """The cost by use; the parts add up to `cost`."""
    cost_per_useful_gpu_hour: str | None
    """The whole cost divided by the useful GPU-hours; null: there were none, or part has no price."""
    kept_percent_of_paid: str | None
    """The kept time in percent of the time that VMs billed; null where none did."""
    percent: dict[str, str]
    """The share of each use in all the time, in percent; together 100."""
    seconds: dict[str, int]
    """Seconds by use. kept: the command ran, and its work stands; lost: the work was repeated or led to
    nothing; unsaved: the work since the newest checkpoint; starting, ending: a VM before and after its command;
    waiting: no VM.
    """
    useful_gpu_seconds: int
    """The kept time multiplied by the number of GPUs, in seconds."""


GoodputResponse = TypedDict(
    "GoodputResponse",
    {
        "as_of": "str",
        "currency": "str",
        "from": "str",
        "group_by": 'list[Literal["month", "project", "preset", "owner", "job"]]',
        "method": "str",
        "rows": "list[GoodputRowOut]",
        "to": "str",
        "total": "GoodputRowOut",
    },
)


class GoodputRowOut(TypedDict):
    cost: Amount
    """The cost of VMs and disks."""
    cost_by_use: dict[str, str]
    """The cost by use; the parts add up to `cost`."""
    cost_per_useful_gpu_hour: str | None
    """The whole cost divided by the useful GPU-hours; null: there were none, or part has no price."""
    group: dict[str, str]
    """The value of each grouping."""
    jobs: int
    kept_percent_of_paid: str | None
    """The kept time in percent of the time that VMs billed; null where none did."""
    percent: dict[str, str]
    """The share of each use in all the time, in percent; together 100."""
    seconds: dict[str, int]
    """Seconds by use. kept: the command ran, and its work stands; lost: the work was repeated or led to
    nothing; unsaved: the work since the newest checkpoint; starting, ending: a VM before and after its command;
    waiting: no VM.
    """
    useful_gpu_seconds: int
    """The kept time multiplied by the number of GPUs, in seconds."""


class GpuUseOut(TypedDict):
    field_percent: int
    """The field's mean utilisation, in percent."""
    field_source: str
    gpu_seconds: int
    """The time of all GPUs of VMs that ran, in seconds."""
    known_percent: int | None
    """The share of it with a measured utilisation, rounded down; null: no GPU ran."""
    used_basis_points: int | None
    """The mean utilisation of that share, in basis points; null: nothing was measured."""


Grouping = Literal["day", "project", "preset", "owner", "job", "provisioning_model", "vm"]


class HalvingBody(TypedDict):
    """Stops the members that are clearly behind at equal steps, so that GPUs go to the better ones."""

    better: NotRequired[Literal["", "lower", "higher"]]
    """The better direction. Empty: that of the job's own metric, or of a name that says it."""
    eta: int
    """The divisor of the members: at least one in so many goes on; 3: a third."""
    metric: NotRequired[str]
    """An evaluation as the output calls it, such as val_loss. Empty: the job's own metric."""


class HalvingOut(TypedDict):
    """Shows the halving of a sweep. What its stops save is an estimate: the rest of each at its last pace and
    rate.
    """

    better: Literal["lower", "higher"]
    ended_at: str | None
    """The time at which a person ended it; null: no one has."""
    ended_by: str
    eta: int
    gpu_time: int | None
    """The seconds of GPUs expected to be saved; null: unknown."""
    metric: str
    """The evaluation by its name; empty: the job's own metric."""
    saved: str | None
    """The cost expected to be saved; null: unknown."""
    stopped: int
    """The number of members that it has stopped."""
    unknown: int
    """The number of those whose saving is not known."""
    waits: str
    """The reason why no member can be compared yet; empty: there is none."""


class HangOut(TypedDict):
    """A command that no longer makes progress."""

    bound_seconds: int
    """The silence after which it counts as a hang."""
    kind: Literal["still", "computing", "printing"]
    """`still`: nothing moves; computing: nothing is printed or written; printing: it prints, but makes no
    steps.
    """
    phase: Literal["training", "evaluating", "loading"]
    since: str
    """The time of its last step."""
    step: int | None
    text: str
    """The evidence, and the pace of its steps before."""
    where: str
    """The stacks of its threads where reading them was permitted, else the calls that they wait in."""


class HotFunctionOut(TypedDict):
    """A function and its shares of all looks at the group, from 0 to 1."""

    file: str
    """The file, in the project or its package."""
    function: str
    is_own: bool
    """True: it is the project's own code, and no library's."""
    line: int
    """The line where it begins; 0: not known."""
    own: float
    """The share in which it was the innermost function."""
    own_before: float | None
    """The share of its own in the earlier job's profile; null: there is none to compare with."""
    total: float
    """The share in which it was anywhere in the stack."""


class HourOfDayOut(TypedDict):
    hour: int
    """The hour of the day in UTC, 0 to 23."""
    use: CoveredOut


class HourlyRateOut(TypedDict):
    """A rate in dollars per hour; null where there is no price."""

    address: str | None
    """The cost of its external address; 0 where it has none."""
    disk: str | None
    gpu: str | None
    machine: str | None
    total: str | None
    unpriced: str
    """The parts that have no price; empty where all have one."""


class IdleOut(TypedDict):
    evidence: str
    is_weak: bool
    """True: a VM with GPUs is idle or busy by CPU and network alone, or busy by utilisation alone."""
    since: str
    state: Literal["busy", "idle", "unknown"]
    """busy, idle or unknown. What was not measured is unknown, never idle."""


class IdleRuleOut(TypedDict):
    cpu_below_percent: int
    """The threshold of CPU use where GPUs are not measured."""
    gpu_below_percent: int
    """The threshold of use that applies to every GPU of the VM."""
    sm_below_percent: int
    """The threshold for the multiprocessors of every GPU, which decides where DCGM measures them."""
    window_seconds: int
    """The time that a VM must stay below the thresholds."""


class InUseOut(TypedDict):
    dollars_per_hour: str
    """The hourly cost, without VMs whose price is not known."""
    gpus: int
    unpriced: int
    """The number of VMs whose price is not known."""
    vms: int


class InputBody(TypedDict):
    path: str
    """A path on the VM."""
    source: str
    """An address: s3://bucket/path or gs://bucket/path."""


class InputOut(TypedDict):
    path: str
    """A path on the VM."""
    source: str
    """An address: s3://bucket/path or gs://bucket/path."""


class InstanceOut(TypedDict):
    created_at: str
    created_by: str
    """The creator's account; empty when unknown."""
    due_at: str | None
    """The time of the preset's limit; null: no limit, or not running."""
    first_seen_at: str
    gce_id: str
    """Google's numeric id, of a TPU node after `tpu.`, of what Vertex AI runs after `vertex.`, its list and its
    region.
    """
    gone_at: str | None
    """The time of its deletion, as far as known."""
    gpu_count: int
    """The number of its GPUs or TPU chips."""
    gpu_type: str | None
    """The type of its GPUs or TPUs."""
    idle: IdleOut | None
    """The measured use; null: not running, or not measured recently."""
    job: str
    keeper: KeeperOut
    """The keeper, with the evidence."""
    kind: Literal[
        "instance",
        "tpu_node",
        "custom_job",
        "persistent_resource",
        "deployed_model",
        "deployment_pool",
        "colab_runtime",
    ]
    """A VM of Compute Engine, a node of the Cloud TPU API, or what Vertex AI runs."""
    labels: dict[str, str]
    last_seen_at: str | None
    """The last time it was surely there; null: its project was never read."""
    lifetime_cost: Amount
    """The cost of the open lifetime so far, without storage."""
    local_ssd_gib: int
    machine_type: str
    memory_mib: int
    """0: not known, as for a TPU node."""
    name: str
    never_stopped: str
    """The reason why nothing stops it, and what to do instead; empty: it can be stopped."""
    owner: str
    """The owner's address; empty: it is unowned."""
    owner_source: Literal["job", "claim", "label", "cluster", "creator", ""]
    """The source of the owner; empty: it is unowned."""
    preset: str
    project: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    """standard or spot."""
    rate_per_hour: Amount
    """The cost per hour now: its machines while it runs, and its storage."""
    started_at: str | None
    """The start of the open lifetime; null: it is not running."""
    status: Literal[
        "pending",
        "provisioning",
        "staging",
        "running",
        "pending_stop",
        "stopping",
        "stopped",
        "suspending",
        "suspended",
        "repairing",
        "deprovisioning",
        "unknown",
    ]
    """running, stopped (Google: TERMINATED), suspended, ..."""
    terminates_at: str | None
    """The time at which Google's run-time limit ends it."""
    total_cost: Amount
    """The cost of all its lifetimes and storage so far."""
    unpriced: list[str]
    """The parts that have no price, in sentences."""
    unread: str
    """The reason its zone cannot be read; empty when it can."""
    vcpus: int
    """0: not known, as for a TPU node."""
    zone: str


class InstanceResponse(TypedDict):
    as_of: str
    currency: str
    instance: InstanceOut
    lifetimes: list[LifetimeDetailOut]
    not_stopped: NotStoppedOut
    price_note: str | None
    """The age of the prices behind these figures, where they came with Costguard: after 60 days they are an
    estimate. null: they were read from Google's catalogue.
    """
    storage: list[StorageOut]


class InterruptionOut(TypedDict):
    """A run that ended before the work was done, counted once even if several sources reported it."""

    attempt: int
    from_zero: bool
    """True: there was no checkpoint, and all of the work was lost."""
    happened_at: str
    lost_cost: str | None
    lost_seconds: int | None
    """The work since the checkpoint that was resumed from, in seconds."""
    noticed_at: str
    noticed_by: Literal["notice", "exit", "operation", "status", "silence"]
    """The source that reported it first."""
    outcome: Literal[
        "succeeded",
        "crashed",
        "not_published",
        "not_started",
        "preempted",
        "host_error",
        "lost",
        "removed",
        "time_limit",
        "stockout",
        "quota",
        "refused",
        "cancelled",
        "paused",
        "moved",
    ]
    requested_at: str | None
    """The time at which the next VM was requested from Google."""
    resumed_at: str | None
    """The time at which the command was running again."""
    run: int


class JobBody(TypedDict):
    """A job to launch or to quote. What is left out is as its preset or its default has it."""

    aws_role: NotRequired[str]
    """The role that the VM assumes at AWS with its Google identity, instead of keys."""
    bandwidth_mib_s: NotRequired[int | None]
    """The limit on uploads and downloads together, in MiB/s; null: unlimited."""
    ceiling: NotRequired[Decimal | str | None]
    """The most that all its VMs together may cost."""
    checkpoint: NotRequired[CheckpointBody | None]
    """The place of its checkpoints, and how it resumes; null: nothing is kept."""
    code: NotRequired[CodeBody | None]
    """The code that is unpacked on each VM; the command runs in it."""
    command: NotRequired[Sequence[str]]
    """The command, run directly on the VM or in the image, without a shell."""
    deadline: NotRequired[datetime | str | None]
    """The time by which it must be finished."""
    deadline_in_hours: NotRequired[float | None]
    """The deadline in hours from its launch; give one of the two."""
    drill: NotRequired[bool]
    """Whether to try a save on a notice once, early."""
    environment: NotRequired[Mapping[str, str]]
    """Environment variables. They are not secret: do not put passwords here."""
    image: NotRequired[str]
    """A container image by tag or digest; empty: run on the VM itself."""
    inputs: NotRequired[Sequence[InputBody]]
    """Data that is downloaded before the command starts."""
    kind: NotRequired[JobKind]
    """`dev`: a VM to work on, without a command; it is not replaced when it ends."""
    labels: NotRequired[Mapping[str, str]]
    """Labels on its VMs, in Google's characters, such as the execution of a workflow that it is a part of."""
    max_crashes: NotRequired[int]
    """The number of times that a command that failed after progress is run again. A command that fails at its
    start is never run again.
    """
    max_preemptions: NotRequired[int]
    """The number of preemptions that it survives."""
    max_vm_hours: NotRequired[float | None]
    """The most hours that its VMs may run, added up over all of them and all attempts: four VMs use four an
    hour.
    """
    metric: NotRequired[MetricBody | None]
    """A number in the output, such as a validation loss."""
    mlflow_run: NotRequired[str]
    """The id of the MLflow run that its cost is logged to."""
    mounts: NotRequired[Sequence[str]]
    """Folders of the VM in the container: /on/the/vm:/in/the/image, and :ro to protect one."""
    name: NotRequired[str]
    """A name for people."""
    nodes: NotRequired[int | str]
    """The number of VMs that run the command together, all in one zone; 1: a job of one VM. A range such as
    "2..8" runs with what can be had: its launcher must take any number of them.
    """
    on_hang: NotRequired[OnHang]
    """`restart`: a command without progress is restarted from its newest checkpoint."""
    outputs: NotRequired[Sequence[OutputBody]]
    """Data that is published when the command succeeds."""
    overrides: NotRequired[OverridesBody | None]
    """Deviations from the preset; null: none."""
    owner: NotRequired[str]
    """The address of the person responsible; default: the caller. Only admins name another."""
    placement: NotRequired[Placement]
    """`compact`: Google places its VMs close together in their zone, which takes a machine series that has
    compact placement policies; fewer places may have room for them.
    """
    preset: str
    priority: NotRequired[int]
    """The priority where a limit has jobs wait: higher ones first, from -100 to 100. Only operators of its
    owner's team and admins go above 0.
    """
    profile: NotRequired[bool | None]
    """Whether the agent may take profiles of the command, now and then for 10 s; null: as the settings say."""
    project: NotRequired[str]
    """The project's id; empty: the watched project, where there is only one."""
    pull: NotRequired[bool]
    """Whether to resolve the tag on each VM; by default all run the digest that the first one pulled."""
    queue: NotRequired[bool | None]
    """Whether it waits in line where it is over a limit or a budget, or is refused; null: it waits for limits,
    and a spent budget refuses it.
    """
    secrets: NotRequired[Mapping[str, str]]
    """References to Secret Manager; the VM reads the values itself."""
    setup: NotRequired[str]
    """A shell command, run once on each VM before the command."""
    stacks: NotRequired[bool]
    """Whether the agent may look for 30 s at where the command's main thread stands."""
    stage: NotRequired[Staging]
    """Whether inputs come by way of a stage near the VMs, where each byte is fetched from its source once:
    `auto` stages those whose transfer is charged and that are large enough, `on` all from other clouds.
    """
    step_pattern: NotRequired[str]
    """A regular expression with a group that finds the step in the output."""
    stop_when_flat: NotRequired[bool]
    """Whether to finish it early once its metric, or loss, stands still. It needs checkpoints."""
    total_steps: NotRequired[int | None]
    """The number of steps that it takes in all."""
    wandb_run: NotRequired[str]
    """The W&B run whose summary shows its cost: ENTITY/PROJECT/RUN."""
    when_late: NotRequired[WhenLate]
    """finish: it goes on past the deadline, within its ceiling; stop: it stops at the deadline, after a
    checkpoint.
    """
    work_hours: NotRequired[float | None]
    """The hours that it takes on its preset without interruptions."""
    workdir: NotRequired[str]
    """The folder on the VM to run the command in; relative: below the code's."""


JobKind = Literal["training", "dev"]


class JobOriginOut(TypedDict):
    """An address from which a job starts."""

    address: str
    parent: str | None
    """The id of the job that stored what lies there; null: not known."""
    uses: Literal["checkpoint", "input", "command"]
    """`checkpoint`: it lay at the job's own location when the job was submitted; `input`: one of its inputs;
    `command`: its command, setup or environment names it.
    """


class JobOut(TypedDict):
    attempts: int
    cancel_after_at: str | None
    """The time at which a cancel after its next checkpoint was requested."""
    cancel_after_by: str
    cancel_asked_at: str | None
    cancel_asked_by: str
    ceiling: str | None
    command: list[str]
    cost: Amount
    """The cost of all its VMs with their disks, so far."""
    crashes: int
    created_at: str
    deadline: str | None
    id: str
    image: str
    """The requested container image; empty: none."""
    image_digest: str
    """The digest that was pulled, as sha256:...; empty before that."""
    kept_disk: KeptDiskOut | None
    """The disk that was kept; null: none. POST /jobs/{job_id}/delete-disk deletes it."""
    kind: Literal["training", "dev"]
    """`training`, or `dev`: a VM to work on."""
    metric: SeenMetricOut | None
    """The latest value of its metric; null: the job names none, or it has printed none yet."""
    name: str
    never_mind_at: str | None
    """The time of the last "never mind": a standstill whose best value came before it is not hinted at."""
    never_mind_by: str
    next_at: str | None
    """The next time it is checked, unless there is news before."""
    owner: str
    place: JobVmOut | None
    """The place of its latest VM; null: no VM has been requested yet."""
    preemptions: int
    preset: str
    project: str
    reason: str
    """The reason for its state, and the next step."""
    schedule: str
    """The schedule that launched it; empty: none."""
    settled_at: str | None
    """The time at which it ended; null: it has not."""
    state: Literal["queued", "provisioning", "running", "recovering", "succeeded", "failed", "cancelled"]
    step: int | None
    title: str
    """The name, or the id where it has none."""
    via: Literal["api", "cli", "page", "schedule"]


class JobOutlookOut(TypedDict):
    """The outlook based on `work_hours`, without interruptions. `no` is refused; `at_risk` gives a warning."""

    ceiling: str | None
    deadline: str | None
    ends_at: str | None
    """The expected end if its VM starts within 20 minutes; null: the duration is not known."""
    least: OfferOut | None
    """The cost in the cheapest zone that it may use."""
    max_vm_seconds: int | None
    """The limit on the time of its VMs; null: none."""
    meets_deadline: Literal["yes", "at_risk", "no", "unknown"]
    most: OfferOut | None
    """The cost in the most expensive zone that it may use."""
    within_ceiling: Literal["yes", "at_risk", "no", "unknown"]
    within_vm_hours: Literal["yes", "at_risk", "no", "unknown"]
    """Whether its VM hours suffice for its work; `at_risk`: not if it has to start once more."""


class JobPlanOut(TypedDict):
    """The plan of a job with a deadline: where it runs now and why."""

    act: Literal["start_spot", "start_on_demand", "start_flex", "drop_flex", "stay", "wait"]
    at_risk: AtRiskOfDeadlineOut | None
    """The risk to the deadline; null: the deadline can be kept."""
    behind_seconds: int | None
    """Seconds behind the straight line from launch to deadline; below zero: ahead of it."""
    finishes_at: str | None
    """The expected end if nothing interrupts it from now on."""
    is_urgent: bool
    """True: the guard acts at once and waits for nothing."""
    latest_safe_at: str | None
    """The latest time at which on-demand must start, if the job gains nothing before."""
    overhead: OverheadOut | None
    reason: str
    work_left: WorkLeftOut | None
    zone: str


class JobProgressResponse(TypedDict):
    as_of: str
    currency: str
    curves: list[CurveOut]
    interrupted_at: list[str]
    job: str
    progress: ProgressOut | None
    """The progress read in its output; null: nothing was read yet."""


class JobResponse(TypedDict):
    as_of: str
    attempts: list[AttemptOut]
    bound: str | None
    """The bottleneck of its present run, in words; null: not known. GET /jobs/{job_id}/diagnosis has the whole
    diagnosis.
    """
    checkpoint: CheckpointOut | None
    checkpoints: list[SeenCheckpointOut]
    """The complete checkpoints, the oldest first."""
    currency: str
    drills: list[DrillOut]
    """The drills, the newest first."""
    goodput: GoodputOut | None
    """The time and cost of the job by use; null for a development VM."""
    interruptions: list[InterruptionOut]
    job: JobOut
    kept_disk: KeptDiskOut | None
    """The disk that was kept; null: none. POST /jobs/{job_id}/delete-disk deletes it."""
    lost: LostOut
    next: str
    """The next step if its VM is lost, or once it gets one; empty: nothing."""
    notebook_command: str | None
    """The command that forwards port 8888 of a development VM."""
    on_notice: SavedOnNoticeOut
    pace: PaceOut
    plan: StoredPlanOut | None
    """The plan of a job with a deadline; null: nothing is planned for it."""
    price_note: str | None
    """The age of the prices behind these figures, where they came with Costguard: after 60 days they are an
    estimate. null: they were read from Google's catalogue.
    """
    progress: ProgressOut | None
    """The progress read in its output; null: nothing was read yet. GET /jobs/{job_id}/progress has its curves."""
    recipe: RecipeOut
    rounds: list[RoundOut]
    """The rounds of a job of several VMs, the oldest first; empty for a job of one VM."""
    save_interval: SaveIntervalOut | None
    """The checkpoint interval in use next to the best; null: the interval, the time of a save or the price is
    not known, or its VM is not preempted.
    """
    spec: JobSpecOut
    ssh_command: str | None
    """The command that opens a shell on its VM; null: there is no VM."""
    standstill: StandstillOut | None
    """The standstill of its metric; null: its metric improves, noise hides that, or a user has decided on it:
    see `never_mind_at`.
    """
    trackers: list[TrackedRunOut]
    """The runs of experiment trackers that it names."""
    vm_seconds: int
    """The time for which its VMs have run, added up over all of them and all attempts."""
    work_at_risk: AtRiskOut | None
    """The work since the newest checkpoint; null: no command is running."""


class JobSpecOut(TypedDict):
    """The request, which never changes."""

    aws_role: str
    """The role that the VM assumes at AWS with its Google identity, instead of keys."""
    bandwidth_mib_s: int | None
    """The limit on uploads and downloads together, in MiB/s; null: unlimited."""
    checkpoint: CheckpointPlanOut | None
    code: CodeOut | None
    """The code that is unpacked on each VM; null: it is in the image, or on the VM already."""
    deadline_in_seconds: int | None
    """The deadline, in seconds from its launch."""
    drill: bool
    """Whether to try a save on a notice once, early."""
    environment: dict[str, str]
    """Environment variables. They are not secret: do not put passwords here."""
    inputs: list[InputOut]
    """Data that is downloaded before the command starts."""
    labels: dict[str, str]
    """The requested labels of its VMs, in addition to those of its preset."""
    max_crashes: int
    """The number of times that a command that failed after progress is run again. A command that fails at its
    start is never run again.
    """
    max_preemptions: int
    """The number of preemptions that it survives."""
    max_vm_seconds: int | None
    """The most seconds that its VMs may run, added up over all of them."""
    metric: MetricOut | None
    mlflow_run: str
    """The MLflow run that its cost is logged to; empty: none."""
    mounts: list[str]
    """Folders of the VM in the container: /on/the/vm:/in/the/image, and :ro to protect one."""
    nodes: int | str
    """The number of VMs that run the command together, all in one zone; 1: a job of one VM. A range such as
    "2..8" runs with what can be had: its launcher must take any number of them.
    """
    on_hang: OnHang
    """`restart`: a command without progress is restarted from its newest checkpoint."""
    outputs: list[OutputOut]
    """Data that is published when the command succeeds."""
    placement: Placement
    """`compact`: Google places its VMs close together in their zone, which takes a machine series that has
    compact placement policies; fewer places may have room for them.
    """
    priority: int
    """The priority where a limit has jobs wait: higher ones first, from -100 to 100. Only operators of its
    owner's team and admins go above 0.
    """
    profile: bool | None
    """Whether the agent may take profiles of the command, now and then for 10 s; null: as the settings say."""
    pull: bool
    """Whether each VM resolves the image's tag again."""
    queue: bool | None
    """Whether it waits in line where it is over a limit or a budget, or is refused; null: it waits for limits,
    and a spent budget refuses it.
    """
    secrets: dict[str, str]
    """References to secrets, never their values."""
    setup: str
    """A shell command, run once on each VM before the command."""
    stacks: bool
    """Whether the agent may look for 30 s at where the command's main thread stands."""
    stage: Staging
    """Whether inputs come by way of a stage near the VMs, where each byte is fetched from its source once:
    `auto` stages those whose transfer is charged and that are large enough, `on` all from other clouds.
    """
    step_pattern: str
    """A regular expression with a group that finds the step in the output."""
    stop_when_flat: bool
    """Whether to finish it early once its metric, or loss, stands still. It needs checkpoints."""
    sweep: str
    """The id of its sweep; empty: none."""
    total_steps: int | None
    """The number of steps that it takes in all."""
    wandb_run: str
    """The W&B run whose summary shows its cost; empty: none."""
    when_late: WhenLate
    """finish: it goes on past the deadline, within its ceiling; stop: it stops at the deadline, after a
    checkpoint.
    """
    work_seconds: int | None
    """The seconds that it takes on its preset without interruptions."""
    workdir: str
    """The folder on the VM to run the command in; relative: below the code's."""


JobState = Literal["queued", "provisioning", "running", "recovering", "succeeded", "failed", "cancelled"]


class JobVmOut(TypedDict):
    """The VM of the latest attempt."""

    attempt: int
    """The attempt's number; 1 is the first."""
    gce_id: str
    """Google's numeric id; empty until it is known."""
    name: str
    """The VM's name."""
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    """spot or standard."""
    rate_per_hour: str | None
    """The hourly cost of VM and disk, as estimated at the launch."""
    state: Literal[
        "intended", "asked", "waiting", "booting", "running", "resting", "restarting", "ending", "kept", "over"
    ]
    """The attempt's state; ending and over: its outcome is known."""
    zone: str


class JobsResponse(TypedDict):
    as_of: str
    currency: str
    jobs: list[JobOut]
    kept_disks: KeptDisksOut
    next_cursor: str | None


class KeepBody(TypedDict):
    by: NotRequired[str | None]
    """The requester; default: the caller. Only admins name another."""
    due_at: NotRequired[datetime | str | None]
    """The due time that the requester saw: the request is refused if it has changed."""
    hours: NotRequired[int | None]
    """The length of the keep in hours from when it is due; null: until tomorrow morning."""
    reason: NotRequired[str]
    """The reason, shown in the audit log and in notifications."""
    started_at: NotRequired[datetime | str | None]
    """The start of the run that the requester saw: the request is refused if that run has ended."""


class KeepMembersBody(TypedDict):
    by: NotRequired[str | None]
    """The address of the person who keeps them; default: the caller. Only admins name another."""
    members: NotRequired[Sequence[int]]
    """The members' numbers. Empty: all of them, which ends halving."""


class KeepOut(TypedDict):
    at: str
    by: str
    cost: Amount
    """The cost from when it would have been due until the keep expired, it ended, or now."""
    gce_id: str
    name: str
    owner: str
    preset: str
    project: str
    reason: str
    until: str


KeeperKind = Literal[
    "gke",
    "group",
    "dataproc",
    "workbench",
    "batch",
    "dataflow",
    "composer",
    "workstation",
    "tpu",
    "vertex",
    "tool",
    "job",
    "nobody",
    "unknown",
]


class KeeperOut(TypedDict):
    """The group, service, tool or job that keeps a VM or other resource, behind whose back nothing stops it."""

    cluster: str
    doubt: str
    """The doubt about this evidence, in a sentence; empty: there is none."""
    evidence: list[str]
    """The labels and metadata items that say so."""
    group: str
    """The path of the managed instance group that recreates it."""
    kind: Literal[
        "gke",
        "group",
        "dataproc",
        "workbench",
        "batch",
        "dataflow",
        "composer",
        "workstation",
        "tpu",
        "vertex",
        "tool",
        "job",
        "nobody",
        "unknown",
    ]
    """`nobody`: nothing keeps it; `unknown`: the evidence could not be read."""
    name: str
    """The cluster, environment, job, notebook or group it is part of."""
    place: str
    """The zone or region of what keeps it."""
    pool: str
    """The node pool of GKE, or the configuration of a workstation."""
    product: str
    """The tool, or the kind of notebook."""


class KeepsOut(TypedDict):
    cost: Amount
    keeps: list[KeepOut]
    """The keeps, the latest first."""
    method: str


class KeptDiskOut(TypedDict):
    """The disk of an ended job on a stopped VM. It holds the only copy of what the job saved, and it bills."""

    gib: int
    holds: str
    """The data that would be lost with it."""
    monthly: str | None
    """The monthly cost; null: it has no price."""
    vm: str
    zone: str


class KeptDisksOut(TypedDict):
    """The kept disks of all ended jobs, also those that the filters exclude: each bills until it is deleted."""

    count: int
    monthly: Amount


LabelSpendResponse = TypedDict(
    "LabelSpendResponse",
    {
        "as_of": "str",
        "currency": "str",
        "from": "str",
        "label": "str",
        "rows": "list[LabelSpendRowOut]",
        "to": "str",
        "total": "SumsOut",
        "unpriced": "int",
    },
)


class LabelSpendRowOut(TypedDict):
    gpu: str
    """The cost of GPUs, and of TPU chips with their share of the VM."""
    hours: str
    """The running time of VMs in hours, to four places."""
    machine: str
    """The cost of vCPUs, memory and local SSDs."""
    seconds: int
    """The running time of VMs in seconds."""
    storage: str
    """The cost of disks, and of the saved memory of suspended VMs."""
    total: str
    """Exact decimal dollars, to the nano-dollar."""
    unpriced: int
    """The number of lifetimes and disks without a price: the amounts are too low by their cost."""
    value: str | None
    """The label's value; null: VMs while they had no such label."""


class LargerVmOut(TypedDict):
    machine_type: str
    more_per_hour: str
    """The additional hourly cost over the job's VM, with the same GPUs."""
    vcpus: int


class LeaseOut(TypedDict):
    expires_at: str
    holder: str
    is_held: bool
    """False: it has expired, and no daemon acts."""
    name: str


class LeftAloneCountOut(TypedDict):
    count: int
    reason: str


class LeftAloneOut(TypedDict):
    due_at: str | None
    gce_id: str
    name: str
    next_at: str | None
    """The time of the next reminder unless a user answers."""
    overdue: bool
    """True: it is past the preset's limit."""
    project: str
    reason: str
    stop_at: str | None
    """The time at which a rule stops it unless a user answers."""


class LifetimeDetailOut(TypedDict):
    charges: list[ChargeOut]
    cost: Amount
    end_is_estimate: bool
    """True: no operation shows the exact time, and `ended_at` is the latest it can be."""
    end_reason: (
        Literal[
            "stopped",
            "suspended",
            "deleted",
            "preempted",
            "host_error",
            "host_maintenance",
            "run_time_limit",
            "guest_shutdown",
            "recreated",
            "unknown",
        ]
        | None
    )
    ended_at: str | None
    """The end; null: still running."""
    ended_by: str
    """An account, `system`, or empty when unknown."""
    gce_id: str
    gpu_count: int
    gpu_type: str | None
    id: int
    job: str
    machine_type: str
    name: str
    owner: str
    preset: str
    project: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    seconds: int
    """The seconds from its start to its end, or to now."""
    started_at: str
    unpriced: str
    zone: str


class LifetimeOut(TypedDict):
    cost: Amount
    end_is_estimate: bool
    """True: no operation shows the exact time, and `ended_at` is the latest it can be."""
    end_reason: (
        Literal[
            "stopped",
            "suspended",
            "deleted",
            "preempted",
            "host_error",
            "host_maintenance",
            "run_time_limit",
            "guest_shutdown",
            "recreated",
            "unknown",
        ]
        | None
    )
    ended_at: str | None
    """The end; null: still running."""
    ended_by: str
    """An account, `system`, or empty when unknown."""
    gce_id: str
    gpu_count: int
    gpu_type: str | None
    id: int
    job: str
    machine_type: str
    name: str
    owner: str
    preset: str
    project: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    seconds: int
    """The seconds from its start to its end, or to now."""
    started_at: str
    unpriced: str
    zone: str


class LifetimesResponse(TypedDict):
    as_of: str
    currency: str
    lifetimes: list[LifetimeOut]
    next_cursor: str | None


class LimitOut(TypedDict):
    """A limit, or its part for one value of `for_each`."""

    counts_others: bool
    """Whether VMs that no job launched count, too."""
    dollars_per_hour: str | None
    """The most dollars an hour at once; null: any amount."""
    for_each: Literal["owner", "team", "project", "preset"] | None
    """The part of which each value, such as each owner, has this limit; null: all share it."""
    gpus: int | None
    """The most GPUs at once; null: any number."""
    name: str
    owner: str | None
    preset: str | None
    project: str | None
    team: str | None
    used: InUseOut
    users: list[LimitUserOut]
    """The users of the limit, the one with the most first."""
    value: str
    """The owner, team, project or preset of this part; empty without `for_each`."""
    vms: int | None
    """The most VMs at once; null: any number."""
    waiting: list[QueuedJobOut]
    """The jobs that wait for it, in the order in which they start."""


class LimitUserOut(TypedDict):
    ends_at: str | None
    """The expected end of the job; null: not known."""
    job: str
    """The job's id; empty: VMs that no job launched."""
    owner: str
    preset: str
    project: str
    title: str
    used: InUseOut


class LimitsResponse(TypedDict):
    as_of: str
    currency: str
    limits: list[LimitOut]


class LineageJobOut(TypedDict):
    cost: Amount
    """The cost of the job itself so far."""
    created_at: str
    depth: int
    """The distance from the job: below zero for what it started from."""
    id: str
    origins: list[JobOriginOut]
    others: list[str]
    """The ids of other jobs that connect it with the job, too; it is listed once."""
    owner: str
    parent: str | None
    """The id of the job under which it stands in the tree; null: none."""
    preset: str
    state: Literal["queued", "provisioning", "running", "recovering", "succeeded", "failed", "cancelled"]
    title: str
    with_below: Amount
    """The cost of it and of all that started from it; each job counts once."""


class LineageResponse(TypedDict):
    ancestors: list[LineageJobOut]
    """The jobs that it started from, the oldest first."""
    as_of: str
    currency: str
    descendants: list[LineageJobOut]
    """The jobs that started from it, each below its parent."""
    downward: Amount
    """The cost of the job with all that started from it."""
    is_whole: bool
    """False: jobs were left out, since there are more than 500."""
    job: LineageJobOut
    price_note: str | None
    """The age of the prices behind these figures, where they came with Costguard: after 60 days they are an
    estimate. null: they were read from Google's catalogue.
    """
    total: Amount
    """The cost of all of these jobs; each counts once."""
    unknown: list[JobOriginOut]
    """Checkpoints that lay at the location of one of these jobs when it was submitted, and that no known job
    saved: their cost is in none of the sums.
    """
    upward: Amount
    """The cost of the job with all that it started from: the cost of its result."""


class LinksOut(TypedDict):
    instance: str
    """The address of the VM or other resource."""
    self: str
    """The address of this request."""


ListingReason = Literal["never_read", "unread", "work", "silent", "unproven", "missed", "turn"]


class ListingsOut(TypedDict):
    """The cost of listings, and the replicas that make them."""

    holders: dict[str, int]
    """The number of projects that each replica watches."""
    oldest_age_seconds: int | None
    """The age of the oldest whole listing."""
    requests_per_hour: int | None
    """Requests to Google's lists in the last whole hour; null while no whole hour was counted."""
    requests_per_hour_in_every_pass: int | None
    """The same if every pass listed every project, as it does without events."""
    unheld: int
    """Projects that no replica watches at this moment."""


class LooseOut(TypedDict):
    command: str
    """The command that removes it, for a person to run; empty: a reservation of calendar mode, which is sold
    for a whole period. Costguard removes nothing.
    """
    created_at: str
    ends_at: str | None
    """The time at which Google deletes a reservation; null: it has no such time."""
    hourly: str | None
    """The cost an hour of the unused part of a reservation; null: no price is known, or it is none."""
    kind: Literal["disk", "address", "snapshot", "image", "reservation", "future_reservation", "queued_resource"]
    labels: dict[str, str]
    monthly: str | None
    """The cost of a month at list prices; null: no price is known."""
    name: str
    owner: str
    """The owner by its labels; empty: none is named."""
    project: str
    scope: str
    """zones/NAME, regions/NAME or global."""
    since: str
    """The time since which nothing uses it, as far as Google says, else its creation."""
    what: str
    """The type and size, for people."""


class LooseResponse(TypedDict):
    as_of: str
    cluster_disks: int
    """Unattached disks that a cluster's volumes may need: they are not loose."""
    currency: str
    method: str
    monthly: Amount
    """The sum; not complete where something has no price, or was not read."""
    oldest_at: str | None
    """The time at which Google was asked for the oldest answer in it; null: no project has answered. Each
    project is asked once an hour.
    """
    planned: list[PlannedOut]
    """Future reservations that are not over, by start."""
    projects: int
    """The number of watched projects, including unknown ones."""
    things: list[LooseOut]
    """The things, those without a price first, then the dearest."""
    unknown: list[UnknownProjectOut]
    """The projects of which nothing is known now."""
    unpriced: int
    unread: list[UnreadListOut]
    """Lists that could not be read, of projects that answered otherwise."""
    unused_reservations: Amount
    """The cost an hour of reserved VMs that nobody uses."""


class LostOut(TypedDict):
    """The work that has been lost so far."""

    cost: str
    """Exact decimal dollars, to the nano-dollar."""
    from_zero: int
    """The number of times that there was no checkpoint to resume from."""
    seconds: int


class MachineCostOut(TypedDict):
    """The cost of the script on one machine. What is not known is null."""

    best: float | None
    """The best value of the metric that a run on this machine reached."""
    cost_per_1000_steps: str | None
    """The cost of those runs per 1,000 steps; repeated steps count once."""
    cost_to_reach: str | None
    """The cost of the run that reached `target`, until its metric first did."""
    gpu_count: int
    gpu_type: str
    jobs: list[AlikeJobOut]
    machine_type: str
    preset: str
    reached_by: str | None
    """The id of that job."""
    steps: int | None
    """The steps of all its runs with known steps and cost."""


class MatchOut(TypedDict):
    gpu_count_max: int | None
    gpu_count_min: int
    gpu_types: list[str]
    labels: dict[str, str]


class MeResponse(TypedDict):
    address: str
    """The caller's address; empty: the master token, which has no address."""
    expires_at: str | None
    """The time at which that token expires; null: never, or there is none."""
    permissions: list[Literal["read", "jobs", "instances", "tokens", "metrics", "admin"]]
    """The permissions of this token or session."""
    role: Literal["nobody", "viewer", "operator", "admin"]
    token: str | None
    """The id of the token; null: no token was sent."""
    via: Literal["master", "token", "link", "iap", "oidc"]
    """The way in which the caller was identified."""


class MemberStopOut(TypedDict):
    reason: str
    rest: int | None
    """The seconds that it would still have run, by its last pace; null: unknown."""
    saved: str | None
    """The cost expected to be saved; null: unknown."""
    step: float
    """The step at which it was compared."""
    stopped_at: str
    unit: Literal["epoch", "batch", "step"]


class MessageOut(TypedDict):
    accepted_at: str | None
    address: str
    """The recipient: an address, a channel, or a Slack id."""
    attempts: int
    cycle: int
    """The number of answers before it: each answer starts a new cycle of stages."""
    error: str
    """The reason why the last attempt failed, or why it is not sent any more."""
    gce_id: str
    id: int
    intended_at: str
    key: str
    """The message's natural key: no two messages have the same."""
    kind: Literal["reminder", "digest", "report", "reservation", "notification", "job", "ephemeral"]
    name: str
    project: str
    stage: int
    """The position in its cycle; 0 is the first."""
    status: Literal["intended", "sending", "accepted", "withdrawn", "failed"]
    """accepted: Slack accepted it; failed: it will not be sent."""
    subject: str
    """The subject of a reminder: `run` or `rest`, and two numbers; empty for others."""
    target: Literal["owner", "channel", "contact", ""]
    """The VM or disk of a reminder; empty for others."""
    try_after: str | None
    """The time at which it is sent or tried again; null: it is not waiting."""


class MessagesResponse(TypedDict):
    as_of: str
    next_cursor: str | None
    reminders: list[MessageOut]


class MetricBody(TypedDict):
    """A number that the command prints."""

    better: NotRequired[Literal["lower", "higher"]]
    pattern: str
    """A regular expression with a group that finds the number in the output."""


class MetricOut(TypedDict):
    """A number that the command prints."""

    better: Literal["lower", "higher"]
    pattern: str
    """A regular expression with a group that finds the number in the output."""


class MetricValueOut(TypedDict):
    at: str
    """The time at which the agent read it."""
    step: int | None
    """The last step that was known by then; null: none."""
    text: str
    """The same as text, which may be `nan` or `inf`."""
    value: float | None
    """The value; null: it is not a finite number."""


class NeverMindBody(TypedDict):
    by: NotRequired[str | None]
    """The requester's address; default: the caller. Only admins name another."""


class NewTokenResponse(TypedDict):
    as_of: str
    secret: str | None
    """The secret, shown once and not stored. null: this is a repeat of an earlier request."""
    token: TokenOut


class NextMachineOut(TypedDict):
    """The machine to try next: of a preset, or else a machine type that has a price."""

    cost_now_per_1000_steps: str | None
    """The cost of 1,000 steps at the present pace."""
    cost_per_1000_steps: str | None
    """The estimated cost of 1,000 steps there, from the ratio of the data sheets' peaks (of bandwidths where
    memory bandwidth is the bound); null: its pace is not known, or memory is the bound.
    """
    gpu_count: int
    gpu_type: str
    machine_type: str
    preset: str
    """The preset that launches it; empty: none does."""
    rate_per_hour: str
    """Exact decimal dollars, to the nano-dollar."""


class NotHeldOut(TypedDict):
    cost: str
    """Exact decimal dollars, to the nano-dollar."""
    name: str
    project: str


class NotStoppedOut(TypedDict):
    """The reason why it is not stopped; the first where there are several."""

    at: str | None
    """The time of the next missing condition; null where no time is known."""
    cause: Literal[
        "gone",
        "not_running",
        "stopping",
        "not_read",
        "requested",
        "failed",
        "keeper",
        "no_preset",
        "reminds_only",
        "job",
        "protected",
        "no_limit",
        "kept",
        "not_due",
        "no_slack",
        "weak_evidence",
        "warnings",
        "grace",
        "shadow",
        "due_now",
    ]
    missing: list[str]
    """The conditions still missing, in order: evidence, warnings, grace."""
    rule: str
    """The rule that could stop it; empty where none can."""
    sentence: str
    """The whole explanation for people, with times in UTC."""


class OfferOut(TypedDict):
    cost: str | None
    """The cost of the hours in the request."""
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    rate_per_hour: str | None
    zone: str


OnHang = Literal["tell", "restart"]


class OtherActionOut(TypedDict):
    action: Literal["stop", "keep", "assign", "cancel_job", "refuse"]
    name: str
    reason: str
    subject: str


class OutputBody(TypedDict):
    destination: str
    """The address s3://bucket/path or gs://bucket/path, published once the command has succeeded."""
    path: str
    """A path on the VM."""


class OutputOut(TypedDict):
    destination: str
    """The address s3://bucket/path or gs://bucket/path, published once the command has succeeded."""
    path: str
    """A path on the VM."""


class OutputResponse(TypedDict):
    """The output of an attempt's command, as a terminal would show it."""

    as_of: str
    attempt: int | None
    """The attempt's number; null: no agent has reported yet."""
    heard_at: str | None
    is_end: bool | None
    """True: all stored output was read, with `begin` or `search`."""
    job: str
    log: str
    """The file on the VM with the whole output."""
    next: str | None
    """The `begin` of the next request, now or later, with `begin` or `search`."""
    output: str
    stored: str
    """The address of the whole stored output; empty: it is not stored."""
    stored_at: str | None
    """The time at which the newest part was stored, with `begin` or `search`; null: none is yet."""


class OverheadOut(TypedDict):
    loss_seconds: int
    """The most work that a preemption can undo."""
    start_seconds: int
    """The longest time from the loss of a VM to work on the next."""


class OverridesBody(TypedDict):
    """Deviations from the preset's recipe. Operators may override what the preset allows."""

    buy: NotRequired[str | None]
    """The way to buy its VMs: spot, flex, demand, cheapest or reserved:NAME; null: as in the preset."""
    disk_gib: NotRequired[int | None]
    """The size of the boot disk in GiB; null: the preset's."""
    flex_wait_hours: NotRequired[float | None]
    """The hours for which a request for a flex-start VM may wait, at most 2; 0: now or not at all."""
    image: NotRequired[str | None]
    """The boot image: projects/P/global/images/family/F."""
    machine_type: NotRequired[str | None]
    """The machine type; null: the preset's."""
    max_run_hours: NotRequired[float | None]
    """The hours that each VM may run; then Google ends it."""
    notice: NotRequired[Literal["120s", "0s"] | None]
    """The time from the announcement of a Spot VM's preemption to its shutdown; null: as in the preset."""
    on_demand_fallback: NotRequired[bool | None]
    """Whether to use on-demand when what is bought otherwise is out of stock everywhere."""
    zones: NotRequired[Sequence[str] | None]
    """The only zones to use."""


class PaceOut(TypedDict):
    cost_per_1000_steps: str | None
    """The total cost per 1,000 steps, without repeated steps."""
    per_hour: str | None
    """Steps per hour of the latest attempt whose steps are known."""
    steps: int | None
    """The number of steps, without repeated work."""


Permission = Literal["read", "jobs", "instances", "tokens", "metrics", "admin"]


class PlaceEventOut(TypedDict):
    at: str
    outcome: Literal["stockout", "preempted"]


class PlaceOut(TypedDict):
    """A zone for one kind of GPU and one provisioning model."""

    events: list[PlaceEventOut]
    """The events behind the figures, the newest first; at most ten."""
    gpu_type: str
    """The GPU's type; empty: VMs without a GPU."""
    preemptions: str
    """The weight of recent preemptions: each counts 1 at first, and fades with a longer half-life."""
    presets: list[str]
    """The presets that launch there."""
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    stockouts: str
    """The weight of recent stockouts: each counts 1 at first, and fades with its half-life."""
    zone: str


Placement = Literal["any", "compact"]


class PlacesResponse(TypedDict):
    as_of: str
    places: list[PlaceOut]
    preemption_half_life_seconds: int
    stockout_half_life_seconds: int


class PlanPointOut(TypedDict):
    at: str
    latest_safe_at: str | None
    work_left_seconds: int


class PlannedOut(TypedDict):
    """A future reservation: it bills from its start, used or not."""

    ends_at: str | None
    """The end of its period; null: it has none."""
    is_calendar: bool
    """True: it was booked in calendar mode; false: through an account team."""
    name: str
    procurement: str
    """Google's procurement status, in lower case."""
    project: str
    reservation_ends_at: str | None
    """The time at which Google deletes the reservations that it made; null: it has no such time."""
    scope: str
    """zones/NAME."""
    starts_at: str
    what: str
    """The number and type of its VMs."""


class PlannedStepOut(TypedDict):
    act: Literal["start_spot", "start_on_demand", "start_flex", "drop_flex", "stay", "wait"]
    at: str
    latest_safe_at: str | None
    reason: str
    zone: str
    """The zone in which Spot is started; empty: none."""


class PresetOut(TypedDict):
    description: str
    dev_image: str
    """The boot image of development VMs; empty: the recipe's image."""
    idle: IdleRuleOut | None
    """The rule for idleness; null: idleness is not used."""
    launch: RecipeOut | None
    """The recipe that launches its VMs; null: they cannot be launched."""
    limit_seconds: int | None
    """The length of a lifetime after which its owner gets a reminder; null: no limit."""
    match: MatchOut
    """The conditions that recognise a VM: all must hold."""
    name: str
    overrides: list[str]
    """The parts of the recipe that operators may override; admins may override all."""
    reminders: ReminderRuleOut
    starts: StartsOut | None
    """The start times of its jobs' VMs; null: none was seen."""
    starts_by_zone: dict[str, StartsOut]
    """The start times in each zone in which any was seen."""


class PresetPriceOut(TypedDict):
    """A preset at today's prices, where and as it is cheapest, next to the peak figures of its accelerators."""

    gpu_count: int
    gpu_type: str
    machine_type: str
    memory_gb_per_s: float | None
    """The memory bandwidth of all its chips together, in GB/s; null: not known."""
    peak_number: str | None
    """The number format of the peak: bf16, or the fastest float that the chip has."""
    peak_tflops: float | None
    """The dense peak of all its chips together, in TFLOP/s; null: not known."""
    per_exaflop: str | None
    """Dollars for 10^18 operations at the peak; null: not known."""
    per_tb_s_hour: str | None
    """Dollars an hour for each 1,000 GB/s of memory bandwidth; null: not known."""
    preset: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"] | None
    rate_per_hour: str | None
    source: str | None
    """The data sheet of the peak figures; null: they are not known."""
    zone: str
    """The zone in which it is cheapest; empty: nothing has a price."""


class PresetsResponse(TypedDict):
    presets: list[PresetOut]


class PreviewResponse(TypedDict):
    actions: list[OtherActionOut]
    as_of: str
    channel: str
    """The channel for reminders without a team's channel; empty: Slack is not set up."""
    currency: str
    is_shadow: bool
    """True: rules stop nothing; the stops that they would have made are recorded."""
    left_alone: list[LeftAloneOut]
    messages: list[DueReminderOut]


class PriceOut(TypedDict):
    in_force_from: str
    is_in_force: bool
    """False: a later price replaced it, or it is not in force yet."""
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    rate: str
    """The price in dollars per unit."""
    recorded_at: str
    region: str
    resource: str
    sku_id: str
    source: str
    unit: str
    """`h`, `GiBy.h` or `GiBy.mo` (the calendar month in US Pacific time)."""


class PricesResponse(TypedDict):
    age_seconds: int | None
    """Seconds since a price was last added."""
    as_of: str
    currency: str
    next_cursor: str | None
    """The `cursor` of the next page of prices; null: this was the last page."""
    prices: list[PriceOut]
    """The prices by resource, region and model, each with the latest first."""
    recorded_at: str | None
    refused: list[RefusedPriceOut]
    sources: list[str]
    unpriced: list[UnpricedUseOut]
    """The first 100 lifetimes and disks in use without a price."""
    unpriced_total: int
    """The number of lifetimes and disks in use now that have no price."""


class ProblemKindOut(TypedDict):
    meaning: str
    type: str


class ProfileResponse(TypedDict):
    """The profile of a job. Stacks hold the names of functions and files, and no values."""

    as_of: str
    compared_with: str | None
    """The earlier job that it is compared with; null: none has a profile."""
    cpu_seconds: float
    """The processor time that these looks took, over all windows."""
    cures: list[CureOut]
    """The cures for known patterns that the stacks show, where data is late."""
    data_share: float
    """The share of the main thread's time in which it waited for data, or prepared it."""
    groups: list[ProfiledGroupOut]
    job: str
    seconds: float
    """The time in which stacks were looked at."""
    since: str | None
    until: str | None
    why_none: str
    """The reason why it holds no stacks; empty: it holds some."""
    windows: int
    """The number of windows of ten seconds in it."""


class ProfiledGroupOut(TypedDict):
    """The main thread, or the loader's workers."""

    functions: list[HotFunctionOut]
    """The hottest functions, by their own share."""
    looks: int
    """The number of looks at its stacks."""
    name: Literal["main", "workers"]
    other: int
    """The number of looks at stacks that are too rare to be kept."""


class ProgressOut(TypedDict):
    done: float | None
    epoch: float | None
    """The epoch as printed."""
    left: TimeLeftOut | None
    """The time and cost left; null: its total or its pace is unknown, or it has ended."""
    loss: str | None
    """The training loss, as a number or nan, inf, -inf."""
    metrics: dict[str, str]
    """Other values that were printed, by name."""
    per_second: float | None
    """Steps or other units per second over the last minutes; null for a job that has ended."""
    phase: str
    """`train` or `eval`: the phase that was read last."""
    read_at: str
    """The time at which its agent last read progress in the output."""
    total: float | None
    """The job's own number of steps, or else the total in its output."""
    unit: Literal["epoch", "batch", "step"] | None
    """The unit of `done` and `total`; null: nothing was counted yet."""


class ProjectCountsOut(TypedDict):
    """The projects by the outcome of their last look; each is counted once."""

    completely_read: int
    """Projects that were read completely, and lately."""
    late: int
    """Projects that were not read completely for too long, though Google refuses nothing."""
    not_read: int
    """Projects of which the last look read nothing; see `unread`."""
    oldest_age_seconds: int | None
    """The age of the oldest complete read."""
    partly_read: int
    """Projects of which the last look missed a zone or a list; see `unread`."""
    watched: int


class ProjectHealthOut(TypedDict):
    age_seconds: int | None
    doubt: ListingReason | None
    """The reason why every pass lists the project; null: its events come, and it is listed in turn."""
    held_since: str | None
    """The time since when that replica has watched it."""
    holder: str | None
    """The replica that watches it; null: none does at the moment."""
    is_stale: bool
    is_unread: bool
    """True: the last read failed completely; `unread` has the reason and the fix."""
    last_complete_at: str | None
    project: str


class ProjectOut(TypedDict):
    first_seen_at: str
    found_at: str | None
    """The time of the first search that found it; null: none has."""
    instances: int
    """The number of instances in the last read that covered every zone."""
    is_listed: bool
    """True: the settings list it. False: it is watched because a search found it."""
    is_stale: bool
    """True: the last complete read is older than it should be, or there is none."""
    last_complete_at: str | None
    """The last read that covered every zone; null: there was none."""
    last_found_at: str | None
    """The time of the last search that found it."""
    last_tried_at: str
    missing_since: str | None
    """The first complete search since then that did not show it. It stays watched while it may have VMs."""
    operations_through_at: str | None
    """Operations, and who started them, are known up to here."""
    project: str
    refused_since: str | None
    """The time since when it has refused to be read, as `unread` says; null: it answers. A discovered project
    that refuses is asked at least every ten minutes.
    """
    unread: list[UnreadOut]


class ProjectsResponse(TypedDict):
    as_of: str
    projects: list[ProjectOut]
    searches: list[SearchedPlaceOut]


class PromisedSavingOut(TypedDict):
    """A saving at best, shown as "up to"."""

    per_hour: str | None
    """The saving on each hour of its VM; null: it has no price."""
    seconds: int | None
    share: float
    """The saving as a share of the time that is left."""
    total: str | None
    """The saving on the rest of the run; null: its length is not known."""


class QueuedJobOut(TypedDict):
    job: str
    needs: InUseOut
    owner: str
    place: int
    """The place in line, from 1; 0: the job exceeds the limit even alone."""
    priority: int
    since: str
    """The time since when it has waited."""
    starts_at: str | None
    """The expected start; null: not known."""
    title: str
    why: str
    """The reason in one sentence: the limit, those ahead, and the expected start."""


class QuoteBody(TypedDict):
    aws_role: NotRequired[str]
    """The role that the VM assumes at AWS with its Google identity, instead of keys."""
    bandwidth_mib_s: NotRequired[int | None]
    """The limit on uploads and downloads together, in MiB/s; null: unlimited."""
    ceiling: NotRequired[Decimal | str | None]
    """The most that all its VMs together may cost."""
    checkpoint: NotRequired[CheckpointBody | None]
    """The place of its checkpoints, and how it resumes; null: nothing is kept."""
    code: NotRequired[CodeBody | None]
    """The code that is unpacked on each VM; the command runs in it."""
    command: NotRequired[Sequence[str]]
    """The command, run directly on the VM or in the image, without a shell."""
    deadline: NotRequired[datetime | str | None]
    """The time by which it must be finished."""
    deadline_in_hours: NotRequired[float | None]
    """The deadline in hours from its launch; give one of the two."""
    drill: NotRequired[bool]
    """Whether to try a save on a notice once, early."""
    environment: NotRequired[Mapping[str, str]]
    """Environment variables. They are not secret: do not put passwords here."""
    hours: NotRequired[float]
    """The running time to quote for."""
    image: NotRequired[str]
    """A container image by tag or digest; empty: run on the VM itself."""
    inputs: NotRequired[Sequence[InputBody]]
    """Data that is downloaded before the command starts."""
    kind: NotRequired[JobKind]
    """`dev`: a VM to work on, without a command; it is not replaced when it ends."""
    labels: NotRequired[Mapping[str, str]]
    """Labels on its VMs, in Google's characters, such as the execution of a workflow that it is a part of."""
    max_crashes: NotRequired[int]
    """The number of times that a command that failed after progress is run again. A command that fails at its
    start is never run again.
    """
    max_preemptions: NotRequired[int]
    """The number of preemptions that it survives."""
    max_vm_hours: NotRequired[float | None]
    """The most hours that its VMs may run, added up over all of them and all attempts: four VMs use four an
    hour.
    """
    metric: NotRequired[MetricBody | None]
    """A number in the output, such as a validation loss."""
    mlflow_run: NotRequired[str]
    """The id of the MLflow run that its cost is logged to."""
    mounts: NotRequired[Sequence[str]]
    """Folders of the VM in the container: /on/the/vm:/in/the/image, and :ro to protect one."""
    name: NotRequired[str]
    """A name for people."""
    nodes: NotRequired[int | str]
    """The number of VMs that run the command together, all in one zone; 1: a job of one VM. A range such as
    "2..8" runs with what can be had: its launcher must take any number of them.
    """
    on_hang: NotRequired[OnHang]
    """`restart`: a command without progress is restarted from its newest checkpoint."""
    outputs: NotRequired[Sequence[OutputBody]]
    """Data that is published when the command succeeds."""
    overrides: NotRequired[OverridesBody | None]
    """Deviations from the preset; null: none."""
    owner: NotRequired[str]
    """The address of the person responsible; default: the caller. Only admins name another."""
    placement: NotRequired[Placement]
    """`compact`: Google places its VMs close together in their zone, which takes a machine series that has
    compact placement policies; fewer places may have room for them.
    """
    preset: str
    priority: NotRequired[int]
    """The priority where a limit has jobs wait: higher ones first, from -100 to 100. Only operators of its
    owner's team and admins go above 0.
    """
    profile: NotRequired[bool | None]
    """Whether the agent may take profiles of the command, now and then for 10 s; null: as the settings say."""
    project: NotRequired[str]
    """The project's id; empty: the watched project, where there is only one."""
    pull: NotRequired[bool]
    """Whether to resolve the tag on each VM; by default all run the digest that the first one pulled."""
    queue: NotRequired[bool | None]
    """Whether it waits in line where it is over a limit or a budget, or is refused; null: it waits for limits,
    and a spent budget refuses it.
    """
    secrets: NotRequired[Mapping[str, str]]
    """References to Secret Manager; the VM reads the values itself."""
    setup: NotRequired[str]
    """A shell command, run once on each VM before the command."""
    stacks: NotRequired[bool]
    """Whether the agent may look for 30 s at where the command's main thread stands."""
    stage: NotRequired[Staging]
    """Whether inputs come by way of a stage near the VMs, where each byte is fetched from its source once:
    `auto` stages those whose transfer is charged and that are large enough, `on` all from other clouds.
    """
    step_pattern: NotRequired[str]
    """A regular expression with a group that finds the step in the output."""
    stop_when_flat: NotRequired[bool]
    """Whether to finish it early once its metric, or loss, stands still. It needs checkpoints."""
    total_steps: NotRequired[int | None]
    """The number of steps that it takes in all."""
    wandb_run: NotRequired[str]
    """The W&B run whose summary shows its cost: ENTITY/PROJECT/RUN."""
    when_late: NotRequired[WhenLate]
    """finish: it goes on past the deadline, within its ceiling; stop: it stops at the deadline, after a
    checkpoint.
    """
    work_hours: NotRequired[float | None]
    """The hours that it takes on its preset without interruptions."""
    workdir: NotRequired[str]
    """The folder on the VM to run the command in; relative: below the code's."""


class QuoteOut(TypedDict):
    as_of: str
    budgets: list[QuotedBudgetOut]
    cheapest: OfferOut | None
    """The cheapest of the provisioning models it may use; null: nothing has a price."""
    currency: str
    expected: ExpectedCostOut | None
    """The expected cost of a job with a deadline and work_hours; null: not known."""
    first: OfferOut | None
    """The place in which it would start now."""
    hours: str
    kind: Literal["training", "dev"]
    machine: QuotedVmOut | None
    """The machine of each of its VMs; null: there is no such preset, or it cannot be launched."""
    moves: list[DataMoveOut]
    """The inputs and outputs with the cost of moving them."""
    nodes: int
    """The number of VMs that these prices are for, together; of a range, the most."""
    on_notice: str
    """Whether a save fits in the notice of a preemption, as last measured of this command on this preset;
    empty: not known.
    """
    outlook: JobOutlookOut
    """Whether it can meet its deadline and stay within its ceiling."""
    places: list[QuotedPlaceOut]
    """The places in the order in which they would be tried now."""
    preset: str
    presets: list[PresetPriceOut]
    """The presets that can be launched, those with the least dollars for a FLOP at their peak first."""
    price_note: str | None
    """The age of the prices behind these figures, where they came with Costguard: after 60 days they are an
    estimate. null: they were read from Google's catalogue.
    """
    project: str
    question: str
    """A question for a person to confirm before an expensive launch; empty: none."""
    refusals: list[RefusalOut]
    """The reasons why POST /api/v1/jobs would refuse this; owner and command may still be missing."""
    saving_percent: int | None
    """The saving of Spot over on-demand in that zone, in percent."""
    warnings: list[str]
    """Concerns that do not refuse the job."""
    ways: list[BuyingWayOut]
    """The ways to buy the VMs of a job without a deadline, with work_hours: all that Google sells, whether its
    preset uses them or not, the least expected cost to its end first.
    """


class QuotedBudgetOut(TypedDict):
    """A budget that the job would count against."""

    at_limit: Literal["tell", "refuse", "stop-spot"]
    ends_at: str
    left: str
    """The amount left; below zero once it is overspent."""
    left_after: str | None
    """The amount left if all of the cost falls into this period; null: not known."""
    limit: str
    """Exact decimal dollars, to the nano-dollar."""
    name: str
    period: Literal["day", "week", "month"]
    spent: str
    """Exact decimal dollars, to the nano-dollar."""


class QuotedMemberOut(TypedDict):
    first: OfferOut | None
    """The place in which it would start now; null: none."""
    number: int
    parameters: dict[str, str]


class QuotedPlaceOut(TypedDict):
    address: AddressOut | None
    """The decision on its external address, as of now; null: it was not looked up."""
    flex: HourlyRateOut
    note: str
    """Recent stockouts and preemptions there; empty where there were none that count."""
    on_demand: HourlyRateOut
    spot: HourlyRateOut
    zone: str


class QuotedVmOut(TypedDict):
    """The VM to quote. Sizes are 0 where the machine type is not known; it has no price then either."""

    disk_gib: int
    disk_type: str
    gpu_count: int
    gpu_type: str | None
    local_ssd_gib: int
    machine_type: str
    max_run_seconds: int
    memory_mib: int
    vcpus: int


class ReadyDetailResponse(TypedDict):
    """The response for callers with the permission read."""

    as_of: str
    feed: FeedOut | None
    """The subscription that events come through; null: none are pulled."""
    is_acting: bool
    """Whether this replica's daemon holds the lease, by the database."""
    last_pass_at: str | None
    leases: list[LeaseOut]
    listings: ListingsOut
    prices_age_seconds: int | None
    project_counts: ProjectCountsOut
    projects: list[ProjectHealthOut]
    reasons: list[str]
    """The reasons why it is not ready."""
    slack_refused: dict[str, int]
    """Requests from Slack that were refused since this process started, by reason."""
    slack_waiting: int
    """Messages that are waiting to be sent. None is lost."""
    slack_waiting_since: str | None
    """The time since which the oldest of them has been waiting."""
    status: Verdict
    """degraded: it answers, but not everything is up to date or complete; see `warnings`."""
    unread: list[UnreadOut]
    version: str
    warnings: list[str]
    """Problems that need attention although it can answer."""


class ReadyResponse(TypedDict):
    """The response for anonymous callers."""

    status: Verdict
    """degraded: it answers, but not everything is up to date or complete; see `warnings`."""


class RecipeOut(TypedDict):
    buy: str
    """The way in which its VMs are bought, as `overrides.buy` takes it."""
    disk_gib: int
    disk_type: str
    external_address: bool | None
    """Whether VMs get an external IPv4 address; null: only where their subnetwork has no Cloud NAT."""
    falls_back_to_on_demand: bool
    """Whether on-demand is used once every zone is out of Spot stock."""
    flex_wait_seconds: int
    """The longest wait of a request for a flex-start VM."""
    gpu_count: int
    gpu_type: str
    image: str
    """The boot image."""
    labels: dict[str, str]
    machine_type: str
    max_run_seconds: int
    """Google ends each VM after this time."""
    network: str
    notice_seconds: int
    """The notice of a preemption that Spot VMs are asked for, in seconds: 120 or 0."""
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    service_account: str
    """The service account of its VMs; empty: the VM cannot call Google APIs."""
    subnetwork: str
    zones: list[str]
    """Zones in order of preference where nothing else decides."""


class RecipientOut(TypedDict):
    address: str
    target: Literal["owner", "channel", "contact"]


class RecoveriesResponse(TypedDict):
    as_of: str
    by_outcome: dict[str, int]
    currency: str
    from_zero: int
    interruptions: list[RecoveryOut]
    """The interruptions, the newest first; at most 200."""
    interruptions_total: int
    lost_cost: str
    """Exact decimal dollars, to the nano-dollar."""
    lost_seconds: int
    noticed_first: dict[str, int]
    """The number of interruptions by the source that reported them first."""
    since: str
    spans: list[SpanOut]
    """The spans of preemptions alone."""


class RecoveryOut(TypedDict):
    attempt: int
    from_zero: bool
    """True: there was no checkpoint, and all of the work was lost."""
    happened_at: str
    job: str
    lost_cost: str | None
    lost_seconds: int | None
    """The work since the checkpoint that was resumed from, in seconds."""
    noticed_at: str
    noticed_by: Literal["notice", "exit", "operation", "status", "silence"]
    """The source that reported it first."""
    outcome: Literal[
        "succeeded",
        "crashed",
        "not_published",
        "not_started",
        "preempted",
        "host_error",
        "lost",
        "removed",
        "time_limit",
        "stockout",
        "quota",
        "refused",
        "cancelled",
        "paused",
        "moved",
    ]
    requested_at: str | None
    """The time at which the next VM was requested from Google."""
    resumed_at: str | None
    """The time at which the command was running again."""
    run: int
    title: str
    zone: str


class RefusalOut(TypedDict):
    message: str
    """The error, and what to change."""
    where: str
    """The path of this input or output in the request's body."""


class RefusedPriceOut(TypedDict):
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    rate: str
    """Exact decimal dollars, to the nano-dollar."""
    reason: str
    """The reason why it failed the sanity check; the last good price stays in force."""
    refused_at: str
    region: str
    resource: str
    source: str
    unit: Literal["h", "GiBy.h", "GBy.h", "GiBy.mo"]


class ReminderRuleOut(TypedDict):
    every_seconds: int
    """The time between reminders to the owner after the limit."""
    grace_seconds: int
    """The grace period, counted from when Slack accepted the last of them."""
    keeps: int
    """The number of times that an owner may keep one lifetime; after that only an admin can."""
    longest_keep_seconds: int
    stop_after: int
    """The number of unanswered reminders before a VM is stopped."""
    when_unanswered: Literal["remind", "stop"]


class ReportResponse(TypedDict):
    as_of: str
    cost_since_due: Amount
    cost_since_due_a_month: Amount | None
    """The same for a month; null: less than a day was watched."""
    cost_since_stop: Amount
    """The cost after stops that would have been made."""
    cost_since_stop_a_month: Amount | None
    """The same for a month; null: less than a day was watched."""
    currency: str
    gpu_use: GpuUseOut
    is_early: bool
    """True: less than a day was watched, which says nothing about a month."""
    is_shadow: bool
    """True: rules stop nothing; the stops that they would have made are recorded."""
    left_alone: list[LeftAloneCountOut]
    """The running VMs that no rule would stop now."""
    method: str
    mode: str
    """A sentence: since when it has watched, and whether rules stop VMs."""
    notes: list[str]
    """Sentences: who is reminded, what is left alone, the GPU use, and what was not read."""
    running: int
    """The VMs that run now."""
    saved: Amount
    """The estimated saving of stops that rules made."""
    since: str
    summary: str
    """The outcome in a sentence or two, with its money."""
    unread: list[str]
    """Projects that the last look could not read whole."""
    until: str
    vms: list[ReportedVmOut]
    """The VMs that were due; those with a stop first, then the dearest."""
    watched_since: str | None
    """The time of the first look at any project; null: there was none yet."""
    what_next: list[str]
    """The lines of costguard.toml that let rules stop VMs; empty: they may."""


class ReportedVmOut(TypedDict):
    asks: str
    """The address or channel that is reminded first; empty: nobody can be."""
    cost_since_due: Amount
    """The cost in this span after `due_at`."""
    cost_since_stop: Amount
    """The cost in this span after `stop_at`, where that has come."""
    due_at: str
    """The moment at which it was past its limit, or known to be idle."""
    ended_at: str | None
    """The end of its run; null: it runs."""
    gce_id: str
    month_at_rate: str | None
    """730 hours at that rate; null: it ended, or no price is known."""
    name: str
    owner: str
    """The owner's address; empty: unowned."""
    preset: str
    project: str
    rate_per_hour: str | None
    """The price of the VM without its disks; null: no price is known."""
    reminders: int
    """The reminders that Slack accepted."""
    saved: Amount | None
    """The estimated saving of a stop; null: it was not stopped."""
    step: Literal["stopped", "would_stop", "reminded"]
    """stopped: a rule stopped it; would_stop: shadow mode recorded a stop, or one would have been due had its
    preset said `stop`; reminded: it is due, and no stop is.
    """
    stop_at: str | None
    """The time of its stop; in the future: it follows unless someone answers. Null: it ended before."""
    why: str
    """The rule in words."""
    zone: str


class RequestBody(TypedDict):
    by: NotRequired[str | None]
    """The requester; default: the caller. Only admins name another."""
    due_at: NotRequired[datetime | str | None]
    """The due time that the requester saw: the request is refused if it has changed."""
    reason: NotRequired[str]
    """The reason, shown in the audit log and in notifications."""
    started_at: NotRequired[datetime | str | None]
    """The start of the run that the requester saw: the request is refused if that run has ended."""


class RequestOut(TypedDict):
    at: str
    by: str
    """The requester's address."""
    due_at: str | None
    """The due time that the requester saw; null: none."""
    gce_id: str
    hours: int | None
    """The hours of a keep; null: until tomorrow morning in the requester's time zone."""
    id: int
    kind: Literal["stop", "keep", "claim", "disown"]
    links: LinksOut
    name: str
    outcome: str
    """The result, in a sentence; empty while it is open."""
    project: str
    reason: str
    settled_at: str | None
    status: Literal["open", "done", "refused"]
    """`open`: the next pass carries it out."""
    via: Literal["slack", "page", "api", "cli"]


class RequestResponse(TypedDict):
    as_of: str
    request: RequestOut


class RequestsResponse(TypedDict):
    as_of: str
    next_cursor: str | None
    requests: list[RequestOut]


class ResumeSweepBody(TypedDict):
    at_once: NotRequired[int | None]
    """The number of members that may be open at a time; null: unchanged."""
    by: NotRequired[str | None]
    """The address of the person who resumes; default: the caller. Only admins name another."""
    ceiling: NotRequired[str | None]
    """The new ceiling; null: unchanged."""
    members: NotRequired[Sequence[int]]
    """The members' numbers. Empty: all that failed or were never launched."""


Role = Literal["nobody", "viewer", "operator", "admin"]


class RoundOut(TypedDict):
    """A round of a job of several VMs: what all of them did together, from one checkpoint."""

    ended_at: str | None
    """The time at which the first of its commands ended; null: it goes on."""
    from_zero: bool
    """True: the next round had no checkpoint to resume from."""
    lost_cost: str | None
    lost_seconds: int | None
    """The work since the checkpoint that the next round resumed from; null: not known."""
    number: int
    outcome: (
        Literal[
            "succeeded",
            "crashed",
            "not_published",
            "not_started",
            "preempted",
            "host_error",
            "lost",
            "removed",
            "time_limit",
            "stockout",
            "quota",
            "refused",
            "cancelled",
            "paused",
            "moved",
        ]
        | None
    )
    """The outcome of the VM that ended the round; null: the round goes on, or it is not known."""
    reason: str
    """The reason why it ended; empty: it goes on, or all of its commands succeeded."""
    released_at: str | None
    """The time at which its VMs were released to begin."""
    resume_from: str
    """The checkpoint that it resumed from; empty: none, it began from the start."""
    resume_step: int | None
    started_at: str | None
    """The time at which the last of its commands had begun; null: not all of them have."""
    step: int | None
    """The last step that node 0 reported in it."""
    vms: int | None
    """The number of VMs that ran it; null: an earlier version recorded it."""


class SaveIntervalOut(TypedDict):
    """The checkpoint interval in use, and the one that costs least by the hazard of its VM's zone.  What is
    lost is all that is billed and is not kept work: work that is done again, starts after preemptions, and
    saves.
    """

    achieved: str
    """The work lost at preemptions before and after a change of the interval; empty: there was none."""
    best_s: int
    """The interval that costs least, in seconds."""
    expected: str | None
    """The expected cost of the whole job as it saves; null: unknown."""
    is_worth: bool
    """True: the best interval saves more than 2% of the cost."""
    loses: str | None
    """The expected loss of the whole job as it saves; null: its work is unknown."""
    loses_share: float
    """The expected loss as a share of the cost."""
    text: str
    uses_s: int
    """The usual work between two saves, in seconds."""
    would_lose: str | None
    """The expected loss of the whole job at the best interval; null: unknown."""
    would_lose_share: float
    """The expected loss at the best interval, as a share of the cost."""


class SavedOnNoticeOut(TypedDict):
    """The number of checkpoints saved on a notice, in drills and in announced preemptions."""

    drills: int
    """The number of drills in `times`."""
    save: str
    """Whether a save fits in the notice of a preemption; empty: not known."""
    saved: int
    text: str
    times: int


class SavingVmOut(TypedDict):
    committed: str
    """Exact decimal dollars, to the nano-dollar."""
    gce_id: str
    list_price: str
    """Exact decimal dollars, to the nano-dollar."""
    name: str
    owner: str
    project: str
    sustained: str
    """Exact decimal dollars, to the nano-dollar."""


SavingsResponse = TypedDict(
    "SavingsResponse",
    {
        "as_of": "str",
        "currency": "str",
        "from": "str",
        "keeps": "KeepsOut",
        "spot": "SpotSavingsOut",
        "stops": "StopSavingsOut",
        "to": "str",
    },
)


class ScheduleActBody(TypedDict):
    by: NotRequired[str | None]
    """The requester's address; default: the caller. Only admins name another."""


class ScheduleBody(TypedDict):
    """A job and the times of its runs: either every and at, or the five fields of cron."""

    at: NotRequired[str]
    """The time of the day as HH:MM; empty: 00:00."""
    cron: NotRequired[str]
    """The five fields of cron, in their place."""
    every: NotRequired[str]
    """`day`, `weekday`, `month`, `hour`, a number of hours such as `6h`, or days: `monday,friday`."""
    job: JobBody
    """The job that each run launches. {date} and {time} in its texts stand for the due time in its time zone,
    as 2026-03-09 and 0200, and {schedule} for the schedule's id. A deadline counts from the due time.
    """
    late_minutes: NotRequired[int | None]
    """The most that a run may be late; null: half of the time to the next."""
    name: NotRequired[str]
    """A name for people."""
    overlap: NotRequired[bool]
    """True: a run is launched also while an earlier one is open."""
    time_zone: NotRequired[str]
    """The time zone of these times."""


class ScheduleOut(TypedDict):
    changed_by: str
    """The person who paused, resumed or ended it last; empty: nobody."""
    created_at: str
    cron: str
    """The times, as five fields of cron."""
    id: str
    last: ScheduleRunOut | None
    """The last run; null: none yet."""
    late_seconds: int | None
    """The most that a run may be late; null: half of the time to the next."""
    launched: int
    """The number of runs that were launched."""
    name: str
    next_due: str | None
    """The next due time; null: none."""
    not_launched: int
    """The number of runs that were refused, skipped or missed."""
    overlap: bool
    owner: str
    preset: str
    project: str
    reason: str
    """The reason for its state, and the next step."""
    state: Literal["active", "paused", "ended"]
    time_zone: str
    times: str
    """The times in words."""
    title: str
    """The name, or the id where it has none."""
    via: Literal["api", "cli"]


class ScheduleQuoteBody(TypedDict):
    at: NotRequired[str]
    """The time of the day as HH:MM; empty: 00:00."""
    cron: NotRequired[str]
    """The five fields of cron, in their place."""
    every: NotRequired[str]
    """`day`, `weekday`, `month`, `hour`, a number of hours such as `6h`, or days: `monday,friday`."""
    hours: NotRequired[float]
    """The running time of each run to quote for."""
    job: JobBody
    """The job that each run launches. {date} and {time} in its texts stand for the due time in its time zone,
    as 2026-03-09 and 0200, and {schedule} for the schedule's id. A deadline counts from the due time.
    """
    late_minutes: NotRequired[int | None]
    """The most that a run may be late; null: half of the time to the next."""
    name: NotRequired[str]
    """A name for people."""
    overlap: NotRequired[bool]
    """True: a run is launched also while an earlier one is open."""
    time_zone: NotRequired[str]
    """The time zone of these times."""


class ScheduleQuoteOut(TypedDict):
    as_of: str
    cost_a_month: str | None
    """The cost of those runs at the cheapest offer; null: not known."""
    cron: str
    currency: str
    job: QuoteOut
    """The quote of one run, as it would start now."""
    next_due: list[str]
    """The next five due times."""
    refusals: list[RefusalOut]
    """The reasons why POST /api/v1/schedules would refuse this."""
    runs_a_month: int
    """The number of due times in the next 30 days."""
    time_zone: str
    times: str
    """The times in words; empty where they cannot be read."""
    warnings: list[str]


class ScheduleResponse(TypedDict):
    as_of: str
    cost: Amount
    """The cost of these runs' jobs, so far."""
    currency: str
    runs: list[ScheduleRunOut]
    """The last runs, at most 50, the newest first."""
    schedule: ScheduleOut


class ScheduleRunOut(TypedDict):
    asked_by: str
    """The person who asked for it by hand; empty: it was due."""
    cost: Amount
    """The cost of that job, so far."""
    due_at: str
    job: str | None
    """The job that it launched; null: none."""
    outcome: Literal["launching", "launched", "refused", "skipped", "missed"]
    reason: str
    """The reason for the outcome."""
    state: Literal["queued", "provisioning", "running", "recovering", "succeeded", "failed", "cancelled"] | None
    """The state of that job; null: none."""


ScheduleState = Literal["active", "paused", "ended"]


class SchedulesResponse(TypedDict):
    as_of: str
    currency: str
    next_cursor: str | None
    schedules: list[ScheduleOut]


class SearchedPlaceOut(TypedDict):
    """An organisation or folder that is searched for projects every ten minutes."""

    failed_since: str | None
    """The time since when searches have failed; null: the last one was complete."""
    failure: str
    """The reason why the last search failed, with what mends it."""
    place: str
    project_count: int
    """The number of projects with VMs, TPU nodes or reservations in it."""
    searched_at: str | None
    """The time of the last complete search; null: there was none."""
    tried_at: str


class SeenCheckpointOut(TypedDict):
    first_seen_at: str
    resume_from: str
    step: int | None
    written_at: str


class SeenMetricOut(TypedDict):
    """The values that the command has printed on all VMs."""

    best: MetricValueOut | None
    """The best value; null: no value was finite."""
    better: Literal["lower", "higher"]
    kept: BestCheckpointOut | None
    """The best checkpoint; null: none is known."""
    last: MetricValueOut


class SessionOut(TypedDict):
    address: str
    """The person who is signed in."""
    began_at: str
    client: str
    """The network address of the browser; empty: not known."""
    expires_at: str
    id: str
    is_this: bool
    """True: this request belongs to the session."""
    last_used_at: str | None
    """The last use, to the minute; null: not used yet."""
    role: Literal["nobody", "viewer", "operator", "admin"]
    """The person's role today."""
    via: Literal["master", "token", "link", "iap", "oidc"]
    """The way in which the person signed in."""


class SessionResponse(TypedDict):
    as_of: str
    session: SessionOut


class SessionsResponse(TypedDict):
    as_of: str
    next_cursor: str | None
    sessions: list[SessionOut]


class SetupOut(TypedDict):
    """The findings of a check. Without any, the check has not ended, or this server makes none."""

    as_of: str | None
    findings: list[FindingOut]
    state: CheckState | None
    """The worst state of all findings; null: nothing is known yet."""


class ShadowChoiceOut(TypedDict):
    act: Literal["start_spot", "start_on_demand", "start_flex", "drop_flex", "stay", "wait"]
    policy: str
    reason: str
    zone: str


class ShadowStopOut(TypedDict):
    asked_by: str
    """The requester; empty: a rule decided."""
    cost: Amount | None
    """The VM's cost from then until it ended, or until now."""
    decided_at: str
    evidence: dict[str, Any]
    gce_id: str
    id: int
    name: str
    owner: str
    preset: str
    project: str
    reason: str
    reminder: str
    """The key of the reminder whose grace had passed; empty for a requested stop."""
    reminders: int
    """Reminders that Slack had accepted before it."""
    rule: str
    would_have_saved: StopSavingOut | None
    """The amount that the stop would have saved; null: its lifetime is not in the ledger."""
    zone: str


Sort = Literal["rate", "age", "name"]


class SpanOut(TypedDict):
    buckets: list[BucketOut]
    count: int
    longest_seconds: str | None
    median_seconds: str | None
    p90_seconds: str | None
    """The 90th percentile in seconds."""
    what: Literal["noticed", "requested", "resumed"]
    """The end of the span, which begins with the preemption."""


SpendResponse = TypedDict(
    "SpendResponse",
    {
        "as_of": "str",
        "currency": "str",
        "from": "str",
        "group_by": 'list[Literal["day", "project", "preset", "owner", "job", "provisioning_model", "vm"]]',
        "paid_days": "int | None",
        "price_note": "str | None",
        "rows": "list[SpendRowOut]",
        "to": "str",
        "total": "SumsOut",
        "unpriced": "int",
        "unpriced_spans": "list[UnpricedSpanOut]",
    },
)


class SpendRowOut(TypedDict):
    gpu: str
    """The cost of GPUs, and of TPU chips with their share of the VM."""
    group: dict[str, str]
    """The value of each grouping."""
    hours: str
    """The running time of VMs in hours, to four places."""
    machine: str
    """The cost of vCPUs, memory and local SSDs."""
    seconds: int
    """The running time of VMs in seconds."""
    storage: str
    """The cost of disks, and of the saved memory of suspended VMs."""
    total: str
    """Exact decimal dollars, to the nano-dollar."""
    unpriced: int
    """The number of lifetimes and disks without a price: the amounts are too low by their cost."""
    vm: SpentVmOut | None
    """The VM of the row, only where rows are grouped by VM."""


class SpentVmOut(TypedDict):
    """The VM of a row, and its owner at the time."""

    gce_id: str
    job: str
    labels: dict[str, str]
    machine_type: str
    name: str
    owner: str
    preset: str
    project: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    team: str
    """The owner's team, else the project's; empty: neither has one."""
    zone: str


class SpotSavingsOut(TypedDict):
    cost: str
    """The bill for what is bought as Spot, GPUs included, without disks."""
    lost_to_preemptions: str
    """The cost of work that had to be repeated. It is not subtracted."""
    method: str
    on_demand: str
    """The cost of the same use on demand."""
    percent: int
    """The saving in percent of the on-demand price, rounded down."""
    saved: str
    """Exact decimal dollars, to the nano-dollar."""
    unpriced: list[str]
    """Usage without an on-demand price, which is in neither amount."""


class StageOut(TypedDict):
    a_month: str | None
    """The price of a month of its storage; null: not known."""
    bytes: int
    """The bytes of the source."""
    delete_asked_by: str
    """The person who asked for its deletion; empty: nobody."""
    digest: str
    error: str
    """The error of the last write or deletion; empty: none."""
    files: int
    from_source: int
    """The bytes that all VMs together fetched from the source."""
    in_use: bool
    """True: an open job names its source, so that it is not deleted."""
    location: str
    """The location of its bucket; empty: the settings do not name it."""
    made_at: str
    place: str
    """The folder of its objects."""
    shares: list[StageShareOut]
    """The stored cost by owner and project, in equal parts for each job that used it."""
    source: str
    staged: int
    """The bytes that were seen in the stage."""
    state: Literal["filling", "whole", "deleting", "deleted"]
    stored_cost: str | None
    """The cost of storing its bytes since it was made, at most; null: not known."""
    used_at: str
    uses: list[StageUseOut]
    whole_at: str | None


class StageResponse(TypedDict):
    as_of: str
    currency: str
    stage: StageOut


class StageShareOut(TypedDict):
    cost: str
    """Exact decimal dollars, to the nano-dollar."""
    owner: str
    project: str


class StageUseOut(TypedDict):
    from_source: int
    """The bytes that this job's VMs fetched from the source."""
    is_open: bool
    job: str
    owner: str
    project: str
    used_at: str


class StagesResponse(TypedDict):
    as_of: str
    currency: str
    is_set: bool
    """True: the settings name a bucket for stages."""
    stages: list[StageOut]


Staging = Literal["auto", "on", "off"]


class StandstillOut(TypedDict):
    """A metric that seems to stand still: a hint, nothing acts on it."""

    best: float
    best_at: str
    best_done: float | None
    """The position of its best value, in `unit`."""
    cost: str | None
    """The cost of the time since its best value, at the last VM's rate; null: not known."""
    gained: float
    """The gain since then, as a share of the whole gain."""
    metric: str
    saved_in: str
    """The complete checkpoint nearest to its best; empty: none is known."""
    since: str
    text: str
    unit: str | None
    """The unit of `best_done`, such as step."""
    until: str
    """The time of the last evaluation."""


class StartsOut(TypedDict):
    """The time from the request of a VM to the first step of its job."""

    count: int
    """The number of first starts in the last 90 days."""
    phase_seconds: dict[str, int]
    """Medians: `requested` until Google made the VM, `boot` until its agent ran, `prepare` until the command
    did (image, data, setup), `load` until the first step. A phase that was never seen is left out.
    """
    slowest_seconds: int | None
    """The 99th percentile of these starts, in seconds; null: too few were seen."""
    usual_seconds: int
    """The median in seconds."""


Status = Literal[
    "pending",
    "provisioning",
    "staging",
    "running",
    "pending_stop",
    "stopping",
    "stopped",
    "suspending",
    "suspended",
    "repairing",
    "deprovisioning",
    "unknown",
]


class StopOut(TypedDict):
    asked_by: str
    """The requester; empty: a rule decided."""
    decided_at: str
    error: str
    evidence: dict[str, Any]
    gce_id: str
    id: int
    name: str
    outcome: Literal["intended", "asked", "done", "not_needed", "failed", "unknown", "shadow"]
    owner: str
    preset: str
    project: str
    rate_per_hour: Amount | None
    """The hourly cost that ended; null: not stopped."""
    reason: str
    reminder: str
    """The key of the reminder whose grace had passed; empty for a requested stop."""
    reminders: int
    """Reminders that Slack had accepted before it."""
    rule: str
    saved: StopSavingOut | None
    """The estimated saving; null: it has not stopped."""
    zone: str


class StopSavingOut(TypedDict):
    amount: Amount
    bound: Literal["ran_again", "ended", "decided_again", "ran_out", "now", "longest"]
    """The event that ended the time that counts."""
    since: str
    until: str


class StopSavingsOut(TypedDict):
    carried_out: int
    method: str
    only_recorded: int
    """Stops that rules would have made, in shadow mode."""
    saved: Amount
    shadow_method: str
    would_have_saved: Amount


class StorageOut(TypedDict):
    """A disk, the saved memory of a suspended VM, or external IPv4 addresses in use."""

    addresses: int
    """The number of external addresses; 0 for storage."""
    charges: list[ChargeOut]
    cost: Amount
    ended_at: str | None
    id: int
    name: str
    """The disk's name, `saved memory` or `external address`."""
    resource: str | None
    size_gib: str
    """The size in GiB, as a decimal; 0 for addresses."""
    started_at: str
    unpriced: str
    zone: str


class StoredPlanOut(TypedDict):
    as_if: str | None
    """The deadline that the policies assume where the job has none."""
    curve: list[PlanPointOut]
    """The progress over time, thinned evenly."""
    decisions: list[PlannedStepOut]
    """The decisions, the oldest first; each holds until the next."""
    plan: JobPlanOut | None
    """The plan; null: the job has no deadline, or its amount of work is not known."""
    shadow: list[ShadowChoiceOut]
    """The present decision of each policy."""
    updated_at: str


class StoredSizeOut(TypedDict):
    bytes: int
    files: int
    is_whole: bool
    """False: counting stopped at a limit; there is at least this much."""


class StragglerOut(TypedDict):
    """The VM of a job of several for which the others wait."""

    bound: Literal[
        "input",
        "host",
        "input or host",
        "communication",
        "checkpoint",
        "evaluation",
        "memory capacity",
        "memory bandwidth",
        "throttled",
        "compute",
        "gpu",
        "not computing",
        "unknown",
    ]
    """The bottleneck that slows it."""
    cause: str | None
    gpu: int | None
    """The number of its GPU, where one of several is slow."""
    node: int
    numbers: list[BoundNumberOut]
    since: str
    """The beginning of the minutes that show it."""
    text: str
    until: str
    vm: str


class SumsOut(TypedDict):
    gpu: str
    """The cost of GPUs, and of TPU chips with their share of the VM."""
    hours: str
    """The running time of VMs in hours, to four places."""
    machine: str
    """The cost of vCPUs, memory and local SSDs."""
    seconds: int
    """The running time of VMs in seconds."""
    storage: str
    """The cost of disks, and of the saved memory of suspended VMs."""
    total: str
    """Exact decimal dollars, to the nano-dollar."""


class SweepBody(TypedDict):
    """Every combination of the grid's values, or each set in the list, or each set with each combination."""

    at_once: NotRequired[int]
    """The number of members that may be open at a time."""
    ceiling: NotRequired[str | None]
    grid: NotRequired[Mapping[str, Any]]
    halving: NotRequired[HalvingBody | None]
    """The rule that stops losers; null: none are stopped."""
    job: JobBody
    """The job that each member launches. {name} in its texts stands for a parameter; {sweep} and {member} for
    the sweep's id and the member's number. Its own ceiling is each member's.
    """
    list: NotRequired[Sequence[Mapping[str, Any]]]
    name: NotRequired[str]
    """A name for people."""
    seeds: NotRequired[int]
    """Launches each set of parameters so many times: {seed} is 1 to this number, and the variable SEED where no
    text has it. Places that all seeds would write to get a folder for each. 0: no seeds.
    """


class SweepMemberOut(TypedDict):
    attempts: int
    cost: Amount
    """The cost of all of its jobs, so far."""
    crashes: int
    is_best: bool
    """Whether its metric is the best of all members."""
    job: str | None
    """The last of its jobs; null: none has been launched yet."""
    jobs: list[str]
    """All its jobs, the oldest first."""
    kept_by: str
    """The person who keeps it from halving; empty: no one."""
    metric: SeenMetricOut | None
    """The latest value of its metric; null: no value was printed yet, or it names no metric."""
    number: int
    parameters: dict[str, str]
    preemptions: int
    reason: str
    """The reason for its job's state; empty before the first."""
    state: Literal["waiting", "queued", "provisioning", "running", "recovering", "succeeded", "failed", "cancelled"]
    step: int | None
    stop: MemberStopOut | None
    """The stop of its last job by halving; null: halving has not stopped it."""


class SweepOut(TypedDict):
    at_once: int
    cancel_asked_at: str | None
    cancel_asked_by: str
    cancelled: int
    ceiling: str | None
    """The most that all members together may cost."""
    cost: Amount
    """The cost of all VMs of all members with their disks, so far."""
    created_at: str
    failed: int
    id: str
    members: int
    name: str
    open: int
    owner: str
    preset: str
    project: str
    reason: str
    """The reason for its state, and the next step."""
    reserved: str | None
    """The amount that running VMs may still cost; null: unknown, or there is no ceiling."""
    round: int
    """The round: 1, and one more each time that it was resumed."""
    settled_at: str | None
    """The time at which it ended; null: it has not."""
    state: Literal["running", "succeeded", "failed", "cancelled"]
    succeeded: int
    title: str
    """The name, or the id where it has none."""
    via: Literal["api", "cli", "page"]
    waiting: int
    """The number of members still to be launched."""


class SweepQuoteBody(TypedDict):
    at_once: NotRequired[int]
    """The number of members that may be open at a time."""
    ceiling: NotRequired[str | None]
    grid: NotRequired[Mapping[str, Any]]
    halving: NotRequired[HalvingBody | None]
    """The rule that stops losers; null: none are stopped."""
    hours: NotRequired[float]
    """The running time of each member to quote for."""
    job: JobBody
    """The job that each member launches. {name} in its texts stands for a parameter; {sweep} and {member} for
    the sweep's id and the member's number. Its own ceiling is each member's.
    """
    list: NotRequired[Sequence[Mapping[str, Any]]]
    name: NotRequired[str]
    """A name for people."""
    seeds: NotRequired[int]
    """Launches each set of parameters so many times: {seed} is 1 to this number, and the variable SEED where no
    text has it. Places that all seeds would write to get a folder for each. 0: no seeds.
    """


class SweepQuoteOut(TypedDict):
    as_of: str
    budgets: list[QuotedBudgetOut]
    ceiling: str | None
    currency: str
    hours: str
    machine: QuotedVmOut | None
    """The VM of the first member."""
    members: list[QuotedMemberOut]
    refusals: list[RefusalOut]
    """The reasons why POST /api/v1/sweeps would refuse this."""
    span_seconds: int
    """The seconds from the first member's start to the last one's end."""
    total: str | None
    """The cost of all members, where each would start now; null: not known."""
    warnings: list[str]


class SweepResponse(TypedDict):
    as_of: str
    better: str
    """The better direction of the metric, lower or higher; empty where there is no metric."""
    currency: str
    halving: HalvingOut | None
    """The rule that stops losers; null: none are stopped."""
    members: list[SweepMemberOut]
    """The members; those with the best values come first."""
    metric: str
    """The regular expression that finds it; empty: none."""
    parameters: list[str]
    """The parameters' names, in order."""
    result: SweepResultOut | None
    """The best checkpoint of the best member; null: no value of the metric is known."""
    sweep: SweepOut


class SweepResultOut(TypedDict):
    """The best checkpoint of the member with the best value of all."""

    checkpoint: BestCheckpointOut | None
    """The best checkpoint of the member; null: none is known."""
    is_final: bool
    """Whether all members are over, so that none may become better."""
    job: str
    member: int
    """The number of the member."""
    note: str
    """The job's note on the copied checkpoint; empty: none was copied."""
    published_to: str
    """The folder to which it was copied as the result; empty: it was not."""
    text: str
    """All of this in a sentence, with the reason where nothing is published."""
    value: str
    """The best value of its metric."""


SweepState = Literal["running", "succeeded", "failed", "cancelled"]


class SweepsResponse(TypedDict):
    as_of: str
    currency: str
    next_cursor: str | None
    sweeps: list[SweepOut]


class ThresholdOut(TypedDict):
    amount: str
    """Exact decimal dollars, to the nano-dollar."""
    first_at: str | None
    """The time at which people were notified in this period; null: they were not."""
    is_crossed: bool
    """True: it is crossed now. A forecast can fall again."""
    on: Literal["spent", "forecast"]
    percent: int


class TimeLeftOut(TypedDict):
    """The running time left, without preemptions and starts. Nine of ten trainings end between low and high."""

    cost_high: str | None
    cost_likely: str | None
    cost_low: str | None
    """The cost at the hourly price of the latest VM; null: that is not known."""
    seconds_high: int
    seconds_likely: int
    seconds_low: int


class TipCountOut(TypedDict):
    followed: int
    given: int
    kind: Literal["reminder", "standstill", "diagnosis"]
    method: str
    """The evidence that counts, and how the saving is measured."""
    not_followed: int
    pending: int
    """The number that may still be followed."""
    saved: Amount
    unknown: int
    """The number of those of which it is not known whether a user followed them."""


class TipOut(TypedDict):
    at: str
    evidence: str
    kind: Literal["reminder", "standstill", "diagnosis"]
    outcome: Literal["followed", "not_followed", "pending", "unknown"]
    owner: str
    saved: Amount | None
    """The saving so far; null: none."""
    subject: str
    """The name of the VM, or the id of the job."""


TipsResponse = TypedDict(
    "TipsResponse",
    {
        "as_of": "str",
        "counts": "list[TipCountOut]",
        "currency": "str",
        "followed": "int",
        "from": "str",
        "given": "int",
        "quarter": "str",
        "saved": "Amount",
        "time_zone": "str",
        "tips": "list[TipOut]",
        "to": "str",
    },
)


class TokenBody(TypedDict):
    days: NotRequired[int | None]
    """The number of days that it lasts; null: for ever, or as long as the caller's token."""
    name: str
    """The name of the program that will use it."""
    owner: NotRequired[str | None]
    """The person it acts as; default: the caller. Only admins name another."""
    permissions: NotRequired[Sequence[Permission] | None]
    """The token's permissions; null: all of the caller's."""
    role: NotRequired[Role | None]
    """The highest role that it may be used with; null: the caller's role. The settings' lists decide as well."""


class TokenOut(TypedDict):
    confirmed_at: str | None
    confirmed_by: str
    expires_at: str | None
    """The time at which it expires as things stand; null: never."""
    id: str
    is_provisional: bool
    """True: it was created in a one-time link's session. It ends with that session, and at expires_at at the
    latest, unless an admin confirms it.
    """
    is_usable: bool
    """True: it is neither revoked nor expired."""
    last_used_at: str | None
    """The last use, to the minute; null: never used."""
    made_at: str
    made_by: str
    name: str
    owner: str
    """The person it acts as."""
    permissions: list[Literal["read", "jobs", "instances", "tokens", "metrics", "admin"]]
    revoked_at: str | None
    revoked_by: str
    role: Literal["nobody", "viewer", "operator", "admin"]
    """The highest role that it may be used with; its owner's role limits it too."""


class TokenResponse(TypedDict):
    as_of: str
    token: TokenOut


class TokensResponse(TypedDict):
    as_of: str
    next_cursor: str | None
    tokens: list[TokenOut]


Topic = Literal[
    "credentials", "permissions", "apis", "presets", "quotas", "buckets", "bill", "events", "slack", "server"
]


class TraceOut(TypedDict):
    """The series of one zone and kind of VM, in the format of github.com/skypilot-org/spot-traces, without
    moments.
    """

    data: list[int]
    """A value per point: 1: a Spot VM ran, or the last attempt to start one was not refused; 0: it was
    preempted, or out of stock.
    """
    gap_seconds: int
    name: str
    """The zone with the GPU's type and count, or the machine type."""
    on_demand_price_per_hour: str | None
    price_per_hour: str | None
    """The Spot price, as estimated for the latest VM of a job; null: unknown."""
    seen: int
    """The number of points with a VM, or within an hour after a launch, a stockout or an end."""


class TracesResponse(TypedDict):
    as_of: str
    traces: list[TraceOut]
    """The series. All of one kind of VM begin together."""


class TrackedRunOut(TypedDict):
    """A run of an experiment tracker to which the job's cost is logged."""

    error: str
    """The reason why the last try failed; empty: it did not."""
    logged_at: str | None
    """The last time at which the tracker accepted points; null: it has not yet."""
    run: str
    tracker: Literal["mlflow", "wandb"]
    waiting: int
    """The number of points to be logged."""


class TransferOut(TypedDict):
    """A download or upload of a VM, by its agent's last report."""

    bytes_done: int | None
    """The bytes moved; null in this and the other figures: not known."""
    bytes_per_s: int | None
    bytes_total: int | None
    error: str
    """The reason why it is tried again, while it is running."""
    files_done: int | None
    files_total: int | None
    from_source: int | None
    """The bytes of a staged input that came from its source, which charges for them; null: not staged."""
    kind: str
    """input, output, or result: a checkpoint that is published."""
    note: str
    """Says which checkpoint a result is; empty for inputs and outputs."""
    seconds: int | None
    source: str
    state: Literal["running", "done", "skipped", "failed"]
    """`skipped`: all of it was there already."""
    target: str
    text: str


class UnknownProjectOut(TypedDict):
    """A project of which nothing is known now: it is in no amount."""

    project: str
    read_at: str | None
    """The time of its last answer, whose things are listed still; null: none are."""
    reason: str
    """The reason in a sentence; empty: Google was not asked yet."""
    tried_at: str | None
    """The time at which Google was last asked."""
    why: UnknownWhy
    """`refused`: Google refused its lists; `late`: it did not answer; `not_asked`: it was not asked yet."""


UnknownWhy = Literal["refused", "late", "not_asked"]


class UnpricedSpanOut(TypedDict):
    ended_at: str | None
    gce_id: str
    kind: Literal["lifetime", "storage"]
    name: str
    owner: str
    preset: str
    project: str
    reason: str
    started_at: str


class UnpricedUseOut(TypedDict):
    gce_id: str
    name: str
    project: str
    reason: str


class UnreadListOut(TypedDict):
    kind: Literal["disk", "address", "snapshot", "image", "reservation", "future_reservation", "queued_resource"]
    permission: str
    """The permission that reading it takes."""
    project: str
    reason: str
    """The reason why the list could not be read. What is in it is unknown."""


class UnreadOut(TypedDict):
    """A part of a project that the last read missed. Unread does not mean deleted."""

    code: str
    command: str
    """The shell command that fixes it; empty where no one command does."""
    last_complete_at: str | None
    """The last read that covered every zone."""
    project: str
    reason: str
    scope: str
    """The part: a zone, instances, disks, operations, or project."""


class UnusedReservationsOut(TypedDict):
    """Reserved VMs that nobody uses, which bill next to the VMs of the fleet and are in none of its totals."""

    as_of: str | None
    """The time at which Google was asked for the oldest answer; null: none came."""
    rate_per_hour: Amount
    """Their cost an hour; not complete where one has no price or was not read."""
    vms: int


class UseOut(TypedDict):
    family: str
    region: str
    resource: str
    what: str
    """The resource and its region, in words."""


Verdict = Literal["ready", "degraded", "not ready"]

WhenLate = Literal["finish", "stop"]


class WorkLeftOut(TypedDict):
    likely_seconds: int
    most_seconds: int
    """The upper estimate, which decisions use."""
    source: str


class WorstVmOut(TypedDict):
    difference: str
    """Exact decimal dollars, to the nano-dollar."""
    gce_id: str
    """The id in the ledger; empty: a disk that is attached to nothing in the ledger."""
    is_explained: bool
    project: str
    reasons: list[
        Literal[
            "",
            "still_to_come",
            "before_export",
            "no_export",
            "before_watch",
            "missing_from_bill",
            "unknown_vm",
            "unknown_part",
            "other_sku",
            "more_used",
            "less_used",
            "repeated_rows",
            "price",
            "currency_rate",
            "credit_too_high",
            "other_project",
            "gpu_and_host",
            "disk_hours",
            "shared_disk",
            "unknown_disk",
            "not_watched",
            "unpriced",
            "vertex",
        ]
    ]
    stories: list[str]
    title: str
