"""Prices a VM for each FLOP at its peak and each GB/s of its memory, and orders VMs by that. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from costguard.jobs.decide.machines.chips import Peak
from costguard.model.instance import ProvisioningModel
from costguard.model.money import Money

_GFLOP_PER_EXAFLOP = 10**9
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class MachinePrice:
    """A VM of a preset where and as it is cheapest now. `rate` is dollars an hour; None: nothing of it has a price.

    `preset` is "" where no preset launches this machine type. `peak` is None where its chip's figures are not known.
    """

    preset: str
    machine_type: str
    gpu_type: str
    gpu_count: int
    peak: Peak | None
    zone: str = ""
    provisioning_model: ProvisioningModel | None = None
    rate: Money | None = None

    @property
    def per_exaflop(self) -> Money | None:
        """Dollars for 10^18 operations at its peak, cut off to a nano-dollar; None: not known."""
        return None if self.peak is None else per_exaflop(self.rate, self.peak)

    @property
    def per_tb_s(self) -> Money | None:
        """Dollars an hour for each 1,000 GB/s of memory bandwidth, cut off to a nano-dollar; None: not known."""
        return None if self.peak is None else per_tb_s(self.rate, self.peak)

    @property
    def peak_tflops(self) -> float | None:
        return None if self.peak is None else float(self.peak.gflops / 1000)

    @property
    def peak_number(self) -> str | None:
        return None if self.peak is None else self.peak.chip.number

    @property
    def gb_per_s(self) -> float | None:
        return None if self.peak is None else float(self.peak.gb_per_s)

    @property
    def peak_text(self) -> str:
        """`312 TFLOP/s bf16`; "" where it is not known."""
        return "" if self.peak is None else f"{self.peak_tflops:,.10g} TFLOP/s {self.peak.chip.number}"

    @property
    def source(self) -> str | None:
        """Names the data sheet of the peak figures."""
        return None if self.peak is None else self.peak.chip.source

    @property
    def in_words(self) -> str:
        """`a100 (a2-highgpu-1g)`, or the machine type alone where no preset launches it."""
        return f"{self.preset} ({self.machine_type})" if self.preset else self.machine_type


def per_exaflop(rate: Money | None, peak: Peak) -> Money | None:
    if rate is None:
        return None
    return Money(int(Fraction(rate.nanos * _GFLOP_PER_EXAFLOP) / (peak.gflops * _HOUR_S)))


def per_tb_s(rate: Money | None, peak: Peak) -> Money | None:
    return None if rate is None else Money(int(Fraction(rate.nanos * 1000) / peak.gb_per_s))


def by_compute(prices: Iterable[MachinePrice]) -> list[MachinePrice]:
    """The least dollars for a FLOP first; of equals the presets' own order. What is not known comes last."""
    return sorted(prices, key=lambda one: (one.per_exaflop is None, one.per_exaflop or Money()))
