"""VMs that only stop together, such as the nodes of a GKE node pool: one of them speaks for all. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from costguard.model.duration import elapsed, span_text
from costguard.model.instance import InstanceKey
from costguard.model.keeper import Keeper
from costguard.model.money import Money
from costguard.model.reminder import Claim, Keep, Sent, Subject
from costguard.model.words import count_text
from costguard.reminders.ladder import DueMoment
from costguard.reminders.watched import Pool, WatchedVm, subject_of

POOL_KEYS = "reminder/pool/"  # how the keys of messages about pools begin


def key_of(pool: Pool | None, subject: Subject) -> str:
    """Returns how the keys of reminders begin: of a VM by itself, or of a pool by way of this VM."""
    return f"reminder/{subject}/" if pool is None else f"{prefix_of(pool)}{subject}/"


def prefix_of(pool: Pool) -> str:
    return f"{POOL_KEYS}{pool.project}/{pool.kind}/{pool.place}/{pool.where}/"


def as_one(
    vms: Sequence[WatchedVm], sent: Mapping[Pool, Sequence[Sent]], kept: Mapping[Pool, Sequence[Keep]]
) -> list[WatchedVm]:
    """Gives each VM of a pool its pool's rate, and what the pool was sent and answered by way of any of its VMs.

    Nodes come and go. A message counts while a VM is there that ran when it was sent, and a keep for its time.
    """
    members = _members(vms)
    shared = {pool: _Shared.of(some, sent.get(pool, ()), kept.get(pool, ())) for pool, some in members.items()}
    return [vm if vm.pool is None or vm.pool not in shared else shared[vm.pool].given(vm) for vm in vms]


@dataclass(frozen=True, slots=True)
class _Shared:
    sent: tuple[Sent, ...]
    keeps: tuple[Keep, ...]
    claims: tuple[Claim, ...]
    rate: Money | None

    @classmethod
    def of(cls, vms: Sequence[WatchedVm], reminders: Iterable[Sent], kept: Iterable[Keep]) -> _Shared:
        since = min(_began(vm) for vm in vms)
        sent = tuple(one for one in reminders if one.accepted_at is None or one.accepted_at >= since)
        keeps = {(keep.at, keep.by, keep.until): keep for keep in (*kept, *(keep for vm in vms for keep in vm.keeps))}
        claims = sorted((claim for vm in vms for claim in vm.claims), key=lambda claim: claim.at)
        return cls(sent, tuple(keeps[key] for key in sorted(keeps)), tuple(claims), _sum(vms))

    def given(self, vm: WatchedVm) -> WatchedVm:
        if vm.running_since is None:
            return vm
        return replace(vm, sent=self.sent, keeps=self.keeps, claims=self.claims, rate=self.rate)


def _members(vms: Iterable[WatchedVm]) -> dict[Pool, list[WatchedVm]]:
    members: dict[Pool, list[WatchedVm]] = defaultdict(list)
    for vm in vms:
        if vm.pool is not None and vm.running_since is not None:
            members[vm.pool].append(vm)
    return members


def _began(vm: WatchedVm) -> datetime:
    assert vm.running_since is not None  # it is a member
    return vm.age_from or vm.running_since


class Spoken(NamedTuple):
    """The VM that speaks for its pool, since when the pool is due, and the pool's VMs."""

    vm: WatchedVm
    due: DueMoment
    members: tuple[int, ...]  # ids of instances, in order


def speakers(dues: Iterable[tuple[WatchedVm, DueMoment | None]], now: datetime) -> dict[Pool, Spoken]:
    """Returns the speaker of each pool of which any VM is due.

    The VM that spoke last goes on, so that a pool keeps its thread; else the one that was due first speaks.
    """
    by_pool: dict[Pool, list[tuple[WatchedVm, DueMoment | None]]] = defaultdict(list)
    for vm, due in dues:
        if vm.pool is not None and vm.running_since is not None:
            by_pool[vm.pool].append((vm, due))
    spoken = {}
    for pool, members in by_pool.items():
        late = [(vm, due) for vm, due in members if due is not None and due.at <= now]
        if late:
            spoken[pool] = _spoken(pool, [vm for vm, _ in members], late, now)
    return spoken


def _spoken(pool: Pool, vms: Sequence[WatchedVm], late: Sequence[tuple[WatchedVm, DueMoment]], now: datetime) -> Spoken:
    first = min(late, key=lambda one: (one[1].at, one[0].instance_id))
    last = vms[0].sent[-1].key if vms[0].sent else ""
    vm, _ = next((one for one in late if last.startswith(f"{prefix_of(pool)}{subject_of(one[0])}/")), first)
    due = replace(first[1], why=_why(vm, vms, len(late), first[1], now))
    return Spoken(vm, due, tuple(sorted(one.instance_id for one in vms)))


def _sum(vms: Iterable[WatchedVm]) -> Money | None:
    rates = [vm.rate for vm in vms]
    priced = [rate for rate in rates if rate is not None]
    return sum(priced, Money()) if len(priced) == len(rates) else None


def _why(vm: WatchedVm, vms: Sequence[WatchedVm], late: int, due: DueMoment, now: datetime) -> str:
    """`all 90 VMs of GKE cluster train (node pool t4) are past their limit or idle; all have been idle for 7 h`"""
    whose = whose_pool(vm)
    if len(vms) == 1:
        return f"{due.why}, the only VM of {whose}"
    count = f"{'all' if late == len(vms) else f'{late} of'} {count_text(len(vms), 'VM')}"
    return f"{count} of {whose} are past their limit or idle{_idle(vms, now)}; the first is {due.why}"


def whose_pool(vm: WatchedVm) -> str:
    """`GKE cluster train (node pool t4)`"""
    return vm.keeper.whose if vm.keeper is not None else "its pool"


def _idle(vms: Sequence[WatchedVm], now: datetime) -> str:
    idle = [vm.idle for vm in vms if vm.idle is not None]
    if not idle:
        return ""
    if len(idle) < len(vms):
        return f"; {len(idle)} of them are known to be idle"
    weak = " by CPU and network alone" if any(one.is_weak for one in idle) else ""
    return f"; all have been idle for {span_text(elapsed(max(one.since for one in idle), now))}{weak}"


def pool_of(key: InstanceKey, keeper: Keeper | None) -> Pool | None:
    """Returns the pool of a VM that only stops with others; None for any other.

    Labels that lie join no pool: a VM that only they place there is asked about by itself.
    """
    if keeper is None or not keeper.stops_as_one or keeper.doubt:
        return None
    return Pool(key.project, keeper.kind.value, keeper.place, keeper.where)
