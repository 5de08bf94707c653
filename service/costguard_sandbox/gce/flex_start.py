"""Flex-start: what Google accepts, and the queue in which a request waits for capacity.

Rules: Google, "About Flex-start VMs", "Compute Engine provisioning models" and "Compute Engine instance lifecycle":
with a wait of 90 s or more the VM is PENDING until it is granted; else "you encounter an error and Compute Engine
deletes the Flex-start VM". The fields are those of a request that Google accepted (GoogleCloudPlatform/magic-modules,
resource_compute_instance_test.go.tmpl). No record of Google's refusals was found: their words are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from costguard_sandbox.gce.errors import invalid
from costguard_sandbox.gce.faults import CloudFaults, stockout_failure
from costguard_sandbox.gce.lifecycle import Capacity, Lifecycle
from costguard_sandbox.gce.operations import Failure, Operation
from costguard_sandbox.gce.timeline import Timeline, draw_duration
from costguard_sandbox.gce.vm import VM, Status

_SERIES = frozenset({"a2", "a3", "a4", "g2", "g4", "h4d", "ct5p", "ct6e", "tpu7x"})
_LEAST_WAIT_S, _MOST_WAIT_S = 90, 7200
_LEAST_RUN_S, _MOST_RUN_S = 600, 7 * 86_400
_WAIT = "resource.params.requestValidForDuration"
_LOOKS_EVERY = timedelta(seconds=30)  # ours: how soon capacity that is granted late is seen


def check_flex_start(body: Mapping[str, Any], machine_type: str) -> None:
    """Raises Refused where a flex-start VM cannot be as the body says, or where another has its wait."""
    scheduling: Mapping[str, Any] = body.get("scheduling") or {}
    wait = (body.get("params") or {}).get("requestValidForDuration")
    if scheduling.get("provisioningModel") != "FLEX_START":
        if wait is not None:
            raise invalid(_WAIT, dict(wait), "Only for an instance whose provisioningModel is FLEX_START.")
        return
    if machine_type.partition("-")[0] not in _SERIES:
        why = f"Machine type {machine_type} is not supported by the provisioning model FLEX_START."
        raise invalid("resource.scheduling.provisioningModel", "FLEX_START", why)
    seconds = _seconds(_WAIT, wait) if wait is not None else 0
    if not 0 <= seconds <= _MOST_WAIT_S:
        raise invalid(f"{_WAIT}.seconds", seconds, f"Must be at most {_MOST_WAIT_S} seconds.")
    _check_end(scheduling)
    affinity = str((body.get("reservationAffinity") or {}).get("consumeReservationType") or "NO_RESERVATION")
    if affinity != "NO_RESERVATION":
        why = "Must be NO_RESERVATION for an instance whose provisioningModel is FLEX_START."
        raise invalid("resource.reservationAffinity.consumeReservationType", affinity, why)


def _check_end(scheduling: Mapping[str, Any]) -> None:
    field = "resource.scheduling.maxRunDuration"
    limit = scheduling.get("maxRunDuration")
    if limit is None:
        raise invalid(field, "", "Required for an instance whose provisioningModel is FLEX_START.")
    seconds = _seconds(field, limit)
    if not _LEAST_RUN_S <= seconds <= _MOST_RUN_S:
        raise invalid(f"{field}.seconds", seconds, "Must be between 10 minutes and 7 days for FLEX_START.")
    for key, allowed in (("onHostMaintenance", "TERMINATE"), ("automaticRestart", False), ("preemptible", False)):
        if scheduling.get(key, allowed) != allowed:
            why = f"Must be {str(allowed).lower() if allowed is False else allowed} for FLEX_START."
            raise invalid(f"resource.scheduling.{key}", scheduling[key], why)


def _seconds(field: str, given: Mapping[str, Any]) -> int:
    try:
        return int(given.get("seconds", 0))
    except ValueError:
        raise invalid(f"{field}.seconds", given["seconds"], "Must be a whole number.") from None


def waits(vm: VM) -> bool:
    """Says whether the request is queued: below 90 s it is granted at once, or fails."""
    return vm.is_flex_start and vm.request_wait >= timedelta(seconds=_LEAST_WAIT_S)


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
