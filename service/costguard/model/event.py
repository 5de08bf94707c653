"""Events: what happened, in the past tense, appended once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from costguard.model.instance import InstanceKey


@dataclass(frozen=True, slots=True)
class Event:
    """`key` is natural: recording the same happening twice appends one event."""

    key: str
    kind: str  # InstanceSeen, LifetimeStarted, LifetimeEnded, ZoneUnread, PriceRefused, ...
    occurred_at: datetime
    text: str  # one sentence for people
    project: str = ""
    gce_id: str = ""
    name: str = ""
    actor: str = ""
    data: Mapping[str, object] = field(default_factory=dict)


def new_event(
    kind: str,
    at: datetime,
    text: str,
    *identity: object,
    vm: InstanceKey | None = None,
    project: str = "",
    name: str = "",
    actor: str = "",
    data: Mapping[str, object] | None = None,
) -> Event:
    """`identity` tells it from all others of its kind: the same happening has the same one whenever it is recorded."""
    key = event_key(kind, *identity)
    where, gce_id = (project, "") if vm is None else (vm.project, vm.gce_id)
    return Event(key, kind, at, text, where, gce_id, name, actor, data or {})


def event_key(kind: str, *identity: object) -> str:
    """`Kind:one:two`; of some kinds, `beginning/one/two`.

    A key stays what it is: it stands in ledgers, in messages, and with the receivers of webhooks.
    """
    begins = _BEGINS.get(kind)
    return ":".join([kind, *map(str, identity)]) if begins is None else "/".join([begins, *map(str, identity)])


_OF_ATTEMPTS = (
    *(
        "AttemptEnded",
        "AttemptInterrupted",
        "AttemptLaunched",
        "AttemptRestarted",
        "AttemptStarted",
        "AttemptTakesOver",
    ),
    *(
        "CheckpointPassedOver",
        "CheckpointsFlushed",
        "CheckpointsNotUploaded",
        "CheckpointsStalled",
        "CheckpointsUnrecognised",
        "DiskKept",
        "DiskNearlyFull",
    ),
    *("JobGoesOn", "JobHangs", "JobLossWrong", "JobRestartedFromZero", "JobResumed"),
)
_OF_JOBS = (
    *(
        "CancelAfterAsked",
        "CancelAsked",
        "CheckpointTorn",
        "DiskGivenUp",
        "HintSilenced",
        "JobBoundFound",
        "JobCancelled",
        "JobDeadlineAtRisk",
    ),
    *("GangRoundBegan", "GangRoundOver", "JobDeadlinePassed", "JobFailed"),
    *("JobHeldByBudget", "JobStandsStill", "JobStoppedWhenFlat", "JobStragglerFound", "JobSubmitted"),
    *("JobSucceeded", "JobWaits"),
    *("PlacementPolicyDeleted", "PlacementPolicyMade", "TrackerPointsGivenUp", "TrackerRunRefused"),
)
_OF_SWEEPS = (
    *("SweepCancelAsked", "SweepCancelled", "SweepFailed", "SweepMemberStopped", "SweepMembersKept"),
    *("SweepResumed", "SweepSubmitted", "SweepSucceeded"),
)
_BY_KIND = (
    *("RequestMade", "RequestRefused", "SessionEnded", "SignedIn"),
    *("TokenConfirmed", "TokenMade", "TokenRevoked"),
)
_BEGINS = {
    **dict.fromkeys(_OF_ATTEMPTS, "attempt"),
    **dict.fromkeys(_OF_JOBS, "job"),
    **dict.fromkeys(_OF_SWEEPS, "sweep"),
    **{kind: kind for kind in _BY_KIND},
    "BillDrifted": "bill-drift",
    "BudgetReached": "budget",
    "BudgetThresholdCrossed": "budget",
    "BurnRateUnusual": "anomaly/burn",
    "GenerationBegan": "generation",
    "GpusAppeared": "anomaly/gpus",
    "OrphanDeleted": "orphan",
    "OrphanKept": "orphan",
    "PriceChanged": "price",
    "PriceRefused": "price-refused",
    "PricesRead": "prices-read",
    "SpanUnpriced": "unpriced",
    "UnknownVmAdopted": "unknown",
    "UnknownVmFound": "unknown",
}
