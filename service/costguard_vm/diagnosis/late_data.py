"""Finds out why a run's data comes late: its storage, the network, too few CPUs, or too few workers. Pure."""

from __future__ import annotations

from costguard_vm.diagnosis.kinds import NETWORK, PROCESSORS, STORAGE, WORKERS, Number
from costguard_vm.diagnosis.window import SignalWindow

MOST = 0.5  # of the main thread's waiting, to name what it waits for
IN_D, _IO_FULL = 0.25, 0.10  # of the time in which tasks wait for the disk
_QUEUED = 0.25  # of the time that threads want to run
_AT_WORK = 0.2  # of a reader's time: with less it hardly wants a CPU
_NO_CPU_LEFT, _MOSTLY_FULL = 0.92, 0.75
_THROTTLED_GROUP = 0.20
_READ_AFAR = 20e6  # bytes per second from the network


def cause_of_input(window: SignalWindow) -> tuple[str | None, Number | None, str]:
    """Returns the reason why the data comes late, and the number that shows it."""
    command, host = window.command, window.host
    in_d = command.workers_in_d if command.workers else command.main_in_d
    if in_d is not None and in_d >= IN_D:
        return STORAGE, Number("readers wait for the disk", in_d, "share"), "what reads the data waits for the disk"
    if host.io_full is not None and host.io_full >= _IO_FULL:
        return STORAGE, Number("all tasks wait for the disk", host.io_full, "share"), "the VM waits for its disk"
    readers = each_worker(window) if command.workers else command.main_cpu
    if readers is None:
        return None, None, "what reads the data cannot be seen"
    if readers < MOST and (host.network_in_bytes_per_s or 0.0) >= _READ_AFAR and _is_afar(window):
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
    """Says whether more comes over the network than from a disk."""
    disk = window.command.disk_read_bytes_per_s
    return (window.host.network_in_bytes_per_s or 0.0) > 2 * (disk or 0.0)


def _queued(window: SignalWindow) -> float | None:
    """Share of the time in which the command's threads wanted to run and had no CPU."""
    cpu, queue = window.command.cpu, window.command.queue
    return None if cpu is None or queue is None or cpu + queue <= 0 else queue / (cpu + queue)


def _allowed(window: SignalWindow) -> float | None:
    limits = [one for one in (window.host.cpus, window.host.cpu_limit) if one]
    return min(limits) if limits else None


def each_worker(window: SignalWindow) -> float | None:
    command = window.command
    return command.workers_cpu / command.workers if command.workers and command.workers_cpu is not None else None


def each(window: SignalWindow) -> Number | None:
    used = each_worker(window)
    return None if used is None else Number("of the workers' time used", used, "share")
