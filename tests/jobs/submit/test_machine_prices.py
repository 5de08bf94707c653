"""Presets are ordered by what their machines cost for a FLOP and for a GB/s, with figures from data sheets."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from tests.jobs.job_service import PRESETS, SPOT, T4, JobSetup, asked, priced

from costguard.access.rules import by_name
from costguard.db.transaction import Database
from costguard.gce.machine_types import by_rule
from costguard.jobs.decide.machines.chip_prices import MachinePrice, by_compute, per_exaflop, per_tb_s
from costguard.jobs.decide.machines.chips import CHIPS, peak_of
from costguard.ledger.billed.machine_parts import EIGHTHS_OF_A_GPU, is_billed_as_gpus
from costguard.model.instance import Shape
from costguard.model.money import Money

# TFLOP/s dense with their format, GB/s and GB, copied from the vendors' pages by hand: docs.cloud.google.com/tpu/docs/
# v5e, v5p, v6e and tpu7x; NVIDIA's data sheets (those with sparsity halved); Compute Engine's /compute/docs/gpus.
SHEETS = {
    "nvidia-tesla-p4": ("5.5", "fp32", 192, 8),
    "nvidia-tesla-p100": ("18.7", "fp16", 732, 16),
    "nvidia-tesla-v100": ("125", "fp16", 900, 16),
    "nvidia-tesla-t4": ("65", "fp16", 320, 16),
    "nvidia-l4": ("121", "bf16", 300, 24),
    "nvidia-tesla-a100": ("312", "bf16", 1555, 40),
    "nvidia-a100-80gb": ("312", "bf16", 2039, 80),
    "nvidia-h100-80gb": ("989.5", "bf16", 3350, 80),
    "nvidia-h100-mega-80gb": ("989.5", "bf16", 3350, 80),
    "nvidia-h200-141gb": ("989.5", "bf16", 4800, 141),
    "nvidia-b200": ("2250", "bf16", 8000, 180),
    "nvidia-rtx-pro-6000": ("503.8", "bf16", 1597, 96),
    "v5e": ("197", "bf16", 819, 16),
    "v5p": ("459", "bf16", 2765, 95),
    "v6e": ("918", "bf16", 1638, 32),
    "tpu7x": ("2307", "bf16", 7380, 192),
}


@pytest.mark.parametrize("gpu_type", sorted(SHEETS))
def test_figures_are_those_of_the_data_sheets(gpu_type: str) -> None:
    """Each row of the table repeats its sheet, and names it."""
    chip = CHIPS[gpu_type]
    tflops, number, gb_per_s, memory_gb = SHEETS[gpu_type]
    assert (Fraction(chip.gflops, 1000), chip.number) == (Fraction(tflops), number)
    assert (chip.gb_per_s, chip.memory_gb) == (gb_per_s, memory_gb)
    assert chip.source


def test_there_is_one_row_for_each_chip_and_none_without_a_sheet() -> None:
    """There is one table, and nothing in it is guessed."""
    assert set(CHIPS) == set(SHEETS)


def test_smallest_machine_types_have_the_chip_that_they_are_named_for() -> None:
    """Google's machine types by rule say which chip each has built in."""
    for chip in CHIPS.values():
        if chip.smallest:
            made_of = by_rule(chip.smallest)
            assert made_of is not None
            assert made_of.gpu_type == chip.gpu_type, chip.smallest


def test_a_vm_with_a_part_of_a_gpu_has_that_part_of_its_peak() -> None:
    """This holds of a G4 type with an eighth of a GPU, which is billed by eighths, too."""
    for machine_type, eighths in EIGHTHS_OF_A_GPU.items():
        peak = peak_of(machine_type, "nvidia-rtx-pro-6000", 1)
        assert peak is not None
        assert peak.gflops == Fraction(503_800 * eighths, 8)
        assert is_billed_as_gpus(Shape(machine_type, 6, 22 * 1024, "nvidia-rtx-pro-6000", 1))


def test_a_vm_with_eight_gpus_has_eight_times_the_peak_and_the_memory_of_one() -> None:
    """A model must fit into the memory of one chip."""
    peak = peak_of("a3-highgpu-8g", "nvidia-h100-80gb", 8)
    assert peak is not None
    assert peak.gflops == 8 * 989_500
    assert peak.gb_per_s == 8 * 3350
    assert peak.memory_gb == 80


def test_chips_without_figures_have_no_peak() -> None:
    """The table has no K80, and a VM without a GPU has nothing to compare."""
    assert peak_of("n1-standard-8", "nvidia-tesla-k80", 1) is None
    assert peak_of("n1-standard-8", None, 0) is None


def test_dollars_for_a_flop_are_exact() -> None:
    """An A100 makes 312e12 x 3600 operations an hour, which is 1.1232 EFLOP."""
    peak = peak_of("a2-highgpu-1g", "nvidia-tesla-a100", 1)
    assert peak is not None
    assert per_exaflop(Money.of("1.1232"), peak) == Money.of(1)
    assert per_tb_s(Money.of("1.555"), peak) == Money.of(1)
    assert per_exaflop(None, peak) is None


def _machine(name: str, gpu_type: str, rate: str | None) -> MachinePrice:
    peak = peak_of(f"{name}-1g", gpu_type, 1)
    return MachinePrice(name, f"{name}-1g", gpu_type, 1, peak, rate=None if rate is None else Money.of(rate))


def test_the_cheapest_compute_comes_first_and_unknown_last() -> None:
    """An H100 at 2.4 times the price of an A100 has 3.2 times its FLOPs."""
    unpriced, unknown = _machine("b200", "nvidia-b200", None), _machine("k80", "nvidia-tesla-k80", "0.1")
    h100, a100 = _machine("h100", "nvidia-h100-80gb", "3.60"), _machine("a100", "nvidia-tesla-a100", "1.50")
    given = [unpriced, a100, unknown, h100]
    assert [one.preset for one in by_compute(given)] == ["h100", "a100", "b200", "k80"]


def test_a_quote_shows_each_preset_that_can_be_launched_at_its_own_cheapest_price(sqlite_database: Database) -> None:
    """The preset `other` has no recipe. Two T4s cost less for a FLOP than one: the VM around them is the same."""
    office = JobSetup(priced(sqlite_database))
    two = replace(PRESETS[0], name="t4-two", launch=replace(T4, gpu_count=2))
    office.rules = replace(office.rules, presets=by_name((PRESETS[0], two, PRESETS[1])))
    shown = office.it.quote(asked(), timedelta(hours=1)).presets
    assert [one.preset for one in shown] == ["t4-two", "t4"]
    assert shown[1].rate == Money.of(SPOT)
    assert shown[1].per_exaflop == Money(int(Money.of(SPOT).nanos / (Fraction(65_000 * 3600, 10**9))))


def test_a_preset_whose_machine_type_google_does_not_explain_is_shown_without_a_price(
    sqlite_database: Database,
) -> None:
    """The price is not known, and the other presets keep theirs."""
    office = JobSetup(priced(sqlite_database))
    odd = replace(PRESETS[0], name="odd", launch=replace(T4, machine_type="n1-odd-7"))
    office.rules = replace(office.rules, presets=by_name((PRESETS[0], odd, PRESETS[1])))
    shown = {one.preset: one for one in office.it.quote(asked(), timedelta(hours=1)).presets}
    assert shown["odd"].rate is None
    assert shown["odd"].per_exaflop is None
