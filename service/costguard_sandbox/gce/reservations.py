"""Reservations: which VMs may use one, how many do, and that a calendar one ends its VMs.

Google, "Consume reservations": a VM uses a reservation of its zone, machine type and GPUs. By default it uses one that
is open to all while that has room; one that requires to be named, it uses by name alone. Failures: codes, words and 412
of kubernetes/autoscaler, autoscaling_gce_client_test.go ("Specified reservation ... does not exist." and "No available
resources in specified reservations ..."), and skypilot-org/skypilot issue 3327 ("can not be targeted").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from costguard_sandbox.gce.belongings import Belonging
from costguard_sandbox.gce.lifecycle import Lifecycle
from costguard_sandbox.gce.operations import Failure
from costguard_sandbox.gce.render import last_part
from costguard_sandbox.gce.timeline import Timeline
from costguard_sandbox.gce.vm import VM

_FIELD = "resource.reservationAffinity"
_NAMED = re.compile(r"(?:projects/(?P<project>[^/]+)/reservations/)?(?P<name>[^/]+)(?:/reservationBlocks/.+)?")
_CALENDAR_OR_DENSE = "a calendar reservation mode or a dense deployment type"


@dataclass(eq=False)
class Reservations:
    """Callers hold the cloud's lock."""

    _timeline: Timeline
    _belongings: list[Belonging]
    _vms: Callable[[], Iterable[VM]]
    _lifecycle: Callable[[], Lifecycle]

    def of(self, project: str, kind: str = "reservation") -> list[Belonging]:
        """Returns the reservations of a project that are not over."""
        now = self._timeline.now
        mine = [one for one in self._belongings if (one.kind, one.project) == (kind, project)]
        return [one for one in mine if (ends := ends_at(one)) is None or ends > now]

    def resource(self, one: Belonging, links: str) -> dict[str, Any]:
        """Shows a reservation with the VMs that use it now, in addition to those that the scenario says."""
        shown = one.resource(links)
        specific = shown.get("specificReservation")
        if one.kind == "reservation" and specific:
            shown["specificReservation"] = {**specific, "inUseCount": str(self._in_use(one))}
        return shown

    def take(self, vm: VM) -> Failure | None:
        """The VM takes its place in a reservation, where it uses one; explains why it cannot have one it names."""
        vm.reservation = None
        affinity: Mapping[str, Any] = vm.given.get("reservationAffinity") or {}
        kind = affinity.get("consumeReservationType") or "ANY_RESERVATION"
        if kind == "SPECIFIC_RESERVATION":
            return self._take_named(vm, str(affinity["values"][0]))
        if kind == "ANY_RESERVATION" and vm.scheduling["provisioningModel"] == "STANDARD":
            open_ones = (one for one in self.of(vm.project) if not one.fields.get("specificReservationRequired"))
            vm.reservation = next((one for one in open_ones if self._fits(one, vm)), None)
        return None

    def _take_named(self, vm: VM, reference: str) -> Failure | None:
        named = _NAMED.fullmatch(reference)
        owner, name = (named["project"] or vm.project, named["name"]) if named else (vm.project, reference)
        one = next((one for one in self.of(owner) if (one.name, one.place) == (name, vm.zone)), None)
        if one is None:
            return Failure("CONDITION_NOT_MET", f"Specified reservation '{name}' does not exist.", 412)
        if not one.fields.get("specificReservationRequired"):
            path = f"projects/{owner}/reservations/{name}"
            why = f"Specified reservations [{path}] can not be targeted as specificReservationRequired is not set"
            return Failure("INVALID_FIELD_VALUE", f"Invalid value for field '{_FIELD}'. {why}", 400)
        if (vm.scheduling["provisioningModel"] == "RESERVATION_BOUND") is not self._binds(one):
            text = f"Reservation '{name}' takes VMs of the provisioning model "
            text += "RESERVATION_BOUND." if self._binds(one) else f"STANDARD: it has not {_CALENDAR_OR_DENSE}."
            return Failure("CONDITION_NOT_MET", text, 412)
        if not self._fits(one, vm):
            return Failure("CONDITION_NOT_MET", f"No available resources in specified reservations '{name}'", 412)
        vm.reservation = one
        ends = ends_at(one) if self._binds(one) else None
        if ends is not None:
            self._timeline.at(ends, lambda: self._over(vm, one))
        return None

    def _over(self, vm: VM, one: Belonging) -> None:
        if vm.reservation is one and self._lifecycle().is_up(vm):
            self._lifecycle().end_as_asked(vm)

    def _binds(self, one: Belonging) -> bool:
        """Says whether the reservation ends its VMs: it is dense, or a future one in calendar mode made it."""
        return one.fields.get("deploymentType") == "DENSE" or any(
            one.name in _made_by(future) for future in self.of(one.project, "futureReservation")
        )

    def _fits(self, one: Belonging, vm: VM) -> bool:
        specific = one.fields.get("specificReservation") or {}
        made: Mapping[str, Any] = specific.get("instanceProperties") or {}
        gpus = sum(int(gpu["acceleratorCount"]) for gpu in made.get("guestAccelerators") or ())
        is_same = last_part(str(made.get("machineType") or "")) == vm.shape.machine_type
        is_same = is_same and gpus in (0, vm.shape.gpu_count) and one.place == vm.zone
        return is_same and self._in_use(one) < int(specific.get("count") or 0)

    def _in_use(self, one: Belonging) -> int:
        others = int((one.fields.get("specificReservation") or {}).get("inUseCount") or 0)
        return others + sum(vm.reservation is one and vm.uses_capacity for vm in self._vms())


def ends_at(one: Belonging) -> datetime | None:
    given = one.fields.get("deleteAtTime")
    return datetime.fromisoformat(str(given)) if given else None


def _made_by(future: Belonging) -> Iterator[str]:
    if future.fields.get("reservationMode") == "CALENDAR":
        yield from (last_part(url) for url in (future.fields.get("status") or {}).get("autoCreatedReservations") or ())
        yield str(future.fields.get("reservationName") or "")
