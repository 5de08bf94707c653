"""Observing a fleet, against fetching and parsing the full pages of its instances."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tests.benchmarks.look import looks
from tests.benchmarks.measure import Measured
from tests.benchmarks.served import served_fleet

_ROUNDS = 5
_GOAL, _FIRST_GOAL, _LONGER_GOAL = 0.5, 0.7, 1.1


def observing(url: str, count: int) -> Iterator[Measured]:
    """Three fresh processes a round, one after the other, so that all meet the same machine.

    A process's first look is held against the other's first, its later looks (all that a daemon does after
    its start) against the other's later ones. The third one looks at VMs that have no metadata and no addresses.
    """
    with served_fleet(count, bare=True) as bare_url:
        rounds = [
            (looks("costguard", url, count), looks("full", url, count), looks("costguard", bare_url, count))
            for _ in range(_ROUNDS)
        ]
    ours, full, bare = zip(*rounds, strict=True)
    name = f"{count:,} VMs"
    yield Measured(
        f"Observing {name}, later looks / full pages fetched and parsed",
        "ratio",
        [median(one["seconds"][1:]) / median(other["seconds"][1:]) for one, other, _ in rounds],
        _GOAL,
    )
    yield Measured(
        f"Observing {name}, first look of a process / full pages fetched and parsed",
        "ratio",
        [one["seconds"][0] / other["seconds"][0] for one, other, _ in rounds],
        _FIRST_GOAL,
    )
    without = "the same without metadata and addresses"
    first = [one["cpu"][0] / other["cpu"][0] for one, other in zip(ours, bare, strict=True)]
    later = [median(one["cpu"][1:]) / median(other["cpu"][1:]) for one, other in zip(ours, bare, strict=True)]
    yield Measured(f"Observing {name}, first look / {without}, CPU", "ratio", first, _LONGER_GOAL)
    yield Measured(f"Observing {name}, later looks / {without}, CPU", "ratio", later, _LONGER_GOAL)
    yield Measured(f"Observing {name}, later looks", "s", [median(one["seconds"][1:]) for one in ours])
    yield Measured(f"Observing {name}, first look", "s", [one["seconds"][0] for one in ours])
    yield Measured(f"Full pages of {name} fetched and parsed", "s", [median(one["seconds"][1:]) for one in full])
    yield Measured(f"Observing {name}, peak memory of the process", "MB", [one["peak_mb"] for one in ours])
    yield Measured(f"Full pages of {name}, peak memory of the process", "MB", [one["peak_mb"] for one in full])
