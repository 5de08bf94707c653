"""Room for a VM, by its reservation, stock and quota, and the queue in which flex-start requests wait for it.

Google, "Compute Engine instance lifecycle": with a wait of 90 s or more the VM is PENDING until it is granted; else
"you encounter an error and Compute Engine deletes the Flex-start VM".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from costguard_sandbox.gce.faults import CloudFaults, stockout_failure
from costguard_sandbox.gce.lifecycle import Capacity, Lifecycle
from costguard_sandbox.gce.operations import Failure, Operation
from costguard_sandbox.gce.quotas import Usage, exceeded
from costguard_sandbox.gce.reservations import Reservations
from costguard_sandbox.gce.timeline import Timeline, draw_duration
from costguard_sandbox.gce.vm import VM, Status

_LEAST_WAIT = timedelta(seconds=90)
_LOOKS_EVERY = timedelta(seconds=30)  # ours: how soon capacity that is granted late is seen


@dataclass(frozen=True, slots=True)
class Room:
    """Callers hold the cloud's lock."""

    _faults: CloudFaults
    _usage: Usage
    _reservations: Reservations

    def __call__(self, vm: VM) -> Failure | None:
        """Explains why there is none; None where there is.

        Stockouts are found before quotas, so that one request can fail differently from zone to zone. A reservation
        holds its VMs' capacity, whatever the stock.
        """
        if failure := self._reservations.take(vm):
            return failure
        spot = None if vm.is_flex_start else vm.is_spot
        stockout = None if vm.reservation else self._faults.stockout(vm.project, vm.zone, vm.shape, spot=spot)
        return stockout or exceeded(self._faults, self._usage, vm)


def waits(vm: VM) -> bool:
    """Says whether the request is queued: below 90 s it is granted at once, or fails."""
    return vm.is_flex_start and vm.request_wait >= _LEAST_WAIT


@dataclass(eq=False)
class FlexStart:
    """The requests that wait. Callers hold the cloud's lock.

    Whether the insert's operation lasts until the grant, or is done once the VM is PENDING, no page of Google's says;
    `ends_inserts` is the second. By default it lasts, since Google promises an error at the end of the wait.
    """

    _timeline: Timeline
    _seed: int
    _faults: CloudFaults
    _lifecycle: Lifecycle
    _capacity: Capacity
    _remove: Callable[[VM], None]
    ends_inserts: bool = False
    _waiting: dict[int, Operation] = field(default_factory=dict, init=False)

    def now_or_never(self, vm: VM) -> Failure | None:
        """Explains why a flex-start request that does not wait fails; None where it is granted."""
        fault = self._faults.flex_start(vm.project, vm.zone, vm.shape) if vm.is_flex_start else None
        if fault is not None and (fault.never or fault.seconds):
            return stockout_failure(vm.project, vm.zone, vm.shape, [])
        return None

    def wait(self, operation: Operation, vm: VM) -> None:
        """The request joins the queue, at the operation's start."""
        until = vm.created_at + vm.request_wait
        fault = self._faults.flex_start(vm.project, vm.zone, vm.shape)
        if self.ends_inserts:
            operation.finish(self._timeline.now)
        else:
            operation.ends_at = until
            self._waiting[vm.id] = operation
        patience = draw_duration(self._seed, "flex grant", vm.id)
        if fault is not None:
            patience = vm.request_wait + _LOOKS_EVERY if fault.never else timedelta(seconds=fault.seconds)
        granted_at = vm.created_at + patience
        self._timeline.at(min(granted_at, until), lambda: self._look(vm, until, granted_at))

    def withdraw(self, vm: VM) -> None:
        """Someone deletes the VM while it waits: the operation of its insert ends with an error. The words are ours."""
        text = f"Instance '{vm.name}' was deleted before its request was granted."
        self._finish(vm, Failure("UNSUPPORTED_OPERATION", text, 400))

    def _look(self, vm: VM, until: datetime, granted_at: datetime) -> None:
        """Grants what stock and quota allow, and otherwise looks again until the wait ends."""
        if vm.status is not Status.PENDING:
            return
        now = self._timeline.now
        is_short = now < granted_at
        failure = stockout_failure(vm.project, vm.zone, vm.shape, []) if is_short else self._capacity(vm)
        if failure is None:
            self._lifecycle.grant(self._waiting.pop(vm.id, None), vm)
        elif now < until:
            self._timeline.at(min(now + _LOOKS_EVERY, until), lambda: self._look(vm, until, granted_at))
        else:
            self._finish(vm, failure)
            self._remove(vm)

    def _finish(self, vm: VM, failure: Failure) -> None:
        if (operation := self._waiting.pop(vm.id, None)) is not None:
            operation.finish(self._timeline.now, failure)
