"""`make soak SEEDS=n FIRST=k`: simulated lives over many seeds, and what was injected how often.

python -m tests.simulation --seeds 20 --first 1 --days 10 --vms 20
"""

from __future__ import annotations

import argparse
import gc
import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import structlog
from tests.in_memory import memory_folder
from tests.simulation.aims import AIMS
from tests.simulation.freezing import frozen_at_each
from tests.simulation.ledgers import Ledgers
from tests.simulation.plan import Plan, draw
from tests.simulation.run import Outcome, lived
from tests.simulation.shrink import shrunk


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where an invariant did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--days", type=float, default=10)
    parser.add_argument("--vms", type=int, default=20)
    parser.add_argument("--faults", nargs="*", help="only these kinds")
    parser.add_argument("--aim", choices=sorted(AIMS), default="", help="more of some trouble, people and VMs")
    parser.add_argument("--only", action="append", default=[], metavar="PART=NUMBERS", help="of a shrunk plan")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--freeze", action="store_true", help="stand still before each write of one life, in turn")
    parser.add_argument("--verbose", action="store_true", help="print what each seed did, and the guard's own log")
    given = parser.parse_args(arguments)
    level = logging.INFO if given.verbose else logging.CRITICAL
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
    logging.disable(logging.CRITICAL)
    gc.disable()  # each life is collected at its end, which takes a tenth of the time less
    counts, injected, broken = Counter[str](), Counter[str](), list[Outcome]()
    days, seconds = 0.0, 0.0
    with tempfile.TemporaryDirectory(prefix="costguard-simulation-", dir=memory_folder()) as folder:
        ledgers = Ledgers(Path(folder))
        seeds = failed = 0
        if given.freeze:
            return _freeze(draw(given.first, given.days, given.vms), ledgers)
        with closing(ledgers), suppress(KeyboardInterrupt):  # the table is of what was lived by then
            for seed in range(given.first, given.first + given.seeds):
                plan = _cut(draw(seed, given.days, given.vms, given.faults, given.aim), given.only)
                try:
                    outcome = lived(plan, ledgers.fresh())
                except Exception:  # of the simulation's own; the other seeds are lived all the same
                    print(f"{seed:6} FAILED\n{traceback.format_exc()}", flush=True)
                    failed += 1
                    continue
                seeds, days, seconds = seeds + 1, days + plan.days, seconds + outcome.seconds
                counts.update(outcome.counts)
                injected.update(outcome.injected)
                gc.collect()
                verdict = "BROKEN" if outcome.wrong else ""
                print(f"{seed:6} {outcome.trace} {outcome.seconds:6.1f} s {verdict}", flush=True)
                if outcome.wrong:
                    broken.append(outcome)
                    _tell(outcome, ledgers, shrink=not given.no_shrink)
    print(
        f"\n{days:g} simulated days over {seeds} seeds in {seconds:.0f} s of CPU: {days / max(seconds, 1):.2f} a second"
    )
    print(f"on {time.strftime('%d %B %Y')}, {given.vms} VMs; {len(broken)} seeds with a broken invariant")
    if failed:
        print(f"{failed} lives were not lived to their end, since the simulation itself failed")
    print("\nfaults injected:", ", ".join(f"{name} {count}" for name, count in sorted(injected.items())))
    print("\nwhat came of it:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return 1 if broken or failed else 0


def _freeze(plan: Plan, ledgers: Ledgers) -> int:
    broken = writes = 0
    with closing(ledgers):
        for number, outcome in frozen_at_each(plan, ledgers.fresh):
            writes, broken = writes + 1, broken + bool(outcome.wrong)
            print(f"write {number:4} {outcome.seconds:6.1f} s", *outcome.wrong[:3], flush=True)
    print(f"a guard stood still before each of {writes} writes, and {broken} lives broke an invariant")
    return 1 if broken else 0


def _tell(outcome: Outcome, ledgers: Ledgers, *, shrink: bool) -> None:
    print(*outcome.wrong[:10], sep="\n")
    plan = outcome.plan
    if shrink:
        plan = shrunk(outcome, lambda smaller: lived(smaller, ledgers.fresh()))
    print(f"replay it: {plan.command}", flush=True)


def _cut(plan: Plan, only: Sequence[str]) -> Plan:
    for part, _, numbers in (one.partition("=") for one in only):
        plan = plan.keeping(part, [int(number) for number in numbers.split(",") if number])
    return plan


if __name__ == "__main__":
    sys.exit(main())
