"""A bound names the machine to try next, with the cost of a step there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from tests.jobs.reports.test_diagnosis import BUSY, minutes_of, running_job
from tests.jobs.world import RECIPE, World, world

from costguard.gce.machine_types import by_rule
from costguard.jobs.decide.machines.chip_prices import MachinePrice
from costguard.jobs.decide.machines.chips import peak_of
from costguard.jobs.decide.machines.next_machine import NextMachine, next_machine, per_1000_steps
from costguard.jobs.reports.diagnosis import diagnosis_of
from costguard.jobs.submit.machine_prices import with_next_machine
from costguard.jobs.submit.where.targets import LaunchTargets
from costguard.ledger import prices
from costguard.ledger.accrual import accrual_at
from costguard.model.instance import ProvisioningModel, Shape
from costguard.model.money import Money
from costguard.model.preset import Match, Preset
from costguard.model.price import Price, PriceKey, Unit
from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.kinds import BoundVerdict
from costguard_vm.diagnosis.signals import GpuSignals


def _machine(preset: str, machine_type: str, gpu_type: str, rate: str | None, count: int = 1) -> MachinePrice:
    peak = peak_of(machine_type, gpu_type, count)
    return MachinePrice(preset, machine_type, gpu_type, count, peak, rate=None if rate is None else Money.of(rate))


T4_NOW = _machine("t4", "n1-standard-8", "nvidia-tesla-t4", "0.20")
L4 = _machine("l4", "g2-standard-8", "nvidia-l4", "0.30")
A100 = _machine("a100", "a2-highgpu-1g", "nvidia-tesla-a100", "1.50")
A100_80 = _machine("a100-80", "a2-ultragpu-1g", "nvidia-a100-80gb", "2.10")
H100 = _machine("h100", "a3-highgpu-1g", "nvidia-h100-80gb", "3.30")
H200 = _machine("h200", "a3-ultragpu-8g", "nvidia-h200-141gb", "28", 8)
UNPRICED = _machine("v100", "n1-standard-8", "nvidia-tesla-v100", None)
UNKNOWN = _machine("k80", "n1-standard-8", "nvidia-tesla-k80", "0.05")
ALL = [H200, UNKNOWN, H100, A100_80, UNPRICED, A100, L4, T4_NOW]


def _verdict(bound: str, cause: str | None = None) -> BoundVerdict:
    return BoundVerdict(bound, cause, 0.9, (), "")


def _next(bound: str, now: MachinePrice, cause: str | None = None, pace: float | None = 2.0) -> NextMachine | None:
    return next_machine(_verdict(bound, cause), now, pace, ALL)


def _name(chosen: NextMachine | None) -> str | None:
    return None if chosen is None else chosen.machine.preset


def test_compute_names_the_next_faster_chip_that_has_a_price() -> None:
    """The V100 is between T4 and A100, and has no price; nobody knows figures of the K80."""
    assert _name(_next(kinds.COMPUTE, T4_NOW, kinds.TENSOR)) == "l4"
    assert _name(_next(kinds.COMPUTE, L4, kinds.TENSOR)) == "a100"
    assert _name(_next(kinds.COMPUTE, A100, kinds.TENSOR)) == "h100"


def test_of_equally_fast_machines_the_cheapest_is_named() -> None:
    """Both A100 have one peak: the one with less memory costs less."""
    assert _name(_next(kinds.COMPUTE, L4)) == "a100"


def test_machines_with_as_many_chips_come_first_and_others_where_there_are_none() -> None:
    """Nothing with one chip is faster than an H100 here, and eight H200 are."""
    chosen = _next(kinds.COMPUTE, H100, kinds.TENSOR)
    assert _name(chosen) == "h200"
    assert chosen is not None
    assert chosen.faster == 8


def test_the_price_of_a_step_follows_the_ratio_of_the_peaks() -> None:
    """2 steps a second are 1,000 in 500 s: on an A100 at $1.50 an hour $0.2083; an H100 makes 989.5 / 312 as many."""
    chosen = _next(kinds.COMPUTE, A100, kinds.TENSOR)
    assert chosen is not None
    assert chosen.now == Money(1_500_000_000 * 500 // 3600)
    assert chosen.per_1000_steps == Money(3_300_000_000 * 500 * 312_000 // (3600 * 989_500))
    assert chosen.text == (
        "the next faster GPU is h100 (a3-highgpu-1g), H100 80GB, $3.30 an hour: about $0.14 for 1,000 steps, which "
        "cost $0.21 now (an estimate from the ratio of peak FLOP/s, 3.2 to 1)"
    )


def test_without_a_pace_the_ratio_alone_is_told() -> None:
    """A price of steps would need their pace."""
    chosen = _next(kinds.COMPUTE, A100, kinds.TENSOR, pace=None)
    assert chosen is not None
    assert chosen.per_1000_steps is None
    assert chosen.text.endswith("$3.30 an hour (an estimate from the ratio of peak FLOP/s, 3.2 to 1)")


def test_capacity_names_the_next_larger_memory_whatever_its_speed() -> None:
    """16 GB, 24, 40, 80 and 141: a chip counts, and not the eight of a VM together."""
    names = [_name(_next(kinds.MEMORY_CAPACITY, now)) for now in (T4_NOW, L4, A100, A100_80, H100)]
    assert names == ["l4", "a100", "a100-80", "h200", "h200"]
    chosen = _next(kinds.MEMORY_CAPACITY, A100)
    assert chosen is not None
    assert chosen.text == (
        "the next GPU with more memory (80 GB) is a100-80 (a2-ultragpu-1g), A100 80GB, $2.10 an hour"
    )
    assert _next(kinds.MEMORY_CAPACITY, H200) is None


def test_bandwidth_names_the_least_dollars_for_a_gb_a_second_and_nothing_where_it_is_that() -> None:
    """T4 $0.63, L4 $1.00, A100 $0.96, A100 80GB $1.03, H100 $0.99 an hour for 1,000 GB/s."""
    assert _name(_next(kinds.MEMORY_BANDWIDTH, L4)) == "t4"
    assert _next(kinds.MEMORY_BANDWIDTH, T4_NOW) is None


def test_an_unpriced_machine_is_no_reason_to_leave_out_one_with_more_chips() -> None:
    """Machines with one chip come first only where they have a price."""
    chosen = next_machine(_verdict(kinds.MEMORY_BANDWIDTH), L4, 2.0, [UNPRICED, H200])
    assert _name(chosen) == "h200"


@pytest.mark.parametrize(
    ("bound", "cause"),
    [
        (kinds.COMPUTE, kinds.FP32),
        (kinds.COMPUTE, kinds.UNDERFILLED),
        (kinds.INPUT, kinds.WORKERS),
        (kinds.HOST, kinds.LAUNCHES),
        (kinds.GPU, None),
        (kinds.UNKNOWN, None),
    ],
)
def test_what_another_machine_does_not_mend_names_none(bound: str, cause: str | None) -> None:
    """A larger batch or another precision costs nothing, and a loader waits on any GPU."""
    assert _next(bound, A100, cause) is None


def test_a_run_on_a_chip_without_figures_is_advised_nothing() -> None:
    """No ratio is known."""
    assert _next(kinds.COMPUTE, UNKNOWN, kinds.TENSOR) is None


def test_steps_without_a_rate_or_a_pace_have_no_price() -> None:
    """Unknown is never zero."""
    assert per_1000_steps(None, 1.0, Fraction(1)) is None
    assert per_1000_steps(Money.of(1), None, Fraction(1)) is None
    assert per_1000_steps(Money.of(1), 0.0, Fraction(1)) is None


# With the ledger's prices.


def _shape(_project: str, _zone: str, name: str) -> Shape | None:
    made_of = by_rule(name)
    return None if made_of is None else Shape(name, *made_of[:2], made_of.gpu_type, made_of.gpu_count)


A2 = replace(RECIPE, machine_type="a2-highgpu-1g", gpu_type="nvidia-tesla-a100", attaches_gpus=False)
TENSOR_BUSY = BUSY._replace(gpus=(GpuSignals(kernel_active=0.99, sm_active=0.9, tensor_active=0.5, dram_active=0.2),))


def _with_prices(w: World, *resources: tuple[str, int]) -> None:
    since = w.clock.now() - timedelta(days=30)
    rows = [
        Price(PriceKey(resource, "us-central1", ProvisioningModel.SPOT), Unit.HOUR, nanos, since, "test")
        for resource, nanos in resources
    ]
    with w.database.write() as connection:
        prices.add(connection, rows, w.clock.now())


A2_PRICES = (("a2:core", 10_000_000), ("a2:ram", 1_000_000), ("gpu:nvidia-tesla-a100", 800_000_000))


@pytest.mark.parametrize("with_preset", [True, False])
def test_a_preset_is_named_and_where_none_is_a_priced_machine_type(sqlite_url: str, with_preset: bool) -> None:
    """A run on a T4 that its tensor cores bound; only the A100 has a price."""
    with world(sqlite_url) as w:
        _with_prices(w, *A2_PRICES)
        running_job(w)
        minutes_of(w, 14, TENSOR_BUSY)
        presets = [Preset("t4", Match(), None, launch=RECIPE)]
        presets += [Preset("a100", Match(), None, launch=A2)] if with_preset else []
        with w.database.read() as connection:
            accrual = accrual_at(connection, w.clock.now())
            answer = diagnosis_of(connection, accrual, "j1")
        assert answer is not None
        assert answer.held is not None
        assert (answer.held.verdict.bound, answer.held.verdict.cause) == (kinds.COMPUTE, kinds.TENSOR)
        project = answer.job.spec.project
        advised = with_next_machine(answer, presets, LaunchTargets(lambda: (project,), _shape), accrual)
        assert advised.next is not None
        assert advised.next.machine.in_words == ("a100 (a2-highgpu-1g)" if with_preset else "a2-highgpu-1g")
        assert advised.next.machine.zone.startswith("us-central1-")
        assert advised.next.per_1000_steps is not None
        assert advised.advice.startswith("nothing: it computes at the hardware's pace; the next faster GPU is ")


def test_nothing_is_named_where_nothing_faster_has_a_price(sqlite_url: str) -> None:
    """The ledger has prices of the T4 alone."""
    with world(sqlite_url) as w:
        running_job(w)
        minutes_of(w, 14, TENSOR_BUSY)
        with w.database.read() as connection:
            accrual = accrual_at(connection, w.clock.now())
            answer = diagnosis_of(connection, accrual, "j1")
        assert answer is not None
        targets = LaunchTargets(lambda: (answer.job.spec.project,), _shape)
        assert with_next_machine(answer, [Preset("a100", Match(), None, launch=A2)], targets, accrual).next is None
