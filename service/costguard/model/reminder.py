"""Values of reminders: subjects, recipients, rules, and people's answers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from enum import StrEnum

from costguard.model.access import Authority
from costguard.model.money import Money


class SubjectKind(StrEnum):
    """The two subjects of reminders: a running VM, or the billed storage of a stopped one."""

    RUN = "run"
    REST = "rest"


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """The subject of a reminder. Storage is known by the lifetime before it; `lifetime_id` 0 where there was none.

    Written `run:12:7` and `rest:12:7`: kind, instance row, lifetime row.
    """

    kind: SubjectKind
    instance_id: int
    lifetime_id: int

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.instance_id}:{self.lifetime_id}"

    @classmethod
    def parse(cls, text: str) -> Subject:
        """Raises ValueError for what is no subject."""
        kind, instance_id, lifetime_id = text.split(":")
        return cls(SubjectKind(kind), int(instance_id), int(lifetime_id))


# Of `costguard slack samples`: no row has the number 0.
SAMPLE_RUN, SAMPLE_REST = Subject(SubjectKind.RUN, 0, 0), Subject(SubjectKind.REST, 0, 0)


class Target(StrEnum):
    """A stage's recipients, in the order of escalation."""

    OWNER = "owner"
    CHANNEL = "channel"  # the team's channel
    CONTACT = "contact"  # the budget's contact


class Enforcement(StrEnum):
    REMIND = "remind"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class ReminderRule:
    """The reminders of a preset's VMs after the limit.

    `keeps` is how many times an owner may keep one lifetime; each further one needs an admin. With `stop`, a VM is
    stopped `grace` after the `stop_after`-th unanswered reminder was accepted by Slack.
    """

    every: timedelta = timedelta(hours=4)
    keeps: int = 3
    longest_keep: timedelta = timedelta(days=3)
    enforcement: Enforcement = Enforcement.REMIND
    stop_after: int = 3
    grace: timedelta = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class QuietRule:
    """When nobody is sent a reminder, in the recipient's own time zone.

    From `starts` to `ends` each day (equal: never), and all day on `days` (0 is Monday). A VM that costs more
    than `unless_above` an hour is reminded of at any hour; None: no VM is.
    """

    starts: time = time(20)
    ends: time = time(8)
    days: frozenset[int] = frozenset({5, 6})
    unless_above: Money | None = None


@dataclass(frozen=True, slots=True)
class StorageRule:
    """The time after which the storage of a stopped VM is worth a reminder. `after` None: never."""

    after: timedelta | None = timedelta(days=3)
    every: timedelta = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Sent:
    """A reminder that was intended. `accepted_at` is None until Slack has accepted it.

    A stage that went to several targets counts as accepted once one of them has it.
    """

    key: str
    cycle: int
    stage: int
    target: Target
    accepted_at: datetime | None
    is_failed: bool = False  # Slack refused it for good; it warned nobody


@dataclass(frozen=True, slots=True)
class Keep:
    """A person moved the due time of one lifetime, or of a stopped VM's storage, to `until`."""

    subject: Subject
    until: datetime
    by: str
    at: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A person claimed a VM for `owner`; an empty owner disowns it."""

    instance_id: int
    owner: str
    by: str
    at: datetime
    notified_at: datetime | None = None  # when Slack accepted its notification in the team's channel


@dataclass(frozen=True, slots=True)
class Ownership:
    """The source of a VM's owner: its creator ("" where unknown), and the latest claim."""

    made_by: str = ""
    claim: Claim | None = None


class RequestKind(StrEnum):
    """The requests that a person can make by a button, a command or REST."""

    STOP = "stop"
    KEEP = "keep"
    CLAIM = "claim"  # it is mine
    DISOWN = "disown"  # it is not mine


@dataclass(frozen=True, slots=True)
class Request:
    """A person's request, stored until a pass settles it. `key` is natural: a repeat is one request.

    `hours` counts for a keep alone: None there means until tomorrow morning in the person's time zone.
    `due_at` is the due moment that the person saw; None when they saw none. `authority` is what
    it was asked with, and the most that it counts for; None: in Slack, where the settings' lists alone say it.
    """

    key: str
    kind: RequestKind
    subject: Subject
    by: str  # the person's address
    user_id: str  # their Slack id; "" when they did not come by Slack
    via: str  # "slack", "page", "api" or "cli"
    at: datetime
    hours: int | None = None
    reason: str = ""
    due_at: datetime | None = None
    authority: Authority | None = None
    id: int | None = None  # None until stored


@dataclass(frozen=True, slots=True)
class Team:
    """People who answer for each other's VMs. A VM is its owner's team's, else of the team its project is given to."""

    name: str
    members: frozenset[str] = frozenset()  # addresses, in lower case
    operators: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    channel: str = ""  # "" means the one of [slack]
