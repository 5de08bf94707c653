"""Kills real trainings and judges what they leave: `make trainers`, or `python -m tests.trainers --seed 7 keras`.

`python -m tests.trainers gangs` does so with trainings of several processes (`make trainers ARGS=gangs`).
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tests.trainers import report
from tests.trainers.bench_client import PYTHON, ROOT
from tests.trainers.gangs import __main__ as gangs
from tests.trainers.gangs.report import kept
from tests.trainers.guarded import guarded
from tests.trainers.kills import KINDS, killed

_FOLDER = ROOT / ".cache" / "trainers" / "runs"


def main() -> int:
    """0 where every choice was right, and the script under the guard ended as if nothing had happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.trainers", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="only trainers with one of these in their names; then no page is written"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the moments; their effect also depends on the machine")
    if sys.argv[1:2] == ["gangs"]:
        return gangs.main(sys.argv[2:])
    given = parser.parse_args()
    if not PYTHON.exists():
        print("The trainers' environment is not there: run `make trainers`.")
        return 2
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    began = time.monotonic()
    kinds = tuple(kind for kind in KINDS if not given.names or any(name in kind.name for name in given.names))
    tallies = list(killed(kinds, _FOLDER, given.seed, partial(print, flush=True)))
    print(f"\n{report.table(tallies)}\n")
    wrong = [line for tally in tallies for line in tally.wrong]
    for line in wrong:
        print(f"WRONG, kept in {_FOLDER}: {line}")
    if given.names:
        return bool(wrong)
    ran = guarded(_made(_FOLDER / "guarded"))
    print(f"{report.words_on(ran)}\n{(time.monotonic() - began) / 60:.0f} minutes.")
    if not wrong and ran.is_right:
        report.PAGE.parent.mkdir(exist_ok=True)
        others = kept(report.PAGE.read_text()) if report.PAGE.exists() else ""
        written = report.page(tallies, ran, given.seed, datetime.now(UTC).date())  # noqa: TID251 - the date of today
        report.PAGE.write_text(written + others)
    return bool(wrong) or not ran.is_right


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
