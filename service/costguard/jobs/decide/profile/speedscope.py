"""A profile in the format of speedscope, whose page at any place opens it (https://www.speedscope.app/file-format-schema.json,
the `SampledProfile` of its `FileFormat`; speedscope 1.25).
"""

from __future__ import annotations

from typing import Any

from costguard_vm.profile.frames import Frame, Stack
from costguard_vm.profile.window import StackGroup, StackProfile

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_REST = Frame("(stacks too rare to keep)", "", 0, is_own=False)


def speedscope(profile: StackProfile, name: str) -> dict[str, Any]:
    """Writes a profile for each group that has looks. A weight is the time of the looks at a stack, in seconds."""
    places: dict[Frame, int] = {}
    groups = (("main thread", profile.main), ("loader workers", profile.workers))
    profiles = [_sampled(group, title, profile, places) for title, group in groups if group.looks]
    return {
        "$schema": _SCHEMA,
        "exporter": "costguard",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(frame) for frame in places]},
        "profiles": profiles,
    }


def _sampled(group: StackGroup, title: str, profile: StackProfile, places: dict[Frame, int]) -> dict[str, Any]:
    rows: list[tuple[Stack, int]] = sorted((stack, count) for stack, (count, _) in group.stacks.items())
    if group.other:
        rows.append(((_REST,), group.other))
    look_s = profile.seconds / (profile.main.looks or 1)
    weights = [round(count * look_s, 6) for _, count in rows]
    return {
        "type": "sampled",
        "name": title,
        "unit": "seconds",
        "startValue": 0,
        "endValue": round(sum(weights), 6),
        "samples": [[places.setdefault(frame, len(places)) for frame in stack] for stack, _ in rows],
        "weights": weights,
    }


def _frame(frame: Frame) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": frame.function}
    if frame.file:
        shown["file"] = frame.file
    if frame.line:
        shown["line"] = frame.line
    return shown
