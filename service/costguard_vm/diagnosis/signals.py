"""The signals of one minute of a command on its VM, and their JSON form: the event `activity` of agent/PROTOCOL.md.

A share is a number from 0 to 1, a rate is per second, and CPU is in cores (CPU seconds per second). Every value may be
None: it could not be read there. None is never the same as 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

MOST_GPUS = 16
MOST_KINDS = 12  # reasons, places and frames of one minute
_MOST_NUMBER = 2.0**63
_MOST_TEXT = 120

# Where the main thread stands, by its stack.
LOADER = "loader"  # waits for the next batch
STORAGE = "storage"  # reads or decodes the data itself
HOST = "host"  # computes in Python, prepares or launches kernels
DEVICE = "device"  # waits for the GPU: what it has launched must end
COMMUNICATION = "communication"
CHECKPOINT = "checkpoint"
EVALUATION = "evaluation"
LOGGING = "logging"
OTHER = "other"
PLACES = (LOADER, STORAGE, HOST, DEVICE, COMMUNICATION, CHECKPOINT, EVALUATION, LOGGING, OTHER)

# What holds the clocks down (nvml.h, nvmlClocksEventReasons). A GPU without work lowers its clocks too: that is `idle`.
SLOW_REASONS = ("sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake")


class GpuSignals(NamedTuple):
    """The signals of one GPU. `uuid` is its identity; the number may change at a restart.

    `kernel_active` is the share of time in which any kernel ran. One of 132 multiprocessors in use counts as all.
    `sm_active` and those after it are shares of the hardware's cycles: NVML's GPM on Hopper and later, else DCGM.
    """

    number: float | None = None  # of the driver
    uuid: str | None = None
    name: str | None = None
    kernel_active: float | None = None
    samples: float | None = None  # of the driver, behind kernel_active
    off: float | None = None  # share of the samples in which no kernel ran at all
    longest_off_s: float | None = None  # longest stretch of such samples
    off_stretches: float | None = None  # how many there were
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    copy_active: float | None = None  # share of time in which device memory was read or written
    power_w: float | None = None
    power_least_w: float | None = None  # of all looks since the agent watches it
    power_most_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_most_mhz: float | None = None
    clock_reasons: Mapping[str, float] | None = None  # reason -> share of the looks in which it held
    pcie_in_bytes_per_s: float | None = None  # to the GPU
    pcie_out_bytes_per_s: float | None = None
    source: str | None = None  # of the values below: gpm, dcgm
    sm_active: float | None = None
    sm_occupancy: float | None = None
    tensor_active: float | None = None
    dram_active: float | None = None
    fp32_active: float | None = None
    nvlink_bytes_per_s: float | None = None  # both directions together
    processes: float | None = None  # that hold the GPU


class CommandSignals(NamedTuple):
    """The command's processes. The main threads are those of the processes that hold a GPU (one for each rank), or of
    the busiest process where no process is known to. Workers are the processes below them.
    """

    processes: float | None = None
    threads: float | None = None
    cpu: float | None = None  # cores used by all of them
    ranks: float | None = None  # how many main threads the means below are over
    main_cpu: float | None = None  # share of time that the main threads ran
    main_queue: float | None = None  # share of time that they waited for a CPU
    main_running: float | None = None  # shares of the looks: running or runnable, asleep, in D state
    main_asleep: float | None = None
    main_in_d: float | None = None
    other_cpu: float | None = None  # cores used by the other threads of the main processes
    workers: float | None = None
    workers_cpu: float | None = None  # cores used by all workers
    workers_busiest: float | None = None  # share of time that the busiest worker's threads ran
    workers_in_d: float | None = None  # share of the looks in which a worker was in D state, mean over workers
    queue: float | None = None  # run-queue wait of all threads, in seconds per second
    in_d: float | None = None  # threads in D state, mean over the looks
    read_bytes_per_s: float | None = None  # read by calls, from the page cache too (rchar)
    disk_read_bytes_per_s: float | None = None  # fetched from a block device
    written_bytes_per_s: float | None = None  # written by calls (wchar)
    disk_written_bytes_per_s: float | None = None
    memory_bytes: float | None = None  # resident, shared pages counted in each process


class HostSignals(NamedTuple):
    """The VM. Pressure is the share of time in which some, or all, tasks were held up (kernel.org, accounting/psi)."""

    cpus: float | None = None
    cpu_limit: float | None = None  # cores that the command's cgroup allows; None: no limit, or not readable
    cpu_throttled: float | None = None  # share of the cgroup's periods in which that limit held it up
    cpu: float | None = None  # cores used by all that runs there
    io_wait: float | None = None  # cores that were idle while a disk was awaited
    steal: float | None = None  # cores taken by the host for others
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    cpu_some: float | None = None
    io_some: float | None = None
    io_full: float | None = None
    memory_some: float | None = None
    memory_full: float | None = None
    disk_read_bytes_per_s: float | None = None
    disk_written_bytes_per_s: float | None = None
    disk_busy: float | None = None  # share of time that the busiest disk had a request in flight
    network_in_bytes_per_s: float | None = None
    network_out_bytes_per_s: float | None = None


class StackSignals(NamedTuple):
    """Where the main thread of the first rank stood, over some looks in this minute."""

    looks: float | None = None  # stacks that could be read
    places: Mapping[str, float] | None = None  # place of PLACES -> share of the looks
    frames: Mapping[str, float] | None = None  # innermost function of its own -> share, the most frequent
    holds_gil: float | None = None  # share of the looks in which the main thread held the interpreter's lock
    error: str | None = None  # why there are none, though they were wanted


class Minute(NamedTuple):
    """`seconds` is how long it really was. `gpus` is None where GPUs cannot be read, empty where there are none."""

    seconds: float | None = None
    looks: float | None = None  # at /proc and the GPUs
    gpus: tuple[GpuSignals, ...] | None = None
    command: CommandSignals | None = None
    host: HostSignals | None = None
    stacks: StackSignals | None = None
    agent_cpu: float | None = None  # cores that the agent itself used
    agent_memory_bytes: float | None = None


def as_json(minute: Minute) -> dict[str, Any]:
    """Returns the fields without None. Numbers to four significant digits, whole ones from 10,000 on."""
    return {name: _plain(value) for name, value in zip(minute._fields, minute) if value is not None}


def read_minute(document: object) -> Minute | None:
    """Reads an agent's minute; None where it is no object.

    Values of a wrong type or without bounds are None, as unread.
    """
    if not isinstance(document, Mapping):
        return None
    gpus = document.get("gpus")
    return _read(Minute, document)._replace(
        gpus=tuple(_read(GpuSignals, one) for one in gpus[:MOST_GPUS] if isinstance(one, Mapping))
        if isinstance(gpus, list)
        else None,
        command=_part(CommandSignals, document.get("command")),
        host=_part(HostSignals, document.get("host")),
        stacks=_part(StackSignals, document.get("stacks")),
    )


_TEXTS = frozenset({"uuid", "name", "source", "error"})
_TABLES = frozenset({"clock_reasons", "places", "frames"})
_PARTS = frozenset({"gpus", "command", "host", "stacks"})
_Part = TypeVar("_Part", GpuSignals, CommandSignals, HostSignals, StackSignals, Minute)


def _part(kind: type[_Part], document: object) -> _Part | None:
    return _read(kind, document) if isinstance(document, Mapping) else None


def _read(kind: type[_Part], document: Mapping[Any, object]) -> _Part:
    values: dict[str, Any] = {}
    for name in kind._fields:
        value = document.get(name)
        if name in _TEXTS:
            values[name] = value[:_MOST_TEXT] if isinstance(value, str) and value else None
        elif name in _TABLES:
            values[name] = _table(value)
        elif name not in _PARTS:
            values[name] = _number(value)
    return kind(**values)


def _number(value: object) -> float | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value < _MOST_NUMBER else None  # neither NaN nor infinite


def _table(value: object) -> dict[str, float] | None:
    if not isinstance(value, Mapping):
        return None
    numbers = {str(name)[:_MOST_TEXT]: _number(share) for name, share in list(value.items())[:MOST_KINDS]}
    return {name: share for name, share in numbers.items() if share is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return round(value) if value >= 10_000 else float(f"{value:.4g}")
    if isinstance(value, Mapping):
        return {name: _plain(share) for name, share in value.items()}
    if hasattr(value, "_fields"):
        return {name: _plain(one) for name, one in zip(value._fields, value) if one is not None}
    return [_plain(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else value
