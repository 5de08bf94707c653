"""A watched VM: everything that a decision about it needs, and the decisions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from costguard.keepers.reading import keeper_of
from costguard.model.action import Action, StopOutcome
from costguard.model.instance import InstanceKey, InstanceKind, Status
from costguard.model.keeper import Keeper
from costguard.model.money import Money
from costguard.model.observation import TPU_NODES, scopes_of, vertex_scope
from costguard.model.reminder import Claim, Keep, Ownership, Request, Sent, Subject, SubjectKind
from costguard.model.utilisation import Evidence


class Pool(NamedTuple):
    """The VMs that one command stops together: a node pool, or a whole cluster or job of another service."""

    project: str
    kind: str  # of its keeper
    place: str  # a zone or region; "" where nothing says it
    where: str  # `train/t4`


@dataclass(frozen=True, slots=True)
class WatchedVm:
    """A VM as the ledger knows it. `sent`, `keeps` and `claims` are of its present subject alone.

    A VM that is gone is included only for its open requests, which are refused.
    """

    key: InstanceKey
    name: str
    zone: str
    status: Status
    preset: str
    running_since: datetime | None
    age_from: datetime | None = None  # when a person last started it, where Google alone began it again since
    idle: Evidence | None = None  # what is known of its idleness; None: nothing
    instance_id: int = 0
    lifetime_id: int = 0  # of the open lifetime, else of the last one; 0: there was none
    rest_since: datetime | None = None  # stopped or suspended, and storage of it bills
    labels: Mapping[str, str] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)  # metadata that says who keeps it
    owner: str = ""
    rate: Money | None = None  # an hour, machine and storage; None: not priced whole
    sent: tuple[Sent, ...] = ()  # in all cycles
    keeps: tuple[Keep, ...] = ()
    claims: tuple[Claim, ...] = ()
    requests: tuple[Request, ...] = ()  # open ones
    ownership: Ownership = field(default_factory=Ownership)  # where there are requests
    stop: StopOutcome | None = None  # of the latest stop in this cycle
    is_gone: bool = False
    job: str = ""  # the training job that it works on; "" as soon as it does not
    is_unknown: bool = False  # it bears our labels, and the ledger holds no intent to launch it
    unread: frozenset[str] = frozenset()  # the zones and parts of its project that could not be read; "*": all
    pool: Pool | None = None  # `sent`, `keeps`, `claims` and `rate` are its whole pool's

    @property
    def is_unread(self) -> bool:
        """Says whether the list that it is on could not be read."""
        return not scopes_of(self.key, self.zone).isdisjoint(self.unread) or "*" in self.unread

    @property
    def part(self) -> str:
        """Returns the part of its project that it is listed in: its zone, all TPU nodes, or Vertex AI in its region."""
        if self.key.kind.is_of_vertex:
            return vertex_scope(self.zone)
        return TPU_NODES if self.key.kind is InstanceKind.TPU_NODE else self.zone

    @property
    def keeper(self) -> Keeper | None:
        return keeper_of(self.labels, self.origin, self.zone)

    @property
    def cycle(self) -> int:
        """Counts the answers; each answer starts the stages again."""
        return len(self.keeps) + len(self.claims)


@dataclass(frozen=True, slots=True)
class Decision:
    """The next event for this VM, or the reason why there is none.

    `overdue` says that its preset's limit has passed.
    """

    key: InstanceKey
    name: str
    reason: str
    overdue: bool = False
    subject: Subject | None = None
    due_at: datetime | None = None
    next_at: datetime | None = None  # of the next reminder; of one that waits for Slack, when it is not quiet any more
    stop_at: datetime | None = None  # when a rule stops it, once that is settled
    is_known: bool = True  # False: its zone could not be read, so nothing is done about it
    together: tuple[int, ...] = ()  # the instances of the pool that this VM speaks for


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """Decisions for every VM that is there, in the order in which they were given, with the actions to take."""

    decisions: tuple[Decision, ...] = ()
    actions: tuple[Action, ...] = ()

    @property
    def overdue(self) -> tuple[Decision, ...]:
        return tuple(decision for decision in self.decisions if decision.overdue)


def subject_of(vm: WatchedVm) -> Subject | None:
    """Returns the present subject of reminders of this VM; None where nothing of it bills, or it is between two
    states.
    """
    if vm.is_gone:
        return None
    if vm.running_since is not None:
        return Subject(SubjectKind.RUN, vm.instance_id, vm.lifetime_id)
    if vm.rest_since is not None:
        return Subject(SubjectKind.REST, vm.instance_id, vm.lifetime_id)
    return None
