"""Plants each deliberate fault that concerns an invariant, and lives until one breaks: by simulated lives alone.

`python -m tests.simulation.planted`, or words of some: `lease stop`. It writes service/docs/simulated-faults.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import structlog
from tests.in_memory import memory_folder
from tests.mutants import faults
from tests.mutants.faults import PRODUCT, ROOT, Fault
from tests.mutants.planting import copied
from tests.simulation.aims import AIMS
from tests.simulation.ledgers import Ledgers
from tests.simulation.plan import draw
from tests.simulation.run import lived
from tests.simulation.shrink import kind_of

PAGE = ROOT / "service/docs/simulated-faults.md"
MOST_DAYS = 60
_VMS = 6  # of people in one life, about
_LONGEST_S = 1200
NOT_CAUGHT = "not caught"
_HEAD = f"""# Deliberate faults that simulated lives catch

`python -m tests.simulation.planted` plants each of these faults in a copy of the tree and lives one seed after another,
from seed 1, for up to {MOST_DAYS} simulated days, until an invariant does not hold. No other test has a part in it.
What lives are about is an aim of [aims.py](../../tests/simulation/aims.py): more of some trouble, people and VMs, of
which the seed draws what comes when. Words choose some faults, and `--most` the days.
"""
_COLUMNS = ("| Room | Fault | Lives about | Days | Seed | What was broken | Tried |", "|---|---|---|---|---|---|---|")


@dataclass(frozen=True, slots=True)
class Catch:
    """The result of lives with the fault in them. `broken` is the first sentence of an invariant; "" where none broke.

    `died` is what ended the lives where no invariant could: nothing was lived with the fault, so it is not caught.
    """

    fault: Fault
    broken: str
    died: str
    seed: int
    days: float
    seconds: float


def chosen(words: Sequence[str]) -> list[Fault]:
    every = [fault for fault in faults.read() if fault.invariant]
    if not words:
        return every
    return [fault for fault in every if any(word.lower() in f"{fault.room} {fault.what}".lower() for word in words)]


def catch(fault: Fault, copy: Path, alone: dict[tuple[str, int], str], most_days: float) -> Catch:
    """The fault in this copy while lives are lived there by a process of their own.

    A seed that breaks without the fault as well catches nothing: lives go on with the next one. `alone` remembers what
    seeds break by themselves.
    """
    source = copy / PRODUCT / fault.path
    good, began = source.read_bytes(), time.monotonic()
    first, days = 1, 0.0
    while True:
        try:
            source.write_text(fault.planted(copy))
            last = _lived(copy, first, most_days - days, fault.lives)
        finally:
            source.write_bytes(good)
        days += last["days"]
        seed = int(last["seed"])
        if last["broken"] and (fault.lives, seed) not in alone:
            alone[fault.lives, seed] = _lived(copy, seed, AIMS[fault.lives].days, fault.lives)["broken"]
        if not last["broken"] or not (wrong := alone[fault.lives, seed]):
            return Catch(fault, last["broken"], last["died"], seed, days, time.monotonic() - began)
        print(f"Seed {seed} breaks without any fault, and so catches none: {wrong}", flush=True)
        if days >= most_days:
            return Catch(fault, "", last["died"], seed, days, time.monotonic() - began)
        first = seed + 1


def _lived(copy: Path, first: int, most_days: float, aim_name: str) -> dict[str, Any]:
    """Returns the result of the last life in this copy: `broken`, `died`, `seed`, and `days` of all."""
    last: dict[str, Any] = {"broken": "", "died": "", "seed": first, "days": 0.0}
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(copy / "service"), str(copy)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
    }
    command = [sys.executable, "-m", "tests.simulation.planted", "--live", f"--first={first}", f"--most={most_days}"]
    command += [f"--aim={aim_name}"]
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=_LONGEST_S)
        lines = done.stdout.splitlines()
        if lines:
            last = json.loads(lines[-1])
        else:
            last["died"] = _last_words(done.stderr)
    except subprocess.TimeoutExpired:
        last["died"] = f"no end after {_LONGEST_S} s"
    return last


def _last_words(trace: str) -> str:
    return f"the process ended: {trace.strip().splitlines()[-1] if trace.strip() else 'without a word'}"


def live(first: int, most_days: float, aim_name: str) -> None:
    """Lives until one breaks, or for so many days; a line for each, of which the last one counts."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)
    days = 0.0
    gc.disable()
    with tempfile.TemporaryDirectory(prefix="costguard-planted-", dir=memory_folder()) as folder:
        ledgers = Ledgers(Path(folder))
        for seed in count(first):
            plan = draw(seed, AIMS[aim_name].days, _VMS, aim_name=aim_name)
            broken = died = ""
            try:
                outcome = lived(plan, ledgers.fresh())
                broken = outcome.wrong[0] if outcome.wrong else ""
            except Exception as error:  # of the simulation itself: another seed may come to an invariant
                died = f"the life ended with {type(error).__name__}: {error}"
            gc.collect()
            days += plan.days
            print(json.dumps({"broken": broken, "died": died, "seed": seed, "days": days}), flush=True)
            if broken or days >= most_days:
                return


def line(one: Catch) -> str:
    caught = f"{one.days:4g} days, seed {one.seed:3}" if one.broken else f"SURVIVED {one.days:g} days"
    return f"{caught} {one.seconds:5.0f} s  {one.fault.room:<11} {one.fault.what}: {(one.broken or one.died)[:160]}"


def write(some: Sequence[Catch], page: Path = PAGE) -> None:
    """Puts these into the table. Rows of faults that were not tried now stay, those of faults that are no more go."""
    order = {(fault.room, fault.what): place for place, fault in enumerate(chosen(()))}
    rows = {key: row for key, row in _rows(page) if key in order} | {
        (one.fault.room, one.fault.what): _row(one) for one in some
    }
    caught = sum(NOT_CAUGHT not in row for row in rows.values())
    table = [rows[key] for key in sorted(rows, key=order.__getitem__)]
    page.write_text("\n".join([_HEAD, f"**{caught} of {len(order)} are caught.**\n", *_COLUMNS, *table]) + "\n")


def _row(one: Catch) -> str:
    today = datetime.now(UTC)  # noqa: TID251 - the date of today
    days = f"{one.days:g} | {one.seed}" if one.broken else f"{NOT_CAUGHT} in {one.days:g} |"
    said = kind_of(one.broken or one.died).replace("|", "/").strip(" :#")[:100]
    lives = one.fault.lives or "anything"
    return f"| {one.fault.room} | {one.fault.what} | {lives} | {days} | {said} | {today:%d %b} |"


def _rows(page: Path) -> Iterator[tuple[tuple[str, str], str]]:
    for row in page.read_text().splitlines() if page.exists() else ():
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) > 3:
            yield (cells[1], cells[2]), row


def _all(some: Sequence[Fault], most_days: float) -> Iterator[Catch]:
    alone: dict[tuple[str, int], str] = {}
    with tempfile.TemporaryDirectory(prefix="costguard-planted-") as made:
        copy = copied(Path(made) / "tree")
        for fault in some:
            yield catch(fault, copy, alone, most_days)


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where a fault is not caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--live", action="store_true", help="live here and now, as the process of one fault does")
    parser.add_argument("--aim", default="", help="the lives, by the name of their aim")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--most", type=float, default=MOST_DAYS)
    given = parser.parse_args(arguments)
    if given.live:
        live(given.first, given.most, given.aim)
        return 0
    os.nice(10)
    some = chosen(given.words)
    if wrong := faults.problems(some):
        print("\n".join(wrong))
        return 1
    results = []
    for result in _all(some, given.most):
        results.append(result)
        print(line(result), flush=True)
        write(results)  # after each, so that a run that is ended early is not lost
    caught = sum(bool(one.broken) for one in results)
    print(f"{caught} of {len(results)} caught.")
    return 0 if caught == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
