"""What bounds a run: the rule. Pure: a window of signals in, a verdict with its share and three numbers out.

It rests on one observation: a GPU that waits is waiting for something, and the main thread's stack, or failing that
where the CPU time goes, says for what. A busy CPU is not required: one loading thread that starves an H100 uses 6 % of
16 vCPUs. A busy GPU is not enough: one multiprocessor in use reads as all. What cannot be read gives "unknown".

The thresholds are measured: docs/diagnosis.md has the table and says which half of the runs chose them. Those of the
GPU's own counters are taken from NVIDIA's DCGM guide (feature overview, profiling metrics: SM active below 0.5 is
ineffective, above 0.8 needed; DRAM's practical peak about 0.8) until runs on a GPU have measured them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from costguard.diagnosis import signals
from costguard.diagnosis.window import SignalWindow

INPUT, HOST, INPUT_OR_HOST = "input", "host", "input or host"
COMMUNICATION, CHECKPOINT, EVALUATION = "communication", "checkpoint", "evaluation"
MEMORY_CAPACITY, MEMORY_BANDWIDTH, THROTTLED = "memory capacity", "memory bandwidth", "throttled"
COMPUTE, GPU, UNKNOWN = "compute", "gpu", "unknown"
BOUNDS = (
    *(INPUT, HOST, INPUT_OR_HOST, COMMUNICATION, CHECKPOINT, EVALUATION, MEMORY_CAPACITY, MEMORY_BANDWIDTH),
    *(THROTTLED, COMPUTE, GPU, UNKNOWN),
)
WAITS = frozenset({INPUT, HOST, INPUT_OR_HOST, COMMUNICATION, CHECKPOINT, EVALUATION})  # of these the GPU waits

# Causes: of input, of host, of compute, of throttled.
STORAGE, PROCESSORS, WORKERS, NETWORK = "storage", "processors", "workers", "network"
PYTHON, LAUNCHES = "python", "launches"
TENSOR, FP32, UNDERFILLED, MIXED = "tensor cores", "no tensor cores", "small kernels", "mixed"
HEAT, POWER = "heat", "power"

_BUSY, _STARVED = 0.10, 0.20  # of the time without a kernel: up to this it is busy, from this on it is starved
_MOST = 0.5  # of the main thread's waiting, to name what it waits for
_IN_D, _IO_FULL = 0.25, 0.10
_QUEUED = 0.25  # of the time that threads want to run
_AT_WORK = 0.2  # of a reader's time: with less it hardly wants a CPU
_NO_CPU_LEFT, _MOSTLY_FULL = 0.92, 0.75
_SAVES_IN_D = 0.1
_THROTTLED_GROUP = 0.20
_READ_AFAR = 20e6  # bytes per second from the network
_WRITES = 10e6  # bytes per second by calls, on average, of a run that saves all the time
_LONG_OFF_S = 1.0
_FULL_MEMORY, _FEW_SMS = 0.92, 0.5
_DRAM, _DRAM_BELOW_SM = 0.6, 0.1
_TENSOR, _NO_TENSOR, _MANY_SMS = 0.3, 0.1, 0.6
_LINK, _PCIE = 30e9, 8e9  # bytes per second; half of what one direction of PCIe 4.0 x16 carries
_SLOW_CLOCK, _SLOWED = 0.8, 0.2


class Number(NamedTuple):
    """One of the numbers that a verdict rests on."""

    name: str
    value: float
    unit: str  # share, cores, count, bytes_per_s, looks


class BoundVerdict(NamedTuple):
    """`share` is of the time that the bound costs, or in which it held; `why` says what is missing or seen."""

    bound: str
    cause: str | None
    share: float | None
    numbers: tuple[Number, ...]
    why: str


def judge(window: SignalWindow) -> BoundVerdict:
    """Of one window. The first that applies."""
    gpu = window.gpu
    if window.gpus == 0:
        return BoundVerdict(UNKNOWN, None, None, (), "the VM has no GPU")
    if gpu is None or gpu.kernel_active is None:
        return BoundVerdict(UNKNOWN, None, None, (), "whether the GPU works cannot be read")
    waits = max(0.0, 1.0 - gpu.kernel_active)
    if waits >= _STARVED:
        return _starved(window, waits)
    if waits > _BUSY:
        numbers = _some(Number("without a kernel", waits, "share"))
        return BoundVerdict(
            UNKNOWN, None, waits, numbers, "the GPU waits too little to blame anything, and too much to be busy"
        )
    return _busy(window, gpu.kernel_active)


# A GPU that waits.


def _starved(window: SignalWindow, waits: float) -> BoundVerdict:
    idle = Number("without a kernel", waits, "share")
    if window.places is not None:
        bound, share = _by_stacks(window.places)
        where = Number(_WHERE[bound], share, "share")
        if bound == INPUT:
            cause, number, why = _cause_of_input(window)
            return BoundVerdict(INPUT, cause, waits, _some(idle, where, number), why)
        if bound == HOST:
            return _host(window, waits, idle, where)
        return BoundVerdict(bound, None, waits, _some(idle, where, _main_cpu(window)), _WHYS[bound])
    return _without_stacks(window, waits, idle)


_WHERE = {
    INPUT: "main thread at the data",
    HOST: "main thread in Python",
    COMMUNICATION: "main thread in communication",
    CHECKPOINT: "main thread in saving",
    EVALUATION: "main thread in evaluation",
    UNKNOWN: "main thread at one place at most",
}
_WHYS = {
    COMMUNICATION: "the main thread waits for other ranks",
    CHECKPOINT: "the main thread saves",
    EVALUATION: "the main thread evaluates",
    UNKNOWN: "the main thread waits for several things, none of which is more than half",
}
_GROUPS = {
    signals.LOADER: INPUT,
    signals.STORAGE: INPUT,
    signals.HOST: HOST,
    signals.LOGGING: HOST,
    signals.COMMUNICATION: COMMUNICATION,
    signals.CHECKPOINT: CHECKPOINT,
    signals.EVALUATION: EVALUATION,
}


def _by_stacks(places: Mapping[str, float]) -> tuple[str, float]:
    """Where the main thread stands while it does not wait for the GPU.

    A GPU that waits while its main thread waits for it has too little to do at a time: its kernels are small.
    """
    shares: dict[str, float] = {}
    for place, share in places.items():
        if place in _GROUPS:
            shares[_GROUPS[place]] = shares.get(_GROUPS[place], 0.0) + share
    waiting = 1.0 - places.get(signals.DEVICE, 0.0)
    if waiting < 1.0 - _BUSY - _MOST and sum(shares.values()) < _STARVED:
        return HOST, places.get(signals.DEVICE, 0.0)
    bound = max(shares, key=lambda one: shares[one], default=UNKNOWN)
    if bound == UNKNOWN or shares[bound] < _MOST * waiting:
        return UNKNOWN, shares.get(bound, 0.0)
    return bound, shares[bound]


def _without_stacks(window: SignalWindow, waits: float, idle: Number) -> BoundVerdict:
    """By where the CPU time goes. It tells input from host only where loader workers are seen, at work or not."""
    command, gpu = window.command, window.gpu
    main, asleep, workers = command.main_cpu, command.main_asleep, command.workers
    if main is None:
        return BoundVerdict(UNKNOWN, None, waits, (idle,), "what the command's threads do cannot be read")
    off_s = gpu.longest_off_s if gpu is not None else None
    if _saves(window) and ((command.main_in_d or 0.0) >= _SAVES_IN_D or (off_s or 0.0) >= _LONG_OFF_S):
        written = Number("written", command.written_bytes_per_s or 0.0, "bytes_per_s")
        return BoundVerdict(
            CHECKPOINT,
            None,
            waits,
            (idle, written, Number("main thread runs", main, "share")),
            "it writes all the time",
        )
    busy = Number("main thread runs", main, "share")
    if not workers:
        why = "without the main thread's stacks, reading data and other work of the main thread look alike"
        return BoundVerdict(
            INPUT_OR_HOST, None, waits, _some(idle, busy, Number("loader workers", workers or 0.0, "count")), why
        )
    # Asleep for longer than the GPU works, it waits for something else: its workers, or other ranks.
    waits_for_others = (asleep or 0.0) - (1.0 - waits) >= _MOST * waits and (command.ranks or 1.0) <= 1.0
    if waits_for_others or (_workers_work(window) and (asleep or 0.0) > main):
        cause, number, why = _cause_of_input(window)
        return BoundVerdict(INPUT, cause, waits, _some(idle, busy, number), why)
    if main >= _MOST and not _workers_work(window):
        rest = Number("of the workers' time used", _each_worker(window) or 0.0, "share")
        return BoundVerdict(
            HOST, PYTHON, waits, (idle, busy, rest), "the loader's workers are idle, and the main thread is not"
        )
    why = "without the main thread's stacks, input and host look alike here"
    return BoundVerdict(INPUT_OR_HOST, None, waits, _some(idle, busy, _each(window)), why)


def _saves(window: SignalWindow) -> bool:
    command = window.command
    written, received = command.written_bytes_per_s, window.host.network_in_bytes_per_s
    got = (command.read_bytes_per_s or 0.0) + (received or 0.0)
    return written is not None and written >= _WRITES and written > got


def _host(window: SignalWindow, waits: float, idle: Number, where: Number) -> BoundVerdict:
    main, queue = window.command.main_cpu, window.command.main_queue
    places = window.places or {}
    if places.get(signals.HOST, 0.0) + places.get(signals.LOGGING, 0.0) < _MOST * waits:
        return BoundVerdict(
            HOST, LAUNCHES, waits, _some(idle, where, _main_cpu(window)), "the main thread waits for small kernels"
        )
    if main is not None and main + (queue or 0.0) < _STARVED:
        why = "the main thread stands in Python, but hardly runs: it may wait for a lock or another process"
        return BoundVerdict(UNKNOWN, None, waits, _some(idle, where, _main_cpu(window)), why)
    return BoundVerdict(HOST, PYTHON, waits, _some(idle, where, _main_cpu(window)), "the main thread itself is at work")


def _main_cpu(window: SignalWindow) -> Number | None:
    main = window.command.main_cpu
    return None if main is None else Number("main thread runs", main, "share")


def _cause_of_input(window: SignalWindow) -> tuple[str | None, Number | None, str]:
    """Why the data comes late, and the number that says so."""
    command, host = window.command, window.host
    in_d = command.workers_in_d if command.workers else command.main_in_d
    if in_d is not None and in_d >= _IN_D:
        return STORAGE, Number("readers wait for the disk", in_d, "share"), "what reads the data waits for the disk"
    if host.io_full is not None and host.io_full >= _IO_FULL:
        return STORAGE, Number("all tasks wait for the disk", host.io_full, "share"), "the VM waits for its disk"
    readers = _each_worker(window) if command.workers else command.main_cpu
    if readers is None:
        return None, None, "what reads the data cannot be seen"
    if readers < _MOST and (host.network_in_bytes_per_s or 0.0) >= _READ_AFAR and _is_afar(window):
        received = Number("received", host.network_in_bytes_per_s or 0.0, "bytes_per_s")
        return NETWORK, received, "the data comes over the network, and its readers sleep meanwhile"
    cpus = _allowed(window)
    is_full = cpus is None or host.cpu is None or host.cpu >= _MOSTLY_FULL * cpus
    queued = _queued(window) if readers >= _AT_WORK and is_full else None
    if queued is not None and queued >= _QUEUED:
        return PROCESSORS, Number("threads wait for a CPU", queued, "share"), "there are more readers than free vCPUs"
    if host.cpu_throttled is not None and host.cpu_throttled >= _THROTTLED_GROUP:
        return (
            PROCESSORS,
            Number("held up by its CPU limit", host.cpu_throttled, "share"),
            "its container may not use more CPU",
        )
    if readers >= _AT_WORK and cpus is not None and host.cpu is not None and host.cpu >= _NO_CPU_LEFT * cpus:
        return PROCESSORS, Number("vCPUs used", host.cpu, "cores"), "all vCPUs are in use"
    used = command.cpu if command.cpu is not None else host.cpu
    number = None if used is None else Number("vCPUs used", used, "cores")
    return WORKERS, number, "vCPUs are free, and more readers would use them"


def _is_afar(window: SignalWindow) -> bool:
    """Whether more comes over the network than from a disk."""
    disk = window.command.disk_read_bytes_per_s
    return (window.host.network_in_bytes_per_s or 0.0) > 2 * (disk or 0.0)


def _queued(window: SignalWindow) -> float | None:
    """Share of the time in which the command's threads wanted to run and had no CPU."""
    cpu, queue = window.command.cpu, window.command.queue
    return None if cpu is None or queue is None or cpu + queue <= 0 else queue / (cpu + queue)


def _allowed(window: SignalWindow) -> float | None:
    limits = [one for one in (window.host.cpus, window.host.cpu_limit) if one]
    return min(limits) if limits else None


def _each_worker(window: SignalWindow) -> float | None:
    command = window.command
    return command.workers_cpu / command.workers if command.workers and command.workers_cpu is not None else None


def _each(window: SignalWindow) -> Number | None:
    used = _each_worker(window)
    return None if used is None else Number("of the workers' time used", used, "share")


def _workers_work(window: SignalWindow) -> bool:
    """Whether the loader's workers are at work or wait for their storage: idle ones have filled the queue."""
    busiest, in_d = window.command.workers_busiest, window.command.workers_in_d
    return (busiest or 0.0) >= _MOST or (in_d or 0.0) >= _IN_D or (_each_worker(window) or 0.0) >= _MOST


# A GPU that is busy.


def _busy(window: SignalWindow, active: float) -> BoundVerdict:
    gpu, working = window.gpu, Number("a kernel runs", active, "share")
    assert gpu is not None
    sm, dram, tensor = gpu.sm_active, gpu.dram_active, gpu.tensor_active
    memory = (
        None
        if not gpu.memory_total_bytes or gpu.memory_used_bytes is None
        else gpu.memory_used_bytes / gpu.memory_total_bytes
    )
    if (slowed := _slowed(window)) is not None:
        return slowed
    if sm is None:
        why = "what limits the GPU itself cannot be read: it has no counters for it, and DCGM is not installed"
        power = (
            None
            if not gpu.power_limit_w or gpu.power_w is None
            else Number("of its power limit", gpu.power_w / gpu.power_limit_w, "share")
        )
        return BoundVerdict(GPU, None, active, _some(working, _memory(memory), power), why)
    sms = Number("multiprocessors active", sm, "share")
    if memory is not None and memory > _FULL_MEMORY and sm < _FEW_SMS:
        return BoundVerdict(
            MEMORY_CAPACITY,
            None,
            1 - sm,
            _some(_memory(memory), sms, working),
            "its memory is full, and its batch cannot grow",
        )
    if sm < _FEW_SMS and (link := _link(window)) is not None:
        return BoundVerdict(
            COMMUNICATION, None, 1 - sm, _some(link, sms, working), "data moves between GPUs, and little is computed"
        )
    if dram is not None and dram >= _DRAM and dram >= sm - _DRAM_BELOW_SM:
        return BoundVerdict(
            MEMORY_BANDWIDTH,
            None,
            dram,
            _some(Number("memory active", dram, "share"), sms, _tensor(tensor)),
            "its memory is as busy as its multiprocessors",
        )
    if sm < _FEW_SMS:
        return BoundVerdict(
            COMPUTE,
            UNDERFILLED,
            1 - sm,
            _some(sms, working, _memory(memory)),
            "its kernels are too small to fill the GPU",
        )
    cause, why = _tensor_use(tensor, sm)
    return BoundVerdict(COMPUTE, cause, sm, _some(sms, _tensor(tensor), working), why)


def _tensor_use(tensor: float | None, sm: float) -> tuple[str | None, str]:
    if tensor is None:
        return None, "whether its tensor cores are used cannot be read"
    if tensor >= _TENSOR:
        return TENSOR, "it computes at the hardware's pace"
    if tensor < _NO_TENSOR and sm >= _MANY_SMS:
        return FP32, "it computes without tensor cores"
    return MIXED, "it computes, in part on tensor cores"


def _slowed(window: SignalWindow) -> BoundVerdict | None:
    """Heat and the power brake always cost; the power cap is how a busy GPU runs, unless its clocks are far down."""
    reasons, gpu = window.clock_reasons, window.gpu
    assert gpu is not None
    clock = None if not gpu.sm_clock_most_mhz or gpu.sm_clock_mhz is None else gpu.sm_clock_mhz / gpu.sm_clock_most_mhz
    at = None if clock is None else Number("of its highest clock", clock, "share")
    for reason, cause, why in (
        ("sw_thermal", HEAT, "it is too hot for its clocks"),
        ("hw_thermal", HEAT, "it is too hot for its clocks"),
        ("hw_power_brake", POWER, "its server limits its power"),
        ("hw_slowdown", POWER, "its hardware slows it down"),
    ):
        held = reasons.get(reason, 0.0)
        if held >= _SLOWED:
            number = Number(reason.replace("_", " "), held, "share")
            return BoundVerdict(THROTTLED, cause, held, _some(number, at, _watts(window)), why)
    capped = reasons.get("sw_power_cap", 0.0)
    if capped >= _MOST and clock is not None and clock < _SLOW_CLOCK:
        number = Number("sw power cap", capped, "share")
        return BoundVerdict(
            THROTTLED, POWER, 1 - clock, _some(number, at, _watts(window)), "its power limit holds its clocks down"
        )
    return None


def _link(window: SignalWindow) -> Number | None:
    gpu = window.gpu
    assert gpu is not None
    pcie = max(gpu.pcie_in_bytes_per_s or 0.0, gpu.pcie_out_bytes_per_s or 0.0)
    if (gpu.nvlink_bytes_per_s or 0.0) >= _LINK:
        return Number("over NVLink", gpu.nvlink_bytes_per_s or 0.0, "bytes_per_s")
    return Number("over PCIe", pcie, "bytes_per_s") if pcie >= _PCIE else None


def _memory(share: float | None) -> Number | None:
    return None if share is None else Number("of its memory used", share, "share")


def _tensor(share: float | None) -> Number | None:
    return None if share is None else Number("tensor cores active", share, "share")


def _watts(window: SignalWindow) -> Number | None:
    gpu = window.gpu
    if gpu is None or not gpu.power_limit_w or gpu.power_w is None:
        return None
    return Number("of its power limit", gpu.power_w / gpu.power_limit_w, "share")


def _some(*numbers: Number | None) -> tuple[Number, ...]:
    return tuple(one for one in numbers if one is not None)
