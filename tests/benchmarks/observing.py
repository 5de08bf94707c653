"""Observing a fleet, against fetching and parsing the full pages of its instances."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tests.benchmarks.look import looks
from tests.benchmarks.measure import Measured

_ROUNDS = 5
_GOAL, _FIRST_GOAL = 0.5, 0.7


def observing(url: str, count: int) -> Iterator[Measured]:
    """Two fresh processes a round, one after the other, so that both meet the same machine.

    A process's first look is held against the other's first, its later looks (all that a daemon does after
    its start) against the other's later ones.
    """
    rounds = [(looks("costguard", url, count), looks("full", url, count)) for _ in range(_ROUNDS)]
    ours, full = zip(*rounds, strict=True)
    name = f"{count:,} VMs"
    yield Measured(
        f"Observing {name}, later looks / full pages fetched and parsed",
        "ratio",
        [median(one["seconds"][1:]) / median(other["seconds"][1:]) for one, other in rounds],
        _GOAL,
    )
    yield Measured(
        f"Observing {name}, first look of a process / full pages fetched and parsed",
        "ratio",
        [one["seconds"][0] / other["seconds"][0] for one, other in rounds],
        _FIRST_GOAL,
    )
    yield Measured(f"Observing {name}, later looks", "s", [median(one["seconds"][1:]) for one in ours])
    yield Measured(f"Observing {name}, first look", "s", [one["seconds"][0] for one in ours])
    yield Measured(f"Full pages of {name} fetched and parsed", "s", [median(one["seconds"][1:]) for one in full])
    yield Measured(f"Observing {name}, peak memory of the process", "MB", [one["peak_mb"] for one in ours])
    yield Measured(f"Full pages of {name}, peak memory of the process", "MB", [one["peak_mb"] for one in full])
