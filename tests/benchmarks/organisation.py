"""Whole passes over an organisation: 100,000 VMs in 500 projects, of which 50 refuse and 5 hang."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from tests.benchmarks.databases import fresh
from tests.benchmarks.measure import Measured
from tests.benchmarks.organisation_run import runs
from tests.benchmarks.organisation_served import served_organisation

_FIRST_S, _LATER_S, _PEAK_MB = 120.0, 4.0, 400.0


def organisation(
    folder: Path, answering: int = 500, vms: int = 200, refusing: int = 50, hanging: int = 5
) -> Iterator[Measured]:
    """`answering` projects of so many VMs each, and next to them those that refuse and those that hang."""
    count = answering + refusing + hanging
    made = fresh(folder, f"organisation-{count}")
    with served_organisation(count, vms, refusing, hanging) as url, made as urls:
        for name, database_url in urls.items():
            run = runs(url, count, vms, refusing + hanging, database_url)
            what = f"{run['vms']:,} VMs in {answering} projects, {name}"
            later, fetch = median(run["wall"][2:]), median(run["fetch"])
            yield Measured(f"First pass over {what}", "s", run["wall"][:1], _FIRST_S)
            yield Measured(f"First pass over {what}, CPU", "s", run["cpu"][:1])
            yield Measured(f"Pass over unchanged {what}", "s", [later], _LATER_S)
            yield Measured(f"Pass over unchanged {what}, CPU", "s", [median(run["cpu"][2:])])
            yield Measured(f"Pass over unchanged {what} / raw fetch of the same lists", "ratio", [later / fetch])
            yield Measured(f"Raw fetch of the lists of {what}", "s", run["fetch"])
            yield Measured(f"Statements of a pass over unchanged {what}", "", [float(median(run["statements"][2:]))])
            yield Measured(f"Peak memory, {what}", "MB", [run["peak_mb"]], _PEAK_MB)
