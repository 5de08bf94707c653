"""Cures for slow data: what a profile shows of four known patterns, where data is what a training waits for. Pure.

Both halves are needed: the share of a pattern, and a main thread that waits for its data or prepares it itself. A
training whose workers keep up waits for none, however much they do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from costguard.jobs.decide.profile.job_profile import JobProfile
from costguard.jobs.decide.profile.patterns import Pattern, PatternMatch, is_item, pattern_of
from costguard_vm.diagnosis import kinds
from costguard_vm.diagnosis.signals import LOADER, STORAGE
from costguard_vm.diagnosis.stacks import place_of
from costguard_vm.profile.frames import Frame, Stack
from costguard_vm.profile.window import StackGroup

LEAST_LOOKS = 100  # of the main thread
WAITS = 0.3  # share of the main thread's time that goes into its data
LEAST_SHARE = 0.15  # of the training's time that a pattern takes
LEAST_OF_ITEMS = 0.35  # of the time in which items are prepared; of functions known by no name, more
_LEAST_UNNAMED = 0.6
LEAST_REREAD = 0.1  # of the main thread's time
TIMES = 3  # that an evaluation was seen to read its data
_SOME, _FULL = 0.02, 0.9  # shares of a window in which an evaluation's reading begins, and fills it
_DATA_BOUNDS = frozenset({kinds.INPUT, kinds.INPUT_OR_HOST, kinds.HOST, kinds.EVALUATION, kinds.UNKNOWN})

_WORDS = {
    Pattern.ROWS: (
        "a data frame is indexed by rows",
        "turn its columns into arrays or tensors once, before the first step, and index those",
    ),
    Pattern.ONCE: (
        "the same items are prepared again in each epoch",
        "do it once, before the training, and store or keep the result",
    ),
    Pattern.VALIDATION: (
        "the validation data is read again at each evaluation",
        "read it once, before the first epoch, and keep it",
    ),
    Pattern.READS: (
        "a small file is read for each item",
        "pack the files into an LMDB, or into shards that are read in order, such as WebDataset's",
    ),
}


@dataclass(frozen=True, slots=True)
class Cure:
    """A pattern that costs time. `share` is that of the training's time which it takes, of 1."""

    pattern: Pattern
    share: float
    hot: Frame
    is_in_workers: bool

    @property
    def text(self) -> str:
        """Says it in one line: `a data frame is indexed by rows in Rows.__getitem__ (data.py:14), which takes ...`."""
        does, cure = _WORDS[self.pattern]
        takes = "for which the training waits" if self.is_in_workers else "which takes"
        return f"{does} in {self.hot.text}, {takes} {self.share:.0%} of the time: {cure}"


def cures_of(profile: JobProfile, bound: str | None = None) -> list[Cure]:
    """Returns the cures that the profile names, the one for the largest share first.

    `bound` is the verdict on the run where one holds: nothing is said where something else than data bounds it.
    """
    main, workers = profile.stacks.main, profile.stacks.workers
    if main.looks < LEAST_LOOKS or (bound is not None and bound not in _DATA_BOUNDS):
        return []
    cures = [*_of_items(main, workers), *_of_validation(profile)]
    return sorted(cures, key=lambda one: -one.share)


def data_share(main: StackGroup) -> float:
    """Returns the share of the main thread's looks in which it waited for data, or prepared it."""
    matched = {stack for stack, match, _ in _matches(main) if match.pattern is not Pattern.VALIDATION}
    waits = (count for stack, (count, _) in main.stacks.items() if stack in matched or _waits(stack))
    return sum(waits) / main.looks if main.looks else 0.0


def _waits(stack: Stack) -> bool:
    return place_of([frame.text for frame in reversed(stack)]) in (LOADER, STORAGE)


def _matches(group: StackGroup) -> Iterable[tuple[Stack, PatternMatch, int]]:
    for stack, (count, running) in group.stacks.items():
        match = pattern_of(stack, ran=2 * running >= count)
        if match is not None:
            yield stack, match, count


def _of_items(main: StackGroup, workers: StackGroup) -> Iterable[Cure]:
    """Cures for the preparation of items, in the workers where these prepare any."""
    data = data_share(main)
    if data < WAITS:
        return
    prepares = sum(count for stack, (count, _) in workers.stacks.items() if is_item(stack))
    is_in_workers = prepares >= LEAST_LOOKS / 2
    group = workers if is_in_workers else main
    busy = prepares if is_in_workers else round(data * main.looks)
    counts: dict[Pattern, dict[Frame, int]] = {}
    named: dict[Pattern, int] = {}
    for _, match, count in _matches(group):
        if match.pattern is not Pattern.VALIDATION:
            of_pattern = counts.setdefault(match.pattern, {})
            of_pattern[match.hot] = of_pattern.get(match.hot, 0) + count
            named[match.pattern] = named.get(match.pattern, 0) + (count if match.is_named else 0)
    for pattern, frames in counts.items():
        of_items, by_name = sum(frames.values()) / busy, named[pattern] / busy
        if (by_name >= LEAST_OF_ITEMS or of_items >= _LEAST_UNNAMED) and data * of_items >= LEAST_SHARE:
            yield Cure(
                pattern, data * min(1.0, of_items), max(frames, key=lambda one: (frames[one], one)), is_in_workers
            )


def _of_validation(profile: JobProfile) -> Iterable[Cure]:
    """Names a reading that comes again: one that goes on through several windows without training is one reading."""
    main = profile.stacks.main
    frames: dict[Frame, int] = {}
    for _, match, count in _matches(main):
        if match.pattern is Pattern.VALIDATION:
            frames[match.hot] = frames.get(match.hot, 0) + count
    share = sum(frames.values()) / main.looks
    if share >= LEAST_REREAD and times_read(profile.rereads) >= TIMES:
        yield Cure(Pattern.VALIDATION, share, max(frames, key=lambda one: (frames[one], one)), is_in_workers=False)


def times_read(shares: Iterable[float]) -> int:
    """Counts, at least, how often an evaluation read its data, by its share of each window in turn."""
    windows = list(shares)
    begins = sum(now > _SOME >= before for before, now in zip([0.0, *windows], windows, strict=False))
    return max(begins, sum(_SOME < share < _FULL for share in windows))
