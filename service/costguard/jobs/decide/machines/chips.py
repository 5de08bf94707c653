"""Peak figures of accelerators, from their vendors' data sheets: the one table of them.

Peaks are of dense matrices. NVIDIA's sheets from Ampere on print them "with sparsity": half of that is dense.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from costguard.ledger.billed.machine_parts import EIGHTHS_OF_A_GPU
from costguard.model.instance import gpu_words


@dataclass(frozen=True, slots=True)
class Chip:
    """Holds the figures of one GPU, or of one chip of a TPU.

    `number` is the format of the peak: bf16, or the fastest float that it has. `smallest` is the smallest machine type
    that has it built in; "" where it is attached to any N1 type.
    """

    gpu_type: str
    gflops: int  # billions of operations a second at its peak
    number: str
    gb_per_s: int  # of its memory; GB is 10^9 bytes
    memory_gb: int  # as its sheet names it
    smallest: str
    source: str

    @property
    def name(self) -> str:
        return gpu_words(self.gpu_type)


_NVIDIA = "nvidia.com/en-us/data-center/"
_TPU = "docs.cloud.google.com/tpu/docs/"
_HOPPER = f"{_NVIDIA}h100: 1,979 TFLOPS bf16 with sparsity, 3.35 TB/s, 80 GB (SXM)"
_TABLE = (
    # Pascal has no tensor cores. Compute Engine's P100 is the PCIe card: /compute/docs/gpus has 9.3 TFLOPS fp32.
    Chip("nvidia-tesla-p4", 5_500, "fp32", 192, 8, "", "NVIDIA Tesla P4 data sheet: 5.5 TeraFLOPS single, 192 GB/s"),
    Chip(
        "nvidia-tesla-p100", 18_700, "fp16", 732, 16, "",
        "NVIDIA Tesla P100 PCIe data sheet: 18.7 TeraFLOPS half, 732 GB/s, 16 GB",
    ),
    # Volta and Turing have no bf16.
    Chip(
        "nvidia-tesla-v100", 125_000, "fp16", 900, 16, "",
        "NVIDIA V100 data sheet: 125 TeraFLOPS deep learning (NVLink), 900 GB/s, 16 GB",
    ),
    Chip(
        "nvidia-tesla-t4", 65_000, "fp16", 320, 16, "",
        "NVIDIA T4 data sheet: 65 TFLOPS mixed precision (FP16/FP32), 320+ GB/s, 16 GB",
    ),
    Chip("nvidia-l4", 121_000, "bf16", 300, 24, "g2-standard-4", f"{_NVIDIA}l4: 242 TFLOPS with sparsity, 300 GB/s"),
    Chip(
        "nvidia-tesla-a100", 312_000, "bf16", 1_555, 40, "a2-highgpu-1g",
        "NVIDIA A100 data sheet: 312 TFLOPS bf16, 1,555 GB/s (40 GB)",
    ),
    Chip(
        "nvidia-a100-80gb", 312_000, "bf16", 2_039, 80, "a2-ultragpu-1g",
        f"{_NVIDIA}a100: 312 TFLOPS bf16, 2,039 GB/s (80 GB SXM)",
    ),
    Chip("nvidia-h100-80gb", 989_500, "bf16", 3_350, 80, "a3-highgpu-1g", _HOPPER),
    Chip("nvidia-h100-mega-80gb", 989_500, "bf16", 3_350, 80, "a3-megagpu-8g", _HOPPER),
    Chip(
        "nvidia-h200-141gb", 989_500, "bf16", 4_800, 141, "a3-ultragpu-8g",
        f"{_NVIDIA}h200: 1,979 TFLOPS bf16 with sparsity, 4.8 TB/s, 141 GB (SXM)",
    ),
    Chip(
        "nvidia-b200", 2_250_000, "bf16", 8_000, 180, "a4-highgpu-8g",
        "NVIDIA HGX B200, and DGX B200 data sheet: 36 PFLOPS bf16 with sparsity, 64 TB/s and 1,440 GB of 8 GPUs",
    ),
    Chip(
        "nvidia-rtx-pro-6000", 503_800, "bf16", 1_597, 96, "g4-standard-48",
        "NVIDIA RTX Blackwell PRO paper: 503.8 TFLOPS bf16 dense; data sheet of the Server Edition: 1,597 GB/s, 96 GB",
    ),
    Chip("v5e", 197_000, "bf16", 819, 16, "ct5lp-hightpu-1t", f"{_TPU}v5e: 197 TFLOPs bf16, 16 GB, 819 GBps"),
    Chip("v5p", 459_000, "bf16", 2_765, 95, "ct5p-hightpu-1t", f"{_TPU}v5p: 459 TFLOPs bf16, 95 GB, 2765 GBps"),
    Chip("v6e", 918_000, "bf16", 1_638, 32, "ct6e-standard-1t", f"{_TPU}v6e: 918 TFLOPs bf16, 32 GB, 1638 GBps"),
    Chip(
        "tpu7x", 2_307_000, "bf16", 7_380, 192, "tpu7x-standard-4t",
        f"{_TPU}tpu7x: 2307 TFLOPs bf16, 192 GiB, 7380 GBps",
    ),
)  # fmt: skip
CHIPS: Mapping[str, Chip] = {chip.gpu_type: chip for chip in _TABLE}


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak of a VM: of all its chips together, in GFLOP/s and GB/s."""

    chip: Chip
    count: Fraction  # of chips; below one where the VM has a part of a GPU

    @property
    def gflops(self) -> Fraction:
        return self.chip.gflops * self.count

    @property
    def gb_per_s(self) -> Fraction:
        return self.chip.gb_per_s * self.count

    @property
    def memory_gb(self) -> Fraction:
        """Memory that one process on one chip can have, which a batch must fit in."""
        return self.chip.memory_gb * min(self.count, Fraction(1))


def peak_of(machine_type: str, gpu_type: str | None, gpu_count: int) -> Peak | None:
    """Returns the peak of such a VM; None where it has no accelerator, or its figures are not known."""
    chip = CHIPS.get(gpu_type or "")
    if chip is None or gpu_count <= 0:
        return None
    eighths = EIGHTHS_OF_A_GPU.get(machine_type)
    return Peak(chip, Fraction(gpu_count) if eighths is None else Fraction(eighths, 8))
