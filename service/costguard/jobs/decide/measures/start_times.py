"""Measures the time of a job's VM from its request to its first step, phase by phase. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import exp, log, sqrt
from statistics import fmean, median, stdev

FEW = 5  # fewer starts say nothing of the slowest
MANY = 100  # as many show the 99th percentile by themselves
DETECTED = timedelta(minutes=2)  # from the loss of a VM without a notice until a pass has read it: see `ending`
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
# The 99 % quantiles of Student's t by degrees of freedom (NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2).
_T99 = {4: 3.747, 5: 3.365, 6: 3.143, 7: 2.998, 8: 2.896, 9: 2.821, 10: 2.764, 15: 2.602, 20: 2.528, 30: 2.457}
_T99_MORE = {40: 2.423, 60: 2.390, 80: 2.374}


@dataclass(frozen=True, slots=True)
class VmStart:
    """A first start of a VM; None where a moment is not known. `stepped_at` is None where no steps were seen."""

    preset: str
    zone: str
    requested_at: datetime
    made_at: datetime | None
    booted_at: datetime | None
    started_at: datetime
    stepped_at: datetime | None = None

    @property
    def whole(self) -> timedelta:
        return max((self.stepped_at or self.started_at) - self.requested_at, _SECOND)


@dataclass(frozen=True, slots=True)
class StartTimes:
    """The times of several starts. `slowest` is the 99th percentile; None: too few were seen to say.

    `phases` are medians: until Google had made the VM, until its agent ran (boot), until the command did (driver,
    image, data, setup), and until its first step (load); a phase that was never seen is left out.
    """

    count: int
    usual: timedelta
    slowest: timedelta | None
    phases: Mapping[str, timedelta]


PHASES = ("requested", "boot", "prepare", "load")


def start_times(starts: Sequence[VmStart]) -> StartTimes | None:
    """Summarises starts; None where there are none."""
    if not starts:
        return None
    spans: dict[str, list[timedelta]] = defaultdict(list)
    for start in starts:
        moments = (start.requested_at, start.made_at, start.booted_at, start.started_at, start.stepped_at)
        for place, phase in enumerate(PHASES):
            before, after = moments[place], moments[place + 1]
            if before is not None and after is not None:
                spans[phase].append(max(after - before, timedelta()))
    whole = sorted(start.whole for start in starts)
    return StartTimes(
        len(whole), _median(whole), slowest(whole), {phase: _median(spans[phase]) for phase in PHASES if spans[phase]}
    )


def _median(spans: Collection[timedelta]) -> timedelta:
    return timedelta(seconds=median(span / _SECOND for span in spans))


def slowest(spans: Collection[timedelta]) -> timedelta | None:
    """Returns the 99th percentile; None of fewer than five.

    Of a hundred and more the rank says it. Of fewer it is a bound for the next one by their logarithms, wider the fewer
    they are, and never below the longest that was seen.
    """
    ordered = sorted(spans)
    count = len(ordered)
    if count < FEW:
        return None
    if count >= MANY:
        return ordered[-(-count * 99 // 100) - 1]
    logs = [log(max(span / _SECOND, 1.0)) for span in ordered]
    table = {**_T99, **_T99_MORE}
    t = table[max(freedom for freedom in table if freedom < count)]
    bound = fmean(logs) + t * stdev(logs) * sqrt(1 + 1 / count)
    return max(ordered[-1], exp(min(bound, 13.0)) * _SECOND)


def by_preset(starts: Sequence[VmStart]) -> dict[str, dict[str, StartTimes]]:
    """Groups starts by preset and zone; under the zone "" all zones of the preset."""
    grouped: dict[str, dict[str, list[VmStart]]] = defaultdict(lambda: defaultdict(list))
    for start in starts:
        grouped[start.preset][""].append(start)
        grouped[start.preset][start.zone].append(start)
    return {
        preset: {zone: times for zone, some in zones.items() if (times := start_times(some)) is not None}
        for preset, zones in grouped.items()
    }


def planned_start(
    times: Mapping[str, Mapping[str, StartTimes]], preset: str, zones: Collection[str]
) -> timedelta | None:
    """Returns the time from the loss of a VM to the first step on the next, up to a whole minute; None: too few starts
    were seen.
    """
    measured = start_of(times.get(preset, {}), zones)
    return None if measured is None else -(-(measured + DETECTED) // _MINUTE) * _MINUTE


def start_of(times: Mapping[str, StartTimes], zones: Collection[str]) -> timedelta | None:
    """The most that a start takes in one of these zones; a zone with few starts counts as the preset's do."""
    common = times[""].slowest if "" in times else None
    spans = [(times[zone].slowest if zone in times else None) or common for zone in zones]
    return max((span for span in spans if span is not None), default=common)
