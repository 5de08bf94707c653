"""Finds out whether a VM can be had now: its reservation, stock and quota."""

from __future__ import annotations

from dataclasses import dataclass

from costguard_sandbox.gce.faults import CloudFaults
from costguard_sandbox.gce.operations import Failure
from costguard_sandbox.gce.quotas import Usage, exceeded
from costguard_sandbox.gce.reservations import Reservations
from costguard_sandbox.gce.vm import VM


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
