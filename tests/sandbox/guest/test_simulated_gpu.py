"""A simulated GPU: what a training counts on it is what the agent reads, through its own binding."""

from __future__ import annotations

from pathlib import Path

import pytest

from costguard_sandbox.guest import nvml
from costguard_sandbox.scenarios.training import SimulatedGpu
from costguard_vm.agent.watch.gpu_watch import WatchedGpu
from costguard_vm.agent.watch.nvml import STAND_IN, Nvml


def test_an_agent_reads_what_a_training_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is idle before the training and after it, busy meanwhile; what is not simulated stays unread."""
    used = tmp_path / "gpu-seconds"
    monkeypatch.setenv(STAND_IN, nvml.__file__)
    monkeypatch.setenv("COSTGUARD_GPUS", f"Tesla T4|2|{used}")
    library = Nvml.load()
    assert library is not None
    first, _ = library.devices()
    gpu = WatchedGpu(library, 0, first)
    gpu.look()
    SimulatedGpu(str(used)).ran(1e6)  # more than can have passed
    gpu.look()
    gpu.look()
    shown = gpu.report({})
    assert shown.name == "Tesla T4"
    assert shown.kernel_active == pytest.approx(1 / 3)
    assert (shown.power_w, shown.sm_active, shown.memory_total_bytes) == (None, None, None)
