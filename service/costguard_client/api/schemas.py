"""What the API takes and answers. Generated from its document by `python -m tests.golden api`: do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict


class AccuracyOut(TypedDict):
    permille: int
    """Of the list price: all differences of lines, each by itself, rounded up."""
    text: str
    through: str
    """The last closed UTC day."""


class AchievedSavingOut(TypedDict):
    """By the cost of a step, if a step does as much work in both jobs."""

    bound: str
    """What bound that one."""
    faster: float
    """Steps per second, now over then."""
    job: str
    """The earlier job with the same owner, preset and script."""
    promised: float | None
    share: float
    """How much less a step costs; below zero: more."""


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
    """Bytes, packed."""
    uploaded_at: str


class AtRiskOfDeadlineOut(TypedDict):
    risk: Literal["work", "stock", "no_on_demand", "ceiling", "failures", "held", "unsaved"]
    text: str
    """Why, when it is expected to finish, and what would help."""


class AtRiskOut(TypedDict):
    """The work that would be repeated if the VM were lost now."""

    cost: str | None
    seconds: int
    since: str


class AttemptOut(TypedDict):
    """One VM. The agent's reports are of its latest run."""

    asked_at: str | None
    disk: DiskOut | None
    """From the last report; null: not known."""
    ended_at: str | None
    error: str
    """The error of the last call to Google."""
    exit: ExitOut | None
    gce_id: str
    gone_at: str | None
    """When its VM was known to be deleted."""
    hang: HangOut | None
    """null: it makes progress, as far as is known."""
    heard_at: str | None
    image: str
    """The image that its VM is given, with a digest where one was known; empty: no container."""
    image_digest: str
    """The digest that its VM pulled; empty before that."""
    intended_at: str
    machine: dict[str, Any]
    """The agent's measurements in its last report."""
    made_at: str | None
    """When its VM was known to exist."""
    max_run_seconds: int
    name: str
    noticed_at: str | None
    """When the VM was notified of its preemption."""
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
    """null: not known yet."""
    phase: str
    """What the agent does for the command; empty while the command runs."""
    project: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    rate_per_hour: str | None
    reason: str
    restarts: int
    """How often the same VM was started again."""
    resume_from: str
    """Empty: it starts from the beginning."""
    resume_step: int | None
    resume_why: str
    """Why it did not resume from the newest complete checkpoint; empty where it did."""
    run: int
    setup_seconds: int | None
    """How long the setup before the command took; null: it did not run, or not to its end."""
    started_at: str | None
    """When the command started."""
    state: Literal["intended", "asked", "booting", "running", "resting", "restarting", "ending", "kept", "over"]
    step: int | None
    step_at: str | None
    stop_asked_at: str | None
    stop_why: str
    transfers: list[TransferOut]
    """Of the latest attempt that reported; empty for the others."""
    try_after: str | None
    zone: str


class AttemptsResponse(TypedDict):
    as_of: str
    attempts: list[AttemptOut]
    job: str


class BillDayOut(TypedDict):
    day: str
    difference: str
    """list_price less ledger."""
    differing: int
    """Lines that differ without an explanation."""
    effective: str
    """What was paid: after discounts and credits."""
    explained: str
    """The part of the difference that is rounding, or has a known reason."""
    ledger: str
    """Exact decimal dollars, to the nano-dollar."""
    list_price: str
    """The bill at list price, before discounts, of what the ledger holds."""
    outside: str
    """What Google billed and the ledger does not hold, such as network and licences."""
    savings: BillSavingsOut
    state: Literal["open", "agreed", "differs"]
    """open: the bill is still to come, or the day cannot be compared. A day closes 72 h after its end."""
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
    """What was not paid of the list price, by what earned it."""

    committed_use: str
    """Exact decimal dollars, to the nano-dollar."""
    contract: str
    """A price below list without a commitment."""
    other: str
    """Promotions, free tiers and other credits."""
    sustained_use: str
    """Exact decimal dollars, to the nano-dollar."""


class BoundNumberOut(TypedDict):
    name: str
    text: str
    unit: Literal["share", "cores", "count", "bytes_per_s", "looks"]
    value: float


class BoundStretchOut(TypedDict):
    """Windows of five minutes in a row with the same verdict."""

    advice: str
    """One line; empty: none."""
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
    """null: the bound alone is known."""
    numbers: list[BoundNumberOut]
    """What the verdict rests on, of the last window."""
    share: float | None
    """Of the time that it costs, or in which it held, on average; null: not known."""
    since: str
    steps_per_s: float | None
    """null: its steps are not known."""
    text: str
    """In words, after "bound by"."""
    until: str
    why: str
    windows: int
    """From two on the verdict holds."""


class BucketOut(TypedDict):
    count: int
    up_to_seconds: int | None
    """And above the bucket before; null: anything above."""


class BudgetOut(TypedDict):
    at_limit: Literal["tell", "refuse", "stop-spot"]
    """Once all of it is spent: tell notifies people, refuse launches no VMs for jobs, and stop-spot also stops
    their Spot VMs.
    """
    contact: str
    """The address of the person responsible; empty: none."""
    downloads: str
    """Of what is spent: what jobs' VMs paid for their inputs, at list prices, on another cloud's bill."""
    ends_at: str
    forecast: ForecastOut
    forecast_percent: int
    job: str | None
    label: str | None
    """With its value, such as `experiment=a`."""
    limit: str
    """Exact decimal dollars, to the nano-dollar."""
    name: str
    owner: str | None
    period: Literal["day", "week", "month"]
    """A day, a week from Monday, or a month, in UTC."""
    preset: str | None
    project: str | None
    rate_per_hour: str
    """The hourly cost now of everything that has a price."""
    spent: str
    """Exact decimal dollars, to the nano-dollar."""
    spent_percent: int
    """Of the limit, rounded down to whole percents."""
    starts_at: str
    team: str | None
    thresholds: list[ThresholdOut]
    unpriced: int
    """Lifetimes and disks without a price: the amounts are too low by them."""


class BudgetsResponse(TypedDict):
    as_of: str
    budgets: list[BudgetOut]
    currency: str


class CancelBody(TypedDict):
    after_checkpoint: NotRequired[bool]
    """Only once a checkpoint was written after this request, or where nothing of it runs."""
    by: NotRequired[str | None]
    """Who cancels; default: the caller. Only admins name another."""
    delete_disk: NotRequired[bool]
    """Also delete the disk that holds the only copy of what the job saved. By default it is kept, and bills."""
    reason: NotRequired[str]


class CancelSweepBody(TypedDict):
    by: NotRequired[str | None]
    """Who cancels; default: the caller. Only admins name another."""
    reason: NotRequired[str]


class ChargeOut(TypedDict):
    """All charges of one billed resource at one price."""

    amount: str
    """Exact decimal dollars, to the nano-dollar."""
    ended_at: str
    price_source: str | None
    quantity: str
    """vCPUs, GiB or GPUs, as a decimal."""
    rate: str | None
    """Dollars per unit; null: the price is no longer known."""
    resource: str
    seconds: int
    started_at: str
    unit: Literal["h", "GiBy.h", "GBy.h", "GiBy.mo"] | None
    """h, GiBy.h or GiBy.mo (the calendar month in US Pacific time)."""


class CheckpointBody(TypedDict):
    framework: NotRequired[Framework | None]
    """null: detected by file names."""
    keep: NotRequired[int]
    """With local: how many complete checkpoints stay at the location; 0: all."""
    local: NotRequired[str]
    """The folder or file on the VM where the command saves. Complete checkpoints in it are uploaded to the
    location, and the newest is downloaded before the command resumes.
    """
    location: str
    """gs://bucket/path, s3://bucket/path, or a path on the VM's own disk: a folder, or one file that is
    overwritten.
    """
    marker: NotRequired[str]
    """The file that is written last."""
    pattern: NotRequired[str]
    """For plain files: a path with {step} in it."""
    resume: NotRequired[str]
    """Added to the command to resume. {checkpoint}, {location} and {step} in it are replaced."""
    uploads_itself: NotRequired[bool]
    """The command writes to the location by itself."""


class CheckpointOut(TypedDict):
    """What the last look at the location found."""

    advanced_at: str | None
    """When one newer than before was first seen."""
    error: str
    """Why the look failed; the present contents are then unknown."""
    is_deleted: bool
    """It was on the disk of a VM that has been deleted."""
    looked_at: str
    resume_from: str
    """The newest complete checkpoint that was seen; empty: there is none."""
    seen_at: str | None
    """When it was last seen complete: later looks failed."""
    step: int | None
    torn: list[str]
    """Newer ones that were skipped, and why."""
    written_at: str | None


class CheckpointPlanOut(TypedDict):
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
    keep: int
    """With local: how many complete checkpoints stay at the location; 0: all."""
    local: str
    """The folder or file on the VM whose checkpoints are uploaded; empty: none is."""
    location: str
    marker: str
    pattern: str
    resume: str
    uploads_itself: bool
    """The command writes to the location by itself."""


class CodeBody(TypedDict):
    """The archive of a work directory, uploaded before under its SHA-256."""

    branch: NotRequired[str]
    commit: NotRequired[str]
    diff: NotRequired[str]
    """What was not committed, cut where it is long."""
    files: int
    sha256: str
    size: int
    """Bytes, packed."""


class CodeOut(TypedDict):
    """The archive of a work directory, and the state of its repository when it was packed."""

    branch: str
    commit: str
    """Empty outside of a repository."""
    diff: str
    """What was not committed, cut where it is long."""
    files: int
    sha256: str
    size: int
    """Bytes, packed."""


class CommitmentsOut(TypedDict):
    fees: list[NotHeldOut]
    """The ten dearest, before what use took off them."""
    net: str
    """saved less paid."""
    paid: str
    """All fees less what use took off them. They are in `outside` of the days, too."""
    saved: str
    """What commitments took off Compute Engine's usage, by price and by credit."""
    unused: str | None
    """The part of fees that nothing used. Only fees of spend-based commitments since 2025 say it; null: none
    does.
    """


class CurveOut(TypedDict):
    kind: Literal["loss", "metric", "evaluation", "speed"]
    name: str
    points: list[CurvePointOut]
    """At most 500, thinned evenly; without work that was done again after a preemption, but for speed."""


class CurvePointOut(TypedDict):
    at: str
    cost: str | None
    """What the job's VMs had cost by then, as estimated at their launch."""
    done: float | None
    """The position of the training, in the unit."""
    unit: Literal["epoch", "batch", "step"] | None
    value: float | None
    """null: not a finite number."""


class DataMoveOut(TypedDict):
    """An input or an output. Each VM of a job downloads its inputs again."""

    cost: str | None
    """One move at the provider's list prices, without its free allowance; null: it is not known."""
    note: str
    size: StoredSizeOut | None
    """null: it is not known."""
    source: str
    target: str
    where: str
    """The part of the body."""


class DeleteDiskBody(TypedDict):
    by: NotRequired[str | None]
    """Who confirms it; default: the caller. Only admins name another."""


class DiagnosisResponse(TypedDict):
    achieved: AchievedSavingOut | None
    """null: no earlier job compares."""
    achieved_text: str
    advice: str
    """With the next larger VM, where processors are what is missing."""
    as_of: str
    currency: str
    held: BoundStretchOut | None
    """The latest verdict that held for two windows; null: none has."""
    is_current: bool
    """Whether the last window says the same, of a command that runs."""
    job: str
    larger_vm: LargerVmOut | None
    minutes: int
    """Measured in the last hour of its latest VM."""
    saving: PromisedSavingOut | None
    """null: what mending it saves is not known."""
    saving_text: str
    stretches: list[BoundStretchOut]
    """The newest first."""
    why_none: str
    """Why no verdict has held yet."""


class DiskOut(TypedDict):
    """The VM's filesystem that holds what the command writes, unless that is mounted from elsewhere."""

    free_bytes: int
    mount: str
    state: Literal["ok", "low", "full"]
    text: str
    """`disk full: 0 bytes left on /`; empty while there is room."""
    total_bytes: int | None


class DrillBody(TypedDict):
    by: NotRequired[str | None]
    """Who requests it; default: the caller. Only admins name another."""


class DrillOut(TypedDict):
    """A notice of a preemption on purpose. Seconds count from it; `resumed_seconds` from the start after it."""

    began_at: str | None
    checkpoint: str
    ended_at: str | None
    goes_on: str
    """yes, no, unknown, or empty: whether the command went on from there."""
    grace_seconds: float | None
    """What a preemption leaves the command."""
    number: int
    requested_at: str
    requested_by: str
    result: Literal["saved", "too_late", "torn", "never", "old", "not_resumed", "interrupted", "not_held"] | None
    """null: not known yet."""
    resumed_seconds: float | None
    """Until the command went on."""
    saved_seconds: float | None
    """Until a checkpoint was complete."""
    state: Literal["waiting", "stopping", "resuming", "over"]
    step: int | None
    """Of that checkpoint."""
    step_before: int | None
    """Of the newest checkpoint before the notice."""
    text: str
    """The result in words."""
    uploaded_seconds: float | None
    """Until it was at the location, where it travels."""
    was_killed: bool
    """The command did not end by itself."""


class DueReminderOut(TypedDict):
    cost: Amount
    """Of the open lifetime; for a stopped VM, of all its lifetimes and storage."""
    cycle: int
    evidence: str
    """Of idleness; empty where nothing is known."""
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
    """null: not running, but its storage bills."""
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
    """Who did it; empty or `system` where it was no person."""
    data: dict[str, Any]
    """Details for programs, which depend on the kind."""
    gce_id: str
    id: int
    """Grows in the order of recording."""
    kind: str
    name: str
    occurred_at: str
    project: str
    recorded_at: str
    text: str
    """One sentence for people."""


class EventsResponse(TypedDict):
    as_of: str
    events: list[EventOut]
    next_cursor: str | None
    """null: this was the last page."""
    searched_to: str | None
    """How far back a search for few matches got; `next_cursor` continues it. null: the page is full, or this is
    the end.
    """


class ExitOut(TypedDict):
    """The agent's final report of a run."""

    asked: str
    """Why the command had been asked to stop; empty where it ended by itself."""
    at: str
    code: int | None
    error: str
    reason: Literal["exited", "not_published", "setup_failed", "not_started", "cut_off"]
    repeats: bool
    """Whether the error would happen on every VM: then it is not tried again."""
    signal: int | None


class ExpectedCostOut(TypedDict):
    """Of replayed plans of a job with a deadline, by how often Spot VMs are preempted."""

    high: str
    """Exact decimal dollars, to the nano-dollar."""
    low: str
    """Nine of ten runs lie between this and `high`."""
    mean: str
    """Exact decimal dollars, to the nano-dollar."""
    on_demand_percent: int
    """Of the runs that needed an on-demand VM."""
    preemptions: float
    """In the mean."""
    runs: int


class FleetResponse(TypedDict):
    as_of: str
    currency: str
    instances: list[InstanceOut]
    next_cursor: str | None
    """Pass it as `cursor` for the next page; null: this was the last."""
    price_note: str | None
    """How old the prices are that these figures rest on, where they came with Costguard: after 60 days they are
    an estimate. null: they were read from Google's catalogue.
    """
    totals: FleetTotalsOut
    unread: list[UnreadOut]


class FleetTotalsOut(TypedDict):
    """For all instances that match the filters, not just this page, without deleted ones."""

    instances: int
    rate_per_hour: str
    """The hourly cost of everything that has a price."""
    running: int
    unpriced: int
    """Instances with a part that has no price: the rate is too low by those parts."""


class ForecastOut(TypedDict):
    """An estimate of the spend at the end of the period, never below what is already spent."""

    days_known: int
    """The full days it is based on, at most 28."""
    expected: str
    """Exact decimal dollars, to the nano-dollar."""
    high: str
    """Exact decimal dollars, to the nano-dollar."""
    is_grounded: bool
    """False: too early to forecast. Pages and commands then show no figure, and it crosses no threshold."""
    low: str
    """Exact decimal dollars, to the nano-dollar."""
    method: str
    """How it was calculated, in sentences."""


class ForecastResponse(TypedDict):
    as_of: str
    currency: str
    ends_at: str
    forecast: ForecastOut
    job: str | None
    label: str | None
    """With its value, such as `experiment=a`."""
    owner: str | None
    period: Literal["day", "week", "month"]
    """A day, a week from Monday, or a month, in UTC."""
    preset: str | None
    project: str | None
    rate_per_hour: str
    """The hourly cost now of everything that has a price."""
    spent: str
    """Exact decimal dollars, to the nano-dollar."""
    starts_at: str
    team: str | None
    unpriced: int
    """Lifetimes and disks without a price: the amounts are too low by them."""


Framework = Literal[
    "hugging-face", "lightning", "megatron", "deepspeed", "torch-dcp", "orbax", "keras", "tensorflow", "marker", "files"
]

GoodputGrouping = Literal["month", "project", "preset", "owner", "job"]


class GoodputOut(TypedDict):
    cost: Amount
    """Of VMs and disks."""
    cost_by_use: dict[str, str]
    """Together the cost."""
    cost_per_useful_gpu_hour: str | None
    """All of the cost by the GPU-hours that were kept; null: none were, or part has no price."""
    kept_percent_of_paid: str | None
    """Of the time that VMs billed; null where none did."""
    percent: dict[str, str]
    """Of all the time; together 100."""
    seconds: dict[str, int]
    """kept: the command ran, and its work stands; lost: it had to be done again or led to nothing; unsaved:
    since the newest checkpoint; starting, ending: a VM before and after its command; waiting: no VM.
    """
    useful_gpu_seconds: int
    """The time that was kept, times its GPUs."""


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
    """Of VMs and disks."""
    cost_by_use: dict[str, str]
    """Together the cost."""
    cost_per_useful_gpu_hour: str | None
    """All of the cost by the GPU-hours that were kept; null: none were, or part has no price."""
    group: dict[str, str]
    """The value of each grouping."""
    jobs: int
    kept_percent_of_paid: str | None
    """Of the time that VMs billed; null where none did."""
    percent: dict[str, str]
    """Of all the time; together 100."""
    seconds: dict[str, int]
    """kept: the command ran, and its work stands; lost: it had to be done again or led to nothing; unsaved:
    since the newest checkpoint; starting, ending: a VM before and after its command; waiting: no VM.
    """
    useful_gpu_seconds: int
    """The time that was kept, times its GPUs."""


Grouping = Literal["day", "project", "preset", "owner", "job", "provisioning_model", "vm"]


class HangOut(TypedDict):
    """A command that makes no progress any more."""

    bound_seconds: int
    """The silence after which it counts as a hang."""
    kind: Literal["still", "computing", "printing"]
    """still: nothing moves; computing: nothing is printed or written; printing: no step is made."""
    phase: Literal["training", "evaluating", "loading"]
    since: str
    """When its last step was made."""
    step: int | None
    text: str
    """What was seen, and how its steps came before."""
    where: str
    """Its stacks where they were permitted, else what its threads wait in."""


class HourlyRateOut(TypedDict):
    """Dollars per hour; null where there is no price."""

    disk: str | None
    gpu: str | None
    machine: str | None
    total: str | None
    unpriced: str
    """The parts that have no price; empty where all have one."""


class IdleOut(TypedDict):
    evidence: str
    is_weak: bool
    """The VM has GPUs, and is idle or busy by CPU and network alone, or busy by utilisation alone."""
    since: str
    state: Literal["busy", "idle", "unknown"]
    """busy, idle or unknown. A VM that was not measured is unknown, never idle."""


class IdleRuleOut(TypedDict):
    cpu_below_percent: int
    """Used where GPUs are not measured."""
    gpu_below_percent: int
    """Applies to every GPU of the VM."""
    sm_below_percent: int
    """Of the multiprocessors of every GPU; decides where DCGM measures them."""
    window_seconds: int
    """How long a VM must stay below the thresholds."""


class InputBody(TypedDict):
    path: str
    """A path on the VM."""
    source: str
    """s3://bucket/path or gs://bucket/path."""


class InputOut(TypedDict):
    path: str
    """On the VM."""
    source: str


class InstanceOut(TypedDict):
    created_at: str
    created_by: str
    """The creator's account; empty when unknown."""
    due_at: str | None
    """When it reaches the preset's limit; null: no limit, or not running."""
    first_seen_at: str
    gce_id: str
    """Google's numeric id; names are reused."""
    gone_at: str | None
    """When it was deleted or found absent."""
    gpu_count: int
    gpu_type: str | None
    idle: IdleOut | None
    """Its measured use; null: not running, or not measured recently."""
    job: str
    labels: dict[str, str]
    last_seen_at: str | None
    """When it was last certainly seen; null: its project was never read."""
    lifetime_cost: Amount
    """The cost of the open lifetime so far, without storage."""
    local_ssd_gib: int
    machine_type: str
    memory_mib: int
    name: str
    never_stopped: str
    """Why no rule and no request stops it, and what to do instead; empty: it can be stopped."""
    owner: str
    """Empty: the VM is unowned."""
    owner_source: Literal["job", "claim", "label", "creator", ""]
    """How the owner is known; empty: the VM is unowned."""
    preset: str
    project: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    """standard or spot."""
    rate_per_hour: Amount
    """The cost per hour now: the VM while it runs, and its storage."""
    started_at: str | None
    """When the open lifetime began; null: the VM is not running."""
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
    """When Google's run-time limit ends it."""
    total_cost: Amount
    """All its lifetimes and storage so far."""
    unpriced: list[str]
    """The parts that have no price, in sentences."""
    unread: str
    """Why its zone cannot be read now; empty when it can."""
    vcpus: int
    zone: str


class InstanceResponse(TypedDict):
    as_of: str
    currency: str
    instance: InstanceOut
    lifetimes: list[LifetimeDetailOut]
    not_stopped: NotStoppedOut
    price_note: str | None
    """How old the prices are that these figures rest on, where they came with Costguard: after 60 days they are
    an estimate. null: they were read from Google's catalogue.
    """
    storage: list[StorageOut]


class InterruptionOut(TypedDict):
    """One run that ended before the work was done, counted once whatever reported it."""

    attempt: int
    from_zero: bool
    """There was no checkpoint: all of the work was lost."""
    happened_at: str
    lost_cost: str | None
    lost_seconds: int | None
    """Work since the checkpoint that was resumed from."""
    noticed_at: str
    noticed_by: Literal["notice", "exit", "operation", "status", "silence"]
    """What reported it first."""
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
    """When the next VM was requested from Google."""
    resumed_at: str | None
    """When the command was running again."""
    run: int


class JobBody(TypedDict):
    aws_role: NotRequired[str]
    """The role that the VM assumes at AWS with its Google identity, instead of keys."""
    bandwidth_mib_s: NotRequired[int | None]
    """Of uploads and downloads together; null: unlimited."""
    ceiling: NotRequired[Decimal | str | None]
    """The most that all its VMs together may cost."""
    checkpoint: NotRequired[CheckpointBody | None]
    code: NotRequired[CodeBody | None]
    """Unpacked on each VM; the command runs in it."""
    command: NotRequired[Sequence[str]]
    """Run directly on the VM or in the image, without a shell."""
    deadline: NotRequired[datetime | str | None]
    """When it must be finished."""
    deadline_in_hours: NotRequired[float | None]
    """The same, in hours from its launch; give one of the two."""
    drill: NotRequired[bool]
    """Whether a save on a notice is tried once, early."""
    environment: NotRequired[Mapping[str, str]]
    """Not secret: do not put passwords here."""
    image: NotRequired[str]
    """A container image by tag or digest; empty: run on the VM itself."""
    inputs: NotRequired[Sequence[InputBody]]
    """Downloaded before it starts."""
    kind: NotRequired[JobKind]
    """dev: a VM to work on, without a command; it is not replaced when it ends."""
    max_crashes: NotRequired[int]
    """How often a command that failed after progress is run again. What fails at its start never is."""
    max_preemptions: NotRequired[int]
    metric: NotRequired[MetricBody | None]
    """A number in the output, such as a validation loss."""
    mlflow_run: NotRequired[str]
    """The id of the MLflow run that its cost is logged to."""
    mounts: NotRequired[Sequence[str]]
    name: NotRequired[str]
    """For people."""
    on_hang: NotRequired[OnHang]
    """restart: a command without progress is restarted from its newest checkpoint."""
    outputs: NotRequired[Sequence[OutputBody]]
    """Published when it succeeds."""
    overrides: NotRequired[OverridesBody | None]
    owner: NotRequired[str]
    """The address of the person responsible; default: the caller. Only admins name another."""
    preset: str
    project: NotRequired[str]
    """Empty: the watched project, where there is only one."""
    pull: NotRequired[bool]
    """Resolve the tag on each VM; by default all VMs run the digest that the first one pulled."""
    secrets: NotRequired[Mapping[str, str]]
    """References to Secret Manager; the VM reads the values itself."""
    setup: NotRequired[str]
    """A shell command, run once on each VM before the command."""
    stacks: NotRequired[bool]
    """Whether the agent may look for 30 s at where the command's main thread stands."""
    step_pattern: NotRequired[str]
    """Finds the step in the output: a regular expression with a group."""
    total_steps: NotRequired[int | None]
    """How many steps it takes in all."""
    wandb_run: NotRequired[str]
    """The W&B run whose summary shows its cost: ENTITY/PROJECT/RUN."""
    when_late: NotRequired[WhenLate]
    """finish: late, within its ceiling; stop: at the deadline, after a checkpoint."""
    work_hours: NotRequired[float | None]
    """How long it takes on its preset without interruptions."""
    workdir: NotRequired[str]


JobKind = Literal["training", "dev"]


class JobOut(TypedDict):
    attempts: int
    cancel_after_at: str | None
    """When a cancel after its next checkpoint was requested."""
    cancel_after_by: str
    cancel_asked_at: str | None
    cancel_asked_by: str
    ceiling: str | None
    command: list[str]
    cost: Amount
    """All its VMs with their disks, so far."""
    crashes: int
    created_at: str
    deadline: str | None
    id: str
    image: str
    """The requested container image; empty: none."""
    image_digest: str
    """The digest that was pulled: sha256:...; empty before that."""
    kept_disk: KeptDiskOut | None
    """null: none is kept. POST /jobs/{job_id}/delete-disk deletes it."""
    kind: Literal["training", "dev"]
    """training, or dev: a VM to work on."""
    metric: SeenMetricOut | None
    """null: the job names none, or it has printed none yet."""
    name: str
    never_mind_at: str | None
    """A standstill whose best value came before is not hinted at."""
    never_mind_by: str
    next_at: str | None
    """The next time it is checked, unless there is news before."""
    owner: str
    place: JobVmOut | None
    """null: no VM has been requested yet."""
    preemptions: int
    preset: str
    project: str
    reason: str
    """Why it is in this state, and what comes next."""
    settled_at: str | None
    """When it ended; null: it has not."""
    state: Literal["queued", "provisioning", "running", "recovering", "succeeded", "failed", "cancelled"]
    step: int | None
    title: str
    """The name, or the id where it has none."""
    via: Literal["api", "cli", "page"]


class JobOutlookOut(TypedDict):
    """Based on `work_hours`, without interruptions. `no` is refused; `at_risk` gives a warning."""

    ceiling: str | None
    deadline: str | None
    ends_at: str | None
    """If its VM starts within 20 minutes; null: the duration is not known."""
    least: OfferOut | None
    """In the cheapest zone that it may use."""
    meets_deadline: Literal["yes", "at_risk", "no", "unknown"]
    most: OfferOut | None
    """In the most expensive one."""
    within_ceiling: Literal["yes", "at_risk", "no", "unknown"]


class JobPlanOut(TypedDict):
    """Where it runs now and why."""

    act: Literal["start_spot", "start_on_demand", "stay", "wait"]
    at_risk: AtRiskOfDeadlineOut | None
    """null: the deadline can be kept."""
    behind_seconds: int | None
    """Behind the straight line from launch to deadline; below zero: ahead of it."""
    finishes_at: str | None
    """If nothing interrupts it from now on."""
    is_urgent: bool
    """The guard acts: nothing is waited for."""
    latest_safe_at: str | None
    """When on-demand must start, if nothing is gained before."""
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
    """null: nothing was read of it yet."""


class JobResponse(TypedDict):
    as_of: str
    attempts: list[AttemptOut]
    bound: str | None
    """What bounds its run now, in words; null: not known. GET /jobs/{job_id}/diagnosis has it whole."""
    checkpoint: CheckpointOut | None
    checkpoints: list[SeenCheckpointOut]
    """Complete ones, the oldest first."""
    currency: str
    drills: list[DrillOut]
    """The newest first."""
    goodput: GoodputOut | None
    """What its time and cost went into; null for a development VM."""
    interruptions: list[InterruptionOut]
    job: JobOut
    kept_disk: KeptDiskOut | None
    """null: none is kept. POST /jobs/{job_id}/delete-disk deletes it."""
    lost: LostOut
    next: str
    """What happens if its VM is lost, or once it gets one; empty: nothing."""
    notebook_command: str | None
    """For a development VM: forwards its port 8888."""
    on_notice: SavedOnNoticeOut
    pace: PaceOut
    plan: StoredPlanOut | None
    """Of a job with a deadline; null: nothing is planned for it."""
    price_note: str | None
    """How old the prices are that these figures rest on, where they came with Costguard: after 60 days they are
    an estimate. null: they were read from Google's catalogue.
    """
    progress: ProgressOut | None
    """null: nothing was read of it yet. GET /jobs/{job_id}/progress has its curves."""
    recipe: RecipeOut
    spec: JobSpecOut
    ssh_command: str | None
    """null: there is no VM."""
    standstill: StandstillOut | None
    """null: its metric improves, noise hides that, or a user has decided on it: see `never_mind_at`."""
    trackers: list[TrackedRunOut]
    """The runs of experiment trackers that it names."""
    work_at_risk: AtRiskOut | None
    """null: no command is running."""


class JobSpecOut(TypedDict):
    """The request, which never changes."""

    aws_role: str
    bandwidth_mib_s: int | None
    """The most for uploads and downloads; null: no limit."""
    checkpoint: CheckpointPlanOut | None
    code: CodeOut | None
    """null: its code is in the image, or on the VM already."""
    deadline_in_seconds: int | None
    """From its launch on."""
    drill: bool
    environment: dict[str, str]
    inputs: list[InputOut]
    """Downloaded before the command starts."""
    max_crashes: int
    max_preemptions: int
    metric: MetricOut | None
    mlflow_run: str
    """The MLflow run that its cost is logged to; empty: none."""
    mounts: list[str]
    on_hang: OnHang
    outputs: list[OutputOut]
    """Published when the command has succeeded."""
    pull: bool
    """Whether each VM resolves the image's tag again."""
    secrets: dict[str, str]
    """References, never values."""
    setup: str
    """The shell command that runs once on each VM before the command."""
    stacks: bool
    step_pattern: str
    sweep: str
    """The id of its sweep; empty: none."""
    total_steps: int | None
    wandb_run: str
    """The W&B run whose summary shows its cost; empty: none."""
    when_late: WhenLate
    work_seconds: int | None
    workdir: str


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
    """VM and disk, as estimated at the launch."""
    state: Literal["intended", "asked", "booting", "running", "resting", "restarting", "ending", "kept", "over"]
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
    """Only if it is still due then."""
    hours: NotRequired[int | None]
    """Counted from when it is due; null: until tomorrow morning."""
    reason: NotRequired[str]
    """Shown in the audit log and in notifications."""
    started_at: NotRequired[datetime | str | None]
    """Only if the run that began then is still running."""


class KeepOut(TypedDict):
    at: str
    by: str
    cost: Amount
    """From when it would have been due until the keep expired, the VM ended, or now."""
    gce_id: str
    name: str
    owner: str
    preset: str
    project: str
    reason: str
    until: str


class KeepsOut(TypedDict):
    cost: Amount
    keeps: list[KeepOut]
    """The latest first."""
    method: str


class KeptDiskOut(TypedDict):
    """The disk of an ended job on a stopped VM. It holds the only copy of what the job saved, and it bills."""

    gib: int
    holds: str
    """What would be lost with it."""
    monthly: str | None
    """null: it has no price."""
    vm: str
    zone: str


class KeptDisksOut(TypedDict):
    """The kept disks of all ended jobs, whatever the filters: each bills until it is deleted."""

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
    """Exact decimal dollars, to the nano-dollar."""
    hours: str
    """The same in hours, to four places."""
    machine: str
    """vCPUs, memory and local SSDs."""
    seconds: int
    """Of running VMs."""
    storage: str
    """Disks, and the saved memory of suspended VMs."""
    total: str
    """Exact decimal dollars, to the nano-dollar."""
    unpriced: int
    """Lifetimes and disks in it without a price: the amounts are too low by them."""
    value: str | None
    """The label's value; null: VMs while they had no such label."""


class LargerVmOut(TypedDict):
    machine_type: str
    more_per_hour: str
    """Than the VM that the job has, with the same GPUs."""
    vcpus: int


class LeaseOut(TypedDict):
    expires_at: str
    holder: str
    is_held: bool
    """False: it has expired, and no daemon acts."""
    name: str


class LeftAloneOut(TypedDict):
    due_at: str | None
    gce_id: str
    name: str
    next_at: str | None
    """When the next reminder is sent unless someone answers."""
    overdue: bool
    """It is past the preset's limit."""
    project: str
    reason: str
    stop_at: str | None
    """When a rule stops it unless someone answers."""


class LifetimeDetailOut(TypedDict):
    charges: list[ChargeOut]
    cost: Amount
    end_is_estimate: bool
    """No operation shows the exact time: ended_at is the latest it can be."""
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
    """null: still running."""
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
    """From its start to its end, or to now."""
    started_at: str
    unpriced: str
    zone: str


class LifetimeOut(TypedDict):
    cost: Amount
    end_is_estimate: bool
    """No operation shows the exact time: ended_at is the latest it can be."""
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
    """null: still running."""
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
    """From its start to its end, or to now."""
    started_at: str
    unpriced: str
    zone: str


class LifetimesResponse(TypedDict):
    as_of: str
    currency: str
    lifetimes: list[LifetimeOut]
    next_cursor: str | None


class LinksOut(TypedDict):
    instance: str
    """The VM."""
    self: str
    """This request."""


class LostOut(TypedDict):
    """The work that has been lost so far."""

    cost: str
    """Exact decimal dollars, to the nano-dollar."""
    from_zero: int
    """How often there was no checkpoint to resume from."""
    seconds: int


class MatchOut(TypedDict):
    gpu_count_max: int | None
    gpu_count_min: int
    gpu_types: list[str]
    labels: dict[str, str]


class MeResponse(TypedDict):
    address: str
    """Empty: the master token, which has no address."""
    expires_at: str | None
    """When that token expires; null: never, or there is none."""
    permissions: list[Literal["read", "jobs", "instances", "tokens", "metrics", "admin"]]
    """What this token or session may do."""
    role: Literal["nobody", "viewer", "operator", "admin"]
    token: str | None
    """The id of the token; null: no token was sent."""
    via: Literal["master", "token", "link", "iap", "oidc"]
    """How the caller was identified."""


class MessageOut(TypedDict):
    accepted_at: str | None
    address: str
    """The recipient: an address, a channel, or a Slack id."""
    attempts: int
    cycle: int
    """How many answers there were before it: each answer starts a new cycle of stages."""
    error: str
    """Why the last attempt failed, or why it is not sent any more."""
    gce_id: str
    id: int
    intended_at: str
    key: str
    """Natural: there is never a second message with the same key."""
    kind: Literal["reminder", "digest", "notification", "job", "ephemeral"]
    name: str
    project: str
    stage: int
    """0 is the first of its cycle."""
    status: Literal["intended", "sending", "accepted", "withdrawn", "failed"]
    """accepted: Slack accepted it; failed: it will not be sent."""
    subject: str
    """What a reminder concerns: run or rest, and two numbers; empty for others."""
    target: Literal["owner", "channel", "contact", ""]
    """For a reminder; empty for others."""
    try_after: str | None
    """When it is sent or tried again; null: it is not waiting."""


class MessagesResponse(TypedDict):
    as_of: str
    next_cursor: str | None
    reminders: list[MessageOut]


class MetricBody(TypedDict):
    better: NotRequired[Literal["lower", "higher"]]
    pattern: str
    """Finds the number in the output: a regular expression with a group."""


class MetricOut(TypedDict):
    better: Literal["lower", "higher"]
    pattern: str


class MetricValueOut(TypedDict):
    at: str
    """When the agent read it."""
    step: int | None
    """The last step that was known by then; null: none."""
    text: str
    """The same as text, which may be nan or inf."""
    value: float | None
    """null: it is not a finite number."""


class NeverMindBody(TypedDict):
    by: NotRequired[str | None]
    """Who requests it; default: the caller. Only admins name another."""


class NewTokenResponse(TypedDict):
    as_of: str
    secret: str | None
    """Shown once and not stored. null: this is a repeat of an earlier request."""
    token: TokenOut


class NotHeldOut(TypedDict):
    cost: str
    """Exact decimal dollars, to the nano-dollar."""
    name: str
    project: str


class NotStoppedOut(TypedDict):
    """What keeps a VM from being stopped; the first reason where there are several."""

    at: str | None
    """When the next of these happens; null where no time is known."""
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
    """What the rule still needs, in order: evidence, warnings, grace."""
    rule: str
    """The rule that could stop it; empty where none can."""
    sentence: str
    """The whole explanation for people, with times in UTC."""


class OfferOut(TypedDict):
    cost: str | None
    """For the hours of the request."""
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
    """s3://bucket/path or gs://bucket/path, published once the command has succeeded."""
    path: str
    """A path on the VM."""


class OutputOut(TypedDict):
    destination: str
    path: str
    """On the VM."""


class OutputResponse(TypedDict):
    """What an attempt's command printed, as a terminal would show it."""

    as_of: str
    attempt: int | None
    """null: no agent has reported yet."""
    heard_at: str | None
    is_end: bool | None
    """With `begin` or `search`: all that is stored was read."""
    job: str
    log: str
    """The file on the VM with the whole output."""
    next: str | None
    """With `begin` or `search`: the `begin` with which the output goes on, now or later."""
    output: str
    stored: str
    """Where the whole output is stored; empty: nowhere."""
    stored_at: str | None
    """With `begin` or `search`: when the newest part was stored; null: none is yet."""


class OverheadOut(TypedDict):
    loss_seconds: int
    """The most work that a preemption can undo."""
    start_seconds: int
    """From the loss of a VM to work on the next, at most."""


class OverridesBody(TypedDict):
    """Deviations from the preset's recipe. Operators may override what the preset allows."""

    disk_gib: NotRequired[int | None]
    image: NotRequired[str | None]
    """The boot image: projects/P/global/images/family/F."""
    machine_type: NotRequired[str | None]
    max_run_hours: NotRequired[float | None]
    """How long each VM may run; then Google ends it."""
    on_demand_fallback: NotRequired[bool | None]
    """Use on-demand when Spot is out of stock everywhere."""
    spot: NotRequired[bool | None]
    zones: NotRequired[Sequence[str] | None]


class PaceOut(TypedDict):
    cost_per_1000_steps: str | None
    """The total cost by the steps that count."""
    per_hour: str | None
    """Of the latest attempt whose steps are known."""
    steps: int | None
    """Without repeated work."""


Permission = Literal["read", "jobs", "instances", "tokens", "metrics", "admin"]


class PlaceEventOut(TypedDict):
    at: str
    outcome: Literal["stockout", "preempted"]


class PlaceOut(TypedDict):
    """A zone for one kind of GPU and one provisioning model."""

    events: list[PlaceEventOut]
    """The events behind the figures, the newest first; at most ten."""
    gpu_type: str
    """Empty: VMs without a GPU."""
    preemptions: str
    """The same, with a longer half-life."""
    presets: list[str]
    """The presets that launch there."""
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    stockouts: str
    """Each counts 1 at first, and fades with its half-life."""
    zone: str


class PlacesResponse(TypedDict):
    as_of: str
    places: list[PlaceOut]
    preemption_half_life_seconds: int
    stockout_half_life_seconds: int


class PlanPointOut(TypedDict):
    at: str
    latest_safe_at: str | None
    work_left_seconds: int


class PlannedStepOut(TypedDict):
    act: Literal["start_spot", "start_on_demand", "stay", "wait"]
    at: str
    latest_safe_at: str | None
    reason: str
    zone: str
    """Where Spot is started; empty: nowhere."""


class PresetOut(TypedDict):
    description: str
    dev_image: str
    """The boot image of development VMs; empty: the recipe's image."""
    idle: IdleRuleOut | None
    """What counts as idle; null: idleness is not used."""
    launch: RecipeOut | None
    """How its VMs are launched; null: they cannot be."""
    limit_seconds: int | None
    """How long a lifetime may last before its owner gets a reminder; null: no limit."""
    match: MatchOut
    """How a VM is recognised: all conditions must hold."""
    name: str
    overrides: list[str]
    """The parts of the recipe that operators may override; admins may override all."""
    reminders: ReminderRuleOut
    starts: StartsOut | None
    """How long its jobs' VMs took to start; null: none was seen."""
    starts_by_zone: dict[str, StartsOut]
    """The same, in each zone in which any was seen."""


class PresetsResponse(TypedDict):
    presets: list[PresetOut]


class PreviewResponse(TypedDict):
    actions: list[OtherActionOut]
    as_of: str
    channel: str
    """Where reminders go that have no team's channel; empty: Slack is not set up."""
    currency: str
    is_shadow: bool
    """Rules do not stop anything; what they would have stopped is recorded."""
    left_alone: list[LeftAloneOut]
    messages: list[DueReminderOut]


class PriceOut(TypedDict):
    in_force_from: str
    is_in_force: bool
    """False: a later price replaced it, or it is not in force yet."""
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    rate: str
    """Dollars per unit."""
    recorded_at: str
    region: str
    resource: str
    sku_id: str
    source: str
    unit: str
    """h, GiBy.h or GiBy.mo (the calendar month in US Pacific time)."""


class PricesResponse(TypedDict):
    age_seconds: int | None
    """Since a price was last added."""
    as_of: str
    currency: str
    next_cursor: str | None
    """For the prices alone; null: this was the last page."""
    prices: list[PriceOut]
    """By resource, region and model, each with the latest first."""
    recorded_at: str | None
    refused: list[RefusedPriceOut]
    sources: list[str]
    unpriced: list[UnpricedUseOut]
    """The first 100 of them."""
    unpriced_total: int
    """Lifetimes and disks in use now that have no price."""


class ProblemKindOut(TypedDict):
    meaning: str
    type: str


class ProgressOut(TypedDict):
    done: float | None
    epoch: float | None
    """As printed."""
    left: TimeLeftOut | None
    """null: its total or its pace is unknown, or it has ended."""
    loss: str | None
    """The training loss, as a number or nan, inf, -inf."""
    metrics: dict[str, str]
    """What else was printed, by its name."""
    per_second: float | None
    """Over the last minutes; null for a job that has ended."""
    phase: str
    """train or eval, of what was read last."""
    read_at: str
    """When its agent last read anything of it."""
    total: float | None
    """The job's own number of steps, else what its output says."""
    unit: Literal["epoch", "batch", "step"] | None
    """What done and total count; null: nothing was counted yet."""


class ProjectHealthOut(TypedDict):
    age_seconds: int | None
    is_stale: bool
    is_unread: bool
    """The last read failed completely; `unread` has the reason and the fix."""
    last_complete_at: str | None
    project: str


class ProjectOut(TypedDict):
    first_seen_at: str
    instances: int
    """In the last read that covered every zone."""
    is_stale: bool
    """The last complete read is older than it should be, or there is none."""
    last_complete_at: str | None
    """The last read that covered every zone; null: there was none."""
    last_tried_at: str
    operations_through_at: str | None
    """Operations, and who started them, are known up to here."""
    project: str
    unread: list[UnreadOut]


class ProjectsResponse(TypedDict):
    as_of: str
    projects: list[ProjectOut]


class PromisedSavingOut(TypedDict):
    """At best, "up to"."""

    per_hour: str | None
    """Of each hour of its VM; null: it has no price."""
    seconds: int | None
    share: float
    """Of the time that is left."""
    total: str | None
    """Of what is left of the run; null: how long that takes is not known."""


class QuoteBody(TypedDict):
    aws_role: NotRequired[str]
    """The role that the VM assumes at AWS with its Google identity, instead of keys."""
    bandwidth_mib_s: NotRequired[int | None]
    """Of uploads and downloads together; null: unlimited."""
    ceiling: NotRequired[Decimal | str | None]
    """The most that all its VMs together may cost."""
    checkpoint: NotRequired[CheckpointBody | None]
    code: NotRequired[CodeBody | None]
    """Unpacked on each VM; the command runs in it."""
    command: NotRequired[Sequence[str]]
    """Run directly on the VM or in the image, without a shell."""
    deadline: NotRequired[datetime | str | None]
    """When it must be finished."""
    deadline_in_hours: NotRequired[float | None]
    """The same, in hours from its launch; give one of the two."""
    drill: NotRequired[bool]
    """Whether a save on a notice is tried once, early."""
    environment: NotRequired[Mapping[str, str]]
    """Not secret: do not put passwords here."""
    hours: NotRequired[float]
    """The running time to quote for."""
    image: NotRequired[str]
    """A container image by tag or digest; empty: run on the VM itself."""
    inputs: NotRequired[Sequence[InputBody]]
    """Downloaded before it starts."""
    kind: NotRequired[JobKind]
    """dev: a VM to work on, without a command; it is not replaced when it ends."""
    max_crashes: NotRequired[int]
    """How often a command that failed after progress is run again. What fails at its start never is."""
    max_preemptions: NotRequired[int]
    metric: NotRequired[MetricBody | None]
    """A number in the output, such as a validation loss."""
    mlflow_run: NotRequired[str]
    """The id of the MLflow run that its cost is logged to."""
    mounts: NotRequired[Sequence[str]]
    name: NotRequired[str]
    """For people."""
    on_hang: NotRequired[OnHang]
    """restart: a command without progress is restarted from its newest checkpoint."""
    outputs: NotRequired[Sequence[OutputBody]]
    """Published when it succeeds."""
    overrides: NotRequired[OverridesBody | None]
    owner: NotRequired[str]
    """The address of the person responsible; default: the caller. Only admins name another."""
    preset: str
    project: NotRequired[str]
    """Empty: the watched project, where there is only one."""
    pull: NotRequired[bool]
    """Resolve the tag on each VM; by default all VMs run the digest that the first one pulled."""
    secrets: NotRequired[Mapping[str, str]]
    """References to Secret Manager; the VM reads the values itself."""
    setup: NotRequired[str]
    """A shell command, run once on each VM before the command."""
    stacks: NotRequired[bool]
    """Whether the agent may look for 30 s at where the command's main thread stands."""
    step_pattern: NotRequired[str]
    """Finds the step in the output: a regular expression with a group."""
    total_steps: NotRequired[int | None]
    """How many steps it takes in all."""
    wandb_run: NotRequired[str]
    """The W&B run whose summary shows its cost: ENTITY/PROJECT/RUN."""
    when_late: NotRequired[WhenLate]
    """finish: late, within its ceiling; stop: at the deadline, after a checkpoint."""
    work_hours: NotRequired[float | None]
    """How long it takes on its preset without interruptions."""
    workdir: NotRequired[str]


class QuoteOut(TypedDict):
    as_of: str
    budgets: list[QuotedBudgetOut]
    cheapest: OfferOut | None
    """Of the provisioning models it may use; null: nothing has a price."""
    currency: str
    expected: ExpectedCostOut | None
    """For a job with a deadline and work_hours; null: nothing can be said."""
    first: OfferOut | None
    """Where it would start now."""
    hours: str
    kind: Literal["training", "dev"]
    machine: QuotedVmOut | None
    """null: there is no such preset, or it cannot be launched."""
    moves: list[DataMoveOut]
    """Its inputs and outputs, and what moving them costs."""
    outlook: JobOutlookOut
    """Whether it can meet its deadline and stay within its ceiling."""
    places: list[QuotedPlaceOut]
    """In the order in which they would be tried now."""
    preset: str
    price_note: str | None
    """How old the prices are that these figures rest on, where they came with Costguard: after 60 days they are
    an estimate. null: they were read from Google's catalogue.
    """
    project: str
    question: str
    """What a person should confirm before the launch, as it may be expensive; empty: nothing."""
    refusals: list[RefusalOut]
    """Why POST /api/v1/jobs would refuse this; owner and command may still be missing."""
    saving_percent: int | None
    """Spot compared with on-demand in that zone."""
    warnings: list[str]
    """Concerns that do not refuse the job."""


class QuotedBudgetOut(TypedDict):
    """A budget that the job would count against."""

    at_limit: Literal["tell", "refuse", "stop-spot"]
    ends_at: str
    left: str
    """Below zero once it is overspent."""
    left_after: str | None
    """If all of the cost falls into this period; null: not known."""
    limit: str
    """Exact decimal dollars, to the nano-dollar."""
    name: str
    period: Literal["day", "week", "month"]
    spent: str
    """Exact decimal dollars, to the nano-dollar."""


class QuotedMemberOut(TypedDict):
    first: OfferOut | None
    """Where it would start now; null: nowhere."""
    number: int
    parameters: dict[str, str]


class QuotedPlaceOut(TypedDict):
    note: str
    """Recent stockouts and preemptions there; empty where there were none that count."""
    on_demand: HourlyRateOut
    spot: HourlyRateOut
    zone: str


class QuotedVmOut(TypedDict):
    """Sizes are 0 where the machine type is not known; it has no price then either."""

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
    """What callers with the permission read get."""

    as_of: str
    is_acting: bool
    """Whether this replica's daemon holds the lease, by the database."""
    last_pass_at: str | None
    leases: list[LeaseOut]
    prices_age_seconds: int | None
    projects: list[ProjectHealthOut]
    reasons: list[str]
    """Why it is not ready."""
    slack_refused: dict[str, int]
    """Requests from Slack that were refused since this process started, by reason."""
    slack_waiting: int
    """Messages that are waiting to be sent. None is lost."""
    slack_waiting_since: str | None
    """Since when the oldest of them has been waiting."""
    status: Verdict
    """degraded: it answers, but not everything is up to date or complete; see `warnings`."""
    unread: list[UnreadOut]
    version: str
    warnings: list[str]
    """What needs attention although it can answer."""


class ReadyResponse(TypedDict):
    """What anonymous callers get."""

    status: Verdict
    """degraded: it answers, but not everything is up to date or complete; see `warnings`."""


class RecipeOut(TypedDict):
    disk_gib: int
    disk_type: str
    external_address: bool
    falls_back_to_on_demand: bool
    """Used once every zone is out of Spot stock."""
    gpu_count: int
    gpu_type: str
    image: str
    """The boot image."""
    labels: dict[str, str]
    machine_type: str
    max_run_seconds: int
    """Google ends each VM after this time."""
    network: str
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    service_account: str
    """Empty: the VM cannot call Google APIs."""
    subnetwork: str
    zones: list[str]
    """In order of preference where nothing else decides."""


class RecipientOut(TypedDict):
    address: str
    target: Literal["owner", "channel", "contact"]


class RecoveriesResponse(TypedDict):
    as_of: str
    by_outcome: dict[str, int]
    currency: str
    from_zero: int
    interruptions: list[RecoveryOut]
    """The newest first; at most 200."""
    interruptions_total: int
    lost_cost: str
    """Exact decimal dollars, to the nano-dollar."""
    lost_seconds: int
    noticed_first: dict[str, int]
    """What reported them first."""
    since: str
    spans: list[SpanOut]
    """For preemptions alone."""


class RecoveryOut(TypedDict):
    attempt: int
    from_zero: bool
    """There was no checkpoint: all of the work was lost."""
    happened_at: str
    job: str
    lost_cost: str | None
    lost_seconds: int | None
    """Work since the checkpoint that was resumed from."""
    noticed_at: str
    noticed_by: Literal["notice", "exit", "operation", "status", "silence"]
    """What reported it first."""
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
    """When the next VM was requested from Google."""
    resumed_at: str | None
    """When the command was running again."""
    run: int
    title: str
    zone: str


class RefusalOut(TypedDict):
    message: str
    """What is wrong with it, and what to change."""
    where: str
    """The part of the body."""


class RefusedPriceOut(TypedDict):
    provisioning_model: Literal["standard", "spot", "flex_start", "reservation_bound"]
    rate: str
    """Exact decimal dollars, to the nano-dollar."""
    reason: str
    """Why it failed the sanity check; the last good price stays in force."""
    refused_at: str
    region: str
    resource: str
    source: str
    unit: Literal["h", "GiBy.h", "GBy.h", "GiBy.mo"]


class ReminderRuleOut(TypedDict):
    every_seconds: int
    """The time between reminders to the owner after the limit."""
    grace_seconds: int
    """Counted from when Slack accepted the last of them."""
    keeps: int
    """How often an owner may keep one lifetime; after that only an admin can."""
    longest_keep_seconds: int
    stop_after: int
    """Unanswered reminders before a VM is stopped."""
    when_unanswered: Literal["remind", "stop"]


class RequestBody(TypedDict):
    by: NotRequired[str | None]
    """The requester; default: the caller. Only admins name another."""
    due_at: NotRequired[datetime | str | None]
    """Only if it is still due then."""
    reason: NotRequired[str]
    """Shown in the audit log and in notifications."""
    started_at: NotRequired[datetime | str | None]
    """Only if the run that began then is still running."""


class RequestOut(TypedDict):
    at: str
    by: str
    """The requester's address."""
    due_at: str | None
    """The due time that the requester saw; null: none."""
    gce_id: str
    hours: int | None
    """For a keep; null: until tomorrow morning in the requester's time zone."""
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
    """open: for the next pass."""
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
    """null: as it was."""
    by: NotRequired[str | None]
    """Who resumes; default: the caller. Only admins name another."""
    ceiling: NotRequired[str | None]
    """The new ceiling; null: as it was."""
    members: NotRequired[Sequence[int]]
    """Their numbers. Empty: all that failed or were never launched."""


Role = Literal["nobody", "viewer", "operator", "admin"]


class SavedOnNoticeOut(TypedDict):
    """How often a checkpoint was saved on a notice, in drills and in announced preemptions."""

    drills: int
    """Of `times`."""
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


class SeenCheckpointOut(TypedDict):
    first_seen_at: str
    resume_from: str
    step: int | None
    written_at: str


class SeenMetricOut(TypedDict):
    """What the command printed so far, on all VMs."""

    best: MetricValueOut | None
    """null: no value was finite."""
    better: Literal["lower", "higher"]
    last: MetricValueOut


class SessionOut(TypedDict):
    address: str
    """Who is signed in."""
    began_at: str
    client: str
    """The network address they came from; empty: not known."""
    expires_at: str
    id: str
    is_this: bool
    """The session of this request."""
    last_used_at: str | None
    """To the minute; null: not used yet."""
    role: Literal["nobody", "viewer", "operator", "admin"]
    """Their role today."""
    via: Literal["master", "token", "link", "iap", "oidc"]
    """How they signed in."""


class SessionResponse(TypedDict):
    as_of: str
    session: SessionOut


class SessionsResponse(TypedDict):
    as_of: str
    next_cursor: str | None
    sessions: list[SessionOut]


class ShadowChoiceOut(TypedDict):
    act: Literal["start_spot", "start_on_demand", "stay", "wait"]
    policy: str
    reason: str
    zone: str


class ShadowStopOut(TypedDict):
    asked_by: str
    """The requester; empty: a rule decided."""
    cost: Amount | None
    """Its cost from then until it ended, or until now."""
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
    """null: its lifetime is not in the ledger."""
    zone: str


Sort = Literal["rate", "age", "name"]


class SpanOut(TypedDict):
    buckets: list[BucketOut]
    count: int
    longest_seconds: str | None
    median_seconds: str | None
    p90_seconds: str | None
    """90% took at most this long."""
    what: Literal["noticed", "requested", "resumed"]
    """Since the preemption."""


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
    """Exact decimal dollars, to the nano-dollar."""
    group: dict[str, str]
    """The value of each grouping."""
    hours: str
    """The same in hours, to four places."""
    machine: str
    """vCPUs, memory and local SSDs."""
    seconds: int
    """Of running VMs."""
    storage: str
    """Disks, and the saved memory of suspended VMs."""
    total: str
    """Exact decimal dollars, to the nano-dollar."""
    unpriced: int
    """Lifetimes and disks in it without a price: the amounts are too low by them."""
    vm: SpentVmOut | None
    """Only where VMs are grouped by."""


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
    """The bill for Spot VMs and their GPUs, without disks."""
    lost_to_preemptions: str
    """The cost of work that had to be repeated. It is not subtracted."""
    method: str
    on_demand: str
    """What the same use would have cost on demand."""
    percent: int
    """Of the on-demand price, rounded down to whole percents."""
    saved: str
    """Exact decimal dollars, to the nano-dollar."""
    unpriced: list[str]
    """What has no on-demand price, and is in neither amount."""


class StandstillOut(TypedDict):
    """A metric that seems to stand still: a hint, nothing acts on it."""

    best: float
    best_at: str
    best_done: float | None
    """Where its best was reached."""
    cost: str | None
    """Of that time, at the last VM's rate; null: not known."""
    gained: float
    """Since then, as a share of all its gain."""
    metric: str
    saved_in: str
    """The complete checkpoint nearest to its best; empty: none is known."""
    since: str
    text: str
    unit: str | None
    """Of `best_done`, such as step."""
    until: str
    """The last evaluation."""


class StartsOut(TypedDict):
    """From the request of a VM to the first step of its job."""

    count: int
    """First starts in the last 90 days."""
    phase_seconds: dict[str, int]
    """Medians: `requested` until Google made the VM, `boot` until its agent ran, `prepare` until the command
    did (image, data, setup), `load` until the first step. A phase that was never seen is left out.
    """
    slowest_seconds: int | None
    """99 of 100 take no longer, by these; null: too few were seen to say."""
    usual_seconds: int
    """The median."""


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
    """An estimate; null: it has not stopped."""
    zone: str


class StopSavingOut(TypedDict):
    amount: Amount
    bound: Literal["ran_again", "ended", "decided_again", "ran_out", "now", "longest"]
    """What ended the time that counts."""
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
    charges: list[ChargeOut]
    cost: Amount
    ended_at: str | None
    id: int
    name: str
    """The disk's name, or `memory` for saved memory."""
    resource: str | None
    size_gib: str
    """GiB, as a decimal."""
    started_at: str
    unpriced: str
    zone: str


class StoredPlanOut(TypedDict):
    as_if: str | None
    """The deadline that the policies assume where the job has none."""
    curve: list[PlanPointOut]
    """Its progress over time, thinned evenly."""
    decisions: list[PlannedStepOut]
    """The oldest first; each holds until the next."""
    plan: JobPlanOut | None
    """null: it has no deadline, or how much work it is is not known."""
    shadow: list[ShadowChoiceOut]
    """What each policy would do now."""
    updated_at: str


class StoredSizeOut(TypedDict):
    bytes: int
    files: int
    is_whole: bool
    """false: counting stopped at a limit; there is at least this much."""


class SumsOut(TypedDict):
    gpu: str
    """Exact decimal dollars, to the nano-dollar."""
    hours: str
    """The same in hours, to four places."""
    machine: str
    """vCPUs, memory and local SSDs."""
    seconds: int
    """Of running VMs."""
    storage: str
    """Disks, and the saved memory of suspended VMs."""
    total: str
    """Exact decimal dollars, to the nano-dollar."""


class SweepBody(TypedDict):
    """Every combination of the grid's values, or each set in the list, or each set with each combination."""

    at_once: NotRequired[int]
    """How many members may be open at a time."""
    ceiling: NotRequired[str | None]
    grid: NotRequired[Mapping[str, Any]]
    job: JobBody
    """What each member launches. {name} in its texts stands for a parameter; {sweep} and {member} for the
    sweep's id and the member's number. Its own ceiling is each member's.
    """
    list: NotRequired[Sequence[Mapping[str, Any]]]
    name: NotRequired[str]
    """For people."""


class SweepMemberOut(TypedDict):
    attempts: int
    cost: Amount
    """All of its jobs, so far."""
    crashes: int
    is_best: bool
    """Whether its metric is the best of all members."""
    job: str | None
    """The last of its jobs; null: none has been launched yet."""
    jobs: list[str]
    """All of them, the oldest first."""
    metric: SeenMetricOut | None
    """null: no value was printed yet, or it names no metric."""
    number: int
    parameters: dict[str, str]
    preemptions: int
    reason: str
    """Of its job; empty before the first."""
    state: Literal["waiting", "queued", "provisioning", "running", "recovering", "succeeded", "failed", "cancelled"]
    step: int | None


class SweepOut(TypedDict):
    at_once: int
    cancel_asked_at: str | None
    cancel_asked_by: str
    cancelled: int
    ceiling: str | None
    """Of all members together."""
    cost: Amount
    """All VMs of all members with their disks, so far."""
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
    """Why it is in this state, and what comes next."""
    reserved: str | None
    """What VMs that run may still cost; null: unknown, or there is no ceiling."""
    round: int
    """1, and one more each time that it was resumed."""
    settled_at: str | None
    """When it ended; null: it has not."""
    state: Literal["running", "succeeded", "failed", "cancelled"]
    succeeded: int
    title: str
    """The name, or the id where it has none."""
    via: Literal["api", "cli", "page"]
    waiting: int
    """To be launched yet."""


class SweepQuoteBody(TypedDict):
    at_once: NotRequired[int]
    """How many members may be open at a time."""
    ceiling: NotRequired[str | None]
    grid: NotRequired[Mapping[str, Any]]
    hours: NotRequired[float]
    """The running time of each member to quote for."""
    job: JobBody
    """What each member launches. {name} in its texts stands for a parameter; {sweep} and {member} for the
    sweep's id and the member's number. Its own ceiling is each member's.
    """
    list: NotRequired[Sequence[Mapping[str, Any]]]
    name: NotRequired[str]
    """For people."""


class SweepQuoteOut(TypedDict):
    as_of: str
    budgets: list[QuotedBudgetOut]
    ceiling: str | None
    currency: str
    hours: str
    machine: QuotedVmOut | None
    """Of the first member."""
    members: list[QuotedMemberOut]
    refusals: list[RefusalOut]
    """Why POST /api/v1/sweeps would refuse this."""
    span_seconds: int
    """From the first member's start to the last one's end."""
    total: str | None
    """Of all members, where each would start now; null: not known."""
    warnings: list[str]


class SweepResponse(TypedDict):
    as_of: str
    better: str
    """lower or higher; empty where there is no metric."""
    currency: str
    members: list[SweepMemberOut]
    metric: str
    """The regular expression that finds it; empty: none."""
    parameters: list[str]
    """Their names, in order."""
    sweep: SweepOut


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
    """When people were notified in this period; null: they were not."""
    is_crossed: bool
    """Now. A forecast can fall again."""
    on: Literal["spent", "forecast"]
    percent: int


class TimeLeftOut(TypedDict):
    """Of running: what preemptions and starts add is not in it. Nine of ten trainings end between low and high."""

    cost_high: str | None
    cost_likely: str | None
    cost_low: str | None
    """At the hourly price of the latest VM; null: that is not known."""
    seconds_high: int
    seconds_likely: int
    seconds_low: int


class TokenBody(TypedDict):
    days: NotRequired[int | None]
    """How long it lasts; null: for ever, or as long as the caller's token."""
    name: str
    """What will use it."""
    owner: NotRequired[str | None]
    """The person it acts as; default: the caller. Only admins name another."""
    permissions: NotRequired[Sequence[Permission] | None]
    """null: all of the caller's."""
    role: NotRequired[Role | None]
    """The most it may be used for; null: the caller's role. The settings' lists decide as well."""


class TokenOut(TypedDict):
    confirmed_at: str | None
    confirmed_by: str
    expires_at: str | None
    """As things stand; null: never."""
    id: str
    is_provisional: bool
    """Created in a one-time link's session: it ends with that session, and at expires_at at the latest, unless
    an admin confirms it.
    """
    is_usable: bool
    """Neither revoked nor expired."""
    last_used_at: str | None
    """To the minute; null: never used."""
    made_at: str
    made_by: str
    name: str
    owner: str
    """The person it acts as."""
    permissions: list[Literal["read", "jobs", "instances", "tokens", "metrics", "admin"]]
    revoked_at: str | None
    revoked_by: str
    role: Literal["nobody", "viewer", "operator", "admin"]
    """The most it may be used for; its owner's role limits it too."""


class TokenResponse(TypedDict):
    as_of: str
    token: TokenOut


class TokensResponse(TypedDict):
    as_of: str
    next_cursor: str | None
    tokens: list[TokenOut]


class TraceOut(TypedDict):
    """One zone and kind of VM. The format is the one of github.com/skypilot-org/spot-traces, without moments."""

    data: list[int]
    """1: a Spot VM ran, or the last that was seen was no refusal; 0: it was preempted, or out of stock."""
    gap_seconds: int
    name: str
    """Zone, GPU type and count, or machine type."""
    on_demand_price_per_hour: str | None
    price_per_hour: str | None
    """On Spot, as estimated for the latest VM of a job; null: unknown."""
    seen: int
    """Points with a VM, or within an hour after a launch, a stockout or an end."""


class TracesResponse(TypedDict):
    as_of: str
    traces: list[TraceOut]
    """Those of one kind of VM begin together."""


class TrackedRunOut(TypedDict):
    """A run of an experiment tracker that its cost is logged to."""

    error: str
    """Why the last try failed; empty: it did not."""
    logged_at: str | None
    """When the tracker accepted some last; null: it has not yet."""
    run: str
    tracker: Literal["mlflow", "wandb"]
    waiting: int
    """How many points are to be logged."""


class TransferOut(TypedDict):
    """What a VM downloads or publishes, by its agent's last report."""

    bytes_done: int | None
    """null: not known; so for the others."""
    bytes_per_s: int | None
    bytes_total: int | None
    error: str
    """While it is running: why it is tried again."""
    files_done: int | None
    files_total: int | None
    kind: str
    """input or output."""
    seconds: int | None
    source: str
    state: Literal["running", "done", "skipped", "failed"]
    """skipped: all of it was there already."""
    target: str
    text: str


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
    """A zone, instances, disks, operations, or project."""


Verdict = Literal["ready", "degraded", "not ready"]

WhenLate = Literal["finish", "stop"]


class WorkLeftOut(TypedDict):
    likely_seconds: int
    most_seconds: int
    """What is counted on."""
    source: str


class WorstVmOut(TypedDict):
    difference: str
    """Exact decimal dollars, to the nano-dollar."""
    gce_id: str
    """Empty: a disk of no VM in the ledger."""
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
        ]
    ]
    stories: list[str]
    title: str
