"""The agent's binding of NVIDIA's library, against NVIDIA's own binding and over its memory layouts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from ctypes import sizeof

import pynvml
import pytest
from tests.agent.fake_nvml import FakeGpu, FakeNvml
from tests.waiting import until

from costguard_vm.agent.watch import nvml
from costguard_vm.agent.watch.gpu_watch import GpuWatch, WatchedGpu
from costguard_vm.agent.watch.nvml import Nvml

BUSY = FakeGpu(
    samples=[(1_000_000, 90), (1_200_000, 0), (1_400_000, 0), (1_600_000, 30)],
    rates=(30, 12),
    memory=(33 << 30, 80 << 30),
    numbers={
        "nvmlDeviceGetPowerUsage": 412_345,
        "nvmlDeviceGetEnforcedPowerLimit": 700_000,
        "nvmlDeviceGetTemperature 0": 61,
        "nvmlDeviceGetClockInfo 1": 1755,
        "nvmlDeviceGetMaxClockInfo 1": 1980,
        "nvmlDeviceGetPcieThroughput 1": 2_500_000,
        "nvmlDeviceGetPcieThroughput 0": 12_000,
    },
    reasons=0x4 | 0x20,
    pids=[4021, 4022],
    gpm={2: 61.5, 3: 22.0, 5: 18.25, 10: 55.0, 12: 7.5, 60: 100.0, 61: 50.0},
)
BARE = FakeGpu(samples=None, rates=None, memory=None, reasons=None, pids=None)


@pytest.fixture
def theirs() -> Iterator[FakeNvml]:
    """NVIDIA's binding, over the same library."""
    library = FakeNvml([BUSY])
    pynvml.nvmlLib = library
    pynvml.nvmlInit()
    yield library
    pynvml.nvmlLib = None
    pynvml._nvmlGetFunctionPointer_cache.clear()


def watched(gpu: FakeGpu) -> WatchedGpu:
    library = Nvml(FakeNvml([gpu]))
    return WatchedGpu(library, 0, library.devices()[0])


def test_both_bindings_read_the_same(theirs: FakeNvml) -> None:
    """A wrong offset or a wrong number of ours would read another value than NVIDIA's own code."""
    ours, mine = Nvml(theirs), pynvml.nvmlDeviceGetHandleByIndex(0)
    device = ours.devices()[0]

    _, samples = pynvml.nvmlDeviceGetSamples(mine, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 1_100_000)
    rates, memory = pynvml.nvmlDeviceGetUtilizationRates(mine), pynvml.nvmlDeviceGetMemoryInfo(mine)

    assert ours.samples(device, 1_100_000) == [(s.timeStamp, s.sampleValue.uiVal / 100) for s in samples]
    assert ours.utilisation(device) == (rates.gpu / 100, rates.memory / 100)
    assert ours.memory(device) == (memory.used, memory.total)
    assert ours.processes(device) == [one.pid for one in pynvml.nvmlDeviceGetComputeRunningProcesses(mine)]
    assert ours.clock_reasons(device) == pynvml.nvmlDeviceGetCurrentClocksEventReasons(mine)
    assert ours.text("nvmlDeviceGetName", device) == pynvml.nvmlDeviceGetName(mine)
    assert ours.number("nvmlDeviceGetPowerUsage", device) == pynvml.nvmlDeviceGetPowerUsage(mine)
    assert ours.number("nvmlDeviceGetPcieThroughput", device, nvml.PCIE_IN) == pynvml.nvmlDeviceGetPcieThroughput(
        mine, pynvml.NVML_PCIE_UTIL_RX_BYTES
    )


def test_layouts_are_nvidias() -> None:
    """Sizes, offsets and numbers as in nvidia-ml-py, which is generated with the driver's header."""
    pairs = [
        (nvml.NvmlSample, pynvml.c_nvmlSample_t),
        (nvml.Utilization, pynvml.c_nvmlUtilization_t),
        (nvml.NvmlMemory, pynvml.c_nvmlMemory_t),
        (nvml.ProcessInfo, pynvml.c_nvmlProcessInfo_v3_t),
        (nvml.GpmMetric, pynvml.c_nvmlGpmMetric_t),
        (nvml.GpmSupport, pynvml.c_nvmlGpmSupport_t),
    ]
    for ours, theirs in pairs:
        assert sizeof(ours) == sizeof(theirs)
        for name, _ in theirs._fields_:
            assert getattr(ours, name).offset == getattr(theirs, name).offset
    assert nvml.GpmMetricsGet.metrics.offset == pynvml.c_nvmlGpmMetricsGet_t.metrics.offset
    assert sizeof(nvml.GpmMetricsGet) >= sizeof(pynvml.c_nvmlGpmMetricsGet_t)
    names = ("SM_UTIL", "SM_OCCUPANCY", "ANY_TENSOR_UTIL", "DRAM_BW_UTIL", "FP32_UTIL")
    links = ("NVLINK_TOTAL_RX_PER_SEC", "NVLINK_TOTAL_TX_PER_SEC")
    assert tuple(getattr(pynvml, f"NVML_GPM_METRIC_{name}") for name in names + links) == nvml.METRICS


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("idle", "GpuIdle"),
        ("application_clocks", "ApplicationsClocksSetting"),
        ("sw_power_cap", "SwPowerCap"),
        ("hw_slowdown", "HwSlowdown"),
        ("sync_boost", "SyncBoost"),
        ("sw_thermal", "SwThermalSlowdown"),
        ("hw_thermal", "HwThermalSlowdown"),
        ("hw_power_brake", "HwPowerBrakeSlowdown"),
        ("display_clocks", "DisplayClockSetting"),
    ],
)
def test_clock_reasons_have_nvidias_bits(word: str, name: str) -> None:
    """A GPU that is called throttled is held down by the reason that is named."""
    assert nvml.CLOCK_REASONS[word] == getattr(pynvml, f"nvmlClocksEventReason{name}")


def test_a_busy_gpu_is_summed_up() -> None:
    """Shares, watts, bytes per second, and the reasons by name."""
    BUSY.samples, old = [(500_000, 100)], BUSY.samples
    gpu = watched(BUSY)
    BUSY.samples = old
    gpu.look()
    gpu._counted = 0  # the counters' next look is due
    gpu.look()

    report = gpu.report({})

    assert report.kernel_active == pytest.approx((90 + 0 + 0 + 30 + 30) / 500)
    assert report.longest_off_s == pytest.approx(0.4)
    assert report.off_stretches == 1
    assert report.memory_used_bytes == 33 << 30
    assert report.power_w == pytest.approx(412.345)
    assert report.power_limit_w == 700
    assert (report.power_least_w, report.power_most_w) == (report.power_w, report.power_w)
    assert report.pcie_in_bytes_per_s == 2.5e9
    assert report.clock_reasons == {"sw_power_cap": 1.0, "sw_thermal": 1.0}
    assert (report.source, report.sm_active, report.tensor_active) == ("gpm", 0.615, 0.1825)
    assert report.dram_active == pytest.approx(0.55)
    assert report.nvlink_bytes_per_s == 150 << 20
    assert report.processes == 2


def test_absent_values_stay_absent() -> None:
    """An unsupported value is None, never 0: a GPU that cannot be read is not idle."""
    gpu = watched(BARE)
    gpu.look()

    report = gpu.report({})

    readable = {name for name, value in zip(report._fields, report, strict=True) if value is not None}
    assert readable == {"number", "uuid", "name"}
    assert gpu.figures()["utilisation"] is None
    assert gpu.figures()["memory_used_bytes"] is None


def test_idle_gpu_without_samples_reads_zero() -> None:
    """The driver's buffer runs dry while a GPU is idle: its present utilisation counts then."""
    gpu = watched(FakeGpu(samples=[], rates=(0, 0)))
    gpu.look()
    gpu.look()

    assert gpu.report({}).kernel_active == 0.0


def test_dcgm_fills_in_where_there_is_no_gpm() -> None:
    """T4 and A100 have their counters from DCGM alone, and the report names the source."""
    gpu = watched(FakeGpu(gpm=None, rates=(80, 3)))
    gpu.look()

    report = gpu.report({"sm_active": 0.4, "dram_active": 0.2})

    assert (report.source, report.sm_active, report.dram_active) == ("dcgm", 0.4, 0.2)
    assert report.tensor_active is None


def test_lost_gpu_is_unread() -> None:
    """A GPU that fell off its bus reports nothing, instead of its last values."""
    lost = FakeGpu(rates=(50, 5))
    gpu = watched(lost)
    gpu.look()
    gpu.report({})
    lost.is_lost = True
    gpu.look()

    assert gpu.report({}).kernel_active is None
    assert gpu.figures()["utilisation"] is None


def test_older_driver_is_read() -> None:
    """Drivers before 535 have the clock reasons under their older name."""
    library = Nvml(FakeNvml([BUSY], missing=("nvmlDeviceGetCurrentClocksEventReasons", "nvmlGpmQueryDeviceSupport")))
    device = library.devices()[0]

    assert library.clock_reasons(device) == 0x24
    assert library.gpm(device) is None


def test_hanging_driver_holds_nothing_up() -> None:
    """The thread that calls it may never return; reports then say that GPUs cannot be read."""
    called, release = threading.Event(), threading.Event()

    def never() -> Nvml | None:
        called.set()
        release.wait(60)
        return None

    watch, over = GpuWatch(0.01, never), threading.Event()
    thread = threading.Thread(target=watch.watch, args=(over,), daemon=True)
    thread.start()
    assert called.wait(30)

    assert watch.report({}) is None
    assert watch.figures() is None
    over.set()
    release.set()
    thread.join(30)


def test_watch_reports_every_gpu() -> None:
    """Two GPUs, each under its number, and the processes that hold them."""
    library = FakeNvml([BUSY, FakeGpu(uuid="GPU-2", rates=(10, 1), pids=[77])])
    watch, over = GpuWatch(0.01, lambda: Nvml(library)), threading.Event()
    thread = threading.Thread(target=watch.watch, args=(over,), daemon=True)
    thread.start()
    try:
        until(lambda: watch.pids() == {4021, 4022, 77})
    finally:
        over.set()
        thread.join(30)

    report = watch.report({})

    assert report is not None
    assert [one.number for one in report] == [0, 1]
    assert [one.uuid for one in report] == [BUSY.uuid, "GPU-2"]
