"""The rule of what bounds a run: published figures of GPUs, absent signals, and recorded runs of real PyTorch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.diagnosis.bounds import report
from tests.diagnosis.bounds.grid import NAMES, PLANS, PLANS_OF_A_GPU

from costguard_vm.diagnosis import kinds, signals
from costguard_vm.diagnosis.advice import advise, most_saved
from costguard_vm.diagnosis.bounds import judge
from costguard_vm.diagnosis.signals import CommandSignals, GpuSignals, HostSignals, Minute, StackSignals, read_minute
from costguard_vm.diagnosis.window import SignalWindow, window_of
from costguard_vm.diagnosis.words import headline, number_text

GIB = 2.0**30
BUSY = GpuSignals(kernel_active=0.97, memory_used_bytes=60 * GIB, memory_total_bytes=80 * GIB)


def _window(gpu: GpuSignals | None = None, command: CommandSignals | None = None, **given: Any) -> SignalWindow:
    gpus = None if gpu is None else (gpu,)
    minute = Minute(seconds=60.0, gpus=gpus, command=command or CommandSignals(), host=HostSignals(), **given)
    return window_of([minute] * 5)


# What GPUs measured themselves, from publications: the first two from NVIDIA's DCGM guide, feature overview, profiling
# (dcgmproftester keeps tensor cores at about 0.93; DRAM's practical peak is about 0.8), the third from packet.ai, "GPU
# utilization: the lie your dashboard tells" (2025): 8 % SM activity, 12 % of the bandwidth, 8 of 24 GB.
PUBLISHED = [
    (BUSY._replace(sm_active=0.99, tensor_active=0.93, dram_active=0.25), kinds.COMPUTE, kinds.TENSOR),
    (BUSY._replace(sm_active=0.85, tensor_active=0.0, dram_active=0.8), kinds.MEMORY_BANDWIDTH, None),
    (
        GpuSignals(
            kernel_active=0.91, sm_active=0.08, dram_active=0.12, memory_used_bytes=8e9, memory_total_bytes=24e9
        ),
        kinds.COMPUTE,
        kinds.UNDERFILLED,
    ),
]


@pytest.mark.parametrize(("gpu", "bound", "cause"), PUBLISHED)
def test_published_counters_of_gpus(gpu: GpuSignals, bound: str, cause: str | None) -> None:
    """Counters of GPUs under loads that are known give the bound of those loads."""
    verdict = judge(_window(gpu))
    assert (verdict.bound, verdict.cause) == (bound, cause)


LOADS = json.loads(Path(__file__).with_name("h100_loads.json").read_text("utf-8"))


@pytest.mark.parametrize("load", LOADS, ids=[one["load"] for one in LOADS])
def test_loads_of_a_real_h100(load: dict[str, Any]) -> None:
    """Recorded through the agent's NVML on an H100 80GB HBM3 (driver 580.159): each load is what was run."""
    minute = read_minute({"seconds": 60, "gpus": [load["gpu"]], "command": {"main_cpu": 0.2}})
    assert minute is not None
    verdict = judge(window_of([minute] * 5))
    assert (verdict.bound, verdict.cause) == (load["bound"], load["cause"])


# By the rule's own thresholds; no GPU has measured these.
ASSUMED = [
    (BUSY._replace(sm_active=0.8, tensor_active=0.02, dram_active=0.3), kinds.COMPUTE, kinds.FP32),
    (BUSY._replace(sm_active=0.4, memory_used_bytes=78 * GIB), kinds.MEMORY_CAPACITY, None),
    (BUSY._replace(sm_active=0.3, nvlink_bytes_per_s=2e11), kinds.COMMUNICATION, None),
    (BUSY._replace(clock_reasons={"hw_thermal": 0.6}), kinds.THROTTLED, kinds.HEAT),
    (
        BUSY._replace(clock_reasons={"sw_power_cap": 0.9}, sm_clock_mhz=800.0, sm_clock_most_mhz=1980.0),
        kinds.THROTTLED,
        kinds.POWER,
    ),
    (
        BUSY._replace(clock_reasons={"sw_power_cap": 1.0}, sm_clock_mhz=1900.0, sm_clock_most_mhz=1980.0),
        kinds.GPU,
        None,
    ),
    (BUSY, kinds.GPU, None),
    (GpuSignals(kernel_active=0.85), kinds.UNKNOWN, None),
]


@pytest.mark.parametrize(("gpu", "bound", "cause"), ASSUMED)
def test_busy_gpus(gpu: GpuSignals, bound: str, cause: str | None) -> None:
    """A power cap is how a busy GPU runs unless its clocks are far down; without counters the GPU alone is named."""
    verdict = judge(_window(gpu))
    assert (verdict.bound, verdict.cause) == (bound, cause)


def _stacks(**places: float) -> dict[str, Any]:
    return {"stacks": StackSignals(looks=30.0, places=places)}


LOADING = CommandSignals(main_cpu=0.06, workers=1.0, workers_cpu=0.98, workers_busiest=0.98, cpu=1.04, queue=0.01)
HALF = GpuSignals(kernel_active=0.45)


def test_one_loading_worker_that_starves_a_gpu_needs_no_busy_cpu() -> None:
    """The use of one of 16 vCPUs shows in no alarm on CPU or pressure."""
    window = window_of([
        Minute(60.0, gpus=(HALF,), command=LOADING, host=HostSignals(cpus=16.0, cpu=1.1), **_stacks(loader=0.9))
    ] * 5)  # fmt: skip
    verdict = judge(window)
    assert (verdict.bound, verdict.cause) == (kinds.INPUT, kinds.WORKERS)
    assert advise(verdict, window) == "more loader workers: 1.0 of 16 vCPUs are used"
    assert most_saved(verdict) == pytest.approx(0.55)


INPUTS = [
    (LOADING._replace(workers_in_d=0.6), HostSignals(), kinds.STORAGE),
    (LOADING, HostSignals(io_full=0.2), kinds.STORAGE),
    (LOADING._replace(workers_cpu=0.1), HostSignals(network_in_bytes_per_s=2e8), kinds.NETWORK),
    (LOADING._replace(workers=8.0, workers_cpu=7.8, cpu=7.9), HostSignals(cpus=8.0, cpu=7.9), kinds.PROCESSORS),
    (LOADING, HostSignals(cpus=8.0, cpu=2.0, cpu_throttled=0.5), kinds.PROCESSORS),
    (
        LOADING._replace(workers=4.0, workers_cpu=1.9, cpu=2.0, queue=2.0),
        HostSignals(cpus=2.0, cpu=1.7),
        kinds.PROCESSORS,
    ),
]


@pytest.mark.parametrize(("command", "host", "cause"), INPUTS)
def test_why_data_comes_late(command: CommandSignals, host: HostSignals, cause: str) -> None:
    """A disk that is waited for, the network with sleeping readers, or no CPU left; else more workers would help."""
    minute = Minute(60.0, gpus=(HALF,), command=command, host=host, **_stacks(loader=0.8))
    assert judge(window_of([minute] * 5)).cause == cause


PLACES = [
    ({"host": 0.7, "device": 0.3}, kinds.HOST),
    ({"checkpoint": 0.6, "device": 0.2, "host": 0.2}, kinds.CHECKPOINT),
    ({"communication": 0.8, "device": 0.2}, kinds.COMMUNICATION),
    ({"evaluation": 0.9}, kinds.EVALUATION),
    ({"device": 0.95, "host": 0.05}, kinds.HOST),
    ({"loader": 0.3, "host": 0.3, "checkpoint": 0.3}, kinds.UNKNOWN),
]


@pytest.mark.parametrize(("places", "bound"), PLACES)
def test_the_main_threads_place_decides(places: dict[str, float], bound: str) -> None:
    """The place counts by more than half of the time in which it does not wait for the GPU; else unknown."""
    assert judge(_window(HALF, CommandSignals(main_cpu=0.8), **_stacks(**places))).bound == bound


def test_without_stacks_reading_and_computing_look_alike() -> None:
    """A main thread that is at work, and no workers: it may read or compute."""
    window = _window(HALF, CommandSignals(main_cpu=0.9, workers=0.0))
    assert judge(window).bound == kinds.INPUT_OR_HOST
    assert "--stacks" in advise(judge(window), window)


def test_too_few_looks_at_stacks_say_nothing() -> None:
    """Shares of a handful of looks are chance."""
    few = {"stacks": StackSignals(looks=2.0, places={"loader": 1.0})}
    assert judge(_window(HALF, CommandSignals(main_cpu=0.9, workers=0.0), **few)).bound == kinds.INPUT_OR_HOST


def test_gpus_that_nothing_runs_on_are_left_out_and_reported() -> None:
    """A GPU of four works all the time: the run waits for nothing, and three are paid for nothing."""
    idle = GpuSignals(kernel_active=0.0)
    minute = Minute(60.0, gpus=(BUSY, idle, idle, idle), command=CommandSignals(), host=HostSignals())
    window = window_of([minute] * 5)
    assert judge(window).bound == kinds.GPU
    assert "3 of 4 GPUs do nothing" in advise(judge(window), window)


def test_absent_signals_are_unknown_and_never_zero() -> None:
    """A driver that does not answer is no idle GPU, and a value of one minute in five is no mean."""
    assert judge(_window(None)).bound == kinds.UNKNOWN
    assert judge(_window(GpuSignals())).bound == kinds.UNKNOWN
    once = Minute(60.0, gpus=(GpuSignals(kernel_active=0.1),))
    assert judge(window_of([once, *[Minute(60.0)] * 4])).bound == kinds.UNKNOWN


SHARE = st.none() | st.floats(0, 1)
WORKERS = st.none() | st.integers(0, 9).map(float)
RATE = st.none() | st.floats(0, 1e12)


GPUS = st.builds(
    GpuSignals,
    kernel_active=SHARE,
    sm_active=SHARE,
    dram_active=SHARE,
    tensor_active=SHARE,
    nvlink_bytes_per_s=RATE,
    memory_used_bytes=RATE,
    memory_total_bytes=RATE,
)
COMMANDS = st.builds(
    CommandSignals,
    main_cpu=SHARE,
    main_asleep=SHARE,
    workers=WORKERS,
    workers_cpu=RATE,
    workers_in_d=SHARE,
    cpu=RATE,
    queue=RATE,
    written_bytes_per_s=RATE,
)


@settings(max_examples=150, deadline=None)
@given(GPUS, COMMANDS, st.none() | st.dictionaries(st.sampled_from(signals.PLACES), st.floats(0, 1)))
def test_any_signals_have_a_verdict_in_words(
    gpu: GpuSignals, command: CommandSignals, places: dict[str, float] | None
) -> None:
    """The verdict has at most three numbers, shares within 0 and 1, and words for all of it, whatever an agent
    sends.
    """
    stacks = None if places is None else StackSignals(looks=30.0, places=places)
    window = window_of([Minute(60.0, gpus=(gpu,), command=command, host=HostSignals(cpus=4.0), stacks=stacks)] * 5)
    verdict = judge(window)
    assert verdict.bound in kinds.BOUNDS
    assert len(verdict.numbers) <= 3
    assert verdict.share is None or 0 <= verdict.share <= 1
    assert all(number_text(number) for number in verdict.numbers)
    assert headline(verdict)
    assert isinstance(advise(verdict, window), str)


RUNS = report.stored_runs()


@pytest.mark.parametrize("run", RUNS, ids=[run.name for run in RUNS])
def test_recorded_trainings_are_never_blamed_wrongly(run: report.RecordedRun) -> None:
    """A verdict is what an intervention showed, with stacks or without, or unknown."""
    assert report.outcome(run.truth, run.held(with_stacks=True)) != report.WRONG
    assert report.outcome(run.truth, run.held(with_stacks=False)) != report.WRONG


def test_the_runs_of_a_gpu_cover_kinds_and_causes_in_both_halves() -> None:
    """The runs are at least 24 over four kinds of model; every setting is one that a training takes."""
    names = [plan.name for plan in PLANS_OF_A_GPU]
    assert len(set(names)) == len(names) >= 24
    assert {plan.settings["kind"] for plan in PLANS_OF_A_GPU} == set(NAMES)
    assert {plan.half for plan in PLANS_OF_A_GPU} == {1, 2}
    training = (Path(report.__file__).parent / "training.py").read_text()
    assert all(f"    {name}: " in training for plan in (*PLANS, *PLANS_OF_A_GPU) for name in plan.settings)


def test_few_recorded_trainings_are_unknown() -> None:
    """The share is at most a fifth with all that the stand-in for a GPU gives."""
    outcomes = [report.outcome(run.truth, run.held(with_stacks=True)) for run in RUNS]
    assert len(RUNS) >= 24
    assert outcomes.count(report.UNDECIDED) <= len(RUNS) / 5


def test_the_confusion_matrix_in_the_documents_is_that_of_the_runs() -> None:
    """`make bounds` writes it."""
    assert report.tables(RUNS) in report.PAGE.read_text()
