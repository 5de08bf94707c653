"""Goes from a laptop to a finished model against a real S3 server:

`make pipeline`, or `python -m tests.pipeline torch`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.pipeline import kills, report
from tests.pipeline.journeys import DATA, JOURNEYS, MODELS, PROJECTS, RUNS
from tests.pipeline.object_store import SERVER, object_store
from tests.pipeline.runs import JourneyRun, run, variables_of_guard
from tests.trainers.bench_client import ALONE, PYTHON, ROOT

_FOLDER = ROOT / ".cache" / "pipeline" / "runs"


def main() -> int:
    """0 where every model is that of an uninterrupted run, the page showed all of it, and no kill did harm."""
    parser = argparse.ArgumentParser(prog="python -m tests.pipeline", description=__doc__)
    parser.add_argument("names", nargs="*", help="only projects with one of these in their names; then without kills")
    parser.add_argument("--seed", type=int, default=1, help="of the kills' moments")
    given = parser.parse_args()
    if missing := [path for path in (PYTHON, SERVER) if not path.exists()]:
        print(f"{missing[0]} is not there: run `make pipeline`.")
        return 2
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    began = time.monotonic()
    names = [one for one in JOURNEYS if not given.names or any(name in one.name for name in given.names)]
    runs = _journeys([one.name for one in names])
    wrong = [line for run in runs for line in run.wrong]
    tally = kills.Kills() if given.names else kills.run_all(_made(_FOLDER / "kills"), given.seed)
    wrong += tally.harm
    for line in wrong:
        print(f"WRONG, kept in {_FOLDER}: {line}")
    print(f"{(time.monotonic() - began) / 60:.0f} minutes.")
    if not wrong and not given.names:
        report.PAGE.write_text(report.page(runs, tally, datetime.now(UTC).date()))  # noqa: TID251 - the date of today
    return bool(wrong)


def _journeys(names: list[str]) -> list[JourneyRun]:
    data = _FOLDER / "data"
    subprocess.run([str(PYTHON), str(PROJECTS / "make_tokens.py"), str(data)], env={**os.environ, **ALONE}, check=True)
    runs = []
    with object_store(_FOLDER) as store:
        os.environ.update(variables_of_guard(store))
        for bucket in (DATA, RUNS, MODELS):
            store.make(bucket)
        store.put(DATA, data, "v7")
        for journey in (one for one in JOURNEYS if one.name in names):
            result = run(journey, store, data, _made(_FOLDER / journey.name))
            print(f"{journey.title}: {'; '.join(report.row(result)[1:])}; {result.seconds:.0f} s", flush=True)
            runs.append(result)
    return runs


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
