"""How long Compute Engine takes for things: drawn, repeatably, from distributions that were measured."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from itertools import pairwise

# (share of cases, seconds): straight lines between the points.
_SHAPES: Mapping[str, tuple[tuple[float, float], ...]] = {
    "begin": ((0, 0.002), (0.5, 0.02), (0.95, 0.1), (1, 0.8)),
    "insert": ((0, 5), (0.3, 8), (0.8, 20), (1, 30)),
    "failed insert": ((0, 4), (1, 9)),
    "start": ((0, 5), (0.5, 12), (1, 25)),
    "resume": ((0, 8), (1, 20)),
    "stop": ((0, 22), (0.5, 48.8), (0.9, 57), (1, 120)),
    "suspend": ((0, 15), (0.5, 30), (1, 70)),
    "delete running": ((0, 100), (0.5, 134), (1, 170)),
    "delete stopped": ((0, 5), (1, 15)),
    "nothing to do": ((0, 0.1), (1, 0.75)),
    "change": ((0, 0.6), (1, 3)),
    # Attaching and detaching took 4.1 and 5.9 s in libcloud's recordings of 2013; deleting a disk is as quick.
    "attach": ((0, 2), (0.5, 4), (1, 6)),
    "detach": ((0, 2), (0.5, 5), (1, 8)),
    "disk": ((0, 1), (0.5, 4), (1, 8)),
    "reset": ((0, 3), (1, 8)),
    "power off": ((0, 2), (0.5, 20), (1, 32)),
    "before the end": ((0, 0.05), (1, 0.6)),
    # compute.instances.repair.recreateInstance, recorded once: lastStop after 54 s, lastStart after 66 s. An insert of
    # the group's own follows it: recorded on 24 August 2026 in mlorentedev/kubelab, 10 and 30 s after it.
    "recreate down": ((0, 54), (1, 54)),
    "recreate up": ((0, 12), (1, 12)),
    # How long before a start's end a preemption overtook it: two recordings, of about 0.7 and 7.6 s.
    "lost start": ((0, 0.3), (0.5, 0.74), (1, 7.6)),
    "repair": ((0, 60), (1, 180)),
    "late": ((0, 0), (1, 29)),
    "guest shutdown": ((0, 5), (0.5, 25), (1, 85)),
}


class Durations:
    """Draws depend on the seed and on `subject` alone, not on the order in which they are asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def draw(self, what: str, subject: object) -> timedelta:
        share = random.Random(f"{self._seed}/{what}/{subject}").random()
        points = _SHAPES[what]
        for (low, shortest), (high, longest) in pairwise(points):
            if share <= high:
                seconds = shortest + (longest - shortest) * (share - low) / (high - low)
                return timedelta(milliseconds=max(1, round(seconds * 1000)))
        raise AssertionError("the last point of every shape has share 1")
