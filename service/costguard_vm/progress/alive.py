"""Judges whether a training still makes progress, by its own gaps between steps. Pure. Travels with the agent.

Three clocks run since the last step, each with a bound of its own, since a training is silent for good reasons, too:

* **still**: nothing moves at all, no processor, GPU, disk or output. After the longest of `least`, 8 times the 99th
  percentile of the gaps between its steps, and 2 times their longest.
* **computing**: processors or a GPU are at work, and nothing is printed or written: an evaluation without output, or an
  endless loop. After 4 times `least`, or longer where such a gap was seen before.
* **printing or writing**: an evaluation, a save, a loading. After 12 times `least`, or longer where it was seen before.

What misled others (github.com/intelligent-machine-learning/dlrover pull request 1727): alarms on gaps between steps
during evaluation and saving. What helped: bounds by phase, from the training's own intervals.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from typing import NamedTuple, Optional, Tuple

LEAST_S = 300.0
PERCENTILE_TIMES = 8.0
LONGEST_TIMES = 2.0
COMPUTING_TIMES = 4.0  # `least`
PRINTING_TIMES = 12.0
FEW_GAPS = 5  # below so many its own gaps say little, and `least` is three times as long
FEW_TIMES = 3.0
UNKNOWN_TIMES = 6.0  # before its first step: nothing moves for so many times `least`
MOST_GAPS = 1000

BUSY_CORES = 0.05  # less is what waiting costs: heartbeats of launchers, watchdogs, loggers
BUSY_SHARE = 0.1  # of what its training usually takes
BUSY_GPU = 0.05
WRITES_PER_S = 16 << 10  # 1 MiB a minute; logs are less

TRAINING, COMPUTING, EVALUATING, PRINTING, WRITING, LOADING, STILL = (
    "training", "computing", "evaluating", "printing", "writing", "loading", "still",
)  # fmt: skip

Mark = Tuple[Optional[float], ...]


class Signs(NamedTuple):
    """The signs in one look at a running command. None: it could not be read, which proves nothing.

    `at` counts seconds. `mark` changes with every step: step, epoch and batch as far as they are known; None before the
    first. The counters (`printed`, `written`, `cpu_s`, `read`) only grow.
    """

    at: float
    mark: Mark | None = None
    is_evaluation: bool = False  # the output's last phase
    is_done: bool = False  # the last step of all was made
    printed: int | None = None  # bytes of output
    written: int | None = None  # bytes, by the command's processes
    read: int | None = None
    cpu_s: float | None = None  # seconds of processor time of the command's processes
    gpu: float | None = None  # the busiest one's share, 0 to 1


class HangVerdict(NamedTuple):
    """`silent_s` since the last step, `still_s` since anything of this kind of life; it spoke after `bound_s`."""

    kind: str  # "still", "computing" or "printing": which clock ran out
    phase: str  # what it was doing by the output: "training", "evaluating", "loading"
    silent_s: float
    quiet_s: float
    bound_s: float
    usual_s: float | None  # the median gap between its steps
    longest_s: float | None
    cores: float | None  # processors at work since the look before
    gpu: float | None
    is_writing: bool | None


class Gaps:
    """The last gaps between steps, and the longest ever."""

    def __init__(self) -> None:
        self._last: deque[float] = deque()
        self._ordered: list[float] = []
        self.count = 0
        self.longest: float | None = None

    def add(self, gap: float) -> None:
        self.count += 1
        self.longest = gap if self.longest is None else max(self.longest, gap)
        self._last.append(gap)
        insort(self._ordered, gap)
        if len(self._last) > MOST_GAPS:
            del self._ordered[bisect_left(self._ordered, self._last.popleft())]

    def percentile(self, share: float) -> float | None:
        """The smallest of the last gaps that is at least as long as this share of them."""
        if not self._ordered:
            return None
        return self._ordered[max(0, math.ceil(share * len(self._ordered)) - 1)]


class Bounds(NamedTuple):
    """Seconds; None: nothing can be said. See the top of this file."""

    still: float
    computing: float | None
    printing: float | None


class AliveRule:
    """Fed with every look at one run of a command; `look` returns its hang while there is one."""

    def __init__(self, least_s: float = LEAST_S) -> None:
        self._least = least_s
        self._plain, self._all = Gaps(), Gaps()  # without and with those of evaluations, saves and silent computing
        self._before: Signs | None = None
        self._stepped_at = self._worked_at = self._moved_at = 0.0
        self._had_other_life = False  # since the last step: it evaluated, or wrote
        self._stillest_s = 0.0  # since the last step: the longest time in which nothing moved
        self._usual_cores = Gaps()
        self._hang: HangVerdict | None = None

    def bounds(self, signs: Signs) -> Bounds:
        least, longest = self._least, self._all.longest or 0.0
        if signs.mark is None or signs.is_done:
            # It may never print a step, or save and publish after the last one: only standing still says something.
            return Bounds(max(UNKNOWN_TIMES * least, LONGEST_TIMES * longest), None, None)
        first = least if self._all.count >= FEW_GAPS else FEW_TIMES * least
        plain = PERCENTILE_TIMES * (self._plain.percentile(0.99) or 0.0)
        still = max(first, plain, LONGEST_TIMES * (self._plain.longest or 0.0))
        computing = max(COMPUTING_TIMES * first, still, LONGEST_TIMES * longest)
        printing = max(PRINTING_TIMES * least, computing)
        return Bounds(still, printing if signs.is_evaluation else computing, printing)

    def look(self, signs: Signs) -> HangVerdict | None:
        before = self._before
        if before is None:
            self._stepped_at = self._worked_at = self._moved_at = signs.at
            self._before = signs
            return None
        passed = signs.at - before.at
        if passed <= 0:
            return self._hang
        cores = _grown(before.cpu_s, signs.cpu_s, passed)
        writes = _grown(before.written, signs.written, passed)
        reads = _grown(before.read, signs.read, passed)
        is_writing = writes is not None and writes >= WRITES_PER_S
        is_printing = signs.printed is not None and signs.printed != before.printed
        if is_writing or is_printing:
            self._worked_at = signs.at
        if self._is_busy(cores, signs.gpu) or (reads or 0) >= WRITES_PER_S or is_writing or is_printing:
            self._moved_at = signs.at
        if cores is None and signs.gpu is None:  # what cannot be seen is not still
            self._moved_at = signs.at
        self._had_other_life = self._had_other_life or is_writing or signs.is_evaluation
        self._stillest_s = max(self._stillest_s, signs.at - self._moved_at)
        self._before = signs
        if signs.mark != before.mark:
            self._step(before, signs, cores)
            return None
        self._judge(signs, cores, None if writes is None else is_writing)
        return self._hang

    def pause(self) -> None:
        """Pauses the rule: the following work is not the command's own, as while its checkpoint is uploaded before it
        ends.
        """
        self._before, self._hang = None, None

    def _step(self, before: Signs, signs: Signs, cores: float | None) -> None:
        gap = signs.at - self._stepped_at
        if before.mark is not None:
            self._all.add(gap)
            was_computing = gap > self._least and self._stillest_s < gap / 2
            if not (self._had_other_life or was_computing):
                self._plain.add(gap)
        if cores is not None:
            self._usual_cores.add(cores)
        self._stepped_at = self._worked_at = self._moved_at = signs.at
        self._had_other_life, self._stillest_s = signs.is_evaluation, 0.0
        self._hang = None

    def _is_busy(self, cores: float | None, gpu: float | None) -> bool:
        usual = self._usual_cores.percentile(0.5) or 0.0
        least = max(BUSY_CORES, min(BUSY_SHARE * usual, 0.5))
        return (cores is not None and cores >= least) or (gpu is not None and gpu >= BUSY_GPU)

    def _judge(self, signs: Signs, cores: float | None, is_writing: bool | None) -> None:
        if signs.at - self._stepped_at < self._least:
            return
        bounds = self.bounds(signs)
        clocks = (
            (STILL, self._moved_at, bounds.still),
            (COMPUTING, self._worked_at, bounds.computing),
            (PRINTING, self._stepped_at, bounds.printing),
        )
        if self._hang is not None:
            has_life = self._moved_at > signs.at - self._hang.bound_s / 2
            if signs.mark is None and has_life:
                self._hang = None  # of a command that prints no steps any life is progress
            return
        for kind, since, bound in clocks:
            if bound is not None and signs.at - since >= bound:
                phase = LOADING if signs.mark is None else EVALUATING if signs.is_evaluation else TRAINING
                silent, quiet = signs.at - self._stepped_at, signs.at - since
                usual, longest = self._all.percentile(0.5), self._all.longest
                self._hang = HangVerdict(
                    kind, phase, silent, quiet, bound, usual, longest, cores, signs.gpu, is_writing
                )
                return


def _grown(before: float | None, after: float | None, seconds: float) -> float | None:
    """A second; None where it is not known. What shrank began again, as another process's count."""
    if before is None or after is None:
        return None
    return max(0.0, after - before) / seconds
