"""Names the machine to try next, by what bounds a run: its compute, the size of its memory, or its bandwidth. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from costguard.jobs.decide.machines.chip_prices import MachinePrice
from costguard.jobs.decide.machines.chips import Peak
from costguard.model.instance import TPUS
from costguard.model.money import Money, about_text, rate_text
from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.kinds import BoundVerdict

# A run that does not use its tensor cores, or does not fill its GPU, gains more from its code than from another GPU.
_AT_ITS_PACE = frozenset({kinds.TENSOR, kinds.MIXED, None})
_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class NextMachine:
    """The machine to try next. `per_1000_steps` is what 1,000 steps would cost there, and `now` what they cost: both
    None where its pace is not known, or the bound says nothing of the pace there. `faster` is the ratio of the peaks.
    """

    bound: str
    machine: MachinePrice
    peak: Peak
    rate: Money
    faster: Fraction
    per_1000_steps: Money | None = None
    now: Money | None = None

    @property
    def text(self) -> str:
        """Returns the advice in words, to follow another one."""
        chip = self.peak.chip
        kind = "TPU" if chip.gpu_type in TPUS else "GPU"
        count = f"{self.machine.gpu_count} " if self.machine.gpu_count > 1 else ""
        where = f"{self.machine.in_words}, {count}{chip.name}, {rate_text(self.rate)} an hour"
        if self.bound == kinds.MEMORY_CAPACITY:
            return f"the next {kind} with more memory ({chip.memory_gb} GB) is {where}"
        if self.bound == kinds.MEMORY_BANDWIDTH:
            return f"the least for memory bandwidth is {where}{self._expected('memory bandwidths')}"
        return f"the next faster {kind} is {where}{self._expected('peak FLOP/s')}"

    def _expected(self, of_what: str) -> str:
        estimate = f"an estimate from the ratio of {of_what}, {float(self.faster):.1f} to 1"
        if self.per_1000_steps is None or self.now is None:
            return f" ({estimate})"
        return f": {about_text(str(self.per_1000_steps))} for 1,000 steps, which cost {self.now} now ({estimate})"


def next_machine(
    verdict: BoundVerdict, now: MachinePrice, steps_per_s: float | None, prices: Sequence[MachinePrice]
) -> NextMachine | None:
    """Chooses among machines that have a price and known figures; None: this bound names none, or there is none.

    Compute: the least peak above this one's. Capacity: the least memory of a chip above it. Bandwidth: the least
    dollars for a GB/s. Machines with as many chips come first: a script for one GPU may not run on eight.
    """
    peak = now.peak
    if peak is None or not names_one(verdict):
        return None
    others = [one for one in prices if one.rate is not None and one.peak is not None and not _is_same(one, now)]
    some = [one for one in others if one.gpu_count == now.gpu_count]
    choose = _CHOICES[verdict.bound]
    chosen = choose(now, some) or (choose(now, others) if verdict.bound != kinds.MEMORY_BANDWIDTH or not some else None)
    if chosen is None or chosen.peak is None or chosen.rate is None:
        return None
    if verdict.bound == kinds.MEMORY_CAPACITY:
        return NextMachine(verdict.bound, chosen, chosen.peak, chosen.rate, chosen.peak.gflops / peak.gflops)
    figure = _bandwidth if verdict.bound == kinds.MEMORY_BANDWIDTH else _compute
    faster = figure(chosen.peak) / figure(peak)
    there = per_1000_steps(chosen.rate, steps_per_s, faster)
    here = per_1000_steps(now.rate, steps_per_s, Fraction(1))
    return NextMachine(verdict.bound, chosen, chosen.peak, chosen.rate, faster, there, here)


def names_one(verdict: BoundVerdict) -> bool:
    """Says whether another machine is a remedy for this bound."""
    if verdict.bound == kinds.COMPUTE:
        return verdict.cause in _AT_ITS_PACE
    return verdict.bound in _CHOICES


def per_1000_steps(rate: Money | None, steps_per_s: float | None, faster: Fraction) -> Money | None:
    """Returns the cost of 1,000 steps at this pace, so many times faster; None: not known."""
    if rate is None or not steps_per_s:
        return None
    return Money(int(Fraction(rate.nanos * 1000) / (Fraction(steps_per_s) * faster * _HOUR_S)))


def _compute(peak: Peak) -> Fraction:
    return peak.gflops


def _bandwidth(peak: Peak) -> Fraction:
    return peak.gb_per_s


def _faster(now: MachinePrice, prices: Sequence[MachinePrice]) -> MachinePrice | None:
    return _next_above(now, prices, _compute)


def _larger(now: MachinePrice, prices: Sequence[MachinePrice]) -> MachinePrice | None:
    return _next_above(now, prices, lambda peak: peak.memory_gb)


def _next_above(
    now: MachinePrice, prices: Sequence[MachinePrice], figure: Callable[[Peak], Fraction]
) -> MachinePrice | None:
    """Returns the machine with the least figure above this one's; of equals the cheapest."""
    own = Fraction(0) if now.peak is None else figure(now.peak)
    above = [(figure(one.peak), one.rate, one) for one in prices if one.peak and one.rate and figure(one.peak) > own]
    return min(above, key=lambda one: one[:2], default=(None, None, None))[2]


def _cheapest_bandwidth(now: MachinePrice, prices: Sequence[MachinePrice]) -> MachinePrice | None:
    """Returns None where the run's own machine costs the least already."""
    priced = [(cost, one) for one in prices if (cost := one.per_tb_s) is not None]
    least = min(priced, key=lambda one: one[0], default=None)
    if least is None or (now.per_tb_s is not None and now.per_tb_s <= least[0]):
        return None
    return least[1]


def _is_same(one: MachinePrice, other: MachinePrice) -> bool:
    return (one.machine_type, one.gpu_type, one.gpu_count) == (other.machine_type, other.gpu_type, other.gpu_count)


_CHOICES: dict[str, Callable[[MachinePrice, Sequence[MachinePrice]], MachinePrice | None]] = {
    kinds.COMPUTE: _faster,
    kinds.MEMORY_CAPACITY: _larger,
    kinds.MEMORY_BANDWIDTH: _cheapest_bandwidth,
}
