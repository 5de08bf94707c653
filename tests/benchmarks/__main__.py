"""Measures what the README promises: `python -m tests.benchmarks`, or the names of some: `spending checkpoints`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.bill import bill
from tests.benchmarks.checkpoints import checkpoints
from tests.benchmarks.doctor import doctor
from tests.benchmarks.failover import failover
from tests.benchmarks.feed import feed
from tests.benchmarks.history import history
from tests.benchmarks.labels import labels
from tests.benchmarks.load import load
from tests.benchmarks.measure import Measured, show, write
from tests.benchmarks.observing import observing
from tests.benchmarks.organisation import organisation
from tests.benchmarks.pages import pages
from tests.benchmarks.passes import whole_passes
from tests.benchmarks.readers import readers
from tests.benchmarks.recording import recording
from tests.benchmarks.retention import retention
from tests.benchmarks.served import served_fleet
from tests.benchmarks.spending import spending
from tests.benchmarks.starting import starting
from tests.benchmarks.storms import storms
from tests.benchmarks.vertex import vertex
from tests.benchmarks.watching import watching

_VMS = 10_000
_RESULTS = Path(__file__).parents[2] / "bench.json"


def _with_fleet(folder: Path, wanted: set[str]) -> Iterator[Measured]:
    with served_fleet(_VMS) as url:
        if "observing" in wanted:
            yield from observing(url, _VMS)
        if "recording" in wanted:
            yield from recording(url, _VMS, folder)


def _main(arguments: list[str]) -> None:
    others: dict[str, Callable[[Path], Iterator[Measured]]] = {
        "passes": whole_passes,
        "organisation": organisation,
        "pages": pages,
        "spending": spending,
        "labels": labels,
        "starting": starting,
        "checkpoints": checkpoints,
        "storm": storms,
        "readers": readers,
        "failover": failover,
        "watching": watching,
        "bill": bill,
        "doctor": doctor,
        "vertex": vertex,
        "history": history,  # COSTGUARD_HISTORY_ROWS=1000000000 takes 40 GB of disk
        "feed": feed,  # two first passes over 100,000 VMs; fewer: COSTGUARD_FEED_PROJECTS=50 COSTGUARD_FEED_SECONDS=30
        "load": load,  # ten minutes on each database
        "retention": retention,  # half an hour, and ten gigabytes of disk
    }
    wanted = set(arguments) or {"observing", "recording", *others} - {"feed", "load", "retention"}
    with tempfile.TemporaryDirectory(prefix="costguard-bench-") as made:
        folder = Path(made)
        rows = list(_with_fleet(folder, wanted)) if wanted & {"observing", "recording"} else []
        for name, measure in others.items():
            if name in wanted:
                rows += measure(folder)
    show(rows)
    write(rows, _RESULTS)


if __name__ == "__main__":
    _main(sys.argv[1:])
