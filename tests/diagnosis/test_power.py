"""Power tells a GPU that computes from one whose kernels wait: what use cannot tell.

The recordings are eight GPUs whose training saved every 10, 100 and 1000 steps, and nothing else differed: 85 to 88 %
in use, and 178, 313 or 518 W (grantwilkins/training_profile at 5f999fe, folder h100-traces; only its figures).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.bounds import judge
from costguard_vm.diagnosis.power import PowerRange, not_computing, power_share
from costguard_vm.diagnosis.signals import CommandSignals, GpuSignals, HostSignals, Minute
from costguard_vm.diagnosis.window import SignalWindow, window_of
from costguard_vm.diagnosis.words import headline

BEST = PowerRange(105.0, 518.0)  # of a GPU with a context and no kernel; of the run that saved every 1000 steps
EVERY = {1000: (0.878, 518.0), 100: (0.867, 312.6), 10: (0.854, 178.4)}
OUTSIDE = Path(__file__).parents[3] / "shared" / "outside" / "gpu-samples" / "h100_checkpoint_interval.json"
SAVING = CommandSignals(main_cpu=0.2, written_bytes_per_s=3e8)
QUIET = CommandSignals(main_cpu=0.2, written_bytes_per_s=1e3)


def _window(gpu: GpuSignals, command: CommandSignals = QUIET) -> SignalWindow:
    return window_of([Minute(60.0, gpus=(gpu,), command=command, host=HostSignals())] * 5)


def _of(steps: int, **given: Any) -> GpuSignals:
    use, power = EVERY[steps]
    return GpuSignals(kernel_active=use, power_w=power, power_limit_w=700.0, **given)


def test_the_best_run_is_busy_though_its_use_alone_leaves_it_open() -> None:
    """12 % of its time no kernel runs, which alone says neither."""
    assert judge(_window(_of(1000))).bound == kinds.UNKNOWN
    assert judge(_window(_of(1000)), BEST).bound == kinds.GPU


def test_a_run_at_85_percent_use_and_18_percent_power_mostly_does_not_compute() -> None:
    """Told as saving where it writes all the time, and never as idle or healthy."""
    verdict = judge(_window(_of(10)), BEST)
    assert verdict.bound == kinds.NOT_COMPUTING
    assert verdict.why == "most of the time it does not compute: power over idle is 18% of the best run's"
    assert judge(_window(_of(10), SAVING), BEST).bound == kinds.CHECKPOINT
    assert "idle" not in headline(verdict)


def test_half_of_the_power_is_half_of_the_time() -> None:
    """Every 100 steps: neither busy nor unknown."""
    verdict = judge(_window(_of(100)), BEST)
    assert verdict.bound == kinds.NOT_COMPUTING
    assert verdict.share == pytest.approx(0.5, abs=0.01)


def test_a_gpu_is_compared_with_its_own_extremes_where_no_best_run_is_known() -> None:
    """The GPU draws what it can between two saves."""
    own = _of(10, power_least_w=112.0, power_most_w=519.0)
    assert judge(_window(own, SAVING)).bound == kinds.CHECKPOINT


@pytest.mark.parametrize(
    "gpu",
    [
        _of(10, power_least_w=160.0, power_most_w=190.0),  # it has never drawn more
        _of(10, power_least_w=112.0, power_most_w=519.0, sm_active=0.9),  # its multiprocessors work
        _of(10, power_least_w=112.0, power_most_w=519.0, dram_active=0.8),  # its memory does
        _of(10, power_least_w=112.0, power_most_w=519.0, clock_reasons={"hw_thermal": 0.9}),  # it is slowed down
        _of(10)._replace(power_w=None, power_least_w=112.0, power_most_w=519.0),
    ],
)
def test_power_blames_nothing_where_something_else_explains_it(gpu: GpuSignals) -> None:
    """Nothing to compare with, counters that say otherwise, or no power at all."""
    assert judge(_window(gpu)).bound != kinds.NOT_COMPUTING


def test_the_share_is_of_the_power_over_idle() -> None:
    """(178.4 - 105) / (518 - 105)."""
    assert power_share(178.4, BEST) == pytest.approx(0.178, abs=0.001)
    assert power_share(90.0, BEST) == 0.0
    assert power_share(600.0, BEST) == 1.0
    assert power_share(100.0, PowerRange(90.0, 110.0)) is None
    assert not_computing(0.178).startswith("most of the time it does not compute")


@pytest.mark.skipif(not OUTSIDE.exists(), reason="the recordings of GPUs lie next to this repository only")
def test_the_recorded_runs_are_told_apart() -> None:
    """Each four minutes of the recordings while they train, against the best run."""
    runs = json.loads(OUTSIDE.read_text("utf-8"))["runs"]
    best = PowerRange(runs["ckpt1000"]["no_program"]["power_mean"], runs["ckpt1000"]["training"]["power_mean"])
    said: dict[str, set[str]] = {}
    for name, run in runs.items():
        bins = [one for one in run["bins_10s"] if one["mem"] > 30_000][2:-2]  # while it trains
        windows = [bins[at : at + 24] for at in range(0, len(bins) - 23, 24)]
        for part in windows:
            use, power = (sum(one[key] for one in part) / len(part) for key in ("util", "power"))
            gpu = GpuSignals(kernel_active=use / 100, power_w=power, power_limit_w=700.0)
            said.setdefault(name, set()).add(judge(_window(gpu), best).bound)
    assert said["ckpt10"] == {kinds.NOT_COMPUTING}
    assert said["ckpt100"] <= {kinds.NOT_COMPUTING, kinds.UNKNOWN}  # one of its windows drew three quarters
    assert said["ckpt1000"] == {kinds.GPU}
