"""Finds the one VM, or GPU, for which all others of a gang wait, by what their agents measure each minute. Pure.

In synchronous training all ranks make the same steps at the same time, so their pace names nobody: what tells is that
the straggler is the one that does not wait. A rank that waits in a collective keeps a kernel on its GPU that hardly
computes, or on CPUs sleeps in a receive. What cannot be compared among all of them is unknown, and with two nobody can
say which of them the other waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import NamedTuple

from costguard_vm.diagnosis import kinds, signals
from costguard_vm.diagnosis.bounds import judge
from costguard_vm.diagnosis.kinds import BoundVerdict, Number, some
from costguard_vm.diagnosis.signals import GpuSignals, Minute
from costguard_vm.diagnosis.window import SignalWindow, window_of
from costguard_vm.diagnosis.words import headline

SPAN = timedelta(minutes=6)  # two halves, in each of which it must be the same one
_HALF = SPAN / 2
_LEAST_S = 110.0  # of readings in each half, of each VM
_LEAST = 3  # that are compared
# A step that takes 1.25 times as long has the others wait for a fifth of it: see SLOWER in progress/stragglers.py.
_APART = 0.20
_ALIKE = 0.15  # the others among themselves; more than that, and their work differs by plan, as in a pipeline
_BUSY = 0.85  # of the time with a kernel: of a GPU that computes, or waits in a collective
_COMPUTES = 0.5  # of the multiprocessors' time; with less it says little that others have less still
_AT_WORK = 0.75  # of the time: a main thread that hardly waits for anybody
_SLOW_CLOCK = 0.9  # of the others' clocks
_OF_ALL = frozenset({kinds.CHECKPOINT, kinds.EVALUATION, kinds.COMMUNICATION})  # one rank does it for all, or waits
_MANY_BYTES = 2.0  # times what the others read
_READS = 1e6  # bytes per second


@dataclass(frozen=True, slots=True)
class MemberMinutes:
    """The minutes of a gang's VM in the present round, past its start, the oldest first, each by its end."""

    node: int
    name: str
    minutes: Sequence[tuple[datetime, Minute]]


@dataclass(frozen=True, slots=True)
class Straggler:
    """The VM for which the others wait; `gpu` is the number of its GPU where one of several is slow.

    `verdict` says what keeps it, as far as that is known, and `until` is the end of the last minute that shows it.
    """

    node: int
    name: str
    gpu: int | None
    since: datetime
    until: datetime
    verdict: BoundVerdict

    @property
    def text(self) -> str:
        """Says who it is and what keeps it, without a full stop."""
        gpu = f", GPU {self.gpu}," if self.gpu is not None else ""
        why = f", {self.verdict.why}" if self.verdict.why else ""
        return f"node {self.node} ({self.name}){gpu} holds up the others: {headline(self.verdict)}{why}"


class _Unit(NamedTuple):
    node: int
    gpu: int | None


class _Odd(NamedTuple):
    unit: _Unit
    verdict: BoundVerdict


_Windows = Mapping[_Unit, SignalWindow]
_Places = Mapping[str, float] | None


def straggler_of(members: Sequence[MemberMinutes]) -> Straggler | None:
    """Returns the straggler of the last six minutes; None: there is none, or it is not known.

    `members` are all VMs of the round. The same one must stand out in both halves of that time.
    """
    if not all(one.minutes for one in members) or len(members) < 2:
        return None
    until = min(one.minutes[-1][0] for one in members)
    # Stacks are read for half a minute now and then, so that not each half has some.
    recent = {one.node: [minute for at, minute in one.minutes if until - SPAN < at <= until] for one in members}
    stacks = {node: window_of(minutes).places for node, minutes in recent.items()}
    odd: list[_Odd] = []
    for begin in (until - SPAN, until - _HALF):
        half = {one.node: [minute for at, minute in one.minutes if begin < at <= begin + _HALF] for one in members}
        if any(sum(minute.seconds or 60.0 for minute in minutes) < _LEAST_S for minutes in half.values()):
            return None
        odd_one = _odd_one(half, stacks)
        if odd_one is None:
            return None
        odd.append(odd_one)
    first, last = odd
    if first.unit != last.unit:
        return None
    name = next(one.name for one in members if one.node == last.unit.node)
    return Straggler(last.unit.node, name, last.unit.gpu, until - SPAN, until, last.verdict)


def _odd_one(half: Mapping[int, Sequence[Minute]], stacks: Mapping[int, _Places]) -> _Odd | None:
    """Returns the one that the others waited for in these minutes; `stacks` are those of each node's main thread."""
    nodes = {_Unit(node, None): _window(minutes, stacks[node]) for node, minutes in half.items()}
    if all(window.gpus == 0 for window in nodes.values()):
        return _by_threads(nodes)
    gpus = {unit: one for node, minutes in half.items() for unit, one in _gpus(node, minutes, stacks[node]).items()}
    if len({unit.node for unit in gpus}) < len(half):
        return None
    return _slowed(gpus) or _by_kernels(gpus) or _by_kernels(nodes) or _by_computing(gpus)


def _window(minutes: Sequence[Minute], stacks: _Places) -> SignalWindow:
    return window_of(minutes)._replace(places=stacks)


def _gpus(node: int, minutes: Sequence[Minute], stacks: _Places) -> _Windows:
    """Returns a window for each GPU of a VM; nothing where not all minutes have the same ones."""
    counts = {len(minute.gpus) if minute.gpus is not None else 0 for minute in minutes}
    if len(counts) != 1 or 0 in counts:
        return {}
    count = counts.pop()
    return {
        _Unit(node, place if count > 1 else None): _window([_with_one(minute, place) for minute in minutes], stacks)
        for place in range(count)
    }


def _with_one(minute: Minute, place: int) -> Minute:
    gpus: tuple[GpuSignals, ...] = minute.gpus or ()
    return minute._replace(gpus=(gpus[place],))


def _slowed(gpus: _Windows) -> _Odd | None:
    """Returns the only GPU that heat or its power holds down, at clocks below the others'."""
    verdicts = {unit: judge(window) for unit, window in gpus.items()}
    slowed = [unit for unit, verdict in verdicts.items() if verdict.bound == kinds.THROTTLED]
    clocks = {unit: window.gpu.sm_clock_mhz for unit, window in gpus.items() if window.gpu is not None}
    if len(slowed) != 1 or len(gpus) < 2:
        return None
    mine = clocks.get(slowed[0])
    others = [clock for unit, clock in clocks.items() if unit != slowed[0] and clock is not None]
    if mine is None or len(others) < len(gpus) - 1 or mine > _SLOW_CLOCK * median(others):
        return None
    verdict = verdicts[slowed[0]]
    why = f"{verdict.why}: {mine:,.0f} MHz, where the others have {median(others):,.0f} MHz"
    return _Odd(slowed[0], verdict._replace(why=why))


def _by_kernels(windows: _Windows) -> _Odd | None:
    """Returns the one whose GPU waits for its host, while the others' have a kernel all the time: a collective's."""
    idle = _values(windows, lambda window: _idle(window.gpu))
    unit = _apart(idle, _APART)
    if unit is None or any(share > 1 - _BUSY for one, share in idle.items() if one != unit):
        return None
    verdict = judge(windows[unit])
    if verdict.bound in _OF_ALL or verdict.bound == kinds.UNKNOWN:
        return None
    return _Odd(unit, verdict._replace(why=f"{verdict.why}; the other GPUs wait for it"))


def _by_computing(gpus: _Windows) -> _Odd | None:
    """Returns the GPU that computes, while kernels of all others hardly do: they wait in a collective."""
    idle = _values(gpus, lambda window: _idle(window.gpu))
    if not idle or max(idle.values()) > 1 - _BUSY:
        return None
    work = _values(gpus, lambda window: window.gpu.sm_active if window.gpu is not None else None)
    unit = _apart(work, _APART * max(work.values(), default=0.0))
    if unit is None or work[unit] < _COMPUTES:
        return None
    others = [share for one, share in work.items() if one != unit]
    if max(others) - min(others) > _ALIKE:
        return None
    numbers = some(
        Number("multiprocessors active", work[unit], "share"), Number("the others'", median(others), "share")
    )
    why = f"its GPU computes for {work[unit]:.0%} of the time, and the others for {median(others):.0%}"
    return _Odd(unit, BoundVerdict(kinds.COMPUTE, None, work[unit] - median(others), numbers, why))


def _by_threads(nodes: _Windows) -> _Odd | None:
    """Returns the VM without a GPU whose main threads hardly wait, while those of the others do."""
    asleep = _values(nodes, lambda window: window.command.main_asleep)
    stacks = _values(nodes, _at_work)
    waits = {unit: 1 - share for unit, share in stacks.items()}
    data = _values(nodes, _at_data)
    looks = ((stacks, waits, _AT_WORK), (_values(nodes, _runnable), asleep, _AT_WORK), (data, asleep, _APART + _ALIKE))
    for work, others_wait, least in looks:
        unit = _apart(work, least if work is data else _APART)
        if unit is None or work[unit] < least or not others_wait:
            continue
        if all(share >= _APART + data.get(one, 0.0) for one, share in others_wait.items() if one != unit):
            verdict = _kept_by(unit, nodes, work[unit])
            return None if verdict.bound in _OF_ALL else _Odd(unit, verdict)
    return None


def _kept_by(unit: _Unit, nodes: _Windows, work: float) -> BoundVerdict:
    """Returns what keeps the main thread of a VM without a GPU."""
    window = nodes[unit]
    command, places = window.command, window.places
    at_work = Number("main thread at work", work, "share")
    if places is not None:
        data = _at_data(window) or 0.0
        for place, bound in ((signals.CHECKPOINT, kinds.CHECKPOINT), (signals.EVALUATION, kinds.EVALUATION)):
            if places.get(place, 0.0) >= work / 2:
                return BoundVerdict(bound, None, work, (at_work,), "it does that for all")
        if data >= work / 2:
            numbers = some(at_work, Number("main thread at the data", data, "share"))
            return BoundVerdict(
                kinds.INPUT, None, work, numbers, "its main thread waits for data, and the others for it"
            )
    queue = command.main_queue or 0.0
    queues = _values(nodes, _queued)
    others_queue = [share for one, share in queues.items() if one != unit]
    if queue >= _APART and queues and queues[unit] >= median(others_queue) + _APART:
        numbers = some(at_work, Number("waits for a CPU", queue, "share"))
        why = f"its main thread waits for a CPU for {queue:.0%} of the time, and the others wait for it"
        return BoundVerdict(kinds.HOST, kinds.PROCESSORS, queue, numbers, why)
    read = {one: nodes[one].command.read_bytes_per_s for one in nodes}
    others = [value for one, value in read.items() if one != unit and value is not None]
    mine = read[unit]
    if mine is not None and others and mine >= max(_READS, _MANY_BYTES * median(others)):
        numbers = some(at_work, Number("read", mine, "bytes_per_s"))
        return BoundVerdict(kinds.INPUT, None, work, numbers, "it reads more than the others, which wait for it")
    if places is not None and places.get(signals.HOST, 0.0) >= work / 2:
        return BoundVerdict(
            kinds.HOST, None, work, (at_work,), "its main thread works longer at each step than the others'"
        )
    why = "its main thread works on while the others' wait for it"
    return BoundVerdict(kinds.INPUT_OR_HOST, None, work, (at_work,), why)


def _runnable(window: SignalWindow) -> float | None:
    """Returns the share of time in which its main threads run, wait for a CPU, or for a disk."""
    command = window.command
    if command.main_cpu is None:
        return None
    return min(1.0, command.main_cpu + (command.main_queue or 0.0) + (command.main_in_d or 0.0))


def _queued(window: SignalWindow) -> float | None:
    """Returns for which share of its work the main thread waits for a CPU."""
    work = _runnable(window)
    return None if not work else (window.command.main_queue or 0.0) / work


def _at_work(window: SignalWindow) -> float | None:
    """Returns the share of the stacks in which the main thread waited for no other rank; None: none were read."""
    places = window.places
    if places is None:
        return None
    return 1 - places.get(signals.COMMUNICATION, 0.0) - places.get(signals.DEVICE, 0.0)


def _at_data(window: SignalWindow) -> float | None:
    """Returns the share of the stacks in which the main thread read data, or waited for it; None: none were read."""
    places = window.places
    return None if places is None else places.get(signals.LOADER, 0.0) + places.get(signals.STORAGE, 0.0)


def _idle(gpu: GpuSignals | None) -> float | None:
    return None if gpu is None or gpu.kernel_active is None else max(0.0, 1.0 - gpu.kernel_active)


def _values(windows: _Windows, value: Callable[[SignalWindow], float | None]) -> dict[_Unit, float]:
    """Returns the value of each; nothing where that of one is not known."""
    read = {unit: value(window) for unit, window in windows.items()}
    return {} if None in read.values() else {unit: one for unit, one in read.items() if one is not None}


def _apart(values: Mapping[_Unit, float], by: float) -> _Unit | None:
    """Returns the one whose value is that much above all others'."""
    if len(values) < _LEAST:
        return None
    second, first = sorted(values, key=lambda unit: values[unit])[-2:]
    return first if values[first] - values[second] >= by else None
