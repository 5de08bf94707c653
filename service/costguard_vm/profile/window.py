"""A profile: how often each stack was seen. A window is one of a few seconds; windows add up. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Tuple

from .frames import DEEPEST, Frame, Stack, most_frequent

MOST_STACKS = 150  # of a group in a window
MOST_BYTES = 48 << 10  # of a window as JSON
_LONGEST_WHY = 200  # characters
_MOST_LOOKS = 10**9
_LONGEST_NAME = 200

Seen = Tuple[int, int]  # how often a stack was seen, and in how many of these looks it did not sleep (below)


class StackGroup(NamedTuple):
    """The stacks of the main thread, or those of the processes below it. `other` looks are at stacks that are left
    out, as the rarest.
    """

    looks: int = 0
    other: int = 0
    stacks: Mapping[Stack, Seen] = {}


class StackProfile(NamedTuple):
    """`seconds` is the time in which it was taken, `cpu_s` what that took of a processor; `error` says why there is
    nothing, or only a part.
    """

    seconds: float = 0.0
    cpu_s: float = 0.0
    main: StackGroup = StackGroup()
    workers: StackGroup = StackGroup()
    error: str = ""


def group_of(counts: Mapping[Stack, int], running: Mapping[Stack, int], most: int = MOST_STACKS) -> StackGroup:
    """Makes a group of what was seen, and of what was seen to run: two records of the same seconds.

    A thread that waits for a disk counts as one that runs: py-spy leaves out those that sleep.
    """
    stacks = {stack: (count, min(count, running.get(stack, 0))) for stack, count in counts.items()}
    return bounded(StackGroup(sum(counts.values()), 0, stacks), most)


def bounded(group: StackGroup, most: int) -> StackGroup:
    """Keeps the most frequent stacks, and counts the looks at the others."""
    if len(group.stacks) <= most:
        return group
    kept = most_frequent({stack: seen[0] for stack, seen in group.stacks.items()})[:most]
    stacks = {stack: group.stacks[stack] for stack in kept}
    return StackGroup(group.looks, group.looks - sum(count for count, _ in stacks.values()), stacks)


def merged(one: StackProfile, two: StackProfile, most: int) -> StackProfile:
    """Adds up two profiles of one training. In each group at most so many stacks stay."""
    return StackProfile(
        one.seconds + two.seconds,
        one.cpu_s + two.cpu_s,
        _merged(one.main, two.main, most),
        _merged(one.workers, two.workers, most),
        two.error if two.main.looks == 0 else "",
    )


def _merged(one: StackGroup, two: StackGroup, most: int) -> StackGroup:
    stacks: dict[Stack, Seen] = dict(one.stacks)
    for stack, (count, running) in two.stacks.items():
        before = stacks.get(stack, (0, 0))
        stacks[stack] = (before[0] + count, before[1] + running)
    return bounded(StackGroup(one.looks + two.looks, one.other + two.other, stacks), most)


def as_json(profile: StackProfile) -> dict[str, Any]:
    """Returns a document in which each frame stands once: [function, file, line, 1 for the project's own]."""
    places: dict[Frame, int] = {}
    document: dict[str, Any] = {"seconds": round(profile.seconds, 3), "cpu_s": round(profile.cpu_s, 4)}
    for name, group in (("main", profile.main), ("workers", profile.workers)):
        if group.looks:
            document[name] = {"looks": group.looks, "stacks": _rows(group, places)}
    document["frames"] = [[frame.function, frame.file, frame.line, int(frame.is_own)] for frame in places]
    if profile.error:
        document["error"] = profile.error[:_LONGEST_WHY]
    return document


def _rows(group: StackGroup, places: dict[Frame, int]) -> list[list[Any]]:
    order = most_frequent({stack: seen[0] for stack, seen in group.stacks.items()})
    return [[[places.setdefault(frame, len(places)) for frame in stack], *group.stacks[stack]] for stack in order]


def as_bounded_json(profile: StackProfile) -> dict[str, Any]:
    """Returns a document of at most `MOST_BYTES`: with half as many stacks until it fits."""
    most = MOST_STACKS
    while True:
        profile = profile._replace(main=bounded(profile.main, most), workers=bounded(profile.workers, most))
        document = as_json(profile)
        if len(json.dumps(document)) <= MOST_BYTES or most <= 1:
            return document
        most //= 2


def read_profile(document: object, most: int = MOST_STACKS) -> StackProfile | None:
    """Reads a document; None where it is none. What is not understood is left out, and counts as other looks."""
    if not isinstance(document, Mapping):
        return None
    rows = document.get("frames")
    frames = [_frame(row) for row in rows] if isinstance(rows, list) else []
    why = document.get("error")
    return StackProfile(
        _number(document.get("seconds")),
        _number(document.get("cpu_s")),
        _group(document.get("main"), frames, most),
        _group(document.get("workers"), frames, most),
        why[:_LONGEST_WHY] if isinstance(why, str) else "",
    )


def _group(document: object, frames: list[Frame | None], most: int) -> StackGroup:
    looks = _count(document.get("looks")) if isinstance(document, Mapping) else 0
    rows = document.get("stacks") if isinstance(document, Mapping) else None
    stacks: dict[Stack, Seen] = {}
    left = looks
    for row in rows[:most] if isinstance(rows, list) else ():
        stack, count, running = _row(row, frames)
        if stack and 0 < count <= left and stack not in stacks:
            stacks[stack] = (count, min(running, count))
            left -= count
    return StackGroup(looks, left, stacks)


def _row(row: object, frames: list[Frame | None]) -> tuple[Stack, int, int]:
    if not isinstance(row, list) or len(row) != 3 or not isinstance(row[0], list) or len(row[0]) > DEEPEST:
        return (), 0, 0
    chosen = [frames[place] if type(place) is int and 0 <= place < len(frames) else None for place in row[0]]
    stack = tuple(frame for frame in chosen if frame is not None)
    return (stack if len(stack) == len(chosen) else ()), _count(row[1]), _count(row[2])


def _frame(row: object) -> Frame | None:
    if not isinstance(row, list) or len(row) != 4 or not all(isinstance(text, str) for text in row[:2]):
        return None
    return Frame(row[0][:_LONGEST_NAME], row[1][:_LONGEST_NAME], _count(row[2]), row[3] == 1)


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value <= _MOST_LOOKS else 0


def _number(value: object) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _MOST_LOOKS else 0.0  # type: ignore[arg-type, operator]
