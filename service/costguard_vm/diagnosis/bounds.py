"""The rule that finds the bottleneck of a run. Pure: a window of signals in, a verdict with its share and three numbers
out.

It rests on one observation: a GPU that waits is waiting for something, and the main thread's stack, or failing that
where the CPU time goes, says for what. A busy CPU is not required: one loading thread that starves an H100 uses 6 % of
16 vCPUs. A busy GPU is not enough: one multiprocessor in use reads as all. What cannot be read gives "unknown".

The thresholds are measured: docs/diagnosis.md has the table and says which half of the runs chose them. Those of the
GPU's own counters are taken from NVIDIA's DCGM guide (feature overview, profiling metrics: SM active below 0.5 is
ineffective, above 0.8 needed; DRAM's practical peak about 0.8) until runs on a GPU have measured them.
"""

from __future__ import annotations

from collections.abc import Mapping

from costguard_vm.diagnosis import signals
from costguard_vm.diagnosis.kinds import (
    CHECKPOINT,
    COMMUNICATION,
    COMPUTE,
    EVALUATION,
    FP32,
    GPU,
    HEAT,
    HOST,
    INPUT,
    INPUT_OR_HOST,
    LAUNCHES,
    MEMORY_BANDWIDTH,
    MEMORY_CAPACITY,
    MIXED,
    NOT_COMPUTING,
    POWER,
    PYTHON,
    TENSOR,
    THROTTLED,
    UNDERFILLED,
    UNKNOWN,
    BoundVerdict,
    Number,
    some,
)
from costguard_vm.diagnosis.late_data import IN_D, MOST, cause_of_input, each, each_worker
from costguard_vm.diagnosis.power import HIGH, LOW, PowerRange, not_computing, power_share
from costguard_vm.diagnosis.window import SignalWindow

_BUSY, _STARVED = 0.10, 0.20  # of the time without a kernel: up to this it is busy, from this on it is starved
_SAVES_IN_D = 0.1
_SAVES_SEEN = 0.2  # of the stacks
_WRITES = 10e6  # bytes per second by calls, on average, of a run that saves all the time
_LONG_OFF_S = 1.0
_FULL_MEMORY, _FEW_SMS = 0.92, 0.5
_DRAM, _DRAM_BELOW_SM, _DRAM_PEAK = 0.6, 0.1, 0.8
_TENSOR, _NO_TENSOR, _MANY_SMS = 0.3, 0.1, 0.6
_LINK, _PCIE = 30e9, 8e9  # bytes per second; half of what one direction of PCIe 4.0 x16 carries
_SLOW_CLOCK, _SLOWED = 0.5, 0.2  # an H100 at its limit of 700 W multiplies at 0.71 of its highest clock


def judge(window: SignalWindow, best: PowerRange | None = None) -> BoundVerdict:
    """Judges one window, by the first rule that applies.

    `best` is the power of the best run; without it the GPU's own extremes.
    """
    gpu = window.gpu
    if window.gpus == 0:
        return BoundVerdict(UNKNOWN, None, None, (), "the VM has no GPU")
    if gpu is None or gpu.kernel_active is None:
        return BoundVerdict(UNKNOWN, None, None, (), "whether the GPU works cannot be read")
    waits = max(0.0, 1.0 - gpu.kernel_active)
    if waits >= _STARVED:
        return _starved(window, waits)
    power = _power(window, best)
    if power is not None and power < LOW and (unused := _not_computing(window, gpu.kernel_active, power)) is not None:
        return unused
    if waits > _BUSY and (power is None or power < HIGH):
        numbers = some(Number("without a kernel", waits, "share"))
        return BoundVerdict(
            UNKNOWN, None, waits, numbers, "the GPU waits too little to blame anything, and too much to be busy"
        )
    return _busy(window, gpu.kernel_active)


# A GPU whose power says more than its use.


def _power(window: SignalWindow, best: PowerRange | None) -> float | None:
    gpu = window.gpu
    if gpu is None:
        return None
    own = (gpu.power_least_w, gpu.power_most_w)
    if best is None and own[0] is not None and own[1] is not None:
        best = PowerRange(own[0], own[1])
    return power_share(gpu.power_w, best, gpu.power_limit_w)


def _not_computing(window: SignalWindow, active: float, power: float) -> BoundVerdict | None:
    """Kernels that wait, or hardly compute. None where the clocks or the multiprocessors say otherwise."""
    gpu, places = window.gpu, window.places or {}
    assert gpu is not None
    if (gpu.sm_active or 0.0) >= _FEW_SMS or (gpu.dram_active or 0.0) >= _DRAM or _slowed(window) is not None:
        return None
    numbers = (Number("of the best power over idle", power, "share"), Number("a kernel runs", active, "share"))
    bound, share = _by_stacks(places)
    if bound not in (CHECKPOINT, COMMUNICATION, EVALUATION):
        bound, share = (CHECKPOINT, 0.0) if _saves(window) else (NOT_COMPUTING, 0.0)
    where = Number(_WHERE[bound], share, "share") if share else None
    if where is None and bound == CHECKPOINT:
        where = Number("written", window.command.written_bytes_per_s or 0.0, "bytes_per_s")
    return BoundVerdict(bound, None, 1 - power, some(*numbers, where), not_computing(power))


# A GPU that waits.


def _starved(window: SignalWindow, waits: float) -> BoundVerdict:
    idle = Number("without a kernel", waits, "share")
    if window.places is not None:
        bound, share = _by_stacks(window.places)
        saving = window.places.get(signals.CHECKPOINT, 0.0)
        if bound in (HOST, UNKNOWN) and saving >= _SAVES_SEEN and _saves_all_the_time(window):
            bound, share = CHECKPOINT, saving  # Python between two saves prepares what is saved
        where = Number(_WHERE[bound], share, "share")
        if bound == INPUT:
            cause, number, why = cause_of_input(window)
            return BoundVerdict(INPUT, cause, waits, some(idle, where, number), why)
        if bound == HOST:
            return _host(window, waits, idle, where)
        return BoundVerdict(bound, None, waits, some(idle, where, _main_cpu(window)), _WHYS[bound])
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
    """Returns where the main thread stands while it does not wait for the GPU.

    A GPU that waits while its main thread waits for it has too little to do at a time: its kernels are small.
    """
    shares: dict[str, float] = {}
    for place, share in places.items():
        if place in _GROUPS:
            shares[_GROUPS[place]] = shares.get(_GROUPS[place], 0.0) + share
    waiting = 1.0 - places.get(signals.DEVICE, 0.0)
    if waiting < 1.0 - _BUSY - MOST and sum(shares.values()) < _STARVED:
        return HOST, places.get(signals.DEVICE, 0.0)
    bound = max(shares, key=lambda one: shares[one], default=UNKNOWN)
    if bound == UNKNOWN or shares[bound] < MOST * waiting:
        return UNKNOWN, shares.get(bound, 0.0)
    return bound, shares[bound]


def _without_stacks(window: SignalWindow, waits: float, idle: Number) -> BoundVerdict:
    """Judges by where the CPU time goes.

    It tells input from host only where loader workers are seen, at work or not.
    """
    command = window.command
    main, asleep, workers = command.main_cpu, command.main_asleep, command.workers
    if main is None:
        return BoundVerdict(UNKNOWN, None, waits, (idle,), "what the command's threads do cannot be read")
    if _saves_all_the_time(window):
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
            INPUT_OR_HOST, None, waits, some(idle, busy, Number("loader workers", workers or 0.0, "count")), why
        )
    # Asleep for longer than the GPU works, it waits for something else: its workers, or other ranks.
    waits_for_others = (asleep or 0.0) - (1.0 - waits) >= MOST * waits and (command.ranks or 1.0) <= 1.0
    if waits_for_others or (_workers_work(window) and (asleep or 0.0) > main):
        cause, number, why = cause_of_input(window)
        return BoundVerdict(INPUT, cause, waits, some(idle, busy, number), why)
    if main >= MOST and not _workers_work(window):
        rest = Number("of the workers' time used", each_worker(window) or 0.0, "share")
        return BoundVerdict(
            HOST, PYTHON, waits, (idle, busy, rest), "the loader's workers are idle, and the main thread is not"
        )
    why = "without the main thread's stacks, input and host look alike here"
    return BoundVerdict(INPUT_OR_HOST, None, waits, some(idle, busy, each(window)), why)


def _saves_all_the_time(window: SignalWindow) -> bool:
    """It writes much, and its main thread waits for the disk or leaves the GPU alone for long."""
    off_s = window.gpu.longest_off_s if window.gpu is not None else None
    in_d = window.command.main_in_d
    return _saves(window) and ((in_d or 0.0) >= _SAVES_IN_D or (off_s or 0.0) >= _LONG_OFF_S)


def _saves(window: SignalWindow) -> bool:
    command = window.command
    written, received = command.written_bytes_per_s, window.host.network_in_bytes_per_s
    got = (command.read_bytes_per_s or 0.0) + (received or 0.0)
    return written is not None and written >= _WRITES and written > got


def _host(window: SignalWindow, waits: float, idle: Number, where: Number) -> BoundVerdict:
    main, queue = window.command.main_cpu, window.command.main_queue
    places = window.places or {}
    if places.get(signals.HOST, 0.0) + places.get(signals.LOGGING, 0.0) < MOST * waits:
        return BoundVerdict(
            HOST, LAUNCHES, waits, some(idle, where, _main_cpu(window)), "the main thread waits for small kernels"
        )
    if main is not None and main + (queue or 0.0) < _STARVED:
        why = "the main thread stands in Python, but hardly runs: it may wait for a lock or another process"
        return BoundVerdict(UNKNOWN, None, waits, some(idle, where, _main_cpu(window)), why)
    return BoundVerdict(HOST, PYTHON, waits, some(idle, where, _main_cpu(window)), "the main thread itself is at work")


def _main_cpu(window: SignalWindow) -> Number | None:
    main = window.command.main_cpu
    return None if main is None else Number("main thread runs", main, "share")


def _workers_work(window: SignalWindow) -> bool:
    """Says whether the loader's workers are at work or wait for their storage: idle ones have filled the queue."""
    busiest, in_d = window.command.workers_busiest, window.command.workers_in_d
    return (busiest or 0.0) >= MOST or (in_d or 0.0) >= IN_D or (each_worker(window) or 0.0) >= MOST


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
        return BoundVerdict(GPU, None, active, some(working, _memory(memory), power), why)
    sms = Number("multiprocessors active", sm, "share")
    if memory is not None and memory > _FULL_MEMORY and sm < _FEW_SMS:
        return BoundVerdict(
            MEMORY_CAPACITY,
            None,
            1 - sm,
            some(_memory(memory), sms, working),
            "its memory is full, and its batch cannot grow",
        )
    if sm < _FEW_SMS and (link := _link(window)) is not None:
        return BoundVerdict(
            COMMUNICATION, None, 1 - sm, some(link, sms, working), "data moves between GPUs, and little is computed"
        )
    if dram is not None and dram >= _DRAM and dram >= min(_DRAM_PEAK, sm - _DRAM_BELOW_SM):
        return BoundVerdict(
            MEMORY_BANDWIDTH,
            None,
            dram,
            some(Number("memory active", dram, "share"), sms, _tensor(tensor)),
            "its memory is as busy as its multiprocessors",
        )
    if sm < _FEW_SMS:
        return BoundVerdict(
            COMPUTE,
            UNDERFILLED,
            1 - sm,
            some(sms, working, _memory(memory)),
            "its kernels are too small to fill the GPU",
        )
    cause, why = _tensor_use(tensor, sm)
    return BoundVerdict(COMPUTE, cause, sm, some(sms, _tensor(tensor), working), why)


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
            return BoundVerdict(THROTTLED, cause, held, some(number, at, _watts(window)), why)
    capped = reasons.get("sw_power_cap", 0.0)
    if capped >= MOST and clock is not None and clock < _SLOW_CLOCK:
        number = Number("sw power cap", capped, "share")
        return BoundVerdict(
            THROTTLED, POWER, 1 - clock, some(number, at, _watts(window)), "its power limit holds its clocks down"
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
