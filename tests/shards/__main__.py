"""Runs two real replicas of which one is killed each minute: `make shards`, or `make shards MINUTES=6 ON=SQLite`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.databases import fresh
from tests.shards.run import run

_MOST_SHOWN = 20


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.shards", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="how long, on each database (default: 60)")
    parser.add_argument("--on", choices=("PostgreSQL", "SQLite", "both"), default="both", help="default: both")
    parser.add_argument("--seed", type=int, default=1, help="draws who is killed when, and what people do")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep logs and databases in this new folder")
    wanted = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="costguard-shards-") as made:
        folder = wanted.keep or Path(made)
        folder.mkdir(exist_ok=True)
        with fresh(folder, "shards") as urls:
            for name, url in urls.items():
                if wanted.on not in (name, "both"):
                    continue
                verdict = run(folder / name, url, wanted.minutes, wanted.seed)
                print(f"{name}, {wanted.minutes:g} minutes, load {os.getloadavg()[1]:.1f}", flush=True)
                for what, value in verdict.figures.items():
                    print(f"  {what}: {value}")
                _show("projects not looked at for over 15 s", verdict.unwatched)
                _show("VMs whose bill and ledger differ at all", verdict.differing)
                _show("other broken promises", verdict.wrong)
                failed |= bool(verdict.unwatched or verdict.wrong)
    return int(failed)


def _show(what: str, sentences: Sequence[str]) -> None:
    print(f"  {what}: {len(sentences)}", *sentences[:_MOST_SHOWN], sep="\n    ", flush=True)


if __name__ == "__main__":
    sys.exit(_main())
