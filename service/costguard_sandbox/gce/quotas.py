"""Quota usage, and whether one more VM would exceed a quota."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from costguard_sandbox.gce.catalogue.machine_types import TPUS
from costguard_sandbox.gce.catalogue.regions import gpu_quota_metric, region_of
from costguard_sandbox.gce.faults import CloudFaults
from costguard_sandbox.gce.operations import Failure
from costguard_sandbox.gce.vm import VM, Disk, Status


def demand(vm: VM) -> dict[str, int]:
    """The quotas that a running VM uses, in its region and across regions."""
    return _demand(vm, preemptible=vm.is_spot or vm.is_on_preemptible_quota)


def _demand(vm: VM, *, preemptible: bool) -> dict[str, int]:
    cpus = "PREEMPTIBLE_CPUS" if preemptible else "CPUS"
    wanted: dict[str, int] = {cpus: vm.shape.vcpus, "CPUS_ALL_REGIONS": vm.shape.vcpus}
    if vm.shape.gpu_count and vm.shape.gpu_type not in TPUS:  # whose quotas the Cloud Quotas API alone has
        metric = gpu_quota_metric(vm.shape.gpu_type, spot=preemptible)
        if metric:
            wanted[metric] = vm.shape.gpu_count
        wanted["GPUS_ALL_REGIONS"] = vm.shape.gpu_count
    return wanted


class Usage:
    """The quota usage of projects, updated with each change of a VM or disk."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, str], Counter[str]] = {}
        self._counted: dict[int, Counter[str]] = {}

    def follow(self, vm: VM) -> None:
        """Update after a VM was created, changed or deleted."""
        self._count(vm.id, vm.project, vm.region, _used_by(vm))

    def follow_disk(self, disk: Disk) -> None:
        """Update after a disk was created or deleted."""
        metric = "DISKS_TOTAL_GB" if disk.disk_type == "pd-standard" else "SSD_TOTAL_GB"
        now = Counter({metric: disk.size_gib}) if disk.deleted_at is None else Counter()
        self._count(disk.id, disk.project, region_of(disk.zone), now)

    def _count(self, number: int, project: str, region: str, now: Counter[str]) -> None:
        before = self._counted.pop(number, Counter())
        if now:
            self._counted[number] = now
        for place in ("", region):
            used = self._used.setdefault((project, place), Counter())
            used.subtract(before)
            used.update(now)

    def of(self, project: str, region: str = "") -> Mapping[str, float]:
        """Returns the usage in one region, or in all."""
        return self._used.get((project, region), {})


def _used_by(vm: VM) -> Counter[str]:
    used: Counter[str] = Counter()
    if vm.status is not Status.DELETED:
        used["INSTANCES"] = 1
        if vm.uses_capacity:
            used.update(demand(vm))
    return used


def exceeded(faults: CloudFaults, usage: Usage, vm: VM) -> Failure | None:
    """Returns the failure of a quota.

    Only limits set by faults apply, so that tests without them never meet a quota. A flex-start VM takes preemptible
    quota, else standard quota ("About Flex-start VMs", "Quota").
    """
    regional = faults.quota_limits(vm.project, vm.region)
    failure = _exceeded(regional, usage, vm, preemptible=vm.is_spot or vm.is_flex_start) if regional else None
    vm.is_on_preemptible_quota = vm.is_flex_start and failure is None
    if failure is not None and vm.is_flex_start:
        return _exceeded(regional, usage, vm, preemptible=False)
    return failure


def _exceeded(regional: Mapping[str, float], usage: Usage, vm: VM, *, preemptible: bool) -> Failure | None:
    for metric, wanted in _demand(vm, preemptible=preemptible).items():
        if metric in regional:
            everywhere = metric.endswith("_ALL_REGIONS")
            used = usage.of(vm.project, "" if everywhere else vm.region).get(metric, 0)
            # A stopped VM that starts is followed, too, but uses nothing yet.
            if used + wanted > regional[metric]:
                place = "globally" if everywhere else f"in region {vm.region}"
                text = f"Quota '{metric}' exceeded.  Limit: {regional[metric]:.1f} {place}."
                return Failure("QUOTA_EXCEEDED", text, 403)
    return None
