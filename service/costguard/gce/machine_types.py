"""The shape of a machine type: by rule where there is one, else asked of Compute Engine once."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from costguard.errors import CloudError, NotFound
from costguard.gce.fields import last_part, number
from costguard.model.instance import joined_types

log = logging.getLogger(__name__)


class MachineShape(NamedTuple):
    vcpus: int
    memory_mib: int
    gpu_type: str | None = None
    gpu_count: int = 0
    local_ssd_gib: int = 0


_SIZES = {
    "n1-standard": (1, 2, 4, 8, 16, 32, 64, 96),
    "n1-highmem": (2, 4, 8, 16, 32, 64, 96),
    "n1-highcpu": (2, 4, 8, 16, 32, 64, 96),
    "e2-standard": (2, 4, 8, 16, 32),
    "e2-highmem": (2, 4, 8, 16),
    "e2-highcpu": (2, 4, 8, 16, 32),
    "n2-standard": (2, 4, 8, 16, 32, 48, 64, 80, 96, 128),
    "n2-highmem": (2, 4, 8, 16, 32, 48, 64, 80, 96),
    "n2-highcpu": (2, 4, 8, 16, 32, 48, 64, 80, 96),
    "n2d-standard": (2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 224),
    "n2d-highmem": (2, 4, 8, 16, 32, 48, 64, 80, 96),
    "n2d-highcpu": (2, 4, 8, 16, 32, 48, 64, 80, 96, 128, 224),
    "c2-standard": (4, 8, 16, 30, 60),
    "c3-standard": (4, 8, 22, 44, 88, 176),
    "c3-highmem": (4, 8, 22, 44, 88, 176),
    "c3-highcpu": (4, 8, 22, 44, 88, 176),
}
_GIB = 1024
_MIB_PER_VCPU = {
    "n1-standard": 3.75 * _GIB,
    "n1-highmem": 6.5 * _GIB,
    "n1-highcpu": 0.9 * _GIB,
    "c3-highcpu": 2 * _GIB,
    "standard": 4 * _GIB,
    "highmem": 8 * _GIB,
    "highcpu": 1 * _GIB,
}
_C3_LOCAL_SSDS = {4: 1, 8: 2, 22: 4, 44: 8, 88: 16, 176: 32}
_L4, _A100, _A100_80, _H100 = "nvidia-l4", "nvidia-tesla-a100", "nvidia-a100-80gb", "nvidia-h100-80gb"
_RTX_PRO = "nvidia-rtx-pro-6000"
# cloud.google.com/compute/docs/gpus and /compute/docs/accelerator-optimized-machines (A4X: /instances/arm-on-compute).
_ODD = {
    # Shared-core types: what machineTypes.get says of them, not what a share of a core costs.
    "f1-micro": MachineShape(1, 614),
    "g1-small": MachineShape(1, 1740),
    "e2-micro": MachineShape(2, 1 * _GIB),
    "e2-small": MachineShape(2, 2 * _GIB),
    "e2-medium": MachineShape(2, 4 * _GIB),
    "n2-highmem-128": MachineShape(128, 864 * _GIB),
    "g2-standard-4": MachineShape(4, 16 * _GIB, _L4, 1),
    "g2-standard-8": MachineShape(8, 32 * _GIB, _L4, 1),
    "g2-standard-12": MachineShape(12, 48 * _GIB, _L4, 1),
    "g2-standard-16": MachineShape(16, 64 * _GIB, _L4, 1),
    "g2-standard-24": MachineShape(24, 96 * _GIB, _L4, 2),
    "g2-standard-32": MachineShape(32, 128 * _GIB, _L4, 1),
    "g2-standard-48": MachineShape(48, 192 * _GIB, _L4, 4),
    "g2-standard-96": MachineShape(96, 384 * _GIB, _L4, 8),
    "a2-highgpu-1g": MachineShape(12, 85 * _GIB, _A100, 1),
    "a2-highgpu-2g": MachineShape(24, 170 * _GIB, _A100, 2),
    "a2-highgpu-4g": MachineShape(48, 340 * _GIB, _A100, 4),
    "a2-highgpu-8g": MachineShape(96, 680 * _GIB, _A100, 8),
    "a2-megagpu-16g": MachineShape(96, 1360 * _GIB, _A100, 16),
    "a2-ultragpu-1g": MachineShape(12, 170 * _GIB, _A100_80, 1, 375),
    "a2-ultragpu-2g": MachineShape(24, 340 * _GIB, _A100_80, 2, 750),
    "a2-ultragpu-4g": MachineShape(48, 680 * _GIB, _A100_80, 4, 1500),
    "a2-ultragpu-8g": MachineShape(96, 1360 * _GIB, _A100_80, 8, 3000),
    "a3-highgpu-1g": MachineShape(26, 234 * _GIB, _H100, 1, 750),
    "a3-highgpu-2g": MachineShape(52, 468 * _GIB, _H100, 2, 1500),
    "a3-highgpu-4g": MachineShape(104, 936 * _GIB, _H100, 4, 3000),
    "a3-highgpu-8g": MachineShape(208, 1872 * _GIB, _H100, 8, 6000),
    "a3-edgegpu-8g": MachineShape(208, 1872 * _GIB, _H100, 8, 6000),
    "a3-megagpu-8g": MachineShape(208, 1872 * _GIB, "nvidia-h100-mega-80gb", 8, 6000),
    "a3-ultragpu-8g": MachineShape(224, 2952 * _GIB, "nvidia-h200-141gb", 8, 12000),
    "a4-highgpu-8g": MachineShape(224, 3968 * _GIB, "nvidia-b200", 8, 12000),
    "a4x-highgpu-4g": MachineShape(140, 884 * _GIB, "nvidia-gb200", 4, 12000),
    # Parts of a GPU, which machineTypes.get counts as one. Local SSD is attached to G4 VMs only where it is asked for.
    "g4-standard-6": MachineShape(6, 22 * _GIB, _RTX_PRO, 1),
    "g4-standard-12": MachineShape(12, 45 * _GIB, _RTX_PRO, 1),
    "g4-standard-24": MachineShape(24, 90 * _GIB, _RTX_PRO, 1),
    "g4-standard-48": MachineShape(48, 180 * _GIB, _RTX_PRO, 1),
    "g4-standard-96": MachineShape(96, 360 * _GIB, _RTX_PRO, 2),
    "g4-standard-192": MachineShape(192, 720 * _GIB, _RTX_PRO, 4),
    "g4-standard-384": MachineShape(384, 1440 * _GIB, _RTX_PRO, 8),
    # TPUs: cloud.google.com/compute/docs/tpus/tpu-machines, 26 August 2026; the smaller v5p and v5e as
    # machineTypes.list has them.
    "ct5lp-hightpu-1t": MachineShape(24, 48 * _GIB, "v5e", 1),
    "ct5lp-hightpu-4t": MachineShape(112, 192 * _GIB, "v5e", 4),
    "ct5lp-hightpu-8t": MachineShape(224, 384 * _GIB, "v5e", 8),
    "ct5p-hightpu-1t": MachineShape(52, 112 * _GIB, "v5p", 1),
    "ct5p-hightpu-2t": MachineShape(104, 224 * _GIB, "v5p", 2),
    "ct5p-hightpu-4t": MachineShape(208, 448 * _GIB, "v5p", 4),
    "ct6e-standard-1t": MachineShape(44, 176 * _GIB, "v6e", 1),
    "ct6e-standard-4t": MachineShape(180, 720 * _GIB, "v6e", 4),
    "ct6e-standard-8t": MachineShape(360, 1440 * _GIB, "v6e", 8),
    "tpu7x-standard-4t": MachineShape(224, 960 * _GIB, "tpu7x", 4),
}
_SIZED = re.compile(r"([a-z0-9]+)-(standard|highmem|highcpu)-(\d+)(-lssd)?")
_WITHOUT_SSD = re.compile(r"(a3-.+)-nolssd")
_CUSTOM = re.compile(r"(?:[a-z0-9]+-)?custom-(\d+)-(\d+)(?:-ext)?")
_TPU = re.compile(r"((?:ct\w+|tpu7x)-.+)-tpu")  # Compute Engine sells the same shapes under both names
# Google's names of TPU accelerator types: those of machine types, of Compute Engine's newer shapes and of GKE.
_TPU_TYPES = {
    "ct4p": "v4",
    "ct5lp": "v5e",
    "ct5p": "v5p",
    "ct6e": "v6e",
    "tpu7x": "tpu7x",
    "tpu-v4": "v4",
    "tpu-v5e": "v5e",
    "tpu-v5p": "v5p",
    "tpu-v6e": "v6e",
    "tpu-tpu7x": "tpu7x",
    "tpu-v4-podslice": "v4",
    "tpu-v5-lite-podslice": "v5e",
    "tpu-v5p-slice": "v5p",
    "tpu-v6e-slice": "v6e",
}
_SHARED_CUSTOM = re.compile(r"e2-custom-(?:micro|small|medium)-(\d+)")


_PARTITION_GIB = 375
_LARGER_PARTITIONS = ((re.compile(r"z3-.+-metal"), 6000), (re.compile(r"a4x-.+|z3-.+|.+-metal"), 3000))


def partition_gib(name: str) -> int:
    """The size of one built-in local SSD of a type (cloud.google.com/compute/docs/disks/local-ssd)."""
    return next((gib for names, gib in _LARGER_PARTITIONS if names.fullmatch(name)), _PARTITION_GIB)


def accelerator(google: str) -> str:
    """An accelerator type as Costguard names it: GPUs as Google does, TPUs by their generation (`ct6e` is `v6e`)."""
    return _TPU_TYPES.get(google, google)


def accelerators_of(listed: Sequence[Mapping[str, Any]]) -> tuple[str, int]:
    """Reads the accelerators of a VM or reservation, of which there are some: their type, and their number.

    Raises what a garbled answer raises.
    """
    types = joined_types(accelerator(last_part(one["acceleratorType"])) for one in listed)
    return types, sum(number(one["acceleratorCount"]) for one in listed)


@cache
def by_rule(name: str) -> MachineShape | None:
    """The shape that a type's name tells, or None: then Compute Engine has to be asked."""
    if name in _ODD:
        return _ODD[name]
    if (match := _WITHOUT_SSD.fullmatch(name)) and match[1] in _ODD:
        return _ODD[match[1]]._replace(local_ssd_gib=0)
    if (match := _TPU.fullmatch(name)) and match[1] in _ODD:
        return _ODD[match[1]]
    if match := _CUSTOM.fullmatch(name):
        return MachineShape(int(match[1]), int(match[2]))
    if match := _SHARED_CUSTOM.fullmatch(name):
        return MachineShape(2, int(match[1]))
    match = _SIZED.fullmatch(name)
    if match is None:
        return None
    series, vcpus = f"{match[1]}-{match[2]}", int(match[3])
    if vcpus not in _SIZES.get(series, ()) or (match[4] and match[1] != "c3"):
        return None
    per_vcpu = _MIB_PER_VCPU.get(series, _MIB_PER_VCPU[match[2]])
    ssd_gib = 375 * _C3_LOCAL_SSDS[vcpus] if match[4] else 0
    return MachineShape(vcpus, round(vcpus * per_vcpu), local_ssd_gib=ssd_gib)


class MachineTypes:
    """Shapes by name, learnt ones kept. Thread-safe.

    `ask(project, zone, name)` raises CloudError. After "no such type" that type is left unknown for a while in that
    zone, and after any other failure every type in that project: an outage must not cost a time-out per VM.
    """

    _AGAIN_AFTER_S = 60.0

    def __init__(self, ask: Callable[[str, str, str], MachineShape], monotonic: Callable[[], float]) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._learnt: dict[str, MachineShape] = {}
        self._failed: dict[tuple[str, ...], tuple[float, CloudError]] = {}
        self._lock = threading.Lock()

    def shape(self, project: str, zone: str, name: str) -> MachineShape | None:
        """Returns the shape; None where it is not known, for now or at all: the log says why."""
        try:
            return self.shape_or_error(project, zone, name)
        except CloudError:
            return None

    def shape_or_error(self, project: str, zone: str, name: str) -> MachineShape:
        """Raises the CloudError that keeps it from being known: NotFound where Google knows no such type there."""
        shape = by_rule(name) or self._learnt.get(name)
        return shape or self._asked(project, zone, name)

    def _asked(self, project: str, zone: str, name: str) -> MachineShape:
        with self._lock:
            if name in self._learnt:
                return self._learnt[name]
            now = self._monotonic()
            for failed in ((project, zone, name), (project,)):
                again_at, error = self._failed.get(failed, (now, None))
                if error is not None and now < again_at:
                    raise error.with_traceback(None)
            try:
                self._learnt[name] = self._ask(project, zone, name)
            except CloudError as error:
                failed = (project, zone, name) if isinstance(error, NotFound) else (project,)
                self._failed[failed] = (now + self._AGAIN_AFTER_S, error)
                log.warning("VMs of machine type %s in %s cannot be priced: %s", name, zone, error)
                raise
            return self._learnt[name]
