"""The contents of messages, apart from their looks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import StrEnum

from costguard.model.delivery.interaction import JobChoice
from costguard.model.instance import InstanceKey
from costguard.model.money import Priced
from costguard.model.reminder import RequestKind, Subject, Target
from costguard.model.utilisation import Evidence


@dataclass(frozen=True, slots=True)
class VmCard:
    """A VM as a message shows it. `since` is when it started or stopped running."""

    subject: Subject
    key: InstanceKey
    name: str
    zone: str
    preset: str
    what: str  # `a2-highgpu-1g, 1 x A100, Spot`
    owner: str  # "" is unclaimed
    owner_id: str  # the owner's Slack id; "" where Slack knows nobody of that address
    owner_how: str  # `label owner`, `created it at 14:02 on 3 Nov`
    since: datetime
    cost: Priced  # of this lifetime, or of storage since it stopped
    rate: Priced  # per hour
    by_monday: Priced  # the cost if nothing changes
    monday_at: datetime
    limit: timedelta | None
    idle: Evidence | None
    url: str = ""  # its page on the dashboard, where people can reach one
    on_stop: str = ""  # what a stop of it does, where it works on a job or its keeper stops it
    price_note: str = ""  # how old its prices are, where they came with Costguard
    never_stopped: str = ""  # why Costguard does not stop it, and what to do instead, where another keeps it
    disk_note: str = ""  # why it is stopped and what ends its bill, where it was launched for a job
    vms: int = 1  # of a pool, whose figures these are; `subject` and `key` are of the VM that speaks for it


@dataclass(frozen=True, slots=True)
class Button:
    """A button of a VM's card."""

    kind: RequestKind
    label: str  # `Keep 4 h (+$14.69)`
    hours: int | None = None
    is_danger: bool = False
    effect: str = ""  # what it does, where that is not what it does to most VMs


class StateKind(StrEnum):
    OPEN = "open"  # waiting for an answer
    ASKED = "asked"  # requested, and the outcome is not known yet
    KEPT = "kept"
    REASSIGNED = "reassigned"  # claimed or disowned
    ENDED = "ended"  # stopped, preempted, deleted, started again: nothing is left to ask
    FAILED = "failed"  # the request failed; it still waits for an answer


@dataclass(frozen=True, slots=True)
class ReminderState:
    """`sentence` is for people: `Stopped by ana at 14:02 after 12 h; it cost $41.20.` Empty while open."""

    kind: StateKind
    sentence: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ReminderContent:
    card: VmCard
    stage: int  # 0 is the first
    target: Target
    reason: str
    state: ReminderState
    buttons: tuple[Button, ...] = ()
    due_at: datetime | None = None
    stop_at: datetime | None = None  # when it will be stopped without an answer; None: never


@dataclass(frozen=True, slots=True)
class DigestLine:
    """A row of a digest: what, how much, and a remark."""

    label: str
    amount: str
    remark: str = ""


@dataclass(frozen=True, slots=True)
class DigestContent:
    """`weekly` False is daily. Sections are titled lists of lines; an empty one says so in words."""

    weekly: bool
    first: date
    last: date
    headline: str
    sections: tuple[tuple[str, tuple[DigestLine, ...]], ...]
    url: str = ""


@dataclass(frozen=True, slots=True)
class ReportContent:
    """A report: a headline, titled lists of lines, sentences, and the settings' lines that come next."""

    title: str
    headline: str
    sections: tuple[tuple[str, tuple[DigestLine, ...]], ...]
    notes: tuple[str, ...]
    what_next: str = ""
    settings: tuple[str, ...] = ()  # as they stand in costguard.toml
    url: str = ""


@dataclass(frozen=True, slots=True)
class JobButton:
    job: str
    choice: JobChoice
    label: str


@dataclass(frozen=True, slots=True)
class NotificationContent:
    """A budget's threshold, an anomaly, a trouble, how a job stands: a title, what happened, what to do, and figures.

    `output` is what a command printed, shown as it is.
    """

    icon: str  # such as "budget", "anomaly" and "trouble": see slack/render.py
    title: str
    text: str
    figures: Mapping[str, str] = field(default_factory=dict)
    what_next: str = ""
    url: str = ""
    output: str = ""
    buttons: tuple[JobButton, ...] = ()


@dataclass(frozen=True, slots=True)
class EphemeralContent:
    """A reply to one person: why a click did nothing, or its outcome."""

    text: str


@dataclass(frozen=True, slots=True)
class ListContent:
    """The answer to `/gpu`: a person's VMs, each with its buttons."""

    title: str
    cards: tuple[tuple[VmCard, tuple[Button, ...], str], ...]  # the string says what happens next
    more: int = 0  # VMs that are left out for length


Content = ReminderContent | DigestContent | ReportContent | NotificationContent | EphemeralContent


@dataclass(frozen=True, slots=True)
class Posted:
    """The place of an accepted message."""

    channel: str
    ts: str
