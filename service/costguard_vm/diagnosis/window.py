"""Minutes of signals, put together into one window: what the rule reads. Pure.

A value is the mean over the minutes that have it, each by its length; None where less than half of the time has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from costguard_vm.diagnosis.signals import CommandSignals, GpuSignals, HostSignals, Minute, StackSignals

MINUTES = 5  # of a window
ENOUGH_S = 240.0  # of readings, for a window of five minutes that lost one
_IN_USE = 0.02  # of the time: a GPU on which less runs is not used
_LEAST_LOOKS = 20.0  # at stacks; with fewer the shares say nothing


class SignalWindow(NamedTuple):
    """`gpu` is the mean of the GPUs in use; None: none can be read. `places` are of the main thread's stacks."""

    seconds: float
    gpus: float | None
    gpus_unused: float | None
    gpu: GpuSignals | None
    command: CommandSignals
    host: HostSignals
    clock_reasons: Mapping[str, float]
    looks: float  # at stacks
    places: Mapping[str, float] | None
    frames: Mapping[str, float]
    holds_gil: float | None


def window_of(minutes: Sequence[Minute]) -> SignalWindow:
    """Makes a window of consecutive minutes of one run."""
    timed = [(one.seconds or 60.0, one) for one in minutes]
    seconds = sum(length for length, _ in timed)
    gpus = [(length, gpu) for length, one in timed for gpu in _used(one)]
    counts = [(length, (len(one.gpus), len(_used(one)))) for length, one in timed if one.gpus is not None]
    some = max((count for _, count in counts), default=None)
    looks = sum(one.stacks.looks or 0.0 for one in minutes if one.stacks is not None)
    return SignalWindow(
        seconds=seconds,
        gpus=None if some is None else float(some[0]),
        gpus_unused=None if some is None else float(some[0] - some[1]),
        gpu=_gpu(gpus, seconds * max(1, some[1] if some else 1)),
        command=_weighted_means(CommandSignals, ((length, one.command) for length, one in timed), seconds),
        host=_weighted_means(HostSignals, ((length, one.host) for length, one in timed), seconds),
        clock_reasons=_shares([(length, gpu.clock_reasons) for length, gpu in gpus]),
        looks=looks,
        places=_stacks(minutes, "places") if looks >= _LEAST_LOOKS else None,
        frames=_stacks(minutes, "frames") if looks >= _LEAST_LOOKS else {},
        holds_gil=_holds_gil(minutes) if looks >= _LEAST_LOOKS else None,
    )


def _used(minute: Minute) -> list[GpuSignals]:
    """Returns the GPUs on which anything runs; all of them where none does, since one of them is waited for."""
    gpus = list(minute.gpus or ())
    return [gpu for gpu in gpus if gpu.kernel_active is None or gpu.kernel_active >= _IN_USE] or gpus


def _gpu(gpus: Sequence[tuple[float, GpuSignals]], seconds: float) -> GpuSignals | None:
    if not gpus:
        return None
    sources = {gpu.source for _, gpu in gpus}
    names = {gpu.name for _, gpu in gpus}
    mean: GpuSignals = _weighted_means(GpuSignals, gpus, seconds)
    return mean._replace(
        source=sources.pop() if len(sources) == 1 else None, name=names.pop() if len(names) == 1 else None
    )


def _weighted_means(kind: Callable[..., Any], parts: Iterable[tuple[float, Any]], seconds: float) -> Any:
    pairs = [(length, part) for length, part in parts if part is not None]
    values: dict[str, float | None] = {}
    for name in kind._fields:  # type: ignore[attr-defined]  # of every NamedTuple
        read = [(length, getattr(part, name)) for length, part in pairs]
        numbers = [(length, value) for length, value in read if isinstance(value, (int, float))]
        weight = sum(length for length, _ in numbers)
        if numbers and weight * 2 >= seconds:
            values[name] = sum(length * value for length, value in numbers) / weight
    return kind(**values)


def _shares(tables: Sequence[tuple[float, Mapping[str, float] | None]]) -> dict[str, float]:
    read = [(length, table) for length, table in tables if table is not None]
    weight = sum(length for length, _ in read)
    names = {name for _, table in read for name in table}
    return {name: sum(length * table.get(name, 0.0) for length, table in read) / weight for name in sorted(names)}


def _stacks(minutes: Sequence[Minute], name: str) -> dict[str, float]:
    """Returns stacks weighted by the number of looks of each minute."""
    return _shares([(part.looks or 0.0, getattr(part, name)) for part in _read_stacks(minutes)])


def _holds_gil(minutes: Sequence[Minute]) -> float | None:
    parts = [part for part in _read_stacks(minutes) if part.holds_gil is not None]
    return _shares([(part.looks or 0.0, {"gil": part.holds_gil or 0.0}) for part in parts]).get("gil")


def _read_stacks(minutes: Sequence[Minute]) -> list[StackSignals]:
    stacks = [one.stacks for one in minutes if one.stacks is not None]
    return [part for part in stacks if part.looks and part.places is not None]
