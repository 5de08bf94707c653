"""Kills gangs of real trainers: `python -m tests.trainers.gangs`, or words of some."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from functools import partial

from tests.trainers.bench_client import PYTHON, ROOT
from tests.trainers.gangs import report
from tests.trainers.gangs.kills import KINDS, kill_all
from tests.trainers.gangs.record import record
from tests.trainers.gangs.verdicts import tally

_FOLDER = ROOT / ".cache" / "trainers" / "gang-runs"
_RECORDED = ROOT / "tests" / "checkpoints" / "real" / "gangs"


def main(given: list[str] | None = None) -> int:
    """0 where every choice was right."""
    parser = argparse.ArgumentParser(prog="python -m tests.trainers gangs", description=__doc__)
    parser.add_argument("names", nargs="*", help="only gangs with one of these in their names; then no page is written")
    parser.add_argument("--seed", type=int, default=1, help="of the moments; their effect also depends on the machine")
    parser.add_argument(
        "--judge", action="store_true", help="only judge again what earlier runs left, and write the page"
    )
    parser.add_argument("--record", metavar="RUN", nargs="*", default=[], help="keep these runs for the fast tests")
    options = parser.parse_args(given)
    if not PYTHON.exists():
        print("The trainers' environment is not there: run `make trainers`.")
        return 2
    kinds = [kind for kind in KINDS if not options.names or any(name in kind.name for name in options.names)]
    _FOLDER.mkdir(parents=True, exist_ok=True)
    if not (options.judge or options.record):
        kill_all(kinds, _FOLDER, options.seed, partial(print, flush=True))
    tallies = [one for one in (tally(kind, _FOLDER) for kind in kinds) if one.kills]
    for row in report.rows(tallies):
        print("  ".join(cell.ljust(40) if not at else cell.rjust(5) for at, cell in enumerate(row)))
    wrong = [line for one in tallies for line in one.wrong]
    for line in wrong:
        print(f"WRONG, kept in {_FOLDER}: {line}")
    for run in options.record:
        kind = next(kind for kind in KINDS if run.rpartition("-")[0] == kind.name)
        record(_FOLDER / run, kind.shape, _RECORDED / f"{kind.name}.json.gz")
    if not options.names and not wrong and not options.record:
        report.write(report.section(tallies, options.seed, datetime.now(UTC).date()))  # noqa: TID251 - the date of today
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
