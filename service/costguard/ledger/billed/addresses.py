"""The external IPv4 addresses of a VM, billed while they are in use. Pure.

Google's rules (cloud.google.com/vpc/network-pricing): an ephemeral address is in use while its VM runs, and is released
with its stop; a static one is "in use if it is associated with a VM instance, whether the instance is running or
stopped". IPv6 addresses are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

from costguard.ledger.timeline import Run
from costguard.model.instance import ProvisioningModel, SeenInstance, Status
from costguard.model.lifetime import ADDRESS, ONE_ADDRESS, Lifetime, StorageSpan
from costguard.model.observation import SeenOperation
from costguard.model.record import InstanceRecord

IN_USE = "external-ip"
IN_USE_ON_SPOT = "external-ip:spot"
"""Spot VMs pay half, under a SKU of its own: "External IP Charge on a Spot Preemptible VM"."""
_CHANGES = ("addAccessConfig", "deleteAccessConfig")
_OFF = (Status.STOPPED, Status.SUSPENDED)


def address_in_use(model: ProvisioningModel) -> str:
    """The billed resource of an external address of a VM that is bought this way."""
    return IN_USE_ON_SPOT if model is ProvisioningModel.SPOT else IN_USE


def addresses_of(
    vm: InstanceRecord,
    stored: Sequence[StorageSpan],
    lifetimes: Iterable[Lifetime],
    runs: Sequence[Run],
    seen: SeenInstance | None,
    operations: Sequence[SeenOperation],
    read_at: datetime,
    requested: int = 0,
) -> list[StorageSpan]:
    """Returns all spans of addresses of a VM, as its runs and its listing now have them.

    `stored` and `lifetimes` are those of before, `requested` the addresses of a VM that no look saw. Of a run that a
    look has shown without an address, nothing tells since when it has the one that it has now: that is billed from this
    look on.
    """
    resource = address_in_use(vm.provisioning_model)
    spans = sorted(stored, key=lambda span: span.started_at)
    count = seen.external_addresses if seen is not None else spans[-1].addresses if spans else requested
    # Without a machine type, nobody had seen the VM.
    ends = {life.started_at: life.ended_at for life in lifetimes if life.shape.machine_type}
    current = StorageSpan(vm.key, ADDRESS, resource, count * ONE_ADDRESS, vm.zone, read_at)
    changed_at = max((op.ended_at for op in operations if op.kind in _CHANGES and op.ended_at), default=None)
    result: list[StorageSpan] = [span for span in spans if not runs or span.started_at < runs[0].started_at]
    for run, following in pairwise([*runs, None]):
        assert run is not None  # the only None is the last
        until = following.started_at if following is not None else None
        mine = [s for s in spans if run.started_at <= s.started_at and (until is None or s.started_at < until)]
        if not mine and run.started_at not in ends and count:
            mine = [replace(current, started_at=run.started_at)]
        mine = [_with_its_run(span, run, ends.get(run.started_at)) for span in mine]
        if until is not None:  # a static one ends where the VM starts, which has it from then on as one that runs
            mine = [_ended(span, until) if span.ended_at is None else span for span in mine]
        elif seen is not None and run.ended_at is None:
            since = changed_at if changed_at is not None and changed_at > run.started_at else read_at
            mine = _now_having(mine, replace(current, started_at=since))
        elif seen is not None and run.ended_at is not None and seen.status in _OFF:
            has_kept = any(span.started_at >= run.ended_at for span in mine)
            kept = replace(current, size_mib=seen.kept_addresses * ONE_ADDRESS)
            mine = _now_having(mine, replace(kept, started_at=read_at if has_kept else run.ended_at))
        result += mine
    return result


def _with_its_run(span: StorageSpan, run: Run, ended_at: datetime | None) -> StorageSpan:
    """A span that ended with its run, or went on with it, ends where the run is now known to end."""
    if span.ended_at != ended_at:
        return span
    return replace(span, ended_at=None) if run.ended_at is None else _ended(span, run.ended_at)


def _now_having(mine: Sequence[StorageSpan], current: StorageSpan) -> list[StorageSpan]:
    """The spans of a run, so that the open one is what the VM has now, if anything."""
    last = mine[-1] if mine else None
    if last is not None and last.ended_at is None:
        if (last.resource, last.size_mib) == (current.resource, current.size_mib):
            return list(mine)
        mine = [*mine[:-1], _ended(last, current.started_at)]
    return [*mine, current] if current.addresses else list(mine)


def _ended(span: StorageSpan, at: datetime) -> StorageSpan:
    return replace(span, ended_at=max(at, span.started_at))
