"""How much of each quota a project uses, and whether one more VM would be too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from costguard_sandbox.faults import Faults
from costguard_sandbox.operations import Failure
from costguard_sandbox.places import gpu_quota_metric
from costguard_sandbox.vm import VM, Status

_USES_NOTHING = frozenset({Status.TERMINATED, Status.SUSPENDED})


def demand(vm: VM) -> dict[str, float]:
    """What a VM that is up counts for, in its region and across regions."""
    cpus = "PREEMPTIBLE_CPUS" if vm.is_spot else "CPUS"
    wanted: dict[str, float] = {cpus: vm.shape.vcpus, "CPUS_ALL_REGIONS": vm.shape.vcpus}
    if vm.shape.gpu_count:
        metric = gpu_quota_metric(vm.shape.gpu_type, spot=vm.is_spot)
        if metric:
            wanted[metric] = vm.shape.gpu_count
        wanted["GPUS_ALL_REGIONS"] = vm.shape.gpu_count
    return wanted


def usage(vms: Iterable[VM], project: str, region: str | None = None) -> dict[str, float]:
    """What the project uses in one region, or in all."""
    used: Counter[str] = Counter()
    for vm in vms:
        if vm.project == project and region in (None, vm.region):
            _count(vm, used)
    return dict(used)


def usage_by_region(vms: Iterable[VM]) -> dict[str, dict[str, float]]:
    """What one project's VMs use, in each region where there are any."""
    used: dict[str, Counter[str]] = {}
    for vm in vms:
        _count(vm, used.setdefault(vm.region, Counter()))
    return {region: dict(counted) for region, counted in used.items()}


def _count(vm: VM, used: Counter[str]) -> None:
    used["INSTANCES"] += 1
    for disk in vm.disks:
        used["DISKS_TOTAL_GB" if disk.disk_type == "pd-standard" else "SSD_TOTAL_GB"] += disk.size_gib
    if vm.status not in _USES_NOTHING:
        used.update(demand(vm))


def exceeded(faults: Faults, vms: Iterable[VM], vm: VM) -> Failure | None:
    """Only limits that were set by hand bind: a test that says nothing of quotas never meets one."""
    regional = faults.quota_limits(vm.project, vm.region)
    if not regional:
        return None
    present = list(vms)
    for metric, wanted in demand(vm).items():
        if metric in regional:
            everywhere = metric.endswith("_ALL_REGIONS")
            used = usage(present, vm.project, None if everywhere else vm.region).get(metric, 0)
            # The VM itself is among those present only while it is down, and then uses nothing.
            if used + wanted > regional[metric]:
                place = "globally" if everywhere else f"in region {vm.region}"
                text = f"Quota '{metric}' exceeded.  Limit: {regional[metric]:.1f} {place}."
                return Failure("QUOTA_EXCEEDED", text, 403)
    return None
